"""Which stages of a validation run, in which order and for how long: nodes, switches, groups, the whole system.

What a stage measures is in `validate.measure.validation_stages`. The health of the system rests on that of its
groups, and that of a group on its nodes and switches. The smallest parts are therefore measured first. Every stage
has a time limit, held by the watchdog. What looks suspect is measured again before it is judged. Source: Ibeid et al.
(MPI on Aurora), Sec. 3.8.5.
"""

from __future__ import annotations

import difflib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ridgeline.parallel.layout import avoids_shared_memory
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.node_load import others_shares, read_load
from ridgeline.validate.measure import gpu_stages, part_stages, validation_stages
from ridgeline.validate.measure.measurements import Measurements, Stage
from ridgeline.validate.measure.session import Session
from ridgeline.validate.validation_options import ValidationOptions

_POLL = 2e-3  # seconds
_AGREE_SECONDS = 2.0  # in which the other ranks may end a stage after one failed in it
_CONFIRMATIONS = 3  # at most
_PREPARE_SECONDS = 300.0  # for compiling, which does not count towards a stage's limit


Suspects = Callable[[Measurements], dict[str, list[int]]]


@dataclass(frozen=True)
class LevelStage:
    """A stage of a level. quantities: of parts, which it measures again where they make a part suspect."""

    name: str
    level: str
    run: Callable[[Session], None]
    quantities: tuple[str, ...] = ()
    least_nodes: int = 1
    least_ranks: int = 1


STEPS = (
    LevelStage("memory", "node", validation_stages.memory),
    LevelStage("compute", "node", validation_stages.compute, ("compute", "cpu_share", "slowest core")),
    LevelStage("peak", "node", validation_stages.peak, ("peak",)),
    LevelStage("stream", "node", validation_stages.stream, ("stream",)),
    LevelStage("gpus", "node", gpu_stages.gpus, gpu_stages.QUANTITIES),
    LevelStage(
        "on-node", "node", validation_stages.on_node, ("on-node latency", "on-node bandwidth"), least_ranks=2
    ),
    LevelStage(
        "loopback",
        "node",
        validation_stages.loopback,
        ("loopback latency", "loopback bandwidth"),
        least_ranks=2,
    ),
    LevelStage(
        "switch-pairs",
        "switch",
        validation_stages.switch_pairs,
        ("switch latency", "switch bandwidth"),
        least_nodes=2,
    ),
    LevelStage(
        "switch-alltoall", "switch", part_stages.switch_alltoall, ("switch all-to-all",), least_nodes=2
    ),
    LevelStage(
        "switch-bisection", "switch", part_stages.switch_bisection, ("switch bisection",), least_nodes=2
    ),
    LevelStage(
        "group-pairs",
        "group",
        validation_stages.group_pairs,
        ("group latency", "group bandwidth"),
        least_nodes=2,
    ),
    LevelStage("group-alltoall", "group", part_stages.group_alltoall, ("group all-to-all",), least_nodes=2),
    LevelStage("group-bisection", "group", part_stages.group_bisection, ("group bisection",), least_nodes=2),
    LevelStage("pairs", "system", validation_stages.pairs, ("latency", "bandwidth"), least_nodes=2),
    LevelStage("alltoall", "system", validation_stages.alltoall, least_ranks=2),
    LevelStage("multi-bandwidth", "system", validation_stages.multi_bandwidth, least_ranks=2),
    LevelStage("multi-latency", "system", validation_stages.multi_latency, least_ranks=2),
    LevelStage("allreduce", "system", validation_stages.allreduce, least_ranks=2),
    LevelStage("congestion", "system", validation_stages.congestion, least_ranks=3),
)


