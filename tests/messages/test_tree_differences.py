"""Errors about trees of two structures begin with the difference, and do not print the structures."""

import collections

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError, AxisMappingError
from namedax.interop import adafactor, muon, shampoo
from tests.harness import array, make_mesh, said

X = nx.named(array(8, 6), ["b", "k"])
GOOD = {"bias": X, "layers": [{"v": X}, {"v": X}]}
BAD = {"bais": X, "layers": [{"v": X}, {"v": X, "w": X}]}
RAW = {"bias": array(8), "w": array(8, 6)}
AXES = {"bais": ["b"], "w": ["b", "k"]}
MAPPINGS = (
    "Write one axis mapping per value, or one for a whole container. A tuple, a list of lists or dicts, and a dict with string "
    "keys are containers."
)
Pair = collections.namedtuple("Pair", ["first", "second"])


def differs(want, have, want_end="", have_end=""):
    """The sentences about `GOOD`, which is wanted, and `BAD`."""
    return (
        f"{want}['bias']{want_end} is missing from {have}{have_end}; {have}['bais']{have_end} is not in {want}{want_end}; "
        f"{have}['layers'][1]['w']{have_end} is not in {want}{want_end}. Did you mean 'bias' instead of 'bais'? "
    )


def derivative_of(have):
    f = nx.custom_vjp(lambda tree: tree["bias"])
    f.defvjp(lambda tree: (f(tree), None), lambda residuals, ct: (have,))
    return jax.grad(lambda tree: nx.sum(f(tree), ...))(GOOD)


def tangents_of(have):
    f = nx.custom_jvp(lambda x, y: x)
    f.defjvps(lambda t, result, *primals: result, lambda t, result, *primals: have)
    return jax.jvp(f, (GOOD, GOOD), (GOOD, GOOD))


def moved(tree):
    before, after = (make_mesh((8,)), {"b": "x"}), (make_mesh((4, 2)), {"b": "y"})
    return nx.transfer(GOOD, before, after)(tree)


def updated(optimizer, updates, params):
    return jax.eval_shape(lambda: optimizer.update(updates, optimizer.init(GOOD), params))


