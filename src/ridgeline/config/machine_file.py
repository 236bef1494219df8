"""Machine files: the figures of one machine, each with its unit and its source.

A figure is written as { value = 25, unit = "GB/s", source = "where it is stated" }. A figure that nobody has stated
or measured is not in the file: it is never guessed, and a prediction that needs it names it. Rates are those of one
direction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from ridgeline.config.check import Origin, check_case, refuse_form
from ridgeline.config.fields import MOST, Checked, choices, extra_of, setting
from ridgeline.config.load import parse_toml, read_text
from ridgeline.config.schema import settings_of, table_of
from ridgeline.config.toml_lines import key_lines, line_of
from ridgeline.runtime.units import units_of

Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Quantity(NamedTuple):
    """A figure in SI units (B, B/s, FLOP/s, s, or a pure number), and where it comes from."""

    value: float
    source: str


Table = Mapping[str, Quantity | str | Sequence[str]]
# The tables of a machine file by name, repeated ones as a list.
MachineDocument = Mapping[str, Table | Sequence[Table]]


def _quantity(unit: str) -> BeforeValidator:
    """Return the validator of figures of a unit, which turns the table in the file into a Quantity in SI units."""
    scales = units_of(unit)

    def read(given: Any) -> Any:
        if isinstance(given, Quantity) or given is None:
            return given
        if not isinstance(given, dict) or not {"value", "source"} <= set(given) <= {
            "value",
            "unit",
            "source",
        }:
            raise ValueError("not a figure")
        value, source = given["value"], given["source"]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
            raise ValueError("not a number")
        if given.get("unit", "") not in list(scales) or not isinstance(source, str) or not source.strip():
            raise ValueError("no unit, or no source")
        return Quantity(value * scales[given.get("unit", "")], source)

    return BeforeValidator(read)


Bytes = Annotated[Quantity | None, _quantity("B")]
Rate = Annotated[Quantity | None, _quantity("B/s")]
Flops = Annotated[Quantity | None, _quantity("FLOP/s")]
Seconds = Annotated[Quantity | None, _quantity("s")]
Ratio = Annotated[Quantity | None, _quantity("")]
GivenBytes = Annotated[Quantity, _quantity("B")]  # required: its table is meaningless without it
GivenRate = Annotated[Quantity, _quantity("B/s")]
GivenRatio = Annotated[Quantity, _quantity("")]


def figure(description: str, unit: str, *, required: bool = False) -> Any:
    """Return the field of a figure. unit: "B", "B/s", "FLOP/s", "s", or "" for a pure number."""
    units = f", unit = {choices(units_of(unit))}" if unit else ""
    rule = f'a figure {{ value = NUMBER >= 0{units}, source = "where it is stated" }}'
    return setting(... if required else None, description, unit=unit, rule=rule)


def text(description: str, default: Any = "") -> Any:
    """Return the field of a text of at most 2000 characters; `...` as default makes it required."""
    return setting(default, description, rule="text of 1 to 2000 characters")


class MachineSection(Checked):
    """Which machine this is."""

    name: Text = text("Name of the machine.", ...)
    absent: tuple[Text, ...] = setting(
        (),
        "Sentences for people about figures that no source states.",
        rule="a list of texts",
        max_length=100,
    )
    nodes: Ratio = figure("Number of nodes of the machine.", "")
    others_share: Ratio = figure(
        "Share of the processors of the busiest node that other processes used while the figures were measured.",
        "",
    )


class NodeSection(Checked):
    """One node, its processors and their memory."""

    ranks: Ratio = figure(
        "Number of ranks on a node unless another number is given: one per device, or one per core.", ""
    )
    memory: Bytes = figure("Main memory of a node.", "B")
    memory_bandwidth: Rate = figure(
        "Bandwidth of a node's main memory; if it was measured, the one of STREAM.", "B/s"
    )
    peak: Flops = figure("Floating-point rate of all cores of a node, in float64.", "FLOP/s")


class CacheSection(Checked):
    """One level of the caches of a node's processors."""

    capacity: GivenBytes = figure("Capacity of all caches of the level in a node.", "B", required=True)
    bandwidth: GivenRate = figure("Bandwidth of all caches of the level in a node.", "B/s", required=True)


