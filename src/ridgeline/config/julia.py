"""JSON settings of GrayScott.jl, and of ADIOS2-Examples' gray-scott, which has the same, read without changes.

Keys, types and defaults are those of GrayScott.jl's `Settings`. As in both codes, unknown keys are ignored, and so
are bad values of keys that another key switches off; a warning names each. Another warning names the differences: the
boundary of GrayScott.jl is not periodic, its ghosts beyond the grid are never written, and it seeds 13^3 cells where
ADIOS2-Examples seeds 12^3. Runs here are periodic and seed 12^3 cells, as ADIOS2-Examples does. Outputs begin at step
`plotgap`, as in both codes.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationError

from ridgeline.config.check import MOST_FAULTS, Origin, all_faults, broken_fields, did_you_mean, refuse_form
from ridgeline.config.fields import Checked, Integer, Number, PathText, Truth, setting, toml
from ridgeline.runtime.errors import ConfigError


def _whole(value: Any) -> Any:
    """Turn 64.0 into 64, as Julia does when it stores a number in an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[Integer, BeforeValidator(_whole)]


class JuliaSettings(Checked):
    """GrayScott.jl's settings that have a meaning here, with GrayScott.jl's defaults."""

    L: Whole = setting(128, "grid.shape = [L, L, L]", ge=1)
    steps: Whole = setting(20000, "run.steps", ge=1)
    plotgap: Whole = setting(200, "output.every", ge=1)
    F: Number = setting(0.04, "model.F", ge=0)
    k: Number = setting(0.0, "model.k", ge=0)
    dt: Number = setting(0.2, "model.dt", gt=0)
    Du: Number = setting(0.05, "model.Du", ge=0)
    Dv: Number = setting(0.1, "model.Dv", ge=0)
    noise: Number = setting(0.0, "model.noise", ge=0)
    output: PathText = setting("foo.bp", "output.path", rule="a path", min_length=1)
    checkpoint: Truth = setting(False, "whether checkpoint.every is checkpoint_freq or 0")
    checkpoint_freq: Whole = setting(2000, "checkpoint.every, if checkpoint is true", ge=1)
    checkpoint_output: PathText = setting("ckpt.bp", "checkpoint.path", rule="a path", min_length=1)
    restart: Truth = setting(False, "whether to resume from restart_input")
    restart_input: PathText = setting("ckpt.bp", "--resume, if restart is true", rule="a path", min_length=1)
    precision: Literal["Float64", "Float32"] = setting("Float64", "run.precision")


# Keys of GrayScott.jl or of its versions and forks without a meaning here: they choose a library, a mesh or a device.
MEANINGLESS = (
    "adios_config",
    "adios_memory_selection",
    "adios_span",
    "backend",
    "block_dim",
    "kernel_language",
    "mesh_type",
    "verbose",
)

# Keys that have no effect unless another one is true.
SWITCHES = {
    "checkpoint_freq": "checkpoint",
    "checkpoint_output": "checkpoint",
    "restart_input": "restart",
}

# The key of GrayScott.jl for each of our keys, for faults that are only found in the translation.
_WRITTEN_AS = {
    "grid.shape": "L",
    "run.steps": "steps",
    "run.precision": "precision",
    "model.Du": "Du",
    "model.Dv": "Dv",
    "model.F": "F",
    "model.k": "k",
    "model.noise": "noise",
    "model.dt": "dt",
    "output.path": "output",
    "output.every": "plotgap",
    "checkpoint.path": "checkpoint_output",
    "checkpoint.every": "checkpoint_freq",
}


@dataclass(frozen=True)
class Translation:
    """GrayScott.jl's settings as a document of our sections."""

    document: dict[str, Any]
    origins: dict[str, Origin]
    warnings: tuple[str, ...]
    resume: Path | None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except RecursionError:
        raise ConfigError(
            f'{path}: not valid JSON: it is nested too deep. Write "key": value pairs.'
        ) from None
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ConfigError(
            f'{path}:{error.lineno}: not valid JSON: {what}. Write "key": value pairs.'
        ) from None
    except ValueError:  # an integer of more digits than Python reads
        raise ConfigError(
            f'{path}: not valid JSON: a number is too long. Write "key": value pairs.'
        ) from None
    refuse_form(path, settings)
    if not isinstance(settings, dict):
        raise ConfigError(
            f'{path}: the file holds {toml(settings)}, but it must hold an object of "key": value pairs.'
        )
    return settings


def _is_valid(key: str, value: Any) -> bool:
    try:
        JuliaSettings.model_validate({key: value})
    except ValidationError:
        return False
    return True


def translate(path: Path, text: str) -> Translation:
    """Read GrayScott.jl's JSON settings.

    Raises ConfigError with one sentence for each fault.
    """
    written = _parse(path, text)

    def locate(key: str) -> Origin:
        match = re.search(rf'"{re.escape(key)}"\s*:', text)
        return Origin(key, f"{path}:{text.count(chr(10), 0, match.start()) + 1}" if match else str(path))

    fields = JuliaSettings.model_fields
    known = {key: value for key, value in written.items() if key in fields}
    unknown = [key for key in written if key not in fields and key not in MEANINGLESS]
    warnings = []
    for origin in map(locate, unknown[:MOST_FAULTS]):
        hint = did_you_mean(origin.name, [*fields, *MEANINGLESS])
        warnings.append(f"{origin.place}: the unknown key {toml(origin.name)} is ignored{hint}")
    if len(unknown) > MOST_FAULTS:
        warnings.append(f"{path}: {len(unknown) - MOST_FAULTS} more unknown keys are ignored.")
    for key, switch in SWITCHES.items():
        if key in known and known.get(switch) is not True and not _is_valid(key, known[key]):
            origin, value = locate(key), known.pop(key)
            warnings.append(
                f"{origin.place}: {origin.name} = {toml(value)} is ignored, because {switch} is not true."
            )
    if ignored := [key for key in written if key in MEANINGLESS]:
        warnings.append(f"{path}: keys without a meaning in Ridgeline are ignored: {', '.join(ignored)}.")
    warnings.append(
        f"{path}: the run has periodic boundaries and seeds 12^3 cells, as in ADIOS2-Examples. GrayScott.jl leaves "
        "its boundary undefined and seeds 13^3 cells."
    )
    try:
        s = JuliaSettings.model_validate(known)
    except ValidationError as error:
        raise all_faults([sentence for _, sentence in broken_fields(error, fields, known, locate)]) from None
    document = {
        "run": {"model": "gray_scott", "steps": s.steps, "precision": s.precision.lower()},
        "grid": {"shape": [s.L, s.L, s.L], "boundary": "periodic"},
        "model": {"Du": s.Du, "Dv": s.Dv, "F": s.F, "k": s.k, "noise": s.noise, "dt": s.dt},
        "initial": {"kind": "box", "half_width": 6},
        "output": {"path": s.output, "every": s.plotgap, "initial": False},
        "checkpoint": {
            "path": s.checkpoint_output,
            "every": s.checkpoint_freq if s.checkpoint else 0,
            "at_end": s.checkpoint,
        },
    }
    origins = {ours: locate(theirs) for ours, theirs in _WRITTEN_AS.items()}
    resume = Path(s.restart_input) if s.restart else None
    return Translation(document, origins, tuple(warnings), resume)
