"""The functions of `jax.nn` that have a named version."""

from __future__ import annotations

from namedax.ops.experts import mixture, routing
from namedax.ops.namespaces.registry import Functions
from namedax.ops.nn import (
    attention,
    attention_parts,
    delta_rule,
    kv_cache,
    linear_attention,
    losses,
    masks,
    normalization,
    rotary,
)
from namedax.ops.nn.activations import ACTIVATIONS, log_softmax, softmax
from namedax.ops.ragged import grouped
from namedax.ops.reduction.reductions import logmeanexp, logsumexp
from namedax.ops.shape import creation
from namedax.ops.window import pooling

__all__ = ["NN"]

NN: Functions = {
    **ACTIVATIONS,
    **attention.FUNCTIONS,
    **attention_parts.FUNCTIONS,
    **grouped.FUNCTIONS,
    **mixture.FUNCTIONS,
    **delta_rule.FUNCTIONS,
    **kv_cache.FUNCTIONS,
    **linear_attention.FUNCTIONS,
    **losses.FUNCTIONS,
    **masks.FUNCTIONS,
    **normalization.FUNCTIONS,
    **pooling.FUNCTIONS,
    **rotary.FUNCTIONS,
    **routing.FUNCTIONS,
    "log_softmax": log_softmax,
    "logmeanexp": logmeanexp,
    "logsumexp": logsumexp,
    "one_hot": creation.one_hot,
    "softmax": softmax,
}
