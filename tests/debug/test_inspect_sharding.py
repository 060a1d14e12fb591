"""`nx.debug.inspect_sharding`: the placement by name, while tracing, after compilation, and of concrete arrays."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType

import namedax as nx


def placements(run):
    found = []
    run(lambda x: nx.debug.inspect_sharding(x, callback=found.append))
    jax.effects_barrier()
    return found


def double(show):
    def body(x):
        show(x)
        return x * 2

    return body


X = {"batch": 8, "k": 6}
DATA = {"batch": ("data",), "k": ()}


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("way", ["body", "partitioner", "jit", "eager"])
def test_placement(kind, way):
    mesh, x = jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2), nx.ones(named_shape=X)
    layout = {"axis_resources": {"batch": "data"}, "mesh": mesh}
    sharded = nx.shard(x, {"batch": "data"}, mesh)
    runs = {
        "body": lambda show: nx.xmap(double(show), **layout)(x),
        "partitioner": lambda show: nx.xmap(double(show), partitioning="auto", **layout)(x),
        "jit": lambda show: jax.jit(double(show))(sharded),
        "eager": lambda show: show(sharded),
    }
    (found,) = placements(runs[way])
    assert (dict(found.axes), dict(found.blocks), found.replicated) == (DATA, {"batch": (4, 2), "k": (1, 6)}, ("model",))
    where = "" if way == "jit" else "@data"
    assert str(found) == f"f32[]{{batch:8{where}, k:6}}: batch -> data (4 blocks of 2); replicated over model"


def test_other_layouts():
    mesh, x = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2), nx.ones(named_shape=X)

    def text(layout, x):
        return str(placements(lambda show: nx.xmap(double(show), axis_resources=layout, mesh=mesh)(x))[0])

    assert text({"batch": ("data", "model")}, x) == "f32[]{batch:8@(data,model), k:6}: batch -> data, model (8 blocks of 1)"
    assert text({"batch": "data"}, nx.ones(named_shape={"batch": 10})) == (
        "f32[]{batch:10@data}: batch -> data (4 blocks of 3); replicated over model"
    )
    assert text({"batch": nx.SerialLoop(2)}, x).endswith(": batch -> SerialLoop(2) of 'batch' (2 blocks of 4)")
    (plain,) = placements(lambda show: show(jnp.ones((2, 3))))
    assert str(plain) == "f32[2,3]: on one device"


def test_prints_and_takes_trees(capsys):
    nx.debug.inspect_sharding({"a": nx.ones(named_shape={"k": 2}), "b": 3})
    assert capsys.readouterr().out == "f32[]{k:2}: on one device\n"


def test_mistakes():
    with pytest.raises(TypeError, match=r"^nx\.debug\.inspect_sharding: callback must be a function, got 3\. Leave it out"):
        nx.debug.inspect_sharding(nx.ones(named_shape={"k": 2}), callback=3)
