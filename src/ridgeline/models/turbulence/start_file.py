"""The kind of file that a run starts from, a checkpoint or a data set. It needs no MPI."""

from pathlib import Path

from ridgeline.io.bp_files import INDEX
from ridgeline.io.checkpoint_format import MANIFEST, find_checkpoints, step_of
from ridgeline.io.open_store import is_zarr
from ridgeline.io.store import describe
from ridgeline.runtime.errors import ConfigError


def is_checkpoint(path: Path) -> bool:
    """Return True for a checkpoint or a directory of checkpoints, and False for a data set.

    Raises ConfigError if `path` is neither.
    """
    try:
        if (path / MANIFEST).exists() or (step_of(path) is not None and path.is_dir()):
            return True
        if (path / INDEX).exists() or is_zarr(path):
            return False
        checkpoints, what = find_checkpoints(path), describe(path)
    except OSError as error:
        raise ConfigError(f"initial.path = {path} cannot be read: {error.strerror}.") from error
    if not checkpoints:
        raise ConfigError(
            f"initial.path = {path} is {what}, but it must be a checkpoint such as checkpoints/checkpoint_00000100, "
            f"the directory above it, or a data set with velocity_x, velocity_y and velocity_z."
        )
    return True
