"""Arrays of random keys on sharded names: what moves them is the same as where nothing is mapped, and what computes with them is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import ArgumentTypeError
from tests import make
from tests.harness import make_mesh

WORDS = np.random.default_rng(3).integers(0, 2**32, (8, 4, 2), np.uint32)
WHOLE = jax.random.wrap_key_data(make.asarray(WORDS))
KEYS = nx.named(WHOLE, ["n", "m"])
ONE = jax.random.wrap_key_data(make.array([0, 7], jnp.uint32))
NUMBERS = np.array([1, -1, 0, 5])
ASKED = nx.named(make.asarray(NUMBERS), ["q"])


def words(keys, names):
    return np.asarray(jax.random.key_data(nx.positional(keys, names)))


def changed(at):
    result = WORDS.copy()
    result[at] = np.asarray(jax.random.key_data(ONE))
    return result


def padded(before, after, mode="constant"):
    """The words with rows before and after them, and without as many at the other end."""
    return np.pad(WORDS, ((before, after), (0, 0), (0, 0)), mode)


# An index beyond the ends: its words are the largest integer, as JAX has it.
FAR = np.array([5, 9, -10, -1])
FILLED = np.where(np.array([1, 0, 0, 1])[:, None, None] == 1, WORDS[[5, 0, 0, 7]], np.uint32(2**32 - 1))
BEYOND = nx.named(make.asarray(FAR), ["q"])

MOVES = {
    "an integer": (lambda k: k["n", 5], WORDS[5], ["m"]),
    "an array": (lambda k: k["n", ASKED], WORDS[NUMBERS], ["q", "m"]),
    "its own axis": (lambda k: k["n", nx.named(jnp.arange(8)[::-1], ["n"])], WORDS[::-1], ["n", "m"]),
    "take": (lambda k: nx.take(k, ASKED, "n"), WORDS[NUMBERS], ["q", "m"]),
    "take_along_axis": (lambda k: nx.take_along_axis(k, ASKED, "n"), WORDS[NUMBERS], ["q", "m"]),
    "set": (lambda k: k.at["n", 0].set(ONE), changed(0), ["n", "m"]),
    "set at an array": (lambda k: k.at["n", jnp.array([0, 5])].set(ONE), changed([0, 5]), ["n", "m"]),
    "concatenate": (lambda k: nx.concatenate([k, k], "n", out_axis="n2"), np.concatenate([WORDS, WORDS]), ["n2", "m"]),
    "split": (lambda k: nx.split(k, 2, "n", out_axis="h")[1], WORDS[4:], ["h", "m"]),
    "tile": (lambda k: nx.tile(k, {"n": 2}, out_axis={"n": "n2"}), np.tile(WORDS, (2, 1, 1)), ["n2", "m"]),
    "roll": (lambda k: nx.roll(k, 3, "n"), np.roll(WORDS, 3, 0), ["n", "m"]),
    "shift": (lambda k: nx.shift(k, 3, "n"), padded(3, 0)[:8], ["n", "m"]),
    "shift back": (lambda k: nx.shift(k, -3, "n"), padded(0, 3)[3:], ["n", "m"]),
    "pad": (lambda k: nx.pad(k, {"n": (3, 5)}, out_axis={"n": "n2"}), padded(3, 5), ["n2", "m"]),
    "pad, edge": (lambda k: nx.pad(k, {"n": (3, 5)}, mode="edge", out_axis={"n": "n2"}), padded(3, 5, "edge"), ["n2", "m"]),
    "pad, wrap": (lambda k: nx.pad(k, {"n": (3, 5)}, mode="wrap", out_axis={"n": "n2"}), padded(3, 5, "wrap"), ["n2", "m"]),
    "halo": (lambda k: nx.halo(k, "n", 1, 1)[0], padded(1, 0)[:8], ["n", "m"]),
    "pgather": (lambda k: nx.lax.pgather(k, ASKED, "n"), WORDS[NUMBERS], ["q", "m"]),
    "pgather of two axes": (lambda k: nx.lax.pgather(k, ASKED, ("n", "m")), WORDS.reshape(32, 2)[NUMBERS], ["q"]),
    "pgather, beyond": (lambda k: nx.lax.pgather(k, BEYOND, "n"), FILLED, ["q", "m"]),
    "take, fill": (lambda k: nx.take(k, BEYOND, "n", mode="fill"), FILLED, ["q", "m"]),
    "take, clip": (lambda k: nx.take(k, BEYOND, "n", mode="clip"), WORDS[np.clip(FAR, 0, 7)], ["q", "m"]),
    "take, wrap": (lambda k: nx.take(k, BEYOND, "n", mode="wrap"), WORDS[FAR % 8], ["q", "m"]),
    "get, fill": (lambda k: k.at["n", BEYOND].get(mode="fill"), FILLED, ["q", "m"]),
    "set, drop": (lambda k: k.at["n", jnp.asarray(FAR)].set(ONE, mode="drop"), changed([5, 7]), ["n", "m"]),
    "rename": (lambda k: nx.rename(k, {"n": "z"}), WORDS, ["z", "m"]),
    "all_gather": (lambda k: nx.lax.all_gather(k, "n")[2], WORDS[2], ["m"]),
    "ppermute": (lambda k: nx.lax.ppermute(k, "n", [(i, (i + 3) % 8) for i in range(8)]), np.roll(WORDS, 3, 0), ["n", "m"]),
    "pbroadcast": (lambda k: nx.lax.pbroadcast(k, "n", 5), np.broadcast_to(WORDS[5], WORDS.shape), ["n", "m"]),
    "where": (lambda k: nx.where(nx.lax.axis_index("n") < 3, k["n", 5], k), np.where(np.arange(8)[:, None, None] < 3, WORDS[5], WORDS), ["n", "m"]),
}  # fmt: skip


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("resources", "kind"),
    [
        ({}, AxisType.Auto),
        ({"n": "x"}, AxisType.Auto),
        ({"n": ("y", "x"), "n2": ("y", "x")}, AxisType.Auto),
        ({"n": ("y", "x"), "n2": ("y", "x")}, AxisType.Explicit),
    ],
)
def test_keys_move_as_other_values_do(resources, kind):
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(kind, kind), devices=jax.devices()[:4])

    def body(keys):  # one program of all of them
        return {name: function(keys) for name, (function, _, _) in MOVES.items()}

    for name, have in nx.xmap(body, axis_resources=resources, mesh=mesh)(KEYS).items():
        _, want, names = MOVES[name]
        np.testing.assert_array_equal(words(have, names), want, err_msg=name)


@pytest.mark.parametrize("resources", [{}, {"n": "x"}])
@pytest.mark.parametrize(
    "name", ["sum", "max", "mean", "any", "argmax", "sort", "argsort", "cumsum", "median", "count_nonzero"]
)
def test_what_computes_with_keys_is_refused(name, resources):
    with pytest.raises(
        ArgumentTypeError, match=rf"^{name}: key<fry>.*n:8.* is an array of random keys, which have no order and no sum"
    ):
        nx.xmap(lambda k: getattr(nx, name)(k, "n"), axis_resources=resources, mesh=make_mesh((2, 2)))(KEYS)


@pytest.mark.parametrize("resources", [{}, {"n": "x"}])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda k: nx.shift(k, 1, "n", 5), r"shift: fill_value=5 is not a key, but key<fry>.*n:8"),
        (lambda k: nx.halo(k, "n", mode="constant", fill_value=5), "halo: fill_value=5 is not a key"),
        (
            lambda k: nx.pad(k, {"n": 4}, constant_values=1.5, out_axis={"n": "n2"}),
            r"pad: constant_values=1.5 is not a key .* nx.where",
        ),
    ],
)
def test_no_number_comes_in_among_keys(call, text, resources):
    with pytest.raises(ArgumentTypeError, match=text.replace(" .* ", ".*")):
        nx.xmap(call, axis_resources=resources, mesh=make_mesh((2, 2)))(KEYS)


def test_plain_keys_get_the_error_of_jax():
    """A wrong argument beside a key is what the message is about, as in `jnp`."""
    for pad in (jnp.pad, nx.numpy.pad):
        with pytest.raises(ValueError, match="unsupported shape"):
            pad(ONE, np.zeros(0))


def test_pgather_takes_indices_of_narrow_types():
    x = make.arange(300.0)
    np.testing.assert_array_equal(
        nx.lax.pgather(nx.named(x, ["n"]), jnp.array([-1, 5, -128], jnp.int8), "n"), x[np.array([-1, 5, -128])]
    )
