"""Moving data between owners."""
