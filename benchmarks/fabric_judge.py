"""How well `ridgeline validate` names bad links and nodes: precision and recall on simulated fabrics.

    python benchmarks/fabric_judge.py                  # the seeds that the judge was tuned on
    python benchmarks/fabric_judge.py --final second   # seeds of fabric_faults_final.toml
    python benchmarks/fabric_judge.py --only "torus, 512 nodes" --wrong

It prints a table: of how many faults, how many can be identified, how many of these were named (recall), and how
many of the suspects are faults (precision). fabric_faults.toml says what can be identified, and what a class of
elements is that no measurement can tell apart; a suspect is right if a fault is in its class.
"""

import argparse
import resource
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.validate.fabric.routes import KINDS
from ridgeline.validate.judge.verdict import Suspect
from simulated_fabrics import (
    RULES,
    Plan,
    Simulator,
    classes_of,
    make_fabric,
    make_plan,
    place_faults,
    validate,
)


@dataclass
class Score:
    """Sums over placements. exact: identifiable faults whose class has no other part; left_out: healthy nodes that
    are missing in nodes.good.
    """

    placements: int = 0
    faults: int = 0
    identifiable: int = 0
    exact: int = 0
    found: int = 0
    suspects: int = 0
    right: int = 0
    left_out: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return a row of the table."""
        recall = self.found / max(self.identifiable, 1)
        precision = self.right / max(self.suspects, 1)
        longest = max(self.seconds, default=0.0)
        return (
            f"| {name} | {self.placements} | {self.faults} | {self.identifiable} ({self.exact}) | {recall:.3f} | "
            f"{self.suspects} | {precision:.3f} | {self.left_out} | {longest:.1f} |"
        )

    def add(self, other: "Score") -> None:
        """Add the sums of another score."""
        for key in (
            "placements",
            "faults",
            "identifiable",
            "exact",
            "found",
            "suspects",
            "right",
            "left_out",
        ):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        self.seconds += other.seconds


HEAD = (
    "| fabric | placements | faults | identifiable (alone in their class) | recall | suspects | precision | "
    "healthy nodes left out | longest validation without measuring, s of CPU |\n|---|---|---|---|---|---|---|---|---|"
)


def element_of(plan: Plan, suspect: Suspect) -> int | None:
    """Return the element that a suspect names, None for a route between two nodes."""
    fabric, start = plan.fabric, plan.pairs[""][2].start
    if suspect.kind == "node":
        return suspect.nodes[0]
    if suspect.kind not in KINDS:
        return None
    if suspect.kind == "fabric link":
        names = {fabric.link_name(link): link for link in links_between(plan, suspect.name)}
    else:
        names = {
            name: n for n, name in enumerate(fabric.switches if suspect.kind == "switch" else fabric.groups)
        }
    return int(start[KINDS.index(suspect.kind)]) + names[suspect.name]


def links_between(plan: Plan, name: str) -> list[int]:
    """Return the links that may have this name: those of the switch that it begins with."""
    fabric = plan.fabric
    switch = fabric.switches.index(name.split(" - ")[0])
    return [int(n) for n in (fabric.links == switch).any(axis=1).nonzero()[0]]


def judge(plan: Plan, seed: int) -> Score:
    """Return the score of one placement."""
    faults = place_faults(plan, seed)
    classes = classes_of(plan, faults)
    simulator = Simulator(plan, faults, seed)
    plan.fabric.known.clear()
    begin = time.process_time()
    _, verdict = validate(simulator)
    score = Score(1, len(faults), len(classes), sum(len(some) == 1 for some in classes.values()))
    score.seconds = [time.process_time() - begin]
    bad = {fault.element for fault in faults}
    # Faults that cannot be identified may be named all the same, themselves or what cannot be told from them.
    named, reported = set(), set()
    for suspect in verdict.suspects:
        element = element_of(plan, suspect)
        score.suspects += 1
        if element is None:
            # What could be named must not be hidden behind its routes.
            right = bool(crossing(plan, suspect, bad - set(classes)))
        else:
            hit = {fault for fault, some in classes.items() if element in some} | ({element} & bad)
            if not hit:
                hit = {f for f in bad if f not in classes and element in alike(plan, f)}
            named |= hit
            right = bool(hit)
        score.right += right
        reported.add(f"{suspect.kind} {suspect.name}")
        if not right:
            score.wrong.append(f"seed {seed}: wrong {suspect.kind} {suspect.name}: {suspect.reasons}")
    score.found = len(named & classes.keys())
    for fault in faults:
        if fault.element in classes and fault.element not in named:
            score.wrong.append(
                f"seed {seed}: missed {describe(plan, fault.element)} {fault}, {sorted(reported)}"
            )
    good = set(verdict.good_nodes())
    # A node in the class of a fault is slow in all that was measured of it.
    slow = set().union(*classes.values(), bad) if faults else set()
    score.left_out = sum(name not in good for n, name in enumerate(plan.names) if n not in slow)
    return score


def alike(plan: Plan, element: int) -> set[int]:
    """Return the elements whose columns are proportional to this one's on all pairs."""
    from simulated_fabrics import Fault

    fault = Fault(element, 10.0)
    return classes_of(plan, [fault]).get(element, {element})


def crossing(plan: Plan, suspect: Suspect, bad: set[int]) -> set[int]:
    """Return the faults on the route between two nodes."""
    found = set()
    for first, second, matrix in plan.pairs.values():
        a, b = suspect.nodes
        rows = (((first == a) & (second == b)) | ((first == b) & (second == a))).nonzero()[0]
        found |= {f for f in bad if matrix.matrix[rows][:, [f]].sum() > 0}
    return found


def describe(plan: Plan, element: int) -> str:
    """Return kind and name of an element."""
    from ridgeline.validate.judge.fabric_screening import element_name

    return element_name(plan.pairs[""][2], element, plan.names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--final", choices=["first", "second"], help="use these seeds of fabric_faults_final.toml"
    )
    parser.add_argument("--only", nargs="*", help="names of fabrics")
    parser.add_argument("--placements", type=int, help="of each fabric, at most")
    parser.add_argument("--wrong", action="store_true", help="print wrong suspects and missed faults")
    options = parser.parse_args()
    seeds = tomllib.loads(Path(__file__).with_name("fabric_faults_final.toml").read_text())
    print(HEAD)
    total, wrong = Score(), []
    for entry in RULES["fabric"]:
        if options.only and entry["name"] not in options.only:
            continue
        plan, score = make_plan(make_fabric(entry)), Score()
        first = seeds[f"{options.final}_seed"][entry["name"]] if options.final else entry["first_seed"]
        for seed in range(first, first + min(entry["placements"], options.placements or 10**6)):
            one = judge(plan, seed)
            score.add(one)
            wrong += [f"{entry['name']}, {text}" for text in one.wrong]
        total.add(score)
        print(score.row(entry["name"]), flush=True)
    print(total.row("all"))
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if options.wrong:
        print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
