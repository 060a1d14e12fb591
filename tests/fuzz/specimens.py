"""Programs that once failed, each with the layouts in which it did, written in the fuzzer's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.fuzz.layouts import Layout
from tests.fuzz.program import Argument, Block, Program, Statement

X8, X4, X2 = (("x", 8),), (("x", 4),), (("x", 2),)
XY, XY22, XYZ = (("x", 4), ("y", 2)), (("x", 2), ("y", 2)), (("x", 2), ("y", 2), ("z", 2))


class Specimen(NamedTuple):
    """A program, where it runs, whether a documented refusal is an answer too, and whether it sends what `nx.explain` says."""

    program: Program
    layouts: tuple[Layout, ...]
    may_reject: bool = False
    explained: bool = False


def given(*axes: Any, dtype: str = "f32", fill: str = "normal", seed: int = 0) -> Argument:
    """An argument."""
    return Argument(axes, dtype, fill, seed)


def do(outs: int | tuple[int, ...], op: str, /, *args: int, blocks: Sequence[Block] = (), **options: Any) -> Statement:
    """A statement."""
    return Statement(op, args, outs if isinstance(outs, tuple) else (outs,), options, tuple(blocks))


def function(parameters: tuple[int, ...], statements: Sequence[Statement], *results: int) -> Block:
    """A function that a statement takes."""
    return Block(parameters, tuple(statements), results)


def program(arguments: Sequence[Argument], statements: Sequence[Statement], *results: int) -> Program:
    """A program."""
    return Program(tuple(arguments), tuple(statements), results)


def on(mesh: Any = (), gradient: str = "outside", options: dict[str, Any] | None = None, **resources: Any) -> Layout:
    """A layout: `a="x"`, `a=2` (a loop of two steps), `a=("x", 2)`."""
    entries = {name: entry if isinstance(entry, tuple) else (entry,) for name, entry in resources.items()}
    return Layout(mesh, tuple(sorted(entries.items())), gradient=gradient, **(options or {}))


def loops(**others: Any) -> tuple[Layout, ...]:
    """`a` in steps, alone and beside a mesh axis, with the gradient outside and inside."""
    return tuple(
        on(mesh, gradient, a=entry, **(others if mesh else {}))
        for mesh, entry in (((), 2), (X4, ("x", 2)))
        for gradient in ("outside", "inside")
    )


AUTO, EXPLICIT = {"partitioning": "auto"}, {"explicit": True}
GLOBAL_EXPLICIT = {"partitioning": "global", **EXPLICIT}

# --- loops in time: what is whole, and what is gathered ---

LOOP_LAYOUTS = loops()
GATHERS = {
    "rename": [do(1, "rename", 0, renames={"a": "a2"}), do(2, "max", 1, axes=("a2",))],
    "all_gather": [do(1, "all_gather", 0, axis="a", tiled=False), do(2, "max", 1, axes=(0,))],
    "positional": [do(1, "positional", 0, order=("a",)), do(2, "max", 1, axes=(0,))],
    "top_k": [do((1, 5), "top_k", 0, axis="a", out="k"), do(2, "max", 1, axes=("k",))],
}


def gathered(how: str) -> Specimen:
    """A value of a loop's name times the largest of what was gathered from that name."""
    statements = [*GATHERS[how], do(3, "multiply", 0, 2), do(4, "sum", 3, axes=("a",))]
    return Specimen(program([given("a")], statements, 4), LOOP_LAYOUTS)


def whole(*statements: Statement, result: int) -> Specimen:
    """A value without the loop's name that is renamed onto it."""
    return Specimen(program([given("a", "a2"), given("a", seed=1)], statements, result), LOOP_LAYOUTS)


ONTO = {"a2": "a"}
POWER = (
    do(2, "dot", 0, 1, axes=("a",)),
    do(3, "rename", 2, renames=ONTO),
    do(4, "dot", 0, 3, axes=("a",)),
)

# --- a layer with tensor parallelism, rematerialised, with accumulation ---

LAYER = function(
    (2, 3),
    [
        do(4, "einsum", 2, 3, reads=[{"a": "a", "b": "b"}, {"b": "b", "b2": "b2"}], writes={"a": "a", "b2": "b"}),
        do(5, "sin", 4),
    ],
    5,
)
REMATERIALISED = program(
    [given("a", "b"), given("d", "b", "b2", seed=1)],
    [do(6, "fold", 0, 1, blocks=[LAYER], axis="d", checkpoint=True, reverse=False, prefetch=False)],
    6,
)

