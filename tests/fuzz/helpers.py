"""What programs use that are written down as Python: losses, cotangents, rules of derivatives, other places for arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from tests.fuzz.values import weights

__all__ = [
    "elsewhere",
    "lossy",
    "placed",
    "plain_gradients",
    "pulled",
    "pulled_by",
    "pushed_by",
    "stored_padded",
    "twice",
    "whitened",
    "within",
]


def lossy(f: Callable[..., Any], axes: Sequence[Any] | None = None) -> Callable[..., Any]:
    """A loss of the results of `f`, and the results; of named arrays with these axes, or of arrays without names."""

    def loss(*args: Any) -> Any:
        values = f(*args)
        total: Any = 0.0
        for number, v in enumerate(values):
            if not _is_float(v):
                continue
            v = v.astype("float32") if hasattr(v, "astype") else v
            if axes is None:
                total = total + jnp.sum(v * weights(number, v.shape))
            else:
                total = total + _named_total(v, number, axes[number])
        return total, values

    return loss


def _is_float(v: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(getattr(v, "dtype", type(v))), jnp.floating)


def _named_weights(v: Any, number: int, axes: Sequence[Any]) -> Any:
    positions = iter(getattr(v, "shape", ()))
    sizes = dict(getattr(v, "named_shape", {}))
    shape = [next(positions) if axis is None else sizes[axis] for axis in axes]
    return nx.named(jnp.asarray(weights(number, shape)), list(axes)) if shape else float(weights(number, ()))


def _named_total(v: Any, number: int, axes: Sequence[Any]) -> Any:
    product = v * _named_weights(v, number, axes)
    return nx.sum(product, (*getattr(v, "named_shape", {}), *range(axes.count(None)))) if axes else product


def pulled(f: Callable[..., Any], which: tuple[int, ...], axes: Sequence[Any] | None = None) -> Callable[..., Any]:
    """What `jax.value_and_grad` of `lossy` gives, by `jax.vjp` with the weights of the loss as cotangents."""

    def run(*args: Any) -> Any:
        def floats(*some: Any) -> Any:
            given = dict(zip(which, some, strict=True))
            values = f(*(given.get(n, arg) for n, arg in enumerate(args)))
            return [v if hasattr(v, "dtype") else jnp.asarray(v) for v in values if _is_float(v)], values

        have, pull, values = jax.vjp(floats, *(args[n] for n in which), has_aux=True)
        numbers = [number for number, v in enumerate(values) if _is_float(v)]
        if axes is None:
            cotangents = [jnp.asarray(weights(n, v.shape)) for n, v in zip(numbers, have, strict=True)]
        else:
            cotangents = [_named_weights(v, n, axes[n]) for n, v in zip(numbers, have, strict=True)]
        cotangents = [
            ct.astype(v.dtype) if hasattr(ct, "astype") else jnp.asarray(ct, v.dtype)
            for ct, v in zip(cotangents, have, strict=True)
        ]
        if (
            axes is None
        ):  # outside of JAX's compiled functions, a cotangent must say that it lies on Explicit axes as the value does
            pairs = zip(cotangents, have, strict=True)
            cotangents = [ct if isinstance(v, jax.core.Tracer) else jax.device_put(ct, v.sharding) for ct, v in pairs]
        cotangents = nx.order_like(cotangents, have)
        if axes is not None:
            cotangents = jax.tree.map(_of_its_type, cotangents, have)
        return (jnp.float32(0), values), pull(cotangents)

    return run


def _of_its_type(cotangent: Any, value: jax.Array) -> Any:
    """A cotangent with the type of its value, which says how a nested function has sharded it over Explicit axes."""
    sharding = jax.typeof(value).sharding
    return jax.reshard(cotangent, sharding) if any(sharding.spec) else cotangent


def twice(f: Callable[..., Any], which: int) -> Callable[..., Any]:
    """`f` under `jax.vmap` over one argument, itself and half of it."""

    def run(*args: Any) -> Any:
        pair = jnp.stack([args[which], args[which] / 2])
        args = tuple(pair if n == which else arg for n, arg in enumerate(args))
        return jax.vmap(f, tuple(0 if n == which else None for n in range(len(args))))(*args)

    return run


def pulled_by(make: Callable[..., Any], f: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with a backward rule, of its arguments and the cotangent; `make` is a `custom_vjp`."""
    g = make(f)
    g.defvjp(lambda *args: (f(*args), args), lambda args, ct: rule(*args, ct))
    return g


