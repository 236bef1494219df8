"""Print the extremes of the warm bubble beside the dry case of Bryan and Fritsch.

    python examples/wind_bubble/figures.py [DATA.bp]

Bryan and Fritsch, Mon. Weather Rev. 130 (2002) 2917, have theta' from -0.144 to 2.072 K and w from -8.58 to 14.54 m/s
after 1000 s, also with cells of 100 m. They solve the equations of compressible air, whose density at 10 km is 0.37
of that at the ground; here it is constant.
"""

import sys

import numpy as np

import ridgeline

with ridgeline.open(sys.argv[1] if len(sys.argv) > 1 else "wind_bubble.bp") as data:
    last = data.isel(step=-1).load()
excess, w = last.theta.values - 300, last.w.values
rows = [
    ("largest theta' (K)", excess.max(), 2.07178),
    ("least theta' (K)", excess.min(), -0.144409),
    ("largest w (m/s)", w.max(), 14.5396),
    ("least w (m/s)", w.min(), -8.58069),
]
print(f"after {float(last.time):.0f} s")
for words, found, published in rows:
    print(f"{words:20} {found:9.3f}   Bryan and Fritsch {published:9.3f}")
# The cap of the bubble: the height up to which some air is warmer than 0.1 K.
warm = np.flatnonzero((excess > 0.1).any(axis=(1, 2)))
print(f"top of the air warmer by 0.1 K: {last.z.values[warm[-1]]:.0f} m")
