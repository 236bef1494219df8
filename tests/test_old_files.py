"""What version 0.1.0 wrote can still be read, resumed and printed.

tests/data/version_0_1_0 holds a small one of each kind of file, and recorded.json what they are compared with. Other
processors round differently, so figures are compared to within ROUNDING, which leaves room for what docs/restart.md
says of other numbers of ranks.
"""

import json
import os
import re
import tarfile
import tomllib
from pathlib import Path

import pytest

from commands import run_command
from old_files import figures, keys

OLD = Path(__file__).parent / "data" / "version_0_1_0"
RECORDED = json.loads((OLD / "recorded.json").read_text())
ROUNDING = 1e-9  # of the largest number of an array
ZERO = 1e-15
# Forces, shear and heat fluxes on sides were integrals of gradients there, from which those of residuals differ on so
# few elements. In the layer of heat that has just begun, gradients had an eighth of the flux that the settings give.
OTHERWISE = 0.2
OF_WALLS = re.compile(r"wall_shear.*|re_tau|friction_factor|f_re")
OF_HEAT = ("scalar_0_flux", "scalar_0_nusselt")


def command(folder, *arguments, code=0):
    """Run a command in a folder and return all that it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = run_command(arguments, folder, environment, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def unpack(name, folder):
    with tarfile.open(OLD / f"{name}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # which Python 3.11.0 lacks
        archive.extractall(folder)
    return folder


def assert_like(found, expected):
    """Compare figures of files with recorded ones. There may be more files, arrays and columns than there were."""
    assert expected.keys() <= found.keys()
    for file, arrays in expected.items():
        for name, was in arrays.items():
            now = found[file][name]
            for key in was.keys() - {"figures", "largest"}:
                assert now[key] == was[key], (file, name, key)
            if "figures" in was and name not in OF_HEAT:
                # A sum that is zero but for rounding, such as a momentum, differs with the width of the vectors.
                otherwise = file == "forces.csv" or (file == "series.csv" and OF_WALLS.fullmatch(name))
                tolerance = max((OTHERWISE if otherwise else ROUNDING) * was["largest"], ZERO)
                assert now["figures"] == pytest.approx(was["figures"], rel=0, abs=tolerance), (file, name)


@pytest.mark.parametrize("model", RECORDED)
def test_data_sets_and_tables_read_as_they_were(model, tmp_path):
    assert_like(figures(unpack(model, tmp_path)), RECORDED[model]["stopped"])


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("model", RECORDED)
def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_never_stopped(model, ranks, tmp_path):
    unpack(model, tmp_path)
    command(tmp_path, "run", f"{model}.toml", "-n", ranks, "--resume", "auto", "--json", "resumed.json")
    assert_like(figures(tmp_path), RECORDED[model]["at_once"])
    assert set(RECORDED[model]["report"]) <= set(keys(json.loads((tmp_path / "resumed.json").read_text())))


@pytest.mark.parametrize("model", RECORDED)
def test_a_report_is_printed(model, tmp_path):
    unpack(model, tmp_path)
    for path in ("run.json", "fields.bp.run.json"):
        assert "speed: 5 steps in" in command(tmp_path, "report", path)


@pytest.mark.full
def test_a_field_file_of_nek5000_is_drawn(tmp_path):
    unpack("navier_stokes", tmp_path)
    command(tmp_path, "plot", "duct0.f00001", "-o", "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0


@pytest.mark.full
def test_benchmarks_studies_and_sweeps_are_printed_and_continued(tmp_path):
    unpack("other", tmp_path)
    assert "latency" in command(tmp_path, "report", "benchmark.json")
    assert "weak scaling" in command(tmp_path, "report", "study/study.json")
    command(tmp_path, "study", "collect", "study")
    points = {path: path.read_bytes() for path in tmp_path.glob("sweep/points/*/*/report.json")}
    command(tmp_path, "sweep", "gray_scott.toml", "--over", "model.F=0.02,0.03", "-o", "sweep")
    assert len(points) == 2
    assert all(path.read_bytes() == report for path, report in points.items()), "no case is run again"


@pytest.mark.full
def test_an_interrupted_study_and_an_interrupted_sweep_are_continued(tmp_path):
    unpack("other", tmp_path)
    study_file = tmp_path / "study" / "study.toml"
    missing = tmp_path / "study" / "points" / "n1" / "1" / "report.json"
    missing.unlink()
    refused = command(tmp_path, "study", "run", "study", code=2)
    began_in = tomllib.loads(study_file.read_text())["study"]["directory"]
    assert f"study.toml: study.directory is {began_in}, which is not a folder" in refused
    study_file.write_text(study_file.read_text().replace(began_in, str(tmp_path)))
    assert "1 of 2 jobs are done already" in command(tmp_path, "study", "run", "study")
    missing_case = tmp_path / "sweep" / "points" / "n1_F-0.03" / "1" / "report.json"
    missing_case.unlink()
    said = command(tmp_path, "sweep", "gray_scott.toml", "--over", "model.F=0.02,0.03", "-o", "sweep")
    assert "1 of 2 cases are done already" in said
    assert missing.is_file()
    assert missing_case.is_file()


def test_a_machine_file_predicts(tmp_path):
    unpack("other", tmp_path)
    assert "old" in command(tmp_path, "predict", "gray_scott.toml", "--machine", "machine.toml")


def test_a_baseline_of_another_machine_is_known_as_one(tmp_path):
    unpack("other", tmp_path)
    stored = json.loads((tmp_path / "baseline.json").read_text())
    stored["machine"]["cpu"] = ["another"]
    (tmp_path / "baseline.json").write_text(json.dumps(stored))
    options = ("--quick", "--level", "node", "--stage", "compute", "--baseline", "baseline.json")
    assert "another" in command(tmp_path, "validate", *options, code=2)
