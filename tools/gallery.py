"""Writes docs/gallery.md: the examples that compare assignments, each with its picture, its table and the time that it takes.

It also writes docs/models/: a page for each model of namedax.models, with its communication and its plans.

`python tools/gallery.py` runs all of them (a few minutes), or those that are named, such as `mcmc` or `llama`;
`tests/house/test_gallery.py` runs each with a few steps, and sees that the page has them all.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES, PAGE, PICTURES = (
    ROOT / "examples",
    ROOT / "docs" / "gallery.md",
    ROOT / "docs" / "static" / "gallery",
)
HEAD = """\
# Gallery

Each example is one program that runs under several layouts. The results are the same under every layout. The tables have the time and the
communication (payload) of a step on eight devices, simulated on two cores. These times show the cost of communication on that machine. They
do not predict the speedup on eight real devices.

[Models](models/index.md) has published architectures: Llama, Mixtral, GPT-OSS, DeepSeek, Gemma, T5, Whisper, ViT, Mamba and Qwen3-Next.

"""
#: The headings, in which a reader searches for a subject. The first sentence of an example is too long for one.
TITLES = {
    "digits": "One network under seven layouts",
    "dp_sgd": "Private training with DP-SGD",
    "experts": "Mixture of experts",
    "flax_model": "Train a Flax model by name",
    "gaussian_process": "Gaussian process",
    "gpt_lora": "Pretrain a GPT, and fine-tune it with LoRA",
    "graph_network": "Graph network",
    "heat_and_shallow_water": "Heat equation and shallow water",
    "mcmc": "Markov chain Monte Carlo",
    "pencil_fft": "Fourier transforms of a sharded cube",
    "unet": "U-Net with sharded images",
}
#: Pictures with maps, whose colors the dark theme does not invert.
MAPS = {"gaussian_process", "heat_and_shallow_water", "pencil_fft"}
COLUMNS = 96  # of a block of the site
MODELS, MODEL_PAGES = ROOT / "namedax" / "models", ROOT / "docs" / "models"
MODELS_HEAD = """\
# Models

To run or train a published architecture, use one of these modules of `namedax.models`. Each defines a model by plain functions over axis names. Its
logits, losses and gradients equal those of PyTorch in every layout of its page. A page shows the communication of a training step, and the
layouts that `nx.plan` chooses. Both come from tracing the model at a published size, without devices.

`nx.models.load(folder, axis_resources, mesh)` reads a published checkpoint. The command does so too:

```sh
python -m namedax.models generate FOLDER --prompt "Once upon a time" --layout "{'kv_heads': 'model'}"
python -m namedax.models train FOLDER --layout fsdp+tp --steps 100
python -m namedax.models explain FOLDER --layout "{'batch': 'data'}" --mesh data=64
python -m namedax.models plan FOLDER --chips 64 --machine h100
```

`explain` and `plan` read `config.json` only: they trace a training step at its real size without weights and without devices. To port a model that is not
here, see [Bring your own architecture](../guides/bring_your_own_architecture.md).

| page | model |
|---|---|
"""
LOAD = """\
import jax

import namedax as nx

folder = "{folder}"  # config.json and *.safetensors
mesh = jax.make_mesh((4, 2), ("data", "model"))
layout = {layout}
model = nx.models.load(folder, layout, mesh)
print(model.report)  # the place and the axes of each key
print(nx.summary(model.params))
"""
LOADED = (
    "Each device reads only its own blocks. To compute with this layout, map a function with it:"
    " `nx.xmap(model.loss, axis_resources=layout, mesh=mesh)`. Every other layout on this page works too."
)


def layout_text(name: str) -> str:
    """The layout of the page's example, in lines that a page shows completely."""
    from namedax.models import common, show

    known = common.axis_names(show.Step(name).config)
    chosen = {axis: place for axis, place in common.LAYOUTS["fsdp+tp"][1].items() if axis in known}
    lines = "".join(f"    {axis!r}: {place!r},\n" for axis, place in chosen.items())
    return "{\n" + lines.replace("'", '"') + "}"


def names() -> list[str]:
    """The examples of the gallery: the demonstration, and those that are written with `examples/gallery.py`."""
    return [
        "digits",
        *sorted(
            path.stem for path in EXAMPLES.glob("*.py") if "from gallery import" in path.read_text()
        ),
    ]


def section(name: str) -> str:
    """Runs an example, and says what it is and what it printed."""
    path = EXAMPLES / f"{name}.py"
    title, paragraphs = described(path)
    PICTURES.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | {
        "PYTHONPATH": str(ROOT)
    }
    start = time.perf_counter()
    command = [sys.executable, str(path), "--out", str(PICTURES / f"{name}.webp")]
    run = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, env=environment
    )
    seconds = time.perf_counter() - start
    table = re.search(r"^assignment .*?(?=\n\n|\Z)", run.stdout, re.S | re.M)
    if table is None:
        raise ValueError(f"{name} has printed no table:\n{run.stdout}")
    return (
        f"## {TITLES[name]}\n\n{textwrap.fill(f'**{title}** ' + ' '.join(paragraphs), 140)}\n\n"
        f"{image(name, title)}\n\n```text\n{narrow(table[0])}\n```\n\n`python examples/{name}.py`,"
        f" {seconds:.0f} seconds. Its source is [examples/{name}.py](../examples/{name}.py).\n"
    )


def image(name: str, title: str) -> str:
    """The picture of an example, as a page has it."""
    options = [f":alt: {title}", ":width: 800px", *[":class: pixels"] * (name in MAPS)]
    return "\n".join([f"```{{image}} static/gallery/{name}.webp", *options, "```"])


