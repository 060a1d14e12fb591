"""`tools/site_check.py` finds each fault that it speaks of, planted in a site of two pages, and nothing in the same site without it."""

import shutil

import pytest

from tools import browser, site_check

HEAD = '<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
STYLE = "<style>body{color:#111;background:#fff} a{color:inherit} @media (prefers-color-scheme: dark) {body{color:#eee;background:#111}}</style>"
SQUARE = '<img alt="" src="square.svg">'
SOUND = f'{HEAD}{STYLE}</head><body><main><h1 id="top">One</h1><p>Text</p><a href="two.html#end">two</a>{SQUARE}</main></body></html>'
OTHER = f'{HEAD}{STYLE}</head><body><main><h1 id="end">Two</h1><a href="index.html">one</a></main></body></html>'
SEARCH = f"""{HEAD}{STYLE}</head><body><p class="search-summary">Found</p><div id="search-results"><ul id="hits"></ul></div>
<script>if (location.search.includes("known")) hits.innerHTML = '<li><a href="two.html">two</a></li>'
if (location.search.includes("copied")) hits.innerHTML = ["a", "b", "c"].map(m => '<li><a href="reference/api/' + m + '.copied.html">x</a></li>')
  .join("") + '<li><a href="two.html">two</a></li>'</script></body></html>"""


