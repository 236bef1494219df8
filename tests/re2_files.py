"""Nek5000's .re2 files, written by tests: any version and byte order."""

from itertools import pairwise

import numpy as np

from ridgeline.io.nek5000_mesh import CORNERS, WORDS

EDGE_OF = {  # our corners of the edges 1 ... 12 of the file
    1: (0, 1), 2: (1, 3), 3: (3, 2), 4: (2, 0), 5: (4, 5), 6: (5, 7), 7: (7, 6), 8: (6, 4),
    9: (0, 4), 10: (1, 5), 11: (3, 7), 12: (2, 6),
}  # fmt: skip
FACE_OF = {0: 4, 1: 2, 2: 1, 3: 3, 4: 5, 5: 6}  # of the file, by our faces


def write_re2(
    path, corners, curves=(), faces=(), version="#v002", order="<", dimensions=3, fluid=None, scalars=0
):
    """Write elements with corners [E, 8, 3] in our order; fluid: how many of them are no solid, None for all.

    scalars: how many times the faces are there once more.

    curves: (element, edge of the file, values, letter); faces: (element, our face, letters, values), elements from 0.
    """
    words = WORDS.get(version, 8)
    number, whole = f"{order}f{words}", f"{order}{'i4' if words == 4 else 'f8'}"
    n = len(corners)
    fluid = n if fluid is None else fluid
    counts = (
        f"{n:16d}{dimensions:3d}{fluid:16d}{1:4d}"
        if version == "#v004"
        else f"{n:9d}{dimensions:3d}{fluid:9d}"
    )
    data = f"{version}{counts} hdr".ljust(80).encode() + np.array(6.54321, f"{order}f4").tobytes()
    places = np.asarray(corners)[:, CORNERS]  # swaps two and two: its own inverse
    for element in places:
        data += np.zeros(1, number).tobytes() + element.T.astype(number).tobytes()

    def record(element, part, values, letters):
        padded = np.zeros(5)
        padded[: len(values)] = values
        return (
            np.array([element + 1, part], whole).tobytes()
            + padded.astype(number).tobytes()
            + letters.ljust(3).encode().ljust(words, b"\0" if words == 8 else b" ")[:words]
        )

    data += np.array([len(curves)], whole).tobytes()
    for element, edge, values, letter in curves:
        data += record(element, edge, values, letter)
    of_faces = np.array([len(faces)], whole).tobytes()
    for element, face, letters, values in faces:
        of_faces += record(element, FACE_OF[face], values, letters)
    data += of_faces * (1 + scalars)
    path.write_bytes(data)
    return path


def write_butterfly(path, heights=(0.0, 0.4, 1.0)):
    """Write a cylinder of radius 1 around z: four elements about a line beside the axis, eight around them; uneven.

    The round side "W" has arcs, the edges below it have parabolas; "B" is the lower side, "T" the upper one.
    """
    angle = np.arange(8) * np.pi / 4 + np.array([0.1, -0.05, 0.0, 0.1, -0.1, 0.05, 0.1, 0.0])
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inner = rim * np.array([0.45, 0.6, 0.5, 0.6, 0.45, 0.55, 0.5, 0.6])[:, None]
    bulge = (inner + np.roll(inner, -1, axis=0)) / 2 * 1.03
    plane = [((0.05, -0.05), inner[i], inner[(i + 2) % 8], inner[i + 1]) for i in (0, 2, 4, 6)]
    bent = [[(2, "m", bulge[i]), (3, "m", bulge[i + 1])] for i in (0, 2, 4, 6)]
    plane += [(inner[i], rim[i], inner[(i + 1) % 8], rim[(i + 1) % 8]) for i in range(8)]
    bent += [[(2, "C", (1.0,)), (4, "m", bulge[i])] for i in range(8)]
    corners, curves, faces = [], [], []
    for layer, ends in enumerate(pairwise(heights)):
        for block, (flat, edges) in enumerate(zip(plane, bent)):
            element = len(corners)
            corners.append([(*place, z) for z in ends for place in flat])
            for level, z in enumerate(ends):
                curves += [
                    (element, edge + 4 * level, at if kind == "C" else (*at, z), kind)
                    for edge, kind, at in edges
                ]
            faces += [(element, 1, "W", ())] if block >= 4 else []
            faces += [(element, 4, "B", ())] if layer == 0 else []
            faces += [(element, 5, "T", ())] if layer == len(heights) - 2 else []
    return write_re2(path, np.array(corners), curves, faces)
