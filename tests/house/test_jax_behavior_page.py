"""docs/about/jax_behavior.md names tests and findings that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "about" / "jax_behavior.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| In ")]


def functions_of(path):
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_row_names_tests_that_exist():
    assert len(ROWS) > 30
    for row in ROWS:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 4, row
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", cells[3])
        assert named, row
        for file, function in named:
            path = ROOT / file
            assert path.exists(), file
            assert not function or function in functions_of(path), f"{file} has no {function}"


def test_findings_of_the_page_are_all_that_exist():
    files = {path.name for path in (ROOT / "findings").glob("*.sh")}
    assert set(re.findall(r"`findings/(\w+\.sh)`", PAGE)) == files


def test_every_finding_says_what_was_expected_and_what_was_seen():
    for path in (ROOT / "findings").glob("*.sh"):
        head, _, rest = path.read_text().partition("\nset -euo pipefail\n")
        assert re.search(r"^# .*\d\.\d.*CPU\.$", head, re.MULTILINE), f"{path.name} names no versions"
        assert "\n# Expected: " in head, path.name
        assert "\n# Seen: " in head, path.name
        assert "mktemp -d" in rest, path.name
        assert path.stat().st_mode & 0o100, f"{path.name} is not executable"
