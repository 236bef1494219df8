"""Whom the screening blames on simulated systems of 10,000 nodes with known bad nodes and links."""

import pytest

from ridgeline.validate.judge.outcome import screen
from simulated_system import simulate


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seed": 1, "repeats": 3},
        {"seed": 2, "bad_nodes": 10, "bad_links": 0},
        {"seed": 3, "bad_nodes": 0, "bad_links": 100},
        {"seed": 4, "bad_nodes": 1000, "bad_links": 2000},
        {"seed": 5, "stalls": 0.05},
        {"seed": 6, "slowdown": 0.3, "rounds": 8},
    ],
    ids=str,
)
def test_bad_parts_are_found_and_no_others(options):
    system = simulate(**options)
    scores = system.scores(screen(system.measurements))
    expected = [name for name in scores if options.get(f"bad_{name.split()[0]}s") != 0]
    assert {name: scores[name] for name in expected if scores[name] < 0.99} == {}


@pytest.mark.parametrize("stalls", [0.0, 0.05])
def test_nobody_is_blamed_on_a_healthy_system(stalls):
    for seed in range(2):
        verdict = screen(simulate(bad_nodes=0, bad_links=0, stalls=stalls, seed=seed).measurements)
        assert [suspect.reasons for suspect in verdict.suspects] == []
        assert verdict.exit_code == 0
        assert len(verdict.good_nodes()) == 10_000


def test_of_a_bad_link_one_end_is_left_out_of_the_next_run():
    system = simulate(seed=7)
    good = set(screen(system.measurements).good_nodes())
    names = system.measurements.nodes
    assert not good & {names[node] for node in system.nodes}
    assert not [link for link in system.links if names[link[0]] in good and names[link[1]] in good]
    assert len(good) >= 10_000 - len(system.nodes) - len(system.links) - 10
