"""64 Markov chains that sample the posterior of a logistic regression, with sharded chains or observations.

This is Hamiltonian Monte Carlo over named axes. The chains are one more axis on the coefficients,
and random numbers do not depend on the layout. Sharded chains need no communication; sharded
observations need an all-reduce in every step.

    python examples/mcmc.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from gallery import check, options, run_all, save, sheet, simulate

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The model: the potential of the coefficients, given the observations.


def potential(coefficients, features, outcomes):
    """The negative logarithm of the posterior, for every chain."""
    logits = nx.dot(features, coefficients, "feature")
    misfit = nx.sum(nx.nn.softplus(logits) - outcomes * logits, "observation")
    return misfit + nx.sum(coefficients**2, "feature") / 8


# ------------------------------------------------------------------------------------------------
# The sampler.


def force(coefficients, data):
    """The gradient of the potential.

    Chains are independent, so the gradient of their sum has the gradient of each.
    """
    return -jax.grad(lambda c: nx.sum(potential(c, **data), "chain"))(coefficients)


def leapfrog(coefficients, momentum, data, size, steps):
    def step(_, state):
        coefficients, momentum = state
        coefficients = coefficients + size * momentum
        return coefficients, momentum + size * force(coefficients, data)

    momentum = momentum + size / 2 * force(coefficients, data)
    coefficients, momentum = nx.fori_loop(0, steps, step, (coefficients, momentum))
    return coefficients, momentum - size / 2 * force(coefficients, data)


def draw_one(coefficients, key, data, size=0.06, steps=8):
    """The next sample of every chain: a path with random momentum, accepted or rejected."""
    key1, key2 = jax.random.split(key)
    momentum = nx.random.normal(key1, named_shape=dict(coefficients.named_shape))
    proposal, last = leapfrog(coefficients, momentum, data, size, steps)

    def energy(coefficients, momentum):
        return potential(coefficients, **data) + nx.sum(momentum**2, "feature") / 2

    gain = energy(coefficients, momentum) - energy(proposal, last)
    taken = nx.log(nx.random.uniform(key2, named_shape={"chain": gain.named_shape["chain"]})) < gain
    return nx.where(taken, proposal, coefficients), taken


def sample(start, key, data, draws):
    """All draws, and the convergence diagnostic R-hat, which is 1 if every chain has covered the posterior."""

    def step(coefficients, i):
        coefficients, taken = draw_one(coefficients, jax.random.fold_in(key, i), data)
        return coefficients, (coefficients, taken)

    _, (samples, taken) = nx.scan(step, start, nx.arange(draws, axis="draw"), axis="draw")
    kept = nx.slice(samples, {"draw": slice(draws // 4, draws)}, out_axis="kept")
    within = nx.mean(nx.var(kept, "kept"), "chain")
    between = nx.var(nx.mean(kept, "kept"), "chain")
    posterior = {
        "mean": nx.mean(kept, ("kept", "chain")),
        "deviation": nx.std(kept, ("kept", "chain")),
    }
    return (
        posterior
        | {
            "R-hat": nx.sqrt((within + between) / within),
            "accepted": nx.mean(taken, ("draw", "chain")),
        },
        samples,
    )


LAYOUTS = {
    "one device": ({}, {}),
    "chains": ({"p": 8}, {"chain": "p"}),
    "observations": ({"p": 8}, {"observation": "p"}),
    "chains, observations": ({"p": 4, "q": 2}, {"chain": "p", "observation": "q"}),
    "chains, features": ({"p": 4, "q": 2}, {"chain": "p", "feature": "q"}),
}


def observe(count, features):
    """Outcomes drawn from known coefficients."""
    rng = np.random.default_rng(0)
    truth = np.linspace(-1.5, 1.5, features)
    x = rng.standard_normal((count, features))
    y = rng.uniform(size=count) < 1 / (1 + np.exp(-x @ truth))
    names = ["observation", "feature"]
    return truth, {
        "features": nx.named(jnp.asarray(x, jnp.float32), names),
        "outcomes": nx.named(jnp.asarray(y, jnp.float32), names[:1]),
    }


def draw(posterior, samples, truth, path):
    """Draw the traces of one coefficient, and the posterior of all coefficients."""
    figure = sheet(
        "64 chains under any layout",
        "A logistic regression by Hamiltonian Monte Carlo over named axes.",
        11,
        3.9,
    )
    left, right = figure.subplots(1, 2)
    left.plot(
        nx.positional(samples["feature", 0], ["draw", "chain"])[:, ::4], linewidth=0.6, alpha=0.7
    )
    left.axhline(truth[0], color="black", linewidth=1, linestyle=(0, (4, 3)))
    left.set_title("the first coefficient in 16 of the chains; dashed: the true value", size=9)
    left.set_xlabel("draw", size=9)
    at = np.arange(len(truth))
    mean, deviation = (
        nx.positional(posterior[name], ["feature"]) for name in ("mean", "deviation")
    )
    right.errorbar(
        at, mean, 2 * deviation, fmt="o", capsize=3, color="#4e79a7", label="mean, two deviations"
    )
    right.plot(at, truth, "_", markersize=14, color="black", label="the truth")
    right.set_title(
        "all coefficients; the largest R-hat is"
        f" {np.max(nx.positional(posterior['R-hat'], ['feature'])):.3f}",
        size=9,
    )
    right.legend(frameon=False, fontsize=8)
    for ax in left, right:
        ax.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def main():
    chosen = options(__doc__, "mcmc", steps=120)
    truth, data = observe(512, 8)
    start = nx.random.normal(jax.random.key(1), named_shape={"chain": 64, "feature": 8})
    key = jax.random.key(2)

    def one(axis_resources, mesh):
        where = {"axis_resources": axis_resources, "mesh": mesh}
        args = nx.shard((start, key, data), axis_resources, mesh)
        run = nx.xmap(lambda start, key, data: sample(start, key, data, chosen.steps)[0], **where)
        return simulate(run, args, nx.xmap(draw_one, **where), args, chosen.steps)

    # Rounding can decide whether a path is accepted, so the comparison uses the posterior and not
    # every draw.
    print(f"64 chains, {chosen.steps} draws, 512 observations")
    runs = run_all(LAYOUTS, one)
    check(runs, 0.02)
    posterior = runs["chains, observations"].result
    print(
        f"\n{float(posterior['accepted']):.0%} of the paths were accepted. The posterior mean, and"
        " the true coefficients:"
    )
    mean = nx.positional(posterior["mean"], ["feature"])
    print(
        " ".join(f"{value:6.2f}" for value in mean),
        "\n" + " ".join(f"{value:6.2f}" for value in truth),
    )
    samples = nx.xmap(sample, static_argnums=3)(start, key, data, chosen.steps)[1]
    draw(posterior, samples, truth, chosen.out)


if __name__ == "__main__":
    main()
