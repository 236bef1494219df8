"""Diagnostics of a turbulence engine on a device beside those of the host's."""

from contextlib import contextmanager
from unittest import mock

import numpy as np

from ridgeline.fourier.device.transform_cuda import DeviceTransform
from ridgeline.models.turbulence.diagnostics import Diagnostics, scalar_parameters
from ridgeline.models.turbulence.outputs import output_field, output_names

ROUNDING = {np.float64: 1e-12, np.float32: 1e-5}


def diagnostics_of(engine, comm):
    """All that an engine's passes are for: a row of the series, figures, profiles, and output fields, by name."""
    flow = engine.flow
    diagnostics = Diagnostics(comm, engine.passes, flow.viscosity, scalar_parameters(flow))
    profiles = {name: profile.values for name, profile in diagnostics.profiles(engine.stored).items()}
    outputs = {
        name: output_field(name, comm, engine.stored, engine.passes, flow)
        for name in output_names(engine.n_scalars)
    }
    return (
        diagnostics.series(engine.stored, 0.01),
        diagnostics.mode_figures(engine.stored),
        profiles,
        outputs,
    )


def compare_diagnostics(engine, host, comm, block=np.s_[...]) -> None:
    """An engine on the device and one on the host, on all ranks or one, whose outputs are cut to `block`.

    Figures are compared to rounding, those that cancel to that of what cancels. A density is a count: a point may be
    in the bin beside its own.
    """
    dtype = engine.transform.real.type
    rounding = ROUNDING[dtype]
    wanted, found = diagnostics_of(host, host.forcing.comm), diagnostics_of(engine, comm)
    for expected, got in zip(wanted[:2], found[:2]):
        assert list(got) == list(expected)
        for name, value in expected.items():
            scale = max(abs(value), 1.0) if name in SIGNED or name == "divergence" else abs(value)
            assert abs(got[name] - value) <= 20 * rounding * scale, (name, got[name], value)
    n_points = int(np.prod(engine.modes.shape))
    for name, expected in wanted[2].items():
        scale = max(np.abs(expected).max(), SCALES.get(name, 0.0))
        if name.endswith("_density") and dtype == np.float32:
            scale = max(scale, 1.0) * 1e5 / n_points  # a point or two
        difference = np.abs(found[2][name] - expected).max()
        assert difference <= 20 * rounding * scale, (name, difference, scale)
    for name, expected in wanted[3].items():
        difference = np.abs(found[3][name] - expected[block]).max(initial=0)
        assert difference <= 20 * rounding * np.abs(expected).max(), name
        assert found[3][name].dtype == expected.dtype


SCALES = {"longitudinal_structure_3": 1.0, "transfer_spectrum": 1.0, "energy_flux": 1.0}  # of what cancels
SIGNED = {"helicity", "skewness", "pressure_skewness", "scalar_0_production", "scalar_1_production"}


@contextmanager
def refuse_copies(engine):
    """Let nothing copy a whole field between device and host."""

    def refuse(*arguments):
        raise AssertionError("a field was copied")

    with (
        mock.patch.object(DeviceTransform, "take", refuse),
        mock.patch.object(DeviceTransform, "put", refuse),
    ):
        yield
