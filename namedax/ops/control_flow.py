"""Control flow over names: scan, fold, map, loops, branches, associative_scan, vmap.

A loop of JAX wants a carry whose type does not change. Here a carry may begin without a name, or without a device variance, that
it has after one step: the body is traced, the carry's beginning is broadcast by name, and the body is traced again, until
nothing is gained. A body that loses a name is broadcast back, and one that returns another physical order is reordered.

**Named predicates.** A condition with names is what `jax.vmap` makes of it: both branches are computed and selected entry by
entry, and a loop goes on until no entry wants another step, while those that have finished keep their carry.

**Hidden axes.** The function of `vmap`, `map` and `associative_scan` sees arrays that lack the axis it is mapped over. If that
axis is sharded, blocks differ from device to device without a name that says so, and a collective over these mesh axes would mix
entries. It is looked for in the traced function, and refused.

**Gradients.** What a loop's body closes over, or slices, is often the same on all devices, and cast to device-varying where it
meets values with a sharded name. The transpose of the cast is an all-reduce. So casts of the operands of a loop are taken out of
its body, past what is computed of these operands alone: the gradient is reduced once, after the loop, and not in every step.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, DropVar, Literal, jaxpr_as_fun
from jax.sharding import PartitionSpec

from namedax.array import Dims, NamedArray, dims_of, is_name, make_in_region, type_text
from namedax.environment import Region, ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    NamedAxesLeftError,
    PlacementConflictError,
    PositionalAxisError,
    did_you_mean,
    raise_not_found,
    show_names,
)
from namedax.ops.align import local_block, merge_dims, wrap
from namedax.ops.lift import explain_type_errors
from namedax.resources import communication as comm
from namedax.resources.mesh import has_explicit_axes
from namedax.resources.variance import cast, cast_data, varying

__all__ = ["FUNCTIONS", "LAX_FUNCTIONS"]

Axes = frozenset[str]


def _is_named(leaf: Any) -> bool:
    return isinstance(leaf, NamedArray)


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(tree, is_leaf=_is_named)


def _data(value: Any) -> Any:
    return value._data if isinstance(value, NamedArray) else value


def _named(data: Any, dims: Dims) -> Any:
    return make_in_region(data, dims) if any(dim is not None for dim in dims) else data


def _block(leaf: Any, op: str, region: Region | None) -> Any:
    """A leaf as the body of `region` sees it: an array."""
    leaf = local_block(leaf, op, region)
    return leaf if isinstance(leaf, (NamedArray, jax.Array)) else jnp.asarray(leaf)


def _names(dims: Dims) -> tuple[Hashable, ...]:
    return tuple(dim for dim in dims if dim is not None)


# --- types of values that meet in a loop or in branches ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Type:
    """The dims and block shape of a value, the mesh axes over which it varies, and how its type is sharded on Explicit axes."""

    dims: Dims
    shape: tuple[int, ...]
    axes: Axes
    spec: tuple[Any, ...] = ()

    @classmethod
    def of(cls, value: Any) -> _Type:
        data = _data(value)
        if not hasattr(data, "dtype"):
            return cls(dims_of(value), np.shape(data), frozenset())
        return cls(dims_of(value), np.shape(data), varying(data), _explicit_spec(data))

    def bare(self) -> _Type:
        """The type without a sharding."""
        return dataclasses.replace(self, spec=())

    @property
    def positional(self) -> tuple[int, ...]:
        return tuple(n for n, dim in zip(self.shape, self.dims, strict=True) if dim is None)

    @property
    def sizes(self) -> dict[Hashable, int]:
        return {dim: n for n, dim in zip(self.shape, self.dims, strict=True) if dim is not None}

    def __str__(self) -> str:
        region = ambient()
        pairs = self.sizes.items()
        if region is not None:
            pairs = {name: region.global_size(name, n) for name, n in pairs}.items()
        return f"[{','.join(str(n) for n in self.positional)}]{{{', '.join(f'{name}:{n}' for name, n in pairs)}}}"

    def join(self, other: _Type, op: str, what: str, verb: tuple[str, str]) -> _Type:
        """The smallest type that both can be broadcast to.

        Raises:
          AxisSizeError: a name has two sizes.
          PositionalAxisError: the positional axes differ.
        """
        sizes = self.sizes
        for name, n in other.sizes.items():
            if sizes.setdefault(name, n) != n:
                raise AxisSizeError(
                    f"{op}: {what} {verb[0]} {self} and {verb[1]} {other}: axis {name!r} has two sizes. Rename one of them."
                )
        if self.positional != other.positional:
            raise PositionalAxisError(
                f"{op}: {what} {verb[0]} {self} and {verb[1]} {other}: the positional axes have to be the same. Only names are "
                "broadcast; make them equal before."
            )
        axes = self.axes | other.axes
        dims, shape = self.dims, self.shape
        if not set(_names(other.dims)) <= set(_names(self.dims)):
            dims = merge_dims(other.dims, self.dims)
            positional = iter(self.positional)
            shape = tuple(next(positional) if dim is None else sizes[dim] for dim in dims)
        placed = other.placed | self.placed
        spec = tuple(placed.get(label) for label in _labels(dims)) if placed else ()
        return _Type(dims, shape, axes, spec)

    @property
    def placed(self) -> dict[Hashable, Any]:
        """The entries of `spec`, by name or number of the axis."""
        pairs = zip(_labels(self.dims), self.spec, strict=True) if self.spec else ()
        return {label: entry for label, entry in pairs if entry is not None}

    def fit(self, value: Any) -> Any:
        """The data of `value`, whose names are among those of this type, broadcast to it."""
        value = value if hasattr(value, "dtype") else jnp.asarray(value)
        return self.spread(cast(value, self.axes), dims_of(value))

    def spread(self, data: Any, dims: Dims) -> Any:
        """`data` with these dims, broadcast to the type; it need not have the positional axes."""
        if dims != self.dims:
            data = _broadcast(data, dims, self.dims, self.shape)
        if self.spec and _explicit_spec(data) != self.spec:
            data = jax.sharding.reshard(data, PartitionSpec(*self.spec))
        return data


def _labels(dims: Dims) -> list[Hashable]:
    numbers = itertools.count()
    return [next(numbers) if dim is None else dim for dim in dims]


def _explicit_spec(data: Any) -> tuple[Any, ...]:
    """The sharding that is part of the type of `data`, or nothing if it is not sharded."""
    sharding = getattr(jax.typeof(data), "sharding", None)
    if sharding is None or not has_explicit_axes(sharding.mesh):
        return ()
    spec = (*sharding.spec, *(None,) * (np.ndim(data) - len(sharding.spec)))
    return spec if any(entry is not None for entry in spec) else ()


def _broadcast(data: Any, dims: Dims, target: Dims, shape: tuple[int, ...]) -> Any:
    """`data` with the dims `target`, which have all names of `dims`; positional axes stay, or are new if there are none."""
    free = iter([i for i, dim in enumerate(target) if dim is None])
    places = [next(free) if dim is None else target.index(dim) for dim in dims]
    order = sorted(range(len(places)), key=places.__getitem__)
    if order != list(range(len(order))):
        data = lax.transpose(data, order)
    return lax.broadcast_in_dim(data, shape, sorted(places))


class _Grow(Exception):
    """Values have to begin with other types; raised while a body is traced, for whoever traces it."""

    def __init__(self, types: Sequence[_Type]):
        super().__init__("a loop's carry has gained names")
        self.types = tuple(types)


class _Carry:
    """A loop's carry while its type is looked for: the structure, the beginning, and the types of the leaves so far."""

    def __init__(self, op: str, init: Any):
        region = ambient()
        self.op = op
        leaves, self.tree = _flatten(init)
        self.leaves = [_block(leaf, op, region) for leaf in leaves]
        self.types = [_Type.of(leaf) for leaf in self.leaves]
        paths = jax.tree_util.tree_flatten_with_path(init, is_leaf=_is_named)[0]
        self.texts = [f"the carry{jax.tree_util.keystr(path)}" for path, _ in paths]

    def grow(self, types: Sequence[_Type]) -> None:
        region = ambient()
        if region is not None:
            for kind in types:
                region.check_placement(self.op, _names(kind.dims))
        self.types = list(types)

    def start(self) -> list[Any]:
        """The data of the beginning."""
        return [kind.fit(leaf) for kind, leaf in zip(self.types, self.leaves, strict=True)]

    def value(self, datas: Iterable[Any]) -> Any:
        """The carry as the body sees it."""
        return self.tree.unflatten([_named(data, kind.dims) for data, kind in zip(datas, self.types, strict=True)])

    def next(self, value: Any) -> list[Any]:
        """The data of what the body returned, as a value of the carry's type.

        Raises:
          _Grow: the carry has to begin with more names.
          ArgumentTypeError: the structure is another one.
        """
        leaves, tree = _flatten(value)
        if tree != self.tree:
            raise ArgumentTypeError(
                f"{self.op}: the carry has the structure {self.tree} and comes out of the body as {tree}; these have to be the same."
            )
        region = ambient()
        leaves = [_block(leaf, self.op, region) if not isinstance(leaf, (int, float, complex)) else leaf for leaf in leaves]
        types = [
            kind.join(_Type.of(leaf), self.op, what, ("goes into the body as", "comes out as"))
            for kind, leaf, what in zip(self.types, leaves, self.texts, strict=True)
        ]
        if types != self.types:
            raise _Grow(types)
        return [kind.fit(leaf) for kind, leaf in zip(types, leaves, strict=True)]


