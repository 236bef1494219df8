"""When messages inside a node go through its network interfaces, as the environment tells MPI."""

import pytest

from ridgeline.parallel.layout import avoids_shared_memory, hides_nodes

BOTH = "MPICH Version: 5.0.2\nMPICH Device: ch4:ucx ofi"
OFI = "MPICH Version: 5.0.2\nMPICH Device: ch4:ofi"
OPEN_MPI = "Open MPI v5.0.11"


@pytest.mark.parametrize(
    ("library", "variables", "expected"),
    [
        (OFI, "", False),
        (OFI, "MPIR_CVAR_NOLOCAL=1", True),
        (OFI, "MPICH_NO_LOCAL=yes", True),
        (OFI, "MPIR_CVAR_NOLOCAL=0", False),
        (BOTH, "MPIR_CVAR_NOLOCAL=1", False),
        (BOTH, "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self", True),
        (BOTH, "MPIR_CVAR_NOLOCAL=1 UCX_TLS=rc,sm", False),
        (BOTH, "MPIR_CVAR_NOLOCAL=1 UCX_TLS=^sm", False),
        (BOTH, "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi", True),
        ("Intel(R) MPI Library 2021.13", "I_MPI_FABRICS=ofi", True),
        ("Intel(R) MPI Library 2021.13", "I_MPI_FABRICS=shm:ofi", False),
        (OPEN_MPI, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp", True),
        (OPEN_MPI, "OMPI_MCA_pml=ob1", False),
        (OPEN_MPI, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,tcp", False),
        (OPEN_MPI, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp", False),
        (OPEN_MPI, "OMPI_MCA_pml=ucx UCX_TLS=rc,self", True),
    ],
)
def test_what_the_environment_says(library, variables, expected):
    environ = dict(pair.split("=") for pair in variables.split())
    assert avoids_shared_memory(environ, library) is expected
    assert hides_nodes(environ) is ("LOCAL" in variables and "LOCAL=0" not in variables)
