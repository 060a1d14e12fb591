"""What tracing does not do: bind again what no pass changes, take out casts that have no gradient, lose the lines of the body."""

import cProfile
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import subjaxprs
from jax.sharding import AxisType

import namedax as nx
from namedax.core.memory_kinds import host_seen

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import growth

N = 4


@pytest.fixture
def mesh():
    return jax.make_mesh((N,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:N])


@pytest.fixture(autouse=True)
def no_host_arrays():
    """After the first array in the memory of the host, operations look for others."""
    host_seen.clear()


def equations(jaxpr, kind=None):
    """All equations of a program, those within others included."""
    for eqn in jaxpr.eqns:
        if kind is None or eqn.primitive.name == kind:
            yield eqn
        for inner in subjaxprs(jaxpr.replace(eqns=[eqn])):
            yield from equations(inner, kind)


def lines(jaxpr, kind, around=()):
    """For every equation of a kind the lines of this file in which it was made, or a call that it is in, which JAX 0.12 inlines later."""
    for eqn in jaxpr.eqns:
        frames = getattr(eqn.source_info.traceback, "frames", ())
        own = (*around, *(frame.line_num for frame in frames if frame.file_name == __file__))
        if eqn.primitive.name == kind:
            yield own
        for inner in subjaxprs(jaxpr.replace(eqns=[eqn])):
            yield from lines(inner, kind, own)


