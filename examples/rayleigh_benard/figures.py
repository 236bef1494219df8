"""Print the Nusselt number of Rayleigh-Benard rolls beside that of Clever and Busse.

    python examples/rayleigh_benard/figures.py [SERIES.csv [RAYLEIGH]]

Of a run of settings.toml; of another Rayleigh number give it. Source: Clever and Busse, J. Fluid Mech. 65 (1974) 625,
Table 1: rolls of the wavenumber 3.117 at Pr = 0.71.
"""

import sys

from ridgeline.io.series import read_series

NUSSELT = {
    2000: 1.212,
    2500: 1.475,
    3000: 1.663,
    5000: 2.116,
    10000: 2.661,
    20000: 3.258,
    30000: 3.662,
    50000: 4.245,
}

rayleigh = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
if rayleigh not in NUSSELT:
    raise SystemExit(f"the table here is of Ra = {', '.join(map(str, NUSSELT))}, not of {rayleigh}")
columns = read_series(sys.argv[1] if len(sys.argv) > 1 else "rayleigh_benard.csv")
for name, words in (("y", "through the layer"), ("y_min", "lower plate"), ("y_max", "upper plate")):
    found = columns[f"scalar_0_nusselt_{name}"][-1]
    print(f"Nu, {words:17} {found:9.5f}   Clever and Busse {NUSSELT[rayleigh]:6.3f}")
