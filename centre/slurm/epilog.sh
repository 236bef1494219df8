#!/bin/sh
# Slurm Epilog (root, on every node of a job, after it ended): a short check of the node, which also compares its
# counters with those that the prolog stored.
RIDGELINE_PHASE=epilog exec "$(dirname "$0")/prolog.sh"
