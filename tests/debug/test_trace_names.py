"""`nx.trace_names`: the values of each line, with their names and placements, and the lines that communicate."""

import json
import linecache
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType

import namedax as nx


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def layer(w, x):
    h = nx.dot(
        x,
        w,
        "k",
    )
    return nx.nn.relu(h)


def model(ws, x):
    kept = {}
    for i in range(2):
        x = layer(ws[i], nx.rename(x, {"h": "k"}) if i else x)
        kept["x"] = x

    def step(c, row):
        c = c + row
        return c, ()

    c, _ = nx.scan(step, nx.zeros(named_shape={}), x, axis="h")
    s = nx.vmap(lambda r: nx.sum(r, "h"), "batch")(x)
    z = nx.cond(nx.sum(c, ...) > 0, lambda c: c + 1, lambda c: c - 1, c)
    return nx.mean(x, ...), s + z


def arguments():
    return [nx.ones(named_shape={"k": 8, "h": 8})] * 2, nx.ones(named_shape={"batch": 8, "k": 8})


def by_text(trace, start):
    found = [line for line in trace.lines if line.text.startswith(start)]
    assert found, [line.text for line in trace.lines]
    return found


def test_lines_of_a_mapped_function(mesh):
    f = nx.xmap(model, axis_resources={"batch": "data", "k": "model"}, mesh=mesh)
    trace = nx.trace_names(f, *arguments())
    assert trace.error is None
    assert dict(trace.lines[0].values) == {
        "ws[0]": "f32[]{k:8@model, h:8}",
        "ws[1]": "f32[]{k:8@model, h:8}",
        "x": "f32[]{batch:8@data, k:8@model}",
    }
    (call,) = by_text(trace, "x = layer(")
    assert call.values == (("x", "f32[]{batch:8@data, h:8}"),)
    (dot,) = by_text(trace, "h = nx.dot( x, w,")
    assert (dot.function, dot.depth > call.depth) == ("layer", True)
    assert dot.communication == ("all-reduce over model (k), 128 B",)
    (item,) = by_text(trace, 'kept["x"] = x')
    assert (item.values, item.count) == ((("kept['x']", "f32[]{batch:8@data, h:8}"),), 2)
    # a scan traces its function more than once, until the type of the carry fits
    (carry,) = by_text(trace, "c = c + row")
    assert carry.values == (("c", "f32[]{batch:8@data}"),)
    assert [line.values for line in by_text(trace, "lambda r")] == [(("return", "f32[]"),)]
    assert len(by_text(trace, "lambda c: c + 1")) == len(by_text(trace, "lambda c: c - 1")) == 1
    (result,) = by_text(trace, "return nx.mean")
    assert result.values == (("return[0]", "f32[]"), ("return[1]", "f32[]{batch:8@data}"))


def test_nothing_runs_and_a_second_call_gives_the_same(mesh):
    def f(x):
        jax.debug.callback(lambda: pytest.fail("it ran"))
        y = nx.sum(x, "k")
        return y

    mapped = nx.xmap(f, axis_resources={"k": "model"}, mesh=mesh)
    x = nx.ones(named_shape={"batch": 8, "k": 8})
    first, again = nx.trace_names(mapped, x), nx.trace_names(mapped, x)
    jax.effects_barrier()
    assert first.lines == again.lines
    types = jax.eval_shape(lambda: x)
    assert nx.trace_names(mapped, types).lines == first.lines


def test_plain_functions_gradients_and_functions_in_jax(mesh):
    ws, x = arguments()
    trace = nx.trace_names(layer, ws[0], x)
    assert [line.values for line in trace.lines[1:]] == [(("h", "f32[]{batch:8, h:8}"),), (("return", "f32[]{batch:8, h:8}"),)]

    def loss(w, x):
        h = jax.checkpoint(layer)(w, x)
        return nx.mean(h, ...)

    step = jax.jit(jax.value_and_grad(nx.xmap(loss, axis_resources={"batch": "data"}, mesh=mesh)))
    trace = nx.trace_names(step, ws[0], x)
    assert [line.values for line in by_text(trace, "h = jax.checkpoint")] == [(("h", "f32[]{batch:8@data, h:8}"),)]
    assert any("in the gradient" in text for line in trace.lines for text in line.communication)


