"""What packages with models and benchmarks of their own import: names that stay.

A name of this module keeps its meaning. One that has to change warns with `DeprecationWarning` for at least two minor
versions before it goes, and the changelog names its successor. Every other name of the package may move at any time.
Nothing is imported before it is used, so that settings need neither Numba nor MPI.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, Scaling, ScalingFigures
    from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
    from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
    from ridgeline.blocks.cartesian import decompose
    from ridgeline.blocks.halo import HaloExchange
    from ridgeline.blocks.multigrid.cell_preconditioner import CellOperator, CellPreconditioner
    from ridgeline.blocks.multigrid.cells import CellMultigrid
    from ridgeline.blocks.multigrid.nodes import NodalMultigrid
    from ridgeline.blocks.projection import MacProjection, NodalProjection
    from ridgeline.config import sections
    from ridgeline.config.case import AnyCase
    from ridgeline.config.fields import Checked, Integer, Number, Problem, setting
    from ridgeline.elements.gather_scatter import GatherScatter
    from ridgeline.elements.geometry import ElementGeometry
    from ridgeline.elements.mesh import BoxMesh, ElementGrid
    from ridgeline.elements.operator import ElementOperator
    from ridgeline.fourier.decomposition import PencilGrid
    from ridgeline.fourier.transform import FourierTransform, kernels_of_transforms
    from ridgeline.fourier.tuning import TransformTuning
    from ridgeline.io.series import SeriesWriter
    from ridgeline.jit.kernel import compile_kernels, kernel, specialise
    from ridgeline.krylov.cg import cg, flexible_cg, kernels_of_cg
    from ridgeline.krylov.operator import Workspace
    from ridgeline.models.contract import DistributedArray, Estimate, Model, Variable, Work
    from ridgeline.models.recorders import Recorder, WrittenSteps
    from ridgeline.models.time_steps import FixedSteps
    from ridgeline.parallel.communicator import compile_on_nodes
    from ridgeline.parallel.payload import check, content
    from ridgeline.particles.boxes import even_boxes, kernels_of_boxes
    from ridgeline.particles.identity_ranges import IdentityRanges
    from ridgeline.particles.migration import Migration
    from ridgeline.particles.particles import ParticleField, Particles
    from ridgeline.runtime.console import Phases
    from ridgeline.runtime.declared_options import OptionSpec
    from ridgeline.runtime.errors import ConfigError, DivergedError

# The module in which each name is defined.
_PLACES = {
    "AnyCase": "config.case",
    "Benchmark": "bench.benchmark",
    "BenchmarkOptions": "bench.benchmark",
    "Block": "blocks.block",
    "BlockArray": "blocks.block",
    "BoxMesh": "elements.mesh",
    "CellMultigrid": "blocks.multigrid.cells",
    "CellOperator": "blocks.multigrid.cell_preconditioner",
    "CellPreconditioner": "blocks.multigrid.cell_preconditioner",
    "Checked": "config.fields",
    "Column": "bench.result",
    "ConfigError": "runtime.errors",
    "DistributedArray": "models.contract",
    "DivergedError": "runtime.errors",
    "ElementGeometry": "elements.geometry",
    "ElementGrid": "elements.mesh",
    "ElementOperator": "elements.operator",
    "Estimate": "models.contract",
    "FixedSteps": "models.time_steps",
    "FourierTransform": "fourier.transform",
    "GatherScatter": "elements.gather_scatter",
    "HaloExchange": "blocks.halo",
    "IdentityRanges": "particles.identity_ranges",
    "Integer": "config.fields",
    "MICROSECONDS": "bench.result",
    "MacProjection": "blocks.projection",
    "Migration": "particles.migration",
    "Model": "models.contract",
    "NodalMultigrid": "blocks.multigrid.nodes",
    "NodalProjection": "blocks.projection",
    "Number": "config.fields",
    "OptionSpec": "runtime.declared_options",
    "ParticleField": "particles.particles",
    "Particles": "particles.particles",
    "PencilGrid": "fourier.decomposition",
    "Phases": "runtime.console",
    "Plot": "bench.result",
    "Problem": "config.fields",
    "Recorder": "models.recorders",
    "Result": "bench.result",
    "SIZE": "bench.result",
    "Scaling": "bench.benchmark",
    "ScalingFigures": "bench.benchmark",
    "SeriesWriter": "io.series",
    "TransformTuning": "fourier.tuning",
    "Variable": "models.contract",
    "Work": "models.contract",
    "Workspace": "krylov.operator",
    "WrittenSteps": "models.recorders",
    "cg": "krylov.cg",
    "check": "parallel.payload",
    "check_process_grid": "blocks.block",
    "choose_process_grid": "blocks.block",
    "compile_kernels": "jit.kernel",
    "content": "parallel.payload",
    "decompose": "blocks.cartesian",
    "even_boxes": "particles.boxes",
    "flexible_cg": "krylov.cg",
    "compile_on_nodes": "parallel.communicator",
    "kernel": "jit.kernel",
    "kernels_of_cg": "krylov.cg",
    "kernels_of_boxes": "particles.boxes",
    "kernels_of_transforms": "fourier.transform",
    "sections": "config",
    "setting": "config.fields",
    "specialise": "jit.kernel",
}
__all__ = [
    "MICROSECONDS",
    "SIZE",
    "AnyCase",
    "Benchmark",
    "BenchmarkOptions",
    "Block",
    "BlockArray",
    "BoxMesh",
    "CellMultigrid",
    "CellOperator",
    "CellPreconditioner",
    "Checked",
    "Column",
    "ConfigError",
    "DistributedArray",
    "DivergedError",
    "ElementGeometry",
    "ElementGrid",
    "ElementOperator",
    "Estimate",
    "FixedSteps",
    "FourierTransform",
    "GatherScatter",
    "HaloExchange",
    "IdentityRanges",
    "Integer",
    "MacProjection",
    "Migration",
    "Model",
    "NodalMultigrid",
    "NodalProjection",
    "Number",
    "OptionSpec",
    "ParticleField",
    "Particles",
    "PencilGrid",
    "Phases",
    "Plot",
    "Problem",
    "Recorder",
    "Result",
    "Scaling",
    "ScalingFigures",
    "SeriesWriter",
    "TransformTuning",
    "Variable",
    "Work",
    "Workspace",
    "WrittenSteps",
    "cg",
    "check",
    "check_process_grid",
    "choose_process_grid",
    "compile_kernels",
    "compile_on_nodes",
    "content",
    "decompose",
    "even_boxes",
    "flexible_cg",
    "kernel",
    "kernels_of_boxes",
    "kernels_of_cg",
    "kernels_of_transforms",
    "sections",
    "setting",
    "specialise",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ridgeline.api' has no attribute {name!r}")
    place = import_module(f"ridgeline.{_PLACES[name]}")
    # `sections` is a module itself.
    return getattr(place, name, None) or import_module(f"{place.__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
