"""Operations in which an entry of the result depends on neighbours along an axis.

Along a sharded axis all of them are one question: which rows a device lacks (`namedax.operands.one_axis`). Read `neighbours`
(roll, shift, halo, pad, diff) first, then `windows`, which `convolution` and `pooling` share. `convolve` is NumPy's, of one axis.

`resizing` interpolates (`nx.image.resize`), and `calculus` has sums and differences of functions: `trapezoid`, `gradient`,
`unwrap`, `detrend`.
"""
