"""The machine file beside which a benchmark puts its figures, as its option `--machine` names it."""

from __future__ import annotations

from pathlib import Path

from ridgeline.config.machine_file import MachineFile, read_machine_file
from ridgeline.io.machine_file import machine_file_here
from ridgeline.runtime.errors import ConfigError


def read_expected(name: str | None) -> MachineFile | None:
    """Return the machine file of `--machine`, None if none is named. Raises ConfigError if it cannot be read."""
    if name is None:
        return None
    path = machine_file_here() if name == "here" else Path(name)
    if not path.is_file():
        raise ConfigError(
            f"--machine {name}: there is no machine file {path}. Write one with `ridgeline bench machine-file`."
        )
    return read_machine_file(path)
