"""Compiled parts of breadth-first search: steps from the frontier and towards it, over bitmaps of ids.

Bitmaps are uint64 words: bit b of word w stands for id, or for row of this rank, 64 w + b. The rows of this rank are
the ids from first_id on. Reference of the intrinsics: LLVM Language Reference Manual (llvm.ctpop, llvm.cttz).
"""

from typing import Any

from llvmlite import ir
from numba import int32, int64, prange, types, uint32, uint64
from numba.extending import intrinsic

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_CHUNK = 16  # words of a bitmap that a thread takes in turn: no two threads write to one cache line
_FEW = 8  # unvisited rows of a word whose first neighbours are not worth a look all at once
_ONE = uint64(1)
_WORDS = uint64[::1]


# A call that passes arrays counts references to them with atomic operations, which costs too much for each word.
inlined = subroutine(inline="always")


@intrinsic
def set_bits(typing, word):
    """Return the number of set bits of a word, uint64: int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest_bit(typing, word):
    """Return the place of the lowest set bit of a word, uint64 and not 0: int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@subroutine
def _has(words, place):
    """Return whether a bit is set."""
    return (words[place >> 6] >> uint64(place & 63)) & _ONE != uint64(0)


@subroutine
def _set(words, place):
    """Set a bit."""
    words[place >> 6] |= _ONE << uint64(place & 63)


@kernel(lambda: (*[uint32[::1]] * 2, int64[::1], uint32[::1], _WORDS, uint32[::1]), nogil=True)
def top_down(frontier, names, offsets, neighbours, seen, parents):
    """Mark every unseen neighbour of the frontier in seen, and note its parent; return the edges looked at.

    frontier: rows, ascending, so that the parent is the lowest row; names [rows]: what parents are called;
    seen [words of the process column]; parents: names [process column].
    """
    looked_at = 0
    for i in range(frontier.shape[0]):
        row = int64(frontier[i])
        begin, end = offsets[row], offsets[row + 1]
        looked_at += end - begin
        name = names[row]
        for j in range(begin, end):
            neighbour = int64(neighbours[j])
            if not _has(seen, neighbour):
                _set(seen, neighbour)
                parents[neighbour] = name
    return looked_at


@inlined
def _parent_in(frontier, neighbours, begin, end):
    """Return the place of the first neighbour that the frontier has, or end."""
    for j in range(begin, end):
        if _has(frontier, int64(neighbours[j])):
            return j
    return end


@inlined
def _heads_in(frontier, heads, word):
    """Return the bits of a word's rows whose first neighbour is in the frontier."""
    hits = uint64(0)
    for bit in range(64):
        head = int64(heads[uint64(64 * word + bit)])  # unsigned: no look for a negative index, vector loads
        hits |= ((frontier[head >> 6] >> uint64(head & 63)) & _ONE) << uint64(bit)
    return hits


@inlined
def _bottom_up_word(word, unvisited, frontier, offsets, neighbours, heads, parents):
    """Look for the parents of the unvisited rows of a word; return the found ones' bits and the edges looked at."""
    looked_at = set_bits(unvisited)
    found = uint64(0)
    if looked_at > _FEW:
        found = _heads_in(frontier, heads, word) & unvisited
    rest = unvisited & ~found
    while rest != uint64(0):
        bit = lowest_bit(rest)
        rest &= rest - _ONE
        row = 64 * word + bit
        begin, end = offsets[row], offsets[row + 1]
        j = _parent_in(frontier, neighbours, begin, end)
        looked_at += j - begin
        if j < end:
            found |= _ONE << uint64(bit)
            parents[row] = neighbours[j]
    return found, looked_at


@kernel(
    lambda: (*[_WORDS] * 2, int64[::1], *[uint32[::1]] * 3, _WORDS, int64[:, ::1]),
    parallel=True,
    nogil=True,
)
def bottom_up(visited, frontier, offsets, neighbours, heads, parents, found, counts):
    """Give every unvisited row with a neighbour in the frontier its parent and a bit of found.

    visited, found: words of own rows; frontier: of all ids; heads [own rows]; counts [threads, 8], a cache line each:
    rows found, edges looked at; parents [own rows]: ids, the heads until something else is written.
    """
    words, threads = found.shape[0], counts.shape[0]
    for thread in prange(threads):
        n_found, looked_at = 0, 0
        for chunk in range(thread * _CHUNK, words, threads * _CHUNK):
            for word in range(chunk, min(chunk + _CHUNK, words)):
                bits, edges = _bottom_up_word(
                    word, ~visited[word], frontier, offsets, neighbours, heads, parents
                )
                found[word] = bits
                n_found += set_bits(bits)
                looked_at += edges
        counts[thread, 0] = n_found
        counts[thread, 1] = looked_at


@kernel(lambda: (*[uint32[::1]] * 3,), parallel=True, nogil=True)
def number_ids(ids, vertices, numbers):
    """Set numbers[i] to the vertex of ids[i]. A loop with one gather becomes vector code, one with two does not."""
    for i in prange(ids.shape[0]):
        numbers[i] = vertices[ids[i]]


