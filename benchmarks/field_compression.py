"""Does it pay to compress fields before they are sent? Ratio and speed of LZ4 on the fields of a data set.

    ridgeline run CASE.toml                            # writes DATA.bp
    python benchmarks/field_compression.py DATA.bp     # its last output step; --last N: the N-th from the end

For each field: LZ4 as it is, and after a byte shuffle, in chunks of 4 MiB as checkpoints have them: ratio, rates of
one core. pays below: the rate of a link, per rank, below which compressing and sending what is left is faster than
sending all, c (1 - 1/ratio); the receiver's decompression is not charged. Every round trip is compared bit by bit.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import lz4.block
import numpy as np
from numpy.typing import NDArray

import ridgeline
from ridgeline.io.checkpoint_format import CHUNK_BYTES


def fields_of(path: Path, last: int) -> Iterator[tuple[str, NDArray]]:
    """Yield (name, array) of the floating-point fields."""
    data = ridgeline.open(path)
    for name, array in data.data_vars.items():
        if array.dtype.kind == "f" and array.ndim > 1:
            yield str(name), np.ascontiguousarray(array.isel(step=-last).values)


def shuffled(chunk: NDArray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(chunk.view(np.uint8).reshape(-1, chunk.itemsize).T)


def measure(chunks: list[NDArray], shuffle: bool, rounds: int) -> tuple[float, float, float]:
    """Return ratio, and bytes a second of compression and decompression."""
    raw = sum(chunk.nbytes for chunk in chunks)
    seconds = np.full((rounds, 2), np.inf)
    size = 0
    for k in range(rounds):
        start = time.perf_counter()
        packed = [
            lz4.block.compress(shuffled(chunk) if shuffle else chunk.view(np.uint8), store_size=False)
            for chunk in chunks
        ]
        seconds[k, 0] = time.perf_counter() - start
        size = sum(map(len, packed))
        start = time.perf_counter()
        back = [
            lz4.block.decompress(one, uncompressed_size=chunk.nbytes) for one, chunk in zip(packed, chunks)
        ]
        if shuffle:
            back = [
                np.ascontiguousarray(np.frombuffer(one, np.uint8).reshape(chunk.itemsize, -1).T)
                for one, chunk in zip(back, chunks)
            ]
        seconds[k, 1] = time.perf_counter() - start
        for one, chunk in zip(back, chunks):
            if bytes(one) != chunk.tobytes():
                raise SystemExit("error: a chunk differs after compression and decompression.")
    compression, decompression = raw / seconds.min(axis=0)
    return raw / size, compression, decompression


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--last", type=int, default=1, help="output step, counted from the end")
    parser.add_argument("--rounds", type=int, default=5)
    settings = parser.parse_args()
    print(
        "| field | dtype | MB | LZ4: ratio | compress MB/s | decompress | shuffled: ratio | compress MB/s "
        "| decompress | pays below MB/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, array in fields_of(settings.path, settings.last):
        flat = array.reshape(-1)
        step = CHUNK_BYTES // flat.itemsize
        chunks = [flat[start : start + step] for start in range(0, flat.size, step)]
        plain, better = (measure(chunks, shuffle, settings.rounds) for shuffle in (False, True))
        pays = better[1] * (1.0 - 1.0 / better[0])
        rates = [
            f"{ratio:.3f} | {there / 1e6:.0f} | {back / 1e6:.0f}" for ratio, there, back in (plain, better)
        ]
        size = f"{array.nbytes / 1e6:.1f}"
        print(
            f"| {name} | {array.dtype} | {size} | {' | '.join(rates)} | {pays / 1e6:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
