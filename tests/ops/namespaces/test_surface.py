"""Law 3 over whole namespaces: every public function of JAX takes named arrays, or stands on a short list with the reason.

Every function is tried on samples of arguments until JAX itself takes one; the named version then has to give, over a name, what JAX's
function gives for each entry along it.
"""

import contextlib
import itertools
import typing

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

import namedax as nx
from tests.ops.namespaces.test_signatures import public

SPACES = {
    "numpy": (jnp, nx.numpy),
    "numpy.linalg": (jnp.linalg, nx.numpy.linalg),
    "numpy.fft": (jnp.fft, nx.numpy.fft),
    "lax": (jax.lax, nx.lax),
    "nn": (jax.nn, nx.nn),
    "scipy.special": (jsp.special, nx.scipy.special),
    "scipy.linalg": (jsp.linalg, nx.scipy.linalg),
    "scipy.signal": (jsp.signal, nx.scipy.signal),
    "scipy.fft": (jsp.fft, nx.scipy.fft),
    "scipy.ndimage": (jsp.ndimage, nx.scipy.ndimage),
    "scipy.stats": (jsp.stats, nx.scipy.stats),
    "scipy.integrate": (jsp.integrate, nx.scipy.integrate),
    "scipy.cluster.vq": (jsp.cluster.vq, nx.scipy.cluster.vq),
    "lax.linalg": (jax.lax.linalg, nx.lax.linalg),
}

DATA = "the result's shape depends on the values"
NO_ARRAYS = "takes no arrays whose values matter: types, constants, printing, files, index helpers"
FUNCTION = "takes functions; control flow by name is a module of its own"
MESH = "speaks of mesh axes or devices, not of named axes"

rng = np.random.default_rng(0)
BATCH = 2


def f(*shape):
    return ("array", rng.normal(size=(BATCH, *shape)).astype("float32"))


def positive(*shape):
    return ("array", rng.uniform(0.1, 0.9, (BATCH, *shape)).astype("float32"))


def i(*shape):
    return ("array", rng.integers(0, 3, (BATCH, *shape)).astype("int32"))


def u(*shape):
    return ("array", rng.integers(0, 9, (BATCH, *shape)).astype("uint8"))


def b(*shape):
    return ("array", rng.random((BATCH, *shape)) < 0.5)


def c(*shape):
    return ("array", (rng.normal(size=(BATCH, *shape)) + 1j * rng.normal(size=(BATCH, *shape))).astype("complex64"))


def spd(n):
    half = rng.normal(size=(BATCH, n, n)).astype("float32")
    return ("array", half @ half.transpose(0, 2, 1) + n * np.eye(n, dtype="float32"))


def call(*args, **kwargs):
    return args, kwargs


# Tried in this order until JAX takes one.
GENERIC = [
    call(positive(3, 3)),
    call(positive(3, 3), positive(3, 3)),
    call(i(3, 3)),
    call(i(3, 3), i(3, 3)),
    call(b(3, 3)),
    call(b(3, 3), b(3, 3)),
    call(positive(3, 3), 0),
    call(positive(3, 3), 0, 1),
    call(positive(3, 3), i(3)),
    call(positive(3, 3), (3, 3)),
    call(positive(3, 3), positive(3, 3), positive(3, 3)),
    call(positive(3)),
    call(positive(3), positive(3)),
    call(c(3, 3)),
    call(u(8)),
    call(positive(3, 3), positive(3)),
    call(positive(3), positive(3), positive(3)),
    call(i(3), positive(3)),
    call(i(3), positive(3, 3)),
    call(positive(4, 4), 2),
    call(positive(3, 3), (0,)),
    call(positive(3, 3), (1, 0)),
]
groups = ("array", np.array([[2, 4], [3, 3]], "int32"))
pivots = ("array", np.tile(np.arange(3, dtype="int32"), (BATCH, 1)))
rows = jax.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
into = jax.lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
_scatter = call(f(5, 4), i(3, 1), f(3, 4), into)
zero = np.float32(0)

