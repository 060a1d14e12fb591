"""What XLA's CPU backend cannot do in a mapped region: it aborts the process, or fails, so that such programs must not be made.

Sums of `bfloat16` in a region that leaves a mesh axis to the compiler: that it aborts cannot be tried here; which sums a program and its
gradient have can be read, and programs are run in a process of their own. Fourier transforms of operands in another layout.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import Placement, make_mesh

IN_AXES = (["b", "k"], ["k", "o"], ["b"])
ROWS = np.array([1, 0, 3, 7])
# Programs of x {b, k}, w {k, o} and v {b}, whose gradients have sums that JAX makes: transposes of casts, of gathers, custom rules.
PROGRAMS = {
    "sum": lambda x, w, v: nx.sum(x, "b"),
    "mean": lambda x, w, v: nx.mean(x, ("b", "k"), where=x > 0),
    "dot": lambda x, w, v: nx.dot(x, v, "b") + nx.sum(nx.dot(x, w, "k"), ("b", "o")),
    "max": lambda x, w, v: nx.max(x, "b") * nx.max_with_index(x, "b").values,
    "var": lambda x, w, v: nx.var(x, "b") + nx.logsumexp(x, "b"),
    "softmax": lambda x, w, v: nx.nn.softmax(x, "b") * nx.nn.log_softmax(x, "b"),
    "layer_norm": lambda x, w, v: nx.nn.layer_norm(x, "b"),
    "gathered": lambda x, w, v: nx.dot(nx.rename(x, {"b": "c"}), x, "k"),
    "gathered whole": lambda x, w, v: nx.sum(nx.rename(x, {"b": "c"}) ** 2, "c"),
    "scattered": lambda x, w, v: nx.lax.psum_scatter(nx.lax.all_gather(x, "b") * x["k", 0], "b"),
    "inside": lambda x, w, v: jax.grad(lambda w: nx.sum(nx.tanh(nx.dot(x, w, "k")) * v, ("b", "o")))(w),
    "scanned": lambda x, w, v: nx.fold(jax.checkpoint(lambda c, w: nx.tanh(c * w) + nx.sum(c, "b")), x, w, axis="o"),
    "entries": lambda x, w, v: nx.scan(lambda c, x: (nx.tanh(c + x * w), c), 0.0, x, axis="b")[1],
    "indexed": lambda x, w, v: nx.take(x, nx.named(ROWS, ["q"]), "b") * x["b", 3] + x.at["b", 1].set(w["o", 2])["b", 1],
    "sorted": lambda x, w, v: nx.sort(x, "b") * nx.cumsum(x, "b"),
    "branches": lambda x, w, v: nx.cond(nx.sum(v, "b") > 0, lambda x, w: nx.sum(x, "b"), lambda x, w: w["o", 0], x, w),
    "lifted": lambda x, w, v: nx.nmap(lambda x, w: jnp.sin(x) * w)(x, w),
}  # fmt: skip


def inputs(dtype="bfloat16"):
    rng = np.random.default_rng(7)
    return tuple(jnp.asarray(rng.normal(size=shape), dtype) for shape in ((8, 4), (4, 6), (8,)))


def value_and_gradients(program, **options):
    mapped = nx.xmap(program, IN_AXES, None, **options)

    def loss(*args):
        return sum(jnp.sum(jnp.sin(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(mapped(*args)))

    return jax.value_and_grad(loss, argnums=(0, 1, 2))


def narrow_sums(jaxpr):
    """The all-reduces and reduce-scatters of `bfloat16` in a program, and how many there are of all types."""
    found, count = [], 0
    for eqn in jaxpr.eqns:
        if any(word in eqn.primitive.name for word in ("psum", "reduce_scatter", "pmax", "pmin")):
            count += 1
            found += [str(eqn) for var in eqn.invars if var.aval.dtype == jnp.bfloat16]
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                more, n = narrow_sums(inner)
                found, count = found + more, count + n
    return found, count


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"b": "x"}, {"b": "x", "k": nx.SerialLoop(2)}, {"k": "y"}], ids=str)
def test_no_sum_is_narrow(resources):
    skipped = ("sorted", "branches") if len(resources) > 1 else ()  # of what cannot be done in steps
    total = 0
    for label, program in PROGRAMS.items():
        if label in skipped:
            continue
        run = value_and_gradients(program, mesh=make_mesh((4, 2)), axis_resources=resources)
        found, count = narrow_sums(jax.make_jaxpr(run)(*inputs()).jaxpr)
        assert not found, (label, found)
        total += count
    assert total >= 10


def test_over_all_mesh_axes_sums_are_as_they_were():
    mesh = make_mesh((8,))
    found, _ = narrow_sums(
        jax.make_jaxpr(nx.xmap(PROGRAMS["sum"], IN_AXES, ["k"], mesh=mesh, axis_resources={"b": "x"}))(*inputs()).jaxpr
    )
    assert len(found) == 1


def programs_agree(*labels):
    """Runs programs on a mesh with an idle axis, Auto or Explicit, against unmapped ones in float32; called in another process."""
    for kind in ("auto", "explicit"):
        mesh = make_mesh((4, 2), kind)
        for label in labels:
            want = value_and_gradients(PROGRAMS[label])(*inputs("float32"))
            with jax.set_mesh(mesh):
                have = value_and_gradients(PROGRAMS[label], mesh=mesh, axis_resources={"b": "x"})(*inputs())
            for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
                np.testing.assert_allclose(np.asarray(h, np.float32), w, rtol=0.1, atol=0.1 * np.abs(w).max() + 0.02)


@pytest.mark.fast(0)
def test_nothing_aborts():
    labels = ("sum", "dot", "softmax", "gathered", "inside", "branches")
    code = f"from tests.core.test_cpu_backend import programs_agree; programs_agree{labels!r}; print('done')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "done", done.stderr[-2000:]


# --- Fourier transforms ---------------------------------------------------------------------------------------------
# Of x {b, c, k}: (named, positional, out_axes); a transform changes a sharded axis' size only under another name.

FFT, PLAIN = nx.numpy.fft, jnp.fft
TRANSFORMS = {
    "fft": (lambda x: FFT.ifft(FFT.fft(x, axis="b") * nx.exp(x), axis="b"), lambda x: PLAIN.ifft(PLAIN.fft(x, axis=0) * jnp.exp(x), axis=0)),
    "fftn": (
        lambda x: FFT.ifftn(FFT.fftn(x, axes=("b", "c", "k")) * x, axes=("k", "b")),
        lambda x: PLAIN.ifftn(PLAIN.fftn(x, axes=(0, 1, 2)) * x, axes=(2, 0)),
    ),
    "rfft": (
        lambda x: FFT.irfft(FFT.rfft(nx.rename(x, {"b": "q"}), axis="q"), 8, axis="q"),
        lambda x: PLAIN.irfft(PLAIN.rfft(x, axis=0), 8, axis=0),
        ["q", "c", "k"],
    ),
    "hfft": (
        lambda x: FFT.ihfft(FFT.hfft(FFT.fft(nx.rename(x, {"b": "q"}), axis="q"), 8, axis="q"), axis="q"),
        lambda x: PLAIN.ihfft(PLAIN.hfft(PLAIN.fft(x, axis=0), 8, axis=0), axis=0),
        ["q", "c", "k"],
    ),
    "dct": (
        lambda x: nx.scipy.fft.idct(nx.tanh(nx.scipy.fft.dct(x, axis="b")), axis="b"),
        lambda x: jax.scipy.fft.idct(jnp.tanh(jax.scipy.fft.dct(x, axis=0)), axis=0),
    ),
    "lifted": (
        lambda x: nx.nmap(lambda rows: PLAIN.ifft(PLAIN.fft(rows, axis=0) ** 2, axis=0))(nx.stack([x, nx.exp(x), 2 * x], 0)),
        lambda x: PLAIN.ifft(PLAIN.fft(jnp.stack([x, jnp.exp(x), 2 * x]), axis=0) ** 2, axis=0),
        [None, "b", "c", "k"],
    ),
    "gradient": (
        lambda x: jax.grad(lambda x: nx.sum(nx.abs(FFT.ifft(FFT.fft(x, axis="b") * x, axis="b")) ** 2, ("b", "c", "k")))(x),
        jax.grad(lambda x: jnp.sum(jnp.abs(PLAIN.ifft(PLAIN.fft(x, axis=0) * x, axis=0)) ** 2)),
    ),
}  # fmt: skip
LAYOUTS = [
    Placement("all", (8,), (("b", "x"),)),
    Placement("both", (4, 2), (("b", "x"), ("k", "y")), "explicit"),
    Placement("all", (8,), (("b", "x"),), "auto", "auto"),
]


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", LAYOUTS, ids=str)
def test_fourier_transforms_along_a_sharded_name(placement):
    x = jnp.asarray(np.random.default_rng(3).normal(size=(8, 3, 4)), jnp.float32)
    mapped = nx.xmap(
        lambda x: {label: named(x) for label, (named, *_) in TRANSFORMS.items()},
        (["b", "c", "k"],),
        {label: rest[0] if rest else ["b", "c", "k"] for label, (_, _, *rest) in TRANSFORMS.items()},
        **placement.options,
    )

    def plain(x):
        return {label: of_positions(x) for label, (_, of_positions, *_) in TRANSFORMS.items()}

    def loss(f):
        return lambda x: sum(jnp.sum(jnp.sin(leaf.real) + leaf.imag**2) for leaf in jax.tree.leaves(f(x)))

    with placement.context():
        have, gradient = mapped(x), jax.jit(jax.grad(loss(mapped)))(x)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4 * np.abs(w).max()), have, plain(x))
    want = jax.jit(jax.grad(loss(plain)))(x)
    np.testing.assert_allclose(gradient, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
