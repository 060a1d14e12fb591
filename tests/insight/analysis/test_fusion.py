"""The memory traffic that `nx.explain` estimates, against programs compiled for a TPU.

The bytes were measured with the compiler of libtpu 0.0.42.1 for one v5e: operands and results of every fusion of the compiled HLO, a slice
as what it reads, loops times their iterations. Copies into the scratchpad memory of the chip, which overlap with computation, are not
counted: the fusion that reads them is.
"""

import jax
import jax.numpy as jnp
import pytest
from jax import lax, nn

import namedax as nx

S = jax.ShapeDtypeStruct
B16, F32, I32 = "bfloat16", "float32", "int32"


def softmax(x):
    return nn.softmax(x, -1)


def layernorm(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def rms(x, g):
    x32 = x.astype(F32)
    return (x32 * lax.rsqrt((x32**2).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * g


def attention(q, k, v):  # b h q d
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=F32) * 0.1
    return jnp.einsum("bhqk,bhkd->bhqd", nn.softmax(s, -1).astype(q.dtype), v)


def causal(q, k, v):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=F32) * 0.1
    n = s.shape[-1]
    s = jnp.where(jnp.arange(n)[:, None] >= jnp.arange(n), s, -1e30)
    return jnp.einsum("bhqk,bhkd->bhqd", nn.softmax(s, -1).astype(q.dtype), v)


def mlp(x, a, b):
    return nn.gelu(x @ a) @ b


def swiglu(x, a, c, b):
    return (nn.silu(x @ a) * (x @ c)) @ b


def rotary(x, s, c):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


H = 16


def layer(x, p, att=causal):
    b, t, e = x.shape
    h = rms(x, p["n1"])
    q, k, v = ((h @ p[n]).reshape(b, t, H, e // H).transpose(0, 2, 1, 3) for n in "qkv")
    o = att(q, k, v).transpose(0, 2, 1, 3).reshape(b, t, e)
    x = x + o @ p["o"]
    h = rms(x, p["n2"])
    return x + swiglu(h, p["a"], p["c"], p["b"])


def sq(f):
    return lambda *a: sum(jnp.sum(r.astype(F32) ** 2) for r in jax.tree.leaves(f(*a)))


def xent(x, w, y):
    l = (x @ w).astype(F32)
    return jnp.mean(nn.logsumexp(l, -1) - jnp.take_along_axis(l, y[:, None], -1)[:, 0])


def xent_onehot(l, y):
    return -jnp.mean(jnp.sum(nn.one_hot(y, l.shape[-1]) * nn.log_softmax(l, -1), -1))


def adam(p, m, v, g):
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


E_, T_, B_ = 2048, 2048, 4
P = {
    **dict.fromkeys(("n1", "n2"), S((E_,), B16)),
    **dict.fromkeys("qkvo", S((E_, E_), B16)),
    **dict.fromkeys("ac", S((E_, 4 * E_), B16)),
    "b": S((4 * E_, E_), B16),
}
X = S((B_, T_, E_), B16)
L = 8
PL = {k: S((L, *s.shape), s.dtype) for k, s in P.items()}


def layers(x, p, f=layer):
    return lax.scan(lambda c, q: (f(c, q), None), x, p)[0]


M = S((8192, 8192), F32)
MB = S((8192, 8192), B16)
V = S((8192,), F32)
VB = S((8192,), B16)
Q = [S((8, 16, 2048, 128), B16)] * 3
W1, W2 = S((2048, 8192), B16), S((8192, 2048), B16)
XM = S((8192, 2048), B16)


def g(f, *n):
    return jax.grad(sq(f), n or 0)


# Function, arguments, bytes accessed on a TPU.
PROGRAMS = {
    "elementwise chain": (lambda x: jnp.tanh(x * 2 + 1) * x, [M], 536870912),
    "expensive value, two results": (lambda x: (jnp.exp(x) + 1, jnp.exp(x) * 2), [M], 805306368),
    "expensive value, then sum and result": (lambda x: (jnp.exp(x).sum(-1), jnp.exp(x) * 2), [M], 536903680),
    "cheap value, two sums": (lambda x: ((x + 1).sum(-1), ((x + 1) ** 2).sum(-1)), [M], 268500992),
    "sum over rows and columns": (lambda x: (x.sum(0), x.sum(1)), [M], 268500992),
    "softmax": (softmax, [M], 1073905668),
    "softmax bf16": (softmax, [MB], 536952834),
    "softmax gradient": (g(softmax), [M], 1342636036),
    "layer norm": (layernorm, [M, V, V], 1074102276),
    "layer norm gradient": (g(layernorm, 0, 1, 2), [M, V, V], 1611726852),
    "rms norm": (rms, [MB, VB], 402800640),
    "rms norm gradient": (g(rms, 0, 1), [MB, VB], 671514624),
    "standardize columns": (lambda x: (x - x.mean(0)) / x.std(0), [M], 1074036740),
    "attention": (attention, Q, 4565499904),
    "causal attention": (causal, Q, 4573888512),
    "attention gradient": (g(attention, 0, 1, 2), Q, 16925065216),
    "causal attention gradient": (g(causal, 0, 1, 2), Q, 16941842432),
    "mlp": (mlp, [XM, W1, W2], 402653184),
    "mlp gradient": (g(mlp, 0, 1, 2), [XM, W1, W2], 1342177280),
    "swiglu gradient": (g(swiglu, 0, 1, 2, 3), [XM, W1, W1, W2], 2919235584),
    "dot, bias, relu, residual": (lambda x, w, b, r: nn.relu(x @ w + b) + r, [XM, W1, S((8192,), B16), MB], 335560704),
    "layer": (layer, [X, P], 5865066496),
    "layer gradient": (g(layer, 0, 1), [X, P], 13295353856),
    "layer gradient, remat": (g(jax.checkpoint(layer), 0, 1), [X, P], 18929733632),
    "scan of layers": (layers, [X, PL], 28398616968),
    "scan of layers, remat gradient": (g(lambda x, p: layers(x, p, jax.checkpoint(layer)), 1), [X, PL], 135739180240),
    "casts": (lambda x: (x.astype(F32) * 2).astype(B16).astype(F32).sum(-1), [MB], 134250496),
    "cast, two uses": (lambda x: (lambda y: (y.sum(0), (y * 2).astype(B16)))(x.astype(F32)), [MB], 268468224),
    "one hot times table": (
        lambda i, t: nn.one_hot(i, 32768, dtype=B16) @ t,
        [S((4096,), I32), S((32768, 1024), B16)],
        75513856,
    ),
    "embedding": (lambda i, t: t[i] * 2.0, [S((65536,), I32), S((32768, 1024), B16)], 470548480),
    "embedding gradient": (
        lambda i, t: jax.grad(lambda t: jnp.sum(t[i].astype(F32) ** 2))(t),
        [S((65536,), I32), S((32768, 1024), B16)],
        875823106,
    ),
    "rotary": (rotary, [S((8, 2048, 16, 128), B16), S((2048, 1, 64), B16), S((2048, 1, 64), B16)], 270008320),
    "rotary gradient": (
        lambda x, s, c: jax.grad(lambda x: jnp.sum(rotary(x, s, c).astype(F32) ** 2))(x),
        [S((8, 2048, 16, 128), B16), S((2048, 1, 64), B16), S((2048, 1, 64), B16)],
        538968064,
    ),
    "adam": (adam, [M, M, M, M], 1879048192),
    "dropout": (
        lambda k, x: jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(k), 0.9, x.shape), x / 0.9, 0),
        [S((2,), "uint32"), M],
        537067572,
    ),
    "transpose, add": (lambda x, y: x.T + y, [M, M], 1342177280),
    "concatenate, scale": (lambda x, y: jnp.concatenate([x, y], 0) * 2, [M, M], 1073741824),
    "cross entropy": (xent, [XM, S((2048, 32768), B16), S((8192,), I32)], 2315927568),
    "cross entropy gradient": (jax.grad(xent, (0, 1)), [XM, S((2048, 32768), B16), S((8192,), I32)], 2651258880),
    "one-hot loss gradient": (jax.grad(xent_onehot), [S((8192, 32768), F32), S((8192,), I32)], 4295327748),
    "cumsum": (lambda x: jnp.cumsum(x, -1), [M], 3235938308),
    "max pool of chain": (lambda x: jnp.max(jnp.exp(x) * 2, 0), [M], 268468224),
    "mask and count": (lambda x, m: jnp.where(m, x, 0).sum(-1) / m.sum(-1), [M, S((8192, 8192), "bool")], 402817024),
    "shift and mix": (lambda x, m: x * m + jnp.pad(x, ((1, 0), (0, 0)))[:-1] * (1 - m), [M, V], 537001984),
}
# What the guide "Communication and memory reports" says of kinds that differ by more than 30 percent.
BEYOND = {
    # It copies heads into another layout.
    "layer": 1 / 1.35,
    # The sum of a softmax is computed in the same kernel as the product with the values.
    "attention": 1.5, "causal attention": 1.5,
    # A TPU does not fuse a gather with what follows.
    "embedding": 1 / 2.5, "embedding gradient": 1 / 1.7, "cross entropy": 1 / 1.9,
    # The scatter of one element of each row is a comparison there.
    "cross entropy gradient": 2.3,
    # It concatenates, and transposes, in kernels of their own.
    "rotary": 1 / 2.1, "rotary gradient": 1 / 4.1, "transpose, add": 1 / 1.7,
    # It sums in several passes over all of the array.
    "cumsum": 1 / 6.1,
}  # fmt: skip
HEAVY = {name for name in PROGRAMS if "layer" in name and "norm" not in name}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.fast(0)] * (name in HEAVY)) for name in PROGRAMS])
def test_memory_traffic_is_that_of_a_program_compiled_for_a_tpu(name):
    function, args, measured = PROGRAMS[name]
    ratio = nx.explain(function, *args).bytes_accessed / measured
    beyond = BEYOND.get(name, 1.0)
    assert min(1 / 1.3, beyond) <= ratio <= max(1.3, beyond)


