"""The machine file of this machine: its name, its path, reading and writing it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ridgeline.config.machine_file import MachineDocument, MachineFile, machine_text, read_machine_file
from ridgeline.io.output_files import GENERATOR, write_text
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_cache import private_folder


def machine_name(host: str) -> str:
    """Return the name of the machine that a host belongs to.

    It is the host's name up to its first dot, without digits at the end: the nodes node001 to node512 of a cluster
    share it.
    """
    first = host.partition(".")[0]
    return first.rstrip("0123456789").rstrip("-_") or first


def machine_name_here() -> str:
    """Return the name of this machine."""
    return machine_name(socket.gethostname())


def machine_file_here() -> Path:
    """Return the path of this machine's file: MACHINE.toml in `machines` of the user's cache directory.

    No folder is created.
    """
    return private_folder("machines", make=False) / f"{machine_name_here()}.toml"


def read_named_machine(name: str) -> MachineFile:
    """Return the machine file of an option --machine: "here" for this machine's, or a path. Raises ConfigError."""
    path = machine_file_here() if name == "here" else Path(name)
    if not path.is_file():
        raise ConfigError(
            f"--machine {name}: there is no machine file {path}. Write one with `ridgeline bench machine-file`."
        )
    return read_machine_file(path)


def write_machine_file(
    document: MachineDocument, file: str | os.PathLike[str] | None = None, option: str = "RIDGELINE_CACHE_DIR"
) -> Path:
    """Write a machine file, and return its path.

    Parameters
    ----------
    document : mapping
        Tables by name ("node": {"memory_bandwidth": Quantity(4e10, "STREAM triad, 2 ranks")}). A repeated table, such
        as "all_to_all", is a list of tables. Quantities are in SI units.
    file : path, optional
        The file to write; None is the file of this machine. An earlier one is set aside.
    option : str
        The option that errors tell the user to change.

    Raises
    ------
    ConfigError
        If the document is not a machine file.
    OutputError
        If the file cannot be written.
    """
    path = private_folder("machines") / machine_file_here().name if file is None else Path(file)
    content = f"# {GENERATOR}\n\n{machine_text(document)}"
    write_text(path, content, option)
    return path
