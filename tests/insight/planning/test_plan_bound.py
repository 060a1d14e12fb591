"""The lower bound of a plan: against all layouts of small spaces, and by hand."""

import itertools
import math
import random

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax import machines

SLOW = machines.Machine(
    flops={"float32": 1e12}, memory=1e12, bandwidth=1e12, links={...: machines.Link(1e9, 1e-6, "switch")}, name="slow"
)
FAST = machines.Machine(
    flops={"float32": 1e12}, memory=1e12, bandwidth=1e11, links={...: machines.Link(1e12, 1e-9, "ring")}, name="fast"
)
STARTING = machines.Machine(
    flops={"float32": 1e13},
    memory=1e12,
    bandwidth=1e12,
    links={...: machines.Link(5e10, 1e-6, "ring", dimensions=1)},
    overlap=True,
    launch=1e-6,
    name="starting",
)


def abstract(**sizes):
    """A mesh without devices."""
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))


def types(**arrays):
    """The types of named arrays: names with their sizes."""
    return [jax.eval_shape(lambda d=dims: nx.named(jnp.zeros(list(d.values())), list(d))) for dims in arrays.values()]


def layouts(names, axes):
    """Every assignment of names to mesh axes."""
    subsets = [s for k in range(len(names) + 1) for s in itertools.combinations(names, k)]
    for roles in itertools.product(subsets, repeat=len(axes)):
        found = {n: tuple(a for a, role in zip(axes, roles, strict=True) if n in role) for n in names}
        yield {n: places for n, places in found.items() if places}


def best_of_all(body, args, sizes, names, mesh, machine, memory):
    """The time of the fastest layout that fits, of all that divide and can be traced."""
    best = math.inf
    for resources in layouts(names, list(mesh.shape)):
        counts = {n: math.prod(mesh.shape[a] for a in axes) for n, axes in resources.items()}
        if any(sizes[n] % count for n, count in counts.items()):
            continue
        try:
            report = nx.explain(nx.xmap(lambda *a: body(*a), axis_resources=resources, mesh=mesh), *args)
        except (nx.errors.NamedaxError, ValueError):
            continue
        if report.memory.peak <= memory:
            best = min(best, report.time(machine))
    return best


def network(w1, w2, x):
    """Two layers with a loss."""
    h = nx.nn.relu(nx.dot(x, w1, "inputs"))
    return nx.mean(nx.square(nx.dot(h, w2, "hidden")), ["batch", "outputs"])


def attention(wq, wo, x):
    """Attention over positions, with a second name for the parameters."""
    q = nx.einsum("{embed},{embed:store}->", x, wq)
    y = nx.nn.dot_product_attention(q, q, q, axis="pos", features="key", is_causal=True)
    y = nx.einsum("{heads,key},{heads,key,embed:store}->{embed}", y, wo)
    return nx.mean(nx.square(x + y), ["batch", "pos", "embed"])


def chained(w1, w2, x):
    """A contraction of three operands, whose order depends on sizes."""
    y = nx.einsum("{batch,a},{a,b},{b,c}->{batch,c}", x, w1, w2)
    return nx.mean(nx.square(y), ["batch", "c"])


def looped(ws, x):
    """Layers in a loop that are recomputed, with stored and used parameters."""

    def step(x, w):
        y = nx.einsum("{k},{k:store,m}->{m}", x, w)
        return nx.rename(nx.nn.relu(y), {"m": "k"}), None

    x, _ = nx.scan(jax.checkpoint(step), x, ws)
    return nx.mean(nx.square(x), ["batch", "k"])


def mixed(w, v, x, y):
    """Products whose results are added, of equal and of different names."""
    a = nx.dot(x, w, "k") + nx.dot(y, w, "k")
    return nx.mean(nx.exp(nx.dot(a, v, "m")), ["batch", "n"]) + nx.mean(nx.square(a), ["batch", "m"])


