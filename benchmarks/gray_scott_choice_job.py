"""Whole Gray-Scott models with noise, in turn: the number of fused steps that the model chooses against others.

What the one rank runs: python benchmarks/gray_scott_choice_job.py '{"n": 128, "dtype": "float64", "threads": 2, ...}'
Prints the speed of the choice over the best of the others as JSON.
"""

import json
import sys
from typing import Any

CHOICES = (1, 2, 3)


def main(settings: dict[str, Any]) -> None:
    from mpi4py import MPI

    from gray_scott_ranks import BATCH_SECONDS, advance, make_model
    from harness.timing import interleave

    n, dtype, threads = settings["n"], settings["dtype"], settings["threads"]
    names = {"auto": "auto"} | {str(steps): steps for steps in CHOICES}
    models = {name: make_model(MPI.COMM_SELF, threads, n, dtype, steps) for name, steps in names.items()}
    whole = 6  # steps that every choice divides
    steps = whole * max(1, round(BATCH_SECONDS * 1e9 / n**3 / whole))
    candidates = {name: lambda model=model: advance(model, steps) for name, model in models.items()}
    timings = interleave(candidates, settings["seconds"], min_rounds=3)
    best = min((str(choice) for choice in CHOICES), key=timings.best)
    rates = [n**3 * steps / timings.best(name) / 1e6 for name in ("auto", best)]
    result = {
        "best": timings.ratio(best, "auto"),
        "median": timings.median_ratio(best, "auto"),
        "note": f"{rates[0]:.0f} against {rates[1]:.0f} million cells/s; best {best} of {list(CHOICES)}; "
        f"chosen: {models['auto'].describe()['method']}",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    from ridgeline.parallel.job import prepare_rank

    asked = json.loads(sys.argv[1])
    prepare_rank(asked["threads"])
    main(asked)