class AcceleratorSection(Checked):
    """The accelerators of a node; a device is what one rank computes on. Without figures, the cores compute."""

    count: Ratio = figure("Number of devices of a node.", "")
    per_package: Ratio = figure("Number of devices that share a package.", "")
    memory: Bytes = figure("Memory of a device.", "B")
    memory_bandwidth: Rate = figure("Bandwidth of a device's memory.", "B/s")
    peak: Flops = figure("Floating-point rate of a device, in float64.", "FLOP/s")


class LinksSection(Checked):
    """What connects the ranks of one node."""

    host_device: Rate = figure(
        "Bandwidth from a device to its host's memory, or back, that copies of messages reach.", "B/s"
    )
    between_devices: Rate = figure("Bandwidth from one device to another that MPI reaches.", "B/s")
    between_packages: Rate = figure(
        "Bandwidth from a device to the devices of other packages, over all its links.", "B/s"
    )
    between_ranks: Rate = figure(
        "Bandwidth of large messages from one rank of the node to another, in host memory.", "B/s"
    )
    latency: Seconds = figure("Time of a small message between two ranks of the node.", "s")
    device_messages: Ratio = figure(
        "1 if MPI sends messages from device memory, 0 if the host copies them first.", ""
    )
    efficiency: Ratio = figure(
        "Fraction of the links' bandwidth that an all-to-all exchange within the node reaches.", ""
    )


class NetworkSection(Checked):
    """What connects the nodes."""

    topology: Text = text(
        'Topology of the network: "dragonfly", "fat tree", "torus", "none" or another one.', "not stated"
    )
    injection: Rate = figure("Bandwidth from a node into the network, over all its interfaces.", "B/s")
    latency: Seconds = figure("Time of a small message between two nodes.", "s")
    group_nodes: Ratio = figure("Number of nodes in a group of a dragonfly.", "")
    global_bandwidth: Rate = figure("Bandwidth of all global links of a dragonfly.", "B/s")
    global_hops: Ratio = figure(
        "Number of global links that a message crosses under load: 1 on a minimal route, 2 on a non-minimal one.",
        "",
    )
    message_overhead: Seconds = figure(
        "Time that each message of an all-to-all exchange costs in addition to its bytes.", "s"
    )
    allreduce: Seconds = figure("Time of an allreduce of one number over many nodes.", "s")


class AllToAllSection(Checked):
    """How much of the injection rate an all-to-all exchange reaches, at one number of nodes and message size."""

    nodes: GivenRatio = figure("Number of nodes in the exchange.", "", required=True)
    message: Bytes = figure("Bytes from one rank to another; if not set, any number.", "B")
    efficiency: GivenRatio = figure(
        "Fraction of the injection bandwidth that the exchange reaches.", "", required=True
    )


class TransformSection(Checked):
    """One-dimensional Fourier transforms of one length on one device, or on all cores of a node without devices."""

    length: GivenRatio = figure("Number of points of a transform.", "", required=True)
    strided: GivenRate = figure(
        "Bytes that transforms of strided lines read and write per second.", "B/s", required=True
    )
    contiguous: Rate = figure("Bytes that transforms of contiguous lines read and write per second.", "B/s")


class CodesSection(Checked):
    """Fraction of the memory bandwidth, or of the peak, that codes reach: least traffic over time, over bandwidth."""

    gray_scott: Ratio = figure("Fraction that the sweep of Gray-Scott reaches.", "")
    navier_stokes: Ratio = figure("Fraction that a step of the spectral-element method reaches.", "")
    turbulence: Ratio = figure(
        "Fraction that a step of turbulence reaches without its exchanges, as one figure.", ""
    )
    molecular_dynamics: Ratio = figure(
        "Fraction of the peak that a step of molecular dynamics reaches: least operations over time, over the peak.",
        "",
    )
    n_body: Ratio = figure("Fraction that a step of N-body gravity reaches without its exchanges.", "")
    hpcg: Ratio = figure("Fraction that an iteration of HPCG reaches.", "")
    copies: Ratio = figure("Fraction that the packing and unpacking of exchanges reaches.", "")
    other_passes: Ratio = figure(
        "Number of variables that a step of turbulence reads or writes in addition to these.", ""
    )
    interpolation: Ratio = figure("Fraction that interpolation at fluid particles and their moves reach.", "")


