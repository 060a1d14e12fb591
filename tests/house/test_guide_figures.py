"""The outputs and the figures of the guides are those of their programs, and figures suit both themes and narrow screens."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from namedax.core.text_tables import columns
from tools import guide_figures
from tools.guide_figures import FIGURES, FOLDER, GUIDES, matches, pieces, run, words

PAGES = sorted(GUIDES.glob("*.md"))
WITH_OUTPUTS = [page for page in PAGES if re.search(guide_figures.MARK, page.read_text())]
# Measured times differ from run to run: the beginnings of rows are compared. Events without a source line ("?") are not in every run.
MEASURED = {"profiling"}
# The search of the plan takes a quarter of a minute; the test of its figure compares the outputs of the page, too.
LONG = {"choose_a_layout"}


def without_figures(text):
    """The beginnings of the lines of a table, without its times and counts."""
    text = re.sub(r"-?[\d.]+( (ns|µs|ms|s|%|B|[KMG]iB)\b|%)?", "#", text)
    return {re.sub(r"[ #]+", " ", line).strip()[:30] for line in text.splitlines()} - {"", "...", "?"}


@pytest.mark.fast(0)
@pytest.mark.parametrize("page", [page for page in WITH_OUTPUTS if page.stem not in LONG], ids=lambda page: page.stem)
def test_outputs_are_what_the_blocks_print(page):
    found = [(have, shown) for have, shown, _ in run(page) if shown not in FIGURES]
    assert found
    for have, shown in found:
        if page.stem in MEASURED:
            assert without_figures(shown) <= without_figures(have)
            assert len(without_figures(shown)) > 10
        else:
            assert matches(have, shown), f"{have}\n\npython tools/guide_figures.py --printed {page}"


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_what_is_drawn_now(name):
    page, title, function = FIGURES[name]
    drawn = False
    for have, shown, scope in run(GUIDES / f"{page}.md", "" if page in LONG else name):
        if shown == name:
            drawn = True
            file = FOLDER / f"{name}.svg"
            assert words(guide_figures.picture(function, scope, title)) == words(file.read_text(encoding="utf-8"))
        elif page in LONG:
            assert matches(have, shown), have
    assert drawn


def test_each_figure_is_on_its_page_and_each_output_below_its_blocks():
    shown = {(page.stem, text) for page in PAGES for kind, text in pieces(page) if kind == "figure"}
    assert shown == {(page, name) for name, (page, *_) in FIGURES.items()}
    assert {file.stem for file in FOLDER.iterdir()} == set(FIGURES)
    for page in WITH_OUTPUTS:
        kinds = [kind for kind, _ in pieces(page)]
        assert kinds.count("printed") == len(re.findall(guide_figures.MARK, page.read_text())), page


@pytest.mark.parametrize("name", FIGURES)
def test_figures_shrink_and_have_the_colors_of_the_page(name):
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    width = float(root.get("viewBox").split()[2])
    assert width < 480  # points: letters of 8 are 6 pixels on a phone of 360
    assert "max-width:100%" in root.get("style")
    assert "width" not in root.attrib
    assert "currentColor" in text
    # Letters on a coloured ground keep their colour; grounds and lines do not.
    assert not re.search("<(path|rect|use)[^>]*#(ffffff|22272e|5f6770|d5dae0)(?!\\))", text)
    assert "<style" not in text  # in a page it would hold for everything
    assert words(text)[0] == FIGURES[name][1]


def test_an_excerpt_matches_lines_in_order():
    have = "a\nb\n  c\nd\ne"
    assert matches(have, have + "\n")
    assert not matches(have, "a\nb\n")
    assert matches(have, "a\nb\n...\nd\n...\n")
    assert not matches(have, "d\n...\nb\n")
    assert not matches(have, "a\n...\nx\n")


def test_tables_have_the_width_of_the_terminal(monkeypatch):
    for terminal, width in (("80", 80), ("200", 100), ("20", 60)):
        monkeypatch.setenv("COLUMNS", terminal)
        assert columns() == width
