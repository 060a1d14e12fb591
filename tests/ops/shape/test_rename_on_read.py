"""A parameter that is stored in parts over the data axis (`embed_fsdp`) and read whole (`embed`): one all-gather, and its gradient one
reduce-scatter, whatever operation reads it. Oracles are `jnp` for values, and `jax.shard_map` programs written by hand for what is sent.
"""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from tests import make
from tests.harness import array

READ = {"embed_fsdp": "embed"}
X, SCALE, BIAS, TABLE = array(16, 24), array(24, seed=1), array(24, seed=2), array(40, 24, seed=3)
IDS = make.asarray(np.random.default_rng(0).integers(0, 40, 16))
DATA = {"batch": "data", "embed_fsdp": "data"}
BOTH = {"batch": ("data", "model"), "embed_fsdp": "data"}
TENSOR = {**DATA, "vocab": "model"}


def read(p):
    return nx.rename(p, READ)


def gathered(p, dim=0, also=()):
    """By hand: whole and varying, so that the gradient is reduce-scattered; over other mesh axes it is reduced when it is small."""
    return lax.all_gather(lax.pcast(p, also, to="varying") if also else p, "data", axis=dim, tiled=True, to="varying")


def rms(x):
    return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def layer_norm(x):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)


def rows_by_hand(table, ids):
    mine = ids - lax.axis_index("model") * table.shape[0]
    here = (mine >= 0) & (mine < table.shape[0])
    return lax.psum(jnp.where(here[:, None], table[jnp.where(here, mine, 0)], 0), "model")