UP, DOWN = {"b": "b", "k": "k"}, {"a": "a", "k": "k"}
RESIDUAL = function(
    (2, 3),
    [
        do(4, "einsum", 2, 3, reads=[{"a": "a", "b": "b"}, UP], writes=DOWN),
        do(5, "sin", 4),
        do(6, "einsum", 5, 3, reads=[DOWN, UP], writes={"a": "a", "b": "b"}),
        do(7, "add", 2, 6),
    ],
    7,
)
REMATERIALISED_RESIDUAL = program(
    [given("a", "b"), given("d", "b", "k", seed=1)],
    [do(8, "fold", 0, 1, blocks=[RESIDUAL], axis="d", checkpoint=True, reverse=False, prefetch=False)],
    8,
)

# --- branches ---


def branches(op: str, *bodies: tuple[list[Statement], tuple[int, ...]], count: int = 1) -> Program:
    """A choice between functions of `v1` that also see `v2`, one of which has to gain names."""
    blocks = [function((10 + i,), statements, *results) for i, (statements, results) in enumerate(bodies)]
    chooser = do(3, "greater", 0) if op == "cond" else do(3, "index", 0, axis="k", at=0)
    first = given() if op == "cond" else given("k", dtype="i32", fill="index", seed=3)
    outs = tuple(range(30, 30 + count))
    return program([first, given("a", seed=1), given("b", seed=2)], [chooser, do(outs, op, 3, 1, blocks=blocks)], *outs)


NUMBER = ([do(20, "constant", number=0.5)], (20,))
PRODUCT, TURNED = ([do(21, "multiply", 1, 2)], (21,)), ([do(22, "multiply", 2, 1)], (22,))
BRANCH_LAYOUTS = (on(), on(options={"wrap": "eager"}, gradient="none"), on(XY, a="x", b="y"), on(XY, "inside", b="y"))

HEADS = {"pos": "c", "features": "k", "heads": "a", "key_heads": "b", "key_axis": None, "causal": True, "window": None}