def chosen_steps(plan: ValidationOptions) -> list[LevelStage]:
    """Return the stages of the plan. Raises ConfigError for a name that is not a stage of the levels."""
    steps = [step for step in STEPS if step.level in plan.levels]
    names = [step.name for step in steps]
    unknown = [name for name in plan.stages if name not in names]
    if unknown:
        near = difflib.get_close_matches(unknown[0], names, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(
            f"--stage {unknown[0]}: level {plan.level} has no such stage.{hint} Known stages: {', '.join(names)}."
        )
    return [step for step in steps if not plan.stages or step.name in plan.stages]


def skip_reason(step: LevelStage, session: Session) -> str:
    """Return why a stage has nothing to measure here, "" if it has."""
    nodes, ranks = session.layout.n_nodes, session.comm.size
    if nodes < step.least_nodes:
        return f"it needs {step.least_nodes} nodes, but the job has {nodes}"
    if ranks < step.least_ranks:
        return f"it needs {step.least_ranks} ranks, but the job has {ranks}"
    if step.name == "gpus" and not session.gpus.all:
        return session.gpus.missing
    if step.name == "on-node" and ranks == nodes:
        return "no node has two ranks"
    if step.name == "loopback" and not avoids_shared_memory(os.environ):
        return "messages inside a node go through shared memory (MPIR_CVAR_NOLOCAL=1 changes that in MPICH)"
    if step.name == "loopback" and not validation_stages.loopback_pairs(session):
        return "no network interface is known to have two ranks"
    if step.level == "switch" and not any(len(members) > 1 for members in session.switches.values()):
        return "no switch with two nodes is known (--topology names switches)"
    if step.level == "group" and not any(len(members) > 1 for members in session.groups.values()):
        return "no groups are known (--groups names them)"
    return ""


def run_levels(
    session: Session,
    suspects: Suspects,
    after_stage: Callable[[str, float], None],
) -> None:
    """Measure all stages of the plan and fill in `session.measurements` on rank 0. Collective.

    suspects: called on rank 0 with what was measured, returns quantity -> numbers of the nodes that it makes suspect,
    ends of suspect links among them; after_stage: called on rank 0 with the name of each stage that begins and its
    limit in seconds. A stage that all ranks refuse is skipped with the reason; one that only some end in an error is
    the last.
    """
    steps = chosen_steps(session.plan)
    runnable = []
    if any(step.level == "node" for step in steps):
        names = [step.name for step in steps]
        _run(
            session,
            "prepare",
            "node",
            _PREPARE_SECONDS,
            lambda session: validation_stages.prepare(session, names),
            after_stage,
        )
    begin = time.monotonic()
    for step in steps:
        reason = skip_reason(step, session) or _no_time(session, begin)
        if reason:
            session.measurements.stages.append(Stage(step.name, step.level, 0.0, "skipped", reason))
            continue
        if not _run_step(session, step, step.name, after_stage):
            return
        if step.quantities:
            runnable.append(step)
    if session.plan.confirm and runnable:
        _confirm(session, runnable, suspects, after_stage, begin)


def _no_time(session: Session, begin: float) -> str:
    """Return why no further stage begins, "" while there is time. begin: of the stages. Collective."""
    within = session.plan.within
    if within is None:
        return ""
    reason = f"the {within:g} s of --within are over" if time.monotonic() - begin > within else ""
    agreed: str = session.comm.bcast(reason)
    return agreed


def _confirm(
    session: Session,
    steps: Sequence[LevelStage],
    suspects: Suspects,
    after_stage: Callable[[str, float], None],
    begin: float,
) -> None:
    """Measure suspects and busy nodes again, in what made them so; the better measurement counts. Collective.

    If other parts than before are suspect then, or in another quantity, noise was the cause, and they are measured
    once more.
    """
    before: set[tuple[str, int]] = set()
    for turn in range(1, _CONFIRMATIONS + 1):
        now = suspects(session.measurements) if session.comm.rank == 0 else None
        session.rest()  # asleep while rank 0 judges
        again: dict[str, list[int]] = {} if _no_time(session, begin) else session.comm.bcast(now)
        parts = {(quantity, node) for quantity, nodes in again.items() for node in nodes}
        if not parts or parts == before:
            break
        for step in steps:
            session.again = {node for name in step.quantities for node in again.get(name, ())}
            name = f"{step.name} again" + f" ({turn})" * (turn > 1)
            if session.again and not _run_step(session, step, name, after_stage):
                return
        before = parts
    session.again = None


def _run_step(
    session: Session, step: LevelStage, name: str, after_stage: Callable[[str, float], None]
) -> bool:
    """Run a stage and note who else used the nodes meanwhile; return whether another can follow. Collective."""
    before = read_load()
    if not _run(session, name, step.level, session.plan.time_limit, step.run, after_stage):
        return False
    looks = session.stage_ends.gather((before, read_load()))
    if looks is not None:
        first, last = zip(*looks)
        shares = others_shares(first, last, session.leaders)
        session.note_others(step.quantities or (step.name,), shares)
    return True


def _run(
    session: Session,
    name: str,
    level: str,
    limit: float,
    action: Callable[[Session], None],
    after_stage: Callable[[str, float], None],
) -> bool:
    """Run one stage on all ranks, watched; return whether another can follow. Collective."""
    stage = Stage(name, level)
    if session.comm.rank == 0:
        after_stage(name, limit)
    session.watch.begin(name, level, limit)
    # A rank that spun while it waited for the others would begin with its share of a busy core used up.
    session.rest()
    begin, failure = time.perf_counter(), ""
    try:
        action(session)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    failures = _agree(session, failure)
    session.watch.end()
    stage.seconds = time.perf_counter() - begin
    if any(failures):
        # All ranks refuse alike; an error that only some ranks met leaves messages behind that nobody received.
        refused = len(set(failures)) == 1
        stage.outcome = "skipped" if refused and failure.startswith(ConfigError.__name__) else "failed"
        stage.detail = next(text for text in failures if text).partition(": ")[2]
        for rank, text in enumerate(failures):
            if text.startswith(VerificationError.__name__) and not refused:
                session.note_fault(session.layout.node_of_rank[rank], f"rank {rank} in stage {name}: {text}")
    session.measurements.stages.append(stage)
    return not any(failures) or len(set(failures)) == 1


def _agree(session: Session, failure: str) -> list[str]:
    """Return the failures of all ranks. A rank that failed while others are still at work tells the watchdog, which
    ends the job: they may wait for it for ever. Collective.
    """
    together = session.stage_ends.Ibarrier()
    deadline = time.monotonic() + _AGREE_SECONDS if failure else math.inf
    while not together.Test():
        if time.monotonic() > deadline:
            session.watch.fail(failure)
            deadline = math.inf
        time.sleep(_POLL)
    failures: list[str] = session.stage_ends.allgather(failure)
    return failures
