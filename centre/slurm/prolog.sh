#!/bin/sh
# Slurm Prolog (root, on every node of a job, before it starts). A non-zero exit drains this node and requeues the
# job, so only a suspect node (1, and the verdict says so) causes one. A check that could not measure (2, or 124 after
# 55 s) or could not even start is logged.
settings=${RIDGELINE_SETTINGS:-/etc/ridgeline/site.env}
if [ -r "$settings" ]; then
    set -a
    . "$settings"
    set +a
fi
phase=${RIDGELINE_PHASE:-prolog}
reports=${RIDGELINE_REPORTS:-/var/log/ridgeline}
report="$reports/$phase-${SLURM_JOB_ID:-none}"
set -- validate "--$phase" --report "$report"
[ -n "${RIDGELINE_BASELINE:-}" ] && set -- "$@" --baseline "$RIDGELINE_BASELINE"
[ -n "${RIDGELINE_HISTORY:-}" ] && set -- "$@" --history "$RIDGELINE_HISTORY"
[ -n "${RIDGELINE_PROMETHEUS:-}" ] && set -- "$@" --prometheus "$RIDGELINE_PROMETHEUS"
[ -n "${RIDGELINE_SYSLOG:-}" ] && set -- "$@" --syslog
[ -n "${RIDGELINE_WITHIN:-}" ] && set -- "$@" --within "$RIDGELINE_WITHIN"
[ -n "${RIDGELINE_MACHINE:-}" ] && set -- "$@" --machine "$RIDGELINE_MACHINE"
[ -n "${RIDGELINE_THRESHOLDS:-}" ] && set -- "$@" --thresholds "$RIDGELINE_THRESHOLDS"
# The prolog keeps its counters for the epilog of the job, which finds them by SLURM_JOB_ID.
[ -n "${RIDGELINE_READINGS:-}" ] && set -- "$@" --readings "$RIDGELINE_READINGS"
output=${RIDGELINE_JOB_OUTPUT:-${SLURM_JOB_STDOUT:-}}
# Slurm passes on the pattern of the name. Only numbers are filled in: a job's name is its user's. Those of an array
# are not in this environment, so that the controller is asked for them.
case $output in
*%[Aa]*)
    [ "$phase" = epilog ] && command -v scontrol >/dev/null &&
        output=$(scontrol show job "${SLURM_JOB_ID:-0}" 2>/dev/null | sed -n 's/^ *StdOut=//p' | head -n 1)
    ;;
esac
output=$(printf '%s\n' "$output" | sed "s/%j/${SLURM_JOB_ID:-0}/g")
case $output in
'' | /*) ;;
*) output=${SLURM_JOB_WORK_DIR:-.}/$output ;;
esac
[ "$phase" = epilog ] && [ -n "$output" ] && set -- "$@" --job-output "$output"

# The check must not consider itself a task of the job whose environment it has.
unset SLURM_STEP_NUM_TASKS SLURM_PROCID PMI_SIZE PMI_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK
said=$(timeout "${RIDGELINE_SECONDS:-55}" "${RIDGELINE:-ridgeline}" "$@" 2>&1)
code=$?
# Python also ends with 1 when the environment is broken, which must not drain all nodes.
[ $code = 1 ] && ! printf '%s\n' "$said" | grep -Eq '^[0-9]+ suspects?: ' && code=2
case $code in
0) exit 0 ;;
1)
    printf '%s\n' "$said" | tail -n 5
    # Slurm may know this node by another name than its host name.
    node=${SLURMD_NODENAME:-$(hostname -s)}
    echo "ridgeline $phase: $node is suspect, see $report/report.html"
    # Slurm drains the node for a failed Prolog by itself; the reason says why.
    command -v scontrol >/dev/null &&
        scontrol update "NodeName=$node" State=DRAIN "Reason=ridgeline $phase: $report"
    exit 1
    ;;
*)
    command -v logger >/dev/null && logger -t ridgeline "$phase could not measure (exit code $code): $said"
    exit 0
    ;;
esac
