"""Analysis and pictures of what runs, benchmarks and studies write: slices, spectra, densities, plots and movies.

Read `plot_command.py` for how `ridgeline plot` chooses a picture, and `slices.py` for how data are selected.
"""
