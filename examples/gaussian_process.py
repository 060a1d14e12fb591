"""A Gaussian process on thousands of points, trained from several starts at once, with sharded points or starts.

The process learns the height of a landscape from noisy measurements. It uses a few landmarks, so
training solves a matrix over landmarks. Every point contributes to this matrix, by a contraction
over the axis `point`. If the points are sharded, this is an all-reduce of the matrix. If the starts
are sharded, there is no communication.

    python examples/gaussian_process.py
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gallery import check, options, run_all, save, sheet, simulate

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The model. Theta has the logarithms of the length, the amplitude and the noise, one of each for
# every `start`.


@nx.nmap
def cholesky_and_inverse(matrix):
    """The factor of a positive matrix and its inverse, so that products with many columns are contractions."""
    lower = jnp.linalg.cholesky(matrix)
    return lower, jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(matrix)), lower=True)


def kernel(theta, a, b):
    """The covariance of the heights at two points, by their distance over `d`."""
    squares = nx.sum((a - b) ** 2, "d")
    return nx.exp(2 * theta["amplitude"] - squares / 2 * nx.exp(-2 * theta["length"]))


def factors(theta, places, heights, landmarks):
    """Shared code of training and prediction: two whiteners over landmarks, and the heights projected on them."""
    other = nx.rename(landmarks, {"landmark": "landmark 2"})
    near = 1e-4 * (nx.arange(axis="landmark") == nx.arange(axis="landmark 2"))
    own = kernel(theta, landmarks, other) + nx.exp(2 * theta["amplitude"]) * near
    _, inner = cholesky_and_inverse(nx.untag(own, ["landmark", "landmark 2"]))
    inner = nx.named(inner, {0: "white", 1: "landmark"})
    across = nx.dot(inner, kernel(theta, landmarks, places), "landmark") / nx.exp(theta["noise"])
    gram = nx.dot(across, nx.rename(across, {"white": "white 2"}), "point")
    gram = nx.untag(gram, ["white", "white 2"])
    lower, outer = cholesky_and_inverse(gram + jnp.eye(gram.shape[0]))
    outer = nx.named(outer, {0: "whiter", 1: "white"})
    seen = nx.dot(outer, nx.dot(across, heights, "point"), "white") / nx.exp(theta["noise"])
    return inner, outer, seen, 2 * nx.sum(nx.log(nx.diagonal(lower)), 0)


def surprise(theta, places, heights, landmarks):
    """The negative log-likelihood per point, for every start."""
    *_, seen, volume = factors(theta, places, heights, landmarks)
    points = heights.named_shape["point"]
    fit = nx.sum(heights**2, "point") / nx.exp(2 * theta["noise"]) - nx.sum(seen**2, "whiter")
    return (fit + volume) / (2 * points) + theta["noise"] + math.log(2 * math.pi) / 2


def predict(theta, places, heights, landmarks, new):
    """Mean and deviation of the heights at `{new}` points."""
    inner, outer, seen, _ = factors(theta, places, heights, landmarks)
    across = nx.dot(inner, kernel(theta, landmarks, new), "landmark")
    through = nx.dot(outer, across, "white")
    variance = (
        nx.exp(2 * theta["amplitude"]) - nx.sum(across**2, "white") + nx.sum(through**2, "whiter")
    )
    return nx.dot(through, seen, "whiter"), nx.sqrt(variance)


LAYOUTS = {
    "one device": ({}, {}),
    "points": ({"p": 8}, {"point": "p"}),
    "starts": ({"p": 8}, {"start": "p"}),
    "points and starts": ({"p": 4, "q": 2}, {"point": "p", "start": "q"}),
    "points over all": ({"p": 4, "q": 2}, {"point": ("p", "q")}),
}

# ------------------------------------------------------------------------------------------------
# The data, and the training.


def landscape(x, y):
    return (
        np.sin(3 * x) * np.cos(2 * y) + 0.5 * np.exp(-4 * ((x - 1) ** 2 + (y - 1) ** 2)) - 0.3 * x
    )


def data(points, landmarks):
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 2, (points, 2)).astype(np.float32)
    heights = (landscape(*places.T) + 0.2 * rng.standard_normal(points)).astype(np.float32)
    side = np.linspace(0.05, 1.95, landmarks, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    return {
        "places": nx.named(jnp.asarray(places), ["point", "d"]),
        "heights": nx.named(jnp.asarray(heights), ["point"]),
        "landmarks": nx.named(jnp.asarray(grid), ["landmark", "d"]),
    }


def starts(count):
    """Lengths from far too short to far too long, with random amplitudes and noises."""
    key1, key2 = jax.random.split(jax.random.key(0))
    return {
        "length": nx.linspace(-2.0, 1.5, count, axis="start"),
        "amplitude": 0.5 * nx.random.normal(key1, named_shape={"start": count}),
        "noise": nx.random.normal(key2, named_shape={"start": count}) - 1,
    }


def training(theta, data, steps):
    """Return the `gallery.run_all` program that trains all starts together."""
    optimizer = optax.adam(0.1)

    def build(axis_resources, mesh):
        def gradient(theta, data):
            def total(theta):
                values = surprise(theta, **data)
                return nx.sum(values, "start"), values

            return jax.grad(total, has_aux=True)(theta)

        mapped = nx.xmap(gradient, axis_resources=axis_resources, mesh=mesh)

        def step(state, _, data):
            theta, memory = state
            slope, values = mapped(theta, data)
            updates, memory = optimizer.update(slope, memory)
            return (optax.apply_updates(theta, updates), memory), nx.positional(values, ["start"])

        def run(theta, data):
            state = theta, optimizer.init(theta)
            (theta, _), values = jax.lax.scan(
                lambda state, _: step(state, _, data), state, length=steps
            )
            return theta, values

        args = nx.shard((theta, data), axis_resources, mesh)
        return simulate(run, args, mapped, args, steps)

    return build


def draw(theta, values, data, path):
    """Draw the likelihood of each start, the landscape, the prediction of the best start, and its uncertainty."""
    figure = sheet(
        "A Gaussian process from eight starts",
        "Each start has one curve; the maps are from the best one.",
        11,
        3.9,
    )
    curves, *maps = figure.subplots(1, 4)
    curves.plot(values, linewidth=1.2)
    curves.set(xlabel="step", ylim=(-0.5, 4))
    curves.set_title("negative log-likelihood per point", size=9)
    curves.spines[["top", "right"]].set_visible(False)
    best = {name: leaf["start", int(np.nanargmin(values[-1]))] for name, leaf in theta.items()}
    side = np.linspace(0, 2, 40, dtype=np.float32)
    new = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    predictor = nx.xmap(lambda *args: predict(*args[:1], **args[1], new=args[2]))
    mean, deviation = (
        nx.positional(x, ["new"])
        for x in predictor(best, data, nx.named(jnp.asarray(new), ["new", "d"]))
    )
    for ax, (field, title) in zip(
        maps,
        ((landscape(*new.T), "the landscape"), (mean, "learned"), (deviation, "uncertainty")),
        strict=True,
    ):
        ax.imshow(
            field.reshape(40, 40).T,
            origin="lower",
            extent=(0, 2, 0, 2),
            cmap="viridis" if ax is maps[2] else "terrain",
        )
        ax.set_title(title, size=9)
        ax.set_axis_off()
    x, y = nx.positional(data["places"], ["d", "point"])
    maps[2].plot(x, y, ".", color="white", markersize=0.6, alpha=0.5)
    save(figure, path)


def main():
    chosen = options(__doc__, "gaussian_process", steps=40)
    measured, theta = data(2048, 4), starts(8)
    print(f"2048 points, 16 landmarks, 8 starts, {chosen.steps} steps of training")
    runs = run_all(LAYOUTS, training(theta, measured, chosen.steps))
    check(runs, 1e-2)
    draw(*runs["points and starts"].result, measured, chosen.out)


if __name__ == "__main__":
    main()
