"""`nmap`: apply a function of positional arrays to named arrays.

The function is vectorized over every named axis of its arguments, with one `jax.vmap` per name.
"""

from __future__ import annotations

# Long: lifting, with the explanation of errors in positional functions of JAX and of users.
import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import PartitionSpec

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.cpu_workarounds import on_cpus
from namedax.core.display import positional_type_text, type_text
from namedax.core.element_types import refuse_foreign
from namedax.core.explicit_fallback import (
    Explicit,
    explain_call,
    may_fall_back,
    run_fallback,
    run_stored_padded,
)
from namedax.core.functions import LIBRARIES, packages_of
from namedax.core.name_scopes import Scope, is_in_program, is_open, scope_of_lifted
from namedax.core.names import Dims, PyTree, check_dims
from namedax.core.records import Record
from namedax.core.region import HiddenAxis, Region, ambient, enter, hiding
from namedax.core.strict_broadcasting import check_names, is_strict, strict_scopes
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    NamedaxError,
    PlacementConflictError,
    PositionalAxisError,
    SerialLoopError,
    StoredPaddingError,
    format_value,
    refuse_names,
    rename_code,
    show_names,
    usage,
)
from namedax.messages.argument_kinds import check_function
from namedax.messages.call_errors import check_flags, checks_signature, explain_user_call, flags_of
from namedax.messages.jax_errors import ErrorKind, named_result, recognize
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.dispatch import call_program, on_one_mesh
from namedax.programs.evaluator import collective_axes, has_reverse_rules, with_plain_layouts
from namedax.programs.raw_collective_check import DELIBERATE, check_agreement, said_of_names
from namedax.programs.varying_loops import with_varying_loops
from namedax.resources.padding_masks import without_gradient_of_padding
from namedax.resources.serial import LoopAxis

__all__ = [
    "Lifted",
    "Unchecked",
    "belongs_to_jax",
    "contraction_of",
    "explain_type_errors",
    "is_array_leaf",
    "nmap",
]

_NOTE = (
    "namedax: a function that takes positional arrays got a named array. Lift the function over"
    " the names with nx.nmap(function), or call its namesake in namedax (nx.numpy, nx.lax, nx.nn)."
)


_EINSUM = (
    "namedax: JAX's einsum takes letters only. nx.einsum takes names too, in braces, one pair of"
    " braces for each operand: '{batch, k}, {k, out} -> {batch, out}'."
)
_SHARD_MAP = (
    "namedax: a jax.shard_map in a mapped function already has its mesh. Leave mesh= out, and list"
    " the mesh axes without names that it maps: jax.shard_map(f, axis_names={'y'}, in_specs=...,"
    " out_specs=...)."
)
_VARYING = (
    "namedax: a loop or a branch of JAX combines a value that is the same on every device, such as"
    " a constant in a carry, with blocks of named arrays, which vary over mesh axes. Solvers of"
    " other libraries (diffrax, optimistix, lineax, blackjax) do that. Map the function that the"
    " solver calls (the vector field, the loss), f = nx.xmap(field, ..., axis_resources=...), and"
    " call the solver outside of the mapped function. A loop of your own casts its carry if it is"
    " nx.scan, nx.fori_loop, nx.while_loop or nx.cond."
)
_XEINSUM = "namedax: JAX removed xeinsum together with xmap. Use nx.einsum, with names in braces."


_NOTES = {
    ErrorKind.NAMED_ARRAY: _NOTE,
    ErrorKind.EINSUM: _EINSUM,
    ErrorKind.SHARD_MAP_MESH: _SHARD_MAP,
    ErrorKind.VARIANCE: _VARYING,
}


def _note_on(error: BaseException) -> str | None:
    """Return the note for an error of JAX in code with named arrays."""
    if isinstance(error, AttributeError) and error.name == "xeinsum":
        return _XEINSUM
    kind = recognize(error)
    if kind is ErrorKind.GRADIENT_OF_NAMES:
        return (
            f"namedax: the differentiated function returns {named_result(error)}, but a gradient"
            " needs a scalar. Reduce the remaining names in the function: nx.mean(loss, axis=...)"
            " reduces all of them."
        )
    return None if kind is None else _NOTES.get(kind)


