"""Law 8: only public JAX. The sources are read as syntax trees, so that no spelling of a private import passes."""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("namedax", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text())


@functools.cache
def defined():
    """Private attributes that are namedax's own; an attribute with a leading underscore must be defined somewhere in the package."""
    return {
        name
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        for name in (
            [node.name]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            else [node.id]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            else [node.attr]
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            else [node.value]
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
            else []
        )
        if name.startswith("_")
    }


def private_imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] in ("jax", "jaxlib", "numpy") and (parts[0] == "jaxlib" or any(p.startswith("_") for p in parts)):
                yield module


def foreign_private_attributes(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if node.attr not in defined():
                yield node.attr


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_public_only(path):
    tree = tree_of(path)
    assert list(private_imports(tree)) == []
    assert list(foreign_private_attributes(tree)) == []


def test_the_check_finds_what_it_looks_for():
    tree = ast.parse(
        "import jax._src.core\nfrom jax import _src\nfrom jax._src import mesh\nimport jaxlib.xla_client\nx._trace_of_jax"
    )
    assert list(private_imports(tree)) == ["jax._src.core", "jax._src", "jax._src.mesh", "jaxlib.xla_client"]
    assert list(foreign_private_attributes(tree)) == ["_trace_of_jax"]


def test_no_monkey_patching():
    """Nothing assigns to an attribute of a JAX module."""
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
            for target in targets:
                if isinstance(target, ast.Attribute):
                    root = target.value
                    while isinstance(root, ast.Attribute):
                        root = root.value
                    assert not (isinstance(root, ast.Name) and root.id in ("jax", "jnp", "lax", "np")), (
                        path,
                        ast.unparse(node),
                    )
