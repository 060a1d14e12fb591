"""Runs one named program in every placement, and compares it with a positional oracle.

The names are `a` (size 8), `b` (size 4) and `c` (size 3, never mapped): all different, and `a` is one entry per device on eight devices
and in blocks on four.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests.make import put

SIZES = {"a": 8, "b": 4, "c": 3}


def make_mesh(shape: tuple[int, ...], kind: str = "auto") -> jax.sharding.Mesh:
    """A mesh over `x` (and `y`) whose axes are all Auto or all Explicit."""
    axis_type = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind]
    return jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=(axis_type,) * len(shape))


@dataclasses.dataclass(frozen=True)
class Placement:
    """A mesh and an assignment."""

    label: str
    shape: tuple[int, ...] | None
    resources: tuple[tuple[str, Any], ...]
    kind: str = "auto"
    partitioning: str = "manual"

    def __str__(self) -> str:
        return f"{self.label}-{self.kind}" + ("" if self.partitioning == "manual" else "-partitioner")

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `xmap`."""
        mesh = None if self.shape is None else make_mesh(self.shape, self.kind)
        return {"mesh": mesh, "axis_resources": dict(self.resources), "partitioning": self.partitioning}

    def context(self) -> Any:
        """`jax.set_mesh` on an Explicit mesh, so that JAX tracks shardings in types; nothing on an Auto one."""
        return jax.set_mesh(self.options["mesh"]) if self.kind == "explicit" else contextlib.nullcontext()


_KINDS = [
    ("one-each", (8,), (("a", "x"),)),
    ("blocks", (4, 2), (("a", "x"),)),
    ("b-blocks", (4, 2), (("b", "y"),)),
    ("both", (4, 2), (("a", "x"), ("b", "y"))),
    ("crossed", (2, 4), (("a", "x"), ("b", "y"))),
    ("two-mesh-axes", (4, 2), (("a", ("x", "y")),)),
    ("two-reversed", (4, 2), (("a", ("y", "x")),)),
]
# What differs between kinds of meshes does not differ by the order of mesh axes.
_ON_EXPLICIT = ("one-each", "blocks", "both", "two-mesh-axes")
PLACEMENTS = [
    Placement("unmapped", None, ()),
    *(Placement(label, shape, resources, "auto") for label, shape, resources in _KINDS),
    *(Placement(label, shape, resources, "explicit") for label, shape, resources in _KINDS if label in _ON_EXPLICIT),
]
PARTITIONER = [Placement(label, shape, resources, "auto", "auto") for label, shape, resources in _KINDS]
FEW = [
    p
    for p in PLACEMENTS
    if str(p) in ("unmapped-auto", "one-each-auto", "both-explicit", "two-mesh-axes-auto", "blocks-explicit")
]


def said(error: BaseException) -> str:
    """The message of an error, without the code with which one of namedax has to end."""
    message = str(error)
    if not isinstance(error, nx.errors.NamedaxError):
        return message
    code = f"[{type(error).code}]"
    assert message.endswith(code), message
    return message.removesuffix(code)[:-1]


def array(*shape: int, seed: int = 0, kind: str = "float") -> jax.Array:
    """Values that differ everywhere, of either sign; integers for `kind="int"`, with many equal values for `kind="ties"`."""
    rng = np.random.default_rng(seed + 17 * len(shape))
    values = {
        "int": lambda: rng.integers(-9, 9, shape),
        "bool": lambda: rng.random(shape) < 0.5,
        "ties": lambda: rng.integers(-1, 2, shape).astype(float),
        "float": lambda: rng.normal(size=shape),
    }[kind]()
    return put(values)


# The flags under which JAX 0.12 makes high primitives of checkpoints and of rules for derivatives, as they are to be switched on together.
HIGH_FLAGS = {"remat": ("jax_remat3",), "rules": ("jax_custom_jvp3", "jax_custom_vjp3")}


def flags_on(*names: str) -> contextlib.AbstractContextManager[None]:
    """Flags of JAX, switched on; a test is skipped where JAX has no such flag."""
    if not all(hasattr(jax.config, name) for name in names):
        pytest.skip(f"JAX {jax.__version__} has no flags {names}")
    return flags_set(True, *names)


@contextlib.contextmanager
def flags_set(on: bool, *names: str) -> Iterator[None]:
    """Flags of JAX that have no context managers of their own, switched on or off; those that JAX does not have are left out."""
    before = {name: getattr(jax.config, name) for name in names if hasattr(jax.config, name)}
    try:
        for name in before:
            jax.config.update(name, on)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


class Lazily:
    """A module that is imported where it is first used: what few tests need, all workers would import while they collect."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # which pytest asks every object of a module for
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def environment_without_devices() -> dict[str, str]:
    """The environment for another process that imports this package: this one's, but for the number of simulated devices."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "XLA_FLAGS": " ".join(flags), "PYTHONPATH": path, "PYTHONUTF8": "1"}


def together(programs: Mapping[str, tuple[Callable[..., Any], Callable[..., Any], Any]]) -> tuple[Any, Any, Any]:
    """Programs of (named, plain, out_axes) as one of each, for `check`: compiling one large program is cheaper than many small ones."""
    return (
        lambda *args: {label: named(*args) for label, (named, _, _) in programs.items()},
        jax.jit(lambda *args: {label: plain(*args) for label, (_, plain, _) in programs.items()}),
        {label: out_axes for label, (_, _, out_axes) in programs.items()},
    )