SPECIMENS: dict[str, Specimen] = {
    "a gather whose result XLA knows not to matter": Specimen(
        program(
            [given("b2", dtype="i32", fill="index")],
            [do(1, "take", 0, 0, axis="b2", mode="None"), do(2, "maximum", 1, 1), do(3, "subtract", 1, 2)],
            3,
        ),
        (on(X4, "none", b2="x"),),
        explained=True,
    ),
    "heads of queries and of keys, each in the steps of a loop of its own": Specimen(
        program([given("a", "c", "k")], [do(1, "attention", 0, **HEADS)], 1),
        (on(a=2, b=2), on(X2, a=("x", 2), b=("x", 2)), on(b=2), on(a=2)),
        may_reject=True,
    ),
    "a whole sum is renamed onto a loop": whole(
        do(2, "sum", 0, axes=("a",)), do(3, "rename", 2, renames=ONTO), do(4, "sum", 3, axes=("a",)), result=4
    ),
    "a row is renamed onto a loop": whole(
        do(2, "index", 0, axis="a", at=4), do(3, "rename", 2, renames=ONTO), do(4, "sum", 3, axes=("a",)), result=4
    ),
    "a step of power iteration in a loop": whole(*POWER, result=4),
    **{f"{how} of a loop's name": gathered(how) for how in GATHERS},
    "a nested map broadcasts along a mesh axis that is taken": Specimen(
        program([given("a")], [do(2, "xmap", 0, blocks=[function((1,), [], 1)], own=None, out="i")], 2),
        (on(X4, a="x", i="x"), on(X4, "inside", a="x", i="x"), on(X4, options=AUTO, a="x", i="x"), on(XY, a="x", i="y")),
        may_reject=True,
    ),
    "a JAX array of shifts": Specimen(
        program([given("a", "b", 3)], [do(1, "roll", 0, axes=("a", "b"), shifts=(1, 3), kind="jnp.array")], 1),
        (on(), on(X4, a="x"), on(XY, "inside", a="x", b="y")),
    ),
    "a JAX array of shifts of positions": Specimen(
        program([given(3, 4)], [do(1, "roll", 0, axes=(0, 1), shifts=(1, 3), kind="jnp.array")], 1), (on(),)
    ),
    "a NumPy number as a shift": Specimen(
        program([given("a")], [do(1, "roll", 0, axes=("a",), shifts=(3,), kind="np.array")], 1), (on(), on(X4, a="x"))
    ),
    "narrow negative indices into a long axis": Specimen(
        program(
            [given("n"), given("b", dtype="i8", fill="index", seed=2)],
            [do(2, "take", 0, 1, axis="n", mode="None"), do(3, "take", 0, 1, axis="n", mode="'wrap'")],
            2,
            3,
        ),
        (on(), on(X4, b="x"), on(X4, n="x")),
    ),
    "NaN under the partitioner": Specimen(
        program([given("a", "b", fill="nan")], [do(1, "max", 0, axes=("a",)), do(2, "min", 0, axes=("a", "b"))], 1, 2),
        (on(X8, a="x"), on(X8, options=AUTO, a="x"), on(XY, options=AUTO, a="x", b="y")),
    ),
    "a kernel on mesh axes of its own": Specimen(
        program(
            [given("a", "c"), given("k", seed=1)],
            [do(2, "conv", 0, 1, axis="a", tap="k", inner=None, outer=None, stride=2, out="b")],
            2,
        ),
        (on(XYZ, options=AUTO, a="x", k="y", b="z"), on(XYZ, a="x", k="y", b="z"), on(XYZ, a="x", b="z")),
        may_reject=True,
    ),
    "a rematerialised layer over devices and steps": Specimen(
        REMATERIALISED,
        (on(X2, b2="x", a=2), on(X2, "inside", b2="x", a=2), on(X4, b2="x", a=4)),
    ),
    "a rematerialised layer with a residual over devices and steps": Specimen(
        REMATERIALISED_RESIDUAL,
        (on(X2, k="x", a=2), on(X2, "inside", k="x", a=4), on(XY22, "inside", k="x", a=("y", 2))),
    ),
    "the gradient of a sort over devices beside a loop": Specimen(
        program([given("a", "b")], [do(1, "sort", 0, axis="a", descending=False), do(2, "tanh", 1)], 2),
        (on(X4, a="x", b=2), on(X4, "inside", a="x", b=2)),
    ),
    "the gradient of a sort by keys next to a free axis and without one": Specimen(
        program([given("a", "b")], [do(1, "sort_by", 0, axis="a", descending=True), do(2, "tanh", 1)], 2),
        (on(X4, a="x"), on(X4, "inside", a="x"), on((("x", 2), ("y", 4)), "outside", EXPLICIT, a=("x", "y"))),
    ),
    "the gradient of quantiles over devices beside a loop": Specimen(
        program([given("a", "b")], [do(1, "median", 0, axes=("a",)), do(2, "quantile", 0, axes=("a",), q=0.3)], 1, 2),
        (on(X4, a="x", b=2), on(X4, "inside", a="x", b=2)),
    ),
    "16-bit sums beside an idle mesh axis": Specimen(
        program(
            [given("a", "b", dtype="bf16"), given("a", dtype="bf16", seed=1)],
            [do(2, "sum", 0, axes=("a",)), do(3, "mean", 0, axes=("a",)), do(4, "dot", 0, 1, axes=("a",))],
            2,
            3,
            4,
        ),
        (on(XY, a="x"), on(XY, "inside", b="x"), on(XYZ, a="x", b="z")),
    ),
    "a Fourier transform along a sharded name": Specimen(
        program([given("a", "b")], [do(1, "fft", 0, axis="a")], 1),
        (on(X4, a="x"), on(X4, "inside", a="x"), on(XY, "inside", a="x", b="y"), on(X4, options=AUTO, a="x")),
    ),
    "keys along a sharded name": Specimen(
        program(
            [given("a", dtype="key"), given("b", dtype="i32", fill="index", seed=1)],
            [
                do(2, "index", 0, axis="a", at=5),
                do(3, "take", 0, 1, axis="a", mode="None"),
                do(4, "at_set", 0, 2, axis="a", at=0),
                *(do(3 + i, "uniform_of_keys", i, shape=(3,)) for i in (2, 3, 4)),
            ],
            5,
            6,
            7,
        ),
        (on(), on(X4, a="x"), on(XY, a="x", b="y"), on((), a=2)),
    ),
    "the first branch is a number": Specimen(branches("cond", NUMBER, ([], (1,))), BRANCH_LAYOUTS),
    "the first branch has other names": Specimen(branches("cond", ([], (1,)), ([], (2,))), BRANCH_LAYOUTS),
    "the branches have two orders": Specimen(branches("cond", PRODUCT, TURNED), BRANCH_LAYOUTS),
    "branches of several results": Specimen(
        branches("cond", (NUMBER[0], (1, 20)), (NUMBER[0] + TURNED[0], (20, 22)), count=2), BRANCH_LAYOUTS
    ),
    "a switch whose branches gain names": Specimen(branches("switch", NUMBER, ([], (1,)), PRODUCT), BRANCH_LAYOUTS),
    "a lifted solve in steps beside an idle mesh axis": Specimen(
        program([given("a", 3)], [do(1, "nmap", 0, which="solve")], 1),
        (on(X2, a=2), on(X2, "inside", a=2), on(XY22, a=("x", 2))),
        may_reject=True,
    ),
    "arguments sharded over a mesh axis that nobody maps": Specimen(
        program([given("b", "d")], [do(1, "sin", 0), do(2, "sum", 1, axes=("b",))], 1, 2),
        tuple(on(XY, g, {"explicit": e, "arrive": "sharded"}, b="x") for g in ("outside", "none") for e in (True, False)),
    ),
    "arguments that are stored padded": Specimen(
        program([given("c", "d")], [do(1, "sin", 0), do(2, "sum", 1, axes=("c",))], 1, 2),
        tuple(on(XY, g, {"arrive": "padded"}, c="x", d="y") for g in ("outside", "inside", "none")),
    ),
    "a linearised closure in a loop": Specimen(
        program(
            [given("a"), given("a", seed=1)],
            [
                do(5, "linearize", 0, blocks=[function((2,), [do(3, "multiply", 2, 1), do(4, "tanh", 3)], 4)], axes=("a",)),
                do(6, "sum", 5, axes=("a",)),
            ],
            6,
        ),
        LOOP_LAYOUTS,
    ),
    "the gradient of a maximum of what is computed anew in each pass over the steps": Specimen(
        program([given("b", 3, "a")], [do(1, "tanh", 0), do(2, "pmax", 1, axis="b"), do(3, "max", 1, axes=("b",))], 2, 3),
        (on((), "inside", b=2), on((), "outside", b=2), on(X2, "outside", b=("x", 2))),
    ),
    "an order that is gathered": Specimen(
        program(
            [given("b", 3, "a")],
            [do(1, "argsort", 0, axis="b", descending=False), do(2, "all_gather", 1, axis="a", tiled=False)],
            2,
        ),
        (on(X2, "none", a="x"), on(X8, "none", a="x")),
    ),
    "the result of a nested map that no name explains outside": Specimen(
        program(
            [given("a", "c")],
            [
                do(2, "xmap", 0, blocks=[function((1,), [], 1)], own=None, out="j"),
                do(3, "psum_scatter", 2, axis="a", tiled=False),
                do(4, "sort", 2, axis="c", descending=False),
            ],
            3,
            4,
        ),
        (on((("x", 2), ("y", 4)), "none", EXPLICIT, a="x", j="y"), on((("x", 2), ("y", 4)), "outside", EXPLICIT, a="x", j="y")),
    ),
    "a loop in a nested map that closes over what is outside": Specimen(
        program(
            [given("a"), given("b2", "c", 3, seed=1)],
            [
                do(
                    7,
                    "xmap",
                    1,
                    blocks=[
                        function(
                            (2,),
                            [
                                do(
                                    (5, 6),
                                    "scan",
                                    0,
                                    1,
                                    blocks=[function((3, 4), [], 0, 3)],
                                    axis="b2",
                                    checkpoint=False,
                                    prefetch=False,
                                    reverse=False,
                                )
                            ],
                            5,
                        )
                    ],
                    own=None,
                    out="i",
                )
            ],
            7,
        ),
        (on(XY22, "outside", b2="x", i="y"), on(XY22, "outside", EXPLICIT, b2="x", i="y")),
    ),
    "a nested map on Explicit axes under the partitioner that closes over what is outside": Specimen(
        program(
            [given("n", seed=1), given("n", seed=2)],
            [do(3, "xmap", 1, blocks=[function((2,), [], 0)], own=None, out="j")],
            3,
            0,
        ),
        (on((("y", 2),), "outside", {**AUTO, **EXPLICIT}, j="y"), on((("y", 2),), "inside", {**AUTO, **EXPLICIT}, j="y")),
    ),
    "a nested map's result on an Explicit axis that nobody maps outside": Specimen(
        program(
            [given("c", "b2", "k")],
            [
                do(2, "xmap", 0, blocks=[function((1,), [], 1)], own=None, out="j"),
                do(3, "all_to_all", 2, axis="b2", tiled=True),
            ],
            3,
        ),
        (on(X8, "none", EXPLICIT, j="x"), on(X8, "outside", EXPLICIT, j="x")),
    ),
    "sums divided by counts, some of them zero": Specimen(
        program(
            [given("a", "c"), given("a", "c", seed=1), given("c", dtype="i32", fill="index", seed=4)],
            [do(3, "rates", 0, 1, 2, axis="a")],
            3,
        ),
        (on(X4, "none", a="x"), on(X8, "none", EXPLICIT, a="x"), on((), "none", a=4), on(X4, "none", a=("x", 2))),
    ),
    "a maximum and shifts beside an Explicit mesh axis that nobody maps, on global shapes": Specimen(
        program(
            [given("a", "b")],
            [do(1, "max", 0, axes=("a",)), do(2, "roll", 0, axes=("b", "a"), shifts=(-1, 1), kind="np.array")],
            1,
            2,
        ),
        (on(XY22, "outside", GLOBAL_EXPLICIT, a="x"), on(XY22, "inside", {**GLOBAL_EXPLICIT, "wrap": "checkpoint"}, b="y")),
    ),
    "a rematerialised shift beside an Explicit mesh axis that nobody maps, on global shapes": Specimen(
        program(
            [given("a", "b", dtype="bf16")],
            [
                do(
                    (3, 4),
                    "checkpoint",
                    0,
                    blocks=[function((1,), [do(2, "shift", 0, axis="a", offset=1)], 0, 2)],
                )
            ],
            3,
            4,
        ),
        (on(XY22, "none", GLOBAL_EXPLICIT, a="y"), on(XY22, "vjp outside", GLOBAL_EXPLICIT, a="y")),
    ),
    "values of a loop without mesh axes, under an Explicit mesh": Specimen(
        program(
            [given(3, "a")],
            [
                do(1, "subtract", 0, 0),
                do(4, "all_gather", 1, axis="a", tiled=False),
                do(
                    (7, 8),
                    "scan",
                    4,
                    0,
                    blocks=[function((5, 6), [], 5, 4)],
                    axis="a",
                    checkpoint=False,
                    prefetch=False,
                    reverse=False,
                ),
            ],
            1,
            7,
            8,
        ),
        (on(XY22, "vjp inside", EXPLICIT, a=4),),
    ),
    "a cotangent of what a nested map has sharded over an Explicit axis": Specimen(
        program([given("c")], [do(2, "xmap", 0, blocks=[function((1,), [], 0)], own=None, out="j")], 2),
        (on((("x", 2), ("y", 4)), "vjp inside", EXPLICIT, c="x", j="y"),),
    ),
    "groups without an element": Specimen(
        program(
            [given("b", dtype="i32", fill="index")],
            [do(1, "group_accumulate", 0, axis="b", labels=[-1, -1, -1, -1], kind="sum")],
            1,
        ),
        (on(X4, "none", {"partitioning": "global"}, b="x"),),
        explained=True,
    ),
    "an uneven axis that a sort and the result gather from one value, on global shapes": Specimen(
        program(
            [given("a2", 2)],
            [do(1, "named", 0, name="k2"), do(2, "sort_by", 1, axis="k2", descending=False)],
            1,
            2,
        ),
        (on(X4, "none", {"partitioning": "global"}, k2="x"),),
        explained=True,
    ),
    "a NumPy array of shifts, on global shapes": Specimen(
        program([given("a", "b")], [do(1, "roll", 0, axes=("a", "b"), shifts=(1, -1), kind="np.array")], 1),
        (on(X4, "none", {"partitioning": "global"}, a="x"),),
        explained=True,
    ),
    "a loop of an array that is stored padded, outside of mapped functions": Specimen(
        program(
            [given("b", "c")],
            [do(1, "while_loop", 0, 0, over=("c",)), do(2, "sin", 0)],
            1,
            2,
        ),
        (
            on(X8, "none", {"outside": "jit", "arrive": "padded"}, c="x"),
            on(X4, "none", {"outside": "jit", "arrive": "padded"}, b="x"),
        ),
        may_reject=True,
    ),
}
