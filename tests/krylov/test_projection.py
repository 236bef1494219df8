"""Initial guesses by projection: best in the energy norm over the last solutions, and restored to the bit."""

import numpy as np
import pytest

from linalg_toys import DenseOperator, path_laplacian, random_places, random_positive
from ridgeline.krylov.cg import cg
from ridgeline.krylov.projection import Projection
from ridgeline.runtime.regions import Regions

N = 40
DEPTH = 4


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
def operator(rng: np.random.Generator) -> DenseOperator:
    matrices = [random_positive(rng, N, k) for k in (10.0, 100.0)]
    return DenseOperator(matrices, random_places(rng, N), rng.uniform(0.5, 2, N), ((0,), (3, 4)))


def step(projection: Projection, operator: DenseOperator, b: np.ndarray) -> np.ndarray:
    """Guess, solve exactly, update; return the guess."""
    x, r = np.empty_like(b), np.empty_like(b)
    projection.guess(b, x, r)
    applied = np.empty_like(b)
    operator.apply(x, applied)
    np.testing.assert_allclose(r, b - applied, atol=1e-12 * np.abs(b).max())
    dx = operator.solve(r)
    operator.apply(dx, applied)
    projection.update(dx, r, r - applied)
    return x


@pytest.mark.parametrize("depth", [1, DEPTH, 12, 20])
def test_guess_is_the_best_combination_of_the_last_solutions(operator, rng, depth) -> None:
    """Against dense energy-norm least squares, for as many steps as the space is filled three times over."""
    projection = Projection(operator, depth, 2)
    solutions: list[np.ndarray] = []
    sizes = []
    for _ in range(3 * depth):
        b = operator.spread(rng.standard_normal((2, N)))
        guess = operator.distinct(step(projection, operator, b))
        sizes.append(int(projection.counts[0]))
        exact = operator.distinct(operator.solve(b))
        for c in range(2):
            best = np.zeros(N)
            if solutions:
                a = operator.matrices[c]
                space = np.stack([s[c] for s in solutions[-sizes[-1] :]], axis=1)
                best = space @ np.linalg.solve(space.T @ a @ space, space.T @ a @ exact[c])
            np.testing.assert_allclose(guess[c], best, atol=1e-9)
        solutions.append(exact)
    assert sizes == [*range(depth), *[depth] * (2 * depth)]


@pytest.mark.parametrize("depth", [DEPTH, 12])
def test_basis_stays_orthonormal_over_many_steps(operator, rng, depth) -> None:
    projection = Projection(operator, depth, 2)
    for t in range(300):
        phase = 0.01 * (t + 30) * np.arange(N)
        step(projection, operator, operator.spread(np.stack([np.sin(phase), np.cos(2 * phase)])))
    for c in range(2):
        assert projection.counts[c] == depth
        rows = operator.distinct(projection.basis[c, :depth])
        np.testing.assert_allclose(rows @ operator.matrices[c] @ rows.T, np.eye(depth), atol=1e-9)


def test_iterations_fall_for_a_slowly_varying_sequence(rng) -> None:
    operator = DenseOperator([random_positive(rng, N, 1e4)], random_places(rng, N))
    diagonal = operator.inverse_diagonal()[0]
    shapes = rng.standard_normal((3, N))
    counts = {}
    for depth in (0, 6):
        projection, counts[depth] = Projection(operator, depth), 0
        for t in range(20):
            wave = np.cos(0.05 * t), np.sin(0.08 * t), np.exp(-0.05 * t)
            b = operator.spread(np.tensordot(wave, shapes, 1))
            x, r, dx, left = (np.empty_like(b) for _ in range(4))
            projection.guess(b, x, r)
            result = cg(operator, r, dx, diagonal, 1e-8, 500, zero_guess=True, residual=left)
            projection.update(dx, r, left)
            assert result.converged
            np.testing.assert_allclose(x + dx, operator.solve(b), atol=1e-6)
            counts[depth] += result.iterations * (t >= 8)
    assert counts[6] < 0.3 * counts[0]


def test_loosely_solved_steps_keep_a_good_space(rng) -> None:
    """Solves that stop at a tenth of the residual: dx is orthogonalised, so that guesses get better all the same."""
    operator = DenseOperator([random_positive(rng, N, 1e3)], random_places(rng, N))
    projection, given = Projection(operator, 8), operator.spread(rng.standard_normal(N))
    sizes = []
    for _ in range(12):
        x, r, dx, left = (np.empty_like(given) for _ in range(4))
        projection.guess(given, x, r)
        sizes.append(float(operator.inner.norm(r)[0]))
        cg(
            operator,
            r,
            dx,
            operator.inverse_diagonal()[0],
            0.1 * sizes[-1],
            50,
            zero_guess=True,
            residual=left,
        )
        projection.update(dx, r, left)
    assert sizes[-1] < 1e-5 * sizes[0]
    rows = operator.distinct(projection.basis[0, : projection.counts[0]])
    np.testing.assert_allclose(rows @ operator.matrices[0] @ rows.T, np.eye(len(rows)), atol=1e-8)


