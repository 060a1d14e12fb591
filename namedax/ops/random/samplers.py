"""Samplers of `jax.random` with `named_shape`, and functions of keys and seeds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray
from namedax.core.call_errors import checks_signature, refuse_no_element_type
from namedax.core.display import type_text
from namedax.errors import ArgumentTypeError, PositionalAxisError, format_value
from namedax.operands.new_axis import check_shape, positional_shape
from namedax.operands.nmap import nmap
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.random.drawing import Sizes, draw, refuse_sharding, sizes_of, with_names_of

__all__ = ["key_impl", "named_version", "split"]

# The number of dimensions at the end of a parameter that belong to one draw.
_EVENT = {
    "multivariate_normal": {"mean": 1, "cov": 2},
    "dirichlet": {"alpha": 1},
    "multinomial": {"p": 1},
}


def named_version(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function of `jax.random` for named arrays.

    Samplers get `named_shape`; functions of keys or seeds are vectorized over names.
    """
    parameters = inspect.signature(function).parameters
    return (
        _sampler(function) if "key" in parameters and "shape" in parameters else _lifted(function)
    )


def _sampler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `jax.random.f` with `named_shape`, named keys and named parameters."""
    name = function.__name__
    signature = inspect.signature(function)
    events = _EVENT.get(name, {})

    @functools.wraps(function)
    def sampler(
        *args: Any, named_shape: Mapping[Hashable, int] | None = None, **kwargs: Any
    ) -> Any:
        bound = _bind(name, signature, args, kwargs, bool(named_shape))
        given = bound.arguments
        refuse_no_element_type(name, signature, given, True)
        parameters = {
            p: v
            for p, v in given.items()
            if p not in ("key", "shape") and isinstance(v, NamedArray)
        }
        check_shape(name, given.get("shape"))
        sizes = sizes_of(name, named_shape)
        if not sizes and not parameters and not isinstance(given["key"], NamedArray):
            return function(*args, **kwargs)
        refuse_sharding(name, given.get("out_sharding"))
        fixed = {
            p: v for p, v in given.items() if p not in ("key", "shape") and p not in parameters
        }
        shape = _shape_of(name, signature, given, events)
        rank = len(shape) - (name == "multinomial")
        if name == "bernoulli" and "p" in parameters and given.get("mode", "low") == "low":
            return _bernoulli(given["key"], parameters["p"], sizes, shape)

        def call(key: jax.Array, shape: tuple[int, ...], **parameters: jax.Array) -> jax.Array:
            return function(key=key, shape=shape, **fixed, **parameters)

        return draw(name, call, given["key"], sizes, shape, parameters, events, rank=rank)

    has_parameters = (
        len(set(signature.parameters) - {"key", "shape", "dtype", "out_sharding", "mode"}) > 0
    )
    gathered = (
        " A parameter with a sharded axis is gathered (one all-gather)."
        if has_parameters and name != "bernoulli"
        else ""
    )
    sampler.__doc__ = (
        f"{inspect.getdoc(function)}\n\n`named_shape` maps axis names to sizes, in addition to the"
        " positional axes of `shape`; `None` as a size takes the mapped function's. The\nnumbers"
        f" do not depend on the sharding.{gathered}"
    )
    presented: Callable[..., Any] = checks_signature(_present(sampler, signature, "named_shape"))
    return presented


def _bind(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    named: bool,
) -> inspect.BoundArguments:
    """Bind the arguments to parameters; a sampler with named sizes needs no shape.

    Raises:
      ArgumentTypeError: an argument is missing or unknown.
    """
    shape = signature.parameters.get("shape")
    if named and shape is not None and shape.default is shape.empty and len(args) < 2:
        kwargs = {"shape": (), **kwargs}
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentTypeError(
            f"{name}: {error}. Write nx.random.{name}({', '.join(signature.parameters)}), and"
            " named_shape={...} by keyword."
        ) from None


def _shape_of(
    op: str, signature: inspect.Signature, given: Mapping[str, Any], events: Mapping[str, int]
) -> tuple[int, ...]:
    """Return the positional shape of a draw.

    It is the given shape, or the common positional shape of the parameters.
    """
    shape = given.get("shape", signature.parameters["shape"].default)
    if shape is not None:
        return positional_shape(op, shape)
    shapes = []
    for name, value in given.items():
        if name in ("key", "shape") or not (
            isinstance(value, NamedArray) or hasattr(value, "dtype")
        ):
            continue
        own = tuple(value.shape)
        shapes.append(own[: len(own) - events.get(name, 0)])
    batch = np.broadcast_shapes(*shapes)
    if "p" in events and "n" in given:  # the shape of a multinomial includes the categories
        categories = (
            np.shape(given["p"]) if not isinstance(given["p"], NamedArray) else given["p"].shape
        )
        if not categories:
            raise PositionalAxisError(
                f"{op}: p={format_value(given['p'])} has no positional axis, but its last"
                " positional axis must be the categories. Write nx.positional(p, [...,"
                " 'category'])."
            )
        return (*batch, categories[-1])
    return batch


def _bernoulli(key: AnyArray, p: NamedArray, sizes: Sizes, shape: tuple[int, ...]) -> AnyArray:
    # As in jax.random, except that the comparison is made on blocks, so that the probabilities are
    # not moved.
    if not jnp.issubdtype(p.dtype, jnp.floating):
        raise ArgumentTypeError(
            f"bernoulli: the probabilities must be floating-point, got {type_text(p)}."
        )
    sizes = with_names_of(sizes, p, key)
    noise = draw(
        "bernoulli", lambda key, shape: jax.random.uniform(key, shape, p.dtype), key, sizes, shape
    )
    return apply_elementwise("bernoulli", lambda u, p: u < p, noise, p)


def _present(
    function: Any, signature: inspect.Signature, extra: str | None = None
) -> Callable[..., Any]:
    if extra is not None:
        parameters = list(signature.parameters.values())
        own = inspect.Parameter(
            extra,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation="Mapping[Hashable, int] | None",
        )
        signature = signature.replace(parameters=[*parameters, own])
    function.__signature__ = signature
    function.__module__ = (  # namedax owns it: `xmap` does not lift it again, and it pickles
        "namedax.random"
    )
    function.__qualname__ = function.__name__
    return function


def _lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Vectorize a function of keys or seeds over names."""
    inner = nmap(function)

    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    presented: Callable[..., Any] = _present(lifted, inspect.signature(function))
    return presented


