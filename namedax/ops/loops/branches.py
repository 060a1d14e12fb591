"""Branches over named axes: `cond` and `switch`.

**Common types.** The results of all branches are broadcast to the names that any of them has, in
one physical order, with one dtype and one sharding over Explicit mesh axes: the first branch that
shards an axis determines it. To find this type the branches are traced, and if their types
differ, traced again. JAX caches the trace of a function, so the second trace uses new functions.

**Named predicates.** A named condition behaves as under `jax.vmap`: all branches are computed and
selected elementwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast_data, varying
from namedax.errors import ArgumentError, ArgumentTypeError, AxisSizeError
from namedax.messages.tree_differences import tree_differences
from namedax.ops.loops.carries import Element, ValueType, check_placements
from namedax.ops.operands.broadcasting import as_block, make_result
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of, flatten, names_of, scalar_of

__all__ = ["cond", "switch"]

_NO_OPERAND = object()


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("pred", "operands", "operand"))
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., PyTree],
    false_fun: Callable[..., PyTree],
    *operands: PyTree,
    operand: PyTree = _NO_OPERAND,
) -> PyTree:
    """Apply one of two functions, selected by the predicate: `lax.cond` over named axes.

    Args:
      pred: a boolean, or a number, which is true if it is not zero. If it has named axes, both
        functions are computed, and their results are selected elementwise, as under `jax.vmap`.
      true_fun: a function of the operands.
      false_fun: another function, which returns results of the same structure, dtypes and
        positional axes.
      *operands: pytrees of arrays.
      operand: the only operand, which `lax.cond` also accepts by keyword; by default none.

    Returns:
      The results, broadcast to the axes that the result of either function has, and to the axes of
      `pred`. Python numbers and other weakly typed results take the dtype of the other function's
      results.

    Communication: none of its own. Outside of a mapped function, results with different
    shardings over Explicit mesh axes are resharded to one.

    Raises:
      PositionalAxisError: `pred` or the results have positional axes that do not fit.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: two axes of a result are sharded over one mesh axis.
      MeshError: results of the functions are on different meshes.
      ArgumentTypeError: the functions return different structures or dtypes, or one of them is not
        a function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, -2.0]), ["k"])
    >>> nx.cond(nx.sum(x, "k") < 0, lambda x: 0.0, lambda x: x, x).data.tolist()
    [0.0, 0.0]
    >>> nx.cond(x > 0, lambda x: x, lambda x: 0.0, x).data.tolist()
    [1.0, 0.0]
    """
    branches = _functions("cond", (false_fun, true_fun))
    operands = _operands("cond", operands, operand)
    predicate = scalar_of("cond", "predicate", pred)
    if predicate.dtype != jnp.bool_:
        predicate = make_result(data_of(predicate) != 0, dims_of(predicate))
    if _is_common(predicate):
        data = data_of(predicate)
        return _branch("cond", branches, lambda f: lax.cond(data, f[1], f[0], *operands), operands)
    return _select("cond", predicate, branches, operands)


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("index", "operands", "operand"))
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., PyTree]],
    *operands: PyTree,
    operand: PyTree = _NO_OPERAND,
) -> PyTree:
    """Apply one of several functions, selected by number: `lax.switch` over named axes.

    Args:
      index: an integer, clamped to the range of the branches. If it has named axes, all branches
        are computed, and their results are selected elementwise.
      branches: functions of the operands.
      *operands: pytrees of arrays.
      operand: the only operand, which `lax.switch` also accepts by keyword; by default none.

    Returns:
      The results, broadcast to the axes that the result of any branch has, and to the axes of
      `index`; dtypes as for `cond`.

    Communication: none of its own. Outside of a mapped function, results with different
    shardings over Explicit mesh axes are resharded to one.

    Raises:
      ArgumentError: there is no branch.
      ArgumentTypeError: `index` is not an integer; and as for `cond`.
      PositionalAxisError, AxisSizeError, PlacementConflictError: as for `cond`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> which = nx.named(jnp.array([0, 2, 1]), ["k"])
    >>> nx.switch(which, [lambda x: x, lambda x: 10 * x, lambda x: 100 * x], 7).data.tolist()
    [7, 700, 70]
    """
    branches = _functions("switch", branches)
    operands = _operands("switch", operands, operand)
    if not branches:
        raise ArgumentError("switch: there are no branches. Pass at least one function.")
    number = scalar_of("switch", "index", index)
    if not jnp.issubdtype(number.dtype, jnp.integer):
        raise ArgumentTypeError(f"switch: the index is {type_text(number)}; it must be an integer.")
    data = data_of(number)
    if _is_common(number):
        return _branch("switch", branches, lambda f: lax.switch(data, f, *operands), operands)
    clamped = make_result(jnp.clip(data, 0, len(branches) - 1), dims_of(number))
    return _select("switch", clamped, branches, operands)


def _functions(
    op: str, branches: Sequence[Callable[..., PyTree]]
) -> tuple[Callable[..., PyTree], ...]:
    for branch in branches:
        if not callable(branch):
            raise ArgumentTypeError(
                f"{op}: a branch is {type(branch).__name__}, which is not a function. Pass the"
                " functions before their operands: nx.cond(pred, true_fun, false_fun, *operands),"
                " nx.switch(index, functions, *operands)."
            )
    return tuple(branches)


def _operands(op: str, operands: tuple[PyTree, ...], operand: PyTree) -> tuple[PyTree, ...]:
    if operand is _NO_OPERAND:
        return operands
    if operands:
        raise ArgumentError(
            f"{op}: operand= is given along with {len(operands)} positional operands. Pass all of"
            " them by position."
        )
    return (operand,)


def _is_common(pred: AnyArray) -> bool:
    """Return True if a predicate is the same for all elements."""
    return not names_of(dims_of(pred)) and not varying(data_of(pred))


class _Results(Record):
    """The types of the results of one branch."""

    tree: jax.tree_util.PyTreeDef
    types: list[ValueType]
    elements: list[Element]

    @classmethod
    def of(cls, leaves: Sequence[AnyArray], tree: jax.tree_util.PyTreeDef) -> _Results:
        """Collect the types of these leaves."""
        return cls(
            tree, [ValueType.of(leaf) for leaf in leaves], [Element.of(leaf) for leaf in leaves]
        )

    def fit(self, leaves: Sequence[AnyArray]) -> list[jax.Array]:
        """Broadcast and convert the data of leaves to these types."""
        both = zip(self.types, self.elements, leaves, strict=True)
        return [element.convert(kind.fit(leaf)) for kind, element, leaf in both]


class _Differ(Exception):
    """Raised while branches are traced, if they must return other types."""

    def __init__(self, found: _Results):
        super().__init__("branches return different types")
        self.found = found


def _run_branch(
    op: str, branch: Callable[..., PyTree], operands: Sequence[PyTree]
) -> tuple[list[AnyArray], _Results]:
    leaves, tree = flatten(call_user_code(branch, *operands))
    leaves = [as_block(leaf, op) for leaf in leaves]
    return leaves, _Results.of(leaves, tree)


def _common_results(op: str, results: Sequence[_Results]) -> _Results:
    """Return the common types of the results of all branches.

    Raises:
      ArgumentTypeError: the structures differ, or strong dtypes differ.
      AxisSizeError, PositionalAxisError: the axes do not fit.
      PlacementConflictError: two axes of a result are sharded over one mesh axis.
    """
    first = results[0]
    types, elements = list(first.types), list(first.elements)
    for number, other in enumerate(results[1:], 1):
        names = ("true_fun", "false_fun") if op == "cond" else (f"branch {number}", "branch 0")
        labels = (f"the result{{}} of {names[0]}", f"the result{{}} of {names[1]}")
        if different := tree_differences(other.tree, first.tree, labels):
            raise ArgumentTypeError(
                f"{op}: {different} All branches must return the same structure."
            )
        verb = ("is in one branch", f"in branch {number}" if op == "switch" else "in the other")
        types = [
            a.join(b, op, f"result {i}", verb)
            for i, (a, b) in enumerate(zip(types, other.types, strict=True))
        ]
    for i in range(len(elements)):
        common = Element.common([branch.elements[i] for branch in results])
        if common is None:
            dtypes = sorted(
                {str(branch.elements[i].dtype) for branch in results if not branch.elements[i].weak}
            )
            raise ArgumentTypeError(
                f"{op}: result {i}, {types[i]}, has the dtypes {', '.join(dtypes)} in different"
                " branches; these must be the same. Convert them with astype."
            )
        elements[i] = common
    check_placements(op, types)
    return _Results(first.tree, types, elements)


def _branch(
    op: str,
    branches: Sequence[Callable[..., PyTree]],
    run: Callable[[Sequence[Callable[..., PyTree]]], PyTree],
    operands: Sequence[PyTree],
) -> PyTree:
    """Run one branch, and broadcast the results of all branches to their common types."""

    def attempt(target: _Results | None) -> tuple[PyTree, _Results]:
        seen: dict[int, _Results] = {}

        def traced(number: int, *operands: PyTree) -> PyTree:
            leaves, results = _run_branch(op, branches[number], operands)
            seen[number] = results
            if target is not None:
                return results.tree.unflatten(target.fit(leaves))
            if len(seen) == len(branches):
                every = [seen[i] for i in range(len(branches))]
                common = _common_results(op, every)
                if any(results != common for results in every):
                    raise _Differ(common)
            return results.tree.unflatten([data_of(leaf) for leaf in leaves])

        # New functions for every attempt: JAX would otherwise reuse the cached trace of a function.
        functions = [functools.partial(traced, number) for number in range(len(branches))]
        flat = run(functions)
        for number in range(len(branches)):
            if (
                number not in seen
            ):  # without compilation (jax.disable_jit), JAX runs a single branch
                jax.eval_shape(functions[number], *operands)
        return flat, target or seen[0]

    try:
        flat, results = attempt(None)
    except _Differ as differ:
        flat, results = attempt(differ.found)
    leaves = results.tree.flatten_up_to(flat)
    return results.tree.unflatten(
        [make_result(data, kind.dims) for data, kind in zip(leaves, results.types, strict=True)]
    )


def _select(
    op: str, index: AnyArray, branches: Sequence[Callable[..., PyTree]], operands: Sequence[PyTree]
) -> PyTree:
    """Select among the results of all branches by an index with names."""
    columns, every = zip(*(_run_branch(op, branch, operands) for branch in branches), strict=True)
    common = _common_results(op, every)
    which = ValueType.of(index)
    types = []
    for i, kind in enumerate(common.types):
        for name, n in which.sizes.items():
            if kind.sizes.get(name, n) != n:
                raise AxisSizeError(
                    f"{op}: axis {name!r} of {type_text(index)} has a different size in result {i},"
                    f" {kind}. Rename one."
                )
        types.append(kind.with_names_of(which))
    check_placements(op, types)
    target = common.replace(types=types)
    options = [target.fit(leaves) for leaves in columns]
    chosen = []
    for i, kind in enumerate(types):
        selector = kind.spread(cast_data(data_of(index), kind.axes), which.dims)
        data = options[0][i]
        for number, option in enumerate(options[1:], 1):
            data = jnp.where(
                selector if selector.dtype == jnp.bool_ else selector == number, option[i], data
            )
        chosen.append(make_result(data, kind.dims))
    return target.tree.unflatten(chosen)