SPECIAL = {
    "numpy.apply_along_axis": call(jnp.sum, 0, f(3, 3)),
    "numpy.argwhere": call(b(3, 3), size=4),
    "numpy.astype": call(f(3, 3), "int32"),
    "numpy.bincount": call(i(5), length=4),
    "numpy.choose": call(i(3), [f(3), f(3), f(3)], mode="clip"),
    "numpy.compress": call(b(3), f(3, 3), axis=0, size=2, fill_value=0.0),
    "numpy.concatenate": call([f(3, 3), f(3, 3)], 0),
    "numpy.concat": call([f(3, 3), f(3, 3)], axis=0),
    "lax.linalg.lu_pivots_to_permutation": call(i(3), 4),
    "lax.linalg.ormqr": call(f(4, 3), f(3), f(4, 2)),
    "lax.linalg.tridiagonal_solve": call(f(4), positive(4), f(4), f(4, 2)),
    "numpy.ix_": call(i(3), i(2)),
    "numpy.kaiser": call(4, f()),
    "lax.full": call((2,), f()),
    "numpy.nanquantile": call(f(3, 3), 0.25, 0),
    "numpy.quantile": call(f(3, 3), 0.25, 0),
    "numpy.stack": call([f(3, 3), f(3, 3)], 1),
    "numpy.delete": call(f(3, 3), 1, axis=0),
    "numpy.dsplit": call(f(2, 2, 4), 2),
    "numpy.extract": call(b(3), f(3), size=2, fill_value=0.0),
    "numpy.fill_diagonal": call(f(3, 3), 1.0, inplace=False),
    "numpy.flatnonzero": call(b(3, 3), size=4),
    "numpy.intersect1d": call(i(4), i(4), size=3),
    "numpy.nonzero": call(b(3, 3), size=3),
    "numpy.place": call(f(3, 3), b(3, 3), f(3), inplace=False),
    "numpy.polyfit": call(f(5), f(5), 2),
    "numpy.put": call(f(3, 3), i(2), f(2), inplace=False),
    "numpy.put_along_axis": call(f(3, 3), i(3, 3), f(3, 3), 1, inplace=False),
    "numpy.ravel_multi_index": call((i(3), i(3)), (4, 4), mode="clip"),
    "numpy.repeat": call(f(3, 3), 2, axis=0),
    "numpy.roots": call(positive(4), strip_zeros=False),
    "numpy.setdiff1d": call(i(4), i(4), size=3),
    "numpy.setxor1d": call(i(4), i(4), size=3),
    "numpy.union1d": call(i(4), i(4), size=6),
    "numpy.unique": call(i(4), size=3),
    "numpy.unique_all": call(i(4), size=3),
    "numpy.unique_counts": call(i(4), size=3),
    "numpy.unique_inverse": call(i(4), size=3),
    "numpy.unique_values": call(i(4), size=3),
    "numpy.where": call(b(3), f(3), f(3)),
    "numpy.linalg.multi_dot": call([f(2, 3), f(3, 4), f(4, 2)]),
    "numpy.linalg.tensorinv": call(f(6, 2, 3), ind=1),
    "lax.argmax": call(f(3, 3), 0, jnp.int32),
    "lax.argmin": call(f(3, 3), 0, jnp.int32),
    "lax.bitcast_convert_type": call(f(3, 3), jnp.int32),
    "lax.broadcast_in_dim": call(f(3), (2, 3), (1,)),
    "lax.conv": call(f(1, 2, 8), f(3, 2, 3), (1,), "SAME"),
    "lax.conv_general_dilated": call(f(1, 2, 8), f(3, 2, 3), (1,), "SAME"),
    "lax.conv_general_dilated_local": call(f(1, 2, 8), f(3, 6, 6), (1,), "VALID", (3,)),
    "lax.conv_general_dilated_patches": call(f(1, 2, 8), (3,), (1,), "VALID"),
    "lax.conv_transpose": call(f(1, 8, 2), f(3, 2, 3), (2,), "SAME"),
    "lax.conv_with_general_padding": call(f(1, 2, 8), f(3, 2, 3), (1,), [(1, 1)], (1,), (1,)),
    "lax.convert_element_type": call(f(3), jnp.int32),
    "lax.dot_general": call(f(3, 4), f(4, 2), (((1,), (0,)), ((), ()))),
    "lax.dynamic_slice": call(f(5, 4), (1, 0), (2, 3)),
    "lax.dynamic_update_index_in_dim": call(f(5, 4), f(4), 1, 0),
    "lax.dynamic_update_slice": call(f(5, 4), f(2, 2), (1, 1)),
    "lax.dynamic_update_slice_in_dim": call(f(5, 4), f(2, 4), 1, 0),
    "lax.fft": call(c(8), jax.lax.FftType.FFT, (8,)),
    "lax.gather": call(f(5, 4), i(3, 1), rows, (1, 4)),
    "lax.index_take": call(f(5, 4), (i(3),), (0,)),
    "lax.pad": call(f(3), zero, [(1, 1, 0)]),
    "lax.ragged_dot": call(f(6, 4), f(2, 4, 3), groups),
    "lax.reduce": call(f(3, 3), zero, jax.lax.add, (0,)),
    "lax.reduce_and": call(i(3, 3), (0,)),
    "lax.reduce_or": call(i(3, 3), (0,)),
    "lax.reduce_precision": call(f(3), 8, 7),
    "lax.reduce_window": call(f(6), zero, jax.lax.add, (2,), (1,), "VALID"),
    "lax.reduce_xor": call(i(3, 3), (0,)),
    "lax.reshape": call(f(3, 4), (2, 6)),
    "lax.scatter": _scatter,
    "lax.scatter_add": _scatter,
    "lax.scatter_apply": call(f(5, 4), i(3, 1), jnp.sin, into, update_shape=(3, 4)),
    "lax.scatter_max": _scatter,
    "lax.scatter_min": _scatter,
    "lax.scatter_mul": _scatter,
    "lax.scatter_sub": _scatter,
    "lax.select": call(b(3), f(3), f(3)),
    "lax.slice": call(f(5), (1,), (4,)),
    "lax.split": call(f(6), (2, 4)),
    "lax.squeeze": call(f(1, 3), (0,)),
    "nn.glu": call(f(4)),
    "scipy.special.bessel_jn": call(positive(3), v=2),
    "scipy.special.hyp2f1": call(positive(3), positive(3), positive(3), positive(3)),
    "scipy.special.sph_harm_y": call(
        ("array", np.full((BATCH, 3), 2)), ("array", np.tile(np.arange(3), (BATCH, 1))), f(3), f(3), n_max=3
    ),
    "scipy.linalg.cho_solve": call((spd(3), True), f(3)),
    "scipy.linalg.eigh_tridiagonal": call(f(4), f(3), eigvals_only=True),
    "scipy.linalg.funm": call(spd(3), jnp.exp),
    "scipy.linalg.leslie": call(positive(3), positive(2)),
    "scipy.linalg.lu_solve": call((spd(3), pivots), f(3)),
    "scipy.ndimage.map_coordinates": call(f(4, 4), [f(3), f(3)], order=1),
}

