"""For each class of error a wrong program, the reason, and a correct program; docs/errors.md shows them.

`tools/errors_page.py` writes the page. `tests/house/test_errors_page.py` runs all programs, and compares the page with their messages.
"""

import contextlib
import dataclasses
import os
import tempfile

import namedax as nx

# Shown once at the top of the page; each program begins with it.
BEFORE = """\
import jax
import jax.numpy as jnp
import numpy as np
import namedax as nx

mesh = jax.make_mesh((4, 2), ("x", "y"))
x = nx.named(jnp.ones((8, 6)), ["batch", "k"])
"""


@dataclasses.dataclass(frozen=True)
class Specimen:
    """A program whose last statement raises, the reason, and a correct program."""

    kind: type[nx.errors.NamedaxError]
    wrong: str
    why: str
    right: str


SPECIMENS = [
    Specimen(
        nx.errors.AxisNameError,
        'nx.rename(x, {"batch": "k"})',
        "Each axis of an array has its own name. With two axes `k`, an operation over `k` would be ambiguous.",
        'nx.rename(x, {"batch": "row"})',
    ),
    Specimen(
        nx.errors.AxisNameError,
        'nx.rename(x, {"batch": 0})',
        "An integer is always a position. A name is any other hashable value. To make an axis positional, use `nx.positional`.",
        'nx.positional(x, ["batch", "k"])',
    ),
    Specimen(
        nx.errors.AxisNotFoundError,
        'nx.sum(x, "bacth")',
        "An operation over a name requires an array with that axis. A missing axis is never created, because a "
        "misspelled name would become an axis of size 1.",
        'nx.sum(x, "batch")',
    ),
    Specimen(
        nx.errors.AxisNotFoundError,
        'x + nx.arange(axis="pos")',
        "Outside a mapped function, a new axis needs a size. Inside one, the other arguments or `axis_sizes` give the size.",
        'x + nx.arange(12, axis="pos")',
    ),
    Specimen(
        nx.errors.AxisSizeError,
        'w = nx.named(jnp.ones(5), ["k"])\nx * w',
        "All axes with one name have the same size. An axis of size 1 does not broadcast as in NumPy. To broadcast an "
        "array along an axis, omit that axis.",
        'w = nx.named(jnp.ones(6), ["k"])\nx * w',
    ),
    Specimen(
        nx.errors.UnevenAxisError,
        'split = {"row": 10, "column": 2}\n'
        'layout = {"row": "x"}\n'
        'f = nx.xmap(\n    lambda x: nx.split_axis(x, "batch", split),\n    axis_resources=layout,\n    mesh=mesh,\n)\n'
        'f(nx.named(jnp.ones(20), ["batch"]))',
        "Ten rows over four devices make blocks of three rows, and the last block has two rows of padding. `nx.split_axis` "
        "does not support padded axes.",
        'split = {"row": 10, "column": 2}\n'
        'layout = {"column": "y"}\n'
        'f = nx.xmap(\n    lambda x: nx.split_axis(x, "batch", split),\n    axis_resources=layout,\n    mesh=mesh,\n)\n'
        'f(nx.named(jnp.ones(20), ["batch"]))',
    ),
    Specimen(
        nx.errors.PositionalAxisError,
        "nx.sum(x, 0)",
        "Names have no order, so there is no first named axis. Both axes of `x` have names, and `0` is a position. Pass"
        " the name.",
        'nx.sum(x, "batch")',
    ),
    Specimen(
        nx.errors.AxisMappingError,
        'nx.named(jnp.ones((8, 6, 3)), ["batch", "k"])',
        "A list has one entry for every axis, so that an array of another rank raises an error. `None` keeps an axis "
        "positional. `...` at the end leaves all further axes positional.",
        'nx.named(jnp.ones((8, 6, 3)), ["batch", "k", None])',
    ),
    Specimen(
        nx.errors.NamedAxesLeftError,
        "np.asarray(x)",
        "NumPy arrays have positional axes only, and names have no order. List the names in the order that you need.",
        'np.asarray(nx.positional(x, ["batch", "k"]))',
    ),
    Specimen(
        nx.errors.NamedAxesLeftError,
        'f = nx.xmap(lambda x: nx.sum(x, "k"), in_axes=["batch", "k"], out_axes=[])\nf(jnp.ones((8, 6)))',
        "`out_axes` is empty, but the result still has the axis `batch`. Without an error, seven of the eight values "
        "would be lost.",
        'axes = ["batch", "k"]\nf = nx.xmap(lambda x: nx.sum(x, "k"), in_axes=axes, out_axes=["batch"])\nf(jnp.ones((8, 6)))',
    ),
    Specimen(
        nx.errors.AxisResourceError,
        'f = nx.xmap(nx.sin, axis_resources={"bacth": "x"}, mesh=mesh)\nf(x)',
        "No value in the function has this name. Without an error, the entry would have no effect, and every device "
        "would store the full batch.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.SerialLoopError,
        'layout = {"batch": nx.SerialLoop(4)}\nf = nx.xmap(lambda x: nx.sort(x, "batch"), axis_resources=layout)\nf(x)',
        "Each step of a loop processes a part of the axis. Sums and products of the parts can be combined, but a sort "
        "needs all elements of the axis.",
        'layout = {"k": nx.SerialLoop(3)}\nf = nx.xmap(lambda x: nx.sort(x, "batch"), axis_resources=layout)\nf(x)',
    ),
    Specimen(
        nx.errors.PipelineError,
        'w = nx.ones(named_shape={"layer": 4, "k": 6})\n'
        'layer = lambda x, w: w * (x - nx.mean(x, "batch"))\n'
        'model = lambda w, x: nx.pipeline(layer, x, w, axis="layer", microbatches=2)\n'
        'f = nx.xmap(model, axis_resources={"layer": "x"}, mesh=mesh)\nf(w, x)',
        "In a pipeline, the stages process different microbatches at the same time. No layer has the full batch at once.",
        'w = nx.ones(named_shape={"layer": 4, "k": 6})\n'
        'layer = lambda x, w: w * (x - nx.mean(x, "k"))\n'
        'model = lambda w, x: nx.pipeline(layer, x, w, axis="layer", microbatches=2)\n'
        'f = nx.xmap(model, axis_resources={"layer": "x"}, mesh=mesh)\nf(w, x)',
    ),
    Specimen(
        nx.errors.MeshError,
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"})\nf(x)',
        "`axis_resources` maps a name to the mesh axis `x`, but the function has no mesh. Pass `mesh`, or call the "
        "function under `jax.set_mesh`.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.PlacementConflictError,
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x", "k": "x"}, mesh=mesh)\nf(x)',
        "A device has one coordinate along a mesh axis. If both axes were sharded over `x`, device 1 would store rows "
        "of block 1 and columns of block 1, and no device would store rows of block 0 and columns of block 1.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x", "k": "y"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.PlanError,
        'f = nx.xmap(lambda x: nx.sum(nx.sin(x), "batch"))\n'
        "nx.plan(f, x, mesh=mesh, machine=nx.machines.v5e, memory=16, progress=False)",
        "In every layout, each device stores its block of the argument, which needs more than 16 bytes.",
        'f = nx.xmap(lambda x: nx.sum(nx.sin(x), "batch"))\nnx.plan(f, x, mesh=mesh, machine=nx.machines.v5e, memory=1e6, progress=False)',
    ),
    Specimen(
        nx.errors.CheckpointError,
        'nx.checkpoints.save("step_1", {"w": x})\nnx.checkpoints.restore("step_1", {"weight": x})',
        "A checkpoint stores each array under its path in the tree. The requested path is not in the checkpoint. A new "
        "array in its place would not be trained.",
        'nx.checkpoints.save("step_1", {"w": x})\nnx.checkpoints.restore("step_1", {"w": x})',
    ),
    Specimen(
        nx.errors.RawBlockError,
        'layout = {"batch": "x"}\nf = nx.xmap(lambda x: x / jnp.max(x.data), axis_resources=layout, mesh=mesh)\nf(x)',
        "In the body of a mapped function, `x.data` is the block of one device. Its maximum differs between devices, "
        "and it depends on `axis_resources`.",
        'layout = {"batch": "x"}\nf = nx.xmap(lambda x: x / nx.max(x, ...), axis_resources=layout, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.EinsumError,
        'nx.einsum("{batch,k->{batch}", x)',
        "Letters are positional axes, and names are in braces. Here a brace is not closed. The caret marks the position"
        " of the error.",
        'nx.einsum("{batch,k}->{batch}", x)',
    ),
    Specimen(
        nx.errors.RearrangeError,
        'nx.rearrange(x, "{k=(group within)} -> {group, within}", group=4)',
        "The size of `k` is 6, which is not divisible by 4.",
        'nx.rearrange(x, "{k=(group within)} -> {group, within}", group=2)',
    ),
    Specimen(
        nx.errors.ArgumentError,
        'nx.quantile(x, 0.5, "batch", method="liner")',
        "The argument is not an axis, and the operation does not support its value.",
        'nx.quantile(x, 0.5, "batch", method="linear")',
    ),
    Specimen(
        nx.errors.ArgumentTypeError,
        'nx.roll(x, 1.5, "batch")',
        "`nx.roll` shifts elements by whole positions, so the offset is an integer.",
        'nx.roll(x, 1, "batch")',
    ),
    Specimen(
        nx.errors.UnsupportedArgumentError,
        'nx.numpy.mean(x, "batch", out=jnp.zeros(6))',
        "JAX arrays are immutable, so no result can be written into `out`.",
        'nx.numpy.mean(x, "batch")',
    ),
    Specimen(
        nx.errors.ArrayTypeError,
        '@nx.checked\ndef half(x: nx.typing.f32[{"batch"}]) -> nx.typing.f32[{"batch"}]:\n    return x / 2\n\n\nhalf(x)',
        "The annotation requires an array with the axis `batch` only, but `x` also has `k`. The error is raised at the "
        "call, not later in the body.",
        '@nx.checked\ndef half(x: nx.typing.f32[{"batch"}]) -> nx.typing.f32[{"batch"}]:\n    return x / 2\n\n\nhalf(nx.sum(x, "k"))',
    ),
    Specimen(
        nx.errors.ArrayAttributeError,
        "x.isel(k=3)",
        "`isel` is a method of xarray. In namedax, an index contains the axis name and the position.",
        'x["k", 3]',
    ),
    Specimen(
        nx.errors.StoredPaddingError,
        'table = nx.named(jnp.ones((10, 6)), ["vocab", "k"])\n'
        'table = nx.shard(table, {"vocab": "x"}, mesh, padded=True)\n'
        'nx.fold(lambda c, row: c + row, nx.zeros(()), table, axis="vocab")',
        "Ten words over four devices are stored as twelve, with two words of padding. Outside of a mapped function, the function "
        "of `nx.fold` would get them. In a mapped function, `nx.fold` executes no step over padding.",
        'table = nx.named(jnp.ones((10, 6)), ["vocab", "k"])\n'
        'table = nx.shard(table, {"vocab": "x"}, mesh, padded=True)\n'
        'fold = lambda t: nx.fold(lambda c, row: c + row, nx.zeros(()), t, axis="vocab")\n'
        'nx.xmap(fold, axis_resources={"vocab": "x"}, mesh=mesh)(table)',
    ),
    Specimen(
        nx.errors.OuterProductError,
        'bias = nx.ones(named_shape={"k_fsdp": 6})\nwith nx.strict_broadcasting():\n    x + bias',
        "`k_fsdp` is a second name of the axis `k`, under which the bias is stored. Names that one operand lacks are broadcast, so "
        "the sum would have `batch`, `k` and `k_fsdp`.",
        'bias = nx.ones(named_shape={"k_fsdp": 6})\nwith nx.strict_broadcasting():\n    x + nx.rename(bias, {"k_fsdp": "k"})',
    ),
    Specimen(
        nx.errors.CheckFailedError,
        'with nx.debug.checks():\n    nx.debug.check(x > 1, "x is large")',
        "Elements of `x` are not larger than 1. The message has the index of the first one.",
        'with nx.debug.checks():\n    nx.debug.check(x >= 1, "x is large")',
    ),
]


def run(program: str) -> nx.errors.NamedaxError | None:
    """Run a program in an empty folder, and return the error of namedax that it raises."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        try:
            exec(compile(BEFORE + program, "model.py", "exec"), {"__name__": "specimen"})
        except nx.errors.NamedaxError as error:
            error.args = tuple(str(arg).replace(os.path.realpath(folder), "").replace(folder, "") for arg in error.args)
            return error
    return None
