"""A parameter for one of the two worlds, kind or alive, is refused in the other: nothing is quietly ignored."""

import pytest

from implicast.casting.designs import design, designs
from implicast.language.parameters import Parameter, ParameterError

FOR_ONE = [(name, each) for name, one in designs().items() for each in one.parameters if each.only]


def another(parameter: Parameter) -> str | float | bool:
    """An admissible value that is not the default."""
    if parameter.choices:
        return next(each for each in parameter.choices if each != parameter.default)
    if isinstance(parameter.default, bool):
        return not parameter.default
    assert parameter.low is not None
    assert parameter.high is not None
    return parameter.high if parameter.default == parameter.low else parameter.low


@pytest.mark.parametrize(("name", "parameter"), FOR_ONE, ids=[f"{name}-{each.name}" for name, each in FOR_ONE])
def test_taken_in_its_own_world_and_refused_in_the_other(name, parameter):
    given = {parameter.name: another(parameter)}
    is_alive = parameter.only == "alive"

    assert design(name).settle({**given, "alive": is_alive})[parameter.name] != parameter.default
    with pytest.raises(ParameterError, match=f"{name}: {parameter.name}=.* means nothing with"):
        design(name).settle({**given, "alive": not is_alive})


@pytest.mark.parametrize(("name", "parameter"), FOR_ONE, ids=[f"{name}-{each.name}" for name, each in FOR_ONE])
def test_a_default_said_aloud_is_no_mistake(name, parameter):
    for alive in (True, False):
        assert design(name).settle({parameter.name: parameter.default, "alive": alive})


def test_designs_without_two_worlds_have_nothing_that_is_for_one():
    for one in designs().values():
        if all(each.name != "alive" for each in one.parameters):
            assert not any(each.only for each in one.parameters), one.name


def test_settings_that_designs_themselves_name_fit_the_living_world():
    for one in designs().values():
        for settings in ({}, one.quick, *one.patience) if one.survives else ():
            assert one.settle({**one.alive, **settings})["alive"]
