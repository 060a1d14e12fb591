"""Hand-written `jax.shard_map` programs: what an expert's communication costs, without namedax.

Two models, each under several assignments. For every assignment there is one body, written by hand
for that layout with `check_vma=True`, and differentiated in two ways: outside of the `shard_map`,
and inside of its body. A named program under the same assignment may send no more than these do.

    for name, oracle in ORACLES.items():
        mesh = oracle.meshes()[0]
        step = oracle.value_and_grad(mesh, inside=True)
        loss, grads = jax.jit(step)(*oracle.place(mesh, oracle.arguments()))

The sizes of the axes, and of their blocks on every mesh of `meshes()`, are unequal, so that no axis
can be taken for another. The arguments are float32 and int32 whatever `jax_enable_x64` says.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A function of global arrays, written without a thought of devices.

    Attributes:
      loss: the plain single-device program.
      dims: the axis names of each argument, in order of its positions.
      sizes: the global size of each axis.
      integers: for an argument of integers, the axis that it counts along.
      argnums: the parameters; a gradient with respect to the others is asked for by `argnums=`.
    """

    loss: Callable[..., jax.Array]
    dims: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    integers: Mapping[str, str]
    argnums: tuple[int, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The global shape of each argument."""
        return {name: tuple(self.sizes[d] for d in dims) for name, dims in self.dims.items()}

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Global arguments; the real ones are scaled so that the loss is of order one."""
        rng = np.random.default_rng(seed)
        values = []
        for name, shape in self.shapes.items():
            if name in self.integers:
                value = rng.integers(self.sizes[self.integers[name]], size=shape, dtype=np.int32)
            else:
                value = rng.normal(size=shape).astype(np.float32)
                if name.startswith("w"):
                    value /= np.float32(math.sqrt(shape[0]))
            values.append(value)
        return tuple(values)


@dataclasses.dataclass(frozen=True, eq=False)
class Oracle:
    """One model under one assignment.

    Attributes:
      model: the plain program, its arguments and their sizes.
      resources: the assignment, as namedax would take it.
      stored: the axis names of each argument as it is stored. They are those of the model, but
        where an axis that is whole in the computation is stored in parts: `embed_fsdp` for `embed`
        in a weight, `pos_sp` for `pos` in the residual stream.
      body: the loss of one device's blocks; the same on every device.
    """

    model: Model
    resources: Mapping[str, str | tuple[str, ...]]
    stored: Mapping[str, tuple[str, ...]]
    body: Callable[..., jax.Array]

    @property
    def mesh_axes(self) -> tuple[str, ...]:
        """The mesh axes that the assignment uses, major first."""
        used = [axis for entry in self.resources.values() for axis in _tuple(entry)]
        return tuple(axis for axis in ("x", "y", "data", "tensor") if axis in used)

    @property
    def in_specs(self) -> tuple[P, ...]:
        """How each argument is stored."""
        return tuple(P(*(self.resources.get(dim) for dim in dims)) for dims in self.stored.values())

    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes of eight devices that a test should try: (8,), or (4, 2) and (2, 4)."""
        shapes = [(8,)] if len(self.mesh_axes) == 1 else [(4, 2), (2, 4)]
        return tuple(make_mesh(**dict(zip(self.mesh_axes, shape, strict=True))) for shape in shapes)

    def resized(self, **sizes: int) -> Oracle:
        """The same with other global sizes, for a benchmark: `resized(batch=512, hidden=1024)`."""
        model = dataclasses.replace(self.model, sizes={**self.model.sizes, **sizes})
        return dataclasses.replace(self, model=model)

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Global arguments."""
        return self.model.arguments(seed)

    def place(self, mesh: Mesh, arguments: tuple[Any, ...]) -> tuple[jax.Array, ...]:
        """Puts global arguments on `mesh` as `in_specs` says."""
        shardings = [NamedSharding(mesh, spec) for spec in self.in_specs]
        return tuple(map(jax.device_put, arguments, shardings))

    def abstract(self, mesh: Mesh) -> tuple[jax.ShapeDtypeStruct, ...]:
        """What `jax.jit(...).lower` needs to compile for arguments placed on `mesh`."""
        return tuple(
            jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, spec))
            for a, spec in zip(self.arguments(), self.in_specs, strict=True)
        )

    def loss(self, mesh: Mesh) -> Callable[..., jax.Array]:
        """The loss, a function of global arrays."""
        return jax.shard_map(self.body, mesh=mesh, in_specs=self.in_specs, out_specs=P())

    def value_and_grad(
        self, mesh: Mesh, *, inside: bool, argnums: tuple[int, ...] | None = None
    ) -> Callable[..., tuple[jax.Array, tuple[jax.Array, ...]]]:
        """The loss and its gradients, a function of global arrays.

        Args:
          mesh: has the axes `mesh_axes`; others stay idle.
          inside: differentiate in the `shard_map`'s body, or the `shard_map` itself.
          argnums: the arguments to differentiate with respect to, by default the parameters. The
            gradients are sharded as the arguments are.
        """
        argnums = self.model.argnums if argnums is None else argnums
        if not inside:
            return jax.value_and_grad(self.loss(mesh), argnums)
        return jax.shard_map(
            jax.value_and_grad(self.body, argnums),
            mesh=mesh,
            in_specs=self.in_specs,
            out_specs=(P(), tuple(self.in_specs[i] for i in argnums)),
        )


def make_mesh(**axes: int) -> Mesh:
    """A mesh with these axes: `make_mesh(x=4, y=2)`."""
    auto = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto)


