"""Keys that another key switches off: what the schemas state of every key of every model, and what is said of it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ridgeline.config.case import AnyCase
from ridgeline.config.check import Origin
from ridgeline.config.fields import Checked, needs_of
from ridgeline.config.load import check_document, load_case, put_all
from ridgeline.config.needs import idle_settings
from ridgeline.config.schema import ANY, fields_of, sections_of
from ridgeline.models import available, case_class

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Keys that always have an effect; a new key is listed here or states what it needs.
# A part is switched off by its interval, and then needs no warning for each of its other keys.
OF_PARTS = " ".join(
    f"output.part.N.{key}"
    for key in (
        "name",
        "path",
        "variables",
        "plane",
        "line",
        "box",
        "stride",
        "mean",
        "precision",
        "every",
        "initial",
    )
)
ALWAYS = {
    "": """
        run.model run.steps run.end_time run.precision run.threads run.device run.walltime run.check_memory
        run.check_every output.path output.format output.every output.align output.variables output.series_every
        checkpoint.path checkpoint.every checkpoint.at_end checkpoint.keep checkpoint.ranks_per_file
        checkpoint.writers_at_once
        callback.N.function callback.N.variables callback.N.every callback.N.every_time callback.N.every_wall
        recorder.N.name recorder.N.path recorder.N.every recorder.N.every_time recorder.N.every_wall
        initial.kind""",
    "gray_scott": """
        run.stop_when
        grid.shape grid.boundary grid.process_grid grid.cell_size
        model.Du model.Dv model.F model.k model.noise model.dt model.steps_per_sweep""",
    "molecular_dynamics": """
        grid.cells grid.process_grid model.density model.cutoff model.dt
        model.external_potential
        neighbour.skin neighbour.every neighbour.check neighbour.newton neighbour.overlap
        thermostat.kind initial.temperature output.spectra_every""",
    "n_body": """
        grid.shape grid.decomposition grid.process_grid grid.length grid.particles
        cosmology.omega_m model.steps_to_today model.spacing model.short_range model.filter_width
        model.filter_power initial.redshift output.spectra_every""",
    "navier_stokes": """
        run.stop_when
        grid.elements grid.mesh grid.order grid.lengths grid.origin grid.distribution grid.mapping
        grid.edges.x grid.edges.y grid.edges.z
        grid.periodic model.dt model.courant model.time_order model.viscosity model.viscosity_formula
        model.expected_re_tau
        model.dealias_order model.products model.overlap model.filter.weight model.pressure.solver
        model.pressure.tolerance model.pressure.max_iterations model.pressure.restart
        model.pressure.preconditioner model.velocity.tolerance model.velocity.max_iterations
        model.projection.pressure model.projection.velocity model.forcing.kind
        model.source sponge.N.strength sponge.N.velocity sponge.N.scalars
        scalar.N.diffusivity scalar.N.diffusivity_formula scalar.N.source scalar.N.mean_gradient scalar.N.initial
        output.uniform output.nek5000_every output.statistics_every""",
    "reaction_diffusion": """
        run.stop_when run.seed
        grid.shape grid.process_grid grid.lengths grid.cell_size
        model.dt model.scheme model.parameters model.steps_per_sweep
        model.species.N.name model.species.N.diffusivity model.species.N.rate model.species.N.noise
        model.species.N.initial""",
    "turbulence": """
        grid.shape grid.decomposition grid.process_grid grid.lengths model.viscosity model.inviscid
        model.scheme model.dealias model.dt model.courant model.rotation model.brunt_vaisala
        model.hyperviscosity model.drag
        model.transpose_variables forcing.kind scalar.N.schmidt scalar.N.mean_gradient scalar.N.variance
        particles.count output.spectra_every""",
    "wind": """
        run.seed
        grid.shape grid.process_grid grid.lengths
        model.viscosity model.dt model.courant model.advection model.reconstruction model.diffusion model.solver
        model.tolerance
        damping.depth driving.kind initial.perturbation initial.scalars output.profiles_every
        rotation.latitude rotation.parameter scalar.N.diffusivity scalar.N.name subgrid.kind
        surface.distribution surface.heat surface.least_speed surface.roughness surface.stable
        surface.unstable surface.von_karman temperature.enabled turbine.N.density turbine.N.diameter
        turbine.N.kernel turbine.N.position turbine.N.reference turbine.N.thrust_coefficient
        turbine.N.width turbine.N.yaw""",
}
for _model in ("gray_scott", "navier_stokes", "reaction_diffusion", "turbulence", "wind"):
    ALWAYS[_model] += f" {OF_PARTS}"
ALWAYS["navier_stokes"] += " output.part.N.points output.part.N.side"
# An interval in another unit has an effect wherever that in steps has.
ALWAYS = {
    model: " ".join(
        f"{key} {key}_time {key}_wall"
        if key.endswith("every") and "neighbour" not in key and key != "run.check_every"
        else key
        for key in keys.split()
    )
    for model, keys in ALWAYS.items()
}
SIDES = [f"{axis}_{end}" for axis in "xyz" for end in ("min", "max")]
# Whether a value is possible is not asked here, only whether it would have an effect.
VALUES: tuple[Any, ...] = (
    7, 3, 2, 1, 1.2, 0.5, 4.0, -0.5, True, False, "x", "wavy", ["scalars"], ["x"], [1.0, 2.0], [1.0, 2.0, 3.0],
    [2, 2, 2], ["1", "2", "3"], ["sine", "sine", "sine"], {"X": 1.0},
)  # fmt: skip
Document = dict[str, Any]


def choices_of(annotation: Any) -> Iterator[Any]:
    """Yield the words of a type that is a choice, or has one among its alternatives."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif get_origin(annotation) is not tuple:
        for inner in get_args(annotation):
            yield from choices_of(inner)


