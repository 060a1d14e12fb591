"""The pages of docs/about that are made of other files: ARCHITECTURE.md, CONTRIBUTING.md and CHANGELOG.md, and the tests of tests/laws.py.

A file of the repository's root is read where a page includes it, with its links turned to the pages of the site; so one text is right in
both places. Where docs/about/laws.md says `<!-- tests of law 2 -->`, there stand the modules that hold the law, by their first sentences.
"""

import ast
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "../index.md",
}
_INCLUDED = re.compile(r"```\{include\} \.\./\.\./(\w+\.md)\n```")
_TESTS = re.compile(r"<!-- tests of law (\d) -->")


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}


def fill(app, name, source):
    """Puts texts of other files into the pages of docs/about."""
    if not name.startswith("about/"):
        return
    for file in _INCLUDED.findall(source[0]):
        app.env.note_dependency(str(ROOT / file))
    if _TESTS.search(source[0]):
        app.env.note_dependency(str(ROOT / "tests" / "laws.py"))
        laws = runpy.run_path(str(ROOT / "tests" / "laws.py"))["LAWS"]
        source[0] = _TESTS.sub(lambda found: tests_of(laws, int(found[1])), source[0])
    source[0] = _INCLUDED.sub(lambda found: for_the_site((ROOT / found[1]).read_text()), source[0])


def for_the_site(text):
    """A text of the root with the links that it has in docs/about.

    >>> for_the_site("[a](docs/guides/concepts.md), [b](CONTRIBUTING.md#set-up), [c](https://docs.jax.dev)")
    '[a](../guides/concepts.md), [b](contributing.md#set-up), [c](https://docs.jax.dev)'
    """
    text = re.sub(r"\]\(docs/about/", "](", text)
    text = re.sub(r"\]\(docs/", "](../", text)
    return re.sub(
        r"\]\((\w+\.md)(?=[)#])", lambda found: f"]({PAGES.get(found[1], found[1])}", text
    )


def tests_of(laws, number):
    """The modules that hold a law, each with its first sentence and its tests, folded up."""
    (modules,) = (modules for (n, _), modules in laws.items() if n == number)
    lines = [
        f"- `{path_of(module).relative_to(ROOT).as_posix()}`: {first_sentence(module)} In it: {listed(names)}."
        for module, names in modules.items()
    ]
    return "\n".join([":::{dropdown} How it is tested", *lines, ":::"])


def path_of(module):
    """Return the path of a module of tests, in whichever folder it is."""
    (path,) = (ROOT / "tests").rglob(f"test_{module}.py")
    return path


def first_sentence(module):
    """What a module of tests says of itself, up to the first full stop or the end of its first paragraph."""
    text = ast.get_docstring(ast.parse(path_of(module).read_text())) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    said = re.sub(r"^Laws? \d[^:.]*: ", "", paragraph)
    return re.match(r".*?\.(?= [A-Z]|$)|.*", said)[0]


def listed(names):
    """The names of tests, as code."""
    return ", ".join(f"`{name}`" for name in names.split())