def test_repeated_and_zero_solutions_do_not_enter(operator, rng) -> None:
    projection = Projection(operator, DEPTH, 2)
    b = operator.spread(rng.standard_normal((2, N)))
    for _ in range(4):
        step(projection, operator, b)
    x, r = np.empty_like(b), np.empty_like(b)
    projection.guess(b, x, r)
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-10)
    assert projection.counts.tolist() == [1, 1]
    projection.update(np.zeros_like(b), r, r)
    projection.guess(b, x, r)
    assert projection.counts.tolist() == [1, 1]
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-10)


def test_nan_does_not_poison_the_space(operator, rng) -> None:
    projection = Projection(operator, DEPTH, 2)
    b = operator.spread(rng.standard_normal((2, N)))
    step(projection, operator, b)
    bad, x, r = b.copy(), np.empty_like(b), np.empty_like(b)
    bad[0, 2] = np.nan
    projection.guess(bad, x, r)
    assert not x[0].any()
    projection.update(np.full_like(b, np.nan), b, r)
    projection.guess(b, x, r)
    np.testing.assert_allclose(x, operator.solve(b), atol=1e-10)


def test_reset_forgets_and_depth_zero_guesses_nothing(operator, rng) -> None:
    b = operator.spread(rng.standard_normal((2, N)))
    empty, projection = Projection(operator, 0, 2), Projection(operator, DEPTH, 2)
    for _ in range(2):
        assert not step(empty, operator, b).any()
        step(projection, operator, b)
    projection.reset()
    assert projection.size == 0
    assert not step(projection, operator, b).any()


@pytest.mark.parametrize("change", [3.0, -0.4])
@pytest.mark.parametrize("steps", [1, 3, 2 * DEPTH])
def test_a_shifted_operator_keeps_the_space(operator, rng, steps, change) -> None:
    """The guess is the best combination of the same solutions in the energy norm of A + change B."""
    projection = Projection(operator, DEPTH, 2)
    solutions: list[np.ndarray] = []
    for _ in range(steps):
        b = operator.spread(rng.standard_normal((2, N)))
        step(projection, operator, b)
        solutions.append(operator.distinct(operator.solve(b)))
    for c, free in enumerate(operator.free):
        operator.matrices[c] += change * np.diag(operator.distinct(operator.inner.mass) * free)
    projection.shift(change)
    for _ in range(2 * DEPTH):
        b = operator.spread(rng.standard_normal((2, N)))
        guess = operator.distinct(step(projection, operator, b))
        exact = operator.distinct(operator.solve(b))
        for c in range(2):
            a, space = operator.matrices[c], np.stack([s[c] for s in solutions[-DEPTH:]], axis=1)
            best = space @ np.linalg.solve(space.T @ a @ space, space.T @ a @ exact[c])
            np.testing.assert_allclose(guess[c], best, atol=1e-9)
            rows = operator.distinct(projection.basis[c, : projection.counts[c]])
            np.testing.assert_allclose(rows @ a @ rows.T, np.eye(len(rows)), atol=1e-9)
        solutions.append(exact)


def test_a_shift_before_the_first_solution_is_nothing(operator) -> None:
    projection = Projection(operator, DEPTH, 2)
    projection.shift(0.5)
    assert projection.size == 0


def test_restored_space_gives_the_same_bits(operator, rng) -> None:
    sequence = [operator.spread(rng.standard_normal((2, N))) for _ in range(14)]
    whole = Projection(operator, DEPTH, 2)
    guesses = [step(whole, operator, b) for b in sequence]
    for cut in (1, 3, 7):
        first, second = Projection(operator, DEPTH, 2), Projection(operator, DEPTH, 2)
        for b in sequence[:cut]:
            step(first, operator, b)
        for name, array in second.fields().items():
            array[...] = first.fields()[name]
        second.restore(first.numbers())
        for b, expected in zip(sequence[cut:], guesses[cut:]):
            np.testing.assert_array_equal(step(second, operator, b), expected)
    with pytest.raises(ValueError, match="depth 3"):
        Projection(operator, 3, 2).restore(whole.numbers())


def test_one_application_per_step(rng) -> None:
    operator = DenseOperator([path_laplacian(N, rng) + np.eye(N)], random_places(rng, N))
    regions = Regions()
    projection = Projection(operator, DEPTH, regions=regions)
    b = operator.spread(rng.standard_normal(N))
    x, r = np.empty_like(b), np.empty_like(b)
    for k in range(3):
        projection.guess(b * (k + 1), x, r)
        dx = operator.solve(r)
        before = operator.applications
        projection.update(dx, r, np.zeros_like(r))
        assert operator.applications == before
        projection.guess(b, x, r)
        assert operator.applications == before + 1
    assert regions.table["projection"].bytes > 0
