"""Settings: schemas, loading, overrides, and the sentences of their errors.

Read fields.py and sections.py first for what a setting is, then load.py for how a case is read.
"""
