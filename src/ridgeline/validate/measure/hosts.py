"""Lists of hosts as people, launchers and batch systems write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.files import output_errors

_RANGE = re.compile(r"([^\[\]]*)\[([^\[\]]+)\](.*)")
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")
# A key and its value in a file of Slurm's, which allows spaces around "=" and quotes around the value.
_SLURM_FIELD = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|(\S+))")


def expand(text: str) -> list[str]:
    """Return the hosts of a list such as "n[01-03,7],gpu2" in Slurm's notation. Raises ConfigError for anything "
    "else."""
    return list(chain.from_iterable(map(_expand_one, _split(text))))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    if text.count("[") != text.count("]"):
        raise ConfigError(f"hosts {text!r}: a bracket is not closed. Write lists such as n[01-16,20],gpu2.")
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def _expand_one(text: str) -> list[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        return [text]
    before, inside, after = match.groups()
    numbers: list[str] = []
    for part in inside.split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None or (span[2] is not None and int(span[2]) < int(span[1])):
            raise ConfigError(
                f"hosts {text!r}: [{inside}] is not a list of numbers. Write lists such as [01-16,20]."
            )
        first, last = span[1], span[2] or span[1]
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return [f"{before}{number}{rest}" for number in numbers for rest in _expand_one(after)]


def _read_lines(path: str | Path) -> list[str]:
    """Return the lines of a file without comments. A backslash at the end of a line continues it on the next.

    Raises OutputError if the file cannot be read.
    """
    try:
        with output_errors(f"read {path}"):
            text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise OutputError(f"cannot read {path}: it is not a text file.") from None
    uncommented = "\n".join(line.partition("#")[0].rstrip() for line in text.splitlines())
    lines = (line.strip() for line in uncommented.replace("\\\n", "").splitlines())
    return [line for line in lines if line]


def read_hosts(path: str | Path) -> list[str]:
    """Return the hosts of a hostfile, each once: one or a list a line, with `:4`, `slots=4` or the like ignored.

    Raises OutputError if the file cannot be read, ConfigError if it names no host.
    """
    hosts: list[str] = []
    for line in _read_lines(path):
        hosts += [host.partition(":")[0] for host in expand(line.split()[0])]
    if not hosts:
        raise ConfigError(f"{path}: the file names no host. Write one host on each line.")
    return list(dict.fromkeys(hosts))


def slurm_lines(path: str | Path) -> Iterator[dict[str, str]]:
    """Yield the fields of each line of Slurm's topology.conf, keys in lower case, other lines left out.

    Raises OutputError if the file cannot be read.
    """
    for line in _read_lines(path):
        if _SLURM_FIELD.match(line):
            yield {key.lower(): quoted or bare for key, quoted, bare in _SLURM_FIELD.findall(line)}


def read_groups(path: str | Path) -> dict[str, list[str]]:
    """Return group -> hosts of a file with lines `name: hosts`, or of Slurm's topology.conf.

    There `SwitchName=name Nodes=hosts` and `BlockName=name Nodes=hosts` count, in upper or lower case.

    Raises OutputError if the file cannot be read, ConfigError for a line that is neither, or a host in two groups.
    """
    groups: dict[str, list[str]] = {}
    for line in _read_lines(path):
        if _SLURM_FIELD.match(line):
            fields = {key.lower(): quoted or bare for key, quoted, bare in _SLURM_FIELD.findall(line)}
            switch = fields.get("switchname") or fields.get("blockname")
            # Switches of switches have no nodes, and neither has a line such as BlockSizes=4.
            if switch and "nodes" in fields:
                groups.setdefault(switch, []).extend(expand(fields["nodes"]))
            continue
        name, found, hosts = line.partition(":")
        if not found or not hosts.strip():
            raise ConfigError(
                f"{path}: {line!r} is not a group. Write `name: host1,host2`, `name: n[01-16]` or, as in Slurm's "
                f"topology.conf, `SwitchName=name Nodes=n[01-16]`."
            )
        groups.setdefault(name.strip(), []).extend(expand(hosts.replace(" ", ",")))
    seen: dict[str, str] = {}
    for name, members in groups.items():
        for host in members:
            if seen.setdefault(host, name) != name:
                raise ConfigError(
                    f"{path}: host {host} is in two groups, {seen[host]} and {name}. Leave it in one of them."
                )
    if not groups:
        raise ConfigError(
            f"{path}: the file names no group with hosts. Write one group on each line, such as `name: n[01-16]`."
        )
    return groups


def _short(host: str) -> str:
    """Return a host's name without its domain; an address stays whole."""
    return host if re.fullmatch(r"[\d.]+|.*:.*", host) else host.partition(".")[0]


def check_hosts(hosts: Sequence[str], nodes: Sequence[str], source: str) -> None:
    """Raise ConfigError, naming the difference, unless `hosts` of a hostfile are exactly the nodes of the job.

    Names are compared without domains; nodes#2 and so on, of one host, are that host.
    """
    listed = {_short(host): host for host in hosts}
    there = {_short(node.partition("#")[0]): node for node in nodes}
    unknown = [host for name, host in listed.items() if name not in there]
    if unknown:
        near = difflib.get_close_matches(_short(unknown[0]), there, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(
            f"{source}: host {_some(unknown)} has no rank in this job.{hint} The job runs on {_some(list(nodes))}."
        )
    missing = [node for name, node in there.items() if name not in listed]
    if missing:
        raise ConfigError(
            f"{source}: the file does not name {_some(missing)}, on which this job runs. Add the missing hosts, or "
            "start the job without them."
        )


def number_groups(
    groups: Mapping[str, Sequence[str]], nodes: Sequence[str], source: str
) -> dict[str, list[int]]:
    """Return group -> numbers of the job's nodes in it; hosts that are not in the job are left out.

    Raises ConfigError if a node of the job is in no group, naming a host that is spelled nearly so.
    """
    group_of = {_short(host): name for name, hosts in groups.items() for host in hosts}
    numbered: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        name = _short(node.partition("#")[0])
        if name not in group_of:
            near = difflib.get_close_matches(name, group_of, 1)
            hint = f" They name '{near[0]}': did you mean '{node}'?" if near else ""
            raise ConfigError(
                f"{source}: node {node} of this job is in none of the {len(groups)} groups.{hint}"
            )
        numbered.setdefault(group_of[name], []).append(number)
    return numbered


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + f" and {len(names) - 6} more" * (len(names) > 6)
