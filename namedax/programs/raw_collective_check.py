"""What a traced body does with the blocks of devices that namedax did not make: raw collectives, and raw reductions.

A named array in a body holds the block of one device. `jax.lax.psum` and the like would work on it by mesh axis, and a
reduction of all of its entries (`jnp.max(leaf)` in `jax.tree.map`, the norms of other libraries) would be that of one device.
Neither is what the program over names says, so the body is inspected once, when it has been traced.

Of what goes along some dimensions only, `namedax.programs.block_dimensions` knows whether these are sharded.

A collective that namedax makes names its mesh axes by `OwnAxis`, which JAX passes on to what it makes of the collective (its
transpose, its batched form). A reduction is recognised by where it comes from: the innermost frame outside of JAX.
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
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from namedax.core.array import is_named
from namedax.core.migration_hints import namesake
from namedax.core.name_scopes import OPERATIONS_ON_FUNCTIONS
from namedax.core.user_code import Boundary, boundary_of, call_backward_rule, call_checked_code, is_transparent
from namedax.core.variance import varying_of
from namedax.errors import NamedaxError, RawBlockError, show_names
from namedax.programs.block_dimensions import Dimensions, Finding, findings, is_used
from namedax.programs.primitives import (
    COLLECTIVES,
    LOCAL_KINDS,
    Kind,
    Known,
    axes_of,
    facts,
    facts_of,
    kind_of,
    name_of,
    programs_of,
)

__all__ = [
    "DELIBERATE",
    "Dimensions",
    "explain_unbound_axes",
    "explain_values_from_around",
    "looked_through",
    "refuse_raw",
    "said_of_names",
]

# The scope in which raw collectives are deliberate; see `nmap`.
DELIBERATE = "deliberate_collectives"

_LOOPS = (Kind.SCAN, Kind.WHILE, Kind.MAP)


def refuse_raw(
    closed: ClosedJaxpr,
    resources: Mapping[Hashable, tuple[str, ...]],
    function: str,
    reductions: bool = True,
    dimensions: Dimensions | None = None,
) -> None:
    """Looks through a traced body.

    Args:
      closed: the body.
      resources: the mesh axes of every mapped name.
      function: whose body it is, for messages.
      reductions: whether to look for these, too.
      dimensions: what is known of the dimensions of its operands and results.

    Raises:
      RawBlockError: it has a collective over these mesh axes, or combines entries of a block, by a function of JAX.
    """
    names: dict[str, list[Hashable]] = {}
    for name, axes in resources.items():
        for axis in axes:
            names.setdefault(axis, []).append(name)
    for eqn, known, path in _equations(closed.jaxpr, (), {}):
        if known.kind is not Kind.CAST and known.kind not in LOCAL_KINDS and _is_raw_collective(eqn, path, names):
            _raise_for_collective(eqn, names, function)
        if reductions and known.takes is not None and not eqn.outvars[0].aval.shape:
            reduced = frozenset[str]().union(*(varying_of(v.aval) for v in eqn.invars if v.aval.shape)) & names.keys()
            if reduced and _is_raw_reduction((*path, eqn)):
                _raise_for_reduction((*path, eqn), [name for axis in sorted(reduced) for name in names[axis]], function)
    if reductions and names:
        _refuse_mixing(closed, names, function, dimensions)


def _refuse_mixing(
    closed: ClosedJaxpr, names: Mapping[str, list[Hashable]], function: str, dimensions: Dimensions | None
) -> None:
    """Raises where code of the user combines entries along some dimensions of a block, or draws numbers in its shape."""
    for finding in findings(closed, dimensions):
        axes = finding.axes & names.keys()
        is_of_user = axes and any(map(_is_of_user, filter(None, (finding.path, finding.drawn))))
        if is_of_user and is_used(closed.jaxpr, finding.path):
            _raise_for_mixing(finding, sorted(axes), [name for axis in sorted(axes) for name in names[axis]], function)


def _is_of_user(path: tuple[Any, ...]) -> bool:
    """Whether the last equation of a path comes from code of the user, and not from an operation of namedax or a transpose of JAX."""
    if _is_of_operation(path) or DELIBERATE in _scope(path):
        return False
    return _boundary(path) is not None and not _is_transpose(path)


def looked_through(
    function: Callable[..., Any], resources: Mapping[Hashable, tuple[str, ...]], name: str
) -> Callable[..., Any]:
    """`function` of pytrees, which is traced and looked through as a body is, before the program is executed.

    Only what is traced already is: other arguments may be anything, as those that a rule does not differentiate.
    """

    def run(*args: Any) -> Any:
        given, tree = jax.tree.flatten(args)
        arrays = jax.tree.leaves(args, is_leaf=is_named)
        dims = [leaf._dims if is_named(leaf) else None for leaf in arrays] if len(arrays) == len(given) else [None] * len(given)
        datas = [leaf for leaf in given if isinstance(leaf, jax.core.Tracer)]
        noted: list[Any] = []

        def flat(*datas: Any) -> list[Any]:
            traced = iter(datas)
            inner = [next(traced) if isinstance(leaf, jax.core.Tracer) else leaf for leaf in given]
            leaves, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, inner)))
            noted[:] = [structure, [None if isinstance(leaf, jax.core.Tracer) else leaf for leaf in leaves]]
            return [leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer)]

        closed = jax.make_jaxpr(flat)(*datas)
        own = [own for leaf, own in zip(given, dims, strict=True) if isinstance(leaf, jax.core.Tracer)]
        refuse_raw(closed, resources, name, dimensions=Dimensions(resources, frozenset(), own))
        supply = iter(jaxpr_as_fun(closed)(*datas))
        structure, constants = noted
        return jax.tree.unflatten(structure, [next(supply) if leaf is None else leaf for leaf in constants])

    return run


def _equations(jaxpr: Any, path: tuple[Any, ...], seen: dict[int, bool]) -> list[tuple[Any, Known, tuple[Any, ...]]]:
    """All equations that may matter, with what is known of them, each with those whose programs it is in, the outermost first.

    Args:
      jaxpr: the program.
      path: the equations that it is in.
      seen: whether there are any in a program, by its id; it is added to.
    """
    if not seen.get(id(jaxpr), True):
        return []
    found: list[tuple[Any, Known, tuple[Any, ...]]] = []
    for eqn, known in zip(jaxpr.eqns, facts_of(jaxpr.eqns), strict=True):
        if known.kind in LOCAL_KINDS or known.kind is Kind.CAST:
            if known.takes is not None:
                found.append((eqn, known, path))
            continue
        if known.kind is not Kind.CALL:
            found.append((eqn, known, path))
        for part in programs_of(eqn):
            found += _equations(getattr(part, "jaxpr", part), (*path, eqn), seen)
    seen[id(jaxpr)] = bool(found)
    return found


def _scope(path: tuple[Any, ...]) -> str:
    return "/".join(str(eqn.source_info.name_stack) for eqn in path)


def _is_raw_collective(eqn: Any, path: tuple[Any, ...], names: Mapping[str, Any]) -> bool:
    for axis in axes_of(eqn):
        if type(axis) is str and axis in names:
            break
    else:
        return False
    scope = _scope((*path, eqn))
    if DELIBERATE in scope:
        return False
    return not (kind_of(eqn) == Kind.SUM and _is_transpose((*path, eqn)))  # what JAX itself makes of a cast to device-varying


def _is_transpose(path: tuple[Any, ...]) -> bool:
    """Whether JAX has made the last equation of a path, as the transpose of another one; what a rule for the gradient does is transposed once."""
    count = _scope(path).count("transpose(")
    return count > 0 and (count > 1 or not (_boundary(path) is call_backward_rule or _is_of_rule(path)))


def _is_raw_reduction(path: tuple[Any, ...]) -> bool:
    """Whether the last equation of a path reduces what the body has, and not what JAX or an operation of namedax makes of it.

    A loop of JAX takes entries of a block. The transpose of a broadcast is a sum, over which JAX then sums the devices.
    """
    if _boundary(path) is None or _is_transpose(path) or _is_of_operation(path):
        return False
    return not any(kind_of(eqn) in _LOOPS and _boundary(path[: i + 1]) is not None for i, eqn in enumerate(path))


def _without_start(called: str) -> str:
    """The collective that a function of JAX runs, or starts: `psum_scatter` of `psum_scatter_start`."""
    return called.removesuffix("_start")


def _raise_for_collective(eqn: Any, names: Mapping[str, list[Hashable]], function: str) -> None:
    called, where = _called(eqn)
    called = called if _without_start(called) in COLLECTIVES else name_of(eqn)
    axes = [axis for axis in axes_of(eqn) if axis in names]
    held = dict.fromkeys(name for axis in axes for name in names[axis])
    raise RawBlockError(
        f"jax.lax.{called}: in the body of {function}{where} it would work on the blocks of devices along mesh axes "
        f"{show_names(axes)}, on which the axes {show_names(held)} live, and change with axis_resources. Use nx.lax.{_without_start(called)} "
        "with the name of an axis. (To work on blocks on purpose, lift the function and give it the data of arrays: "
        "nx.NamedArray(nx.nmap(function, collectives=True)(x.data), x.dims).)"
    )


def _raise_for_reduction(path: tuple[Any, ...], held: list[Hashable], function: str) -> None:
    raise RawBlockError(
        f"{function}{_line_in_body(path)}: a function of JAX takes {facts(path[-1]).takes} of all entries of the data of a "
        f"named array, which in a body are the block of one device of the axes {show_names(dict.fromkeys(held))}; the result "
        "would change with axis_resources. Reduce the named array (nx.sum, nx.max, nx.dot), and use nx.interop.global_norm or "
        "nx.interop.clip_by_global_norm for trees, nx.scipy.sparse.linalg for solvers, and nx.nmap for what is done to each "
        "entry. nx.testing.assert_resources_do_not_matter tries what cannot be seen like this."
    )


def _raise_for_mixing(finding: Finding, axes: list[str], held: list[Hashable], function: str) -> None:
    path = finding.drawn or finding.path  # a constant has no equation of its own
    if finding.is_moved:
        shape = path[-1].invars[0].aval.shape
        raise RawBlockError(
            f"jax.tree.unflatten: in {function}{_line_in_body(path)} a function of leaves moves a dimension of a named array, whose block has the "
            f"shape {shape}: the dimension that is sharded over the mesh axes {show_names(axes)} gets another name, and the data are no "
            f"longer those of the axes {show_names(dict.fromkeys(held))}. Stop at named arrays with is_leaf=lambda v: isinstance(v, "
            "nx.NamedArray), and use functions of namedax there (nx.transpose, nx.stack, nx.rename)."
        )
    called = next(filter(None, map(_function_of_jax, path)), name_of(path[-1]))
    where = f"sharded over the mesh axes {show_names(axes)}, on which the axes {show_names(dict.fromkeys(held))} live"
    if finding.drawn is not None:
        raise RawBlockError(
            f"{function}{_line_in_body(path)}: a function of JAX ({called}) makes numbers in the shape of the block of one device, for a dimension "
            f"that is {where}; every device would have the same, and the result would change with axis_resources. Use nx.random or nx.arange "
            "with the name of the axis (nx.random.normal(key, named_shape=x.named_shape), nx.arange(8, axis='a'))."
        )
    what = "that is not known to namedax is applied along" if finding.is_unknown else "combines entries along"
    raise RawBlockError(
        f"{function}{_line_in_body(path)}: a function of JAX ({called}) {what} a dimension of the data of a named array that is {where}; in a "
        "body these are the block of one device, and the result would change with axis_resources. Use the function of namedax, which takes "
        "names, or give JAX the whole axis: nx.nmap(function)(nx.untag(x, names))."
    )


@contextlib.contextmanager
def explain_unbound_axes(function: str) -> Iterator[None]:
    """Turns JAX's complaint that no mesh axis has the name of a raw collective into one that mentions `nx.lax`.

    Raises:
      RawBlockError: in the body of `function` a collective of JAX names something that is not a mesh axis here.
    """
    try:
        yield
    except (NameError, AssertionError, NotImplementedError, ValueError) as error:  # which, depends on the mesh and on jit
        if not isinstance(error, NamedaxError) and _is_of_cast(error):
            raise RawBlockError(
                f"jax.lax.pcast: in the body of {function} no cast is needed, and a name is no mesh axis: over which mesh axes a value varies "
                "follows from its names, and operations of namedax cast their operands to meet. Leave the cast out."
            ) from error
        if isinstance(error, AssertionError) and str(error).startswith("ManualAxisType("):
            # `jnp.zeros_like` of the `jax.ShapeDtypeStruct` of a block fails so where a mesh axis is left to the compiler.
            raise RawBlockError(
                f"jax.numpy.zeros_like: in the body of {function} JAX makes an array (zeros_like, full_like) from a jax.ShapeDtypeStruct "
                "that has the shape of the block of one device; it cannot do so on a mesh with an axis that no name is mapped to, and the "
                "shape would change with axis_resources. An optimizer that reduces some dimensions of an array, such as optax.adafactor, "
                "needs whole arrays: call it outside the body. For an array like a named one, write nx.zeros_like."
            ) from error
        if isinstance(error, ValueError):
            raise
        said = said_of_names(error)
        if said is not None:
            raise RawBlockError(said.replace(": ", f": in the body of {function} ", 1)) from error
        found = _unbound(error)
        if found is None:
            raise
        called, axis, _ = found
        raise RawBlockError(
            f"jax.lax.{called}: in the body of {function} it names {axis!r}, but the collectives of JAX know mesh axes only, and would work on "
            f"the blocks of devices. Use nx.lax.{_without_start(called)} with the name of an axis."
        ) from error


def said_of_names(error: BaseException, function: str | None = None) -> str | None:
    """What to say where a function of JAX with an axis, such as `jnp.sum`, has taken a name for one; `None` where no error is about that.

    It passes the name on to a collective, of which the user knows nothing.

    Args:
      error: an error of JAX.
      function: the function, if it is known; JAX takes its own frames out of the tracebacks that leave it.
    """
    found = _unbound(error)
    unbound = re.search(r"unbound axis name: (\S+?)\. ", str(error))
    called, axis = function, unbound and unbound[1]
    if found is not None and found[2] is not None:
        _, axis, called = found
    if called is None or axis is None:
        return None
    return (
        f"{called}: JAX's own function is given axis={axis!r}, which is a name, and it takes positions; names are mesh axes to it. Write "
        f"{namesake(called) or 'the function of namedax'}, which takes names."
    )


@contextlib.contextmanager
def explain_values_from_around(function: str) -> Iterator[None]:
    """Turns JAX's complaint that a value belongs to the body of a surrounding `jax.shard_map` into one that says what to do.

    Raises:
      RawBlockError: the body of `function`, within that of another mapped function, hands JAX an array of the other one.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, NamedaxError) or "ontext mesh" not in str(error):
            raise
        found = re.search(r"primitive (\w+)|passed to (\w+)", str(error))
        called = next(filter(None, found.groups())) if found is not None else "an operation"
        raise RawBlockError(
            f"xmap: {function} is called inside of another mapped function, maps names to mesh axes of its own, and hands an array of the "
            f"function around it, which has no names, to JAX ({called}): in JAX that array belongs to other mesh axes. Pass it to {function} "
            "as an argument (in_axes [...]), or use the function of namedax, which takes it (nx.sin(w), nx.multiply(w, 2))."
        ) from error


