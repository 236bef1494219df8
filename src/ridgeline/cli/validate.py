"""`ridgeline validate`: which parts of this machine are not fit for a run."""

from __future__ import annotations

import typer

from ridgeline.cli.options import Debug, Oversubscribe, Ranks, with_options
from ridgeline.runtime.declared_options import options_of
from ridgeline.validate.validation_options import ValidationOptions


@with_options(options_of(ValidationOptions), ValidationOptions)
def validate(
    ranks: Ranks = None,
    oversubscribe: Oversubscribe = False,
    *,
    options: ValidationOptions,
    debug: Debug = False,
) -> None:
    """Measure each node alone, then groups of nodes, then the whole system, and blame slow nodes and slow links.

    Nodes: memory patterns, exact arithmetic and the share of the processor that ranks get, multiply-adds, STREAM
    triad, messages on the node. Pairs of nodes, in rounds of disjoint ones: 8 B latency t / (2 iterations), bandwidth
    bytes x window / t of the slower direction. System: all-to-all, multi-pair bandwidth and latency, congestion.
    Every figure is compared with the other parts' (median and MAD), limits and a baseline. A link is blamed only when
    the other links of both ends are healthy. Suspects are measured again.

    Exit code: 0 healthy, 1 suspects, 2 could not measure (a stage hung or failed, a node was busy with
    something else).
    """
    from ridgeline.validate.command import start_validation

    code = start_validation(ranks, options, debug)
    if code:
        raise typer.Exit(code)
