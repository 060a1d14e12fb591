"""Check that a traced body applies no raw collectives or reductions to blocks of devices.

A named array in a body holds the block of one device. `jax.lax.psum` and similar functions would
operate on it by mesh axis. A reduction of all its elements (`jnp.max(leaf)` in `jax.tree.map`, the
norms of other libraries) would be that of one device. Neither is what the named-axis program
specifies, so the body is inspected once, after it has been traced. For functions along some
dimensions only, `namedax.programs.block_dimensions` determines whether these are sharded.

A collective of namedax names its mesh axes by `OwnAxis`, which JAX passes on to the equations that
it derives from the collective (its transpose, its batched form). A reduction is recognized by its
origin: the innermost frame outside of JAX.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from namedax.core.array import is_named
from namedax.core.name_scopes import OPERATIONS_ON_FUNCTIONS
from namedax.core.names import PyTree
from namedax.core.user_code import (
    Boundary,
    boundary_of,
    call_backward_rule,
    call_checked_code,
    is_transparent,
)
from namedax.core.variance import varying_of
from namedax.errors import (
    NamedaxError,
    PlacementConflictError,
    RawBlockError,
    hints,
    show_names,
)
from namedax.messages.jax_errors import ErrorKind, rejected_operation, unbound_axis
from namedax.primitives.equations import (
    COLLECTIVES,
    axes_of,
    facts,
    facts_of,
    jaxprs_of,
    kind_of,
    name_of,
    open_jaxpr,
)
from namedax.primitives.record import Kind, Primitive, aval_of
from namedax.primitives.table import LOCAL_KINDS
from namedax.programs.block_dimensions import Dimensions, Finding, Path, findings, is_used
from namedax.programs.evaluator import diverging_axes, has_calls_of_python

__all__ = [
    "DELIBERATE",
    "Dimensions",
    "check_agreement",
    "checked_as_body",
    "explain_unbound_axes",
    "explain_values_from_around",
    "names_text",
    "reject_raw",
]

# The scope in which raw collectives are deliberate; see `nmap`.
DELIBERATE = "deliberate_collectives"

_LOOPS = (Kind.SCAN, Kind.WHILE, Kind.MAP)


def reject_raw(
    closed: ClosedJaxpr,
    resources: Mapping[Hashable, tuple[str, ...]],
    function: str,
    reductions: bool = True,
    dimensions: Dimensions | None = None,
    is_global: bool = False,
) -> None:
    """Raise an error if a traced body operates on blocks by functions of JAX.

    Args:
      closed: the body.
      resources: the mesh axes of every mapped name.
      function: the name of the function with this body, for messages.
      reductions: whether to look for reductions, too; default: True.
      dimensions: the known dimensions of its operands and results; default: none.
      is_global: True if the body is traced on global shapes: nothing in it communicates, or casts,
        over mesh axes.

    Raises:
      RawBlockError: the body has a collective over these mesh axes, or combines elements of a
        block, by a function of JAX.
    """
    names: dict[str, list[Hashable]] = {}
    for name, axes in resources.items():
        for axis in axes:
            names.setdefault(axis, []).append(name)
    for eqn, known, path in _equations(closed.jaxpr, (), {}, not is_global):
        if is_global and not names.keys().isdisjoint(axes_of(eqn)):
            _raise_for_collective(eqn, names, function)
        if (
            known.kind is not Kind.CAST
            and known.kind not in LOCAL_KINDS
            and _is_raw_collective(eqn, path, names)
        ):
            _raise_for_collective(eqn, names, function)
        if reductions and known.takes is not None and not aval_of(eqn.outvars[0]).shape:
            reduced = (
                frozenset[str]().union(
                    *(varying_of(v.aval) for v in eqn.invars if aval_of(v).shape)
                )
                & names.keys()
            )
            if reduced and _is_raw_reduction((*path, eqn)):
                _raise_for_reduction(
                    (*path, eqn),
                    [name for axis in sorted(reduced) for name in names[axis]],
                    function,
                )
    if reductions and names:
        _reject_mixing(closed, names, function, dimensions)


def check_agreement(closed: ClosedJaxpr, function: str) -> None:
    """Raise if `nx.debug` gathers values where devices may not agree that they run it.

    Raises:
      PlacementConflictError: it does so in a loop or a branch of JAX whose condition differs
        between devices.
    """
    if not has_calls_of_python(closed):
        return
    if axes := diverging_axes(closed.jaxpr):
        raise PlacementConflictError(
            f"nx.debug: in {function} it gathers values over the mesh axes {show_names(axes)} in a"
            " loop or a branch of JAX whose condition differs between devices, so that some would"
            " wait for others forever. Call it after the loop, or use nx.while_loop or nx.cond,"
            " whose devices take the same steps."
        )


def _reject_mixing(
    closed: ClosedJaxpr,
    names: Mapping[str, list[Hashable]],
    function: str,
    dimensions: Dimensions | None,
) -> None:
    """Raise an error if user code mixes elements of a block, or draws numbers in its shape."""
    for finding in findings(closed, dimensions):
        axes = finding.axes & names.keys()
        is_of_user = axes and any(map(_is_of_user, filter(None, (finding.path, finding.drawn))))
        if is_of_user and is_used(closed.jaxpr, finding.path):
            _raise_for_mixing(
                finding,
                sorted(axes),
                [name for axis in sorted(axes) for name in names[axis]],
                function,
            )


def _is_of_user(path: Path) -> bool:
    """Return True if user code, not namedax or a transpose of JAX, made the last equation."""
    if _is_of_operation(path) or DELIBERATE in _scope(path):
        return False
    return _boundary(path) is not None and not _is_transpose(path)


def checked_as_body(
    function: Callable[..., PyTree], resources: Mapping[Hashable, tuple[str, ...]], name: str
) -> Callable[..., PyTree]:
    """Wrap `function` of pytrees so that it is traced and checked like a body before it runs.

    Only tracers are arguments of that trace. Other arguments may be anything, such as those that a
    rule does not differentiate.
    """

    def run(*args: PyTree) -> PyTree:
        given, tree = jax.tree.flatten(args)
        arrays = jax.tree.leaves(args, is_leaf=is_named)
        dims = (
            [leaf._dims if is_named(leaf) else None for leaf in arrays]
            if len(arrays) == len(given)
            else [None] * len(given)
        )
        datas = [leaf for leaf in given if isinstance(leaf, jax.core.Tracer)]
        noted: list[Any] = []

        def flat(*datas: jax.Array) -> list[jax.Array]:
            traced = iter(datas)
            inner = [next(traced) if isinstance(leaf, jax.core.Tracer) else leaf for leaf in given]
            leaves, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, inner)))
            noted[:] = [
                structure,
                [None if isinstance(leaf, jax.core.Tracer) else leaf for leaf in leaves],
            ]
            return [leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer)]

        closed = jax.make_jaxpr(flat)(*datas)
        own = [
            own for leaf, own in zip(given, dims, strict=True) if isinstance(leaf, jax.core.Tracer)
        ]
        reject_raw(closed, resources, name, dimensions=Dimensions(resources, frozenset(), own))
        supply = iter(jaxpr_as_fun(closed)(*datas))
        structure, constants = noted
        return jax.tree.unflatten(
            structure, [next(supply) if leaf is None else leaf for leaf in constants]
        )

    return run


def _equations(
    jaxpr: Jaxpr, path: Path, seen: dict[int, bool], in_maps: bool
) -> list[tuple[JaxprEqn, Primitive, Path]]:
    """Return all equations that may matter, with facts and enclosing equations.

    The enclosing equations are outermost first.

    Args:
      jaxpr: the jaxpr.
      path: the equations that contain it.
      seen: whether a jaxpr has any such equation, by its id; the function adds to it.
      in_maps: whether to look into what is mapped over mesh axes there.
    """
    if not seen.get(id(jaxpr), True):
        return []
    found: list[tuple[JaxprEqn, Primitive, Path]] = []
    for eqn, known in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True):
        if known.kind in LOCAL_KINDS or known.kind is Kind.CAST:
            if known.takes is not None:
                found.append((eqn, known, path))
            continue
        if known.kind is not Kind.CALL:
            found.append((eqn, known, path))
        for part in jaxprs_of(eqn) if in_maps or known.kind is not Kind.MAP else ():
            found += _equations(open_jaxpr(part), (*path, eqn), seen, in_maps)
    seen[id(jaxpr)] = bool(found)
    return found


def _scope(path: Path) -> str:
    return "/".join(str(eqn.source_info.name_stack) for eqn in path)


def _is_raw_collective(eqn: JaxprEqn, path: Path, names: Mapping[str, list[Hashable]]) -> bool:
    for axis in axes_of(eqn):
        if type(axis) is str and axis in names:
            break
    else:
        return False
    scope = _scope((*path, eqn))
    if DELIBERATE in scope:
        return False
    # JAX itself makes it from a cast to varying.
    return not (kind_of(eqn) == Kind.SUM and _is_transpose((*path, eqn)))


def _is_transpose(path: Path) -> bool:
    """Return True if JAX made the last equation of a path as the transpose of another one.

    An equation of a gradient rule counts only if it has been transposed twice: JAX has transposed
    every such equation once.
    """
    count = _scope(path).count("transpose(")
    return count > 0 and (
        count > 1 or not (_boundary(path) is call_backward_rule or _is_of_rule(path))
    )


def _is_raw_reduction(path: Path) -> bool:
    """Return True if the last equation of a path reduces a value of the body.

    Equations that JAX or an operation of namedax makes do not count. A loop of JAX slices elements
    of a block. The transpose of a broadcast is a sum, which JAX then sums over the devices.
    """
    if _boundary(path) is None or _is_transpose(path) or _is_of_operation(path):
        return False
    return not any(
        kind_of(eqn) in _LOOPS and _boundary(path[: i + 1]) is not None
        for i, eqn in enumerate(path)
    )


def _without_start(called: str) -> str:
    """Return the collective that `called` runs: `psum_scatter` for `psum_scatter_start`."""
    return called.removesuffix("_start")


def _raise_for_collective(
    eqn: JaxprEqn, names: Mapping[str, list[Hashable]], function: str
) -> None:
    called, where = _called(eqn)
    called = called if _without_start(called) in COLLECTIVES else name_of(eqn)
    axes = [axis for axis in axes_of(eqn) if axis in names]
    mapped = dict.fromkeys(name for axis in axes for name in names[axis])
    raise RawBlockError(
        f"jax.lax.{called}: in the body of {function}{where} it would operate on the blocks of"
        f" devices along the mesh axes {show_names(axes)}, over which the axes {show_names(mapped)}"
        " are sharded, so its result would change with axis_resources. Use"
        f" nx.lax.{_without_start(called)} with an axis name. (To operate on blocks on purpose,"
        " lift the function and pass the data of arrays: nx.NamedArray(nx.nmap(function,"
        " collectives=True)(x.data), x.dims).)"
    )


def _raise_for_reduction(path: Path, mapped: list[Hashable], function: str) -> None:
    raise RawBlockError(
        f"{function}{_line_in_body(path)}: a function of JAX takes {facts(path[-1]).takes} of all"
        " elements of the data of a named array. In a body the data are one device's block of the"
        f" axes {show_names(dict.fromkeys(mapped))}, so the result would change with"
        " axis_resources. Reduce the named array (nx.sum, nx.max, nx.dot). Use"
        " nx.interop.global_norm or"
        " nx.interop.clip_by_global_norm for trees, nx.scipy.sparse.linalg for solvers, and"
        " nx.nmap for elementwise functions. nx.testing.assert_resources_do_not_matter detects the"
        f" cases that this check misses.{_remedies(path)}"
    )


def _raise_for_mixing(
    finding: Finding, axes: list[str], mapped: list[Hashable], function: str
) -> None:
    path = finding.drawn or finding.path  # a constant has no equation
    if finding.is_moved:
        shape = aval_of(path[-1].invars[0]).shape
        raise RawBlockError(
            f"jax.tree.unflatten: in {function}{_line_in_body(path)} a function of leaves moves a"
            f" dimension of a named array, whose block has the shape {shape}. The dimension that is"
            f" sharded over the mesh axes {show_names(axes)} gets another name, and the data no"
            f" longer match the axes {show_names(dict.fromkeys(mapped))}. Stop at named arrays with"
            " is_leaf=lambda v: isinstance(v, nx.NamedArray), and use functions of namedax there"
            " (nx.transpose, nx.stack, nx.rename)."
        )
    called = next(filter(None, map(_function_of_jax, path)), name_of(path[-1]))
    where = (
        f"sharded over the mesh axes {show_names(axes)} (the axes"
        f" {show_names(dict.fromkeys(mapped))})"
    )
    if finding.drawn is not None:
        raise RawBlockError(
            f"{function}{_line_in_body(path)}: a function of JAX ({called}) makes numbers in the"
            f" shape of the block of one device, for a dimension that is {where}. Every device"
            " would make the same numbers, and the result would change with axis_resources. Use"
            " nx.random or nx.arange with the axis name (nx.random.normal(key,"
            f" named_shape=x.named_shape), nx.arange(8, axis='a')).{_remedies(path)}"
        )
    what = (
        "that namedax has no rule for is applied along"
        if finding.is_unknown
        else "combines elements along"
    )
    raise RawBlockError(
        f"{function}{_line_in_body(path)}: a function of JAX ({called}) {what} a dimension of the"
        f" data of a named array that is {where}. In a body the data are the block of one device,"
        " so the result would change with axis_resources. Use the function of namedax, which takes"
        " names, or pass the global axis to JAX: nx.nmap(function)(nx.untag(x, names))."
        f"{_remedies(path)}"
    )


@contextlib.contextmanager
def explain_unbound_axes(function: str) -> Iterator[None]:
    """Convert JAX's error about an unbound axis name into one that mentions `nx.lax`.

    Raises:
      RawBlockError: in the body of `function` a collective of JAX names an axis that is not a mesh
        axis here.
    """
    try:
        yield
    except (
        NameError,
        AssertionError,
        NotImplementedError,
        ValueError,
    ) as error:  # depends on mesh and jit
        if not isinstance(error, NamedaxError) and _is_of_cast(error):
            raise RawBlockError(
                f"jax.lax.pcast: in the body of {function} no cast is needed, and an axis name is"
                " not a mesh axis. The names of a value determine the mesh axes over which it"
                " varies, and operations of namedax cast their operands. Remove the cast."
            ) from error
        if ErrorKind.BLOCK_TYPE.matches(error):
            # `jnp.zeros_like` of the `jax.ShapeDtypeStruct` of a block fails in this way if a mesh
            # axis is left to the compiler.
            raise RawBlockError(
                f"jax.numpy.zeros_like: in the body of {function} JAX makes an array (zeros_like,"
                " full_like, searchsorted, digitize, interp) from a jax.ShapeDtypeStruct with the"
                " shape of the block of one device. It cannot do so on a mesh with an axis that no"
                " name is mapped to, and the shape would change with axis_resources. An optimizer"
                " that reduces some dimensions of an array, such as optax.adafactor, needs global"
                " arrays: call it outside the body, or use nx.interop.adafactor. To copy the axes"
                " of a named array, use nx.zeros_like. Lift another function: nx.nmap(function)."
            ) from error
        if isinstance(error, ValueError):
            raise
        message = names_text(error)
        if message is not None:
            message = message.replace(": ", f": in the body of {function} ", 1)
            raise RawBlockError(message) from error
        found = _unbound(error)
        if found is None:
            raise
        called, axis, _ = found
        raise RawBlockError(
            f"jax.lax.{called}: in the body of {function} it names {axis!r}, but the collectives of"
            " JAX take only mesh axes, and would operate on the blocks of devices. Use"
            f" nx.lax.{_without_start(called)} with an axis name."
        ) from error


def names_text(error: BaseException, function: str | None = None) -> str | None:
    """Return the message for a function of JAX that got an axis name as its axis.

    For example `jnp.sum`. The result is `None` for other errors.

    JAX passes the name on to a collective, which the user did not call.

    Args:
      error: an error of JAX.
      function: the function, if it is known; JAX removes its own frames from the tracebacks of its
        public functions. Default: None.
    """
    found = _unbound(error)
    called, axis = function, unbound_axis(error) if ErrorKind.UNBOUND_AXIS.matches(error) else None
    if found is not None and found[2] is not None:
        _, axis, called = found
    if called is None or axis is None:
        return None
    return (
        f"{called}: JAX's own function got axis={axis!r}, an axis name, but it takes positional"
        " axes; it treats names as mesh axes. Use"
        f" {hints().namesake(called) or 'the function of namedax'}, which takes names."
    )


@contextlib.contextmanager
def explain_values_from_around(function: str) -> Iterator[None]:
    """Convert JAX's error about a value of a surrounding region into one with a remedy.

    Raises:
      RawBlockError: the body of `function`, nested in that of another mapped function, passes JAX
        an array of the outer one.
    """
    try:
        yield
    except ValueError as error:
        kinds = (ErrorKind.CONTEXT_MESH, ErrorKind.SHARD_MAP_MESH)
        if isinstance(error, NamedaxError) or not any(kind.matches(error) for kind in kinds):
            raise
        called = rejected_operation(error) or "an operation"
        raise RawBlockError(
            f"xmap: {function} is called inside of another mapped function, maps names to its own"
            " mesh axes, and passes an array of the outer function, which has no names, to JAX"
            f" ({called}). In JAX that array belongs to other mesh axes. Pass it to {function} as"
            " an argument (in_axes [...]), or use the function of namedax, which takes it"
            " (nx.sin(w), nx.multiply(w, 2))."
        ) from error


def _is_of_cast(error: BaseException) -> bool:
    """Return True if a traceback ends in a cast that the body made, not deliberate collectives."""
    is_cast, traceback = False, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == _NAMEDAX + os.path.join("ops", "operands", "nmap.py"):
            return False
        is_cast = _is_of_jax(code.co_filename) and (is_cast or code.co_name == "pcast")
        traceback = traceback.tb_next
    return is_cast


def _unbound(error: BaseException) -> tuple[str, Any, str | None] | None:
    """Return the JAX collective in which a traceback ends, its axis, and its caller.

    The caller is the function with an axis argument that called it.

    The result is `None` if the body did not call these itself. The last item is `None` if the body
    called the collective.
    """
    called: tuple[str, Any, str | None] | None = None
    reduction: tuple[str, Any] | None = None
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not _is_of_jax(code.co_filename):
            called = reduction = None
        elif (
            called is not None and called[1] is None and called[2] is None
        ):  # asynchronous: it forwards its arguments
            called = (called[0], traceback.tb_frame.f_locals.get("axis_name"), None)
        elif called is None and _without_start(code.co_name) in COLLECTIVES:
            axis, by = (
                reduction[::-1]
                if reduction is not None
                else (traceback.tb_frame.f_locals.get("axis_name"), None)
            )
            called = (code.co_name, axis, by)
        elif (
            reduction is None
            and "axis" in code.co_varnames[: code.co_argcount]
            and hints().namesake(code.co_name)
        ):
            reduction = (code.co_name, traceback.tb_frame.f_locals.get("axis"))
        traceback = traceback.tb_next
    return called


# --- origins of equations -------------------------------------------------------------------------


def _directory(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


_JAX, _NAMEDAX = _directory(jax.__file__), os.path.dirname(_directory(__file__)[:-1]) + os.sep
_SCOPE = re.compile(r"nx\.([\w.]+)\{")


@functools.lru_cache(maxsize=4096)
def _is_of_jax(file: str) -> bool:
    return file.startswith(_JAX) or f"{os.sep}jaxlib{os.sep}" in file


def _frames(eqn: JaxprEqn) -> list[tuple[str, str, int]]:
    """Return file, function and line of each frame in which an equation was made, innermost first.

    Frames of modules that only assemble arrays are left out.
    """
    # JAX stores none for some equations.
    frames = getattr(getattr(eqn.source_info, "traceback", None), "frames", ())
    return [
        (f.file_name, f.function_name, f.line_num)
        for f in frames
        if not is_transparent(f.file_name)
    ]


def _boundaries(eqn: JaxprEqn) -> list[Boundary | None]:
    """Return each namedax frame of an equation, innermost first: its boundary of user code."""
    return [boundary_of(file, name) for file, name, _ in _frames(eqn) if file.startswith(_NAMEDAX)]


def _boundary(path: Path) -> Boundary | None:
    """Return the function that called the user code of the last equation of a path.

    It is a function of `namedax.core.user_code`.

    Return `None` if the equation comes from an operation, or is checked on its own. For an equation
    in a jaxpr that the body calls, JAX keeps the frames from the call on.
    """
    boundaries = [_boundaries(eqn) for eqn in path]
    if any(call_checked_code in of_eqn for of_eqn in boundaries):
        return None
    return next((of_eqn[0] for of_eqn in reversed(boundaries) if of_eqn), None)


def _is_of_rule(path: Path) -> bool:
    """Return True if the last equation of a path comes from a user's rule of `jax.custom_vjp`."""
    called = ""
    for file, name, _ in _frames(path[-1]):
        if not _is_of_jax(file):
            return called == jax.custom_vjp.__call__.__qualname__
        called = name if "traceback" not in file.rpartition(os.sep)[2] else called
    return False


