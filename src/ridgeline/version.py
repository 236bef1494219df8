"""The version of this package, stated here alone: the installed package, files and reports take it from here."""

VERSION = "0.2.0"
