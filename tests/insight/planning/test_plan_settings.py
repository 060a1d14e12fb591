"""`Settings`: the one list of the arguments of `nx.xmap` that a plan chooses with a layout."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import namedax as nx
from namedax.insight import planning
from namedax.insight.planning.candidates import Candidate, Settings

DEFAULTS = Settings().arguments()


@pytest.mark.parametrize("name", Settings._fields)
def test_an_option_is_an_argument_and_a_field_of_candidates(name):
    assert inspect.signature(nx.xmap).parameters[name].default == DEFAULTS[name]
    assert inspect.signature(nx.plan).parameters[name].default is None
    assert name in {field.name for field in dataclasses.fields(Candidate)}
    hint = get_type_hints(Settings)[name]
    assert get_origin(hint) is Literal
    assert DEFAULTS[name] in get_args(hint)


@pytest.mark.parametrize("name", Settings._fields)
def test_only_the_record_and_public_arguments_name_an_option(name):
    named = {
        path.stem
        for path in Path(planning.__path__[0]).glob("*.py")
        if any(part in path.read_text() for part in (f".{name}", f"{name}=", f"{name}:", f'"{name}": '))
    }
    assert named <= {"candidates", "planner", "result"}


def test_values_are_combined_and_shown():
    own = Settings(overlap=True)
    assert own.combinations({"overlap": None}) == (own,)
    assert own.combinations({"overlap": [False, "bidirectional"]}) == (Settings(False), Settings("bidirectional"))
    assert [list(each.texts()) for each in (Settings(), own)] == [[], ["overlap=True"]]
    assert own.has({"overlap": None})
    assert not own.has({"overlap": False})
    assert own.changed({"overlap": None}) == own
    assert own.changed({"overlap": False}) == Settings()
