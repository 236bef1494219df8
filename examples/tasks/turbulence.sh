#!/usr/bin/env bash
# A turbulence researcher: docs/tasks.md lists these tasks. Small grids, so that all takes minutes.
# Run it in an empty folder, with `ridgeline` on the path:  bash examples/tasks/turbulence.sh
set -euo pipefail
examples=$(cd "$(dirname "$0")/.." && pwd)
task() { printf '\n== %s\n' "$*"; }

small=(
  --set grid.shape=[24,24,24] --set model.viscosity=0.03 --set checkpoint.every=20
  --set output.every=20 --set output.series_every=5 --set output.spectra_every=20
)
decay="$examples/turbulence_decay/settings.toml"

task "Estimate memory, output and time before a run"
ridgeline check "$decay" -n 2

task "Let turbulence of a given spectrum decay"
ridgeline run "$decay" "${small[@]}" --set run.steps=40 -n 2

task "Plan a run in model time: its end, outputs, spectra"
ridgeline run "$decay" "${small[@]}" --set run.end_time=0.3 --set output.every=0 --set output.every_time=0.1 \
  --set output.spectra_every=0 --set output.spectra_every_time=0.1 --set output.path=planned.bp \
  --set output.series=planned.csv --set output.spectra=planned_spectra.bp --set checkpoint.path=planned_checkpoints

task "Continue on another number of ranks"
ridgeline run "$decay" "${small[@]}" --set run.steps=60 -n 1 --resume auto

task "Draw the spectra, densities, the time series and a plane"
ridgeline plot turbulence_decay_spectra.bp -o spectra.png
ridgeline plot turbulence_decay_spectra.bp --pdf -o densities.png
ridgeline plot turbulence_decay.csv --variable energy --variable skewness -o series.png
ridgeline plot turbulence_decay.bp --variable vorticity_magnitude -o plane.png

task "Continue with a finer grid and less viscosity"
ridgeline run "$decay" "${small[@]}" --set run.steps=10 --set grid.shape=[32,32,32] --set model.viscosity=0.02 \
  --set initial.kind=file --set initial.path=checkpoints/turbulence_decay --set checkpoint.path=finer \
  --set output.path=finer.bp --set output.series=finer.csv --set output.spectra=finer_spectra.bp

task "Force steady turbulence, and mix a scalar"
ridgeline run "$examples/turbulence_forced/settings.toml" "${small[@]}" --set run.steps=20

task "Rotate the frame, and average the spectra over time"
ridgeline run "$decay" "${small[@]}" --set run.steps=40 --set model.rotation=[0,0,4] --set output.average_from=10 \
  --set output.spectra_every=10 --set output.path=turning.bp --set output.series=turning.csv \
  --set output.spectra=turning_spectra.bp --set checkpoint.path=turning
ridgeline plot turning_spectra.bp --compensated -o turning.png

task "Follow fluid particles"
ridgeline run "$examples/turbulence_particles/settings.toml" "${small[@]}" --set run.steps=40 \
  --set particles.count=200 --set particles.every=2
ridgeline plot turbulence_particles_paths.bp -o correlations.png

task "Compute my own quantity during a run"
python - "$decay" <<'PYTHON'
import sys

import ridgeline

case = ridgeline.Case.read(
    sys.argv[1],
    {
        "grid.shape": (24, 24, 24),
        "model.viscosity": 0.03,
        "run.steps": 20,
        "output.path": "own.bp",
        "output.series": "own.csv",
        "output.spectra": "own_spectra.bp",
        "checkpoint.path": "own",
    },
)


def flatness(now):
    u = now.fields("velocity_x")["velocity_x"]
    print("step", now.step, "flatness of u", (u**4).mean() / (u**2).mean() ** 2)


with ridgeline.Simulation(case, overwrite=True, progress=False) as simulation:
    simulation.every(5, flatness)
    simulation.run()
PYTHON
