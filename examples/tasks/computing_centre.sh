#!/usr/bin/env bash
# Support staff of a computing centre: docs/tasks.md lists these tasks. Short measurements, so that all takes minutes.
# Run it in an empty folder, with `ridgeline` on the path:  bash examples/tasks/computing_centre.sh
set -euo pipefail
examples=$(cd "$(dirname "$0")/.." && pwd)
task() { printf '\n== %s\n' "$*"; }

task "See what is installed and what is missing"
ridgeline doctor

task "See where ranks belong on a node"
ridgeline bind

task "Measure memory and messages"
ridgeline bench stream --json stream.json
ridgeline bench latency -n 2 --sizes 1 1024 --iterations 100 --json latency.json --plot latency.png
ridgeline report latency.json

task "Find slow nodes and links before a big run"
ridgeline validate -n 2 --level node --quick --stage memory --stage compute --report health || test $? -le 2

task "Check a node before and after each job"
code=0
ridgeline validate --prolog --within 10 --job 1 --readings readings || code=$?
ridgeline validate --epilog --within 10 --job 1 --readings readings --history history.jsonl || code=$?
echo "exit code $code"; test $code -le 2

task "Study how a user's case scales"
ridgeline study run "$examples/gray_scott/settings.toml" --strong --ranks 1,2 --repeat 1 -o scaling \
  --set grid.shape=[32,32,32] --set run.steps=40

task "Write job scripts of a study for the batch system"
ridgeline study run "$examples/gray_scott/settings.toml" --weak --ranks 64,512 -o large \
  --submit slurm --ranks-per-node 64 --time 00:20:00 --directive=--account=PROJECT

task "Predict what a case costs on another machine"
ridgeline predict "$examples/turbulence_decay/settings.toml" --machine frontier --nodes 64 \
  --set grid.shape=[2048,2048,2048] --plot predicted.svg

task "Give a user a job script that resumes by itself"
bash -n "$examples/job_scripts/frontier.slurm"
cp "$examples/job_scripts/frontier.slurm" "$examples/job_scripts/aurora.pbs" .
