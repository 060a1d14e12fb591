"""Functions of named arrays with user-defined derivatives: `custom_jvp` and `custom_vjp`.

JAX traces a rule when it differentiates, which may be long after the mapped function has ended:
`jax.grad` outside of it. The arrays of the rule are then blocks without a mark, and a reduction
over a name would reduce a block only. This module records the region in which the function was
called, and enters it for the rules. It also brings the results of the rules to the axes that JAX
expects: a different physical order is reordered, and missing names are broadcast.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named, make_in_region
from namedax.core.display import type_text
from namedax.core.names import PyTree
from namedax.core.region import Region, ambient, enter
from namedax.core.user_code import call_backward_rule, call_user_code
from namedax.core.variance import cast_data, varying
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    NamedAxesLeftError,
    PositionalAxisError,
    show_names,
)
from namedax.messages.argument_kinds import check_function
from namedax.messages.jax_errors import explain_type_errors
from namedax.messages.tree_differences import tree_differences
from namedax.ops.loops.carries import broadcast_to_dims
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.pytree import data_of, flatten, names_of
from namedax.programs.evaluator import own_sources
from namedax.programs.raw_collective_check import checked_as_body

__all__ = ["custom_jvp", "custom_vjp", "values_like"]

_ONE_STRUCTURE = "The two must have the same structure."


def _in_region(tree: PyTree) -> PyTree:
    """Mark the arrays that JAX made outside of the region as blocks in it."""
    return jax.tree.map(
        lambda leaf: make_in_region(leaf._data, leaf._dims) if is_named(leaf) else leaf,
        tree,
        is_leaf=is_named,
    )


def _blocks(tree: PyTree, op: str) -> PyTree:
    region = ambient()
    return jax.tree.map(
        lambda leaf: to_local(leaf, op, region) if is_named(leaf) else leaf, tree, is_leaf=is_named
    )


def _as(value: Any, like: AnyArray, what: str, remedy: str) -> Any:
    """Convert `value` to the axes and the variance of `like`.

    Raises:
      NamedAxesLeftError: it has a name that `like` lacks.
      PositionalAxisError: the positional axes differ.
    """
    region = ambient()
    value = to_local(value, what, region) if is_named(value) else value
    if getattr(value, "dtype", None) == jax.dtypes.float0 or not hasattr(like, "dtype"):
        return value
    value = value if hasattr(value, "dtype") else jnp.asarray(value, jnp.result_type(like))
    data = value._data if is_named(value) else jnp.asarray(value)
    dims = dims_of(value)
    target = dims_of(like)
    extra = [name for name in names_of(dims) if name not in target]
    if extra:
        raise NamedAxesLeftError(
            f"{what} is {type_text(value)}, for {type_text(like)}, which has no axis"
            f" {show_names(extra)}. {remedy.format(extra[0])}"
        )
    shape = np.shape(data_of(like))
    have = [n for n, dim in zip(data.shape, dims, strict=True) if dim is None]
    want = [n for n, dim in zip(shape, target, strict=True) if dim is None]
    if have != want:
        raise PositionalAxisError(
            f"{what} is {type_text(value)}, for {type_text(like)}; their positional axes must be"
            " the same."
        )
    kind = data_of(like)  # a value, or its type
    axes = varying(kind) if isinstance(kind, jax.Array) else kind.manual_axis_type.varying
    if varying(data) - axes:
        raise NamedAxesLeftError(
            f"{what} varies over mesh axes {sorted(varying(data) - axes)}, but {type_text(like)}"
            " does not: a local block (x.data) was used without its axis names. Compute with the"
            " named array."
        )
    data = cast_data(data, axes)
    if dims != target:
        data = broadcast_to_dims(data, dims, target, shape)
    return make_in_region(data, target) if is_named(like) else data


def values_like(
    op: str, values: PyTree, likes: PyTree, what: str, target: str, remedy: str
) -> PyTree:
    """Convert a pytree to the axes of another one, the target.

    `None`, for one value or a whole container, stands for zeros and is kept.
    """
    leaves, tree = flatten(likes)
    labels = (what + "{}", target + "{}")
    if different := tree_differences(flatten(values)[1], tree, labels, placeholder=None):
        raise ArgumentTypeError(f"{op}: {different} {_ONE_STRUCTURE}")
    given: list[Any] = []
    jax.tree.map(
        lambda value, like: given.extend([value] * len(flatten(like)[0])),
        values,
        likes,
        is_leaf=lambda node: node is None or is_named(node),
    )
    texts = [
        what + jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_flatten_with_path(likes, is_leaf=is_named)[0]
    ]
    fitted = [
        _as(value, like, f"{op}: {text}", remedy) if value is not None else None
        for value, like, text in zip(given, leaves, texts, strict=True)
    ]
    return tree.unflatten(fitted)


class _Custom:
    """A wrapper that looks like its function and binds arguments to positions."""

    _kind: str

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function."""
        raise NotImplementedError

    def __init__(self, fun: Callable[..., PyTree], nondiff_argnums: int | Sequence[int] = ()):
        check_function(type(self).__name__, "fun", fun)
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = (
            (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        )

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., PyTree]:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self._kind} of {self.fun!r}>"

    @property
    def _name(self) -> str:
        return f"{self._kind} {getattr(self.fun, '__name__', type(self.fun).__name__)}"

    def _arguments(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[PyTree]:
        """Return all arguments by position, and the differentiated ones as blocks."""
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"{self._name}: {show_names(bound.kwargs)} is keyword-only, but a rule takes"
                " arguments by position. Make it an ordinary parameter."
            )
        return [
            arg if i in self._static(len(bound.args)) else _blocks(arg, self._name)
            for i, arg in enumerate(bound.args)
        ]

    def _static(self, count: int) -> frozenset[int]:
        return frozenset(i % count for i in self.nondiff_argnums if -count <= i < count)

    def _noting(self, noted: list[PyTree]) -> Callable[..., PyTree]:
        """Wrap the function so that it records the types of its result."""

        def call(*args: PyTree) -> PyTree:
            result = call_user_code(self.fun, *args)
            noted[:] = [_types(_blocks(result, self._name))]
            return result

        return call

    def _checked(
        self, result: object, noted: Sequence[PyTree], rule: str, second: str
    ) -> tuple[PyTree, PyTree]:
        """Check that a rule returns a pair, and convert the first item.

        It is converted to the axes of the function's own result, if that was recorded.
        """
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ArgumentTypeError(
                f"{self._name}: {rule} returns {type(result).__name__}; return (result, {second})."
            )
        primal, other = (_blocks(part, self._name) for part in result)
        if noted:
            primal = values_like(
                self._name,
                primal,
                noted[0],
                f"the result of {rule}",
                "the result of the function",
                "Reduce it, as in nx.sum(..., {0!r}).",
            )
        return primal, other

    def _inside(
        self, region: Region | None, function: Callable[..., PyTree], skipped: int = 0
    ) -> Callable[..., PyTree]:
        """Wrap `function` to run in the region; its first `skipped` arguments pass unchanged."""

        @functools.wraps(function)
        def inside(*args: PyTree) -> PyTree:
            # A body checks its own operations. Operations after the body have no other check.
            is_after = region is not None and region.manual and ambient() != region
            with enter(region), own_sources(), explain_type_errors:
                called: Callable[..., Any] = functools.partial(function, *args[:skipped])
                if is_after and region is not None:
                    called = checked_as_body(called, region.resources, self._name)
                return _blocks(called(*_in_region(args[skipped:])), self._name)

        return inside


