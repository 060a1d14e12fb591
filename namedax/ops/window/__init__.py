"""Operations in which an element of the result depends on neighbors along an axis.

Along a sharded axis all of them need the rows that a device lacks
(`namedax.ops.operands.one_axis`). Read `neighbours` (roll, shift, pad, diff, fftshift) first, then
`windows`, which `sliding` (windows as an axis), `convolution` and `pooling`
share. `convolve` is NumPy's function along one axis.

`resizing` interpolates (`nx.image.resize`), and `calculus` has sums and differences of functions:
`trapezoid`, `gradient`, `unwrap`, `detrend`.
"""
