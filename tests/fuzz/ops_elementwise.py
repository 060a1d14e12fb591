"""Elementwise operations, reductions, contractions and normalisations."""

from __future__ import annotations

import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import (
    FLOATS,
    NUMBERS,
    SIZES,
    V,
    along,
    elementwise,
    inexact,
    logsumexp,
    places,
    promote,
    uniform_table,
    union,
    without,
)

UNARY = {
    "sin": ("nx.sin({})", lambda xp, x: xp.sin(x)),
    "tanh": ("nx.tanh({})", lambda xp, x: xp.tanh(x)),
    "relu": ("nx.nn.relu({})", lambda xp, x: xp.where(x > 0, x, 0.0)),
    "exp": ("nx.exp(-nx.abs({}))", lambda xp, x: xp.exp(-xp.abs(x))),
    "root": ("nx.sqrt(nx.add(1, nx.square({})))", lambda xp, x: xp.sqrt(1 + x**2)),
}
BINARY = {
    "add": ("({} + {})", lambda xp, x, y: x + y),
    "subtract": ("({} - {})", lambda xp, x, y: x - y),
    "multiply": ("({} * {})", lambda xp, x, y: x * y),
    "maximum": ("nx.maximum({}, {})", lambda xp, x, y: xp.maximum(x, y)),
    "divide": ("nx.divide({}, nx.add(1, nx.square({})))", lambda xp, x, y: x / (1 + y**2)),
}


class Unary(Operation):
    names, weight = tuple(UNARY), 1.0

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in ("f32", "bf16"))
        return None if x is None else g.s(name, (x,))

    def code(self, s, a, functions, resources):
        return UNARY[s.op][0].format(*a)

    def run(self, r, s, values, env):
        f = UNARY[s.op][1]
        return [elementwise(r.xp, lambda x: f(r.xp, x), inexact(values[0].dtype), *values)]


def fits(v: V, w: V) -> bool:
    """Whether positional axes broadcast, and the result is not large."""
    pairs = zip(v.shape[::-1], w.shape[::-1], strict=False)
    return all(p == q or 1 in (p, q) for p, q in pairs) and np.prod([SIZES[n] for n in union(v, w)]) <= 2048


class Binary(Operation):
    names, weight = tuple(BINARY), 1.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in NUMBERS)
        y = None if x is None else g.pick(lambda v: v.dtype in (*NUMBERS, "weak") and fits(v, g.v(x)))
        return None if y is None else g.s(name, (x, y))

    def code(self, s, a, functions, resources):
        return BINARY[s.op][0].format(*a)

    def run(self, r, s, values, env):
        f, dtype = BINARY[s.op][1], promote(*(v.dtype for v in values))
        return [elementwise(r.xp, lambda x, y: f(r.xp, x, y), inexact(dtype) if s.op == "divide" else dtype, *values)]


class Greater(Operation):
    names, weight = ("greater",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in NUMBERS and g.apart(v.data.ravel(), 0.0))
        return None if x is None else g.s(name, (x,))

    def code(self, s, a, functions, resources):
        return f"{a[0]} > 0"

    def run(self, r, s, values, env):
        return [elementwise(r.xp, lambda x: x > 0, "bool", *values)]


class Rates(Operation):
    """Two sums divided by counts, some of them zero, and compared: infinities and NaN count, and the result is finite."""

    names, weight = ("rates",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "f32" and v.names and not v.ndim)
        axis = None if x is None else g.choice(g.v(x).names)
        z = None if x is None else g.pick(lambda v: v.dtype == "f32" and v.names == g.v(x).names and not v.ndim)
        y = None if x is None else g.pick(lambda v: v.dtype == "i32" and axis not in v.names and fits(v, g.v(x)))
        if x is None or z is None or y is None:
            return None
        sums = [_total(np, g.v(n), axis) for n in (x, z)]
        with np.errstate(all="ignore"):
            rates = elementwise(np, lambda p, q, n: p / n + q / n, "f32", *sums, g.v(y)).data
        clear = all(np.all(np.abs(v.data) > 1e-2) for v in sums) and g.apart(np.where(np.isfinite(rates), rates, 0.0), 0.5)
        return g.s(name, (x, z, y), axis=axis) if clear else None

    def code(self, s, a, functions, resources):
        x, z, y = a
        return f"nx.sum({x}, {s['axis']!r}) / {y} + nx.sum({z}, {s['axis']!r}) / {y} > 0.5"

    def run(self, r, s, values, env):
        x, z, y = values
        sums = [_total(r.xp, v, s["axis"]) for v in (x, z)]
        with np.errstate(all="ignore"):
            return [elementwise(r.xp, lambda p, q, n: p / n + q / n > 0.5, "bool", *sums, y)]


