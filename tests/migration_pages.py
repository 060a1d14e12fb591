"""The pages of docs/migration: which blocks stand side by side, and what they give. Needs NumPy only.

A page has blocks of another library (```` ```{code-block} python ````) beside blocks of namedax (```` ```python ````). All blocks of one side
run in one scope, in their order. What a pair of blocks shows is compared: the value of the expression at its end, and the variables that both
assign. `python tests/migration_pages.py PAGE` runs the other side alone, for libraries that need a Python of their own.
"""

import ast
import itertools
import pathlib
import pickle
import re
import sys

import numpy as np

PAGES_FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "migration"
_BLOCK = re.compile(r"^```(\{code-block\} )?python\n((?::[^\n]*\n)*)(.*?)^```", re.S | re.M)


def blocks(page):
    """The blocks of a page in their order: ("there" or "here", source)."""
    return [("there" if there else "here", source) for there, _, source in _BLOCK.findall((PAGES_FOLDER / page).read_text())]


def pairs(page):
    """Of the blocks of a page, the positions (there, here) of those that stand side by side."""
    sides = [side for side, _ in blocks(page)]
    return [(i, i + 1) for i in range(len(sides) - 1) if sides[i : i + 2] == ["there", "here"]]


def raises(node, source):
    """Whether a comment at the end of a statement says so; tests/house/test_docs.py runs these."""
    return re.match(r"\s*# \w+Error\b", source.splitlines()[node.end_lineno - 1].encode()[node.end_col_offset :].decode())


def assigned(source):
    """The variables that a block assigns at its top level, or in a `with` there."""
    names, body = [], ast.parse(source).body
    for node in itertools.chain(body, *(node.body for node in body if isinstance(node, ast.With))):
        for target in getattr(node, "targets", []):
            names += [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return names


def run(page, side, plain):
    """What each block of one side gives: {its position: {variable, or "" for the last expression: value}}, as `plain` says it."""
    scope, found = {}, {}
    for position, (of, source) in enumerate(blocks(page)):
        if of != side:
            continue
        body = [node for node in ast.parse(source).body if not raises(node, source)]
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), f"{page}, block {position}", "exec"), scope)
        values = {name: scope[name] for name in assigned(source) if name in scope}
        if last is not None:
            values[""] = eval(compile(ast.Expression(last.value), f"{page}, block {position}", "eval"), scope)
        found[position] = {name: shown for name, value in values.items() if (shown := plain(value)) is not None}
    return found


def plain(value, named=lambda value: None):
    """A value without its library: (dims, data) for an array, containers as they are, `None` for what cannot be compared.

    `named` gives (dims, data) for the arrays of one library, and `None` for all else.
    """
    if type(value).__name__ == "Dim" or "key<" in str(getattr(value, "dtype", "")):
        return None  # a dimension of functorch and random keys have no values
    if (found := named(value)) is not None:
        return tuple(found[0]), np.asarray(found[1])
    if isinstance(value, (bool, int, float, str)):
        return ((), np.asarray(value))
    if isinstance(value, dict):
        parts = {key: plain(part, named) for key, part in value.items()}
        return None if any(part is None for part in parts.values()) else parts
    if isinstance(value, (tuple, list)):
        parts = [plain(part, named) for part in value]
        return None if any(part is None for part in parts) else parts
    if hasattr(value, "__array__") and not callable(value):
        data = np.asarray(value)
        return None if data.dtype == object else ((None,) * data.ndim, data)
    return None


def same(have, want, tolerance=2e-5):
    """Compares what `plain` gives; without names on one side the sizes must say which axis is which."""
    assert type(have) is type(want), (have, want)
    if isinstance(want, dict):
        assert list(map(str, sorted(have, key=str))) == list(map(str, sorted(want, key=str)))
        for a, b in zip(sorted(have, key=str), sorted(want, key=str), strict=True):
            same(have[a], want[b], tolerance)
    elif isinstance(want, list):
        assert len(have) == len(want)
        for a, b in zip(have, want, strict=True):
            same(a, b, tolerance)
    else:
        (dims, data), (other_dims, other) = have, want
        if any(dims) and any(other_dims):
            assert sorted(map(str, dims)) == sorted(map(str, other_dims)), (dims, other_dims)
            data = data.transpose([dims.index(name) for name in other_dims]) if len(set(dims)) == len(dims) else data
        elif data.shape != other.shape:
            orders = [o for o in itertools.permutations(range(data.ndim)) if data.transpose(o).shape == other.shape]
            assert len(orders) == 1, (dims, data.shape, other.shape)
            data = data.transpose(orders[0])
        assert data.shape == other.shape, (dims, data.shape, other.shape)
        if data.dtype.kind in "US":
            assert data == other
        else:
            np.testing.assert_allclose(np.float64(data), np.float64(other), rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps(run(sys.argv[1], "there", plain)))
