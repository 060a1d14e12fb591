"""The functions of `jax.random` over names: every device draws complete arrays and keeps its block.

**The numbers.** A draw is `jax.random.f(key, sizes + shape)`, with the sizes of `named_shape` in
the given order. Names that only parameters have follow, sorted by their text. So the numbers depend
neither on the mesh nor on `axis_resources`, nor on the physical order of any array. A key with
named axes is one key per instance: each instance draws independently, as under `jax.vmap`, and the
result has these axes.

**The cost.** The draw itself does not communicate. In a mapped body every device draws the complete
array from the same key, and keeps its block. XLA does not restrict the generator to the block. On
eight CPU devices, a draw of 16384 x 64 numbers takes 8.7 times the operations and ten times the
memory of a block. For larger arrays, draw with one key per instance, so that every device has only
its own keys: `normal(split(key, named_shape={"batch": 128}), shape)`. A *parameter* with a sharded
axis is gathered for the draw (its gradient is a reduce-scatter), because some samplers depend on
all parameters at once. The parameters of `bernoulli` and `categorical` are not gathered.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.jax_docstrings import documented
from namedax.core.name_scopes import in_scope, is_in_program, names_in, scope_text
from namedax.core.names import Dims
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    NamedAxesLeftError,
    PositionalAxisError,
    format_value,
)
from namedax.messages.call_errors import checks_signature, reject_no_element_type
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.dispatch import call_program, in_program
from namedax.ops.operands.new_axis import check_shape, named_sizes, positional_shape
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of, stored_leaf
from namedax.resources.layout import relayout
from namedax.resources.mesh import replicated

__all__ = [
    *("OutSharding", "Sizes", "draw", "gather_last", "global_sizes", "key_impl", "named_version"),
    *("names_of", "place_of", "reject_sharding", "sharding_argument", "sizes_of", "split"),
    *("spread_parameter", "with_names_of", "wrap_drawn"),
]


Sizes = dict[Hashable, int]
#: The argument `out_sharding` of samplers.
OutSharding = jax.sharding.Sharding | jax.sharding.PartitionSpec


def sizes_of(op: str, named_shape: Mapping[Hashable, int | None] | None) -> Sizes:
    """Validate `named_shape`; `None` gives an empty dict."""
    return {} if named_shape is None else named_sizes(op, named_shape)


def names_of(value: ArrayLike) -> list[Hashable]:
    """Return the names of an array, in their physical order."""
    return [dim for dim in dims_of(value) if dim is not None]


def global_sizes(op: str, value: ArrayLike) -> Sizes:
    """Return the global size of each named axis of an array."""
    region = ambient()
    block = to_local(value, op, region)
    if not isinstance(block, NamedArray):
        return {}
    pairs = zip(block._dims, block._data.shape, strict=True)
    return {
        dim: n if region is None or not region.manual else region.global_size(dim, n)
        for dim, n in pairs
        if dim is not None
    }


def place_of(name: Hashable) -> tuple[str, ...]:
    """Return the mesh axes to slice a complete draw to blocks of `name`, with padding."""
    region = ambient()
    return region.place(name) if region is not None and region.manual and name is not None else ()


@operation(name="draw", explicit=Explicit.AS_JAX)
def draw(
    op: str,
    call: Callable[..., jax.Array],
    key: ArrayLike,
    sizes: Sizes,
    shape: Sequence[int],
    parameters: Mapping[str, NamedArray] | None = None,
    events: Mapping[str, int] | None = None,
    last: Hashable | None = None,
    rank: int | None = None,
) -> AnyArray:
    """Draw complete arrays, and slice them to the blocks of this device.

    Args:
      op: the function, for messages.
      call: `call(key, shape, **parameters)` draws a positional array with `shape` as its first
        dimensions.
      key: a key, or a named array of keys: one draw for each.
      sizes: the global sizes of the names to draw, in the order that determines the numbers.
      shape: the positional shape to draw.
      parameters: named arrays; their names that neither the key nor `sizes` has follow, sorted.
      events: the number of dimensions at the end of a parameter that belong to one draw; by default
        0.
      last: a name for the last dimension of the draw.
      rank: the rank of `shape` for parameters, if it differs from the rank of `shape`.

    Returns:
      A named array, or a plain one if there are no named axes.
    """
    given = (op, call, key, sizes, shape, parameters, events, last, rank)
    if not is_in_program((key, *(parameters or {}).values())):
        return _draw(*given)
    return in_scope(scope_text(op, names_in((*sizes, last)), __name__), _draw, *given)


def _draw(
    op: str,
    call: Callable[..., jax.Array],
    key: ArrayLike,
    sizes: Sizes,
    shape: Sequence[int],
    parameters: Mapping[str, NamedArray] | None,
    events: Mapping[str, int] | None,
    last: Hashable | None,
    rank: int | None,
) -> AnyArray:
    key = _checked_key(op, key)
    parameters, events = dict(parameters or {}), events or {}
    known = _all_sizes(op, key, sizes, parameters)
    of_key = names_of(key)
    named = {name for parameter in parameters.values() for name in global_sizes(op, parameter)}
    extra = sorted(named - set(sizes) - set(of_key), key=lambda name: (str(name), repr(name)))
    wanted = [*(name for name in sizes if name not in of_key), *extra]
    if last in (*of_key, *wanted) and last is not None:
        raise AxisSizeError(
            f"{op}: the axis {last!r} already occurs in named_shape or in the key. Choose another"
            " name there."
        )
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, (*of_key, *wanted))
    for name in wanted:
        if region is not None:
            region.block_size(name, known[name], op, supports_padding=True)
    rank = len(shape) if rank is None else rank
    whole = {
        name: spread_parameter(parameter, op, of_key, wanted, rank + events.get(name, 0))
        for name, parameter in parameters.items()
    }
    total = (*(known[name] for name in wanted), *shape)

    def one(key: jax.Array, **parameters: jax.Array) -> jax.Array:
        return call(key, total, **parameters)

    one.__name__ = op
    result = nmap(one)(key, **whole)
    data = data_of(result)
    front = [dim for dim in dims_of(result) if dim is not None]
    dims: list[Hashable | None] = [
        *front,
        *wanted,
        *(None,) * (data.ndim - len(front) - len(wanted)),
    ]
    if last is not None:
        dims[-1] = last
    return wrap_drawn(data, dims, len(front))


def _checked_key(op: str, key: Any) -> AnyArray:
    """Return the key as seen in the body.

    Raises:
      ArgumentTypeError: it is not a key.
    """
    key = to_local(key, op, ambient())
    if not hasattr(key, "dtype") or not (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32
    ):
        raise ArgumentTypeError(
            f"{op}: the key is {type_text(key)}, which is not a random key; make one with"
            " jax.random.key(seed)."
        )
    return key


def _all_sizes(op: str, key: AnyArray, sizes: Sizes, parameters: Mapping[str, NamedArray]) -> Sizes:
    """Return the size of every named axis of a draw.

    Raises:
      AxisSizeError: an axis has two sizes.
    """
    known = global_sizes(op, key)
    for names in (*(global_sizes(op, parameter) for parameter in parameters.values()), sizes):
        for name, size in names.items():
            if known.setdefault(name, size) != size:
                raise AxisSizeError(
                    f"{op}: axis {name!r} has size {known[name]} in one argument and size {size} in"
                    " another; a name has one size. Rename one of the two axes."
                )
    return known


def wrap_drawn(data: jax.Array, dims: Sequence[Hashable | None], blocked: int) -> AnyArray:
    """Slice a draw to blocks and name it.

    Its first `blocked` axes are blocks already, and the others are complete.
    """
    region = ambient()
    if region is not None and region.manual:
        old = [place_of(dim) if i < blocked else () for i, dim in enumerate(dims)]
        data = relayout(data, old, [place_of(dim) for dim in dims])
    return make_result(data, tuple(dims))


def spread_parameter(
    parameter: NamedArray, op: str, of_key: list[Hashable], wanted: list[Hashable], rank: int
) -> AnyArray:
    """Gather a parameter for a draw, with positional axes for the names to draw along."""
    region = ambient()
    block = to_local(parameter, op, region)
    dims, data = block._dims, block._data
    if region is not None and region.manual:
        old = [place_of(dim) for dim in dims]
        new = [place_of(dim) if dim in of_key else () for dim in dims]
        data = relayout(data, old, new, frozenset(axis for place in old for axis in place))
    else:  # JAX has no rejection samplers with parameters that are sharded over Explicit axes
        data = replicated(data)
    kept = [i for i, dim in enumerate(dims) if dim in of_key]
    named = [dims.index(name) for name in wanted if name in dims]
    places = [i for i, dim in enumerate(dims) if dim is None]
    data = lax.transpose(data, kept + named + places)
    out = tuple(dims[i] for i in kept)
    if named:
        whole = iter(data.shape[len(kept) : len(kept) + len(named)])
        middle = [next(whole) if name in dims else 1 for name in wanted]
        tail = data.shape[len(kept) + len(named) :]
        data = data.reshape((*data.shape[: len(kept)], *middle, *(1,) * (rank - len(tail)), *tail))
    positional = (None,) * (data.ndim - len(out))
    return make_in_region(data, out + positional) if out else data


def with_names_of(
    sizes: Sizes, value: ArrayLike, key: AnyArray, but: Hashable | None = None
) -> Sizes:
    """Return `sizes` followed by the other names of `value`, sorted.

    These are the named axes to draw, in the order of the numbers.
    """
    own = {
        name: n
        for name, n in global_sizes("random", value).items()
        if name != but and name not in sizes and name not in names_of(key)
    }
    return sizes | {
        name: own[name] for name in sorted(own, key=lambda name: (str(name), repr(name)))
    }


def gather_last(x: NamedArray, name: Hashable) -> tuple[jax.Array, Dims]:
    """Gather the axis `name` of `x`, and move it to the end as a positional axis."""
    block = to_local(x, "categorical", ambient())
    dims, data = block._dims, block._data
    i = dims.index(name)
    old = [place_of(dim) for dim in dims]
    data = relayout(data, old, [() if j == i else place for j, place in enumerate(old)])
    return jnp.moveaxis(data, i, -1), (*dims[:i], *dims[i + 1 :], None)


_SHARDED = (
    "{op}: out_sharding is only for arrays without named axes. Shard named arrays with"
    " axis_resources."
)


def reject_sharding(op: str, out_sharding: object) -> None:
    """Raise if `out_sharding` is given for arrays with named axes."""
    if out_sharding is not None:
        raise NamedAxesLeftError(_SHARDED.format(op=op))


def sharding_argument(out_sharding: OutSharding | None) -> dict[str, Any]:
    """Return `out_sharding` as keyword arguments if it is given.

    Some releases of JAX lack it.
    """
    return {} if out_sharding is None else {"out_sharding": out_sharding}


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

    def run(*args: Any, named_shape: Mapping[Hashable, int] | None = None, **kwargs: Any) -> Any:
        bound = _bind(name, signature, args, kwargs, bool(named_shape))
        given = bound.arguments
        reject_no_element_type(name, signature, given, True)
        parameters = {
            p: v
            for p, v in given.items()
            if p not in ("key", "shape") and isinstance(v, NamedArray)
        }
        check_shape(name, given.get("shape"))
        sizes = sizes_of(name, named_shape)
        if not sizes and not parameters and not isinstance(given["key"], NamedArray):
            return function(*args, **kwargs)
        reject_sharding(name, given.get("out_sharding"))
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

    @functools.wraps(function)
    def sampler(*args: Any, **kwargs: Any) -> Any:
        return call_program(run, args, kwargs)

    has_parameters = (
        len(set(signature.parameters) - {"key", "shape", "dtype", "out_sharding", "mode"}) > 0
    )
    gathered = (
        "a parameter with a sharded axis is gathered (one all-gather)."
        if has_parameters and name != "bernoulli"
        else "none."
    )
    sampler.__doc__ = (
        f"{_with_named_shape(inspect.getdoc(function) or '')}\n\n"
        f"The named version of `jax.random.{name}`. The numbers do not depend on the sharding.\n\n"
        f"Communication: {gathered}"
    )
    presented: Callable[..., Any] = checks_signature(_present(sampler, signature, "named_shape"))
    return presented


def _with_named_shape(doc: str) -> str:
    """Return the docstring of a sampler of JAX with an entry for `named_shape` in `Args:`."""
    entry = (
        "  named_shape: the sizes of named axes, by name, in addition to the positional axes of\n"
        "    `shape`; `None` as a size takes the size in the mapped function. Default: none.\n"
    )
    return re.sub(r"(?m)^Args:\n(?:[ ]+\S.*\n|\n(?=[ ]))*", lambda match: match[0] + entry, doc)


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

    lifted.__doc__ = documented(
        function,
        f"The named version of `jax.random.{function.__name__}`, with the same arguments.\n"
        "Named axes are batch axes.",
    )
    presented: Callable[..., Any] = _present(lifted, inspect.signature(function))
    return presented


@checks_signature
@in_program
def split(
    key: EitherArray,
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

    Communication: none.

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
def key_impl(keys: EitherArray) -> Hashable:
    """Return the generator of `keys`, as `jax.random.key_impl` does.

    Args:
      keys: an array of keys, named or not.

    Communication: none.
    """
    return jax.random.key_impl(stored_leaf(keys))
