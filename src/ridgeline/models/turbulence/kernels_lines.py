"""The nonlinear term and the Runge-Kutta substep on lines of modes along y, line by line in the first-level cache.

Complex numbers are passed as real arrays, real and imaginary parts alternating. A tile is real [variable, line, 2 N_y
+ pitch]; a line's modes j_y = 0 ... most lie at its begin, those of -most ... -1 at its end, as in an FFT's output.
The integrating factor exp(r(k) dt) is the product of a factor of the line and one of j_y, and so is the phase
exp(i k.d) of a grid displaced by d: no exponential is computed per mode.
"""

from numba import njit


@njit(cache=True, nogil=True)
def _turn(a, re, im, first, end, out):
    """Multiply the complex numbers first ... end - 1 of a by re + i im."""
    for y in range(first, end):
        real, imag = a[2 * y], a[2 * y + 1]
        out[2 * y] = re[y] * real - im[y] * imag
        out[2 * y + 1] = re[y] * imag + im[y] * real


@njit(cache=True, nogil=True)
def _phase(line, along_y, out):
    """Set out[0], out[1] to the real and imaginary parts of line * along_y. line : (2,), along_y : (2, N_y)."""
    re, im = line[0], line[1]
    for y in range(along_y.shape[1]):
        out[0, y] = re * along_y[0, y] - im * along_y[1, y]
        out[1, y] = re * along_y[1, y] + im * along_y[0, y]


@njit(cache=True, nogil=True)
def _gradient(ax, xy, az, yz, ky, kx, kz, flat, re, im, first, end, out_x, out_y, out_z):
    """Set out = (re + i im) P m, m_l = k_m T_lm, for modes first ... end - 1 of a line; may overwrite ax, xy, az.

    ax, xy, az, yz : A_x, T_xy, A_z, T_yz; flat : k_x^2 + k_z^2, of the line k_x = k_z = 0 a tiny number instead,
    so that the mean divides nothing by something: its m is zero.
    """
    for y in range(first, end):
        k = ky[y]
        inverse = 1 / (flat + k * k)
        a, b, c, d = ax[2 * y], xy[2 * y], az[2 * y], yz[2 * y]
        xr, yr, zr = a + k * b, kx * b + kz * d, c + k * d
        a, b, c, d = ax[2 * y + 1], xy[2 * y + 1], az[2 * y + 1], yz[2 * y + 1]
        xi, yi, zi = a + k * b, kx * b + kz * d, c + k * d
        along = (kx * xr + k * yr + kz * zr) * inverse
        xr, yr, zr = xr - kx * along, yr - k * along, zr - kz * along
        along = (kx * xi + k * yi + kz * zi) * inverse
        xi, yi, zi = xi - kx * along, yi - k * along, zi - kz * along
        p, q = re[y], im[y]
        out_x[2 * y], out_x[2 * y + 1] = p * xr - q * xi, p * xi + q * xr
        out_y[2 * y], out_y[2 * y + 1] = p * yr - q * yi, p * yi + q * yr
        out_z[2 * y], out_z[2 * y + 1] = p * zr - q * zi, p * zi + q * zr


@njit(cache=True, nogil=True)
def _flux(b, fy, ky, re, im, first, end, out):
    """Set out = (re + i im)(b + k_y F_y): a scalar's nonlinear term. May overwrite b."""
    for y in range(first, end):
        real, imag = b[2 * y] + ky[y] * fy[2 * y], b[2 * y + 1] + ky[y] * fy[2 * y + 1]
        out[2 * y], out[2 * y + 1] = re[y] * real - im[y] * imag, re[y] * imag + im[y] * real


@njit(cache=True, nogil=True)
def _power(e, n, factor, out):
    """Set out = factor e^n, n = 0, 1 or 2."""
    if n == 0:
        out[:] = factor
    elif n == 1:
        for y in range(len(e)):
            out[y] = factor * e[y]
    else:
        for y in range(len(e)):
            out[y] = factor * (e[y] * e[y])


@njit(cache=True, nogil=True)
def _substep(rate, now, base, factors, first, end, out_stage, out_kept):
    """Set out_stage = factors[0] now + factors[1] rate, out_kept = factors[2] base + factors[3] rate of some modes.

    rate, out_stage : lines of a tile from mode `first` on; now, base, out_kept : pieces of fields, whose number 0 is
    mode `first`. out_stage may be rate; out_kept may be now or base.
    """
    p, q, r, s = factors[0], factors[1], factors[2], factors[3]
    for i in range(end - first):
        y = first + i
        real, imag = rate[2 * y], rate[2 * y + 1]
        stage_real = p[y] * now[2 * i] + q[y] * real
        stage_imag = p[y] * now[2 * i + 1] + q[y] * imag
        out_kept[2 * i], out_kept[2 * i + 1] = (
            r[y] * base[2 * i] + s[y] * real,
            r[y] * base[2 * i + 1] + s[y] * imag,
        )
        out_stage[2 * y], out_stage[2 * y + 1] = stage_real, stage_imag


