#!/bin/sh
# Slurm Epilog (root, on every node of a job, after it ended): counters and a short check of what the job left.
RIDGELINE_PHASE=epilog exec "$(dirname "$0")/prolog.sh"
