"""Namespaces of JAX for named arrays: functions without a named version are lifted.

Their signatures determine how. A function without axis arguments is vectorized over names, as by
`nx.nmap`. A function with axis arguments also accepts axis names: a named axis becomes positional
for the call, and gets its name back in the result. A function that does not depend on array values
(types, printing, index helpers) is JAX's own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import jax
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import check_fits
from namedax.core.error_function import with_derivative
from namedax.core.jax_docstrings import documented
from namedax.core.names import DType, PyTree, Shape
from namedax.core.region import ambient
from namedax.errors import PositionalAxisError, hints
from namedax.messages.call_errors import reject_miscall
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.elementwise import elementwise_call
from namedax.ops.namespaces.flattening_errors import rejects_flattening
from namedax.ops.namespaces.mirror import mirror, public
from namedax.ops.operands.along_axes import along_axes, entries_of
from namedax.ops.operands.axes import AXIS_PARAMETERS, holds_names, names_alone
from namedax.ops.operands.explanations import contraction_of
from namedax.ops.operands.kernels import run_elementwise
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.operation import elementwise_operation
from namedax.ops.operands.pytree import stored_leaf
from namedax.resources.mesh import current_mesh, is_tracked

__all__ = ["NAMESPACES", "Namespace", "lift_methods", "or_of_jax"]


# Functions of axis names.
_COLLECTIVES = frozenset(
    "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute pshuffle"
    " psum psum_scatter pswapaxes".split()
)
# Also functions that take functions, which may close over named arrays.
_TAKE_FUNCTIONS = _COLLECTIVES.union(f"{name}_start" for name in _COLLECTIVES) | frozenset(
    "associative_scan bicgstab cg cond fori_loop gmres map optimization_barrier precv psend"
    " ragged_all_to_all rng_bit_generator rng_uniform scan switch while_loop"
    " with_sharding_constraint".split()
)
# JAX's versions are NumPy's, which do not accept a list.
_WITHOUT_JAX = frozenset({"array_repr", "array_str"})
# Parameters that may be an axis name although they are not called an axis.
_NAMES_ELSEWHERE = {"arange": ("start",)}


class Namespace:
    """A namespace of JAX for named arrays, whose functions are made on first access.

    A module that exposes one uses its `get` as `__getattr__` and its `names` as `__dir__`. The
    functions that were made stay in the module.

    Functions are lifted; types and constants are JAX's. The names are JAX's and those of `own`,
    which may have more (JAX has removed `pdot` and `pgather`).

    Args:
      name: the module of this package with the functions.
      theirs: the module of JAX, such as `jax.numpy`, which is imported when it is needed.
      own: the named versions, which take precedence and get JAX's signature; default: none.
      untouched: functions that are JAX's own; default: none.
      by_axis: the axis parameters of functions where they are not `AXIS_PARAMETERS`; default: none.
      submodules: the modules below this one, which are imported on first access; default: none.
      lift: lifts a function of JAX, given with its name; default: over its axes if it has any, else
        as by `nx.nmap`.
      mirrored: True (default) if the functions of `own` get JAX's signature.
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
        """Return all public names."""
        return sorted({*public(self.module), *self.own, *self.submodules})

    def get(self, name: str) -> Any:
        """Return the object with this name, and keep it in the module."""
        if name == "__all__":
            return self.names()
        if name in self.submodules:
            return importlib.import_module(f"{self.name}.{name}")
        theirs = vars(self.module).get(name, _ABSENT)
        if name.startswith("_") or (
            name not in self.own and (theirs is _ABSENT or isinstance(theirs, types.ModuleType))
        ):
            now = (
                f"; it is {_DROPPED[name]} now"
                if name in _DROPPED
                else hints().function(name, self.name)
            )
            raise AttributeError(
                f"module {self.name!r} has no attribute {name!r}{now}",
                name=name,
                obj=None if now else sys.modules[self.name],  # for Python's own suggestion
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
                always=name in _TAKE_FUNCTIONS | _WITHOUT_JAX,
                also=also,
            )
            at_home = vars(sys.modules[face.__module__]).get(face.__name__)
            if face is self.own[name] and at_home is not face:
                face.__module__ = self.name  # where pickle finds it by its name
            if name not in _COLLECTIVES:
                return rejects_flattening(face, self._path(name))
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
        return rejects_flattening(lifted, self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.name.removeprefix('namedax.')}.{name}"


_ABSENT: Any = object()

