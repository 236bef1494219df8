"""Fused passes of nodal multigrid: relaxation with residual and restriction, correction with relaxation.

A pass walks through the planes once. The second half of its work follows the first at a distance of one plane, while
the planes are in cache. Fields are the flat memory of a `BlockArray`; a `layout` is its origin, plane pitch and row
pitch. A `box` holds the first nodes and the ends to compute, local: z0, z1, y0, y1, x0, x1. The tables of the axes
begin `MARGIN` places before the first owned node (nodal_tables.py). nodal_rows.py computes the rows.
"""

from __future__ import annotations

from numba import boolean, int64, types

from ridgeline.blocks.multigrid.nodal_rows import (
    FACTORS,
    LANES,
    LARGEST,
    LINE,
    MARGIN,
    RESIDUAL_FACTORS,
    STEPS,
    add_four_rows,
    add_residual,
    combine_rows,
    first_steps,
    relax_by_cells,
    relax_row,
    residual_by_cells,
    residual_row,
    set_factors,
    set_steps,
)
from ridgeline.jit.kernel import kernel, subroutine


@subroutine(nogil=True)
def clear_work(work):
    """Forget the largest residual, and the weights for which the steps of a row are known."""
    for i in range(LANES):
        work[LARGEST, i] = 0
    for i in range(18):
        work[FACTORS, i] = -1


@subroutine(nogil=True)
def largest_of(work):
    """Return the largest residual of a pass."""
    largest = work[LARGEST, 0]
    for i in range(1, LANES):
        # Written so that a NaN is kept.
        if not work[LARGEST, i] <= largest:
            largest = work[LARGEST, i]
    return largest


@subroutine(nogil=True)
def store_coarse_plane(sums, slot, centres, weights, coarse, start, pitch):
    """Restrict the finished sums of a coarse plane along x, store its rows from `start` on, and clear the sums."""
    before, own, after = weights[0], weights[1], weights[2]
    for j in range(sums.shape[1]):
        values, target = sums[slot, j], coarse[start + j * pitch : start + j * pitch + centres.shape[0]]
        for n in range(centres.shape[0]):
            c = centres[n]
            target[n] = before[n] * values[c - 1] + own[n] * values[c] + after[n] * values[c + 1]
        for i in range(values.shape[0]):
            values[i] = 0


def _fields_and_tables(T):
    """Return the types of the arguments that both passes begin with."""
    field, ints, tables = T[::1], int64[::1], types.UniTuple(T[:, ::1], 3)
    return field, field, field, ints, ints, T, tables, boolean, field, ints, T[:, ::1]


def _transfer(T):
    return types.UniTuple(int64[::1], 3), types.UniTuple(T[:, ::1], 3), T[::1], int64[::1]


