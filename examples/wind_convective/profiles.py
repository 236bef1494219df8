"""Print and draw what the profiles of the convective layer say beside convective scaling.

    python examples/wind_convective/profiles.py [PROFILES.bp [PICTURE.png]]

The depth z_i is the height of the least heat flux, and w* = (g/theta_0 q z_i)^(1/3) with the flux q of the ground. In
a quasi-steady layer the flux falls linearly, to about -0.2 q at z_i, and the variance of w is at most about 0.4 w*^2
near a third of z_i: Deardorff, Boundary-Layer Meteorol. 7 (1974) 81, and Lenschow, Wyngaard and Pennell, J. Atmos.
Sci. 37 (1980) 1313, whose fit is 1.8 (z/z_i)^(2/3) (1 - 0.8 z/z_i)^2.
"""

import sys

import numpy as np

import ridgeline

path = sys.argv[1] if len(sys.argv) > 1 else "wind_convective_profiles.bp"
with ridgeline.open(path) as data:
    windows = data.load()
settings = windows.attrs
q, theta = settings["surface.heat_flux"], settings["temperature.reference"]
z = windows.z.values
print("end of window, s   z_i, m   w*, m/s   least flux/q   largest ww/w*^2   at z/z_i   its fit")
for n in range(windows.sizes["step"]):
    window = windows.isel(step=n)
    flux = (window.w_theta + window.subgrid_w_theta).values / q
    least = int(flux.argmin())
    depth = z[least]
    scale = (9.81 / theta * q * depth) ** (1 / 3)
    # Resolved, and a third of twice the subgrid energy.
    variance = (window.ww + 2 / 3 * window.subgrid_energy).values / scale**2
    most = int(variance.argmax())
    above = z[most] / depth
    fit = 1.8 * above ** (2 / 3) * (1 - 0.8 * above) ** 2
    print(
        f"{float(window.time):16.0f} {depth:8.0f} {scale:9.2f} {flux[least]:14.3f} {variance[most]:17.3f} "
        f"{above:10.2f} {fit:9.2f}"
    )

if len(sys.argv) > 2:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
    axes[0].plot(window.theta, z / depth, "k-")
    axes[0].set(xlabel="potential temperature, K", ylabel="z/z$_i$")
    axes[1].plot(flux, z / depth, "k-", label="total")
    axes[1].plot(window.w_theta / q, z / depth, "C0-", label="resolved")
    axes[1].plot([1, -0.2], [0, 1], "C1--", label="linear, to -0.2")
    axes[1].set(xlabel="heat flux/q")
    axes[1].legend()
    heights = np.linspace(0, 1, 100)
    axes[2].plot(variance, z / depth, "k-", label="resolved and subgrid")
    axes[2].plot(
        1.8 * heights ** (2 / 3) * (1 - 0.8 * heights) ** 2, heights, "C1--", label="Lenschow et al. (1980)"
    )
    axes[2].set(xlabel="variance of w/w*$^2$")
    axes[2].legend()
    figure.savefig(sys.argv[2], dpi=120)
