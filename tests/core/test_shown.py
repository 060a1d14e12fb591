"""What messages show of what a user gave, and which order of arguments they say.

No message has the values of an array. Libraries differ in whether the axis or the array comes first (Haliax: the axis, in several functions), so an
axis where an array belongs, or the other way round, is answered with the call as it is written here.
"""

import ast
import copy
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError, NamedaxError, PositionalAxisError, format_value
from tests import make
from tests.harness import make_mesh, said
from tools import reference
from tools.reference_calls import OPERANDS

X = nx.named(make.ones((8, 4)), ["batch", "k"])
W = nx.named(make.ones((4, 3)), ["k", "m"])
IDS = nx.named(make.array([1, 2]), ["t"])
KEY = make.key(0)
NO_ARRAY = "expected an array, got {0}. Write nx.{1}."
NO_AXIS = "axis=f32[]{{batch:8, k:4}} is neither a position nor a name nor a tuple of these. Write nx.{0}."


def test_shown():
    """Arrays by their types, in whatever they stand; what is no array as Python says it, unless it is long."""
    assert format_value(X) == "f32[]{batch:8, k:4}"
    assert format_value(nx.named(jnp.ones((2, 3), jnp.bfloat16), [None, "k"])) == "bf16[2]{k:3}"
    assert (
        format_value([X, (np.arange(3.0),), {"w": jnp.ones(2, bool), ("a", 1): None}])
        == "[f32[]{batch:8, k:4}, (f64[3],), {'w': bool[2], ('a', 1): None}]"
    )
    assert format_value(KEY) == "key<fry>[]"
    assert format_value(jax.eval_shape(lambda: X)) == "f32[]{batch:8, k:4}"
    assert format_value(slice(X, None)) == "slice(f32[]{batch:8, k:4}, None, None)"
    assert format_value(list(range(99))).endswith("17, 18, ... (99 entries)]")
    assert [
        format_value(value) for value in ("k", 2.5, None, ..., set(), (), {"a"}, jnp.float32(1.5), np.float32(2), range(3))
    ] == [*("'k'", "2.5", "None", "...", "set()", "()", "{'a'}", "f32[]", repr(np.float32(2)), "range(0, 3)")]
    assert format_value(make_mesh) == "the function make_mesh"
    assert format_value(int) == "the class int"
    assert format_value("x" * 1000) == "a value of type str"


def test_the_class_is_shown_as_python_shows_it():
    """Only JAX's messages, which format the class, have a remedy in its place."""
    assert repr(type(X)) == str(type(X)) == "<class 'namedax.core.array.NamedArray'>"
    assert f"{type(X)}".startswith("<class 'namedax.NamedArray', which JAX's own functions do not take: call nx.numpy's")