# --- casts that are taken out of a loop ----------------------------------------------------------------------------------

_CASTS = ("pvary", "pcast")
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
_REMAT = ("checkpoint", "remat", "remat2")
_COLLECTIVES = (
    "psum psum2 psum_invariant pmax pmin ppermute pgather all_gather all_gather_invariant all_to_all ragged_all_to_all reduce_scatter "
    "psum_scatter pbroadcast collective_broadcast"
).split()

# The forms of a value that vary over more mesh axes than it does, by these axes.
Forms = dict[Axes, Any]
# What a value is computed of: operands of a loop by their numbers, and the mesh axes over which each has been cast on the way.
# There is none for a value that depends on anything else that can be differentiated.
Origin = frozenset[tuple[int, Axes]]


def _cast_axes(eqn: Any) -> Axes:
    if eqn.primitive.name not in _CASTS or eqn.params.get("to", "varying") != "varying":
        return frozenset()
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    return frozenset((axes,) if isinstance(axes, str) else axes)


def _inner(eqn: Any) -> Any:
    """The (open) jaxpr that an equation calls once, with its operands; or `None`."""
    name = eqn.primitive.name
    jaxpr = eqn.params.get("jaxpr") if name in _REMAT else eqn.params.get(_CALLS[name]) if name in _CALLS else None
    if isinstance(jaxpr, ClosedJaxpr):
        return None if jaxpr.consts else jaxpr.jaxpr
    return jaxpr


def _commutes(eqn: Any) -> bool:
    """Whether an operation of values that were cast is the operation, cast."""
    if eqn.effects or eqn.primitive.name in (*_COLLECTIVES, *_CASTS, "axis_index"):
        return False
    return not any(hasattr(value, "eqns") or hasattr(value, "jaxpr") or callable(value) for value in _parts(eqn.params))


def _parts(params: Mapping[str, Any]) -> list[Any]:
    return [part for value in params.values() for part in (value if isinstance(value, (tuple, list)) else (value,))]


