"""Calls of decompositions that are rejected, with the remedy in the message."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import namedax as nx
from namedax import errors
from tests import make
from tests.harness import make_mesh

la = nx.linalg
X = nx.named(make.ones((6, 3)), ["t", "k"])
ONES = nx.named(make.ones((3, 3, 2)), ["k", "k2", None])
KEY = make.key(0)
SQUARE = nx.named(make.eye(3), ["k", "k2"])

WRONG = {
    "a name that is missing": (lambda: la.svd(X, "time", "k"), errors.AxisNotFoundError, "no axis 'time'"),
    "equal names": (lambda: la.qr(X, "t", "t"), errors.AxisNameError, "is given twice"),
    "a position": (lambda: la.svd(X, 0, "k"), errors.AxisNameError, "rows=0 must be an axis name"),
    "no name": (lambda: la.svd(X, (), "k"), errors.AxisNameError, "tuple of axis names, chosen from 't', 'k'"),
    "no named array": (lambda: la.svd(jnp.ones((3, 2)), "t", "k"), errors.AxisNotFoundError, "no axis 't'"),
    "a result name that is taken": (lambda: la.svd(X, "t", "k", mode="k"), errors.AxisNameError, "mode='mode2'"),
    "a result name that is none": (lambda: la.eigh(SQUARE, "k", "k2", mode=0), errors.AxisNameError, "name of a new axis"),
    "not square": (lambda: la.det(X, "t", "k"), errors.AxisSizeError, "must be square. nx.linalg.svd"),
    "a system that is not square": (
        lambda: la.solve(X, X["k", 0], "t", "k"),
        errors.AxisSizeError,
        "nx.linalg.lstsq solves others",
    ),
    "a right-hand side without the rows": (
        lambda: la.solve(SQUARE, X["k", 0], "k", "k2"),
        errors.AxisNotFoundError,
        "no axis 'k'",
    ),
    "a right-hand side with the columns": (
        lambda: la.lstsq(X, X, "t", "k"),
        errors.AxisNameError,
        r"Rename it first: nx.rename\(b",
    ),
    "a matrix with positional axes": (
        lambda: la.solve(ONES, X["t", 0], "k", "k2"),
        errors.PositionalAxisError,
        "need names",
    ),
    "no rows": (lambda: la.svd(nx.ones(named_shape={"t": 0, "k": 3}), "t", "k"), errors.AxisSizeError, "has 0 rows"),
    "too many modes": (lambda: la.svd(X, "t", "k", modes=4), errors.ArgumentError, "an integer from 1 to 3"),
    "a key without modes": (lambda: la.svd(X, "t", "k", key=KEY), errors.ArgumentError, "Pass modes=10"),
    "negative iterations": (
        lambda: la.svd(X, "t", "k", modes=1, key=KEY, iterations=-1),
        errors.ArgumentError,
        "iterations=-1",
    ),
    "a mask with another axis": (
        lambda: la.svd(X, "t", "k", where=SQUARE > 0),
        errors.AxisNotFoundError,
        "A mask has axes of the array only",
    ),
    "weights of rows": (
        lambda: la.pca(X, "t", "k", weights=X["k", 0]),
        errors.AxisNotFoundError,
        "A weight belongs to a column",
    ),
    "one row": (lambda: la.pca(X["t", :1], "t", "k"), errors.AxisSizeError, "a variance needs two"),
    "a tolerance with axes": (lambda: la.pinv(X, "t", "k", rtol=X["t", 0]), errors.ArgumentError, "rtol must be a number"),
    "an order that is none": (lambda: la.norm(X, "t", "k", ord=3), errors.ArgumentError, "ord=3 must be"),
    "random keys": (
        lambda: la.svd(nx.random.split(KEY, named_shape={"t": 4, "k": 2}), "t", "k"),
        errors.ArgumentTypeError,
        "random keys, not numbers",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_mistakes(case):
    call, kind, message = case
    with pytest.raises(kind, match=message):
        call()


def test_a_result_name_on_the_mesh_axis_of_the_rows():
    mesh = make_mesh((2, 4))
    with pytest.raises(errors.PlacementConflictError, match="'t'"):
        nx.xmap(lambda x: la.svd(x, "t", "k"), axis_resources={"t": "x", "mode": "x"}, mesh=mesh)(X)
