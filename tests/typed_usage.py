"""What a static checker sees of namedax: mypy and pyright read this file; nothing runs it but the import."""

from typing import TYPE_CHECKING, Any, assert_type

import jax
from jax import Array

import namedax as nx
from namedax import NamedArray, lax, nn, random
from namedax import numpy as jnp
from namedax.core.annotations import AnyArray


def operators_keep_names(x: NamedArray, y: Array) -> None:
    assert_type(x + 1, NamedArray)
    assert_type(1.0 - x, NamedArray)
    assert_type(-x, NamedArray)
    assert_type(x == y, NamedArray)
    assert_type(x @ y, NamedArray)
    assert_type(x.astype("float16"), NamedArray)
    assert_type(x.rename(batch="rows"), NamedArray)
    assert_type(x.rename({"batch": "rows"}), NamedArray)
    assert_type(x.T, NamedArray)
    assert_type(x.cumsum("batch"), NamedArray)
    assert_type(x.at["batch", 0].set(1.0), NamedArray)
    for row in x:
        assert_type(row, NamedArray)


def functions_keep_names_or_may_lose_the_last(x: NamedArray, y: Array) -> None:
    assert_type(nx.exp(x), NamedArray)
    assert_type(nx.exp(y), Array)
    assert_type(nx.maximum(y, x), NamedArray)
    assert_type(nx.where(x > 0, 1.0, y), NamedArray)
    assert_type(nx.flip(x, "batch"), NamedArray)
    assert_type(nx.rename(x, batch="rows"), NamedArray)
    assert_type(nx.rename({"w": x}, batch="rows"), dict[str, NamedArray])
    assert_type(nx.named(y, ["batch"]), NamedArray)
    assert_type(nx.positional(x, ["batch"]), Array)
    assert_type(nx.shard(x, {}), NamedArray)
    assert_type(nx.order_like((x, y), (x, y)), tuple[NamedArray, Array])
    assert_type(nn.relu(x), NamedArray)
    assert_type(nn.softmax(x, "classes"), NamedArray)
    # A plain array where no name is left, so a result is either.
    assert_type(nx.sum(x, "batch"), AnyArray)
    assert_type(nx.sum(x, axis=...), AnyArray)
    assert_type(nx.mean(x, ("batch", 0)), AnyArray)
    assert_type(x.sum("batch"), AnyArray)
    assert_type(x["batch", 0], AnyArray)
    assert_type(nx.einsum("{b,k},{k,m}->{b,m}", x, x), AnyArray)
    assert_type(nx.dot(x, y, "inputs"), AnyArray)
    assert_type(nx.exp(nx.sum(x, "batch")), AnyArray)
    assert_type(jnp.sum(x, axis=(0, "k")), AnyArray)
    assert_type(jnp.linalg.norm(x, axis="k"), AnyArray)
    assert_type(nx.max(x, "batch"), AnyArray)
    assert_type(jnp.linalg.eigh(x).eigenvalues, AnyArray)
    assert_type(jnp.zeros_like(x), NamedArray)
    assert_type(lax.dynamic_slice(x, [0], [2]), NamedArray)
    if isinstance(total := nx.sum(x, "batch"), NamedArray):
        assert_type(total.shape, tuple[int, ...])


def what_makes_arrays() -> None:
    assert_type(nx.zeros(named_shape={"batch": 8}), NamedArray)
    assert_type(nx.zeros((3,)), Array)
    key = jax.random.key(0)
    assert_type(random.normal(key, (2,), named_shape={"batch": 8}), NamedArray)
    assert_type(random.normal(key, (2,)), AnyArray)


def attributes_are_typed(x: NamedArray) -> None:
    assert_type(x.data, Array)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    sizes: dict[Any, int] = dict(x.named_shape)
    sizes["batch"] += 1
    assert_type(nx.axis_size("batch"), int)


def mapped_functions_can_be_lowered(x: Array) -> None:
    def loss(w: NamedArray, batch: NamedArray) -> NamedArray | Array:
        return nx.mean(nx.dot(w, batch, "inputs"), axis=...)

    f = nx.xmap(loss, (["inputs"], ["batch", "inputs"]), [], axis_resources={"batch": "x"})
    assert_type(f.lower(x, x), jax.stages.Lowered)
    assert_type(f.trace(x, x), jax.stages.Traced)


def collectives_take_trees(x: NamedArray) -> None:
    lax.psum({"w": x, "b": [x]}, "batch")
    lax.psum_scatter(x, "batch")


def mistakes_are_seen(x: NamedArray) -> None:
    # `warn_unused_ignores` makes each of these a check for mypy: without the error the comment would be one.
    if TYPE_CHECKING:
        x.named_shap  # type: ignore[attr-defined]  # noqa: B018
        x.rename("batch", "rows")  # type: ignore[call-arg, arg-type]
        nx.xmap(lambda x: x, partitioning="atuo")  # type: ignore[arg-type]
        nx.summ(x, "batch")  # type: ignore[attr-defined]
        nx.sum(x, axes="batch")  # type: ignore[call-arg]
        nx.sum(x, "batch", dtype=3)  # type: ignore[arg-type]
        nx.dot(x, x, "k", precision=7)  # type: ignore[arg-type]
        lax.conv_general_dilated(x, x, [1], "SAME", dimension_numbers=3)  # type: ignore[call-overload]
