"""Statistics over axes: mostly compositions of reductions, with the same communication.

`compositions` (weighted means, ranges, norms), `without_nans` (`nansum` and similar functions) and
`covariance` (`cov`, `corrcoef`) are compositions. `quantiles` sort first, and `counting`
(`bincount`, `histogram`) counts on every device and sums the counts.
"""
