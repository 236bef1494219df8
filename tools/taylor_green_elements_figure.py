"""Taylor-Green vortex at Re = 1600 on spectral elements: the curves and the figure of docs/theory-navier-stokes.md.

    python tools/taylor_green_elements_figure.py run 8 11 0.005 10  # one curve: elements per side, order, dt, end
    python tools/taylor_green_elements_figure.py draw               # the figure and the table, from all curves

Curves are kept in docs/figures/taylor_green_elements_re1600.csv, a row per 0.1 of time. 8^3 elements of order 11 take
minutes on one core.
"""

import csv
import math
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CURVES = ROOT / "docs" / "figures" / "taylor_green_elements_re1600.csv"
FIGURE = CURVES.with_suffix(".svg")
FOURIER = CURVES.with_name("taylor_green_re1600.csv")
REFERENCE = ROOT / "tests" / "data" / "tgv_re1600.csv"
REYNOLDS, EVERY = 1600, 0.1
COLUMNS = ("elements", "order", "dt", "t", "energy", "dissipation")


def run(elements, order, dt, end):
    """Compute one curve: rows of (t, E, 2 nu Z)."""
    from mpi4py import MPI

    from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
    from ridgeline.models.navier_stokes.diagnostics import Diagnostics
    from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
    from ridgeline.models.navier_stokes.problem import (
        FlowProblem,
        HelmholtzSolver,
        PressureSolver,
        VelocitySide,
    )

    comm, nu = MPI.COMM_SELF, 1 / REYNOLDS
    grid = ElementGrid(BoxMesh.box((elements,) * 3, (2 * math.pi,) * 3, periodic=(True,) * 3), order)
    problem = FlowProblem(
        nu, dt, {side: VelocitySide("periodic") for side in SIDES},
        dealias_points=-(-3 * (order + 1) // 2),
        pressure=PressureSolver(tolerance=1e-6), velocity=HelmholtzSolver(tolerance=1e-8),
    )  # fmt: skip
    engine = CpuEngine(comm, grid, problem)
    figures = Diagnostics(comm, grid, engine.geometry, nu)
    x, y, z = engine.geometry.coordinates
    engine.start(
        np.stack([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), np.zeros_like(x)])
    )
    per_row, started, rows = round(EVERY / dt), time.perf_counter(), []
    for step in range(round(end / dt) + 1):
        if step:
            engine.advance()
        if step % per_row == 0:
            row = figures.series(engine.u, engine.fields[3:], dt, engine.courant_rate())
            energy, rate = row["kinetic_energy"], 2 * nu * row["enstrophy"]
            rows.append((f"{step * dt:.6g}", f"{energy:.10g}", f"{rate:.8g}"))
            counts = engine.last_iterations
            seconds = time.perf_counter() - started
            print(*rows[-1], f"Courant {row['courant']:.2f} {counts} {seconds:.0f} s", flush=True)
    return rows


def read(path):
    """Return the rows of a CSV file without its header and comments."""
    with path.open() as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))[1:]


def curves():
    """Return {(elements, order, dt): [[t, E, eps], ...]} of the file."""
    found = {}
    for elements, order, dt, *values in read(CURVES) if CURVES.exists() else ():
        found.setdefault((int(elements), int(order), float(dt)), []).append(values)
    return found


def save(found):
    """Write all curves."""
    with CURVES.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for key, rows in sorted(found.items()):
            writer.writerows((*key, *row) for row in rows)


def loss(t, energy):
    """Return times and -dE/dt there, by differences of fourth order."""
    step = t[1] - t[0]
    return t[2:-2], (energy[4:] - 8 * energy[3:-1] + 8 * energy[1:-3] - energy[:-4]) / (12 * step)


def at_common(t, exact, mine_t, mine):
    """Return the common times, exact values and mine there."""
    i, j = np.nonzero(np.isclose(t[:, np.newaxis], mine_t, atol=1e-6))
    return t[i], exact[i], mine[j]


def draw():
    """Draw both dissipations over time and their errors, and print the table of the page."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "ridgeline"
    t, energy, _, exact = np.array(read(REFERENCE), float)[:, :4].T
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 7), sharex=True)
    upper.plot(t, exact, "k", lw=1.2, label="512³, van Rees et al. (2011)")
    print("| elements | order | points | dt | E | 2 nu Z, t <= 5 | 2 nu Z | -dE/dt | largest 2 nu Z | at t |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    last = 0.0
    for colour, ((elements, order, dt), rows) in zip(("tab:blue", "tab:orange"), sorted(curves().items())):
        mine_t, mine_energy, mine = np.array(rows, float).T
        last = max(last, mine_t[-1])
        name = f"{elements}³ elements of order {order}"
        loss_t, mine_loss = loss(mine_t, mine_energy)
        upper.plot(mine_t, mine, color=colour, lw=1.2, label=f"{name}, 2 nu Z")
        upper.plot(loss_t, mine_loss, color=colour, lw=1.2, ls=":", label=f"{name}, -dE/dt")
        at, there, here = at_common(t, exact, mine_t, mine)
        error = np.abs(here / there - 1)
        lower.semilogy(at, np.maximum(error, 1e-7), color=colour, lw=1.2)
        loss_at, loss_there, loss_here = at_common(t, exact, loss_t, mine_loss)
        loss_error = np.abs(loss_here / loss_there - 1)
        lower.semilogy(loss_at, np.maximum(loss_error, 1e-7), color=colour, lw=1.2, ls=":")
        energies = at_common(t, energy, mine_t, mine_energy)
        peak = mine.argmax()
        print(
            f"| {elements}³ | {order} | {elements * order}³ | {dt:g} | "
            f"{np.abs(energies[2] - energies[1]).max():.1e} | {100 * error[at <= 5].max():.2g} % | "
            f"{100 * error.max():.2g} % | {100 * loss_error.max():.2g} % | {mine[peak]:.5f} | {mine_t[peak]:.1f} |"
        )
    for n, dealias, grey in (("64", "two-thirds", "0.6"), ("128", "phase-shift", "0.4")):
        rows = np.array([row[2:] for row in read(FOURIER) if row[:2] == [n, dealias]], float)
        rows = rows[rows[:, 0] <= last + 1e-6]
        upper.plot(rows[:, 0], rows[:, 2], color=grey, ls="--", lw=1.0, label=f"{n}³ Fourier, {dealias}")
        at, there, here = at_common(t, exact, rows[:, 0], rows[:, 2])
        lower.semilogy(at, np.maximum(np.abs(here / there - 1), 1e-7), color=grey, ls="--", lw=1.0)
    print(f"| reference | | 512³ | | | | | | {exact.max():.5f} | {t[exact.argmax()]:.2f} |")
    upper.set(ylabel="dissipation", xlim=(0, last), ylim=(0, None))
    lower.set(ylabel="error, relative to 2 nu Z of 512³", xlabel="t", ylim=(1e-7, 1))
    upper.legend(frameon=False)
    lower.axhline(0.01, color="0.6", lw=0.8)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def main():
    """Do what the command line says."""
    if sys.argv[1:] == ["draw"]:
        draw()
        return
    elements, order, dt, end = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
    rows = run(elements, order, dt, end)
    found = curves()  # read again: other curves may have been computed meanwhile
    found[elements, order, dt] = rows
    save(found)


if __name__ == "__main__":
    main()
