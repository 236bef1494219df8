"""The time loop with a toy model: everything at its steps, and the same files after a crash and a resume."""

import json

import numpy as np
import pytest

import ridgeline
from decay_model import Decay, N, decay_case, run
from ridgeline.io.series import read_series
from ridgeline.runtime.errors import CheckpointError, DeviceError, DivergedError, OutputError


def everything(folder):
    """What a run wrote: the bytes of its series, the values of its data sets."""
    found = {"series": (folder / "s.csv").read_bytes()}
    for name in ("u.bp", "e.bp"):
        with ridgeline.open(folder / name) as data:
            for key, array in data.variables.items():
                found[f"{name} {key}"] = array.values.tobytes()
    return found


def test_everything_is_written_at_its_steps(comm, folder, monkeypatch):
    model = Decay()
    report = run(comm, monkeypatch, decay_case(folder), model)
    series = read_series(folder / "s.csv")
    assert list(series) == ["step", "time", "largest", "sum"]
    assert series["step"].tolist() == [0, 3, 6, 9, 12, 15, 18]
    with ridgeline.open(folder / "u.bp") as data:
        assert data.step.values.tolist() == [0, 6, 12, 18]
        assert data.powers.shape == (4, N, 3)
        assert data.powers.attrs["units"] == "m"
        for i, row in enumerate((0, 2, 4, 6)):
            u = data.powers.values[i, :, 0]
            np.testing.assert_array_equal(data.powers.values[i], u[:, None] ** [1, 2, 3])
            assert series["largest"][row] == u.max()
            assert series["time"][row] == data.time.values[i]
    with ridgeline.open(folder / "e.bp") as data:
        assert data.step.values.tolist() == [0, 4, 8, 12, 16, 20]
        assert data.energy.dims == ("step", "k")
        assert data.joint.dims == ("step", "row", "k")
        assert data.k.values.tolist() == [0, 1, 2, 3]
        assert (data.k.attrs["units"], data.energy.attrs["long_name"]) == ("1/m", "energy of mode k")
        assert data.energy.dtype == np.float32
        assert data.energy.sel(step=0, k=2.0) == 1.0
        np.testing.assert_array_equal(data.joint, data.k.values[:, None] * data.energy.values[:, None, :])
        with ridgeline.open(folder / "u.bp") as fields:
            expected = fields.powers.values[2, :4, 0] ** 2
            np.testing.assert_array_equal(data.energy.sel(step=12), expected.astype(np.float32))
    events = {*range(0, 20, 3), *range(0, 20, 4), *range(0, 20, 5), *range(0, 20, 6)}
    assert events <= {*model.calls}, "the model was stepped over an event"
    assert report["files"] == {
        "data set": f"{folder}/u.bp",
        "series": f"{folder}/s.csv",
        "spectra": f"{folder}/e.bp",
        "report": f"{folder}/u.bp.run.json",
    }


def test_report_splits_a_step_into_the_phases_of_the_model(comm, folder, monkeypatch):
    report = run(comm, monkeypatch, decay_case(folder), Decay())
    assert list(report["phases"]) == ["decay", "all-to-all", "output", "checkpoint", "other"]
    for kind in ("mean", "best"):
        row = report["step"][kind]
        assert list(row) == ["decay", "all-to-all", "other", "total"]
        assert min(row.values()) > 0
        assert row["decay"] + row["all-to-all"] + row["other"] == pytest.approx(row["total"])
    assert report["step"]["best"]["total"] <= report["step"]["mean"]["total"]
    assert report["step"]["mean"]["total"] == pytest.approx(report["seconds_per_step"])
    merit = report["figures"]["figure_of_merit"]
    assert merit == {"value": pytest.approx(N / report["seconds_per_step"]), "unit": "points/s"}
    assert report["peak_memory_per_rank"] >= report["memory_before_setup_per_rank"] > 0
    if comm.rank == 0:
        assert json.loads((folder / "u.bp.run.json").read_text())["step"] == report["step"]


@pytest.mark.parametrize("crash_at", [3, 13, 16, 19])
def test_a_crashed_run_resumes_to_the_same_files(comm, folder, monkeypatch, crash_at):
    run(comm, monkeypatch, decay_case(folder / "whole"), Decay())
    case = decay_case(folder / "cut")
    with pytest.raises(RuntimeError, match="power"):
        run(comm, monkeypatch, case, Decay(crash_at=crash_at))
    comm.Barrier()
    model = Decay()
    report = run(comm, monkeypatch, case, model, resume="auto")
    assert model.calls[0] == report["run"]["first_step"] == crash_at // 5 * 5
    assert everything(folder / "cut") == everything(folder / "whole")


