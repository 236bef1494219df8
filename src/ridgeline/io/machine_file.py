"""Writing the machine file of the machine at hand, and where it lies."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ridgeline.config.machine_file import MachineDocument, machine_text
from ridgeline.io.previous import GENERATOR, write_text
from ridgeline.runtime.user_cache import private_folder


def machine_name(host: str) -> str:
    """Return the name of the machine of a host: the host's name up to its first dot, without the digits at its end.

    So the nodes of a cluster, node001 to node512, share one.
    """
    first = host.partition(".")[0]
    return first.rstrip("0123456789").rstrip("-_") or first


def machine_name_here() -> str:
    """Return the name of the machine at hand."""
    return machine_name(socket.gethostname())


def machine_file_here() -> Path:
    """Return where the file of the machine at hand lies: MACHINE.toml in `machines` of the user's cache directory.

    Nothing is made.
    """
    return private_folder("machines", make=False) / f"{machine_name_here()}.toml"


def write_machine_file(
    document: MachineDocument, file: str | os.PathLike[str] | None = None, option: str = "RIDGELINE_CACHE_DIR"
) -> Path:
    """Write a machine file and return its path; without one, that of the machine at hand.

    document: tables by name ("node": {"memory_bandwidth": Quantity(4e10, "STREAM triad, 2 ranks")}), repeated ones,
    as "all_to_all", as a list of tables. Quantities are in SI units. An earlier file of ours is set aside.
    option: what an error tells to change.

    Raises ConfigError for what is no machine file, OutputError for a file that cannot be written.
    """
    path = private_folder("machines") / machine_file_here().name if file is None else Path(file)
    content = f"# {GENERATOR}\n\n{machine_text(document)}"
    write_text(path, content, option)
    return path