class custom_jvp(_Custom):
    """A function with a user-defined forward-mode rule: `jax.custom_jvp` over named axes.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated, by default none; the rule
        takes them first.

    `defjvp` (or, per argument, `defjvps`) sets the rule. It runs in the mapped function that called
    `fun`, even if the derivative is taken outside, so that it can reduce over names. Tangents are
    named arrays with the axes of the primals. The tangent of the result is broadcast to the
    result's axes.

    The error is raised when the function is differentiated.

    Raises:
      NamedAxesLeftError: the tangent of the result has an axis that the result lacks.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> @nx.custom_jvp
    ... def log_total(x):
    ...     return nx.log(nx.sum(x, "k"))
    >>> @log_total.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return log_total(x), nx.sum(dx, "k") / nx.sum(x, "k")
    >>> jax.grad(lambda x: log_total(nx.named(x, ["k"])))(jnp.array([1.0, 3.0]))
    Array([0.25, 0.25], dtype=float32)
    """

    _kind = "custom_jvp"

    def __init__(self, fun: Callable[..., PyTree], nondiff_argnums: int | Sequence[int] = ()):
        super().__init__(fun, nondiff_argnums)
        self.jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Set the rule.

        Args:
          jvp: `jvp(*nondiff, primals, tangents)` returns the result and its tangent.
        """
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., PyTree] | None) -> None:
        """Set a rule per argument.

        Args:
          *jvps: one for each argument: `jvp(tangent, result, *primals)` returns the tangent of the
            result, and `None` stands for zero.
        """
        if self.nondiff_argnums:
            raise ArgumentError(
                f"{self._name}: defjvps does not support nondiff_argnums. Define one rule with"
                " defjvp."
            )

        def jvp(primals: Sequence[PyTree], tangents: Sequence[PyTree]) -> tuple[PyTree, PyTree]:
            result = self(*primals)
            terms = {
                i: call_user_code(rule, tangent, result, *primals)
                for i, (rule, tangent) in enumerate(zip(jvps, tangents, strict=True))
                if rule is not None
            }
            return result, self._total(terms, result)

        self.defjvp(jvp)

    def _total(self, terms: Mapping[int, PyTree], result: PyTree) -> PyTree:
        """Return the sum of the tangents for some arguments; zero if there are none."""
        if not terms:
            return jax.tree.map(jnp.zeros_like, result)
        if len(terms) > 1:
            for i, term in terms.items():
                labels = (f"the tangent{{}} for argument {i}", "the result{}")
                if different := tree_differences(flatten(term)[1], flatten(result)[1], labels):
                    raise ArgumentTypeError(f"{self._name}: {different} {_ONE_STRUCTURE}")
        return functools.reduce(
            lambda total, term: jax.tree.map(operator.add, total, term, is_leaf=is_named),
            terms.values(),
        )

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function."""
        if self.jvp is None:
            raise ArgumentError(f"{self._name}: the function has no rule. Define one with defjvp.")
        region, jvp = ambient(), self.jvp
        arguments = self._arguments(args, kwargs)
        static = self._static(len(arguments))
        noted: list[Any] = []

        def rule(*args: PyTree) -> tuple[PyTree, PyTree]:
            primal, tangent = self._checked(
                call_user_code(jvp, *args), noted, "the rule", "tangent"
            )
            remedy = "Reduce it, as in nx.sum(tangent, {0!r})."
            return primal, values_like(
                self._name, tangent, primal, "the tangent of the result", "the result", remedy
            )

        wrapped = jax.custom_jvp(
            functools.wraps(self.fun)(self._inside(region, self._noting(noted))),
            tuple(sorted(static)),
        )
        wrapped.defjvp(self._inside(region, rule, len(static)))
        return wrapped(*arguments)


