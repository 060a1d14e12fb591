"""Writes docs/gallery.md: the examples that compare assignments, each with its picture, its table and the time that it takes.

`python tools/gallery.py` runs all of them (a few minutes), or those that are named;
`tests/house/test_gallery.py` runs each with a few steps, and sees that the page has them all.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES, PAGE, PICTURES = (
    ROOT / "examples",
    ROOT / "docs" / "gallery.md",
    ROOT / "docs" / "static" / "gallery",
)
HEAD = """\
# Gallery

Programs over names, each run under several dictionaries on eight devices that are simulated on two cores. What they compute is the same each time.
The tables say how long a step takes there, and what it sends
(payload). Times of simulated devices show what communication costs on that machine, and not what
eight real devices would gain. `tools/gallery.py` wrote this page.

"""


def names() -> list[str]:
    """The examples of the gallery: the demonstration, and those that are written with `examples/gallery.py`."""
    return [
        "digits",
        *sorted(
            path.stem for path in EXAMPLES.glob("*.py") if "from gallery import" in path.read_text()
        ),
    ]


def section(name: str) -> str:
    """Runs an example, and says what it is and what it printed."""
    path = EXAMPLES / f"{name}.py"
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    title, *paragraphs = [
        " ".join(part.split()) for part in doc.split("\n\n") if not part.startswith("    ")
    ]
    PICTURES.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | {
        "PYTHONPATH": str(ROOT)
    }
    start = time.perf_counter()
    command = [sys.executable, str(path), "--out", str(PICTURES / f"{name}.webp")]
    run = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, env=environment
    )
    seconds = time.perf_counter() - start
    table = re.search(r"^assignment .*?(?=\n\n|\Z)", run.stdout, re.S | re.M)
    if table is None:
        raise ValueError(f"{name} has printed no table:\n{run.stdout}")
    return (
        f"## `{name}.py`\n\n{textwrap.fill(f'**{title}** ' + ' '.join(paragraphs), 140)}\n\n```{{image}}"
        f" static/gallery/{name}.webp\n:alt: {title}\n:width:"
        f" 760px\n```\n\n```text\n{table[0].rstrip()}\n```\n\n`python examples/{name}.py`,"
        f" {seconds:.0f} seconds. Its source is [examples/{name}.py](../examples/{name}.py).\n"
    )


def main() -> None:
    """Writes the page, or the sections that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="default: all")
    chosen = parser.parse_args().names or names()
    old = re.split(r"(?=^## `)", PAGE.read_text(), flags=re.M)[1:] if PAGE.exists() else []
    sections = {match[1]: text for text in old if (match := re.match(r"## `(\w+)\.py`", text))}
    for name in chosen:
        sections[name] = section(name)
        print(name, flush=True)
    PAGE.write_text(
        HEAD + "\n".join(sections[name].rstrip() + "\n" for name in names() if name in sections)
    )


if __name__ == "__main__":
    main()
