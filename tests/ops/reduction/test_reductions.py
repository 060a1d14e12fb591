"""Laws 2 and 3 for reductions: over a name they are what `jnp`'s are over a position, value and gradient, in every placement."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.hlo import summary
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh

INF, NAN = jnp.inf, jnp.nan
UNMAPPED, ONE_EACH, TWO_MESH_AXES, BLOCKS, BOTH = FEW

# --- Programs: label: (named, positional, out_axes) -----------------------------------------------
# x is {b, a}[3], m is a mask {a}, n is a mask {b, a}; as positions b, a and the position are 0, 1, 2.

CORE = {
    "sum": (lambda x, m, n: nx.sum(x, "a"), lambda x, m, n: x.sum(1), ["b", None]),
    "sum of names and a position": (lambda x, m, n: nx.sum(x, ("a", 0, "b")), lambda x, m, n: x.sum(), []),
    "sum where": (
        lambda x, m, n: nx.sum(x, "a", where=n),
        lambda x, m, n: x.sum(1, where=n[..., None]),
        ["b", None],
    ),
    "mean": (lambda x, m, n: nx.mean(x, ("a", -1)), lambda x, m, n: x.mean((1, 2)), ["b"]),
    "mean where": (
        lambda x, m, n: nx.mean(x, ("b", "a"), where=n),
        lambda x, m, n: x.mean((0, 1), where=n[..., None]),
        [None],
    ),
    "prod": (lambda x, m, n: nx.prod(x, "a"), lambda x, m, n: x.prod(1), ["b", None]),
    "var": (lambda x, m, n: nx.var(x, ("a", 0)), lambda x, m, n: x.var((1, 2)), ["b"]),
    "std": (lambda x, m, n: nx.std(x, "b"), lambda x, m, n: x.std(0), ["a", None]),
    "max": (lambda x, m, n: nx.max(x, "a"), lambda x, m, n: x.max(1), ["b", None]),
    "min": (lambda x, m, n: nx.min(x, ("b", "a")), lambda x, m, n: x.min((0, 1)), [None]),
    "logsumexp": (
        lambda x, m, n: nx.logsumexp(x, ("a", "b", 0)),
        lambda x, m, n: jax.nn.logsumexp(x),
        [],
    ),
    "argmax": (lambda x, m, n: nx.argmax(x, "a"), lambda x, m, n: x.argmax(1), ["b", None]),
    "any": (lambda x, m, n: nx.any(n, ("a", "b")), lambda x, m, n: n.any(), []),
    "all": (lambda x, m, n: nx.all(x > -2.0, "a"), lambda x, m, n: (x > -2.0).all(1), ["b", None]),
    "count_nonzero": (
        lambda x, m, n: nx.count_nonzero(n, "a"),
        lambda x, m, n: jnp.count_nonzero(n, 1),
        ["b"],
    ),
}
MORE = {
    "sum of positions": (lambda x, m, n: nx.sum(x), lambda x, m, n: x.sum(2), ["b", "a"]),
    "sum of a list": (lambda x, m, n: nx.sum(x, ["b"]), lambda x, m, n: x.sum(0), ["a", None]),
    "sum of nothing": (lambda x, m, n: nx.sum(x, ()), lambda x, m, n: x, ["b", "a", None]),
    "sum keepdims": (
        lambda x, m, n: nx.sum(x, (0, "a"), keepdims=True),
        lambda x, m, n: x.sum((1, 2))[:, None],
        ["b", None],
    ),
    "sum initial": (lambda x, m, n: nx.sum(x, "a", initial=2.5), lambda x, m, n: jnp.sum(x, 1, initial=2.5), ["b", None]),
    "sum where it gains a name": (
        lambda x, m, n: nx.sum(nx.sum(x, "a"), 0, where=m),
        lambda x, m, n: x.sum((1, 2))[:, None] * m,
        ["b", "a"],
    ),
    "sum over the gained name": (
        lambda x, m, n: nx.sum(nx.sum(x, "a"), "a", where=m),
        lambda x, m, n: x.sum(1) * m.sum(),
        ["b", None],
    ),
    "mean keepdims": (
        lambda x, m, n: nx.mean(x, ("a", 0), keepdims=True, where=m),
        lambda x, m, n: x.mean((1, 2), where=m[None, :, None])[:, None],
        ["b", None],
    ),
    "prod initial": (
        lambda x, m, n: nx.prod(x, ("b", 0), initial=-2.0, where=n),
        lambda x, m, n: jnp.prod(x, (0, 2), initial=-2.0, where=n[..., None]),
        ["a"],
    ),
    "var ddof": (lambda x, m, n: nx.var(x, "a", ddof=1), lambda x, m, n: x.var(1, ddof=1), ["b", None]),
    "var where": (
        lambda x, m, n: nx.var(x, ("a", "b"), where=n, ddof=2, keepdims=True),
        lambda x, m, n: x.var((0, 1), where=n[..., None], ddof=2),
        [None],
    ),
    "std where": (
        lambda x, m, n: nx.std(x, ("a", 0), where=m),
        lambda x, m, n: x.std((1, 2), where=m[None, :, None]),
        ["b"],
    ),
    "max keepdims": (
        lambda x, m, n: nx.max(x, ("a", -1), keepdims=True),
        lambda x, m, n: x.max((1, 2))[:, None],
        ["b", None],
    ),
    "max initial": (lambda x, m, n: nx.max(x, "a", initial=0.9), lambda x, m, n: x.max(1, initial=0.9), ["b", None]),
    "min where": (
        lambda x, m, n: nx.min(x, ("a", "b"), initial=0.5, where=n),
        lambda x, m, n: x.min((0, 1), initial=0.5, where=n[..., None]),
        [None],
    ),
    "logsumexp where": (
        lambda x, m, n: nx.logsumexp(x, "a", where=n),
        lambda x, m, n: jax.nn.logsumexp(x, 1, where=n[..., None]),
        ["b", None],
    ),
    "logsumexp keepdims": (
        lambda x, m, n: nx.logsumexp(x, ("b", 0), keepdims=True),
        lambda x, m, n: jax.nn.logsumexp(x, (0, 2))[:, None],
        ["a", None],
    ),
    "argmin": (lambda x, m, n: nx.argmin(x, ("b",)), lambda x, m, n: x.argmin(0), ["a", None]),
    "argmax keepdims": (
        lambda x, m, n: nx.argmax(x, 0, keepdims=True),
        lambda x, m, n: x.argmax(2, keepdims=True),
        ["b", "a", None],
    ),
    "any where": (lambda x, m, n: nx.any(n, "a", where=m), lambda x, m, n: n.any(1, where=m), ["b"]),
    "all where": (lambda x, m, n: nx.all(n, "a", where=~m), lambda x, m, n: n.all(1, where=~m), ["b"]),
    "count of floats": (
        lambda x, m, n: nx.count_nonzero(nx.round(x), ("a", 0), keepdims=True),
        lambda x, m, n: jnp.count_nonzero(jnp.round(x), (1, 2))[:, None],
        ["b", None],
    ),
}
ARGS = (array(4, 8, 3), make.array([1, 0, 1, 1, 0, 1, 1, 0], bool), array(4, 8, kind="bool"))
IN_AXES = (["b", "a", None], ["a"], ["b", "a"])


@functools.cache
def compiled(whole):
    """All entries as one named function, one compiled positional function, and its `out_axes`."""
    program = CORE | MORE if whole else CORE
    return (
        lambda *args: {label: named(*args) for label, (named, _, _) in program.items()},
        jax.jit(lambda *args: {label: plain(*args) for label, (_, plain, _) in program.items()}),
        {label: out_axes for label, (_, _, out_axes) in program.items()},
    )


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[3]], ids=str)
def test_placements(placement):
    named, plain, out_axes = compiled(placement in FEW)
    # Beside Auto axes, Explicit ones change how arguments arrive, and nothing in the body.
    grad = placement.kind == "auto" or placement in FEW
    check(named, plain, ARGS, IN_AXES, out_axes, placement, grad=grad)


@pytest.mark.full(9)
@pytest.mark.fast(9)
@pytest.mark.parametrize("label", [*CORE, *MORE])
def test_eager(label):
    """Outside of mapped functions, through the kernels: named arrays in any physical order, and arrays without names."""
    named, _, out_axes = (CORE | MORE)[label]
    x, m, n = ARGS
    have = named(nx.named(x.transpose(1, 2, 0), ["a", None, "b"]), nx.named(m, ["a"]), nx.named(n.T, ["a", "b"]))
    assert isinstance(have, nx.NamedArray) == (set(out_axes) - {None} != set())
    want = compiled(True)[1](*ARGS)[label]
    np.testing.assert_allclose(nx.positional(have, out_axes), want, rtol=2e-6, atol=2e-6)


REDUCTIONS = "all any argmax argmin count_nonzero max mean min prod std sum var".split()


@pytest.mark.full(5)
@pytest.mark.fast(4)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_array_without_names_is_just_an_array(name):
    x = array(4, 3)
    for axis in (None, 0, -1):
        have, want = getattr(nx, name)(x, axis), getattr(jnp, name)(x, axis)
        assert isinstance(have, jax.Array)
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-6)


# --- Values that reductions trip over -------------------------------------------------------------

SPECIAL = make.array(
    [
        [0.5, -1.0, 2.0, 0.0, 1.0, 3.0, NAN, 3.0],
        [-INF] * 8,
        [1.0, INF, -INF, INF, 0.0, 2.0, 1.0, -2.0],
        [2.0] * 8,
        [0.0, -0.0, -1.0, 0.0, -0.0, -0.0, -1.0, -3.0],
        [NAN, 1.0, NAN, -INF, INF, 0.0, 0.0, 0.0],
        [-3e37, -2e37, -1e37, -1e-38, -1e-45, -2e37, -3e37, -3e37],
        [-INF, -INF, -INF, -1.0, -INF, -INF, -INF, -INF],
    ]
)  # [b, a]


def specials(nx, axis):
    softmax = nx.nn.softmax, nx.nn.log_softmax
    functions = [nx.max, nx.min, nx.argmax, nx.argmin, nx.sum, nx.mean, nx.any, nx.all, nx.count_nonzero, nx.prod]
    return lambda x: [f(x, axis) for f in [*functions, getattr(nx, "logsumexp", jax.nn.logsumexp), *softmax]]


class _Jax:
    """`jnp`, with `jax.nn` where `nx` has its own."""

    nn = jax.nn

    def __getattr__(self, name):
        return getattr(jnp, name)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", [UNMAPPED, ONE_EACH, BLOCKS], ids=str)
def test_special_values(placement):
    out_axes = [["b"]] * 11 + [["b", "a"]] * 2
    check(specials(nx, "a"), specials(_Jax(), 1), (SPECIAL,), (["b", "a"],), out_axes, placement, grad=False)
    # With the signs changed everywhere, what was lost at one end is lost at the other.
    check(specials(nx, "a"), specials(_Jax(), 1), (-SPECIAL,), (["b", "a"],), out_axes, placement, grad=False)


TIES = make.asarray(np.concatenate([array(3, 8, kind="ties"), np.ones((1, 8))]), float)  # [b, a]
HOLES = np.where(array(4, 8, kind="bool"), array(4, 8), -INF)
HOLES[3] = -INF
HOLES = jnp.asarray(HOLES, float)  # [b, a]; the last row has nothing else


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_gradients_of_ties_and_of_minus_infinity(placement):
    """Equal maxima share the gradient equally, wherever they are."""
    check(
        lambda x, h: (nx.max(x, "a"), nx.min(x, "a"), nx.max(x, ("b", "a")), nx.logsumexp(h, "a")),
        jax.jit(lambda x, h: (x.max(1), x.min(1), x.max(), jax.nn.logsumexp(h, 1))),
        (TIES, HOLES),
        (["b", "a"], ["b", "a"]),
        (["b"], ["b"], [], ["b"]),
        placement,
    )


def test_every_tie_has_its_share():
    x = make.array([2.0, 1, 2, 2, 0, 1, 2, -1])
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    f = nx.xmap(lambda x: nx.max(x, "a"), (["a"],), [], axis_resources={"a": "x"}, mesh=mesh)
    assert jax.grad(f)(x).tolist() == [0.25, 0, 0.25, 0.25, 0, 0, 0.25, 0]


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": nx.SerialLoop(2)}], ids=["unmapped", "mapped", "in steps"])
def test_entries_that_a_mask_leaves_out_are_no_ties(resources):
    """An entry that equals `initial` shares its gradient with it alone, as in `jnp`."""
    x, keep = jnp.array([0.0, -1.0, 3.0, -2.0]), jnp.array([True, True, False, False])
    mesh = jax.make_mesh((4,), ("x",))
    for sign, named, plain in (1, nx.max, jnp.max), (-1, nx.min, jnp.min):
        f = nx.xmap(
            lambda x, w, op=named: op(x, "a", where=w, initial=0.0), (["a"], ["a"]), [], axis_resources=resources, mesh=mesh
        )
        want = jax.grad(lambda x, op=plain: op(x, where=keep, initial=0.0))(sign * x)
        np.testing.assert_array_equal(want, [0.5, 0, 0, 0])
        np.testing.assert_array_equal(jax.grad(f)(sign * x, keep), want)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [UNMAPPED, ONE_EACH, BLOCKS], ids=str)
def test_everything_masked(placement):
    """Rows of which the mask leaves nothing."""
    mask = array(4, 8, kind="bool").at[1].set(False)
    check(
        lambda x, m: (
            nx.sum(x, "a", where=m),
            nx.prod(x, "a", where=m),
            nx.mean(x, "a", where=m),
            nx.var(x, "a", where=m),
            nx.max(x, "a", where=m, initial=-1.5),
            nx.logsumexp(x, "a", where=m),
            nx.nn.softmax(x, "a", where=m),
            nx.nn.log_softmax(x, "a", where=m),
        ),
        lambda x, m: (
            x.sum(1, where=m),
            x.prod(1, where=m),
            x.mean(1, where=m),
            x.var(1, where=m),
            x.max(1, where=m, initial=-1.5),
            jax.nn.logsumexp(x, 1, where=m),
            jax.nn.softmax(x, 1, where=m),
            jax.nn.log_softmax(x, 1, where=m),
        ),
        (array(4, 8), mask),
        (["b", "a"], ["b", "a"]),
        (["b"],) * 6 + (["b", "a"],) * 2,
        placement,
        grad=False,
    )


OF_NOTHING = {  # label: (named, positional); x is {a, k} with a of size 0
    "logsumexp": (lambda x: nx.logsumexp(x, "a"), lambda x: jax.nn.logsumexp(x, 0)),
    "softmax": (lambda x: nx.sum(nx.nn.softmax(x, "a"), "a"), lambda x: x.sum(0)),
    "log_softmax": (lambda x: nx.sum(nx.nn.log_softmax(x, "a"), "a"), lambda x: x.sum(0)),
    "max": (lambda x: nx.max(x, "a", initial=2.0), lambda x: x.max(0, initial=2.0)),
    "min": (lambda x: nx.min(x, "a", initial=3.0), lambda x: x.min(0, initial=3.0)),
    "cumsum": (lambda x: nx.sum(nx.numpy.cumsum(x, "a"), "a"), lambda x: x.sum(0)),
    "all_gather": (lambda x: nx.sum(nx.lax.all_gather(x, "a"), 0), lambda x: x.sum(0)),
    "rename and back": (lambda x: nx.sum(nx.rename(nx.rename(x, {"a": "b"}) * 2, {"b": "a"}), "a"), lambda x: x.sum(0)),
    "ppermute": (lambda x: nx.sum(nx.lax.ppermute(x, "a", []), "a"), lambda x: x.sum(0)),
    "pshuffle": (lambda x: nx.sum(nx.lax.pshuffle(x, "a", []), "a"), lambda x: x.sum(0)),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("resources", "kind"),
    [({}, "auto"), ({"a": "x"}, "auto"), ({"a": ("x", "y")}, "explicit"), ({"a": "x", "k": "y"}, "explicit")],
)
def test_of_an_axis_without_entries(resources, kind):
    x = make.zeros((0, 4))

    def body(x):
        return {label: nx.sum(nx.where(nx.isfinite(of(x)), of(x), 7.0), "k") for label, (of, _) in OF_NOTHING.items()}

    def total(x):
        f = nx.xmap(body, ["a", "k"], [], axis_resources=resources, mesh=make_mesh((4, 2), kind) if resources else None)
        results = f(x)
        return sum(results.values()), results

    gradient, results = jax.grad(total, has_aux=True)(x)
    assert gradient.shape == x.shape
    for label, (_, expected) in OF_NOTHING.items():
        np.testing.assert_array_equal(results[label], jnp.sum(jnp.nan_to_num(expected(x), neginf=7.0)), label)


@pytest.mark.fast(0)
def test_empty_axes():
    x = make.zeros((0, 3))
    named = nx.named(x, ["b", "c"])
    for name in ("sum", "prod", "mean", "var", "any", "all", "count_nonzero"):
        have, want = getattr(nx, name)(named, "b"), getattr(jnp, name)(x, 0)
        np.testing.assert_array_equal(have.data, want)
        assert have.dtype == want.dtype
        assert getattr(nx, name)(named, "c").data.shape == (0,)
    assert nx.max(named, "b", initial=1.0).data.tolist() == [1.0] * 3
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=r"empty|zero-size"):
            getattr(nx, name)(named, "b")


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [ONE_EACH, BLOCKS], ids=str)
def test_an_empty_axis_beside_a_sharded_one(placement):
    check(
        lambda x: (nx.sum(x, ("a", 0)), nx.mean(x, ("a", 0)), nx.mean(x, "a"), nx.var(x, ("a", 0)), nx.prod(x, 0)),
        lambda x: (x.sum((0, 1)), x.mean((0, 1)), x.mean(0), x.var((0, 1)), x.prod(1)),
        (make.zeros((8, 0, 3)),),
        (["a", None, "c"],),
        (["c"], ["c"], [None, "c"], ["c"], ["a", "c"]),
        placement,
    )


def test_the_gradient_of_an_empty_product_in_steps():
    """JAX forgets there that the product varies over mesh axes (0.10 to 0.12)."""
    f = nx.xmap(lambda x, n: nx.prod(x, "b"), (["a", "b"], ["n"]), ["a"], axis_resources={"a": nx.SerialLoop(4)})

    def total(x, n):
        return jnp.sum(f(x, n) * np.arange(8.0))

    value, gradient = jax.jit(jax.value_and_grad(total))(make.zeros((8, 0)), make.zeros(4, jnp.int32))
    assert (float(value), gradient.shape) == (28.0, (8, 0))


# --- Element types --------------------------------------------------------------------------------

NUMBERS = {
    "i": array(4, 8, kind="int").astype(jnp.int32),
    "i8": make.array(np.asarray(array(4, 8, kind="int", seed=1)) * 7, jnp.int8),
    "u16": make.array(np.abs(array(4, 8, kind="int", seed=2)), jnp.uint16),
    "bool": array(4, 8, kind="bool"),
    "complex": make.array(np.asarray(array(4, 8)) + 1j * np.asarray(array(4, 8, seed=3)), jnp.complex64),
    "f16": make.array(array(4, 8), jnp.float16),
    "bf16": make.array(array(4, 8, seed=1), jnp.bfloat16),
}


def of_every_type(jnp, axis):
    softmax = getattr(jnp, "nn", jax.nn).softmax

    def program(arrays):
        results = {}
        for key, x in arrays.items():
            every = (jnp.sum, jnp.prod, jnp.mean, jnp.var, jnp.max, jnp.min, jnp.any, jnp.all, jnp.count_nonzero)
            results |= {f"{f.__name__} {key}": f(x, axis) for f in every}
            if key != "complex":
                results |= {f"{f.__name__} {key}": f(x, axis) for f in (jnp.argmax, jnp.argmin)}
                results[f"float sum {key}"] = jnp.sum(x, axis, dtype="float32")
                results[f"half mean {key}"] = jnp.mean(x, axis, dtype="float16")
                results[f"half var {key}"] = jnp.var(x, axis, dtype="float16")
                results[f"initial {key}"] = jnp.max(x, axis, initial=3)
            if key != "bool":
                results[f"narrow {key}"] = jnp.sum(x, axis, promote_integers=False)
                floats = x.astype("float32") if key in ("i", "i8", "u16") else x  # jax.nn.softmax converts too late
                results[f"softmax {key}"] = jnp.sum(jnp.square(softmax(floats, axis)), axis)
            results[f"logsumexp {key}"] = getattr(jnp, "logsumexp", jax.nn.logsumexp)(x, axis)
        return results

    return program


OF_EVERY_TYPE = jax.jit(of_every_type(jnp, 1))


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [UNMAPPED, ONE_EACH, BLOCKS], ids=str)
def test_element_types(placement):
    arrays = dict(NUMBERS)
    if placement == BLOCKS:
        # XLA aborts on a CPU where a mesh axis stays with the compiler and bfloat16 is summed over another, in plain JAX too.
        del arrays["bf16"]
    check(of_every_type(nx, "a"), OF_EVERY_TYPE, (arrays,), (["b", "a"],), ["b"], placement, grad=False, tol=2e-2)


@pytest.mark.fast(0)
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_halves_do_not_overflow_on_the_way(dtype):
    """A mean of numbers whose sum, and a variance of numbers whose squares, are beyond the type."""
    x = 200 * (100 + array(8, 4)).astype(dtype)  # about 20 000; float16 ends at 65 504
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    mask = array(8, kind="bool")
    f = nx.xmap(
        lambda x, m: (nx.mean(x, "a"), nx.mean(x, "a", where=m), nx.std(x, "a").astype("float32")),
        (["a", "c"], ["a"]),
        ["c"],
        axis_resources={"a": "x"},
        mesh=mesh,
    )
    mean, masked, std = f(x, mask)
    wide = x.astype(jnp.float32)
    np.testing.assert_allclose(mean.astype(jnp.float32), wide.mean(0), rtol=2e-2)
    np.testing.assert_allclose(masked.astype(jnp.float32), wide.mean(0, where=mask[:, None]), rtol=2e-2)
    np.testing.assert_allclose(std, x.std(0).astype(jnp.float32), rtol=2e-2)


# --- Gradients ------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_gradients_inside_of_the_body(placement):
    """`jax.grad` in the body gives what it gives outside, and what the positional program gives."""

    def oracle(w, x):  # w is [3] over c, x is [b, a, 3]
        z = (w * x).max(2) + (jax.nn.logsumexp(x, 0).sum(1) * (x * w).var((0, 2)))
        return (z**2).mean() + (x.std(1) * w.min()).sum()

    def body(w, x):
        def inner(w, x):
            z = nx.max(w * x, 0) + nx.sum(nx.logsumexp(x, "b"), 0) * nx.var(x * w, ("b", 0))
            return nx.mean(z**2, ("a", "b")) + nx.sum(nx.std(x, "a") * nx.min(w, 0), ("b", 0))

        return jax.value_and_grad(inner, argnums=(0, 1))(w, x)

    args = (array(3, seed=4), array(4, 8, 3))
    want = jax.jit(jax.value_and_grad(oracle, argnums=(0, 1)))
    check(body, want, args, ([None], ["b", "a", None]), ([], ([None], ["b", "a", None])), placement, grad=False)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_second_derivatives():
    """Forward over reverse, and reverse over forward."""

    def named(x):
        parts = [nx.max(x**2, "a"), nx.logsumexp(x, ("a", "b")), nx.var(x, "a", where=x < 1), nx.std(x, "b"), nx.prod(x, "a")]
        parts += [
            nx.mean(x**3, ("a", "b")),
            nx.sum(nx.nn.softmax(x, "a") ** 2, "a"),
            nx.sum(nx.nn.log_softmax(x, "b") ** 2, "b"),
        ]
        return sum(nx.sum(nx.sin(p), tuple(p.dims)) if isinstance(p, nx.NamedArray) else jnp.sin(p) for p in parts)

    def plain(x):
        parts = [(x**2).max(1), jax.nn.logsumexp(x), x.var(1, where=x < 1), x.std(0), x.prod(1)]
        parts += [(x**3).mean(), (jax.nn.softmax(x, 1) ** 2).sum(1), (jax.nn.log_softmax(x, 0) ** 2).sum(0)]
        return sum(jnp.sin(p).sum() for p in parts)

    def second(f):
        def derivatives(x, v):
            forward_over_reverse = jax.jvp(jax.grad(f), (x,), (v,))[1]
            return forward_over_reverse, jax.grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x)

        return jax.jit(derivatives)

    args = array(4, 8), array(4, 8, seed=1)
    want = second(plain)(*args)
    np.testing.assert_allclose(want[0], want[1], rtol=1e-4, atol=1e-4)
    for placement in (TWO_MESH_AXES, BLOCKS):
        for have in second(nx.xmap(named, (["b", "a"],), [], **placement.options))(*args):
            np.testing.assert_allclose(have, want[0], rtol=2e-4, atol=2e-4)


# --- Mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: nx.sum(x, "bb"),
            nx.errors.AxisNotFoundError,
            ["sum: no axis 'bb' in f32[3]{b:4, a:8}", "Did you mean 'b'?", "Reduce over an axis that it has"],
        ),
        (lambda x: nx.mean(x, ("a", "k")), nx.errors.AxisNotFoundError, ["mean", "'k'", "axis=(('a', 'k'),)"]),
        (lambda x: nx.logsumexp(x, "k"), nx.errors.AxisNotFoundError, ["logsumexp", "'k'", "'b', 'a'"]),
        (
            lambda x: nx.max(x, 1),
            nx.errors.PositionalAxisError,
            ["max: positional axis 1 is out of range", "1 positional axes"],
        ),
        (lambda x: nx.sum(x, ("a", "a")), nx.errors.PositionalAxisError, ["'a' is given twice"]),
        (lambda x: nx.sum(x, (0, -1)), nx.errors.PositionalAxisError, ["-1 is given twice"]),
        (lambda x: nx.sum(x, ["a", ["b"]]), nx.errors.PositionalAxisError, ["axis="]),
        (
            lambda x: nx.sum(x, None, where=nx.named(jnp.ones(5, bool), ["a"])),
            nx.errors.AxisSizeError,
            ["'a'", "size 8", "size 5"],
        ),
        (lambda x: nx.max(x, "a", where=x > 0), ValueError, ["max: where=", "initial="]),
        (
            lambda x: nx.argmax(x, ()),
            nx.errors.PositionalAxisError,
            ["argmax", "must contain at least one positional or named axis"],
        ),
        (lambda x: nx.nn.softmax(x, "k"), nx.errors.AxisNotFoundError, ["softmax", "'k'"]),
    ],
)
@pytest.mark.parametrize("placement", [UNMAPPED, ONE_EACH], ids=str)
def test_mistakes(placement, call, error, words):
    x = array(4, 8, 3).astype(jnp.float32)
    for run in (
        lambda: call(nx.named(x, ["b", "a", None])),
        lambda: nx.xmap(call, (["b", "a", None],), None, **placement.options)(x),
    ):
        with pytest.raises(error) as raised:
            run()
        text = str(raised.value).replace("@x", "")
        assert all(word in text for word in words), raised.value


def test_collectives_are_offered_in_a_mapped_function_only():
    x = array(4)
    for run, offered in (
        (lambda: nx.sum(nx.named(x, ["b"]), "q"), False),
        (lambda: nx.xmap(lambda v: nx.sum(v, "q"), (["b"],), [], axis_resources={"b": "x"}, mesh=make_mesh((4, 2)))(x), True),
    ):
        with pytest.raises(nx.errors.AxisNotFoundError) as raised:
            run()
        assert ("(nx.lax.psum)" in str(raised.value)) == offered, raised.value


@pytest.mark.fast(3)
@pytest.mark.full(2)
@pytest.mark.parametrize("placement", [*PLACEMENTS, *PARTITIONER], ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_with_index(name, placement):
    x = array(4, 8, 3, kind="ties") * 1.0
    x = x.at[1, 5, 0].set(jnp.nan) if placement.label == "both" else x

    def oracle(x):
        index = getattr(jnp, f"arg{name}")(x, 1)
        return jnp.take_along_axis(x, index[:, None], 1)[:, 0], index

    check(lambda x: tuple(getattr(nx, f"{name}_with_index")(x, "a")), oracle, [x], ["b", "a", None], ["b", None], placement)


@pytest.mark.fast(0)
def test_extrema_with_index_cost_what_the_index_costs():
    def collectives(f):
        mapped = nx.xmap(f, ["b", "a"], ["b"], axis_resources={"a": "x"}, mesh=make_mesh((8,)))
        return summary(mapped.lower(array(4, 8)).compile())

    assert collectives(lambda x: nx.max_with_index(x, "a")) == collectives(lambda x: nx.argmax(x, "a"))
    gradient = jax.grad(
        lambda x: nx.xmap(
            lambda x: nx.max_with_index(x, "a").values, ["b", "a"], ["b"], axis_resources={"a": "x"}, mesh=make_mesh((8,))
        )(x).sum()
    )
    assert summary(jax.jit(gradient).lower(array(4, 8)).compile()) == collectives(lambda x: nx.argmax(x, "a"))


def test_extrema_with_index_take_one_axis():
    x = nx.named(array(4, 8), ["b", "a"])
    for axis in (None, ("a", "b")):
        with pytest.raises(
            nx.errors.PositionalAxisError, match=r"max_with_index: axis=.* must be one positional or named axis"
        ):
            nx.max_with_index(x, axis)


def test_argmax_flattens_positions_only():
    x = array(4, 2, 3)
    named = nx.named(x, ["b", None, None])
    assert nx.argmax(named).data.tolist() == x.reshape(4, 6).argmax(1).tolist()
    assert nx.argmax(named, keepdims=True).shape == (1, 1)
    assert int(nx.argmin(x)) == int(x.argmin())


@pytest.mark.fast(0)
def test_methods_are_the_functions():
    x = array(4, 8, 3)
    named = nx.named(x, ["b", "a", None])
    for name in ("sum", "mean", "var", "std", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        np.testing.assert_array_equal(getattr(named, name)("a").data, getattr(nx, name)(named, "a").data)
    assert named.sum(("a", "b"), keepdims=True).shape == (3,)
    assert float(named.max(("a", "b", 0), initial=9.0)) == 9.0


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("resources", [{"a": "x"}, {"a": ("x", "y")}], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "complex64"])
def test_element_types_asked_for_are_those_of_jnp(dtype, resources):
    """A mean of integers that is asked for is divided as integers, as `jnp.mean` does."""
    integers = dtype in ("int32", "uint8")
    of = [7 * array(9, 4), jnp.abs(5 * array(9, 4)).astype(jnp.uint32)]
    names = ["mean", "var"] if integers else ["mean", "var", "std"]

    def named(*of):
        return [getattr(nx, name)(x, "a", dtype=dtype) for name in names for x in of]

    f = nx.xmap(named, (["a", "b"], ["a", "b"]), ["b"], axis_resources=resources, mesh=make_mesh((4, 2)))
    expected = [getattr(jnp, name)(x, 0, dtype=dtype) for name in names for x in of]
    for result, of_jnp in zip(f(*of), expected, strict=True):
        assert result.dtype == of_jnp.dtype
        np.testing.assert_allclose(result, of_jnp, rtol=0 if integers else 2e-3, atol=0 if integers else 1e-2)


@pytest.mark.parametrize(
    ("name", "of", "dtype", "error"),
    [
        ("mean", "float32", "bool", TypeError),
        ("var", "complex64", "float32", ValueError),
        ("std", "complex64", "float32", ValueError),
        ("std", "float32", "int32", ValueError),
    ],
)
def test_element_types_that_jnp_refuses_are_refused_on_a_mesh(name, of, dtype, error):
    x = nx.named(array(8, 3).astype(of), ["a", "b"])
    said_by = []
    for resources in ({}, {"a": "x"}):
        f = nx.xmap(lambda x: getattr(nx, name)(x, "a", dtype=dtype), axis_resources=resources, mesh=make_mesh((8,)))
        with pytest.raises(error) as caught:
            f(x)
        said_by.append(str(caught.value))
    assert said_by[0] == said_by[1]


@pytest.mark.fast(0)
@pytest.mark.full(3)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": ("x", "y")}, {"b": "x"}], ids=str)
@pytest.mark.parametrize("ddof", [0, 1, 9.0])
def test_the_variance_of_too_few_entries_is_a_constant(resources, ddof):
    """NaN, as in `jnp`, with the derivative 0: the sum without NaN over all groups has a derivative."""
    x, t = array(8, 5), array(8, 5, seed=1)
    mask = make.put(np.arange(8)[:, None] % 3 < np.arange(5))  # none of the first column

    def named(x, mask):
        return nx.var(x, "a", ddof=ddof, where=mask)

    f = nx.xmap(named, (["a", "b"], ["a", "b"]), ["b"], axis_resources=resources, mesh=make_mesh((4, 2)) if resources else None)
    expected = jax.jvp(lambda x: jnp.var(x, 0, ddof=ddof, where=mask), (x,), (t,))
    for result, of_jnp in zip(jax.jvp(lambda x: f(x, mask), (x,), (t,)), expected, strict=True):
        np.testing.assert_allclose(result, of_jnp, rtol=1e-5, atol=1e-6)
    assert np.isnan(expected[0]).any()
    assert not np.isnan(expected[1]).any()