ORDERS = {
    "dot": (lambda: nx.dot("k", X, W), NO_ARRAY.format("'k'", "dot(x, y, axis)")),
    "dot-several": (lambda: nx.dot(("k",), X, W), NO_ARRAY.format("('k',)", "dot(x, y, axis)")),
    "take": (lambda: nx.take(X, "k", IDS), NO_ARRAY.format("'k'", "take(x, indices, axis)")),
    "take-first": (lambda: nx.take("k", X, IDS), NO_ARRAY.format("'k'", "take(x, indices, axis)")),
    "stack": (lambda: nx.stack("new", [X, X]), NO_ARRAY.format("'n'", "stack(arrays, axis)")),
    "where": (lambda: nx.where("k", X, 1.0), NO_ARRAY.format("'k'", "where(condition, x, y, axis=...)")),
    "scan": (lambda: nx.scan(lambda c, r: (c, r), "k"), NO_ARRAY.format("'k'", "scan(f, init, xs, axis=...)")),
    "segment_sum": (
        lambda: nx.segment_sum("k", X, IDS),
        NO_ARRAY.format("'k'", "segment_sum(data, segment_ids, num_segments, axis=...)"),
    ),
    "norm": (lambda: nx.norm("k", X), NO_ARRAY.format("'k'", "norm(x, ord, axis)")),
    "exp": (lambda: nx.exp("k"), NO_ARRAY.format("'k'", "exp(x)")),
    "categorical": (
        lambda: nx.random.categorical(KEY, "k", X),
        NO_ARRAY.format("'k'", "random.categorical(key, logits, axis)"),
    ),
    "sum": (lambda: nx.sum("k", X), NO_AXIS.format("sum(x, axis)")),
    "softmax": (lambda: nx.nn.softmax("k", X), NO_AXIS.format("nn.softmax(x, axis)")),
    "argmax": (lambda: nx.argmax("k", X), NO_AXIS.format("argmax(x, axis)")),
    "cumsum": (lambda: nx.cumsum("k", X), NO_AXIS.format("cumsum(x, axis)")),
    "sort": (lambda: nx.sort("k", X), NO_AXIS.format("sort(x, axis)")),
    "layer_norm": (lambda: nx.nn.layer_norm("k", X), NO_AXIS.format("nn.layer_norm(x, axis)")),
    "concatenate": (
        lambda: nx.concatenate("k", [X, X]),
        "axis=([f32[]{batch:8, k:4}, f32[]{batch:8, k:4}],) is neither a position nor a name nor a tuple of these. Write "
        "nx.concatenate(arrays, axis).",
    ),
    "psum": (
        lambda: nx.lax.psum("k", X),
        "f32[]{batch:8, k:4} is not an axis name; collectives operate on named axes. Write nx.lax.psum(x, axis_name).",
    ),
    "roll": (
        lambda: nx.roll(X, "k", 1),
        "shift must be a static integer, got 'k'. Write nx.roll(a, shift, axis).",
    ),
    "split": (
        lambda: nx.split(X, "k", 2),
        "indices_or_sections must be a static integer, got 'k'. Write nx.split(ary, indices_or_sections, axis).",
    ),
    "one_hot": (
        lambda: nx.nn.one_hot(IDS, "k"),
        "num_classes must be a static integer of at least 0, got 'k'. Write nx.nn.one_hot(x, num_classes, axis=...).",
    ),
    "split_axis": (
        lambda: nx.split_axis("k", X, {"a": 2}),
        "f32[]{batch:8, k:4} is not an axis name; for positional axes use rearrange. Write nx.split_axis(x, axis, sizes).",
    ),
    "merge_axes": (
        lambda: nx.merge_axes(("batch", "k"), X, "z"),
        "the axes must be a tuple, got f32[]{batch:8, k:4}. Write nx.merge_axes(x, ('heads', 'key'), 'flat').",
    ),
    "rearrange": (
        lambda: nx.rearrange("{batch,k}->{k,batch}", X),
        "the pattern must be a string such as '{batch, embed=(heads key)} -> {batch, heads, key}', got f32[]{batch:8, k:4}. Write "
        "nx.rearrange(x, pattern).",
    ),
    "top_k": (
        lambda: nx.top_k(X, "k", 2),
        "takes 2 positional arguments but 3 were given. Write nx.top_k(x, k, axis=...). It also takes the keyword out_axis=.",
    ),
    "map": (
        lambda: nx.map(lambda r: r, "k", X),
        "takes 2 positional arguments but 3 were given. Write nx.map(f, xs, axis=...). It also takes the keyword batch_size=.",
    ),
    "unstack": (lambda: nx.numpy.unstack("k", X, 1), "too many positional arguments. Write nx.numpy.unstack(x, axis=...)."),
    "named": (
        lambda: nx.named(["b", "k"], jnp.ones((2, 3))),
        "f32[2,3] is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one entry per axis (['batch', None]), "
        "or a list that ends with '...' (['batch', ...]). Write nx.named(array, axes).",
    ),
    "zeros": (
        lambda: nx.zeros(("k",)),
        "the shape ('k',) has names without sizes. Give sizes by name, as in nx.zeros(named_shape={'k': 8}). The shape is for positional axes.",
    ),
    "normal": (
        lambda: nx.random.normal(KEY, ("k", "m")),
        "the shape ('k', 'm') has names without sizes. Give sizes by name, as in named_shape={'k': 8}. The shape is for positional axes.",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name):
    """Eagerly, under a trace, and in a mapped body."""
    wrong, message = ORDERS[name]
    op = name.split("-")[0]
    for call in (wrong, lambda: jax.eval_shape(wrong)):
        with pytest.raises(NamedaxError) as caught:
            call()
        assert said(caught.value) == f"{op}: {message}"
    if name in ("dot", "exp", "sum", "stack", "where"):  # which have a way of their own there
        mapped = nx.xmap(lambda x: wrong(), axis_resources={"batch": "x"}, mesh=make_mesh((8,)))
        with pytest.raises((ArgumentTypeError, PositionalAxisError)) as caught:
            mapped(X)
        assert said(caught.value).startswith(f"{op}: ")
        assert "Write nx." in said(caught.value)


# --- one axis under two names ---------------------------------------------------------------------------------------

STORED = nx.named(make.ones((4, 3)), ["k_fsdp", "m"])
READ = "Did you mean 'k_fsdp', or that axis read as 'k', {0}?"
TWO_NAMES = {
    "dot": (lambda: nx.dot(X, STORED, "k"), READ.format("nx.rename(y, {'k_fsdp': 'k'})")),
    "dot-of-parts": (lambda: nx.dot(STORED, X, "k"), READ.format("nx.rename(x, {'k_fsdp': 'k'})")),
    "dot-of-another-size": (lambda: nx.dot(X, nx.ones(named_shape={"k_fsdp": 6}), "k"), "Did you mean 'k_fsdp'? dot contracts"),
    "einsum": (lambda: nx.einsum("{batch,k},{k,m}->{batch,m}", X, STORED), READ.format("{k:k_fsdp}")),
    "sum": (lambda: nx.sum(STORED, "k"), READ.format("nx.rename(x, {'k_fsdp': 'k'})")),
    "the-other-way": (
        lambda: nx.take(X, jnp.array(1), "k_fsdp"),
        "Did you mean 'k', or that axis read as 'k_fsdp', nx.rename(x, {'k': 'k_fsdp'})?",
    ),
    "rename": (lambda: nx.rename(STORED, {"k": "z"}), "Did you mean 'k_fsdp'?"),
    "shard": (lambda: nx.shard(STORED, {"k": "x"}, make_mesh((8,))), "Did you mean 'k_fsdp'? Correct the name"),
    "a-slip-of-the-pen": (lambda: nx.sum(X, "bath"), "Did you mean 'batch'? Reduce over"),
    "no-stem": (lambda: nx.sum(nx.ones(named_shape={"position": 3}), "positions"), "Did you mean 'position'? Reduce over"),
}


@pytest.mark.parametrize("name", TWO_NAMES)
def test_one_axis_under_two_names(name):
    """Where a parameter is stored over another name than it is read by, the other name is rarely what was meant; renaming is."""
    wrong, hint = TWO_NAMES[name]
    with pytest.raises(NamedaxError) as caught:
        wrong()
    assert hint in said(caught.value)


# --- no values ---------------------------------------------------------------------------------------

_SENTINEL = 0.70711
WRONG = {"BAD": nx.named(make.array(np.full(8, _SENTINEL)), ["k"]), "PLAIN": np.full(8, _SENTINEL)}


def _calls():
    recorded = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "examples.json").read_text())
    return {name: entry["call"] for name, entry in recorded["functions"].items() if "call" in entry}


