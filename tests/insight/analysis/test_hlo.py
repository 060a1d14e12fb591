"""`namedax.hlo` reads what a program communicates, in compiled ones and in other backends' text."""

import json
import math
import textwrap
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from namedax import hlo
from namedax.hlo import Collective, Summary, collectives, summary
from tests.harness import said

MESHES = {"8": (8,), "4x2": (4, 2), "8x1": (8, 1), "2x2x2": (2, 2, 2)}


def make_mesh(name):
    shape = MESHES[name]
    return jax.make_mesh(shape, ("x", "y", "z")[: len(shape)], axis_types=(AxisType.Auto,) * len(shape))


def compiled(body, mesh, in_specs, out_specs, *shapes, dtype="float32", grad=False):
    """The compiled program of `body` under shard_map, or of a gradient through it."""
    mapped = jax.shard_map(body, mesh=make_mesh(mesh), in_specs=in_specs, out_specs=out_specs)
    if grad:
        program = jax.grad(lambda *args: jnp.sum(jnp.sin(mapped(*args))))
    else:
        program = mapped
    return jax.jit(program).lower(*(jax.ShapeDtypeStruct(s, dtype) for s in shapes)).compile()


def facts(program):
    return [(c.kind, c.bytes, c.group_size) for c in collectives(program)]


# --- Real programs: one collective ----------------------------------------------------------------
# A global float32[48, 16], of which a device has a part along `axis`, of size n.

AXES = [("8", "x", 8), ("4x2", "x", 4), ("4x2", "y", 2), ("4x2", ("x", "y"), 8)]
WHOLE = 48 * 16 * 4


def ring(x, axis):
    n = lax.axis_size(axis)
    return lax.ppermute(x, axis, [(i, (i + 1) % n) for i in range(n)])


ONE = {
    "psum": (lambda x, axis: lax.psum(x, axis), 0, None),
    "all_gather": (lambda x, axis: lax.all_gather(x, axis, tiled=True), 0, 0),
    "psum_scatter": (lambda x, axis: lax.psum_scatter(x, axis, tiled=True), 1, 0),
    "all_to_all": (lambda x, axis: lax.all_to_all(x, axis, 1, 0, tiled=True), 0, 1),
    "ppermute": (ring, 0, 0),
}


def one(name, mesh, axis, **options):
    """The program with the collective `name`; the part is a block of the rows or of the columns."""
    function, rows_or_columns, out = ONE[name]
    spec = {None: P(), 0: P(axis), 1: P(None, axis)}
    in_spec, out_spec = spec[rows_or_columns], spec[out]
    return compiled(lambda x: function(x, axis), mesh, in_spec, out_spec, (48, 16), **options)


