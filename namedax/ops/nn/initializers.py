"""Initializers for parameters with named axes: `jax.nn.initializers` with `named_shape`.

An initializer is called as `init(key, shape, dtype, named_shape={"inputs": 784, "hidden": 512})`.
It returns the values of JAX's initializer for the array with the named axes in front, in the given
order, followed by the positional axes. So the values depend neither on the mesh nor on
`axis_resources`. In a mapped body every device computes the complete array and keeps its block (for
constants it computes the block only); there is no communication. A key with named axes creates one
parameter per instance, such as one per layer.

Axes (`in_axis`, `out_axis`, `batch_axis`, `column_axis`) are names, positional axes, or tuples of
both. As in JAX, all other axes count as receptive field, and contribute to both fans. The last two
axes of the array are the matrix of `delta_orthogonal`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray
from namedax.core.names import DType, Shape, is_name
from namedax.core.region import ambient
from namedax.errors import (
    AxisNotFoundError,
    PositionalAxisError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.messages.call_errors import bound as bound_arguments
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.new_axis import positional_shape
from namedax.ops.random.drawing import draw, sizes_of

__all__ = ["NamedInitializer", "named_initializer"]

_AXES = ("in_axis", "out_axis", "batch_axis", "column_axis")
_DIRECT = ("zeros", "ones")  # these functions are initializers themselves


@dataclasses.dataclass(frozen=True, eq=False)
class NamedInitializer:
    """An initializer, created by one of the functions of `nx.nn.initializers`.

    Attributes:
      name: the name of the function in `jax.nn.initializers`.
      arguments: its arguments, by name.

    >>> import jax, namedax as nx
    >>> init = nx.nn.initializers.he_normal(in_axis="inputs", out_axis="hidden")
    >>> w = init(jax.random.key(0), named_shape={"inputs": 3, "hidden": 4})
    >>> dict(w.named_shape)
    {'inputs': 3, 'hidden': 4}
    """

    name: str
    arguments: Mapping[str, Any]

    def __repr__(self) -> str:
        return (
            f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"
        )

    def __call__(
        self,
        key: ArrayLike,
        shape: Shape = (),
        dtype: DType | None = None,
        out_sharding: jax.sharding.Sharding | None = None,
        *,
        named_shape: Mapping[Hashable, int] | None = None,
    ) -> AnyArray:
        """Create a parameter.

        Args:
          key: a key, or a named array of keys: one parameter for each.
          shape: the positional shape, by default `()`.
          dtype: the dtype; by default the dtype given to the initializer, or the default float.
          out_sharding: as in JAX, for arrays without named axes; by default `None`.
          named_shape: the global sizes of the named axes, by default none. Their order affects the
            values.

        Communication: none.

        Raises:
          AxisNotFoundError: an axis is a name that `named_shape` lacks.
          PositionalAxisError: an axis is a positional axis that `shape` lacks.
        """
        return _create(self.name, self.arguments, key, shape, dtype, out_sharding, named_shape)

    def _draw(
        self,
        key: ArrayLike,
        shape: Shape,
        dtype: DType | None,
        out_sharding: jax.sharding.Sharding | None,
        named_shape: Mapping[Hashable, int] | None,
    ) -> AnyArray:
        sizes = sizes_of(self.name, named_shape)
        shape = positional_shape(self.name, shape)
        if not sizes and not isinstance(key, NamedArray):
            init = self._positional([], len(shape))
            return init(
                key,
                shape,
                *(() if dtype is None else (dtype,)),
                **({} if out_sharding is None else {"out_sharding": out_sharding}),
            )
        if out_sharding is not None:
            raise PositionalAxisError(
                f"{self.name}: out_sharding is only for arrays without named axes. Shard named"
                " arrays with axis_resources."
            )
        of_key = [dim for dim in key.dims if dim is not None] if isinstance(key, NamedArray) else []
        names = [name for name in sizes if name not in of_key]
        init = self._positional(names, len(shape))
        given = () if dtype is None else (dtype,)
        if not of_key and (
            self.name in _DIRECT
            or (self.name == "constant" and np.ndim(self.arguments["value"]) == 0)
        ):
            region = ambient()
            if region is not None and region.resources:
                region.check_placement(self.name, names)
            blocks = tuple(
                (
                    sizes[name]
                    if region is None
                    else region.block_size(name, sizes[name], self.name, supports_padding=True)
                )
                for name in names
            )
            return make_result(
                init(key, (*blocks, *shape), *given), (*names, *(None,) * len(shape))
            )
        return draw(self.name, lambda key, whole: init(key, whole, *given), key, sizes, shape)

    def _positional(self, names: list[Hashable], rank: int) -> Callable[..., jax.Array]:
        """Build JAX's initializer for an array with `names`, then `rank` positional axes."""
        function = getattr(jax.nn.initializers, self.name)
        if self.name in _DIRECT:
            return function
        arguments = dict(self.arguments)
        for argument in _AXES:
            if argument in arguments:
                axis = arguments[argument]
                if isinstance(axis, (tuple, list)):
                    arguments[argument] = tuple(
                        self._position(argument, entry, names, rank) for entry in axis
                    )
                else:
                    arguments[argument] = self._position(argument, axis, names, rank)
        return function(**arguments)

    def _position(self, argument: str, axis: Any, names: list[Hashable], rank: int) -> int:
        if is_name(axis):
            if axis not in names:
                raise AxisNotFoundError(
                    f"{self.name}: {argument} is {format_value(axis)}, which is not an axis of the"
                    f" parameter; named_shape has {show_names(names)}.{did_you_mean(axis, names)}"
                )
            return self._checked(argument, axis, names.index(axis) - len(names) - rank)
        if not names:
            return int(axis)  # JAX raises its own error
        if (
            isinstance(axis, bool)
            or not isinstance(axis, (int, np.integer))
            or not -rank <= axis < rank
        ):
            raise PositionalAxisError(
                f"{self.name}: {argument} is {format_value(axis)}, but the parameter has {rank}"
                f" positional axes, which count without the named axes {show_names(names)}. Pass a"
                f" name as {argument}=."
            )
        return self._checked(argument, axis, int(axis) % rank - rank)

    def _checked(self, argument: str, axis: object, position: int) -> int:
        if self.name == "delta_orthogonal" and position < -2:
            raise PositionalAxisError(
                f"delta_orthogonal: {argument} is {format_value(axis)}, which is not one of the"
                " last two axes; these are the matrix, and the others are taps."
            )
        return position


