"""Taylor-Green vortex at Re = 1600 against 512^3 solutions: the curves and the figure of docs/theory-turbulence.md.

    python tools/taylor_green_figure.py run 128 phase-shift    # one curve: a row per 0.2 of time, to t = 20
    python tools/taylor_green_figure.py draw                   # the figure and the table, from all curves

Curves are kept in docs/figures/taylor_green_re1600.csv. RK4 with steps of 0.01 (128^3: some 10 minutes on a core).
"""

import csv
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CURVES = ROOT / "docs" / "figures" / "taylor_green_re1600.csv"
FIGURE = CURVES.with_suffix(".svg")
REFERENCE = ROOT / "tests" / "data" / "tgv_re1600.csv"
REYNOLDS, DT, EVERY, END = 1600, 0.01, 20, 20.0


def run(n, dealias):
    """Compute one curve: rows (n, dealias, t, E, 2 nu Z)."""
    from mpi4py import MPI

    from ridgeline.fourier.decomposition import PencilGrid
    from ridgeline.models.turbulence import initial
    from ridgeline.models.turbulence.engine_cpu import CpuEngine
    from ridgeline.models.turbulence.problem import FlowParameters
    from ridgeline.models.turbulence.spectra import sum_over_modes

    flow = FlowParameters(1 / REYNOLDS, "rk4")
    engine = CpuEngine(
        PencilGrid((n, n, n), dealias, (1, 1), 0), (2 * np.pi,) * 3, MPI.COMM_SELF, np.float64, flow
    )
    initial.taylor_green(engine.fields, engine.modes)
    rows = []
    for step in range(round(END / DT) + 1):
        if step % EVERY == 0:
            sums = sum_over_modes(MPI.COMM_SELF, engine.fields, engine.modes)
            dissipation = 2 / REYNOLDS * sums.flow["enstrophy"]
            rows.append((n, dealias, round(step * DT, 6), f"{sums.energy:.10g}", f"{dissipation:.8g}"))
        engine.advance(DT)
    return rows


def curves():
    """Return {(n, dealias): [[t, E, eps], ...]} of the file."""
    found = {}
    if CURVES.exists():
        with CURVES.open() as file:
            for n, dealias, *values in list(csv.reader(file))[1:]:
                found.setdefault((int(n), dealias), []).append(values)
    return found


def save(found):
    """Write all curves."""
    CURVES.parent.mkdir(exist_ok=True)
    with CURVES.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("n", "dealias", "t", "energy", "dissipation"))
        for (n, dealias), rows in sorted(found.items()):
            writer.writerows((n, dealias, *row) for row in rows)


def draw():
    """Draw dissipation over time and its error, and print the table of the page."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "ridgeline"
    lines = [line for line in REFERENCE.read_text().splitlines() if not line.startswith("#")]
    reference = np.array([[float(v) for v in line.split(",")] for line in lines[1:]])
    t, energy, exact = reference[:, 0], reference[:, 1], reference[:, 3]
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(7, 7), sharex=True)
    upper.plot(t, exact, "k", lw=1.2, label="512³, van Rees et al. (2011)")
    styles = {"two-thirds": "--", "phase-shift": "-"}
    colours = {64: "tab:orange", 128: "tab:blue"}
    print("| grid | dealias | E, t <= 5 | eps, t <= 5 | eps, t <= 8 | largest eps | at t |")
    print("|---|---|---|---|---|---|---|")
    for (n, dealias), rows in sorted(curves().items()):
        mine = np.array(rows, float)
        look = {"ls": styles[dealias], "color": colours[n], "lw": 1.2}
        upper.plot(mine[:, 0], mine[:, 2], label=f"{n}³, {dealias}", **look)
        common = np.isclose(t[:, np.newaxis], mine[:, 0], atol=1e-6)
        at, mine_at = np.nonzero(common)
        error = np.abs(mine[mine_at, 2] / exact[at] - 1)
        lower.semilogy(t[at], np.maximum(error, 1e-7), **look)
        early, later = t[at] <= 5, t[at] <= 8
        energy_error = np.abs(mine[mine_at, 1] / energy[at] - 1)[early].max()
        peak = mine[:, 2].argmax()
        print(
            f"| {n}³ | `{dealias}` | {energy_error:.1e} | {100 * error[early].max():.2g} % | "
            f"{100 * error[later].max():.2g} % | {mine[peak, 2]:.5f} | {mine[peak, 0]:.1f} |"
        )
    print(f"| 512³ | reference | | | | {exact.max():.5f} | {t[exact.argmax()]:.2f} |")
    upper.set(ylabel="dissipation 2 nu Z", xlim=(0, 20), ylim=(0, None))
    lower.set(ylabel="relative error of 2 nu Z", xlabel="t", ylim=(1e-7, 1))
    upper.legend(frameon=False)
    lower.axhline(0.01, color="0.6", lw=0.8)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def main():
    """Do what the command line says."""
    if sys.argv[1:] == ["draw"]:
        draw()
        return
    n, dealias = int(sys.argv[2]), sys.argv[3]
    rows = run(n, dealias)
    found = curves()  # read again: other curves may have been computed meanwhile
    found[n, dealias] = [row[2:] for row in rows]
    save(found)


if __name__ == "__main__":
    main()
