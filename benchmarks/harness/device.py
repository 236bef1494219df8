"""What benchmarks on a GPU share: the device's copy bandwidth, rows as they are measured, then the table."""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.machine import describe
from harness.table import Row, markdown, show, write_json
from ridgeline.runtime.devices import DeviceInfo, describe_devices
from ridgeline.runtime.errors import DeviceError

ROUNDS = 5  # of timed calls


def seconds_per_call(call: Callable[[], object], wait: Callable[[], object], seconds: float) -> float:
    """Return the shortest mean time of a call over ROUNDS rounds of some `seconds` each."""
    call()
    wait()
    begin = time.perf_counter()
    call()
    wait()
    calls = max(2, round(seconds / (time.perf_counter() - begin)))
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def measure_on_device(
    title: str, script: str, rows_of: Callable[[float, DeviceInfo], Iterable[Row]], json: Path | None
) -> None:
    """Print the rows that rows_of(copy bandwidth in B/s, device) yields, as they come and as a table.

    Without a GPU the reason is printed and nothing is measured. script: its name, for the command that is recorded.
    """
    try:
        device = describe_devices()[0]
    except DeviceError as error:
        print(f"no device: {error}")
        return
    from ridgeline.limits.limits_cuda import measure_device_copy

    copy = measure_device_copy()
    rows = [Row("device copy bandwidth", copy / 1e9, unit="GB/s", note=str(device))]
    for row in rows_of(copy, device):
        rows.append(row)
        print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show(title, rows, machine)
    command = " ".join([f"python benchmarks/{script}", *sys.argv[1:]])
    print(markdown(rows, machine, command))
    if json:
        write_json(json, rows, machine, command)
