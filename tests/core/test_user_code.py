"""The boundary of user code does not depend on names: with every nested function of the package renamed, raw blocks are found."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


class Renamed(ast.NodeTransformer):
    """Rename the functions that are defined within functions, unless their name also belongs to something else there."""

    def __init__(self):
        self.names = []
        self.count = 0

    def visit_FunctionDef(self, node):
        if not self.names:
            inner = [n for n in ast.walk(node) if n is not node]
            functions = {n.name for n in inner if isinstance(n, ast.FunctionDef)}
            others = {n.arg for n in ast.walk(node) if isinstance(n, (ast.arg, ast.keyword))}
            stored = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            methods = {m.name for n in inner if isinstance(n, ast.ClassDef) for m in n.body if isinstance(m, ast.FunctionDef)}
            self.names.append(functions - others - stored - methods)
            self.generic_visit(node)
            self.names.pop()
        else:
            if node.name in self.names[-1]:
                self.count += 1
                node.name += "_renamed"
            self.generic_visit(node)
        return node

    def visit_Name(self, node):
        if self.names and node.id in self.names[-1]:
            node.id += "_renamed"
        return node


def rename_nested(package):
    """Rewrite the sources of a package; return how many functions were renamed."""
    count = 0
    for file in package.rglob("*.py"):
        tree = Renamed()
        file.write_text(ast.unparse(ast.fix_missing_locations(tree.visit(ast.parse(file.read_text())))))
        count += tree.count
    return count


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_raw_blocks_are_found_whatever_nested_functions_are_called(tmp_path):
    shutil.copytree(ROOT / "namedax", tmp_path / "namedax", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    assert rename_nested(tmp_path / "namedax") > 300
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not full"]
    command = [sys.executable, "-m", "pytest", *options, "tests/programs/test_raw.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    where = subprocess.run(
        [sys.executable, "-c", "import namedax; print(namedax.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(tmp_path))
