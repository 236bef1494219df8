"""Print and draw what the profiles of the stable layer say beside the intercomparison of GABLS1.

    python examples/wind_gabls1/profiles.py [PROFILES.bp [SERIES.csv [PICTURE.png]]]

The depth of the layer is where the mean stress has fallen to 5 % of that of the ground, over 0.95, as Beare et al.,
Boundary-Layer Meteorol. 118 (2006) 247, define it. Their models have, as means of the ninth hour, depths of 150 to
200 m, friction velocities between 0.25 and 0.30 m/s, and a jet above the geostrophic 8 m/s.
"""

import sys

import numpy as np

import ridgeline
from ridgeline.io.series import read_series

path = sys.argv[1] if len(sys.argv) > 1 else "wind_gabls1_profiles.bp"
series = read_series(sys.argv[2] if len(sys.argv) > 2 else "wind_gabls1.csv")
with ridgeline.open(path) as data:
    windows = data.load()
z = windows.z.values
dz = z[1] - z[0]
print("end of window, s   u*, m/s   flux, K m/s   depth, m   largest wind, m/s   at height, m")
for n in range(windows.sizes["step"]):
    window = windows.isel(step=n)
    end = float(window.time)
    inside = (series["time"] > end - float(window.averaging_time.squeeze())) & (series["time"] <= end)
    friction, flux = (series[name][inside].mean() for name in ("friction_velocity", "surface_heat_flux"))
    stress = np.hypot(window.uw + window.subgrid_uw, window.vw + window.subgrid_vw).values / friction**2
    above = int(np.argmax(stress < 0.05))
    part = (stress[above - 1] - 0.05) / (stress[above - 1] - stress[above])
    depth = (z[above - 1] + part * dz) / 0.95
    speed = np.hypot(window.u, window.v).values
    jet = int(speed.argmax())
    print(f"{end:16.0f} {friction:9.3f} {flux:13.5f} {depth:10.1f} {speed[jet]:19.2f} {z[jet]:14.1f}")

if len(sys.argv) > 3:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    last = windows.isel(step=-1)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
    axes[0].plot(np.hypot(last.u, last.v), z, "k-")
    axes[0].axvline(8.0, color="C1", linestyle="--", label="geostrophic")
    axes[0].set(xlabel="wind speed, m/s", ylabel="z, m")
    axes[0].legend()
    axes[1].plot(last.theta, z, "k-")
    axes[1].set(xlabel="potential temperature, K")
    axes[2].plot(last.w_theta + last.subgrid_w_theta, z, "k-", label="total")
    axes[2].plot(last.subgrid_w_theta, z, "C2-", label="subgrid")
    axes[2].set(xlabel="heat flux, K m/s")
    axes[2].legend()
    figure.suptitle(f"means of {float(last.averaging_time.squeeze()):.0f} s until {float(last.time):.0f} s")
    figure.savefig(sys.argv[3], dpi=120)
