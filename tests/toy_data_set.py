"""A small data set of two fields of random bits, which the tests of both stores share."""

import numpy as np
from mpi4py import MPI

from ridgeline.io.open_store import open_reader, open_writer
from ridgeline.io.store import DataSetWriter, Selection, Variable

SHAPE = (5, 3, 7)
STORES = ("bp", "zarr")  # suffixes of the paths


def bits(step: int, dtype: str = "float64", shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Floats of random bits, NaN and denormal numbers among them."""
    unsigned = {"float64": np.uint64, "float32": np.uint32}[dtype]
    random = np.random.default_rng(step)
    return random.integers(0, np.iinfo(unsigned).max, shape, unsigned).view(dtype)


def variables(dtype: str = "float64", names: str = "UV", shape: tuple[int, ...] = SHAPE) -> list[Variable]:
    return [Variable(name, dtype, shape, (0,) * len(shape), shape) for name in names]


def writer(path, attributes=None, *, names="UV", **more) -> DataSetWriter:
    return open_writer(path, MPI.COMM_SELF, variables(names=names), attributes or {}, **more)


def put(out: DataSetWriter, *steps: int) -> None:
    for step in steps:
        out.write(10 * step, 0.5 * step, {"U": bits(step), "V": bits(1000 + step)})


def read(path, name, step, dtype="float64", shape=SHAPE) -> np.ndarray:
    out = np.empty(shape, dtype)
    with open_reader(path) as reader:
        reader.read(name, [Selection(step, (0,) * len(shape), out)])
    return out


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def assert_steps(path, *steps: int) -> None:
    """The data set holds exactly these steps, in this order, each with its own fields."""
    with open_reader(path) as reader:
        assert reader.scalars["step"].tolist() == [10 * step for step in steps]
        assert reader.scalars["time"].tolist() == [0.5 * step for step in steps]
    for i, step in enumerate(steps):
        assert_same_bits(read(path, "U", i), bits(step))
        assert_same_bits(read(path, "V", i), bits(1000 + step))