def test_every_equation_of_a_long_body_keeps_its_line(mesh):
    def body(x):
        for _ in range(40):
            x = nx.sin(x) * 2.0
        return nx.sum(nx.cos(x), "b")

    first = body.__code__.co_firstlineno
    x = nx.named(jnp.linspace(0.0, 1.0, 8), ["b"])
    traced = nx.xmap(body, axis_resources={"b": "x"}, mesh=mesh).trace(x)
    for kind, line in (("sin", 2), ("cos", 3)):
        found = list(lines(traced.jaxpr.jaxpr, kind))
        assert len(found) == (40 if kind == "sin" else 1)
        assert all(first + line in own for own in found), kind


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_long_body_is_the_same_program_for_gradients_from_outside(mesh):
    def body(x, w):
        for _ in range(20):
            x = nx.tanh(x * w)
        return nx.sum(x, "b")

    x, w = jnp.linspace(0.1, 1.0, 8), jnp.float32(1.1)
    f = nx.xmap(body, (["b"], []), [], axis_resources={"b": "x"}, mesh=mesh)

    def plain(x, w):
        for _ in range(20):
            x = jnp.tanh(x * w)
        return x.sum()

    for one, other in zip(jax.grad(f, (0, 1))(x, w), jax.grad(plain, (0, 1))(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    np.testing.assert_allclose(jax.hessian(f, 1)(x, w), jax.hessian(plain, 1)(x, w), rtol=1e-4)


def on_parameters(count, kind):
    """A step on so many parameters, and its arguments."""
    mesh = jax.make_mesh((N,), ("x",), axis_types=(kind,), devices=jax.devices()[:N])
    one = nx.shard(nx.named(jnp.ones(8), ["n"]), {"n": "x"}, mesh)
    params = {f"p{i}": one for i in range(count)}

    def step(params, grads):
        return {key: value - 0.1 * grads[key] for key, value in params.items()}

    return nx.xmap(step, axis_resources={"n": "x"}, mesh=mesh), (params, params)


def calls_to_trace(function, args):
    """The functions, of Python and of C, that are called while a program is traced of which JAX remembers nothing."""
    jax.clear_caches()
    profile = cProfile.Profile()
    profile.enable()
    try:
        function.trace(*args)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_explicit_axes_do_not_trace_a_body_twice():
    # What it closes over must be replicated there, which is seen when it has been traced.
    called = {}
    for kind in (AxisType.Auto, AxisType.Explicit):
        more, fewer = (calls_to_trace(*on_parameters(count, kind)) for count in (60, 20))
        called[kind] = more - fewer
    assert called[AxisType.Explicit] < 1.25 * called[AxisType.Auto]


def entered(make, args):
    """The Python functions that are entered to trace a program."""
    numbers = []
    for _ in range(2):  # the first time what is remembered of names is empty
        function = make()
        jax.clear_caches()
        events = []
        sys.setprofile(lambda frame, event, argument, events=events: events.append(event))
        try:
            function.trace(*args)
        finally:
            sys.setprofile(None)
        numbers.append(events.count("call"))
    return numbers[-1]


def entered_for_each_parameter(program):
    """The same for each parameter more."""

    def of(count):
        return entered(lambda: program(count)[0], program(count)[1])

    return (of(60) - of(20)) / 40


# The second limit was 1.25 before slow axes and stored padding, which call 20 functions of 35,000.
SMALL = [("devices", N, 1.2), ("layers", 4, 1.26), ("scanned", 4, 1.25), ("names", 2, 1.05)]


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("curve", "size", "most", "kind"),
    # The arguments of the first have no shardings, which JAX wants on Explicit axes.
    [*((*one, AxisType.Auto) for one in SMALL), *((*one, AxisType.Explicit) for one in SMALL[1:])],
)
def test_a_small_program_enters_few_functions_more_than_by_hand(curve, size, most, kind, monkeypatch):
    monkeypatch.setattr(growth, "mesh_of", lambda: jax.make_mesh((N,), ("x",), axis_types=(kind,), devices=jax.devices()[:N]))
    programs = growth.CURVES[curve].programs(size)
    assert entered(*programs[growth.NAMED]) < most * entered(*programs[growth.PLAIN])


# The limit was 1.15 before one decorator defined all operations: it calls two functions more for each operation. The
# gate on costs is time (benchmarks/check.py); this test finds growth with the number of parameters.
@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("kind", "most"), [(AxisType.Auto, 1.18), (AxisType.Explicit, 1.2)])
def test_a_step_on_parameters_enters_few_functions_more_than_by_hand(kind, most):
    def by_hand(count):
        _, (params, _) = on_parameters(count, kind)
        datas = {key: value.data for key, value in params.items()}
        step = jax.shard_map(
            lambda params, grads: jax.tree.map(lambda p, g: p - 0.1 * g, params, grads),
            mesh=jax.make_mesh((N,), ("x",), axis_types=(kind,), devices=jax.devices()[:N]),
            in_specs=jax.P("x"),
            out_specs=jax.P("x"),
        )
        return jax.jit(step), (datas, datas)

    assert entered_for_each_parameter(lambda count: on_parameters(count, kind)) < most * entered_for_each_parameter(by_hand)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_blocks_that_have_met_meet_again_as_others_do(mesh):
    # The second time operands of a kind meet, nothing is looked at but what they are: not where something has to be done to them.
    x, w = jnp.linspace(0.5, 1.5, 8), jnp.linspace(1.0, 2.0, 8)
    whole, small = nx.named(w, ["b"]), nx.named(jnp.linspace(1.0, 2.0, 8 // N), ["c"])

    def body(x, c, add=lambda x: x):
        y = x * x
        y = y * x - (x - y) * add(y)  # two blocks, again and again
        y = y / whole - whole  # cut to its blocks
        y = y * small + small * c  # whole, of the shape of a block
        mean = nx.mean(y, "b")  # the same on all devices
        y = y * mean - y * mean + nx.maximum(mean, mean) * nx.minimum(y, y)
        return nx.sum(nx.where(y > x, y, x) * (y <= y) - nx.exp(-abs(y)), ("b", "c"))

    def plain(x, c):
        x, ws, s = x[:, None], w[:, None], small.data
        y = x * x
        y = y * x - (x - y) * y
        y = y / ws - ws
        y = y * s + s * c
        mean = y.mean(0)
        y = y * mean - y * mean + mean * y
        return (jnp.where(y > x, y, x) - jnp.exp(-jnp.abs(y))).sum()

    def mapped(body):
        return nx.xmap(body, (["b"], ["c"]), [], axis_resources={"b": "x"}, mesh=mesh)

    c = jnp.linspace(0.1, 0.4, 8 // N)
    expected = plain(x, c), jax.grad(plain, (0, 1))(x, c)
    for got in (
        (mapped(body)(x, c), jax.grad(mapped(body), (0, 1))(x, c)),
        mapped_gradients(body, mesh)(x, c),
    ):
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def mapped_gradients(body, mesh):
    """Value and gradients, taken in the body."""
    outs = ([], (["b"], ["c"]))
    return nx.xmap(jax.value_and_grad(body, (0, 1)), (["b"], ["c"]), outs, axis_resources={"b": "x"}, mesh=mesh)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "dtypes", [("float32", "float32"), ("float32", "float16"), ("bfloat16", "bfloat16"), ("int8", "int8"), ("bool", "bool")]
)
def test_types_of_blocks_that_meet_often_are_those_of_jax(mesh, dtypes):
    a, b = (jnp.arange(1, 9).astype(dtype) for dtype in dtypes)
    for operate in (lambda a, b: a * b, lambda a, b: a < b, lambda a, b: a + b, lambda a, b: b / a):
        f = nx.xmap(
            lambda a, b, operate=operate: [operate(a, b) for _ in range(7)], ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh
        )
        for got in f(a, b):
            assert got.dtype == operate(a, b).dtype
            np.testing.assert_array_equal(got, operate(a, b))


def test_arguments_in_place_are_not_resharded():
    step, args = on_parameters(3, AxisType.Explicit)
    assert "reshard" not in {eqn.primitive.name for eqn in equations(step.trace(*args).jaxpr.jaxpr)}


@pytest.mark.parametrize("out_axes", [None, ["k"]])
def test_what_a_body_closes_over_is_replicated(out_axes):
    mesh = jax.make_mesh((N,), ("x",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:N])
    x, w = jnp.linspace(0.1, 1.0, 8), jnp.linspace(1.0, 2.0, 8)
    shared = nx.shard(nx.named(w, ["k"]), {"k": "x"}, mesh)

    traced = []

    def f(x):
        def body(x):
            traced.append(x)
            return nx.sum(x * nx.sin(shared), "b")

        result = nx.xmap(body, ["b"], out_axes, axis_resources={"b": "x"}, mesh=mesh)(x)
        return result if out_axes is None else nx.named(result, out_axes)

    np.testing.assert_allclose(f(x).data, np.sin(w) * np.sum(x), rtol=1e-5)
    assert len(traced) == 1
    np.testing.assert_allclose(jax.grad(lambda x: nx.sum(f(x), "k"))(x), np.full(8, np.sum(np.sin(w))), rtol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("steps", [1, 40])
def test_without_compilation_a_body_is_called_too(kind, steps):
    mesh = jax.make_mesh((N,), ("x",), axis_types=(kind,), devices=jax.devices()[:N])
    x = jnp.linspace(0.1, 1.0, 8)

    def body(x):
        for _ in range(steps):
            x = nx.tanh(x)
        return nx.sum(x, "b")

    def plain(x):
        for _ in range(steps):
            x = jnp.tanh(x)
        return x.sum()

    f = nx.xmap(body, ["b"], [], axis_resources={"b": "x"}, mesh=mesh)
    with jax.disable_jit():
        np.testing.assert_allclose(f(x), plain(x), rtol=1e-5)
        np.testing.assert_allclose(jax.grad(f)(x), jax.grad(plain)(x), rtol=1e-5)


def layers(x, ws, remat=False):
    def step(x, w):
        return nx.tanh(nx.dot(x, w, "k") * (1.0 + nx.arange(8, axis="m"))), None

    def layer(x, w):
        y, _ = step(x, w)
        return nx.rename(y, {"m": "k"}), None

    return nx.sum(nx.scan(jax.checkpoint(layer) if remat else layer, x, ws)[0], ("b", "k"))


@pytest.mark.fast(0)
@pytest.mark.parametrize("remat", [False, True])
def test_casts_of_what_a_loop_reads_are_taken_out_and_its_body_is_bound_once(mesh, remat):
    ws, x = 0.01 * (jnp.arange(3 * 64.0).reshape(3, 8, 8) % 7), jnp.linspace(0.0, 1.0, 64).reshape(8, 8)
    f = nx.xmap(
        jax.value_and_grad(lambda ws, x: layers(x, ws, remat)),
        ([None, "k", "m"], ["b", "k"]),
        ([], [None, "k", "m"]),
        axis_resources={"b": "x"},
        mesh=mesh,
    )

    def plain(ws):
        y = x
        for w in ws:
            y = jnp.tanh(y @ w * (1.0 + jnp.arange(8)))
        return y.sum()

    value, gradient = f(ws, x)
    expected = jax.value_and_grad(plain)(ws)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-4, atol=1e-6)
    # One sum of the gradient, after the loop.
    loops = list(equations(f.trace(ws, x).jaxpr.jaxpr, "scan"))
    assert loops
    assert not [eqn for loop in loops for eqn in equations(loop.params["jaxpr"].jaxpr) if eqn.primitive.name.startswith("psum")]


def test_integers_that_a_loop_closes_over_stay_where_they_are(mesh):
    place = nx.arange(8, axis="k")

    def body(x):
        def step(x, _):
            return x * (1.0 + place), None

        return nx.sum(nx.scan(step, x, length=3)[0], ("b", "k"))

    x = nx.named(jnp.ones((8, 8)), ["b", "k"])
    traced = nx.xmap(body, axis_resources={"b": "x"}, mesh=mesh).trace(x)
    (loop,) = equations(traced.jaxpr.jaxpr, "scan")
    assert not [v for v in loop.invars if v.aval.dtype == jnp.int32 and v.aval.manual_axis_type.varying]
    assert float(nx.xmap(body, axis_resources={"b": "x"}, mesh=mesh)(x)) == 8 * sum((1.0 + k) ** 3 for k in range(8))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_numbers_in_a_mapped_body_are_taken_as_outside(mesh):
    small = jnp.arange(8, dtype=jnp.uint8)
    for number in (3, 200, 300, -1, 2.5, True):
        for operate in (
            lambda x, n=number: x + n,
            lambda x, n=number: x == n,
            lambda x, n=number: n * x,
            lambda x, n=number: x < n,
        ):

            def of(x, operate=operate):
                return operate(nx.named(x, ["b"])).data

            def mapped(x, operate=operate):
                return nx.xmap(operate, (["b"],), ["b"], axis_resources={"b": "x"}, mesh=mesh)(x)

            results = []
            for function in (of, mapped):
                try:
                    results.append(np.asarray(jax.jit(function)(small)))
                except OverflowError as error:
                    results.append(type(error))
            one, other = results
            if isinstance(one, type):
                assert one is other
            else:
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


def test_numbers_that_meet_blocks_often_are_those_of_jax(mesh):
    x = jnp.linspace(-1.0, 1.0, 8)
    numbers = (0.1, 0.0, -0.0, 2, -3, (1 << 25) + 1, float("inf"), float("nan"), True)

    def body(x):
        return [[x * n, n - x, x / n, x >= n, n + x] for n in numbers]

    mapped = nx.xmap(body, ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)
    gradients = jax.grad(lambda x: sum(y.sum() for ys in mapped(x)[:1] for y in ys if y.dtype == x.dtype))
    np.testing.assert_allclose(gradients(x), np.full(8, 0.1 - 1.0 + 10.0 + 1.0), rtol=1e-5)
    for got, wanted in zip(jax.tree.leaves(mapped(x)), jax.tree.leaves(jax.jit(body)(x)), strict=True):
        assert (got.dtype, got.weak_type) == (wanted.dtype, wanted.weak_type)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