# The body by name, the body by hand, the plain function; the arrays (parameters first) with their names; the assignment; what the
# result is called.
VECTOR, MATRIX, ACTIVATION, TOKENS = ["embed_fsdp"], ["vocab", "embed_fsdp"], ["batch", "embed"], ["batch"]
OUT = ["batch", "embed"]
CASES = {
    "product": (
        lambda s, x: x * read(s),
        lambda s, x: x * gathered(s),
        lambda s, x: x * s,
        ((SCALE, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "product, the parameter first": (
        lambda s, x: (1 + nx.exp(read(s))) * x,
        lambda s, x: (1 + jnp.exp(gathered(s))) * x,
        lambda s, x: (1 + jnp.exp(s)) * x,
        ((SCALE, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "used twice": (
        lambda s, x: (lambda r: x * r + nx.sin(x) * r**2)(read(s)),
        lambda s, x: (lambda r: x * r + jnp.sin(x) * r**2)(gathered(s)),
        lambda s, x: x * s + jnp.sin(x) * s**2,
        ((SCALE, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "where": (
        lambda s, x: nx.where(x > 0, x, read(s)),
        lambda s, x: jnp.where(x > 0, x, gathered(s)),
        lambda s, x: jnp.where(x > 0, x, s),
        ((SCALE, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "over two mesh axes": (
        lambda s, x: x * read(s),
        lambda s, x: x * gathered(s, also=("model",)),
        lambda s, x: x * s,
        ((SCALE, VECTOR), (X, ACTIVATION)),
        BOTH,
        OUT,
    ),
    "rms_norm": (
        lambda s, x: nx.nn.rms_norm(x, "embed", scale=read(s)),
        lambda s, x: rms(x) * gathered(s),
        lambda s, x: rms(x) * s,
        ((SCALE, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "layer_norm": (
        lambda s, b, x: nx.nn.layer_norm(x, "embed", scale=read(s), bias=read(b)),
        lambda s, b, x: layer_norm(x) * gathered(s) + gathered(b),
        lambda s, b, x: layer_norm(x) * s + b,
        ((SCALE, VECTOR), (BIAS, VECTOR), (X, ACTIVATION)),
        DATA,
        OUT,
    ),
    "layer_norm over two mesh axes": (
        lambda s, b, x: nx.nn.layer_norm(x, "embed", scale=read(s), bias=read(b)),
        lambda s, b, x: layer_norm(x) * gathered(s, also=("model",)) + gathered(b, also=("model",)),
        lambda s, b, x: layer_norm(x) * s + b,
        ((SCALE, VECTOR), (BIAS, VECTOR), (X, ACTIVATION)),
        BOTH,
        OUT,
    ),
    "take": (
        lambda t, i: nx.take(read(t), i, "vocab"),
        lambda t, i: gathered(t, 1)[i],
        lambda t, i: t[i],
        ((TABLE, MATRIX), (IDS, TOKENS)),
        DATA,
        OUT,
    ),
    "index": (
        lambda t, i: read(t)[{"vocab": i}],
        lambda t, i: gathered(t, 1)[i],
        lambda t, i: t[i],
        ((TABLE, MATRIX), (IDS, TOKENS)),
        DATA,
        OUT,
    ),
    "take from a sharded vocabulary": (
        lambda t, i: nx.take(read(t), i, "vocab"),
        lambda t, i: rows_by_hand(gathered(t, 1), i),
        lambda t, i: t[i],
        ((TABLE, MATRIX), (IDS, TOKENS)),
        TENSOR,
        OUT,
    ),
    "take and unembed": (
        lambda t, i: (lambda e: nx.dot(nx.tanh(nx.take(e, i, "vocab")), e, "embed"))(read(t)),
        lambda t, i: (lambda e: jnp.tanh(e[i]) @ e.T)(gathered(t, 1)),
        lambda t, i: jnp.tanh(t[i]) @ t.T,
        ((TABLE, MATRIX), (IDS, TOKENS)),
        DATA,
        ["batch", "vocab"],
    ),
    # Read in three places, by `rename` and by einsum: still once.
    "take and unembed, read thrice": (
        lambda t, i: nx.einsum(
            "{batch,embed},{vocab,embed:embed_fsdp}->{batch,vocab}",
            nx.tanh(nx.take(read(t), i, "vocab")) + nx.take(read(t), i - 1, "vocab"),
            t,
        ),
        lambda t, i: (lambda e: (jnp.tanh(e[i]) + e[i - 1]) @ e.T)(gathered(t, 1)),
        lambda t, i: (jnp.tanh(t[i]) + t[i - 1]) @ t.T,
        ((TABLE, MATRIX), (IDS, TOKENS)),
        DATA,
        ["batch", "vocab"],
    ),
    # The rows that were looked up instead of the table: fewer bytes where there are fewer tokens than words.
    "take, then read": (
        lambda t, i: read(nx.take(t, i, "vocab")),
        lambda t, i: lax.all_gather(t[i], "data", axis=1, tiled=True, to="invarying"),
        lambda t, i: t[i],
        ((TABLE, MATRIX), (IDS, TOKENS)),
        {"batch": "model", "embed_fsdp": "data"},
        OUT,
    ),
    # The same where the tokens are on the mesh axis that stores the table: all of them are looked up everywhere, and then both change places.
    "take, then exchange": (
        lambda t, i: nx.rename(nx.take(t, nx.rename(i, {"batch": "all"}), "vocab"), {"all": "batch", **READ}),
        lambda t, i: lax.all_to_all(t[lax.all_gather(i, "data", tiled=True)], "data", 0, 1, tiled=True),
        lambda t, i: t[i],
        ((TABLE, MATRIX), (IDS, TOKENS)),
        DATA,
        OUT,
    ),
}
LOOKED_UP_FIRST = ("take, then read", "take, then exchange")


def mesh_of(kind="Auto"):
    axis_type = getattr(jax.sharding.AxisType, kind)
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(axis_type,) * 2)


def traffic(f, *args):
    return Counter((c.kind, c.bytes, c.group_size) for c in hlo.collectives(jax.jit(f).lower(*args).compile()))


def projected(f):
    return lambda *args: jnp.sum(jnp.sin(f(*args)) * jnp.arange(1.0, 17)[:, None])


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("case", CASES)
def test_as_by_hand(case):
    named, hand, plain, given, resources, out = CASES[case]
    args, names = zip(*given, strict=True)
    argnums = tuple(i for i, axes in enumerate(names) if "embed_fsdp" in axes)
    mesh = mesh_of()
    f = nx.xmap(named, names, out, axis_resources=resources, mesh=mesh)
    specs = [P(*(resources.get(name) for name in axes)) for axes in (*names, out)]
    g = jax.shard_map(hand, mesh=mesh, in_specs=tuple(specs[:-1]), out_specs=specs[-1])

    np.testing.assert_allclose(f(*args), plain(*args), rtol=1e-4, atol=1e-5)
    assert traffic(f, *args) == traffic(g, *args)
    have, want = (jax.grad(projected(h), argnums) for h in (f, plain))
    for h, w in zip(jax.jit(have)(*args), want(*args), strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4)
    by_name, by_hand = (traffic(jax.grad(projected(h), argnums), *args) for h in (f, g))
    assert by_name == by_hand
    # One reduce-scatter of each parameter; none where the rows are moved, whose transpose is a slice or another exchange.
    scattered = sum(n for (kind, *_), n in by_name.items() if kind == "reduce-scatter")
    assert scattered == (0 if case in LOOKED_UP_FIRST else len(argnums))


@pytest.mark.fast(1)
@pytest.mark.parametrize("case", ["over two mesh axes", "layer_norm over two mesh axes", "take from a sharded vocabulary"])
def test_within_the_body_and_on_an_explicit_mesh(case):
    named, _, plain, given, resources, out = CASES[case]
    args, names = zip(*given, strict=True)
    argnums = tuple(i for i, axes in enumerate(names) if "embed_fsdp" in axes)

    def loss(*args):
        return nx.sum(nx.sin(named(*args)), tuple(out))

    want = jax.jit(jax.grad(lambda *args: jnp.sum(jnp.sin(plain(*args))), argnums))(*args)
    mesh, out_axes = mesh_of("Explicit"), tuple(names[i] for i in argnums)
    with jax.set_mesh(mesh):
        f = nx.xmap(jax.grad(loss, argnums), names, out_axes, axis_resources=resources, mesh=mesh)
        for h, w in zip(f(*args), want, strict=True):
            np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4)
        kinds = Counter(kind for kind, *_ in traffic(f, *args).elements())
    assert kinds["all-gather"] == kinds["reduce-scatter"] == len(argnums)


def test_a_parameter_that_was_not_renamed():
    """On the data axis it meets the batch; the message says what to write."""
    meets = nx.errors.PlacementConflictError, r"'batch' and 'embed_fsdp' meet in one value.*nx\.rename"
    lacks = (
        nx.errors.AxisNotFoundError,
        r"scale, .*, has the axis 'embed_fsdp', which .* lacks\. Did you mean 'embed'\? Rename it",
    )
    for named, (kind, words) in ((lambda s, x: x * s, meets), (lambda s, x: nx.nn.rms_norm(x, "embed", scale=s), lacks)):
        f = nx.xmap(named, (VECTOR, ACTIVATION), None, axis_resources=DATA, mesh=mesh_of())
        with pytest.raises(kind, match=words):
            f(SCALE, X)
