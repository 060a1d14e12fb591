"""NumPy arrays in the byte order of another machine, at every entrance: the same as native ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.errors import AxisSizeError
from tests.harness import Lazily, make_mesh

xarray = Lazily("xarray")
SPEC = {"w": ("w", "a b -> {b, a}")}
VALUES = np.arange(-3, 5).reshape(4, 2)
TWO = {"a": "x"}


def indices(x):
    return np.abs(x[:2, 0]).astype(x.dtype.newbyteorder("=").str.replace("f", "i")).astype(x.dtype.str.replace("f", "i"))


def double(x, **options):
    return nx.xmap(lambda v: v["x"] * 2, ({"x": ["a", "b"]},), ["a", "b"], **options)({"x": x})


def closed_over(x, **options):
    return nx.xmap(lambda v: v * x, ["a", ...], ["a", ...], **options)(np.ones((4, 4, 2), np.float32))


def restored(x, folder):
    nx.checkpoints.save(folder / "step", {"x": x})
    like = nx.checkpoints.restore(folder / "step", {"x": x})["x"]
    assert like.dtype.isnative
    return like, nx.checkpoints.restore(folder / "step", {"x": jnp.zeros((4, 2), like.dtype)})["x"]


def written(x, folder):
    nx.interop.save_safetensors({"w": x}, {"w": ("w", "a b -> a b")}, folder / "m.safetensors")
    return safetensors.numpy.load_file(folder / "m.safetensors")["w"]


def named(x):
    return nx.named(jnp.ones((4, 2), np.float32), ["a", None])


# A function of the array x, and of an empty folder.
ENTRANCES = {
    "named": lambda x, _: nx.named(x, ["a", "b"]),
    "named in a tree": lambda x, _: nx.named({"w": x}, {"w": ["a", "b"]}),
    "NamedArray": lambda x, _: nx.NamedArray(x, ("a", "b")),
    "asarray": lambda x, _: nx.asarray(x),
    "array": lambda x, _: nx.array([x, x]),
    "numpy.asarray": lambda x, _: nx.numpy.asarray(x),
    "numpy.array": lambda x, _: nx.numpy.array(x, dtype="float32"),
    "numpy.sum": lambda x, _: nx.numpy.sum(x),
    "numpy.sum in a body": lambda x, _: nx.xmap(lambda v: v + nx.numpy.sum(x), ["a"], ["a"])(np.ones(3, np.float32)),
    "from_state_dict": lambda x, _: nx.interop.from_state_dict({"w": x}, SPEC),
    "from_state_dict, sharded": lambda x, _: nx.interop.from_state_dict({"w": x}, SPEC, {"a": "x"}, make_mesh((2,))),
    "from_state_dict, tied": lambda x, _: nx.interop.from_state_dict({"w": x, "u": +x}, SPEC, tied={"u": "w"}),
    "to_state_dict": lambda x, _: nx.interop.to_state_dict({"w": x}, {"w": ("w", "a b -> a b")}),
    "save_safetensors": written,
    "from_xarray": lambda x, _: nx.from_xarray(xarray.DataArray(x, dims=["a", "b"])),
    "from_xarray of a Dataset": lambda x, _: nx.from_xarray(xarray.Dataset({"w": (("a", "b"), x)})),
    "shard": lambda x, _: nx.shard({"w": x, "n": nx.named(x, ["a", None])}, TWO, make_mesh((2,))),
    "shard, padded": lambda x, _: nx.shard({"w": x, "n": nx.named(x, [None, "a"])}, TWO, make_mesh((4,)), padded=True)["w"],
    "xmap": lambda x, _: double(x),
    "xmap on a mesh": lambda x, _: double(x, axis_resources=TWO, mesh=make_mesh((2,))),
    "xmap on Explicit axes": lambda x, _: double(x, axis_resources=TWO, mesh=make_mesh((2,), "explicit")),
    "xmap without jit": lambda x, _: double(x, jit=False),
    "xmap of named arrays": lambda x, _: nx.xmap(lambda v: v * 2)(x),
    "closed over": lambda x, _: closed_over(x),
    "closed over on a mesh": lambda x, _: closed_over(x, axis_resources=TWO, mesh=make_mesh((2,))),
    "from_process_local": lambda x, _: nx.from_process_local(x, ["a", "b"], TWO, make_mesh((2,))),
    "array + x": lambda x, _: named(x) + x[0],
    "x - array": lambda x, _: x[0] - named(x),
    "multiply": lambda x, _: nx.multiply(named(x), x[0]),
    "exp": lambda x, _: nx.exp(x),
    "sum under jit": lambda x, _: jax.jit(lambda: nx.sum(x, 0))(),
    "einsum": lambda x, _: nx.einsum("{a}n,n->{a}", named(x), x[0]),
    "einsum without names": lambda x, _: nx.einsum("a b,c b->a c", x, x),
    "where": lambda x, _: nx.where(x[0] > 1, x[0], named(x)),
    "lax.tanh": lambda x, _: nx.lax.tanh(x),
    "nn.relu": lambda x, _: nx.nn.relu(x),
    "nn.one_hot": lambda x, _: nx.nn.one_hot(indices(x), 4),
    "nmap": lambda x, _: nx.nmap(jnp.sin)(x),
    "at.add": lambda x, _: named(x).at[...].add(x[0]),
    "index": lambda x, _: named(x)["a", indices(x)],
    "take": lambda x, _: nx.take(named(x), indices(x), "a"),
    "concatenate": lambda x, _: nx.concatenate([x, x], 0),
    "stack": lambda x, _: nx.stack([x, x], "k"),
    "random.choice": lambda x, _: nx.random.choice(jax.random.key(0), x),
    "cond": lambda x, _: nx.cond(True, lambda v: v + 1, lambda v: v, x),
    "scan": lambda x, _: nx.lax.scan(lambda c, v: (c + v, c), x[0], x),
    "global_norm": lambda x, _: nx.interop.global_norm({"w": x}),
    "checkpoints": restored,
}


@pytest.mark.fast(19)
@pytest.mark.parametrize("name", ENTRANCES)
def test_every_entrance_converts_the_byte_order(name, tmp_path):
    results = []
    for order in "=SS":
        x = VALUES.astype(np.dtype("f4").newbyteorder(order))
        (tmp_path / f"{len(results)}").mkdir()
        results.append(ENTRANCES[name](x, tmp_path / f"{len(results)}"))
        assert x.dtype == np.dtype("f4").newbyteorder(order)
        np.testing.assert_array_equal(x, VALUES)
    native, *others = map(jax.tree.leaves, results)
    for other in others:
        for have, want in zip(other, native, strict=True):
            assert np.asarray(have).dtype == np.asarray(want).dtype
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("name", ["i2", "u2", "f2", "i4", "u4", "c8", "i8", "f8", "c16"])
def test_every_type_of_several_bytes(name):
    x = VALUES.astype(np.dtype(name).newbyteorder("S"))
    want = jnp.asarray(VALUES.astype(name))
    for have in (nx.asarray(x), nx.named(x, ["a", "b"]).data, nx.add(x, 0)):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


def test_errors_have_native_types():
    x = np.zeros((4, 2), np.dtype("f4").newbyteorder("S"))
    with pytest.raises(AxisSizeError, match=r"axis 'a'"):
        nx.add(nx.named(x, ["a", "b"]), nx.named(x.T, ["a", "b"]))
