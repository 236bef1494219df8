"""Machines by name: those that are shipped, a user's own file, and the machine at hand."""

from __future__ import annotations

from pathlib import Path

from ridgeline.config.check import nearest
from ridgeline.config.machine_file import MachineFile, read_machine_file
from ridgeline.io.machine_file import machine_file_here
from ridgeline.runtime.errors import ConfigError

HERE = "here"  # the machine at hand, as `ridgeline bench machine-file` wrote it
SHIPPED = Path(__file__).resolve().parents[1] / "machines"


def shipped() -> list[str]:
    """Return the names of the machine files that come with Ridgeline, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_machine(name: str) -> MachineFile:
    """Return a machine by its name, "here", or the path of a machine file (with a slash, or ending in .toml).

    Raises ConfigError for an unknown name, with the nearest one, and for a file that is no machine file.
    """
    if "/" in name or name.endswith(".toml"):
        return read_machine_file(Path(name))
    if name == HERE:
        path = machine_file_here()
        if not path.is_file():
            raise ConfigError(
                f"--machine {HERE}: there is no machine file of this machine at {path}; "
                f"write one with `ridgeline bench machine-file`, or name a machine: {', '.join(shipped())}"
            )
        return read_machine_file(path)
    if name.lower() not in shipped():
        near = nearest(name, [*shipped(), HERE])
        hint = f" Did you mean '{near}'?" if near else ""
        raise ConfigError(
            f"--machine {name[:60]}: no such machine; need one of {', '.join(shipped())}, {HERE}, "
            f"or the path of a machine file (.toml).{hint}"
        )
    return read_machine_file(SHIPPED / f"{name.lower()}.toml")


def machine_here() -> MachineFile | None:
    """Return the machine at hand, None if it has no machine file. Raises ConfigError for a damaged one."""
    path = machine_file_here()
    return read_machine_file(path) if path.is_file() else None
