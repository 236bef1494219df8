"""Slices, spectra, PDFs, plots and movies."""
