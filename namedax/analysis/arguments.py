"""The arguments of the explained function: their text in messages, their axis names, and their shardings."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from namedax.analysis.graph import Given, spec_of
from namedax.core.array import dims_of, is_named
from namedax.core.names import Dims
from namedax.errors import NamedaxError
from namedax.operands.pytree import data_of
from namedax.xmap.mapped_function import Xmapped, name_arguments

__all__ = ["arguments_of"]


def arguments_of(f: Any, traced: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Given]:
    """Return the facts about each array that the traced program takes, in order; empty facts for arrays that JAX does not list."""
    avals = traced.jaxpr.in_avals
    positional = _dynamic(args, traced.args_info[0])
    keywords = {key: value for key, value in kwargs.items() if key in traced.args_info[1]}
    tree = ({i: args[i] for i in positional}, keywords)
    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_named)[0]
    # A leaf that is not an array, such as a learning rate, is an argument with the shape ().
    if [getattr(data_of(leaf), "shape", ()) for _, leaf in leaves] != [
        aval.shape for aval in avals
    ]:
        return [Given()] * len(avals)
    parameters = _parameters(f)
    dims = _dims(f, args, kwargs, len(leaves)) or [
        dims_of(leaf) if is_named(leaf) else () for _, leaf in leaves
    ]
    return [
        Given(_said(path, parameters), tuple(names), _spec(data_of(leaf)))
        for (path, leaf), names in zip(leaves, dims, strict=True)
    ]


def _dynamic(args: Sequence[Any], infos: Sequence[Any]) -> list[int]:
    """Return the positions of the traced arguments: JAX lists only these, and leaves out the static ones."""
    found: list[int] = []
    missing = len(args) - len(infos)
    for i, arg in enumerate(args):
        k = len(found)
        is_static = missing and (k == len(infos) or not _is_like(arg, infos[k]))
        if is_static:
            missing -= 1
        else:
            found.append(i)
    return found


def _is_like(arg: Any, info: Any) -> bool:
    tree: Any = jax.tree.structure(arg)
    shapes = [_shape(leaf) for leaf in jax.tree.leaves(arg)]
    return bool(tree == jax.tree.structure(info)) and shapes == [
        one.shape for one in jax.tree.leaves(info)
    ]


def _shape(leaf: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or a number; `None` for other values, such as a static string."""
    return getattr(leaf, "shape", () if isinstance(leaf, (bool, int, float, complex)) else None)


def _parameters(f: Any) -> list[str]:
    """Return the names of the parameters that take one positional argument each."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]


def _said(path: Sequence[Any], parameters: Sequence[str]) -> str:
    """Return the text for messages of the argument at a path of `({position: argument}, {keyword: argument})`."""
    group, first, *rest = path
    name = (
        first.key
        if group.idx == 1
        else parameters[first.key]
        if first.key < len(parameters)
        else first.key
    )
    return f"argument {name!r}{jax.tree_util.keystr(tuple(rest))}"


def _dims(f: Any, args: Sequence[Any], kwargs: dict[str, Any], count: int) -> list[Dims] | None:
    """Return the axis names of the arguments according to the mappings of a mapped function."""
    if not isinstance(f, Xmapped):
        return None
    try:
        dims = [argument.dims for argument in name_arguments(f, args, kwargs)[0]]
    except (NamedaxError, TypeError):  # the mappings do not fit any abstract array
        return None
    return dims if len(dims) == count else None


def _spec(leaf: Any) -> Any:
    sharding = getattr(leaf, "sharding", None)
    return spec_of(sharding.spec) if isinstance(sharding, NamedSharding) else None
