"""Train one network over named axes under seven layouts on eight devices.

The data are the handwritten digits of scikit-learn (1797 images of 8 by 8 pixels), and the devices
are simulated on the CPU. The layouts differ only in an item of `ASSIGNMENTS`. The script prints the
sharding of every array, the communication of one training step, and the differences of the loss
curves, and draws all of it.

    python examples/digits.py
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{os.getenv('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import namedax as nx
from namedax import hlo

# ------------------------------------------------------------------------------------------------
# The model: functions over named axes. No axis numbers, no devices.


def logits(params, images):
    hidden = nx.nn.relu(nx.dot(images, params["w1"], "inputs"))
    return nx.dot(hidden, params["w2"], "hidden")


def loss(params, images, labels):
    scores = logits(params, images)
    logp = scores - nx.logsumexp(scores, "classes")
    target = nx.nn.one_hot(labels, axis="classes")
    return -nx.mean(nx.sum(target * logp, "classes"), "batch")


def accuracy(params, images, labels):
    return nx.mean(nx.argmax(logits(params, images), "classes") == labels, "batch")


def init(inputs=64, hidden=128, classes=10):
    key1, key2 = jax.random.split(jax.random.key(0))
    w1 = jax.random.normal(key1, (inputs, hidden)) * (2 / inputs) ** 0.5
    w2 = jax.random.normal(key2, (hidden, classes)) * (1 / hidden) ** 0.5
    return {"w1": nx.named(w1, ["inputs", "hidden"]), "w2": nx.named(w2, ["hidden", "classes"])}


# The layouts: a device mesh, and a map from axes of the model to mesh axes.

ASSIGNMENTS = {
    "none": ({"x": 1}, {}),
    "batch": ({"x": 8}, {"batch": "x"}),
    "hidden": ({"x": 8}, {"hidden": "x"}),
    "batch + hidden": ({"x": 4, "y": 2}, {"batch": "x", "hidden": "y"}),
    "inputs + hidden": ({"x": 4, "y": 2}, {"inputs": "x", "hidden": "y"}),
    "batch on two": ({"x": 4, "y": 2}, {"batch": ("x", "y")}),
    "all three": ({"x": 2, "y": 2, "z": 2}, {"batch": "x", "inputs": "y", "hidden": "z"}),
}

# ------------------------------------------------------------------------------------------------
# Training. Named arrays are pytrees, so optax, `jax.jit` and `jax.grad` accept them.


@dataclass
class Run:
    """The results of one layout."""

    arrays: dict  # the named arrays with their shardings
    collectives: tuple  # of one compiled step
    losses: np.ndarray
    milliseconds: float  # of one step
    accuracy: float


def load_data(train=1408, test=384):
    """Load the shuffled digits: images and labels for training, images and labels for testing."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))

    def part(rows):
        images = nx.named(jnp.asarray(digits.data[rows] / 16, float), ["batch", "inputs"])
        return images, nx.named(jnp.asarray(digits.target[rows]), ["batch"])

    return part(order[:train]), part(order[train : train + test])


def train(title, steps):
    """Train the network under one layout."""
    mesh, axis_resources = ASSIGNMENTS[title]
    mesh = jax.make_mesh(tuple(mesh.values()), tuple(mesh))
    mapped_loss = nx.xmap(loss, axis_resources=axis_resources, mesh=mesh)
    mapped_accuracy = nx.xmap(accuracy, axis_resources=axis_resources, mesh=mesh)
    optimizer = optax.sgd(0.3, momentum=0.9, nesterov=True)

    @jax.jit
    def step(params, state, images, labels):
        value, grads = jax.value_and_grad(mapped_loss)(params, images, labels)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    params, (data, test) = nx.shard((init(), load_data()), axis_resources, mesh)
    state = optimizer.init(params)
    compiled = step.lower(params, state, *data).compile()

    losses, seconds = [], []
    for done in range(1, steps + 1):
        start = time.perf_counter()
        params, state, value = jax.block_until_ready(compiled(params, state, *data))
        seconds.append(time.perf_counter() - start)
        losses.append(value)
        progress(title, done, steps, value)

    return Run(
        arrays={**params, "images": data[0], "labels": data[1]},
        collectives=hlo.collectives(compiled),
        losses=np.array(losses),
        milliseconds=1000 * float(np.median(seconds)),
        accuracy=float(mapped_accuracy(params, *test)),
    )


