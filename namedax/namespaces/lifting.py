"""Whole namespaces of JAX, lifted: every function that has no named version of its own gets one from its signature.

Three kinds are left when the modules of this package have had their turn. A function without axis
arguments is lifted over names, like `nx.nmap`. A function with axis arguments also takes names
there: a named axis becomes a positional one for the call, and a name again in the result. A
function that does not look at array values (types, printing, index helpers) is JAX's own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jax import lax

from namedax.core.call_errors import refuse_miscall
from namedax.core.display import type_text
from namedax.core.element_types import check_fits
from namedax.core.functions import summary_of
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError
from namedax.namespaces.flattening_errors import refusing
from namedax.namespaces.mirror import mirror, public
from namedax.operands.along_axes import along_axes
from namedax.operands.axes import AXIS_PARAMETERS, holds_names, names_alone
from namedax.operands.nmap import Lifted, contraction_of, nmap

__all__ = ["NAMESPACES", "Namespace", "lift_methods", "or_of_jax"]


# Functions that are about names whatever they are given.
_COLLECTIVES = frozenset(
    "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute pshuffle"
    " psum psum_scatter pswapaxes".split()
)
# These, and functions that take functions, which may close over named arrays.
_TAKE_FUNCTIONS = _COLLECTIVES.union(f"{name}_start" for name in _COLLECTIVES) | frozenset(
    "associative_scan bicgstab cg cond fori_loop gmres map optimization_barrier precv psend"
    " ragged_all_to_all rng_bit_generator rng_uniform scan switch while_loop"
    " with_sharding_constraint".split()
)
# JAX's are those of NumPy, which take no list.
_WITHOUT_THEIRS = frozenset({"array_repr", "array_str"})
# Parameters that may be a name and are not called an axis.
_NAMES_ELSEWHERE = {"arange": ("start",)}


class Namespace:
    """A namespace of JAX as it stands in this package: what a name stands for is made when it is first asked for.

    A module that exposes one uses its `get` for `__getattr__` and its `names` for `__dir__`. What
    was made stays in the module.

    Functions are lifted, all else (types, constants) is as it is in JAX. To JAX's names come those
    of `own`, which need not be JAX's (of `pdot` and `pgather` JAX has dropped the names).

    Args:
      name: the module of this package that the functions stand in.
      theirs: the name of that of JAX, `jax.numpy` say, which is imported when it is needed.
      own: named versions that this package has; they win, and get JAX's signature.
      untouched: functions that go through as they are.
      by_axis: for functions whose axis parameters have other names than `AXIS_PARAMETERS`, those
        names.
      submodules: the modules below this one, which are imported when they are first asked for.
      lift: how a function of JAX, given with its name, is lifted; default: over its axes if it has
        any, else as by `nx.nmap`.
      mirrored: whether the functions of `own` get JAX's signature.
    """

    def __init__(
        self,
        name: str,
        theirs: str,
        own: Mapping[str, Any] = types.MappingProxyType({}),
        *,
        untouched: Iterable[str] = (),
        by_axis: Mapping[str, tuple[str, ...]] = types.MappingProxyType({}),
        submodules: Iterable[str] = (),
        lift: Callable[[Callable[..., Any], str], Callable[..., Any]] | None = None,
        mirrored: bool = True,
    ) -> None:
        self.name, self.own, self.by_axis = name, own, by_axis
        self._theirs = theirs
        self.untouched, self.submodules = frozenset(untouched), tuple(submodules)
        self.lift, self.mirrored = lift, mirrored
        NAMESPACES[name] = self

    @property
    def module(self) -> types.ModuleType:
        """The module of JAX."""
        return importlib.import_module(self._theirs)

    def names(self) -> list[str]:
        """All public names."""
        return sorted({*public(self.module), *self.own, *self.submodules})

    def get(self, name: str) -> Any:
        """Return the object that `name` refers to."""
        if name == "__all__":
            return self.names()
        if name in self.submodules:
            return importlib.import_module(f"{self.name}.{name}")
        theirs = vars(self.module).get(name, _ABSENT)
        if name.startswith("_") or (
            name not in self.own and (theirs is _ABSENT or isinstance(theirs, types.ModuleType))
        ):
            now = f"; it is {_DROPPED[name]} now" if name in _DROPPED else ""
            raise AttributeError(
                f"module {self.name!r} has no attribute {name!r}{now}",
                name=name,
                obj=sys.modules[self.name],
            )
        return vars(sys.modules[self.name]).setdefault(name, self._make(name, theirs))

    def _make(self, name: str, theirs: Any) -> Any:
        if name in self.own:
            if theirs is _ABSENT or not self.mirrored:
                return self.own[name]
            also = _NAMES_ELSEWHERE.get(name, ())
            face = mirror(
                theirs,
                self.own[name],
                self.name,
                always=name in _TAKE_FUNCTIONS | _WITHOUT_THEIRS,
                also=also,
            )
            at_home = vars(sys.modules[face.__module__]).get(face.__name__, face)
            if face is self.own[name] and at_home is not face:
                face.__module__ = (
                    self.name
                )  # where it is found by its name, so that it can be pickled
            if name not in _COLLECTIVES:
                return refusing(face, self._place(name))
            collective = or_of_jax(theirs, face)
            collective.__module__ = self.name
            return collective
        if (
            name in self.untouched
            or not callable(theirs)
            or isinstance(theirs, (type, typing.NewType))
        ):
            return theirs
        lifted = (
            self.lift(theirs, name)
            if self.lift
            else _lift(theirs, name, self.name, self.by_axis.get(name))
        )
        return refusing(lifted, self._place(name))

    def _place(self, name: str) -> str:
        return f"{self.name.removeprefix('namedax.')}.{name}"


_ABSENT: Any = object()

# What JAX had in the days of xmap under names that are not public here.
_DROPPED = {"xeinsum": "namedax.einsum, whose names stand in braces"}

#: All that were made, by the modules of this package that show them.
NAMESPACES: dict[str, Namespace] = {}


# Lifted functions whose namesake at the top level is another function.
_NAMESAKES = {
    "namedax.numpy.dot": "`nx.dot` is another function: it contracts names, `nx.dot(x, y, 'k')`.",
    "namedax.lax.reduce": (
        "`nx.reduce` is another function: it takes a pattern, `nx.reduce(x, '{b, k} -> {b}',"
        " 'sum')`."
    ),
}


# Namespaces of functions whose parameter `n` or `s` is the size of the axes in the result.
_TRANSFORMS = frozenset({"namedax.numpy.fft", "namedax.scipy.fft"})
# What two numbers become in these is their product: where arrays have names alone there is nothing
# to contract.
_CONTRACTIONS = frozenset(f"namedax.numpy.{name}" for name in ("dot", "inner", "vdot"))


class _Contraction(Lifted):
    """A lifted contraction of two arrays along positional axes, which refuses two that have names alone."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operands = [*args, *(kwargs[key] for key in ("a", "b") if key in kwargs)][:2]
        if len(operands) == 2 and all(map(names_alone, operands)):
            name, (x, y) = self._op, operands
            raise PositionalAxisError(
                f"{name}: nx.numpy.{name} contracts positional axes, and neither {type_text(x)} nor"
                f" {type_text(y)} has one."
                f" {contraction_of(operands) or 'To multiply them write x * y.'}"
            )
        return super().__call__(*args, **kwargs)