def bytes_of(function, *args):
    return nx.explain(function, *args).bytes_accessed


X = S((256, 512), F32)
ALL, ROWS = 256 * 512 * 4, 256 * 4


def test_a_chain_reads_its_operand_once_and_writes_its_result():
    assert bytes_of(lambda x: jnp.tanh(x * 2 + 1) * x, X) == 2 * ALL


def test_a_softmax_reads_its_operand_three_times():
    # The maximum, the sum and the result. A row of maxima and of sums is written once each and read by what follows.
    assert bytes_of(softmax, X) == pytest.approx(4 * ALL + 5 * ROWS, abs=2 * ROWS)


def test_reductions_of_one_array_share_a_kernel():
    assert bytes_of(lambda x: (x.sum(0), x.sum(1), (x * x).sum()), X) == ALL + 512 * 4 + ROWS + 4


def test_a_product_computes_what_follows_in_its_kernel():
    w = S((512, 128), F32)
    assert bytes_of(lambda x, w, b: nn.relu(x @ w + b), X, w, S((128,), F32)) == ALL + 512 * 128 * 4 + 128 * 4 + 256 * 128 * 4


def test_a_product_that_two_kernels_read_is_written():
    w = S((512, 128), F32)
    result = 256 * 128 * 4
    # The product writes itself and the maxima. The difference reads it, and the maxima.
    wanted = (ALL + 512 * 128 * 4 + result + ROWS) + (result + ROWS + result)
    assert bytes_of(lambda x, w: x @ w - (x @ w).max(-1, keepdims=True), X, w) == wanted


def test_slices_are_read_in_part():
    assert bytes_of(lambda x: x[:64] + 1, X) == ALL // 4 * 2
    assert bytes_of(lambda x: x[:128] + x[128:], X) == ALL + ALL // 2
    assert bytes_of(lambda x: lax.dynamic_slice(x, (3, 0), (64, 512)) * 2, X) == ALL // 4 * 2


def test_the_kernel_of_a_product_counts_at_the_product():
    report = nx.explain(lambda x, w: nn.relu(x @ w), X, S((512, 128), F32))
    assert [step.kind for step in report.operations if step.bytes] == ["dot_general"]


def test_a_scan_counts_the_bytes_of_each_iteration():
    once = bytes_of(lambda c, x: c * x, S((512,), F32), S((512,), F32))
    assert bytes_of(lambda c, x: lax.scan(lambda c, x: (c * x, None), c, x)[0], S((512,), F32), X) == 256 * once


def test_a_long_chain_is_one_kernel():
    def chain(x):
        for _ in range(1100):
            x = jnp.sin(x)
        return x

    assert bytes_of(chain, X) == 2 * ALL