@njit(cache=True, nogil=True)
def load_lines(fields, first_line, n_lines, start, n_y, phase_line, phase_y, work, out_tile):
    """Fill a tile with fields displaced by a phase, zeros where no mode is retained.

    Parameters
    ----------
    fields : (n, 2 n_modes) real view; start : (lines of the rank + 1,) int64
    phase_line : (lines of the rank, 2), phase_y : (2, n_y) real: exp(i k.d) as a product
    work : (>= 2, n_y) real, overwritten
    out_tile : (>= n, >= n_lines, >= 2 n_y) real view
    """
    for l in range(n_lines):
        begin, stop = start[first_line + l], start[first_line + l + 1]
        most = (stop - begin) // 2
        _phase(phase_line[first_line + l], phase_y, work)
        for v in range(fields.shape[0]):
            line = out_tile[v, l]
            line[: 2 * (most + 1)] = fields[v, 2 * begin : 2 * (begin + most + 1)]
            line[2 * (most + 1) : 2 * (n_y - most)] = 0
            line[2 * (n_y - most) : 2 * n_y] = fields[v, 2 * (begin + most + 1) : 2 * stop]
            _turn(line, work[0], work[1], 0, most + 1, line)
            _turn(line, work[0], work[1], n_y - most, n_y, line)


@njit(cache=True, nogil=True)
def advance_lines(
    tile, first_line, n_lines, start, waves, ky, undo, following, decay, powers, steps, scale, last,
    forced, forced_values, now, base, kept, work,
):  # fmt: skip
    """Turn what came back of the products into the next stage velocity, and advance what is stored, in place.

    Parameters
    ----------
    tile : (>= 4 + 2 S, >= n_lines, >= 2 n_y) real view, transformed in y: see `kernels`; replaced by 3 + S fields of
        the next stage, displaced for it, zeros where no mode is retained; undefined if `last`
    start : (lines of the rank + 1,) int64; waves : (lines of the rank, 3) k_x, k_z, k_x^2 + k_z^2; ky : (n_y,)
    undo, following : pairs (phase of lines, phase along y) as in `load_lines`, of this substep and of the next
    decay : pair of (1 + S, lines of the rank) and (1 + S, n_y): factors whose product is the integrating factor e of
        velocity and of each scalar
    powers, steps : (4,) int64, (4,): with N the rate of this substep, the next stage is steps[0] e^powers[0] now +
        steps[1] e^powers[1] N, and kept = steps[2] e^powers[2] base + steps[3] e^powers[3] N
    scale : of the transforms
    last : whether no stage follows
    forced : (lines of the rank + 1,) int64 begins of the forced modes of each line, and (n_forced,) their places
        among 0 ... n_y - 1; forced_values : (3, 2 n_forced) force on each, added to N
    now, base, kept : (3 + S, 2 n_modes) real views, some of them the same array
    work : (8, n_y) real, overwritten

    Cost: reads `now` and `base` and writes `kept` once, one division and about 90 + 30 S operations a mode.
    Source: paper, Eqs. (6), (7).
    """
    n_y = len(ky)
    n_scalars = now.shape[0] - 3
    factors = work[4:]
    e = work[2]
    forced_begin, forced_place = forced
    for l in range(n_lines):
        line = first_line + l
        begin, stop = start[line], start[line + 1]
        most = (stop - begin) // 2
        kx, kz, flat = waves[line, 0], waves[line, 1], waves[line, 2]
        # -i times the conjugate of the phase, times scale
        _phase(undo[0][line], undo[1], work)
        for y in range(n_y):
            re, im = work[0, y], work[1, y]
            work[0, y], work[1, y] = -im * scale, -re * scale
        for half in range(2):
            first, end = (0, most + 1) if half == 0 else (n_y - most, n_y)
            _gradient(
                tile[0, l], tile[1, l], tile[2, l], tile[3, l], ky, kx, kz, flat, work[0], work[1], first, end,
                tile[0, l], tile[1, l], tile[2, l],
            )  # fmt: skip
            for s in range(n_scalars):
                _flux(
                    tile[4 + 2 * s, l], tile[5 + 2 * s, l], ky, work[0], work[1], first, end, tile[3 + s, l]
                )
        for i in range(forced_begin[line], forced_begin[line + 1]):
            y = forced_place[i]
            for v in range(3):
                tile[v, l, 2 * y] += forced_values[v, 2 * i]
                tile[v, l, 2 * y + 1] += forced_values[v, 2 * i + 1]
        if not last:
            _phase(following[0][line], following[1], work)
        for v in range(3 + n_scalars):
            if v == 0 or v >= 3:
                kind = max(0, v - 2)
                of_line = decay[0][kind, line]
                for y in range(n_y):
                    e[y] = of_line * decay[1][kind, y]
                for i in range(4):
                    _power(e, powers[i], steps[i], factors[i])
            rate = tile[v, l]
            for half in range(2):
                first, end, place = (0, most + 1, begin) if half == 0 else (n_y - most, n_y, begin + most + 1)
                p, q = 2 * place, 2 * (place + end - first)
                _substep(rate, now[v, p:q], base[v, p:q], factors, first, end, rate, kept[v, p:q])
                if not last:
                    _turn(rate, work[0], work[1], first, end, rate)
            rate[2 * (most + 1) : 2 * (n_y - most)] = 0
