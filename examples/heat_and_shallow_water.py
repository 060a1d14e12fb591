"""The heat equation and shallow water: grids over named axes, in strips, in blocks, and as ensembles.

A device needs the boundary of its neighbor's block. `nx.shift` and `nx.roll` permute it along a
sharded axis, and do not communicate along other axes. The sharding of each grid is one item of the
layout.

    python examples/heat_and_shallow_water.py
"""

import functools

import jax.numpy as jnp
import numpy as np
from gallery import check, options, run_all, save, sheet, simulate

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The heat equation: every point approaches the mean of its neighbors; it is cold outside the rim.


def neighbors(u):
    along_rows = nx.shift(u, 1, "row") + nx.shift(u, -1, "row")
    return along_rows + nx.shift(u, 1, "column") + nx.shift(u, -1, "column")


def cool(u):
    return u + 0.2 * (neighbors(u) - 4 * u)


def plate(n):
    """A hot ring and a hot bar."""
    row, column = np.mgrid[:n, :n] / n
    ring = np.abs(np.hypot(row - 0.4, column - 0.35) - 0.19) < 0.03
    bar = (np.abs(row - 0.76) < 0.055) & (column > 0.47)
    return nx.named(jnp.asarray(ring | bar, jnp.float32), ["row", "column"])


# ------------------------------------------------------------------------------------------------
# Shallow water on a rotating planet: heights at the centers of cells, velocities on their sides.
# The grid is periodic.

GRAVITY, ROTATION, STEP = 1.0, 0.05, 0.3


def tendencies(water):
    """Compute the rate of change of each field; cells have size one."""
    h, u, v = water["h"], water["u"], water["v"]
    ahead, behind = functools.partial(nx.roll, shift=-1), functools.partial(nx.roll, shift=1)
    east, north = {"axis": "column"}, {"axis": "row"}
    flow_u = u * (h + behind(h, **east)) / 2
    flow_v = v * (h + behind(h, **north)) / 2
    corner = (h + behind(h, **east) + behind(h + behind(h, **east), **north)) / 4
    vorticity = (ROTATION + v - behind(v, **east) - u + behind(u, **north)) / corner
    energy = GRAVITY * h + (u**2 + ahead(u, **east) ** 2 + v**2 + ahead(v, **north) ** 2) / 4
    turn_u = vorticity * (flow_v + behind(flow_v, **east)) / 2
    turn_v = vorticity * (flow_u + behind(flow_u, **north)) / 2
    return {
        "h": flow_u - ahead(flow_u, **east) + flow_v - ahead(flow_v, **north),
        "u": (turn_u + ahead(turn_u, **north)) / 2 - energy + behind(energy, **east),
        "v": -(turn_v + ahead(turn_v, **east)) / 2 - energy + behind(energy, **north),
    }


def forward(water):
    """Take one Runge-Kutta step: a third of it, half of it, all of it."""

    def stage(i, guess):
        rates = tendencies(guess)
        return {name: water[name] + STEP / (3 - i) * rates[name] for name in water}

    return nx.fori_loop(0, 3, stage, water)


def seas(members, n):
    """An ensemble of seas at rest, each with two hills of water at random points."""
    row, column = np.mgrid[:n, :n]
    places = np.random.default_rng(0).uniform(0.2 * n, 0.8 * n, size=(members, 2, 2))
    distances = (row - places[..., 0, None, None]) ** 2 + (column - places[..., 1, None, None]) ** 2
    height = 1 + 0.25 * np.exp(-distances / (n / 12) ** 2).sum(1)
    h = nx.named(jnp.asarray(height, jnp.float32), ["member", "row", "column"])
    return {"h": h, "u": nx.zeros_like(h), "v": nx.zeros_like(h)}


# ------------------------------------------------------------------------------------------------
# The layouts: the sizes of the mesh axes, and `axis_resources`.

GRIDS = {
    "one device": ({}, {}),
    "strips of rows": ({"p": 8}, {"row": "p"}),
    "strips of columns": ({"p": 8}, {"column": "p"}),
    "blocks": ({"p": 4, "q": 2}, {"row": "p", "column": "q"}),
}
ENSEMBLES = GRIDS | {
    "members": ({"p": 8}, {"member": "p"}),
    "members and rows": ({"p": 4, "q": 2}, {"member": "p", "row": "q"}),
}


def simulation(step, state, steps):
    """Return the `gallery.run_all` program that runs `step` for many steps."""

    def build(axis_resources, mesh):
        where = {"axis_resources": axis_resources, "mesh": mesh}
        run = nx.xmap(
            lambda state: nx.fori_loop(0, steps, lambda i, state: step(state), state), **where
        )
        placed = nx.shard(state, axis_resources, mesh) if axis_resources else state
        return simulate(run, (placed,), nx.xmap(step, **where), (placed,), steps)

    return build


def draw(before, after, sea, later, path):
    """Draw the plate with its strips, and the first members of the ensemble at the beginning and at the end."""
    figure = sheet(
        "Heat equation and shallow water",
        "One program each, with the same result under every layout.",
        11,
        6.2,
    )
    axes = figure.subplots(2, 4)
    fields = [(before, "a plate"), (after, "the plate later")]
    fields += [
        field
        for i in range(3)
        for field in ((sea[i], f"sea {i + 1}"), (later[i], f"sea {i + 1} later"))
    ]
    for ax, (field, title) in zip(axes.flat, fields, strict=True):
        water = "sea" in title
        limits = {"vmin": -0.15, "vmax": 0.15} if water else {}
        ax.imshow(field - 1 if water else field, cmap="RdBu_r" if water else "inferno", **limits)
        ax.set_title(title, size=9)
        ax.set_axis_off()
    for strip in range(1, 8):
        axes[0, 1].axhline(len(after) * strip / 8 - 0.5, color="white", linewidth=0.5, alpha=0.6)
    save(figure, path)


def main():
    chosen = options(__doc__, "heat_and_shallow_water", steps=200)
    hot = plate(256)
    print(f"Heat on 256 x 256 points, {chosen.steps} steps")
    cooled = run_all(GRIDS, simulation(cool, hot, chosen.steps))
    check(cooled, 1e-5)

    steps, sea = 2 * chosen.steps // 5, seas(8, 64)
    print(f"\nShallow water, 8 seas of 64 x 64 points, {steps} steps")
    waves = run_all(ENSEMBLES, simulation(forward, sea, steps))
    check(waves, 1e-4)
    axes = ["member", "row", "column"]
    heights = nx.positional(sea["h"], axes), nx.positional(waves["blocks"].result["h"], axes)
    draw(
        nx.positional(hot, axes[1:]),
        nx.positional(cooled["strips of rows"].result, axes[1:]),
        *heights,
        chosen.out,
    )


if __name__ == "__main__":
    main()
