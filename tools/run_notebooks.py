"""Run the notebooks from an installed wheel, each in an empty folder, and print how long each one took.

    python tools/run_notebooks.py                      # builds the wheel, and installs it with [all,notebook,movie]
    python tools/run_notebooks.py --python ENV/bin/python sweep benchmarks     # in an environment that is there

Needs a package index, unless --python is given. The exit code is 1 if a notebook failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
SECONDS_PER_CELL = 900

# Runs in the environment of the wheel: the kernel is that of its own Python.
PROGRAM = """
import sys
import nbformat
import ridgeline
from nbclient import NotebookClient
assert not ridgeline.__file__.startswith(sys.argv[3]), f"{ridgeline.__file__} is not that of a wheel"
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=int(sys.argv[2]), kernel_name="python3").execute()
"""


def make_environment(folder: Path) -> Path:
    """Build the wheel, install it with what notebooks need, and return the environment's Python."""
    wheels = folder / "wheels"
    pip = ["-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "-w", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("*.whl")
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    subprocess.run([str(python), *pip, "install", f"{wheel}[all,notebook,movie]"], check=True)
    return python


def run_notebook(python: Path, notebook: Path) -> tuple[bool, float, str]:
    """Run a notebook in an empty folder; return whether it ran to the end, its seconds, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        # Programs of the environment come first, so that `ridgeline` and mpiexec are its own.
        environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        begin = perf_counter()
        command = [str(python), "-c", PROGRAM, str(notebook), str(SECONDS_PER_CELL), str(ROOT)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        return done.returncode == 0, perf_counter() - begin, done.stderr


def main() -> int:
    """Run the chosen notebooks and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="notebooks without .ipynb; by default all")
    parser.add_argument("--python", type=Path, help="the Python of an environment with the wheel")
    parser.add_argument("--json", type=Path, help="a file for the results")
    options = parser.parse_args()
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    chosen = [path for path in paths if not options.names or path.stem in options.names]
    if len(chosen) < len(options.names):
        parser.error(f"the notebooks are {', '.join(path.stem for path in paths)}")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        python = options.python.absolute() if options.python else make_environment(Path(folder))
        for path in chosen:
            ran, seconds, said = run_notebook(python, path)
            results[path.stem] = {"ran": ran, "seconds": round(seconds, 1)}
            print(f"{path.stem:25} {'ran' if ran else 'FAILED':8} {seconds:7.1f} s", flush=True)
            if not ran:
                print(said[-4000:], file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if all(result["ran"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