@pytest.fixture
def site(tmp_path):
    """A site of two pages and a search that knows one word, and another only as the name of three functions."""
    for name, text in {"index": SOUND, "two": OTHER, "search": SEARCH}.items():
        (tmp_path / f"{name}.html").write_text(text)
    (tmp_path / "square.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    return tmp_path


def plant(site, text, name="index"):
    (site / f"{name}.html").write_text(SOUND.replace("<p>Text</p>", text))


LINKS = {
    '<a href="three.html">x</a>': "index: <a> points to three.html, which is not there",
    '<a href="two.html#start">x</a>': "index: <a> points to two.html#start, and that page has no such place",
    '<a href="#bottom">x</a>': "index: <a> points to #bottom, and that page has no such place",
    '<img src="circle.svg">': "index: <img> points to circle.svg, which is not there",
    '<a href="../outside.html">x</a>': "index: <a> points to ../outside.html, which is not there",
    '<script src="https://example.org/a.js"></script>': "index: <script> is fetched from elsewhere: https://example.org/a.js",
    '<link rel="stylesheet" href="https://example.org/a.css">': "index: <link> is fetched from elsewhere: https://example.org/a.css",
}


@pytest.mark.parametrize("text", LINKS)
def test_links(site, text):
    (site.parent / "outside.html").write_text(OTHER)
    assert list(site_check.broken_links(site)) == []
    plant(site, text + '<a href="https://example.org">a link elsewhere is a link</a>')
    assert list(site_check.broken_links(site)) == [LINKS[text]]


PAGE = """# Title

```python
{long}  # 81
```

```text
{long}{long}
```

::::{{grid}} 1 1 2 2
:::{{grid-item}}
:class: there
```{{code-block}} python
{narrow}
{wide}
```
:::
::::

```{{code-cell}}
:tags: [raises-exception{long}]
{long}  # 18
```
"""


def test_code_has_columns(tmp_path):
    """Python is counted, wherever it stands; text, and options of cells, are not."""
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text(PAGE.format(long="x" * 75, narrow="y" * 44, wide="y" * 45))
    found = [line.partition(" columns")[0] for line in site_check.wide_code(page.parent)]
    assert found == ["docs/page.md:4: 81", "docs/page.md:16: 45", "docs/page.md:23: 81"]
    page.write_text(PAGE.format(long="x" * 74, narrow="y" * 44, wide="y" * 44))
    assert list(site_check.wide_code(page.parent)) == []
    assert list(site_check.wide_code(site_check.ROOT / "docs")) == []


def test_sizes_have_few_digits(site):
    plant(site, "<pre>an all-reduce of 0.00390625 KiB, of 1.25 MiB, of 4 B; 3.14159 B</pre>")
    assert list(site_check.long_sizes(site)) == [
        "index: a size with too many digits: 0.00390625 KiB",
        "index: a size with too many digits: 3.14159 B",
    ]


FAULTS = {
    "<script>undefined.x</script>": "an exception: TypeError",
    "<script>console.error('it broke', 3)</script>": "an error in the console: it broke 3",
    "<script>fetch('nothing.json')</script>": "nothing.json is not there: 404",
    "<script>fetch('http://127.0.0.2:9/x').catch(() => 0)</script>": "asks another machine for http://127.0.0.2:9/x",
    '<img src="two.html">': "the image two.html does not show",
    '<pre style="width:600px">wide</pre>': 'wider than a window of 400 pixels: <pre class=""> wide',
    '<pre style="overflow-x:auto" class="c">CODE</pre>': 'cropped in a window of 1400 pixels: <pre class="c"> ',
    '<div style="overflow-x:auto" class="table-wrapper"><table><td>CODE</table></div>': 'cropped in a window of 1400 pixels: <div class="t',
    '<pre style="overflow-x:hidden;width:300px" class="h">CODE</pre>': 'hidden in a window of 400 pixels: <pre class="h"> ',
    '<div class="highlight-python"><pre style="white-space:pre-wrap">CODE</pre></div>': "code wraps in a window of 400 pixels: xxx",
    f'<table style="width:200px"><td style="width:100px">name<td>{"text " * 20}</table>': "a narrow description in a window of 400 pixels: ",
    '<p style="width:1500px" class="w">wide</p>': 'wider than a window of 1400 pixels: <p class="w"> wide',
    '<p style="color:#ddd">faint</p>': 'can hardly be read in the light theme: <p class=""> faint',
    '<p style="color:#333">dim</p>': 'can hardly be read in the dark theme: <p class=""> dim',
}


@pytest.mark.fast(0)
def test_in_the_browser(site, monkeypatch):
    monkeypatch.setattr(site_check, "SEARCHES", {"known": "two"})
    try:
        assert site_check.in_the_browser(site, None, None) == ([], 0)
    except browser.NoBrowserError as error:
        pytest.skip(str(error))
    with site_check.served(site) as address, browser.Browser() as opened:
        page = opened.page()
        for name, (text, fault) in enumerate(FAULTS.items()):  # each at an address of its own: browsers remember
            plant(site, text.replace("CODE", "x" * 400), name)
            said = list(site_check.shown(page, f"{address}/{name}.html", name))
            assert all(line.startswith(f"{name}: ") for line in said)
            assert any(fault in line for line in said), (fault, said)
        plant(site, f'<pre style="overflow-x:auto">{"x" * 100}</pre>', "scrolls")  # between 400 pixels and 1,400
        assert site_check.shown_all(address, ["scrolls"]) == ([], 1)
        assert list(site_check.found(page, address, "known", "two")) == []
        (missed,) = site_check.found(page, address, "strange", "two")
        assert missed == "the search for 'strange' does not find two among its first ten pages, but nothing"
        (late,) = site_check.found(page, address, "copied", "two")
        assert late == "the search for 'copied' finds reference/api/c.copied before two"
        (site / "pictures").mkdir()
        site_check.picture(page, f"{address}/two.html", site / "pictures" / "two")
        assert len(list((site / "pictures").glob("two_*.png"))) == 4


# Code and a list of the reference, as Sphinx writes them.
BLOCKS = f"""<article><div class="highlight-python"><div class="highlight"><pre>{"f(x) " * 16}</pre></div></div><div class="table-wrapper">
<table class="docutils names"><tr><td>nx.scipy.spatial.transform.Rotation</td><td>{"text " * 20}</td></tr></table>
<table class="docutils"><tr><td><code>nx.scipy.spatial.transform.Rotation</code></td><td>{"text " * 20}</td></tr></table>
<table style="width: 100%" class="indextable"><tr>{f"<td style='width: 33%'>{'text ' * 20}</td>" * 2}</tr></table></div></article>"""


@pytest.mark.fast(0)
def test_the_style_of_the_site_on_a_phone(site):
    """Code scrolls, and a description has room next to a long name or below it."""
    plant(site, BLOCKS)
    plant(site, f'<link rel="stylesheet" href="namedax.css">{BLOCKS}', "styled")
    shutil.copy(site_check.ROOT / "docs" / "static" / "namedax.css", site)
    try:
        opened = browser.Browser()
    except browser.NoBrowserError as error:
        pytest.skip(str(error))
    with opened, site_check.served(site) as address:
        page = opened.page()
        assert list(site_check.shown(page, f"{address}/styled.html", "styled")) == []
        assert len(page.evaluate(site_check._CROPPED % "true")) == 1  # the code scrolls
        assert list(site_check.shown(page, f"{address}/index.html", "index"))  # without the style


def test_without_a_browser_it_says_so(site, monkeypatch, capsys):
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["site_check.py", "--site", str(site)])
    assert site_check.main() == 1
    assert "there is no browser to look at pages with: install one of chromium, " in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["site_check.py", "--site", str(site), "--links"])
    assert site_check.main() == 0


def test_without_a_site_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["site_check.py", "--site", str(tmp_path)])
    assert site_check.main() == 2
    assert "`make docs` builds it" in capsys.readouterr().err
