"""`nx.debug.print` and `nx.debug.callback`: whole values, once, in every layout and under every transformation. The oracle is NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx

VALUES = np.arange(24, dtype=np.float32).reshape(8, 3)
UNEVEN = np.arange(30, dtype=np.float32).reshape(10, 3)
LAYOUTS = {
    "unmapped": {},
    "blocks": {"batch": "data"},
    "one each": {"batch": ("data", "model")},
    "other axis": {"k": "model"},
    "two axes": {"batch": "data", "k": "model"},
    "loop": {"batch": nx.SerialLoop(4)},
    "loop and mesh": {"batch": ("data", nx.SerialLoop(2))},
}


def mesh_of(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def named(values=VALUES, dims=("batch", "k")):
    return nx.named(jnp.asarray(values), list(dims))


def seen_by(run):
    """What callbacks have seen while `run` runs with a function that shows a value."""
    seen = []

    def show(*values):
        nx.debug.callback(lambda *values: seen.append(values if len(values) > 1 else values[0]), *values)

    run(show)
    jax.effects_barrier()
    return seen


def assert_shown(seen, *want, dims=("batch", "k")):
    assert len(seen) == len(want)
    for value, one in zip(seen, want, strict=True):
        assert isinstance(value, nx.NamedArray)
        assert value.dims == dims
        assert type(value.data) is np.ndarray
        np.testing.assert_allclose(value.data, one, rtol=1e-6)


def mapped(body, layout, **options):
    return nx.xmap(body, axis_resources=layout, mesh=mesh_of() if layout else None, **options)


def loss_of(show):
    def body(x):
        show(x)
        return nx.sum(nx.sin(x) * x, "k")

    return body


def total(f):
    return lambda x: nx.sum(f(x), ...)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("values", [VALUES, UNEVEN], ids=["even", "uneven"])
@pytest.mark.fast(0)
def test_a_whole_array_is_shown_once(layout, values):
    assert_shown(seen_by(lambda show: mapped(loss_of(show), layout)(named(values))), values)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("options", [{}, {"jit": False}, {"partitioning": "auto"}], ids=str)
def test_every_way_of_running(layout, kind, options):
    if options.get("partitioning") and any("Serial" in str(axes) or "k" == name for name, axes in layout.items()):
        pytest.skip("the partitioner takes neither loops nor uneven axes")
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):

        def f(show):
            return nx.xmap(loss_of(show), axis_resources=layout, mesh=mesh if layout else None, **options)

        assert_shown(seen_by(lambda show: f(show)(named())), VALUES)
        assert_shown(seen_by(lambda show: jax.grad(total(f(show)))(named())), VALUES)


@pytest.mark.parametrize("layout", [LAYOUTS["two axes"], LAYOUTS["loop"]], ids=["mesh", "loop"])
def test_gradients_show_the_forward_pass_once_and_are_the_same(layout):
    def run(show):
        f = total(mapped(loss_of(show), layout))
        plain = jax.grad(total(mapped(loss_of(lambda x: None), layout)))(named())
        shown = jax.jit(jax.grad(jax.checkpoint(f)))(named())
        np.testing.assert_array_equal(nx.positional(shown, ["batch", "k"]), nx.positional(plain, ["batch", "k"]))

    assert_shown(seen_by(run), VALUES)


# Bodies of a function that shows a value, with what they show.
BODIES = {
    "nmap": (lambda x, show: nx.nmap(lambda row: (show(row), jnp.sin(row))[1])(x), [VALUES]),
    "nmap of jit": (lambda x, show: nx.nmap(jax.jit(lambda row: (show(row), jnp.sin(row))[1]))(x), [VALUES]),
    "vmap": (lambda x, show: nx.vmap(lambda row: (show(row), nx.sin(row))[1], "batch")(x), [VALUES]),
    "checkpoint": (lambda x, show: jax.checkpoint(lambda x: (show(x), nx.sin(x))[1])(x), [VALUES]),
    "scan": (
        lambda x, show: nx.scan(lambda c, _: ((show(c), c + 1)[1], ()), x, None, length=3)[0],
        [VALUES, VALUES + 1, VALUES + 2],
    ),
    "cond": (lambda x, show: nx.cond(nx.sum(x, ...) > 0, lambda x: (show(x), x)[1], lambda x: x, x), [VALUES]),
    "while": (
        lambda x, show: nx.while_loop(lambda v: v < 3, lambda v: (show(v), v * 2 + 1)[1], x),
        [VALUES, np.where(VALUES < 3, VALUES * 2 + 1, VALUES)],
    ),
    "grad": (lambda x, show: jax.grad(lambda x: nx.sum((show(x), nx.sin(x))[1], ...))(x), [VALUES]),
    "nested": (
        lambda x, show: nx.xmap(lambda x: (show(x), nx.sin(x))[1], axis_resources={"k": "model"})(x),
        [VALUES],
    ),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("layout", [LAYOUTS["blocks"], LAYOUTS["unmapped"]], ids=["blocks", "unmapped"])
@pytest.mark.fast(10)
def test_under_transformations_in_a_body(name, layout):
    body, want = BODIES[name]
    if name == "nested" and not layout:
        layout = {"batch": "data"}
    seen = seen_by(lambda show: mapped(lambda x: body(x, show), layout)(named()))
    # JAX does not promise an order of callbacks that do not depend on each other; these do
    assert_shown(seen, *want)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_under_transformations_in_every_layout(name, layout, kind):
    body, want = BODIES[name]
    if name == "nested" and layout != LAYOUTS["blocks"]:
        pytest.skip("the inner function maps k to model")
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):

        def f(show):
            return nx.xmap(lambda x: body(x, show), axis_resources=layout, mesh=mesh if layout else None)

        assert_shown(seen_by(lambda show: f(show)(named())), *want)
        if name != "while":
            assert_shown(seen_by(lambda show: jax.grad(total(f(show)))(named())), *want)


def test_outside_of_bodies():
    mesh = mesh_of()
    stored = nx.shard(named(UNEVEN), {"batch": "data"}, mesh, padded=True)
    assert_shown(seen_by(lambda show: show(named())), VALUES)
    assert_shown(seen_by(lambda show: jax.jit(loss_of(show))(named())), VALUES)
    assert_shown(seen_by(lambda show: jax.jit(loss_of(show))(nx.shard(named(), {"batch": "data"}, mesh))), VALUES)
    assert_shown(seen_by(lambda show: show(stored)), UNEVEN)
    assert_shown(seen_by(lambda show: nx.xmap(loss_of(show), axis_resources={"batch": "data"}, mesh=mesh)(stored)), UNEVEN)


def test_a_vmap_of_the_user_shows_all_elements_at_once():
    stacked = nx.named(jnp.stack([VALUES, VALUES + 1]), [None, "batch", "k"])
    seen = seen_by(lambda show: jax.vmap(loss_of(show))(stacked))
    assert_shown(seen, np.stack([VALUES, VALUES + 1]), dims=(None, "batch", "k"))


def test_values_without_names_and_other_values():
    def run(show):
        def body(x):
            show(nx.sum(x, ...), {"block": x.data, "text": "a"}, 3, None)
            return x

        mapped(body, {"batch": "data"})(named())

    ((count, tree, number, nothing),) = seen_by(run)
    assert (float(count), number, nothing, tree["text"]) == (VALUES.sum(), 3, None, "a")
    np.testing.assert_array_equal(tree["block"], VALUES.reshape(4, 2, 3))  # the blocks of the devices


def test_a_sharded_map_shows_an_element_of_each_block():
    seen = seen_by(
        lambda show: mapped(lambda x: nx.map(lambda r: (show(r), r)[1], x, axis="batch"), {"batch": "data"})(named())
    )
    assert_shown(seen, VALUES[0::2], VALUES[1::2], dims=(None, "k"))


def test_random_keys():
    keys = nx.named(jax.random.split(jax.random.key(0), 8), ["batch"])
    seen = seen_by(lambda show: mapped(lambda k: (show(k), k)[1], {"batch": "data"})(keys))
    np.testing.assert_array_equal(seen[0].data, jax.random.key_data(keys.data))


@pytest.mark.parametrize(
    ("form", "want"),
    [
        ("{x}", "f32[]{batch:2@x, k:2}\n[[0.  0.5]\n [1.  1.5]]"),
        ("x = {:.2f}!", "x = f32[]{batch:2@x, k:2}\n[[0.00 0.50]\n [1.00 1.50]]!"),
        ("{x!r}", "NamedArray(f32[]{batch:2@x, k:2}, dims=(batch, k),\n[[0.  0.5]\n [1.  1.5]])"),
        ("{{}} {x[0]} {x[1]}", "{} 7 b"),
        ("{x:.1f}", "3.0"),
    ],
)
def test_text(form, want, capsys):
    x = nx.named(jnp.arange(4.0).reshape(2, 2) / 2, ["batch", "k"])
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])

    def body(x):
        value = (7, "b") if "[0]" in form else nx.sum(x, ...) if want == "3.0" else x
        if "{:" in form:
            nx.debug.print(form, value)
        else:
            nx.debug.print(form, x=value)
        return x

    nx.xmap(body, axis_resources={"batch": "x"}, mesh=mesh)(x)
    jax.effects_barrier()
    assert capsys.readouterr().out == f"{want}\n"


def test_texts_of_hidden_names_of_blocks_and_of_options_of_numpy(capsys):
    def body(x):
        nx.nmap(lambda row: (nx.debug.print("{}", row), row)[1])(nx.untag(x, ["k"]))
        nx.debug.print("{}", x.data[0, 0])
        return x

    with np.printoptions(threshold=4, edgeitems=1):
        mapped(body, {"batch": "data"})(named())
        jax.effects_barrier()
    out = capsys.readouterr().out
    assert "f32[3]{batch:8@data}\n[[ 0. ...  2.]\n ...\n [21. ... 23.]]" in out
    assert "f32[], 4 blocks @data\n[ 0.  6. 12. 18.]" in out


def test_gathers_are_in_the_report_under_their_own_name():
    def body(x):
        nx.debug.print("{}", x)
        return nx.sin(x)

    report = nx.explain(mapped(body, {"batch": "data"}), named())
    assert [(c.kind, c.operation, c.bytes) for c in report.collectives] == [("all-gather", "nx.debug.print", VALUES.nbytes)]


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_many_runs_do_not_hang():
    seen = []

    def body(w, x):
        def step(c, _):
            h = nx.dot(x, w, "k") + c
            nx.debug.callback(lambda x, h: seen.append(h.data.sum() + x.data.sum()), x, h)
            return nx.sum(h, "batch"), ()

        return nx.sum(nx.scan(step, nx.zeros(named_shape={"h": 16}), None, length=3)[0] ** 2, "h")

    f = jax.jit(jax.grad(mapped(body, {"batch": "data", "k": "model"})))
    w, x = nx.ones(named_shape={"k": 4096, "h": 16}), nx.ones(named_shape={"batch": 8, "k": 4096})
    for i in range(200):
        f(w, x)
        if i % 3 == 0:
            jax.effects_barrier()
            assert len(seen) == 3 * (i + 1)


def test_mistakes():
    x = named()
    with pytest.raises(TypeError, match=r"^nx\.debug\.print: the first argument must be a format string, got .* Write nx"):
        nx.debug.print(x)
    with pytest.raises(
        ValueError, match=r"^nx\.debug\.print: the format string uses 'y', but there is no such value\. Pass it"
    ):
        nx.debug.print("{y}", x=x)
    with pytest.raises(ValueError, match=r"^nx\.debug\.print: the format string uses no value 'x'\. Write a placeholder"):
        nx.debug.print("here", x=x)
    with pytest.raises(ValueError, match=r"^nx\.debug\.print: '\{' is not a format string: "):
        nx.debug.print("{")
    with pytest.raises(TypeError, match=r"^nx\.debug\.callback: the first argument must be a function, got 3\. Write"):
        nx.debug.callback(3, x)


@pytest.mark.parametrize("loop", ["while", "cond"])
def test_devices_that_would_wait_forever(loop):
    def row(v):
        def show(v):
            nx.debug.print("{}", v)
            return v * 2 + 1

        if loop == "while":
            return jax.lax.while_loop(lambda v: v.sum() < 30, show, v)
        return jax.lax.cond(jax.lax.axis_index("data") > 0, show, lambda v: v, v)

    f = nx.nmap(row) if loop == "while" else nx.nmap(row, collectives=True)
    with pytest.raises(nx.errors.PlacementConflictError) as info:
        mapped(lambda x: f(x), {"batch": "data"})(named())
    if loop == "while":
        assert "nx.debug: in nmap(row) it gathers values over the mesh axes 'data' in a loop or a branch of JAX" in str(
            info.value
        )


@pytest.mark.parametrize(
    ("fmt", "fact"),
    [
        ("{x:.2q}", "Unknown format code 'q'"),
        ("{x.shape}", "has no attribute 'shape'"),
        ("{x[0]}", "not subscriptable"),
        ("{d[b]}", "'b'"),
        ("{n:d}", "Unknown format code 'd'"),
    ],
)
def test_a_format_that_no_value_has_is_an_error_before_the_program_runs(fmt, fact):
    values = {"x": nx.ones(named_shape={"a": 2}), "d": {"a": jnp.ones(2)}, "n": 1.5}
    used = {name: value for name, value in values.items() if fmt.startswith("{" + name)}
    with pytest.raises(nx.errors.ArgumentError) as caught:
        jax.jit(lambda used: nx.debug.print(fmt, **used))(used)
    message = str(caught.value)
    assert message.startswith(f"nx.debug.print: {fmt!r} cannot format its values: ")
    assert fact in message
    assert "pass other facts of an array as values, such as shape=x.shape." in message
    nx.debug.print("{x!r:>40} {x:6.2f} {d[a]:g} {k:x} {n:3}", **values, k=jax.random.key(0))


def test_a_program_that_prints_is_planned():
    def loss(x):
        nx.debug.print("{}", nx.sum(x, "k"))
        return nx.mean(nx.square(x), ["batch", "k"])

    f = nx.xmap(jax.value_and_grad(loss))
    x = nx.ones(named_shape={"batch": 64, "k": 16})
    mesh = jax.sharding.AbstractMesh((8,), ("x",))
    assert nx.explain(f, x).collectives == ()
    assert len(nx.plan(f, x, mesh=mesh, machine=nx.machines.v5p).candidates) > 1
