"""Settings of the elements: a box, or a mesh from a file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.fields import MOST_POINTS, Integer, Number, PathText, Problem, Triple, Truth, setting

Positive = Annotated[Number, Field(gt=0)]
Distribution = Literal["uniform", "geometric", "geometric-walls", "sine"]
MOST_ELEMENTS = 10**6  # along a direction, because every rank keeps all their edges
NAMED_MAPPINGS = ("none", "wavy", "annulus", "periodic-hill")


class GridSection(sections.AnyGridSection):
    """The box, its elements, and a smooth map that may bend it; or a mesh from a file."""

    EXTENT: ClassVar[str] = "elements"
    OF_BOX: ClassVar[tuple[str, ...]] = (
        "elements",
        "lengths",
        "origin",
        "distribution",
        "distribution_parameter",
        "mapping",
        "periodic",
    )

    elements: Triple | None = setting(
        None,
        "Elements [E_z, E_y, E_x] of a box.",
        unit="elements",
        rule="three integers >= 1 as [E_z, E_y, E_x]",
    )
    mesh: PathText = setting(
        "",
        "Mesh of hexahedra instead of a box: a file of Gmsh (.msh), of any order, whose physical surfaces are the "
        "sides [boundary.NAME], or of Nek5000 (.re2), whose sides have the names of its conditions, with the number "
        'of the surface behind MSH and EXO (MSH_1); "" is a box.',
        rule="a path that ends in .msh or .re2",
    )
    order: Integer = setting(
        7, "Polynomial order p: p + 1 Gauss-Lobatto points in each direction of an element.", ge=1, le=31
    )
    lengths: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Edges of the box, [L_z, L_y, L_x].",
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
        'Lengths of the elements along z, y, x: "uniform"; "geometric", each parameter times the one before it; '
        '"geometric-walls", the same from both ends to the middle; "sine", s -> sin(a s)/sin(a) from the middle to '
        "both ends with the parameter a, as in the duct paper.",
        rule='three of "uniform", "geometric", "geometric-walls" and "sine" as [z, y, x]',
    )
    distribution_parameter: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Ratio of a geometric distribution, a in (0, pi/2] of a sine, along z, y, x.",
        rule="three numbers > 0 as [z, y, x]; at most pi/2 for a sine",
        needs={"distribution": ("geometric", "geometric-walls", "sine")},
    )
    mapping: PathText = setting(
        "none",
        'Smooth map of the box: "none", "wavy", "annulus" (x is the angle, y the radius), "periodic-hill" (a floor '
        'of hills), or "file.py:function" with a function of arrays (x, y, z) that returns three.',
        rule='"none", "wavy", "annulus", "periodic-hill" or "file.py:function"',
    )
    mapping_amplitude: Number = setting(
        0.05,
        "How far a named map moves the points, in lengths of the box.",
        needs={"mapping": ("wavy", "annulus", "periodic-hill")},
    )
    periodic: tuple[Truth, Truth, Truth] = setting(
        (False, False, False),
        "Directions z, y, x in which the flow is periodic; their sides need no [boundary].",
        rule="three truth values as [z, y, x]",
    )

    def points(self) -> tuple[int, int, int]:
        """Return the unique points [nz, ny, nx] of a box; for a mesh from a file, those of one element."""
        if self.elements is None:
            n = self.order + 1
            return n, n, n
        z, y, x = (e * self.order + (0 if around else 1) for e, around in zip(self.elements, self.periodic))
        return z, y, x

    def words(self, axes: str = " (z y x)") -> str:
        return f"of {self.mesh}, elements of order {self.order}" if self.mesh else super().words(axes)

    def problems(self) -> Iterator[Problem]:
        if self.mesh:
            for key in self.OF_BOX:
                if getattr(self, key) != type(self).model_fields[key].default:
                    yield Problem(
                        key, "no value with grid.mesh, whose file tells the elements and where they are"
                    )
            return
        if self.elements is None:
            yield Problem("elements", "three integers >= 1 as [E_z, E_y, E_x], or a file as grid.mesh")
            return
        points = math.prod(self.elements) * (self.order + 1) ** 3
        if max(self.elements) > MOST_ELEMENTS or points > MOST_POINTS:
            yield Problem(
                "elements",
                f"three integers >= 1 and <= {MOST_ELEMENTS} as [E_z, E_y, E_x], and at most 2^53 points of "
                "(order + 1)^3 in each",
            )
        for kind, parameter in zip(self.distribution, self.distribution_parameter):
            if kind == "sine" and parameter > math.pi / 2:
                yield Problem("distribution_parameter", "a number in (0, pi/2] for a sine distribution")
        if self.mapping not in NAMED_MAPPINGS and not re.fullmatch(r".+\.py:[A-Za-z_]\w*", self.mapping):
            yield Problem("mapping", '"none", "wavy", "annulus", "periodic-hill" or "file.py:function"')