class _ExplainTypeErrors:
    """Adds a note to errors of JAX that reject named arrays. A context manager without state."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        note = None if error is None or isinstance(error, NamedaxError) else _note_on(error)
        if note is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)  # type: ignore[union-attr]


explain_type_errors = _ExplainTypeErrors()


class _ExplainNames:
    """Explains an error in a positional function: its arrays and their names. A context manager.

    For a function of JAX, or a method of arrays, it raises an error of namedax. The error of a
    user's own function stays, and gets a note.

    Args:
      theirs: True for a function of JAX or of namedax.
      function: its name.
      arguments: the arrays that it was called with.
      others: its other arguments.
      called: the function.
    """

    def __init__(
        self,
        theirs: bool,
        function: str,
        arguments: Sequence[Any],
        others: Sequence[Any],
        called: Callable[..., object],
    ):
        self._theirs, self._function, self._called = theirs, function, called
        self._arguments, self._others = arguments, others

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if (
            isinstance(error, NameError)
            and self._theirs
            and (text := said_of_names(error, self._function)) is not None
        ):
            raise ArgumentTypeError(text) from error
        if not isinstance(error, (TypeError, ValueError, IndexError)) or isinstance(
            error, NamedaxError
        ):
            return
        if self._theirs and ErrorKind.STRING_OPERAND.matches(error):
            for value in self._others:
                refuse_names(self._function, value)
        if isinstance(error, jax.errors.ConcretizationTypeError) and self._theirs:
            self._refuse_unknown_shape(error)
        named = [
            x
            for x in self._arguments
            if isinstance(x, NamedArray) and any(dim is not None for dim in x.dims)
        ]
        if (
            not named
            or ErrorKind.NAMED_ARRAY.matches(error)
            or ErrorKind.NAMED_INDEX.matches(error)
        ):
            return  # an error about a named array has its own explanation
        seen = " and ".join(f"{positional_type_text(x)} of {type_text(x)}" for x in named)
        names = ", ".join(repr(dim) for dim in named[0].dims if dim is not None)
        remedy = (
            f"Convert the axes that it acts on to positions first with nx.positional(x, [{names}]),"
            " and name them again afterwards with nx.named."
        )
        if self._function == "matmul" and len(named) == 2:
            remedy = contraction_of(named) or remedy
        elif self._theirs:
            remedy += _with_names(self._function)
        why = (
            f"{self._function} acts on positional axes, and names are batch axes: it got {seen}."
            f" {remedy}"
        )
        if not self._theirs:
            error.add_note(f"namedax: {why}")
            return
        text = str(error).split("\n", 1)[0].rstrip(".")
        own = ArgumentTypeError if isinstance(error, TypeError) else PositionalAxisError
        raise own(f"{self._function}: {text}. Here {why}") from error

    def _refuse_unknown_shape(self, error: Exception) -> None:
        """Raise if a result's shape depends on unknown values and an argument can give it."""
        try:
            has = inspect.signature(self._called).parameters
        except (TypeError, ValueError):
            return
        says = next(
            (name for name in ("size", "length", "total_repeat_length") if name in has), None
        )
        if says is None:
            return
        arrays = (
            " and ".join(
                type_text(x) for x in self._arguments if isinstance(x, (NamedArray, jax.Array))
            )
            or "its arguments"
        )
        named = any(isinstance(x, NamedArray) for x in self._arguments)
        batch = "; names are batch axes, and all their elements share one shape" if named else ""
        raise ArgumentTypeError(
            f"{self._function}: the shape of the result would depend on the values of {arrays},"
            f" which are not known while tracing{batch}. Pass {says}=, the size of the result, as a"
            " number."
        ) from error


