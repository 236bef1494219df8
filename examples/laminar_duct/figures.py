"""Print friction factor, peak velocity and Nusselt number of a laminar duct beside the exact ones.

    python examples/laminar_duct/figures.py [SERIES.csv] [ASPECT_RATIO]

The series is that of a run of settings.toml; of other ducts give the ratio of the sides.
"""

import sys

from ridgeline.io.series import read_series
from ridgeline.models.navier_stokes.laminar_duct import figures

path = sys.argv[1] if len(sys.argv) > 1 else "laminar_duct.csv"
exact = figures(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
last = {name: column[-1] for name, column in read_series(path).items()}
found = {
    "f Re": (last["force_f_re"], exact.friction),
    "u_max/u_bulk": (last["peak_velocity"] / last["bulk_velocity"], exact.peak),
    "Nu": (last["scalar_0_nusselt"], exact.nusselt),
}
for name, (value, truth) in found.items():
    print(f"{name:13} {value:.8f}   exact {truth:.8f}   relative error {abs(value / truth - 1):.1e}")
