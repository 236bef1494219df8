"""What settings of reaction-diffusion are refused with, and what they say about the time step."""

import math

import numpy as np
import pytest

from reaction_diffusion_cases import BRUSSELATOR, GRAY_SCOTT, make_case, start
from ridgeline.config.load import load_case
from ridgeline.models import case_class, estimate
from ridgeline.models.reaction_diffusion.estimate import steps_per_sweep
from ridgeline.models.reaction_diffusion.initial import set_start
from ridgeline.runtime.errors import ConfigError

CASE = """\
[run]
model = "reaction_diffusion"
steps = 10

[grid]
shape = [1, 16, 16]
lengths = [1.0, 8.0, 8.0]

[model]
dt = 0.005
parameters = { a = 1.0, b = 3.0 }

[[model.species]]
name = "X"
diffusivity = 1.0
rate = "a - (b + 1)*X + X**2*Y"
initial = "a"

[[model.species]]
name = "Y"
diffusivity = 8.0
rate = "b*X - X**2*Y"
initial = "b/a + 0.1*random"
"""
RATE = 'rate = "a - (b + 1)*X + X**2*Y"'


def load(tmp_path, text=CASE, *overrides):
    path = tmp_path / "case.toml"
    path.write_text(text)
    return load_case(path, case_class, overrides).case


def message(tmp_path, old, new, *overrides):
    assert old in CASE
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, CASE.replace(old, new), *overrides)
    return str(caught.value).replace(f"{tmp_path}/", "")


FAULTS = [
    (RATE, 'rate = "a/(x - 0.25) - X"', 'case.toml:16: model.species.0.rate is "a/(x - 0.25) - X", but it must be '
     "finite in every cell at t = 0; it is inf at x = 0.25, y = 0.25, z = 0.5."),
    (RATE, 'rate = "a - bb*X"', "bb is unknown (did you mean b?); the known names are X, Y, x, y, z, t, a, b, pi, e"),
    ('"b/a + 0.1*random"', '"b/a + X"', "case.toml:23: model.species.1.initial"),
    ('diffusivity = 8.0', 'diffusivity = "8*t"', "t is unknown"),
    ('diffusivity = 8.0', 'diffusivity = -8', "a number from 0 to 1e+30"),
    ('name = "Y"', 'name = "X"', "and different from the others"),
    ('name = "Y"', 'name = "sin"', "a name of letters"),
    ("b = 3.0 }", "X = 3.0 }", "without X: a parameter has a name of letters"),
    ("dt = 0.005", "dt = 0.01", "at most 0.007812, the largest stable step with these diffusivities and cells"),
    ("shape = [1, 16, 16]", "shape = [1, 16, 16]\ncell_size = 1", "left out with grid.lengths"),
    ("[grid]", "[boundary.x_min]\nkind = 'no-flux'\n[grid]", '"periodic" exactly if boundary.x_min.kind is'),
    ("[grid]", "[boundary.x_min]\nkind = 'fixed'\nvalues = {X = 1}\n[boundary.x_max]\nkind = 'no-flux'\n[grid]",
     'a table with a value for Y, with kind = "fixed"'),
    ("[grid]", "[boundary.x_min]\nkind = 'flux'\nvalues = {Z = 1}\n[boundary.x_max]\nkind = 'no-flux'\n[grid]",
     "a table of species, which are X, Y."),
    ("[grid]", "[boundary.x_min]\nkind = 'flux'\nvalues = {X = 'y/t'}\n[boundary.x_max]\nkind = 'no-flux'\n[grid]",
     "a table in which X is finite on the whole side at t = 0; it is inf at x = 0, y = 0.25, z = 0.5."),
    ("[grid]", "[boundary.x_min]\nkind = 'flux'\nvalues = {X = 'a + X'}\n[boundary.x_max]\nkind = 'no-flux'\n[grid]",
     "a table in which X is a formula of x, y, z, t, a, b. In \"a + X\", X is unknown (did you mean x?)"),
    ("diffusivity = 1.0", "diffusivity = 'x'\n[boundary.x_min]\nkind = 'flux'\nvalues = {X = 'y'}\n"
     "[boundary.x_max]\nkind = 'no-flux'\n[[model.species]]\nname = 'Q'",
     "without a flux of X where its diffusivity is 0, as at x = 0, y = 0.25, z = 0.5"),
    ("[grid]", "[output]\nvariables = ['X', 'Z']\n[grid]", 'a list of "X" or "Y", each at most once'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), FAULTS)
def test_faults_are_said_in_one_sentence_with_the_line(tmp_path, old, new, expected):
    told = message(tmp_path, old, new)
    assert expected in told
    assert told.startswith("case.toml")
    assert "\n" not in told


HOSTILE = [
    "X.__class__",
    "__import__('os').system('true')",
    "X[0]",
    "(lambda: 1)()",
    "[X for X in (1, 2)]",
    "9**9**9**9**9",
    "(" * 300 + "X" + ")" * 300,
    "(X + 1)**9**9**9",
    "-" * 1500 + "X",
    "X" + "+X" * 990,
    "exec('1')",
    "X if",
    "'a'*10",
    "X := 1",
    "1e999",
]


@pytest.mark.parametrize("rate", HOSTILE)
def test_hostile_formulas_are_refused_at_once(tmp_path, rate):
    with pytest.raises(ConfigError, match=r"model\.species\.0\.rate"):
        load(tmp_path, CASE.replace(RATE, f'rate = "{rate}"'))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("initial", ["1/0", "-1/0", "0/0"])
