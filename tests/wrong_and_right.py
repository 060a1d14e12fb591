"""For each class of error: what was written, why it cannot work, and what to write. docs/errors.md shows them.

`test_errors_page.py` runs both, and compares the page with what was raised; `tools/errors_page.py` writes the page.
"""

import contextlib
import dataclasses
import os
import tempfile

import namedax as nx

# Said once at the top of the page; each specimen begins with it.
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
    """A program whose last statement raises, and the program that was meant."""

    kind: type[nx.errors.NamedaxError]
    wrong: str
    why: str
    right: str


SPECIMENS = [
    Specimen(
        nx.errors.AxisNameError,
        'nx.rename(x, {"batch": "k"})',
        "The axes of one array have different names. With two axes called `k`, no operation could say which one it means.",
        'nx.rename(x, {"batch": "row"})',
    ),
    Specimen(
        nx.errors.AxisNameError,
        'nx.rename(x, {"batch": 0})',
        "Integers are positions, everywhere; a name is any other value that can be a key of a dictionary. To give an axis a position, say so.",
        'nx.positional(x, ["batch", "k"])',
    ),
    Specimen(
        nx.errors.AxisNotFoundError,
        'nx.sum(x, "bacth")',
        "An operation over a name needs an array that has it. A missing axis is never created: a typing error would become an axis of size one.",
        'nx.sum(x, "batch")',
    ),
    Specimen(
        nx.errors.AxisNotFoundError,
        'x + nx.arange(axis="pos")',
        "Outside of a mapped function nothing says how long a new axis is. Within one, the other arguments do, or `axis_sizes`.",
        'x + nx.arange(12, axis="pos")',
    ),
    Specimen(
        nx.errors.AxisSizeError,
        'w = nx.named(jnp.ones(5), ["k"])\nx * w',
        "A name has one size. Axes of size one do not stretch, as they do in NumPy: where an axis is to be repeated, leave it out.",
        'w = nx.named(jnp.ones(6), ["k"])\nx * w',
    ),
    Specimen(
        nx.errors.UnevenAxisError,
        'f = nx.xmap(lambda x: nx.rename(x, {"batch": "row"}), axis_resources={"row": "x"}, mesh=mesh)\n'
        'f(nx.named(jnp.ones(10), ["batch"]))',
        "Ten rows over four devices are blocks of three, the last of which is padding. `row` is born inside of the function, which therefore "
        "did not know when it began how many of its entries are real.",
        'rows = lambda x: nx.rename(x, {"batch": "row"})\n'
        'f = nx.xmap(rows, axis_resources={"row": "x"}, axis_sizes={"row": 10}, mesh=mesh)\n'
        'f(nx.named(jnp.ones(10), ["batch"]))',
    ),
    Specimen(
        nx.errors.PositionalAxisError,
        "nx.sum(x, 0)",
        "Names have no order, so there is no first one. `x` has two axes, and both have names; `0` speaks of a position, and it has none.",
        'nx.sum(x, "batch")',
    ),
    Specimen(
        nx.errors.AxisMappingError,
        'nx.named(jnp.ones((8, 6, 3)), ["batch", "k"])',
        "A list says something of every axis, so that an array of another rank than was thought of is found out. `None` is for an axis that "
        "keeps its position, and `...` at the end for all that follow.",
        'nx.named(jnp.ones((8, 6, 3)), ["batch", "k", None])',
    ),
    Specimen(
        nx.errors.NamedAxesLeftError,
        "np.asarray(x)",
        "NumPy knows positions only, and names have no order. Which axis is to be the first has to be said.",
        'np.asarray(nx.positional(x, ["batch", "k"]))',
    ),
    Specimen(
        nx.errors.NamedAxesLeftError,
        'f = nx.xmap(lambda x: nx.sum(x, "k"), in_axes=["batch", "k"], out_axes=[])\nf(jnp.ones((8, 6)))',
        "`out_axes` says that the result has no axis, and it still has `batch`. Dropping it would return one of eight numbers.",
        'f = nx.xmap(lambda x: nx.sum(x, "k"), in_axes=["batch", "k"], out_axes=["batch"])\nf(jnp.ones((8, 6)))',
    ),
    Specimen(
        nx.errors.AxisResourceError,
        'f = nx.xmap(nx.sin, axis_resources={"bacth": "x"}, mesh=mesh)\nf(x)',
        "No value in the function has that name, so the entry would do nothing, and the batch would be whole on every device without a word.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.SerialLoopError,
        'f = nx.xmap(lambda x: nx.sort(x, "batch"), axis_resources={"batch": nx.SerialLoop(4)})\nf(x)',
        "The steps of a loop see a part of the axis each. Sums and products can be put together from parts; the order of all entries cannot.",
        'f = nx.xmap(lambda x: nx.sort(x, "batch"), axis_resources={"k": nx.SerialLoop(3)})\nf(x)',
    ),
    Specimen(
        nx.errors.PipelineError,
        'w = nx.ones(named_shape={"layer": 4, "k": 6})\n'
        'layer = lambda x, w: w * (x - nx.mean(x, "batch"))\n'
        'model = lambda w, x: nx.pipeline(layer, x, w, axis="layer", microbatches=2)\n'
        'f = nx.xmap(model, axis_resources={"layer": "x"}, mesh=mesh)\nf(w, x)',
        "In a pipeline the microbatches of the batch are on their way at different times; there is no moment at which a layer has them all.",
        'w = nx.ones(named_shape={"layer": 4, "k": 6})\n'
        'layer = lambda x, w: w * (x - nx.mean(x, "k"))\n'
        'model = lambda w, x: nx.pipeline(layer, x, w, axis="layer", microbatches=2)\n'
        'f = nx.xmap(model, axis_resources={"layer": "x"}, mesh=mesh)\nf(w, x)',
    ),
    Specimen(
        nx.errors.MeshError,
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"})\nf(x)',
        "A name is mapped to the mesh axis `x`, and nothing says which devices that is.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.PlacementConflictError,
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x", "k": "x"}, mesh=mesh)\nf(x)',
        "Along a mesh axis a device has one coordinate. If both axes were cut along it, the device in the second place would hold the second "
        "rows of the second columns, and no device has the second rows of the first.",
        'f = nx.xmap(nx.sin, axis_resources={"batch": "x", "k": "y"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.PlanError,
        'f = nx.xmap(lambda x: nx.sum(nx.sin(x), "batch"))\n'
        "nx.plan(f, x, mesh=mesh, machine=nx.machines.v5e, memory=16, progress=False)",
        "However the axes are laid out, a device has to hold its block of the argument, which is more than 16 bytes.",
        'f = nx.xmap(lambda x: nx.sum(nx.sin(x), "batch"))\nnx.plan(f, x, mesh=mesh, machine=nx.machines.v5e, memory=1e6, progress=False)',
    ),
    Specimen(
        nx.errors.CheckpointError,
        'nx.checkpoints.save("step_1", {"w": x})\nnx.checkpoints.restore("step_1", {"weight": x})',
        "Arrays are stored by their path in the tree. One that is asked for under another path is not there, and a fresh one in its place "
        "would be a model that was never trained.",
        'nx.checkpoints.save("step_1", {"w": x})\nnx.checkpoints.restore("step_1", {"w": x})',
    ),
    Specimen(
        nx.errors.RawBlockError,
        'f = nx.xmap(lambda x: x / jnp.max(x.data), axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
        "In the body of a mapped function `x.data` is the block of one device. Its maximum would be another number on every device, and under "
        "every assignment.",
        'f = nx.xmap(lambda x: x / nx.max(x, ("batch", "k")), axis_resources={"batch": "x"}, mesh=mesh)\nf(x)',
    ),
    Specimen(
        nx.errors.EinsumError,
        'nx.einsum("{batch,k->{batch}", x)',
        "The notation has letters for positions and names in braces. What does not close cannot be read; the caret stands under the spot.",
        'nx.einsum("{batch,k}->{batch}", x)',
    ),
    Specimen(
        nx.errors.RearrangeError,
        'nx.rearrange(x, "{k=(group within)} -> {group, within}", group=4)',
        "Six is no multiple of four, so `k` has no groups of that number.",
        'nx.rearrange(x, "{k=(group within)} -> {group, within}", group=2)',
    ),
    Specimen(
        nx.errors.ArgumentError,
        'nx.quantile(x, 0.5, "batch", method="liner")',
        "An argument that is no axis has a value that the operation does not know.",
        'nx.quantile(x, 0.5, "batch", method="linear")',
    ),
    Specimen(
        nx.errors.ArgumentTypeError,
        'nx.roll(x, 1.5, "batch")',
        "An axis moves by whole entries.",
        'nx.roll(x, 1, "batch")',
    ),
    Specimen(
        nx.errors.UnsupportedArgumentError,
        'nx.numpy.mean(x, "batch", out=jnp.zeros(6))',
        "Arrays of JAX cannot be changed, so there is nothing to write into.",
        'nx.numpy.mean(x, "batch")',
    ),
    Specimen(
        nx.errors.ArrayTypeError,
        '@nx.checked\ndef half(x: nx.typing.f32[{"batch"}]) -> nx.typing.f32[{"batch"}]:\n    return x / 2\n\n\nhalf(x)',
        "The function says that it takes an array over `batch` alone, and `x` has `k`, too. A mistake is found where it is made.",
        '@nx.checked\ndef half(x: nx.typing.f32[{"batch"}]) -> nx.typing.f32[{"batch"}]:\n    return x / 2\n\n\nhalf(nx.sum(x, "k"))',
    ),
    Specimen(
        nx.errors.ArrayAttributeError,
        "x.isel(k=3)",
        "Arrays of other libraries have words of their own. Here an axis is indexed by its name, in the brackets that all arrays have.",
        'x["k", 3]',
    ),
]


def run(program: str) -> nx.errors.NamedaxError | None:
    """Runs a program in an empty folder, and returns the error of namedax that it raises."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        try:
            exec(compile(BEFORE + program, "model.py", "exec"), {"__name__": "specimen"})
        except nx.errors.NamedaxError as error:
            error.args = tuple(str(arg).replace(os.path.realpath(folder), "").replace(folder, "") for arg in error.args)
            return error
    return None
