"""Neural networks by name: what `nx.nn` has beside JAX's own.

Layers: `activations` (and softmax), `normalisation` (and dropout), `attention`, with its `masks`, whose axes `attention_names` knows, and
whose work on a device and around the ring is in `attention_blocks`. Losses: `losses` (over sharded classes too) and
`binary_cross_entropy`. Parameters: `initializers`. Pooling and convolution are in `namedax.ops.window`, mixtures of experts in `namedax.ops.experts`.
"""
