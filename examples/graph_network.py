"""A graph network with nodes and edges on one mesh axis, by one renaming.

Nodes pass messages along edges and sum the incoming messages. Messages have the axis `edge` and
node features the axis `node`. No array has both, so both can be sharded over the same mesh axis. To
look up remote nodes for its edges, `nx.rename` reads `node` as the replicated axis `any node`, by
one all-gather. `nx.segment_sum` sums the messages onto `node` by one reduce-scatter. Under other
layouts, the same code has different communication, or none.

    python examples/graph_network.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gallery import check, options, run_all, save, sheet, simulate
from matplotlib.collections import LineCollection

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The network: functions over named axes.


def convolve(layer, x, graph):
    """New features of every node: from its own features, and from the mean of its neighbors' messages."""
    near = nx.take(nx.rename(x, {"node": "any node"}), graph["sender"], "any node")
    sent = nx.nn.relu(nx.dot(near, layer["send"], "feature"))
    arrived = nx.segment_sum(
        sent, graph["receiver"], axis="edge", out_axis="node", num_segments=x.named_shape["node"]
    )
    mean = nx.dot(arrived / graph["degree"], layer["receive"], "message")
    return nx.rename(nx.nn.relu(nx.dot(x, layer["own"], "feature") + mean), {"out": "feature"})


def logits(params, graph):
    x = graph["x"]
    for layer in params["layers"]:
        x = convolve(layer, x, graph)
    return nx.dot(x, params["head"], "feature")


def loss(params, graph):
    """The cross-entropy of the few labeled nodes."""
    entropy = nx.nn.softmax_cross_entropy(logits(params, graph), graph["community"], axis="class")
    return nx.sum(entropy * graph["known"], "node") / nx.sum(graph["known"], "node")


def right(params, graph):
    """The fraction of all nodes with the correct community."""
    return nx.mean(nx.argmax(logits(params, graph), "class") == graph["community"], "node")


LAYOUTS = {
    "one device": ({}, {}),
    "edges": ({"p": 8}, {"edge": "p"}),
    "edges and nodes": ({"p": 8}, {"edge": "p", "node": "p"}),
    "messages": ({"p": 8}, {"message": "p"}),
    "edges, nodes, messages": ({"p": 4, "q": 2}, {"edge": "p", "node": "p", "message": "q"}),
}

# ------------------------------------------------------------------------------------------------
# The graph, and the training.

CLASSES = 4


def communities(nodes, edges):
    """Nodes in a plane, in four overlapping communities with most edges inside; weak features, and labels for one node in seven."""
    rng = np.random.default_rng(0)
    community = np.arange(nodes) % CLASSES
    angle = 2 * np.pi * community / CLASSES
    places = np.stack([np.cos(angle), np.sin(angle)], -1) + 0.45 * rng.standard_normal((nodes, 2))
    sender = rng.integers(0, nodes, edges // 2)
    partners = rng.integers(0, nodes // CLASSES, edges // 2) * CLASSES + community[sender]
    receiver = np.where(
        rng.uniform(size=edges // 2) < 0.8, partners, rng.integers(0, nodes, edges // 2)
    )
    sender, receiver = np.concatenate([sender, receiver]), np.concatenate([receiver, sender])
    x = np.concatenate([0.5 * rng.standard_normal((nodes, 6)), 0.5 * places], 1)
    graph = {
        "x": nx.named(jnp.asarray(x, jnp.float32), ["node", "feature"]),
        "community": nx.named(jnp.asarray(community), ["node"]),
        "known": nx.named(jnp.asarray(rng.uniform(size=nodes) < 0.15, jnp.float32), ["node"]),
        "degree": nx.named(
            jnp.asarray(np.maximum(np.bincount(receiver, minlength=nodes), 1.0), jnp.float32),
            ["node"],
        ),
        "sender": nx.named(jnp.asarray(sender), ["edge"]),
        "receiver": nx.named(jnp.asarray(receiver), ["edge"]),
    }
    return places, graph


def init(layers=2, features=8, messages=16):
    keys = iter(jax.random.split(jax.random.key(0), 3 * layers + 1))

    def weights(**sizes):
        return nx.random.normal(next(keys), named_shape=sizes) / next(iter(sizes.values())) ** 0.5

    return {
        "layers": [
            {
                "send": weights(feature=features, message=messages),
                "receive": weights(message=messages, out=features),
                "own": weights(feature=features, out=features),
            }
            for _ in range(layers)
        ],
        "head": weights(**{"feature": features, "class": CLASSES}),
    }


def training(params, graph, steps):
    """Return the `gallery.run_all` program that trains the network."""
    optimizer = optax.adam(0.02)

    def build(axis_resources, mesh):
        where = {"axis_resources": axis_resources, "mesh": mesh}
        gradient = nx.xmap(jax.value_and_grad(loss), **where)

        def run(params, graph):
            def step(state, _):
                params, memory = state
                value, slope = gradient(params, graph)
                updates, memory = optimizer.update(slope, memory)
                return (optax.apply_updates(params, updates), memory), value

            (params, _), values = jax.lax.scan(step, (params, optimizer.init(params)), length=steps)
            return {
                "loss": values,
                "right": nx.xmap(right, **where)(params, graph),
                "logits": nx.xmap(logits, **where)(params, graph),
            }

        args = nx.shard((params, graph), axis_resources, mesh)
        return simulate(run, args, gradient, args, steps)

    return build


def draw(places, graph, result, path):
    """Draw the nodes with their labels and with the predictions of the network."""
    figure = sheet(
        "Communities in a graph",
        "Nodes and edges on one mesh axis. Filled: the known or predicted community.",
        11,
        4.6,
    )
    left, middle, curve = figure.subplots(1, 3)
    sender, receiver = (nx.positional(graph[name], ["edge"]) for name in ("sender", "receiver"))
    colors = np.array(["#4e79a7", "#f28e2b", "#59a14f", "#e15759"])
    known = np.asarray(nx.positional(graph["known"], ["node"])) > 0
    found = np.argmax(nx.positional(result["logits"], ["node", "class"]), axis=1)
    true = np.asarray(nx.positional(graph["community"], ["node"]))
    for ax, title, shown in (
        (left, f"known: {known.mean():.0%}", known),
        (middle, f"found: {float(result['right']):.0%} right", found >= 0),
    ):
        ends = np.stack([places[sender], places[receiver]], 1)
        ax.add_collection(
            LineCollection(ends[: len(ends) // 2 : 4], colors="#D5DAE0", linewidths=0.3, zorder=0)
        )
        ax.scatter(*places.T, s=7, color="#B0B7BF")
        ax.scatter(*places[shown].T, s=14, color=colors[(true if shown is known else found)[shown]])
        ax.set_title(title, size=9)
        ax.set_axis_off()
    curve.plot(result["loss"], color="#4e79a7")
    curve.set_title("loss of the labeled nodes", size=9)
    curve.set_xlabel("step", size=9)
    curve.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def main():
    chosen = options(__doc__, "graph_network", steps=40)
    places, graph = communities(512, 4096)
    print(f"512 nodes, 4096 edges, {chosen.steps} steps")
    runs = run_all(LAYOUTS, training(init(), graph, chosen.steps))
    check(runs, 0.01)
    draw(places, graph, runs["edges and nodes"].result, chosen.out)


if __name__ == "__main__":
    main()
