"""A neutral boundary layer as AMR-Wind and the wind model compute it: the same flow, scheme and tolerance of both.

A geostrophic wind of 10 m/s blows over rough ground in a box of 1 km, periodic in x and y, with a slip side at the
top. Both start from the same waves in the lowest 100 m, have Godunov's method with limited parabolas, Smagorinsky's
closure, explicit diffusion, a potential temperature of 300 K, and a time step of 0.75 s. Their projections stop at
the same largest divergence.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import ridgeline
from harness.graph500_peers import PeerUnavailable
from harness.ranks import outside_mpi
from harness.solver_peers import run_ranks
from ridgeline.io.series import read_series

EDGE, WIND, STEP = 1000.0, 10.0, 0.75  # m, m/s, s
TOLERANCE = 1e-6  # of ours: the largest divergence over the largest |u|/dx
# A wave along y in u and one along x in v, of 1 m/s at 50 m.
WAVE = "exp(0.5)/50*z*exp(-(z/50)**2/2)*cos(8*pi*{along}/1000)"

OURS = """\
[run]
model = "wind"
steps = {steps}
[grid]
shape = [{n}, {n}, {n}]
lengths = [{edge}, {edge}, {edge}]
[model]
dt = {dt}
viscosity = 1e-5
tolerance = {tolerance}
[boundary.z_min]
kind = "surface"
[boundary.z_max]
kind = "slip"
[temperature]
enabled = true
reference = 300.0
diffusivity = 1.43e-5
[surface]
roughness = 0.15
[subgrid]
kind = "smagorinsky"
coefficient = 0.135
prandtl = 0.3333
stratification = false
[rotation]
parameter = 1e-4
[driving]
kind = "geostrophic"
geostrophic_wind = [{wind}, 0.0]
[initial]
kind = "formulas"
u = "{wind} + {u}"
v = "{v}"
[output]
path = "ours.bp"
every = {steps}
variables = ["u", "v"]
series = "ours.csv"
series_every = {steps}
"""

AMR_WIND = """\
time.stop_time = 1e9
time.max_step = {steps}
time.fixed_dt = {dt}
time.plot_interval = -1
time.checkpoint_interval = -1
incflo.physics = ABL
incflo.use_godunov = 1
incflo.godunov_type = ppm
incflo.diffusion_type = 0
incflo.density = 1.0
incflo.gravity = 0.0 0.0 -9.81
incflo.velocity = {wind} 0.0 0.0
incflo.verbose = 0
transport.viscosity = 1.0e-5
transport.laminar_prandtl = 0.7
transport.turbulent_prandtl = 0.3333
turbulence.model = Smagorinsky
Smagorinsky_coeffs.Cs = 0.135
ICNS.source_terms = BoussinesqBuoyancy CoriolisForcing GeostrophicForcing
BoussinesqBuoyancy.reference_temperature = 300.0
CoriolisForcing.latitude = 90.0
CoriolisForcing.rotational_time_period = 125663.70614359172
CoriolisForcing.east_vector = 1.0 0.0 0.0
CoriolisForcing.north_vector = 0.0 1.0 0.0
GeostrophicForcing.geostrophic_wind = {wind} 0.0 0.0
ABL.reference_temperature = 300.0
ABL.temperature_heights = 0.0 {edge}
ABL.temperature_values = 300.0 300.0
ABL.perturb_velocity = true
ABL.perturb_ref_height = 50.0
ABL.Uperiods = 4.0
ABL.Vperiods = 4.0
ABL.deltaU = 1.0
ABL.deltaV = 1.0
ABL.kappa = 0.4
ABL.surface_roughness_z0 = 0.15
ABL.stats_output_frequency = {steps}
ABL.stats_output_format = ascii
amr.n_cell = {n} {n} {n}
amr.max_level = 0
amr.max_grid_size_x = {n}
amr.max_grid_size_y = {n_y}
amr.max_grid_size_z = {n}
amr.blocking_factor = 8
geometry.prob_lo = 0.0 0.0 0.0
geometry.prob_hi = {edge} {edge} {edge}
geometry.is_periodic = 1 1 0
zlo.type = wall_model
zhi.type = slip_wall
zhi.temperature_type = fixed_gradient
zhi.temperature = 0.0
mac_proj.mg_rtol = 1e-16
mac_proj.mg_atol = {divergence}
nodal_proj.mg_rtol = 1e-16
nodal_proj.mg_atol = {divergence}
"""


@dataclass(frozen=True)
class WindRun:
    """What a run says: the median seconds of a step, friction velocity, mean u by height, and cycles of a step."""

    seconds: float
    friction_velocity: float
    mean_wind: NDArray[np.float64]
    cycles: str


def values_of(n: int, steps: int, ranks: int) -> dict[str, object]:
    """Return what both input files are filled in with."""
    return {
        "n": n, "n_y": n // ranks, "steps": steps, "edge": EDGE, "wind": WIND, "dt": STEP, "tolerance": TOLERANCE,
        "divergence": TOLERANCE * WIND * n / EDGE, "u": WAVE.format(along="y"), "v": WAVE.format(along="x"),
    }  # fmt: skip


class AmrWind:
    """AMR-Wind from a user's build, a folder that holds the program amr_wind. Raises PeerUnavailable."""

    def __init__(self, build: Path, folder: Path) -> None:
        self._program, self._folder = build.resolve() / "amr_wind", folder
        cache = build / "CMakeCache.txt"
        if not self._program.exists() or not cache.exists():
            raise PeerUnavailable("the folder has no amr_wind and CMakeCache.txt")
        launcher = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(\S+)", cache.read_text(), re.MULTILINE)
        if launcher is None:
            raise PeerUnavailable("amr_wind was built without MPI")
        self._launcher = launcher[1]

    def run(self, n: int, steps: int, ranks: int) -> WindRun:
        """Compute the flow on n^3 cells, one box a rank."""
        (self._folder / "amr_wind.inp").write_text(AMR_WIND.format(**values_of(n, steps, ranks)))
        statistics = self._folder / "post_processing"
        for old in statistics.glob("*.txt"):
            old.unlink()
        text = run_ranks(self._launcher, ranks, [str(self._program), "amr_wind.inp"], self._folder)
        # The first step is left out, as in ours.
        seconds = [float(each) for each in re.findall(r"WallClockTime: \d+ .* Total: (\S+)", text)][1:]
        cycles = {
            name: [int(each) for each in re.findall(rf"{name}_projection +(\d+)", text)]
            for name in ("MAC", "Nodal")
        }
        if not seconds or not (statistics / "abl_statistics00000.txt").exists():
            raise PeerUnavailable("amr_wind printed no time of a step, or wrote no statistics")
        last = (statistics / "abl_statistics00000.txt").read_text().splitlines()[-1].split(",")
        lines = (statistics / "plane_average_velocity.txt").read_text().splitlines()[-n:]
        wind = np.array([float(line.split(",")[3]) for line in lines])
        words = ", ".join(f"{name} {np.mean(each or [0]):.1f}" for name, each in cycles.items())
        return WindRun(median(seconds), float(last[3]), wind, words)


def ours(n: int, steps: int, ranks: int, folder: Path) -> WindRun:
    """Compute the same flow by `ridgeline run`. Raises PeerUnavailable."""
    (folder / "ours.toml").write_text(OURS.format(**values_of(n, steps, ranks)))
    command = [sys.executable, "-m", "ridgeline", "run", "ours.toml", "-n", str(ranks), "--threads", "1"]
    done = subprocess.run(
        [*command, "--json", "ours.json"],
        cwd=folder, env=outside_mpi(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PeerUnavailable(f"ours says {done.stderr.strip().splitlines()[-1]}")
    report = json.loads((folder / "ours.json").read_text())
    with ridgeline.open(folder / "ours.bp") as data:
        wind = np.asarray(data["u"].isel(step=-1)).mean(axis=(1, 2))
    cycles = ", ".join(
        f"{name} {each['iterations_per_solve']:.1f}" for name, each in report["solves"].items()
    )
    series = read_series(folder / "ours.csv")
    seconds = float(report["step_times"]["total"]["percentiles"]["50"])
    return WindRun(seconds, float(series["friction_velocity"][-1]), wind, cycles)
