"""What the sweep of blocks computes in a cell: a stage of a step, whose rates are formulas.

    u' = u + ((diffusion) + (dt * rate [+ dt n r]))                    a step of forward Euler, and first stages
    u' = (m * u + k * before) + ((diffusion) + (dt * rate [+ dt n r])) further stages; see `schemes`

Nothing is fused or rearranged, so that NumPy finds the same bits (`reference`) for formulas of + - * /. Diffusion is

    c ((x- + x+) + (y- + y+) + (z- + z+) - 6 u)      with one c = dt D/h^2 for all directions,
    c_x ((x- + x+) - 2 u) + ... in y and z           with one for each direction,
    c_x (D(x + h/2) (x+ - u) - D(x - h/2) (u - x-)) + ...   where D is a formula of the place.

Directions of one periodic cell are left out.

The formulas are part of the code, and thus of the key in the kernel cache. Parameters, dt, the time and the widths of
cells are numbers that the code reads, so that a sweep over parameters compiles once.
"""

import ast
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.sweep_rows import CellRule
from ridgeline.config.expressions import CONSTANTS, VARIABLES, Arithmetic, evaluate, parse
from ridgeline.jit.random import UNIFORM_SCALE
from ridgeline.models.reaction_diffusion.formulas import PLACES, Species
from ridgeline.models.reaction_diffusion.schemes import SchemeStage
from ridgeline.models.reaction_diffusion.vector_arithmetic import VectorArithmetic

Names = tuple[str, ...]
Axes = tuple[bool, bool, bool]

# How a species spreads: not at all, with one coefficient, with one for each direction, or with formulas of the place.
STILL, EQUAL, ALONG_AXES, OF_PLACE = "still", "equal", "along axes", "of place"
# Numbers before those of parameters: time, dt, m, k, widths of cells in z, y and x, and cells of periodic directions.
TIME, DT, OF_HERE, OF_BEFORE, WIDTHS, CELLS, BEFORE = 0, 1, 2, 3, 4, 7, 10
OF_SPECIES = 4  # coefficients of diffusion in z, y and x, and of noise


class Program(NamedTuple):
    """The formulas of a case as texts, with what else shapes the code. It is hashable, and has a lasting text."""

    species: Names
    parameters: Names
    rates: Names
    spreads: Names  # how each species spreads
    diffusivities: tuple[Names, ...]  # formulas in x, y and z of each species that spreads by place
    noisy: tuple[bool, ...]
    axes: Axes  # directions z, y, x that have more than one cell or are not periodic
    sources: Names = ()  # digests of the files whose functions stand for formulas
    combines: bool = False  # whether this is a stage that reads what the results held before


def program_of(species: tuple[Species, ...], parameters: dict[str, float], h: Any, axes: Axes) -> Program:
    """Return the program of a case. h: widths of cells in z, y and x."""
    spreads, diffusivities = [], []
    for each in species:
        of_place: Names = ()
        if each.of_place:
            spread, of_place = OF_PLACE, tuple(formula.text for formula in each.diffusivity)
        else:
            rates = [
                d / width**2
                for d, width, on in zip(each.constant_diffusivity(parameters), h, axes, strict=True)
                if on
            ]
            equal = all(rate == rates[0] for rate in rates)
            spread = STILL if not any(rates) else EQUAL if equal else ALONG_AXES
        spreads.append(spread)
        diffusivities.append(of_place)
    formulas = [formula for each in species for formula in (each.rate, *each.diffusivity)]
    return Program(
        tuple(each.name for each in species),
        tuple(parameters),
        tuple(each.rate.text for each in species),
        tuple(spreads),
        tuple(diffusivities),
        tuple(each.noise > 0 for each in species),
        axes,
        tuple(formula.source for formula in formulas if formula.source),
    )


def numbers(
    species: tuple[Species, ...],
    parameters: dict[str, float],
    program: Program,
    h: tuple[float, float, float],
    cells: tuple[int, int, int],
    times: list[float],
    stage: SchemeStage,
    dtype: DTypeLike,
) -> NDArray[Any]:
    """Return what the code of a stage reads, a row for each of some steps, computed in float64 and rounded once.

    cells: of periodic directions z, y, x; -1 of the others. times: at which the stage is, in each of the steps.
    """
    dt = stage.dt
    values = [dt, stage.here, stage.before, *h, *map(float, cells), *parameters.values()]
    for each, spread in zip(species, program.spreads, strict=True):
        d = (1.0, 1.0, 1.0) if spread == OF_PLACE else each.constant_diffusivity(parameters)
        coefficients = [dt * c / width**2 for c, width in zip(d, h, strict=True)]
        if spread == EQUAL:  # a direction that is left out may have other cells
            coefficients = [coefficients[program.axes.index(True)]] * 3
        values += [*coefficients, dt * each.noise]
    return np.array([[time, *values] for time in times], dtype)


