"""What a turbulence run needs, and how long a step takes on a machine, before it runs.

`estimate` counts memory as the engine allocates it, output, and the least work of a step (`step_work`), without MPI
and without allocating fields. `predict` divides the work of a step by the rates of a machine file: the prediction
behind `ridgeline predict`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ridgeline.fourier.decomposition import PencilGrid, ProcessGrid, Truncation, choose_process_grid
from ridgeline.fourier.device.layout import TRANSPORT_WORDS, DeviceLayout
from ridgeline.fourier.sizes import (
    Share,
    exchange_bytes,
    exchanged,
    messages,
    work_bytes,
)
from ridgeline.fourier.tuning import Layout
from ridgeline.limits.exchange_costs import RankGroup, all_to_all, host_copies, neighbours, without_latency
from ridgeline.limits.prediction import (
    Allocation,
    Kind,
    MissingMetric,
    Part,
    Prediction,
    between,
    exchange_kind,
    optimistic,
    traffic,
)
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.turbulence.device.device_estimate import (
    check_passes,
    device_bytes,
    host_bytes,
    passes_remark,
    possible_fusion,
)
from ridgeline.models.turbulence.problem import DEALIAS_RADIUS
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.step_work import (
    SUBSTEPS,
    Variables,
    checkpoint_bytes_of_particles,
    damping_flops,
    field_traffic,
    fields_damped,
    fields_loaded,
    flops,
    least_memory_traffic,
    output_bytes_of_particles,
    particle_memory,
    particle_messages,
    particle_remark,
    particle_work,
    point_flops,
    point_traffic,
    wave_flops,
    wave_traffic,
)
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.errors import DecompositionError

COPIES = {"rk2": 1, "rk4": 2}  # of the fields: RK4 keeps their sum beside them
RANKS_PER_NODE = 8  # the paper's, which shapes pencils where the nodes are not known
# A run on GPUs times fused and separate passes if each GPU moves this many bytes, which takes some minutes. Compiling
# both takes most of a minute, once for each size.
BYTES_TIMED = 4e14
PAPER_VARIABLES = 8.5  # of Eq. 9, which adds 2 Q
MOST_COUNTED = 512  # points in a direction, and ranks, up to which modes are counted one by one
INTERPOLATION = "codes.interpolation"  # key of the machine file


def process_grid(case: TurbulenceCase, n_ranks: int, ranks_per_node: int = RANKS_PER_NODE) -> ProcessGrid:
    """Return (P_r, P_c) of the case.

    Raises DecompositionError if the grid does not fit the number of ranks, or leaves a rank without data.
    """
    truncation = Truncation(case.grid.shape, case.model.dealias)
    return choose_process_grid(
        truncation, n_ranks, case.grid.decomposition, ranks_per_node, case.grid.process_grid
    )


def least_work(case: TurbulenceCase, grid: ProcessGrid) -> Work:
    """Return the least work of one step of the case on a process grid, summed over all ranks."""
    truncation = Truncation(case.grid.shape, case.model.dealias)
    variables, substeps = Variables(len(case.scalar)), SUBSTEPS[case.model.scheme]
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    rows, columns = variables.counts.of_rows, variables.counts.of_columns
    share = Share.of(truncation, grid)
    row, column = exchanged(share, case.grid.shape[0], sum(rows), sum(columns))
    moved = itemsize * least_memory_traffic(truncation, grid[0] > 1, variables, case.model.scheme)
    n_coupled = case.waves.n_coupled
    n_damped = fields_damped(case)
    moved += itemsize * wave_traffic(truncation, case.model.scheme, n_coupled + n_damped)
    calls = messages(grid, rows, columns, case.batch)
    of_particles = particle_work(case, truncation, grid, share)
    return Work(
        points=math.prod(case.grid.shape),
        flops=substeps * flops(truncation, variables)
        + wave_flops(truncation, case.model.scheme, n_coupled)
        + damping_flops(truncation, case.model.scheme, n_damped)
        + of_particles.flops,
        bytes_memory=moved + of_particles.bytes_memory,
        bytes_exchanged=substeps * itemsize * float(row + column) + of_particles.bytes_exchanged,
        messages=float(substeps * calls) + of_particles.messages,
    )


def paper_bound(shape: Triple, n_ranks: int, batch: int, itemsize: int) -> float:
    """Return the bytes per rank of the paper's Eq. 9: (8.5 + 2 Q) complex numbers for each of N^3/2P modes.

    batch: Q, the variables of an all-to-all; itemsize: bytes of a complex number.
    """
    return (PAPER_VARIABLES + 2 * batch) * math.prod(shape) / (2 * n_ranks) * itemsize


def table_bytes(case: TurbulenceCase, grid: PencilGrid, itemsize: int) -> float:
    """Return the bytes of wavenumbers, phases, integrating factors and scratch rows. itemsize: of complex numbers."""
    nz, ny, _ = grid.shape
    n_lines, n_columns, workers = grid.lines.n_lines, len(grid.columns_of(grid.row)), case.run.threads
    n_scalars = len(case.scalar)
    steps = 2 * (n_lines * (8 + n_scalars) + 2 * ny * (6 + n_scalars))
    waves = 2 * n_columns * (1 + workers) + nz
    return float((steps + waves) * itemsize // 2 + 8 * (n_lines + 1))


def memory(case: TurbulenceCase, grid: ProcessGrid) -> dict[str, float]:
    """Return the bytes in host memory of the rank that needs most, by purpose.

    Exchange buffers are those of the method "alltoallv"; "shared" needs less, and others up to a buffer of Q
    variables more. On GPUs they are those of messages through the host.
    """
    if case.run.device == "cuda":
        layout, real = _device_layout(case, grid), np.dtype(case.run.precision).itemsize
        n_modes = int(Share.of(Truncation(case.grid.shape, case.model.dealias), grid).modes.max())
        return host_bytes(layout, real, len(case.scalar), n_modes)
    share = Share.of(Truncation(case.grid.shape, case.model.dealias), grid)
    row, column = np.unravel_index(int(np.argmax(share.modes)), share.modes.shape)
    return rank_memory(case, grid, int(row + grid[0] * column), share)


def device_memory(case: TurbulenceCase, grid: ProcessGrid) -> dict[str, float]:
    """Return the bytes on the GPU of the rank that needs most, without cuFFT's work area; empty on CPUs."""
    if case.run.device == "cpu":
        return {}
    real = np.dtype(case.run.precision).itemsize
    layout, copies = _device_layout(case, grid), COPIES[case.model.scheme]
    return device_bytes(layout, real, len(case.scalar), copies, case.batch)