# Not lifted over a name, and why.
EXCEPTIONS = {
    "numpy.trim_zeros": DATA,
    "numpy.frompyfunc": "JAX's own, of a function of scalars",
    "nn.scaled_dot_general": "block-scaled types of particular hardware",
    "nn.scaled_matmul": "block-scaled types of particular hardware",
    "lax.ragged_dot_general": "sampled through ragged_dot, which it generalises",
    **{
        f"scipy.linalg.{name}": NO_ARRAYS
        for name in ("dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal")
    },
    **{f"numpy.fft.{name}": NO_ARRAYS for name in ("fftfreq", "rfftfreq")},
    **{
        f"numpy.{name}": NO_ARRAYS
        for name in "bartlett blackman diag_indices eye hamming hanning identity indices tri tril_indices triu_indices".split()
    },
    **{f"lax.{name}": NO_ARRAYS for name in ("broadcasted_iota", "iota")},
    "scipy.special.bernoulli": NO_ARRAYS,
    "lax.linalg.cholesky_update": "JAX cannot vectorise it",
    # By name, or refused by name: tests/ops/namespaces/test_lax_namespace.py.
    **{
        f"lax.{name}": MESH
        for name in (
            *("pcast", "precv", "psend", "psum_scatter_start", "pswapaxes", "ragged_all_to_all", "with_sharding_constraint"),
        )
        if name in dir(jax.lax)  # JAX 0.12 has deprecated two of them, and has one more
    },
    **{f"lax.{name}": "states of generators, not keys" for name in ("rng_bit_generator", "rng_uniform")},
}

