"""The order in which the search of the site shows pages: what `docs/extensions/search_order.py` gives to Sphinx, in a browser."""

import json
import runpy
from types import SimpleNamespace

import pytest

from tools import browser, site_check

EXTENSION = runpy.run_path(str(site_check.ROOT / "docs" / "extensions" / "search_order.py"))
PAGES = [
    *(
        f"reference/api/nx.{name}"
        for name in ("NamedArray", "cumsum", "lax.cumsum", "numpy.cumsum", "nancumsum", "Plan", "plan_")
    ),
    *(
        f"reference/api/nx.{name}"
        for name in ("lax.primitives", "nn.softmax", "scipy.special.softmax", "nn.log_softmax", "numpy.inner")
    ),
    *("guides/tour", "guides/plans", "tutorials/1_arrays", "faq", "about/changelog", "reference/api/index.nx"),
]
OBJECTS = {
    "nx.NamedArray.cumsum": "nx.NamedArray",
    "nx.lax.cumsum_p": "nx.lax.primitives",
    **{name: name for page in PAGES if (name := page.rpartition("/")[2]).startswith("nx.")},
}
# What is typed; the pages with the words in a heading, those with the words in their text, and names of objects; and the order of these.
SEARCHES = {
    "cumsum": (
        ["nx.numpy.cumsum", "nx.lax.cumsum", "nx.cumsum", "guides/tour"],
        ["faq", "tutorials/1_arrays", "about/changelog", "index.nx", "nx.nancumsum"],
        ["nx.NamedArray.cumsum", "nx.lax.cumsum_p", "nx.nancumsum", "nx.cumsum"],
        "nx.cumsum guides/tour tutorials/1_arrays faq nx.lax.cumsum_p() nx.NamedArray.cumsum() nx.lax.cumsum nx.numpy.cumsum"
        " nx.nancumsum() about/changelog index.nx nx.nancumsum nx.cumsum()",
    ),
    "numpy.cumsum": (["nx.cumsum", "nx.numpy.cumsum"], ["guides/tour"], [], "nx.numpy.cumsum nx.cumsum guides/tour"),
    "NamedArray.cumsum": (["nx.cumsum"], ["faq"], ["nx.NamedArray.cumsum"], "nx.NamedArray.cumsum() nx.cumsum faq"),
    "softmax": (
        ["nx.scipy.special.softmax", "nx.nn.softmax"],
        ["guides/tour"],
        ["nx.nn.log_softmax"],
        "nx.nn.softmax nx.nn.log_softmax() guides/tour nx.scipy.special.softmax",
    ),
    "log softmax": (
        [],
        ["guides/tour", "nx.nn.log_softmax"],
        ["nx.nn.log_softmax"],
        "nx.nn.log_softmax() guides/tour nx.nn.log_softmax",
    ),
    "plan": (["guides/plans", "nx.plan_", "nx.Plan"], [], [], "nx.Plan nx.plan_ guides/plans"),
    "inner": (["nx.numpy.inner"], ["guides/tour"], [], "nx.numpy.inner guides/tour"),
}


def full(name):
    """The page with a short name."""
    return f"reference/api/{name}" if name.startswith(("nx.", "index.")) else name


def results(headings, texts, objects):
    """Results as Sphinx passes them: page, title, anchor, description, score, file and kind."""
    for score, names in ((15, headings), (5, texts)):
        yield from ([full(name), name, "", None, score, "", "text"] for name in names)
    yield from ([full(OBJECTS[name]), name, f"#{name}", "", 16, "", "object"] for name in objects)


@pytest.mark.fast(0)
def test_the_order_of_results(tmp_path):
    page = f"<!doctype html><link rel=icon href=data:,><script>{EXTENSION['scorer'](PAGES)}</script>"
    (tmp_path / "search.html").write_text(page)
    try:
        opened = browser.Browser()
    except browser.NoBrowserError as error:
        pytest.skip(str(error))
    with opened, site_check.served(tmp_path) as address:
        tab = opened.page()
        for query, (*parts, wanted) in SEARCHES.items():
            found = list(results(*parts))
            tab.open(f"{address}/search.html?q={query.replace(' ', '+')}", 1400, "light")
            scores = tab.evaluate(f"{json.dumps(found)}.map(Scorer.score)")
            assert tab.errors(address) == []
            order = sorted(zip(scores, found, strict=True), key=lambda pair: (-pair[0], pair[1][1].lower()))
            assert " ".join(title + "()" * (kind == "object") for _, (_, title, *_, kind) in order) == wanted, query


def test_sphinx_gets_the_order(tmp_path):
    hooks = {}
    app = SimpleNamespace(doctreedir=tmp_path, config=SimpleNamespace(), connect=hooks.setdefault)
    EXTENSION["setup"](app)
    hooks["config-inited"](app, app.config)
    hooks["env-updated"](app, SimpleNamespace(found_docs=set(PAGES)))
    program = (tmp_path / "search_order.js").read_text()
    assert app.config.html_search_scorer == str(tmp_path / "search_order.js")
    copies = ["nx.lax.cumsum", "nx.numpy.cumsum", "nx.scipy.special.softmax"]
    assert program.startswith(f"const copies = new Set({json.dumps(copies)});\n")
    assert "var Scorer = {" in program
    assert '"search_order",' in (site_check.ROOT / "docs" / "conf.py").read_text()
