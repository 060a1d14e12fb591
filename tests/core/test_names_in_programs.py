"""What programs say of themselves: the operation, its names and the user's line, in traced and in compiled programs.

Every operation over names is a scope, `nx.sum{batch}`, and the mapped function another one around all of them. They are read from the
equations of a traced program, and by `nx.hlo.collectives` from the text of a compiled one. Lines are looked up in this file's source.
"""

import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.operations import OPERATIONS

AUTO = jax.sharding.AxisType.Auto
LINE = jax.make_mesh((8,), ("x",), axis_types=(AUTO,))
GRID = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AUTO,) * 2)
SCOPE = r"nx\.([\w.]+)\{([^{}]*)\}"
X = nx.named(make.array(np.arange(128.0).reshape(16, 8) / 7), ["batch", "hidden"])
W = nx.named(make.array(np.full((8, 8), 0.2)), ["hidden", "out"])
LAYERS = nx.named(make.array(np.full((3, 8, 8), 0.2)), [None, "hidden", "out"])


@pytest.fixture(autouse=True)
def locations():
    """JAX says where operations come from, as it does for users."""
    before = jax.config.jax_include_full_tracebacks_in_locations
    jax.config.update("jax_include_full_tracebacks_in_locations", True)
    yield
    jax.config.update("jax_include_full_tracebacks_in_locations", before)


def compiled(f, *args):
    """What `nx.hlo.collectives` finds: kind, operation, names and line, once each."""
    found = nx.hlo.collectives(jax.jit(f).lower(*args).compile())
    return {(c.kind, c.operation, c.names, c.source) for c in found}


def at(function, text):
    """The line of this file in which `function` has `text`."""
    lines, start = inspect.getsourcelines(function)
    (line,) = (i for i, source in enumerate(lines, start) if text in source)
    return f"test_names_in_programs.py:{line}"


def stacks(jaxpr, around=()):
    """The scopes around every equation of a traced program, with what its name is."""
    for eqn in jaxpr.eqns:
        own = (*around, *re.findall(SCOPE, str(eqn.source_info.name_stack)))
        yield eqn.primitive.name, own
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                    yield from stacks(getattr(part, "jaxpr", part), own)


def traced(f, *args):
    return list(stacks(jax.make_jaxpr(f)(*args).jaxpr))


def scopes(f, *args):
    """All scopes of a traced program."""
    return {scope for _, own in traced(f, *args) for scope in own}


# --- compiled programs ----------------------------------------------------------------------------------------------------


def layers(x, w):
    h = nx.dot(x, w, "hidden")
    h = nx.nn.relu(h)
    h = nx.rename(h, {"out": "hidden"})
    p = nx.nn.softmax(h, "batch")
    return nx.sum(p, "hidden")


@pytest.mark.parametrize("grad", [False, True])
def test_operations_on_a_line(grad):
    f = nx.xmap(layers, axis_resources={"hidden": "x"}, mesh=LINE)
    loss = lambda x, w: jnp.sum(f(x, w).data ** 2)  # noqa: E731
    found = compiled(jax.grad(loss, argnums=(0, 1)) if grad else f, X, W)
    dot = at(layers, "nx.dot(")
    assert ("all-reduce", "nx.dot", ("hidden",), dot) in found
    assert ("all-reduce", "nx.sum", ("hidden",), at(layers, "nx.sum(")) in found
    assert (("all-gather", "nx.rename", ("hidden:out",), at(layers, "nx.rename(")) in found) == grad
    assert all(operation for _, operation, _, _ in found)


def test_operations_on_a_grid():
    f = nx.xmap(layers, axis_resources={"hidden": "x", "batch": "y"}, mesh=GRID)
    assert compiled(f, X, W) == {
        ("all-reduce", "nx.dot", ("hidden",), at(layers, "nx.dot(")),
        ("all-reduce", "nx.nn.softmax", ("batch",), at(layers, "softmax(")),
        ("all-reduce", "nx.sum", ("hidden",), at(layers, "nx.sum(")),
    }


