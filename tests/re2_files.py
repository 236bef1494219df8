"""Nek5000's .re2 files, written by tests: any version and byte order."""

import numpy as np

from ridgeline.io.meshes.re2 import CORNERS, WORDS

EDGE_OF = {  # our corners of the edges 1 ... 12 of the file
    1: (0, 1), 2: (1, 3), 3: (3, 2), 4: (2, 0), 5: (4, 5), 6: (5, 7), 7: (7, 6), 8: (6, 4),
    9: (0, 4), 10: (1, 5), 11: (3, 7), 12: (2, 6),
}  # fmt: skip
FACE_OF = {0: 4, 1: 2, 2: 1, 3: 3, 4: 5, 5: 6}  # of the file, by our faces


def write_re2(path, corners, curves=(), faces=(), version="#v002", order="<", dimensions=3):
    """Write elements with corners [E, 8, 3] in our order.

    curves: (element, edge of the file, values, letter); faces: (element, our face, letters, values), elements from 0.
    """
    words = WORDS.get(version, 8)
    number, whole = f"{order}f{words}", f"{order}{'i4' if words == 4 else 'f8'}"
    n = len(corners)
    data = (
        f"{version}{n:9d}{dimensions:3d}{n:9d} hdr".ljust(80).encode()
        + np.array(6.54321, f"{order}f4").tobytes()
    )
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
    data += np.array([len(faces)], whole).tobytes()
    for element, face, letters, values in faces:
        data += record(element, FACE_OF[face], values, letters)
    path.write_bytes(data)
    return path
