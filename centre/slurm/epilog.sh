#!/bin/sh
# Slurm Epilog (root, on every node of a job, after it ended): a short check of what the job left, and its
# counters against those that the prolog kept.
RIDGELINE_PHASE=epilog exec "$(dirname "$0")/prolog.sh"