# Replacements that take names, for functions whose namesake does not.
_OF_NAMES = {
    **dict.fromkeys(
        "reshape ravel flatten".split(), "nx.split_axis, nx.merge_axes or nx.rearrange"
    ),
    "broadcast_to": "nx.broadcast_to(x, named_shape={'new': 8})",
}


def _with_names(function: str) -> str:
    """Return a remedy with a call that takes names; empty if there is none."""
    if function in _OF_NAMES:
        return f" For axes with names write {_OF_NAMES[function]}."
    call = usage(function)
    return f" For axes with names write{call.removeprefix(' Write')}" if "axis" in call else ""


def contraction_of(operands: Sequence[NamedArray]) -> str:
    """Return a remedy that contracts an axis of all operands; empty if they share none."""
    shared = [
        dim
        for dim in operands[0].dims
        if dim is not None and all(dim in x.dims for x in operands[1:])
    ]
    if not shared:
        return ""
    if len(shared) == 1:
        return f"To contract their common axis write nx.dot(x, y, {shared[0]!r})."
    return f"To contract a common axis write nx.dot(x, y, axis), with one of {show_names(shared)}."


def belongs_to_jax(function: object) -> bool:
    """Return True if a function is JAX's own, so that it takes positional arrays only.

    A wrapper of user code (`jax.grad(f)`, `jax.jit(f)`) has the module of the wrapped function, and
    is user code. A user's wrapper of a JAX function is user code too: it has JAX's module but was
    not defined in it.
    """
    while isinstance(function, functools.partial):
        function = function.func
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and getattr(function, "__module__", None) is None:
        return belongs_to_jax(wrapped)  # code that was run without a module name
    modules = [getattr(function, "__module__", None) or type(function).__module__]
    if isinstance(function, types.FunctionType):
        modules.append(function.__globals__.get("__name__", ""))
    elif type(function).__module__.startswith("namedax."):  # a lifted or mapped function
        return False
    return all(module == "jax" or module.startswith(("jax.", "jaxlib.")) for module in modules)


def is_array_leaf(leaf: object) -> bool:
    """Return True if a leaf of an argument is an array or a number; others are passed through."""
    return isinstance(leaf, (NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex))


@checks_signature
def nmap(function: Callable[..., Any], *, collectives: bool = False) -> Callable[..., Any]:
    """Lift a function over names.

    Args:
      function: a function from pytrees of positional arrays to such pytrees. It must not depend on
        names.
      collectives: True if `function` may call the collectives of `jax.lax`, by mesh axis; default:
        False. In a body these are an error otherwise. They must not use the mesh axes over which
        names of the arguments are sharded. A function of blocks takes the data (`nx.nmap(f,
        collectives=True)(x.data)`), and `nx.NamedArray` names its result.

    Returns:
      A function of named arrays (and others). Every name of any argument is a batch axis:
        `function` gets arrays without it, and every result has all of these names, in front of the
        positional axes, in the order of the arguments. Arguments that are neither arrays nor
        numbers are passed through. The result has the name, signature and docstring of `function`.

    Communication:
      None: over sharded names `function` runs on every device separately. In a `jax.shard_map`,
        JAX's variance checker may reject loops that begin with a constant, and Pallas kernels. Then
        `function` runs without the checker, and has derivatives in reverse mode only.

    Raises:
      AxisSizeError: a name has two sizes.
      PlacementConflictError: two names on one mesh axis would be in one value, or `function`
        communicates along the mesh axes of these names.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a = nx.named(jnp.ones((5, 3, 3)), ["left", ...])
    >>> b = nx.named(jnp.ones((4, 3)), ["right", ...])
    >>> nx.nmap(jnp.linalg.solve)(a + jnp.eye(3), b).dims
    ('left', 'right', None)
    """
    check_function("nmap", "function", function)
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not isinstance(collectives, bool):
        raise ArgumentTypeError(
            f"nmap: collectives={format_value(collectives)} is neither True nor False."
        )
    lifted = jax.named_scope(DELIBERATE)(function) if collectives else function
    return Lifted(lifted, f"nmap({getattr(inner, '__name__', type(inner).__name__)})", inner)