def project(f: Callable[..., Any]) -> Callable[..., Any]:
    """A random projection of the results of `f`."""
    return lambda *args: with_projection(f)(*args)[0]


def with_projection(f: Callable[..., Any]) -> Callable[..., Any]:
    """A random projection of the results of `f`, and these."""

    def both(*args: Any) -> Any:
        total, results = 0.0, f(*args)
        for i, leaf in enumerate(jax.tree.leaves(results)):
            weights = np.random.default_rng(i + 5).normal(size=leaf.shape)
            total = total + jnp.sum(leaf * jnp.asarray(weights, leaf.dtype))
        return total, results

    return both


class Call:
    """An oracle and its arguments: equal for what the cases of a test define anew, by what is in them.

    Of arrays and containers that is what they hold, of functions their code and what they close over; anything else is itself.
    """

    def __init__(self, oracle: Callable[..., Any], args: tuple[Any, ...], floats: tuple[int, ...]) -> None:
        self.oracle, self.args, self.floats = oracle, args, floats
        self.kept: list[Any] = []  # while a key names them by their ids
        self.key = self.content(oracle), self.content(args), floats

    def content(self, value: Any) -> Hashable:
        """What tells a value from others."""
        if isinstance(value, type(jax.jit(abs))):
            return "jit", self.content(value.__wrapped__)
        if isinstance(value, types.FunctionType) and not any(value is known for known in self.kept):
            self.kept += [value, value.__code__]
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return id(value.__code__), self.content(cells), self.content(value.__defaults__), self.content(value.__kwdefaults__)
        if isinstance(value, functools.partial):
            return functools.partial, self.content(value.func), self.content(value.args), self.content(value.keywords)
        if isinstance(value, list | tuple):
            return (type(value), *map(self.content, value))
        if isinstance(value, dict) and len(value) < 100:  # not a whole namespace
            return (dict, *((self.content(key), self.content(entry)) for key, entry in value.items()))
        if isinstance(value, jax.Array | np.ndarray) and isinstance(value.dtype, np.dtype) and value.dtype != object:
            return type(value), value.dtype, getattr(value, "weak_type", False), value.shape, np.asarray(value).tobytes()
        if isinstance(value, str | int | float | complex | None):
            return type(value), repr(value)
        self.kept.append(value)
        return "itself", id(value)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key


@functools.lru_cache(maxsize=64)
def reference(call: Call) -> Any:
    """The results of an oracle and the gradients of their projection, in one program."""

    def both(*args: Any) -> Any:
        if not call.floats:
            return call.oracle(*args), ()
        gradients, results = jax.grad(with_projection(call.oracle), argnums=call.floats, has_aux=True)(*args)
        return results, gradients

    try:
        return jax.jit(both)(*call.args)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):  # it needs values: NumPy, say
        return both(*call.args)


# Where `check` calls what `xmap` returns as a user does, outside of `jax.jit`, and differentiates in a program of its own. In the other
# placements one program gives both: half of the cost of the tests is compiling.
DIRECT = ("unmapped-auto", "crossed-auto", "both-explicit", "both-auto-partitioner")


def check(
    fun: Callable[..., Any],
    oracle: Callable[..., Any],
    args: Sequence[Any],
    in_axes: Any,
    out_axes: Any,
    placement: Placement,
    *,
    grad: bool = True,
    tol: float = 2e-5,
    **options: Any,
) -> None:
    """`xmap(fun)` equals `oracle`, and so do the gradients of a random projection of the result, outside of the body."""
    mapped = nx.xmap(fun, in_axes, out_axes, **placement.options, **options)
    floats = tuple(i for i, arg in enumerate(args) if jnp.issubdtype(jnp.result_type(arg), jnp.inexact)) if grad else ()
    want, want_grads = reference(Call(oracle, tuple(args), floats))
    gradients = jax.grad(with_projection(mapped), argnums=floats, has_aux=True) if grad else None
    with placement.context():
        if gradients is None:
            have, have_grads = mapped(*args), ()
        elif str(placement) in DIRECT:
            have, have_grads = mapped(*args), jax.jit(gradients)(*args)[0]
        else:
            have_grads, have = jax.jit(gradients)(*map(on_host, args))
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol), have, want)
    assert jax.tree.map(lambda h: h.dtype, have) == jax.tree.map(lambda w: w.dtype, want)
    for h, w in zip(have_grads, want_grads, strict=True):
        np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=20 * tol, atol=20 * tol)


def kept(f: Callable[..., Any], *args: Any) -> int:
    """The bytes that differentiation in reverse mode keeps of `f`, for arrays of all devices. Nothing is computed."""
    pull = jax.eval_shape(lambda *args: jax.vjp(f, *args)[1], *args)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(pull))


def on_host(arg: Any) -> Any:
    """As NumPy's array, which goes to several devices without a program that cuts it."""
    plain = isinstance(arg, jax.Array) and not jnp.issubdtype(arg.dtype, jax.dtypes.extended) and not arg.weak_type
    return np.asarray(arg) if plain else arg