def _is_inexact(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def _elements(aval: Any) -> int:
    return math.prod(aval.shape)


@dataclasses.dataclass
class _CastFinder:
    """Looks for casts in a loop's body of what is computed of operands of the loop alone.

    Attributes:
      sizes: the number of elements of every operand.
      steps: the number of steps of the loop, as far as it is known.
      found: operands (their numbers), and the mesh axes over which to cast them before the loop.
    """

    sizes: Sequence[int]
    steps: int
    found: set[tuple[int, Axes]] = dataclasses.field(default_factory=set)

    def visit(self, jaxpr: Any, origins: Mapping[Any, Origin]) -> list[Origin | None]:
        """Notes the casts in an open jaxpr with inputs of these origins; returns the origins of its results."""
        known: dict[Any, Origin] = dict(origins)

        def origin(var: Any) -> Origin | None:
            if isinstance(var, Literal):
                return frozenset()
            return known.get(var, None if _is_inexact(var.aval) else frozenset())

        for eqn in jaxpr.eqns:
            sources = [origin(var) for var in eqn.invars]
            if not any(sources):
                if None not in sources and not eqn.effects:  # a constant, whose cast has no gradient
                    known.update(dict.fromkeys(eqn.outvars, frozenset()))
                continue
            axes, inner = _cast_axes(eqn), _inner(eqn)
            if inner is not None:
                pairs = zip(inner.invars, sources, strict=True)
                results = self.visit(inner, {var: source for var, source in pairs if source is not None})
                if eqn.primitive.name not in _REMAT:
                    known.update((var, result) for var, result in zip(eqn.outvars, results, strict=True) if result is not None)
                continue
            if any(source is None for source in sources):
                continue
            union: Origin = frozenset().union(*(source for source in sources if source is not None))
            if axes:
                union = frozenset((number, before | axes) for number, before in union)
                # The gradient is reduced once, with the size of the operands, instead of in every step with that of the value.
                if sum(self.sizes[number] for number, _ in union) <= self.steps * _elements(eqn.invars[0].aval):
                    self.found |= union
                known[eqn.outvars[0]] = union
            elif _commutes(eqn):
                known.update(dict.fromkeys(eqn.outvars, union))
        return [origin(var) for var in jaxpr.outvars]


def _evaluate(jaxpr: Any, values: Sequence[Any], forms: Sequence[Forms]) -> tuple[list[Any], list[Forms]]:
    """The results of an open jaxpr; where it casts a value that has that form, the form is taken."""
    known = dict(zip(jaxpr.invars, values, strict=True))
    cast_forms: dict[Any, Forms] = {var: f for var, f in zip(jaxpr.invars, forms, strict=True) if f}
    waiting: list[Any] = []
    # Values that can be differentiated and have no forms. Constants are not among them: they are cast where they are needed.
    formless = {var for var in jaxpr.invars if var not in cast_forms and _is_inexact(var.aval)}

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else known[var]

    def flush() -> None:
        """Evaluates the equations that wait, as one small jaxpr."""
        if not waiting:
            return
        inputs = list(dict.fromkeys(v for eqn in waiting for v in eqn.invars if not isinstance(v, Literal) and v in known))
        outputs = [v for eqn in waiting for v in eqn.outvars if not isinstance(v, DropVar)]
        effects = frozenset().union(*(eqn.effects for eqn in waiting))
        part = jaxpr.replace(constvars=[], invars=inputs, outvars=outputs, eqns=list(waiting), effects=effects)
        known.update(zip(outputs, jaxpr_as_fun(ClosedJaxpr(part, ()))(*(known[v] for v in inputs)), strict=True))
        waiting.clear()

    def form(var: Any, axes: Axes) -> Any:
        if not isinstance(var, Literal) and axes in cast_forms.get(var, {}):
            return cast_forms[var][axes]
        value = read(var)
        return cast_data(value if hasattr(value, "aval") else jnp.asarray(value, var.aval.dtype), axes)

    for eqn in jaxpr.eqns:
        of = [{} if isinstance(var, Literal) else cast_forms.get(var, {}) for var in eqn.invars]
        axes, inner, name = _cast_axes(eqn), _inner(eqn), eqn.primitive.name
        if not any(of):
            waiting.append(eqn)
        elif axes in of[0]:
            flush()
            known[eqn.outvars[0]] = of[0][axes]
            cast_forms[eqn.outvars[0]] = {more - axes: value for more, value in of[0].items() if axes < more}
        elif inner is not None:
            flush()
            function: Callable[..., Any] = functools.partial(_evaluate_listed, inner, [list(f) for f in of])
            if name in _REMAT:
                function = jax.checkpoint(function, prevent_cse=eqn.params["prevent_cse"], policy=eqn.params["policy"])
                results = function([read(v) for v in eqn.invars], [list(f.values()) for f in of])
            else:
                results, result_forms = _evaluate(inner, [read(v) for v in eqn.invars], of)
                cast_forms.update((var, f) for var, f in zip(eqn.outvars, result_forms, strict=True) if f)
            known.update(zip(eqn.outvars, results, strict=True))
        else:
            waiting.append(eqn)
            used = [f for var, f in zip(eqn.invars, of, strict=True) if f or (not isinstance(var, Literal) and var in formless)]
            shared = set(used[0]).intersection(*used) if _commutes(eqn) else set()
            if shared:
                flush()
                for more in shared:
                    result = eqn.primitive.bind(*(form(var, more) for var in eqn.invars), **eqn.params)
                    results = result if eqn.primitive.multiple_results else [result]
                    for var, value in zip(eqn.outvars, results, strict=True):
                        cast_forms.setdefault(var, {})[more] = value
        differentiable = (var for var in eqn.invars if not isinstance(var, Literal) and _is_inexact(var.aval))
        if eqn.effects or any(var in formless or cast_forms.get(var) for var in differentiable):
            formless.update(var for var in eqn.outvars if not cast_forms.get(var) and _is_inexact(var.aval))
    flush()
    return [read(var) for var in jaxpr.outvars], [
        {} if isinstance(var, Literal) else cast_forms.get(var, {}) for var in jaxpr.outvars
    ]


def _evaluate_listed(jaxpr: Any, axes: list[list[Axes]], values: Sequence[Any], forms: Sequence[Sequence[Any]]) -> list[Any]:
    return _evaluate(jaxpr, values, [dict(zip(a, f, strict=True)) for a, f in zip(axes, forms, strict=True)])[0]


class _Hoist(Exception):
    """A body casts operands of its loop; raised while it is traced, for whoever traces it."""

    def __init__(self, closed: ClosedJaxpr, casts: set[tuple[int, Axes]]):
        super().__init__("casts can be taken out of a loop")
        self.closed, self.casts = closed, casts


class _Body:
    """A loop's body on flat data, traced once where casts may be taken out of it.

    Args:
      flat: takes the data of the carry and of what is sliced, and returns those of the next carry and of the results.
      carried: the number of leaves of the carry, which come first.
      steps: the number of steps, as far as it is known.
      sliced: whether what follows are slices of operands of the loop, one for each step.
    """

    def __init__(self, flat: Callable[..., list[Any]], carried: int, steps: int, sliced: bool = True):
        self.flat, self.carried, self.steps, self.sliced = flat, carried, steps, sliced
        region = ambient()
        self.manual = region is not None and region.manual

    def __call__(self, *datas: Any) -> list[Any]:
        """One step.

        Raises:
          _Hoist: the step casts what the loop has as operands.
        """
        if not self.manual:
            return self.flat(*datas)
        closed = jax.make_jaxpr(self.flat)(*datas)
        jaxpr, n = closed.jaxpr, self.carried
        slices = jaxpr.invars[n:] if self.sliced else []
        operands = [*jaxpr.constvars, *slices]
        sizes = [_elements(var.aval) for var in jaxpr.constvars] + [self.steps * _elements(var.aval) for var in slices]
        finder = _CastFinder(sizes, self.steps)
        finder.visit(jaxpr, {var: frozenset({(i, frozenset())}) for i, var in enumerate(operands)})
        same = [(a.dtype, a.weak_type) for a in closed.in_avals[:n]] == [(a.dtype, a.weak_type) for a in closed.out_avals[:n]]
        if finder.found and same:  # otherwise JAX promotes the carry, and traces again
            raise _Hoist(closed, finder.found)
        return list(jaxpr_as_fun(closed)(*datas))


class _Hoisted:
    """A traced body, its constants as operands, and the casts that were taken out of it."""

    def __init__(self, hoist: _Hoist, carried: int):
        closed = hoist.closed
        self.carried = carried
        self.dtypes = [aval.dtype for aval in closed.in_avals[:carried]]
        self.weak = [getattr(aval, "weak_type", False) for aval in closed.in_avals[:carried]]
        self.consts = list(closed.consts)
        jaxpr = closed.jaxpr
        self.jaxpr = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
        count = len(self.consts)
        self.casts = sorted(hoist.casts, key=lambda pair: (pair[0], sorted(pair[1])))
        self.const_forms: list[Forms] = [{} for _ in self.consts]
        for i, axes in self.casts:
            if i < count:
                self.const_forms[i][axes] = cast_data(jnp.asarray(self.consts[i]), axes)
        self.sliced_casts = [(i - count, axes) for i, axes in self.casts if i >= count]

    def start(self, datas: Sequence[Any]) -> list[Any]:
        """The beginning, with the element types that the body was traced with."""
        return [
            data if data.dtype == dtype and data.weak_type == weak else lax.convert_element_type(data, dtype)
            for data, dtype, weak in zip(datas, self.dtypes, self.weak, strict=True)
        ]

    def slices(self, datas: Sequence[Any]) -> list[Any]:
        """What is sliced, and the forms of it that the body wants."""
        return [*datas, *(cast_data(datas[i], axes) for i, axes in self.sliced_casts)]

    def __call__(self, carry: Sequence[Any], slices: Sequence[Any]) -> list[Any]:
        count = len(slices) - len(self.sliced_casts)
        forms: list[Forms] = [{} for _ in range(count)]
        for (i, axes), form in zip(self.sliced_casts, slices[count:], strict=True):
            forms[i][axes] = form
        no_forms: list[Forms] = [{} for _ in carry]
        values = [*self.consts, *carry, *slices[:count]]
        return _evaluate(self.jaxpr, values, [*self.const_forms, *no_forms, *forms])[0]


def _until_it_fits(carry: _Carry, attempt: Callable[[], Any]) -> Any:
    """Runs `attempt` until the carry gains nothing any more; each time it gains a name or a mesh axis, so this ends."""
    while True:
        try:
            return attempt()
        except _Grow as grow:
            types = grow.types
        carry.grow(types)


# --- scan ----------------------------------------------------------------------------------------------------------------


class _Entries:
    """Arrays that are cut along one axis: those that have it, with it in front, and those that are the same for every entry."""

    def __init__(self, op: str, xs: Any, axis: Any, every: bool = False):
        region = ambient()
        self.op, self.axis = op, axis
        self.by_name = not isinstance(axis, (int, np.integer)) or isinstance(axis, bool)
        if self.by_name and not is_name(axis):
            raise AxisNameError(f"{op}: axis={axis!r} is neither 0 nor the name of an axis.")
        if not self.by_name and axis != 0:
            raise PositionalAxisError(
                f"{op}: axis={axis!r}; it is 0, for the first positional axis, or a name. Use nx.numpy.moveaxis first."
            )
        leaves, self.tree = _flatten(xs)
        self.datas: list[Any] = []  # of the leaves that are cut
        self.fixed: dict[int, Any] = {}
        self.dims: dict[int, Dims] = {}  # of one entry
        blocks = [_block(leaf, op, region) for leaf in leaves]
        for i, block in enumerate(blocks):
            dims = dims_of(block)
            place = axis if self.by_name else None
            if place not in dims:
                if not self.by_name:
                    raise PositionalAxisError(
                        f"{op}: {type_text(block)} has no positional axis to go along. Write axis= and the name of an axis."
                    )
                self.fixed[i] = block
                continue
            at = dims.index(place)
            self.datas.append(jnp.moveaxis(_data(block), at, 0) if at else _data(block))
            self.dims[i] = dims[:at] + dims[at + 1 :]
        if self.by_name and leaves and (not self.dims or (every and self.fixed)):
            lacking = blocks[min(self.fixed)]
            candidates = [dim for block in blocks for dim in _names(dims_of(block))]
            raise_not_found(op, axis, type_text(lacking), candidates if not self.dims else _names(dims_of(lacking)))
        self.placement: tuple[str, ...] = region.placement(axis) if self.by_name and region is not None else ()

    def value(self, datas: Iterable[Any]) -> Any:
        """One entry of all arrays, from the data of those that are cut."""
        supply = iter(datas)
        count = len(self.fixed) + len(self.dims)
        return self.tree.unflatten(
            [self.fixed[i] if i in self.fixed else _named(next(supply), self.dims[i]) for i in range(count)]
        )

    def result(self, data: Any, dims: Dims) -> Any:
        """An array of one entry each, the entries in front."""
        region = ambient()
        if self.by_name and self.axis in dims:
            raise AxisNameError(
                f"{self.op}: what the function returns for one entry along {self.axis!r} has an axis {self.axis!r} itself, from a value "
                "that it carries or closes over. Pass that value as an argument, or rename its axis."
            )
        dims = (self.axis if self.by_name else None, *dims)
        if region is not None:
            region.check_placement(self.op, _names(dims))
        return wrap(data, dims)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    axis: Any = 0,
) -> tuple[Any, Any]:
    """Applies a function to entry after entry along an axis, and carries a state: `lax.scan` over names.

    Args:
      f: takes the carry and one entry of `xs`, arrays without the axis; returns the next carry and a result.
      init: the carry to begin with. It is broadcast along names that the carry has later; what `f` loses is broadcast back.
      xs: a pytree of arrays that have the axis. Over a name, those that lack it are the same for every entry.
      length: the number of entries, where there are no `xs`.
      reverse: whether to begin at the end.
      unroll: as in `lax.scan`.
      axis: a name, or 0 for the first positional axis.

    Returns:
      The last carry, and the results of all entries, which have the axis in front (of the other positional ones, or by name).

    Over a sharded name the steps still come one after the other, and all devices take each of them together: when the turn of a
    device's block comes, it is sent to all others (one all-reduce of a block for every device, in a loop), and of the results
    each device keeps its own. Where the function is associative, `associative_scan` sends one entry per device instead.

    Raises:
      AxisNotFoundError: no array of `xs` has the axis.
      AxisNameError: `axis` is neither 0 nor a name, or a result has it already.
      AxisSizeError: a name of the carry has two sizes.
      PositionalAxisError: there is no positional axis, or those of the carry change.
      ArgumentTypeError: `f` returns no pair, or a carry of another structure.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["batch", "time"])
    >>> total, sums = nx.scan(lambda carry, x: (carry + x, carry + x), 0.0, x, axis="time")
    >>> total.dims, nx.positional(sums, ["batch", "time"]).tolist()
    (('batch',), [[0.0, 1.0, 3.0], [3.0, 7.0, 12.0]])
    """
    return _scan("scan", f, init, xs, length, reverse, unroll, axis)


