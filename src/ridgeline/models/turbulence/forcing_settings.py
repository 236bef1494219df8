"""Settings of the force that sustains turbulence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ridgeline.config.expressions import faults
from ridgeline.config.fields import Checked, FormulaText, Number, Problem, setting


class ForcingSection(Checked):
    """The force f that sustains turbulence."""

    kind: Literal["none", "eswaran-pope", "frozen", "linear", "formula"] = setting(
        "none",
        'Forcing: "none", "eswaran-pope" (each mode from inner_radius to shell_radius is forced by a separate '
        'Ornstein-Uhlenbeck process), "frozen" (the energy of each shell from inner_radius to shell_radius stays '
        'constant), "linear" (f = coefficient u, after Lundgren) or "formula" (formulas of x, y, z and t).',
    )
    amplitude: Number | None = setting(
        None,
        "Amplitude sigma of the processes of Eswaran and Pope. A component of f in a mode has the variance 2 sigma^2 "
        "before projection.",
        unit="length/time^2",
        rule="a number > 0",
        gt=0,
        needs={"kind": "eswaran-pope"},
    )
    correlation_time: Number | None = setting(
        None,
        "Correlation time T_L of the processes of Eswaran and Pope.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"kind": "eswaran-pope"},
    )
    shell_radius: Number = setting(
        2.5,
        "Largest wavenumber that is forced.",
        unit="1/length",
        gt=0,
        needs={"kind": ("eswaran-pope", "frozen")},
    )
    inner_radius: Number = setting(
        0.0,
        "Smallest wavenumber that is forced; below it the flow is free. With 0 all modes up to shell_radius are "
        "forced, except for the mean flow.",
        unit="1/length",
        ge=0,
        needs={"kind": ("eswaran-pope", "frozen")},
    )
    formula: tuple[FormulaText, FormulaText, FormulaText] | None = setting(
        None,
        "Force per mass [f_x, f_y, f_z] as formulas of x, y, z and t, whose divergence is projected out. Formulas "
        "without t are evaluated once, others at the middle of each step.",
        unit="length/time^2",
        rule="three formulas of x, y, z, t as [f_x, f_y, f_z]",
        needs={"kind": "formula"},
    )
    coefficient: Number | None = setting(
        None,
        "Coefficient of the linear forcing.",
        unit="1/time",
        rule="a number > 0",
        gt=0,
        needs={"kind": "linear"},
    )

    def problems(self) -> Iterator[Problem]:
        needed = {"eswaran-pope": ("amplitude", "correlation_time"), "linear": ("coefficient",)}
        for key in needed.get(self.kind, ()):
            if getattr(self, key) is None:
                yield Problem(key, f'a number > 0 with forcing.kind = "{self.kind}"')
        if self.kind in ("eswaran-pope", "frozen") and self.inner_radius > self.shell_radius:
            yield Problem("inner_radius", f"a number <= forcing.shell_radius = {self.shell_radius:g}")
        if self.formula is not None:
            yield from faults("formula", self.formula)
        elif self.kind == "formula":
            yield Problem("formula", 'three formulas of x, y, z, t with forcing.kind = "formula"')
