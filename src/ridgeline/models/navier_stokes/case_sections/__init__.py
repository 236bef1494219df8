"""The sections of the settings of a Navier-Stokes run, each valid by itself.

Read sections.py first; the rules between sections are in settings.py of the folder above.
"""