def _scan(
    op: str, f: Callable[..., Any], init: Any, xs: Any, length: int | None, reverse: bool, unroll: int | bool, axis: Any
) -> tuple[Any, Any]:
    entries = _Entries(op, xs, axis)
    steps = _length(op, entries, length)
    if entries.placement:
        return _scan_over_devices(entries, f, init, steps, reverse, unroll)
    last, results = _scan_entries(entries, f, init, entries.datas, steps, reverse, unroll)
    leaves, tree = _flatten(results)
    return last, tree.unflatten([entries.result(_data(leaf), dims_of(leaf)[1:]) for leaf in leaves])


def _length(op: str, entries: _Entries, length: int | None) -> int | None:
    """The number of steps on one device, as far as it is not that of arrays."""
    if not entries.by_name:
        return length
    region = ambient()
    axis = entries.axis
    blocks = 1 if region is None else region.blocks(axis)
    known: int | None = entries.datas[0].shape[0] if entries.datas else None
    whole = known * blocks if known is not None else None if region is None else region.sizes.get(axis)
    if length is None:
        if whole is None:
            names = () if region is None else tuple(region.sizes)
            raise AxisNotFoundError(
                f"{op}: there are no xs, and axis {axis!r} has no size.{did_you_mean(axis, names)} Give length=, or an array with the "
                "axis."
            )
        length = whole
    elif whole is not None and whole != length:
        raise AxisSizeError(f"{op}: length={length}, but axis {axis!r} has size {whole}. Leave out length=.")
    if region is not None:
        region.seen.add(axis)
        return region.block_size(axis, length, op)
    return length


