"""The namespace `nx.nn`: `jax.nn` for named arrays."""

from namedax.ops.creation import one_hot as one_hot
from namedax.ops.nn import ACTIVATIONS as _ACTIVATIONS
from namedax.ops.nn import log_softmax as log_softmax
from namedax.ops.nn import softmax as softmax
from namedax.ops.reductions import logsumexp as logsumexp

globals().update(_ACTIVATIONS)
__all__ = sorted([*_ACTIVATIONS, "log_softmax", "logsumexp", "one_hot", "softmax"])