class Lifted:
    """A function that is vectorized over every name of its arguments; made by `nmap`.

    Args:
      function: a function from pytrees of positional arrays to such pytrees.
      op: the operation, for messages.
      like: the function whose name and docstring it has; default: `function`.
    """

    def __init__(
        self, function: Callable[..., Any], op: str, like: Callable[..., object] | None = None
    ):
        functools.update_wrapper(self, function if like is None else like)
        self.__wrapped__ = function  # determines its signature
        self._op, self._like = op, like
        self._operation = op
        #: True for a function of a user, whose parameters are not compared with its arguments.
        self._is_of_user = op.startswith("nmap(") and not (
            belongs_to_jax(function) or _is_our_own(function)
        )
        self._key = (Lifted, op, function)
        #: True if `nx.strict_broadcasting` checks the operands.
        self.is_elementwise = False

    def __reduce__(self) -> tuple[type[Lifted], tuple[object, ...]]:
        return (Lifted, (self.__wrapped__, self._op, self._like))

    @property
    def _shown(self) -> str:
        """The text for the function in messages."""
        text = self._op if not self._op.startswith("nmap(") else self._op[len("nmap(") : -1]
        return "the function" if text == "<lambda>" else text

    def __repr__(self) -> str:
        return f"<nmap of {self.__wrapped__!r}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function, vectorized over the names of these arguments."""
        if self._is_of_user:
            return self._checked(*args, **kwargs)
        try:
            return call_program(self._checked, args, kwargs, key=self._key)
        except Exception as error:
            shorten_eager(error)
            raise

    def _checked(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        try:
            if strict_scopes and self.is_elementwise and is_strict():
                check_names(self._shown, jax.tree.leaves((args, kwargs), is_leaf=is_named))
            # a boolean parameter of a user's function may be anything
            if (kwargs or len(args) > 2) and belongs_to_jax(self.__wrapped__):
                check_flags(self._shown, flags_of(self.__wrapped__), args, kwargs)
            try:
                if may_fall_back(args) or (kwargs and may_fall_back(kwargs.values())):
                    args, kwargs = on_one_mesh(self._op, args, kwargs) or (args, kwargs)
                    run = Unchecked(self)
                    done = run_fallback(Explicit.MAPPED, self._op, lambda: None, run, args, kwargs)
                    if done is not None:
                        return done[0]
                return self._call(args, kwargs)
            except StoredPaddingError as error:
                return run_stored_padded(self._op, Unchecked(self), args, kwargs, error)
            except Exception as error:
                if (moved := on_one_mesh(self._op, args, kwargs)) is not None:
                    return self._checked(*moved[0], **moved[1])
                if not self._is_of_user:
                    explain_call(self._shown, self, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PyTree:
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: isinstance(x, NamedArray))
        region = ambient()
        places = [i for i, leaf in enumerate(leaves) if is_array_leaf(leaf)]
        blocks = [to_local(leaves[i], self._op, region) for i in places]
        names = tuple(_sizes_by_name(self._op, blocks))
        if is_open() or not is_in_program(blocks):
            return self._run(leaves, tree, places, blocks, names)
        with Scope(scope_of_lifted(self, names), holds=True):
            return self._run(leaves, tree, places, blocks, names)

    def _run(
        self,
        leaves: list[Any],
        tree: jax.tree_util.PyTreeDef,
        places: list[int],
        blocks: list[Any],
        names: tuple[Hashable, ...],
    ) -> PyTree:
        """Call the function on these leaves; arrays are at `places`, with local `blocks`."""
        function, op, region = self.__wrapped__, self._op, ambient()
        datas = [block.data if isinstance(block, NamedArray) else block for block in blocks]
        if region is not None and region.resources:
            region.check_placement(op, names)
        union = frozenset[str]()
        if region is not None and region.manual:
            union = union.union(*(varying(data) for data in datas if hasattr(data, "dtype")))
            datas = [cast(block, union) if hasattr(block, "dtype") else block for block in blocks]

        def positional(*values: jax.Array) -> PyTree:
            filled = list(leaves)
            for i, value in zip(places, values, strict=True):
                filled[i] = value
            inner_args, inner_kwargs = jax.tree.unflatten(tree, filled)
            with hiding(op, () if theirs else names):
                try:
                    return function(*inner_args, **inner_kwargs)
                except TypeError as error:
                    if not theirs:
                        explain_user_call(function, inner_args, inner_kwargs, error)
                    raise

        theirs = belongs_to_jax(function) or _is_our_own(function)
        if theirs:  # a user's function may support an array of another library
            for leaf in leaves:
                refuse_foreign(op, leaf)
        all_dims = [dims_of(block) for block in blocks]
        mapped = _vectorized(positional, names, all_dims, not theirs)
        with explain_type_errors, _ExplainNames(theirs, self._shown, blocks, leaves, function):
            try:
                hidden = frozenset[str]()
                if region is not None and not theirs:
                    hidden = frozenset(axis for name in names for axis in region.place(name))
                if hidden:
                    uneven = region is not None and not region.uneven.isdisjoint(names)
                    if (
                        region is not None
                        and uneven
                        and has_reverse_rules(jax.make_jaxpr(mapped)(*datas).jaxpr)
                    ):
                        datas, all_dims = _mask_padding_for_rules(datas, all_dims, region)
                        mapped = _vectorized(positional, names, all_dims, not theirs)
                    result = _on_its_device(op, names, mapped, hidden, datas)
                elif (
                    region is not None
                    and region.resources
                    and not (theirs and _is_no_transform(function))
                    and on_cpus()
                ):
                    result = with_plain_layouts(mapped, datas)
                else:
                    result = mapped(*datas)
            except (TypeError, ValueError, AssertionError) as error:
                mesh_axes = frozenset[str]().union(
                    *(varying(data) for data in datas if hasattr(data, "dtype"))
                )
                if not mesh_axes or isinstance(error, NamedaxError):
                    raise
                # JAX 0.12 asserts in jnp.searchsorted if a mesh axis is left to the compiler.
                if isinstance(error, AssertionError) and not ErrorKind.BLOCK_TYPE.matches(error):
                    raise
                result = _without_variance(mapped, mesh_axes, datas, error)

        def named(leaf: AnyArray) -> AnyArray:
            # A function may make named arrays itself; their own names follow those that it is
            # vectorized over.
            own = (
                leaf._dims[len(names) :]
                if isinstance(leaf, NamedArray)
                else (None,) * (np.ndim(leaf) - len(names))
            )
            data = leaf._data if isinstance(leaf, NamedArray) else leaf
            if union and jnp.issubdtype(data.dtype, jnp.integer):
                data = cast_data(
                    data, union
                )  # JAX (0.10 to 0.12) types the result of jnp.argsort as invariant
            return make_result(data, check_dims(names + own, op))

        return jax.tree.map(named, result, is_leaf=lambda leaf: isinstance(leaf, NamedArray))


class Unchecked(Record):
    """A lifted function without the check for Explicit mesh axes."""

    lifted: Lifted

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function."""
        return self.lifted._call(args, kwargs)


def _sizes_by_name(op: str, blocks: Sequence[Any]) -> dict[Any, int]:
    """Return the size of every name of the arguments.

    Raises:
      AxisSizeError: a name has two sizes.
    """
    sizes: dict[Any, int] = {}
    for block in blocks:
        for dim, n in block._sizes.items() if isinstance(block, NamedArray) else ():
            if sizes.setdefault(dim, n) != n:
                raise AxisSizeError(
                    f"{op}: axis {dim!r} has size {sizes[dim]} in one argument and size {n} in"
                    f" another; a name has one size. Rename one of the two axes:"
                    f" {rename_code('y', dim)}."
                )
    return sizes


def _vectorized(
    function: Callable[..., Any],
    names: Sequence[Hashable],
    all_dims: Sequence[Dims],
    is_users: bool,
) -> Callable[..., Any]:
    """Map `function` over the axes `names` of arguments with these dims.

    These axes come first in every result. In a function of the user, JAX's batching rules see the
    names.
    """
    remaining = [list(dims) for dims in all_dims]
    batched = []
    for name in names:
        batched.append(tuple(dims.index(name) if name in dims else None for dims in remaining))
        remaining = [[dim for dim in dims if dim != name] for dims in remaining]
    for name, axes in zip(reversed(names), reversed(batched), strict=True):
        axis_name = HiddenAxis.of(name) if is_users else None
        function = jax.vmap(function, in_axes=axes, out_axes=0, axis_name=axis_name)
    return function


# --- functions that run on each device separately ------------------------------------------------


def _mask_padding_for_rules(
    datas: Sequence[Any], all_dims: Sequence[Dims], region: Region
) -> tuple[list[Any], list[Dims]]:
    """Mask gradients from padding in the arguments of a function with derivative rules.

    Return the arguments and their dims. The rules do not support names. An argument that lacks a
    name with padding gets it. Otherwise `jax.vmap` sums, within the rule, over all elements.
    """
    pairs = [
        (name, n)
        for data, dims in zip(datas, all_dims, strict=True)
        for name, n in zip(dims, np.shape(data), strict=True)
    ]
    sizes = {name: n for name, n in pairs if name in region.uneven}
    masked, masked_dims = list(datas), list(all_dims)
    for i, (data, dims) in enumerate(zip(datas, all_dims, strict=True)):
        if not isinstance(data, jax.core.Tracer) or not _is_inexact(data):
            continue
        more = {name: n for name, n in sizes.items() if name not in dims}
        masked_dims[i] = (*more, *dims)
        data = jnp.broadcast_to(data, (*more.values(), *data.shape))
        for dim, name in enumerate(masked_dims[i]):
            data = (
                without_gradient_of_padding(data, dim, region.place(name))
                if name in sizes
                else data
            )
        masked[i] = data
    return masked, masked_dims


def _is_our_own(function: Callable[..., object]) -> bool:
    return "namedax" in (packages := packages_of(function)) and packages <= LIBRARIES


def _is_no_transform(function: Callable[..., object]) -> bool:
    """Return True if a function of JAX is in a module without Fourier transforms."""
    while isinstance(function, functools.partial):
        function = function.func
    return not (getattr(function, "__module__", None) or "").endswith((".fft", ".signal"))


def _on_its_device(
    op: str,
    names: Iterable[Any],
    function: Callable[..., Any],
    axes: frozenset[str],
    datas: Sequence[Any],
) -> PyTree:
    """Return `function(*datas)`, whose arguments vary along the mesh axes `axes` of hidden names.

    Raises:
      PlacementConflictError: it communicates along these axes, and would mix elements of `names`.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*datas)
    if collective_axes(closed.jaxpr, or_index=True, without_debugging=True) & axes:
        raise PlacementConflictError(
            f"{op}: the names {show_names(names)} are sharded over mesh axes {sorted(axes)}, and"
            " the function communicates along these, which would mix their elements. A lifted"
            " function has no names: move the code that names an axis on these mesh axes out of it,"
            " or rename that axis to one that is not mapped."
        )
    check_agreement(closed, op)
    run = jaxpr_as_fun(closed)
    flat = with_plain_layouts(run, datas) if on_cpus() else run(*datas)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def _without_variance(
    function: Callable[..., Any], axes: frozenset[str], datas: Sequence[Any], error: Exception
) -> PyTree:
    """Return `function(*datas)` without JAX's variance checker, which rejected it with `error`.

    The checker rejects a loop that begins with a constant and continues with values that vary over
    `axes`. It also rejects a kernel whose type does not mention variance. A positional function
    cannot avoid this. But it acts only on the data of its device, so there is nothing to check.

    Raises:
      Exception: `error`, if the function has another fault.
      SerialLoopError: they are executed in steps, and casts of carries of loops do not suffice.
    """
    if loops := [axis for axis in axes if isinstance(axis, LoopAxis)]:
        try:
            return with_varying_loops(function, axes, datas)
        except (TypeError, ValueError):
            raise SerialLoopError(
                f"SerialLoop: {min(loops)} cannot be executed in steps in a lifted function that"
                " JAX's checker of device variance rejects, such as one with a Pallas kernel. Map"
                " the axis to mesh axes only, or call the function outside of the mapped function."
            ) from error
    # A Python number stays a number: it may be an axis, and its derivative is never needed.
    places = [i for i, data in enumerate(datas) if hasattr(data, "dtype")]
    numbers, datas = datas, [datas[i] for i in places]

    def of_arrays(*arrays: jax.Array) -> PyTree:
        filled = list(numbers)
        for i, value in zip(places, arrays, strict=True):
            filled[i] = value
        return function(*filled)

    call = _unchecked(of_arrays, axes)
    with enter(None):  # here no name has a placement: unchecked code must not communicate
        try:
            closed = jax.make_jaxpr(call)(*datas)
        except Exception:
            raise error from None
        if (
            any(varying(const) for const in closed.consts)
            or collective_axes(closed.jaxpr, or_index=True) & axes
        ):
            raise error
        return call(*datas)


