"""Functions that call several mapped functions, each of which may have its own layout."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh

from namedax.core.names import Mesh, PyTree
from namedax.core.text_tables import seconds_text
from namedax.errors import ArgumentTypeError
from namedax.insight.analysis.explain import explain
from namedax.insight.analysis.report import Report
from namedax.insight.planning.called_functions import (
    Code,
    Replacement,
    code_of,
    labelled,
    with_layouts,
)
from namedax.insight.planning.candidates import Candidate, Layouts, Settings, Variant
from namedax.insight.planning.program import Census, Held, Program, types_of
from namedax.insight.planning.space import Space
from namedax.xmap.mapped_function import Xmapped
from namedax.xmap.replaced_layouts import replacing

__all__ = ["Stage", "Whole", "split_advice", "with_split_layouts"]

# The maximum number of traces of a search for several layouts.
_TRACES = 60


class Stage(Program):
    """One mapped function that a function calls, with the types of its first call."""

    def __init__(self, f: Xmapped, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]):
        super().__init__(f, args, kwargs)
        self.mapped = f
        self.own = dict(f._options.axis_resources)
        self.names = self.census()


class Whole:
    """A function that calls mapped functions, with arguments, to be traced under several layouts.

    Args:
      f: the function, which may be compiled by `jax.jit`.
      args: its arguments; only the types of arrays matter.
      kwargs: its keyword arguments, with the same rule.

    Raises:
      ArgumentTypeError: `f` calls no mapped function.
    """

    def __init__(
        self, f: Callable[..., PyTree], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ):
        self._f = f
        self.args = tuple(map(types_of, args))
        self.kwargs = {name: types_of(value) for name, value in kwargs.items()}
        self.name = str(getattr(f, "__name__", type(f).__name__))
        calls: dict[Code, tuple[Xmapped, tuple[Any, ...], dict[str, Any]]] = {}

        def note(
            mapped: Xmapped, positional: tuple[Any, ...], keyword: dict[str, Any]
        ) -> Xmapped | None:
            calls.setdefault(code_of(mapped), (mapped, types_of(positional), types_of(keyword)))
            return None

        failed: Exception | None = None
        try:
            with replacing(Replacement(note)):
                jax.eval_shape(_plain(f), *self.args, **self.kwargs)
        except Exception as error:
            if calls:
                raise
            failed = error
        if not calls:
            why = f" It raised {type(failed).__name__} before that." if failed else ""
            raise ArgumentTypeError(
                "plan: the first argument must be a function made by nx.xmap, or a function that"
                f" calls one; {self.name} does not.{why} Map the function first:"
                " nx.plan(nx.xmap(jax.value_and_grad(loss)), *args, mesh=mesh)."
            ) from failed
        labels = labelled(list(calls))
        self.stages = {labels[code]: Stage(*call) for code, call in calls.items()}

    def first(self) -> Xmapped:
        """Return the mapped function that is called first."""
        return next(iter(self.stages.values())).mapped

    def census(self) -> Census:
        """Return the facts about the names of all mapped functions."""
        sizes: dict[Hashable, int] = {}
        apart: set[frozenset[Hashable]] = set()
        arguments: list[Held] = []
        for stage in self.stages.values():
            for name, size in stage.names.sizes.items():
                sizes[name] = math.gcd(sizes.get(name, size), size)
            apart |= stage.names.apart
            arguments += stage.names.arguments
        return Census(
            {name: n for name, n in sizes.items() if n > 1}, frozenset(apart), tuple(arguments)
        )

    def variant(self, axis_resources: Mapping[Hashable, Any], settings: Settings) -> Variant:
        """Return one layout for all mapped functions, restricted to the names of each."""
        layouts = {
            label: {n: axes for n, axes in axis_resources.items() if n in stage.names.sizes}
            for label, stage in self.stages.items()
        }
        return Variant(axis_resources, settings, layouts)

    def explained(self, variant: Variant, mesh: AbstractMesh) -> Report:
        """Return the report of `nx.explain` for a layout of each mapped function."""
        with replacing(with_layouts(variant, mesh)):
            return explain(_plain(self._f), *self.args, **self.kwargs)

    def padded(self, axis_resources: Mapping[Hashable, Any], mesh: Mesh) -> tuple[Hashable, ...]:
        """Return no names: the arguments are not stored padded."""
        return ()


def _plain(f: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Return a new function for every trace, so that its caches are freed with it."""

    @functools.wraps(f)
    def again(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return f(*args, **kwargs)

    return again


def split_advice(candidates: Sequence[Candidate]) -> str:
    """Return a sentence that compares the best candidate with the best one with one layout.

    Args:
      candidates: the candidates, best first.
    """
    best = candidates[0]
    one = next((each for each in candidates if not each.is_split and each.fits), None)
    if len(best.layouts) < 2:
        return ""
    if not best.is_split:
        return "One layout for all mapped functions is as fast as any that was tried for each."
    if one is None:
        return "No layout that is the same for all mapped functions fits."
    return (
        f"With one layout for all mapped functions, {dict(one.axis_resources)!r}, a step takes"
        f" {seconds_text(one.time)}, {one.time / best.time - 1:.0%} longer."
    )


def with_split_layouts(
    whole: Whole,
    best: Candidate,
    local: Callable[[Stage], Sequence[Mapping[Hashable, Any]]],
    judge: Callable[[Layouts], Candidate | None],
    space: Callable[[Census], Space],
    rank: Callable[[Candidate], Any],
) -> list[Candidate]:
    """Return candidates with different layouts for the mapped functions.

    The layout of one function after the other is changed, while this makes the whole faster. The
    layouts that are tried are the best ones for the function alone, those of the other functions,
    and neighbors of the present one. Each is judged by a trace of the whole.

    Args:
      whole: the function.
      best: the best candidate with one layout.
      local: returns the best layouts of a mapped function alone.
      judge: judges layouts; `None` if they cannot be traced.
      space: returns the space of layouts of one function.
      rank: the sort key of candidates.
    """
    if len(whole.stages) < 2:
        return []
    offers = {label: local(stage) for label, stage in whole.stages.items()}
    spaces = {label: space(stage.names) for label, stage in whole.stages.items()}
    search = _SplitSearch(whole, best, judge, rank, spaces)
    search.offer({label: stage.own for label, stage in whole.stages.items()})
    search.offer({label: layouts[0] for label, layouts in offers.items() if layouts})
    while search.traces < _TRACES:
        before = search.best
        for label in whole.stages:
            for layout in (*offers[label], *search.others(label)):
                search.offer({label: layout})
        for label in whole.stages:
            choice = spaces[label].choice_of(search.layouts[label], best.settings)
            for other in spaces[label].neighbours(choice):
                search.offer({label: spaces[label].resources(other)})
        if search.best is before:
            break
    return search.found


class _SplitSearch:
    """The state of a search for several layouts."""

    def __init__(
        self,
        whole: Whole,
        best: Candidate,
        judge: Callable[[Layouts], Candidate | None],
        rank: Callable[[Candidate], Any],
        spaces: Mapping[str, Space],
    ):
        self._whole, self._judge, self._rank, self._spaces = whole, judge, rank, spaces
        self.best, self.layouts = best, dict(best.layouts)
        self._known = {repr(self.layouts)}
        self.found: list[Candidate] = []
        self.traces = 0

    def offer(self, changes: Layouts) -> None:
        """Judge the present layouts with these changes, and adopt them if the result is better."""
        layouts = {**self.layouts, **{label: dict(one) for label, one in changes.items()}}
        # XLA decides where a function runs that is not mapped. With arguments that other functions
        # have sharded it need not replicate it, as a trace shows.
        if not all(layouts.values()) or not self._keeps_fixed(layouts):
            return
        text = repr({label: sorted(map(repr, one.items())) for label, one in layouts.items()})
        if text in self._known or self.traces >= _TRACES:
            return
        self._known.add(text)
        self.traces += 1
        one = self._judge(layouts)
        if one is None:
            return
        self.found.append(one)
        if self._rank(one) < self._rank(self.best):
            self.best, self.layouts = one, layouts

    def _keeps_fixed(self, layouts: Layouts) -> bool:
        return all(
            space.keeps_fixed(space.choice_of(layouts[label], self.best.settings))
            for label, space in self._spaces.items()
        )

    def others(self, label: str) -> Iterator[dict[Hashable, Any]]:
        """Yield the layouts of the other functions, restricted to the names of this one."""
        names = self._whole.stages[label].names.sizes
        for other, layout in self.layouts.items():
            if other != label:
                yield {name: axes for name, axes in layout.items() if name in names}
