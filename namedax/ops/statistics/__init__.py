"""Statistics over axes: mostly compositions of reductions, at their costs.

`average` (weighted means, ranges), `without_nans` (`nansum` and its like), `norms` and `covariance` (`cov`, `corrcoef`) compose.
`quantiles` sort first, and `counting` (`bincount`, `histogram`) counts on every device and adds up.
"""