def _unchecked(function: Callable[..., Any], axes: frozenset[str]) -> Callable[..., Any]:
    """Return `function` without JAX's variance check; its arguments and results vary over `axes`.

    It has no forward derivative.
    """

    def unchecked(body: Callable[..., Any]) -> Callable[..., Any]:
        # The mesh axes are manual already, so this changes only the types.
        mapped = jax.shard_map(
            body,
            in_specs=PartitionSpec(),
            out_specs=PartitionSpec(),
            axis_names=axes,
            check_vma=False,
        )
        # for bodies that are not compiled: JAX's interpreter checks either all or nothing
        return jax.jit(mapped)

    def reshaped(*datas: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(lax.squeeze(lax.expand_dims(data, (0,)), (0,)) for data in datas)

    # Arguments keep their variance; the results of operations have none.
    without_types, run = unchecked(reshaped), unchecked(function)

    @jax.custom_vjp
    def call(*datas: jax.Array) -> PyTree:
        return jax.tree.map(lambda leaf: cast_data(leaf, axes), run(*without_types(*datas)))

    def forward(*datas: jax.Array) -> tuple[PyTree, Sequence[jax.Array]]:
        return call(*datas), datas

    def backward(datas: Sequence[Any], cotangent: PyTree) -> tuple[jax.typing.ArrayLike, ...]:
        leaves, count = jax.tree.leaves(cotangent), len(datas)
        places = [i for i, data in enumerate(datas) if _is_inexact(data)]
        given = [i for i, leaf in enumerate(leaves) if leaf.dtype != jax.dtypes.float0]

        def pull(*values: jax.Array) -> tuple[jax.Array, ...]:
            datas, cotangents = values[:count], values[count:]

            def of(*values: jax.Array) -> list[jax.Array]:
                filled = list(datas)
                for i, value in zip(places, values, strict=True):
                    filled[i] = value
                results = jax.tree.leaves(function(*filled))
                return [results[i] for i in given]

            with enter(None):
                return jax.vjp(of, *(datas[i] for i in places))[1](list(cotangents))

        # Also unchecked, and so on for derivatives of higher order.
        pulled = iter(_unchecked(pull, axes)(*datas, *(leaves[i] for i in given)) if given else ())
        return tuple(
            next(pulled) if given and i in places else _no_cotangent(data)
            for i, data in enumerate(datas)
        )

    call.defvjp(forward, backward)
    return call


def _is_inexact(data: jax.typing.ArrayLike) -> bool:
    return bool(jnp.issubdtype(getattr(data, "dtype", None) or jnp.result_type(data), jnp.inexact))


def _no_cotangent(data: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    return (
        jnp.zeros_like(data) if _is_inexact(data) else np.zeros(np.shape(data), jax.dtypes.float0)
    )
