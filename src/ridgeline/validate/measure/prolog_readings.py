"""What a job did to the counters of a node: the prolog keeps its readings, and the epilog compares its own with them.

Both run as root, and the folder of the readings may lie where users can write. No path is therefore followed that
another user could have planted. Every folder of the path belongs to this user or to root, and others cannot write to
it (or cannot replace its files, as in /var/tmp). Files are opened without following links, and must be this user's.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from ridgeline.runtime.errors import OutputError
from ridgeline.validate.counter_kinds import FLEETING
from ridgeline.validate.log_patterns import LogPattern
from ridgeline.validate.measure.counters import Counters, is_gauge, read_output, set_back
from ridgeline.validate.measure.logs import LogMoment, count_lines, log_moment, marker, read_lines

_SUFFIX = ".counters.json"
_MOST_BYTES = 16 * 2**20  # of a file that is trusted
_KEPT_SECONDS = 60 * 86400.0  # jobs do not take longer; older files belong to jobs whose epilog never ran
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID")
VALIDATED = "during the validation"
_NAMED = 4  # counters in a remark
_NO_NUMBER = "the number of the job is unknown (--job, SLURM_JOB_ID, PBS_JOBID)"
_ANOTHER = "Choose another folder."


@dataclass(frozen=True)
class Readings:
    """What a prolog read. job: its number; boot: identifies the boot of the system; taken: seconds since 1970; files:
    logs and where they ended (`logs.LogMoment`).
    """

    job: str
    boot: str
    taken: float
    counters: Counters
    files: dict[str, list[int]] = field(default_factory=dict)


def default_folder() -> Path:
    """Return the folder for readings: of the system for root, otherwise in /var/tmp, which survives a reboot."""
    user = os.geteuid()
    return Path("/var/lib/ridgeline/prolog" if user == 0 else f"/var/tmp/ridgeline-{user}/prolog")


def job_here(asked: str | None) -> str | None:
    """Return the number of the job: the one given, or the one that Slurm or PBS sets; None if it is unknown."""
    return asked or next((os.environ[name] for name in JOB_VARIABLES if os.environ.get(name)), None)


def read_boot(root: Path = Path("/")) -> str:
    """Return the identifier of this boot of the system, "" if there is none."""
    with suppress(OSError):
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def keep_readings(folder: Path, host: str, readings: Readings) -> None:
    """Store readings, whole or not at all, and remove those of jobs long gone.

    Raises OutputError if the folder is not safe or cannot be written.
    """
    text = json.dumps(asdict(readings)).encode()
    with _opened(folder, make=True) as place:
        new = f".{secrets.token_hex(8)}.new"
        made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place)
        try:
            with os.fdopen(made, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, _name(host, readings.job), src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            os.unlink(new, dir_fd=place)
            raise
        _prune(place)


def load_readings(folder: Path, host: str, job: str) -> Readings | None:
    """Return what the prolog of a job kept, None if it kept nothing.

    Raises OutputError if the folder is not safe or the file cannot be trusted.
    """
    name = _name(host, job)
    try:
        with _opened(folder, make=False) as place:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(name, flags, dir_fd=place), "rb") as file:
                state = os.fstat(file.fileno())
                if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
                    raise OutputError(
                        f"{folder / name}: the stored counters are not read, because the file does not belong to "
                        "this user alone."
                    )
                content = json.loads(file.read(_MOST_BYTES))
        counters = {str(key): int(value) for key, value in content["counters"].items()}
        files = {str(name): [int(part) for part in end] for name, end in content.get("files", {}).items()}
        return Readings(str(content["job"]), str(content["boot"]), float(content["taken"]), counters, files)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            f"{folder / name}: the file does not hold stored counters ({type(error).__name__})."
        ) from None


def forget_readings(folder: Path, host: str, job: str) -> None:
    """Remove what the prolog of a job kept."""
    with suppress(OSError, OutputError), _opened(folder, make=False) as place:
        os.unlink(_name(host, job), dir_fd=place)


def _name(host: str, job: str) -> str:
    """Return the file of a job on a host, which is in the folder whatever the names are."""
    return f"{quote(host, safe='')[:100]}-{quote(job, safe='')[:100]}{_SUFFIX}"


@contextmanager
def _opened(folder: Path, make: bool) -> Iterator[int]:
    """Open a folder that only this user and root control. Raises OutputError naming what is not safe."""
    path = Path(os.path.abspath(folder))
    try:
        if make:
            for part in reversed((path, *path.parents)):
                with suppress(FileExistsError):
                    part.mkdir(0o700)
        for part in reversed((path, *path.parents)):
            _check(part, last=part == path)
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OutputError(f"--readings: cannot use {folder}: {error.strerror}. {_ANOTHER}") from None
    try:
        _check_state(path, os.fstat(place), last=True)
        yield place
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OutputError(f"--readings: cannot use {folder}: {error.strerror}. {_ANOTHER}") from None
    finally:
        os.close(place)


def _check(path: Path, last: bool) -> None:
    """Raise OutputError if another user could replace a part of the path. Links may be root's and this user's."""
    state = path.lstat()
    _check_state(path, state, last)
    if stat.S_ISLNK(state.st_mode):
        if last:
            raise OutputError(
                f"--readings: {path} is a symbolic link, but the counters are stored in a real folder only. "
                f"{_ANOTHER}"
            )
        _check(Path(os.path.realpath(path)), last=False)


def _check_state(path: Path, state: os.stat_result, last: bool) -> None:
    if state.st_uid not in (0, os.geteuid()) or (last and state.st_uid != os.geteuid()):
        raise OutputError(
            f"--readings: {path} belongs to user {state.st_uid}, not to the user of this process. {_ANOTHER}"
        )
    writable = stat.S_ISDIR(state.st_mode) and state.st_mode & 0o022
    if writable and (last or not state.st_mode & stat.S_ISVTX):
        raise OutputError(
            f"--readings: other users can write into {path}. Take that permission away, or choose another folder."
        )


def _prune(place: int) -> None:
    """Remove old readings, also unfinished ones, that no epilog will read."""
    now = time.time()
    for name in os.listdir(place):
        if name.endswith((_SUFFIX, ".new")):
            with suppress(OSError):
                if now - os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime > _KEPT_SECONDS:
                    os.unlink(name, dir_fd=place)


@dataclass(frozen=True)
class Job:
    """What a prolog or an epilog knows about its job. phase: "prolog", "epilog" or "" for none; number: None if it is
    unknown; folder: of the readings; output: the job's output file, if it is known.
    """

    phase: str = ""
    number: str | None = None
    folder: Path = Path()
    output: str | None = None


@dataclass
class Counted:
    """Counters of one node. before, after: what is compared; period: what lies between; remarks: on that; since: from
    when lines of the logs count; begin: the marker of that moment; lines: of the logs, the first that each counter of
    lines counted.
    """

    before: Counters
    after: Counters
    period: str = VALIDATED
    remarks: list[str] = field(default_factory=list)
    since: LogMoment = field(default_factory=lambda: LogMoment(time.time()))
    begin: str | None = None
    lines: dict[str, str] = field(default_factory=dict)


def count(job: Job, host: str, before: Counters, after: Counters, start: LogMoment | None = None) -> Counted:
    """Return what to compare on this node: in an epilog, the prolog's readings with those at its end.

    A prolog stores its last readings here. before, after: of this validation, which began at `start`. Nothing raises,
    because a node can be judged without readings; the remarks say what is missing. No communication.
    """
    counted = Counted(before, after, since=start or LogMoment(time.time()))
    if job.phase == "prolog":
        counted.remarks += _keep(job, host, after, list(counted.since.files))
    elif job.phase == "epilog":
        _compare(job, host, counted)
    if counted.period == VALIDATED:  # what processes hold tells something only before and after a job
        counted.before, counted.after = _without_gauges(counted.before), _without_gauges(counted.after)
    return counted


def _without_gauges(counters: Counters) -> Counters:
    return {name: value for name, value in counters.items() if not is_gauge(name)}


def count_output(job: Job, counted: Counted) -> None:
    """Add the time-outs of the summary that Cray MPICH printed into the job's output, if it is known."""
    if job.phase != "epilog" or job.output is None:
        return
    try:
        summary = read_output(job.output)
    except OSError as error:
        counted.remarks.append(f"the job's output {job.output} cannot be read: {error.strerror}.")
        return
    if "mpich/network_timeouts" not in summary:
        counted.remarks.append(f"the job's output {job.output} has no network summary of Cray MPICH.")
        return
    counted.before = counted.before | {"job/network_timeouts": 0}
    counted.after = counted.after | {"job/network_timeouts": summary["mpich/network_timeouts"]}