# Names that JAX had together with xmap, and that are not public here.
_DROPPED = {"xeinsum": "namedax.einsum, whose names stand in braces"}

#: All namespaces, by the modules that expose them.
NAMESPACES: dict[str, Namespace] = {}


# Lifted functions with a different function of the same name at the top level.
_NAMESAKES = {
    "namedax.numpy.dot": "`nx.dot` is another function: it contracts names, `nx.dot(x, y, 'k')`.",
    "namedax.lax.reduce": (
        "`nx.reduce` is another function: it takes a pattern, `nx.reduce(x, '{b, k} -> {b}',"
        " 'sum')`."
    ),
}


# Namespaces of functions of matrices, which are positional axes.
_MATRICES = ("namedax.numpy.linalg.", "namedax.lax.linalg.", "namedax.scipy.linalg.")
_OF_MATRICES = (
    "none over named axes. Rows and columns are positional axes, which every\n"
    "device has completely. In a mapped function `nx.positional` gathers a sharded axis before\n"
    "the call; outside, sharded positional axes of a matrix are gathered. The functions of\n"
    "`nx.linalg` take names for rows and columns."
)
# Namespaces of functions whose parameter `n` or `s` is the size of axes of the result.
_TRANSFORMS = frozenset({"namedax.numpy.fft", "namedax.scipy.fft"})
# Transforms of several axes that are transforms of one axis after the other.
_SEPARATE = frozenset(
    {f"namedax.numpy.fft.{name}" for name in ("fftn", "ifftn")}
    | {f"namedax.scipy.fft.{name}" for name in ("dctn", "idctn")}
)
# Lifted functions whose operands `nx.strict_broadcasting` checks, and modules of such functions.
_ELEMENTWISE = {"namedax.scipy.special."} | {
    f"namedax.{module}.{name}"
    for module, names in (
        (
            "lax",
            "add atan2 betainc bitwise_and bitwise_or bitwise_xor clamp complex div eq ge gt igamma"
            " igammac le lt max min mul ne nextafter polygamma pow rem select select_n shift_left"
            " shift_right_arithmetic shift_right_logical sub zeta",
        ),
        ("numpy", "divmod select"),
    )
    for name in names.split()
}


class _Contraction(Lifted):
    """A lifted contraction over positional axes, which rejects two arrays without such axes.

    It would multiply two scalars.
    """

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


class _Unary(Lifted):
    """A lifted elementwise function of one array, which runs by kernels as `nx.exp` does."""

    def __init__(
        self, function: Callable[..., Any], op: str, like: Callable[..., object] | None = None
    ):
        super().__init__(function, op, like)
        call = elementwise_call(function, __name__)

        def operate(x: ArrayLike) -> AnyArray:
            return run_elementwise(op, call, (), x)

        operate.__name__ = op  # for messages
        self._of_one = elementwise_operation(operate)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if len(args) == 1 and type(args[0]) is NamedArray and not kwargs:
            return self._of_one(args[0])
        return super().__call__(*args, **kwargs)


class _OfType(Lifted):
    """A lifted function that uses only the type of its array.

    On Explicit mesh axes without an ambient mesh, a program has its devices from its arguments, and
    JAX drops an argument that is not used. So a traced result depends on the array.
    """

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._checked(*args, **kwargs)
        array = args[0] if args else None
        data = stored_leaf(array)
        if isinstance(data, jax.core.Tracer) and is_tracked(data) and current_mesh() is None:
            return lax.optimization_barrier((array, result))[1]
        return result


class _Filled(_OfType):
    """The lifted `full_like`, which rejects an integer that the dtype cannot represent."""

    def __call__(
        self,
        a: PyTree,
        fill_value: ArrayLike,
        dtype: DType | None = None,
        shape: Shape | None = None,
        *,
        device: jax.Device | jax.sharding.Sharding | None = None,
    ) -> AnyArray:
        of = getattr(a, "dtype", None) if dtype is None else dtype
        check_fits(self._op, "fill_value", fill_value, of)
        return super().__call__(a, fill_value, dtype, shape, device=device)


