"""The words that `ridgeline explain` and docs/settings.md show, and the JSON Schema."""

import json
import runpy
from pathlib import Path

import pytest

from ridgeline.config.explain import explain_rows, json_schema
from ridgeline.models import available, case_class

ROOT = Path(__file__).resolve().parents[2]
# Keys that the project promised to keep.
PROMISED = """
run.model run.steps run.precision run.seed run.threads run.device run.walltime
grid.shape grid.process_grid
output.path output.every output.variables output.compression
checkpoint.path checkpoint.every checkpoint.keep checkpoint.ranks_per_file checkpoint.writers_at_once
"""


@pytest.mark.parametrize("model", available())
def test_every_setting_is_explained(model: str) -> None:
    rows = explain_rows(case_class(model))
    keys = [row.key for row in rows]
    assert len(set(keys)) == len(keys)
    promised = set(PROMISED.split())
    if model == "navier_stokes":  # elements instead of cells, which ranks take in one order
        promised = promised - {"grid.shape", "grid.process_grid"} | {"grid.elements", "grid.order"}
    if model == "molecular_dynamics":  # cells of a lattice
        promised = promised - {"grid.shape"} | {"grid.cells"}
    assert promised <= set(keys)
    for row in rows:
        assert row.type, row.key
        assert row.default, row.key
        assert row.range, row.key
        assert row.description.endswith("."), row.key


def test_rows_of_gray_scott() -> None:
    rows = {row.key: row for row in explain_rows(case_class("gray_scott"))}
    assert rows["model.dt"][2:] == (
        "number",
        "time",
        "1.0",
        "a number > 0",
        "Time step. It is at most 2/(s Du + F) and at most 2/(s Dv + F + k), the linear stability limits, where s is "
        "2 in three directions, 4/3 in two and 2/3 in one. Periodic directions of one cell do not count.",
    )
    assert rows["run.steps"][2:6] == ("integer", "steps", "not set", "an integer >= 1")
    assert rows["run.walltime"][2:6] == ("number", "s", "not set", 'a number of seconds > 0 or "HH:MM:SS"')
    assert rows["grid.process_grid"][2:4] == ("text or list of 3 integers", "ranks")
    assert rows["output.variables"].default == '["U", "V"]'
    assert [key for key in rows if key.startswith("initial.")] == [
        "initial.kind",
        "initial.half_width",
        "initial.u",
        "initial.v",
        "initial.noise",
        "initial.count",
        "initial.formula_u",
        "initial.formula_v",
        "initial.path",
        "initial.step",
    ]


def test_schema_is_json_with_units_and_forbids_other_keys() -> None:
    schema = json.loads(json.dumps(json_schema(case_class("gray_scott"))))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["run", "grid"]
    assert schema["additionalProperties"] is False
    definitions = schema["$defs"]
    assert all(definition["additionalProperties"] is False for definition in definitions.values())
    assert definitions["RunSection"]["properties"]["model"]["const"] == "gray_scott"
    steps = definitions["RunSection"]["properties"]["steps"]
    whole, none = steps["anyOf"]
    assert (whole["type"], whole["minimum"], none["type"], steps["unit"]) == ("integer", 1, "null", "steps")
    walltime = definitions["RunSection"]["properties"]["walltime"]
    assert {choice["type"] for choice in walltime["anyOf"]} == {"number", "string", "null"}


def test_settings_page_is_fresh() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "generate_settings_doc.py"))
    assert (ROOT / "docs" / "settings.md").read_text() == page["render"](), (
        "docs/settings.md is stale: run `python tools/generate_settings_doc.py`"
    )