def count_log_lines(counted: Counted, files: Sequence[str], patterns: Sequence[LogPattern]) -> None:
    """Add how many lines of this node's logs match each pattern. No communication."""
    texts, remarks = read_lines(counted.since, counted.begin, files)
    counts, counted.lines = count_lines(texts, patterns)
    counted.before = counted.before | dict.fromkeys(counts, 0)
    counted.after = counted.after | counts
    counted.remarks += remarks


def _keep(job: Job, host: str, counters: Counters, files: Sequence[str]) -> list[str]:
    lost = "The epilog will not know how the job changes them."
    if job.number is None:
        return [f"the counters are not stored, because {_NO_NUMBER}. {lost}"]
    try:
        end = log_moment(files)
        keep_readings(job.folder, host, Readings(job.number, read_boot(), end.taken, counters, end.files))
    except OutputError as error:
        return [f"the counters are not stored: {error} {lost}"]
    return []


def _compare(job: Job, host: str, counted: Counted) -> None:
    alone = "Only their growth during the epilog is known, not how the job changed them."
    if job.number is None:
        counted.remarks.append(
            f"the counters are not compared with the prolog's, because {_NO_NUMBER}. {alone}"
        )
        return
    try:
        readings = load_readings(job.folder, host, job.number)
    except OutputError as error:
        counted.remarks.append(f"the counters are not compared with the prolog's: {error} {alone}")
        return
    if readings is None:
        counted.remarks.append(f"{job.folder} has no counters of the prolog of job {job.number}. {alone}")
        return
    counted.since = LogMoment(readings.taken, readings.files)
    counted.begin = marker("prolog", job.number)
    prolog = f"the prolog of job {job.number}"
    counted.period = f"since {prolog}"
    minutes = max(time.time() - readings.taken, 0.0) / 60
    counted.remarks.append(f"counters are compared with those that {prolog} read {minutes:.1f} min before.")
    if readings.boot != read_boot():
        counted.before, counted.after = {}, _without_gauges(counted.after)
        counted.remarks.append(
            f"the node was rebooted after {prolog}, so its counters started again at the reboot."
        )
        return
    counted.before = readings.counters
    for names, what in (
        (
            sorted(n for n in readings.counters.keys() - counted.after.keys() if not FLEETING.fullmatch(n)),
            "no longer exist, nor does their device",
        ),
        (set_back(readings.counters, counted.after), "were reset, and are counted from then on"),
    ):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            counted.remarks.append(f"counters that {prolog} read {what}: {', '.join(names[:_NAMED])}{more}.")