def some_value(field: FieldInfo, unlike: tuple[Any, ...] = ()) -> Any:
    """Return a value that a field takes, which is not its default, not among `unlike`, and turns something on."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])
    for value in (*choices_of(field.annotation), *VALUES):
        try:
            taken = adapter.validate_python(value)
        except ValidationError:
            continue
        if taken != field.default and value not in unlike and value not in ("none", "auto", 0, False):
            return value
    return True if field.default is True else None  # of one value


def first(key: str) -> str:
    """Return the key with repeated tables counted: the first of them."""
    return key.replace(f".{ANY}", ".0")


def with_tables(fields: Mapping[str, FieldInfo], values: Document) -> Document:
    """Return a document with these values, and what tables of it require beside."""
    tables = {key.partition(f".{ANY}.")[0] for key in fields if f".{ANY}." in key}
    given = {key.split(".")[0] for key in values if ".0" in key}
    required = {
        first(key): some_value(field)
        for key, field in fields.items()
        if field.is_required() and (f".{ANY}." not in key or key.split(".")[0] in given & tables)
    }
    document: Document = {}
    put_all(document, {"run.steps": 7} | required | values)
    return document


def on_value(fields: Mapping[str, FieldInfo], key: str, values: list[Any]) -> dict[str, Any]:
    """Return what must be set for a condition to hold: by keys."""
    if key.endswith(f".{ANY}"):  # the table itself: what it requires makes it
        table = next(k for k, f in fields.items() if k.startswith(f"{key}.") and f.is_required())
        return {first(table): some_value(fields[table])}
    field = fields[key]
    value = values[0] if values else some_value(field)
    return {first(key): [value] * 3 if key == "grid.distribution" else value}


def whole(key: str, other: str) -> str:
    return other if "." in other else f"{key.rpartition('.')[0]}.{other}"


def switched_on(fields: Mapping[str, FieldInfo], key: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return settings with which a key has an effect: the first of its ways, and what its keys need."""
    found: dict[str, Any] = {}
    for other, values in (needs_of(fields[key]) or [{}])[0].items():
        name = whole(key, other)
        found |= on_value(fields, name, values)
        if name in fields and name not in seen:
            found |= switched_on(fields, name, (*seen, key, name))
    return found


