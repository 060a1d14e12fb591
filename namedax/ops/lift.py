"""`nmap`: apply a function that knows nothing of names.

The function sees positional arrays. It is vectorised over every named axis of its arguments, one `jax.vmap` per name.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from namedax.array import NamedArray, check_dims, dims_of
from namedax.environment import ambient
from namedax.errors import AxisSizeError
from namedax.ops.align import local_block, wrap
from namedax.resources.variance import cast, varying

__all__ = ["Lifted", "belongs_to_jax", "explain_type_errors", "is_array_leaf", "nmap"]

_NOTE = (
    "namedax: a named array was given to a function that takes positional arrays only. Lift the function over the names with "
    "nx.nmap(function), or call its namesake in namedax (nx.numpy, nx.lax, nx.nn)."
)


class _ExplainTypeErrors:
    """Adds a note about `nmap` to JAX's complaint that a named array is no array. A context manager without state."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, TypeError) and "NamedArray" in str(error) and _NOTE not in getattr(error, "__notes__", ()):
            error.add_note(_NOTE)


explain_type_errors = _ExplainTypeErrors()


def belongs_to_jax(function: Any) -> bool:
    """Whether a function is JAX's own, so that it takes positional arrays only.

    A wrapper of user code (`jax.grad(f)`, `jax.jit(f)`) bears the module of what it wraps, and is user code. So is a wrapper
    that a user wrote around a function of JAX, whose module it bears but in which it was not defined.
    """
    while isinstance(function, functools.partial):
        function = function.func
    modules = [getattr(function, "__module__", None) or type(function).__module__]
    if isinstance(function, types.FunctionType):
        modules.append(function.__globals__.get("__name__", ""))
    elif type(function).__module__.startswith("namedax."):  # a lifted or mapped function
        return False
    return all(module == "jax" or module.startswith(("jax.", "jaxlib.")) for module in modules)


def is_array_leaf(leaf: Any) -> bool:
    """Whether a leaf of an argument is an array or a number; anything else goes to the function as it is."""
    return isinstance(leaf, (NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex))


def nmap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lifts a function over names.

    Args:
      function: takes and returns pytrees of positional arrays. It must not depend on names.

    Returns:
      A function of named arrays (and others). Every name of any argument is a batch axis: `function` sees arrays without it,
      and every result has all of these names, in front of the positional axes, in the order in which the arguments have them.
      Arguments that are neither arrays nor numbers are handed through. It has the name, signature and docstring of `function`.

    Raises:
      AxisSizeError: a name has two sizes.
      PlacementConflictError: two names on one mesh axis meet.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a = nx.named(jnp.ones((5, 3, 3)), ["left", ...])
    >>> b = nx.named(jnp.ones((4, 3)), ["right", ...])
    >>> nx.nmap(jnp.linalg.solve)(a + jnp.eye(3), b).dims
    ('left', 'right', None)
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return Lifted(function, f"nmap({getattr(inner, '__name__', type(inner).__name__)})", inner)


class Lifted:
    """A function that is vectorised over every name of its arguments; made by `nmap`.

    Args:
      function: takes and returns pytrees of positional arrays.
      op: the operation, for messages.
      like: whose name and docstring it bears; default: those of `function`.
    """

    def __init__(self, function: Callable[..., Any], op: str, like: Any = None):
        functools.update_wrapper(self, function if like is None else like)
        self.__wrapped__ = function  # whose signature it has
        self._op, self._like = op, like

    def __reduce__(self) -> Any:
        return (Lifted, (self.__wrapped__, self._op, self._like))

    def __repr__(self) -> str:
        return f"<nmap of {self.__wrapped__!r}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, vectorised over the names of these arguments."""
        function, op = self.__wrapped__, self._op
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: isinstance(x, NamedArray))
        region = ambient()
        places = [i for i, leaf in enumerate(leaves) if is_array_leaf(leaf)]
        blocks = [local_block(leaves[i], op, region) for i in places]
        sizes: dict[Any, int] = {}
        for block in blocks:
            if not isinstance(block, NamedArray):
                continue
            for dim, n in block.named_shape.items():
                if sizes.setdefault(dim, n) != n:
                    raise AxisSizeError(
                        f"{op}: axis {dim!r} has size {sizes[dim]} in one argument and size {n} in another; a name has one "
                        f"size. "
                        "Rename one of the two axes."
                    )
        names = tuple(sizes)
        datas = [block.data if isinstance(block, NamedArray) else block for block in blocks]
        if region is not None and region.resources:
            region.check_placement(op, names)
        if region is not None and region.manual:
            union = frozenset[str]().union(*(varying(data) for data in datas if hasattr(data, "dtype")))
            datas = [cast(block, union) if hasattr(block, "dtype") else block for block in blocks]

        def positional(*values: Any) -> Any:
            filled = list(leaves)
            for i, value in zip(places, values, strict=True):
                filled[i] = value
            inner_args, inner_kwargs = jax.tree.unflatten(tree, filled)
            return function(*inner_args, **inner_kwargs)

        remaining = [list(dims_of(block)) for block in blocks]
        batched = []
        for name in names:
            axes = [dims.index(name) if name in dims else None for dims in remaining]
            remaining = [[dim for dim in dims if dim != name] for dims in remaining]
            batched.append(axes)
        mapped = positional
        for axes in reversed(batched):
            mapped = jax.vmap(mapped, in_axes=tuple(axes), out_axes=0)
        with explain_type_errors:
            result = mapped(*datas)

        def named(leaf: Any) -> Any:
            # A function may make named arrays itself; their own names come after those that it is vectorised over.
            own = leaf._dims[len(names) :] if isinstance(leaf, NamedArray) else (None,) * (np.ndim(leaf) - len(names))
            return wrap(leaf._data if isinstance(leaf, NamedArray) else leaf, check_dims(names + own, op))

        return jax.tree.map(named, result, is_leaf=lambda leaf: isinstance(leaf, NamedArray))
