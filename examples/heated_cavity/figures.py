"""Print Nusselt numbers and largest velocities of the heated cavity beside de Vahl Davis and later, finer solutions.

    python examples/heated_cavity/figures.py [DATA.bp [SERIES.csv]]

Of a run of settings.toml at Ra = 1e3, 1e4, 1e5 or 1e6. Velocities are in units of k/L. Sources: de Vahl Davis, Int.
J. Numer. Meth. Fluids 3 (1983) 249, his bench mark solution; finer Nusselt numbers of Hortmann, Peric and Scheuerer,
Int. J. Numer. Meth. Fluids 11 (1990) 189, and of Le Quere, Computers and Fluids 20 (1991) 29.
"""

import sys

import numpy as np
from scipy.interpolate import CubicSpline

import ridgeline
from ridgeline.io.series import read_series

# Nusselt number, the same on finer grids; largest u on x = 1/2 and its y; largest v on y = 1/2 and its x
TABLE = {
    3: (1.118, 1.1178, 3.649, 0.813, 3.697, 0.178),
    4: (2.243, 2.2448, 16.178, 0.823, 19.617, 0.119),
    5: (4.519, 4.5216, 34.73, 0.855, 68.59, 0.066),
    6: (8.800, 8.8252, 64.63, 0.850, 219.36, 0.0379),
}
WORDS = (
    "u, largest on the vertical centre line",
    "y, where it is",
    "v, largest on the horizontal one",
    "x, where it is",
)

path = sys.argv[1] if len(sys.argv) > 1 else "heated_cavity.bp"
series = sys.argv[2] if len(sys.argv) > 2 else "heated_cavity.csv"
with ridgeline.open(path) as data:
    last = data.isel(step=-1, z=0)
    settings = data.attrs
    k = settings["scalar.0.diffusivity"]
    rayleigh = 1 / (k * settings["model.viscosity"])
    # The points of the image are the middles of its cells; at the walls the velocity is 0.
    up = CubicSpline([0, *last.y.values, 1], [0, *last.velocity_x.sel(x=0.5).values / k, 0])
    across = CubicSpline([0, *last.x.values, 1], [0, *last.velocity_y.sel(y=0.5).values / k, 0])
power = round(np.log10(rayleigh))
if power not in TABLE or abs(rayleigh / 10**power - 1) > 1e-3:
    raise SystemExit(f"the tables here are of Ra = 1e3, 1e4, 1e5 and 1e6, not of {rayleigh:.6g}")
davis, finer, *extremes = TABLE[power]
columns = read_series(series)
print(f"Ra = 1e{power}")
for name, words in (("x", "through the cavity"), ("x_min", "hot wall"), ("x_max", "cold wall")):
    found = columns[f"scalar_0_nusselt_{name}"][-1]
    print(f"Nu, {words:34} {found:10.5f}   de Vahl Davis {davis:8.3f}   finer {finer:8.4f}")
fine = np.linspace(0, 1, 20001)
u, v = up(fine), across(fine)
values = (u.max(), fine[u.argmax()], v.max(), fine[v.argmax()])
for words, value, expected in zip(WORDS, values, extremes):
    print(f"{words:38} {value:10.4f}   de Vahl Davis {expected:8g}")
