"""Cell-centred multigrid on the whole grid in plain NumPy: the oracle of `blocks/multigrid/`, written to be read.

A level is a list of one-dimensional widths and values of beta at faces; every operator is a few lines of whole
arrays. Nothing of the solver is used but the plan of the levels and the factors of Chebyshev's steps.
"""

import numpy as np

JUMP = 8.0  # faces next to each other whose beta differs by more are not averaged


def along(values: np.ndarray, axis: int) -> np.ndarray:
    """Shape the values of an axis so that they multiply arrays [z, y, x]."""
    shape = [1, 1, 1]
    shape[axis] = -1
    return np.asarray(values).reshape(shape)


class ReferenceLevel:
    """The equation of one level: sum over faces of conductance (x - neighbour) + reaction x = b, per volume."""

    def __init__(self, widths, sides, reaction, faces) -> None:
        self.widths, self.sides, self.reaction, self.faces = widths, sides, reaction, faces
        self.shape = tuple(map(len, widths))
        self.diagonal = np.array(reaction, float)
        self.lower, self.upper = [], []
        for axis, (w, pair) in enumerate(zip(widths, sides)):
            n = len(w)
            # Distances between the points on both sides of each of the n + 1 faces; a side is a point itself.
            distance = np.concatenate([[w[0] / 2], (w[1:] + w[:-1]) / 2, [w[-1] / 2]])
            passes = np.ones(n + 1)
            if pair == "periodic":
                distance[[0, -1]] = (w[0] + w[-1]) / 2
                passes[[0, -1]] = n > 1
            else:
                passes[[0, -1]] = [pair[0] == "dirichlet", pair[1] == "dirichlet"]
            conductance = faces[axis] * along(passes / distance, axis)
            self.lower.append(np.take(conductance, range(n), axis) / along(w, axis))
            self.upper.append(np.take(conductance, range(1, n + 1), axis) / along(w, axis))
            self.diagonal = self.diagonal + self.lower[-1] + self.upper[-1]

    def neighbours(self, x: np.ndarray, axes=(0, 1, 2)) -> np.ndarray:
        """Sum conductance times neighbour; beyond a side that is not periodic there is 0."""
        total = np.zeros(self.shape)
        for axis in axes:
            below, above = np.roll(x, 1, axis), np.roll(x, -1, axis)
            if self.sides[axis] != "periodic":
                np.moveaxis(below, axis, 0)[0] = 0
                np.moveaxis(above, axis, 0)[-1] = 0
            total += self.lower[axis] * below + self.upper[axis] * above
        return total

    def residual(self, b: np.ndarray, x: np.ndarray) -> np.ndarray:
        return b + self.neighbours(x) - self.diagonal * x

    def smooth(self, b: np.ndarray, x: np.ndarray, taus, lines: bool) -> np.ndarray:
        for tau in taus:
            if lines:
                target = self.solve_columns(b + self.neighbours(x, (1, 2)))
            else:
                target = (b + self.neighbours(x)) / self.diagonal
            x = x + tau * (target - x)
        return x

    def solve_columns(self, right: np.ndarray) -> np.ndarray:
        """Solve for each column along z with the columns beside it on the right-hand side."""
        out, n = np.empty(self.shape), self.shape[0]
        lower, upper = (np.broadcast_to(part[0], self.shape) for part in (self.lower, self.upper))
        for j, i in np.ndindex(self.shape[1:]):
            matrix = np.diag(self.diagonal[:, j, i])
            matrix[range(1, n), range(n - 1)] -= lower[1:, j, i]
            matrix[range(n - 1), range(1, n)] -= upper[:-1, j, i]
            out[:, j, i] = np.linalg.solve(matrix, right[:, j, i])
        return out

    def matrix(self) -> np.ndarray:
        units = np.eye(int(np.prod(self.shape))).reshape(-1, *self.shape)
        return np.array([-self.residual(np.zeros(self.shape), unit).ravel() for unit in units]).T


