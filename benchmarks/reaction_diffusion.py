"""Benchmarks of reaction-diffusion with rates from formulas: ratios, each of times taken in turn in one run.

    python benchmarks/reaction_diffusion.py [--size N] [--threads N] [--seconds S] [--device cuda] [--json FILE]

Gray-Scott written as formulas runs beside the built-in model, and three species beside STREAM, or beside the copy of
a GPU's own memory. Programs of other people are in `reaction_diffusion_peers.py`.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.device import measure_on_device
from harness.machine import describe
from harness.table import Row, show, write_json
from harness.timing import interleave
from ridgeline.parallel.job import prepare_rank

F, K, DU, DV = 0.02, 0.048, 0.2, 0.1
LAUNCHES = 20  # of a timed call on a GPU


def model_of(name: str, document: dict[str, Any], place: tuple[str, int]) -> Any:
    """Return a model at its initial state, on this process alone. place: device and threads."""
    from mpi4py import MPI

    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    model = create(name)
    model.setup(case_class(name).model_validate(document), Context(MPI.COMM_SELF, *place))
    model.compile()
    model.initialize()
    return model


def with_formulas(n: int, dtype: str, noise: float, place: tuple[str, int]) -> Any:
    """Return Gray-Scott as formulas."""
    species = [
        {"name": "U", "diffusivity": DU / 6, "rate": "F*(1 - U) - U*V**2", "initial": 1, "noise": noise},
        {"name": "V", "diffusivity": DV / 6, "rate": "U*V**2 - (F + k)*V", "initial": 0.1},
    ]
    model = {"dt": 1.0, "parameters": {"F": F, "k": K}, "species": species, "steps_per_sweep": 1}
    run = {"model": "reaction_diffusion", "steps": 1, "precision": dtype, "device": place[0]}
    return model_of("reaction_diffusion", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, place)


def built_in(n: int, dtype: str, noise: float, place: tuple[str, int]) -> Any:
    """Return Gray-Scott as built in."""
    model = {"Du": DU, "Dv": DV, "F": F, "k": K, "noise": noise, "steps_per_sweep": 1}
    run = {"model": "gray_scott", "steps": 1, "precision": dtype, "device": place[0]}
    return model_of("gray_scott", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, place)


def three_species(n: int, dtype: str, place: tuple[str, int]) -> Any:
    """Return cyclic competition of three species."""
    names = "ABC"
    species = [
        {
            "name": a,
            "diffusivity": 0.1,
            "rate": f"{a}*(1 - A - B - C) - s*{a}*{names[i - 1]}",
            "initial": 0.25,
        }
        for i, a in enumerate(names)
    ]
    model = {"dt": 0.1, "parameters": {"s": 1.0}, "species": species, "steps_per_sweep": 1}
    run = {"model": "reaction_diffusion", "steps": 1, "precision": dtype, "device": place[0]}
    return model_of("reaction_diffusion", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, place)


def steps_of(model: Any, device: str) -> tuple[Any, int]:
    """Return a call that makes some steps, and how many: several on a GPU, where launches return at once."""
    if device == "cpu":
        return partial(model.step, 1), 1
    from numba import cuda

    def several() -> None:
        for _ in range(LAUNCHES):
            model.step(1)
        cuda.synchronize()

    return several, LAUNCHES


def compare_with_built_in(n: int, place: tuple[str, int], seconds: float) -> Iterator[Row]:
    """Measure Gray-Scott as formulas beside the built-in model."""
    for dtype in ("float64", "float32"):
        for noise in (0.0, 0.1):
            how = n, dtype, noise, place
            models = {"formulas": with_formulas(*how), "built-in": built_in(*how)}
            steps = {name: steps_of(model, place[0]) for name, model in models.items()}
            times = interleave({name: call for name, (call, _) in steps.items()}, seconds)
            rate = steps["formulas"][1] * n**3 / times.best("formulas") / 1e6
            yield Row(
                f"built-in time / formulas, {n}^3 {dtype}{' with noise' if noise else ''}",
                times.ratio("built-in", "formulas"),
                ">= 0.95",
                times.median_ratio("built-in", "formulas"),
                f"{rate:.0f} million cells/s",
            )
            del models, steps


def compare_with_copy(n: int, place: tuple[str, int], seconds: float, copy: float = 0.0) -> Iterator[Row]:
    """Measure three species beside STREAM copy, or beside a copy that moves so many bytes a second."""
    from ridgeline.limits.stream import StreamArrays

    for dtype in ("float64", "float32"):
        call, steps = steps_of(three_species(n, dtype, place), place[0])
        candidates = {"sweep": call}
        if not copy:
            arrays = StreamArrays(2**27, place[1])
            candidates["copy"] = partial(arrays.run, "copy", True)
        times = interleave(candidates, seconds)
        bandwidth = copy or arrays.bytes_moved("copy") / times.best("copy")
        least = steps * 6 * n**3 * (8 if dtype == "float64" else 4)
        share = least / times.best("sweep") / bandwidth
        name = "device copy" if copy else "STREAM copy"
        yield Row(f"three species: least bytes/s over {name}, {n}^3 {dtype}", share, ">= 0.8")


def rows(n: int, place: tuple[str, int], seconds: float, copy: float = 0.0) -> Iterator[Row]:
    """Yield the rows of the table. copy: a GPU's bandwidth in B/s."""
    yield from compare_with_built_in(n, place, seconds)
    yield from compare_with_copy(n, place, seconds, copy)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=128, help="cells in each direction (128)")
    parser.add_argument("--threads", type=int, default=1, help="threads of a sweep (1)")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each comparison (5)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the models run (cpu)")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    prepare_rank(options.threads)
    place = options.device, options.threads
    if options.device == "cuda":
        measure_on_device(
            "reaction-diffusion",
            "reaction_diffusion.py",
            lambda copy, _: rows(options.size, place, options.seconds, copy),
            options.json,
        )
        return
    found = []
    for row in rows(options.size, place, options.seconds):
        print(row.line(), flush=True)
        found.append(row)
    command = " ".join(["python", "benchmarks/reaction_diffusion.py", *sys.argv[1:]])
    show("reaction-diffusion", found, describe())
    if options.json:
        write_json(options.json, found, describe(), command)


if __name__ == "__main__":
    main()
