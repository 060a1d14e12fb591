"""Functions that need a sharded axis complete, next to a free axis: exchanges instead of gathers and of the sorting network."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.hlo import collectives
from tests.harness import FEW, PLACEMENTS, array, check, make_mesh, together

N, IN = nx.numpy, ["a", None, "b", "c"]
LEVELS = (0.2, 0.5, 0.75)

# label: (by name, of jnp, out_axes, differentiable)
PROGRAMS = {
    "sort": (lambda v: nx.sort(v, "a"), lambda v: jnp.sort(v, 0), IN, True),
    "sort-descending": (lambda v: nx.sort(v, "a", descending=True), lambda v: jnp.sort(v, 0, descending=True), IN, True),
    "argsort": (lambda v: nx.argsort(v, "a"), lambda v: jnp.argsort(v, 0), IN, False),
    "lexsort": (lambda v: nx.lexsort((v, v > 0), "a"), lambda v: jnp.lexsort((v, v > 0), 0), IN, False),
    "partition": (lambda v: nx.partition(v, 3, "a"), lambda v: jnp.partition(v, 3, 0), IN, True),
    "argpartition": (lambda v: nx.argpartition(v, 3, "a"), lambda v: jnp.argpartition(v, 3, 0), IN, False),
    "median": (lambda v: nx.median(v, "a"), lambda v: jnp.median(v, 0), [None, "b", "c"], True),
    "median-of-two": (lambda v: nx.median(v, ("a", 0)), lambda v: jnp.median(v, (0, 1)), ["b", "c"], True),
    "quantile": (
        lambda v: nx.quantile(v, jnp.array(LEVELS), "a"),
        lambda v: jnp.quantile(v, jnp.array(LEVELS), 0),
        [None, None, "b", "c"],
        True,
    ),
    "inverted-cdf": (
        lambda v: nx.quantile(v, 0.3, "a", method="inverted_cdf", weights=v * v),
        lambda v: jnp.quantile(v, 0.3, 0, method="inverted_cdf", weights=v * v),
        [None, "b", "c"],
        False,
    ),
    "fft": (lambda v: nx.abs(N.fft.fft(v, axis="a")), lambda v: jnp.abs(jnp.fft.fft(v, axis=0)), IN, True),
    "dct": (lambda v: nx.scipy.fft.dct(v, axis="a"), lambda v: jsp.fft.dct(v, axis=0), IN, True),
    "rankdata": (lambda v: nx.scipy.stats.rankdata(v, axis="a"), lambda v: jsp.stats.rankdata(v, axis=0), IN, False),
    "sort-together": (
        lambda v: nx.lax.sort((v, v * v), dimension="a", num_keys=1),
        lambda v: lax.sort((v, v * v), dimension=0, num_keys=1),
        (IN, IN),
        True,
    ),
    "sort-key-val": (
        lambda v: nx.lax.sort_key_val(v, v * v, "a"),
        lambda v: lax.sort_key_val(v, v * v, 0),
        (IN, IN),
        True,
    ),
    "xor": (
        lambda v: nx.lax.reduce_xor((v * 60).astype("int32"), ("a",)),
        lambda v: lax.reduce_xor((v * 60).astype("int32"), (0,)),
        [None, "b", "c"],
        False,
    ),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("placement", [p for p in PLACEMENTS if p in FEW or str(p) == "two-reversed-auto"], ids=str)
def test_values_and_gradients(placement, smooth):
    named, plain, out_axes = together({label: program[:3] for label, program in PROGRAMS.items() if program[3] == smooth})
    check(named, plain, (array(8, 3, 4, 8),), IN, out_axes, placement, grad=smooth, tol=1e-4)


# label: (by name along "k", bytes of an element there, and back; `None` if the axis is lost and the results are gathered)
COUNTED = {
    "sort": (lambda v: nx.sort(v, "k"), 4, 4),
    "argsort": (lambda v: nx.argsort(v, "k"), 4, 4),
    "lexsort": (lambda v: nx.lexsort((v, v + 1), "k"), 8, 4),
    "partition": (lambda v: nx.partition(v, 3, "k"), 4, 4),
    "fft": (lambda v: N.fft.fft(v, axis="k"), 4, 8),
    "sort-key-val": (lambda v: nx.lax.sort_key_val(v, v + 1, "k"), 8, 8),
    "median": (lambda v: nx.median(v, "k"), 4, None),
    "xor": (lambda v: nx.lax.reduce_xor((v * 60).astype("int32"), ("k",)), 4, None),
}


def counted(function, *args):
    sent = collectives(jax.jit(function).lower(*args).compile())
    return {one.kind for one in sent}, sum(one.wire_bytes for one in sent)


@pytest.mark.full(9)
@pytest.mark.fast(3)
@pytest.mark.parametrize("shape", [(8,), (4, 2)], ids=str)
@pytest.mark.parametrize("label", COUNTED)
def test_bytes_are_those_of_two_all_to_alls(label, shape):
    function, there, back = COUNTED[label]
    x, axes = nx.named(array(16, 64), ["r", "k"]), ("x", "y")[: len(shape)]
    mapped = nx.xmap(function, axis_resources={"k": axes}, mesh=make_mesh(shape))
    kinds, sent = counted(mapped, x)
    block, others = 16 * 64 // 8, 7 / 8
    of_results = 16 * 4 * others  # one result of a row on each of the other devices
    assert kinds == ({"all-to-all"} if back is not None else {"all-to-all", "all-gather"})
    assert sent == pytest.approx(block * others * there + (of_results if back is None else block * others * back))
    # nx.explain counts the same
    assert sum(one.wire_bytes for one in nx.explain(mapped, x).collectives) == pytest.approx(sent)


@pytest.mark.parametrize("label", ["sort", "fft"])
def test_gradients_send_what_the_forward_pass_sends(label):
    function, there, back = COUNTED[label]
    x = nx.named(array(16, 64), ["r", "k"])
    mapped = nx.xmap(lambda v: nx.sum(nx.abs(function(v)) ** 3, ("r", "k")), axis_resources={"k": "x"}, mesh=make_mesh((8,)))
    kinds, sent = counted(jax.grad(mapped), x)
    assert kinds <= {"all-to-all", "all-reduce"}
    assert sent <= 2 * 16 * 64 / 8 * 7 / 8 * (there + back) + 64


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("n", [1, 10, 13])
@pytest.mark.parametrize("axes", ["x", ("x", "y")], ids=str)
def test_sizes_that_do_not_divide(n, axes):
    a = array(8, n)
    by_name = lambda v: (nx.sort(v, "k"), nx.argsort(v, "k", descending=True), nx.partition(v, n // 2, "k"))  # noqa: E731
    mapped = nx.xmap(by_name, {0: "r", 1: "k"}, {0: "r", 1: "k"}, axis_resources={"k": axes}, mesh=make_mesh((4, 2)))
    want = jnp.sort(a, 1), jnp.argsort(a, 1, descending=True), jnp.partition(a, n // 2, 1)
    jax.tree.map(np.testing.assert_array_equal, mapped(a), want)
    # the padded results are gathered at the end of the body, not in it
    loss = nx.xmap(
        lambda v: sum(nx.sum(y, ("r", "k")) for y in by_name(v)), ["r", "k"], axis_resources={"k": axes}, mesh=make_mesh((4, 2))
    )
    assert counted(loss, a)[0] == {"all-to-all", "all-reduce"}
    median = nx.xmap(
        lambda v: nx.median(v, "k"), {0: "r", 1: "k"}, {0: "r"}, axis_resources={"k": axes}, mesh=make_mesh((4, 2))
    )
    np.testing.assert_allclose(median(a), jnp.median(a, 1), rtol=1e-6)
    weights = array(8, n, seed=1)
    gradient = jax.grad(lambda a: jnp.sum(weights * mapped(a)[0] + jnp.sum(median(a))))(a)
    np.testing.assert_allclose(
        gradient, jax.grad(lambda a: jnp.sum(weights * jnp.sort(a, 1) + jnp.sum(jnp.median(a, 1))))(a), rtol=1e-5
    )


def test_a_free_axis_that_is_sharded_over_another_mesh_axis():
    a = array(8, 16)
    mapped = nx.xmap(
        lambda v: (nx.sort(v, "k"), N.fft.fft(v, axis="k").real),
        {0: "r", 1: "k"},
        {0: "r", 1: "k"},
        axis_resources={"k": "x", "r": "y"},
        mesh=make_mesh((4, 2)),
    )
    ordered, transformed = mapped(a)
    np.testing.assert_array_equal(ordered, jnp.sort(a, 1))
    np.testing.assert_allclose(transformed, jnp.fft.fft(a, axis=1).real, atol=1e-4)
    assert counted(mapped, a)[0] == {"all-to-all"}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"k": "x", "j": "y"}, {"k": ("x", "y")}], ids=str)
def test_a_free_axis_that_is_positional(resources):
    """Only the last of the positional axes divides, and no name does."""
    a, axes = array(3, 16, 2, 8), [None, "k", "j", None]
    named = lambda v: [N.fft.fft(v, axis="k"), N.fft.ifftn(v, axes=("k", 1)), nx.scipy.fft.dct(v, axis="k")]  # noqa: E731
    plain = lambda v: [jnp.fft.fft(v, axis=1), jnp.fft.ifftn(v, axes=(1, 3)), jsp.fft.dct(v, axis=1)]  # noqa: E731

    def run(f, v):
        results = f(v)
        return sum(jnp.sum(jnp.abs(y) ** 2 * jnp.arange(8)) for y in results), results

    options = {"axis_resources": resources, "mesh": make_mesh((4, 2))}
    mapped = nx.xmap(named, axes, [axes] * 3, **options)
    have, want = (jax.jit(jax.value_and_grad(lambda v, f=f: run(f, v), has_aux=True))(a) for f in (mapped, plain))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-2), have, want)
    assert counted(mapped, a)[0] == {"all-to-all"}
    # the bytes of the same exchange by hand: real numbers there, complex ones back
    devices = 8 if len(resources) == 1 else 4
    sent = counted(nx.xmap(lambda v: N.fft.fft(v, axis="k"), axes, axes, **options), a)[1]
    assert sent == pytest.approx(a.size / 8 * (devices - 1) / devices * (4 + 8))


def test_positional_axes_of_a_transform_are_not_free():
    """With sizes `s` the axes are not transformed one after the other."""
    a, axes = array(16, 8), ["k", None]
    f = lambda v: N.fft.rfftn(v, s=(16, 8), axes=("k", 0)).real  # noqa: E731
    mapped = nx.xmap(f, axes, axes, axis_resources={"k": "x"}, mesh=make_mesh((8,)))
    np.testing.assert_allclose(mapped(a), jnp.fft.rfftn(a, axes=(0, 1)).real, atol=1e-4)


def test_without_a_free_axis_that_divides_nothing_changes():
    x = nx.named(array(3, 64), ["r", "k"])
    options = {"axis_resources": {"k": "x"}, "mesh": make_mesh((8,))}
    assert counted(nx.xmap(lambda v: nx.sort(v, "k"), **options), x)[0] == {"collective-permute"}
    assert counted(nx.xmap(lambda v: N.fft.fft(v, axis="k"), **options), x)[0] == {"all-gather"}


def test_gathers_stay_where_they_send_fewer_bytes():
    x, mesh = nx.named(array(8, 16), ["r", "k"]), make_mesh((8,))
    # The results have all elements without the axis: an exchange would gather each of them again.
    mapped = nx.xmap(lambda v: N.unstack(v, axis="k"), axis_resources={"k": "x"}, mesh=mesh)
    assert counted(mapped, x)[0] == {"all-gather"}
    # Over two devices a gather sends one block, the exchange of complex results one and a half.
    mapped = nx.xmap(lambda v: N.fft.fft(v, axis="k"), axis_resources={"k": "x"}, mesh=make_mesh((2, 4)))
    assert counted(mapped, x)[0] == {"all-gather"}


@pytest.mark.fast(0)
def test_arrays_that_share_the_mesh_axis_do_not_conflict():
    x, y = nx.named(array(8, 16), ["r", "k"]), nx.named(array(16, seed=1), ["j"])
    mapped = nx.xmap(
        lambda x, y: nx.scipy.stats.mode(x, axis="k").mode.sum("r") * y,
        axis_resources={"k": "x", "j": "x"},
        mesh=make_mesh((8,)),
    )
    want = jsp.stats.mode(x.data, axis=1).mode.sum() * y.data
    np.testing.assert_allclose(nx.positional(mapped(x, y), ["j"]), want, rtol=1e-5)


def test_steps_use_neither_an_exchange():
    x, mesh = nx.named(array(8, 16), ["r", "k"]), make_mesh((8,))
    with pytest.raises(nx.errors.SerialLoopError):
        nx.xmap(lambda v: nx.sort(v, "k"), axis_resources={"k": ("x", nx.SerialLoop(2))}, mesh=mesh)(x)
    summed = nx.xmap(
        lambda v: nx.sum(nx.sort(v, "k") * v, ("r", "k")), axis_resources={"k": "x", "r": nx.SerialLoop(2)}, mesh=mesh
    )
    np.testing.assert_allclose(summed(x), jnp.sum(jnp.sort(x.data, 1) * x.data), rtol=1e-5)


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"a": "x"}, {"a": "x", "b": "y"}, {"a": ("x", "y")}, {"c": "x", "a": "y"}], ids=str)
@pytest.mark.parametrize("label", ["fftn", "ifftn", "fft2", "dctn"])
def test_transforms_of_all_axes_gather_none(label, resources):
    """Each sharded axis is exchanged with another axis of the transform, as in a pencil decomposition."""
    a = array(8, 16, 8)
    transforms = {
        "fftn": (lambda v: N.fft.fftn(v, axes=("a", "b", "c")), jnp.fft.fftn),
        "ifftn": (lambda v: N.fft.ifftn(v, axes=("c", "a", "b"), norm="ortho"), lambda v: jnp.fft.ifftn(v, norm="ortho")),
        "fft2": (lambda v: N.fft.fft2(v, axes=("a", "c")), lambda v: jnp.fft.fft2(v, axes=(0, 2))),
        "dctn": (lambda v: nx.scipy.fft.dctn(v, axes=("a", "b", "c"), norm="ortho"), lambda v: jsp.fft.dctn(v, norm="ortho")),
    }
    named, plain = transforms[label]
    names = ["a", "b", "c"]
    mapped = nx.xmap(named, names, names, axis_resources=resources, mesh=make_mesh((4, 2)))
    np.testing.assert_allclose(mapped(a), plain(a), atol=1e-4)
    kinds, sent = counted(mapped, a)
    assert kinds == {"all-to-all"}
    loss = lambda f: lambda v: jnp.sum(jnp.abs(f(v)) ** 2 * jnp.cos(v))  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(loss(mapped)))(a), jax.grad(loss(plain))(a), rtol=1e-3, atol=1e-3)
    if label == "fftn" and len(resources) == 1:  # real numbers there, complex ones back
        devices = 8 if resources == {"a": ("x", "y")} else 4
        assert sent == pytest.approx(a.size / devices * (devices - 1) / devices * (4 + 8))