def _is_of_cast(error: BaseException) -> bool:
    """Whether a traceback ends in a cast of JAX that the body has called itself, and not in a function for which collectives are deliberate."""
    is_cast, traceback = False, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == _NAMEDAX + os.path.join("operands", "nmap.py"):
            return False
        is_cast = _is_of_jax(code.co_filename) and (is_cast or code.co_name == "pcast")
        traceback = traceback.tb_next
    return is_cast


def _unbound(error: BaseException) -> tuple[str, Any, str | None] | None:
    """The collective of JAX that a traceback ends in, what it was to go over, and the function with an axis that has called it.

    If a body has called these themselves. The last is `None` where the body called the collective.
    """
    called: tuple[str, Any, str | None] | None = None
    reduction: tuple[str, Any] | None = None
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not _is_of_jax(code.co_filename):
            called = reduction = None
        elif called is not None and called[1] is None and called[2] is None:  # an asynchronous one passes its arguments on
            called = (called[0], traceback.tb_frame.f_locals.get("axis_name"), None)
        elif called is None and _without_start(code.co_name) in COLLECTIVES:
            axis, by = reduction[::-1] if reduction is not None else (traceback.tb_frame.f_locals.get("axis_name"), None)
            called = (code.co_name, axis, by)
        elif reduction is None and "axis" in code.co_varnames[: code.co_argcount] and namesake(code.co_name):
            reduction = (code.co_name, traceback.tb_frame.f_locals.get("axis"))
        traceback = traceback.tb_next
    return called