def diffusion(u: Any, around: Any, c: Any, spread: str, axes: Axes, faces: Any) -> Any:
    """Return the change of u by diffusion, for vectors and for NumPy arrays alike.

    around: the neighbours x-, x+, y-, y+, z-, z+. c: coefficients in z, y and x. faces: with formulas of the place,
    the diffusivity at the faces in the order of the neighbours.
    """
    present = [n for n, axis in enumerate((2, 1, 0)) if axes[axis]]
    terms = []
    for n in present:
        low, high = around[2 * n], around[2 * n + 1]
        if spread == OF_PLACE:
            terms.append(c[2 - n] * (faces[2 * n + 1] * (high - u) - faces[2 * n] * (u - low)))
        elif spread == ALONG_AXES:
            terms.append(c[2 - n] * ((low + high) - u * 2.0))
        else:
            terms.append(low + high)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return c[2] * (total - u * (2.0 * len(present))) if spread == EQUAL else total


def rates(program: Program, names: dict[str, Any], using: Arithmetic) -> list[Any]:
    """Return the rates of all species. names: the values of species, parameters, x, y, z and t."""
    known = (*program.species, *VARIABLES, *program.parameters)
    with_constants = {**{name: using.number(value) for name, value in CONSTANTS.items()}, **names}
    return [evaluate(parse(text, known).tree, with_constants, using) for text in program.rates]


def diffusivity_at(program: Program, n: int, names: dict[str, Any], axis: int, using: Arithmetic) -> Any:
    """Return the diffusivity of species n in z, y or x (axis 0, 1, 2) at x, y and z."""
    known = (*PLACES, *program.parameters)
    with_constants = {**{name: using.number(value) for name, value in CONSTANTS.items()}, **names}
    return evaluate(parse(program.diffusivities[n][2 - axis], known).tree, with_constants, using)


def _faces(program, n, cells, names, arithmetic, centres):
    """Return the diffusivity of species n at the faces of a vector of cells, in the order of neighbours."""
    numbers, table = cells.coefficients, arithmetic.table()
    faces = []
    for axis in (2, 1, 0):
        low = cells.index(axis)
        high = low + 1.0
        # The last face of a periodic direction is the first one.
        wraps = table.compare[ast.Eq](high, numbers[CELLS + axis])
        high = table.where(wraps, table.number(0.0), high)
        for index in (low, high):
            places = {**centres, "zyx"[axis]: index * numbers[WIDTHS + axis]}
            at_face = (
                diffusivity_at(program, n, {**names, **places}, axis, table) if program.axes[axis] else None
            )
            faces.append(None if at_face is None else arithmetic.lift(at_face))
    return faces


def cell_update(program, cells, arithmetic, noise_scale):
    """Return the new values of the species in some cells, read from `cells` as a `CellRule` does.

    arithmetic: of formulas on what `cells` holds, `VectorArithmetic` on CPUs and `CodeArithmetic` on GPUs.
    noise_scale: what brings the random numbers of `cells` to [-1, 1).
    """
    numbers = cells.coefficients
    centres = {"zyx"[axis]: (cells.index(axis) + 0.5) * numbers[WIDTHS + axis] for axis in range(3)}
    parameters = dict(zip(program.parameters, numbers[BEFORE:]))
    fields = {name: cells.here(n) for n, name in enumerate(program.species)}
    names = {**parameters, **fields, **centres, "t": numbers[TIME]}
    changes = rates(program, names, arithmetic.table())
    noise = iter(cells.noise or ())
    new = []
    for n, (u, rate, spread) in enumerate(zip(fields.values(), changes, program.spreads, strict=True)):
        first = BEFORE + len(parameters) + OF_SPECIES * n
        change = numbers[DT] * arithmetic.lift(rate)
        if program.noisy[n]:
            change = change + numbers[first + 3] * (next(noise) * noise_scale)
        if spread != STILL:
            faces = _faces(program, n, cells, names, arithmetic, centres) if spread == OF_PLACE else None
            c = numbers[first : first + 3]
            spreading = diffusion(u, cells.neighbours(n), c, spread, program.axes, faces)
            change = spreading + change
        if program.combines:
            u = numbers[OF_HERE] * u + numbers[OF_BEFORE] * cells.before(n)
        new.append(u + change)
    return new


def count_numbers(program: Program) -> int:
    """Return how many numbers the code reads."""
    return BEFORE + len(program.parameters) + OF_SPECIES * len(program.species)


@cache
def make_rule(program: Program) -> CellRule:
    """Return the rule of a program."""
    kept = tuple(program)  # what the rule closes over is part of the key of its kernels

    def update(cells):
        return cell_update(Program(*kept), cells, VectorArithmetic(cells.lanes, cells.context), UNIFORM_SCALE)

    stencil = tuple(spread != STILL for spread in program.spreads)
    return CellRule(update, stencil, count_numbers(program), sum(program.noisy))
