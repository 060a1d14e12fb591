"""Descriptions of calls of mapped functions, and their comparison between processes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr
from jax.sharding import Mesh

from namedax.core.array import NamedArray, is_named
from namedax.core.functions import source_of
from namedax.errors import ArgumentError
from namedax.primitives import costs
from namedax.resources.mesh import concrete_mesh
from namedax.resources.processes import compare, mesh_text, spans_processes, stable_text
from namedax.xmap.argument_placement import place_arguments

__all__ = ["compare_calls"]


def compare_calls(xmapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compare the first call for each type of arguments with the call of the other processes.

    Calls under `jax.jit` are not compared, because a single process may trace a program.
    """
    mesh = concrete_mesh(xmapped._options.mesh)
    if mesh is None or not spans_processes(mesh):
        return
    key = (mesh, *_types(args, kwargs))
    if key in xmapped._compared or isinstance(jax.lax.neg(np.int32(0)), jax.core.Tracer):
        return
    compare(
        f"xmap of {xmapped._name}",
        _description(xmapped, args, kwargs, mesh),
        mesh,
        ArgumentError,
        once=True,
        more=None if xmapped._shared.jitted is None else lambda: _program(xmapped, args, kwargs),
    )
    xmapped._compared.add(key)


def _types(args: object, kwargs: object) -> tuple[Any, ...]:
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_named)
    return tree, *(_type(leaf) for leaf in leaves)


def _type(leaf: Any) -> Hashable:
    dims = leaf._dims if isinstance(leaf, NamedArray) else None
    data = leaf._data if isinstance(leaf, NamedArray) else leaf
    return (
        (np.shape(data), str(data.dtype), dims)
        if hasattr(data, "dtype")
        else type(leaf).__qualname__
    )


def _description(xmapped: Any, args: object, kwargs: object, mesh: Mesh) -> dict[str, str]:
    source = source_of(xmapped._fun)
    code = getattr(source, "__code__", None)
    where = ""
    if code is not None:
        file = code.co_filename.replace(chr(92), "/").rsplit("/", 1)[-1]
        where = f" at {file}:{code.co_firstlineno}"
    paths, _ = jax.tree_util.tree_flatten_with_path((args, kwargs), is_leaf=is_named)
    arguments = {jax.tree_util.keystr(path): _text(leaf) for path, leaf in paths}
    return {
        "function": f"{xmapped._name}{where}",
        "axis_resources": stable_text(xmapped._options.axis_resources),
        "mesh": mesh_text(mesh),
        "arguments": stable_text(arguments),
        "in_axes": stable_text(xmapped._options.in_axes),
        "out_axes": stable_text(xmapped._options.out_axes),
        "axis_sizes": stable_text(xmapped._options.axis_sizes),
        "options": stable_text(
            (
                xmapped._options.partitioning,
                xmapped._options.overlap,
                xmapped._options.left_out,
                xmapped._options.slow_axes,
                xmapped._options.static_argnums,
            )
        ),
    }


def _text(leaf: Any) -> str:
    data = leaf._data if isinstance(leaf, NamedArray) else leaf
    if hasattr(data, "dtype"):
        # Without the sharding, which may differ between processes for a traced or uncommitted
        # array.
        dims = leaf._dims if isinstance(leaf, NamedArray) else ()
        return (
            f"{data.dtype}{list(np.shape(data))} of axes {stable_text(dims)}"
            if dims
            else f"{data.dtype}{list(np.shape(data))}"
        )
    return type(leaf).__qualname__


def _program(xmapped: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a hash of the program's equations, or the error if the program cannot be traced."""
    try:
        args, kwargs = place_arguments(xmapped, args, kwargs, only_type=True)
        jaxpr = xmapped.trace(*args, **kwargs).jaxpr
    except Exception as error:  # the call itself raises it again, in every affected process
        return f"{type(error).__name__}: {str(error)[:500]}"
    found = hashlib.sha256()
    _hash_equations(jaxpr.jaxpr, found)
    return f"hash {found.hexdigest()[:16]}"


def _hash_equations(jaxpr: Jaxpr, found: Any) -> None:
    """Hash primitives, types and plain parameters.

    The text of other objects may differ between processes.
    """
    for equation in jaxpr.eqns:
        avals: list[Any] = [v.aval for v in equation.outvars]
        types = [(aval.shape, str(aval.dtype)) for aval in avals if hasattr(aval, "shape")]
        parts: Any = costs.what_it_does(equation)
        primitive, parameters = parts
        found.update(f"{primitive} {types}".encode())
        for name, value in parameters:
            _hash_parameter(name, value, found)


def _hash_parameter(name: str, value: Any, found: Any) -> None:
    inner = getattr(value, "jaxpr", value)
    if hasattr(inner, "eqns"):
        _hash_equations(inner, found)
    elif isinstance(value, (str, int, float, complex, np.dtype, type(None))):
        found.update(f"{name}={value!r}".encode())
    elif isinstance(value, (tuple, list)):
        found.update(f"{name}[{len(value)}]".encode())
        for entry in value:
            _hash_parameter(name, entry, found)
