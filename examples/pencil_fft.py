"""Two separating liquids in a periodic box: Fourier transforms of a sharded cube.

A Fourier transform needs complete lines along its axis. Each device transforms its local lines, and
a renaming reshards the cube: one axis becomes replicated, another sharded. If the two names have
different shardings, this is an all-to-all. The layout selects slabs, with one all-to-all per
transform, or pencils, with two.

    python examples/pencil_fft.py
"""

import jax.numpy as jnp
import numpy as np
from gallery import check, options, run_all, save, sheet, simulate

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The transform and its inverse. `x_p` is the axis x in its first sharding, and `x` is replicated.

SPACE, WAVES = ["x_p", "y_q", "z"], ["x", "y_p", "z_q"]


def transform(a):
    a = nx.numpy.fft.fft(a, axis="z")
    a = nx.rename(a, {"y_q": "y", "z": "z_q"})
    a = nx.numpy.fft.fft(a, axis="y")
    a = nx.rename(a, {"x_p": "x", "y": "y_p"})
    return nx.numpy.fft.fft(a, axis="x")


def back(a):
    a = nx.numpy.fft.ifft(a, axis="x")
    a = nx.rename(a, {"x": "x_p", "y_p": "y"})
    a = nx.numpy.fft.ifft(a, axis="y")
    a = nx.rename(a, {"y": "y_q", "z_q": "z"})
    return nx.numpy.fft.ifft(a, axis="z")


# ------------------------------------------------------------------------------------------------
# Cahn and Hilliard: c is the excess of one liquid, and dc/dt = laplacian(c^3 - c - g laplacian(c)).
# The linear stiff terms are implicit, which is a division in Fourier space.

STEP, GRADIENT = 1.0, 0.5


def separate(waves):
    """One step; `waves` is the transform of c."""
    n = waves.named_shape["x"]
    squares = sum((2 * np.pi * nx.numpy.fft.fftfreq(n, axis=name)) ** 2 for name in WAVES)
    c = nx.real(back(waves))
    force = transform(c**3 - 3 * c)  # the rest, c + c, is in the denominator
    return (waves - STEP * squares * force) / (1 + STEP * squares * (2 + GRADIENT * squares))


def evolve(c, steps):
    return nx.real(back(nx.fori_loop(0, steps, lambda i, waves: separate(waves), transform(c))))


LAYOUTS = {
    "one device": ({}, {}),
    "slabs": ({"p": 8}, {"x_p": "p", "y_p": "p"}),
    "slabs the other way": ({"p": 8}, {"y_q": "p", "z_q": "p"}),
    "pencils, 4 x 2": ({"p": 4, "q": 2}, {"x_p": "p", "y_p": "p", "y_q": "q", "z_q": "q"}),
    "pencils, 2 x 4": ({"p": 2, "q": 4}, {"x_p": "p", "y_p": "p", "y_q": "q", "z_q": "q"}),
}


def draw(results, path):
    """Draw a plane of the box over time."""
    subtitle = "A plane of a periodic box; slabs and pencils give the same result."
    figure = sheet("Two liquids that separate", subtitle, 11, 3.9)
    for ax, (steps, c) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        ax.imshow(c[0], cmap="PuOr", vmin=-1.1, vmax=1.1)
        ax.set_title(f"after {steps} steps", size=9)
        ax.set_axis_off()
    save(figure, path)


def main():
    chosen = options(__doc__, "pencil_fft", steps=60)
    n, steps = 48, chosen.steps
    start = 0.1 * np.random.default_rng(0).standard_normal((n, n, n), np.float32)
    c = nx.named(jnp.asarray(start), SPACE)

    def one(axis_resources, mesh, steps=steps):
        where = {"axis_resources": axis_resources, "mesh": mesh}
        placed = nx.shard((c,), **where)
        waves = nx.zeros(named_shape=dict.fromkeys(WAVES, n), dtype=complex)
        return simulate(
            nx.xmap(lambda c: evolve(c, steps), **where),
            placed,
            nx.xmap(separate, **where),
            (waves,),
            steps,
        )

    print(f"A box of {n} x {n} x {n}, {steps} steps")
    runs = run_all(LAYOUTS, one)
    check(runs, 1e-3)
    pictures = {0: c} | {
        earlier: one({}, None, earlier).result for earlier in (steps // 6, steps // 2) if earlier
    }
    pictures[steps] = runs["pencils, 4 x 2"].result
    draw({at: nx.positional(c, SPACE) for at, c in pictures.items()}, chosen.out)


if __name__ == "__main__":
    main()
