"""Diagnostics of a turbulence engine on a device beside those of the host's."""

from contextlib import contextmanager
from unittest import mock

import numpy as np

from ridgeline.fourier.device.transform_cuda import DeviceTransform
from ridgeline.models.turbulence.diagnostics import Diagnostics, scalar_parameters
from ridgeline.models.turbulence.recorders import output_field, output_names

ROUNDING = {np.float64: 1e-12, np.float32: 1e-5}


def diagnostics_of(engine, comm):
    """The figures of an engine, and what takes longer: a function that returns profiles and output fields."""
    flow = engine.flow
    diagnostics = Diagnostics(
        comm, engine.passes, flow.viscosity, scalar_parameters(flow), flow.waves, flow.damping
    )
    figures = diagnostics.series(engine.stored, 0.01) | diagnostics.mode_figures(engine.stored)

    def further():
        profiles = {name: profile.values for name, profile in diagnostics.profiles(engine.stored).items()}
        names = output_names(engine.n_scalars)
        return profiles, {
            name: output_field(name, comm, engine.stored, engine.passes, flow) for name in names
        }

    return figures, further


def compare_diagnostics(engine, host, comm, block=np.s_[...]) -> None:
    """An engine on the device and one on the host, on all ranks or one, whose outputs are cut to `block`.

    Figures are compared to rounding, those that cancel to that of what cancels. A density is a count: in float32 a
    point may be in the bin beside its own. No field is copied meanwhile.
    """
    dtype = engine.transform.real.type
    rounding = ROUNDING[dtype]
    figures, further = diagnostics_of(host, host.forcing.comm)
    profiles, outputs = further()
    with no_field_is_copied():
        found, found_further = diagnostics_of(engine, comm)
        found_profiles, found_outputs = found_further()
    assert list(found) == list(figures)
    for name, value in figures.items():
        scale = max(abs(value), 1.0) if name in CANCEL else abs(value)
        assert abs(found[name] - value) <= rounding * scale, (name, found[name], value)
    n_points = int(np.prod(engine.modes.shape))
    assert list(found_profiles) == list(profiles)
    for name, expected in profiles.items():
        scale = max(np.abs(expected).max(), 1.0 if name in CANCEL else 0.0)
        if name.endswith("_density") and dtype == np.float32:
            scale = max(scale, 1.0) * 1e5 / n_points  # a point or two
        difference = np.abs(found_profiles[name] - expected).max()
        assert difference <= rounding * scale, (name, difference, scale)
    for name, expected in outputs.items():
        difference = np.abs(found_outputs[name] - expected[block]).max(initial=0)
        assert difference <= rounding * np.abs(expected).max(), name
        assert found_outputs[name].dtype == expected.dtype


CANCEL = {
    *(
        "helicity",
        "skewness",
        "pressure_skewness",
        "divergence",
        "scalar_0_production",
        "scalar_1_production",
    ),
    *("longitudinal_structure_3", "transfer_spectrum", "energy_flux"),
}


@contextmanager
def no_field_is_copied():
    """Let nothing copy the modes of a field between device and host."""

    def refuse(*arguments):
        raise AssertionError("a field was copied")

    with (
        mock.patch.object(DeviceTransform, "take", refuse),
        mock.patch.object(DeviceTransform, "put", refuse),
    ):
        yield
