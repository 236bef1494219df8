"""Print the velocities on the centre lines of the lid-driven cavity beside those of Ghia, Ghia and Shin.

    python examples/lid_driven_cavity/figures.py [DATA.bp]

The data set is that of a run of settings.toml at Re = 100 or 400. Source: Ghia, Ghia and Shin, J. Comput. Phys. 48
(1982) 387, Tables I and II: second order on 129 x 129 points, places in multiples of 1/128 rounded to four digits.
"""

import sys

import numpy as np
from scipy.interpolate import CubicSpline

import ridgeline

# k of y = k/128 and x = k/128
UP = (128, 125, 124, 123, 122, 109, 94, 79, 64, 58, 36, 22, 13, 9, 8, 7, 0)
ACROSS = (128, 124, 123, 122, 121, 116, 110, 103, 64, 30, 29, 20, 12, 10, 9, 8, 0)
TABLES = {
    100: (
        (1, 0.84123, 0.78871, 0.73722, 0.68717, 0.23151, 0.00332, -0.13641, -0.20581, -0.21090, -0.15662, -0.10150,
         -0.06434, -0.04775, -0.04192, -0.03717, 0),
        (0, -0.05906, -0.07391, -0.08864, -0.10313, -0.16914, -0.22445, -0.24533, 0.05454, 0.17527, 0.17507, 0.16077,
         0.12317, 0.10890, 0.10091, 0.09233, 0),
    ),
    400: (
        (1, 0.75837, 0.68439, 0.61756, 0.55892, 0.29093, 0.16256, 0.02135, -0.11477, -0.17119, -0.32726, -0.24299,
         -0.14612, -0.10338, -0.09266, -0.08186, 0),
        (0, -0.12146, -0.15663, -0.19254, -0.22847, -0.23827, -0.44993, -0.38598, 0.05186, 0.30174, 0.30203, 0.28124,
         0.22965, 0.20920, 0.19713, 0.18360, 0),
    ),
}  # fmt: skip
# A misprint of Table II: it lies 0.14 off the curve through its neighbours, and 0.15 off every converged solution.
MISPRINT = (400, "v", 116)

with ridgeline.open(sys.argv[1] if len(sys.argv) > 1 else "lid_driven_cavity.bp") as data:
    last = data.isel(step=-1, z=0)
    reynolds = round(1 / data.attrs["model.viscosity"])
    # The points of the image are the middles of its cells; at the walls the velocity is given.
    lines = {
        "u": CubicSpline([0, *last.y.values, 1], [0, *last.velocity_x.sel(x=0.5).values, 1]),
        "v": CubicSpline([0, *last.x.values, 1], [0, *last.velocity_y.sel(y=0.5).values, 0]),
    }
if reynolds not in TABLES:
    raise SystemExit(f"Ghia's tables here are of Re = 100 and 400, not of {reynolds}")
largest = 0.0
for name, places, table in zip("uv", (UP, ACROSS), TABLES[reynolds]):
    for k, ghia in zip(places, table):
        found = float(lines[name](k / 128))
        misprint = (reynolds, name, k) == MISPRINT
        largest = largest if misprint else max(largest, abs(found - ghia))
        words = "  a misprint, not counted" if misprint else ""
        print(
            f"{name} at {'yx'[name == 'v']} = {k / 128 + 1e-9:.4f}   {found:8.5f}   Ghia {ghia:8.5f}{words}"
        )
print(f"largest difference {largest:.5f} of the lid's speed at Re = {reynolds}")
fine = np.linspace(0, 1, 20001)
u, v = lines["u"](fine), lines["v"](fine)
print(f"smallest u {u.min():.5f}, smallest v {v.min():.5f}, largest v {v.max():.5f}")