# --- where an equation comes from -----------------------------------------------------------------------------------


def _directory(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


_JAX, _NAMEDAX = _directory(jax.__file__), os.path.dirname(_directory(__file__)[:-1]) + os.sep
_SCOPE = re.compile(r"nx\.([\w.]+)\{")


@functools.lru_cache(maxsize=4096)
def _is_of_jax(file: str) -> bool:
    return file.startswith(_JAX) or f"{os.sep}jaxlib{os.sep}" in file


def _frames(eqn: Any) -> list[tuple[str, str, int]]:
    """Return file, function and line of every frame in which an equation was made but those that put arrays together, the innermost first."""
    frames = getattr(getattr(eqn.source_info, "traceback", None), "frames", ())  # JAX keeps none for some
    return [(f.file_name, f.function_name, f.line_num) for f in frames if not is_transparent(f.file_name)]


def _boundaries(eqn: Any) -> list[Boundary | None]:
    """Return the boundary of user code, or `None`, for each frame of namedax in which an equation was made, the innermost first."""
    return [boundary_of(file, name) for file, name, _ in _frames(eqn) if file.startswith(_NAMEDAX)]


def _boundary(path: tuple[Any, ...]) -> Boundary | None:
    """Return the function of `namedax.core.user_code` that has called the user code that the last equation of a path comes from.

    `None` if that is an operation, or if the equation is checked on its own. For an equation in a program that the body calls, JAX
    keeps the frames from the call on.
    """
    boundaries = [_boundaries(eqn) for eqn in path]
    if any(call_checked_code in of_eqn for of_eqn in boundaries):
        return None
    return next((of_eqn[0] for of_eqn in reversed(boundaries) if of_eqn), None)


def _is_of_rule(path: tuple[Any, ...]) -> bool:
    """Return True if the last equation of a path comes from a rule of `jax.custom_vjp` that the user has written, which JAX calls."""
    called = ""
    for file, name, _ in _frames(path[-1]):
        if not _is_of_jax(file):
            return called == jax.custom_vjp.__call__.__qualname__
        called = name if "traceback" not in file.rpartition(os.sep)[2] else called
    return False


def _is_of_operation(path: tuple[Any, ...]) -> bool:
    """Return True if the last equation of a path comes from an operation of namedax, by its scope: the frames may be those of a rule."""
    scopes = _SCOPE.findall(_scope(path))
    return bool(scopes) and scopes[-1] not in OPERATIONS_ON_FUNCTIONS


def _called(eqn: Any) -> tuple[str, str]:
    """The function of JAX that the body calls, and where, as messages say it."""
    called = ""
    for file, name, line in _frames(eqn):
        if not _is_of_jax(file):
            return called, f" ({os.path.basename(file)}:{line})"
        called = name.rsplit(".", 1)[-1]
    return called, ""


def _function_of_jax(eqn: Any) -> str:
    """The outermost public function of JAX that has made an equation, beyond code of the user; empty where there is none."""
    called = ""
    for file, name, _ in _frames(eqn):
        if not _is_of_jax(file):
            break
        name = name.rsplit(".", 1)[-1]
        if any(hasattr(module, name) for module in (jnp, jax.nn, lax, jax.random, jnp.linalg, jnp.fft)):
            called = name
    return called


def _line_in_body(path: tuple[Any, ...]) -> str:
    """The line of the mapped function, or of what it has called in JAX's transformations, as messages say it."""
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