@pytest.mark.parametrize(("mesh", "axis", "n"), AXES)
def test_psum(mesh, axis, n):
    assert facts(one("psum", mesh, axis)) == [("all-reduce", WHOLE // n, n)]


@pytest.mark.parametrize(("mesh", "axis", "n"), AXES)
def test_all_gather_counts_the_result(mesh, axis, n):
    assert facts(one("all_gather", mesh, axis)) == [("all-gather", WHOLE, n)]


@pytest.mark.parametrize(("mesh", "axis", "n"), AXES)
def test_psum_scatter_counts_the_operand(mesh, axis, n):
    assert facts(one("psum_scatter", mesh, axis)) == [("reduce-scatter", WHOLE // n, n)]


@pytest.mark.parametrize(("mesh", "axis", "n"), AXES)
def test_all_to_all(mesh, axis, n):
    (c,) = collectives(one("all_to_all", mesh, axis))
    assert (c.kind, c.bytes, c.group_size) == ("all-to-all", WHOLE // n, n)
    assert c.count_of_operands in (1, n)  # the CPU backend cuts it into one piece for each device


@pytest.mark.parametrize(("mesh", "axis", "n"), AXES)
def test_ppermute(mesh, axis, n):
    assert facts(one("ppermute", mesh, axis)) == [("collective-permute", WHOLE // n, n)]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("psum", [("all-reduce", WHOLE // 4, 4)]),  # a psum's transpose is free
        ("all_gather", [("all-gather", WHOLE, 4), ("reduce-scatter", WHOLE, 4)]),
        ("psum_scatter", [("reduce-scatter", WHOLE // 4, 4), ("all-gather", WHOLE // 4, 4)]),
        ("all_to_all", [("all-to-all", WHOLE // 4, 4)] * 2),
        ("ppermute", [("collective-permute", WHOLE // 4, 4)] * 2),
    ],
)
def test_gradients(name, want):
    assert facts(one(name, "4x2", "x", grad=True)) == want


def test_groups_over_two_of_three_axes():
    program = compiled(lambda x: lax.psum(x, ("z", "x")), "2x2x2", P("x", "z"), P(), (4, 6))
    assert facts(program) == [("all-reduce", 4 * 2 * 3, 4)]


def test_partial_permutation_counts_the_devices_it_links():
    pairs = [(0, 2), (2, 5), (3, 4)]
    program = compiled(lambda x: lax.ppermute(x, "x", pairs), "8", P("x"), P("x"), (48, 16))
    assert facts(program) == [("collective-permute", WHOLE // 8, 3)]


def test_group_of_one_is_left_out():
    program = compiled(lambda x: lax.psum(x, "y"), "8x1", P("x", "y"), P("x"), (48, 16))
    assert "all-reduce" in program.as_text()
    assert collectives(program) == ()


def test_no_collectives():
    program = jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((3,), "float32")).compile()
    assert collectives(program) == ()


def test_partitioner():
    """XLA's own partitioner writes its groups in other ways, and may move blocks in a cycle."""
    mesh = make_mesh("2x2x2")

    def placed(*spec):
        return NamedSharding(mesh, P(*spec))

    program = jax.jit(
        lambda x: jnp.sin(x) @ jnp.cos(x).T,
        in_shardings=placed("x", ("y", "z")),
        out_shardings=placed(("x", "y"), "z"),
    )
    found = collectives(program.lower(jax.ShapeDtypeStruct((8, 16), "float32")).compile())
    assert found
    sizes = {c.group_size for c in found if c.kind != "collective-permute"}
    assert sizes
    assert sizes <= {2, 4, 8}


@pytest.mark.parametrize(("dtype", "size"), [("int8", 1), ("uint16", 2), ("int32", 4), ("float32", 4), ("complex64", 8)])
def test_dtypes(dtype, size):
    assert facts(one("psum", "8", "x", dtype=dtype)) == [("all-reduce", 48 // 8 * 16 * size, 8)]


def test_pred():
    (c,) = collectives(one("all_gather", "8", "x", dtype="bool"))
    assert (c.bytes, c.dtype) == (48 * 16, "pred")


def test_bfloat16_may_be_widened():
    """The CPU backend reduces bfloat16 as float32: what is read is what the program sends."""
    (c,) = collectives(one("psum", "8", "x", dtype="bfloat16"))
    assert (c.bytes, c.dtype) in [(48 // 8 * 16 * 2, "bf16"), (48 // 8 * 16 * 4, "f32")]


# --- Real programs: several -----------------------------------------------------------------------


def test_combined():
    """Independent all-reduces over the same devices travel together on the CPU."""

    def body(x, y):
        return lax.psum(x, "x"), lax.psum(jnp.sum(y, dtype=y.dtype), "x")

    (c,) = collectives(compiled(body, "8", (P("x"), P("x")), (P(), P()), (48, 16), (24, 3)))
    assert c == Collective("all-reduce", WHOLE // 8 + 4, 8, count_of_operands=2)


def test_dependent_all_reduces_are_apart():
    def body(x):
        return lax.psum(jnp.sin(lax.psum(x, "x")), "y")

    program = compiled(body, "4x2", P("x", "y"), P(), (48, 16))
    assert facts(program) == [("all-reduce", WHOLE // 8, 4), ("all-reduce", WHOLE // 8, 2)]


def test_branches_count_each():
    def body(x):
        return lax.cond(
            lax.psum(jnp.max(x), "x") > 0,
            lambda x: lax.psum(x, "x"),
            lambda x: lax.psum(jnp.sin(x[:, :5]), "x") @ jnp.ones((5, 16), x.dtype),
            x,
        )

    program = compiled(body, "8", P("x"), P(), (48, 16))
    assert Counter(c.bytes for c in collectives(program)) == Counter([4, WHOLE // 8, 6 * 5 * 4])
    assert not any(c.in_loop for c in collectives(program))


def varying(x):
    return lax.pcast(x, "x", to="varying")


def test_loop():
    def body(x):
        total = lax.psum(jnp.max(x), "x")
        x = lax.fori_loop(0, 5, lambda _, c: varying(lax.psum(jnp.sin(c), "x")), x)
        return x * total

    program = compiled(body, "8", P("x"), P("x"), (48, 16))
    assert {(c.bytes, c.in_loop) for c in collectives(program)} == {(4, False), (WHOLE // 8, True)}
    assert summary(program) == {"all-reduce": (1, 4), "all-reduce in a loop": (1, WHOLE // 8)}
    assert str(summary(program)) == "1 all-reduce (4 B), 1 all-reduce in a loop (384 B)"


def test_loop_condition_and_nested_loop():
    def body(x):
        def step(c):
            return lax.fori_loop(0, 3, lambda _, c: ring(jnp.sin(c), "x"), c)

        return lax.while_loop(lambda c: lax.pmax(jnp.max(c), "x") < 100, step, x)

    found = collectives(compiled(body, "8", P("x"), P("x"), (48, 16)))
    assert {(c.kind, c.bytes) for c in found} == {
        ("all-reduce", 4),
        ("collective-permute", WHOLE // 8),
    }
    assert all(c.in_loop for c in found)


def test_branch_in_a_loop():
    def body(x):
        def step(i, c):
            return lax.cond(i % 2 == 0, lambda c: ring(c, "x"), jnp.sin, c)

        return lax.fori_loop(0, 5, step, x)

    (c,) = collectives(compiled(body, "8", P("x"), P("x"), (48, 16)))
    assert c == Collective("collective-permute", WHOLE // 8, 8, in_loop=True)


def test_gradient_of_scan():
    def body(x):
        def step(c, _):
            return varying(lax.psum(jnp.sin(c), "x")), None

        return lax.scan(step, x, None, length=5)[0]

    found = collectives(compiled(body, "8", P("x"), P("x"), (48, 16), grad=True))
    assert [(c.kind, c.in_loop) for c in found] == [("all-reduce", True)] * 2


# --- Text of other backends -----------------------------------------------------------------------


def module(*lines, header="HloModule m, is_scheduled=true, num_partitions=8"):
    body = "\n".join(f"  {line}" for line in lines)
    return f"{header}\n\nENTRY %main (p: f32[16,5], q: s8[32]) -> f32[16,5] {{\n{body}\n}}\n"


P_Q = ("%p = f32[16,5]{1,0} parameter(0)", "%q = s8[32]{0} parameter(1)")
ALL = "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}"


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        (
            [
                f"%s = f32[16,5]{{1,0}} all-reduce-start(%p), {ALL}, to_apply=%add",
                "%d = f32[16,5]{1,0} all-reduce-done(%s)",
            ],
            Collective("all-reduce", 320, 4),
        ),
        (
            [
                f"%s = (f32[16,5]{{1,0}}, s8[32]{{0}}) all-reduce-start(%p, %q), {ALL}",
                "%d = (f32[16,5]{1,0}, s8[32]{0}) all-reduce-done(%s)",
            ],
            Collective("all-reduce", 352, 4, count_of_operands=2, dtype="f32+s8"),
        ),
        (
            [
                f"%s = (f32[16,5]{{1,0}}, f32[64,5]{{1,0}}) all-gather-start(%p), {ALL}",
                "%d = f32[64,5]{1,0} all-gather-done(%s)",
            ],
            Collective("all-gather", 1280, 4),
        ),
        (
            [
                f"%s = ((f32[16,5]), f32[4,5]) reduce-scatter-start(%p), {ALL}, to_apply=%add",
                "%u = ((f32[16,5]), f32[4,5]) reduce-scatter-update(%s)",
                "%d = f32[4,5] reduce-scatter-done(%u)",
            ],
            Collective("reduce-scatter", 320, 4),
        ),
        (
            [
                f"%s = ((s8[32]{{0}}), s8[32]{{0}}) all-to-all-start(s8[32]{{0}} %q), {ALL}",
                "%d = s8[32]{0} all-to-all-done(((s8[32]{0}), s8[32]{0}) %s)",
            ],
            Collective("all-to-all", 32, 4, dtype="s8"),
        ),
        (
            [
                "%s = (f32[16,5], f32[16,5], u32[], u32[]) collective-permute-start(%p), "
                "channel_id=1, source_target_pairs={{0,1},{1,0}}",
                "%d = f32[16,5]{1,0} collective-permute-done(%s)",
            ],
            Collective("collective-permute", 320, 2),
        ),
        (
            [f"%b = f32[16,5]{{1,0}} collective-broadcast(%p), {ALL}"],
            Collective("collective-broadcast", 320, 4),
        ),
        (
            [
                "%o = s64[4]{0} parameter(2)",
                f"%r = f32[16,5]{{1,0}} ragged-all-to-all(%p, %p, %o, %o, %o, %o), {ALL}",
            ],
            Collective("ragged-all-to-all", 320, 4),
        ),
    ],
)
def test_asynchronous_pairs_count_once(lines, want):
    assert collectives(module(*P_Q, *lines)) == (want,)


def test_computation_of_an_asynchronous_collective_counts_once():
    """A start is written short, or as an async-start of a computation; both may show the latter."""
    text = """
    HloModule m, num_partitions=8

    %wrapped (a: f32[16,5]) -> f32[4,5] {
      %a = f32[16,5]{1,0} parameter(0)
      ROOT %rs = f32[4,5]{1,0} reduce-scatter(%a), replica_groups={{0,1,2,3},{4,5,6,7}}
    }, execution_thread="parallel"

    ENTRY %main (p: f32[16,5]) -> f32[4,5] {
      %p = f32[16,5]{1,0} parameter(0)
      %s = ((f32[16,5]{1,0}), f32[4,5]{1,0}) START, calls=%wrapped
      ROOT %d = f32[4,5]{1,0} DONE
    }
    """
    long = text.replace("START", "async-start(%p)").replace("DONE", "async-done(%s)")
    groups = "replica_groups={{0,1,2,3},{4,5,6,7}}"
    short = text.replace("START", f"reduce-scatter-start(%p), {groups}").replace("DONE", "reduce-scatter-done(%s)")
    want = (Collective("reduce-scatter", 320, 4),)
    assert collectives(textwrap.dedent(long)) == want
    assert collectives(textwrap.dedent(short)) == want


CONFIG = '"replica_groups": [[0, 2, 4, 6], [1, 3, 5, 7]], "tiled": true, "channel_id": 1'


@pytest.mark.parametrize("is_string", [False, True])
@pytest.mark.parametrize(
    ("target", "result", "config", "want"),
    [
        ("all-reduce", "f32[16,5]", f"{{{CONFIG}}}", Collective("all-reduce", 320, 4)),
        ("all-gather", "f32[64,5]", f"{{{CONFIG}}}", Collective("all-gather", 1280, 4)),
        ("reduce-scatter", "f32[4,5]", f'{{"scatter_dimension": 0, {CONFIG}}}', Collective("reduce-scatter", 320, 4)),
        ("all-to-all", "f32[16,5]", f"{{{CONFIG}}}", Collective("all-to-all", 320, 4)),
        ("all-reduce", "f32[16,5]", '{"replica_groups": [[0, 1, 2], [3, 4, -1]]}', Collective("all-reduce", 320, 3)),
        ("all-reduce", "f32[16,5]", '{"replica_groups": [[0], [1]]}', None),  # nothing travels
        (
            "collective-permute",
            "f32[16,5]",
            '{"permutation": [[0, 1], [1, 0]], "channel_id": 1}',
            Collective("collective-permute", 320, 2),
        ),
        ("tpu-kernel", "f32[16,5]", f"{{{CONFIG}}}", None),
    ],
)
def test_asynchronous_custom_calls_count_once(target, result, config, want, is_string):
    """JAX writes asynchronous collectives as custom calls, with the groups in JSON, which XLA prints as it is or as a string."""
    config = json.dumps(config) if is_string else config
    attributes = f", called_computations={{%add}}, frontend_attributes={{async_collective_config={config}}}"
    text = module(
        *P_Q,
        f'%s = {result}{{1,0}} custom-call(%p), custom_call_target="{target}-start"{attributes}',
        f'%d = {result}{{1,0}} custom-call(%s), custom_call_target="{target}-done"',
    )
    assert collectives(text) == (() if want is None else (want,))


if hasattr(lax, "psum_scatter_start"):  # JAX 0.12

    def test_a_lowered_asynchronous_collective():
        mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

        def body(x):
            future = lax.psum_scatter_start(x, "x", scatter_dimension=0, tiled=True)
            return future.done() * 2

        f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P("x")))
        lowered = f.lower(jax.ShapeDtypeStruct((8, 3), jnp.float32))
        (found,) = collectives(lowered.compiler_ir("hlo").as_hlo_text())
        assert (found.kind, found.bytes, found.group_size) == ("reduce-scatter", 8 * 3 * 4, 4)
        assert facts(lowered.compile().as_text()) == [("reduce-scatter", 8 * 3 * 4, 4)]


def test_tpu_text():
    """Layouts with tiles and memory spaces; a reduce-scatter as all-reduce and slice, fused."""
    text = textwrap.dedent("""
    HloModule m, num_partitions=4

    %all-reduce-scatter.3 (a: bf16[32,64]) -> bf16[8,64] {
      %a = bf16[32,64]{1,0:T(8,128)(2,1)S(1)} parameter(0)
      %r = bf16[32,64]{1,0:T(8,128)(2,1)} all-reduce(bf16[32,64]{1,0:T(8,128)(2,1)S(1)} %a), \
    replica_groups={{0,1,2,3}}, to_apply=%add
      ROOT %s = bf16[8,64]{1,0:T(8,128)(2,1)} dynamic-slice(%r, %i, %j), dynamic_slice_sizes={8,64}
    }

    ENTRY %main (p: bf16[32,64]) -> bf16[8,64] {
      %p = bf16[32,64]{1,0:T(8,128)(2,1)} parameter(0)
      ROOT %f = bf16[8,64]{1,0} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.3
    }
    """)
    want = Collective("reduce-scatter", 32 * 64 * 2, 4, dtype="bf16")
    assert collectives(text) == (want,)


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", 2),
        ("{{0,2,4},{1,3}}", 3),  # the largest
        ("{}", 8),
        ("[4,2]<=[8]", 2),
        ("[2,4]<=[4,2]T(1,0)", 4),
        ("[1,8]<=[8]", 8),
        ("mesh['x'=8] {'x'}", 8),
        ("mesh['x'=4,'y'=2] {'x'}", 4),
        ("mesh['x'=4,'y'=2] {'y'}", 2),
        ("mesh['x'=4,'y'=2] {'y','x'}", 8),
        ("mesh['a b'=4,'axis_1'=2], device_ids=([2,4]T(1,0)) {'a b'}", 4),
        ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", 2),
        ("mesh['x'=8] {'x':(2)4}", 4),
        ("mesh['x'=4,'y'=2] {'x':(1)2,'y'}", 4),
    ],
)
def test_group_formats(groups, size):
    line = f"%r = f32[16,5] all-reduce(%p), channel_id=3, replica_groups={groups}, to_apply=%add"
    assert facts(module(*P_Q, line)) == [("all-reduce", 320, size)]


@pytest.mark.parametrize(
    "attributes",
    [
        "replica_groups={{0},{1}}",
        "replica_groups=[8,1]<=[8]",
        "replica_groups=mesh['x'=8,'y'=1] {'y'}",
        "replica_groups=mesh['x'=8] {}",
    ],
)
def test_groups_of_one_in_every_format(attributes):
    assert collectives(module(*P_Q, f"%r = f32[16,5] all-reduce(%p), {attributes}")) == ()


def test_permutation_that_moves_nothing():
    line = "%r = f32[16,5] collective-permute(%p), source_target_pairs={{0,0},{1,1}}"
    assert collectives(module(*P_Q, line)) == ()


def test_all_devices_are_partitions_times_replicas():
    line = "%r = f32[16,5] all-reduce(%p), replica_groups={}, to_apply=%add"
    text = module(*P_Q, line, header="HloModule m, replica_count=3, num_partitions=4")
    assert facts(text) == [("all-reduce", 320, 12)]
    assert collectives(module(*P_Q, line, header="HloModule m")) == ()  # one device


@pytest.mark.parametrize(
    ("array", "size"),
    [
        ("pred[3,5]", 15),
        ("s4[3,5]", 8),  # four bits each, rounded up
        ("u8[7]", 7),
        ("f8e4m3fn[4,6]", 24),
        ("bf16[]", 2),
        ("f64[2,3]{1,0}", 48),
        ("c128[2]", 32),
        ("f32[<=7,2]", 56),
        ("f32[0,4]", 0),
    ],
)
def test_array_sizes(array, size):
    text = module(f"%a = {array} parameter(0)", f"%r = {array} all-reduce(%a), {ALL}")
    assert facts(text) == [("all-reduce", size, 4)]


def test_names_in_strings_and_comments_do_not_count():
    text = module(
        *P_Q,
        '%a = f32[16,5] add(%p, %p), metadata={op_name="x = f32[4] all-reduce(\\"y\\")"}',
        "%t = (f32[16,5], /*index=1*/f32[16,5]) tuple(%p, /*index=1*/%a)",
        f"%r = f32[16,5] all-reduce(/*index=0*/%p), {ALL}, "
        'metadata={op_name="a \\"while\\", body=%main, replica_groups={{0,1}}"}',
        "%all-reduce.5 = f32[16,5] copy(%r)",
        '%c = f32[16,5] custom-call(%r), custom_call_target="all-gather("',
    )
    assert collectives(text) == (Collective("all-reduce", 320, 4),)


def test_operands_with_types_need_no_definition():
    """Older XLA writes them so; then a line is enough."""
    line = f"%r = (f32[2,3], s8[5]) all-reduce(f32[2,3]{{1,0}} %a, s8[5]{{0}} %b), {ALL}"
    assert collectives(line) == (Collective("all-reduce", 29, 4, 2, "f32+s8"),)


def test_operands_belong_to_their_computation():
    text = textwrap.dedent("""
    HloModule m, num_partitions=2

    %first (p: f32[6]) -> f32[6] {
      %p = f32[6] parameter(0)
      ROOT %r = f32[6] all-reduce(%p), replica_groups={{0,1}}
    }

    ENTRY %main (p: f32[9]) -> f32[9] {
      %p = f32[9] parameter(0)
      ROOT %r = f32[9] all-reduce(%p), replica_groups={{0,1}}
    }
    """)
    assert [c.bytes for c in collectives(text)] == [24, 36]


# --- Collective and Summary -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("all-reduce", 1500),
        ("all-gather", 750),
        ("reduce-scatter", 750),
        ("all-to-all", 750),
        ("ragged-all-to-all", 750),
        ("collective-permute", 1000),
        ("collective-broadcast", 1000),
    ],
)
def test_wire_bytes(kind, want):
    assert kind in hlo.KINDS
    assert Collective(kind, 1000, 4).wire_bytes == want


def test_wire_bytes_round_up():
    assert Collective("all-reduce", 4, 8).wire_bytes == 7
    assert Collective("all-gather", 5, 3).wire_bytes == math.ceil(5 * 2 / 3)


def test_all_gather_and_its_transpose_send_the_same():
    gather, scatter = collectives(one("all_gather", "4x2", "x", grad=True))
    assert gather.wire_bytes == scatter.wire_bytes == WHOLE * 3 // 4


def test_text_of_a_collective():
    assert str(Collective("all-reduce", 25700, 4)) == "all-reduce of f32 over 4 devices (25.1 KiB)"
    looped = Collective("all-gather", 12, 2, dtype="s8", in_loop=True)
    assert str(looped) == "all-gather of s8 over 2 devices in a loop (12 B)"


def test_summary_orders_by_kind():
    found = Summary(
        [
            Collective("collective-permute", 1, 8),
            Collective("all-gather", 1024, 8, in_loop=True),
            Collective("all-gather", 3 * 1024**2, 8),
            Collective("all-reduce", 1023, 8),
        ]
    )
    assert str(found) == (
        "1 all-reduce (1023 B), 1 all-gather (3.0 MiB), 1 all-gather in a loop (1.0 KiB), 1 collective-permute (1 B)"
    )
    assert found["all-gather"] == (1, 3 * 1024**2)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1024, "1.0 KiB"), (1024**3, "1.0 GiB"), (5000 * 1024**3, "4.9 TiB")],
)
def test_sizes_in_text(size, text):
    assert str(Summary([Collective("all-reduce", size, 8)])) == f"1 all-reduce ({text})"


def test_summary_of_nothing():
    assert summary(module(*P_Q)) == {}
    assert str(summary(module(*P_Q))) == "none"


# --- Where a collective comes from ----------------------------------------------------------------

TABLES = """
FileNames
1 "/home/me/model.py"
2 "C:\\\\work\\\\train.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}
2 {file_name_id=2 function_name_id=1 line=7 end_line=7 column=4 end_column=9}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

"""


@pytest.mark.parametrize(
    ("metadata", "operation", "names", "source"),
    [
        ('op_name="jit(f)/shard_map/nx.xmap{b:x}/nx.sum{b}/psum" stack_frame_id=2', "nx.sum", ("b",), "model.py:12"),
        (
            'op_name="jit(f)/transpose(jvp(nx.einsum{k,new:old}))/psum" stack_frame_id=1',
            "nx.einsum",
            ("k", "new:old"),
            "train.py:7",
        ),
        ('op_name="nx.xmap{b:x}/nx.scan{}/while/body/nx.nn.softmax{k}/pmax"', "nx.nn.softmax", ("k",), ""),
        ('op_name="nx.xmap{b:x}/add" stack_frame_id=9', "", (), ""),
        ('op_name="nx.sum{gr\\303\\266\\303\\237e}/psum"', "nx.sum", ("größe",), ""),
        ('op_type="psum" op_name="jit(f)/psum" source_file="/home/me/model.py" source_line=30', "", (), "model.py:30"),
    ],
)
def test_operation_names_and_line(metadata, operation, names, source):
    text = module(*P_Q, f"%r = f32[16,5]{{1,0}} all-reduce(%p), {ALL}, metadata={{{metadata}}}")
    head, rest = text.split("\n", 1)
    (found,) = collectives(f"{head}\n{TABLES}{rest}")
    assert (found.operation, found.names, found.source) == (operation, names, source)
    assert found == Collective("all-reduce", 320, found.group_size)  # what it comes from does not make it another


# --- Mistakes -------------------------------------------------------------------------------------


def message(error, argument):
    with pytest.raises(error) as info:
        collectives(argument)
    return said(info.value)


def test_lowered_is_refused():
    lowered = jax.jit(jnp.sin).lower(np.float32(0))
    assert message(TypeError, lowered) == (
        "hlo.collectives: expected a compiled program or its text, got a value of type Lowered. Pass "
        "jax.jit(f).lower(...).compile()."
    )
    assert message(ValueError, lowered.as_text()) == (
        "hlo.collectives: expected the HLO text of a compiled program, got the StableHLO of a lowered one. Compile it first: "
        "jax.jit(f).lower(...).compile().as_text()."
    )


def test_fragment_is_refused():
    line = f"%r = f32[16,5] all-reduce(%missing), {ALL}"
    assert message(ValueError, line) == (
        "hlo.collectives: the operand '%missing' of all-reduce 'r' is not defined in its computation. Pass the complete text "
        "of the compiled module."
    )


def test_unknown_groups_are_refused():
    line = "%r = f32[16,5] all-reduce(%p), replica_groups=<new>, to_apply=%add"
    assert message(ValueError, module(*P_Q, line)) == (
        "hlo.collectives: cannot parse the device groups of all-reduce 'r' from 'replica_groups=<new>, to_apply=%add'."
    )


LOOPS = """HloModule m, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%inner (p: (f32[2])) -> (f32[2]) {
  %p = (f32[2]) parameter(0)
  %x = f32[2] get-tuple-element(%p), index=0
  %r = f32[2] all-reduce(%x), replica_groups={{0,1,2,3}}, to_apply=%add
  ROOT %t = (f32[2]) tuple(%r)
}

%outer (q: (f32[2])) -> (f32[2]) {
  %q = (f32[2]) parameter(0)
  ROOT %w = (f32[2]) while(%q), condition=%c, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
}

ENTRY %main (z: (f32[2])) -> (f32[2]) {
  %z = (f32[2]) parameter(0)
  %v = (f32[2]) while(%z), condition=%c, body=%outer, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %u = (f32[2]) while(%v), condition=%c, body=%inner
}
"""


def test_a_collective_counts_as_often_as_its_loops_run():
    (collective,) = collectives(LOOPS)
    assert collective.trips == 3 * 5 + 1  # the last loop does not say how often it runs
    assert (collective.kind, collective.bytes, collective.in_loop) == ("all-reduce", 8, True)
