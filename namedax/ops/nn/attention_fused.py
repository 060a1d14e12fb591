"""Attention by the fused kernel of JAX: `dot_product_attention(implementation="cudnn")`.

The kernel never stores the scores. It computes with complete keys: no ring and no collective. So
the key positions and the features are unmapped, and so are the query positions of causal attention.
The kernel receives arrays of four dimensions, `(batch, positions, heads, features)`. Axes that
stand after the positions of the query are heads, the others are its batch, so that most programs
need no transposition. Axes that only the query has are query heads that share a key head.

Biases, masks, sequence lengths, segments and sinks are rejected. JAX adds a mask to the scores, so
the result of a query without keys is not 0, and the gradient of a broadcast bias depends on the
version of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.padded_sharding import plain
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisSizeError,
    PlacementConflictError,
    format_value,
)
from namedax.ops.nn.attention_blocks import Arrays, BlockAttention
from namedax.ops.nn.attention_labels import FEATURES, KEY, QUERY, Label, Labels
from namedax.ops.nn.attention_operands import OPERATION, Names

__all__ = ["FusedAttention", "check_implementation", "check_platform"]

_ADVICE = "Leave out implementation=."
#: The parameters of the operands that the kernel does not support.
_PARAMETERS = {
    "query_lengths": "query_seq_lengths",
    "key_lengths": "key_value_seq_lengths",
    "query_segments": "segments",
    "key_segments": "key_segments",
}


def check_implementation(implementation: object) -> None:
    """Raise an error if there is no such implementation."""
    if implementation not in ("xla", "cudnn"):
        raise ArgumentError(
            f"{OPERATION}: implementation must be 'xla', 'cudnn' or None, got"
            f" {format_value(implementation)}."
        )


def check_platform() -> None:
    """Raise an error if the fused kernel cannot run here."""
    if (platform := jax.default_backend()) != "gpu":
        raise ArgumentError(
            f"{OPERATION}: implementation='cudnn' requires a GPU, but the default platform is"
            f" {platform!r}. {_ADVICE}"
        )


class FusedAttention(BlockAttention):
    """A plan for one attention on blocks by the fused kernel."""

    def _groups(self) -> tuple[Labels, Labels, Labels]:
        """Return the labels of batch, heads, and query heads that share a key head."""
        query, key, value = (self.labels[which] for which in ("query", "key", "value"))
        after = query[query.index(QUERY) :]
        shared = tuple(
            label
            for label in self.batch
            if label in query and label not in key and label not in value
        )
        heads = tuple(label for label in after if label in self.batch and label not in shared)
        batch = tuple(label for label in self.batch if label not in (*heads, *shared))
        return batch, heads, shared

    @property
    def result(self) -> Labels:
        """Return the labels of the result, in the order of the kernel."""
        batch, heads, shared = self._groups()
        return (*batch, QUERY, *heads, *shared, *self.carried)

    def run(self, arrays: Arrays) -> tuple[jax.Array, ...]:
        """Compute attention on the blocks of this device, with the labels `result`."""
        query, key, value = (self.labels[which] for which in ("query", "key", "value"))
        batch, heads, shared = self._groups()
        q = self._four(arrays["query"], query, batch, QUERY, [*heads, *shared], [FEATURES])
        k = self._four(arrays["key"], key, batch, KEY, heads, [FEATURES])
        v = self._four(arrays["value"], value, batch, KEY, heads, self.carried)
        data = jax.nn.dot_product_attention(
            q,
            k,
            v,
            scale=float(self.scale),
            is_causal=self.is_causal,
            # With a causal mask, nothing to the right is visible.
            local_window_size=None if self.window is None else (self.window[0], 0),
            implementation="cudnn",
        )
        return (data.reshape([self.sizes[label] for label in self.result]),)

    def _four(
        self,
        data: jax.Array,
        labels: Labels,
        batch: Sequence[Label],
        positions: Label,
        heads: Sequence[Label],
        features: Sequence[Label],
    ) -> jax.Array:
        """Return an operand as `(batch, positions, heads, features)`."""
        groups = (batch, (positions,), heads, features)
        order = [label for group in groups for label in group]
        there = [label for label in order if label in labels]
        data = lax.transpose(data, [labels.index(label) for label in there])
        data = lax.broadcast_in_dim(
            data, [self.sizes[label] for label in order], [order.index(label) for label in there]
        )
        return data.reshape([math.prod(self.sizes[label] for label in group) for group in groups])

    def check(self, names: Names) -> None:
        """Raise an error if the kernel does not support this attention, or cannot run here."""
        self._check_options()
        self._check_layout(names)
        if (dtype := jnp.dtype(self.dtype)) not in (jnp.float16, jnp.bfloat16):
            raise ArgumentTypeError(
                f"{OPERATION}: implementation='cudnn' requires operands of float16 or bfloat16, got"
                f" {dtype.name}. Cast them, or leave out implementation=."
            )
        size, carried = self.sizes[FEATURES], math.prod(self.sizes[x] for x in self.carried)
        if size != carried:
            raise AxisSizeError(
                f"{OPERATION}: implementation='cudnn' requires values with as many features as the"
                f" keys, but value has {carried} and {names.features!r} has size {size}. {_ADVICE}"
            )
        queries, keys = self.sizes[QUERY], self.sizes[KEY]
        if self.is_causal and queries != keys:
            raise AxisSizeError(
                f"{OPERATION}: implementation='cudnn' with is_causal=True requires as many keys as"
                f" queries, but axis {names.query!r} has size {queries} and axis"
                f" {names.own_key!r} has size {keys}. {_ADVICE}"
            )
        check_platform()

    def _check_options(self) -> None:
        unsupported = [
            f"{_PARAMETERS.get(which, which)}="
            for which in self.labels
            if which not in ("query", "key", "value")
        ]
        if self.residual:
            unsupported.append("return_residual=")
        if self.soft_cap is not None:
            unsupported.append("soft_cap=")
        if self.window is not None and not self.is_causal:
            unsupported.append("local_window_size= without is_causal=True")
        if unsupported:
            raise ArgumentError(
                f"{OPERATION}: implementation='cudnn' by axis name does not support"
                f" {', '.join(unsupported)}. {_ADVICE}"
            )

    def _check_layout(self, names: Names) -> None:
        """Raise an error if the attention of this layout is a ring, or has collectives."""
        sharded = {
            f"the key positions {names.own_key!r}": self.key_place,
            f"the features {names.features!r}": self.feature_axes,
            "the features of value": self.carried_axes,
        }
        if self.is_causal:
            sharded[f"the query positions {names.query!r} of a causal mask"] = self.query_place
        for what, place in sharded.items():
            if place:
                raise PlacementConflictError(
                    f"{OPERATION}: implementation='cudnn' requires complete keys on each device,"
                    f" but {what} are sharded over mesh axes {plain(place)}. Leave them unmapped in"
                    " axis_resources, or leave out implementation=."
                )
