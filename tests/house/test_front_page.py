"""README and the home page show the report that their example prints, on one screen; and they name one way to install."""

import re
from pathlib import Path

import pytest

from tests.house import page_runner
from tools import concept_pictures

ROOT = Path(__file__).parents[2]
FRONT = ("README.md", "docs/index.md")


def first_screen(text):
    """The example of a page, and the output below it."""
    return re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL).groups()


@pytest.mark.parametrize("page", FRONT)
def test_the_report_shown_is_the_report_printed(page, tmp_path, capsys):
    code, shown = first_screen((ROOT / page).read_text())
    model = tmp_path / "model.py"
    model.write_text(code)
    # The report is traced; the training step itself, the last line, would be compiled.
    lines, last = code.rstrip().rsplit("\n", 1)
    assert last == "value, grads = step(*args)"
    exec(compile(lines, str(model), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(shown.split("\n")) > 5
    assert [line for line in shown.splitlines() if line not in printed] == []


@pytest.mark.parametrize("page", FRONT)
def test_the_first_screen_is_one_screen(page):
    lines = (ROOT / page).read_text().splitlines()
    last = max(i for i, line in enumerate(lines[:90]) if "migration" in line)
    assert last < 80
    assert max(map(len, first_screen((ROOT / page).read_text())[0].splitlines())) <= 80


@pytest.mark.parametrize("page", FRONT)
def test_one_place_says_how_to_install(page):
    text = (ROOT / page).read_text()
    assert len(re.findall(r"(?i)^(?:## |\*\*)install", text, re.M)) == 1
    assert text.count("git+https://") == 1


def test_the_home_page_begins_with_the_logo_and_a_picture_of_layouts():
    text = (ROOT / "docs" / "index.md").read_text()
    top = text[: text.index("\n## ")]
    assert "\n# ![](static/logo.svg){.logo} namedax\n" in top
    assert "static/layouts.svg" in top
    assert text.count("static/layouts.svg") == 1
    assert 'src="docs/static/logo.svg"' in (ROOT / "README.md").read_text().splitlines()[0]
    assert "models/index" in text[text.index("```{toctree}") :].splitlines()


def luminance(color):
    """The relative luminance of a color such as #2f66b8 (WCAG 2)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_logo_can_be_seen_in_both_themes():
    logo = (ROOT / "docs" / "static" / "logo.svg").read_text()
    colors = re.findall(r'fill="(#\w{6})"', logo)
    assert len(set(colors)) == 4
    for color in colors:
        for ground in ("#ffffff", "#131416"):
            low, high = sorted((luminance(color), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3, (color, ground)
    assert len(logo) < 1000
    assert 'html_logo = html_favicon = "static/logo.svg"' in (ROOT / "docs" / "conf.py").read_text()


BLOCKS = re.compile(r"^:::\{glossary\}\n(.*?)^:::", re.MULTILINE | re.DOTALL)
PAGES = [page for folder in (".", "docs", "examples") for page in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")]
INSTALL = re.compile(r"pip install (?:-e )?['\"]?(namedax\S*(?: @ \S+)?|\.\S*)")
# From the repository, from a checkout, and a group of dependencies for a namedax that is installed.
FORMS = re.compile(r"namedax\[[a-z,]+\]( @ git\+https://github\.com/namedax/namedax)?\W*|\.(\[[a-z,]+\])?\W*")


def test_pages_install_from_the_repository_or_a_checkout():
    """`pip install namedax` would fail: the package is not on PyPI."""
    commands = [(page.name, command) for page in PAGES for command in INSTALL.findall(page.read_text())]
    assert len(commands) > 5
    assert [pair for pair in commands if not FORMS.fullmatch(pair[1])] == []


def test_the_forms_of_a_command():
    assert FORMS.fullmatch('namedax[all] @ git+https://github.com/namedax/namedax"')
    assert FORMS.fullmatch(".[all]'`")
    assert not FORMS.fullmatch("namedax`")


def test_every_term_of_the_glossary_is_defined_once_and_links_to_a_page():
    text = (ROOT / "docs" / "glossary.md").read_text()
    entries = re.findall(r"^(?!#|:::|The terms)(\S[^\n]*)\n((?:  [^\n]+\n)+)", text, re.MULTILINE)
    terms = [term.strip("`") for term, _ in entries]
    assert len(terms) == len(set(terms)) == sum(len(block.strip().split("\n\n")) for block in BLOCKS.findall(text))
    for term, definition in entries:
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", definition)
        assert links, term
        assert [link for link in links if not (ROOT / "docs" / link).exists()] == [], term
        assert [other for other in re.findall(r"\{term\}`([^`]+)`", definition) if other not in terms] == [], term


@pytest.mark.fast(0)
@pytest.mark.parametrize("name", concept_pictures.PICTURES)
def test_the_pictures_of_the_mental_model_are_what_is_drawn_now(name):
    assert concept_pictures.PICTURES[name]() == (concept_pictures.STATIC / name).read_text(encoding="utf-8")


NEWCOMERS = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "tutorials").glob("[0-9]*.md"),
    *(ROOT / "docs" / "guides" / f"{name}.md" for name in ("tour", "think_in_names", "concepts", "axis_mappings")),
]


@pytest.mark.parametrize("page", NEWCOMERS, ids=lambda page: page.name)
def test_code_has_at_most_80_columns(page):
    code = "\n".join(page_runner.blocks(page.read_text()))
    assert [line for line in code.splitlines() if len(line) > 80] == []
