"""Law 3 and law 5 over whole namespaces: what takes an axis works along a sharded name without gathering it, or stands in one table.

The functions that are another spelling of ours are tried for their values and gradients, and for what they send.
"""

import inspect
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import FEW, array, check, make_mesh, said, together

A, POINTS = array(8, 4, 3), make.asarray(np.sort(array(8, seed=3)))
HOLES = np.array(A)
HOLES[[2, 5], [1, 0], [0, 1]] = np.nan
HOLES = make.asarray(HOLES)
N, L = nx.numpy, nx.lax

# label: (by name, of jnp, out_axes, differentiable, the kinds of collectives where `a` alone is sharded)
PROGRAMS = {
    "transpose": (lambda v: N.transpose(v, ("b", "a")), lambda a: a, ["a", "b", None], True, set()),
    "trapezoid": (lambda v: N.trapezoid(v, axis="a"), lambda a: jnp.trapezoid(a, axis=0), ["b", None], True, {"all-reduce"}),
    "trapezoid-at": (
        lambda v: N.trapezoid(v, POINTS, axis="a"),
        lambda a: jnp.trapezoid(a, POINTS, axis=0),
        ["b", None],
        True,
        {"all-reduce", "collective-permute"},
    ),
    "gradient": (
        lambda v: N.gradient(v, 0.5, axis="a"),
        lambda a: jnp.gradient(a, 0.5, axis=0),
        ["a", "b", None],
        True,
        {"collective-permute"},
    ),
    "gradient-at": (
        lambda v: N.gradient(v, POINTS, axis="a"),
        lambda a: jnp.gradient(a, POINTS, axis=0),
        ["a", "b", None],
        True,
        {"collective-permute"},
    ),
    "gradient-of-both": (
        lambda v: N.gradient(v, 2.0, 3.0, axis=("a", 0)),
        lambda a: jnp.gradient(a, 2.0, 3.0, axis=(0, 2)),
        ["a", "b", None],
        True,
        {"collective-permute"},
    ),
    "detrend": (
        lambda v: nx.scipy.signal.detrend(v, "a"),
        lambda a: jsp.signal.detrend(a, 0),
        ["a", "b", None],
        True,
        {"all-reduce"},
    ),
    "detrend-mean": (
        lambda v: nx.scipy.signal.detrend(v, "a", "constant"),
        lambda a: jsp.signal.detrend(a, 0, "constant"),
        ["a", "b", None],
        True,
        {"all-reduce"},
    ),
    "vecdot": (
        lambda v: N.vecdot(v, v * v, axis="a"),
        lambda a: jnp.vecdot(a, a * a, axis=0),
        ["b", None],
        True,
        {"all-reduce"},
    ),
    "tensordot": (
        lambda v: N.tensordot(v["b", 0][0], v["b", 1][1], "a"),
        lambda a: jnp.tensordot(a[:, 0, 0], a[:, 1, 1], 1),
        [],
        True,
        {"all-reduce"},
    ),
    "reduce_sum": (
        lambda v: L.reduce_sum(v, ("a", 0)),
        lambda a: jax.lax.reduce_sum(a, (0, 2)),
        ["b"],
        True,
        {"all-reduce"},
    ),
    "reduce_max": (lambda v: L.reduce_max(v, ("a",)), lambda a: jax.lax.reduce_max(a, (0,)), ["b", None], True, {"all-reduce"}),
    "rev": (lambda v: L.rev(v, ("a",)), lambda a: jax.lax.rev(a, (0,)), ["a", "b", None], True, {"collective-permute"}),
    "index_in_dim": (
        lambda v: L.index_in_dim(v, -3, "a", False),
        lambda a: jax.lax.index_in_dim(a, -3, 0, False),
        ["b", None],
        True,
        {"all-reduce"},
    ),
    "fftshift": (
        lambda v: N.fft.fftshift(v, ("a", 0)),
        lambda a: jnp.fft.fftshift(a, (0, 2)),
        ["a", "b", None],
        True,
        {"collective-permute"},
    ),
    "ifftshift": (
        lambda v: N.fft.ifftshift(v, "a"),
        lambda a: jnp.fft.ifftshift(a, 0),
        ["a", "b", None],
        True,
        {"collective-permute"},
    ),
    "sem": (lambda v: nx.scipy.stats.sem(v, "a"), lambda a: jsp.stats.sem(a, 0), ["b", None], True, {"all-reduce"}),
    "logmeanexp": (lambda v: nx.nn.logmeanexp(v, "a"), lambda a: jax.nn.logmeanexp(a, 0), ["b", None], True, {"all-reduce"}),
    "logmeanexp-where": (
        lambda v: nx.nn.logmeanexp(v, "a", where=v > -0.5),
        lambda a: jax.nn.logmeanexp(a, 0, where=a > -0.5),
        ["b", None],
        True,
        {"all-reduce"},
    ),
    "trace": (lambda v: N.trace(v, 1, "a", "b"), lambda a: jnp.trace(a, 1), [None], True, {"all-reduce"}),
    "trace-below": (lambda v: N.trace(v, -3, "a", "b"), lambda a: jnp.trace(a, -3), [None], True, {"all-reduce"}),
    "diagonal": (
        lambda v: N.diagonal(v, -2, "a", "b"),
        lambda a: jnp.diagonal(a, -2),
        [None, None],
        True,
        {"all-gather"},  # of the diagonal
    ),
    "diagonal-of-columns": (
        lambda v: N.diagonal(v, 1, "b", "a"),
        lambda a: jnp.diagonal(a, 1, 1, 0),
        [None, None],
        True,
        {"all-reduce"},
    ),
    # whose values jump, or are not numbers
    "unwrap": (
        lambda v: N.unwrap(v * 5, axis="a"),
        lambda a: jnp.unwrap(a * 5, axis=0),
        ["a", "b", None],
        False,
        {"collective-permute", "all-gather"},  # of the blocks' totals
    ),
    "unwrap-period": (
        lambda v: N.unwrap(v * 5, 1.0, "a", 3.0),
        lambda a: jnp.unwrap(a * 5, 1.0, 0, 3.0),
        ["a", "b", None],
        False,
        {"collective-permute", "all-gather"},
    ),
    "argmin": (
        lambda v: L.argmin(v, "a", jnp.int32),
        lambda a: jax.lax.argmin(a, 0, jnp.int32),
        ["b", None],
        False,
        {"all-reduce"},
    ),
    "reduce_and": (
        lambda v: L.reduce_and(v > -1, ("a",)),
        lambda a: jax.lax.reduce_and(a > -1, (0,)),
        ["b", None],
        False,
        {"all-reduce"},
    ),
    "reduce_sum-int8": (
        lambda v: L.reduce_sum((v * 60).astype("int8"), ("a",)),
        lambda a: jax.lax.reduce_sum((a * 60).astype("int8"), (0,)),
        ["b", None],
        False,
        {"all-reduce"},
    ),
    "sort": (
        lambda v: L.sort(v, "a"),
        lambda a: jax.lax.sort(a, 0),
        ["a", "b", None],
        False,
        {"all-to-all"},
    ),
    "sem-omit": (
        lambda v: nx.scipy.stats.sem(v + (HOLES_NAMED - v), "a", nan_policy="omit"),
        lambda a: jsp.stats.sem(HOLES, 0, nan_policy="omit"),
        ["b", None],
        False,
        {"all-reduce"},
    ),
}
HOLES_NAMED = nx.named(HOLES, ["a", "b", None])


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_values_and_gradients(placement, smooth):
    programs = {label: program[:3] for label, program in PROGRAMS.items() if program[3] == smooth}
    named, plain, out_axes = together(programs)
    check(named, plain, (A,), ["a", "b", None], out_axes, placement, grad=smooth, tol=1e-4)