def deviations(runs):
    """The relative difference of each loss from the unmapped program, at every step."""
    reference = runs["none"].losses
    return {title: np.abs(run.losses - reference) / reference for title, run in runs.items()}


def tolerance(runs):
    """The deviation that rounding can cause: a thousand units in the last place of the loss."""
    return 1000 * float(np.finfo(runs["none"].losses.dtype).eps)


# ------------------------------------------------------------------------------------------------
# Printing.


def progress(title, done, steps, value):
    """Print a progress bar on a terminal; print nothing if the output is a file."""
    if not sys.stderr.isatty() or (done % 5 and done != steps):
        return
    bar = ("█" * round(24 * done / steps)).ljust(24, "░")
    end = "\r\033[K" if done == steps else ""  # clear the finished bar
    text = f"\r{title:<16} {bar} {done}/{steps}  loss {value:.5f}"
    print(text, end=end, file=sys.stderr, flush=True)


def layout(array):
    """The type of a named array with its sharding, as in its `repr`: `f32[]{hidden:128@x}`."""
    return repr(array).removeprefix("NamedArray(").split(", dims=")[0]


def describe(title, run):
    """The printed paragraph of one layout."""
    mesh, axis_resources = ASSIGNMENTS[title]
    lines = [f"{title}: axis_resources={axis_resources}, mesh {mesh}"]
    lines += [f"    {name:<7} {layout(array)}" for name, array in run.arrays.items()]
    for c in run.collectives:
        lines.append(f"    {c.kind} over {c.group_size} devices: {c.bytes:,} bytes a step")
    if not run.collectives:
        lines.append("    no communication")
    lines.append(f"    {run.milliseconds:.2f} ms a step, test accuracy {run.accuracy:.1%}")
    return "\n".join(lines)


def table(runs):
    """The final table, one row per layout."""
    row = "{:<16} {:<26} {:>8}  {:>8}  {:>9}  {:>9}".format
    head = "assignment", "collectives of a step", "ms/step", "accuracy", "last loss", "deviation"
    lines = [row(*head), "-" * len(row(*head))]
    for title, deviation in deviations(runs).items():
        run = runs[title]
        figures = f"{run.milliseconds:.2f}", f"{run.accuracy:.1%}", f"{run.losses[-1]:.6f}"
        collectives = str(hlo.Summary(run.collectives))
        lines.append(row(title, collectives, *figures, f"{deviation.max():.1e}"))
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------
# Drawing. Lengths are inches. The picture is legible 800 pixels wide, and has no times: those differ from run to run.

INK, GREY, RULE = "#22272E", "#6B737D", "#D5DAE0"
TIMES = "\N{MULTIPLICATION SIGN}"
SUBTITLE = "Only the layout differs. A color is a device, a stack is a block on several devices."
WIDTH = 8.2
COLUMNS = {"w1": (3.55, 1.6), "w2": (5.4, 0.62), "images": (6.27, 0.85), "labels": (7.4, 0.5)}


def draw_curves(left, right, runs):
    """Draw the loss curves and their differences."""
    left.set_title("Loss: seven equal curves", loc="left", color=INK, size=11)
    right.set_title("Largest relative difference so far", loc="left", color=INK, size=11)
    colours = matplotlib.colormaps["magma"](np.linspace(0.88, 0.1, len(runs)))
    for i, (title, deviation) in enumerate(deviations(runs).items()):
        style = {"color": colours[i], "label": title, "solid_capstyle": "butt"}
        left.plot(runs[title].losses, linewidth=10 - 1.45 * i, **style)
        largest = np.maximum.accumulate(deviation)
        right.plot(np.where(largest > 0, largest, np.nan), linewidth=1.6, **style)
    right.axhline(tolerance(runs), color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    right.text(0, tolerance(runs) * 1.15, "tolerance", color=GREY, size=9)
    right.set_ylim(tolerance(runs) / 20_000, tolerance(runs) * 3)
    for ax in left, right:
        ax.set(yscale="log", facecolor="none")
        ax.set_xlabel("step", color=GREY)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["bottom", "left"]].set_color(RULE)
        ax.tick_params(colors=GREY, which="both")
    left.legend(frameon=False, labelcolor=INK, fontsize=9)


