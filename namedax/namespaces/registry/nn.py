"""The functions that stand in `jax.nn`."""

from __future__ import annotations

from namedax.namespaces import other_spellings
from namedax.namespaces.reduction_forms import LOGSUMEXP
from namedax.namespaces.registry.tables import Functions
from namedax.ops.experts import mixture, routing
from namedax.ops.nn import attention, losses, masks, normalization
from namedax.ops.nn.activations import ACTIVATIONS, log_softmax, softmax
from namedax.ops.ragged import grouped
from namedax.ops.shape import creation
from namedax.ops.window import pooling

__all__ = ["NN"]

NN: Functions = {
    **ACTIVATIONS,
    **attention.FUNCTIONS,
    **grouped.FUNCTIONS,
    **mixture.FUNCTIONS,
    **losses.FUNCTIONS,
    **masks.FUNCTIONS,
    **normalization.FUNCTIONS,
    **pooling.FUNCTIONS,
    **routing.FUNCTIONS,
    **LOGSUMEXP,
    **other_spellings.NN,
    "log_softmax": log_softmax,
    "one_hot": creation.one_hot,
    "softmax": softmax,
}
