"""Write cylinder.msh: a channel of 2.2 x 0.41 round a cylinder of diameter 0.1 at (0.2, 0.2), one layer in z.

    pip install gmsh
    python examples/cylinder/mesh.py [FILE.msh]

Four blocks lie between the circle and the square of the channel's first 0.41, two more behind them. Elements are of
second order: their faces follow the circle by parabolas. Source: Schaefer and Turek (1996), figure 1.
"""

import math
import sys

import gmsh

LENGTH, HEIGHT, DEPTH = 2.2, 0.41, 0.1
CENTRE, RADIUS = (0.2, 0.2), 0.05
AROUND, OUT, BEHIND = 5, 5, 10  # elements along a quarter of the circle, away from it, and along the wake
FINER, COARSER = 1.6, 1.15  # ratios of neighbours' lengths away from the circle, and along the wake

gmsh.initialize()
gmsh.option.setNumber("General.Verbosity", 2)
geo = gmsh.model.geo
centre = geo.addPoint(*CENTRE, 0)
corners = [geo.addPoint(x, y, 0) for x, y in ((0, 0), (HEIGHT, 0), (HEIGHT, HEIGHT), (0, HEIGHT))]
ring = [
    geo.addPoint(CENTRE[0] + RADIUS * math.cos(angle), CENTRE[1] + RADIUS * math.sin(angle), 0)
    for angle in (math.pi * (0.25 + 0.5 * k) for k in (2, 3, 0, 1))
]
ends = [geo.addPoint(LENGTH, y, 0) for y in (0, HEIGHT)]
square = [geo.addLine(corners[k], corners[(k + 1) % 4]) for k in range(4)]
arcs = [geo.addCircleArc(ring[k], centre, ring[(k + 1) % 4]) for k in range(4)]
spokes = [geo.addLine(ring[k], corners[k]) for k in range(4)]
floor, ceiling = geo.addLine(corners[1], ends[0]), geo.addLine(corners[2], ends[1])
out = geo.addLine(ends[0], ends[1])
for curve in (*square, *arcs, out):
    geo.mesh.setTransfiniteCurve(curve, AROUND + 1)
for curve in spokes:
    geo.mesh.setTransfiniteCurve(curve, OUT + 1, "Progression", FINER)
for curve in (floor, ceiling):
    geo.mesh.setTransfiniteCurve(curve, BEHIND + 1, "Progression", COARSER)
loops = [(spokes[k], square[k], -spokes[(k + 1) % 4], -arcs[k]) for k in range(4)]
surfaces = [
    geo.addPlaneSurface([geo.addCurveLoop(loop)]) for loop in (*loops, (floor, out, -ceiling, -square[1]))
]
for surface in surfaces:
    geo.mesh.setTransfiniteSurface(surface)
    geo.mesh.setRecombine(2, surface)
names = {square[3]: "inlet", out: "outlet", **dict.fromkeys(arcs, "cylinder")}
names |= dict.fromkeys((square[0], square[2], floor, ceiling), "walls")
sides = {"back": surfaces, "front": [], "inlet": [], "outlet": [], "cylinder": [], "walls": []}
volumes = []
for surface, loop in zip(surfaces, (*loops, (floor, out, -ceiling, -square[1]))):
    front, volume, *around = geo.extrude([(2, surface)], 0, 0, DEPTH, numElements=[1], recombine=True)
    sides["front"].append(front[1])
    volumes.append(volume[1])
    for curve, (_, face) in zip(loop, around):
        if abs(curve) in names:
            sides[names[abs(curve)]].append(face)
geo.synchronize()
for name, faces in sides.items():
    gmsh.model.addPhysicalGroup(2, faces, name=name)
gmsh.model.addPhysicalGroup(3, volumes, name="fluid")
gmsh.model.mesh.generate(3)
gmsh.model.mesh.setOrder(2)
gmsh.option.setNumber("Mesh.MshFileVersion", 4.1)
gmsh.write(sys.argv[1] if len(sys.argv) > 1 else "examples/cylinder/cylinder.msh")
gmsh.finalize()
