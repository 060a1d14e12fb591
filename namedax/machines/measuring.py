"""Measurement of the present machine.

It measures the speed of the devices in products, memory transfers and communication along each mesh
axis.

All devices are busy at once in every measurement, as in real programs: simulated devices share the
cores of one processor, and each gets only its part. Each measured program repeats the same
operation in a loop, so the difference between a few and many repetitions does not include the cost
of a call. The result is the median of several interleaved rounds.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from namedax.core.records import Record
from namedax.errors import ArgumentTypeError
from namedax.machines.collectives import seconds_of
from namedax.machines.links import Kind, Level, Link
from namedax.machines.machine import Machine
from namedax.messages.call_errors import checks_signature
from namedax.resources.mesh import concrete_mesh

__all__ = ["fitted", "measure"]

_ROUNDS = 7
_LONG_ENOUGH = 4e-3  # seconds, much more than the cost of a call
_MOST_REPETITIONS = 512


@checks_signature
def measure(mesh: Mesh | None = None) -> Machine:
    """Measure the devices of a mesh. This takes a few seconds.

    The measurement runs matrix products in `float32` and `bfloat16` (square ones that double in
    size until their rate no longer grows), an elementwise operation on arrays larger than caches,
    and the start of an operation. Along each mesh axis, and each set of them, it runs an all-gather
    and an all-reduce, and along one axis also a permutation, with messages of three sizes. The
    bandwidth, the latency and the start of a collective follow by least squares. If fractions of
    the bandwidth by size fit the times much better, the link has them (`Link.by_size`). Every
    process of a mesh has to call this function.

    Args:
      mesh: a mesh with devices; default: that of `jax.set_mesh`, and otherwise all devices along
        one axis, whose link then stands for every mesh axis.

    Returns:
      The machine. On simulated devices its `memory` is their part of the machine's.

    Raises:
      ArgumentTypeError: the mesh is abstract, or not a mesh.
    """
    if mesh is not None and not isinstance(mesh, Mesh):
        raise ArgumentTypeError(
            "machines.measure: mesh must have devices, as from jax.make_mesh(...); got"
            f" {type(mesh).__name__}. For other machines use an entry such as nx.machines.v5e."
        )
    found = mesh or concrete_mesh(None)
    here = found or Mesh(np.array(jax.devices()), ("all",))
    with jax.set_mesh(here):  # a surrounding mesh may have other axes
        machine = _measured(here)
    if found is None and machine.links:
        return dataclasses.replace(machine, links={...: machine.links["all"]})
    return machine


def _measured(mesh: Mesh) -> Machine:
    device = mesh.devices.flat[0]
    axes = [axis for axis, size in mesh.shape.items() if size > 1]
    groups = [
        group for count in range(1, len(axes) + 1) for group in itertools.combinations(axes, count)
    ]
    return Machine(
        flops={dtype: _peak(mesh, dtype) for dtype in ("float32", "bfloat16")},
        memory=_memory(device, jax.local_device_count()),
        bandwidth=_memory_bandwidth(mesh),
        links=_links(mesh, groups),
        name=f"{mesh.devices.size} x {device.device_kind}, measured",
        launch=_launch(mesh),
    )


_Step: TypeAlias = Callable[[jax.Array], jax.Array]


class _Repeated(Record):
    """A program that repeats an operation a given number of times, on all devices at once."""

    run: Callable[[jax.Array, int], jax.Array]
    data: jax.Array

    def seconds(self, repetitions: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self.run(self.data, repetitions))
        return time.perf_counter() - start


def _repeated(mesh: Mesh, body: _Step, shape: tuple[int, ...], dtype: str = "float32") -> _Repeated:
    """Return the program that repeatedly applies `body` to an array of each device."""
    every = PartitionSpec(mesh.axis_names)

    def run(data: jax.Array, repetitions: jax.Array) -> jax.Array:
        return lax.fori_loop(0, repetitions, lambda _, x: body(x[0])[None], data)

    # For JAX the loop carry varies over devices; its values do not matter here.
    mapped = jax.jit(
        jax.shard_map(
            run, mesh=mesh, in_specs=(every, PartitionSpec()), out_specs=every, check_vma=False
        )
    )
    sharding = jax.NamedSharding(mesh, every)
    data = jax.jit(
        lambda: jnp.full((mesh.devices.size, *shape), 1 / 1024, dtype), out_shardings=sharding
    )()
    return _Repeated(mapped, data)


def _times(programs: Sequence[_Repeated]) -> list[float]:
    """Return the seconds of one repetition of each program, from medians of interleaved rounds."""
    counts = []
    for program in programs:
        program.seconds(1)  # compiles
        once = program.seconds(1)
        if once < _LONG_ENOUGH:
            once = max(1e-9, (program.seconds(5) - once) / 4)
        counts.append(max(3, min(_MOST_REPETITIONS, math.ceil(_LONG_ENOUGH / once))))
    rounds = [
        [
            (program.seconds(1), program.seconds(count + 1))
            for program, count in zip(programs, counts, strict=True)
        ]
        for _ in range(_ROUNDS)
    ]
    return [
        _once(times, count) for times, count in zip(zip(*rounds, strict=True), counts, strict=True)
    ]


def _once(times: Sequence[tuple[float, float]], count: int) -> float:
    """Return the seconds of one repetition, from the times of 1 and of `count + 1` repetitions."""
    one, many = (statistics.median(column) for column in zip(*times, strict=True))
    # The upper bound is `many / (count + 1)`, and the true value is little less, because a call
    # costs less than the repeated operation. A much smaller difference is noise from other work on
    # the machine.
    most = many / (count + 1)
    return max(most / 4, min(most, (many - one) / count))


def _peak(mesh: Mesh, dtype: str) -> float:
    """Return the operations per second in matrix products, at the fastest size."""
    best, size = 0.0, 256
    while True:
        (seconds,) = _times([_repeated(mesh, lambda x: x @ x, (size, size), dtype)])
        rate = 2 * size**3 / seconds
        if rate < 1.1 * best or seconds > 1e-2 or size >= 8192:
            return max(best, rate)
        best, size = rate, 2 * size


def _memory_bandwidth(mesh: Mesh) -> float:
    size = 2**20 if mesh.devices.flat[0].platform == "cpu" else 2**26
    (seconds,) = _times([_repeated(mesh, lambda x: x + 1, (size,))])
    return 2 * 4 * size / seconds


def _launch(mesh: Mesh) -> float:
    """Return the time of one additional operation with almost no computation."""

    def products(count: int) -> _Step:
        def body(x: jax.Array) -> jax.Array:
            for _ in range(count):
                x = x @ x
            return x

        return body

    few, many = _times([_repeated(mesh, products(count), (8, 8)) for count in (2, 18)])
    return max(0.0, (many - few) / 16)


def _memory(device: jax.Device, devices: int) -> float:
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / devices


def _links(mesh: Mesh, groups: Sequence[tuple[str, ...]]) -> dict[Any, Link]:
    platform = mesh.devices.flat[0].platform
    # Simulated devices share one memory: all axes are alike, and a single measurement is less
    # noisy.
    alike = platform == "cpu" and jax.process_count() == 1
    measured: dict[Any, Link] = {}
    for group in groups:
        key = math.prod(mesh.shape[axis] for axis in group) if alike else group
        if key not in measured:
            measured[key] = _link(mesh, group, "ring" if platform == "tpu" else "switch")
        measured[group] = measured[key]
    return {group if len(group) > 1 else group[0]: measured[group] for group in groups}


def _link(mesh: Mesh, axes: tuple[str, ...], kind: Kind) -> Link:
    """Measure the link of these mesh axes by collectives over them."""
    n = math.prod(mesh.shape[axis] for axis in axes)
    cases = [
        (name, body, message, message if name == "collective-permute" else n * message)
        for message in _MESSAGES["cpu" if mesh.devices.flat[0].platform == "cpu" else "others"]
        for name, body in _collectives(axes, n)
    ]
    times = _times([_repeated(mesh, body, (size // 4,)) for _, body, _, size in cases])
    return fitted([(name, message, size) for name, _, message, size in cases], times, n, kind)


#: The bytes of a message, on processors and on accelerators.
_MESSAGES = {"cpu": (2**11, 2**15, 2**19), "others": (2**13, 2**18, 2**23)}


def fitted(
    cases: Sequence[tuple[str, int, int]], times: Sequence[float], n: int, kind: Kind
) -> Link:
    """Return the link of `n` devices whose formulas are nearest to measured times.

    Args:
      cases: the kind, the bytes of a message, and the payload of each collective.
      times: the seconds of each.
      n: the number of devices.
      kind: the kind of the link.
    """
    messages = sorted({message for _, message, _ in cases})
    # Every formula is linear in the seconds for a byte, the latency and the start.
    rows = []
    for name, message, size in cases:
        free, instant = Link(1e30, 1.0, kind), Link(1.0, 0.0, kind)
        by_message = [0.0] * len(messages)
        by_message[messages.index(message)] = seconds_of(name, size, (Level((n,), instant),))
        rows.append([*by_message, seconds_of(name, size, (Level((n,), free),)), 1.0])
    table = np.array(rows) / np.array(times)[:, None]
    count = len(messages)
    plain = np.column_stack([table[:, :count].sum(1), table[:, count:]])
    (per_byte, latency, start), error = _least_squares(plain)
    # Otherwise a table follows the noise.
    if error > _GOOD_ENOUGH and len(cases) >= table.shape[1] + 2:
        values, lower = _least_squares(table)
        if lower < _MUCH_BETTER * error and all(value > 0 for value in values[:count]):
            return _link_by_size(messages, values, kind)
    return Link(1 / max(per_byte, 1e-30), latency, kind, start=start)


# A table has more figures than one bandwidth, so it has to explain much more.
_MUCH_BETTER = 0.7
# Two measurements of one program differ by more.
_GOOD_ENOUGH = 0.05


def _link_by_size(messages: Sequence[int], values: Sequence[float], kind: Kind) -> Link:
    """Return a link from the seconds for a byte in messages of some sizes, latency and start."""
    *by_message, latency, start = values
    for i in range(1, len(messages)):  # a larger message is never faster
        shrunk = by_message[i - 1] * messages[i - 1] / messages[i]
        by_message[i] = max(by_message[i], shrunk)
    least = min(by_message)
    pairs = [
        (size, min(1.0, least / value)) for size, value in zip(messages, by_message, strict=True)
    ]
    return Link(1 / least, latency, kind, start=start, by_size=tuple(pairs))


def _collectives(axes: tuple[str, ...], n: int) -> Iterator[tuple[str, _Step]]:
    """Yield collectives whose payload is the given array, and which return one of its size."""

    def gather(x: jax.Array) -> jax.Array:
        mine = lax.axis_index(axes)
        part = lax.dynamic_slice_in_dim(x, mine * (x.size // n), x.size // n)
        return lax.all_gather(part, axes, tiled=True)

    yield "all-gather", gather
    yield "all-reduce", lambda x: lax.psum(x, axes) * (1 / n)
    if len(axes) == 1:
        yield (
            "collective-permute",
            lambda x: lax.ppermute(x, axes[0], [(i, (i + 1) % n) for i in range(n)]),
        )


def _least_squares(rows: np.ndarray) -> tuple[list[float], float]:
    """Return the non-negative coefficients whose combination of the columns is nearest to one.

    Returns:
      The coefficients, and the error: the root of the mean square of the differences, which counts
      coefficients as lost measurements.
    """
    height, width = rows.shape
    best, error = np.zeros(width), math.inf
    for count in range(1, width + 1):
        for chosen in itertools.combinations(range(width), count):
            values, *_ = np.linalg.lstsq(rows[:, chosen], np.ones(height), rcond=None)
            squares = float(((rows[:, chosen] @ values - 1) ** 2).sum())
            if (values >= 0).all() and squares < error * (1 - 1e-9):
                best, error = np.zeros(width), squares
                best[list(chosen)] = values
    return [float(value) for value in best], math.sqrt(error / max(1, height - width))