PROGRAMS = {
    "network": (network, ["inputs hidden", "hidden outputs", "batch inputs"]),
    "attention": (attention, ["store heads key", "heads key store", "batch pos embed"]),
    "chained": (chained, ["a b", "b c", "batch a"]),
    "looped": (looped, [". store m", "batch k"]),
    "mixed": (mixed, ["k m", "m n", "batch k", "batch k"]),
}


def case(program, number):
    """A random case: sizes, a mesh, a machine, a memory limit."""
    rng = random.Random(f"{program}{number}")
    body, shapes = PROGRAMS[program]
    every = dict.fromkeys(name for shape in shapes for name in shape.split() if name != ".")
    sizes = {name: rng.choice([8, 16, 64, 256, 512]) for name in every}
    if program == "attention":
        sizes["store"] = sizes["embed"]
    if program == "looped":
        sizes["m"] = sizes["store"] = sizes["k"]
    sizes["batch"] = rng.choice([2, 64, 1024])
    arrays = []
    for shape in shapes:
        names = [None if name == "." else name for name in shape.split()]
        arrays.append(
            jax.eval_shape(lambda names=names: nx.named(jnp.zeros([3 if n is None else sizes[n] for n in names]), names))
        )
    mesh = abstract(**rng.choice([{"x": 2, "y": 2}, {"x": 4}, {"x": 4, "y": 2}]))
    machine = rng.choice([SLOW, FAST, STARTING, machines.v5p])
    wrt = tuple(range(len(shapes) - 1))
    return jax.value_and_grad(body, argnums=wrt), arrays, sizes, mesh, machine, rng


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_layout_is_faster_than_the_bound(program, number):
    body, args, sizes, mesh, machine, rng = case(program, number)
    names = sorted(rng.sample(sorted(sizes), min(len(sizes), 4 if number else 3)))
    free = nx.plan(nx.xmap(body), *args, mesh=mesh, machine=machine, names=names, memory=1e15)
    least = min(one.peak for one in free.candidates)
    memory = rng.choice([1e15, 1.01 * least, 0.5 * (least + free.candidates[0].peak)])
    best = best_of_all(body, args, sizes, names, mesh, machine, memory)
    for tries in (None, 8):
        try:
            plan = nx.plan(nx.xmap(body), *args, mesh=mesh, machine=machine, names=names, memory=memory, tries=tries)
        except nx.errors.PlanError:
            assert tries is not None
            continue
        assert plan.bound <= best * (1 + 1e-9)
        assert plan.gap >= plan.candidates[0].time / best - 1 - 1e-9
        if plan.exhausted:
            # `remat=` may save recomputations of the program, which the bound counts.
            assert plan.candidates[0].time <= best * (1 + 1e-9)
            if not plan.options:
                assert plan.candidates[0].time == pytest.approx(best, rel=1e-9)


@pytest.mark.fast(0)
def test_the_bound_is_the_arithmetic_that_cannot_be_avoided():
    # 4 products of 2 * 256 * 512 * 512 operations over 4 devices of 1e12 per second: the forward pass, and with
    # respect to x and w; none of the products of the first layer with respect to x. Six names, of which some divide.
    args = types(w={"inputs": 512, "hidden": 512}, v={"hidden": 512, "outputs": 512}, x={"batch": 256, "inputs": 512})
    f = nx.xmap(jax.value_and_grad(network, argnums=(0, 1)))
    for links in FAST.links, SLOW.links:
        wide = machines.Machine(flops={"float32": 1e12}, memory=1e12, bandwidth=1e15, links=links, name="wide")
        plan = nx.plan(f, *args, mesh=abstract(a=4, b=2), machine=wide, tries=9)
        assert not plan.exhausted
        assert plan.ended == "tries"
        assert plan.bound == pytest.approx(5 * 2 * 256 * 512 * 512 / 8 / 1e12, rel=1e-6)
        assert plan.gap == plan.candidates[0].time / plan.bound - 1
        assert (plan.gap <= 3) == (links is FAST.links)
        words = " ".join(str(plan).split())
        # A larger gap says nothing about the layout.
        is_shown = f"at most {plan.gap:.0%} slower than the best possible layout of this space" in words
        assert is_shown == ("possible layout" in plan._repr_html_()) == (links is FAST.links)
        assert "ended at the maximum number of layouts (tries=)" in words