SIDES = {"rows": "b", "columns": "k"}
SAME = "The two must have the same structure."
OF_INIT = "Pass updates with the structure of the parameters of init."
CASES = {
    "in_axes": (
        lambda: nx.xmap(lambda p: p["w"], (AXES,), ["b", "k"])(RAW),
        "xmap, in_axes: argument 'p'['bias'] is missing from in_axes; in_axes[0]['bais'] is not in the arguments. Did you mean 'bias' "
        "instead of 'bais'? " + MAPPINGS,
    ),
    "in_axes by keyword": (
        lambda: nx.xmap(lambda *, p: p["w"], {"p": {"w": ["b", "k"]}}, ["b", "k"])(p=RAW),
        "xmap, in_axes: argument 'p'['bias'] is missing from in_axes. " + MAPPINGS,
    ),
    "out_axes": (
        lambda: nx.xmap(
            lambda p: p, ({"bias": ["b"], "w": ["b", "k"]},), AXES, axis_resources={"b": "x"}, mesh=make_mesh((8,))
        )(RAW),
        "xmap, out_axes: the result['bias'] is missing from out_axes; out_axes['bais'] is not in the result. Did you mean 'bias' "
        "instead of 'bais'? " + MAPPINGS,
    ),
    "out_axes of a pair": (
        lambda: nx.xmap(lambda x: (x, x), ["b"], (["b"], ["b"], ["b"]))(array(8)),
        "xmap, out_axes: out_axes is a tuple of length 3, but the result is a tuple of length 2. " + MAPPINGS,
    ),
    "named": (
        lambda: nx.named({"a": {"x": array(3)}, "b": None}, {"a": {"x": ["k"], "y": ["k"]}, "b": (["k"],)}),
        "named: axes['a']['y'] is not in the tree; axes['b'] is a tuple of length 1, but the tree['b'] is None. " + MAPPINGS,
    ),
    "from_process_local": (
        lambda: nx.from_process_local(RAW, {"w": ["b", "k"]}, {"b": "x"}, make_mesh((8,))),
        "from_process_local: the tree['bias'] is missing from axes. " + MAPPINGS,
    ),
    "order_like": (
        lambda: nx.order_like(BAD, GOOD),
        f"order_like: {differs('like', 'the tree')}Pass two trees of the same structure.",
    ),
    "scan": (
        lambda: nx.scan(lambda carry, _: (BAD, None), GOOD, None, length=2),
        f"scan: {differs('the carry', 'the returned carry')}The body must return the structure of the carry.",
    ),
    "while_loop": (
        lambda: nx.while_loop(lambda carry: True, lambda carry: Pair(*carry), (1.0, 2.0)),
        "while_loop: the returned carry is a Pair, but the carry is a tuple of length 2. The body must return the structure of the carry.",
    ),
    "cond": (
        lambda: nx.cond(True, lambda: BAD, lambda: GOOD),
        f"cond: {differs('the result', 'the result', ' of false_fun', ' of true_fun')}All branches must return the same structure.",
    ),
    "associative_scan": (
        lambda: nx.associative_scan(lambda a, b: {"y": a["x"]}, {"x": X}, axis="k"),
        "associative_scan: its argument['x'] is missing from the result of the function; the result['y'] of the function is not in its "
        "argument. Return the structure of one argument.",
    ),
    "custom_vjp": (
        lambda: derivative_of(BAD),
        f"custom_vjp <lambda>: {differs('argument 0', 'the cotangent of argument 0')}{SAME}",
    ),
    "custom_jvp": (
        lambda: tangents_of(BAD),
        f"custom_jvp <lambda>: {differs('the result', 'the tangent', '', ' for argument 1')}{SAME}",
    ),
    "cg": (lambda: nx.scipy.sparse.linalg.cg(lambda v: BAD, GOOD), f"cg: {differs('b', 'the result of A')}{SAME}"),
    "transfer": (lambda: moved(BAD), f"transfer: {differs('the plan', 'the tree')}Make a plan for this tree with nx.transfer."),
    **{
        f"{op.__name__}, {label}": (
            lambda op=op, params=params: updated(op(0.1, **SIDES), BAD, params),
            f"{op.__name__}: {differs(label, 'the updates')}{OF_INIT}",
        )
        for op, label, params in [
            (muon, "the state", None),
            (shampoo, "the state", None),
            (muon, "the parameters", GOOD),
            (shampoo, "the parameters", GOOD),
        ]
    },
    "adafactor, the state": (
        lambda: updated(adafactor(0.1, **SIDES), BAD, GOOD),
        f"adafactor: {differs('the state', 'the updates')}{OF_INIT}",
    ),
    "adafactor, the parameters": (
        lambda: updated(adafactor(0.1, **SIDES), GOOD, BAD),
        "adafactor: the parameters['bais'] is missing from the updates; the updates['bias'] is not in the parameters; the "
        "parameters['layers'][1]['w'] is missing from the updates. Did you mean 'bais' instead of 'bias'? " + OF_INIT,
    ),
    "many": (
        lambda: nx.order_like({"ab1": X, "cd1": X}, {"ab2": X, "cd2": X, "ef2": X}),
        "order_like: like['ab2'] is missing from the tree; like['cd2'] is missing from the tree; like['ef2'] is missing from the tree; "
        "and 2 more differences. Pass two trees of the same structure.",
    ),
    "another order": (
        lambda: nx.order_like(collections.OrderedDict(a=X, b=X), collections.OrderedDict(b=X, a=X)),
        "order_like: the tree and like have different static fields. Pass two trees of the same structure.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_difference_of_two_trees_comes_first(case):
    call, text = CASES[case]
    with pytest.raises((AxisMappingError, ArgumentTypeError)) as error:
        call()
    assert said(error.value) == text


@pytest.mark.fast(0)
def test_the_difference_of_flax_variables():
    linen = pytest.importorskip("flax.linen")
    init = linen.with_logical_partitioning(linen.initializers.ones, ("b", "k"))
    variables = linen.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    with pytest.raises(ArgumentTypeError) as error:
        nx.interop.to_flax({"params": {"kernal": X, "bias": array(3)}}, variables)
    assert said(error.value) == (
        "to_flax: like['params']['kernel'] is missing from the tree; the tree['params']['kernal'] is not in like. "
        "Did you mean 'kernel' instead of 'kernal'? Pass a tree with the structure of from_flax(like)."
    )


def test_a_prefix_and_none_stand_for_a_container():
    assert nx.named({"a": [array(3), array(3)]}, {"a": ["k"]})["a"][1].dims == ("k",)
    gradient = derivative_of({"bias": X, "layers": None})
    assert float(nx.sum(gradient["layers"][0]["v"], ...)) == 0.0
