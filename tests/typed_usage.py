"""What a static checker sees of namedax: mypy reads this file (`make lint`); nothing runs it but the import."""

from typing import TYPE_CHECKING, Any, assert_type

import jax
import jax.numpy as jnp

import namedax as nx
from namedax import NamedArray


def operators_keep_names(x: NamedArray, y: jax.Array) -> None:
    assert_type(x + 1, NamedArray)
    assert_type(1.0 - x, NamedArray)
    assert_type(-x, NamedArray)
    assert_type(x == y, NamedArray)
    assert_type(x @ y, NamedArray)
    assert_type(x.astype(jnp.float16), NamedArray)
    assert_type(x.rename(batch="rows"), NamedArray)
    assert_type(x.T, NamedArray)
    assert_type(x.cumsum("batch"), NamedArray)
    for row in x:
        assert_type(row, NamedArray)


def reductions_may_lose_the_last_name(x: NamedArray) -> None:
    # A plain array where no name is left, so a checker is told neither.
    assert_type(x.sum("batch"), Any)
    assert_type(x["batch", 0], Any)


def attributes_are_typed(x: NamedArray) -> None:
    assert_type(x.data, jax.Array)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    sizes: dict[Any, int] = dict(x.named_shape)
    sizes["batch"] += 1


def mistakes_are_seen(x: NamedArray) -> None:
    # `warn_unused_ignores` makes each of these a check: without the error the comment would be one.
    if TYPE_CHECKING:
        x.named_shap  # type: ignore[attr-defined]  # noqa: B018
        x.rename("batch", "rows")  # type: ignore[call-arg, arg-type]
        nx.xmap(lambda x: x, partitioning="atuo")  # type: ignore[arg-type]


def mapped_functions_can_be_lowered(x: jax.Array) -> None:
    f = nx.xmap(lambda x: x + 1, ["batch"], ["batch"])
    assert_type(f.lower(x), jax.stages.Lowered)
