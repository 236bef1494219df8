"""Models are found by folder."""

from pathlib import Path

import pytest

from ridgeline import models
from ridgeline.config.case import AnyCase
from ridgeline.runtime.errors import ConfigError


def test_every_folder_with_settings_is_a_model() -> None:
    folders = {path.parent.name for path in Path(models.__file__).parent.glob("*/settings.py")}
    assert "gray_scott" in folders
    assert models.available() == sorted(folders)


@pytest.mark.parametrize("name", models.available())
def test_settings_name_their_model(name: str) -> None:
    case = models.case_class(name)
    assert issubclass(case, AnyCase)
    assert case.model_fields["run"].annotation is not None
    with pytest.raises(ValueError, match=r"run\.model"):
        case.model_validate({"run": {"model": "another", "steps": 1}, "grid": {"shape": [1, 1, 1]}})


@pytest.mark.parametrize("call", [models.case_class, models.create])
@pytest.mark.parametrize(
    ("name", "hint"),
    [("gray_scot", ' Did you mean "gray_scott"?'), ("", ""), ("../gray_scott", None), ("os", "")],
)
def test_unknown_model_names_those_that_exist(call, name, hint) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as caught:
        call(name)
    said = str(caught.value)
    begin, end = f'no model is called "{name}".', f" The models are {', '.join(models.available())}."
    assert said.startswith(begin)
    assert said.endswith(end)
    if hint is not None:
        assert said == begin + hint + end
