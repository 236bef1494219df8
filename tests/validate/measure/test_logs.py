"""Lines of the logs between a prolog's marker and its epilog: which are found, what they mean, and what is noise."""

import os

import pytest

from node_trees import write
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import load_thresholds
from ridgeline.validate.log_patterns import PATTERNS
from ridgeline.validate.measure import logs, prolog_readings
from ridgeline.validate.measure.counters import by_name
from ridgeline.validate.measure.logs import (
    LogMoment,
    count_lines,
    log_moment,
    marker,
    read_lines,
    write_marker,
)
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.prolog_readings import Job, count, count_log_lines

# line -> the pattern that counts it, whether one such line takes the node offline
FAULTS = {
    "mce: [Hardware Error]: Machine check events logged": ("log_machine_check", False),
    "{1}[Hardware Error]: event severity: fatal": ("log_machine_check_fatal", True),
    "Memory failure: 0x3f2a: recovery action for dirty LRU page: Recovered": (
        "log_machine_check_fatal",
        True,
    ),
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0": ("log_machine_check_fatal", True),
    "EDAC MC3: 1 CE memory scrubbing error on CPU_SrcID#1_MC#1": ("log_machine_check", False),
    "nvme 0000:23:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer": (
        "log_pcie_fatal",
        True,
    ),
    "nvme 0000:23:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer": (
        "log_pcie_uncorrected",
        False,
    ),
    "pcieport 0000:16:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer": (
        "log_pcie_corrected",
        False,
    ),
    "pcieport 0000:16:01.0: AER: Uncorrected (Fatal) error received: 0000:23:00.0": ("log_pcie_fatal", True),
    "pcieport 0000:16:01.0: AER: Uncorrectable (Non-Fatal) error message received": (
        "log_pcie_uncorrected",
        False,
    ),
    "pcieport 0000:16:01.0: AER: Correctable error message received": ("log_pcie_corrected", False),
    "pcieport 0000:16:01.0: pciehp: Slot(3): Card not present": ("log_pcie_fatal", True),
    "mlx5_core 0000:c1:00.0 ib0: Link down": ("log_link_down", True),
    "tg3 0000:04:00.0 eth0: Link is down": ("log_link_down", True),
    "cxi_core 0000:d5:00.0: cxi3[hsn3] CXI_EVENT_LINK_DOWN": ("log_link_down", True),
    "cxi_core 0000:d5:00.0: cxi3[hsn3] C_EC_CRIT: HNI error": ("log_cxi_critical", True),
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.": ("log_xid_hardware", True),
    "NVRM: Xid (PCI:0000:3b:00): 63, pid=1234, Row Remapper: New row marked for remapping": (
        "log_xid_memory",
        False,
    ),
    "NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, Graphics Exception": ("log_xid_program", False),
    "amdgpu 0000:29:00.0: amdgpu: 1 uncorrectable hardware errors detected in total in umc block": (
        "log_gpu",
        True,
    ),
    "BUG: unable to handle page fault for address: ffffa0f": ("log_kernel", True),
    "EXT4-fs error (device sda2): ext4_find_entry:1455": ("log_file_system", True),
    "blk_update_request: I/O error, dev sda, sector 2048": ("log_disk", False),
    "INFO: task lammps:1234 blocked for more than 120 seconds.": ("log_hung", False),
    "Out of memory: Killed process 4711 (lammps)": ("log_memory_full", False),
    "CPU12: Package temperature is above threshold, cpu clock is throttled": ("log_hot", False),
}
NOISE = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): hsn0: link becomes ready",
    "tg3 0000:04:00.0 eth0: Link is up at 1000 Mbps, full duplex",
    "traps: a.out[1234] general protection fault ip:401136 sp:7ffc error:0",
    "a.out[1234]: segfault at 0 ip 0000000000401136 sp 00007ffc error 4",
    "perf: interrupt took too long (2513 > 2500), lowering kernel.perf_event_max_sample_rate",
    "EDAC MC0: Giving out device to module skx_edac controller",
    "Lustre: 1234:0:(client.c:2289) Request sent has timed out for slow reply",
    "LustreError: 11-0: operation ldlm_enqueue to node failed: rc = -107",
    "docker0: port 1(veth12) entered disabled state",
    "mce: CPU0 supports 32 MCE banks",
    "CPU12: Package temperature/speed normal",
    "nfs: server home OK",
    "systemd[1]: Started Session 12 of user alice.",
    "DEVICE=+pci:0000:3b:00.0",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node's tree, a function that runs its prolog, and one that returns its epilog's verdict."""
    write(tmp_path, {"proc/uptime": "5000.00 1.0", "dev/kmsg": "", "var/log/console": "an old line"})
    run = lambda *_: None  # noqa: E731
    for name in ("read_lines", "log_moment"):
        real = getattr(logs, name)
        more = {"run": run} if name == "read_lines" else {}
        monkeypatch.setattr(
            prolog_readings, name, lambda *args, real=real, more=more: real(*args, root=tmp_path, **more)
        )
    folder = tmp_path / "kept"

    class Node:
        root, files, patterns = tmp_path, ["/var/log/console"], PATTERNS

        def log(self, *lines, file="dev/kmsg"):
            with (tmp_path / file).open("a") as log:
                log.writelines(f"{line}\n" for line in lines)

        def prolog(self, marked=True):
            count(Job("prolog", "77", folder), "n1", {}, {}, log_moment(self.files, tmp_path))
            assert not marked or write_marker(marker("prolog", "77"), tmp_path)

        def epilog(self, thresholds=None):
            counted = count(Job("epilog", "77", folder), "n1", {}, {})
            count_log_lines(counted, self.files, self.patterns)
            found = Measurements(["n1"], node_of_rank=[0], lines={0: counted.lines}, remarks=counted.remarks)
            found.counters = by_name([counted.before], [counted.after])
            found.counted = {0: counted.period}
            return screen(found, thresholds)

    return Node()


def record(text, seconds=4999.9):
    return f"6,1234,{seconds * 1e6:.0f},-;{text}"


@pytest.mark.parametrize("line", FAULTS)
def test_a_line_of_a_fault_is_found_with_its_meaning(node, line):
    key, offline = FAULTS[line]
    node.prolog()
    node.log(record(line))
    verdict = node.epilog()
    pattern = next(pattern for pattern in PATTERNS if pattern.kind.key == key)
    reasons = [text for suspect in verdict.suspects for text in suspect.reasons]
    texts = reasons if offline else [warning.text for warning in verdict.warnings]
    assert len(texts) == 1
    assert bool(verdict.suspects) == offline
    start = f"{pattern.kind.what} since the prolog of job 77: 1 line, the first in the kernel's log: "
    assert texts[0].startswith(start)
    assert line[:60] in texts[0]


@pytest.mark.parametrize("line", NOISE)
def test_usual_lines_mean_nothing(node, line):
    node.prolog()
    node.log(record(line), f" {line}")
    verdict = node.epilog()
    assert (verdict.suspects, verdict.warnings) == ([], [])


LINK = "tg3 0000:04:00.0 eth0: Link is down"


def test_only_lines_after_the_marker_of_this_job_count(node):
    node.log(record(LINK), f"<5>{marker('prolog', '77')}", record(LINK))
    node.prolog()
    node.log(f"<5>{marker('prolog', '7')}")
    assert node.epilog().suspects == []
    node.log(record(LINK), record(LINK))
    assert "2 lines" in node.epilog().suspects[0].reasons[0]


def test_without_a_marker_the_time_of_a_line_decides(node):
    node.prolog(marked=False)
    node.log(record(LINK, seconds=1000))
    assert node.epilog().suspects == []
    node.log(record(LINK, seconds=5010))
    assert "1 line" in node.epilog().suspects[0].reasons[0]


def test_a_file_counts_from_its_end_at_the_prolog_and_copies_count_once(node):
    node.log(LINK, file="var/log/console")
    node.prolog()
    assert node.epilog().suspects == []
    node.log(f"[4999.9] {LINK}", f"[4999.9] {LINK}", file="var/log/console")
    node.log(record(LINK))
    assert "2 lines, the first in /var/log/console" in node.epilog().suspects[0].reasons[0]


def test_a_file_that_was_replaced_counts_from_its_marker_or_is_said_to_be_unsearched(node):
    node.prolog()
    (node.root / "var/log/console").rename(node.root / "var/log/console.1")
    write(node.root, {"var/log/console": LINK})
    verdict = node.epilog()
    assert verdict.suspects == []
    assert any("the log /var/log/console was not searched" in note for note in verdict.notes)
    node.log(f"[4990.0] {marker('prolog', '77')}", LINK, LINK, file="var/log/console")
    assert "2 lines" in node.epilog().suspects[0].reasons[0]


def test_a_site_adds_patterns_files_and_thresholds(node, tmp_path):
    (tmp_path / "site.toml").write_text(
        """
        [logs]
        files = ["/var/log/console"]
        [[logs.pattern]]
        key = "log_raid"
        what = "faults of the RAID in the log"
        match = "megaraid.*failed"
        suspect = 2
        advice = "Replace the disk."
        [thresholds.counters]
        log_link_down = { suspect = "never" }
        """
    )
    thresholds = load_thresholds(tmp_path / "site.toml")
    assert thresholds.log_files == ("/var/log/console",)
    node.patterns = thresholds.patterns
    node.prolog()
    node.log(record("megaraid: disk 3 failed"), record(LINK))
    verdict = node.epilog(thresholds)
    assert (len(verdict.warnings), verdict.suspects) == (2, [])
    node.log(record("megaraid: disk 3 failed"))
    (suspect,) = node.epilog(thresholds).suspects
    assert suspect.reasons[0].startswith("faults of the RAID in the log since the prolog of job 77: 2 lines")
    assert suspect.advice == ["Replace the disk."]


def test_the_journal_is_searched_where_the_kernels_buffer_cannot_be_read(tmp_path):
    asked = []
    texts, _ = read_lines(
        LogMoment(1700000000.4),
        None,
        (),
        tmp_path,
        lambda command: asked.append(command) or f"{LINK}\n{LINK}\n",
    )
    assert count_lines(texts, PATTERNS)[0] == {"log/log_link_down": 2}
    assert asked[0][-2:] == ("--since=@1700000000", "_TRANSPORT=kernel")


def test_a_line_in_a_report_is_short_and_printable():
    _, first = count_lines({"x": [f"\x1b[31m{LINK}\x07{'y' * 500}"]}, PATTERNS)
    (line,) = first.values()
    assert line.isprintable()
    assert len(line) < 180


def test_this_machine():
    texts, remarks = read_lines(log_moment([]), None, ())
    assert remarks == []
    assert all(isinstance(line, str) for lines in texts.values() for line in lines)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_a_user_writes_no_marker():
    assert not write_marker("x")


def test_all_patterns_are_tested():
    assert {key for key, _ in FAULTS.values()} | {"log_shared_file_system"} == {p.kind.key for p in PATTERNS}
