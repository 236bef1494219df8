#!/usr/bin/env bash
# A graduate student in pattern formation: docs/tasks.md lists these tasks. Small grids, so that all takes minutes.
# Run it in an empty folder, with `ridgeline` on the path:  bash examples/tasks/pattern_formation.sh
set -euo pipefail
examples=$(cd "$(dirname "$0")/.." && pwd)
task() { printf '\n== %s\n' "$*"; }

cat > spots.toml <<'TOML'
[run]
model = "gray_scott"
steps = 400

[grid]
shape = [1, 64, 64]

[model]
Du = 0.8
Dv = 0.4
F = 0.03
k = 0.06
noise = 0.0

[output]
path = "spots.bp"
every = 100
initial = true
series = "spots.csv"
series_every = 20
TOML

task "Start from a picture"
python -c "
from PIL import Image, ImageDraw
picture = Image.new('L', (64, 64), 'white')
ImageDraw.Draw(picture).ellipse((20, 20, 44, 44), fill='black')
picture.save('start.png')"
ridgeline run spots.toml --set initial.kind=image --set initial.path=start.png

task "Start from random patches, from a formula, from an earlier run"
ridgeline run spots.toml --set initial.kind=patches --set initial.count=6 \
  --set output.path=patches.bp --set output.series=patches.csv
ridgeline run spots.toml --set initial.kind=formula \
  --set 'initial.formula_v="0.3 if hypot(x - 32, y - 32) < 8 else 0"' \
  --set output.path=formula.bp --set output.series=formula.csv
ridgeline run spots.toml --set initial.kind=file --set initial.path=patches.bp \
  --set output.path=further.bp --set output.series=further.csv

task "Use lengths: set the size of a cell"
ridgeline check "$examples/gray_scott_pearson/settings.toml" --set grid.cell_size=0.02

task "Map F and k: a sweep, its table and its contact sheet"
ridgeline sweep "$examples/gray_scott_pearson/settings.toml" -o map --set grid.shape=[1,48,48] \
  --set run.steps=2000 --set output.every=2000 --over model.F=0.02:0.06:3 --over model.k=0.05,0.06

task "Draw a plane, densities and the time series"
ridgeline plot spots.bp --variable V -o plane.png
ridgeline plot spots.bp --pdf -o density.png
ridgeline plot spots.csv -o series.png

task "Make a movie"
ridgeline plot spots.bp --variable V --movie spots.gif

task "Open the fields in ParaView"
ridgeline export spots.bp spots.pvd --step last
ls spots spots.pvd

task "Write rates of my own"
cat > mine.py <<'PYTHON'
def rate(v, w, a):
    """The fast variable of FitzHugh and Nagumo, excited where v passes a."""
    return v * (1 - v) * (v - a) - w
PYTHON
cat > excitable.toml <<'TOML'
[run]
model = "reaction_diffusion"
steps = 200

[grid]
shape = [1, 64, 64]

[model]
dt = 0.1
parameters = { a = 0.1 }

[[model.species]]
name = "v"
diffusivity = 1.0
rate = "mine.py:rate"
initial = "where(x < 10, 1, 0)"

[[model.species]]
name = "w"
diffusivity = 0
rate = "0.01*(0.5*v - w)"
initial = 0

[output]
path = "excitable.bp"
every = 100
TOML
ridgeline check excitable.toml
ridgeline run excitable.toml

task "Run a case from Python, and compare it with others"
python - <<'PYTHON'
import ridgeline

case = ridgeline.Case.read("excitable.toml", {"output.path": "from_python.bp"})
run = ridgeline.run(case, progress=False)
print(run.data["v"])
others = ridgeline.run_sweep("excitable.toml", {"model.parameters.a": [0.1, 0.2]}, output="thresholds")
print(others.table)
PYTHON

task "Watch a run in Python, and stop it when the pattern fills the box"
python - <<'PYTHON'
import ridgeline

changes = {"run.steps": 4000, "output.path": "watched.bp", "output.series": "watched.csv"}
case = ridgeline.Case.read("spots.toml", changes)


def look(now):
    if (now.fields("V")["V"] > 0.1).mean() > 0.2:
        now.stop()


with ridgeline.Simulation(case, overwrite=True, progress=False) as simulation:
    simulation.every(50, look)
    report = simulation.run()
print(report["run"]["ended"], "at step", report["run"]["last_step"])
PYTHON
