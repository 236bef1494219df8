"""What lines of a node's logs mean: the patterns that are looked for, from how many a node is suspected, what to do.

A pattern is a kind of counters whose events are lines, so that all thresholds work alike. A site's file adds patterns
(tables `[[logs.pattern]]`) and files to search. Lines of hardware errors and link flaps take a node offline, as in
Ibeid et al. (MPI on Aurora), Sec. 3.8.7; those that programs cause only warn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ridgeline.validate.counter_kinds import NEVER, CounterKind, CounterSource

PREFIX = "log/"  # of the names of these counters


@dataclass(frozen=True)
class LogPattern:
    """Lines of one meaning. kind: thresholds, words and advice; match: a regular expression, found in the lines."""

    kind: CounterKind
    match: re.Pattern[str]


def log_pattern(key: str, what: str, match: str, warn: float, suspect: float, advice: str) -> LogPattern:
    """Return a pattern. Raises re.PatternError if `match` is not a regular expression."""
    kind = CounterKind(key, what, warn, suspect, advice, (CounterSource("", f"{PREFIX}{key}"),))
    return LogPattern(kind, re.compile(match))


_REPLACE = "Leave the node out, run the vendor's diagnostics, and replace the part that the line names."
_WATCH = "Watch the part that the line names, and replace it if the number continues to grow."
_GPU = (
    "Reset the GPU or reboot the node; if it happens again, run the vendor's diagnostics and replace the GPU."
)

# The first pattern that matches a line counts it.
PATTERNS = (
    log_pattern(
        "log_machine_check_fatal",
        "uncorrected machine checks or memory errors in the log",
        r"(?i)fatal machine check|\[Hardware Error\].*(?:Uncorrected|severity: (?:fatal|uncorrected|recoverable))"
        r"|Memory failure: 0x|EDAC.*\bUE\b",
        1,
        1,
        _REPLACE,
    ),
    log_pattern(
        "log_machine_check",
        "corrected machine checks or memory errors in the log",
        r"\[Hardware Error\]|Machine check events logged|EDAC.*\bCE\b",
        1,
        100,
        _WATCH,
    ),
    log_pattern(
        "log_pcie_fatal",
        "fatal PCI Express errors or lost devices in the log",
        r"severity=(?:Uncorrect\w+ \(Fatal\)|Fatal)|AER: .*(?<!Non-)\(?Fatal\)? error"
        r"|pciehp.*(?:Link Down|Card not present)",
        1,
        1,
        _REPLACE,
    ),
    log_pattern(
        "log_pcie_uncorrected",
        "uncorrected PCI Express errors in the log",
        r"severity=Uncorrect|AER: .*Uncorrect",
        1,
        10,
        _WATCH,
    ),
    log_pattern(
        "log_pcie_corrected",
        "corrected PCI Express errors in the log",
        r"severity=Correct|AER: .*[Cc]orrect",
        1,
        1000,
        _WATCH,
    ),
    log_pattern(
        "log_link_down",
        "links that went down in the log",
        r"CXI_EVENT_LINK_DOWN|(?:NIC )?[Ll]ink is [Dd]own|\b[Ll]ink [Dd]own\b|carrier lost",
        1,
        1,
        "Check the interface that the line names, its cable and its switch port.",
    ),
    log_pattern(
        "log_cxi_critical",
        "critical errors of a Cassini interface in the log",
        r"C_EC_(?:CRIT|UNCOR)",
        1,
        1,
        _REPLACE,
    ),
    log_pattern(
        "log_xid_hardware",
        "hardware errors of an NVIDIA GPU in the log",
        r"NVRM: Xid \(.*?\): (?:48|62|64|74|79|95|119|120|140)\b",
        1,
        1,
        _GPU,
    ),
    log_pattern(
        "log_xid_memory",
        "corrected memory errors of an NVIDIA GPU in the log",
        r"NVRM: Xid \(.*?\): (?:63|92|94)\b",
        1,
        10,
        _GPU,
    ),
    log_pattern(
        "log_xid_program",
        "errors of programs on an NVIDIA GPU in the log",
        r"NVRM: Xid \(",
        1,
        NEVER,
        "A program is the usual cause. Look at the GPU if they follow it through different programs.",
    ),
    log_pattern(
        "log_gpu",
        "errors of an AMD GPU in the log",
        r"amdgpu.*(?:uncorrectable hardware errors|GPU reset begin)",
        1,
        1,
        _GPU,
    ),
    log_pattern(
        "log_kernel",
        "faults of the kernel in the log",
        r"kernel BUG at|BUG: unable to handle|\bOops: |Kernel panic|hard LOCKUP",
        1,
        1,
        "Reboot the node before the next job, and report the fault to whoever maintains the system's software.",
    ),
    log_pattern(
        "log_file_system",
        "damage of a file system in the log",
        r"EXT4-fs error|XFS .*(?:[Cc]orruption|metadata I/O error)|BTRFS (?:error|critical)"
        r"|[Rr]emounting filesystem read-only",
        1,
        1,
        "Check the file system and the disk below it before the next job.",
    ),
    log_pattern(
        "log_disk",
        "errors of a disk in the log",
        r"I/O error,? (?:on )?dev|nvme.*(?:I/O.*timeout|controller is down)",
        1,
        10,
        _WATCH,
    ),
    log_pattern(
        "log_hung",
        "tasks that hung in the log",
        r"blocked for more than \d+ seconds|soft lockup - CPU",
        1,
        NEVER,
        "Look at the file system that the task waited for, then at the processor.",
    ),
    log_pattern(
        "log_memory_full",
        "processes killed because memory was full in the log",
        r"Out of memory: Kill|oom-kill:|Memory cgroup out of memory",
        1,
        NEVER,
        "The job needed more memory than the node has; check that daemons of the system were not killed too.",
    ),
    log_pattern(
        "log_shared_file_system",
        "errors of a shared file system in the log",
        r"LustreError|nfs: server .* not responding|mmfs.*\[E\]",
        10,
        NEVER,
        "Check the servers of the file system, and whether other nodes see the same.",
    ),
    log_pattern(
        "log_hot",
        "processors that became too hot in the log",
        r"(?:Core|Package) temperature.*above threshold",
        1,
        NEVER,
        "Check fans, coolant and power limit, and compare the clock with a healthy node.",
    ),
)