def _device_layout(case: TurbulenceCase, grid: ProcessGrid) -> DeviceLayout:
    """Return the layout of the first rank, which has the most lines and the most planes."""
    return DeviceLayout.of(PencilGrid(case.grid.shape, case.model.dealias, grid, 0))


def rank_memory(
    case: TurbulenceCase, grid: ProcessGrid, rank: int, share: Share, layout: Layout = "strided"
) -> dict[str, float]:
    """Return the bytes of one rank, by purpose. layout: of planes, which a run chooses by timing both."""
    pencils = PencilGrid(case.grid.shape, case.model.dealias, grid, rank)
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    n_modes = int(share.modes[pencils.row, pencils.column])
    counts = Variables(len(case.scalar)).counts
    return {
        "fields": float(COPIES[case.model.scheme] * Variables(len(case.scalar)).fields * n_modes * itemsize),
        "exchange": exchange_bytes(pencils, share, counts, case.batch, itemsize),
        "work": work_bytes(pencils, counts, case.run.threads, itemsize, layout)
        + table_bytes(case, pencils, itemsize),
        "modes": float(8 * (5 * pencils.lines.n_lines + 1)),
    }


def memory_between_steps(case: TurbulenceCase, grid: ProcessGrid) -> float:
    """Return the bytes that a rank takes beside `memory` during an output, a row of the series, or a checkpoint.

    They are counted in fields of points and of modes, as diagnostics, outputs and checkpoints hold them.
    """
    share = Share.of(Truncation(case.grid.shape, case.model.dealias), grid)
    real = np.dtype(case.run.precision).itemsize
    points = real * int(share.rows.max()) * int(share.planes.max()) * case.grid.shape[2]
    modes = 2 * real * int(share.modes.max())
    output = case.output
    products, gradients = 4 * points + 4 * modes, 4 * points + modes
    # A checkpoint, which a signal or the wall-clock limit may ask for even if the settings do not.
    peaks = [(len(case.scalar) + 3) * modes]
    if output.interval("series_every") or output.interval("spectra_every"):
        # Moments and density of the pressure hold its modes and points beside the products.
        peaks.append(products + points + modes)
    written = [tuple(output.variables)] if output.interval() else []
    for names in filter(None, [*written, *case.fields_of_parts()]):
        last = products if "pressure" in names else gradients
        plain = all(name.startswith(("velocity", "scalar")) for name in names)
        peaks.append((len(names) - 1) * points + (points + modes if plain else last))
    return float(max(peaks))


