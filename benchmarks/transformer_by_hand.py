"""The transformer of `examples/` hand-written by an expert: positional axes, `jax.shard_map`, explicit collectives.

One program for all layouts, in plain `jnp` and `lax`. `Layout` has the function of each mesh axis;
without any (`PLAIN`) it is the model on global arrays, for one device or for XLA's partitioner.

**Collectives.** Parameters are stored in blocks (`Layout.specs`) and cast to varying once, before
the loop over the layers, so that each gradient is reduced once, after it.

    tensor parallel     an activation is cast before the two matrices that read it (the transpose:
    one all-reduce), and the
                        product with the next one is summed: one all-reduce
    sequence parallel   the same two points, but all-gather and reduce-scatter along positions FSDP
    the weights of a layer are gathered within the checkpointed layer; the transpose scatters
    vocabulary          every device looks up its own rows, and logits stay in blocks: all-reduces
    of the maximum, the sum and
                        the logit of the target
    experts             tokens go to their experts and back, one all-to-all each; sums over blocks
    of the hidden units are
                        taken over tokens, which are fewer than slots
    ring                keys and values go around the ring, with an online softmax; in the backward
    pass with their gradients pipeline            every device has some of the layers; in a tick it
    applies them to one microbatch, and one collective-permute
                        takes the result to the next device; the results of the last one are summed
                        with zeros of the others
    accumulation        gradients are summed over a loop, and reduced once after it; with FSDP each
    microbatch gathers and scatters
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Params = Any

# The axes of the parameters; None for axes that are never sharded.
AXES: Params = {
    "embed": ("vocab", "embed"),
    "layers": {
        "query": (None, "embed", "heads", None, None),
        "key": (None, "embed", "heads", None),
        "value": (None, "embed", "heads", None),
        "out": (None, "heads", None, None, "embed"),
        "gate": (None, "embed", "hidden"),
        "up": (None, "embed", "hidden"),
        "down": (None, "hidden", "embed"),
        "norm1": (None, None),
        "norm2": (None, None),
    },
    "norm": (None,),
    "unembed": ("embed", "vocab"),
}
# The axes that differ in a mixture of experts.
MIXTURE_AXES = {
    "router": (None, "embed", None),
    "gate": (None, "expert", "embed", "hidden"),
    "up": (None, "expert", "embed", "hidden"),
    "down": (None, "expert", "hidden", "embed"),
}


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of experts: the number of experts, of experts per token, and of tokens of a sequence per expert."""

    experts: int
    top_k: int
    capacity: int


@dataclasses.dataclass(frozen=True)
class Layout:
    """The function of each mesh axis.

    Attributes:
      data: shards the batch.
      model: shards heads, hidden units and vocabulary.
      context: shards the positions, within attention too.
      fsdp: if True, parameters are sharded over `data`.
      sequence: if True, positions are sharded over `model` between the layers.
      steps: the number of steps of gradient accumulation over the local batch.
      pipe: shards the layers.
      microbatches: the number of microbatches of the local batch in a pipeline.
      spread: if True, experts are sharded over `data`.
      mixture: the mixture of experts, or None for single feed-forward networks.
      remat: if True, a layer is recomputed in the backward pass.
    """

    data: str | None = None
    model: str | None = None
    context: str | None = None
    fsdp: bool = False
    sequence: bool = False
    steps: int = 1
    pipe: str | None = None
    microbatches: int = 4
    spread: bool = False
    mixture: Mixture | None = None
    remat: bool = True

    def axes(self) -> Params:
        """The axes of the parameters."""
        return AXES if self.mixture is None else AXES | {"layers": AXES["layers"] | MIXTURE_AXES}

    def specs(self) -> Params:
        """The sharding of every parameter."""
        place = {
            "embed": self.data if self.fsdp else None,
            "expert": self.data if self.spread else None,
        }
        place |= dict.fromkeys(("heads", "hidden", "vocab"), self.model)

        def spec(path: Any, axes: tuple[str | None, ...]) -> P:
            first = self.pipe if path[0].key == "layers" else place.get(axes[0])
            return P(first, *(place.get(axis) for axis in axes[1:]))

        return jax.tree.map_with_path(
            spec, self.axes(), is_leaf=lambda node: isinstance(node, tuple)
        )

    def batch_spec(self) -> P:
        """The sharding of the tokens."""
        return P(self.data, self.context)

    def batch_axes(self) -> tuple[str, ...]:
        """The mesh axes over which tokens are sharded."""
        return tuple(axis for axis in (self.data, self.context) if axis is not None)