@in_program
def _create(name: str, arguments: Mapping[str, Any], *call: Any) -> AnyArray:
    """Create a parameter in a program whose key has the arguments of the initializer too."""
    return NamedInitializer(name, arguments)._draw(*call)


def named_initializer(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap `jax.nn.initializers.<name>` so that its axes may be names."""
    if name in _DIRECT:
        made = NamedInitializer(name, {})
        vars(made)["__doc__"] = f"Create a parameter of {name}.\n\n" + _arguments_of_call()
        return made
    signature = inspect.signature(function)

    def factory(*args: Any, **kwargs: Any) -> NamedInitializer:
        bound = bound_arguments(name, signature, args, kwargs)
        bound.apply_defaults()
        return NamedInitializer(name, dict(bound.arguments))

    factory.__name__ = factory.__qualname__ = name
    factory.__module__ = "namedax.nn.initializers"  # where pickle finds it by its name
    factory.__signature__ = signature  # type: ignore[attr-defined]
    factory.__doc__ = _doc(name, signature)
    return factory


def _arguments_of_call() -> str:
    """Return the docstring of a call of an initializer, from its arguments on."""
    return (inspect.getdoc(NamedInitializer.__call__) or "").partition("\n\n")[2]


# The parameters of the functions of `jax.nn.initializers`.
_ARGUMENTS = {
    "value": "the value, a scalar or an array.",
    "scale": "the variance of the values times the fan that `mode` selects",
    "mode": (
        'the fan: `"fan_in"` (number of inputs), `"fan_out"` (outputs), `"fan_avg"` or'
        ' `"fan_geo_avg"` (means of both), or a number'
    ),
    "distribution": '`"normal"`, `"truncated_normal"` or `"uniform"`.',
    "stddev": "the standard deviation",
    "lower": "the lower bound, in standard deviations",
    "upper": "the upper bound, in standard deviations",
    "in_axis": "the input axes: a name, a positional axis, or a tuple of both",
    "out_axis": "the output axes, in the same form",
    "batch_axis": "the axes that count for neither fan, in the same form",
    "column_axis": "the axis of the columns, a name or a positional axis",
    "dtype": "the dtype; by default the default float.",
}


def _doc(name: str, signature: inspect.Signature) -> str:
    lines = [
        f"Build `jax.nn.initializers.{name}` for parameters with named axes.",
        "",
        "Args:",
    ]
    for parameter in signature.parameters.values():
        text = _ARGUMENTS.get(parameter.name, "as in JAX")
        if parameter.default is not parameter.empty and parameter.default is not None:
            text = f"{text.rstrip('.')}; by default {parameter.default!r}."
        lines.append(f"  {parameter.name}: {text}")
    lines += [
        "",
        "Returns:",
        '  An initializer, `init(key, shape, dtype, named_shape={"inputs": 784})`.',
        "",
        "Communication: none.",
    ]
    return "\n".join(lines)
