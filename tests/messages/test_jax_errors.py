"""Each kind of error of JAX is provoked, so that a release of JAX with other messages fails here instead of dropping an explanation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.messages.jax_errors import ErrorKind, named_result, recognize, rejected_operation, unbound_axis
from tests import make
from tests.harness import make_mesh

X = nx.named(make.ones(4), ["k"])


def mesh_of(shape, names, kind=AxisType.Auto):
    devices = np.array(jax.devices()[: int(np.prod(shape))])
    return Mesh(devices.reshape(shape), names, axis_types=(kind,) * len(names))


def on_blocks(function, axes=None):
    """Call a function with the blocks of an array."""
    options = {} if axes is None else {"axis_names": axes}
    return jax.jit(jax.shard_map(function, mesh=make_mesh((2, 2)), in_specs=P("x"), out_specs=P("x"), **options))(jnp.ones(8))


def array_of_another_region():
    def outer(v):
        inner = jax.shard_map(lambda w: w * jnp.sin(v), axis_names={"x"}, in_specs=P("x"), out_specs=P("x"))
        return inner(jnp.ones(4))

    mesh = make_mesh((2, 2))
    return jax.jit(jax.shard_map(outer, mesh=mesh, axis_names={"y"}, in_specs=P("y"), out_specs=P(None)))(jnp.ones(4))


def with_another_mesh(v):
    return jax.shard_map(lambda w: w, mesh=mesh_of((2, 2), ("x", "z")), in_specs=P("z"), out_specs=P("z"))(v)


def sharding_of_another_mesh():
    with jax.set_mesh(mesh_of((2, 2), ("x", "y"), AxisType.Explicit)):
        jnp.zeros(8, out_sharding=NamedSharding(mesh_of((2, 2), ("x", "z"), AxisType.Explicit), P("z")))


def gradient_on_another_mesh():
    def loss(x, y):
        return nx.sum(nx.sin(nx.dot(x, y, "k")), ("a", "b"))

    axes, resources = (["a", "k"], ["k", "b"]), {"a": "x", "b": "y"}
    f = nx.xmap(loss, axes, [], axis_resources=resources, mesh=make_mesh((2, 2)))
    y = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh_of((4,), ("z",)), P("z")))
    return jax.grad(f, 1)(np.ones((16, 4), np.float32), y)


@jax.custom_vjp
def with_rule(x):
    return x


with_rule.defvjp(lambda x: (x, None), lambda _, g: (g,))


def in_a_loop(v):
    return lax.scan(lambda c, y: (c + y, None), jnp.zeros(()), v)[0][None]


def saved_twice(folder):
    from orbax import checkpoint

    with checkpoint.PyTreeCheckpointer() as checkpointer:
        for _ in range(2):
            checkpointer.save(folder / "step", {"w": np.ones(2)})


# For each kind and each of its messages a call that raises it; the calls take an empty folder.
PROVOKED = {
    ErrorKind.GRADIENT_OF_NAMES: [lambda _: jax.grad(lambda x: x * 2)(X)],
    ErrorKind.NAMED_ARRAY: [lambda _: lax.sin(X)],
    ErrorKind.EINSUM: [
        lambda _: jnp.einsum("a,b->", X.data),
        lambda _: jnp.einsum("{k}->", X.data),
        lambda _: jnp.einsum("a->{b}", X.data),
        lambda _: jnp.einsum("a->}", X.data),
    ],
    ErrorKind.SHARD_MAP_MESH: [lambda _: on_blocks(with_another_mesh)],
    ErrorKind.VARIANCE: [
        lambda _: on_blocks(in_a_loop),
        lambda _: on_blocks(lambda v: lax.cond(v[0] > 0, lambda: v, lambda: jnp.zeros(4))),
        lambda _: on_blocks(lambda v: lax.add_p.bind(v, jnp.zeros(4))),
    ],
    ErrorKind.CONTEXT_MESH: [lambda _: array_of_another_region(), lambda _: sharding_of_another_mesh()],
    ErrorKind.UNBOUND_AXIS: [lambda _: lax.psum(1.0, "k")],
    ErrorKind.STRING_OPERAND: [lambda _: jnp.add(X.data, "k")],
    ErrorKind.FORWARD_MODE: [lambda _: jax.jvp(with_rule, (1.0,), (1.0,))],
    ErrorKind.NOT_HASHABLE: [lambda _: jax.jit(lambda n: n, static_argnums=0)([])],
    ErrorKind.BLOCK_TYPE: [lambda _: on_blocks(lambda v: v + jnp.zeros_like(jax.eval_shape(jnp.sin, v)), {"x"})],
    ErrorKind.INCOMPATIBLE_DEVICES: [
        lambda _: jax.jit(jnp.add)(*(jax.device_put(1.0, device) for device in jax.devices()[:2]))
    ],
    ErrorKind.INDIVISIBLE: [lambda _: gradient_on_another_mesh()],
    ErrorKind.ABSTRACT_MESH: [
        lambda _: jax.jit(jnp.sin, in_shardings=NamedSharding(make_mesh((2, 2)).abstract_mesh, P("x")))(np.ones(8))
    ],
    ErrorKind.NAMED_INDEX: [lambda _: jnp.ones(3).at[X].get()],
    ErrorKind.FOLDER_EXISTS: [saved_twice],
}


def provoked(call, folder):
    """The error of JAX that a call raises, or that an error of namedax explains."""
    try:
        call(folder)
    except nx.errors.NamedaxError as error:
        return error.__cause__
    except Exception as error:
        return error
    raise AssertionError("no error")


@pytest.mark.parametrize("kind", ErrorKind, ids=lambda kind: kind.name)
def test_every_message_of_a_kind_is_one_of_jax(kind, tmp_path):
    classes, messages = kind.value
    assert len(PROVOKED[kind]) == len(messages)
    for call, message in zip(PROVOKED[kind], messages, strict=True):
        error = provoked(call, tmp_path)
        assert isinstance(error, classes)
        assert all(fragment in str(error) for fragment in message), f"{message} is not in {error}"
        assert recognize(error) is kind
        assert kind.matches(error)


def test_values_in_messages(tmp_path):
    assert named_result(provoked(PROVOKED[ErrorKind.GRADIENT_OF_NAMES][0], tmp_path)) == "f32[]{k:4}"
    assert rejected_operation(provoked(PROVOKED[ErrorKind.CONTEXT_MESH][0], tmp_path)) == "sin"
    assert rejected_operation(provoked(PROVOKED[ErrorKind.SHARD_MAP_MESH][0], tmp_path)) == "shard_map"
    assert rejected_operation(ValueError("Context mesh m must match the mesh")) is None
    for call in (lambda: lax.psum(1.0, "k"), lambda: jnp.sum(X.data, "k"), lambda: lax.axis_index("k")):
        with pytest.raises(NameError) as caught:
            call()
        assert unbound_axis(caught.value) == "k"


def test_other_errors_are_not_recognized():
    for error in (ValueError("no"), TypeError("context mesh"), KeyError("x"), NameError("f"), RuntimeError("einsum")):
        assert recognize(error) is None