def draw(runs, path):
    """Save the picture: the curves, and below them the blocks of each device."""
    bottom, pitch, edge = 0.15, 1.4, 0.25
    middle = bottom + pitch * len(runs)
    height = middle + 4.8
    fig = Figure(figsize=(WIDTH, height), dpi=200)
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
    ax.set_axis_off()
    corner = (height - 3.55) / height
    draw_curves(*(fig.add_axes((x, corner, 0.4, 2.3 / height)) for x in (0.075, 0.575)), runs)
    ax.text(edge, height - 0.42, "One network, seven layouts", size=17, weight="bold", color=INK)
    ax.text(edge, height - 0.76, SUBTITLE, size=10, color=GREY)
    digits = fig.add_axes((5.3 / WIDTH, 1 - 0.56 / height, 2.7 / WIDTH, 0.34 / height))
    digits.imshow(np.hstack(load_digits().images[:10]), cmap="Greys")
    digits.set_axis_off()
    for name, (x, _) in COLUMNS.items():
        dims = f"\n{TIMES} ".join(runs["none"].arrays[name].dims)
        ax.text(x, middle + 0.42, name, size=11, weight="bold", color=INK)
        ax.text(x, middle + 0.36, dims, size=8.5, color=GREY, va="top", linespacing=1.15)
    for row, (title, run) in enumerate(runs.items()):
        y = middle - pitch * (row + 1)
        mesh, axis_resources = ASSIGNMENTS[title]
        entries = [f"{name}: {entry}".replace("'", "") for name, entry in axis_resources.items()]
        sizes = ", ".join(f"{axis}={size}" for axis, size in mesh.items())
        ax.plot([edge, WIDTH - edge], [y + pitch, y + pitch], color=RULE, linewidth=0.8)
        ax.text(edge, y + 1.09, title, size=12.5, weight="bold", color=INK)
        lines = entries if len(entries) < 3 else [", ".join(entries[:2]), *entries[2:]]
        lines = [*lines, f"mesh {sizes}"]
        style = {"va": "top", "linespacing": 1.45}
        ax.text(edge, y + 0.99, "\n".join(lines), size=9.5, color=INK, family="monospace", **style)
        sent = str(hlo.Summary(run.collectives)) if run.collectives else "no communication"
        ax.text(edge, y + 0.14, f"{sent}, {run.accuracy:.1%} right", size=9.5, color=GREY)
        for name, (x, width) in COLUMNS.items():
            place = (x / WIDTH, (y + 0.12) / height, width / WIDTH, 1.16 / height)
            nx.draw(run.arrays[name], ax=fig.add_axes(place))
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path)


# ------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=250, help="of each training (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "digits.png")
    parser.add_argument("--skip-accuracy", action="store_true", help="do not require 95 %%")
    options = parser.parse_args()

    runs = {}
    for title in ASSIGNMENTS:
        runs[title] = run = train(title, options.steps)
        print(describe(title, run), end="\n\n", flush=True)
        assert options.skip_accuracy or run.accuracy > 0.95, f"{title}: only {run.accuracy:.1%}"
    print(table(runs))
    draw(runs, options.out)

    worst, allowed = np.max(list(deviations(runs).values())), tolerance(runs)
    assert worst < allowed, f"the loss curves differ by {worst:.1e}, which is more than rounding"
    print(f"\nThe loss curves agree to a relative {worst:.1e} (rounding may cause {allowed:.1e}).")
    print(f"The picture is in {os.path.relpath(options.out)}.")


if __name__ == "__main__":
    main()