def _types(tree: PyTree) -> PyTree:
    def one(leaf: AnyArray) -> Any:
        if isinstance(leaf, NamedArray):
            return make_in_region(jax.typeof(leaf._data), leaf._dims)
        return jax.typeof(leaf)

    return jax.tree.map(one, tree, is_leaf=is_named)


class custom_vjp(_Custom):
    """A function with a user-defined reverse-mode rule: `jax.custom_vjp` over named axes.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated, by default none; `bwd`
        takes them first.

    `defvjp` sets the rule. It runs in the mapped function that called `fun`, even if the derivative
    is taken outside, so that it can reduce over names. Cotangents of the result are named arrays
    with its axes. Cotangents of the arguments are broadcast to the axes of the arguments, but never
    summed: for a broadcast argument, the rule sums.

    The error is raised when the function is differentiated.

    Raises:
      NamedAxesLeftError: a cotangent has an axis that its argument lacks.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> @nx.custom_vjp
    ... def scale(w, x):
    ...     return w * x
    >>> def forward(w, x):
    ...     return w * x, (w, x)
    >>> def backward(residuals, ct):  # the gradient for `w` is a mean over the batch
    ...     w, x = residuals
    ...     return nx.mean(ct * x, "batch"), ct * w
    >>> scale.defvjp(forward, backward)
    >>> x = nx.named(jnp.array([1.0, 2.0, 6.0]), ["batch"])
    >>> jax.grad(lambda w: nx.sum(scale(w, x), "batch"))(jnp.array(1.0))
    Array(3., dtype=float32)
    """

    _kind = "custom_vjp"

    def __init__(self, fun: Callable[..., PyTree], nondiff_argnums: int | Sequence[int] = ()):
        super().__init__(fun, nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.options: dict[str, Any] = {}

    def defvjp(
        self,
        fwd: Callable[..., PyTree],
        bwd: Callable[..., PyTree],
        *,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rule.

        Args:
          fwd: takes the arguments of the function; returns its result, and residuals for `bwd`.
          bwd: `bwd(*nondiff, residuals, cotangent)` returns a tuple of the cotangents of the
            arguments; `None` stands for zero.
          optimize_remat: as in `jax.custom_vjp`; by default `False`.
        """
        self.fwd, self.bwd, self.options = fwd, bwd, {"optimize_remat": optimize_remat}

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function."""
        if self.fwd is None or self.bwd is None:
            raise ArgumentError(f"{self._name}: the function has no rule. Define one with defvjp.")
        region, fwd, bwd = ambient(), self.fwd, self.bwd
        arguments = self._arguments(args, kwargs)
        static = self._static(len(arguments))
        likes = tuple(_types(arg) for i, arg in enumerate(arguments) if i not in static)
        noted: list[Any] = []

        def forward(*args: PyTree) -> tuple[PyTree, PyTree]:
            return self._checked(call_user_code(fwd, *args), noted, "fwd", "residuals")

        def backward(*args: PyTree) -> tuple[PyTree, ...]:
            result = call_backward_rule(bwd, *args)
            if not isinstance(result, (tuple, list)) or len(result) != len(likes):
                count = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
                raise ArgumentTypeError(
                    f"{self._name}: bwd must return a tuple of {len(likes)} cotangents, one for"
                    f" each argument, got {count}."
                )
            remedy = (
                "The function broadcasts it along that axis, so its cotangent is the sum:"
                " nx.sum(cotangent, {0!r})."
            )
            return tuple(
                (
                    None
                    if value is None
                    else values_like(
                        self._name,
                        value,
                        like,
                        f"the cotangent of argument {i}",
                        f"argument {i}",
                        remedy,
                    )
                )
                for i, (value, like) in enumerate(zip(result, likes, strict=True))
            )

        wrapped = jax.custom_vjp(
            functools.wraps(self.fun)(self._inside(region, self._noting(noted))),
            tuple(sorted(static)),
        )
        wrapped.defvjp(
            self._inside(region, forward),
            self._inside(region, backward, len(static)),
            **self.options,
        )
        return wrapped(*arguments)