class _Filled(Lifted):
    """`full_like`, lifted, which refuses an integer that the array cannot hold."""

    def __call__(
        self, a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
    ) -> Any:
        check_fits(
            self._op,
            "fill_value",
            fill_value,
            getattr(a, "dtype", None) if dtype is None else dtype,
        )
        return super().__call__(a, fill_value, dtype, shape, device=device)


def _lift(
    function: Callable[..., Any], name: str, namespace: str, axis_parameters: tuple[str, ...] | None
) -> Callable[..., Any]:
    try:
        parameters: Mapping[str, Any] = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}
    found = tuple(p for p in parameters if p in (axis_parameters or AXIS_PARAMETERS))
    renames = namespace in _TRANSFORMS and not {"n", "s"}.isdisjoint(parameters)
    lifted = along_axes(function, name, found, renames) if found else nmap(function)
    if f"{namespace}.{name}" in _CONTRACTIONS:
        lifted = _Contraction(function, name, function)
    if f"{namespace}.{name}" == "namedax.numpy.full_like":
        lifted = _Filled(function, name, function)
    home = namespace.removeprefix(
        "namedax."
    )  # JAX's module says where the function is written, which may be private
    take = "takes" if len(found) == 1 else "take"
    lifted.__doc__ = (
        f"{summary_of(function)}\n\nThe named version of `jax.{home}.{name}`, with the same"
        " arguments; see JAX for these.\n\n"
        + (
            f"`{'`, `'.join(found)}` {take} names too, or tuples of names and positions. All other"
            " names are batch axes. A sharded axis that\nis given by name is gathered for this"
            " (one all-gather), and what remains of it is sharded again."
            if found
            else (
                "Names of array arguments are batch axes of the result. Moves no data between"
                " devices."
            )
        )
    )
    if renames:
        lifted.__doc__ += (
            "\n\n`out_axis` gives transformed axes other names in the result: a name where there is"
            " one such axis, or a mapping\n`{axis: new}`; default: their own names. It is required"
            " in a mapped function in which the name has another size than the result."
        )
    if f"{namespace}.{name}" in _NAMESAKES:
        lifted.__doc__ = lifted.__doc__.replace(
            "\n\n", f"\n\n{_NAMESAKES[f'{namespace}.{name}']}\n\n", 1
        )
    lifted.__name__ = lifted.__qualname__ = name
    lifted.__module__ = namespace  # where it is found by its name, so that it can be pickled
    return lifted