def _is_of_operation(path: Path) -> bool:
    """Return True if the last equation of a path comes from an operation of namedax.

    The scope decides this, because the frames may be those of a rule.
    """
    scopes = _SCOPE.findall(_scope(path))
    return bool(scopes) and scopes[-1] not in OPERATIONS_ON_FUNCTIONS


def _called(eqn: JaxprEqn) -> tuple[str, str]:
    """Return the function of JAX that the body calls, and its location, as text for messages."""
    called = ""
    for file, name, line in _frames(eqn):
        if not _is_of_jax(file):
            return called, f" ({os.path.basename(file)}:{line})"
        called = name.rsplit(".", 1)[-1]
    return called, ""


def _function_of_jax(eqn: JaxprEqn) -> str:
    """Return the outermost public function of JAX, inside user code, that made an equation."""
    called = ""
    for file, name, _ in _frames(eqn):
        if not _is_of_jax(file):
            break
        name = name.rsplit(".", 1)[-1]
        if any(
            hasattr(module, name) for module in (jnp, jax.nn, lax, jax.random, jnp.linalg, jnp.fft)
        ):
            called = name
    return called


def _remedies(path: Path) -> str:
    """Return sentences with the remedies for any function of JAX that combines elements."""
    return (
        " In a function that is mapped with partitioning='global', the data are the global array,"
        f" and functions of JAX operate on all of it.{_optimizer_remedy(path)}"
    )


def _optimizer_remedy(path: Path) -> str:
    """Return a sentence for equations that a function of optax makes."""
    if not any(f"{os.sep}optax{os.sep}" in file for eqn in path for file, *_ in _frames(eqn)):
        return ""
    return (
        " optax calls this function. Use muon, shampoo, adafactor or clip_by_global_norm of"
        " nx.interop, or call the optimizer outside of the mapped function."
    )


def _line_in_body(path: Path) -> str:
    """Return the line in the mapped function, as text for messages.

    The line may be in code that it called through JAX's transformations.
    """
    for eqn in path:
        found = ""
        for file, _, line in _frames(eqn):
            if file.startswith(_NAMEDAX):
                break
            if not _is_of_jax(file):
                found = f" ({os.path.basename(file)}:{line})"
        if found:
            return found
    return ""
