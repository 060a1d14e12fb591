"""Writes the part of docs/errors.md that shows each class of error by an example, from tests/wrong_and_right.py.

`python tools/errors_page.py` writes it, with the messages that the examples raise here; `--check`
says whether the page is up to date.
"""

import argparse
import os
import pathlib
import sys
import textwrap
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault(
    "XLA_FLAGS", "--xla_force_host_platform_device_count=8"
)  # the examples have a mesh of eight

from tests import wrong_and_right  # noqa: E402 - after the devices are said
from tests.wrong_and_right import Specimen  # noqa: E402

PAGE = ROOT / "docs" / "errors.md"
BEGIN = "<!-- From here on written by tools/errors_page.py, from tests/wrong_and_right.py. -->\n"
END = "<!-- Until here. -->\n"
WIDTH = 120


def wrapped(message: str) -> str:
    """The lines of a message, folded where they are longer than the page is wide."""
    return "\n".join(
        (
            "\n".join(
                textwrap.wrap(
                    line,
                    WIDTH,
                    drop_whitespace=True,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
            if len(line) > WIDTH
            else line
        )
        for line in message.splitlines()
    )


def shown(specimen: Specimen) -> str:
    """One example: what was written, what was said, why, and what to write."""
    error = wrong_and_right.run(specimen.wrong)
    if type(error) is not specimen.kind:
        raise AssertionError(
            f"{specimen.wrong!r} raised {error!r}, and not {specimen.kind.__name__}"
        )
    return (
        f"```py\n{specimen.wrong}\n```\n\n```text\n{wrapped(f'{specimen.kind.__name__}: {error}')}\n```\n\n"
        f"{textwrap.fill(specimen.why, 140)}\n\n```py\n{specimen.right}\n```\n"
    )


def section(kind: type[Exception], specimens: Sequence[Specimen]) -> str:
    """All examples of one class, under its code."""
    code = specimens[0].kind.code
    return f"### {code}\n\n**`{kind.__name__}`**\n\n" + "\nOr:\n\n".join(map(shown, specimens))


def generated() -> str:
    """The part of the page that is written by this program."""
    by_kind: dict[type[Exception], list[Specimen]] = {}
    for specimen in wrong_and_right.SPECIMENS:
        by_kind.setdefault(specimen.kind, []).append(specimen)
    head = (
        "\n## Each by an example\n\nWhat was written, what namedax says, why it cannot be, and"
        f" what to write instead. Before each stands\n\n```py\n{wrong_and_right.BEFORE}```\n\n"
    )
    ordered = sorted(by_kind.items(), key=lambda item: item[1][0].kind.code)
    return head + "\n".join(section(kind, specimens) for kind, specimens in ordered) + "\n"


def page() -> str:
    """The whole page: what a person wrote of it, and what is generated."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + generated() + END + rest.partition(END)[2]


def main() -> int:
    """Writes the page, or compares it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and fail if the page is stale"
    )
    check = parser.parse_args().check
    new = page()
    if new == PAGE.read_text():
        return 0
    if check:
        print(
            "docs/errors.md is not what the examples raise: python tools/errors_page.py",
            file=sys.stderr,
        )
        return 1
    PAGE.write_text(new)
    print("written: docs/errors.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
