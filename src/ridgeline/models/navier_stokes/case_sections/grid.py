"""Settings of the elements: a box, or a mesh from a file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.fields import (
    MOST_POINTS,
    Checked,
    Integer,
    Number,
    PathText,
    Problem,
    Triple,
    Truth,
    setting,
)
from ridgeline.runtime.user_code import names_function

Positive = Annotated[Number, Field(gt=0)]
Distribution = Literal["uniform", "geometric", "geometric-walls", "sine", "offset-sine"]
MOST_ELEMENTS = 10**6  # along a direction, because every rank keeps all their edges
NAMED_MAPPINGS = ("none", "wavy", "annulus", "periodic-hill")
ROUNDING = 1e-9  # relative, by which the ends of grid.edges may miss grid.origin and grid.lengths
EDGES_RULE = "a list of at least two increasing numbers"


def _edges_setting(axis: str) -> Any:
    return setting(
        (),
        f"Places of the edges of all elements along {axis}, from one end of the box to the other, instead of a "
        "distribution. Not set: grid.distribution.",
        unit="length",
        rule=EDGES_RULE,
    )


class EdgesSection(Checked):
    """The edges of the elements of a box, for each direction in which the settings list them."""

    x: tuple[Number, ...] = _edges_setting("x")
    y: tuple[Number, ...] = _edges_setting("y")
    z: tuple[Number, ...] = _edges_setting("z")

    def problems(self) -> Iterator[Problem]:
        for axis, edges in zip("xyz", (self.x, self.y, self.z)):
            if len(edges) == 1 or any(low >= high for low, high in pairwise(edges)):
                yield Problem(axis, EDGES_RULE)


class GridSection(sections.AnyGridSection):
    """The box, its elements, and a smooth map that may bend it; or a mesh from a file."""

    EXTENT: ClassVar[str] = "elements"
    OF_BOX: ClassVar[tuple[str, ...]] = (
        "elements",
        "lengths",
        "origin",
        "distribution",
        "distribution_parameter",
        "edges",
        "mapping",
        "periodic",
    )

    elements: Triple | None = setting(
        None,
        "Number of elements of a box in each direction, [E_z, E_y, E_x].",
        unit="elements",
        rule="three integers >= 1 as [E_z, E_y, E_x]",
    )
    mesh: PathText = setting(
        "",
        "File of a mesh of hexahedra instead of a box. In a Gmsh file (.msh), of any order, the physical surfaces "
        "are the sides [boundary.NAME]. In a Nek5000 file (.re2), the sides have the names of its boundary "
        "conditions, and MSH and EXO are followed by the number of the surface (MSH_1).",
        rule="a path that ends in .msh or .re2",
    )
    order: Integer = setting(
        7,
        "Polynomial order p. An element has p + 1 Gauss-Lobatto points in each direction.",
        ge=1,
        le=31,
    )
    lengths: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Lengths of the edges of the box, [L_z, L_y, L_x].",
        unit="length",
        rule="three numbers > 0 as [L_z, L_y, L_x]",
    )
    origin: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Lower corner of the box, [z, y, x].",
        unit="length",
        rule="three numbers as [z, y, x]",
    )
    distribution: tuple[Distribution, Distribution, Distribution] = setting(
        ("uniform", "uniform", "uniform"),
        'Lengths of the elements along z, y and x: "uniform", "geometric" (each is the parameter times the one '
        'before it), "geometric-walls" (the same, from both ends to the middle), "offset-sine" (s -> sin(a s)/sin(a) '
        "from the middle to both ends, where a is pi/2 - alpha and the parameter is alpha, as in Table 1 of the "
        'NekBox paper) or "sine" (the same, where the parameter is a).',
        rule='three of "uniform", "geometric", "geometric-walls", "offset-sine" and "sine" as [z, y, x]',
    )
    distribution_parameter: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Parameters of the distributions along z, y and x: the ratio of a geometric one, alpha of an offset sine, "
        "and a of a sine.",
        rule="three numbers > 0 as [z, y, x]; at most pi/2 for a sine, and below it for an offset sine",
        needs={"distribution": ("geometric", "geometric-walls", "offset-sine", "sine")},
    )
    edges: EdgesSection = Field(default_factory=EdgesSection)
    mapping: PathText = setting(
        "none",
        'Smooth mapping of the box: "none", "wavy", "annulus" (x is the angle and y the radius), "periodic-hill" (a '
        'floor with hills) or "file.py:function", a function of three arrays (x, y, z) that returns three arrays.',
        rule='"none", "wavy", "annulus", "periodic-hill" or "file.py:function"',
    )
    mapping_amplitude: Number = setting(
        0.05,
        "Distance by which a named mapping moves the points, as a fraction of the box.",
        needs={"mapping": ("wavy", "annulus", "periodic-hill")},
    )
    periodic: tuple[Truth, Truth, Truth] = setting(
        (False, False, False),
        "Whether the flow is periodic in z, y and x. Periodic sides need no section [boundary].",
        rule="three of true or false as [z, y, x]",
    )

    def points(self) -> tuple[int, int, int]:
        """Return the unique points [nz, ny, nx] of a box; for a mesh from a file, those of one element."""
        if self.elements is None:
            n = self.order + 1
            return n, n, n
        z, y, x = (e * self.order + (0 if around else 1) for e, around in zip(self.elements, self.periodic))
        return z, y, x

    def words(self, axes: str = " (z y x)") -> str:
        return f"{self.mesh}, elements of order {self.order}" if self.mesh else super().words(axes)

    def problems(self) -> Iterator[Problem]:
        if self.mesh:
            for key in self.OF_BOX:
                if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                    yield Problem(
                        key,
                        "left out with grid.mesh, because the file defines the elements and their positions",
                    )
            return
        if self.elements is None:
            yield Problem(
                "elements", "three integers >= 1 as [E_z, E_y, E_x], unless grid.mesh is the path of a file"
            )
            return
        points = math.prod(self.elements) * (self.order + 1) ** 3
        if max(self.elements) > MOST_ELEMENTS or points > MOST_POINTS:
            yield Problem(
                "elements",
                f"three integers >= 1 and <= {MOST_ELEMENTS} as [E_z, E_y, E_x], with at most 2^53 points in total "
                "((order + 1)^3 in each element)",
            )
        for kind, parameter in zip(self.distribution, self.distribution_parameter):
            if kind == "sine" and parameter > math.pi / 2:
                yield Problem("distribution_parameter", "> 0 and <= pi/2 for a sine distribution")
            if kind == "offset-sine" and parameter >= math.pi / 2:
                yield Problem("distribution_parameter", "> 0 and < pi/2 for an offset-sine distribution")
        yield from self._edges_problems(self.elements)
        if self.mapping not in NAMED_MAPPINGS and not names_function(self.mapping):
            yield Problem("mapping", '"none", "wavy", "annulus", "periodic-hill" or "file.py:function"')

    def _edges_problems(self, elements: Triple) -> Iterator[Problem]:
        """Yield where the lists of edges disagree with the other settings of the box."""
        for place, axis in enumerate("zyx"):
            edges = getattr(self.edges, axis)
            if not edges:
                continue
            key, span = f"grid.edges.{axis}", edges[-1] - edges[0]
            if elements[place] != len(edges) - 1:
                yield Problem(
                    "elements", f"{len(edges) - 1} along {axis}, because {key} has {len(edges)} numbers"
                )
            if self.distribution[place] != "uniform":
                yield Problem("distribution", f'"uniform" along {axis}, because {key} gives the elements')
            if abs(self.lengths[place] - span) > ROUNDING * span:
                ends = f"from {edges[0]:.12g} to {edges[-1]:.12g}"
                yield Problem("lengths", f"{span:.12g} along {axis}, because {key} goes {ends}")
            if abs(self.origin[place] - edges[0]) > ROUNDING * span:
                yield Problem("origin", f"{edges[0]:.12g} along {axis}, because {key} starts there")