class VariabilitySection(Checked):
    """Spread of equal work over nodes, and of measurements around the predictions: half-widths that hold 80 %."""

    node: Ratio = figure("Half-width of the interval that holds 80 % of the times of computation.", "")
    model: Ratio = figure(
        "The same for measured over predicted times, on the rows to which the constants were fitted.", ""
    )


class NetworkVariabilitySection(Checked):
    """Spread of equal exchanges, at one number of nodes."""

    nodes: GivenRatio = figure("Number of nodes in the exchange.", "", required=True)
    spread: GivenRatio = figure("Half-width of the interval that holds 80 % of the times.", "", required=True)


class StorageSection(Checked):
    """The parallel file system."""

    write: Rate = figure("Bandwidth with which all nodes together write.", "B/s")
    write_node: Rate = figure("Highest bandwidth with which one node writes, as a code reached it.", "B/s")
    read: Rate = figure("Bandwidth with which all nodes together read.", "B/s")


class MachineFile(Checked):
    """The figures of one machine."""

    machine: MachineSection
    node: NodeSection = Field(default_factory=NodeSection)
    cache: tuple[CacheSection, ...] = ()
    device: AcceleratorSection = Field(default_factory=AcceleratorSection)
    links: LinksSection = Field(default_factory=LinksSection)
    network: NetworkSection = Field(default_factory=NetworkSection)
    all_to_all: tuple[AllToAllSection, ...] = ()
    transform: tuple[TransformSection, ...] = ()
    codes: CodesSection = Field(default_factory=CodesSection)
    variability: VariabilitySection = Field(default_factory=VariabilitySection)
    network_variability: tuple[NetworkVariabilitySection, ...] = ()
    storage: StorageSection = Field(default_factory=StorageSection)


def read_machine_file(path: Path) -> MachineFile:
    """Return the figures of a machine file. Raises ConfigError with a sentence for each of its faults."""
    return check_machine(path, read_text(path))


def check_machine(path: Path, content: str) -> MachineFile:
    """Return the figures of a machine file's text; path is what errors name. Raises ConfigError."""
    document = parse_toml(path, content)
    refuse_form(path, document)
    lines = key_lines(content)

    def locate(key: str) -> Origin:
        line = line_of(lines, key)
        return Origin(key, f"{path}:{line}" if line else str(path))

    return check_case(MachineFile, document, locate)


def machine_text(document: MachineDocument) -> str:
    """Return the text of a machine file, in SI units. document: its tables by name, repeated ones as a list.

    Raises ConfigError if a file with that text would be wrong.
    """
    parts = []
    for name, content in document.items():
        header = f"[{name}]" if isinstance(content, Mapping) else f"[[{name}]]"
        tables: Sequence[Table] = [content] if isinstance(content, Mapping) else content
        for table in tables:
            lines = [header]
            section = MachineFile.model_fields[name].annotation if name in MachineFile.model_fields else None
            table_class = table_of(section)
            fields = settings_of(table_class[0]) if table_class else {}
            for key, value in table.items():
                unit = extra_of(fields[key], "unit") if key in fields else ""
                lines.append(f"{key} = {_value_text(value, unit)}")
            parts.append("\n".join(lines) + "\n")
    content_text = "\n".join(parts)
    check_machine(Path("machine file"), content_text)
    return content_text


def _value_text(value: Quantity | str | Sequence[str], unit: str) -> str:
    if isinstance(value, Quantity):
        of_unit = f"unit = {json.dumps(unit)}, " if unit else ""
        source = json.dumps(value.source, ensure_ascii=False)
        return f"{{ value = {value.value!r}, {of_unit}source = {source} }}"
    return json.dumps(value, ensure_ascii=False)