@checks_signature
def split(
    key: AnyArray,
    num: int | Sequence[int] | None = None,
    *,
    named_shape: Mapping[Hashable, int] | None = None,
) -> AnyArray:
    """Split one key into new keys, along positional or named axes.

    Args:
      key: a key, or a named array of keys: each is split.
      num: the number of keys, or a positional shape of them; by default 2, or none if `named_shape`
        is given.
      named_shape: the global sizes of new named axes, by default none. The keys are
        `jax.random.split(key, sizes + num)`, with the sizes in the given order.

    Returns:
      An array of keys. In a mapped body every device keeps the keys of its block.

    >>> import jax, namedax as nx
    >>> from namedax import random
    >>> keys = random.split(jax.random.key(0), named_shape={"layer": 3})
    >>> random.normal(keys, (2,)).named_shape["layer"]
    3
    """
    sizes = sizes_of("split", named_shape)
    if num is None:
        num = () if sizes else 2
    shape = positional_shape("split", num)
    return draw("split", lambda key, shape: jax.random.split(key, shape), key, sizes, shape)


@checks_signature
def key_impl(keys: AnyArray) -> Hashable:
    """Return the generator of `keys`, as `jax.random.key_impl` does."""
    return jax.random.key_impl(keys._data if isinstance(keys, NamedArray) else keys)
