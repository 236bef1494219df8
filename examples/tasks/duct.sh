#!/usr/bin/env bash
# An engineer with a duct: docs/tasks.md lists these tasks. Small meshes, so that all takes minutes.
# Run it in an empty folder, with `ridgeline` on the path:  bash examples/tasks/duct.sh
set -euo pipefail
examples=$(cd "$(dirname "$0")/.." && pwd)
task() { printf '\n== %s\n' "$*"; }

laminar="$examples/laminar_duct/settings.toml"
turbulent="$examples/square_duct/settings.toml"
small=(
  --set grid.elements=[3,3,2] --set grid.order=5 --set model.dt=0.01 --set checkpoint.every=10
  --set output.every=10 --set output.series_every=2 --set output.statistics_every=2 --set output.statistics_start=0.1
  --set output.statistics_window=5 --set output.statistics_of=budgets
)

task "Estimate points, distances, memory and the Courant number before a run"
ridgeline check "$turbulent" -n 16

task "Find friction, peak velocity and Nusselt number of laminar flow"
ridgeline run "$laminar" --set grid.order=5 --set run.steps=150 --set output.every=150
python "$examples/laminar_duct/figures.py" laminar_duct.csv
ridgeline plot laminar_duct.csv --variable force_f_re -o friction.png

task "Change the aspect ratio"
ridgeline check "$laminar" --set grid.lengths=[4,2,2] --set grid.origin=[-2,-1,0]

task "Start turbulent flow, and collect statistics"
ridgeline run "$turbulent" "${small[@]}" --set run.steps=20 -n 2

task "Stop at a steady state"
ridgeline run "$laminar" --set run.steps=400 --set run.stop_when=steady --set run.steady_tolerance=0.01 \
  --set output.path=steady.bp --set output.series=steady.csv --set checkpoint.path=steady_checkpoints

task "Continue from the checkpoint, with series and statistics"
ridgeline run "$turbulent" "${small[@]}" --set run.steps=30 -n 2 --resume auto

task "Add up statistics in windows, and see how far they have converged"
ridgeline plot square_duct_statistics.bp --convergence uu
ridgeline plot square_duct_statistics.bp --budget k
python -c "
import ridgeline
from ridgeline.analysis import add_windows
total = add_windows(ridgeline.open('square_duct_statistics.bp'))
print(int(total.windows), 'windows, largest uu', float(total.uu.max()), 'largest error', float(total.uu_error.max()))"

task "Draw the mean flow and the forces at the walls"
ridgeline plot square_duct_statistics.bp -o statistics.png
ridgeline plot square_duct.csv --variable friction_factor --variable wall_shear -o walls.png
python -c "
import ridgeline
last = ridgeline.open('square_duct.csv').isel(step=-1)
print('driving force', float(last.force_x), 'wall shear', float(last.wall_shear), 'Re_tau', float(last.re_tau))"

task "Set an inflow, an outflow and a heated wall"
cat > channel.toml <<'TOML'
[run]
model = "navier_stokes"
steps = 10

[grid]
elements = [1, 2, 4]
order = 5
lengths = [0.5, 2.0, 4.0]
periodic = [true, false, false]

[model]
viscosity = 0.02
dt = 0.02

[boundary.x_min]
kind = "inflow"
value = ["1.5*y*(2 - y)*(1 - exp(-5*t))", 0, 0]
[boundary.x_max]
kind = "outflow"
[boundary.y_min]
kind = "wall"
[boundary.y_max]
kind = "wall"

[[scalar]]
diffusivity = 0.02
[scalar.boundary.x_min]
kind = "fixed"
[scalar.boundary.y_min]
kind = "fixed"
value = "1 - exp(-t)"
[scalar.boundary.y_max]
kind = "adiabatic"

[output]
path = "channel.bp"
every = 10
series = "channel.csv"
series_every = 1
uniform = [1, 17, 33]
nek5000 = "channel"
nek5000_every = 10
TOML
ridgeline run channel.toml

task "Put a porous body into the flow, and damp waves before the outflow"
sed -e 's/^dt = .*/&\nsource = ["-2*u*abs(u)*(1.5 < x < 2)*(0.5 < y < 1.5)", 0, 0]/' -e 's/channel/porous/' channel.toml > porous.toml
cat >> porous.toml <<'TOML'

[[sponge]]
strength = "5*(x > 3)*(x - 3)"
velocity = ["1.5*y*(2 - y)", 0, 0]
TOML
ridgeline run porous.toml

task "Adapt the time step to the flow; record probes, and the forces on walls"
sed -e 's/^dt = .*/courant = 0.3\ndt_max = 0.05/' -e 's/channel/follow/' channel.toml > follow.toml
cat >> follow.toml <<'TOML'

[[probe]]
place = [1.0, 0.5, 0.25]
to = [1.0, 1.5, 0.25]
points = 3

[output.probes]
every = 2

[output.forces]
sides = ["y_min", "y_max"]
every = 2
TOML
ridgeline run follow.toml
head -n 2 probes.csv forces.csv

task "Use my own mesh, from Gmsh or Nek5000"
cylinder=(--set "grid.mesh=$examples/cylinder/cylinder.msh" --set grid.order=4)
ridgeline check "$examples/cylinder/settings.toml" "${cylinder[@]}"
ridgeline run "$examples/cylinder/settings.toml" "${cylinder[@]}" --set run.steps=10 --set output.every=10 -n 2

task "Look at the fields, also in ParaView or VisIt"
ridgeline plot channel.bp --variable velocity_x -o channel.png
ls channel*
ridgeline export channel.bp channel.pvd --step last
