"""Where a result comes from: versions, commit, host and time."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.version import VERSION

_PACKAGES = ("numpy", "numba", "llvmlite", "mpi4py", "adios2", "numba-cuda")


def package_versions() -> dict[str, str]:
    """Return the versions of Python, Ridgeline and the packages that shape a result."""
    versions = {"python": platform.python_version(), "ridgeline": VERSION}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def git_commit() -> str:
    """Return the commit of the sources, with "+changes" if they differ from it; "" outside a checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def start_time() -> str:
    """Return the current time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
