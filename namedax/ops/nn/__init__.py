"""Neural networks over named axes: the functions that `nx.nn` adds to JAX's.

Layers: `activations` (and softmax), `normalization` (and dropout), and `attention`, with its
`masks` and biases. `attention_operands` has the axis names of attention, and the heads that share
keys. `attention_blocks` computes it on a device and around the ring, by the labels of
`attention_labels`, and `attention_zigzag` balances the ring of a causal mask. `attention_fused`
calls JAX's fused kernel. `attention_positional` is the form without names, and `attention_parts`
combines partial attentions. `kv_cache` has the keys and values of earlier positions, and `kv_slots`
writes them. Recurrences: `linear_attention` and `delta_rule`, on the chunks of `recurrence` with
the `decay_sums` within them. Positions: `rotary`, and `rotary_scaling` of published models. Losses:
`losses`, also over sharded classes. Parameters: `initializers`. Pooling and convolution are in
`namedax.ops.window`, mixtures of experts in `namedax.ops.experts`.
"""
