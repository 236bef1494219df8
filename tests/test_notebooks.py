"""The notebooks run from the first cell to the last, draw what they promise, and are stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.alone, pytest.mark.full]

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
SECONDS_PER_CELL = 240  # the first run of a machine compiles the kernels


def outputs_of(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert outputs_of(notebook) == [], f"nbstripout {path}"
    assert all(cell.get("execution_count") is None for cell in notebook.cells)


def execute(name, folder):
    """Run a notebook in a folder; return how many figures it drew and what it printed."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    client = NotebookClient(notebook, timeout=SECONDS_PER_CELL, resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = outputs_of(notebook)
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    return len(figures), "".join(output.get("text", "") for output in outputs)


def test_gray_scott_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("RIDGELINE_DATA", raising=False)
    figures, text = execute("gray_scott.ipynb", tmp_path)
    assert figures == 4, "two slices, the densities, the series"
    assert "git_commit" in text
    assert "fraction_of_stream" in text
    assert "13 frames" in text
    assert (tmp_path / "v.gif").stat().st_size > 10_000


def test_turbulence_decay_runs(tmp_path):
    figures, text = execute("turbulence-decay.ipynb", tmp_path)
    assert figures == 6, "the series, the spectra, the transfer, the densities, two slices"
    for words in ("largest |dE/dt + eps|", "the skewness is -0.", "of the field 0."):
        assert words in text
    assert (tmp_path / "decay_spectra.bp").is_dir()


def test_fluid_particles_runs(tmp_path):
    figures, text = execute("fluid-particles.ipynb", tmp_path)
    assert figures == 5, "paths, dispersion, correlation and structure function, memory, accelerations"
    for words in (
        "over its law 0.9",
        "integral time ",
        "integral time of dissipation 0.",
        "mean energy of particles",
        "a Gaussian has 3",
    ):
        assert words in text
    assert (tmp_path / "paths.bp").is_dir()


def test_python_interface_runs(tmp_path):
    figures, text = execute("python-interface.ipynb", tmp_path)
    assert figures == 3, "a plane on the way, the history, two slices of the data set"
    for words in ("Did you mean 'F'?", "stopped at step ", "'step': 600, 'key': 'model.F', 'value': 0.03"):
        assert words in text


@pytest.mark.parametrize(
    ("name", "drawn", "words"),
    [
        ("lid-driven-cavity.ipynb", 1, "largest difference 0.00"),
        ("lennard-jones-melt.ipynb", 2, "the total energy per atom stays within 0.0"),
        ("cosmic-structure.ipynb", 2, "times that of linear theory"),
        ("sweep.ipynb", 1, "4 of 4"),
        ("benchmarks.ipynb", 1, "times as fast as one"),
    ],
)
def test_whole_runs_from_notebooks(tmp_path, name, drawn, words):
    figures, text = execute(name, tmp_path)
    assert figures == drawn
    assert words in text
