"""What a run of turbulence starts from, if it does from a file: what can be said of it without MPI."""

from pathlib import Path

from ridgeline.io.bp_files import INDEX, describe
from ridgeline.io.checkpoint_format import MANIFEST, find_checkpoints, step_of
from ridgeline.runtime.errors import ConfigError


def is_checkpoint(path: Path) -> bool:
    """Say whether `path` is a checkpoint or holds some, rather than a data set. Raises ConfigError if neither."""
    try:
        if (path / MANIFEST).exists() or (step_of(path) is not None and path.is_dir()):
            return True
        if (path / INDEX).exists():
            return False
        found, what = bool(find_checkpoints(path)), describe(path)
    except OSError as error:
        raise ConfigError(f"cannot read initial.path = {path}: {error.strerror}; may you read it?") from error
    if not found:
        raise ConfigError(
            f"initial.path = {path} is {what}; need a checkpoint such as checkpoints/checkpoint_00000100, the "
            f"directory above it, or a BP data set with velocity_x, velocity_y and velocity_z"
        )
    return True
