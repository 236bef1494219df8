"""Print and draw what the profiles of the neutral layer say beside the logarithmic law and the balance of forces.

    python examples/wind_neutral/profiles.py [PROFILES.bp [PICTURE.png]]

The force F on air of depth H balances the stress of the ground in the mean: u* = sqrt(F H), and the total stress
falls linearly to 0 at the top. The shear phi_m = kappa z/u* dU/dz is 1 where the wind is logarithmic. Windows that
begin before 9 H/u* are left out.
"""

import sys

import numpy as np

import ridgeline
from ridgeline.analysis import add_windows

KAPPA = 0.4
path = sys.argv[1] if len(sys.argv) > 1 else "wind_neutral_profiles.bp"
with ridgeline.open(path) as data:
    settings = data.attrs
    force = settings["driving.force"][0]
    depth = settings["grid.lengths"][0]
    friction = np.sqrt(force * depth)
    means = add_windows(data, begin=min(9 * depth / friction, float(data.time[-2])))
    rough = settings["surface.roughness"]
z, u = means.z.values, means.u.values
dz = z[1] - z[0]
# The shear at the faces between cells, with the difference of the logarithms, which is exact for a logarithmic wind.
faces, shear = (z[1:] + z[:-1]) / 2, KAPPA / friction * np.diff(u) / np.diff(np.log(z))
stress = -(means.uw.values + means.subgrid_uw.values) / friction**2
line = 1 - z / depth
spent = float(means.averaging_time)
print(f"averaged over {spent:.0f} s, {spent * friction / depth:.1f} H/u*")
lowest = KAPPA * u[0] / np.log(z[0] / rough)
print(f"u*, from the lowest wind   {lowest:.4f} m/s   sqrt(F H) {friction:.4f}")
inside = z[1:] < depth / 3
low, high, mean = shear[inside].min(), shear[inside].max(), shear[inside].mean()
print(f"phi_m below H/3: {low:.2f} to {high:.2f}, mean {mean:.2f}   log law 1")
print(
    "phi_m by height: " + ", ".join(f"{s:.2f} at {face / depth:.3f} H" for face, s in zip(faces[:8], shear))
)
print(
    f"total stress differs from its line by {np.abs(stress - line)[2:].max():.3f} u*^2 at most above the second level"
)

if len(sys.argv) > 2:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    left.semilogx(z / depth, u / friction, "ko-", markersize=3, label="this run")
    left.semilogx(z / depth, np.log(z / rough) / KAPPA, "C1--", label=r"$\ln(z/z_0)/\kappa$")
    left.set(xlabel="z/H", ylabel="U/u*")
    left.legend()
    middle.plot(shear, faces / depth, "ko-", markersize=3)
    middle.axvline(1.0, color="C1", linestyle="--")
    middle.set(xlabel=r"$\phi_m$", ylabel="z/H", ylim=(0, 0.5), xlim=(0, 2.5))
    right.plot(stress, z / depth, "k-", label="total")
    right.plot(-means.uw.values / friction**2, z / depth, "C0-", label="resolved")
    right.plot(-means.subgrid_uw.values / friction**2, z / depth, "C2-", label="subgrid")
    right.plot(line, z / depth, "C1--", label="1 - z/H")
    right.set(xlabel="-stress/u*$^2$", ylabel="z/H")
    right.legend()
    figure.savefig(sys.argv[2], dpi=120)
