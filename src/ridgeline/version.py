"""The version of this package, which files carry and reports name."""

VERSION = "0.1.0"  # as in pyproject.toml