def test_an_error_ends_the_trace(mesh):
    def f(x):
        y = nx.sin(x)
        return nx.sum(y, "kk")

    trace = nx.trace_names(nx.xmap(f, axis_resources={"batch": "data"}, mesh=mesh), arguments()[1])
    assert isinstance(trace.error, nx.errors.AxisNotFoundError)
    assert [line.text for line in trace.lines] == ["def f(x):", "y = nx.sin(x)", 'return nx.sum(y, "kk")']
    assert trace.lines[1].values == (("y", "f32[]{batch:8@data, k:8}"),)
    assert repr(trace).splitlines()[-1].startswith("AxisNotFoundError: sum: no axis 'kk' in f32[]{batch:8@data, k:8}")
    assert "AxisNotFoundError" in trace._repr_html_()


def test_text_and_plain_data(mesh):
    trace = nx.trace_names(nx.xmap(model, axis_resources={"batch": "data", "k": "model"}, mesh=mesh), *arguments())
    text = repr(trace)
    assert max(map(len, text.splitlines())) <= 100
    assert text.splitlines()[0] == "test_trace_names.py:"
    assert "! all-reduce over model (k), 128 B" in text
    data = json.loads(json.dumps(trace.to_dict()))
    assert len(data["lines"]) == len(trace.lines)
    assert data["error"] is None
    assert "f32[]{batch:8@data, h:8}" in trace._repr_html_()


def test_cells_of_notebooks():
    """Their source exists only in `linecache`."""
    source = "def cell(x):\n    y = nx.sum(x, 'k')\n    return y\n"
    name = "<ipython-input-7-abc>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = {"nx": nx}
    exec(compile(source, name, "exec"), scope)
    trace = nx.trace_names(scope["cell"], arguments()[1])
    assert [(line.text, line.values) for line in trace.lines[1:]] == [
        ("y = nx.sum(x, 'k')", (("y", "f32[]{batch:8}"),)),
        ("return y", (("return", "f32[]{batch:8}"),)),
    ]


def test_the_hook_of_a_debugger_is_restored():
    before = sys.gettrace()
    nx.trace_names(lambda x: nx.sin(x), nx.ones(named_shape={"k": 2}))
    nx.trace_names(lambda x: nx.sum(x, "a"), nx.ones(named_shape={"k": 2}))
    assert sys.gettrace() is before


def test_objects_and_many_arrays():
    class State:
        pass

    def f(x):
        state = State()
        state.h = x * 2
        many = [x] * 10
        return many[0]

    trace = nx.trace_names(f, nx.ones(named_shape={"k": 2}))
    assert by_text(trace, "state.h")[0].values == (("state.h", "f32[]{k:2}"),)
    assert by_text(trace, "many")[0].values == (("many", "10 arrays"),)


def test_mistakes():
    with pytest.raises(
        TypeError, match=r"^nx\.trace_names: the first argument must be a function, got .*\. Write nx\.trace_names"
    ):
        nx.trace_names(jnp.ones(3))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        nx.trace_names(layer, arguments()[0])


def test_functions_that_python_runs_before_a_mistaken_call_do_not_hide_the_mistake():
    @jax.tree_util.register_pytree_node_class
    class Holder:
        def tree_flatten(self):
            return (), None

        @classmethod
        def tree_unflatten(cls, aux, leaves):
            return cls()

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        nx.trace_names(layer, Holder())


def test_handlers_and_cases_have_their_text():
    def f(x):
        try:
            y = nx.dot(x, x, "nope")
        except nx.errors.AxisNotFoundError as error:
            y = x * len(str(error))
        match x.ndim:
            case 1:
                y = y + 1
            case _:
                y = y + 2

        class Holder:
            z = y * 2

        return Holder.z

    trace = nx.trace_names(f, nx.ones(named_shape={"b": 2}))
    texts = [line.text for line in trace.lines]
    assert texts[1:5] == [
        "try:",
        'y = nx.dot(x, x, "nope")',
        "except nx.errors.AxisNotFoundError as error:",
        "y = x * len(str(error))",
    ]
    assert texts[5:9] == ["match x.ndim:", "case 1:", "case _:", "y = y + 2"]
    assert texts[9:] == ["class Holder:", "class Holder:", "z = y * 2", "return Holder.z"]
    assert dict(trace.lines[-2].values) == {"z": "f32[]{b:2}"}


def test_finalizers_and_other_functions_without_arrays_are_left_out():
    class Closed:
        def __del__(self):
            done = True  # noqa: F841

    def f(x):
        closed = Closed()
        y = nx.sin(x)
        del closed
        count_of_no_array(3)
        return nx.sum(y, "k")

    def count_of_no_array(n):
        return n + 1

    trace = nx.trace_names(f, nx.named(jnp.ones((2, 3)), ["batch", "k"]))
    texts = [line.text for line in trace.lines]
    assert {"del closed", 'return nx.sum(y, "k")'} <= set(texts)
    assert not any("__del__" in text or "count_of_no_array(n)" in text for text in texts)