def narrow(table: str) -> str:
    r"""A table with its last column folded where a line is too long.

    >>> print(narrow("a      ms  sends\nrow   1.0  " + "1 all-reduce (4 B), " * 5 + "none"))
    a      ms  sends
    row   1.0  1 all-reduce (4 B), 1 all-reduce (4 B), 1 all-reduce (4 B), 1 all-reduce (4 B),
               1 all-reduce (4 B), none
    """
    head, *rows = table.rstrip().splitlines()
    start = max(found.end() for found in re.finditer(r" {2,}", head))
    lines = [head]
    for row in rows:
        first, *parts = row.split(", ")
        lines.append(first)
        for part in parts:
            lines[-1] += ","
            if len(lines[-1]) + len(part) + 2 <= COLUMNS:
                lines[-1] += f" {part}"
            else:
                lines.append(" " * start + part)
    return "\n".join(lines)


def models() -> list[str]:
    """The models that have a page: those with a loss."""
    return sorted(path.stem for path in MODELS.glob("*.py") if "\ndef loss(" in path.read_text())


def described(path: pathlib.Path) -> tuple[str, list[str]]:
    """The first sentence of a file's docstring, and its other paragraphs."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    title, *paragraphs = [
        " ".join(part.split()) for part in doc.split("\n\n") if not part.startswith("    ")
    ]
    return title, paragraphs


def model_page(name: str) -> str:
    """Runs a model's file, and makes its page."""
    from namedax.models import common, show

    path = MODELS / f"{name}.py"
    title, paragraphs = described(path)
    head, _, rest = title.partition(": ")
    run = "".join(
        subprocess.run(
            [sys.executable, "-m", "namedax.models", command, name],
            capture_output=True,
            encoding="utf-8",
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ).stdout.rstrip()
        + "\n\n"
        for command in ("explain", "plan")
    )
    axes, step, *plans = re.split(r"\n\n+(?=A step under|Layouts of|plan: )", run.rstrip())
    published, folder, _, inputs = show.PUBLISHED[name]
    shown = show.Step(name)
    names = {*shown.config.sizes(), *shown.names(8), *getattr(shown.config, "axes", ())}
    layouts = [
        (layout, mesh, {name: entry for name, entry in resources.items() if name in names})
        for layout, (mesh, resources) in common.LAYOUTS.items()
        if mesh and ("expert" in names or not layout.startswith("ep"))
    ]
    rows = [
        f"| {layout} | {', '.join(f'{axis}={size}' for axis, size in mesh.items())} | `{chosen}` |"
        for layout, mesh, chosen in layouts
    ]
    chips = " and ".join(map(str, show.planned(show.Step(name))[0]))
    of_chip = ", ".join(f"`{axis}` {size}" for axis, size in inputs.items())
    text = textwrap.fill(f"**{rest[:1].upper()}{rest[1:]}** " + " ".join(paragraphs), 140)
    parts = [
        f"# {head}",
        f"To run or train {head}, use [namedax.models.{name}](../../namedax/models/{name}.py).",
        text,
        "## Load a published checkpoint",
        "To load a published checkpoint with a layout, run this code:",
        f"```py\n{LOAD.format(folder=folder, layout=layout_text(name))}```",
        textwrap.fill(LOADED, 140),
        f"## Axes of {published}",
        f"```text\n{axes}\n```",
        "## Communication of a training step",
        textwrap.fill(
            "`nx.explain` reports this for the step of `python -m namedax.models train`, with AdamW and in bfloat16. The bytes are those that one"
            f" device sends. The inputs of one chip have the sizes {of_chip}.",
            140,
        ),
        f"```text\n{step}\n```",
        f"## Layouts for {chips} chips",
        "A star marks the layout that `nx.plan` chooses. The others are on the Pareto front of time and memory:",
        *(f"```text\n{plan}\n```" for plan in plans),
        f"`python -m namedax.models explain {name}` and `python -m namedax.models plan {name}` print these reports.",
        "## Tested layouts",
        "The tests compare logits, loss and gradients with PyTorch under these layouts, on Auto and Explicit mesh axes:",
        "| layout | mesh | `axis_resources` |\n|---|---|---|\n" + "\n".join(rows),
        "If a layout shards the layers (a pipeline), set `microbatches` in the configuration.",
    ]
    return "\n\n".join(parts) + "\n"


def models_index() -> str:
    """The page that lists the models."""
    rows = []
    for name in models():
        head, _, rest = described(MODELS / f"{name}.py")[0].partition(": ")
        rows.append(f"| [{head}]({name}.md) | {rest[:1].upper()}{rest[1:]} |\n")
    listed = "\n".join(models())
    return f"{MODELS_HEAD}{''.join(rows)}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def main() -> None:
    """Writes the page, or the sections that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="default: all")
    chosen = parser.parse_args().names or [*names(), *models()]
    old = re.split(r"(?=^## )", PAGE.read_text(), flags=re.M)[1:] if PAGE.exists() else []
    sections = {
        match[1]: text for text in old if (match := re.search(r"static/gallery/(\w+)\.", text))
    }
    MODEL_PAGES.mkdir(exist_ok=True)
    (MODEL_PAGES / "index.md").write_text(models_index())
    for name in set(chosen) & {*models()}:
        (MODEL_PAGES / f"{name}.md").write_text(model_page(name))
        print(name, flush=True)
    for name in [name for name in chosen if name not in models()]:
        sections[name] = section(name)
        print(name, flush=True)
    PAGE.write_text(
        HEAD + "\n".join(sections[name].rstrip() + "\n" for name in names() if name in sections)
    )


if __name__ == "__main__":
    main()