def test_an_initial_state_that_is_not_finite_is_one_error_without_warnings(tmp_path, initial):
    with pytest.raises(ConfigError, match=r'initial is "-?./0", but it must be finite in every cell'):
        load(tmp_path, CASE.replace('initial = "a"', f'initial = "{initial}"'))


def test_a_formula_is_looked_at_in_every_cell_before_the_first_step():
    """Settings are checked at some places; the run looks at all of them."""
    hidden = [{"name": "u", "rate": "1/(x - 20.5)", "initial": 0}]
    with pytest.raises(ConfigError, match=r"model.species.0.rate: 1/\(x - 20.5\) is inf .* at x = 20.5"):
        start(make_case(hidden, (1, 2, 64)))
    assert callable(set_start)


def test_the_stable_step_is_that_of_the_eigenvalues():
    """X' = -10 X and heat in two dimensions: 2/(4 D/h^2 2), 2/10, and both together."""
    species = [{"name": "X", "diffusivity": 0.5, "rate": "-10*X", "initial": 1}]
    case = make_case(species, (1, 16, 16), grid={"cell_size": 0.5}, model={"dt": 0.01})
    assert case.stable.diffusion == pytest.approx(2 / 16)
    assert case.stable.rates == pytest.approx(2 / 10, rel=1e-6)
    assert case.stable.both == pytest.approx(2 / 26, rel=1e-6)
    assert "the largest stable one is 0.07692" in " ".join(case.remarks())
    # A pair of eigenvalues -1 +- 3 i: 2 Re/|l|^2.
    pair = [{"name": "X", "rate": "-X - 3*Y"}, {"name": "Y", "rate": "3*X - Y"}]
    assert make_case(pair, (1, 1, 4)).stable.rates == pytest.approx(2 / 10, rel=1e-6)
    assert math.isinf(make_case([{"name": "X", "rate": "X"}], (1, 1, 4)).stable.both)


def test_a_run_that_blew_up_is_told_which_step_is_stable():
    """What follows where and when the fields stopped being finite."""
    decay = make_case([{"name": "X", "rate": "-10*X", "initial": 1}], (1, 1, 4), model={"dt": 0.3})
    assert (
        decay.stable.advice(0.3) == "Try model.dt = 0.2, up to which a step is stable at the initial state."
    )
    assert "stable up to model.dt = 0.2, so the rates" in decay.stable.advice(0.1)
    growth = make_case([{"name": "X", "rate": "X**2", "initial": 1}], (1, 1, 4))
    assert "stable whatever its length, so the rates" in growth.stable.advice(0.1)


def test_a_step_above_the_limit_of_rates_warns():
    species = [{"name": "X", "rate": "-10*X", "initial": 1}]
    ((key, sentence),) = make_case(species, (1, 1, 4), model={"dt": 0.3}).doubts()
    assert key == "model.dt"
    assert "0.2" in sentence


def test_parameters_and_species_can_be_overridden(tmp_path):
    case = load(tmp_path, CASE, "model.parameters.b=3.5", "model.species.1.diffusivity=[7, 8, 0]")
    assert case.model.parameters == {"a": 1.0, "b": 3.5}
    assert case.species[1].constant_diffusivity(case.model.parameters) == (0.0, 8.0, 7.0)
    assert case.output.variables == ("X", "Y")
    assert case.flatten()["model.parameters.b"] == 3.5


def test_identity_holds_formulas_and_parameters():
    base = make_case(BRUSSELATOR)
    assert make_case(BRUSSELATOR, model={"steps_per_sweep": 2}).identity() == base.identity()
    assert make_case(BRUSSELATOR, model={"parameters": {"a": 1.0, "b": 3.1}}).identity() != base.identity()
    assert make_case(GRAY_SCOTT).identity() != base.identity()
    assert base.is_of_start("model.species.1.initial")
    assert not base.is_of_start("model.species.1.rate")


def test_the_estimate_counts_species_and_stages():
    case = make_case(BRUSSELATOR, (8, 8, 8))
    work = estimate(case, 2).work
    assert (work.points, work.bytes_memory) == (512, 2 * 2 * 8 * 512)
    assert (work.messages, work.bytes_exchanged) == (4.0, 2 * 8 * 4 * 64.0)
    two = make_case(BRUSSELATOR, (8, 8, 8), model={"scheme": "rk2"})
    assert estimate(two, 2).work.bytes_memory == 5 * 2 * 8 * 512


def test_the_rule_for_steps_of_a_sweep():
    """Long rows take two steps, but not in planes, nor in stages or on GPUs; thin blocks take one."""

    def steps(shape, ranks=(1, 1, 1), **sections):
        return steps_per_sweep(make_case(BRUSSELATOR, shape, **sections), ranks)

    assert [steps((4, 4, n)) for n in (64, 512)] == [1, 2]
    assert steps((1, 4, 512)) == steps((2, 4, 512), (2, 1, 1)) == 1
    rk2, gpu = {"model": {"scheme": "rk2"}}, {"run": {"device": "cuda"}}
    assert [steps((4, 4, 512), **each) for each in (rk2, gpu)] == [1, 1]
    assert steps((1, 1, 400), model={"steps_per_sweep": 7}) == 7


def test_random_starts_do_not_repeat_between_species():
    species = [{**each, "initial": "random"} for each in BRUSSELATOR]
    model = start(make_case(species, (4, 16, 16), run={"precision": "float32"}))
    a, b = (np.array(array.local).ravel() for array in model.state().values())
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1
    assert -1 <= a.min() < -0.9
    assert 0.9 < a.max() < 1
