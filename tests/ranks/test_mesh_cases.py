"""Every small mesh file of tests/data/meshes, as converters and Gmsh's options write them, on any number of ranks."""

from pathlib import Path

import pytest

from ridgeline.elements.meshes.hexahedra import build_mesh, scatter_mesh
from ridgeline.io.mesh_file import read_mesh
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.parallel.partition import split
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 3)
DATA = Path(__file__).parents[1] / "data"
MESHES = DATA / "meshes"
ROW = {"inlet": 1, "outlet": 1, "wall": 4, "side": 4}  # two elements of Gmsh in a row
IN_TWO_GROUPS = 'belongs to the sides "inlet" and "open". A face'
READ = {
    "base22.msh": ROW,
    "base41.msh": ROW,
    "saveall41.msh": ROW,
    "lefthanded41.msh": ROW,
    "parametric41.msh": ROW,
    "negative22.msh": ROW,
    "samename22.msh": {"inlet": 1, "outlet": 1, "fluid": 4, "side": 4},
    "zerotag22.msh": {"inlet": 1, "outlet": 1, "wall": 4, "surface_5": 2, "surface_6": 2},
    "letters_v002.re2": {"O": 2, "SYM": 12, "W": 6, "v": 2},
    "ids_msh_v003.re2": {"MSH_1": 2, "MSH_2": 2, "MSH_3": 6, "MSH_4": 12},
    "ids_msh_v004.re2": {"MSH_1": 2, "MSH_2": 2, "MSH_3": 6, "MSH_4": 12},
    "../cav8.re2": {"W": 152, "v": 8},
}
REFUSED = {
    "cht_nelv2_nelt4.re2": "has 4 elements, of which 2 are fluid and the others solid",
    "twogroups22.msh": IN_TWO_GROUPS,
    "twogroups41.msh": IN_TWO_GROUPS,
}
SIZES = {  # volume, distinct points at order 3
    ".msh": (2.0, 4 * 4 * 7),
    ".re2": (1.5, 7 * 10 * 4),
    "cav8": (1.35 * 1.35 * 0.16875, 25 * 25 * 4),
}


def test_every_file_has_a_test():
    assert {path.name for path in MESHES.iterdir()} == {Path(name).name for name in (*READ, *REFUSED)} - {
        "cav8.re2"
    }


@pytest.mark.parametrize("name", READ)
def test_the_mesh_and_its_sides(comm, name):
    mesh = scatter_mesh(comm, build_mesh(read_mesh(MESHES / name)) if comm.rank == 0 else None)
    assert {side: comm.allreduce(mesh.side_size(side)) for side in mesh.sides} == READ[name]
    volume, points = SIZES["cav8" if "cav8" in name else name[-4:]]
    mine = mesh.extents(mesh.range(*split(mesh.n_elements, comm.size, comm.rank)))
    assert mesh.n_unique((3, 3, 3)) == points
    assert comm.allreduce(float(mine.prod(axis=1).sum())) == pytest.approx(volume)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_on_all_ranks(comm, name):
    with pytest.raises(ConfigError, match=REFUSED[name]):
        broadcast_decision(comm, lambda: build_mesh(read_mesh(MESHES / name)))
