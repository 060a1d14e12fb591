"""Runs a program with namedax in a layout, and compares it with the interpreter."""

from __future__ import annotations

import dataclasses
import functools
import re
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from tests.fuzz import helpers
from tests.fuzz.interpreter import Run
from tests.fuzz.layouts import Layout, conflicts
from tests.fuzz.ops_attention import cannot_share
from tests.fuzz.ops_blocks import difference
from tests.fuzz.ops_pipeline import cannot_be_cut
from tests.fuzz.ops_rules import has_rules
from tests.fuzz.predictions import unpredicted
from tests.fuzz.program import Invalid, Operation, Program, statements_of
from tests.fuzz.source import SPEAKERS, cut, out_axes, source
from tests.fuzz.values import DTYPES, FLOATS, INNER, V, weights

# --- the expected answer --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Reference:
    """A program, what it gives, and what its names do."""

    program: Program
    results: list[V]
    meetings: list[frozenset[str]]

    @functools.cached_property
    def gradient_arguments(self) -> tuple[int, ...]:
        """The arguments with gradients."""
        return tuple(n for n, a in enumerate(self.program.arguments) if a.dtype in FLOATS and a.fill != "nan")

    @functools.cached_property
    def values(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The results as arrays in the order of `out_axes`, and how far noise moves them."""
        exact = positional(np, self.results)
        noisy = [positional(np, Run(np, sign).program(self.program, self._arguments())) for sign in (1.0, -1.0)]
        return exact, [
            np.maximum(*(np.abs(np.subtract(n, e, dtype=float)) for n in pair)) for e, *pair in zip(exact, *noisy, strict=True)
        ]

    @functools.cached_property
    def derivatives(self) -> list[tuple[int, np.ndarray, float, float]] | None:
        """Of the loss: argument, direction, derivative, and how far noise moves it. `None` where differences show a kink, and with rules."""
        if has_rules(s.op for s in statements_of(self.program.main)):
            return None
        given, rng = self._arguments(), np.random.default_rng(3)
        inner = any(s.op in ("grad", "vjp", "jvp", "linearize") for s in statements_of(self.program.main))
        step = 1e-3 if inner else 1e-5
        found = []
        for n in self.gradient_arguments:
            for _ in range(3):
                direction = rng.normal(size=given[n].data.shape)
                try:
                    exact, *noisy = (self._difference(given, n, direction, step, noise) for noise in (None, 1.0, -1.0))
                except Invalid:
                    return None
                room = max(abs(value - exact) for value in noisy)
                found.append((n, np.transpose(direction, self._order(n)), exact, room))
        return found

    def _difference(self, given: list[V], n: int, direction: np.ndarray, step: float, noise: float | None) -> float:
        base = Run(np, noise)
        base.program(self.program, given)

        def loss(data: np.ndarray) -> np.ndarray:
            arguments = [v._replace(data=data) if i == n else v for i, v in enumerate(given)]
            results = Run(np, noise, base.stopped).program(self.program, arguments)
            return np.asarray(total_of(np, results))

        return float(difference(loss, given[n].data, direction, step))

    @functools.cached_property
    def gradients(self) -> list[np.ndarray]:
        """Gradients of the loss with respect to the arguments of floats, by jnp in 64 bits."""
        return self._gradients_by_jnp(True)

    @functools.cached_property
    def is_wrong_in_jax(self) -> bool:
        """Whether jnp itself, compiled in 32 bits, has other gradients.

        With few optimisations XLA computes the operand of a maximum twice, not to the last bit the same.
        """
        pairs = zip(self._gradients_by_jnp(False), self.gradients, strict=True)
        return any(_close("", have, want, np.zeros_like(want), 1e-2) is not None for have, want in pairs)

    def _gradients_by_jnp(self, wide: bool) -> list[np.ndarray]:
        with jax.enable_x64(wide):
            given = self._arguments()

            def loss(arrays: list[Any]) -> Any:
                arguments = list(given)
                for n, array in zip(self.gradient_arguments, arrays, strict=True):
                    arguments[n] = arguments[n]._replace(data=array)
                arguments = [v._replace(data=jnp.asarray(v.data)) if v.dtype != "key" else v for v in arguments]
                return total_of(jnp, Run(jnp).program(self.program, arguments))

            gradients = jax.jit(jax.grad(loss))([given[n].data for n in self.gradient_arguments])
            return [
                np.transpose(np.asarray(g), self._order(n)) for g, n in zip(gradients, self.gradient_arguments, strict=True)
            ]

    def half(self, which: int) -> list[V]:
        """The results where one argument is halved."""
        arguments = self._arguments()
        arguments[which] = arguments[which]._replace(data=arguments[which].data / 2)
        return Run(np).program(self.program, arguments)

    def _arguments(self) -> list[V]:
        return [argument.value() for argument in self.program.arguments]

    def _order(self, number: int) -> list[int]:
        """From named axes in front to the axes of the argument."""
        axes = self.program.arguments[number].axes
        names = sorted(axis for axis in axes if isinstance(axis, str))
        positions = iter(range(len(names), len(axes)))
        return [names.index(axis) if isinstance(axis, str) else next(positions) for axis in axes]


def reference(program: Program) -> Reference:
    """The expected answer, by NumPy."""
    run = Run(np)
    results = run.program(program, [argument.value() for argument in program.arguments])
    return Reference(program, results, run.meetings)


def total_of(xp: Any, results: Sequence[V]) -> Any:
    """The loss of `lossy`."""
    total = 0.0
    for number, (v, data) in enumerate(zip(results, positional(xp, results), strict=True)):
        if v.dtype in FLOATS:
            total = total + xp.sum(data * weights(number, data.shape).astype(float))
    return total


def positional(xp: Any, results: Sequence[V]) -> list[Any]:
    """Results as arrays in the order of `out_axes`."""
    arrays = []
    for v, axes in zip(results, out_axes(results), strict=True):
        order = [v.names.index(axis) for axis in axes if axis is not None]
        arrays.append(xp.transpose(xp.asarray(v.data), [*order, *range(len(order), v.data.ndim)]))
    return arrays


# --- the comparison -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What came of one program in one layout: `kind` is "equal", "refused", "ill" (nothing to compare) or a kind of failure."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is a fault."""
        return self.kind not in ("equal", "refused", "ill")


def write(ref: Reference, layout: Layout) -> str:
    """The program as Python for the layout."""
    program = ref.program
    given = {axis for argument in program.arguments for axis in argument.axes if isinstance(axis, str)}
    local = {*INNER}
    meetings = ref.meetings
    if layout.after:  # names that are born outside of the mapped function are not its own
        inside, _ = cut(program, layout)
        program = Program(program.arguments, inside.statements, inside.results)
        meetings = reference(program).meetings
    mapped = {name for meeting in meetings for name in meeting} - local
    # A name that is born in the body, and does not divide, has to be known when it begins.
    sizes = sorted((spoken(program) | (layout.uneven & mapped)) - given - local)
    return source(ref.program, layout, ref.results, sorted(mapped), sizes)


def spoken(program: Program) -> set[str]:
    """Names that a statement speaks of, though perhaps no value has them."""
    found = {s["axis"] for s in statements_of(program.main) if s.op in SPEAKERS}
    return found | {s["over"] for s in statements_of(program.main) if s.op == "pipeline" and s["positions"]}


def attempt(ref: Reference, layout: Layout, explained: bool = False) -> Outcome:
    """Runs and compares; if it is to be `explained`, what it sends with what `nx.explain` has said too."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "nx": nx, **vars(helpers)}
    text = write(ref, layout)
    try:
        exec(compile(text, "<program>", "exec"), names)
        calls = [jax.tree.map(np.asarray, names[call]) for call in ("result", "again") if call in names]
    except Exception as error:
        return _refusal(ref, layout, error)
    has_gradients = layout.gradient != "none" and ref.gradient_arguments
    for result in calls:
        values, gradients = (result[0][1], result[1]) if has_gradients else (result, None)
        outcome = compare(ref, layout, values, gradients)
        if outcome.failed:
            break
    if outcome.failed:
        return Outcome("ill") if left_to_the_compiler(ref, layout) else outcome
    if explained and (difference := unpredicted(ref.program, layout, names)):
        return Outcome("prediction", difference)
    return outcome


def left_to_the_compiler(ref: Reference, layout: Layout) -> bool:
    """Whether XLA's partitioner may get it wrong on CPUs, in plain JAX as here: writing by index into what is sharded over an Auto axis.

    Mesh axes that nobody maps stay with the compiler.
    """
    if layout.arrive != "sharded" or layout.explicit:
        return False
    return any(s.op.startswith(("at_", "segment")) for s in statements_of(ref.program.main))


def _refusal(ref: Reference, layout: Layout, error: Exception) -> Outcome:
    """Whether an error is a documented refusal of this program in this layout."""
    kind = type(error).__name__
    message = "\n".join(str(error).split("\n")[:8])
    if isinstance(error, nx.errors.NamedaxError) and legitimate(ref, layout, error):
        return Outcome("refused", f"{kind}: {re.sub(r'[0-9]+', 'N', message)[:110]}")
    if layout.partitioning == "auto" and "fft_thunk" in message:
        return Outcome(
            "refused", "XLA's CPU backend has no Fourier transform of an array whose layout its partitioner has chosen"
        )
    has_floats = any(result.dtype in FLOATS for result in ref.results)
    if layout.outside and layout.explicit and not has_floats and "only AbstractMesh exists" in message:
        return Outcome("refused", "JAX makes no zeros of the type of an array on Explicit axes, for the gradient of no result")
    where = "".join(traceback.format_exception(error)[-6:])
    return Outcome(kind, f"{message[:1500]}\n{where[-1500:]}")


def legitimate(ref: Reference, layout: Layout, error: Exception) -> bool:
    """The refusals that the documentation knows."""
    statements = list(statements_of(ref.program.main))
    if isinstance(error, nx.errors.AxisResourceError):  # every device needs the whole kernel
        return any(s.op == "conv" and s["tap"] in dict(layout.resources) for s in statements)
    if isinstance(error, nx.errors.PlacementConflictError):
        if conflicts(layout, ref.meetings):
            return True
        # Outside of mapped functions the axes of an Explicit mesh stay with an axis that is renamed.
        if layout.outside and layout.explicit and any(s.op == "rename" for s in statements):
            return True
        if any(s.op == "attention" and cannot_share(s, layout) for s in statements):
            return True
        if any(s.op == "pipeline" and len(s["axes"]) > 1 and all(map(layout.mesh_axes, s["axes"])) for s in statements):
            return True
        # A function of entries that differ from device to device cannot communicate along their mesh axes.
        return any(s.op in ("vmap", "map", "associative_scan", "nmap") for s in statements)
    if isinstance(error, nx.errors.StoredPaddingError):  # a function of the user would get the padding
        return bool(layout.outside) and any(s.blocks or s.op == "while_loop" for s in statements)
    if isinstance(error, nx.errors.UnevenAxisError):
        return error.axis in layout.uneven
    if isinstance(error, nx.errors.AxisSizeError) and "there is no token" in str(error):
        return any(s.op.startswith("ragged") for s in statements)  # a Ragged needs a token
    if isinstance(error, (nx.errors.AxisSizeError, nx.errors.PipelineError)):
        return any(s.op == "pipeline" and cannot_be_cut(s, layout) for s in statements)
    if isinstance(error, nx.errors.RawBlockError):  # a nested function hands an array of the one around it to JAX
        return any(s.op == "xmap" for s in statements) and "called inside of another" in str(error)
    if isinstance(error, nx.errors.SerialLoopError):
        return bool(layout.loops) and any(s.blocks or s.op == "median" or Operation.table[s.op].moves for s in statements)
    return False


def compare(ref: Reference, layout: Layout, values: Sequence[Any], gradients: Sequence[Any] | None) -> Outcome:
    """Whether values and gradients are those that the interpreter has."""
    coarse = any(a.dtype == "bf16" for a in ref.program.arguments) or any(
        s.op == "cast" for s in statements_of(ref.program.main)
    )
    base = 3e-2 if coarse else 3e-4
    wanted, slack = ref.values
    half = None
    if layout.wrap == "vmap" and ref.gradient_arguments:
        half = positional(np, ref.half(ref.gradient_arguments[0]))
    compared = 0
    for number, (have, want, room) in enumerate(zip(values, wanted, slack, strict=True)):
        dtype = DTYPES[ref.results[number].dtype]
        if str(have.dtype) != dtype:
            return Outcome("type", f"result {number} is {have.dtype}, not {dtype}")
        if half is not None:
            if have.shape != (2, *want.shape):
                return Outcome("shape", f"result {number} has shape {have.shape}, not {(2, *want.shape)}")
            have = have[0]
        outcome = _close(f"result {number}", have, want, room, base)
        if outcome is not None and outcome.failed:
            return outcome
        compared += outcome is None
    if gradients is not None and half is None and compared:
        outcome = compare_gradients(ref, gradients, 4 * base)
        if outcome is not None and outcome.failed:
            return Outcome("ill") if ref.is_wrong_in_jax else outcome
    return Outcome("equal" if compared else "ill")


def compare_gradients(ref: Reference, gradients: Sequence[Any], base: float) -> Outcome | None:
    """Against differences in some directions; where these meet a kink, against the gradients of jnp."""
    have = dict(zip(ref.gradient_arguments, (np.asarray(g).astype(float) for g in gradients), strict=True))
    if ref.derivatives is None:
        return _compare_with_jnp(ref, have, base)
    for n, direction, want, room in ref.derivatives:
        if have[n].shape != direction.shape:
            return Outcome("shape", f"gradient of v{n} has shape {have[n].shape}, not {direction.shape}")
        terms = have[n] * direction
        scale = 1 + abs(want) + float(np.sqrt(np.sum(np.nan_to_num(terms) ** 2)))
        if room > 0.02 * scale:
            return Outcome("ill")
        error = abs(np.sum(terms) - want)
        if not error <= base * scale + 10 * room:
            if _compare_with_jnp(ref, have, base) is None:  # the differences go over a kink
                return None
            exact = next((g for m, g in zip(ref.gradient_arguments, ref.gradients, strict=True) if m == n), None)
            text = f"its derivative in a direction is {np.sum(terms):.5g}, not {want:.5g}; jnp has\n{_show(exact)}\ngot\n{_show(have[n])}"
            return Outcome("value", f"gradient of v{n}: {text}")
    return None


def _compare_with_jnp(ref: Reference, have: Mapping[int, np.ndarray], base: float) -> Outcome | None:
    for n, want in zip(ref.gradient_arguments, ref.gradients, strict=True):
        outcome = _close(f"gradient of v{n}", have[n], want, np.zeros_like(want), base)
        if outcome is not None:
            return outcome
    return None


def _close(what: str, have: Any, want: np.ndarray, room: np.ndarray, base: float) -> Outcome | None:
    """`None` if the arrays agree; an outcome that is no failure if noise alone moves the array too far."""
    have, want = np.asarray(have).astype(float), np.asarray(want).astype(float)
    if have.shape != want.shape:
        return Outcome("shape", f"{what} has shape {have.shape}, not {want.shape}")
    if not want.size:
        return None
    if not np.array_equal(np.isnan(have), np.isnan(want)):
        return Outcome("nan", f"{what}:\nexpected\n{_show(want)}\ngot\n{_show(have)}")
    scale = 1 + np.max(np.abs(np.nan_to_num(want)))
    noise = float(np.max(np.nan_to_num(room, nan=np.inf))) if room.size and not np.isnan(want).any() else 0.0
    if not np.isfinite(noise) or noise > 0.02 * scale:
        return Outcome("ill")
    limit = base * scale + 10 * noise
    error = np.nan_to_num(np.abs(have - want))
    if np.max(error) <= limit:
        return None
    return Outcome(
        "value", f"{what} differs by {np.max(error):.3g} (limit {limit:.2g}):\nexpected\n{_show(want)}\ngot\n{_show(have)}"
    )


def _show(array: np.ndarray) -> str:
    return np.array2string(array, precision=4, threshold=24, edgeitems=2, suppress_small=True)
