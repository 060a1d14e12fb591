"""Control flow over named axes: `scan` and `fold`, and loops; branches are in `branches`.

**Named predicates.** A loop with a named condition continues until it is false for every element,
and finished elements keep their carry, as under `jax.vmap`.

**Carries** gain names as described in `carries`. `namedax.programs.loop_casts` hoists casts out of
a loop's body.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import to_type
from namedax.core.memory_kinds import is_on_host
from namedax.core.names import PyTree
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import ambient, hiding
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast, cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    NamedAxesLeftError,
    did_you_mean,
    format_value,
)
from namedax.ops.loops.carries import Carry, Element, Grow, ValueType, fix_carry_type
from namedax.ops.loops.remat import REMAT_CHOICES, Remat, has_host_arrays, recomputed
from namedax.ops.operands.along_axes import Entries
from namedax.ops.operands.broadcasting import as_block, make_result, to_local
from namedax.ops.operands.open_options import open_call
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import array_of, data_of, flatten, names_of, scalar_of
from namedax.programs.evaluator import LATE_SUMS, collective_axes
from namedax.programs.loop_casts import Body, Hoist, Hoisted
from namedax.programs.prefetch import scan_ahead
from namedax.resources import communication as comm
from namedax.resources.mesh import is_tracked
from namedax.resources.padding import padded
from namedax.resources.padding_masks import refilled
from namedax.resources.serial import loops_of

__all__ = [
    "fold",
    "fori_loop",
    "from_device",
    "optimization_barrier",
    "pair_of",
    "scan",
    "scan_along",
    "scan_entries",
    "while_loop",
]


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("init", "xs"), takes_host=True)
def scan(
    f: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    axis: Hashable = 0,
    prefetch: int | None = None,
    remat: Remat | None = None,
) -> tuple[PyTree, PyTree]:
    """Apply a function along an axis in sequence, and carry a state: `lax.scan` over named axes.

    Args:
      f: takes the carry and one element of `xs`, arrays without the axis; returns the next carry
        and a result.
      init: the initial carry. It is broadcast along axes that the carry gains; if `f` loses an
        axis, its result is broadcast back.
      xs: a pytree of arrays that have the axis, by default `None`. Over a named axis, arrays that
        lack it are the same for every step.
      length: the number of steps, if there are no `xs`; by default the size of the axis.
      reverse: if `True`, scan from the end; by default `False`.
      unroll: as in `lax.scan`; by default 1.
      axis: an axis name, or 0 (default) for the first positional axis.
      prefetch: 0 (default), or 1 to gather the parameters of a step while the step before it
        computes; see "Prefetch".
      remat: the values of a step to recompute in the backward pass instead of storing them, by
        default `"none"`. `"full"` or `True`: all, as with `jax.checkpoint(f)`. `"dots"`: all except
        the results of matrix products without batch dimensions. `"gathers"`: only all-gathers, such
        as those of parameters in FSDP. A policy of `jax.checkpoint_policies` decides itself. Values
        and gradients do not change.

    Returns:
      The last carry, and the results of all steps, which have the axis as their first positional
      axis, or by name.

    Communication: on a sharded axis the scan stays sequential: each block is broadcast in turn to
    all devices, which all compute its steps. This costs one all-reduce of a block for every device,
    in a loop. Each device keeps its own block of the results. If the function is associative,
    `associative_scan` sends only one element per device. Outside of a mapped function an axis that
    is sharded over Explicit mesh axes is gathered, and the carry is resharded if `f` returns
    another sharding.

    Prefetch: with `prefetch=1`, inside `xmap`, collectives of the body that depend on `xs` alone,
    such as the gathers of FSDP, run one step ahead. No computation of their step waits for them.
    The backward pass computes each step again, as with `jax.checkpoint(f)`. It gathers one step
    ahead, and reduces the gradient of a step while it computes the step before. Each device holds
    one more gathered step, and in the backward pass one more gradient of a step. Values do not
    change, and the same number of bytes is sent as with `jax.checkpoint(f)`, less one gather of a
    step. A policy of `jax.checkpoint` around a part that gathers is ignored. If the body gathers
    nothing, `prefetch` has no effect. Forward-mode derivatives raise a `TypeError` of JAX.

    Host memory: arrays of `xs` in the memory of the host (`memory_kind` of `nx.shard`) are copied
    to the device slice by slice, each in its step, or one step before it with `prefetch=1`, also
    outside of `xmap`. The backward pass copies each slice again. The axis must be the first one of
    the dims, and not sharded; otherwise the array is copied before the loop.

    If a program does not pass `prefetch` or `remat`, `nx.plan` also tries other values, for each
    line with such a call.

    Raises:
      AxisNotFoundError: no array of `xs` has the axis.
      AxisNameError: `axis` is neither 0 nor an axis name, or a result already has it.
      AxisSizeError: an axis of the carry has two sizes.
      PositionalAxisError: there is no positional axis, or the positional axes of the carry change.
      ArgumentTypeError: `f` does not return a pair, or returns a carry of a different structure.
      ArgumentError: `prefetch` is neither 0 nor 1, or `remat` is unknown.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["batch", "time"])
    >>> total, sums = nx.scan(lambda carry, x: (carry + x, carry + x), 0.0, x, axis="time")
    >>> total.dims, nx.positional(sums, ["batch", "time"]).tolist()
    (('batch',), [[0.0, 1.0, 3.0], [3.0, 7.0, 12.0]])
    """
    options = _options("scan", prefetch, remat)
    step = recomputed("scan", f, options["remat"], has_host_arrays(xs))
    return scan_along("scan", step, init, xs, length, reverse, unroll, axis, options["prefetch"])


def _options(op: str, prefetch: int | None, remat: Remat | None) -> dict[str, Any]:
    """Return the options of a loop; in a trace of `nx.plan`, offer other values."""
    call = open_call(f"nx.{op}", prefetch=prefetch, remat=remat)
    region = ambient()
    if region is not None and region.manual:
        call.offer("prefetch", [{"prefetch": 1}])
    call.offer("remat", REMAT_CHOICES)
    values = call.values
    return {**values, "prefetch": 0 if values["prefetch"] is None else values["prefetch"]}


def scan_along(
    op: str,
    f: Callable[..., PyTree],
    init: PyTree,
    xs: PyTree,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
    axis: Hashable,
    prefetch: int = 0,
) -> tuple[PyTree, PyTree]:
    """Run `scan` as the operation `op`."""
    if type(prefetch) is not int or prefetch not in (0, 1):
        raise ArgumentError(
            f"{op}: prefetch={format_value(prefetch)} must be 0 or 1. Pass prefetch=1 to gather the"
            " parameters of one step ahead."
        )
    entries = Entries(op, xs, axis, supports_padding=True, keeps_host=True)
    steps = _length(op, entries, length)
    if entries.placement:
        return _scan_over_devices(entries, f, init, steps, reverse, unroll, prefetch)
    last, results = scan_entries(entries, f, init, entries.datas, steps, reverse, unroll, prefetch)
    leaves, tree = flatten(results)
    return last, tree.unflatten(
        [entries.result(data_of(leaf), dims_of(leaf)[1:]) for leaf in leaves]
    )


def _length(op: str, entries: Entries, length: int | None) -> int | None:
    """Return the number of steps on one device, if arrays do not determine it."""
    if not entries.by_name:
        return length
    region = ambient()
    axis = entries.axis
    known: int | None = entries.datas[0].shape[0] if entries.datas else None
    if region is None:
        whole = known
    else:
        whole = region.sizes.get(axis) if known is None else region.global_size(axis, known)
    if length is None:
        if whole is None:
            names = () if region is None else tuple(region.sizes)
            raise AxisNotFoundError(
                f"{op}: there are no xs, and axis {format_value(axis)} has no"
                f" size.{did_you_mean(axis, names)} Give length=, or an array with the axis."
            )
        length = whole
    elif whole is not None and whole != length:
        raise AxisSizeError(
            f"{op}: length={length}, but axis {format_value(axis)} has size {whole}. Leave out"
            " length=."
        )
    if region is not None:
        region.seen.add(axis)
        return region.block_size(axis, length, op, supports_padding=True)
    return length


def pair_of(op: str, result: object) -> tuple[PyTree, PyTree]:
    """Check that the function of a loop returns a pair, the next carry and a result.

    Raises:
      ArgumentTypeError: it does not.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise ArgumentTypeError(
            f"{op}: the function must return a pair (carry, result), got {type(result).__name__}."
            " Return (carry, None) if there is no result."
        )
    return result[0], result[1]


