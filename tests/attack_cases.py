"""A tiny case of each model that writes every kind of output, for the attacks on what a run leaves."""

import csv
from pathlib import Path

import numpy as np

import ridgeline

GRAY_SCOTT = """\
[run]
model = "gray_scott"
steps = 60
seed = 7
[grid]
shape = [13, 10, 17]
[model]
noise = 0.01
[initial]
half_width = 3
[output]
path = "fields.bp"
every = 4
viewer = "pvd"
series = "series.csv"
series_every = 1
[checkpoint]
every = 5
"""

TURBULENCE = """\
[run]
model = "turbulence"
steps = 60
seed = 5
[grid]
shape = [12, 14, 16]
[model]
viscosity = 0.02
dt = 0.01
[initial]
kind = "spectrum"
energy = 0.5
peak_wavenumber = 2.0
[forcing]
kind = "eswaran-pope"
amplitude = 0.1
correlation_time = 0.5
[output]
path = "fields.bp"
every = 4
series = "series.csv"
series_every = 1
spectra = "spectra.bp"
spectra_every = 6
[checkpoint]
every = 5
"""

NAVIER_STOKES = """\
[run]
model = "navier_stokes"
steps = 60
[grid]
elements = [2, 2, 3]
order = 4
lengths = [2.0, 2.0, 6.0]
origin = [-1.0, -1.0, 0.0]
periodic = [false, false, true]
[model]
viscosity = 0.02
dt = 0.005
[model.forcing]
kind = "flow-rate"
bulk_velocity = 1.0
[boundary]
y_min.kind = "wall"
y_max.kind = "wall"
z_min.kind = "wall"
z_max.kind = "wall"
[initial]
kind = "perturbed-duct"
perturbation = 0.3
[output]
path = "fields.bp"
every = 4
series = "series.csv"
series_every = 1
nek5000 = "duct"
nek5000_every = 10
statistics_every = 2
[checkpoint]
every = 5
"""

N_BODY = """\
[run]
model = "n_body"
steps = 60
seed = 3
[grid]
shape = [12, 12, 12]
length = 24.0
[model]
steps_to_today = 400
substeps = 2
[output]
path = "fields.bp"
every = 4
series = "series.csv"
series_every = 1
spectra = "spectra.bp"
spectra_every = 6
[checkpoint]
every = 5
"""

MOLECULAR_DYNAMICS = """\
[run]
model = "molecular_dynamics"
steps = 60
[grid]
cells = [6, 5, 7]
[model]
cutoff = 2.5
[neighbour]
skin = 0.3
[thermostat]
kind = "langevin"
temperature = 1.0
[initial]
temperature = 1.44
seed = 87287
[output]
path = "fields.bp"
every = 4
series = "series.csv"
series_every = 1
spectra = "spectra.bp"
spectra_every = 6
[checkpoint]
every = 5
"""

# What a run has in common with itself on other ranks and after restarts: all bits, or a distance (docs/restart.md).
CASES = {
    "gray_scott": (GRAY_SCOTT, 0.0),
    "turbulence": (TURBULENCE, 1e-10),
    "navier_stokes": (NAVIER_STOKES, 1e-6),
    "n_body": (N_BODY, 1e-8),
    "molecular_dynamics": (MOLECULAR_DYNAMICS, 0.0),
}


# Data sets of the cases: in the store of the case, and in Zarr if its paths say so.
DATA_SETS = tuple(f"{name}.{store}" for name in ("fields", "spectra") for store in ("bp", "zarr"))


def read_series(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the header and the rows of a series."""
    with path.open() as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, float)


def assert_same_results(folder: Path, reference: Path, distance: float) -> None:
    """Compare the series and the data sets of two runs; distance: of the largest value, 0 for the same bits."""
    ours, theirs = read_series(folder / "series.csv"), read_series(reference / "series.csv")
    assert ours[0] == theirs[0]
    assert ours[1][:, 0].tolist() == theirs[1][:, 0].tolist()
    if distance == 0.0:
        for file in (reference / "fields_viewer").glob("*"):
            assert (folder / "fields_viewer" / file.name).read_bytes() == file.read_bytes(), file.name
    for name in DATA_SETS:
        if not (reference / name).exists():
            continue
        with ridgeline.open(folder / name) as a, ridgeline.open(reference / name) as b:
            assert a.step.values.tolist() == b.step.values.tolist()
            assert set(a.data_vars) == set(b.data_vars)
            for variable in b.data_vars:
                x, y = a[variable].values, b[variable].values
                most = float(np.abs(y).max()) if y.size else 0.0
                np.testing.assert_allclose(x, y, rtol=0, atol=distance * most, err_msg=f"{name} {variable}")
