"""Linear algebra over named axes: a matrix is an array with names for its rows and columns.

Read `tall` first: factorizations of matrices whose rows are sharded, on blocks. `matrix` finds the
rows and columns of an array, and restores names; `factors` combines both. `decompositions` has
`svd`, `qr` and `eigh`, `systems` `solve`, `lstsq`, `pinv`, `cholesky`, `det` and `norm`.
`randomized` finds a few modes of large matrices, and `components` is principal component analysis.
"""