def scan_entries(
    entries: Entries,
    f: Callable[..., PyTree],
    init: PyTree,
    datas: Sequence[jax.Array],
    length: int | None,
    reverse: bool,
    unroll: int | bool,
    prefetch: int = 0,
) -> tuple[PyTree, PyTree]:
    """Scan over the leading axis of `datas`, which is a positional axis of the results."""
    state = Carry(entries.op, init)
    count = len(state.leaves)
    noted: list[Any] = []

    def flat(*values: jax.Array) -> list[jax.Array]:
        with state.explain_missing_axes():
            with hiding(entries.op, (entries.axis,) if entries.by_name else ()):
                returned = call_user_code(
                    f, state.value(values[:count]), entries.value(values[count:])
                )
            after, result = pair_of(entries.op, returned)
        after = state.next(after)
        leaves, tree = flatten(result)
        leaves = [as_block(leaf, entries.op) for leaf in leaves]
        noted[:] = [tree, [dims_of(leaf) for leaf in leaves]]
        return [*after, *(data_of(leaf) for leaf in leaves)]

    body = Body(flat, count, datas[0].shape[0] if datas else length or 1)
    options: dict[str, Any] = {"length": length, "reverse": reverse, "unroll": unroll}
    loop: Callable[..., tuple[PyTree, PyTree]] = _scan_ahead if prefetch and datas else lax.scan

    def attempt() -> tuple[PyTree, PyTree]:
        def step(carry: PyTree, x: Sequence[jax.Array]) -> tuple[PyTree, list[jax.Array]]:
            results = body(*state.tree.flatten_up_to(carry), *x)
            return state.tree.unflatten(results[:count]), results[count:]

        try:
            return loop(step, state.tree.unflatten(state.start()), list(datas), **options)
        except Hoist as found:
            hoisted = Hoisted(found, count)

        def hoisted_step(
            carry: list[jax.Array], x: Sequence[jax.Array]
        ) -> tuple[list[jax.Array], list[jax.Array]]:
            results = hoisted(carry, x)
            return results[:count], results[count:]

        start = hoisted.start(state.start())
        slices = hoisted.slices(datas, entries.cast if datas is entries.datas else None)
        last, results = loop(hoisted_step, start, slices, **options)
        return state.tree.unflatten(last), results

    last, results = fix_carry_type(state.grow, attempt)
    tree, dims = noted
    return state.finish(last), tree.unflatten(
        [array_of(data, (None, *d)) for data, d in zip(results, dims, strict=True)]
    )


