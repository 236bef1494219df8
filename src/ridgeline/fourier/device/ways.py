"""Which way messages between GPUs go: as it is asked for, or the fastest of those that are there, measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numba import cuda

from ridgeline.fourier.device.exchange_cuda import (
    DeviceExchange,
    DirectExchange,
    ExchangeStreams,
    NcclExchange,
    StagedExchange,
)
from ridgeline.fourier.device.layout import VariableBatch
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.devices import mpi_takes_device_buffers
from ridgeline.runtime.devices import MPI_SWITCH, simulated
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI

ExchangeMethod = Literal["auto", "mpi", "host", "nccl"]
WAYS: Mapping[str, type[DeviceExchange]] = {
    "mpi": DirectExchange,
    "nccl": NcclExchange,
    "host": StagedExchange,
}
log = logging.getLogger(__name__)


class ExchangeOrder(NamedTuple):
    """What an exchange is built for. everyone: all ranks, which take the same way for all exchanges of its name.

    name: "column" or "row"; sides: see `DeviceExchange`; batch: the largest, at `places` (one for each side) of the
    device; what lies there is lost. case: words for what else a time depends on, such as shape and process grid.
    """

    name: str
    comm: MPI.Comm
    everyone: MPI.Comm
    sides: Mapping[str, Sequence[int]]
    n_variables: int
    dtype: Any
    streams: ExchangeStreams
    batch: VariableBatch
    places: tuple[Any, Any]
    case: str

    def build(self, way: str, n_variables: int | None = None) -> DeviceExchange:
        """Return the exchange by a way, for n_variables or all. Collective."""
        n = self.n_variables if n_variables is None else n_variables
        return WAYS[way](self.comm, self.sides, n, self.dtype, self.streams)


def make_exchange(order: ExchangeOrder, way: ExchangeMethod) -> tuple[DeviceExchange, TuningResult | None]:
    """Return an exchange, and what was measured to choose its way, if something was. Collective over all ranks.

    Raises DeviceError on all ranks if the way that is asked for is not there.
    """
    if way != "auto":
        if way == "mpi" and not (simulated() or mpi_takes_device_buffers()):
            raise DeviceError(
                'model.transpose.between_gpus = "mpi", but the MPI library does not say that it takes GPU memory; '
                f'use "auto", or {MPI_SWITCH}=1 if it does'
            )
        return order.build(way), None
    there = _build_all(order)
    if len(there) == 1:
        trial = None
    else:
        device = getattr(cuda.get_current_device(), "name", "simulated GPU")
        key = f"{order.name} exchange between {device}; {order.case} {order.batch.width}"
        ways = {name: _round_trip(order, exchange) for name, exchange in there.items()}
        trial = choose(ways, key, order.everyone)
    for exchange in there.values():
        exchange.free()
    return order.build(next(iter(there)) if trial is None else trial.taken), trial


def _build_all(order: ExchangeOrder) -> dict[str, DeviceExchange]:
    """Return the exchange of one batch by each way that is there; simulated devices have pinned memory alone."""
    n = order.batch.first + order.batch.width
    found = {"mpi": order.build("mpi", n)} if mpi_takes_device_buffers() else {}
    nccl = None if simulated() else _build_nccl(order, n)
    return found | ({} if nccl is None else {"nccl": nccl}) | {"host": order.build("host", n)}


def _build_nccl(order: ExchangeOrder, n_variables: int) -> DeviceExchange | None:
    """Return the exchange by NCCL, None unless that is there on all ranks."""
    exchange, problem = None, ""
    try:
        exchange = order.build("nccl", n_variables)
    except DeviceError as error:
        problem = str(error)
    if problem:
        log.info("messages between GPUs do not go by NCCL: %s", problem)
    if allreduce_max(order.everyone, float(bool(problem))) == 0:
        return exchange
    if exchange is not None:
        exchange.free()
    return None


def _round_trip(order: ExchangeOrder, exchange: DeviceExchange) -> Callable[[], Mapping[str, float]]:
    """Return what moves a batch there and back, and returns when it is done on this device."""

    def move() -> Mapping[str, float]:
        sides, places = exchange.sides, order.places
        for n in range(2):
            exchange.give(order.batch, sides[n], places[n])
            exchange.start(order.batch, sides[n], places[n], places[1 - n])
            exchange.finish(order.batch, sides[n], places[1 - n])
        order.streams.work.synchronize()
        return {}

    return move