def _total(xp, v: V, axis: str) -> V:
    return V(xp.sum(v.data, axis=places(v, (axis,))), without(v, (axis,)), v.dtype)


class Where(Operation):
    names, weight = ("where",), 1.0

    def draw(self, g, name):
        p = g.pick(lambda v: v.dtype == "bool")
        x = g.pick(lambda v: v.dtype in FLOATS and (p is None or fits(v, g.v(p))))
        y = g.pick(lambda v: v.dtype in FLOATS and (x is None or fits(v, g.v(x))) and (p is None or fits(v, g.v(p))))
        return None if p is None or x is None or y is None else g.s(name, (p, x, y))

    def code(self, s, a, functions, resources):
        return f"nx.where({', '.join(a)})"

    def run(self, r, s, values, env):
        return [elementwise(r.xp, r.xp.where, promote(values[1].dtype, values[2].dtype), *values)]


class Constant(Operation):
    names, weight = ("constant",), 0.3

    def draw(self, g, name):
        return g.s(name, (), number=g.choice([0.0, 0.5, -1.5]))

    def code(self, s, a, functions, resources):
        return repr(s["number"])

    def run(self, r, s, values, env):
        return [V(np.asarray(s["number"]), (), "weak")]


class Cast(Operation):
    names, weight = ("cast",), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in ("f32", "bf16") and v.names)
        return None if x is None else g.s(name, (x,), dtype="bf16" if g.v(x).dtype == "f32" else "f32")

    def code(self, s, a, functions, resources):
        return f"{a[0]}.astype('{ {'bf16': 'bfloat16', 'f32': 'float32'}[s['dtype']] }')"

    def run(self, r, s, values, env):
        return [values[0]._replace(dtype=s["dtype"])]


class Arange(Operation):
    names, weight = ("arange", "axis_index"), 0.4

    def draw(self, g, name):
        axes = g.known()
        return g.s(name, (), axis=g.choice(axes)) if axes else None

    def code(self, s, a, functions, resources):
        return f"nx.arange(axis={s['axis']!r})" if s.op == "arange" else f"nx.lax.axis_index({s['axis']!r})"

    def run(self, r, s, values, env):
        return [V(r.xp.arange(SIZES[s["axis"]]), (s["axis"],), "i32")]


class Uniform(Operation):
    names, weight = ("uniform",), 0.5

    def draw(self, g, name):
        sizes = g.subset(g.known(), 0, 2)
        return g.s(name, (), sizes=tuple(sizes), shape=g.choice([(), (3,)]), key=g.choice(range(16)))

    def code(self, s, a, functions, resources):
        sizes = {name: SIZES[name] for name in s["sizes"]}
        return f"nx.random.uniform(jax.random.split(jax.random.key(7), 16)[{s['key']}], {s['shape']}, named_shape={sizes})"

    def run(self, r, s, values, env):
        from tests.fuzz.values import make

        table = uniform_table((*(SIZES[name] for name in s["sizes"]), *s["shape"]))
        return [make(r.xp, table[s["key"]], s["sizes"], "f32")]


class UniformOfKeys(Operation):
    names, weight = ("uniform_of_keys",), 1.0

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "key")
        return None if x is None else g.s(name, (x,), shape=g.choice([(), (3,)]) if not g.v(x).shape else ())

    def code(self, s, a, functions, resources):
        return f"nx.random.uniform({a[0]}, {s['shape']})"

    def run(self, r, s, values, env):
        (v,) = values
        return [V(r.xp.asarray(uniform_table(s["shape"])[np.asarray(v.data)]), v.names, "f32")]


# --- reductions -----------------------------------------------------------------------------------------------------


REDUCTIONS = {
    **{name: lambda xp, x, axes, name=name: getattr(xp, name)(x, axis=axes) for name in ("sum", "mean", "max", "min", "var")},
    **{name: lambda xp, x, axes, name=name: getattr(xp, name)(x, axis=axes) for name in ("prod", "median", "nanmax")},
    "std": lambda xp, x, axes: xp.sqrt(xp.var(x, axis=axes)),
    "logsumexp": logsumexp,
    "nansum": lambda xp, x, axes: xp.sum(xp.where(xp.isnan(x), 0.0, x), axis=axes),
}
LEAVES_NAN = ("nansum", "nanmax")
CARRIES_NAN = ("max", "min", "sum", *LEAVES_NAN)