#: The classes of lifted functions that do more.
_KINDS: dict[str, type[Lifted]] = {
    f"namedax.{module}.{name}": kind
    for module, kind, names in (
        ("numpy", _Contraction, "dot inner vdot"),
        (
            "numpy",
            _OfType,
            "zeros_like ones_like empty_like diag_indices_from tril_indices_from triu_indices_from",
        ),
        ("numpy", _Filled, "full_like"),
        ("lax", _OfType, "full_like"),
        (
            "lax",
            _Unary,
            "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz"
            " conj cos cosh digamma exp exp2 expm1 floor imag is_finite lgamma log log1p logistic"
            " neg population_count real round rsqrt sign sin sinh sqrt square tan tanh",
        ),
    )
    for name in names.split()
}


def _lift(
    function: Callable[..., Any], name: str, namespace: str, axis_parameters: tuple[str, ...] | None
) -> Callable[..., Any]:
    try:
        parameters: Mapping[str, Any] = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}
    axes = AXIS_PARAMETERS if axis_parameters is None else axis_parameters
    found = tuple(p for p in parameters if p in axes)
    renames = namespace in _TRANSFORMS and not {"n", "s"}.isdisjoint(parameters)
    path = f"{namespace}.{name}"
    lifted: Callable[..., Any]
    if path in _KINDS:
        lifted = _KINDS[path](function, name, function)
    elif found:
        lifted = along_axes(function, name, found, renames, path in _SEPARATE)
    else:
        lifted = nmap(with_derivative(function))
    if isinstance(lifted, Lifted):
        lifted.is_elementwise = not _ELEMENTWISE.isdisjoint({f"{namespace}.", path})
    lifted.__doc__ = _documentation(function, path, found, renames)
    lifted.__name__ = lifted.__qualname__ = name
    lifted.__module__ = namespace  # where pickle finds it by its name
    return lifted


def _documentation(
    function: Callable[..., Any], path: str, axes: tuple[str, ...], renames: bool
) -> str:
    """Return the docstring of a lifted function, whose parameters `axes` are axes."""
    paragraphs = [_NAMESAKES[path]] if path in _NAMESAKES else []
    version = (
        f"The named version of `jax.{path.removeprefix('namedax.')}`, with the same arguments."
    )
    other = "axis, named or positional," if renames else "name"
    return documented(
        function,
        *paragraphs,
        f"{version} {'Other named' if axes else 'Named'} axes are batch axes.",
        name=path.rpartition(".")[2],
        axes=axes,
        names="The named batch axes are axes of the result.",
        more={"out_axis": _OUT_AXIS} if renames else {},
        communication=(
            "a sharded axis that is given by name is complete in the call. If\n"
            f"another {other} divides over its mesh axes, an all-to-all moves the sharding to\n"
            "it and another one moves it back; otherwise the axis is gathered (one all-gather)."
            if axes
            else _OF_MATRICES
            if path.startswith(_MATRICES)
            else "none."
        ),
    )


_OUT_AXIS = (
    "the new names of transformed axes in the result: a name for a single axis, or a mapping\n"
    "`{axis: new}`; default: their own names. Required in a mapped function in which the name has\n"
    "a different size."
)


# Classes of JAX, and their subclasses for named arrays.
_CLASSES: dict[type[Any], type[Any]] = {}


def lift_methods(cls: type[Any]) -> type[Any]:
    """Lift the methods of a class of JAX for its subclass `cls`, with named axes as batch axes.

    The class is a pytree of arrays. Methods that return an instance of it return one of `cls`.
    """
    (base,) = cls.__bases__
    _CLASSES[base] = cls

    def as_subclass(result: Any) -> Any:
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
            return as_subclass(_lifted(*args[_is_maker:], **kwargs))

        functools.update_wrapper(call, function)
        setattr(cls, name, classmethod(call) if is_maker else call)
    return cls


def or_of_jax(theirs: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """Build a collective that calls JAX's own if the axes belong to JAX.

    They do in a user's `jax.shard_map` or `jax.vmap(axis_name=...)`. A mesh axis of a mapped
    function does not, since values there are blocks.
    """

    @functools.wraps(own)
    def collective(*args: Any, **kwargs: Any) -> Any:
        try:
            if not holds_names([*args, *kwargs.values()]) and _all_bound(args, kwargs):
                return theirs(*args, **kwargs)
            try:
                return own(*args, **kwargs)
            except Exception as error:
                reject_miscall(own.__name__, own, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    place = 0 if theirs in (lax.axis_index, lax.axis_size) else 1

    def _all_bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        names = entries_of(kwargs.get("axis_name", args[place] if len(args) > place else None))
        return bool(names) and all(_is_bound(name) for name in names)

    return collective


def _is_bound(name: Hashable) -> bool:
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
