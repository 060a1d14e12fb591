"""Functions of one element, applied along an axis: `vmap` in parallel, `map` in sequence.

The function sees arrays that lack the axis. If that axis is sharded, blocks vary over its mesh axes
without a name that shows it. A collective over these mesh axes would mix elements. The traced
function is checked for such collectives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun

from namedax.core.array import NamedArray, dims_of
from namedax.core.names import Dims, MeshAxes, PyTree
from namedax.core.padded_sharding import Uneven
from namedax.core.region import HiddenAxis, Region, ambient, hiding
from namedax.core.user_code import call_checked_code, call_user_code
from namedax.core.variance import cast, cast_data
from namedax.errors import (
    ArgumentError,
    AxisSizeError,
    PlacementConflictError,
    format_value,
    show_names,
)
from namedax.messages.argument_kinds import check_function
from namedax.messages.call_errors import checks_signature
from namedax.messages.jax_errors import explain_type_errors
from namedax.ops.loops.control_flow import scan_entries
from namedax.ops.operands.along_axes import Entries
from namedax.ops.operands.broadcasting import as_block
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import array_of, data_of, flatten
from namedax.programs.evaluator import collective_axes
from namedax.programs.raw_collective_check import check_agreement, checked_as_body, reject_raw

__all__ = ["map", "run_hidden", "vmap"]


def run_hidden(
    op: str,
    name: Hashable,
    placement: tuple[str, ...],
    function: Callable[..., list[jax.Array]],
    datas: Sequence[jax.Array],
) -> list[jax.Array]:
    """Call `function(*datas)` with the axis `name` on the mesh axes `placement` hidden.

    Raises:
      PlacementConflictError: the function communicates along these mesh axes.
    """
    if not placement:
        return function(*datas)
    datas = [cast_data(data, placement) for data in datas]

    closed = jax.make_jaxpr(functools.partial(call_checked_code, function))(*datas)
    mixed = collective_axes(closed.jaxpr, without_debugging=True) & frozenset(placement)
    if mixed:
        call = f": nx.vmap(f, {format_value(name)})(x, w)" if op == "vmap" else ""
        raise PlacementConflictError(
            f"{op}: {name!r} is mapped to mesh axis {min(mixed)!r}, but the function communicates"
            " along it. For each element it reduces, gathers or indexes another axis that is"
            " mapped to it, or it differentiates with respect to an array that it created or closes"
            " over, such as a parameter. Rename that axis to a name with another sharding, or pass"
            f" that array as an argument{call}."
        )
    reject_raw(closed, _seen(placement), op)
    check_agreement(closed, op)
    return jaxpr_as_fun(closed)(*datas)


def _seen(placement: tuple[str, ...]) -> dict[Hashable, tuple[str, ...]]:
    """Return the shardings of names in a function of single elements, without `placement`."""
    region = ambient()
    resources = {} if region is None else region.resources
    return {
        name: tuple(axis for axis in axes if axis not in placement)
        for name, axes in resources.items()
    }


class _ElementFunction:
    """A function of elements as a function of flat data, which records the types of its results."""

    def __init__(
        self,
        op: str,
        f: Callable[..., PyTree],
        value: Callable[[Sequence[jax.Array]], PyTree],
        names: Sequence[Hashable],
    ):
        self.op, self.f, self.value, self.names = op, f, value, names
        self.tree: Any = None
        self.dims: list[Dims] = []

    def __call__(self, *datas: jax.Array) -> list[jax.Array]:
        with explain_type_errors, hiding(self.op, self.names):
            leaves, self.tree = flatten(call_user_code(self.f, self.value(datas)))
        leaves = [as_block(leaf, self.op) for leaf in leaves]
        self.dims = [dims_of(leaf) for leaf in leaves]
        return [data_of(leaf) for leaf in leaves]


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("xs",))
def map(
    f: Callable[[PyTree], PyTree], xs: PyTree, *, batch_size: int | None = None, axis: Hashable = 0
) -> PyTree:
    """Apply a function to the elements along an axis in sequence: `lax.map` over named axes.

    `map` needs less memory than `vmap`, but more time.

    Args:
      f: a function of one element: arrays without the axis.
      xs: a pytree of arrays that have the axis. Over a named axis, arrays that lack it are the same
        for every element.
      batch_size: the number of elements that `vmap` computes at a time; by default `None`, one
        element without `vmap`.
      axis: an axis name, or 0 (default) for the first positional axis.

    Returns:
      The results of all elements, with the axis in front.

    Communication: none. Over a sharded axis every device processes its own elements, and `f` must
    not communicate along the mesh axes of the axis. Outside of a mapped function an axis that is
    sharded over Explicit mesh axes is gathered, and the results are sharded along it again.

    Raises:
      AxisNotFoundError, AxisNameError, PositionalAxisError: as for `scan`.
      ArgumentError: `batch_size` is not a positive integer.
      PlacementConflictError: the axis is sharded, and `f` communicates along its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["batch", "k"])
    >>> nx.map(lambda row: nx.sum(row, "k"), x, axis="batch").data
    Array([ 3., 12.], dtype=float32)
    """
    if batch_size is not None and (
        isinstance(batch_size, bool)
        or not isinstance(batch_size, (int, np.integer))
        or batch_size < 1
    ):
        raise ArgumentError(
            f"map: batch_size must be a positive integer, got {format_value(batch_size)}."
        )
    entries = Entries("map", xs, axis, supports_padding=True)
    if not entries.datas:
        raise ArgumentError("map: there are no arrays in xs. Pass at least one.")
    entry = _ElementFunction("map", f, entries.value, [entries.axis] if entries.by_name else [])

    def along(
        function: Callable[..., list[jax.Array]], datas: Sequence[jax.Array]
    ) -> list[jax.Array]:
        fresh = Entries("map", list(datas), 0)
        return list(
            scan_entries(fresh, lambda _, x: ((), function(*x)), (), fresh.datas, None, False, 1)[1]
        )

    def run(*datas: jax.Array) -> list[jax.Array]:
        n = datas[0].shape[0]
        if batch_size is None:
            return along(entry, datas)
        vectorized = jax.vmap(entry)
        whole = n - n % batch_size
        parts = []
        if whole or not n:
            chunks = [
                data[:whole].reshape((whole // batch_size, batch_size, *data.shape[1:]))
                for data in datas
            ]
            parts.append(
                [data.reshape((whole, *data.shape[2:])) for data in along(vectorized, chunks)]
            )
        if whole < n:
            parts.append(vectorized(*(data[whole:] for data in datas)))
        return [
            lax.concatenate(pieces, 0) if len(pieces) > 1 else pieces[0]
            for pieces in zip(*parts, strict=True)
        ]

    results = run_hidden("map", axis, entries.placement, run, entries.datas)
    return entry.tree.unflatten(
        [entries.result(data, dims) for data, dims in zip(results, entry.dims, strict=True)]
    )


@checks_signature
def vmap(
    fun: Callable[..., PyTree],
    in_axes: Hashable | Sequence[Hashable] = 0,
    out_axes: Hashable = None,
) -> Callable[..., PyTree]:
    """Vectorize a function over an axis that it does not see: `jax.vmap` over named axes.

    Functions of named arrays already vectorize over names that they do not mention. `vmap` hides a
    name from a function that uses it for another axis, or for `jax.grad` of the loss of a single
    example.

    Args:
      fun: a function of pytrees of arrays.
      in_axes: an axis name, 0 (default) for the first positional axis, or a tuple or list of these
        and `None`, one for each positional argument. A name applies to every array that has it;
        other arrays are the same for every element. A single axis also applies to keyword
        arguments; with a tuple they are the same for every element.
      out_axes: the axis of the results: a name, or 0. By default the name in `in_axes`, if there is
        one, or 0.

    Returns:
      A function that returns results with the axis in front.

    Communication: none. Over a sharded axis `fun` must not communicate along its mesh axes. Outside
    of a mapped function an axis that is sharded over Explicit mesh axes is gathered, and the
    results are sharded along it again.

    The errors are raised when the result is called.

    Raises:
      AxisNotFoundError: no argument has the axis.
      AxisNameError: an axis is neither 0 nor an axis name, or a result already has it.
      AxisSizeError: the axes have different sizes.
      ArgumentError: `in_axes` does not fit the arguments.
      PlacementConflictError: the axis is sharded, and `fun` communicates along its mesh axes.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def loss(w, x):
    ...     return nx.sum(w * x, "k") ** 2
    >>> w, x = nx.named(jnp.ones(3), ["k"]), nx.named(jnp.ones((5, 3)), ["batch", "k"])
    >>> nx.vmap(jax.grad(loss), "batch")(w, x).dims
    ('batch', 'k')
    """
    check_function("vmap", "fun", fun)

    @functools.wraps(fun)
    def vectorized(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return _call(fun, in_axes, out_axes, args, kwargs)

    return vectorized


@operation(name="vmap", explicit=Explicit.AS_JAX, arrays=("args", "kwargs"), keeps_programs=False)
def _call(
    fun: Callable[..., PyTree],
    in_axes: Hashable | Sequence[Hashable],
    out_axes: Hashable,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> PyTree:
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ArgumentError(
                f"vmap: in_axes={format_value(in_axes)} has {len(in_axes)} entries for {len(args)}"
                " positional arguments. Write one for each, or a single one for all."
            )
        axes, for_kwargs = list(in_axes), None
    else:
        axes, for_kwargs = [in_axes] * len(args), in_axes
    groups = [*zip(axes, args, strict=True), (for_kwargs, kwargs)]
    wanted = [axis for axis in axes if axis is not None]
    if not wanted and for_kwargs is None:
        raise ArgumentError(
            f"vmap: in_axes={format_value(in_axes)} maps no argument. Write a name, or 0."
        )
    names = list(dict.fromkeys(axis for axis in wanted if not isinstance(axis, (int, np.integer))))
    out = out_axes if out_axes is not None else names[0] if len(names) == 1 else 0
    if len(names) > 1 and out_axes is None:
        raise ArgumentError(
            f"vmap: in_axes={format_value(in_axes)} has several names, {show_names(names)}. Pass"
            " the name of the axis in the results as out_axes=."
        )
    result = Entries("vmap", (), out, supports_padding=True)
    return _vectorise(fun, groups, not isinstance(in_axes, (tuple, list)), result)


def _vectorise(
    fun: Callable[..., PyTree],
    groups: list[tuple[Hashable, PyTree]],
    one_axis: bool,
    result: Entries,
) -> PyTree:
    parts = _entries_of(groups, one_axis)
    placement = _common_placement(parts, result)
    datas = [data for part in parts for data in part.datas]

    def value(flat: Sequence[jax.Array]) -> PyTree:
        supply = iter(flat)
        values = [part.value([next(supply) for _ in part.datas]) for part in parts]
        return values[0] if one_axis else values

    names = [part.axis for part in parts if part.by_name and part.datas]

    def of_arguments(values: Sequence[PyTree]) -> PyTree:
        return call_user_code(fun, *values[:-1], **values[-1])

    entry = _ElementFunction("vmap", of_arguments, value, names)
    region = ambient()
    if result.by_name and region is not None:
        _check_result_size(result.axis, placement, datas[0].shape[0], region)
    if placement:
        _cast_fixed(parts, placement)

    def own(*datas: jax.Array) -> list[jax.Array]:
        # A result that is the same for every element is cast before it is repeated.
        return [cast_data(data, placement) for data in entry(*datas)]

    function = own if placement else entry
    if region is not None and region.manual:
        # Vectorized, a reduction of all elements reduces only some; so the check applies to the
        # function of one element.
        function = checked_as_body(function, _seen(placement), "vmap")
    vectorized = jax.vmap(function, axis_name=HiddenAxis(result.axis, placement))
    outs = run_hidden("vmap", result.axis, placement, vectorized, datas)
    return entry.tree.unflatten(
        [result.result(data, dims) for data, dims in zip(outs, entry.dims, strict=True)]
    )


def _entries_of(groups: list[tuple[Hashable, PyTree]], one_axis: bool) -> list[Entries]:
    """Return the elements of the mapped arguments; of all together if they share one axis."""
    if one_axis:  # a single search, so that one argument with the name is enough
        axis = groups[0][0] if groups else None
        return [Entries("vmap", [value for _, value in groups], axis, supports_padding=True)]
    return [
        (
            Entries("vmap", value, axis, supports_padding=True)
            if axis is not None
            else Entries.uncut("vmap", value)
        )
        for axis, value in groups
    ]


def _common_placement(parts: Sequence[Entries], result: Entries) -> MeshAxes:
    """Return the mesh axes of the mapped axes and of that of the results.

    Raises:
      ArgumentError: no array is mapped.
      PlacementConflictError: the axes are sharded over different mesh axes.
      AxisSizeError: they have different sizes.
    """
    sizes = {data.shape[0] for part in parts for data in part.datas}
    if not sizes:
        raise ArgumentError("vmap: there are no arrays in the mapped arguments. Pass at least one.")
    placements = dict.fromkeys(
        [part.placement for part in parts if part.datas] + [result.placement]
    )
    if len(placements) > 1:
        raise PlacementConflictError(
            "vmap: the mapped axes, or the axis of the results, are sharded over different mesh"
            " axes. Rename them first, so that they agree."
        )
    if len(sizes) > 1:
        raise AxisSizeError(
            f"vmap: the mapped axes have the sizes {', '.join(str(n) for n in sorted(sizes))}; they"
            " must agree."
        )
    (placement,) = placements
    return placement


def _check_result_size(name: Hashable, placement: MeshAxes, block: int, region: Region) -> None:
    """Raise if the axis of the results has another size in the region.

    Raises:
      AxisSizeError: the sizes differ.
    """
    size = (
        placement.size
        if isinstance(placement, Uneven)
        else block * region.mesh_axis_size(placement)
    )
    known = region.sizes.get(name)
    if known is not None and known != size:
        raise AxisSizeError(
            f"vmap: the results would have size {block} along {name!r}, which has"
            f" size {known} in this mapped function. Choose another name in out_axes."
        )


def _cast_fixed(parts: Sequence[Entries], placement: MeshAxes) -> None:
    """Cast the arguments that are the same for all elements: each may have its own gradient."""
    for part in parts:
        for i, leaf in part.fixed.items():
            if isinstance(leaf, (NamedArray, jax.Array, np.ndarray, float, complex)):
                leaf = as_block(leaf, "vmap")
                part.fixed[i] = array_of(cast(leaf, frozenset(placement)), dims_of(leaf))