def _scan_ahead(
    step: Callable[..., tuple[PyTree, PyTree]], init: PyTree, xs: PyTree, **options: Any
) -> tuple[PyTree, PyTree]:
    """Run `lax.scan` with the gathers of a step before it, in a mapped function."""
    region = ambient()
    if region is None or region.mesh is None or not region.manual:
        leaves = jax.tree.leaves((init, xs))
        if not any(map(is_on_host, leaves)) or any(map(is_tracked, leaves)):
            return lax.scan(step, init, xs, **options)
        return scan_ahead(step, init, xs, False, frozenset(), (), **options)
    late, loops = LATE_SUMS not in region.left_out, frozenset(loops_of(region.resources))
    return scan_ahead(step, init, xs, late, loops, region.slow_axes, **options)


def from_device(data: jax.Array, mine: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Copy the value of the device where `mine` is true to all devices, by one all-reduce."""
    if jnp.issubdtype(data.dtype, jax.dtypes.extended):
        bits = from_device(jax.random.key_data(data), mine, axes)
        return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(data))
    if data.dtype == jnp.bool_:
        return from_device(data.astype(jnp.int32), mine, axes).astype(jnp.bool_)
    data = cast_data(data, axes)
    return to_type(comm.psum(comm.only_where(mine, data), axes), data.dtype)


def _scan_over_devices(
    entries: Entries,
    f: Callable[..., PyTree],
    init: PyTree,
    steps: int | None,
    reverse: bool,
    unroll: int | bool,
    prefetch: int,
) -> tuple[PyTree, PyTree]:
    """Scan over a sharded axis: in each round all devices scan the block of one device."""
    place = entries.placement
    axes = plain(place)
    block = steps if steps is not None else entries.datas[0].shape[0]
    # The blocks without padding, and the number of elements in the next one; no step runs over
    # padding.
    full, rest = (
        divmod(place.size, block)
        if isinstance(place, Uneven)
        else (math.prod(map(lax.axis_size, axes)), 0)
    )
    here = comm.block_index(axes)

    def round_of(
        device: jax.Array | int, carry: PyTree, count: int | None = steps
    ) -> tuple[PyTree, PyTree]:
        datas = [from_device(data, here == device, axes) for data in entries.datas]
        datas = datas if count == steps else [data[:count] for data in datas]
        return scan_entries(entries, f, carry, datas, count, reverse, unroll, prefetch)

    tail: Any = None
    if rest and reverse:
        init, tail = round_of(full, init, rest)
    first = full - 1 if reverse else 0
    carry, kept = round_of(first, init)
    leaves, tree = flatten(kept)
    kept = [array_of(cast(leaf, frozenset(axes)), dims_of(leaf)) for leaf in leaves]

    def step(state: tuple[PyTree, list[AnyArray]], device: jax.Array) -> tuple[PyTree, None]:
        carry, kept = state
        carry, results = round_of(device, carry)
        mine = here == device
        blocks = [
            array_of(jnp.where(mine, cast(new, frozenset(axes)), data_of(old)), dims_of(old))
            for new, old in zip(flatten(results)[0], kept, strict=True)
        ]
        return (carry, blocks), None

    others = jnp.arange(full - 1) + (0 if reverse else 1)
    rounds = Entries(entries.op, others, 0)
    (carry, kept), _ = scan_entries(rounds, step, (carry, kept), rounds.datas, None, reverse, 1)
    if rest and not reverse:
        carry, tail = round_of(full, carry, rest)
    if rest:
        ends = [
            _lengthened(new, block, ValueType.of(old))
            for new, old in zip(flatten(tail)[0], kept, strict=True)
        ]
        kept = [
            array_of(jnp.where(here == full, end, data_of(old)), dims_of(old))
            for end, old in zip(ends, kept, strict=True)
        ]
    return carry, tree.unflatten(
        [entries.result(refilled(data_of(leaf), 0, place), dims_of(leaf)[1:]) for leaf in kept]
    )


def _lengthened(leaf: AnyArray, count: int, kind: ValueType) -> jax.Array:
    """Extend results for the first elements of a block to its length, by copies of the last one."""
    return kind.fit(array_of(padded(data_of(leaf), 0, count), dims_of(leaf)))


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("init", "xs"), takes_host=True)
def fold(
    f: Callable[[PyTree, PyTree], PyTree],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    axis: Hashable = 0,
    prefetch: int | None = None,
    remat: Remat | None = None,
) -> PyTree:
    """Fold like `scan`, with a function that returns the carry only.

    Args:
      f: takes the carry and one element of `xs`; returns the next carry.
      init: the initial carry, as for `nx.scan`.
      xs: a pytree of arrays that have the axis, by default `None`.
      length: the number of steps, if there are no `xs`; by default the size of the axis.
      reverse: if `True`, begin at the end; by default `False`.
      unroll: as in `lax.scan`; by default 1.
      axis: an axis name, or 0 (default) for the first positional axis.
      prefetch: 0 (default), or 1 to gather the parameters of a step while the step before it
        computes; see `nx.scan`.
      remat: the values of a step to recompute in the backward pass, as for `nx.scan`; by default
        `"none"`.

    Returns:
      The last carry.

    Communication: as for `nx.scan`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> layers = nx.named(jnp.full((4, 3, 3), 0.5), ["layer", "in", "out"])
    >>> x = nx.named(jnp.ones((2, 3)), ["batch", "in"])
    >>> nx.fold(lambda x, w: nx.rename(nx.dot(x, w, "in"), {"out": "in"}), x, layers,
    ...         axis="layer").dims
    ('batch', 'in')
    """

    def folded(carry: PyTree, x: PyTree) -> tuple[PyTree, None]:
        return call_user_code(step, carry, x), None

    options = _options("fold", prefetch, remat)
    step = recomputed("fold", f, options["remat"], has_host_arrays(xs))
    ahead = options["prefetch"]
    return scan_along("fold", folded, init, xs, length, reverse, unroll, axis, ahead)[0]


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("init_val",))
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[jax.Array, PyTree], PyTree],
    init_val: PyTree,
    *,
    unroll: int | bool | None = None,
) -> PyTree:
    """Apply `body_fun(i, value)` for `i` from `lower` to `upper - 1`: `lax.fori_loop`.

    Args:
      lower: the first index, an integer or a scalar array.
      upper: the end, an integer or a scalar array.
      body_fun: takes the index and the value, returns the next value.
      init_val: the initial value; broadcast along axes that it gains.
      unroll: as in `lax.fori_loop`; by default `None`.

    Communication: none of its own. Outside of a mapped function the value is resharded if
    `body_fun` returns another sharding over Explicit mesh axes.

    Raises:
      NamedAxesLeftError: a bound has named axes: instances cannot have different numbers of steps
        here. Use `while_loop`.
      AxisSizeError, PositionalAxisError, ArgumentTypeError: as for `scan`, for the value.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.fori_loop(0, 3, lambda i, v: v + nx.named(jnp.ones(2), ["k"]) * i, 0.0).data
    Array([3., 3.], dtype=float32)
    """
    for what, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, NamedArray) and names_of(bound.dims):
            raise NamedAxesLeftError(
                f"fori_loop: {what} must not have named axes, got {type_text(bound)}. For a"
                " different number of steps per element, use nx.while_loop, which accepts a named"
                " condition."
            )
    first, end = data_of(lower), data_of(upper)
    _check_bounds(first, end)
    state = Carry("fori_loop", init_val)
    count = len(state.leaves)

    def flat(*values: jax.Array) -> list[jax.Array]:
        *datas, i = values
        with state.explain_missing_axes():
            return state.next(call_user_code(body_fun, i, state.value(datas)))

    known = not (isinstance(first, jax.core.Tracer) or isinstance(end, jax.core.Tracer))
    body = Body(flat, count, max(int(end) - int(first), 1) if known else 1, sliced=False)

    def attempt() -> PyTree:
        def step(i: jax.Array, value: PyTree) -> PyTree:
            return state.tree.unflatten(body(*state.tree.flatten_up_to(value), i))

        try:
            return lax.fori_loop(
                first, end, step, state.tree.unflatten(state.start()), unroll=unroll
            )
        except Hoist as found:
            hoisted = Hoisted(found, count)
        start = hoisted.start(state.start())
        last = lax.fori_loop(first, end, lambda i, datas: hoisted(datas, [i]), start, unroll=unroll)
        return state.tree.unflatten(last)

    return state.finish(fix_carry_type(state.grow, attempt))


def _is_number(bound: object) -> bool:
    """Return True if a bound is a scalar that `int` converts, or a traced scalar."""
    if isinstance(bound, (jax.core.Tracer, jax.Array, np.ndarray)) and np.ndim(bound) != 0:
        return False
    if isinstance(bound, jax.core.Tracer):
        return True
    try:
        int(bound)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _reject_bound(what: str, bound: object) -> NoReturn:
    raise ArgumentTypeError(
        f"fori_loop: {what}={format_value(bound)} is not an integer. Pass an integer, or a scalar"
        " array of integers."
    )


def _check_bounds(first: ArrayLike, end: ArrayLike) -> None:
    """Raise if the bounds of a `fori_loop` are not two scalars of one dtype.

    Raises:
      ArgumentTypeError: one is not a scalar, or the dtypes differ and JAX promotes neither.
    """
    for what, bound in (("lower", first), ("upper", end)):
        if not _is_number(bound):
            _reject_bound(what, bound)
    dtypes = [jnp.result_type(bound) for bound in (first, end)]
    if dtypes[0] == dtypes[1]:
        return
    for what, bound, dtype in zip(("lower", "upper"), (first, end), dtypes, strict=True):
        if not jnp.issubdtype(dtype, np.integer):
            _reject_bound(what, bound)
    is_signed = all(jnp.issubdtype(dtype, np.signedinteger) for dtype in dtypes)
    weak = {Element.of(jnp.asarray(bound)).weak for bound in (first, end)}
    if not (is_signed and weak == {True, False}):
        raise ArgumentTypeError(
            f"fori_loop: lower has dtype {dtypes[0]}, but upper has dtype {dtypes[1]}. Convert one"
            f" of them: jnp.asarray(upper, {str(dtypes[0])!r})."
        )


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("init_val",))
def while_loop(
    cond_fun: Callable[[PyTree], EitherArray],
    body_fun: Callable[[PyTree], PyTree],
    init_val: PyTree,
) -> PyTree:
    """Apply `body_fun` while `cond_fun` is true: `lax.while_loop` over named axes.

    Args:
      cond_fun: takes the value, returns a boolean. If the boolean has named axes, every element
        continues while its own condition is true, as under `jax.vmap`. A finished element keeps its
        value, and all values have these axes.
      body_fun: takes the value, returns the next one.
      init_val: the initial value; broadcast along axes that it gains.

    Returns:
      The first value for which the condition is false.

    Communication: if the condition has sharded axes, each device continues independently, unless
    the steps communicate along the mesh axes of these axes. Then communicating devices continue
    while any of them has an unfinished element. This costs one all-reduce of a boolean per step.
    Outside of a mapped function the value is resharded as in `nx.fori_loop`.

    Raises:
      PositionalAxisError: the condition has positional axes, or the positional axes of the value
        change.
      ArgumentTypeError: the condition is not a boolean, or the value changes its structure.
      AxisSizeError: an axis of the value has two sizes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 3.0, 200.0]), ["k"])
    >>> nx.while_loop(lambda v: v < 100, lambda v: v * 2, x).data.tolist()
    [128.0, 192.0, 200.0]
    """
    state = Carry("while_loop", init_val)

    def wanted(datas: Sequence[jax.Array]) -> AnyArray:
        with state.explain_missing_axes():
            pred = scalar_of(
                "while_loop", "condition", call_user_code(cond_fun, state.value(datas))
            )
        if pred.dtype != jnp.bool_:
            raise ArgumentTypeError(
                f"while_loop: the condition must be a boolean, got {type_text(pred)}. Compare it,"
                " as in x != 0."
            )
        return pred

    def after(datas: Sequence[jax.Array]) -> list[jax.Array]:
        with state.explain_missing_axes():
            return state.next(call_user_code(body_fun, state.value(datas)))

    def pred_type() -> ValueType:
        seen: list[ValueType] = []

        def note(*datas: jax.Array) -> tuple[()]:
            seen.append(ValueType.of(wanted(datas)))
            return ()

        jax.eval_shape(note, *state.start())
        return seen[-1]

    def attempt() -> PyTree:
        kind = pred_type()
        if not names_of(kind.dims) and not kind.axes:
            return state.tree.unflatten(
                lax.while_loop(lambda datas: data_of(wanted(datas)), after, state.start())
            )
        types = [leaf.with_names_of(kind) for leaf in state.types]
        if types != state.types:
            raise Grow(types)

        def step(pred: jax.Array, *datas: jax.Array) -> list[jax.Array]:
            kept = [
                jnp.where(leaf.spread(cast_data(pred, leaf.axes), kind.dims), new, old)
                for leaf, new, old in zip(state.types, after(datas), datas, strict=True)
            ]
            return [kind.fit(wanted(kept)), *kept]

        start = state.start()
        first = kind.fit(wanted(start))
        # Devices that communicate with each other must run the same number of steps.
        together = (
            kind.axes & collective_axes(jax.make_jaxpr(step)(first, *start).jaxpr)
            if kind.axes
            else ()
        )

        def any_left(values: list[jax.Array]) -> jax.Array:
            return comm.pmax(jnp.any(values[0]), tuple(sorted(together)))

        _, *last = lax.while_loop(any_left, lambda values: step(*values), [first, *start])
        return state.tree.unflatten(last)

    return state.finish(fix_carry_type(state.grow, attempt))


# --- barriers -------------------------------------------------------------------------------------


def optimization_barrier(operand: PyTree) -> PyTree:
    """Return the operands, all of which are computed before any use of the results.

    See `jax.lax.optimization_barrier`; no value changes.

    Args:
      operand: a pytree of arrays, named or not.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.lax.optimization_barrier((nx.named(jnp.arange(3.0), ["k"]), 2.0))
    >>> x.dims
    ('k',)
    """
    region = ambient()
    if region is None:  # arrays that are stored padded, too
        return lax.optimization_barrier(operand)
    leaves, tree = jax.tree.flatten(operand, is_leaf=lambda leaf: isinstance(leaf, NamedArray))
    blocks = [to_local(leaf, "optimization_barrier", region) for leaf in leaves]
    datas = lax.optimization_barrier([data_of(block) for block in blocks])
    return jax.tree.unflatten(
        tree, [make_result(data, dims_of(block)) for data, block in zip(datas, blocks, strict=True)]
    )