@kernel(
    lambda T: (
        *_fields_and_tables(T),
        boolean,
        int64[::1],
        *_transfer(T),
        int64[::1],
        int64[::1],
        T[:, ::1],
        T[:, :, ::1],
    ),
    nogil=True,
)
def smooth_and_restrict(
    u, b, out, layout, box, weight, tables, by_cells, sigma, sigma_layout, work, zero_guess, residual_box,
    lower, parts, coarse, coarse_layout, coarse_shape, centres, weights, sums,
):  # fmt: skip
    """Set out = u + weight (b - A u) / diagonal in a box, restrict b - A out of a smaller box, return max |b - A u|.

    zero_guess: u is zero and is not read. An empty residual_box leaves the restriction out. Words per node: reads u
    and b, writes out, and writes the coarse field.
    """
    plane, pitch, count = layout[1], layout[2], box[5] - box[4]
    first, inner_count = residual_box[4] + MARGIN, residual_box[5] - residual_box[4]
    (table_z, table_y, table_x), (lower_z, lower_y, _), (parts_z, parts_y, _) = tables, lower, parts
    x, length, line = box[4] + MARGIN, work.shape[1], LINE // u.itemsize
    clear_work(work)
    for k in range(box[0], box[1] + 1):
        if k < box[1]:
            for j in range(box[2], box[3]):
                place = layout[0] + k * plane + j * pitch + box[4]
                if zero_guess:
                    first_steps(
                        tables, k + MARGIN, j + MARGIN, x, count, weight, by_cells, sigma,
                        sigma_layout, work
                    )  # fmt: skip
                    steps, target, result = work[STEPS], b[place : place + count], out[place : place + count]
                    for i in range(count):
                        result[i] = steps[i] * target[i]
                elif by_cells:
                    here = place - 1
                    relax_by_cells(
                        u, here - plane, here, here + plane, pitch, tables, k + MARGIN, j + MARGIN, x, count, b,
                        place, weight, sigma, sigma_layout, out, work,
                    )  # fmt: skip
                else:
                    known_a, known_b = work[FACTORS, 4], work[FACTORS, 13]
                    set_factors(table_z, table_y, k + MARGIN, j + MARGIN, work, FACTORS)
                    if work[FACTORS, 4] != known_a or work[FACTORS, 13] != known_b:
                        set_steps(table_x, x, count, weight, work)
                    skip = (place - 1) % line
                    here = place - 1 - skip
                    combine_rows(
                        count + 2 + skip, u, here - plane, here, here + plane, pitch, work, length, FACTORS
                    )
                    relax_row(
                        count, skip, work, length, table_x, table_x.shape[1], x, b, place, u, place, out
                    )
        r = k - 1
        if residual_box[0] <= r < residual_box[1]:
            for j in range(residual_box[2], residual_box[3]):
                place = layout[0] + r * plane + j * pitch + residual_box[4]
                if by_cells:
                    here = place - 1
                    residual_by_cells(
                        out, here - plane, here, here + plane, pitch, tables, r + MARGIN, j + MARGIN, first,
                        inner_count, b, place, sigma, sigma_layout, work,
                    )  # fmt: skip
                else:
                    set_factors(table_z, table_y, r + MARGIN, j + MARGIN, work, RESIDUAL_FACTORS)
                    skip = (place - 1) % line
                    here = place - 1 - skip
                    combine_rows(
                        inner_count + 2 + skip, out, here - plane, here, here + plane, pitch, work, length,
                        RESIDUAL_FACTORS,
                    )  # fmt: skip
                    residual_row(inner_count, skip, work, length, table_x, table_x.shape[1], first, b, place)
                # Add the residual, with the weights of the interpolation, to the sums of the coarse rows around it.
                for dz in range(2):
                    coarse_k, part_z = lower_z[r + MARGIN] + dz, parts_z[dz, r + MARGIN]
                    if part_z != 0 and 0 <= coarse_k < coarse_shape[0]:
                        for dy in range(2):
                            coarse_j, part_y = lower_y[j + MARGIN] + dy, parts_y[dy, j + MARGIN]
                            if part_y != 0 and 0 <= coarse_j < coarse_shape[1]:
                                at = (coarse_k % 2 * sums.shape[1] + coarse_j) * sums.shape[2] + 1
                                add_residual(inner_count, part_z * part_y, work, length, sums, at)
            coarse_k = lower_z[r + MARGIN]
            is_last = r + 1 == residual_box[1] or lower_z[r + 1 + MARGIN] > coarse_k
            if is_last and 0 <= coarse_k < coarse_shape[0]:
                start = coarse_layout[0] + coarse_k * coarse_layout[1]
                store_coarse_plane(sums, coarse_k % 2, centres, weights, coarse, start, coarse_layout[2])
    return largest_of(work)


@subroutine(nogil=True)
def expand_plane(coarse_k, x, count, lower, parts, coarse, layout, coarse_shape, expanded):
    """Interpolate the rows of a coarse plane along x, to all nodes from place x of the tables on.

    Rows and planes beyond the first ghosts have no weight in the interpolation, and stay zero.
    """
    if coarse_k > coarse_shape[0]:
        expanded[coarse_k % 2] = 0
        return
    low_x = lower[2][x : x + count]
    part_low, part_high = parts[2][0, x : x + count], parts[2][1, x : x + count]
    for n in range(coarse_shape[1] + 2):
        start = layout[0] + coarse_k * layout[1] + (n - 1) * layout[2] + low_x[0]
        source, target = coarse[start : start + low_x[count - 1] - low_x[0] + 2], expanded[coarse_k % 2, n]
        for i in range(count):
            c = low_x[i] - low_x[0]
            target[i] = part_low[i] * source[c] + part_high[i] * source[c + 1]