def passes_are_timed(case: TurbulenceCase, grid: ProcessGrid) -> bool:
    """Return whether a run on GPUs is long enough to time fused and separate passes over memory."""
    return case.planned_steps() * least_work(case, grid).bytes_memory >= BYTES_TIMED * grid[0] * grid[1]


def remarks(case: TurbulenceCase, grid: ProcessGrid, needed: dict[str, float]) -> tuple[str, ...]:
    """Return the sentences that `ridgeline check` prints beside the common figures.

    needed: memory by purpose. Raises DeviceError if the case asks for fused passes on GPUs and none can be fused.
    """
    truncation = Truncation(case.grid.shape, case.model.dealias)
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    bound = paper_bound(case.grid.shape, grid[0] * grid[1], case.batch, itemsize)
    parts = ", ".join(f"{name} {size / 2**20:.4g} MiB" for name, size in needed.items())
    words = [f"memory per rank: {parts}"]
    if case.run.device == "cuda":
        passes, shape = case.model.fft.on_gpus, case.grid.shape
        fused = possible_fusion(shape, grid, case.run.precision, len(case.scalar))
        check_passes(passes, shape, fused)
        words.append("the work space of cuFFT is additional to the GPU memory above")
        words.append(passes_remark(passes, fused, passes_are_timed(case, grid)))
        if grid[0] * grid[1] > 1:
            any_way = f"the fastest of {', '.join(TRANSPORT_WORDS.values())} that a run finds"
            way = TRANSPORT_WORDS.get(case.model.transpose.between_gpus, any_way)
            words.append(
                f"messages between GPUs travel by {way}; those of the column exchange hold Q = {case.batch} variables"
            )
    if not case.scalar and case.model.scheme == "rk2":
        words.append(f"the paper's Eq. 9 allows {bound / 2**20:.4g} MiB per rank")
    lines = truncation.n_lines / (case.grid.shape[0] * (case.grid.shape[2] // 2 + 1))
    words.append(
        f"{100 * (1 - lines):.3g} % of the lines have no retained mode, so they are neither exchanged nor "
        "transformed in y"
    )
    words += damping_remarks(case)
    if of_particles := particle_remark(case, grid):
        words.append(of_particles)
    if case.particles.interval() and case.particles.count:
        words.append(f"the particles' data set takes {output_bytes_of_particles(case) / 2**20:.4g} MiB")
    return tuple(words)


def damping_remarks(case: TurbulenceCase) -> Iterator[str]:
    """Yield what hyperviscosity and a force that depends on time mean for the steps."""
    damping, modes = case.damping, case.grid
    if damping.hyperviscosity:
        radius = DEALIAS_RADIUS[case.model.dealias]
        k = radius * min(2 * math.pi * n / length for n, length in zip(modes.shape, modes.lengths))
        hyper, viscous = damping.hyperviscosity * k ** (2 * damping.order), case.model.viscosity * k**2
        yield (
            f"at the largest wavenumber k = {k:.4g}, hyperviscosity damps at the rate {hyper:.3g} and viscosity at "
            f"{viscous:.3g}; both are integrated exactly and limit no step"
        )
    if is_repeated(case):
        yield (
            "forcing.formula depends on time, so each step evaluates it, transforms it, and forms the products of "
            "its first substep twice"
        )


def estimate(case: TurbulenceCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid = process_grid(case, n_ranks)
    shape = case.grid.shape
    truncation = Truncation(shape, case.model.dealias)
    first = PencilGrid(shape, case.model.dealias, grid, 0)
    real = np.dtype(case.run.precision).itemsize
    n_scalars = len(case.scalar)
    needed = memory(case, grid)
    most = int(Share.of(truncation, grid).modes.max())
    if is_repeated(case):
        needed["force"] = 48.0 * most
    for name, size in particle_memory(case, grid, most).items():
        needed[name] = needed.get(name, 0.0) + size
    outputs = case.outputs()
    return Estimate(
        process_grid=grid,
        block=first.block,
        memory_per_rank=float(sum(needed.values())),
        output_bytes=float(outputs * len(case.output.variables) * math.prod(shape) * real),
        outputs=outputs,
        checkpoint_bytes=2.0 * real * ((2 + n_scalars) * truncation.n_modes + truncation.n_lines)
        + checkpoint_bytes_of_particles(case),
        work=least_work(case, grid),
        memory_between_steps=memory_between_steps(case, grid) + checkpoint_bytes_of_particles(case) / n_ranks,
        remarks=remarks(case, grid, needed),
        device_memory=device_memory(case, grid),
    )


@dataclass(frozen=True)
class SpectralStep:
    """The transforms and exchanges of a step, and the times that they take on a machine.

    Attributes
    ----------
    shape : (N_z, N_y, N_x)
    grid : (P_r, P_c)
    itemsize : bytes of a real number
    batch : Q, the variables of one call of the column exchange
    columns, lines : shares of the k_x, and of the (k_x, k_z), that have a retained mode; 1 where all are moved, as
        in GESTS
    further : fields that go to physical space in a step beside those of the substeps, as for fluid particles
    """

    shape: tuple[int, int, int]
    grid: ProcessGrid
    itemsize: int = 4
    variables: Variables = Variables(n_scalars=0)  # noqa: RUF009 - frozen
    substeps: int = 2
    batch: int = 1
    columns: float = 1.0
    lines: float = 1.0
    further: int = 0

    @property
    def volume(self) -> float:
        """Bytes of a variable on one rank."""
        return math.prod(self.shape) * self.itemsize / (self.grid[0] * self.grid[1])

    @property
    def row_variables(self) -> int:
        """Variables through the row exchange and the transforms in x and z, in a step: V + D in each substep."""
        return self.substeps * sum(self.variables.counts.of_rows) + self.further

    @property
    def column_variables(self) -> int:
        """Variables through the column exchange and the transforms in y, in a step: V + L in each substep."""
        return self.substeps * sum(self.variables.counts.of_columns) + self.further

    @property
    def column_calls(self) -> int:
        """Calls of the column exchange in a step."""
        each = sum(math.ceil(count / self.batch) for count in self.variables.counts.of_columns)
        return self.substeps * each + math.ceil(self.further / self.batch)

    @property
    def row_volume(self) -> float:
        """Bytes of a rank through the row exchange in a step; 0 where a rank has whole planes."""
        return self.row_variables * self.columns * self.volume if self.grid[0] > 1 else 0.0

    @property
    def column_volume(self) -> float:
        """Bytes of a rank through the column exchange in a step."""
        return self.column_variables * self.lines * self.volume

    def transforms(self, place: Allocation) -> float:
        """Return the seconds of all transforms, at the machine's rates for their lengths. Raises MissingMetric."""
        nz, ny, nx = self.shape
        x = self.row_variables * self.volume / rate(place, nx, "contiguous")
        z = self.row_variables * self.columns * self.volume / rate(place, nz, "strided")
        y = self.column_variables * self.lines * self.volume / rate(place, ny, "strided")
        return 2 * (x + y + z)

    def packing(self, place: Allocation) -> float:
        """Return the seconds of packing and unpacking, each of which reads and writes the exchanged bytes.

        Raises MissingMetric.
        """
        place.figure("codes.copies")
        return traffic(place, 4 * (self.row_volume + self.column_volume), "codes.copies")

    def other(self, place: Allocation) -> float:
        """Return the seconds of products, derivatives and time stepping. Raises MissingMetric."""
        passes = place.figure("codes.other_passes") * self.substeps * self.variables.fields / (2 * 3)
        return passes * self.volume / place.bandwidth()

    def row_exchange(self, place: Allocation) -> float:
        """Return the seconds of the exchanges between P_r consecutive ranks. Raises MissingMetric."""
        return all_to_all(place, RankGroup(self.grid[0]), self.row_volume, self.row_variables)

    def column_exchange(self, place: Allocation) -> float:
        """Return the seconds of the exchanges between P_c ranks whose numbers differ by P_r. Raises MissingMetric."""
        group = RankGroup(self.grid[1], self.grid[0])
        return all_to_all(place, group, self.column_volume, self.column_calls)


def rate(place: Allocation, length: int, kind: str) -> float:
    """Return the bytes per second that transforms of a length read and write on a rank.

    kind: "strided" or "contiguous". The rate is interpolated between the lengths of the machine file, linearly in the
    logarithm of the length. Raises MissingMetric if the file has no rate of the kind.
    """
    rows = [row for row in place.machine.transform if getattr(row, kind) is not None]
    if not rows:
        raise MissingMetric("transform")
    of_one = between([row.length.value for row in rows], [getattr(row, kind).value for row in rows], length)
    per_node = place.figure("device.count") if place.on_devices else 1.0
    return of_one * per_node / place.ranks_per_node


def spectral_parts(step: SpectralStep, place: Allocation, whole: float | None = None) -> tuple[Part, ...]:
    """Return the parts of a step, on one rank.

    whole: bytes of memory traffic of all computation. It is used for machine files without rates of transforms, which
    have one share of the bandwidth for all computation, codes.turbulence.
    """
    if whole is not None and not place.machine.transform:
        parts = [
            Part.of("transforms and products", "node", lambda: traffic(place, whole, "codes.turbulence"))
        ]
    else:
        parts = [
            Part.of("transforms", "node", lambda: step.transforms(place)),
            Part.of("packing", "node", lambda: step.packing(place)),
            Part.of("other computation", "node", lambda: step.other(place)),
        ]
    row_kind: Kind = "node" if step.grid[0] <= place.ranks_per_node else "network"
    copied = step.row_volume + (step.column_volume if place.ranks > 1 else 0.0)
    if place.on_devices:
        parts.append(Part.of("host-device copies", "node", lambda: host_copies(place, copied)))
    return (
        *parts,
        Part.of("row exchange", row_kind, lambda: step.row_exchange(place)),
        Part.of("column exchange", exchange_kind(place), lambda: step.column_exchange(place)),
    )


def large_process_grid(case: TurbulenceCase, place: Allocation) -> ProcessGrid:
    """Return (P_r, P_c) of a case that has too many modes to count them.

    P_r is the smallest number that fits, preferably one that divides the ranks of a node; it is 1 for slabs. Raises
    DecompositionError if no grid fits.
    """
    nz, ny, _ = case.grid.shape
    chosen = case.grid.process_grid
    slabs = case.grid.decomposition == "slabs"
    rows = [1] if slabs else [r for r in range(1, nz + 1) if place.ranks % r == 0]
    grids = [(r, place.ranks // r) for r in sorted(rows, key=lambda r: (place.ranks_per_node % r != 0, r))]
    if chosen != "auto":
        grids = [grid for grid in [chosen] if grid[0] * grid[1] == place.ranks and grid[0] <= nz]
    for grid in grids:
        if grid[1] <= ny:
            return grid
    raise DecompositionError(
        f"grid.shape = {list(case.grid.shape)} with grid.process_grid = {chosen} cannot be divided over "
        f"{place.ranks} ranks. Use a smaller --nodes or --ranks-per-node."
    )


def wave_parts(
    case: TurbulenceCase, place: Allocation, truncation: Truncation, share: float
) -> tuple[Part, ...]:
    """Return the parts of a step that rotation and stratification, and damping by mode, add; none without them.

    share: modes of a rank over those of the truncation, which may be of a smaller grid.
    """
    scheme, itemsize = case.model.scheme, 2 * np.dtype(case.run.precision).itemsize

    def part(name: str, n_fields: int, flops: float) -> Part:
        moved = share * itemsize * wave_traffic(truncation, scheme, n_fields)
        return Part.of(name, "node", lambda: traffic(place, moved, "codes.turbulence", share * flops))

    n_coupled, n_damped = case.waves.n_coupled, fields_damped(case)
    parts = []
    if n_coupled:
        parts.append(part("waves", n_coupled, wave_flops(truncation, scheme, n_coupled)))
    if n_damped:
        parts.append(part("damping", n_damped, damping_flops(truncation, scheme, n_damped)))
    return tuple(parts)


def is_repeated(case: TurbulenceCase) -> bool:
    """Return whether a force that depends on time lets a step form the products of its first substep twice."""
    return not all(formula.steady for formula in case.force())


def fields_of_force(case: TurbulenceCase) -> int:
    """Return how many fields such a force transforms in a step: its components, and those that are repeated."""
    variables = Variables(len(case.scalar))
    return 3 + variables.fields + variables.combined if is_repeated(case) else 0


def particle_parts(
    case: TurbulenceCase, place: Allocation, grid: ProcessGrid, n_modes: float
) -> tuple[Part, ...]:
    """Return the parts of a step that fluid particles add on one rank, or none without them.

    The particles are taken to be spread evenly. n_modes: of a field, on all ranks. The bytes of migration are the
    most that are possible (`particle_messages`).
    """
    if not case.particles.count:
        return ()
    sent = particle_messages(case, grid)

    def interpolation() -> float:
        flops = point_flops(case, n_modes) / place.ranks
        return traffic(place, point_traffic(case) / place.ranks, INTERPOLATION, flops)

    def exchange() -> float:
        volume, messages = sent.ghost_bytes + sent.moved_bytes, sent.ghost_messages + sent.moved_messages
        return neighbours(place, volume / place.ranks, messages / place.ranks)

    return (
        Part.of("interpolation at particles", "node", interpolation),
        Part.of("ghosts and migration", exchange_kind(place), exchange),
    )


def predict(case: TurbulenceCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the prediction of a case. Raises DecompositionError if the grid does not fit the ranks.

    Beyond 512 points in a direction, the shares of retained modes are those of a smaller grid of the same
    proportions. Beyond 512 points or 512 ranks, the memory is that of the paper's Eq. 9.
    """
    shape, itemsize = case.grid.shape, np.dtype(case.run.precision).itemsize
    variables, substeps = Variables(len(case.scalar)), SUBSTEPS[case.model.scheme]
    batch = case.batch
    factor = -(-max(shape) // MOST_COUNTED)
    nz, ny, nx = (max(4, n // factor // 2 * 2) for n in shape)
    truncation = Truncation((nz, ny, nx), case.model.dealias)
    notes: tuple[str, ...] = ()
    if factor == 1 and place.ranks <= MOST_COUNTED:
        needed = estimate(case, place.ranks)
        grid: ProcessGrid = (needed.process_grid[0], needed.process_grid[1])
        memory, output = needed.memory_per_rank, needed.output_bytes
    else:
        grid = large_process_grid(case, place)
        memory = paper_bound(shape, place.ranks, batch, 2 * itemsize)
        outputs = case.outputs()
        output = float(outputs * len(case.output.variables) * math.prod(shape) * itemsize)
        without = ", without particles" if case.particles.count else ""
        notes = (f"the memory is that of Eq. 9 of the GESTS paper{without}",)
    step = SpectralStep(
        shape,
        grid,
        itemsize,
        variables,
        substeps,
        batch,
        columns=truncation.n_columns / (nx // 2),
        lines=truncation.n_lines / (nz * (nx // 2)),
        further=fields_loaded(case) + fields_of_force(case),
    )
    share = math.prod(shape) / (nz * ny * nx) / place.ranks
    moved = least_memory_traffic(truncation, grid[0] > 1, variables, case.model.scheme)
    moved += field_traffic(case, truncation, grid[0] > 1)
    waves = wave_parts(case, place, truncation, share)
    bounds = list(() if place.machine.transform else optimistic(place, "codes.turbulence"))
    if is_repeated(case):
        bounds.append("the evaluation of forcing.formula is not predicted")
    if case.particles.count:
        bounds += optimistic(place, INTERPOLATION)
        if case.particles.interpolation == "fourier" and place.ranks > 1:
            bounds.append(
                'the exchange of all modes for particles.interpolation = "fourier" is not predicted'
            )
        bounds += without_latency(place)
    particles = particle_parts(case, place, grid, share * place.ranks * truncation.n_modes)
    return Prediction(
        case=f"turbulence, {' x '.join(map(str, shape))} points",
        place=place,
        parts=(*spectral_parts(step, place, 2 * itemsize * share * moved), *waves, *particles),
        steps=case.planned_steps(),
        memory_per_rank=memory,
        output_bytes=output + output_bytes_of_particles(case),
        process_grid=grid,
        bounds=tuple(bounds),
        notes=notes,
    )
