"""Short programs of many kinds, each with a layout on eight devices: models, training steps, algorithms of linear algebra, simulations.

A program is a function of named arrays, the axes of its arguments, and `axis_resources` on a mesh (`x` of 4 or 8, `y` of 2). An argument is a
dictionary from names to sizes; `ints(n, ...)` is an array of integers below n.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx

relu, softmax, tanh = nx.nn.relu, nx.nn.softmax, nx.tanh


@dataclasses.dataclass(frozen=True)
class Ints:
    """Integers below `below`, of these axes."""

    below: int
    axes: dict


def ints(below, **axes):
    return Ints(below, axes)


@dataclasses.dataclass(frozen=True)
class Program:
    function: Callable
    arguments: tuple
    resources: dict
    mesh: tuple = (4, 2)

    def values(self, scale=1):
        """The arguments: named arrays. The mapped axes are `scale` times as long, and so is `m`, a second name for `n`."""
        rng = np.random.default_rng(0)
        grown = {*self.resources} | ({"m"} if "n" in self.resources else set())
        found = []
        for axes in self.arguments:
            below = axes.below if isinstance(axes, Ints) else None
            names = axes.axes if isinstance(axes, Ints) else axes
            names = {name: size * (scale if name in grown else 1) for name, size in names.items()}
            shape = tuple(names.values())
            data = rng.integers(0, below, shape) if below else rng.normal(size=shape).astype("float32") / 8
            found.append(nx.named(jnp.asarray(data), list(names)))
        return found

    def mapped(self):
        mesh = jax.make_mesh(self.mesh, ("x", "y")[: len(self.mesh)], axis_types=(jax.sharding.AxisType.Auto,) * len(self.mesh))
        return nx.xmap(self.function, axis_resources=self.resources, mesh=mesh)


PROGRAMS = {}


def program(name, *arguments, mesh=(4, 2), **resources):
    def register(function):
        PROGRAMS[name] = Program(function, arguments, resources, mesh)
        return function

    return register


# --- networks -------------------------------------------------------------------------------------------------------


@program(
    "gated MLP, training", {"e": 128, "h": 512}, {"e": 128, "h": 512}, {"h": 512, "o": 128}, {"b": 64, "e": 128}, b="x", h="y"
)
def gated_mlp(w, v, u, x):
    def loss(w, v, u, x):
        h = nx.nn.silu(nx.dot(x, w, "e")) * nx.dot(x, v, "e")
        return nx.mean(nx.square(nx.dot(h, u, "h")), ...)

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(w, v, u, x)


@program("mixer block", {"t": 64, "s": 128}, {"e": 64, "h": 256}, {"b": 32, "t": 64, "e": 64}, b="x", h="y")
def mixer(tokens, channels, x):
    y = nx.dot(nx.nn.gelu(nx.dot(x, tokens, "t")), tokens, "s")
    y = x + y
    return y + nx.dot(nx.nn.gelu(nx.dot(y, channels, "e")), channels, "h")


@program(
    "residual MLP in a scan, training",
    {"l": 6, "i": 128, "h": 256},
    {"l": 6, "h": 256, "o": 128},
    {"b": 64, "i": 128},
    b="x",
    h="y",
)
def residual(w, u, x):
    def loss(w, u):
        def layer(x, ws):
            return x + nx.rename(nx.dot(relu(nx.dot(x, ws[0], "i")), ws[1], "h"), {"o": "i"}), ()

        return nx.mean(nx.square(nx.scan(layer, x, (w, u), axis="l")[0]), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, u)


@program("convolution block", {"c": 16, "d": 16, "u": 3, "v": 3}, {"b": 32, "i": 16, "j": 16, "c": 16}, b="x")
def convolutions(w, x):
    h = nx.conv(x, w, ("i", "j"), kernel_axis=("u", "v"), features_in="c", features_out="d")
    return x + nx.rename(relu(h), {"d": "c"})


@program("LSTM", {"k": 64, "h": 64, "g": 4}, {"z": 64, "h": 64, "g": 4}, {"t": 16, "b": 64, "k": 64}, b="x")
def lstm(w, u, x):
    def step(state, xt):
        h, c = state
        gates = nx.dot(xt, w, "k") + nx.dot(nx.rename(h, {"h": "z"}), u, "z")
        i, f, o, g = (gates["g", n] for n in range(4))
        c = nx.nn.sigmoid(f) * c + nx.nn.sigmoid(i) * tanh(g)
        return (nx.nn.sigmoid(o) * tanh(c), c), ()

    zero = nx.zeros(named_shape={"b": x.named_shape["b"], "h": 64})
    return nx.scan(step, (zero, zero), x, axis="t")[0][0]


@program("GRU, training", {"k": 64, "h": 64}, {"z": 64, "h": 64}, {"t": 16, "b": 64, "k": 64}, b="x")
def gru(w, u, x):
    zero = nx.zeros(named_shape={"b": x.named_shape["b"], "h": 64})

    def loss(w, u):
        def step(h, xt):
            old = nx.dot(nx.rename(h, {"h": "z"}), u, "z")
            gate = nx.nn.sigmoid(nx.dot(xt, w, "k") + old)
            return gate * h + (1 - gate) * tanh(old), ()

        return nx.mean(nx.square(nx.scan(step, zero, x, axis="t")[0]), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, u)


@program("U-Net block", {"c": 32, "d": 64}, {"d": 64, "e": 32}, {"b": 32, "i": 64, "c": 32}, b="x", d="y")
def unet(down, up, x):
    half = nx.mean(nx.split_axis(x, "i", {"half": 32, "pair": 2}), "pair")
    low = nx.rename(nx.dot(relu(nx.dot(half, down, "c")), up, "d"), {"e": "c"})
    return x + nx.take(low, nx.arange(64, axis="i") // 2, "half")


@program(
    "ViT block, training", {"e": 64, "n": 4, "d": 16}, {"n": 4, "d": 16, "o": 64}, {"b": 32, "t": 64, "e": 64}, b="x", n="y"
)
def vit(w, u, x):
    def loss(w, u):
        q = nx.dot(x, w, "e")
        k = nx.rename(q, {"t": "s"})
        p = softmax(nx.dot(q, k, "d") / 4, "s")
        out = nx.dot(nx.dot(p, k, "s"), u, ["n", "d"])
        return nx.mean(nx.square(x + nx.rename(out, {"o": "e"})), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, u)


@program("top-1 experts", {"e": 64, "x": 8}, {"x": 8, "e": 64, "o": 64}, {"t": 128, "e": 64}, t="x", o="y")
def top1(router, w, tokens):
    gate = softmax(nx.dot(tokens, router, "e"), "x")
    best = nx.max(gate, "x")
    chosen = nx.where(gate >= best, gate, 0.0)
    return nx.einsum("{t,x},{x,e,o},{t,e}->{t,o}", chosen, w, tokens)


@program("experts over devices, training", {"e": 64, "x": 8}, {"x": 8, "e": 64, "o": 64}, {"t": 128, "e": 64}, x="x", o="y")
def experts(router, w, tokens):
    def loss(router, w):
        gate = softmax(nx.dot(tokens, router, "e"), "x")
        return nx.mean(nx.square(nx.dot(nx.dot(tokens, w, "e"), gate, "x")), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(router, w)


@program("state space scan", {"e": 64}, {"e": 64, "n": 16}, {"t": 64, "b": 32, "e": 64}, b="x", e="y")
def state_space(rate, w, x):
    def step(h, xt):
        h = h * nx.exp(-nx.nn.softplus(rate)) + xt * w
        return h, nx.sum(h, "n")

    start = nx.zeros(named_shape={"b": x.named_shape["b"], "e": x.named_shape["e"], "n": 16})
    return nx.scan(step, start, x, axis="t")[1]


@program("linear attention", {"e": 64, "d": 32}, {"e": 64, "d": 32}, {"b": 32, "t": 128, "e": 64}, b="x", t="y")
def linear_attention(w, v, x):
    q, k = nx.exp(nx.dot(x, w, "e")), nx.exp(nx.dot(x, v, "e"))
    memory = nx.dot(k, x, "t")
    return nx.dot(q, memory, "d") / nx.dot(q, nx.sum(k, "t"), "d")


@program("graph network", {"f": 64, "o": 64}, {"n": 256, "f": 64}, {"n": 256, "m": 256}, n="x", o="y")
def graph(w, h, adjacency):
    messages = nx.dot(nx.rename(h, {"n": "m"}), adjacency, "m")
    return relu(nx.dot(messages / (1 + nx.sum(nx.abs(adjacency), "m")), w, "f"))


@program(
    "variational autoencoder, training",
    {"k": 128, "z": 32},
    {"z": 32, "k": 128},
    {"b": 128, "k": 128},
    {"b": 128, "z": 32},
    b="x",
    k="y",
)
def autoencoder(w, u, x, noise):
    def loss(w, u):
        mean = nx.dot(x, w, "k")
        z = mean + noise * nx.exp(-nx.square(mean))
        return nx.mean(nx.square(nx.dot(z, u, "z") - x), ...) + nx.mean(nx.square(mean), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, u)


@program("embedding tables", {"v": 1024, "e": 64}, {"e": 64, "o": 16}, ints(1024, b=128, f=4), v="y", b="x")
def tables(table, w, words):
    return nx.dot(nx.sum(nx.take(table, words, "v"), "f"), w, "e")


@program(
    "low-rank adaptation, training",
    {"k": 128, "r": 8},
    {"r": 8, "o": 128},
    {"k": 128, "o": 128},
    {"b": 64, "k": 128},
    b="x",
    o="y",
)
def lora(a, b, w, x):
    def loss(a, b):
        return nx.mean(nx.square(nx.dot(x, w, "k") + nx.dot(nx.dot(x, a, "k"), b, "r")), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(a, b)


@program("batch normalization, training", {"k": 128}, {"b": 256, "k": 128}, b="x", k="y")
def batchnorm(scale, x):
    def loss(scale):
        y = (x - nx.mean(x, "b")) * nx.lax.rsqrt(nx.var(x, "b") + 1e-3) * scale
        return nx.mean(nx.square(nx.sin(y)), ...)

    return jax.value_and_grad(loss)(scale)


# --- losses ---------------------------------------------------------------------------------------------------------


@program("contrastive loss, training", {"k": 64, "e": 64}, {"b": 64, "k": 64}, {"b": 64, "k": 64}, b="x")
def contrastive(w, x, y):
    def loss(w):
        a, c = nx.dot(x, w, "k"), nx.rename(nx.dot(y, w, "k"), {"b": "other"})
        scores = nx.dot(a, c, "e")
        return -nx.mean(nx.nn.log_softmax(scores, "other"), ...)

    return jax.value_and_grad(loss)(w)


@program("preference loss, training", {"e": 64, "v": 512}, {"b": 64, "e": 64}, {"b": 64, "e": 64}, b="x", v="y")
def preference(w, good, bad):
    def loss(w):
        one = nx.mean(nx.nn.log_softmax(nx.dot(good, w, "e"), "v"), "v")
        other = nx.mean(nx.nn.log_softmax(nx.dot(bad, w, "e"), "v"), "v")
        return -nx.mean(nx.nn.log_sigmoid(one - other), "b")

    return jax.value_and_grad(loss)(w)


@program(
    "diffusion step, training",
    {"k": 128, "h": 256},
    {"h": 256, "o": 128},
    {"b": 64, "k": 128},
    {"b": 64, "k": 128},
    b="x",
    h="y",
)
def diffusion(w, u, x, noise):
    def loss(w, u):
        guess = nx.rename(nx.dot(nx.nn.silu(nx.dot(x * 0.8 + noise * 0.6, w, "k")), u, "h"), {"o": "k"})
        return nx.mean(nx.square(guess - noise), ...)

    return jax.value_and_grad(loss, argnums=(0, 1))(w, u)


@program("transducer loss", {"b": 32, "t": 16, "u": 16}, b="x")
def transducer(scores):
    def row(alpha, st):
        return nx.logaddexp(alpha + st, nx.roll(alpha, 1, "u")), ()

    start = nx.zeros(named_shape={"b": scores.named_shape["b"], "u": 16})
    return nx.mean(nx.logsumexp(nx.scan(row, start, scores, axis="t")[0], "u"), "b")


@program("conditional random field", {"i": 32, "j": 32}, {"t": 32, "b": 64, "j": 32}, b="x")
def random_field(transitions, scores):
    def step(alpha, st):
        return nx.logsumexp(nx.rename(alpha, {"j": "i"}) + transitions, "i") + st, ()

    start = nx.zeros(named_shape={"b": scores.named_shape["b"], "j": 32})
    alpha, _ = nx.scan(step, start, scores, axis="t")
    return nx.mean(nx.logsumexp(alpha, "j"), "b")


# --- optimizers, and steps of training ------------------------------------------------------------------------------


@program("Adam", {"i": 256, "o": 256}, {"i": 256, "o": 256}, {"i": 256, "o": 256}, {"i": 256, "o": 256}, i="x", o="y")
def adam(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.001 * m / (nx.sqrt(nx.abs(v)) + 1e-8), m, v


@program("Lion with a clipped norm", {"i": 256, "o": 256}, {"i": 256, "o": 256}, {"i": 256, "o": 256}, i="x", o="y")
def lion(p, m, g):
    g = g / nx.maximum(1.0, nx.sqrt(nx.sum(g * g, ...)))
    return p - 0.001 * nx.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


@program("orthogonalized step", {"i": 128, "o": 64}, i="x")
def orthogonalized(g):
    for _ in range(3):
        gram = nx.dot(g, nx.rename(g, {"o": "q"}), "i")
        g = 1.5 * g - 0.5 * nx.rename(nx.dot(g, gram, "o"), {"q": "o"})
    return g


@program("gradients of each example", {"k": 64, "o": 32}, {"b": 64, "k": 64}, b="x")
def each_example(w, x):
    def of_one(w, row):
        return jax.grad(lambda w: nx.sum(tanh(nx.dot(row, w, "k")), "o"))(w)

    return nx.vmap(of_one, "b")(nx.broadcast_to(w, named_shape={"b": x.named_shape["b"]}), x)


@program("ensemble, training", {"m": 8, "k": 64, "o": 64}, {"b": 64, "k": 64}, m="x", b="y")
def ensemble(w, x):
    return jax.value_and_grad(lambda w: nx.mean(nx.var(tanh(nx.dot(x, w, "k")), "m"), ...))(w)


@program("sharded parameters, training", {"i": 256, "oo": 256}, {"b": 64, "i": 256}, b="x", oo="x", mesh=(8,))
def sharded_parameters(w, x):
    def loss(w):
        return nx.mean(nx.square(nx.dot(x, nx.rename(w, {"oo": "o"}), "i")), ...)

    return jax.value_and_grad(loss)(w)


@program("gradient accumulation", {"k": 128, "o": 128}, {"b": 64, "k": 128}, b=("x", nx.SerialLoop(2)), mesh=(8,))
def accumulation(w, x):
    return jax.value_and_grad(lambda w: nx.mean(nx.square(tanh(nx.dot(x, w, "k"))), ...))(w)


# --- linear algebra -------------------------------------------------------------------------------------------------


@program("power iteration", {"n": 256, "k": 128}, n="x", k="y")
def power(x):
    def step(i, v):
        v = nx.dot(nx.dot(x, v, "k"), x, "n")
        return v / nx.sqrt(nx.sum(v * v, "k"))

    return nx.fori_loop(0, 10, step, nx.ones(named_shape={"k": x.named_shape["k"]}))


@program("conjugate gradients", {"n": 128, "m": 128}, {"n": 128}, n="x")
def conjugate_gradients(a, b):
    def product(v):
        return nx.dot(a, nx.rename(v, {"n": "m"}), "m") + 100.0 * v

    def step(i, state):
        x, r, p = state
        ap = product(p)
        rate = nx.sum(r * r, "n") / nx.sum(p * ap, "n")
        new = r - rate * ap
        return x + rate * p, new, new + nx.sum(new * new, "n") / nx.sum(r * r, "n") * p

    return nx.fori_loop(0, 5, step, (b * 0, b, b))[0]


@program("spectral norm", {"i": 128, "o": 256}, {"o": 256}, i="x", o="y")
def spectral_norm(w, v):
    for _ in range(2):
        u = nx.dot(w, v, "o")
        u = u / nx.sqrt(nx.sum(u * u, "i"))
        v = nx.dot(w, u, "i")
        v = v / nx.sqrt(nx.sum(v * v, "o"))
    return nx.sum(nx.dot(w, v, "o") * u, "i")


@program("kernel ridge", {"n": 128, "k": 16}, {"n": 128}, n="x")
def kernel_ridge(x, y):
    other = nx.rename(x, {"n": "m"})
    kernel = nx.exp(-nx.sum(nx.square(x - other), "k"))
    a = y
    for _ in range(4):
        a = a - 0.01 * (nx.rename(nx.dot(kernel, a, "n"), {"m": "n"}) + a - y)
    return a


@program("matching pursuit", {"d": 256, "k": 64}, {"b": 64, "k": 64}, b="x", d="y")
def pursuit(atoms, x):
    for _ in range(3):
        scores = nx.dot(x, atoms, "k")
        best = nx.where(nx.abs(scores) >= nx.max(nx.abs(scores), "d"), scores, 0.0)
        x = x - nx.dot(best, atoms, "d")
    return x


@program("quantized product", {"k": 128, "o": 128}, {"b": 64, "k": 128}, b="x", k="y")
def quantized(w, x):
    scale = nx.max(nx.abs(w), "k") / 127
    whole = nx.round(w / scale).astype("int8").astype("float32")
    return nx.dot(x, whole, "k") * scale


@program("three factors", {"i": 128, "j": 64}, {"j": 64, "k": 64}, {"k": 64, "l": 128}, i="x", j="y")
def factors(a, b, c):
    return nx.einsum("{i,j},{j,k},{k,l}->{i,l}", a, b, c)


# --- data, search and sampling --------------------------------------------------------------------------------------


@program("k-means", {"n": 512, "k": 16}, {"c": 8, "k": 16}, n="x")
def kmeans(x, centers):
    def step(i, centers):
        near = softmax(-100 * nx.sum(nx.square(x - centers), "k"), "c")
        return nx.dot(near, x, "n") / (nx.sum(near, "n") + 1e-6)

    return nx.fori_loop(0, 5, step, centers)


@program("nearest neighbors", {"q": 64, "k": 32}, {"n": 512, "k": 32}, q="x", n="y")
def neighbors(q, points):
    return nx.argmin(nx.sum(nx.square(q), "k") + nx.sum(nx.square(points), "k") - 2 * nx.dot(q, points, "k"), "n")


@program("top-k sampling", {"b": 32, "v": 512}, b="x", v="y")
def top_k(logits):
    values, _ = nx.top_k(logits, 4, axis="v", out_axis="rank")
    return softmax(values, "rank")


@program("sort", {"b": 64, "n": 256}, n="x")
def sort(x):
    return nx.sort(x, "n")


@program("histogram", {"n": 1024}, n="x")
def histogram(x):
    bins = nx.arange(32, axis="bin") / 16.0 - 1.0
    return nx.sum((x >= bins).astype("float32"), "n")


@program("prefix sums", {"b": 32, "n": 256}, b="y", n="x")
def prefix(x):
    return nx.cumsum(x, "n")


@program("segment sums", {"n": 512, "k": 32}, ints(16, n=512), n="x")
def segments(x, owner):
    return nx.segment_sum(x, owner, 16, axis="n", out_axis="s")


@program("rolling windows", {"b": 32, "t": 256}, b="y", t="x")
def rolling(x):
    total = x
    for k in range(1, 5):
        total = total + nx.roll(x, k, "t")
    return total / 5


# --- simulations ----------------------------------------------------------------------------------------------------


@program("Fourier filter", {"b": 32, "n": 256}, b="x")
def fourier(x):
    return nx.numpy.real(nx.numpy.fft.ifft(nx.numpy.fft.fft(x, axis="n") * 0.5, axis="n"))


@program("optimal transport", {"i": 128, "j": 128}, i="x", j="y")
def transport(cost):
    kernel = nx.exp(-nx.abs(cost))

    def step(n, state):
        u, v = state
        u = 1 / nx.dot(kernel, v, "j")
        return u, 1 / nx.dot(kernel, u, "i")

    start = tuple(nx.ones(named_shape={name: cost.named_shape[name]}) for name in "ij")
    u, v = nx.fori_loop(0, 8, step, start)
    return u * kernel * v


@program("Ising model", {"i": 128, "j": 128}, i="x", j="y")
def ising(spins):
    def step(n, s):
        around = nx.roll(s, 1, "i") + nx.roll(s, -1, "i") + nx.roll(s, 1, "j") + nx.roll(s, -1, "j")
        return tanh(around)

    return nx.fori_loop(0, 6, step, spins)


@program("heat equation", {"i": 128, "j": 128}, i="x")
def heat(u):
    def step(n, u):
        around = nx.roll(u, 1, "i") + nx.roll(u, -1, "i") + nx.roll(u, 1, "j") + nx.roll(u, -1, "j")
        return u + 0.1 * (around - 4 * u)

    return nx.fori_loop(0, 10, step, u)


@program("bodies under gravity", {"n": 256, "c": 3}, {"n": 256}, n="x")
def bodies(place, mass):
    other, weight = nx.rename(place, {"n": "m"}), nx.rename(mass, {"n": "m"})
    away = other - place
    distance = nx.sum(nx.square(away), "c") + 0.01
    return nx.sum(away * weight / distance**1.5, "m")


@program("random walk", {"n": 1024, "d": 16}, n="x")
def walk(x):
    return nx.fori_loop(0, 4, lambda i, x: x + nx.sin(x * 3.0) - 0.1 * nx.mean(x, "n"), x)