@pytest.mark.full(12)
@pytest.mark.fast(5)
@pytest.mark.parametrize("label", PROGRAMS)
def test_what_is_sent(label):
    named, _, _, _, kinds = PROGRAMS[label]
    mapped = nx.xmap(named, ["a", "b", None], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    sent = nx.hlo.collectives(mapped.lower(A).compile())
    assert {collective.kind for collective in sent} == kinds
    assert all(collective.bytes < A.nbytes for collective in sent)


def test_names_have_no_order_to_move_in():
    x = nx.named(A, ["a", "b", None])
    with pytest.raises(nx.errors.AxisNameError) as error:
        N.moveaxis(x, "a", 0)
    assert said(error.value) == (
        "moveaxis: names have no order, so axis 'a' of f32[3]{a:8, b:4} cannot be moved from 'a' to 0. To give axes positions write "
        "nx.positional(x, [...]); to exchange the names of two, nx.rename(x, {a: b, b: a})."
    ).replace("f32", x.dtype.name.replace("float", "f"))
    with pytest.raises(nx.errors.AxisNotFoundError, match="moveaxis: no axis 'H' in"):
        N.moveaxis(x, "H", 0)
    with pytest.raises(nx.errors.AxisSizeError, match="slice_in_dim: index 9 is out of range for axis 'a' of size 8"):
        L.slice_in_dim(x, 0, 9, 1, "a")
    with pytest.raises(nx.errors.AxisSizeError, match="gradient: the coordinates have the shape \\(3,\\), but axis 'a'"):
        N.gradient(x, make.arange(3.0), axis="a")


# --- the table of what gathers --------------------------------------------------------------------------------------

SPACES = "numpy numpy.linalg numpy.fft lax nn scipy.special scipy.linalg scipy.signal scipy.fft scipy.ndimage scipy.stats scipy.integrate"
WORDS = ("axis", "axes", "dimension", "dimensions", "axis1", "axis2", "source", "destination", "dim")
_rng = np.random.default_rng(0)
# no axis but "a" divides over the mesh, so that no exchange replaces a gather
V = nx.named(make.asarray(_rng.normal(size=(16, 3, 5)), jnp.float32), ["a", "c", None])
BITS = nx.named(make.asarray(np.asarray(V.data) > 0), ["a", "c", None])
BYTES = nx.named(make.asarray(_rng.integers(0, 255, (16, 3, 5)), jnp.uint8), ["a", "c", None])
WHOLE = V.data.nbytes
_PICK = make.array([0, 2])
TRIES = [
    (lambda f, v, k: f(v, **k), V),
    (lambda f, v, k: f(v, v, **k), V),
    (lambda f, v, k: f([v, v], **k), V),
    (lambda f, v, k: f(v, **k), BITS),
    (lambda f, v, k: f(v, 2, **k), V),
    (lambda f, v, k: f(v, _PICK, **k), V),
    (lambda f, v, k: f(v, v, v, **k), V),
    (lambda f, v, k: f(v, 0.5, **k), V),
]
# What must be tried in a way of its own is another module's, or takes names for no axes of its arguments.
ELSEWHERE = """
    numpy.apply_along_axis numpy.apply_over_axes numpy.arange numpy.geomspace numpy.logspace numpy.linspace numpy.indices numpy.fft.fftfreq
    numpy.fft.rfftfreq lax.all_gather lax.all_to_all lax.associative_scan lax.broadcasted_iota lax.map lax.pbroadcast lax.pswapaxes
    lax.axis_index nn.mixture_of_experts nn.router_z_loss nn.top_k_routing nn.load_balancing_loss nn.dot_product_attention
""".split()


def functions_with_axes():
    seen = set()
    for space in SPACES.split():
        module = nx
        for part in space.split("."):
            module = getattr(module, part)
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if name.startswith("_") or not callable(function) or isinstance(function, type) or id(function) in seen:
                continue
            try:
                found = [p for p in inspect.signature(function).parameters if p in WORDS]
            except (TypeError, ValueError):
                continue
            seen.add(id(function))
            if found and f"{space}.{name}" not in ELSEWHERE:
                yield f"{space}.{name}", function, found


def gathers(function, found, is_compiled):
    """Whether an all-gather of the whole axis is in the program; `None` if no way of calling it was found.

    Whether it is there is said by `nx.explain`, which other tests compare with compiled programs; some are compiled here too.
    """
    mesh = make_mesh((4, 2))
    for axis in ("a", ("a",)):
        keywords = {found[0]: axis} | ({found[1]: "c"} if len(found) > 1 else {})
        if "num_segments" in inspect.signature(function).parameters:
            keywords["num_segments"] = 3
        for attempt, value in TRIES:
            mapped = nx.xmap(
                lambda v, attempt=attempt, k=keywords: attempt(function, v, k), axis_resources={"a": "x"}, mesh=mesh
            )
            try:
                mapped.trace(value)
            except Exception:
                continue
            sent = nx.explain(mapped, value).collectives
            if is_compiled:
                compiled = nx.hlo.collectives(mapped.lower(value).compile())
                assert sizes_of_gathers(sent) == sizes_of_gathers(compiled), function
            return any(size >= value.data.nbytes for size in sizes_of_gathers(sent))
    return None


def sizes_of_gathers(sent):
    return sorted(one.bytes for one in sent if one.kind == "all-gather")


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_the_documentation_has_a_table_of_what_gathers():
    text = (Path(__file__).parents[3] / "docs" / "guides" / "operations.md").read_text()
    section = text.split("## What gathers a sharded axis")[1].split("\n## ")[0]
    table = set(re.findall(r"`((?:numpy|lax|nn|scipy)[\w.]*)`", section))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = {
            name: gathers(function, found, i % 10 == 0) for i, (name, function, found) in enumerate(functions_with_axes())
        }
    assert sum(result is not None for result in measured.values()) > 100
    assert {name for name, result in measured.items() if result} == {name for name in table if measured.get(name) is not None}