class Reduction(Operation):
    names, weight = tuple(REDUCTIONS), 1.2

    def draw(self, g, name):
        def suits(v):
            good = v.names or v.ndim
            if np.isnan(v.data).any():
                return good and name in CARRIES_NAN
            return good and v.dtype in ("f32", "bf16", *(("i32",) if name in ("sum", "max", "min", "mean") else ()))

        x = g.pick(suits, nan=True)
        if x is None:
            return None
        v = g.v(x)
        axes = tuple(g.subset([*v.names, *range(v.ndim)], 1, 3))
        if name in ("std", "median") and not g.distinct(v, axes):
            return None
        return g.s(name, (x,), axes=axes)

    def code(self, s, a, functions, resources):
        return f"nx.{s.op}({a[0]}, {s['axes'][0] if len(s['axes']) == 1 else s['axes']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        dtype = v.dtype if s.op in ("sum", "max", "min", "prod", *LEAVES_NAN) else inexact(v.dtype)
        return [V(r.xp.asarray(REDUCTIONS[s.op](r.xp, v.data, places(v, s["axes"]))), without(v, s["axes"]), dtype)]


class ArgReduction(Operation):
    names, weight = ("argmax", "argmin", "count_nonzero"), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in (("bool",) if name == "count_nonzero" else ("f32", "bf16", "i32")))
        if x is None:
            return None
        axis = g.choice(g.v(x).names)
        if name != "count_nonzero" and not g.distinct(g.v(x), (axis,)):
            return None
        return g.s(name, (x,), axis=axis)

    def code(self, s, a, functions, resources):
        return f"nx.{s.op}({a[0]}, {s['axis']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        f = getattr(r.xp, s.op)
        return [V(r.xp.asarray(f(v.data, axis=places(v, (s["axis"],))[0])), without(v, (s["axis"],)), "i32")]


class FourBits(Operation):
    """Reductions of 4-bit integers, to which integers are cut."""

    names, weight = ("sum_of_4_bits", "max_of_4_bits"), 0.3

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype == "i32")
        return None if x is None else g.s(name, (x,), axis=g.choice(g.v(x).names))

    def code(self, s, a, functions, resources):
        return f"nx.{s.op[:3]}({a[0]}.astype('int4'), {s['axis']!r}).astype('int32')"

    def run(self, r, s, values, env):
        (v,) = values
        cut = (r.xp.asarray(v.data) + 8) % 16 - 8
        return [V(r.xp.asarray(getattr(r.xp, s.op[:3])(cut, axis=places(v, (s["axis"],))[0])), without(v, (s["axis"],)), "i32")]


class LiftedLoop(Operation):
    """A loop of JAX that runs as often as each element says, times a number that the lifted function closes over."""

    names, weight = ("lifted_loop",), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "i32" and v.names and not v.ndim)
        w = g.pick(lambda v: v.dtype == "f32" and not v.names and not v.ndim)
        return None if x is None or w is None else g.s(name, (x, w))

    def code(self, s, a, functions, resources):
        return f"nx.nmap(lambda n: {a[1]} * jax.lax.fori_loop(0, abs(n) % 4, lambda i, c: c + 0.5, 0.0))({a[0]})"

    def run(self, r, s, values, env):
        x, w = values
        return [V(r.xp.asarray(w.data * (0.5 * (abs(x.data) % 4))), x.names, "f32")]


class Quantile(Operation):
    names, weight, moves = ("quantile",), 0.3, True  # it sorts

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype == "f32")
        if x is None:
            return None
        axes = tuple(g.subset(g.v(x).names, 1, 2))
        return g.s(name, (x,), axes=axes, q=g.choice([0.3, 0.75])) if g.distinct(g.v(x), axes) else None

    def code(self, s, a, functions, resources):
        return f"nx.quantile({a[0]}, {s['q']}, {s['axes']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        return [V(r.xp.asarray(r.xp.quantile(v.data, s["q"], axis=places(v, s["axes"]))), without(v, s["axes"]), v.dtype)]