@kernel(lambda: (_WORDS, int32[::1], uint32[::1], int64[::1]), parallel=True, nogil=True)
def number_parents(visited, numbers_of_rows, place_of_vertex, numbers):
    """Set numbers[v] to the parent of each owned vertex v, -1 if it has none.

    visited: words of own rows; numbers_of_rows [own rows + 1]: parents, of which those of rows without one become -1;
    place_of_vertex [owned vertices]: own row, or the last place of numbers_of_rows.
    """
    words = visited.shape[0]
    for chunk in prange((words + _CHUNK - 1) // _CHUNK):
        first, end = chunk * _CHUNK, min((chunk + 1) * _CHUNK, words)
        for word in range(first, end):
            unvisited = ~visited[word]
            while unvisited != uint64(0):
                numbers_of_rows[64 * word + lowest_bit(unvisited)] = -1
                unvisited &= unvisited - _ONE
    numbers_of_rows[64 * words] = -1
    for v in prange(numbers.shape[0]):
        numbers[v] = numbers_of_rows[place_of_vertex[v]]


@kernel(lambda: (*[_WORDS] * 2, int64, int64, int64[::1]), nogil=True)
def count_messages(seen, visited, words_of_rank, rank, counts):
    """Set counts[r] to the number of ids of rank r that are seen but not visited, 0 for this rank."""
    for other in range(counts.shape[0]):
        total = 0
        if other != rank:
            for word in range(other * words_of_rank, (other + 1) * words_of_rank):
                total += set_bits(seen[word] ^ visited[word])
        counts[other] = total


@kernel(lambda: (*[_WORDS] * 2, uint32[::1], int64, int64[::1], uint32[::1]), nogil=True)
def pack_messages(seen, visited, parents, words_of_rank, counts, messages):
    """Write the ids that `count_messages` counts, ascending, rank after rank: rows on their owner, then parents.

    Rows are a list of numbers if they are fewer than 1 of 32, otherwise a bitmap in halves of words, the lower one
    first.
    """
    begin = 0
    for other in range(counts.shape[0]):
        count, first = counts[other], other * words_of_rank
        if count == 0:
            continue
        listed = count < 2 * words_of_rank
        place = begin + (count if listed else 2 * words_of_rank)
        for word in range(first, first + words_of_rank):
            bits = seen[word] ^ visited[word]
            if not listed:
                messages[begin + 2 * (word - first)] = uint32(bits)
                messages[begin + 2 * (word - first) + 1] = uint32(bits >> uint64(32))
            while bits != uint64(0):
                bit = lowest_bit(bits)
                bits &= bits - _ONE
                if listed:
                    messages[place - count] = uint32(64 * (word - first) + bit)
                messages[place] = parents[64 * word + bit]
                place += 1
        begin = place


@subroutine
def _take(row, parent, stride, seen, parents):
    """Mark a row of this rank. Of several parents, the id of the lowest row, then of the lowest rank, stays."""
    before = parents[row]
    lower = (parent % stride, parent) < (before % stride, before)
    if lower or not _has(seen, row):
        _set(seen, row)
        parents[row] = parent


@kernel(lambda: (uint32[::1], int64[::1], _WORDS, uint32[::1]), nogil=True)
def take_messages(messages, counts, seen, parents):
    """Mark this rank's rows that packed messages name, counts [ranks], and take their parents.

    seen [words of own rows], parents [own rows].
    """
    words, stride, begin = seen.shape[0], uint32(64 * seen.shape[0]), 0
    for source in range(counts.shape[0]):
        count = counts[source]
        if count == 0:
            continue
        if count < 2 * words:
            for i in range(begin, begin + count):
                _take(int64(messages[i]), messages[i + count], stride, seen, parents)
            begin += 2 * count
            continue
        place = begin + 2 * words
        for half in range(2 * words):
            bits = uint64(messages[begin + half])
            while bits != uint64(0):
                _take(32 * half + lowest_bit(bits), messages[place], stride, seen, parents)
                bits &= bits - _ONE
                place += 1
        begin = place


@kernel(lambda: (_WORDS, uint32[::1], uint32[::1], uint32[::1]), nogil=True)
def number_found(found, ids, vertices, parents):
    """Set parents[row] to the vertex of ids[row] where the bit of a row is set."""
    for word in range(found.shape[0]):
        bits = found[word]
        while bits != uint64(0):
            row = 64 * word + lowest_bit(bits)
            bits &= bits - _ONE
            parents[row] = vertices[ids[row]]


@kernel(lambda: (_WORDS, int64[::1], uint32[::1]), nogil=True)
def list_rows(found, offsets, rows):
    """Write the rows whose bits are set into rows, ascending; return their number and that of their edges."""
    place, edges = 0, 0
    for word in range(found.shape[0]):
        bits = found[word]
        while bits != uint64(0):
            row = 64 * word + lowest_bit(bits)
            bits &= bits - _ONE
            rows[place] = uint32(row)
            place += 1
            edges += offsets[row + 1] - offsets[row]
    return place, edges


@kernel(lambda: (uint32[::1], _WORDS), nogil=True)
def mark(ids, words):
    """Clear a bitmap and set the bits of some ids."""
    words[:] = uint64(0)
    for i in range(ids.shape[0]):
        _set(words, int64(ids[i]))


@kernel(lambda: (*[_WORDS] * 3,), nogil=True)
def visit(frontier, visited, seen):
    """Add the frontier to the visited ids, and initialise the next level's seen ids with them."""
    for word in range(frontier.shape[0]):
        visited[word] |= frontier[word]
        seen[word] = visited[word]


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    steps = [top_down, bottom_up, number_ids, number_parents, list_rows, mark, visit]
    return specialise([*steps, count_messages, pack_messages, take_messages, number_found])
