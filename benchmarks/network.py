"""The tutorial's network and a two-layer block: named programs against hand-written `shard_map`.

    python benchmarks/network.py

For every layout: the collectives of value and gradients with their bytes, and the time of a
compiled step, with both programs alternating in one run. The tests compare communication with the
same hand-written programs (`tests/oracles.py`).
"""

import os
import pathlib
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))

import jax
from oracles import ORACLES
from timing import interleaved

import namedax as nx


def network_loss(w1, w2, images, labels):
    """The tutorial's network."""
    hidden = nx.nn.relu(nx.dot(images, w1, "inputs"))
    logits = nx.dot(hidden, w2, "hidden")
    log_p = logits - nx.logsumexp(logits, "classes")
    target = nx.nn.one_hot(labels, axis="classes")
    return -nx.mean(nx.sum(target * log_p, "classes"), "batch")


def block_loss(w1, w2, x, target):
    """Two layers with a residual; renaming makes it FSDP or sequence-parallel, depending on the layout."""
    h = nx.nn.gelu(
        nx.einsum("{batch,pos:pos_sp,embed},{embed:embed_fsdp,hidden}->{batch,pos,hidden}", x, w1)
    )
    y = x + nx.einsum(
        "{batch,pos,hidden},{hidden,embed:embed_fsdp}->{batch,pos_sp:pos,embed}", h, w2
    )
    return nx.mean((y - target) ** 2, ("batch", "pos_sp", "embed"))


BLOCK_AXES = (
    ["embed_fsdp", "hidden"],
    ["hidden", "embed_fsdp"],
    ["batch", "pos_sp", "embed"],
    ["batch", "pos_sp", "embed"],
)


def main() -> None:
    """Print one line per layout and kind of differentiation."""
    print(f"jax {jax.__version__}, {jax.device_count()} devices")
    print(
        f"{'assignment':24s} {'gradient':8s} {'by hand':>34s} {'namedax':>34s} {'by hand':>9s}"
        f" {'namedax':>9s} ratio"
    )
    for name, oracle in ORACLES.items():
        model, _, _ = name.partition("/")
        sizes = {
            "network": {"batch": 512, "inputs": 784, "hidden": 512},
            "block": {"batch": 32, "pos": 32, "embed": 128, "hidden": 512},
        }
        oracle = oracle.resized(**sizes[model])
        mesh = oracle.meshes()[0]
        args = oracle.place(mesh, oracle.arguments())
        loss = network_loss if model == "network" else block_loss
        axes = tuple(map(list, oracle.stored.values())) if model == "network" else BLOCK_AXES
        options = {"axis_resources": dict(oracle.resources), "mesh": mesh}
        for inside in (False, True):
            if inside:
                grads = tuple(axes[i] for i in oracle.model.argnums)
                named = nx.xmap(
                    jax.value_and_grad(loss, oracle.model.argnums), axes, ([], grads), **options
                )
            else:
                named = jax.jit(
                    jax.value_and_grad(nx.xmap(loss, axes, [], **options), oracle.model.argnums)
                )
            plain = jax.jit(oracle.value_and_grad(mesh, inside=inside))
            plain_compiled, named_compiled = (f.lower(*args).compile() for f in (plain, named))
            costs = [str(nx.hlo.summary(c)) for c in (plain_compiled, named_compiled)]
            times = interleaved(
                {"plain": lambda p=plain, a=args: p(*a), "named": lambda n=named, a=args: n(*a)},
                rounds=60,
                calls=3,
            )
            ratio = times["named"] / times["plain"]
            print(
                f"{name:24s} {'inside' if inside else 'outside':8s} {costs[0]:>34s} {costs[1]:>34s}"
                f" {times['plain'] * 1e3:7.2f}ms {times['named'] * 1e3:7.2f}ms {ratio:5.2f}"
            )


if __name__ == "__main__":
    main()