class Normalise(Operation):
    names, weight = ("softmax", "log_softmax"), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16"))
        return None if x is None else g.s(name, (x,), axes=tuple(g.subset(g.v(x).names, 1, 2)))

    def code(self, s, a, functions, resources):
        return f"nx.nn.{s.op}({a[0]}, {s['axes']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        logp = v.data - logsumexp(r.xp, v.data, places(v, s["axes"]), keepdims=True)
        return [v._replace(data=logp if s.op == "log_softmax" else r.xp.exp(logp))]


# --- contractions ---------------------------------------------------------------------------------------------------


class Dot(Operation):
    names, weight = ("dot",), 2.0

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        v = g.v(x)
        y = g.pick(
            lambda w: w.dtype in ("f32", "bf16") and {*w.names} & {*v.names} and not (w.shape and v.shape) and fits(v, w)
        )
        return None if y is None else g.s(name, (x, y), axes=tuple(g.subset(sorted({*v.names} & {*g.v(y).names}), 1, 2)))

    def code(self, s, a, functions, resources):
        return f"nx.dot({a[0]}, {a[1]}, {s['axes']!r})"

    def run(self, r, s, values, env):
        product = elementwise(r.xp, lambda x, y: x * y, promote(*(v.dtype for v in values)), *values)
        return [V(r.xp.sum(product.data, axis=places(product, s["axes"])), without(product, s["axes"]), product.dtype)]


class Einsum(Operation):
    """Two operands, each read with renamed axes, contracted, and written with renamed axes."""

    names, weight = ("einsum",), 2.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and not v.ndim and v.dtype in ("f32", "bf16"))
        y = g.pick(lambda v: v.names and not v.ndim and v.dtype in ("f32", "bf16"))
        if x is None or y is None:
            return None
        reads = [self._renamed(g, g.v(number).names) for number in (x, y)]
        seen = sorted({*reads[0].values(), *reads[1].values()})
        if np.prod([SIZES[name] for name in seen]) > 2048:
            return None
        kept = g.subset(seen, 0, 3)
        return g.s(name, (x, y), reads=reads, writes=self._renamed(g, kept))

    def _renamed(self, g, names):
        renames = {}
        for old in names:
            options = [n for n in g.twins(old) if n not in names and n not in renames.values()]
            renames[old] = g.choice(options) if options and g.rare() else old
        return renames

    def code(self, s, a, functions, resources):
        def term(renames, written=False):
            return "{" + ",".join(new if new == old else f"{new}:{old}" for old, new in renames.items()) + "}"

        return f'nx.einsum("{term(s["reads"][0])},{term(s["reads"][1])}->{term(s["writes"])}", {a[0]}, {a[1]})'

    def run(self, r, s, values, env):
        from tests.fuzz.values import make

        if any({*v.names} != {*names} for v, names in zip(values, s["reads"], strict=True)):
            raise Invalid
        read = [make(r.xp, v.data, [names[n] for n in v.names], v.dtype) for v, names in zip(values, s["reads"], strict=True)]
        product = elementwise(r.xp, lambda x, y: x * y, promote(*(v.dtype for v in read)), *read)
        gone = tuple(n for n in product.names if n not in s["writes"])
        kept = [n for n in product.names if n in s["writes"]]
        return [make(r.xp, r.xp.sum(product.data, axis=places(product, gone)), [s["writes"][n] for n in kept], product.dtype)]

    def meetings(self, s, values, results):
        read = {*s["reads"][0].values(), *s["reads"][1].values()}
        return [{*values[0].names}, {*values[1].names}, read, {*results[0].names}]


class Fft(Operation):
    names, weight = ("fft",), 0.3

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype == "f32")
        return None if x is None else g.s(name, (x,), axis=g.choice(g.v(x).names))

    def code(self, s, a, functions, resources):
        axis = f"axis={s['axis']!r}"
        filters = f"(1 + 1j * nx.arange({SIZES[s['axis']]}, {axis}))"
        return f"nx.real(nx.numpy.fft.ifft(nx.numpy.fft.fft({a[0]}, {axis}) * {filters}, {axis}))"

    def run(self, r, s, values, env):
        def filtered(data):
            filters = (1 + 1j * np.arange(data.shape[0])).reshape([-1] + [1] * (data.ndim - 1))
            return r.xp.real(r.xp.fft.ifft(r.xp.fft.fft(data, axis=0) * filters, axis=0))

        return [along(r.xp, values[0], s["axis"], filtered)]