PLAIN = Layout()
BALANCE = 0.01  # counts for the load-balancing loss
LAYOUTS = {
    "single": PLAIN,
    "dp": Layout(data="data"),
    "tp": Layout(model="model"),
    "dp+tp": Layout(data="data", model="model"),
    "fsdp": Layout(data="data", fsdp=True),
    "fsdp+tp+sp": Layout(data="data", model="model", fsdp=True, sequence=True),
    "accumulation": Layout(data="data", steps=4),
    "tp+accumulation": Layout(model="model", steps=4),
    "fsdp+accumulation": Layout(data="data", fsdp=True, steps=4),
    "fsdp+tp+sp+accumulation": Layout(
        data="data", model="model", fsdp=True, sequence=True, steps=4
    ),
    "ring": Layout(data="data", context="context"),
    "pp": Layout(pipe="pipe"),
    "pp+dp": Layout(pipe="pipe", data="data"),
    "pp+tp": Layout(pipe="pipe", model="model"),
    "pp+fsdp": Layout(pipe="pipe", data="data", fsdp=True),
    "pp+fsdp+tp+sp": Layout(pipe="pipe", data="data", model="model", fsdp=True, sequence=True),
    "single+moe": PLAIN,
    "ep": Layout(data="data", spread=True),
    "ep+tp": Layout(data="data", model="model", spread=True),
}


# --- collectives --------------------------------------------------------------------------------------------------------


def vary(x: Any, *axes: str | None) -> Any:
    """Cast `x` to varying along `axes`. The transpose is one all-reduce."""
    given = tuple(axis for axis in axes if axis is not None)
    return lax.pcast(x, given, to="varying") if given else x


def gradient_axes(params: Params, layout: Layout) -> Params:
    """The mesh axes over which the gradient of every parameter is summed."""

    def axes_of(path: Any, _: Any, spec: P) -> tuple[str, ...]:
        axes = [axis for axis in layout.batch_axes() if axis not in spec]
        if layout.sequence and "norm" in path[-1].key:
            axes.append(layout.model)  # it is used with other positions on every device
        return tuple(axes)

    return jax.tree.map_with_path(axes_of, params, layout.specs())


def cast_parameters(params: Params, layout: Layout) -> Params:
    """Cast all parameters to varying over the mesh axes over which their gradients are summed."""
    return jax.tree.map(lambda x, axes: vary(x, *axes), params, gradient_axes(params, layout))


def reduce_gradients(grads: Params, params: Params, layout: Layout) -> Params:
    """Sum the gradients of cast parameters, with one all-reduce for equal mesh axes."""
    leaves, tree = jax.tree.flatten(grads)
    axes = tree.flatten_up_to(gradient_axes(params, layout))
    for some in sorted(set(axes)):
        places = [i for i, one in enumerate(axes) if one == some and some]
        sums = lax.psum([leaves[i] for i in places], some) if places else []
        leaves = [sums[places.index(i)] if i in places else leaf for i, leaf in enumerate(leaves)]
    return tree.unflatten(leaves)


def gather(p: Params, axes: Params, layout: Layout) -> Params:
    """Gather parameters along `embed`."""
    if not layout.fsdp:
        return p
    return {
        name: (
            lax.all_gather(x, layout.data, axis=axes[name].index("embed"), tiled=True)
            if "embed" in axes[name]
            else x
        )
        for name, x in p.items()
    }


