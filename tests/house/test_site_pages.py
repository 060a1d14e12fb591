"""What programs put into README and the site: the picture is what its program draws, and texts of the root have the site's links."""

import re
import runpy
from pathlib import Path

import pytest

from tests.laws import LAWS
from tools import pictures

ROOT = Path(__file__).parents[2]
ABOUT = runpy.run_path(str(ROOT / "docs" / "extensions" / "about.py"))


@pytest.mark.full
def test_the_picture_of_readme_is_what_is_drawn_now():
    assert pictures.picture() == pictures.PICTURE.read_text(encoding="utf-8")


def test_links_of_the_root_are_turned():
    have = ABOUT["for_the_site"](
        "[a](docs/guides/concepts.md), [b](CONTRIBUTING.md#set-up), [c](docs/about/laws.md), [d](README.md), [e](https://docs.jax.dev)"
    )
    assert have == (
        "[a](../guides/concepts.md), [b](contributing.md#set-up), [c](laws.md), [d](../index.md), [e](https://docs.jax.dev)"
    )


def test_every_law_has_its_section_its_tests_and_its_exceptions():
    text = (ROOT / "docs" / "about" / "laws.md").read_text()
    sections = re.findall(r"^## (\d)\. (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert [(int(number), title) for number, title, _ in sections] == list(LAWS)
    for number, title, section in sections:
        assert f"<!-- tests of law {number} -->" in section
        assert "**What does not hold.**" in section
        listed = ABOUT["tests_of"](LAWS, int(number))
        assert all(f"/test_{module}.py`: " in listed for module in LAWS[int(number), title])