def off_values(fields: Mapping[str, FieldInfo], key: str) -> dict[str, Any] | None:
    """Return settings with which a key has no effect, None where there are none, as a model knows one device."""
    found: dict[str, Any] = {}
    for way in needs_of(fields[key]):
        other, values = next(iter(way.items()))
        name = whole(key, other)
        if name.endswith(f".{ANY}"):
            continue
        field = fields[name]
        if values and field.default in values:
            value = some_value(field, tuple(values))
            if value is None:
                return None
            found[first(name)] = value
        elif not values and field.default not in (None, 0, "", False, (), (0.0, 0.0, 0.0)):
            found[first(name)] = False if field.default is True else 0
    return found


def idle(model: str, values: Document) -> list[str]:
    """Return what is said of a case with these values, rules between settings left out."""
    fields = fields_of(case_class(model))
    document = with_tables(fields, {"run.model": model} | values)
    case = check_document(document, case_class, lambda key: Origin(key, "here"))
    return list(idle_settings(case, lambda key: Origin(key, "here")))


@pytest.fixture(autouse=True)
def no_rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave rules between settings out where every key is tried: what is tried is no flow that would run."""
    if "key" in request.fixturenames:
        monkeypatch.setattr(Checked, "all_problems", lambda self: iter(()))
        monkeypatch.setattr(AnyCase, "all_problems", lambda self: iter(()))


@pytest.mark.parametrize("model", available())
def test_every_key_states_what_it_needs_or_always_has_an_effect(model: str) -> None:
    keys = {key for key, field in fields_of(case_class(model)).items() if not needs_of(field)}
    expected = {*ALWAYS[""].split(), *ALWAYS[model].split()}
    if model == "navier_stokes":
        expected |= {f"{home}.{side}.kind" for home in ("boundary", "scalar.N.boundary") for side in SIDES}
    if model in ("reaction_diffusion", "wind"):
        expected |= {f"boundary.{side}.kind" for side in SIDES}
    without_kinds = ("molecular_dynamics", "reaction_diffusion")
    assert keys == (expected - {"initial.kind"} if model in without_kinds else expected)


def all_needs() -> list[tuple[str, str]]:
    return [
        (model, key)
        for model in available()
        for key, field in fields_of(case_class(model)).items()
        if needs_of(field)
    ]


@pytest.mark.parametrize(("model", "key"), all_needs())
def test_a_key_that_is_switched_off_is_named_with_the_key_that_does_it(model: str, key: str) -> None:
    fields = fields_of(case_class(model))
    others = [whole(key, other) for way in needs_of(fields[key]) for other in way]
    tables = {section.key for section in sections_of(case_class(model))}
    assert all(other in fields or other in tables for other in others)
    value = some_value(fields[key])
    on = switched_on(fields, key)
    assert value is not None
    named = re.compile(rf"(: |, | and ){re.escape(first(key))} = ")
    assert not [said for said in idle(model, on | {first(key): value}) if named.search(said)]
    off = off_values(fields, key)
    if off is None:
        return
    (said,) = [said for said in idle(model, off | {first(key): value}) if named.search(said)]
    _, _, why = said.partition(" no effect, because ")
    assert any(first(other) in why or f"no [[{other.split('.')[0]}]]" in why for other in others), said


# What users wrote and believed to act: the example, the setting, and what switches it off.
SILENT = [
    ("gray_scott", 'initial.formula_u="x"', 'initial.kind is "box". It is used only with initial.kind = "formula"'),
    ("gray_scott", "initial.count=3", 'initial.kind is "box". It is used only with initial.kind = "patches"'),
    ("gray_scott", "initial.path=x.png", 'initial.kind is "box". It is used only with initial.kind = "image" or '
                                         '"file"'),
    ("gray_scott", "initial.step=3", 'initial.kind is "box". It is used only with initial.kind = "file"'),
    ("turbulence_decay", "forcing.coefficient=3.0", 'forcing.kind is "none". It is used only with forcing.kind '
                                                    '= "linear"'),
    ("turbulence_decay", "initial.A=2.0", 'initial.kind is "spectrum". It is used only with initial.kind = "abc"'),
    ("turbulence_decay", "initial.path=x.bp", 'initial.kind is "spectrum". It is used only with initial.kind = '
                                              '"file"'),
    ("turbulence_decay", "initial.station=98",
     'initial.spectrum is "von-karman-pao". It is used only with initial.spectrum = "comte-bellot-corrsin"'),
    ("kovasznay", "initial.perturbation=5.0",
     'initial.kind is "kovasznay". It is used only with initial.kind = "perturbed-duct" or "perturbed-channel"'),
    ("kovasznay", "model.forcing.value=[1,0,0]",
     'model.forcing.kind is "none". It is used only with model.forcing.kind = "force"'),
    ("lid_driven_cavity", 'initial.velocity=["1",0,0]',
     'initial.kind is "rest". It is used only with initial.kind = "uniform", "expression" or "walsh"'),
    ("lid_driven_cavity", "model.filter.modes=40",
     "model.filter.weight is 0.0. It is used only with model.filter.weight other than 0"),
    ("lid_driven_cavity", "boundary.y_min.value=[1,0,0]",
     'boundary.y_min.kind is "wall". It is used only with boundary.y_min.kind = "moving-wall" or "inflow"'),
    ("laminar_duct", "grid.mapping_amplitude=5.0",
     'grid.mapping is "none". It is used only with grid.mapping = "wavy", "annulus" or "periodic-hill"'),
    ("heated_cavity", "scalar.0.boundary.y_min.value=1",
     'scalar.0.boundary.y_min.kind is "adiabatic". It is used only with scalar.0.boundary.y_min.kind = "fixed" '
     'or "flux"'),
    ("heated_cavity", "output.forces.path=x.csv",
     "output.forces.sides is []. It is used only with output.forces.sides set"),
    ("lennard_jones_melt", "thermostat.temperature=3.0",
     'thermostat.kind is "none". It is used only with thermostat.kind = "langevin"'),
    ("n_body", "cosmology.table=/etc/passwd", 'cosmology.spectrum is "bbks". It is used only with '
                                              'cosmology.spectrum = "table"'),
    ("n_body", "initial.collapse=0.5", 'initial.kind is "random". It is used only with initial.kind = "pancake"'),
]  # fmt: skip


@pytest.mark.parametrize(("example", "override", "why"), SILENT)
def test_a_setting_without_effect_is_told(example: str, override: str, why: str) -> None:
    loaded = load_case(EXAMPLES / example / "settings.toml", case_class, [override])
    (said,) = loaded.warnings
    key = override.partition("=")[0]
    assert said.startswith(f"--set: {key} = ")
    assert said.endswith(f" has no effect, because {why}.")


def test_the_line_is_told_where_the_value_was_written(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        '[run]\nmodel = "molecular_dynamics"\nsteps = 1\n[grid]\ncells = [5, 5, 5]\n[thermostat]\ntemperature = 1.0\n'
    )
    (said,) = load_case(path, case_class).warnings
    assert said.startswith(
        f"{path}:7: thermostat.temperature = 1.0 has no effect, because thermostat.kind is"
    )


def test_settings_with_one_reason_share_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        '[run]\nmodel = "gray_scott"\nsteps = 1\n[grid]\nshape = [4, 4, 4]\n'
        '[initial]\nkind = "file"\npath = "a.bp"\nhalf_width = 10\nnoise = 0.01\n'
    )
    assert load_case(path, case_class, ["initial.u=0.5"]).warnings == (
        f'{path}:9: initial.half_width = 10 and initial.noise = 0.01 have no effect, because initial.kind is "file".',
        '--set: initial.u = 0.5 has no effect, because initial.kind is "file". It is used only with initial.kind = '
        '"box", "uniform", "patches" or "image".',
    )


def test_a_value_that_asks_for_nothing_is_no_matter(tmp_path: Path) -> None:
    overrides = [
        "initial.noise=0.0",
        "output.initial=false",
        "output.every=0",
        "model.noise=0.0",
        "model.random_numbers=auto",
    ]
    text = '[run]\nmodel = "gray_scott"\nsteps = 1\n[grid]\nshape = [4, 4, 4]\n'
    path = tmp_path / "case.toml"
    path.write_text(text)
    assert load_case(path, case_class, overrides).warnings == ()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/settings.toml")), ids=lambda path: path.parent.name)
def test_no_example_has_a_setting_without_effect(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    assert load_case(path, case_class).warnings == ()
