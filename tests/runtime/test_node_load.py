"""How much of a node others use: from two looks at its counters of time."""

from dataclasses import replace

import pytest

from ridgeline.runtime.node_load import Reading, busy_note, others_shares, read_load

LOOK = Reading("boot", 4, used=100.0, own=10.0, wall=1000.0)


def later(used=0.0, own=0.0, wall=10.0, system="boot"):
    return replace(LOOK, used=100.0 + used, own=10.0 + own, wall=1000.0 + wall, system=system)


def test_the_share_of_others_is_what_is_left_after_all_ranks_of_the_system():
    before = [LOOK, LOOK, replace(LOOK, system="other")]
    after = [later(30.04, 8), later(30.04, 10), later(35, 7, system="other")]
    assert others_shares(before, after, (0, 2)) == pytest.approx([12 / 40, (28 - 0.02) / 40])
    assert others_shares([LOOK], [later(5, 5)], [0]) == [0]
    assert others_shares([None], [later(5, 0)], [0]) == others_shares([LOOK], [LOOK], [0]) == [0]


def test_the_readings_of_a_large_job_are_passed_through_once():
    class Counted(list):
        passes = 0

        def __iter__(self):
            self.passes += 1
            return super().__iter__()

    before = Counted(replace(LOOK, system=str(rank // 4)) for rank in range(400))
    after = Counted(replace(look, used=104.0, wall=1010.0) for look in before)
    passes = before.passes
    shares = others_shares(before, after, range(0, 400, 4))
    assert shares == pytest.approx([(4 - 4 * 0.02) / 40] * 100)
    assert before.passes == passes + 1


def test_reading_a_tree(tmp_path):
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    assert read_load(tmp_path) is None
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("one\n")
    (tmp_path / "proc/stat").write_text(
        "cpu  100 200 300 9000 50 7 8 400 55 0\ncpu0 1\ncpu1 2\nintr 5 6\nctxt 7\n"
    )
    found = read_load(tmp_path)
    assert (found.system, found.processors) == ("one", 2)
    assert found.used == pytest.approx(
        10.0
    )  # 1000 ticks; not interrupts, not guests, which are users' already
    (tmp_path / "proc/stat").write_text("nonsense\n")
    assert read_load(tmp_path) is None


def test_a_busy_node_has_a_note_and_a_free_one_has_none():
    assert busy_note(0.05) is None
    assert busy_note(0.92) == (
        "Other processes used 92% of the busiest node during the measurement. The machine may be faster than these "
        "values."
    )