def weights(x, w):
    return nx.einsum("{batch,hidden},{hidden:hidden_fsdp,out}->{batch,out}", x, w)


def test_an_einsum_says_what_it_contracts_and_renames():
    w = nx.rename(W, {"hidden": "hidden_fsdp"})
    f = nx.xmap(weights, axis_resources={"batch": "x", "hidden_fsdp": "x"}, mesh=LINE)
    line = at(weights, "nx.einsum(")
    names = ("hidden", "hidden:hidden_fsdp")
    assert compiled(f, X, w) == {("all-gather", "nx.einsum", names, line)}
    grad = jax.grad(lambda w: jnp.sum(f(X, w).data ** 2))
    assert ("reduce-scatter", "nx.einsum", names, line) in compiled(grad, w)


def network(w, x):
    def layer(h, w):
        h = nx.nn.relu(nx.dot(h, w, "hidden"))
        return nx.rename(h, {"out": "hidden"}), nx.sum(h, "batch")

    h, sums = nx.scan(layer, x, w)
    h = h + nx.sum(sums, ...)
    h = nx.mean(h, "batch")
    return nx.sum(h, "hidden")


@pytest.mark.fast(0)
@pytest.mark.parametrize("remat", [False, True])
def test_a_scan_with_its_gradient(remat):
    """Also a sum that waits for another one, and the cast of a parameter that is taken out of the loop, whose gradient is a sum."""
    body = jax.checkpoint(network) if remat else network
    f = nx.xmap(body, axis_resources={"hidden": "x", "batch": "y"}, mesh=GRID)
    found = compiled(jax.value_and_grad(f), LAYERS, X)
    dot = at(network, "nx.dot(")
    assert ("all-reduce", "nx.dot", ("hidden",), dot) in found
    assert ("all-reduce", "nx.mean", ("batch",), at(network, "nx.mean(")) in found  # with nx.sum, which follows
    assert ("all-gather", "nx.rename", ("hidden:out",), at(network, "nx.rename(")) in found
    assert not any(operation in ("", "nx.xmap") for _, operation, _, _ in found)
    sums = nx.hlo.collectives(jax.jit(jax.grad(f)).lower(LAYERS, X).compile())
    (gradient,) = (c for c in sums if c.bytes == LAYERS.data.nbytes // 4 and not c.in_loop)
    assert (gradient.operation, gradient.names, gradient.source) == ("nx.dot", ("hidden",), dot)


def residual(x, w):
    y = nx.dot(x, w, "hidden")
    y = y * 2 + 1
    return nx.rename(y, {"batch": "part"})


def test_a_sum_that_is_postponed_belongs_to_its_operation():
    f = nx.xmap(residual, axis_resources={"hidden": "x", "part": "x"}, mesh=LINE)
    assert compiled(f, X, W) == {("reduce-scatter", "nx.dot", ("hidden",), at(residual, "nx.dot("))}


def test_a_loop_in_time():
    f = nx.xmap(network, axis_resources={"hidden": "x", "batch": nx.SerialLoop(2)}, mesh=LINE)
    found = compiled(jax.value_and_grad(f), LAYERS, X)
    assert ("all-reduce", "nx.dot", ("hidden",), at(network, "nx.dot(")) in found
    assert "xmap" in {operation for operation, _ in scopes(f, LAYERS, X)}
    assert {names for operation, names in scopes(f, LAYERS, X) if operation == "xmap"} == {"hidden:x"}


def test_elementwise_operations():
    def f(x, w):
        return x * w

    w = nx.named(jnp.ones(8), ["hidden"])
    grad = jax.grad(lambda w: jnp.sum(nx.xmap(f, axis_resources={"batch": "x"}, mesh=LINE)(X, w).data))
    assert compiled(grad, w) == {("all-reduce", "nx.multiply", (), at(f, "x * w"))}


# Rows whose communication is what the table's are, by what it says besides the row's own name.
SAYS = {
    "softmax": "nn.softmax",
    "rope": "nn.rope",
    "index": "getitem",
    "at": "at.set",
    "where": "where",
    "stack": "stack",
    "concatenate_parts": "concatenate",
    "split_parts": "split",
}


@pytest.mark.parametrize("row", OPERATIONS)
def test_every_operation_that_communicates_says_its_name(row):
    function = OPERATIONS[row][0]
    x = nx.named(jnp.arange(32.0).reshape(8, 4) / 7, ["a", "b"])
    f = nx.xmap(function, axis_resources={"a": "x"}, mesh=LINE)
    compiled_ = jax.jit(f).lower(x).compile()
    for c in nx.hlo.collectives(compiled_):
        assert c.operation == f"nx.{SAYS.get(row, row)}", c
        assert c.source.startswith("operations.py:"), c
        assert not c.names or any(name.split(":")[-1] == "a" for name in c.names), c


COLLECTIVES = {
    "lax.psum": lambda x: nx.lax.psum(x, "a"),
    "lax.pmean": lambda x: nx.lax.pmean(x, "a"),
    "lax.pmax": lambda x: nx.lax.pmax(x, "a"),
    "lax.all_gather": lambda x: nx.lax.all_gather(x, "a"),
    "lax.ppermute": lambda x: nx.lax.ppermute(x, "a", [(0, 1)]),
    "lax.pgather": lambda x: nx.lax.pgather(x, jnp.array([1, 2]), "a"),
    "lax.pdot": lambda x: nx.lax.pdot(x, x, "a"),
    "mean": lambda x: x.mean("a"),
    "rename": lambda x: x.rename(a="c"),
    "argmax": lambda x: nx.argmax(x, "a"),
    "untag": lambda x: nx.untag(x, ["a"]),
    "halo": lambda x: nx.halo(x, "a", 1, 1, out_axis="h"),
    "nn.layer_norm": lambda x: nx.nn.layer_norm(x, "a"),
    "nn.batch_norm": lambda x: nx.nn.batch_norm(x, "a"),
    "numpy.fft.fft": lambda x: nx.numpy.fft.fft(x, axis="a"),
    "random.permutation": lambda x: nx.random.permutation(jax.random.key(0), x, "a"),
    "associative_scan": lambda x: nx.associative_scan(lambda a, b: a + b, x, axis="a"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_and_what_has_no_kernel(name):
    x = nx.named(jnp.arange(32.0).reshape(8, 4) / 7, ["a", "b"])
    found = compiled(nx.xmap(COLLECTIVES[name], axis_resources={"a": "x"}, mesh=LINE), x)
    assert {operation for _, operation, _, _ in found} == {f"nx.{name}"}
    assert functools.reduce(getattr, name.split("."), nx)
    (names,) = {names for _, _, names, _ in found}
    assert names == (("c:a",) if name == "rename" else names)
    assert "a" in names or names == ("c:a",)


# --- traced programs ------------------------------------------------------------------------------------------------------


def test_the_mapped_function_is_one_scope():
    """Around everything in it, once, however it is lowered; it says the mesh axes of names, and no other name's."""
    whole = {("xmap", "batch:x+y")}
    resources = {"batch": ("x", "y")}
    named = nx.xmap(lambda x: nx.sum(x, "batch"), axis_resources=resources, mesh=GRID)
    placed = nx.xmap(lambda x: nx.sum(x, "batch"), axis_resources=resources, mesh=GRID, out_axes=["hidden"])
    for f in (named, placed):
        assert {scope for scope in scopes(f, X) if scope[0] == "xmap"} == whole
        assert all(own.count(("xmap", "batch:x+y")) <= 1 for _, own in traced(f, X))
        sums = [own for name, own in traced(f, X) if name == "psum_invariant"]
        assert sums == [(("xmap", "batch:x+y"), ("sum", "batch"))]
    in_steps = nx.xmap(lambda x: nx.sum(x, "batch"), axis_resources={"batch": ("x", nx.SerialLoop(2))}, mesh=GRID)
    for f in (in_steps, jax.grad(lambda x: jnp.sum(in_steps(x).data))):
        found = traced(f, X)
        assert all(own.count(("xmap", "batch:x")) <= 1 for _, own in found)
        assert all(own[:1] == (("xmap", "batch:x"),) for name, own in found if name in ("psum_invariant", "scan"))


def test_mapped_functions_within_others():
    inner = nx.xmap(lambda x: nx.sum(x, "hidden"), axis_resources={"hidden": "y"})
    f = nx.xmap(lambda x: nx.sum(inner(x), "batch"), axis_resources={"batch": "x"}, mesh=GRID)
    found = traced(f, X)
    assert (("xmap", "batch:x"), ("sum", "batch")) in [own for name, own in found if name == "psum_invariant"]
    assert all(len(own) == len(set(own)) for _, own in found)


def test_an_operation_is_one_scope():
    """The operations that it is made of say nothing."""
    f = nx.xmap(
        lambda x: nx.nn.dropout(nx.nn.batch_norm(x, "batch")[0], jax.random.key(0), 0.5),
        axis_resources={"batch": "x"},
        mesh=LINE,
    )
    operations = {tuple(operation for operation, _ in own) for _, own in traced(f, X)}
    assert operations == {(), ("xmap",), ("xmap", "nn.batch_norm"), ("xmap", "nn.dropout")}


def test_code_of_the_user_says_its_own():
    def f(x):
        return nx.scan(lambda carry, x: (carry + nx.sum(x, "hidden"), None), 0.0, x, axis="batch")[0]

    found = {tuple(operation for operation, _ in own) for _, own in traced(nx.xmap(f), X)}
    assert ("xmap", "scan", "sum") in found


def test_operations_outside_of_a_mapped_function():
    """Under a trace they say their names, too; an eager one is no program."""
    assert ("sum", "batch") in scopes(lambda x: nx.sum(x, "batch"), X)
    assert ("einsum", "hidden") in scopes(lambda x: nx.einsum("{batch,hidden}->{batch}", x), X)
    nx.sum(X, "batch")
    assert ("sum", "batch") in scopes(lambda x: nx.sum(x, "batch"), X)


def test_names_that_share_a_kernel_say_their_own():
    """Also where the kernel was compiled, or traced, for other names before."""
    nx.sum(nx.named(jnp.ones((2, 3)), ["one", "two"]), "one")
    y = nx.named(jnp.ones((16, 8)), ["lines", "columns"])
    for _ in range(2):
        assert scopes(lambda x: nx.sum(x, "batch"), X) == {("sum", "batch")}
        assert scopes(lambda y: nx.sum(y, "lines"), y) == {("sum", "lines")}
        both = traced(lambda x, y: (x.sum("batch"), y.sum("lines")), X, y)
        assert [own for name, own in both if name == "reduce_sum"] == [(("sum", "batch"),), (("sum", "lines"),)]


def test_a_scope_costs_no_compilation():
    counted = []
    f = jax.jit(lambda x: counted.append(1) or nx.sum(x, 0))

    def g(x):
        with jax.named_scope("first"):
            a = f(x.data)
        with jax.named_scope("second"):
            return a + f(x.data)

    jax.jit(g).lower(X)
    assert len(counted) == 1


class Axis:
    """A name that is no string."""

    def __str__(self):
        return "layer{1}/a,b"


def test_names_that_are_no_text():
    name = Axis()
    x = nx.named(jnp.ones((8, 2)), [name, ("k", 1)])
    assert ("sum", "layer_1__a_b") in scopes(lambda x: nx.sum(x, name), x)
    assert ("sum", "('k'_ 1)") in scopes(lambda x: nx.sum(x, [("k", 1)]), x)
    found = compiled(nx.xmap(lambda x: nx.sum(x, name), axis_resources={name: "x"}, mesh=LINE), x)
    assert {(operation, names) for _, operation, names, _ in found} == {("nx.sum", ("layer_1__a_b",))}


def test_a_name_in_other_letters():
    x = nx.named(jnp.ones((8, 2)), ["größe", "k"])
    found = compiled(nx.xmap(lambda x: nx.sum(x, "größe"), axis_resources={"größe": "x"}, mesh=LINE), x)
    assert {(operation, names) for _, operation, names, _ in found} == {("nx.sum", ("größe",))}
