"""docs/errors.md: what each class of error is shown by is raised so, what is to be written instead runs, and every message has its code."""

import re

import pytest

from namedax import errors
from tests import wrong_and_right
from tests.wrong_and_right import SPECIMENS
from tools import errors_page

CLASSES = [getattr(errors, name) for name in errors.__all__ if name not in ("NamedaxError", "UnevenAxisWarning")]


def test_every_class_has_a_code_of_its_own_and_an_example():
    codes = [kind.code for kind in CLASSES]
    assert sorted(codes) == [f"NX{number:03d}" for number in range(1, len(codes) + 1)]
    assert all("code" in vars(kind) for kind in CLASSES)  # not that of a base class
    assert {specimen.kind for specimen in SPECIMENS} == set(CLASSES)
    assert errors.NamedaxError.code == ""


def test_a_message_ends_with_the_code():
    assert str(errors.AxisNameError("rename: no.")) == "rename: no. [NX001]"
    assert str(errors.EinsumError("einsum: no.\n  ab\n   ^")) == "einsum: no.\n  ab\n   ^\n[NX016]"
    assert str(errors.AxisNameError()) == ""
    assert str(errors.NamedaxError("anything")) == "anything"


def test_the_page_shows_what_is_raised():
    assert errors_page.page() == errors_page.PAGE.read_text()


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: f"{s.kind.code} {s.wrong[:30]!r}")
def test_what_is_to_be_written_instead_runs(specimen):
    assert wrong_and_right.run(specimen.right) is None


def test_what_a_row_of_the_table_says_stands_beside_the_code_of_its_class():
    rows = re.findall(r"^\| (\[NX.*?) \| (`.*?) \|", errors_page.PAGE.read_text(), re.M)
    assert len(rows) >= 20
    for codes, names in rows:
        assert re.findall(r"\[(NX\d+)\]", codes) == [getattr(errors, name).code for name in re.findall(r"`(\w+)`", names)]
        assert re.findall(r"\(#(nx\d+)\)", codes) == [code.lower() for code in re.findall(r"\[(NX\d+)\]", codes)]
