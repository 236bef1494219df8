"""Gauss-Seidel sweeps and products with a matrix A = L + D + U whose triangles are stored by runs.

Rows are in an order by dependency level (`sparse_levels.level_order`); L and U are `sparse_runs.Runs` that share
their runs (`sparse_runs.make_halves`). Vectors are float64, in that order, at least [n] (external columns behind it
are neither read nor written). Each function is one pass: every value of a triangle is read once. Serial.

Symmetric Gauss-Seidel on A x = r is `forward_zero` (from x = 0) or `forward` (from any x), then `backward`. A sweep
hands on half = D x + U x as it left them: so the forward sweep need not read U, nor the backward sweep L.
"""

from numba import njit


@njit(cache=True)
def forward_zero(lower, r, inverse_diagonal, x, half):
    """Solve (D + L) x = r and keep half = r - L x = D x: a forward sweep from x = 0."""
    for run in range(lower.run_rows.size - 1):
        _forward_zero_run(lower, run, r, inverse_diagonal, x, half)


@njit(cache=True)
def _row_sum(runs, run, row, x):
    """Return row `row` of run `run` times x."""
    first, end = runs.run_rows[run], runs.run_rows[run + 1]
    slot, slots = runs.run_slots[run], runs.run_slots[run + 1] - runs.run_slots[run]
    chunk = (row - first) // 8 * 8
    width = min(8, end - first - chunk)
    start = runs.run_values[run] + chunk * slots + (row - first - chunk)
    total = 0.0
    for s in range(slots):
        total += runs.values[start + s * width] * x[runs.slot_columns[slot + s] + row - first]
    return total


@njit(cache=True)
def _forward_zero_run(lower, run, r, inverse_diagonal, x, half):
    for row in range(lower.run_rows[run], lower.run_rows[run + 1]):
        half[row] = r[row] - _row_sum(lower, run, row, x)
        x[row] = half[row] * inverse_diagonal[row]


@njit(cache=True)
def forward(lower, r, half, inverse_diagonal, x):
    """Sweep forward from any x: x_i += (new - half_i) / D_i, half_i = new with new = r_i - (L x)_i.

    half must hold D x + U x on entry.
    """
    for row_run in range(lower.run_rows.size - 1):
        for row in range(lower.run_rows[row_run], lower.run_rows[row_run + 1]):
            new = r[row] - _row_sum(lower, row_run, row, x)
            x[row] += (new - half[row]) * inverse_diagonal[row]
            half[row] = new


@njit(cache=True)
def backward(upper, half, inverse_diagonal, x):
    """Solve (D + U) x = half: a backward sweep after `forward_zero` or `forward`."""
    for level in range(upper.level_runs.size - 2, -1, -1):
        for run in range(upper.level_runs[level], upper.level_runs[level + 1]):
            for row in range(upper.run_rows[run], upper.run_rows[run + 1]):
                x[row] = (half[row] - _row_sum(upper, run, row, x)) * inverse_diagonal[row]


@njit(cache=True)
def backward_dot(upper, half, inverse_diagonal, x, r):
    """Do `backward` and return the sum of r x over the rows."""
    total = 0.0
    for level in range(upper.level_runs.size - 2, -1, -1):
        for run in range(upper.level_runs[level], upper.level_runs[level + 1]):
            part = 0.0
            for row in range(upper.run_rows[run], upper.run_rows[run + 1]):
                x[row] = (half[row] - _row_sum(upper, run, row, x)) * inverse_diagonal[row]
                part += x[row] * r[row]
            total += part
    return total


@njit(cache=True)
def multiply(lower, upper, diagonal, x, y):
    """Set y = (L + D + U) x."""
    for run in range(lower.run_rows.size - 1):
        for row in range(lower.run_rows[run], lower.run_rows[run + 1]):
            y[row] = diagonal[row] * x[row] + _row_sum(lower, run, row, x) + _row_sum(upper, run, row, x)


@njit(cache=True)
def multiply_dot(lower, upper, diagonal, x, y):
    """Set y = (L + D + U) x and return the sum of x y over the rows."""
    total = 0.0
    for run in range(lower.run_rows.size - 1):
        part = 0.0
        for row in range(lower.run_rows[run], lower.run_rows[run + 1]):
            y[row] = diagonal[row] * x[row] + _row_sum(lower, run, row, x) + _row_sum(upper, run, row, x)
            part += x[row] * y[row]
        total += part
    return total