def _pair(op: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise ArgumentTypeError(
            f"{op}: the function returns {type(result).__name__} where a pair (carry, result) is needed; return (carry, None) if "
            "there is no result."
        )
    return result[0], result[1]


def _scan_entries(
    entries: _Entries,
    f: Callable[..., Any],
    init: Any,
    datas: Sequence[Any],
    length: int | None,
    reverse: bool,
    unroll: int | bool,
) -> tuple[Any, Any]:
    """The scan over the leading axis of `datas`; in the results it is a positional one."""
    state = _Carry(entries.op, init)
    count = len(state.leaves)
    noted: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        with explain_type_errors:
            after, result = _pair(entries.op, f(state.value(values[:count]), entries.value(values[count:])))
        after = state.next(after)
        region = ambient()
        leaves, tree = _flatten(result)
        leaves = [_block(leaf, entries.op, region) for leaf in leaves]
        noted[:] = [tree, [dims_of(leaf) for leaf in leaves]]
        return [*after, *(_data(leaf) for leaf in leaves)]

    body = _Body(flat, count, datas[0].shape[0] if datas else length or 1)
    options: dict[str, Any] = {"length": length, "reverse": reverse, "unroll": unroll}

    def attempt() -> tuple[Any, Any]:
        def step(carry: Any, x: Sequence[Any]) -> tuple[Any, list[Any]]:
            results = body(*state.tree.flatten_up_to(carry), *x)
            return state.tree.unflatten(results[:count]), results[count:]

        try:
            return lax.scan(step, state.tree.unflatten(state.start()), list(datas), **options)
        except _Hoist as found:
            hoisted = _Hoisted(found, count)

        def hoisted_step(carry: list[Any], x: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            results = hoisted(carry, x)
            return results[:count], results[count:]

        start = hoisted.start(state.start())
        last, results = lax.scan(hoisted_step, start, hoisted.slices(datas), **options)
        return state.tree.unflatten(last), results

    last, results = _until_it_fits(state, attempt)
    tree, dims = noted
    finished = [wrap(data, kind.dims) for data, kind in zip(state.tree.flatten_up_to(last), state.types, strict=True)]
    return state.tree.unflatten(finished), tree.unflatten(
        [make_in_region(data, (None, *d)) if _names(d) else data for data, d in zip(results, dims, strict=True)]
    )


def _from_device(data: Any, mine: Any, axes: tuple[str, ...]) -> Any:
    """The block of the device where `mine` is true, on all devices along `axes`: one all-reduce."""
    if jnp.issubdtype(data.dtype, jax.dtypes.extended):
        bits = _from_device(jax.random.key_data(data), mine, axes)
        return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(data))
    if data.dtype == jnp.bool_:
        return _from_device(data.astype(jnp.int32), mine, axes).astype(jnp.bool_)
    data = cast_data(data, axes)
    return comm.psum(jnp.where(mine, data, jnp.zeros((), data.dtype)), axes)


def _scan_over_devices(
    entries: _Entries, f: Callable[..., Any], init: Any, steps: int | None, reverse: bool, unroll: int | bool
) -> tuple[Any, Any]:
    """The scan over a sharded name: one round per device, in which all scan the block of that device."""
    axes = entries.placement
    devices = math.prod(lax.axis_size(axis) for axis in axes)
    here = comm.block_index(axes)

    def round_of(device: Any, carry: Any) -> tuple[Any, Any]:
        blocks = [_from_device(data, here == device, axes) for data in entries.datas]
        return _scan_entries(entries, f, carry, blocks, steps, reverse, unroll)

    first = devices - 1 if reverse else 0
    carry, kept = round_of(first, init)
    leaves, tree = _flatten(kept)
    kept = [_named(cast(leaf, frozenset(axes)), dims_of(leaf)) for leaf in leaves]

    def step(state: Any, device: Any) -> Any:
        carry, kept = state
        carry, results = round_of(device, carry)
        mine = here == device
        blocks = [
            _named(jnp.where(mine, cast(new, frozenset(axes)), _data(old)), dims_of(old))
            for new, old in zip(_flatten(results)[0], kept, strict=True)
        ]
        return (carry, blocks), None

    others = jnp.arange(devices - 1) + (0 if reverse else 1)
    rounds = _Entries(entries.op, others, 0)
    (carry, kept), _ = _scan_entries(rounds, step, (carry, kept), rounds.datas, None, reverse, 1)
    return carry, tree.unflatten([entries.result(_data(leaf), dims_of(leaf)[1:]) for leaf in kept])


def fold(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    axis: Any = 0,
) -> Any:
    """Like `scan`, for a function that returns the carry only.

    Returns:
      The last carry.

    >>> import jax.numpy as jnp, namedax as nx
    >>> layers = nx.named(jnp.full((4, 3, 3), 0.5), ["layer", "in", "out"])
    >>> x = nx.named(jnp.ones((2, 3)), ["batch", "in"])
    >>> nx.fold(lambda x, w: nx.rename(nx.dot(x, w, "in"), {"out": "in"}), x, layers, axis="layer").dims
    ('batch', 'in')
    """
    return _scan("fold", lambda carry, x: (f(carry, x), None), init, xs, length, reverse, unroll, axis)[0]


# --- loops ---------------------------------------------------------------------------------------------------------------


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: Any = None) -> Any:
    """Applies `body_fun(i, value)` for `i` from `lower` to `upper - 1`: `lax.fori_loop` over names.

    Args:
      lower: an integer, or an array of one.
      upper: the same.
      body_fun: takes the index and the value, returns the next value.
      init_val: the value to begin with; broadcast along names that it has later.
      unroll: as in `lax.fori_loop`.

    Raises:
      NamedAxesLeftError: a bound has names: instances can not take different numbers of steps here. Use `while_loop`.
      AxisSizeError, PositionalAxisError, ArgumentTypeError: as for `scan`, of the value.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.fori_loop(0, 3, lambda i, v: v + nx.named(jnp.ones(2), ["k"]) * i, 0.0).data
    Array([3., 3.], dtype=float32)
    """
    for what, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, NamedArray) and _names(bound.dims):
            raise NamedAxesLeftError(
                f"fori_loop: {what} is {type_text(bound)}; a bound has no named axes. For another number of steps in every entry "
                "use nx.while_loop, whose condition may have names."
            )
    lower, upper = _data(lower), _data(upper)
    state = _Carry("fori_loop", init_val)
    count = len(state.leaves)

    def flat(*values: Any) -> list[Any]:
        *datas, i = values
        with explain_type_errors:
            return state.next(body_fun(i, state.value(datas)))

    known = not (isinstance(lower, jax.core.Tracer) or isinstance(upper, jax.core.Tracer))
    body = _Body(flat, count, max(int(upper) - int(lower), 1) if known else 1, sliced=False)

    def attempt() -> Any:
        def step(i: Any, value: Any) -> Any:
            return state.tree.unflatten(body(*state.tree.flatten_up_to(value), i))

        try:
            return lax.fori_loop(lower, upper, step, state.tree.unflatten(state.start()), unroll=unroll)
        except _Hoist as found:
            hoisted = _Hoisted(found, count)
        start = hoisted.start(state.start())
        last = lax.fori_loop(lower, upper, lambda i, datas: hoisted(datas, [i]), start, unroll=unroll)
        return state.tree.unflatten(last)

    last = _until_it_fits(state, attempt)
    leaves = state.tree.flatten_up_to(last)
    return state.tree.unflatten([wrap(data, kind.dims) for data, kind in zip(leaves, state.types, strict=True)])


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Applies `body_fun` while `cond_fun` is true: `lax.while_loop` over names.

    Args:
      cond_fun: takes the value, returns a truth value. If that has names, every entry goes on for as long as its own is true, as
        under `jax.vmap`: an entry that has finished keeps its value, and all values have these names.
      body_fun: takes the value, returns the next one.
      init_val: the value to begin with; broadcast along names that it has later.

    Returns:
      The first value for which the condition is false.

    Where the condition has sharded names, each device goes on by itself, unless the steps communicate along the mesh axes of these
    names. Then devices that communicate go on together, while one of them has an entry that does: one all-reduce of a truth value
    per step.

    Raises:
      PositionalAxisError: the condition has positional axes, or those of the value change.
      ArgumentTypeError: the condition is no truth value, or the value changes its structure.
      AxisSizeError: a name of the value has two sizes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 3.0, 200.0]), ["k"])
    >>> nx.while_loop(lambda v: v < 100, lambda v: v * 2, x).data.tolist()
    [128.0, 192.0, 200.0]
    """
    state = _Carry("while_loop", init_val)

    def wanted(datas: Sequence[Any]) -> Any:
        with explain_type_errors:
            return _truth("while_loop", cond_fun(state.value(datas)))

    def after(datas: Sequence[Any]) -> list[Any]:
        with explain_type_errors:
            return state.next(body_fun(state.value(datas)))

    def pred_type() -> _Type:
        seen: list[_Type] = []

        def note(*datas: Any) -> tuple[()]:
            seen.append(_Type.of(wanted(datas)))
            return ()

        jax.eval_shape(note, *state.start())
        return seen[-1]

    def attempt() -> Any:
        kind = pred_type()
        if not _names(kind.dims) and not kind.axes:

            def one(value: Any) -> Any:
                return state.tree.unflatten(after(state.tree.flatten_up_to(value)))

            def go_on(value: Any) -> Any:
                return _data(wanted(state.tree.flatten_up_to(value)))

            return lax.while_loop(go_on, one, state.tree.unflatten(state.start()))
        types = [_with_names_of(kind, leaf) for leaf in state.types]
        if types != state.types:
            raise _Grow(types)

        def step(pred: Any, *datas: Any) -> list[Any]:
            kept = [
                jnp.where(leaf.spread(cast_data(pred, leaf.axes), kind.dims), new, old)
                for leaf, new, old in zip(state.types, after(datas), datas, strict=True)
            ]
            return [kind.fit(wanted(kept)), *kept]

        start = state.start()
        first = kind.fit(wanted(start))
        # Devices that communicate with each other have to take the same number of steps.
        together = kind.axes & _collective_axes(jax.make_jaxpr(step)(first, *start).jaxpr) if kind.axes else ()

        def any_left(values: list[Any]) -> Any:
            return comm.pmax(jnp.any(values[0]), tuple(sorted(together)))

        _, *last = lax.while_loop(any_left, lambda values: step(*values), [first, *start])
        return state.tree.unflatten(last)

    last = _until_it_fits(state, attempt)
    leaves = state.tree.flatten_up_to(last)
    return state.tree.unflatten([wrap(data, kind.dims) for data, kind in zip(leaves, state.types, strict=True)])


def _with_names_of(pred: _Type, leaf: _Type) -> _Type:
    """The type of a leaf that has the names of the predicate too."""
    only_names = _Type(tuple(_names(pred.dims)), tuple(pred.sizes.values()), pred.axes)
    sizes = leaf.sizes | only_names.sizes
    more = [name for name in only_names.dims if name not in leaf.dims]
    positional = iter(leaf.positional)
    dims = (*more, *leaf.dims)
    spec = (None,) * len(more) + leaf.spec if leaf.spec else ()
    return _Type(dims, tuple(next(positional) if dim is None else sizes[dim] for dim in dims), leaf.axes | pred.axes, spec)


def _truth(op: str, pred: Any) -> Any:
    """A predicate: a truth value, or a named array of them."""
    pred = _block(pred, op, ambient())
    if dims_of(pred).count(None):
        raise PositionalAxisError(
            f"{op}: the condition is {type_text(pred)}; it may have names, but no positional axes. Reduce them, with nx.any or nx.all."
        )
    if pred.dtype != jnp.bool_:
        raise ArgumentTypeError(
            f"{op}: the condition is {type_text(pred)}; it has to be a truth value. Compare it, as in x != 0."
        )
    return pred


# --- branches ------------------------------------------------------------------------------------------------------------


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """One of two functions of the operands, as the predicate says: `lax.cond` over names.

    Args:
      pred: a truth value, or a number that is not zero. If it has names, both functions are computed, and their results selected
        entry by entry, as under `jax.vmap`.
      true_fun: a function of the operands.
      false_fun: another one, whose results have the same structure, element types and positional axes.
      *operands: pytrees of arrays.

    Returns:
      The results, broadcast to the names that those of either function have, and to those of `pred`. Moves nothing itself.

    Raises:
      PositionalAxisError: `pred` or the results have positional axes that do not fit.
      AxisSizeError: a name has two sizes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, -2.0]), ["k"])
    >>> nx.cond(nx.sum(x, "k") < 0, lambda x: x, lambda x: 0.0, x).data.tolist()
    [1.0, -2.0]
    >>> nx.cond(x > 0, lambda x: x, lambda x: 0.0, x).data.tolist()
    [1.0, 0.0]
    """
    pred = _scalar("cond", pred)
    if pred.dtype != jnp.bool_:
        pred = wrap(_data(pred) != 0, dims_of(pred))
    if _is_common(pred):
        return _branch("cond", (false_fun, true_fun), lambda f: lax.cond(_data(pred), f[1], f[0], *operands))
    return _select("cond", pred, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """One of several functions of the operands, by number: `lax.switch` over names.

    Args:
      index: an integer, brought into the range of the branches. If it has names, all branches are computed, and their results
        selected entry by entry.
      branches: functions of the operands.
      *operands: pytrees of arrays.

    Returns:
      The results, broadcast to the names that those of any branch have, and to those of `index`. Moves nothing itself.

    Raises:
      ArgumentError: there is no branch.
      ArgumentTypeError: `index` is no integer.
      PositionalAxisError, AxisSizeError: as for `cond`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> which = nx.named(jnp.array([0, 2, 1]), ["k"])
    >>> nx.switch(which, [lambda x: x, lambda x: 10 * x, lambda x: 100 * x], 7).data.tolist()
    [7, 700, 70]
    """
    branches = tuple(branches)
    if not branches:
        raise ArgumentError("switch: there are no branches; give at least one function.")
    index = _scalar("switch", index)
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise ArgumentTypeError(f"switch: the index is {type_text(index)}; it has to be an integer.")
    if _is_common(index):
        return _branch("switch", branches, lambda f: lax.switch(_data(index), f, *operands))
    clamped = wrap(jnp.clip(_data(index), 0, len(branches) - 1), dims_of(index))
    return _select("switch", clamped, branches, operands)


def _scalar(op: str, pred: Any) -> Any:
    pred = _block(pred, op, ambient())
    if dims_of(pred).count(None):
        raise PositionalAxisError(
            f"{op}: the {'index' if op == 'switch' else 'predicate'} is {type_text(pred)}; it may have names, but no positional axes. "
            "Name the axis, or reduce it."
        )
    return pred


def _is_common(pred: Any) -> bool:
    """Whether a predicate is the same for all entries."""
    return not _names(dims_of(pred)) and not varying(_data(pred))


def _joined(op: str, kinds: Sequence[Sequence[_Type]]) -> list[_Type]:
    joined = list(kinds[0])
    for number, types in enumerate(kinds[1:], 1):
        verb = ("is in one branch", f"in branch {number}" if op == "switch" else "in the other")
        joined = [a.join(b, op, f"result {i}", verb) for i, (a, b) in enumerate(zip(joined, types, strict=True))]
    return joined


def _branch(op: str, branches: Sequence[Callable[..., Any]], run: Callable[[Sequence[Callable[..., Any]]], Any]) -> Any:
    """Runs one branch; the results of all are broadcast to the names of any."""
    target: list[_Type] | None = None
    seen: dict[int, tuple[Any, list[_Type]]] = {}

    def traced(number: int, branch: Callable[..., Any], *operands: Any) -> Any:
        with explain_type_errors:
            leaves, tree = _flatten(branch(*operands))
        region = ambient()
        leaves = [_block(leaf, op, region) if _is_named(leaf) else leaf for leaf in leaves]
        types = [_Type.of(leaf) for leaf in leaves]
        seen[number] = (tree, types)
        if target is not None:
            return tree.unflatten([kind.fit(leaf) for kind, leaf in zip(target, leaves, strict=True)])
        if len(seen) == len(branches) and all(t == tree for t, _ in seen.values()):
            kinds = [types for _, (_, types) in sorted(seen.items())]
            joined = _joined(op, kinds)
            if any(types != joined for types in kinds):
                raise _Grow(joined)
        return tree.unflatten([_data(leaf) for leaf in leaves])

    functions = [functools.partial(traced, number, branch) for number, branch in enumerate(branches)]
    try:
        results = run(functions)
    except _Grow as grow:
        target = list(grow.types)
        results = run(functions)
    tree, types = next(iter(seen.values()))
    types = types if target is None else target
    leaves = tree.flatten_up_to(results)
    return tree.unflatten([wrap(data, kind.dims) for data, kind in zip(leaves, types, strict=True)])


def _select(op: str, index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """The results of all branches, selected by an index with names."""
    with explain_type_errors:
        results = [_flatten(branch(*operands)) for branch in branches]
    tree = results[0][1]
    for number, (_, other) in enumerate(results):
        if other != tree:
            raise ArgumentTypeError(
                f"{op}: one branch returns the structure {tree} and {f'branch {number}' if op == 'switch' else 'the other'} {other}; "
                "these have to be the same."
            )
    region = ambient()
    columns = [[_block(leaf, op, region) for leaf in leaves] for leaves, _ in results]
    kinds = [[_Type.of(leaf) for leaf in leaves] for leaves in columns]
    which = _Type.of(index)
    chosen = []
    for i, kind in enumerate(_joined(op, kinds)):
        dtypes = {leaves[i].dtype for leaves in columns if not leaves[i].weak_type} if columns[0] else set()
        if len(dtypes) > 1:
            raise ArgumentTypeError(
                f"{op}: result {i} has the element types {', '.join(sorted(str(dtype) for dtype in dtypes))} in different branches; these have to be "
                "the same. Convert them with astype."
            )
        for name, n in which.sizes.items():
            if kind.sizes.get(name, n) != n:
                raise AxisSizeError(
                    f"{op}: axis {name!r} of {type_text(index)} has another size in result {i}, {kind}. Rename one."
                )
        kind = _with_names_of(which, kind)
        if region is not None:
            region.check_placement(op, _names(kind.dims))
        options = [kind.fit(leaves[i]) for leaves in columns]
        selector = kind.spread(cast_data(_data(index), kind.axes), which.dims)
        data = options[0]
        for number, option in enumerate(options[1:], 1):
            data = jnp.where(selector if selector.dtype == jnp.bool_ else selector == number, option, data)
        chosen.append(wrap(data, kind.dims))
    return tree.unflatten(chosen)


# --- functions of one entry ----------------------------------------------------------------------------------------------


def _collective_axes(jaxpr: Any) -> Axes:
    """The mesh axes along which a program communicates."""
    found: set[str] = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _COLLECTIVES:
            axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
            found.update(axis for axis in ((axes,) if isinstance(axes, str) else axes) if isinstance(axis, str))
        for inner in _parts(eqn.params):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found |= _collective_axes(inner)
    return frozenset(found)


def _run_hidden(op: str, name: Hashable, placement: tuple[str, ...], function: Callable[..., Any], datas: Sequence[Any]) -> Any:
    """`function(*datas)`, a list of data, in which the axis `name` on the mesh axes `placement` is hidden.

    Raises:
      PlacementConflictError: it communicates along these mesh axes.
    """
    if not placement:
        return function(*datas)
    datas = [cast_data(data, placement) for data in datas]
    closed = jax.make_jaxpr(function)(*datas)
    mixed = _collective_axes(closed.jaxpr) & frozenset(placement)
    if mixed:
        raise PlacementConflictError(
            f"{op}: {name!r} is mapped to mesh axis {min(mixed)!r}, and the function communicates along it. For each of its entries "
            "it reduces, gathers or indexes another axis that is mapped to it, or it differentiates with respect to an array that it "
            "made itself. Rename that axis to one that is not mapped there, or give that array as an argument."
        )
    return jaxpr_as_fun(closed)(*datas)


class _Entry:
    """A function of entries as one of flat data; it notes what the results are."""

    def __init__(self, op: str, f: Callable[..., Any], value: Callable[[Sequence[Any]], Any]):
        self.op, self.f, self.value = op, f, value
        self.tree: Any = None
        self.dims: list[Dims] = []

    def __call__(self, *datas: Any) -> list[Any]:
        with explain_type_errors:
            leaves, self.tree = _flatten(self.f(self.value(datas)))
        region = ambient()
        leaves = [_block(leaf, self.op, region) for leaf in leaves]
        self.dims = [dims_of(leaf) for leaf in leaves]
        return [_data(leaf) for leaf in leaves]


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None, axis: Any = 0) -> Any:
    """Applies a function to entry after entry along an axis: `lax.map` over names. It saves memory where `vmap` saves time.

    Args:
      f: a function of one entry: arrays without the axis.
      xs: a pytree of arrays that have the axis. Over a name, those that lack it are the same for every entry.
      batch_size: how many entries are computed at a time, by `vmap`.
      axis: a name, or 0 for the first positional axis.

    Returns:
      The results of all entries, with the axis in front.

    Over a sharded name every device takes its own entries, and nothing is sent. `f` must not communicate along the mesh axes of the
    name then.

    Raises:
      AxisNotFoundError, AxisNameError, PositionalAxisError: as for `scan`.
      ArgumentError: `batch_size` is no integer from 1.
      PlacementConflictError: the name is sharded, and `f` communicates along its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["batch", "k"])
    >>> nx.map(lambda row: nx.sum(row, "k"), x, axis="batch").data
    Array([ 3., 12.], dtype=float32)
    """
    if batch_size is not None and (
        isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1
    ):
        raise ArgumentError(f"map: batch_size={batch_size!r}; it is an integer from 1.")
    entries = _Entries("map", xs, axis)
    if not entries.datas:
        raise ArgumentError("map: there are no arrays in xs; give at least one.")
    entry = _Entry("map", f, entries.value)

    def along(function: Callable[..., list[Any]], datas: Sequence[Any]) -> list[Any]:
        fresh = _Entries("map", list(datas), 0)
        return list(_scan_entries(fresh, lambda _, x: ((), function(*x)), (), fresh.datas, None, False, 1)[1])

    def run(*datas: Any) -> list[Any]:
        n = datas[0].shape[0]
        if batch_size is None:
            return along(entry, datas)
        vectorised = jax.vmap(entry)
        whole = n - n % batch_size
        parts = []
        if whole or not n:
            chunks = [data[:whole].reshape((whole // batch_size, batch_size, *data.shape[1:])) for data in datas]
            parts.append([data.reshape((whole, *data.shape[2:])) for data in along(vectorised, chunks)])
        if whole < n:
            parts.append(vectorised(*(data[whole:] for data in datas)))
        return [lax.concatenate(pieces, 0) if len(pieces) > 1 else pieces[0] for pieces in zip(*parts, strict=True)]

    results = _run_hidden("map", axis, entries.placement, run, entries.datas)
    return entry.tree.unflatten([entries.result(data, dims) for data, dims in zip(results, entry.dims, strict=True)])


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = None) -> Callable[..., Any]:
    """Vectorises a function over an axis that it does not see: `jax.vmap` over names.

    Functions of named arrays are vectorised over names that they do not speak of as it is. `vmap` hides a name: from a function that
    uses it for an axis of its own, or for `jax.grad` of the loss of a single example.

    Args:
      fun: a function of pytrees of arrays.
      in_axes: a name (of every array that has it; others are the same for every entry), 0 for the first positional axis, or a tuple
        or list of these and `None`, one for each positional argument. Keyword arguments go by the single axis; with several they are
        the same for every entry.
      out_axes: where the axis is in the results: a name, or 0. Default: the name in `in_axes`, if there is one, or 0.

    Returns:
      A function whose results all have the axis in front. Sends nothing. Over a sharded name `fun` must not communicate along its
      mesh axes.

    Raises, when called:
      AxisNotFoundError: no argument has the name.
      AxisNameError: an axis is neither 0 nor a name, or a result has it already.
      AxisSizeError: the axes have different sizes.
      ArgumentError: `in_axes` does not fit the arguments.
      PlacementConflictError: the name is sharded, and `fun` communicates along its mesh axes.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def loss(w, x):
    ...     return nx.sum(w * x, "k") ** 2
    >>> w, x = nx.named(jnp.ones(3), ["k"]), nx.named(jnp.ones((5, 3)), ["batch", "k"])
    >>> nx.vmap(jax.grad(loss), "batch")(w, x).dims
    ('batch', 'k')
    """

    @functools.wraps(fun)
    def vectorised(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, (tuple, list)):
            if len(in_axes) != len(args):
                raise ArgumentError(
                    f"vmap: in_axes={in_axes!r} has {len(in_axes)} entries for {len(args)} positional arguments. Write one for each, or a "
                    "single one for all."
                )
            axes, for_kwargs = list(in_axes), None
        else:
            axes, for_kwargs = [in_axes] * len(args), in_axes
        groups = [*zip(axes, args, strict=True), (for_kwargs, kwargs)]
        wanted = [axis for axis in axes if axis is not None]
        if not wanted and for_kwargs is None:
            raise ArgumentError(f"vmap: in_axes={in_axes!r} maps no argument. Write a name, or 0.")
        names = list(dict.fromkeys(axis for axis in wanted if not isinstance(axis, (int, np.integer))))
        out = out_axes if out_axes is not None else names[0] if len(names) == 1 else 0
        if len(names) > 1 and out_axes is None:
            raise ArgumentError(
                f"vmap: in_axes={in_axes!r} has {show_names(names)}; say what the axis is called in the results: out_axes="
            )
        result = _Entries("vmap", (), out)
        return _vectorise(fun, groups, not isinstance(in_axes, (tuple, list)), result)

    return vectorised


def _vectorise(fun: Callable[..., Any], groups: list[tuple[Any, Any]], one_axis: bool, result: _Entries) -> Any:
    if one_axis:  # a single search for all arguments, so that one that has the name is enough
        axis = groups[0][0] if groups else None
        parts = [_Entries("vmap", [value for _, value in groups], axis)]
    else:
        parts = [_Entries("vmap", value, axis) if axis is not None else _same("vmap", value) for axis, value in groups]
    datas = [data for part in parts for data in part.datas]
    placements = dict.fromkeys([part.placement for part in parts if part.datas] + [result.placement])
    sizes = {data.shape[0] for data in datas}
    if len(placements) > 1:
        raise PlacementConflictError(
            "vmap: the axes that are mapped, or that of the results, are on different mesh axes. Rename them first, so that they agree."
        )
    if len(sizes) > 1:
        raise AxisSizeError(
            f"vmap: the axes that are mapped have the sizes {', '.join(str(n) for n in sorted(sizes))}; they have to agree."
        )

    def value(flat: Sequence[Any]) -> Any:
        supply = iter(flat)
        values = [part.value([next(supply) for _ in part.datas]) for part in parts]
        return values[0] if one_axis else values

    entry = _Entry("vmap", lambda values: fun(*values[:-1], **values[-1]), value)
    region = ambient()
    name = result.axis
    if result.by_name and region is not None and datas:
        region.block_size(name, datas[0].shape[0] * region.blocks(name), "vmap")
        known = region.sizes.get(name)
        if known is not None and known != datas[0].shape[0] * region.blocks(name):
            raise AxisSizeError(
                f"vmap: the results would have size {datas[0].shape[0]} along {name!r}, which has size {known} in this mapped function. "
                "Choose another name in out_axes."
            )
    (placement,) = placements
    if placement:  # what is the same for every entry may be differentiated by `fun`, entry by entry
        for part in parts:
            for i, leaf in part.fixed.items():
                if isinstance(leaf, (NamedArray, jax.Array, np.ndarray, float, complex)):
                    leaf = _block(leaf, "vmap", region)
                    part.fixed[i] = _named(cast(leaf, frozenset(placement)), dims_of(leaf))
    outs = _run_hidden("vmap", name, placement, jax.vmap(entry), datas)
    return entry.tree.unflatten([result.result(data, dims) for data, dims in zip(outs, entry.dims, strict=True)])


def _same(op: str, value: Any) -> _Entries:
    """Arguments that are the same for every entry."""
    part = _Entries(op, (), 0)
    leaves, part.tree = _flatten(value)
    region = ambient()
    part.fixed = {i: local_block(leaf, op, region) if _is_named(leaf) else leaf for i, leaf in enumerate(leaves)}
    return part


# --- associative_scan ----------------------------------------------------------------------------------------------------


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: Any = 0) -> Any:
    """Combines all entries up to each one along an axis, with an associative function: `lax.associative_scan` over names.

    Args:
      fn: combines two pytrees of arrays, and returns one like them. Over a name it sees single entries, arrays without the name. Over
        a position it sees arrays with that axis, of any length, as in JAX.
      elems: a pytree of arrays that all have the axis.
      reverse: whether to begin at the end.
      axis: a name or a position.

    Returns:
      Arrays like `elems`. Names that `fn` adds are those of all entries.

    Along a sharded name every device scans its own block; the totals of the blocks are gathered (one all-gather of one entry per
    device, for each array), combined, and put in front. The gradient adds one reduce-scatter of the same size. `fn` must not
    communicate along the mesh axes of the name.

    Raises:
      AxisNotFoundError: an array lacks the name.
      PositionalAxisError: an array lacks the position.
      PlacementConflictError: the name is sharded, and `fn` communicates along its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> decay = nx.named(jnp.full((4,), 0.5), ["time"])
    >>> x = nx.named(jnp.ones(4), ["time"])
    >>> def combine(a, b):  # of the recurrence h = decay * h + x
    ...     return a[0] * b[0], a[1] * b[0] + b[1]
    >>> nx.associative_scan(combine, (decay, x), axis="time")[1].data
    Array([1.   , 1.5  , 1.75 , 1.875], dtype=float32)
    """
    op = "associative_scan"
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return _associative_scan_by_position(fn, elems, reverse, int(axis))
    entries = _Entries(op, elems, axis, every=True)
    if not entries.datas:
        raise ArgumentError(f"{op}: there are no arrays in elems; give at least one.")
    dims = [entries.dims[i] for i in range(len(entries.datas))]
    types = [_Type.of(_named(data, (axis, *d))).bare() for data, d in zip(entries.datas, dims, strict=True)]
    starts = list(zip(entries.datas, [kind.dims for kind in types], strict=True))

    def pairwise(*values: Any) -> list[Any]:
        """`fn` of two entries, as entries of the types so far."""
        half = len(values) // 2
        a, b = (
            entries.tree.unflatten([_named(v, kind.dims[1:]) for v, kind in zip(part, types, strict=True)])
            for part in (values[:half], values[half:])
        )
        with explain_type_errors:
            leaves, tree = _flatten(fn(a, b))
        if tree != entries.tree:
            raise ArgumentTypeError(
                f"{op}: the function takes the structure {entries.tree} and returns {tree}; these have to be the same."
            )
        region = ambient()
        leaves = [_block(leaf, op, region) for leaf in leaves]
        new = []
        for i, (kind, leaf) in enumerate(zip(types, leaves, strict=True)):
            one = _Type(kind.dims[1:], kind.shape[1:], kind.axes)
            joined = one.join(_Type.of(leaf).bare(), op, f"array {i} of elems", ("is given as", "comes back as"))
            if axis in joined.dims:
                entries.result(leaf, joined.dims)  # raises
            new.append(_Type((axis, *joined.dims), (kind.shape[0], *joined.shape), joined.axes))
        if new != types:
            raise _Grow(new)
        return [_Type(kind.dims[1:], kind.shape[1:], kind.axes).fit(leaf) for kind, leaf in zip(types, leaves, strict=True)]

    combine = jax.vmap(pairwise)

    def local(*datas: Any) -> list[Any]:
        return list(lax.associative_scan(lambda a, b: combine(*a, *b), list(datas), reverse=reverse))

    def over_devices(*datas: Any) -> list[Any]:
        before, after = datas[: len(types)], datas[len(types) :]
        prefixed = jax.vmap(pairwise, in_axes=(None,) * len(types) + (0,) * len(types))
        return prefixed(*before, *after)

    while True:
        datas = [kind.fit(make_in_region(data, d)) for kind, (data, d) in zip(types, starts, strict=True)]
        try:
            if datas[0].shape[0] == 1:  # nothing is combined, but the names that `fn` adds belong to the result
                jax.eval_shape(combine, *datas, *datas)
            results = _run_hidden(op, axis, entries.placement, local, datas) if datas[0].shape[0] else datas
            if entries.placement and datas[0].shape[0]:
                results = _continue_over_devices(op, entries, results, local, over_devices, reverse)
            break
        except _Grow as grow:
            types[:] = grow.types
            region = ambient()
            if region is not None:
                for kind in types:
                    region.check_placement(op, _names(kind.dims))
    return entries.tree.unflatten([wrap(data, kind.dims) for data, kind in zip(results, types, strict=True)])


def _continue_over_devices(
    op: str,
    entries: _Entries,
    blocks: Sequence[Any],
    local: Callable[..., list[Any]],
    prefixed: Callable[..., list[Any]],
    reverse: bool,
) -> list[Any]:
    """The scan of the whole axis from those of the blocks."""
    axes = entries.placement
    n = blocks[0].shape[0]
    last = slice(0, 1) if reverse else slice(n - 1, n)
    gathered = [comm.all_gather(cast_data(data, axes)[last], 0, axes, "varying") for data in blocks]
    totals = _run_hidden(op, entries.axis, axes, local, gathered)
    devices = totals[0].shape[0]
    before = comm.block_index(axes) + (1 if reverse else -1)
    exists = (before >= 0) & (before < devices)
    # The first block has nothing in front. It combines with a total all the same, which is an ordinary value, and drops the result.
    at = jnp.clip(before, 0, devices - 1)
    prefix = [lax.dynamic_index_in_dim(total, at, 0, keepdims=False) for total in totals]
    combined = _run_hidden(op, entries.axis, axes, prefixed, [*prefix, *blocks])
    return [jnp.where(exists, new, old) for new, old in zip(combined, blocks, strict=True)]


def _associative_scan_by_position(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool, axis: int) -> Any:
    """Over a positional axis, which `fn` sees."""
    op = "associative_scan"
    region = ambient()
    leaves, tree = _flatten(elems)
    starts = [_block(leaf, op, region) for leaf in leaves]
    for leaf in starts:
        rank = dims_of(leaf).count(None)
        if not -rank <= axis < rank:
            raise PositionalAxisError(
                f"{op}: positional axis {axis} is out of range for {type_text(leaf)}. Write the name of the axis."
            )
    types = [_Type.of(leaf).bare() for leaf in starts]

    def front(kind: _Type) -> int:
        places = [i for i, dim in enumerate(kind.dims) if dim is None]
        return places[axis]

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        # JAX slices the leading axis; `fn` sees it where it was.
        def whole(datas: Sequence[Any]) -> Any:
            return tree.unflatten(
                [_named(jnp.moveaxis(data, 0, front(kind)), kind.dims) for data, kind in zip(datas, types, strict=True)]
            )

        with explain_type_errors:
            results, result_tree = _flatten(fn(whole(a), whole(b)))
        if result_tree != tree:
            raise ArgumentTypeError(
                f"{op}: the function takes the structure {tree} and returns {result_tree}; these have to be the same."
            )
        new, out = [], []
        for i, (kind, data, leaf) in enumerate(zip(types, a, results, strict=True)):
            leaf = _block(leaf, op, region)
            at = front(kind)
            shape = (*kind.shape[:at], data.shape[0], *kind.shape[at + 1 :])
            joined = dataclasses.replace(kind, shape=shape).join(
                _Type.of(leaf).bare(), op, f"array {i} of elems", ("is given as", "comes back as")
            )
            place = front(joined)
            new.append(dataclasses.replace(joined, shape=(*joined.shape[:place], kind.shape[at], *joined.shape[place + 1 :])))
            out.append((joined, leaf))
        if new != types:
            raise _Grow(new)
        return [jnp.moveaxis(kind.fit(leaf), front(kind), 0) for kind, leaf in out]

    while True:
        datas = [jnp.moveaxis(kind.fit(leaf), front(kind), 0) for kind, leaf in zip(types, starts, strict=True)]
        try:
            results = lax.associative_scan(combine, datas, reverse=reverse) if datas else []
            break
        except _Grow as grow:
            types[:] = grow.types
    return tree.unflatten(
        [wrap(jnp.moveaxis(data, 0, front(kind)), kind.dims) for data, kind in zip(results, types, strict=True)]
    )


#: The functions of `jax.lax`.
LAX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (associative_scan, cond, fori_loop, map, scan, switch, while_loop)
}
#: The functions of the named vocabulary.
FUNCTIONS: dict[str, Callable[..., Any]] = {**LAX_FUNCTIONS, "fold": fold, "vmap": vmap}
