"""The stage that checks and measures all GPUs of a node, each in a process of its own (`validate.measure.gpu_check`).

A GPU that hangs, is lost or ends its process is named, and the others are measured all the same. All GPUs of a node
work at the same time, as in a job; only copies run one after the other, so that they do not share a bus. A GPU that
another process uses is not measured: it is busy, not faulty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from ridgeline.runtime.environment import child_environment
from ridgeline.validate.measure.node_gpus import NodeGpu
from ridgeline.validate.measure.nvml_readings import opened, unusable_gpus, users_of_gpus
from ridgeline.validate.measure.session import Session

_SECONDS = {True: 60.0, False: 300.0}  # of a process, quick or not
_UNITS = {
    "GPU triad": "B/s",
    "GPU DGEMM": "FLOP/s",
    "GPU DGEMM of our own kernel": "FLOP/s",
    "GPU host to device": "B/s",
    "GPU device to host": "B/s",
    "GPU to GPU": "B/s",
}
QUANTITIES = tuple(_UNITS)
# A process that measures is not a rank of the job, although it imports what ranks do.
_NO_MPI = {"MPI4PY_RC_INITIALIZE": "0", "MPI4PY_RC_FINALIZE": "0"}

Line = dict[str, Any]


def compile_checks(session: Session) -> None:
    """Fill the kernel cache of this rank's node by a check of a few numbers. What fails here fails in the stage too.

    No communication.
    """
    mine = session.gpus.of_rank(session.comm.rank)
    if mine:
        run_check("compile", mine[:1], True, 1)


def gpus(session: Session) -> None:
    """Check memory, triad, products and copies of every GPU of the nodes. Collective."""
    mine = session.gpus.of_rank(session.comm.rank)
    # Each number of the stage is measured by one process; its repeats are the repeats of the plan.
    repeats, seen = session.plan.repeats, set[str]()
    if session.comm.rank in session.leaders:
        seen = {gpu.address for gpu in session.gpus.all if gpu.node == session.node}
    found = session.on_nodes(lambda: partial(_measure, mine, seen, session.plan.quick, repeats), 1)
    rows: dict[str, dict[tuple[int, int, int], Sequence[float]]] = {name: {} for name in QUANTITIES}
    of_rank: dict[int, dict[int, NodeGpu]] = {}
    for gpu in session.gpus.all:
        of_rank.setdefault(gpu.rank, {})[gpu.index] = gpu
    for rank, results in enumerate(found):
        by_index = of_rank.get(rank, {})
        for line in results[0] if results else []:
            if "hidden" in line:
                host = session.measurements.nodes[session.layout.node_of_rank[rank]]
                session.measurements.remarks.append(
                    f"{host}: this job does not see {line['hidden']}, which is therefore not measured."
                )
            else:
                _note(session, by_index, line, rows)
    for name, values in rows.items():
        session.store_parts(name, _UNITS[name], values)
    for node, names in session.gpus.names().items():
        session.measurements.gpus[node] = names


def _note(
    session: Session,
    by_index: Mapping[int, NodeGpu],
    line: Line,
    rows: dict[str, dict[tuple[int, int, int], Sequence[float]]],
) -> None:
    """Keep one finding, on rank 0."""
    gpu = by_index[line["index"]]
    if line.get("busy"):
        session.note_fault(gpu.node, f"{gpu.name} is used by {line['busy']}", no_room=True)
    if line.get("wrong"):
        text = f"{line['wrong']} words of its memory are wrong, {line['detail']}"
        session.note_part_error(gpu.node, gpu.name, text)
    if line.get("wrong_products"):
        text = f"{line['wrong_products']} numbers of a product of matrices are wrong"
        session.note_part_error(gpu.node, gpu.name, text)
    if line.get("fault"):
        session.note_part_error(gpu.node, gpu.name, line["fault"])
    if "quantity" in line:
        peer = by_index[line["peer"]].number if "peer" in line else -1
        ends = (gpu.number, peer) if peer < 0 else (min(gpu.number, peer), max(gpu.number, peer))
        rows[line["quantity"]][gpu.node, *ends] = line["values"]


def _measure(mine: Sequence[NodeGpu], seen: Collection[str], quick: bool, repeats: int) -> list[Line]:
    """Return the findings on the GPUs of this rank, in order. No communication.

    seen: addresses of the GPUs that ranks of the node see, on the first of them; the others of the node are told.
    """
    lines: list[Line] = []
    if seen:
        with opened() as (_, there):
            lines += [{"hidden": gpu.name} for gpu in there if gpu.address not in seen]
    if not mine:
        return lines
    broken = unusable_gpus()
    lines += [{"index": gpu.index, "fault": broken[gpu.address]} for gpu in mine if gpu.address in broken]
    busy = users_of_gpus()
    lines += [{"index": gpu.index, "busy": busy[gpu.address]} for gpu in mine if gpu.address in busy]
    free = [gpu for gpu in mine if gpu.address not in busy]
    with ThreadPoolExecutor(max(len(free), 1)) as pool:
        for some in pool.map(lambda gpu: run_check("compute", [gpu], quick, repeats), free):
            lines += some
    faulty = {line["index"] for line in lines if "fault" in line}
    sound = [gpu for gpu in free if gpu.index not in faulty]
    return lines + (run_check("copies", sound, quick, repeats) if sound else [])


def run_check(
    what: str, chosen: Sequence[NodeGpu], quick: bool, repeats: int, seconds: float | None = None
) -> list[Line]:
    """Return what a process finds on these GPUs; a fault of the first one without a finding if it fails or hangs."""
    limit = _SECONDS[quick] if seconds is None else seconds
    order = {
        "what": what,
        "gpus": [{"index": gpu.index, "address": gpu.address} for gpu in chosen],
        "quick": quick,
        "repeats": repeats,
    }
    command = (sys.executable, "-P", "-m", "ridgeline.validate.measure.gpu_check", json.dumps(order))
    try:
        done = subprocess.run(
            command,
            env=child_environment() | _NO_MPI,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
        output, code, words = done.stdout, done.returncode, done.stderr
        how = f"the process that checked it ended with exit code {code}"
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else ""
        code, words, how = 1, "", f"it did not finish its check within {limit:g} s"
    lines = list(_read(output))
    if (code or not lines) and not any("fault" in line for line in lines):
        last = words.strip().splitlines()[-1:] or [""]
        there = {line["index"] for line in lines} if what == "copies" else set()
        culprit = next((gpu for gpu in chosen if gpu.index not in there), chosen[-1])
        lines.append({"index": culprit.index, "fault": how + (f": {last[0]}" if last[0] else "")})
    return lines


def _read(output: str) -> Iterator[Line]:
    """Yield the findings in what a process printed: libraries may print, too."""
    for line in output.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "index" in found:
                yield found
