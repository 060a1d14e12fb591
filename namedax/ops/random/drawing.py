"""Draws of complete arrays from one key on every device, which keeps its block.

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

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.name_scopes import in_scope, is_in_program, names_in, scope_text
from namedax.core.region import ambient
from namedax.errors import ArgumentTypeError, AxisSizeError, NamedAxesLeftError
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.new_axis import named_sizes
from namedax.operands.nmap import nmap
from namedax.operands.operation import Explicit, operation
from namedax.resources.layout import relayout

__all__ = [
    "Sizes", "draw", "gather_last", "global_sizes", "names_of", "place_of", "refuse_sharding", "sharding_argument", "sizes_of",
    "spread_parameter", "with_names_of", "wrap_drawn",
]  # fmt: skip

Sizes = dict[Hashable, int]


def sizes_of(op: str, named_shape: Mapping[Hashable, int | None] | None) -> Sizes:
    """Validate `named_shape`; `None` gives an empty dict."""
    return {} if named_shape is None else named_sizes(op, named_shape)


def names_of(value: Any) -> list[Hashable]:
    """Return the names of an array, in their physical order."""
    return (
        [dim for dim in dims_of(value) if dim is not None] if isinstance(value, NamedArray) else []
    )


def global_sizes(op: str, value: Any) -> Sizes:
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
    """Return the mesh axes of the blocks of `name`; a complete draw is sliced to them, with padding."""
    region = ambient()
    return region.place(name) if region is not None and region.manual and name is not None else ()


@operation(name="draw", explicit=Explicit.AS_JAX)
def draw(
    op: str,
    call: Callable[..., Any],
    key: Any,
    sizes: Sizes,
    shape: Sequence[int],
    parameters: Mapping[str, NamedArray] | None = None,
    events: Mapping[str, int] | None = None,
    last: Hashable | None = None,
    rank: int | None = None,
) -> Any:
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
    call: Callable[..., Any],
    key: Any,
    sizes: Sizes,
    shape: Sequence[int],
    parameters: Mapping[str, NamedArray] | None,
    events: Mapping[str, int] | None,
    last: Hashable | None,
    rank: int | None,
) -> Any:
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

    def one(key: Any, **parameters: Any) -> Any:
        return call(key, total, **parameters)

    one.__name__ = op
    result = nmap(one)(key, **whole)
    data = result._data if isinstance(result, NamedArray) else result
    front = [dim for dim in dims_of(result) if dim is not None]
    dims: list[Hashable | None] = [
        *front,
        *wanted,
        *(None,) * (data.ndim - len(front) - len(wanted)),
    ]
    if last is not None:
        dims[-1] = last
    return wrap_drawn(data, dims, len(front))


def _checked_key(op: str, key: Any) -> Any:
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


def _all_sizes(op: str, key: Any, sizes: Sizes, parameters: Mapping[str, Any]) -> Sizes:
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


def wrap_drawn(data: Any, dims: Sequence[Hashable | None], blocked: int) -> Any:
    """Slice a draw to blocks and name it; its first `blocked` axes are blocks already, and the others are complete."""
    region = ambient()
    if region is not None and region.manual:
        old = [place_of(dim) if i < blocked else () for i, dim in enumerate(dims)]
        data = relayout(data, old, [place_of(dim) for dim in dims])
    return make_result(data, tuple(dims))


def spread_parameter(
    parameter: Any, op: str, of_key: list[Hashable], wanted: list[Hashable], rank: int
) -> Any:
    """Gather a parameter for a draw, with positional axes for the names to draw along."""
    region = ambient()
    block = to_local(parameter, op, region)
    dims, data = block._dims, block._data
    if region is not None and region.manual:
        old = [place_of(dim) for dim in dims]
        new = [place_of(dim) if dim in of_key else () for dim in dims]
        data = relayout(data, old, new, frozenset(axis for place in old for axis in place))
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


def with_names_of(sizes: Sizes, value: Any, key: Any, but: Hashable | None = None) -> Sizes:
    """Return `sizes` followed by the other names of `value`, sorted: the named axes to draw, in the order of the numbers."""
    own = {
        name: n
        for name, n in global_sizes("random", value).items()
        if name != but and name not in sizes and name not in names_of(key)
    }
    return sizes | {
        name: own[name] for name in sorted(own, key=lambda name: (str(name), repr(name)))
    }


def gather_last(x: NamedArray, name: Hashable) -> tuple[Any, tuple[Any, ...]]:
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


def refuse_sharding(op: str, out_sharding: Any) -> None:
    """Raise if `out_sharding` is given for arrays with named axes."""
    if out_sharding is not None:
        raise NamedAxesLeftError(_SHARDED.format(op=op))


def sharding_argument(out_sharding: Any) -> dict[str, Any]:
    """Return `out_sharding` as keyword arguments if it is given, because some releases of JAX lack it."""
    return {} if out_sharding is None else {"out_sharding": out_sharding}
