"""Print and draw what the statistics of a channel say beside Kim, Moin and Moser, and how far they have converged.

    python examples/channel_180/profiles.py [STATISTICS.bp] [PICTURE.png]

References: J. Fluid Mech. 177 (1987) 133, Re_tau = 180: U_b = 15.63 and U_c = 18.20 in wall units, C_f = 8.18e-3, the
lines y+ and 2.5 ln y+ + 5.5. Moser, Kim and Mansour, Phys. Fluids 11 (1999) 943: largest rms of u 2.66 at y+ = 15.
"""

import sys

import numpy as np

import ridgeline
from ridgeline.analysis import add_windows
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative

path = sys.argv[1] if len(sys.argv) > 1 else "channel_180_statistics.bp"
with ridgeline.open(path) as data:
    means = add_windows(data)
    nu, order = means.attrs["model.viscosity"], int(means.attrs["grid.order"])
y, velocity = means.y.values, means.velocity_x.values
half = (y[-1] - y[0]) / 2
weights, derivative = gauss_lobatto(order + 1)[1], gll_derivative(order + 1)
slope, flow = np.empty_like(y), 0.0
for first in range(0, len(y) - 1, order):  # element by element
    at = slice(first, first + order + 1)
    size = y[at][-1] - y[at][0]
    slope[at] = derivative @ velocity[at] * 2 / size
    flow += weights @ velocity[at] * size / 2
bulk, u_tau = flow / (2 * half), np.sqrt(nu * (slope[0] - slope[-1]) / 2)


def folded(line: np.ndarray, sign: float = 1.0) -> np.ndarray:
    """Return the mean of both halves, from the wall to the middle; sign -1: odd across it."""
    return ((line + sign * line[::-1]) / 2)[: len(y) // 2 + 1]


yplus = (y[: len(y) // 2 + 1] - y[0]) * u_tau / nu
mean = folded(velocity) / u_tau
rms = {name: np.sqrt(np.maximum(folded(means[name].values), 0)) / u_tau for name in ("uu", "vv", "ww")}
shear = -folded(means.uv.values, -1.0) / u_tau**2
stress = shear + nu * folded(slope, -1.0) / u_tau**2
balance = np.abs(stress - (1 - yplus * nu / u_tau / half)).max()

spent, samples, windows = (means[name].item() for name in ("averaging_time", "samples", "windows"))
print(f"averaged over {spent:.1f} h/u_b, {samples:.0f} samples, {windows} windows")
print(f"Re_tau {u_tau * half / nu:8.2f}   Kim, Moin and Moser 180")
print(f"U_b+   {bulk / u_tau:8.3f}   15.63")
print(f"U_c+   {mean[-1]:8.3f}   18.20")
print(f"C_f    {2 * (u_tau / bulk) ** 2:8.2e}   8.18e-03")
peak = int(np.argmax(rms["uu"]))
print(f"largest rms of u {rms['uu'][peak]:.3f} at y+ = {yplus[peak]:.1f}   2.66 at 15")
print(f"largest -uv+ {shear.max():.3f} at y+ = {yplus[int(np.argmax(shear))]:.1f}")
error = means.uv_error.values[int(np.argmax(np.abs(means.uv.values)))] / u_tau**2
print(f"standard error of uv+ where it is largest, from the windows: {error:.3f}")
print(
    f"total stress differs from its line by {balance:.3f} u_tau^2 at most: 0 when the averages have converged"
)

if len(sys.argv) > 2:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    near = yplus[(yplus > 0) & (yplus < 12)]
    left.semilogx(yplus[1:], mean[1:], "k-", label="this run")
    left.semilogx(near, near, "C0--", label="$y^+$")
    log = yplus[yplus > 25]
    left.semilogx(log, 2.5 * np.log(log) + 5.5, "C1--", label=r"$2.5\,\ln y^+ + 5.5$")
    left.set(xlabel="$y^+$", ylabel="$U^+$")
    left.legend()
    for line, label in zip(rms.values(), ("$u$", "$v$", "$w$")):
        right.plot(yplus, line, label=f"rms of {label}")
    right.plot(yplus, shear, label=r"$-\overline{uv}^+$")
    right.set(xlabel="$y^+$", ylabel=r"over $u_\tau$, $u_\tau^2$")
    right.legend()
    figure.savefig(sys.argv[2], dpi=150)
