"""Wind on GPUs, before it runs: what is refused, and what it takes there. No device is needed."""

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import case_class, estimate
from ridgeline.runtime.errors import ConfigError

TEXT = """\
[run]
model = "wind"
steps = 10
device = "cuda"
[grid]
shape = [16, 24, 32]
lengths = [160.0, 240.0, 320.0]
[model]
dt = 0.5
viscosity = 0.1
[temperature]
enabled = true
[boundary.z_min]
kind = "wall"
velocity = ["1/2", "0", "0"]
theta_flux = "0.05"
[boundary.z_max]
kind = "slip"
"""
DISC = "[[turbine]]\nposition = [100.0, 100.0, 80.0]\ndiameter = 60.0\nthrust_coefficient = 0.7\n"
INFLOW = '[boundary.x_min]\nkind = "inflow"\nvelocity = ["1", "0", "0"]\ntheta = "300"\n'
REFUSED = {
    "model.solver": ("dt = 0.5", 'dt = 0.5\nsolver = "direct"'),
    "model.diffusion": ("dt = 0.5", 'dt = 0.5\ndiffusion = "crank-nicolson"'),
    "run.device": ("[boundary.z_max]", f"{DISC}[boundary.z_max]"),
    "driving.kind": (
        "[boundary.z_max]",
        '[driving]\nkind = "hub-height"\ntarget = [8.0, 0.0]\nheight = 80.0\nrelaxation_time = 5.0\n[boundary.z_max]',
    ),
    "boundary.z_min.velocity": ('"1/2"', '"sin(t)"'),
    "boundary.z_min.theta_flux": ('"0.05"', '"0.05*x"'),
    "boundary.x_min.kind": (
        "[boundary.z_max]",
        f'{INFLOW}[boundary.x_max]\nkind = "outflow"\n[boundary.z_max]',
    ),
}


def load(path, text):
    path = path / "case.toml"
    path.write_text(text)
    return load_case(path, case_class).case


@pytest.mark.parametrize("key", REFUSED)
def test_what_has_no_kernels_is_refused_on_a_gpu_alone(tmp_path, key) -> None:
    text = TEXT.replace(*REFUSED[key])
    assert text != TEXT
    load(tmp_path, text.replace('device = "cuda"', 'device = "cpu"'))
    with pytest.raises(ConfigError, match="there are no GPU kernels") as error:
        load(tmp_path, text)
    assert key.rsplit(".", 1)[-1] in str(error.value)


def test_what_a_run_takes_on_a_gpu(tmp_path) -> None:
    case = load(tmp_path, TEXT)
    plan = estimate(case, 2)
    assert set(plan.device_memory) == {"fields", "states at faces", "linear solvers", "halo buffers"}
    cells = 16 * 24 * 32 / 2
    assert 40 * 8 * cells < sum(plan.device_memory.values()) < 150 * 8 * cells
    assert not estimate(load(tmp_path, TEXT.replace('device = "cuda"', "")), 2).device_memory


@pytest.mark.parametrize(
    ("shape", "ranks", "is_refused"), [("5, 6, 8", 1, 1), ("14, 14, 14", 4, 0), ("6, 8, 7", 2, 0)]
)
def test_grids_without_a_level_for_the_device_are_refused(tmp_path, shape, ranks, is_refused) -> None:
    text = TEXT.replace("16, 24, 32", shape)
    plan = estimate(load(tmp_path, text), ranks)
    assert len(plan.refusals) == is_refused
    assert not is_refused or "needs more than 256 cells" in plan.refusals[0]
    assert not estimate(load(tmp_path, text.replace('"cuda"', '"cpu"')), ranks).refusals