@kernel(
    lambda T: (*_fields_and_tables(T), int64[::1], *_transfer(T), int64[::1], T[:, ::1], T[:, :, ::1]),
    nogil=True,
)
def correct_and_smooth(
    u, b, out, layout, box, weight, tables, by_cells, sigma, sigma_layout, work, corrected_box,
    lower, parts, coarse, coarse_layout, coarse_shape, planes, expanded,
):  # fmt: skip
    """Set v = u + P coarse and out = v + weight (b - A v) / diagonal, where P interpolates linearly.

    corrected_box is one node larger than box where there are nodes. v is kept in three planes and never stored. Words
    per node: reads u and b, writes out, and reads the coarse field.
    """
    plane, pitch, count = layout[1], layout[2], box[5] - box[4]
    x, corrected_count = corrected_box[4] + MARGIN, corrected_box[5] - corrected_box[4]
    flat, size = planes.reshape(-1), planes.shape[1]
    (table_z, table_y, table_x), (lower_z, lower_y, _), (parts_z, parts_y, _) = tables, lower, parts
    length, line = work.shape[1], LINE // u.itemsize
    rows, width = expanded.shape[1], expanded.shape[2]
    # Rows of the three planes, and the node 0 of a row, begin on cache lines.
    origin = -(box[2] - 1) * pitch + MARGIN
    expanded_to = lower_z[corrected_box[0] + MARGIN] - 1
    clear_work(work)
    for k in range(box[0] - 1, box[1] + 1):
        slot = (k + 3) % 3 * size + origin
        if not corrected_box[0] <= k < corrected_box[1]:
            # Beyond a side. The weights there are zero, but zero times a NaN of an earlier pass is not.
            planes[(k + 3) % 3, :] = 0
        else:
            while expanded_to < lower_z[k + MARGIN] + 1:
                expanded_to += 1
                expand_plane(
                    expanded_to,
                    x,
                    corrected_count,
                    lower,
                    parts,
                    coarse,
                    coarse_layout,
                    coarse_shape,
                    expanded,
                )
            low_z, z0, z1 = lower_z[k + MARGIN] % 2, parts_z[0, k + MARGIN], parts_z[1, k + MARGIN]
            for j in range(corrected_box[2], corrected_box[3]):
                place = layout[0] + k * plane + j * pitch + corrected_box[4]
                start = slot + j * pitch + corrected_box[4]
                y0, y1, first = parts_y[0, j + MARGIN], parts_y[1, j + MARGIN], lower_y[j + MARGIN] + 1
                add_four_rows(
                    corrected_count, z0 * y0, z0 * y1, z1 * y0, z1 * y1, expanded, (low_z * rows + first) * width,
                    ((1 - low_z) * rows + first) * width, width, u, place, flat, start,
                )  # fmt: skip
        r = k - 1
        if r >= box[0]:
            below, here, above = (r + 2) % 3 * size, r % 3 * size, (r + 1) % 3 * size
            for j in range(box[2], box[3]):
                offset = origin + j * pitch + box[4]
                place = layout[0] + r * plane + j * pitch + box[4]
                if by_cells:
                    relax_by_cells(
                        flat, below + offset - 1, here + offset - 1, above + offset - 1, pitch, tables, r + MARGIN,
                        j + MARGIN, box[4] + MARGIN, count, b, place, weight, sigma, sigma_layout, out, work,
                    )  # fmt: skip
                else:
                    known_a, known_b = work[FACTORS, 4], work[FACTORS, 13]
                    set_factors(table_z, table_y, r + MARGIN, j + MARGIN, work, FACTORS)
                    if work[FACTORS, 4] != known_a or work[FACTORS, 13] != known_b:
                        set_steps(table_x, box[4] + MARGIN, count, weight, work)
                    skip = (here + offset - 1) % line
                    start = offset - 1 - skip
                    combine_rows(
                        count + 2 + skip, flat, below + start, here + start, above + start, pitch, work, length,
                        FACTORS,
                    )  # fmt: skip
                    relax_row(
                        count, skip, work, length, table_x, table_x.shape[1], box[4] + MARGIN, b, place, flat,
                        here + offset, out,
                    )  # fmt: skip
    return largest_of(work)
