"""Linear algebra of matrices that every device has, in steps between which devices communicate: ensemble filters, preconditioners."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import SIZES, V, without

STEPS = 2


def _whitened(xp: Any, m: Any, kind: str) -> Any:
    """The inverse root of a positive definite matrix, or its inverse."""
    if kind == "eigh":
        d, v = xp.linalg.eigh(m)
        return xp.matmul(v / xp.sqrt(d)[..., None, :], xp.swapaxes(v, -1, -2))
    if kind == "svd":
        u, s, v = xp.linalg.svd(m)
        return xp.matmul(u / xp.sqrt(s)[..., None, :], v)
    return xp.linalg.inv(m)


class Whiten(Operation):
    """Steps of `fori_loop`: the matrix of inner products over some names, decomposed on every device, is applied along another name."""

    names, weight, moves = ("whiten_eigh", "whiten_svd", "whiten_solve", "whiten_cholesky"), 0.3, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "f32" and len(v.names) > 1 and not v.ndim and 0 < v.data.size <= 512)
        if x is None:
            return None
        axis = g.choice(g.v(x).names)
        twins = [twin for twin in g.twins(axis) if twin not in g.v(x).names]
        if not twins or SIZES[axis] < 2:
            return None
        over = tuple(g.subset(without(g.v(x), (axis,)), 1, 2))
        return g.s(name, (x,), axis=axis, twin=g.choice(twins), over=over)

    def code(self, s, a, functions, resources):
        kind = s.op.removeprefix("whiten_")
        return f"whitened({a[0]}, {kind!r}, {s['axis']!r}, {s['twin']!r}, {s['over']!r}, {STEPS})"

    def run(self, r, s, values, env):
        (v,) = values
        if s["axis"] not in v.names or s["twin"] in v.names or not {*s["over"]} <= {*v.names}:
            raise Invalid
        batch = tuple(name for name in v.names if name not in (s["axis"], *s["over"]))
        order = [v.names.index(name) for name in (*batch, s["axis"], *s["over"])]
        data, size = r.xp.transpose(v.data, order), SIZES[s["axis"]]
        shape = data.shape
        data = r.xp.reshape(data, (*shape[: len(batch)], size, -1))
        for _ in range(STEPS):
            m = r.xp.matmul(data, r.xp.swapaxes(data, -1, -2)) + r.xp.diag(1.0 + r.xp.arange(size))
            data = r.xp.matmul(_whitened(r.xp, m, s.op.removeprefix("whiten_")), data)
        return [v._replace(data=r.xp.transpose(r.xp.reshape(data, shape), np.argsort(order)))]

    def meetings(self, s, values: list[V], results: list[V]):
        return [{*values[0].names, s["twin"]}]