def enter(x: Any, layout: Layout) -> Any:
    """`x[batch, positions, embed]` for devices that each compute other heads or hidden units of it."""
    if layout.sequence:
        return lax.all_gather(x, layout.model, axis=1, tiled=True)
    return vary(x, layout.model)


def leave(x: Any, layout: Layout) -> Any:
    """The sum over these devices, with the sharding of the residual stream."""
    if layout.sequence:
        return lax.psum_scatter(x, layout.model, scatter_dimension=1, tiled=True)
    return x if layout.model is None else lax.psum(x, layout.model)


# --- the model ----------------------------------------------------------------------------------------------------------


@jax.custom_jvp
def over_root_mean_square(x: Any) -> Any:
    """Divide values by their root mean square; the residuals are only the result and one factor per row."""
    return x * _factor(x)


@over_root_mean_square.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    factor = _factor(x)
    result = x * factor
    return result, factor * (tangent - result * jnp.mean(tangent * result, -1, keepdims=True))


def _factor(x: Any) -> Any:
    return lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def rms_norm(x: Any, scale: Any) -> Any:
    """Divide values by their root mean square, times `scale`, in float32."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return (over_root_mean_square(wide) * scale).astype(x.dtype)


@jax.custom_jvp
def softmax(scores: Any) -> Any:
    """Softmax over the last axis.

    `jax.nn.softmax` has the same derivative, but XLA allocates more memory for its order of
    operations.
    """
    terms = jnp.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True)


@softmax.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    result = softmax(*primals)
    product = result * tangents[0]
    return result, product - result * product.sum(-1, keepdims=True)


def rotate(x: Any, position: Any) -> Any:
    """Rotary positions of `x[batch, positions, ..., key]`."""
    half = x.shape[-1] // 2
    angle = position[:, None] * jnp.exp(-math.log(10_000.0) * jnp.arange(half) / half)
    angle = angle.reshape(angle.shape[0], *(1,) * (x.ndim - 3), half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1
    )


def scores_of(query: Any, key: Any, first_query: Any = 0, first_key: Any = 0) -> Any:
    """Causal scores `[batch, heads, group, queries, keys]` in float32."""
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("bphgk,bqhk->bhgpq", query, key, preferred_element_type=wide) / math.sqrt(
        query.shape[-1]
    )
    queries, keys = first_query + jnp.arange(query.shape[1]), first_key + jnp.arange(key.shape[1])
    return jnp.where(queries[:, None] >= keys, scores, -jnp.inf)


def attention(query: Any, key: Any, value: Any) -> Any:
    """Causal attention: `query[batch, positions, heads, group, key]`, the others without the group."""
    weights = softmax(scores_of(query, key)).astype(value.dtype)
    # In the order of the scores, and transposed afterwards: in the other order XLA transposes the
    # scores too, in the gradient.
    return jnp.moveaxis(jnp.einsum("bhgpq,bqhk->bhgpk", weights, value), 3, 1)


def project(x: Any, p: Params, position: Any, layout: Layout) -> tuple[Any, Any, Any]:
    """Queries, keys and values."""
    h = enter(rms_norm(x, p["norm1"]), layout)
    query = jnp.einsum("bpe,ehgk->bphgk", h, p["query"])
    key, value = (jnp.einsum("bpe,ehk->bphk", h, p[name]) for name in ("key", "value"))
    return rotate(query, position), rotate(key, position), value


def feed_forward(x: Any, p: Params, layout: Layout) -> Any:
    """SwiGLU."""
    h = enter(rms_norm(x, p["norm2"]), layout)
    return leave((jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], layout)


def mixture_of_experts(x: Any, p: Params, layout: Layout) -> tuple[Any, Any]:
    """A mixture of SwiGLUs, each with slots for some tokens of every sequence; and the load-balancing loss of each sequence."""
    mixture, (batch, positions, _) = layout.mixture, x.shape
    assert mixture is not None
    experts, count, tokens = mixture.experts, mixture.top_k, batch * positions
    h = rms_norm(x, p["norm2"])
    probabilities = softmax(h @ p["router"])
    weight, index = lax.top_k(probabilities, count)
    weight = weight / weight.sum(-1, keepdims=True)
    # The first choices of all tokens of a sequence go before the second ones.
    index = jnp.moveaxis(index, 2, 1).reshape(batch, count * positions)
    chosen = (index[..., None] == jnp.arange(experts)).astype(jnp.int32)
    rank = jnp.take_along_axis(jnp.cumsum(chosen, 1), index[..., None], 2)[..., 0] - 1
    # Slots are ordered by experts, then sequences, so that all-to-alls and products need no
    # transpose.
    size, rows = batch * mixture.capacity, jnp.arange(batch)[:, None]
    place = jnp.where(
        rank < mixture.capacity, index * size + rows * mixture.capacity + rank, experts * size
    )
    numbers = rows * positions + jnp.arange(count * positions) % positions
    token = jnp.full(experts * size, tokens).at[place].set(numbers, mode="drop")
    filled = jnp.take(
        enter(h, layout).reshape(tokens, -1), token, axis=0, mode="fill", fill_value=0
    ).reshape(experts, size, -1)
    if layout.spread:
        filled = lax.all_to_all(filled, layout.data, 0, 1, tiled=True)
    gate, up = (jnp.einsum("xse,xeh->xsh", filled, p[name]) for name in ("gate", "up"))
    result = jnp.einsum("xsh,xhe->xse", jax.nn.silu(gate) * up, p["down"])
    if layout.spread:
        result = lax.all_to_all(result, layout.data, 1, 0, tiled=True)
    read = jnp.take(result.reshape(experts * size, -1), place, axis=0, mode="fill", fill_value=0)
    y = jnp.einsum("bkpe,bpk->bpe", read.reshape(batch, count, positions, -1), weight)
    return leave(y, layout), experts * (chosen.mean(1) * probabilities.mean(1)).sum(-1)


def layer(x: Any, p: Params, position: Any, layout: Layout) -> tuple[Any, Any]:
    """One layer, with weights optionally sharded over `data`; and its load-balancing loss, if there are experts."""
    p = gather(p, {name: axes[1:] for name, axes in layout.axes()["layers"].items()}, layout)
    query, key, value = project(x, p, position, layout)
    attended = (
        attention(query, key, value)
        if layout.context is None
        else ring_attention(layout.context, query, key, value)
    )
    x = x + leave(jnp.einsum("bphgk,hgke->bpe", attended, p["out"]), layout)
    y, uneven = (
        (feed_forward(x, p, layout), None)
        if layout.mixture is None
        else mixture_of_experts(x, p, layout)
    )
    return x + y, uneven


def look_up(table: Any, tokens: Any, layout: Layout) -> Any:
    """Rows of a table that is optionally sharded over `model`."""
    if layout.model is None:
        return table[tokens]
    mine = tokens - lax.axis_index(layout.model) * len(table)
    here = (mine >= 0) & (mine < len(table))
    return leave(jnp.where(here[..., None], table[jnp.where(here, mine, 0)], 0), layout)


def pipeline(layout: Layout, step: Any, x: Any, layers: Params) -> tuple[Any, None]:
    """All layers, sharded over `pipe`, in the ticks of a pipeline."""
    stages, stage, count = (
        lax.axis_size(layout.pipe),
        lax.axis_index(layout.pipe),
        layout.microbatches,
    )
    parts = vary(x.reshape(count, -1, *x.shape[1:]), layout.pipe)

    def tick(carry: Any, t: Any) -> tuple[Any, None]:
        arrived, done = carry
        number, works = jnp.clip(t - stage, 0, count - 1), (t >= stage) & (t - stage < count)
        h = jnp.where(stage == 0, lax.dynamic_index_in_dim(parts, number, keepdims=False), arrived)
        h, _ = lax.scan(step, h, layers)
        before = lax.dynamic_index_in_dim(done, number, keepdims=False)
        done = lax.dynamic_update_index_in_dim(
            done, jnp.where(works & (stage == stages - 1), h, before), number, 0
        )
        return (lax.ppermute(h, layout.pipe, [(i, i + 1) for i in range(stages - 1)]), done), None

    (_, done), _ = lax.scan(
        tick, (jnp.zeros_like(parts[0]), jnp.zeros_like(parts)), jnp.arange(count + stages - 1)
    )
    return lax.psum(jnp.where(stage == stages - 1, done, 0), layout.pipe).reshape(x.shape), None


def cross_entropy(logits: Any, targets: Any, layout: Layout) -> Any:
    """The sum over all positions, in nats; the vocabulary is optionally sharded over `model`."""
    if layout.model is None:
        chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - chosen).sum()
    largest = lax.pmax(lax.stop_gradient(logits.max(-1)), layout.model)
    mine = targets - lax.axis_index(layout.model) * logits.shape[-1]
    here = (mine >= 0) & (mine < logits.shape[-1])
    chosen = jnp.take_along_axis(logits, jnp.where(here, mine, 0)[..., None], -1)[..., 0]
    # Only the sum of the target logits is needed.
    own = jnp.exp(logits - largest[..., None]).sum(-1), jnp.where(here, chosen, 0).sum()
    total, chosen = lax.psum(own, layout.model)
    return (jnp.log(total) + largest).sum() - chosen


def loss_sum(params: Params, tokens: Any, targets: Any, layout: Layout) -> Any:
    """The sum of the cross-entropies of the local tokens, plus a fraction of the load-balancing loss if there are experts."""
    table, unembed = (
        gather({name: params[name]}, layout.axes(), layout)[name] for name in ("embed", "unembed")
    )
    position = jnp.arange(tokens.shape[1])
    if layout.context is not None:
        position = position + lax.axis_index(layout.context) * tokens.shape[1]

    def apply(x: Any, p: Params) -> tuple[Any, Any]:
        return layer(x, p, position, layout)

    step: Any = jax.checkpoint(apply) if layout.remat else apply
    run = functools.partial(pipeline, layout) if layout.pipe is not None else lax.scan
    x, uneven = run(step, look_up(table, tokens, layout), params["layers"])
    logits = enter(rms_norm(x, params["norm"]), layout) @ unembed
    entropy = cross_entropy(logits, targets, layout)
    # Both are sums over tokens; a sequence has the weight of its tokens.
    return entropy if uneven is None else entropy + BALANCE * uneven.mean(0).sum() * tokens.shape[1]


def loss(params: Params, tokens: Any, targets: Any, layout: Layout) -> Any:
    """The mean over all tokens of all devices."""
    axes = layout.batch_axes()
    total = loss_sum(cast_parameters(params, layout), tokens, targets, layout)
    return lax.psum(total, axes) / (tokens.size * math.prod(map(lax.axis_size, axes)))


def value_and_grad(params: Params, tokens: Any, targets: Any, layout: Layout) -> tuple[Any, Params]:
    """Loss and gradients: the body of the mapped function."""
    if layout.steps == 1:
        return jax.value_and_grad(loss)(params, tokens, targets, layout)
    axes = layout.batch_axes()
    count = tokens.size * math.prod(map(lax.axis_size, axes))
    stored, params = params, cast_parameters(params, layout)

    def microbatch(total: Any, block: Any) -> tuple[Any, None]:
        one = jax.value_and_grad(lambda params: loss_sum(params, *block, layout) / count)(params)
        return jax.tree.map(jnp.add, total, one), None

    zeros = (vary(jnp.zeros(()), *axes), jax.tree.map(jnp.zeros_like, params))
    blocks = tuple(a.reshape(layout.steps, -1, a.shape[1]) for a in (tokens, targets))
    (value, grads), _ = lax.scan(microbatch, zeros, blocks)
    if not axes:
        return value, grads
    return lax.psum(value, axes), reduce_gradients(grads, stored, layout)


# --- attention around a ring ----------------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def ring_attention(axis: str, query: Any, key: Any, value: Any) -> Any:
    """Causal attention with positions sharded over `axis`.

    Fully masked blocks are permuted, but not computed.
    """
    return _ring_forwards(axis, query, key, value)[0]


def _pass_on(axis: str, *arrays: Any) -> Any:
    n = lax.axis_size(axis)
    return lax.ppermute(arrays, axis, [(i, (i + 1) % n) for i in range(n)])


def _first_key(axis: str, size: int, step: Any) -> Any:
    """The position of the first key of the local block after `step` steps."""
    return (lax.axis_index(axis) - step) % lax.axis_size(axis) * size


def _rows(x: Any) -> Any:
    """From `[batch, heads, group, positions]` to a shape that broadcasts to `[batch, positions, heads, group, key]`."""
    return jnp.moveaxis(x, 3, 1)[..., None]


def _ring_forwards(axis: str, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    n, size = lax.axis_size(axis), query.shape[1]
    first_query = lax.axis_index(axis) * size
    wide = jnp.promote_types(query.dtype, jnp.float32)

    def visit(state: Any, key: Any, value: Any, step: Any) -> Any:
        first_key = _first_key(axis, size, step)

        def compute(state: Any) -> Any:
            largest, total, result = state
            scores = scores_of(query, key, first_query, first_key)
            new = jnp.maximum(
                largest, scores.max(-1)
            )  # finite, since a device begins with its own block
            terms, shrink = jnp.exp(scores - new[..., None]), jnp.exp(largest - new)
            here = jnp.einsum(
                "bhgpq,bqhk->bphgk", terms.astype(value.dtype), value, preferred_element_type=wide
            )
            return new, total * shrink + terms.sum(-1), result * _rows(shrink) + here

        return lax.cond(first_key <= first_query, compute, lambda state: state, state)

    def step(carry: Any, number: Any) -> tuple[Any, None]:
        block, state = carry
        return (
            _pass_on(axis, *block),
            visit(state, *block, number),
        ), None  # permuted during the computation with it

    batch, _, heads, group, _ = query.shape
    rows = jnp.zeros((batch, heads, group, size), wide)
    state = (rows - jnp.inf, rows, jnp.zeros(query.shape, wide))
    state = vary(state, *sorted(jax.typeof(query).manual_axis_type.varying))
    (block, state), _ = lax.scan(step, ((key, value), state), jnp.arange(n - 1))
    largest, total, result = visit(state, *block, n - 1)
    return (result / _rows(total)).astype(query.dtype), largest + jnp.log(total)


def _ring_saving(axis: str, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    result, normaliser = _ring_forwards(axis, query, key, value)
    return result, (query, key, value, result, normaliser)


def _ring_backwards(axis: str, saved: Any, cotangent: Any) -> tuple[Any, Any, Any]:
    query, key, value, result, normaliser = saved
    n, size = lax.axis_size(axis), query.shape[1]
    first_query = lax.axis_index(axis) * size
    wide = jnp.promote_types(query.dtype, jnp.float32)
    mean = jnp.moveaxis(jnp.sum(cotangent.astype(wide) * result.astype(wide), -1), 1, 3)[..., None]

    def visit(of_query: Any, key: Any, value: Any, step: Any) -> tuple[Any, Any, Any]:
        """The gradient of the queries so far, and the contribution of this device to the gradients of the block."""
        first_key = _first_key(axis, size, step)

        def contract(equation: str, x: Any, y: Any) -> Any:
            return jnp.einsum(equation, x, y, preferred_element_type=wide)

        def compute(of_query: Any) -> tuple[Any, Any, Any]:
            weights = jnp.exp(scores_of(query, key, first_query, first_key) - normaliser[..., None])
            of_value = contract("bhgpq,bphgk->bqhk", weights.astype(value.dtype), cotangent)
            of_weights = contract("bphgk,bqhk->bhgpq", cotangent, value)
            of_scores = (weights * (of_weights - mean) / math.sqrt(query.shape[-1])).astype(
                query.dtype
            )
            of_query = of_query + contract("bhgpq,bqhk->bphgk", of_scores, key)
            return of_query, contract("bhgpq,bphgk->bqhk", of_scores, query), of_value

        def skip(of_query: Any) -> tuple[Any, Any, Any]:
            return of_query, *nothing

        return lax.cond(first_key <= first_query, compute, skip, of_query)

    def step(carry: Any, number: Any) -> tuple[Any, None]:
        block, of_query, travelling = carry
        following = _pass_on(axis, *block)
        of_query, *added = visit(of_query, *block, number)
        return (following, of_query, _pass_on(axis, *map(jnp.add, travelling, added))), None

    nothing = (jnp.zeros_like(key, wide), jnp.zeros_like(value, wide))
    following = _pass_on(axis, key, value)
    of_query, *at_home = visit(jnp.zeros_like(query, wide), key, value, 0)
    # The gradients of a block follow it one step later, and end on its own device.
    (block, of_query, travelling), _ = lax.scan(
        step, (following, of_query, nothing), jnp.arange(1, n - 1)
    )
    of_query, *added = visit(of_query, *block, n - 1)
    travelling = _pass_on(axis, *map(jnp.add, travelling, added))
    of_key, of_value = map(jnp.add, travelling, at_home)
    return of_query.astype(query.dtype), of_key.astype(key.dtype), of_value.astype(value.dtype)


ring_attention.defvjp(_ring_saving, _ring_backwards)


# --- mapped -----------------------------------------------------------------------------------------------------------------


def mapped(layout: Layout, mesh: Mesh | None) -> Any:
    """`value_and_grad` of blocks, under `jax.shard_map`."""

    def step(params: Params, tokens: Any, targets: Any) -> tuple[Any, Params]:
        return value_and_grad(params, tokens, targets, layout)

    if mesh is None:
        return jax.jit(step)
    specs, batch = layout.specs(), layout.batch_spec()
    return jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=(specs, batch, batch), out_specs=(P(), specs))
    )


def partitioned(layout: Layout, mesh: Mesh | None) -> Any:
    """The model on global arrays, partitioned by XLA from the shardings of arguments and results."""
    plain = dataclasses.replace(
        PLAIN, steps=layout.steps, mixture=layout.mixture, remat=layout.remat
    )

    def step(params: Params, tokens: Any, targets: Any) -> tuple[Any, Params]:
        if plain.steps > 1:  # every microbatch has rows of every device
            tokens, targets = (
                a.reshape(-1, plain.steps, a.shape[1]).swapaxes(0, 1).reshape(a.shape)
                for a in (tokens, targets)
            )
        return value_and_grad(params, tokens, targets, plain)

    if mesh is None:
        return jax.jit(step)
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), layout.specs())
    return jax.jit(step, out_shardings=(NamedSharding(mesh, P()), shardings))


def place(
    params: Params, tokens: Any, targets: Any, layout: Layout, mesh: Mesh | None
) -> tuple[Params, Any, Any]:
    """Parameters, tokens and targets with the shardings of the layout."""
    if mesh is None:
        return params, tokens, targets
    batch = NamedSharding(mesh, layout.batch_spec())
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), layout.specs())
    return jax.device_put((params, tokens, targets), (shardings, batch, batch))
