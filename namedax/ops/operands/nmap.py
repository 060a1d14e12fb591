"""`nmap`: apply a function of positional arrays to named arrays.

The function is vectorized over every named axis of its arguments, with one `jax.vmap` per name.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.cpu_workarounds import on_cpus
from namedax.core.element_types import reject_foreign
from namedax.core.explicit_fallback import (
    Explicit,
    fallbacks,
    may_fall_back,
)
from namedax.core.functions import LIBRARIES, packages_of
from namedax.core.memory_kinds import host_seen, on_device
from namedax.core.name_scopes import Scope, is_in_program, is_open, scope_of_lifted
from namedax.core.names import Dims, PyTree, check_dims
from namedax.core.region import HiddenAxis, Region, active_regions, ambient, hiding
from namedax.core.strict_broadcasting import check_names, is_strict, strict_scopes
from namedax.core.variance import cast, cast_data
from namedax.errors import (
    ArgumentTypeError,
    AxisSizeError,
    NamedaxError,
    PlacementConflictError,
    StoredPaddingError,
    format_value,
    rename_code,
    show_names,
)
from namedax.messages.argument_kinds import check_function
from namedax.messages.call_errors import check_flags, checks_signature, explain_user_call, flags_of
from namedax.messages.jax_errors import ErrorKind, add_note
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands.broadcasting import make_result, to_local, union_of_variance
from namedax.ops.operands.dispatch import call_program
from namedax.ops.operands.explanations import explain_call, explain_positional
from namedax.ops.operands.one_mesh import on_one_mesh
from namedax.ops.operands.pytree import data_of
from namedax.ops.operands.without_variance import is_inexact, with_variance, without_variance
from namedax.primitives.record import Kind
from namedax.programs.evaluator import (
    collective_axes,
    has_kind,
    has_reverse_rules,
    loses_variance,
    with_plain_layouts,
)
from namedax.programs.raw_collective_check import DELIBERATE, check_agreement
from namedax.resources.padding_masks import without_gradient_of_padding

__all__ = [
    "Lifted",
    "belongs_to_jax",
    "is_array_leaf",
    "nmap",
]


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
        JAX's variance checker may reject loops that begin with a constant, and Pallas kernels, and
        has wrong types for callbacks. Then `function` runs without the checker, and has derivatives
        in reverse mode only.

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
        self._is_of_jax = belongs_to_jax(function)
        self._is_of_library = self._is_of_jax or _is_our_own(function)
        #: True for a function of a user, whose parameters are not compared with its arguments.
        self._is_of_user = op.startswith("nmap(") and not self._is_of_library
        self._key = (Lifted, op, function)
        #: True if `nx.strict_broadcasting` checks the operands.
        self.is_elementwise = False

    def __reduce__(self) -> str | tuple[type[Lifted], tuple[object, ...], dict[str, bool]]:
        """By name where a module has it, as a function; those of JAX cannot all be pickled."""
        module, name = self.__module__, str(vars(self).get("__name__", ""))
        if module != "__main__" and getattr(sys.modules.get(module), name, None) is self:
            return name
        arguments = (self.__wrapped__, self._op, self._like)
        return (type(self), arguments, {"is_elementwise": self.is_elementwise})

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
            if host_seen and not active_regions:
                args, kwargs = on_device(args), on_device(kwargs)
            return call_program(self._checked, args, kwargs, key=self._key)
        except Exception as error:
            shorten_eager(error)
            raise

    def _checked(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        try:
            if strict_scopes and self.is_elementwise and is_strict():
                check_names(self._shown, jax.tree.leaves((args, kwargs), is_leaf=is_named))
            # a boolean parameter of a user's function may be anything
            if (kwargs or len(args) > 2) and self._is_of_jax:
                check_flags(self._shown, flags_of(self.__wrapped__), args, kwargs)
            try:
                if may_fall_back(args) or (kwargs and may_fall_back(kwargs.values())):
                    args, kwargs = on_one_mesh(self._op, args, kwargs) or (args, kwargs)
                    given = (Explicit.MAPPED, self._op, lambda: None, self._unchecked)
                    done = fallbacks.run_mapped(*given, args, kwargs)
                    if done is not None:
                        return done[0]
                return self._unchecked(*args, **kwargs)
            except StoredPaddingError as error:
                return fallbacks.run_padded(self._op, self._unchecked, args, kwargs, error)
            except Exception as error:
                if (moved := on_one_mesh(self._op, args, kwargs)) is not None:
                    return self._checked(*moved[0], **moved[1])
                if not self._is_of_user:
                    explain_call(self._shown, self, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    def _unchecked(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function without the check for Explicit mesh axes."""
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_named)
        leaves = on_device(leaves)
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
        region, union = ambient(), frozenset[str]()
        if region is not None and region.resources:
            region.check_placement(self._op, names)
        if region is not None and region.manual:
            union = union_of_variance(blocks)
            datas = [cast(block, union) if hasattr(block, "dtype") else block for block in blocks]
        else:
            datas = [data_of(block) for block in blocks]
        if self._is_of_library:  # a user's function may support an array of another library
            for leaf in leaves:
                reject_foreign(self._op, leaf)
        positional = self._of_positional(leaves, tree, places, names)
        try:
            result = self._apply(positional, names, [*map(dims_of, blocks)], datas, region)
        except Exception as error:
            function, is_of_library = self.__wrapped__, self._is_of_library
            explain_positional(self._shown, function, is_of_library, blocks, leaves, error)
            add_note(error)
            raise
        named = functools.partial(_with_names, names, union, self._op)
        return jax.tree.map(named, result, is_leaf=is_named)

    def _of_positional(
        self,
        leaves: list[Any],
        tree: jax.tree_util.PyTreeDef,
        places: list[int],
        names: tuple[Hashable, ...],
    ) -> Callable[..., PyTree]:
        """Return the call as a function of the positional arrays at `places` among the leaves."""
        function, is_of_library = self.__wrapped__, self._is_of_library

        def positional(*values: jax.Array) -> PyTree:
            filled = list(leaves)
            for i, value in zip(places, values, strict=True):
                filled[i] = value
            args, kwargs = jax.tree.unflatten(tree, filled)
            with hiding(self._op, () if is_of_library else names):
                try:
                    return function(*args, **kwargs)
                except TypeError as error:
                    if not is_of_library:
                        explain_user_call(function, args, kwargs, error)
                    raise

        return positional

    def _apply(
        self,
        function: Callable[..., PyTree],
        names: tuple[Hashable, ...],
        all_dims: list[Dims],
        datas: list[Any],
        region: Region | None,
    ) -> PyTree:
        """Return the result of the positional function, vectorized over `names`."""
        mapped = _vectorized(function, names, all_dims, not self._is_of_library)
        try:
            if region is None or not region.resources:
                return mapped(*datas)
            hidden = frozenset[str]()
            if not self._is_of_library:
                hidden = frozenset(axis for name in names for axis in region.place(name))
            if not hidden:
                is_plain = self._is_of_library and _is_no_transform(self.__wrapped__)
                plain = not is_plain and on_cpus()
                return with_plain_layouts(mapped, datas) if plain else mapped(*datas)
            if not region.uneven.isdisjoint(names) and has_reverse_rules(
                jax.make_jaxpr(mapped)(*datas).jaxpr
            ):
                datas, all_dims = _mask_padding_for_rules(datas, all_dims, region)
                mapped = _vectorized(function, names, all_dims, True)
            return _on_its_device(self._op, names, mapped, hidden, datas)
        except (TypeError, ValueError, AssertionError) as error:
            axes = union_of_variance(datas)
            if not axes or isinstance(error, NamedaxError):
                raise
            # JAX 0.12 asserts in jnp.searchsorted if a mesh axis is left to the compiler.
            if isinstance(error, AssertionError) and not ErrorKind.BLOCK_TYPE.matches(error):
                raise
            return without_variance(mapped, axes, datas, error)


def _with_names(
    names: tuple[Hashable, ...], union: frozenset[str], op: str, leaf: AnyArray
) -> AnyArray:
    """Return a result of the positional function with the names that it is vectorized over.

    A function may make named arrays itself; their own names follow.
    """
    own = dims_of(leaf)[len(names) :]
    data = data_of(leaf)
    # JAX (0.10 to 0.12) types the result of jnp.argsort as invariant.
    if union and jnp.issubdtype(data.dtype, jnp.integer):
        data = cast_data(data, union)
    return make_result(data, check_dims(names + own, op))


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
        if not isinstance(data, jax.core.Tracer) or not is_inexact(data):
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
    is_unsound = (
        any(isinstance(const, jax.core.Tracer) and is_inexact(const) for const in closed.consts)
        or has_kind(closed.jaxpr, Kind.RULE)
    ) and loses_variance(closed.jaxpr)
    if is_unsound:  # a gradient would be summed over devices where it must not
        return with_variance(function, union_of_variance(datas), datas)
    run = jaxpr_as_fun(closed)
    flat = with_plain_layouts(run, datas) if on_cpus() else run(*datas)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)
