"""The choices of a plan, and `Candidate`: one layout that was judged, with its main costs.

`Settings` has the arguments of `nx.xmap` that a plan chooses. `Variant` has all choices under which
a program is traced. The other modules pass both on as they are.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

from namedax.core.records import Record
from namedax.core.text_tables import seconds_text
from namedax.errors import ArgumentError, show_names
from namedax.hlo import size_text
from namedax.insight.analysis.page import enclosed, escaped
from namedax.insight.analysis.report import Report
from namedax.machines import Machine, Times
from namedax.ops.contraction.rings import Overlap
from namedax.ops.operands.open_options import NO_LINE, Options
from namedax.xmap.mapped_function import Xmapped

__all__ = [
    "Candidate",
    "Layouts",
    "Settings",
    "Variant",
    "candidate",
    "layout",
    "mesh_text",
    "reason",
    "resources_text",
]

#: A layout for each mapped function, by its name.
Layouts = Mapping[str, Mapping[Hashable, Any]]


class Settings(NamedTuple):
    """The arguments of `nx.xmap` that a plan chooses in addition to `axis_resources`.

    Each field is one option: an argument of `nx.xmap`, with its default there. Its type is a
    `Literal` of its values. `Candidate` has a field of the same name, and `nx.plan` has an argument
    with the values to try. Other modules compare settings, but name no option. The cost of an
    option is that of the trace with it.

    Attributes:
      overlap: whether contractions communicate during their computation; default: False.
    """

    overlap: Overlap = False

    @classmethod
    def of(cls, f: Xmapped) -> Settings:
        """Return the settings of a mapped function."""
        return cls(*(getattr(f._options, name) for name in cls._fields))

    @classmethod
    def check_values(cls, values: Mapping[str, object]) -> None:
        """Check the arguments of `nx.plan` with the values to try; `None` means no values.

        Raises:
          ArgumentError: an argument is not a list, or it is empty.
        """
        for name, some in values.items():
            if some is not None and (
                not isinstance(some, Sequence) or isinstance(some, str) or not some
            ):
                example = list(get_args(get_type_hints(cls)[name])[:2])
                raise ArgumentError(
                    f"plan: {name}={some!r} must be a list of values to try. Use {name}={example}."
                )

    def arguments(self) -> dict[str, Any]:
        """Return the settings as keyword arguments."""
        return dict(zip(self._fields, self, strict=True))

    def combinations(self, values: Mapping[str, Sequence[Any] | None]) -> tuple[Settings, ...]:
        """Return all settings with these values; an option without values keeps its value."""
        several = (values.get(name) or (value,) for name, value in self.arguments().items())
        return tuple(itertools.starmap(Settings, itertools.product(*several)))

    def has(self, values: Mapping[str, Any]) -> bool:
        """Return True if the options have these values; `None` stands for any value."""
        return all(value in (None, getattr(self, name)) for name, value in values.items())

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """Return the settings with these values, except for `None`."""
        given = {name: value for name, value in values.items() if value is not None}
        return Settings(**(self.arguments() | given))

    def texts(self) -> Iterator[str]:
        """Yield the options without their default values, as arguments in code."""
        for (name, value), default in zip(self.arguments().items(), Settings(), strict=True):
            if value != default:
                yield f"{name}={value!r}"


class Variant(Record):
    """The choices for a program: it is traced under them, and runs under the best ones.

    Attributes:
      axis_resources: the layout; empty if the mapped functions have different layouts.
      settings: the other arguments of `nx.xmap`.
      layouts: for a program that calls mapped functions, the layout of each by its name.
      options: the values of options that the program leaves open, by line. Default: none.
      files: paths by the text that stands for them in `options`. Default: unknown.
    """

    axis_resources: Mapping[Hashable, Any]
    settings: Settings
    layouts: Layouts = dataclasses.field(default_factory=dict)
    options: Options = dataclasses.field(default_factory=dict)
    files: Mapping[str, str] | None = None


def resources_text(axis_resources: Mapping[Hashable, Any]) -> str:
    """Return `axis_resources` as code."""
    return repr(dict(axis_resources))


def candidate(one: Candidate) -> str:
    """Render a candidate in one line."""
    measured = f", measured {seconds_text(one.measured)}" if one.measured is not None else ""
    beyond = "" if one.fits else ", over the memory limit"
    settings = "".join(f", {text}" for text in one.settings.texts())
    resources = repr(one.layouts) if one.is_split else resources_text(one.axis_resources)
    return (
        f"Candidate({resources}{settings}:"
        f" {seconds_text(one.time)}{measured}, {size_text(one.peak)}{beyond})"
    )


def layout(one: Candidate, with_mesh: bool) -> str:
    """Return the chosen layout as text, with the mesh if that is chosen too."""
    words = resources_text(one.axis_resources)
    if one.is_split:
        words = ", ".join(f"{name}: {resources_text(each)}" for name, each in one.layouts.items())
    words += "".join(f" with {text}" for text in one.settings.texts())
    if one.padded:
        words += f" with {show_names(one.padded)} stored padded"
    for line, each in one.options.items():
        chosen = ", ".join(f"{k}={v!r}" for k, v in each.items() if k != "operation")
        words += f" with {each['operation']}(..., {chosen})"
        words += "" if line.startswith(NO_LINE) else f" at {line.partition(' (')[0]}"
    return f"{mesh_text(one)}: {words}" if with_mesh else words


def mesh_text(one: Candidate) -> str:
    """Return the sizes of the mesh axes."""
    return ", ".join(f"{axis}={size}" for axis, size in one.mesh.items()) or "1 device"


@dataclasses.dataclass(frozen=True, repr=False)
class Candidate:
    """One layout that was judged.

    Attributes:
      axis_resources: the layout, for `nx.xmap`.
      mesh: the size of each mesh axis.
      overlap: the value of `overlap`, for `nx.xmap`.
      report: the report of `nx.explain`.
      time: the estimated seconds of a step on the machine.
      peak: the estimated peak memory of a device, in bytes.
      fits: True if the peak is within the memory limit.
      measured: the measured seconds of a step, with `verify=`; otherwise `None`.
      reason: the main costs, in one line.
      options: the arguments that the program leaves open, as chosen for this candidate, by line:
        `{"model.py:12": {"operation": "nx.fold", "prefetch": 1}}`. Calls with default values are
        left out.
      padded: names that do not divide, and whose named arrays among the arguments are stored padded
        (`nx.shard(..., padded=True)`).
      layouts: for a program that calls mapped functions, the layout of each by its name. If they
        are not those of one layout, `axis_resources` is empty.
    """

    axis_resources: dict[Hashable, Any]
    mesh: dict[str, int]
    overlap: Overlap
    report: Report
    time: float
    peak: int
    fits: bool
    measured: float | None
    reason: str
    options: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    padded: tuple[Hashable, ...] = ()
    layouts: dict[str, dict[Hashable, Any]] = dataclasses.field(default_factory=dict)

    @property
    def is_split(self) -> bool:
        """True if the mapped functions of the program have different layouts."""
        return not self.axis_resources and any(self.layouts.values())

    @property
    def pipeline(self) -> dict[str, Any]:
        """The arguments of `nx.pipeline` among `options`, of its first call."""
        found = (each for each in self.options.values() if each["operation"] == "nx.pipeline")
        first = next(found, {})
        return {name: value for name, value in first.items() if name != "operation"}

    @property
    def settings(self) -> Settings:
        """The chosen arguments of `nx.xmap`, without `axis_resources`."""
        return Settings(*(getattr(self, name) for name in Settings._fields))

    @property
    def variant(self) -> Variant:
        """The choices under which the program was traced."""
        return Variant(
            self.axis_resources, self.settings, self.layouts, self.options, self.report.files
        )

    @classmethod
    def of(
        cls,
        variant: Variant,
        mesh: Mapping[str, int],
        report: Report,
        machine: Machine,
        times: Times,
        memory: float,
        padded: tuple[Hashable, ...],
    ) -> Candidate:
        """Return the candidate for a report and the machine's times for it."""
        peak = report.memory.peak
        return cls(
            axis_resources=dict(variant.axis_resources),
            mesh=dict(mesh),
            **variant.settings.arguments(),
            report=report,
            time=times.total,
            peak=peak,
            fits=peak <= memory,
            measured=None,
            reason=reason(report, machine, mesh, times),
            options={label: dict(each) for label, each in variant.options.items()},
            padded=padded,
            layouts={name: dict(each) for name, each in variant.layouts.items()},
        )

    def __repr__(self) -> str:
        return candidate(self)

    def _repr_html_(self) -> str:
        words = f"<p><b>{escaped(candidate(self))}</b><br>{escaped(self.reason)}</p>"
        return enclosed([words, self.report._repr_html_()])


def reason(report: Report, machine: Machine, mesh: Mapping[str, int], times: Times) -> str:
    """Describe the main costs of a layout's step: its largest communication, with the names."""
    whole = times.compute + times.memory + times.communication
    if not whole:
        return "computes and sends nothing"
    parts = (
        ("computes", times.compute),
        ("moves memory", times.memory),
        ("sends", times.communication),
    )
    shares = ", ".join(
        f"{verb} {part / whole:.0%}" for verb, part in sorted(parts, key=lambda p: -p[1]) if part
    )
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], float] = {}
    sent: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter()
    for step in report.collectives:
        key = (step.kind, step.mesh_axes, step.names)
        groups[key] = groups.get(key, 0.0) + machine.time_of(step, mesh)
        sent[key] += step.wire_bytes * step.trips
    if not groups:
        return f"{shares}; sends nothing"
    (kind, axes, names), seconds = max(groups.items(), key=lambda item: item[1])
    words = f" for {', '.join(names)}" if names else ""
    size = size_text(sent[kind, axes, names])
    return f"{shares}; most in {kind}{words} over {'+'.join(axes)} ({size}, {seconds / whole:.0%})"