class ReferenceMultigrid:
    """V-cycles of one smoothing before and one after the coarser level."""

    def __init__(self, plan, sides, taus, lines, reaction, faces) -> None:
        self.plan, self.taus, self.lines = plan, taus, lines
        self.levels = [ReferenceLevel(plan[0].widths, sides, reaction, faces)]
        for coarse in plan[1:]:
            fine = self.levels[-1]
            reaction = self.means(fine, coarse, fine.reaction, (0, 1, 2))
            faces = [
                self.means(fine, coarse, self.across(face, coarse, axis, sides[axis]), {0, 1, 2} - {axis})
                for axis, face in enumerate(fine.faces)
            ]
            self.levels.append(ReferenceLevel(coarse.widths, sides, reaction, faces))

    @staticmethod
    def across(face: np.ndarray, coarse, axis: int, pair) -> np.ndarray:
        """Average beta harmonically from centre to centre of coarser cells, one face after the other."""
        face = np.moveaxis(face, axis, 0)
        starts, result = coarse.aggregates[axis], []
        n = len(starts) - 1
        for place in range(n + 1):
            here, way = face[starts[place]], []
            for cell in (place - 1, place):
                if pair == "periodic":
                    cell %= n
                if 0 <= cell < n and starts[cell + 1] - starts[cell] == 2:
                    way.append((0.5, face[starts[cell] + 1]))
            way.append((1.0 if pair == "periodic" or 0 < place < n else 0.5, here))
            values = np.array([beta for _, beta in way])
            mean = sum(length for length, _ in way) / sum(length / beta for length, beta in way)
            result.append(np.where(values.max(0) <= JUMP * values.min(0), mean, here))
        return np.moveaxis(np.array(result), 0, axis)

    @staticmethod
    def means(fine: ReferenceLevel, coarse, values: np.ndarray, axes) -> np.ndarray:
        """Average over aggregates along some axes."""
        for axis in axes:
            weighted = values * along(fine.widths[axis], axis)
            sums = np.add.reduceat(weighted, coarse.aggregates[axis][:-1], axis)
            values = sums / along(coarse.widths[axis], axis)
        return values

    @staticmethod
    def interpolate(fine: ReferenceLevel, coarse: ReferenceLevel, values: np.ndarray) -> np.ndarray:
        """Interpolate linearly between centres along each axis that is coarsened; sides are points."""
        for axis, (w, wide, pair) in enumerate(zip(fine.widths, coarse.widths, fine.sides)):
            if len(w) == len(wide):
                continue
            centres, length = np.cumsum(wide) - wide / 2, wide.sum()
            lines = np.moveaxis(values, axis, -1)
            if pair == "periodic":
                places = np.concatenate([[centres[-1] - length], centres, [centres[0] + length]])
                lines = np.concatenate([lines[..., -1:], lines, lines[..., :1]], -1)
            else:
                places = np.concatenate([[0.0], centres, [length]])
                ends = [
                    lines[..., end : end + 1 or None] * (kind == "neumann")
                    for end, kind in zip((0, -1), pair)
                ]
                lines = np.concatenate([ends[0], lines, ends[1]], -1)
            points = np.cumsum(w) - w / 2
            lines = np.array(
                [np.interp(points, places, line) for line in lines.reshape(-1, len(places))]
            ).reshape(*lines.shape[:-1], len(points))
            values = np.moveaxis(lines, -1, axis)
        return values

    def cycle(self, b: np.ndarray, x: np.ndarray, index: int = 0) -> np.ndarray:
        level = self.levels[index]
        if index == len(self.levels) - 1:
            # The least-squares solution of least norm is that of mean 0 where constants are the null space.
            weights = np.sqrt(np.einsum("i,j,k->ijk", *level.widths)).ravel()
            scaled = level.matrix() * weights[:, None] / weights[None, :]
            return (np.linalg.pinv(scaled, 1e-11) @ (b.ravel() * weights) / weights).reshape(b.shape)
        x = level.smooth(b, x, self.taus, self.lines)
        coarse = self.levels[index + 1]
        restricted = self.means(level, self.plan[index + 1], level.residual(b, x), (0, 1, 2))
        x = x + self.interpolate(level, coarse, self.cycle(restricted, np.zeros(coarse.shape), index + 1))
        return level.smooth(b, x, self.taus, self.lines)
