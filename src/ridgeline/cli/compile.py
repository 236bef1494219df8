"""`ridgeline compile`: fill the kernel cache before the job."""

from __future__ import annotations

from ridgeline.cli.options import CasePath, Device, NoPython, Settings, Threads


def compile_kernels(
    case: CasePath,
    threads: Threads = None,
    device: Device = None,
    settings: Settings = None,
    no_python: NoPython = False,
) -> None:
    """Compile every kernel of a case and keep it in the cache, so that no rank has to at the start of a run."""
    from ridgeline.cli.options import load
    from ridgeline.simulation.start import compile_case

    compile_case(load(case, settings, threads, device))
