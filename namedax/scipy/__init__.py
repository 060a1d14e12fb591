"""The namespace `nx.scipy`: `jax.scipy` for named arrays."""

from namedax.scipy import cluster as cluster
from namedax.scipy import fft as fft
from namedax.scipy import integrate as integrate
from namedax.scipy import interpolate as interpolate
from namedax.scipy import linalg as linalg
from namedax.scipy import ndimage as ndimage
from namedax.scipy import optimize as optimize
from namedax.scipy import signal as signal
from namedax.scipy import sparse as sparse
from namedax.scipy import spatial as spatial
from namedax.scipy import special as special
from namedax.scipy import stats as stats

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]
