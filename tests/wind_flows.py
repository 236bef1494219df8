"""Small flows for tests of the wind model: periodic boxes, walls, inflow and outflow, with all fields in motion."""

from dataclasses import replace

import numpy as np

from ridgeline.models.wind.problem import PLM, UNLIMITED, FlowSide, SideField, WindProblem

NO_FLUX = SideField(False)
BOX = WindProblem(
    (9, 12, 14),
    (0.1, 0.12, 0.09),
    viscosity=0.002,
    scalars=("theta", "dye"),
    diffusivities=(0.001, 0.0),
    forces=(0.3, 0.1, 0.1, -0.2, 0.05, 0.8),
    theta_reference=0.3,
)
FLOOR = {
    "z_min": FlowSide.wall(0, (SideField(False, 0.05), SideField(True, 0.5)), (0.5, 0.1, 0.0)),
    "z_max": FlowSide.slip(0, (NO_FLUX, NO_FLUX)),
}


def gusts(x, y, z, t):
    """An inflow that varies in place and time."""
    return 1 + 0.2 * np.sin(3 * y + z + t)


THROUGH = {
    "x_min": FlowSide.entry((gusts, 0.1, 0.0, lambda x, y, z, t: z + 0 * y, 1.0)),
    "x_max": FlowSide.open(5),
}
BACK = {"y_max": FlowSide.entry((0.1, -1.0, 0.0, 0.5, 1.0)), "y_min": FlowSide.open(5)}
FLOWS = {
    "periodic": BOX,
    "lines": replace(BOX, godunov=False, reconstruction=UNLIMITED),
    "implicit": replace(BOX, implicit=True, sides=FLOOR, reconstruction=PLM),
    "implicit lines": replace(BOX, implicit=True, godunov=False),
    "through": replace(BOX, sides={**FLOOR, **THROUGH}),
    "back": replace(BOX, sides={**FLOOR, **BACK}, reconstruction=PLM),
}


def start_of(problem):
    """Waves with random numbers, the same on any ranks; theta is 0 or 1."""
    random = np.random.default_rng(3)
    places = np.meshgrid(*(2 * np.pi * (np.arange(n) + 0.5) / n for n in problem.shape), indexing="ij")
    z, y, x = places
    fields = [
        np.sin(x + y) + 0.3 * np.cos(z),
        np.cos(2 * y - z) + 0.4,
        np.sin(z + x) * np.cos(y),
        (np.cos(x) * np.sin(y + z) > 0) * 1.0,
        np.sin(x) * np.cos(z),
    ]
    return [q + 0.01 * random.standard_normal(problem.shape) for q in fields[: 3 + len(problem.scalars)]]


def advance_engine(comm, problem, process_grid, direct, steps=3, dt=0.02, at_rest=False):
    """Return the fields after some steps, put together on all ranks of a communicator, and the engine.

    at_rest: whether the velocity is 0 at first.
    """
    from mpi4py import MPI

    from ridgeline.blocks.cartesian import decompose
    from ridgeline.models.contract import Context
    from ridgeline.models.wind.engine_cpu import CpuEngine

    cartesian, block = decompose(comm, problem.shape, process_grid, problem.periodic, 3)
    engine = CpuEngine(problem, cartesian, block, Context(comm), None, 1e-12, direct)
    engine.compile()
    place = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
    for number, (q, start) in enumerate(zip(engine.fields, start_of(problem))):
        q.owned[...] = start[place] * (number > 2 or not at_rest)
    engine.start()
    engine.guess_pressure(dt)
    for _ in range(steps):
        engine.advance(dt)
    whole = np.zeros((len(engine.fields), *problem.shape))
    for part, q in zip(whole, engine.fields):
        part[place] = q.owned
    comm.Allreduce(MPI.IN_PLACE, whole)
    return whole, engine