# Written by this package, with tests of their own for what named axes mean to them.
OWN_MEANING = {
    "numpy": {"arange", "array_repr", "array_str", "einsum", "empty", "full", "ones", "result_type", "zeros"},
    "lax": {
        "all_gather", "all_to_all", "associative_scan", "axis_index", "axis_size", "cond", "fori_loop", "map", "pbroadcast", "pmax",
        "pmean", "pmin", "ppermute", "pshuffle", "psum", "psum_scatter", "scan", "switch", "while_loop",
    },
}  # fmt: skip

FUNCTIONS = [
    f"{space}.{name}"
    for space, (ours_of, _) in ((label, spaces) for label, spaces in SPACES.items())
    for name in public(ours_of)
    if callable(getattr(ours_of, name)) and not isinstance(getattr(ours_of, name), (type, typing.NewType))
]


def is_sample(node):
    return isinstance(node, tuple) and len(node) == 2 and isinstance(node[0], str) and node[0] == "array"


def pick(sample, choose):
    return jax.tree.map(lambda leaf: choose(leaf[1]) if is_sample(leaf) else leaf, sample, is_leaf=is_sample)


def entries(function, sample, chosen=range(BATCH)):
    """JAX's function for each chosen entry along the name."""

    def run():
        results = []
        for entry in chosen:
            args, kwargs = pick(sample, lambda values, entry=entry: jnp.asarray(values[entry]))
            results.append(jax.tree.leaves(function(*args, **kwargs)))
        return [jnp.stack(leaves) for leaves in zip(*results, strict=True)]

    return run


def by_hand(function, sample):
    """What it gives; `None` if it does not take these arguments."""
    with contextlib.suppress(
        Exception
    ):  # not compiled as a whole: all entries, and the call without names, share JAX's programs
        return [np.asarray(leaf) for leaf in entries(function, sample)()] or None
    return None


def without_names(theirs, ours, sample):
    """For plain arrays an import swap changes nothing: not a value, a type, or a structure."""
    args, kwargs = pick(sample, lambda values: jnp.asarray(values[1]))
    have, want = ours(*args, **kwargs), theirs(*args, **kwargs)
    assert jax.tree.structure(have) == jax.tree.structure(want)
    for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert type(h) is type(w)
        assert getattr(h, "dtype", None) == getattr(w, "dtype", None)
        np.testing.assert_array_equal(h, w)


def over_names(ours, sample):
    """The leaves of the result, with the name in front."""
    args, kwargs = pick(sample, lambda values: nx.named(jnp.asarray(values), ["batch", ...]))
    leaves = jax.tree.leaves(ours(*args, **kwargs), is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))
    return [nx.positional(leaf, ["batch", ...]) if isinstance(leaf, nx.NamedArray) else leaf for leaf in leaves]


def compare(have, want):
    assert len(have) == len(want)
    for h, w in zip(have, want, strict=True):
        # What does not depend on the arrays (an index range, a shape) comes without the name.
        np.testing.assert_allclose(np.broadcast_to(h, w.shape), w, rtol=2e-3, atol=2e-3)


