"""`ridgeline doctor`: what is found, what is missing, and the fix."""

from __future__ import annotations

import typer


def doctor() -> None:
    """Say which MPI, ADIOS2, FFTW, BLAS, GPU and cores are found, what is missing and how to mend it."""
    from ridgeline.runtime.launcher import may_print
    from ridgeline.validate.doctor import examine, print_findings

    findings = examine()
    if may_print():
        print_findings(findings)
    if any(finding.status == "missing" for finding in findings):
        raise typer.Exit(1)
