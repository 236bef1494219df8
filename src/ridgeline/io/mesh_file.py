"""Reading a mesh file of any supported format as a `RawMesh`."""

from __future__ import annotations

from pathlib import Path

import xxhash

from ridgeline.elements.meshes.raw_mesh import RawMesh
from ridgeline.io.gmsh import read_gmsh
from ridgeline.io.nek5000_mesh import read_re2
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import require_regular

READERS = {".msh": read_gmsh, ".re2": read_re2}


def read_mesh(path: Path) -> RawMesh:
    """Return the mesh in a .msh file of Gmsh or a .re2 file of Nek5000. Raises ConfigError if it cannot be read."""
    reader = READERS.get(path.suffix)
    if reader is None:
        raise ConfigError(f'grid.mesh is "{path}", but it must be a {" or ".join(READERS)} file.')
    try:
        require_regular(path)
        return reader(path)
    except OSError as error:
        raise ConfigError(
            f'grid.mesh = "{path}" cannot be read: {error.strerror}. Give a mesh file.'
        ) from None
    except MemoryError:
        raise ConfigError(
            f'grid.mesh = "{path}" is larger than memory, or damaged. Write it again.'
        ) from None


def mesh_digest(path: Path) -> str:
    """Return the 64-bit XXH3 hash of a mesh file's bytes as 16 hexadecimal digits. Raises OSError."""
    return str(xxhash.xxh3_64_hexdigest(path.read_bytes()))