# Classes of JAX's, and what stands for them here.
_CLASSES: dict[type[Any], type[Any]] = {}


def lift_methods(cls: type[Any]) -> type[Any]:
    """Lifts what a class of JAX's can do, for its subclass `cls`: names are batch axes.

    The class is a pytree of arrays. Where its methods return one of JAX's, they return one of
    `cls`.
    """
    (base,) = cls.__bases__
    _CLASSES[base] = cls

    def of_ours(result: Any) -> Any:
        return _CLASSES[type(result)](*result) if type(result) in _CLASSES else result

    for name, member in vars(base).items():
        is_maker = isinstance(member, classmethod)
        function = member.__func__ if isinstance(member, classmethod) else member
        if not isinstance(function, types.FunctionType) or (
            name.startswith("_") and name not in ("__call__", "__getitem__", "__mul__")
        ):
            continue
        lifted = nmap(functools.partial(function, base) if is_maker else function)

        def call(
            *args: Any, _lifted: Any = lifted, _is_maker: bool = is_maker, **kwargs: Any
        ) -> Any:
            return of_ours(_lifted(*args[_is_maker:], **kwargs))

        functools.update_wrapper(call, function)
        setattr(cls, name, classmethod(call) if is_maker else call)
    return cls


# --- axes that are jax's own ----------------------------------------------------------------------


def or_of_jax(theirs: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """A collective over names that goes to JAX's own where the axes are JAX's: in a user's `jax.shard_map` or `jax.vmap(axis_name=...)`.

    A mesh axis of a mapped function is not an axis of JAX's in this sense, since the values there
    are blocks.
    """

    @functools.wraps(own)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if not holds_names([*args, *kwargs.values()]) and _all_bound(args, kwargs):
            return theirs(*args, **kwargs)
        try:
            return own(*args, **kwargs)
        except Exception as error:
            refuse_miscall(own.__name__, own, args, kwargs, error)
            raise

    place = 0 if theirs in (lax.axis_index, lax.axis_size) else 1

    def _all_bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        axis_name = kwargs.get("axis_name", args[place] if len(args) > place else None)
        names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
        return bool(names) and all(_is_bound(name) for name in names)

    return collective


def _is_bound(name: Any) -> bool:
    region = ambient()
    if region is not None and (
        name in region.sizes or (region.mesh is not None and name in region.mesh.axis_names)
    ):
        return False
    try:
        lax.axis_size(name)
    except (NameError, KeyError, TypeError, ValueError):
        return False
    return True
