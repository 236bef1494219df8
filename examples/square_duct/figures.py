"""Print friction and secondary flow of the turbulent square duct beside published ones, and draw the secondary flow.

    python examples/square_duct/figures.py [STATISTICS.bp [SERIES.csv [PICTURE.png]]]

Sources: Jones, J. Fluids Eng. 98 (1976) 173, friction; Gavrilakis, J. Fluid Mech. 244 (1992) 101, Re_tau; Pirozzoli,
Modesti, Orlandi and Grasso, J. Fluid Mech. 840 (2018) 631: a secondary flow of 1 to 2 % of u_b, of eight vortices.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.optimize import root_scalar

import ridgeline
from ridgeline.analysis import add_windows
from ridgeline.io.series import read_series

OCTANTS = 8
CORE = 0.9  # of the half side: nearer to a wall the vorticity is that of the wall's layer


def jones(reynolds: float) -> float:
    """Return the friction factor of a smooth square duct: 1/sqrt f = 2 log10(1.125 Re sqrt f) - 0.8."""

    def residual(f: float) -> float:
        return float(f**-0.5 - 2 * np.log10(1.125 * reynolds * f**0.5) + 0.8)

    return float(root_scalar(residual, bracket=(1e-3, 1.0)).root)


defaults = ("square_duct_statistics.bp", "square_duct.csv", "")
path, series, picture = (*sys.argv[1:], *defaults[len(sys.argv) - 1 :])
with ridgeline.open(path) as data:
    last = add_windows(data)
    y, z = last.y.values, last.z.values
    u, v, w = (last[f"velocity_{name}"].values for name in "xyz")
    viscosity, end, spent = data.attrs["viscosity"], float(last.time), float(last.averaging_time)
columns = read_series(series)
since = columns["time"] >= end - spent
time = columns["time"][since]
friction = np.trapezoid(columns["friction_factor"][since], time) / (time[-1] - time[0])
re_tau = (friction / 8) ** 0.5 / viscosity

# The mean of the eight octants that symmetry makes equal
even = u + u[:, ::-1]
odd, level = v - v[:, ::-1], w + w[:, ::-1]
even, odd, level = even + even[::-1], odd + odd[::-1], level - level[::-1]
mean_v, mean_w = (odd + level.T) / 8, (level + odd.T) / 8
vorticity = np.gradient(w, y, axis=1) - np.gradient(v, z, axis=0)
area = np.outer(np.gradient(z), np.gradient(y)) * (np.abs(z)[:, None] < CORE) * (np.abs(y) < CORE)
octant = np.arctan2(z[:, None], y) % (2 * np.pi) // (np.pi / 4)
signs = ["+" if (vorticity * area)[octant == i].sum() > 0 else "-" for i in range(OCTANTS)]

print(f"averaged over {spent:.0f} h/u_b in {int(last.windows)} windows")
print(f"friction factor             {friction:8.4f}   Jones {jones(2 / viscosity):.4f}")
print(f"Re_tau                      {re_tau:8.1f}   Gavrilakis 150")
print(f"velocity at the centre/u_b  {u[len(z) // 2, len(y) // 2]:8.3f}   published 1.3 to 1.43")
print(f"largest cross flow/u_b      {np.hypot(v, w).max():8.4f}   published 0.01 to 0.02")
print(f"the same, mean of octants   {np.hypot(mean_v, mean_w).max():8.4f}")
print(f"turn of the eight vortices  {' '.join(signs):>8}   + and - in turn")

if picture:
    even_points = np.linspace(y[0], y[-1], 61)
    places = np.stack(np.meshgrid(even_points, even_points, indexing="ij"), axis=-1)
    on_even = [RegularGridInterpolator((z, y), field)(places) for field in (v, w)]
    figure, axes = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
    colours = axes.contourf(y, z, u, 24, cmap="magma")
    strength = np.hypot(*on_even)
    axes.streamplot(
        even_points,
        even_points,
        *on_even,
        color="white",
        linewidth=1.8 * strength / strength.max(),
        density=1.6,
    )
    axes.set(aspect="equal", xlabel="y/h", ylabel="z/h", title=f"mean over {spent:.0f} $h/u_b$")
    figure.colorbar(colours, label="mean $u/u_b$; lines: mean cross flow")
    figure.savefig(picture, dpi=110)
