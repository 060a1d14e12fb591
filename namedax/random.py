"""The namespace `nx.random`: `jax.random` for named arrays.

Every sampler takes `named_shape={"batch": 128}` by keyword, beside its shape; keys and parameters may be named.

**The numbers.** What is drawn is `jax.random.f(key, sizes + shape)`, where `sizes` are those of `named_shape` in the order
given there. Names that only parameters have follow, sorted by their text. So the numbers depend neither on the mesh nor on
`axis_resources`, nor on the physical order of any array. A key that has names itself is one key per instance: each draws on
its own, as under `jax.vmap`, and its names belong to the result.

**What it costs.** Nothing is sent for the draw itself: in a mapped body every device draws the whole array from the same key,
and keeps its block. XLA does not cut the generator down to the block (not on CPUs, where a draw of 16384 x 64 numbers on eight
devices takes 8.7 times the operations and ten times the memory of a block). For arrays that are too large for that, draw with
one key per instance, of which every device has only its own: `normal(split(key, named_shape={"batch": 128}), shape)`. A
*parameter* with a sharded name is gathered for the draw (its gradient is a reduce-scatter), because some samplers depend on
all parameters at once; those of `bernoulli` and `categorical` are not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.array import NamedArray, check_dims, dims_of, is_name, make_in_region, type_text
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    NamedAxesLeftError,
    PositionalAxisError,
    raise_not_found,
    show_names,
)
from namedax.operands.broadcasting import local_block, wrap
from namedax.operands.nmap import nmap
from namedax.ops.collectives.permuting import gather_entries
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.take import take
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.resources.layout import relayout

Sizes = dict[Hashable, int]

# Dimensions at the end of a parameter that belong to one draw.
_EVENT = {"multivariate_normal": {"mean": 1, "cov": 2}, "dirichlet": {"alpha": 1}, "multinomial": {"p": 1}}


# --- drawing --------------------------------------------------------------------------------------------------------


def sizes_of(op: str, named_shape: Mapping[Hashable, int] | None) -> Sizes:
    """`named_shape`, checked."""
    if named_shape is None:
        return {}
    if not isinstance(named_shape, Mapping):
        raise NamedAxesLeftError(
            f"{op}: named_shape={named_shape!r} is no mapping from names to sizes; write {{'batch': 128}}. Its order decides "
            f"the numbers."
        )
    region = ambient()
    sizes: Sizes = {}
    for name, size in named_shape.items():
        check_dims((name,), op)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise AxisSizeError(f"{op}: named_shape gives axis {name!r} the size {size!r}; a size is an integer, 0 or more.")
        known = size if region is None else region.sizes.get(name, size)
        if known != size:
            raise AxisSizeError(
                f"{op}: named_shape gives axis {name!r} the size {size}, but it has size {known} in this mapped function; a "
                f"name has one "
                "size, the global one."
            )
        sizes[name] = int(size)
    return sizes


def _names(value: Any) -> list[Hashable]:
    return [dim for dim in dims_of(value) if dim is not None] if isinstance(value, NamedArray) else []


def _global_sizes(op: str, value: Any) -> Sizes:
    region = ambient()
    block = local_block(value, op, region)
    if not isinstance(block, NamedArray):
        return {}
    pairs = zip(block._dims, block._data.shape, strict=True)
    return {
        dim: n if region is None or not region.manual else region.global_size(dim, n) for dim, n in pairs if dim is not None
    }


def _place(name: Hashable) -> tuple[str, ...]:
    region = ambient()
    return region.placement(name) if region is not None and region.manual and name is not None else ()


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
    """Draws whole arrays and cuts them to the blocks of this device.

    Args:
      op: the function, for messages.
      call: `call(key, shape, **parameters)` draws a positional array, whose first dimensions are `shape`.
      key: a key, or a named array of keys: one draw for each.
      sizes: global sizes of the names to draw, in the order that decides the numbers.
      shape: the positional shape to draw.
      parameters: named arrays; their names that neither the key has nor `sizes` follow, sorted.
      events: how many dimensions at the end of a parameter belong to one draw; default 0.
      last: a name for the last dimension drawn.
      rank: the rank of `shape` as parameters see it, if it is not that of `shape`.

    Returns:
      A named array, or a plain one if there are no names.
    """
    region = ambient()
    key = local_block(key, op, region)
    if not hasattr(key, "dtype") or not (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32):
        raise ArgumentTypeError(
            f"{op}: the key is {type_text(key)}, which is not a random key; make one with jax.random.key(seed)."
        )
    parameters, events = dict(parameters or {}), events or {}
    of_key = _names(key)
    known = _global_sizes(op, key)
    found = [_global_sizes(op, parameter) for parameter in parameters.values()]
    extra = sorted(
        {name for names in found for name in names} - set(sizes) - set(of_key), key=lambda name: (str(name), repr(name))
    )
    for names in (*found, sizes):
        for name, size in names.items():
            if known.setdefault(name, size) != size:
                raise AxisSizeError(
                    f"{op}: axis {name!r} has size {known[name]} in one argument and size {size} in another; a name has one "
                    f"size. Rename one "
                    "of the two axes."
                )
    wanted = [*(name for name in sizes if name not in of_key), *extra]
    if last in (*of_key, *wanted) and last is not None:
        raise AxisSizeError(
            f"{op}: the axis {last!r} is drawn along already; choose another name in named_shape or in the key."
        )
    if region is not None and region.resources:
        region.check_placement(op, (*of_key, *wanted))
    for name in wanted:
        if region is not None:
            region.block_size(name, known[name], op)
    rank = len(shape) if rank is None else rank
    whole = {name: _spread(parameter, op, of_key, wanted, rank + events.get(name, 0)) for name, parameter in parameters.items()}
    total = (*(known[name] for name in wanted), *shape)

    def one(key: Any, **parameters: Any) -> Any:
        return call(key, total, **parameters)

    one.__name__ = op
    result = nmap(one)(key, **whole)
    data = result._data if isinstance(result, NamedArray) else result
    front = [dim for dim in dims_of(result) if dim is not None]
    dims: list[Hashable | None] = [*front, *wanted, *(None,) * (data.ndim - len(front) - len(wanted))]
    if last is not None:
        dims[-1] = last
    if region is not None and region.manual:
        old = [_place(dim) if i < len(front) else () for i, dim in enumerate(dims)]
        data = relayout(data, old, [_place(dim) for dim in dims])
    return wrap(data, tuple(dims))


def _spread(parameter: Any, op: str, of_key: list[Hashable], wanted: list[Hashable], rank: int) -> Any:
    """A parameter as a draw takes it: whole, with positional axes for the names that are drawn along."""
    region = ambient()
    block = local_block(parameter, op, region)
    dims, data = block._dims, block._data
    if region is not None and region.manual:
        old = [_place(dim) for dim in dims]
        new = [_place(dim) if dim in of_key else () for dim in dims]
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


# --- samplers -------------------------------------------------------------------------------------------------------


def _sampler(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.random.f` with `named_shape`, named keys and named parameters."""
    name = function.__name__
    signature = inspect.signature(function)
    events = _EVENT.get(name, {})

    @functools.wraps(function)
    def sampler(*args: Any, named_shape: Mapping[Hashable, int] | None = None, **kwargs: Any) -> Any:
        bound = _bind(name, signature, args, kwargs, bool(named_shape))
        given = bound.arguments
        parameters = {p: v for p, v in given.items() if p not in ("key", "shape") and isinstance(v, NamedArray)}
        if isinstance(given.get("shape"), Mapping):
            raise ArgumentTypeError(
                f"{name}: the shape is {given['shape']!r}, a mapping; sizes by name are given as named_shape={given['shape']!r}, and the shape "
                "is that of the positional axes."
            )
        sizes = sizes_of(name, named_shape)
        if not sizes and not parameters and not isinstance(given["key"], NamedArray):
            return function(*args, **kwargs)
        if given.get("out_sharding") is not None:
            raise NamedAxesLeftError(_SHARDED.format(op=name))
        fixed = {p: v for p, v in given.items() if p not in ("key", "shape") and p not in parameters}
        shape = _shape_of(signature, given, events)
        rank = len(shape) - (name == "multinomial")
        if name == "bernoulli" and "p" in parameters and given.get("mode", "low") == "low":
            return _bernoulli(given["key"], parameters["p"], sizes, shape)

        def call(key: Any, shape: Any, **parameters: Any) -> Any:
            return function(key=key, shape=shape, **fixed, **parameters)

        return draw(name, call, given["key"], sizes, shape, parameters, events, rank=rank)

    presented: Callable[..., Any] = _present(sampler, signature, "named_shape")
    return presented