def pushed_by(make: Callable[..., Any], f: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """`f` of one argument with a forward rule, of its argument and the tangent; `make` is a `custom_jvp`."""
    g = make(f)
    g.defjvp(lambda primals, tangents: (f(*primals), rule(*primals, *tangents)))
    return g


def placed(values: Sequence[Any], axes: Sequence[Any]) -> list[Any]:
    """The arrays of named arrays, their axes in these orders."""
    pairs = zip(values, axes, strict=True)
    return [nx.positional(v, order) if isinstance(v, nx.NamedArray) else jnp.asarray(v) for v, order in pairs]


def plain_gradients(result: tuple[Any, Any], axes: Sequence[Any]) -> tuple[Any, Any]:
    """A loss and gradients with respect to named arrays, these as arrays with their axes in these orders."""
    loss, gradients = result
    return loss, placed(gradients, axes)


def elsewhere(arrays: Sequence[Any], mesh: Any, seed: int) -> list[Any]:
    """The arrays, each cut over axes of a mesh that it divides over, as it comes."""
    rng, moved = np.random.default_rng(seed), []
    for array in arrays:
        spec: list[Any] = [None] * array.ndim
        for axis in rng.permutation(mesh.axis_names).tolist():
            fits = [i for i, size in enumerate(array.shape) if spec[i] is None and size % mesh.shape[axis] == 0]
            if fits and rng.random() < 0.7:
                spec[rng.choice(fits)] = axis
        moved.append(jax.device_put(array, jax.NamedSharding(mesh, jax.P(*spec))))
    return moved


def whitened(x: Any, kind: str, axis: str, twin: str, over: tuple[str, ...], steps: int) -> Any:
    """Steps that apply the inverse root (or inverse) of the matrix of inner products over some names along another name."""

    def inverse(m: Any) -> Any:
        m = m + jnp.diag(1.0 + jnp.arange(m.shape[-1]))
        if kind == "eigh":
            d, v = jnp.linalg.eigh(m)
            return (v / jnp.sqrt(d)) @ v.T
        if kind == "svd":
            u, s, v = jnp.linalg.svd(m)
            return (u / jnp.sqrt(s)) @ v
        if kind == "cholesky":
            return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(m), True), jnp.eye(m.shape[-1]))
        return jnp.linalg.solve(m, jnp.eye(m.shape[-1]))

    def step(_: Any, x: Any) -> Any:
        m = nx.dot(x, nx.rename(x, {axis: twin}), over)
        w = nx.named(nx.nmap(inverse)(nx.untag(m, [axis, twin])), [twin, axis])
        return nx.order_like(nx.dot(nx.rename(x, {axis: twin}), w, twin), x)

    return nx.fori_loop(0, steps, step, x)


def stored_padded(f, mappings, places, mesh):
    """`f` of arrays that are named first, and stored padded where their sizes do not divide."""

    def call(*arrays):
        named = [nx.named(array, mapping) for array, mapping in zip(arrays, mappings, strict=True)]
        return f(*nx.shard(named, places, mesh, padded=True))

    return call


def within(narrow: Any, exact: Any, wire: str) -> Any:
    """`exact`, or NaN where `narrow`, sent in a narrow format at most four times, is further from it than the bound."""
    relative, absolute = {"bf16": (2**-8, 0.0), "float8_e4m3": (2**-4, 2**-10 / 448), "int8": (0.0, 0.5 / 127)}[wire]
    value = nx.lax.stop_gradient(exact).astype("float32")
    size = nx.max(abs(value), axis=..., initial=0.0)
    # A value of 16 bits is rounded once more; next to infinities and NaN, blocks are NaN.
    bound = 4 * ((relative + 2**-8) * abs(value) + absolute * size + 2e-38)
    fits = (abs(nx.lax.stop_gradient(narrow).astype("float32") - value) <= bound) | ~nx.numpy.isfinite(size)
    return nx.where(fits, exact, jnp.asarray(jnp.nan, exact.dtype))
