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


AIR = {"enabled": True, "heights": [0.0, 60.0, 100.0], "values": [300.0, 300.0, 302.0]}
GROUND = {
    "boundary": {"z_min": {"kind": "surface"}, "z_max": {"kind": "slip"}},
    "surface": {"roughness": 0.1},
}
STABLE = {
    **GROUND,
    "temperature": AIR,
    "surface": {"roughness": 0.1, "heat": "temperature", "temperature": 299.0, "temperature_rate": -0.01},
    "subgrid": {"kind": "one-equation", "initial_energy": 0.4},
    "rotation": {"parameter": 1e-2},
    "driving": {"kind": "geostrophic", "geostrophic_wind": [8.0, 0.0]},
    "damping": {"depth": 40.0, "time": 5.0},
}
DISC = {"position": [40.0, 60.0, 48.0], "diameter": 40.0, "thrust_coefficient": 0.7, "yaw": 10.0}
PASSAGE = {
    "x_min": {"kind": "inflow", "velocity": ["8+sin(t)+z/50", 0.0, 0.0]},
    "x_max": {"kind": "outflow"},
}
# Settings of layers with a ground, closures, forces and turbines; `settings_of_layer` adds what they share.
LAYERS = {
    "neutral": {
        **GROUND,
        "subgrid": {"kind": "smagorinsky", "wall_damping": True},
        "rotation": {"parameter": 1e-2},
        "driving": {"kind": "geostrophic", "geostrophic_wind": [8.0, 0.0]},
    },
    "stable": STABLE,
    "stable, implicit": {**STABLE, "model": {"diffusion": "crank-nicolson", "viscosity": 0.5}},
    "stable, lines": {**STABLE, "model": {"advection": "method-of-lines"}},
    "sheared": {
        **GROUND,
        "subgrid": {"kind": "smagorinsky", "coefficient": 0.005},
        "rotation": {"parameter": 1e-3},
        "driving": {"kind": "geostrophic", "geostrophic_wind": [8.0, 0.0]},
        "model": {"diffusion": "crank-nicolson", "viscosity": 0.1},
    },
    "turbine": {
        "boundary": {**GROUND["boundary"], **PASSAGE},
        "subgrid": {"kind": "smagorinsky"},
        "turbine": [DISC],
    },
    "farm": {
        **GROUND,
        "subgrid": {"kind": "smagorinsky"},
        "driving": {"kind": "hub-height", "target": [8.0, 0.0], "height": 48.0, "relaxation_time": 5.0},
        "turbine": [DISC, {**DISC, "position": [100.0, 30.0, 48.0], "kernel": "top-hat"}],
    },
}
LAYER_GRID = {"shape": [10, 11, 12], "lengths": [100.0, 110.0, 120.0]}


def layer_case(name, grid=LAYER_GRID, **model):
    """Return the case of one of LAYERS. model: further settings of the section of that name."""
    from ridgeline.models.wind.settings import WindCase

    settings = {"run": {"model": "wind", "steps": 1}, "grid": grid, **LAYERS[name]}
    settings["model"] = {"dt": 0.5, **settings.get("model", {}), **model}
    return WindCase.model_validate(settings)


def start_of_layer(case):
    """A sheared wind with waves and, with a temperature, the profile of the settings, the same on any ranks."""
    h = case.grid.spacing()
    z, y, x = np.meshgrid(
        *((np.arange(n) + 0.5) * width for n, width in zip(case.grid.shape, h)), indexing="ij"
    )
    turn = 2 * np.pi / np.array(case.grid.lengths)
    waves = np.sin(turn[2] * x + turn[1] * y) * np.sin(turn[0] * z)
    u, v, w = (
        7 + z / 50 + waves,
        0.5 * np.cos(turn[2] * x) + 0.3,
        0.4 * np.cos(turn[1] * y) * np.sin(turn[0] * z),
    )
    fields = {
        "u": u,
        "v": v,
        "w": w,
        "theta": 300 + z / 50 + 0.1 * waves,
        "subgrid_energy": 0.4 + 0.1 * waves,
    }
    return [fields[name] for name in ("u", "v", "w", *case.transported())]


def advance_engine(
    comm, problem, process_grid, direct, steps=3, dt=0.02, at_rest=False, case=None, tolerance=1e-12
):
    """Return the fields after some steps, put together on all ranks of a communicator, and the engine.

    at_rest: whether the velocity is 0 at first; case: of one of LAYERS, to whose problem its physics are added.
    """
    from mpi4py import MPI

    from ridgeline.blocks.cartesian import decompose
    from ridgeline.models.contract import Context
    from ridgeline.models.wind.engine_cpu import CpuEngine
    from ridgeline.models.wind.physical_terms import PhysicalTerms

    cartesian, block = decompose(comm, problem.shape, process_grid, problem.periodic, 3)
    terms = None if case is None else PhysicalTerms(case, block, comm)
    engine = CpuEngine(problem, cartesian, block, Context(comm), terms, tolerance, direct)
    engine.compile()
    place = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
    starts = start_of(problem) if case is None else start_of_layer(case)
    for number, (q, start) in enumerate(zip(engine.fields, starts)):
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