def test_a_small_space_is_searched_exactly():
    args = types(w={"inputs": 64, "hidden": 128}, v={"hidden": 128, "outputs": 16}, x={"batch": 1024, "inputs": 64})
    f = nx.xmap(jax.value_and_grad(network, argnums=(0, 1)))
    plan = nx.plan(f, *args, mesh=abstract(x=8), machine=SLOW)
    assert plan.exhausted
    assert plan.gap == 0
    assert plan.bound == plan.candidates[0].time
    assert "The best layout is exact" in str(plan)
    again = nx.plan(f, *args, mesh=abstract(x=8), machine=SLOW)
    assert (again.traces, again.bound, str(again)) == (plan.traces, plan.bound, str(plan))


@pytest.mark.fast(0)
def test_with_enough_tries_all_layouts_are_judged():
    args = types(w={"inputs": 64, "hidden": 128}, v={"hidden": 128, "outputs": 16}, x={"batch": 1024, "inputs": 64})
    f = nx.xmap(jax.value_and_grad(network, argnums=(0, 1)))
    plan = nx.plan(f, *args, mesh=abstract(x=2, y=2), machine=FAST, tries=500)
    assert plan.exhausted
    assert plan.ended == "converged"


def test_without_enough_layouts_there_is_no_bound():
    args = types(w={"inputs": 64, "hidden": 128}, v={"hidden": 128, "outputs": 16}, x={"batch": 1024, "inputs": 64})
    plan = nx.plan(nx.xmap(network), *args, mesh=abstract(x=8), machine=SLOW, tries=1)
    assert plan.bound == 0
    assert plan.gap == math.inf
    assert "possible layout" not in str(plan)


def test_arguments_that_do_not_fit_raise_the_bound():
    # Layouts that store both parameters on every device exceed the memory, whatever else they do.
    def body(w, v, x):
        return nx.mean(nx.square(nx.dot(nx.dot(x, w, "k"), v, "m")), ["batch", "n"])

    args = types(w={"k": 512, "m": 512}, v={"m": 512, "n": 512}, x={"batch": 64, "k": 512})
    f = nx.xmap(body)
    mesh, names = abstract(x=8), ["batch", "m"]
    free = nx.plan(f, *args, mesh=mesh, machine=SLOW, names=names)
    tight = nx.plan(f, *args, mesh=mesh, machine=SLOW, names=names, memory=1.5e6)
    assert tight.exhausted
    assert tight.best == {"m": "x"}
    assert free.exhausted


def test_small_blocks_have_no_start_cost_in_the_bound():
    # Blocks of at most 64 operations and bytes are fused with others, so the best layout takes almost no time.
    machine = machines.Machine(
        flops={"float32": 1e12},
        memory=1e12,
        bandwidth=1e12,
        links={...: machines.Link(1e15, 1e-15, "ring")},
        launch=1e-3,
        name="starts",
    )

    def body(w, v, x):
        return nx.dot(nx.dot(x, w, "k"), v, "m")

    args = types(w={"k": 4, "m": 4}, v={"m": 4, "n": 4}, x={"b": 4, "k": 4})
    mesh, names = abstract(x=4, y=2), ["b", "k", "m", "n"]
    best = best_of_all(body, args, dict.fromkeys(names, 4), names, mesh, machine, 1e15)
    assert best < 1e-6
    for tries in (5, 6, None):
        plan = nx.plan(nx.xmap(body), *args, mesh=mesh, machine=machine, names=names, tries=tries)
        assert plan.bound <= best