def _variants(call):
    """The call with each of its arguments replaced by an array, a list of one, and a dict of one."""
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call):
        return
    for i in range(len(tree.args) + len(tree.keywords)):
        for wrong in ("BAD", "[PLAIN]", "{'k': BAD}"):
            changed, value = copy.deepcopy(tree), ast.parse(wrong, mode="eval").body
            if i < len(tree.args):
                changed.args[i] = value
            else:
                changed.keywords[i - len(tree.args)].value = value
            yield ast.unparse(changed)


def _refusal(call):
    """What namedax says of a wrong call; empty where it is none, or JAX and Python say it in their own words, or are quoted."""
    try:
        jax.eval_shape(lambda: (call(), 0)[1])
    except NamedaxError as error:
        return "" if error.__cause__ is not None else str(error)
    except Exception:
        return ""
    return ""


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_no_message_shows_values():
    """Each argument of every call of the reference at the top level and in `nx.nn` is replaced by an array, and by trees of one."""
    scope = reference.scope() | {"N": 8, "M": 4} | WRONG
    for name, code in OPERANDS.items():
        scope[name] = eval(code, scope)
    refused = set()
    for name, call in _calls().items():
        if name.count(".") > 1 and not name.startswith("nx.nn."):
            continue
        for variant in _variants(call):
            message = _refusal(lambda variant=variant: eval(variant, dict(scope)))
            assert "0.707" not in message, variant
            if message:
                refused.add(name)
    assert len(refused) > 100
