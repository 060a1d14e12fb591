"""The call that shows each public function, as the reference records it: for tests and benchmarks of all of them.

The calls are in reference_calls.py, the record in docs/reference/examples.json. Nothing of namedax
is imported here.
"""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import reference_calls as calls  # noqa: E402

#: Sizes for the `N` and `M` of a call: in the example that is shown, and where communication is measured.
SHOWN, MEASURED = {"N": 4, "M": 2}, {"N": 16, "M": 16}
#: The operands of the calls, as Python.
OPERANDS = calls.OPERANDS
#: The namespaces whose functions are operations on arrays.
SPACES = ("nx", "nx.image", "nx.lax", "nx.nn", "nx.numpy", "nx.random", "nx.scipy")


def listed(table: dict[str, str]) -> dict[str, str]:
    """The key of each public name in a table of words."""
    return {f"nx.{name}": key for key, text in table.items() for name in text.split()}


@functools.cache
def patterns() -> dict[str, str]:
    """The call of a pattern, by function."""
    found = {}
    for call, text in calls.PATTERNS.items():
        space = ""
        for word in text.split():
            if word.endswith(":"):
                space = word[:-1]
            else:
                found[f"nx.{space}.{word}" if space else f"nx.{word}"] = call
    return found


def candidates(name: str) -> list[str]:
    """The calls that may show a function, of which the first that works is taken."""
    short = name.removeprefix("nx.")
    if short in calls.CALLS:
        return [calls.CALLS[short]]
    if name in patterns():
        return [patterns()[name]]
    return (
        calls.TRIES["matrices"] + calls.TRIES["entries"]
        if "linalg" in name
        else calls.TRIES["entries"]
    )


def sized(code: str, sizes: dict[str, int]) -> str:
    """Code with numbers for `N` and `M`, worked out where they stand in arithmetic."""
    if not re.search(rf"\b({'|'.join(sizes)})\b", code):
        return code
    tree = ast.parse(code)

    class Sizes(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(sizes[node.id]) if node.id in sizes else node

        def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
            left, right = self.visit(node.left), self.visit(node.right)
            if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                return ast.Constant(eval(ast.unparse(ast.BinOp(left, node.op, right))))
            return ast.BinOp(left, node.op, right)

    if not any(isinstance(node, ast.Name) and node.id in sizes for node in ast.walk(tree)):
        return code
    return ast.unparse(Sizes().visit(tree)).replace("'", '"')


def operands_of(call: str) -> list[str]:
    """The operands that a call mentions."""
    mentioned = _free(ast.parse(call), frozenset())
    return [name for name in calls.OPERANDS if name in mentioned]


def _free(node: ast.AST, bound: frozenset[str]) -> set[str]:
    """The names in an expression that are no parameters of a function in it."""
    if isinstance(node, ast.Name):
        return {node.id} - bound
    if isinstance(node, ast.Lambda):
        bound |= {arg.arg for arg in node.args.args}
    return set().union(*(_free(child, bound) for child in ast.iter_child_nodes(node)))


def recorded() -> dict[str, str]:
    """A call for each function of `SPACES`, with `N` and `M` for sizes; functions without an example have none."""
    record = json.loads((ROOT / "docs" / "reference" / "examples.json").read_text())["functions"]
    unshown = listed(calls.NO_EXAMPLE)
    found = {}
    for name, entry in record.items():
        if ".".join(name.split(".")[: min(2, name.count("."))]) not in SPACES or name in unshown:
            continue
        tried = [re.sub(r"\bF\b", name, call) for call in candidates(name)]
        if len(tried) > 1:  # the one that the record shows
            shown = f"{entry.get('example', '')}\n"
            tried = [
                call
                for call in tried
                if sized(call, MEASURED) == entry.get("call")
                or f">>> {sized(call, SHOWN)}\n" in shown
            ]
        if tried:
            found[name] = tried[0]
    return found
