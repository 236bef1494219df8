"""An array that remembers what was read of it, for tests of lazy data sets."""

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing


class RecordingArray(BackendArray):
    """An array on disk, as far as xarray knows; remembers the bytes of each read."""

    def __init__(self, values: np.ndarray, reads: list[int]) -> None:
        self.values, self.reads = values, reads
        self.shape, self.dtype = values.shape, values.dtype

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        values = self.values[key]
        self.reads.append(values.nbytes)
        return values.copy()