def functions_of(name):
    space, _, short = name.rpartition(".")
    return (getattr(module, short) for module in SPACES[space])


def samples_of(name):
    return [SPECIAL[name]] if name in SPECIAL else GENERIC


def is_lifted(name):
    theirs, ours = functions_of(name)
    return (
        ours is not theirs
        and name not in EXCEPTIONS
        and name.rpartition(".")[2] not in OWN_MEANING.get(name.rpartition(".")[0], ())
    )


LIFTED = [name for name in FUNCTIONS if is_lifted(name)]
CHUNK = 24
NO_SAMPLE = "no sample of arguments fits; add one to SPECIAL, or a reason to EXCEPTIONS"


def traceable(name):
    """The first sample with which JAX's function can be traced, if there is one."""
    theirs, _ = functions_of(name)
    for sample in samples_of(name):
        with contextlib.suppress(Exception):
            if jax.eval_shape(entries(theirs, sample, [0])):
                return sample
    return None


@pytest.mark.fast(2)
@pytest.mark.parametrize("first", range(0, len(LIFTED), CHUNK), ids=lambda first: f"{LIFTED[first]}-")
@pytest.mark.filterwarnings("ignore")
def test_takes_named_arrays(first):
    """Many functions in one program, of which one entry is compared; those that need concrete values one by one, with all entries."""
    samples = {name: traceable(name) for name in LIFTED[first : first + CHUNK]}
    for name in (name for name, sample in samples.items() if sample is None):
        takes_named_arrays(name)
    calls = [(*functions_of(name), sample) for name, sample in samples.items() if sample is not None]
    last = BATCH - 1
    want = jax.jit(lambda: [entries(theirs, sample, [last])() for theirs, _, sample in calls])()
    have = jax.jit(lambda: [over_names(ours, sample) for _, ours, sample in calls])()
    for name, h, w in zip((name for name, sample in samples.items() if sample is not None), have, want, strict=True):
        try:
            compare([np.asarray(leaf)[last:] if leaf.ndim == entry.ndim else leaf for leaf, entry in zip(h, w, strict=True)], w)
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"{name}: {error}") from error


def takes_named_arrays(name):
    theirs, ours = functions_of(name)
    for sample in samples_of(name):
        want = by_hand(theirs, sample)
        if want is not None:
            compare(over_names(ours, sample), want)
            without_names(theirs, ours, sample)
            return
    raise AssertionError(f"{name}: {NO_SAMPLE}")


@pytest.mark.full(6)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full(0)] if k % 6 else []) for k, name in enumerate(LIFTED)]
)
@pytest.mark.filterwarnings("ignore")
def test_takes_named_arrays_outside_of_jit(name):
    """All entries, and plain arrays; one function in six in `make test-all`: every function is compared in a program above."""
    takes_named_arrays(name)


def test_what_is_handed_through_is_known():
    """A function that is JAX's own here is one of those that `untouched` lists, so that none slips through by accident."""
    untouched = {
        f"{space}.{name}"
        for space, (theirs, ours) in SPACES.items()
        for name in public(theirs)
        if f"{space}.{name}" in FUNCTIONS and getattr(theirs, name) is getattr(ours, name)
    }
    assert {name.partition(".")[0] for name in untouched} <= {"numpy", "lax", "nn"}
    assert not untouched & {"numpy.sum", "numpy.sort", "lax.sort", "numpy.linalg.norm", "lax.psum"}


def test_every_name_resolves():
    for space, (theirs, ours) in SPACES.items():
        assert [name for name in public(theirs) if not hasattr(ours, name)] == [], space


def test_exceptions_and_samples_are_not_stale():
    stale = [name for name in itertools.chain(EXCEPTIONS, SPECIAL) if name not in FUNCTIONS]
    assert stale == [], "JAX of this version has no such function"
