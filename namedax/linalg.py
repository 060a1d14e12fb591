"""Linear algebra over named axes: a matrix is an array with names for its rows and columns.

`nx.numpy.linalg`, `nx.lax.linalg` and `nx.scipy.linalg` have JAX's functions of matrices with
positional axes.
"""

from namedax.ops.linalg.components import PCAResult as PCAResult
from namedax.ops.linalg.components import pca as pca
from namedax.ops.linalg.decompositions import EighResult as EighResult
from namedax.ops.linalg.decompositions import QRResult as QRResult
from namedax.ops.linalg.decompositions import SVDResult as SVDResult
from namedax.ops.linalg.decompositions import eigh as eigh
from namedax.ops.linalg.decompositions import qr as qr
from namedax.ops.linalg.decompositions import svd as svd
from namedax.ops.linalg.systems import LstsqResult as LstsqResult
from namedax.ops.linalg.systems import cholesky as cholesky
from namedax.ops.linalg.systems import det as det
from namedax.ops.linalg.systems import lstsq as lstsq
from namedax.ops.linalg.systems import norm as norm
from namedax.ops.linalg.systems import pinv as pinv
from namedax.ops.linalg.systems import solve as solve

__all__ = [
    "EighResult",
    "LstsqResult",
    "PCAResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "det",
    "eigh",
    "lstsq",
    "norm",
    "pca",
    "pinv",
    "qr",
    "solve",
    "svd",
]


def __dir__() -> list[str]:
    return __all__
