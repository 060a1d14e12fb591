"""Assertions for tests of programs with named axes.

`assert_collectives` and `assert_no_gather` check the communication of a program, so that a change
that adds communication fails a test.

In namedax, `axis_resources` never change the results of its own operations. A function of raw
leaves gives no such guarantee (`x.data`, `jax.tree.map` with `jnp` functions, an optimizer that
computes a norm). In a body it computes with the block of one device.
`assert_resources_do_not_matter` finds such functions: it runs a program in three ways and compares
the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import common_type
from namedax.core.names import Mesh, PyTree
from namedax.core.records import Record
from namedax.errors import ArgumentError
from namedax.hlo import KINDS, size_text
from namedax.insight.analysis.explain import explain
from namedax.insight.analysis.records import Collective
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.pytree import data_of
from namedax.ops.shape.conversion import order_like
from namedax.xmap.mapped_function import Xmapped
from namedax.xmap.wrapper import xmap

__all__ = ["assert_collectives", "assert_no_gather", "assert_resources_do_not_matter"]


def __dir__() -> list[str]:
    return __all__


_OP = "assert_resources_do_not_matter"
_RESULT, _GRADIENT = "the result", "the gradient of"
_UNMAPPED, _MAPPED, _AUTO = "nothing mapped", "mapped", 'partitioning="auto"'


@checks_signature
def assert_resources_do_not_matter(
    fun: Callable[..., Any],
    *args: object,
    in_axes: object = None,
    out_axes: object = None,
    axis_sizes: Mapping[Hashable, int] | None = None,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    static_argnums: int | Sequence[int] = (),
    grad: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: object,
) -> None:
    """Check that values and gradients of a program do not depend on `axis_resources`.

    The program runs unmapped, mapped by `axis_resources`, and under XLA's partitioner. The check
    finds errors that namedax cannot detect. One example is a function of raw leaves that combines
    the elements of a block (a norm of `x.data`, `optax.clip_by_global_norm` in a body). Another is
    a random key that depends on the device. It also finds bugs of XLA and of namedax.

    Args:
      fun: a function of named arrays, as for `nx.xmap`. Or a mapped function from `nx.xmap`, whose
        options are the defaults here.
      *args: the arguments of `fun`. Small arrays suffice: an error for a batch of 8,000 also shows
        for a batch of 8.
      in_axes: as in `nx.xmap`. Default: the option of a mapped function, else `None`.
      out_axes: as in `nx.xmap`. Default: the option of a mapped function, else `None`.
      axis_sizes: as in `nx.xmap`. Default: the option of a mapped function, else none.
      axis_resources: the layout to check. Default: the option of a mapped function. Required for
        other functions.
      mesh: as in `nx.xmap`. Default: the mesh of the mapped function, or of `jax.set_mesh`.
      static_argnums: as in `nx.xmap`. Default: the option of a mapped function, else none.
      grad: if True, also compare gradients, taken outside of the body. They are gradients of the
        sum of all results with fixed random weights, with respect to all floating-point arguments.
        Pass `False` if `fun` is not differentiable. Default: `True`.
      rtol: the tolerance relative to the unmapped value. Default: the square root of the dtype's
        precision. Integers and booleans must be equal.
      atol: the additional absolute tolerance. Default: the same square root, times the root mean
        square of the array. It is too small for an array of rounding errors, such as a gradient at
        a tie of all elements or a sum of deviations from the mean. In this case the function
        measures the effect of rounding. It repeats the computation with arguments that differ by a
        few units in the last place, and with other gradient weights. A wrong result stays equally
        wrong; a rounding error changes.
      **kwargs: keyword arguments of `fun`.

    Raises:
      AssertionError: results or gradients differ. The message lists the arrays (by path and type),
        the differences, and likely causes.
      ArgumentError: `axis_resources` are missing.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> x = nx.named(jnp.arange(8.0), ["batch"])
    >>> options = {"axis_resources": {"batch": "x"}, "mesh": mesh}
    >>> nx.testing.assert_resources_do_not_matter(lambda x: x / nx.max(x, "batch"), x, **options)
    >>> add_size = lambda x: jax.tree.map(lambda a: a + 8 // a.size, x)
    >>> nx.testing.assert_resources_do_not_matter(add_size, x, **options)
    Traceback (most recent call last):
      ...
    AssertionError: assert_resources_do_not_matter: results or gradients of <lambda> depend on ...
    ...
    """
    options = _options(fun, in_axes, out_axes, axis_sizes, axis_resources, mesh, static_argnums)
    body = fun._fun if isinstance(fun, Xmapped) else fun
    name = str(getattr(fun, "__name__", type(fun).__name__))
    if not options["axis_resources"]:
        raise ArgumentError(
            f"{_OP}: axis_resources are missing. Pass axis_resources={{...}}, a dict from axis"
            " names to mesh axes, or a function that nx.xmap has mapped with them."
        )
    forms = {
        _UNMAPPED: xmap(body, **{**options, "axis_resources": {}, "mesh": None}),
        _MAPPED: xmap(body, **options),
        _AUTO: xmap(body, **{**options, "partitioning": "auto"}),
    }
    compared = _outcomes(forms, args, kwargs, grad)

    def findings(rounding: Mapping[str, Sequence[float]]) -> list[_Finding]:
        parameters = forms[_MAPPED]._parameters
        pairs = compared.items()
        return [
            one
            for what, trees in pairs
            for one in _compare(what, trees, rtol, atol, parameters, rounding.get(what, ()))
        ]

    found = findings({})
    if found and atol is None:
        found = findings(_rounding(compared, forms, args, kwargs, grad))
    if found:
        raise AssertionError(
            _report(name, _as_written(options["axis_resources"]), found, options["mesh"])
        )


def _outcomes(
    forms: Mapping[str, Xmapped],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    grad: bool,
    weight: float = 1.0,
) -> dict[str, dict[str, Any]]:
    """Compute the results and gradients of each variant of the function."""
    static = forms[_MAPPED]._options.static_argnums
    values = {
        label: _run(label, functools.partial(form, *args, **kwargs))
        for label, form in forms.items()
    }
    compared = {_RESULT: values}
    if grad:
        gradient = functools.partial(
            _gradient,
            args=args,
            kwargs=kwargs,
            static=static,
            like=values[_UNMAPPED],
            weight=weight,
        )
        compared[_GRADIENT] = {
            label: _run(label, functools.partial(gradient, form)) for label, form in forms.items()
        }
    return compared


def _options(
    fun: object,
    in_axes: object,
    out_axes: object,
    axis_sizes: object,
    axis_resources: object,
    mesh: Mesh | None,
    static: object,
) -> dict[str, Any]:
    """Return the options of `xmap`: the given ones, else the options of a mapped function."""
    given = {
        "in_axes": in_axes,
        "out_axes": out_axes,
        "axis_sizes": axis_sizes,
        "axis_resources": axis_resources,
        "mesh": mesh,
    }
    given["static_argnums"] = static if static != () else None
    own: dict[str, Any] = {"static_argnums": ()}
    if isinstance(fun, Xmapped):
        own = {
            "in_axes": fun._options.in_axes,
            "out_axes": fun._options.out_axes,
            "axis_sizes": fun._options.axis_sizes,
            "axis_resources": fun._options.axis_resources,
            "mesh": fun._options.mesh,
            "static_argnums": fun._options.static_argnums,
            "overlap": fun._options.overlap,
            "partitioning": fun._options.partitioning,
            "passes": fun._passes,
        }
    return {
        **own,
        **{key: value for key, value in given.items() if value is not None or key not in own},
    }


def _as_written(axis_resources: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    """Format `axis_resources` as a user writes them: a single mesh axis without a tuple."""
    return {
        name: axes[0] if isinstance(axes, tuple) and len(axes) == 1 else axes
        for name, axes in axis_resources.items()
        if axes != ()
    }


def _run(label: str, call: Callable[[], PyTree]) -> PyTree:
    """Run `call` and copy its arrays to this host."""
    try:
        return jax.tree.map(_fetch, call(), is_leaf=is_named)
    except Exception as error:
        error.add_note(f"namedax: {_OP} ran the function with {label}.")
        raise


def _fetch(leaf: object) -> object:
    data = data_of(leaf)
    if isinstance(data, jax.Array) and jnp.issubdtype(data.dtype, jax.dtypes.prng_key):
        data = jax.random.key_data(data)
        dims = (*dims_of(leaf), *(None,) * (data.ndim - len(dims_of(leaf))))
    else:
        dims = dims_of(leaf)
    data = (
        jax.device_put(np.asarray(data), jax.local_devices()[0])
        if isinstance(data, (jax.Array, np.ndarray))
        else data
    )
    return NamedArray(data, dims) if isinstance(leaf, NamedArray) else data


# --- gradients ------------------------------------------------------------------------------------


def _is_float(leaf: object) -> bool:
    data = data_of(leaf)
    return hasattr(data, "dtype") and bool(jnp.issubdtype(data.dtype, jnp.inexact))


def _gradient(
    form: Callable[..., Any],
    *,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: Sequence[int],
    like: PyTree,
    weight: float,
) -> PyTree:
    """Compute the gradient of a random projection of the results.

    It is a tree like `(args, kwargs)`, with `None` for leaves that are not floating-point. The
    projection is multiplied by `weight`, and the gradient divided by it.
    """
    places = {i % len(args) for i in static} if args else set()
    dynamic = ([None if i in places else arg for i, arg in enumerate(args)], kwargs)
    leaves, tree = jax.tree.flatten(dynamic, is_leaf=is_named)
    floats = [i for i, leaf in enumerate(leaves) if _is_float(leaf)]

    def project(*values: object) -> jax.Array:
        filled = list(leaves)
        for i, value in zip(floats, values, strict=True):
            filled[i] = value
        inner, keywords = jax.tree.unflatten(tree, filled)
        result = form(*(args[i] if i in places else arg for i, arg in enumerate(inner)), **keywords)
        return _projection(order_like(result, like), weight)

    given = [leaves[i] for i in floats]
    if not given or not any(map(_is_float, jax.tree.leaves(like, is_leaf=is_named))):
        return None
    found = jax.jit(jax.grad(project, argnums=tuple(range(len(given)))))(*given)
    filled: list[Any] = [None] * len(leaves)
    for i, value in zip(floats, found, strict=True):
        filled[i] = value if weight == 1.0 else _times(value, 1 / weight)
    return jax.tree.unflatten(tree, filled)


def _times(leaf: object, factor: float) -> AnyArray:
    """Multiply an array, named or not, by a number and keep its dtype."""
    data = data_of(leaf)
    data = (data * factor).astype(data.dtype)
    return NamedArray(data, dims_of(leaf)) if isinstance(leaf, NamedArray) else data


def _projection(tree: PyTree, weight: float) -> jax.Array:
    """Sum all floating-point elements with different weights, in at least 32 bits."""
    total = jnp.zeros(())
    for i, leaf in enumerate(jax.tree.leaves(tree, is_leaf=is_named)):
        if _is_float(leaf):
            data = data_of(leaf)
            weights = jnp.asarray(
                weight * np.random.default_rng(i).uniform(0.5, 1.5, data.shape),
                jnp.finfo(data.dtype).dtype,
            )
            parts = (data.real, data.imag) if jnp.iscomplexobj(data) else (data,)
            total = total + sum(
                jnp.sum(part.astype(common_type(part.dtype, jnp.float32)) * weights)
                for part in parts
            )
    return total


# --- rounding -------------------------------------------------------------------------------------

# The change of the arguments in units in the last place, and the weights of the gradient. Powers of
# two would not change the rounding.
_NUDGES = ((3, 1.37), (-5, 0.71), (7, 1.93), (-11, 0.59))
_ROUNDING = 16.0  # the tolerance, as a multiple of the measured change


def _rounding(
    compared: Mapping[str, Mapping[str, Any]],
    forms: Mapping[str, Xmapped],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    grad: bool,
) -> dict[str, list[float]]:
    """Measure how much rounding changes the elements of each floating-point array.

    All arguments are multiplied by the same number, so that equal elements stay equal. A change
    that is too large for rounding is ignored. Such an element jumps between two values, at a
    threshold or because of state.
    """
    most = {
        what: [0.0] * len(_floats(trees[_UNMAPPED], trees[_UNMAPPED]))
        for what, trees in compared.items()
    }
    sizes = _magnitudes(compared, args, kwargs)
    leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=is_named)
    for units, weight in _NUDGES:
        more, keywords = jax.tree.unflatten(structure, [_nudged(leaf, units) for leaf in leaves])
        try:
            again = _outcomes(forms, more, keywords, grad, weight)
        except Exception:  # the function rejects the changed arguments
            continue
        for what, trees in compared.items():
            want = trees[_UNMAPPED]
            for label, tree in trees.items():
                try:
                    pairs = zip(_floats(tree, want), _floats(again[what][label], want), strict=True)
                    moved = [_moved(one, other) for one, other in pairs]
                except (ValueError, TypeError):  # the trees have different structures
                    continue
                for i, far in enumerate(moved):
                    most[what][i] = max(most[what][i], far if far <= sizes[what] else 0.0)
    return {what: [_ROUNDING * far for far in fars] for what, fars in most.items()}


def _floats(tree: PyTree, like: PyTree) -> list[np.ndarray]:
    """Return the data of the floating-point leaves of a tree, and empty arrays for the others."""
    leaves = jax.tree.leaves(order_like(tree, like), is_leaf=is_named)
    return [np.asarray(data_of(leaf)) if _is_float(leaf) else np.zeros(0) for leaf in leaves]


def _moved(one: np.ndarray, other: np.ndarray) -> float:
    """Return the maximum change of the elements of an array."""
    wide: Any = np.complex128 if np.iscomplexobj(one) else np.float64
    with np.errstate(invalid="ignore"):
        distance = np.abs(one.astype(wide) - other.astype(wide))
    return float(np.max(distance, initial=0.0, where=np.isfinite(distance)))


def _nudged(leaf: object, units: int) -> object:
    return (
        _times(leaf, 1 + units * float(jnp.finfo(data_of(leaf).dtype).eps))
        if _is_float(leaf)
        else leaf
    )


def _magnitudes(
    compared: Mapping[str, Mapping[str, Any]], args: object, kwargs: object
) -> dict[str, float]:
    """Return the maximum change that can be rounding, for results and gradients.

    It is a small fraction of their magnitude, or of their magnitude without cancellation.
    """
    given = _floats((args, kwargs), (args, kwargs))
    results = _floats(compared[_RESULT][_UNMAPPED], compared[_RESULT][_UNMAPPED])
    arguments, values = max(map(_rms, given), default=0.0), max(map(_rms, results), default=0.0)
    parts = [
        float(np.sqrt(float(jnp.finfo(data.dtype).eps))) for data in (*given, *results) if data.size
    ]
    part = max(parts, default=0.0)
    found = {_RESULT: part * max(arguments, values)}
    if _GRADIENT in compared:
        gradients = _floats(compared[_GRADIENT][_UNMAPPED], compared[_GRADIENT][_UNMAPPED])
        ratio = values / arguments if arguments else 0.0
        found[_GRADIENT] = part * max(ratio, arguments, *map(_rms, gradients))
    return found


def _rms(data: np.ndarray) -> float:
    finite = np.abs(data[np.isfinite(data)]).astype(np.float64)
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


# --- comparison -----------------------------------------------------------------------------------


class _Finding(Record):
    """One array that depends on `axis_resources`.

    Attributes:
      title: the array and its type.
      lines: the comparison of each pair of variants, one per line.
      differ: the variants that differ from the unmapped one.
      ratios: the quotient to the unmapped value by variant, if it is the same for all elements.
    """

    title: str
    lines: tuple[str, ...]
    differ: frozenset[str]
    ratios: Mapping[str, float]


def _compare(
    what: str,
    trees: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
    parameters: Sequence[str] | None,
    rounding: Sequence[float],
) -> list[_Finding]:
    want = trees[_UNMAPPED]
    findings = []
    flat = {
        label: jax.tree.leaves(order_like(tree, want), is_leaf=is_named)
        for label, tree in trees.items()
    }
    for i, (path, leaf) in enumerate(
        jax.tree_util.tree_flatten_with_path(want, is_leaf=is_named)[0]
    ):
        title = f"{_title(what, path, parameters)}, {type_text(leaf)}"
        leaves = {label: flat[label][i] for label in trees}
        pairs = [(_UNMAPPED, _MAPPED), (_UNMAPPED, _AUTO), (_MAPPED, _AUTO)]
        noise = rounding[i] if rounding else 0.0
        texts = {
            pair: _difference(leaves[pair[0]], leaves[pair[1]], rtol, atol, noise) for pair in pairs
        }
        if any(texts.values()):
            lines = tuple(f"{a} and {b}: {texts[a, b] or 'agree'}" for a, b in pairs)
            differ = frozenset(b for a, b in pairs[:2] if texts[a, b])
            ratios = {label: _ratio(leaf, leaves[label]) for label in differ}
            findings.append(
                _Finding(title, lines, differ, {k: v for k, v in ratios.items() if v is not None})
            )
    return findings


def _title(what: str, path: Any, parameters: Sequence[str] | None) -> str:
    if what == _RESULT:
        return what + jax.tree_util.keystr(path)
    group, first, *rest = path
    if group.idx == 0:
        label = (
            repr(parameters[first.idx])
            if parameters and first.idx < len(parameters)
            else str(first.idx)
        )
    else:
        label = repr(first.key)
    return f"{what} argument {label}{jax.tree_util.keystr(tuple(rest))}"


def _difference(
    want: object, have: object, rtol: float | None, atol: float | None, rounding: float
) -> str:
    """Describe the difference of two arrays; empty if they are equal up to rounding."""
    if type_text(want) != type_text(have):
        return f"of the types {type_text(want)} and {type_text(have)}"
    a, b = (np.asarray(data_of(leaf)) for leaf in (want, have))
    if not _is_float(want):
        wrong = a != b
        if not np.any(wrong):
            return ""
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
        relative = ""
    else:
        precision = float(np.sqrt(float(jnp.finfo(a.dtype).eps)))
        wide: Any = np.complex128 if np.iscomplexobj(a) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        least = max(precision * _rms(a), rounding) if atol is None else atol
        bound = (precision if rtol is None else rtol) * np.abs(a) + least
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.where(equal, 0.0, np.abs(a - b))
            distance = np.where(np.isnan(distance), np.inf, distance)
            wrong = ~equal & ~(distance <= np.where(np.isfinite(bound), bound, 0.0))
            quotient = distance / np.where(a == 0, np.nan, np.abs(a))
        if not np.any(wrong):
            return ""
        known = quotient[np.isfinite(quotient)]
        relative = f", {float(known.max()):.2g} relative" if known.size else ""
    worst = np.unravel_index(int(np.argmax(np.where(wrong, distance, -1.0))), distance.shape)
    return (
        f"{int(np.sum(wrong))} of {wrong.size} elements differ, by"
        f" {float(distance[worst]):.4g}{relative} at most; at {_place(want, worst)} they are"
        f" {_number(a[worst])} and {_number(b[worst])}"
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (float, complex, np.inexact)) else str(value)


def _place(leaf: object, index: Sequence[Any]) -> str:
    dims = dims_of(leaf)
    names = {dim: int(i) for dim, i in zip(dims, index, strict=True) if dim is not None}
    positions = [int(i) for dim, i in zip(dims, index, strict=True) if dim is None]
    return " ".join(str(part) for part in (names, positions) if part) or "the only element"


def _ratio(want: object, have: object) -> float | None:
    """Return the factor between two arrays if it is the same for all elements, else `None`."""
    a, b = (np.asarray(data_of(leaf)) for leaf in (want, have))
    if a.shape != b.shape or not a.size or not _is_float(want) or np.iscomplexobj(a):
        return None
    a, b = a.astype(np.float64), b.astype(np.float64)
    used = np.abs(a) > 1e-6 * np.abs(a).max(initial=0)
    if not used.any() or not np.isfinite(a).all() or not np.isfinite(b).all():
        return None
    ratios = b[used] / a[used]
    middle = float(np.median(ratios))
    return middle if np.allclose(ratios, middle, rtol=1e-3) and abs(middle - 1) > 1e-3 else None


# --- the message ----------------------------------------------------------------------------------

_SHOWN = 6


def _report(
    name: str, resources: Mapping[Hashable, Any], findings: Sequence[_Finding], mesh: Mesh | None
) -> str:
    parts = [
        f"{_OP}: results or gradients of {name} depend on axis_resources={dict(resources)!r}.",
        "",
    ]
    for finding in findings[:_SHOWN]:
        parts += [finding.title, *(f"  {line}" for line in finding.lines)]
    if len(findings) > _SHOWN:
        parts.append(f"and {len(findings) - _SHOWN} more.")
    return "\n".join(
        [*parts, "", "Likely causes:", *(f"- {cause}" for cause in _causes(findings, mesh))]
    )


def _causes(findings: Sequence[_Finding], mesh: Mesh | None) -> list[str]:
    differ = frozenset[str]().union(*(finding.differ for finding in findings))
    causes = []
    if _MAPPED in differ:
        causes.append(
            "The function computes with raw leaves (x.data, jax.tree.map with jnp functions,"
            " jax.random with the shape of x.data, optax.clip_by_global_norm,"
            " jax.scipy.sparse.linalg): in a body these are the block of one device. Use the"
            " operation of the same name in nx (nx.max(x, axis), nx.random with named_shape=,"
            " nx.interop.clip_by_global_norm, nx.scipy.sparse.linalg), or call it outside of the"
            " mapped function."
        )
        found = sorted(
            {
                round(r, 3)
                for finding in findings
                for label, r in finding.ratios.items()
                if label == _MAPPED
            }
        )
        sizes = dict(mesh.shape) if mesh is not None else {}
        if found:
            causes.append(
                "All elements of an array are wrong by a factor of"
                f" {', '.join(f'{r:g}' for r in found)}"
                + (f" (the mesh is {sizes})" if sizes else "")
                + ": a sum adds a replicated value once per device, or omits some devices."
            )
    if differ == {_AUTO}:
        causes.append(
            "Only the program of XLA's partitioner differs: a bug of XLA, or a sum in another"
            " order. The mapped program agrees with the unmapped one."
        )
    if _AUTO in differ and _MAPPED in differ:
        causes.append(
            "The function depends on axis_resources explicitly, or is impure: it draws random"
            " numbers, or has state."
        )
    causes.append(
        "The computation is ill-conditioned: sums in another order differ by more than rtol= and"
        " atol= allow."
    )
    return causes


# --- communication --------------------------------------------------------------------------------


@checks_signature
def assert_collectives(
    f: Callable[..., Any],
    args: Sequence[Any],
    expected: Mapping[str, int | tuple[int, int]],
    **kwargs: Any,
) -> None:
    """Check the collectives of a function, as `nx.explain` finds them in the traced program.

    A collective in a loop counts once per step. XLA may combine several collectives into one, which
    does not affect the counts. They are equal on every backend, and require no devices.

    Args:
      f: a function that `nx.explain` accepts.
      args: the arguments, as a tuple or list.
      expected: by kind (one of `nx.hlo.KINDS`), the number of collectives, or a tuple of the number
        and their total bytes per device. Other kinds must not occur.
      **kwargs: keyword arguments of `f`.

    Raises:
      AssertionError: the collectives differ. The message lists them with their axis names, bytes,
        operations and lines.
      ArgumentError: `expected` contains an unknown kind.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> f = nx.xmap(lambda x: nx.mean(x, "batch"), axis_resources={"batch": "x"}, mesh=mesh)
    >>> x = nx.named(jnp.ones((16, 4)), ["batch", "hidden"])
    >>> nx.testing.assert_collectives(f, (x,), {"all-reduce": 1})
    >>> nx.testing.assert_collectives(f, (x,), {"all-reduce": (1, 16)})
    """
    for kind in expected:
        if kind not in KINDS:
            raise ArgumentError(
                f"assert_collectives: {kind!r} is not a kind of collective. Use one of"
                f" {', '.join(KINDS)}."
            )
    report = explain(f, *args, **kwargs)
    found = report.summary()
    wrong = []
    for kind in KINDS:
        count, size = found.get(kind, (0, 0))
        want = expected.get(kind, 0)
        if (count, size) != want if isinstance(want, tuple) else count != want:
            wanted = f"{want[0]} ({size_text(want[1])})" if isinstance(want, tuple) else str(want)
            lines = [_collective_text(step) for step in report.collectives if step.kind == kind]
            wrong.append(
                "\n".join([f"  {kind}: {count} ({size_text(size)}), expected {wanted}", *lines])
            )
    if wrong:
        raise AssertionError(
            f"assert_collectives: {report.name} has other collectives than expected; bytes are the"
            " payload of one device.\n" + "\n".join(wrong)
        )


@checks_signature
def assert_no_gather(
    f: Callable[..., Any], args: Sequence[Any], name: Hashable, **kwargs: Any
) -> None:
    """Check that a program does not gather an axis: it has no all-gather over the axis.

    Args:
      f: a function that `nx.explain` accepts.
      args: the arguments, as a tuple or list.
      name: the name of the axis.
      **kwargs: keyword arguments of `f`.

    Raises:
      AssertionError: the program gathers the axis. The message lists each all-gather with its line.
      ArgumentError: the axis is not sharded in `f`, so there is nothing to check.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> f = nx.xmap(lambda x: nx.mean(x, "batch"), axis_resources={"batch": "x"}, mesh=mesh)
    >>> nx.testing.assert_no_gather(f, (nx.named(jnp.ones((16, 4)), ["batch", "hidden"]),), "batch")
    """
    report = explain(f, *args, **kwargs)
    if str(name) not in report.placements:
        found = (
            ", ".join(f"{n}: {'+'.join(axes)}" for n, axes in report.placements.items()) or "none"
        )
        raise ArgumentError(
            f"assert_no_gather: axis {name!r} is not sharded in {report.name}, so there is no"
            f" all-gather to find; sharded axes: {found}. Map it in axis_resources, or correct the"
            " name."
        )
    gathers = [
        step for step in report.collectives if step.kind == "all-gather" and str(name) in step.names
    ]
    if gathers:
        lines = "\n".join(map(_collective_text, gathers))
        raise AssertionError(f"assert_no_gather: {report.name} gathers {name!r}.\n{lines}")


def _collective_text(step: Collective) -> str:
    times = f"{step.trips} times " if step.trips > 1 else ""
    names = f" for {', '.join(step.names)}" if step.names else ""
    where = (
        f" to reshard {step.arrival}"
        if step.arrival
        else f" by {step.operation}"
        if step.operation
        else ""
    )
    what = f"{size_text(step.bytes)} (payload) of {step.dtype} over {'+'.join(step.mesh_axes)}"
    return f"    {times}{what}{names}{where} at {step.source or '?'} ({step.phase})"