def _tuple(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return entry if isinstance(entry, tuple) else (entry,)


# --- The tutorial's network -----------------------------------------------------------------------
# Two layers and a cross-entropy. The sums over `inputs` and `hidden` and the mean over `batch` are
# where an assignment makes a program communicate; `classes` stays whole.


def _log_likelihood(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The sum, over the rows that this device has, of the log-likelihood of their labels."""
    log_p = logits - jax.nn.logsumexp(logits, axis=1, keepdims=True)
    return jnp.sum(jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype) * log_p)


def _network(w1, w2, images, labels):
    hidden = jax.nn.relu(images @ w1)
    return -_log_likelihood(hidden @ w2, labels) / labels.shape[0]


NETWORK = Model(
    loss=_network,
    dims={
        "w1": ("inputs", "hidden"),
        "w2": ("hidden", "classes"),
        "images": ("batch", "inputs"),
        "labels": ("batch",),
    },
    sizes={"batch": 48, "inputs": 40, "hidden": 16, "classes": 7},
    integers={"labels": "classes"},
    argnums=(0, 1),
)


def _network_oracle(**resources: str | tuple[str, ...]) -> Oracle:
    """The network: one psum for every contraction, and a pmean for the mean, over a mapped axis.

    The parameters' gradients need none but those that the batch asks for: a cotangent of a psum's
    result is the same on every device, and each device has the weights that it is multiplied with.
    """

    def total(x, axis):
        return lax.psum(x, resources[axis]) if axis in resources else x

    def body(w1, w2, images, labels):
        hidden = jax.nn.relu(total(images @ w1, "inputs"))
        logits = total(hidden @ w2, "hidden")
        loss = -_log_likelihood(logits, labels) / labels.shape[0]
        return lax.pmean(loss, resources["batch"]) if "batch" in resources else loss

    return Oracle(NETWORK, resources, NETWORK.dims, body)


# --- A two-layer block with a residual ------------------------------------------------------------


def _block(w1, w2, x, target):
    y = x + jax.nn.gelu(x @ w1) @ w2
    return jnp.mean((y - target) ** 2)


BLOCK = Model(
    loss=_block,
    dims={
        "w1": ("embed", "hidden"),
        "w2": ("hidden", "embed"),
        "x": ("batch", "pos", "embed"),
        "target": ("batch", "pos", "embed"),
    },
    sizes={"batch": 16, "pos": 20, "embed": 24, "hidden": 56},
    integers={},
    argnums=(0, 1),
)


def _dp(w1, w2, x, target):
    y = x + jax.nn.gelu(x @ w1) @ w2
    return lax.pmean(jnp.mean((y - target) ** 2), "data")


def _tp(w1, w2, x, target):
    y = x + lax.psum(jax.nn.gelu(x @ w1) @ w2, "tensor")
    return jnp.mean((y - target) ** 2)


def _dp_tp(w1, w2, x, target):
    y = x + lax.psum(jax.nn.gelu(x @ w1) @ w2, "tensor")
    return lax.pmean(jnp.mean((y - target) ** 2), "data")


def _fsdp(w1, w2, x, target):
    # Gathered to varying, since each device uses a weight with its own part of the batch: then the
    # transpose adds up the gradients and keeps a part, in one reduce-scatter.
    w1 = lax.all_gather(w1, "data", axis=0, tiled=True, to="varying")
    w2 = lax.all_gather(w2, "data", axis=1, tiled=True, to="varying")
    y = x + jax.nn.gelu(x @ w1) @ w2
    return lax.pmean(jnp.mean((y - target) ** 2), "data")


def _fsdp_tp(w1, w2, x, target):
    # The residual stream is whole along `embed` and in parts along `pos`: its positions are
    # gathered before the first matrix and reduce-scattered after the second, and each of the two is
    # the other's transpose.
    w1 = lax.all_gather(w1, "data", axis=0, tiled=True, to="varying")
    w2 = lax.all_gather(w2, "data", axis=1, tiled=True, to="varying")
    whole = lax.all_gather(x, "tensor", axis=1, tiled=True, to="varying")
    out = jax.nn.gelu(whole @ w1) @ w2
    y = x + lax.psum_scatter(out, "tensor", scatter_dimension=1, tiled=True)
    return lax.pmean(jnp.mean((y - target) ** 2), ("data", "tensor"))


_FSDP = {**BLOCK.dims, "w1": ("embed_fsdp", "hidden"), "w2": ("hidden", "embed_fsdp")}
_FSDP_SP = {
    **_FSDP,
    "x": ("batch", "pos_sp", "embed"),
    "target": ("batch", "pos_sp", "embed"),
}


ORACLES: dict[str, Oracle] = {
    "network/batch": _network_oracle(batch="x"),
    "network/hidden": _network_oracle(hidden="x"),
    "network/batch+hidden": _network_oracle(batch="x", hidden="y"),
    "network/inputs+hidden": _network_oracle(inputs="x", hidden="y"),
    "network/batch-over-xy": _network_oracle(batch=("x", "y")),
    "block/dp": Oracle(BLOCK, {"batch": "data"}, BLOCK.dims, _dp),
    "block/tp": Oracle(BLOCK, {"hidden": "tensor"}, BLOCK.dims, _tp),
    "block/dp+tp": Oracle(BLOCK, {"batch": "data", "hidden": "tensor"}, BLOCK.dims, _dp_tp),
    "block/fsdp": Oracle(BLOCK, {"batch": "data", "embed_fsdp": "data"}, _FSDP, _fsdp),
    "block/fsdp+tp": Oracle(
        BLOCK,
        {"batch": "data", "hidden": "tensor", "embed_fsdp": "data", "pos_sp": "tensor"},
        _FSDP_SP,
        _fsdp_tp,
    ),
}