@pytest.mark.parametrize("signal_at", [0, 3, 7, 8, 12])
def test_a_signal_ends_the_run_with_a_checkpoint_to_go_on_from(comm, folder, monkeypatch, signal_at):
    run(comm, monkeypatch, decay_case(folder / "whole"), Decay())
    case = decay_case(folder / "cut")
    report = run(comm, monkeypatch, case, Decay(signal_at=signal_at))
    reached = report["run"]["last_step"]
    assert report["run"]["ended"] == "SIGTERM"
    assert signal_at < reached <= signal_at + 4
    assert report["checkpoint"]["written"] == len({*range(5, reached + 1, 5), reached})
    model = Decay()
    run(comm, monkeypatch, case, model, resume="auto")
    assert model.calls[0] == reached
    assert everything(folder / "cut") == everything(folder / "whole")


def test_a_run_that_ended_goes_on(comm, folder, monkeypatch):
    run(comm, monkeypatch, decay_case(folder / "whole"), Decay())
    case = decay_case(folder / "cut")
    short = case.model_copy(update={"run": case.run.model_copy(update={"steps": 7})})
    assert run(comm, monkeypatch, short, Decay())["run"]["ended"] == "all steps done"
    assert run(comm, monkeypatch, case, Decay(), resume="auto")["run"]["first_step"] == 7
    assert everything(folder / "cut") == everything(folder / "whole")


def test_a_resumed_run_may_write_elsewhere(comm, folder, monkeypatch):
    with pytest.raises(RuntimeError, match="power"):
        run(comm, monkeypatch, decay_case(folder), Decay(crash_at=13))
    comm.Barrier()
    names = {"series": f"{folder}/late.csv", "path": f"{folder}/late.bp", "spectra": f"{folder}/late_e.bp"}
    run(comm, monkeypatch, decay_case(folder, **names), Decay(), resume="auto")
    assert read_series(folder / "late.csv")["step"].tolist() == [12, 15, 18]
    assert read_series(folder / "s.csv")["step"].tolist() == [0, 3, 6, 9, 12]
    with ridgeline.open(folder / "late.bp") as data:
        assert data.step.values.tolist() == [12, 18]
    with ridgeline.open(folder / "late_e.bp") as data:
        assert data.step.values.tolist() == [12, 16, 20]


def test_a_lost_series_is_an_error_on_every_rank(comm, folder, monkeypatch):
    with pytest.raises(RuntimeError, match="power"):
        run(comm, monkeypatch, decay_case(folder), Decay(crash_at=13))
    comm.Barrier()
    if comm.rank == 0:
        (folder / "s.csv").write_text("something else\n")
    with pytest.raises(OutputError, match="Ridgeline did not write it"):
        run(comm, monkeypatch, decay_case(folder), Decay(), resume="auto")


def test_a_diverged_run_gives_the_advice_of_its_model(comm, folder, monkeypatch):
    with pytest.raises(DivergedError) as caught:
        run(comm, monkeypatch, decay_case(folder), Decay(spoil_at=9))
    assert "between step 9 and step 10: u somewhere" in str(caught.value)
    assert str(caught.value).endswith("checkpoint_00000005. Try another toy.")


def test_a_run_that_checks_every_step_says_at_which_it_diverged(comm, folder, monkeypatch):
    case = decay_case(folder)
    case = case.model_copy(update={"run": case.run.model_copy(update={"check_every": 1})})
    with pytest.raises(DivergedError, match="stopped being finite at step 9: u somewhere at step 9\\. "):
        run(comm, monkeypatch, case, Decay(spoil_at=9))


@pytest.mark.parametrize("kept", [True, False])
def test_a_device_lost_in_a_step_ends_the_run_with_the_last_checkpoint(comm, folder, monkeypatch, kept):
    model = Decay(crash_at=9 if kept else 3)
    lost = type("CudaAPIError", (Exception,), {"__module__": "numba.cuda.cudadrv.driver"})
    model.crash = lost("[719] Call to cuStreamSynchronize results in CUDA_ERROR_LAUNCH_FAILED")
    with pytest.raises(DeviceError) as caught:
        run(comm, monkeypatch, decay_case(folder), model)
    assert "a kernel ended with a fault: [719] Call to cuStreamSynchronize" in str(caught.value)
    end = "checkpoint_00000005." if kept else "No checkpoint was written before."
    assert str(caught.value).endswith(end)


def test_a_run_writes_nothing_that_is_switched_off(comm, folder, monkeypatch):
    off = {"every": 0, "series_every": 0, "spectra_every": 0}
    report = run(comm, monkeypatch, decay_case(folder, **off), Decay())
    assert list(report["files"]) == ["report"]
    comm.Barrier()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "u.bp.run.json"]


def test_a_checkpoint_of_a_later_step_than_the_last_is_refused(comm, folder, monkeypatch):
    case = decay_case(folder)
    run(comm, monkeypatch, case, Decay())
    short = case.model_copy(update={"run": case.run.model_copy(update={"steps": 7})})
    with pytest.raises(CheckpointError, match=r"at step 20, beyond run\.steps = 7"):
        run(comm, monkeypatch, short, Decay(), resume="auto")
