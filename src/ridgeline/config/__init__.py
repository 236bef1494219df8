"""Settings: schemas, loading, overrides and the words of their errors."""
