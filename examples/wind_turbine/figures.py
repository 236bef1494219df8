"""Print speed at the rotor, thrust, power and wake of the turbine beside momentum theory, and draw the wake.

    python examples/wind_turbine/figures.py [DATA.bp [SERIES.csv [PICTURE.png]]]

Momentum theory (Burton et al., Wind Energy Handbook, chapter 3) of a disc with the thrust coefficient C_T in a wind
U: the induction a = (1 - sqrt(1 - C_T))/2, and the speeds (1 - a) U at the disc and (1 - 2 a) U in the wake.
"""

import sys

import numpy as np

import ridgeline
from ridgeline.io.series import read_series

path = sys.argv[1] if len(sys.argv) > 1 else "wind_turbine.bp"
series = read_series(sys.argv[2] if len(sys.argv) > 2 else "wind_turbine.csv")
with ridgeline.open(path) as data:
    settings = data.attrs
    u = data["u"].isel(step=-1).load()
wind, diameter = 8.0, settings["turbine.0.diameter"]
coefficient, density = settings["turbine.0.thrust_coefficient"], settings["turbine.0.density"]
x, y, z = settings["turbine.0.position"]
area = np.pi * diameter**2 / 4
a = (1 - np.sqrt(1 - coefficient)) / 2
thrust = 0.5 * density * area * coefficient * wind**2
places = (u.x.values - x) / diameter
# The mean over the four cells around the axis.
axis = u.values[np.abs(u.z.values - z).argsort()[:2]][:, np.abs(u.y.values - y).argsort()[:2]].mean(
    axis=(0, 1)
)
rows = [
    ("speed at the disc, m/s", series["turbine_0_speed"][-1], (1 - a) * wind),
    ("thrust, kN", series["turbine_0_thrust"][-1] / 1e3, thrust / 1e3),
    ("power, MW", series["turbine_0_power"][-1] / 1e6, thrust * (1 - a) * wind / 1e6),
    ("speed on the axis, 3 diameters behind, m/s", np.interp(3.0, places, axis), (1 - 2 * a) * wind),
]
for words, found, expected in rows:
    print(
        f"{words:44} {found:8.3f}   momentum theory {expected:8.3f}   {100 * (found / expected - 1):+6.1f} %"
    )

if len(sys.argv) > 3:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 6), layout="constrained", sharex=True)
    middle = u.values[u.sizes["z"] // 2]
    sides = (u.y.values - y) / diameter
    image = upper.pcolormesh(places, sides, middle, cmap="viridis", shading="nearest")
    upper.plot([0, 0], [-0.5, 0.5], "w-", linewidth=2)
    upper.set(ylabel="y/D", aspect="equal")
    figure.colorbar(image, ax=upper, label="u, m/s", shrink=0.8)
    lower.plot(places, axis, "k-", label="on the axis")
    lower.plot([places[0], 0], [wind, wind], "C0--")
    lower.plot(
        [0, places[-1]], [(1 - 2 * a) * wind] * 2, "C0--", label="momentum theory: far ahead and behind"
    )
    lower.plot([0], [(1 - a) * wind], "C0o", label="momentum theory: at the disc")
    lower.set(xlabel="x/D behind the rotor", ylabel="u, m/s")
    lower.legend()
    figure.savefig(sys.argv[3], dpi=120)
