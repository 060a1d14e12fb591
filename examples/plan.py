"""Plan a layout for a model, without devices: a table, and a picture of time against memory.

    # The small transformer on eight chips.
    python examples/plan.py
    # 70 billion parameters on 4,096 chips.
    python examples/plan.py examples/transformer_model.py:loss --mesh x=32,y=16,z=8 \\
        --batch 1024 \\
        --set layers=80,embed=8192,kv_heads=8,group=8,key=128,hidden=28672,vocab=128256,pos=4096
    python examples/plan.py --mesh data=8 --set experts=8 --machine h100
    # Choose the shape of the mesh too.
    python examples/plan.py --mesh 8

The file has a `Config` (a data class of sizes), a function `init(config, key)` that creates
parameters, and the function to plan. This function takes parameters, tokens, targets and `config=`.
Nothing is computed: parameters are types only.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import pathlib
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx

MACHINES = [
    name
    for name in nx.machines.__all__
    if isinstance(getattr(nx.machines, name), nx.machines.Machine)
]
HERE = pathlib.Path(__file__).parent


def pairs(text: str) -> dict[str, int]:
    """`x=4,y=2` as a dict."""
    return {name: int(size) for name, size in (part.split("=") for part in text.split(",") if part)}


def mesh_of(text: str) -> Any:
    """`x=4,y=2` as a mesh of these axes; a number of devices unchanged."""
    axes = {} if text.isdigit() else pairs(text)
    return jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes)) if axes else int(text)


def load(target: str) -> tuple[Any, Any]:
    """The module and the function of `file.py:function`."""
    path, _, name = target.rpartition(":")
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, getattr(module, name)


def main() -> None:
    """Plan, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "target",
        nargs="?",
        default=f"{HERE / 'transformer_model.py'}:loss",
        help="file.py:function",
    )
    parser.add_argument(
        "--mesh",
        default="x=4,y=2",
        help="mesh axes and their sizes, x=4,y=2; or 8: the plan chooses",
    )
    parser.add_argument("--machine", choices=MACHINES, default="v5p")
    parser.add_argument(
        "--memory", type=float, help="memory limit per device in bytes; default: all of it"
    )
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--set",
        type=pairs,
        default={},
        metavar="NAME=SIZE,...",
        help="fields of the model's Config",
    )
    parser.add_argument("--names", help="the axis names to map, batch,hidden; default: all")
    parser.add_argument("--tries", type=int, help="maximum number of traced layouts")
    parser.add_argument(
        "--forward", action="store_true", help="plan the function without its gradient"
    )
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "out")
    options = parser.parse_args()
    module, function = load(options.target)
    config = dataclasses.replace(module.Config(), **options.set)
    params = jax.eval_shape(functools.partial(module.init, config), jax.random.key(0))
    tokens = jax.eval_shape(
        lambda: nx.named(jnp.zeros((options.batch, config.pos), jnp.int32), ["batch", "pos"])
    )
    body = functools.partial(function, config=config)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f"{count:,} parameters, {options.batch * config.pos:,} tokens a step\n")
    began = time.perf_counter()
    plan = nx.plan(
        nx.xmap(body if options.forward else jax.value_and_grad(body)),
        *(params, tokens, tokens),
        mesh=mesh_of(options.mesh),
        machine=getattr(nx.machines, options.machine),
        memory=options.memory,
        names=options.names.split(",") if options.names else None,
        tries=options.tries,
    )
    print(plan)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "plan.txt").write_text(f"{plan}\n")
    plan.draw().savefig(options.out / "plan.png", dpi=120)
    print(
        f"\n{plan.traces} traces in {time.perf_counter() - began:.0f} s;"
        f" {options.out / 'plan.txt'}, {options.out / 'plan.png'}"
    )


if __name__ == "__main__":
    main()