def _bind(name: str, signature: inspect.Signature, args: Any, kwargs: Any, named: bool) -> inspect.BoundArguments:
    """The arguments by parameter. A sampler that is told sizes by name needs no shape.

    Raises:
      ArgumentTypeError: one is missing, or there is no such parameter.
    """
    shape = signature.parameters.get("shape")
    if named and shape is not None and shape.default is shape.empty and len(args) < 2:
        kwargs = {"shape": (), **kwargs}
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentTypeError(
            f"{name}: {error}. Write nx.random.{name}({', '.join(signature.parameters)}), and named_shape={{...}} by keyword."
        ) from None


def _shape_of(signature: inspect.Signature, given: Mapping[str, Any], events: Mapping[str, int]) -> tuple[int, ...]:
    """The positional shape of a draw: the one given, or what the parameters' positional axes have together."""
    shape = given.get("shape", signature.parameters["shape"].default)
    if shape is not None:
        return (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
    shapes = []
    for name, value in given.items():
        if name in ("key", "shape") or not (isinstance(value, NamedArray) or hasattr(value, "dtype")):
            continue
        own = tuple(value.shape)
        shapes.append(own[: len(own) - events.get(name, 0)])
    batch = np.broadcast_shapes(*shapes)
    if "p" in events and "n" in given:  # the shape of a multinomial includes the categories
        return (*batch, np.shape(given["p"])[-1] if not isinstance(given["p"], NamedArray) else given["p"].shape[-1])
    return batch


def _bernoulli(key: Any, p: NamedArray, sizes: Sizes, shape: tuple[int, ...]) -> Any:
    # As jax.random has it, but the comparison is made on blocks, so that the probabilities stay where they are.
    if not jnp.issubdtype(p.dtype, jnp.floating):
        raise ArgumentTypeError(f"bernoulli: the probabilities are {type_text(p)}; they have to be floating-point numbers.")
    sizes = _with_names_of(sizes, p, key)
    noise = draw("bernoulli", lambda key, shape: jax.random.uniform(key, shape, p.dtype), key, sizes, shape)
    return apply_elementwise("bernoulli", lambda u, p: u < p, noise, p)


def _with_names_of(sizes: Sizes, value: Any, key: Any, but: Hashable | None = None) -> Sizes:
    own = {
        name: n
        for name, n in _global_sizes("random", value).items()
        if name != but and name not in sizes and name not in _names(key)
    }
    return sizes | {name: own[name] for name in sorted(own, key=lambda name: (str(name), repr(name)))}


def _present(function: Any, signature: inspect.Signature, extra: str | None = None) -> Any:
    if extra is not None:
        parameters = list(signature.parameters.values())
        own = inspect.Parameter(extra, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Mapping[Hashable, int] | None")
        signature = signature.replace(parameters=[*parameters, own])
    function.__signature__ = signature
    function.__module__ = __name__  # it belongs to namedax: `xmap` does not lift it again, and it pickles
    function.__qualname__ = function.__name__
    return function


def _lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of keys or seeds, vectorised over names."""
    inner = nmap(function)

    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    presented: Callable[..., Any] = _present(lifted, inspect.signature(function))
    return presented


# --- keys -----------------------------------------------------------------------------------------------------------


def split(key: Any, num: int | Sequence[int] | None = None, *, named_shape: Mapping[Hashable, int] | None = None) -> Any:
    """New keys from one key, along positional axes or names.

    Args:
      key: a key, or a named array of keys: each is split.
      num: how many, or a positional shape of them; default: 2, or none where `named_shape` is given.
      named_shape: global sizes of new names. The keys are `jax.random.split(key, sizes + num)`, sizes in the order given.

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
    shape = (int(num),) if np.ndim(num) == 0 else tuple(int(n) for n in num)  # type: ignore[arg-type, union-attr]
    return draw("split", lambda key, shape: jax.random.split(key, shape), key, sizes, shape)


def key_impl(keys: Any) -> Any:
    """The generator that `keys` are for, as `jax.random.key_impl` says."""
    return jax.random.key_impl(keys._data if isinstance(keys, NamedArray) else keys)


# --- samplers along an axis -----------------------------------------------------------------------------------------


_SHARDED = "{op}: out_sharding is for arrays without names; axis_resources place named ones."


def _refuse_sharding(op: str, out_sharding: Any) -> None:
    if out_sharding is not None:
        raise NamedAxesLeftError(_SHARDED.format(op=op))


def _sharding(out_sharding: Any) -> dict[str, Any]:
    """As an argument, if it is given: not every release of JAX has it."""
    return {} if out_sharding is None else {"out_sharding": out_sharding}


def categorical(
    key: Any,
    logits: Any,
    axis: Any = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
    named_shape: Mapping[Hashable, int] | None = None,
) -> Any:
    """Indices along an axis of `logits`, drawn with the probabilities `softmax(logits, axis)`.

    Args:
      key: a key, or a named array of keys.
      logits: unnormalised log probabilities, named or not.
      axis: the axis of the categories, a position or a name.
      shape: as in `jax.random.categorical`: the positional shape of the result, which ends with that of `logits` without
        `axis`.
      replace: whether one instance can draw a category several times.
      mode: as in `jax.random.categorical`.
      named_shape: sizes of the names to draw along.
      out_sharding: as in `jax.random.categorical`, for arrays without names.

    Returns:
      Integers with the names of `named_shape` and of `logits`. The numbers are those of `jax.random.categorical` for the array
      that has the names in front (those of `named_shape` in the order given, then the others, sorted) and, if `axis` is a
      name, the categories last.

    Sharded: every device adds its block of the noise to its block of the logits, and offers its best category: two all-reduces
      of
    the result where the categories are sharded, otherwise nothing. Without replacement the logits are gathered.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> logits = nx.named(jnp.log(jnp.array([[1.0, 0, 0], [0, 0, 1.0]])), ["batch", "classes"])
    >>> nx.positional(random.categorical(jax.random.key(0), logits, "classes"), ["batch"])
    Array([0, 2], dtype=int32)
    """
    sizes = sizes_of("categorical", named_shape)
    if not sizes and not isinstance(key, NamedArray) and not isinstance(logits, NamedArray):
        return jax.random.categorical(key, logits, axis, shape, replace, mode, **_sharding(out_sharding))
    _refuse_sharding("categorical", out_sharding)
    by_name = is_name(axis)
    logits = logits if isinstance(logits, NamedArray) else jnp.asarray(logits)
    positional = tuple(logits.shape)
    if by_name:
        own = _global_sizes("categorical", logits)
        if axis not in own:
            raise_not_found("categorical", axis, type_text(logits), list(own))
        count, batch = own[axis], positional
    else:
        if not -len(positional) <= axis < len(positional):
            raise PositionalAxisError(
                f"categorical: axis {axis} is out of range for {type_text(logits)}. Write the name of the axis if it has one."
            )
        axis = axis % len(positional) - len(positional)
        count, batch = positional[axis], tuple(np.delete(positional, axis))
    full = batch if shape is None else tuple(int(n) for n in shape)
    if full[len(full) - len(batch) :] != np.broadcast_shapes(full[len(full) - len(batch) :], batch) or len(full) < len(batch):
        raise PositionalAxisError(
            f"categorical: shape {full} does not end with {batch}, the positional shape of the logits without the categories."
        )
    if not replace:
        return _categorical_without_replacement(key, logits, axis if by_name else None, axis, full, batch, mode, sizes)
    names = _with_names_of(sizes, logits, key, axis if by_name else None)
    at = len(full) if by_name else len(full) + 1 + axis
    noise = draw(
        "categorical",
        lambda key, shape: jax.random.gumbel(key, shape, logits.dtype, mode=mode),
        key,
        names,
        (*full[:at], count, *full[at:]),
        last=axis if by_name else None,
    )
    return REDUCTIONS["argmax"](apply_elementwise("categorical", jnp.add, noise, logits), axis)


def _categorical_without_replacement(
    key: Any,
    logits: Any,
    name: Hashable | None,
    axis: Any,
    full: tuple[int, ...],
    batch: tuple[int, ...],
    mode: Any,
    sizes: Sizes,
) -> Any:
    op = "categorical"
    of_key = _names(local_block(key, op, ambient()))
    own = list(_with_names_of({}, logits, key, name))
    samples = [n for n in sizes if n not in own and n not in of_key]
    prefix = full[: len(full) - len(batch)]

    def call(key: Any, shape: Any, logits: Any) -> Any:
        whole = tuple(n for i, n in enumerate(logits.shape) if i != logits.ndim - 1)
        return jax.random.categorical(key, logits, -1, (*(sizes[n] for n in samples), *prefix, *whole), False, mode)

    # One dimension after the other: names of the logits, their positional axes, the categories.
    if name is not None:
        logits = make_in_region(*_gather_last(logits, name)) if isinstance(logits, NamedArray) else logits
    else:
        logits = nmap(lambda x: jnp.moveaxis(x, axis, -1))(logits)
    wanted = _with_names_of({}, logits, key)
    spread = _spread(logits, op, of_key, list(wanted), len(batch) + 1) if isinstance(logits, NamedArray) else logits

    def one(key: Any, logits: Any) -> Any:
        return call(key, None, logits)

    result = nmap(one)(key, spread)
    data, front = (result._data, _names(result)) if isinstance(result, NamedArray) else (result, [])
    dims = [*front, *samples, *(None,) * len(prefix), *wanted]
    dims += [None] * (data.ndim - len(dims))
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, [dim for dim in dims if dim is not None])
    if region is not None and region.manual:
        old = [_place(dim) if i < len(front) else () for i, dim in enumerate(dims)]
        data = relayout(data, old, [_place(dim) for dim in dims])
    return wrap(data, tuple(dims))


def _gather_last(x: NamedArray, name: Hashable) -> tuple[Any, tuple[Any, ...]]:
    """`x` with the axis `name` whole and positional, behind all others."""
    block = local_block(x, "categorical", ambient())
    dims, data = block._dims, block._data
    i = dims.index(name)
    old = [_place(dim) for dim in dims]
    data = relayout(data, old, [() if j == i else place for j, place in enumerate(old)])
    return jnp.moveaxis(data, i, -1), (*dims[:i], *dims[i + 1 :], None)


def permutation(key: Any, x: Any, axis: Any = 0, independent: bool = False, *, out_sharding: Any = None) -> Any:
    """Permutes `x` at random along an axis.

    Args:
      key: a key, or a named array of keys: one permutation for each.
      x: an array, named or not, or an integer `n` for the numbers below `n`.
      axis: a position or a name. For an integer `x`, a name is that of the result's axis.
      independent: whether every slice along `axis` is permuted by itself, as in `jax.random.permutation`; then the array that
        is permuted has the names in front, sorted.
      out_sharding: as in `jax.random.permutation`, for arrays without names.

    Returns:
      An array of the same type. Unless `independent`, all instances are permuted alike, by `jax.random.permutation(key, size)`.

    Along a sharded name the permutation is not known when the program is compiled: one reduce-scatter, of the whole axis. With
    `independent` the array is gathered.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> x = nx.named(jnp.arange(4), ["batch"])
    >>> sorted(nx.positional(random.permutation(jax.random.key(0), x, "batch"), ["batch"]).tolist())
    [0, 1, 2, 3]
    """
    op = "permutation"
    by_name = is_name(axis)
    if not by_name and not isinstance(key, NamedArray) and not isinstance(x, NamedArray):
        return jax.random.permutation(key, x, axis, independent, **_sharding(out_sharding))
    _refuse_sharding(op, out_sharding)
    if np.ndim(x._data if isinstance(x, NamedArray) else x) == 0:
        call = lambda key, shape: jax.random.permutation(key, x)  # noqa: E731
        return draw(op, call, key, {}, (), last=axis if by_name else None)
    if independent:
        return _permute_slices(key, x, axis)
    if not by_name:
        return nmap(lambda key, x: jax.random.permutation(key, x, axis))(key, x)
    sizes = _global_sizes(op, x)
    if axis not in sizes:
        raise_not_found(op, axis, type_text(x), list(sizes))
    if axis in _names(key):
        raise AxisNotFoundError(
            f"{op}: the key has the axis {axis!r}, which is to be permuted; a permutation needs one key for all of it."
        )
    order = nmap(lambda key: jax.random.permutation(key, sizes[axis]))(key)
    data, names = (order._data, order._dims) if isinstance(order, NamedArray) else (order, (None,))
    x = local_block(x, op, ambient())
    return gather_entries(op, x, make_in_region(data, (*names[:-1], axis)), axis, whole=True)


def _permute_slices(key: Any, x: Any, axis: Any) -> Any:
    op = "permutation"
    x = local_block(x, op, ambient())
    dims = dims_of(x)
    names = list(_with_names_of({}, x, key))
    rank = dims.count(None)
    if is_name(axis) and axis not in names:
        raise_not_found(op, axis, type_text(x), names)
    if not is_name(axis) and not -rank <= axis < rank:
        raise PositionalAxisError(
            f"{op}: axis {axis} is out of range for {type_text(x)}. Write the name of the axis if it has one."
        )
    at = names.index(axis) if is_name(axis) else len(names) + axis % rank
    if not isinstance(x, NamedArray):
        return draw(op, lambda key, shape: jax.random.permutation(key, x, at, True), key, {}, ())
    return draw(op, lambda key, shape, x: jax.random.permutation(key, x, at, True), key, {}, (), {"x": x}, rank=rank)


def choice(
    key: Any,
    a: Any,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: Any = None,
    axis: Any = 0,
    mode: str | None = None,
    *,
    named_shape: Mapping[Hashable, int] | None = None,
) -> Any:
    """Random entries of `a` along an axis, or random numbers below `a`.

    Args:
      key: a key, or a named array of keys.
      a: an array, named or not, or an integer.
      shape: the positional shape to draw. It stands where `axis` stood, or in front of the positional axes of `a` if that is a
        name.
      replace: whether an entry can be drawn several times.
      p: probabilities along `axis`, with that name or one positional axis; default: all equal.
      axis: a position or a name.
      mode: as in `jax.random.choice`.
      named_shape: sizes of the names to draw along. It may contain `axis`: a resampled axis.

    Returns:
      `a` at the indices `jax.random.choice(key, size, sizes + shape, replace, p)`. Names of `a` that are drawn along are batch
      axes.

    Along a sharded name every device reads what it has, and one all-reduce of the result puts that together (one reduce-scatter
    where the axis itself is drawn along); `a` is not gathered, `p` is.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> x = nx.named(jnp.arange(6).reshape(3, 2), ["batch", "k"])
    >>> random.choice(jax.random.key(0), x, axis="batch", named_shape={"batch": 5}).named_shape["batch"]
    5
    """
    op = "choice"
    sizes = sizes_of(op, named_shape)
    if not sizes and not any(isinstance(v, NamedArray) for v in (key, a, p)):
        return jax.random.choice(key, a, shape, replace, p, axis, mode)
    is_count = np.ndim(a._data if isinstance(a, NamedArray) else a) == 0
    by_name = is_name(axis)
    if is_count:
        count = a
    elif by_name:
        own = _global_sizes(op, a)
        if axis not in own:
            raise_not_found(op, axis, type_text(a), list(own))
        count = own[axis]
    else:
        positional = tuple(a.shape) if isinstance(a, NamedArray) else np.shape(a)
        if not -len(positional) <= axis < len(positional):
            raise PositionalAxisError(
                f"{op}: axis {axis} is out of range for {type_text(a)}. Write the name of the axis if it has one."
            )
        count = positional[axis]
    if isinstance(p, NamedArray):
        if by_name and axis in _names(p):
            p = make_in_region(*_gather_last(p, axis))
            p = p if _names(p) else p._data
        left = [name for name in _names(p) if name not in _names(key)]
        if left:
            raise NamedAxesLeftError(
                f"{op}: the probabilities have the axes {show_names(left)}, which the key has not. Give a key for each "
                f"(random.split with "
                "named_shape), or use random.categorical(key, log(p), axis)."
            )
    parameters = {"p": p} if isinstance(p, NamedArray) else {}
    fixed = {} if parameters else {"p": p}

    def call(key: Any, shape: Any, **parameters: Any) -> Any:
        return jax.random.choice(key, count, shape, replace, mode=mode, **fixed, **parameters)

    index = draw(op, call, key, sizes, tuple(shape), parameters)
    if is_count:
        return index
    if not by_name:
        return take(a, index, axis)
    return gather_entries(op, local_block(a, op, ambient()), index, axis)


# --- the namespace --------------------------------------------------------------------------------------------------

_OWN = (split, key_impl, categorical, permutation, choice)


def _fill() -> None:
    """Every public name of `jax.random`: what draws gets `named_shape`, what takes keys or seeds is vectorised over names."""
    done = {function.__name__ for function in _OWN}
    for name in dir(jax.random):
        value = getattr(jax.random, name)
        if name.startswith("_") or name in done or inspect.ismodule(value):
            continue
        if not inspect.isroutine(value) and not hasattr(value, "__wrapped__"):
            globals()[name] = value
            continue
        parameters = inspect.signature(value).parameters
        if "key" in parameters and "shape" in parameters:
            globals()[name] = _sampler(value)
        else:
            globals()[name] = value if name == "key_dtype" else _lifted(value)
        done.add(name)


_fill()
__all__ = sorted(
    name for name in dir(jax.random) if not name.startswith("_") and not inspect.ismodule(getattr(jax.random, name))
)
