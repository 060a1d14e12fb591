"""`Plan`, the result of `nx.plan`, with the best candidate first, as text, HTML and JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from namedax.core.names import Mesh
from namedax.core.plain_data import Malformed, from_plain, to_plain
from namedax.core.text_tables import columns, seconds_text
from namedax.errors import ArgumentError, ArgumentTypeError, MeshError, PlanError
from namedax.hlo import size_text
from namedax.insight.analysis.page import (
    BLUE,
    RED,
    bar,
    details,
    enclosed,
    escaped,
    picture_html,
    scrolled,
    write_page,
)
from namedax.insight.analysis.report import check_report
from namedax.insight.drawing.front import draw_front
from namedax.insight.planning.again import Again
from namedax.insight.planning.called_functions import applied_each
from namedax.insight.planning.candidates import Candidate, layout, mesh_text
from namedax.insight.planning.meshes import matching_mesh
from namedax.insight.planning.program import Held, applied
from namedax.insight.planning.why import Facts, Why, explain_why
from namedax.machines import Machine
from namedax.ops.contraction.rings import Overlap
from namedax.resources.serial import SerialLoop
from namedax.xmap.mapped_function import Xmapped

__all__ = ["Plan", "several_meshes", "text"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = 12  # the maximum number of rows of the front
_MOST_GAP = 3.0  # a larger gap is not shown
_FORMAT, _VERSION = "namedax.plan", 1
_CLASSES = (SerialLoop,)  # the values of `axis_resources` that are not strings or tuples of these


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """The layouts that a search has judged; made by `nx.plan`. It prints as a table.

    Attributes:
      name: the name of the function.
      machine: the machine of the plan.
      memory: the memory limit of a device, in bytes.
      candidates: the judged layouts: fitting ones first, then by time; measured ones come before
        the others.
      refused: layouts that the program does not allow, each with its error message.
      advice: sentences on second names for axes of the model, and on names that were not mapped
        because their sizes do not divide.
      traces: the number of traces of the program.
      sizes: the size of each axis name that the program has.
      arguments: the arrays among the arguments, with their axes and global bytes.
      bound: a lower bound of the time of all layouts of the searched space that fit, in seconds;
        0 if there is none, because the search was too short. It is for the default values of
        options that the program leaves open. `remat=` may be faster, if the program recomputes
        layers itself.
      again: the program, for `why`; by default `None`, as in a plan that was read from a file.
      ended: the reason why the search ended: `"tries"` if it had judged the maximum number of
        layouts, and otherwise `"converged"`.

    >>> import jax, namedax as nx
    >>> f = nx.xmap(lambda x: nx.sum(x * x, "batch"), in_axes=["batch", ...], out_axes=[...])
    >>> x = jax.ShapeDtypeStruct((1 << 16, 512), "float32")
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> plan = nx.plan(f, x, mesh=mesh, machine=nx.machines.v5p)
    >>> nx.Plan.from_json(plan.to_json()) == plan
    True
    """

    name: str
    machine: Machine = dataclasses.field(metadata={"plain": "dict"})
    memory: float
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[dict[Hashable, Any], str], ...] = ()
    advice: tuple[str, ...] = ()
    traces: int = 0
    sizes: dict[Hashable, int] = dataclasses.field(default_factory=dict)
    arguments: tuple[Held, ...] = ()
    bound: float = 0.0
    ended: str = "converged"
    # Traces the program again, for `why`; a plan that was read from a file cannot.
    again: Again | None = dataclasses.field(
        default=None, compare=False, metadata={"plain": False}, kw_only=True
    )

    @property
    def gap(self) -> float:
        """The fraction by which the best layout may be slower than the best possible one.

        It is the time of the best candidate divided by `bound`, minus 1, and infinite without a
        bound. The table and the picture leave out a gap above 3: the bound counts products only,
        so in a program with few of them it says nothing about the layout.
        """
        return self.candidates[0].time / self.bound - 1 if self.bound else math.inf

    @property
    def exhausted(self) -> bool:
        """True if every layout was judged or excluded by its bound: no estimate is lower."""
        times = [one.time for one in self.candidates if one.fits]
        return self.bound >= min(times, default=math.inf)

    @property
    def best(self) -> dict[Hashable, Any]:
        """The `axis_resources` of the fastest candidate, measured if available, else estimated.

        Raises:
          PlanError: the mapped functions of the program have different layouts.
        """
        if self.candidates[0].is_split:
            raise PlanError(
                f"Plan.best: the {len(self.layouts)} mapped functions of {self.name} have different"
                " layouts. Use plan.layouts, which has one for each, or plan.apply(f)."
            )
        return dict(self.candidates[0].axis_resources)

    @property
    def layouts(self) -> dict[str, dict[Hashable, Any]]:
        """The `axis_resources` of each mapped function of the program, by its name."""
        best = self.candidates[0]
        return {
            name: dict(each)
            for name, each in (best.layouts or {self.name: best.axis_resources}).items()
        }

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the mesh axes for `best`."""
        return dict(self.candidates[0].mesh)

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """The arguments that the program leaves open, as chosen for `best`, by line.

        An example is `{"model.py:12": {"operation": "nx.fold", "prefetch": 1}}`.
        """
        return {line: dict(each) for line, each in self.candidates[0].options.items()}

    @property
    def pipeline(self) -> dict[str, Any]:
        """The arguments for `nx.pipeline` in the fastest candidate, where the program has none."""
        return dict(self.candidates[0].pipeline)

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto front, fastest first: no other candidate is both faster and smaller."""
        front: list[Candidate] = []
        for one in sorted((c for c in self.candidates if c.fits), key=lambda c: (c.time, c.peak)):
            if not front or one.peak < front[-1].peak:
                front.append(one)
        return tuple(front)

    def apply(self, f: Callable[..., Any], mesh: Mesh | None = None) -> Callable[..., Any]:
        """Map a function with the best layout, and with the chosen `overlap` and options.

        The options apply to the calls at the lines of `plan.options`, so `f` is the function that
        was planned, or another one that calls the same model.

        Args:
          f: a function made by `nx.xmap`, or one that calls such functions, as in `nx.plan`. Their
            own layouts are replaced.
          mesh: a mesh with the sizes of `plan.mesh`; default: the mesh of `f` if it has these
            sizes, and otherwise a mesh of available devices.

        Returns:
          A function like `f`, mapped if `f` is.

        Raises:
          ArgumentTypeError: `f` is not a function made by `nx.xmap`.
          MeshError: the mesh has other sizes, or there are too few devices.

        >>> import jax, namedax as nx
        >>> def loss(w, x):
        ...     return nx.mean(nx.square(nx.dot(x, w, "in")), ["batch", "out"])
        >>> f = nx.xmap(loss, in_axes=(["in", "out"], ["batch", "in"]), out_axes=[])
        >>> w, x = jax.numpy.ones((8, 4)), jax.numpy.ones((16, 8))
        >>> plan = nx.plan(f, w, x, mesh=1, machine=nx.machines.v5p)
        >>> float(plan.apply(f)(w, x))
        64.0
        """
        best = self.candidates[0]
        if not callable(f) or (not isinstance(f, Xmapped) and not best.layouts):
            raise ArgumentTypeError(
                f"Plan.apply: the function must be made by nx.xmap, got {type(f).__name__}. Pass"
                " the mapped function that was planned, as in plan.apply(nx.xmap(loss))."
            )
        mesh = matching_mesh(f, best.mesh) if mesh is None else mesh
        sizes = dict(mesh.shape)
        if {axis: n for axis, n in sizes.items() if n > 1} != {
            axis: n for axis, n in best.mesh.items() if n > 1
        }:
            raise MeshError(
                f"Plan.apply: the plan is for a mesh of {mesh_text(best)}, but the mesh has the"
                f" axes {sizes}. Pass a mesh of the sizes {best.mesh}, or plan again with"
                " mesh=mesh."
            )
        if not isinstance(f, Xmapped):
            return applied_each(f, best.variant, mesh)
        return applied(f, best.variant, mesh)

    def draw(self) -> Figure:
        """Draw the candidates by memory and time, with the front, the memory limit and the bound.

        Returns:
          A matplotlib figure, like that of `nx.draw`.

        Raises:
          ImportError: matplotlib is not installed.
        """
        front = {id(one) for one in self.front}
        several = several_meshes(self)
        points = [
            (c.time, float(c.peak), layout(c, several), id(c) in front) for c in self.candidates
        ]
        return draw_front(points, self.memory, self.bound if self.gap <= _MOST_GAP else None)

    def why(
        self,
        axis_resources: Mapping[Hashable, Any],
        overlap: Overlap | None = None,
        mesh: Mesh | Mapping[str, int] | None = None,
    ) -> Why:
        """Explain why another layout is slower than the best one, or is not possible.

        The layout is judged as those of the search are, if it is not among the candidates. Each
        source line has its seconds under both layouts, and the communication that costs the
        difference. If the layout needs too much memory, the explanation lists the arguments and the
        residuals that need it.

        Args:
          axis_resources: the other layout.
          overlap: the value of `overlap` for `nx.xmap`; default: that of the fastest candidate with
            this layout, or else that of the best candidate.
          mesh: the mesh, or the sizes of its axes, with as many devices as that of the plan.
            Default: `plan.mesh`.

        Returns:
          A `Why`, which prints as a table.

        Raises:
          ArgumentError: the program has no such axis name; or the plan was read from a file and has
            not judged this layout.
          AxisResourceError: `axis_resources` is not a dict from axis names to mesh axes.
          MeshError: the mesh has no such axis, or another number of devices.

        >>> import jax, namedax as nx
        >>> f = nx.xmap(lambda x: nx.sum(x * x, "batch"), in_axes=["batch", ...], out_axes=[...])
        >>> x = jax.ShapeDtypeStruct((1 << 16, 512), "float32")
        >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
        >>> plan = nx.plan(f, x, mesh=mesh, machine=nx.machines.v5p)
        >>> print(plan.why({}).sentences[0])
        It takes ... more than the best layout {'batch': 'x'}: ...
        """
        facts = Facts(
            self.name,
            self.machine,
            self.memory,
            self.candidates,
            self.refused,
            self.sizes,
            self.arguments,
            self.again,
        )
        return explain_why(facts, axis_resources, {"overlap": overlap}, mesh)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the plan as JSON, with the reports of its candidates.

        `Plan.from_json` reads it. The program is not part of it.

        Args:
          path: a file to write the JSON to; default: none.

        Raises:
          ArgumentTypeError: an axis name is neither a string, a number, nor a tuple of these.
        """
        return _written(self, path)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Plan:
        """Return the plan that `to_json` has written.

        It prints, draws and compares as the original does, and `why` explains the candidates, but
        cannot trace other layouts. Of the source lines, it shows those in files below the current
        folder.

        Args:
          source: the JSON, or the path of a file with it.

        Raises:
          ArgumentError: there is no such file, or its contents are not those of a plan.
        """
        return _read(source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as one HTML file: the table, its picture, and the report of the best.

        The file needs no other file and no network, and has a light and a dark theme.

        Args:
          path: the path of the file.

        Raises:
          ImportError: matplotlib is not installed (`pip install 'namedax[draw]'`).
        """
        sections = [
            self._repr_html_(),
            picture_html("All candidates", self.draw()),
            "<h2>The best layout</h2>",
            *self.candidates[0].report.sections(self.machine),
        ]
        write_page(path, f"{self.name}: layouts on {self.machine.name}", sections)

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process cannot trace the program.
        return {**self.__dict__, "again": None}

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return _html(self)


# --- text and HTML --------------------------------------------------------------------------------


def text(plan: Plan) -> str:
    """Render a plan: the best candidate, the front with a reason for each, and advice."""
    front, shown = plan.front, _shown(plan)
    lines = [*_title(plan, len(front)), ""]
    verified = any(one.measured is not None for one in plan.candidates)
    head = (
        f"  {'time':>8}  {'measured':>8}  {'holds':>9}  "
        if verified
        else f"  {'time':>8}  {'holds':>9}  "
    )
    lines.append(f"{head}axis_resources")
    for one in shown:
        lines += _row(one, one is plan.candidates[0], verified, several_meshes(plan))
    if len(front) > len(shown):
        lines.append(f"… and {len(front) - len(shown)} more that use less memory and take longer")
    for sentence in plan.advice:
        lines += [
            "",
            textwrap.fill(sentence, columns(), initial_indent="- ", subsequent_indent="  "),
        ]
    return "\n".join(lines)


def _shown(plan: Plan) -> list[Candidate]:
    """Return the first candidates of the front, and the best one."""
    shown = list(plan.front[:_ROWS])
    if plan.candidates[0] not in shown:  # measured as the best, though another was expected to be
        shown.insert(0, plan.candidates[0])
    return shown


def several_meshes(plan: Plan) -> bool:
    """Return True if the shape of the mesh was chosen too."""
    return len({tuple(one.mesh.items()) for one in plan.candidates}) > 1


def _title(plan: Plan, on_front: int) -> list[str]:
    meshes = dict.fromkeys(map(mesh_text, plan.candidates))
    count = math.prod(plan.mesh.values())
    mesh = next(iter(meshes)) if len(meshes) == 1 else f"{count} devices in {len(meshes)} meshes"
    fitting = sum(one.fits for one in plan.candidates)
    words = (
        f"Layouts of {plan.name} on {mesh} of {plan.machine.name}: {len(plan.candidates)} judged,"
        f" of which {fitting} fit into {size_text(int(plan.memory))} per device, and {on_front} are"
        " on the Pareto front of time and memory"
    )
    return [*textwrap.wrap(words, columns()), *textwrap.wrap(_certificate(plan), columns())]


def _certificate(plan: Plan) -> str:
    """Compare the best layout with the bound, in one sentence."""
    tries = " The search ended at the maximum number of layouts (tries=)."
    more = tries if plan.ended == "tries" and not plan.exhausted else ""
    if plan.exhausted:
        has_options = any(one.options for one in plan.candidates)
        return (
            "The best layout is exact: no layout of this space that fits is estimated to be faster"
            f"{' with the default options' if has_options else ''}."
        )
    if plan.gap > _MOST_GAP:
        return more.strip()
    return (
        f"The best layout is at most {plan.gap:.0%} slower than the best possible layout of this"
        f" space, which takes {seconds_text(plan.bound)} or more.{more}"
    )


def _row(one: Candidate, is_best: bool, verified: bool, with_mesh: bool) -> list[str]:
    times = f"{seconds_text(one.time):>8}  "
    if verified:
        times += f"{'' if one.measured is None else seconds_text(one.measured):>8}  "
    start = f"{'*' if is_best else ' '} {times}{size_text(one.peak):>9}  "
    words = layout(one, with_mesh)
    indent = " " * len(start)
    first = textwrap.wrap(words, columns(), initial_indent=start, subsequent_indent=indent)
    return [
        *first,
        *textwrap.wrap(one.reason, columns(), initial_indent=indent, subsequent_indent=indent),
    ]


def _front_rows(shown: Sequence[Candidate], best: Candidate, with_mesh: bool) -> str:
    """Return candidates as rows of a table, with a bar behind each figure; the best is bold."""
    verified = any(one.measured is not None for one in shown)
    longest = max(one.time for one in shown)
    largest = float(max(one.peak for one in shown))
    heads = ["time", *(["measured"] if verified else []), "holds"]
    rows = ["".join(f"<th>{head}</th>" for head in heads) + "<th class='t'>axis_resources</th>"]
    for one in shown:
        cells = [f"<td{bar(one.time, longest, BLUE)}>{seconds_text(one.time)}</td>"]
        if verified:
            seconds = "" if one.measured is None else seconds_text(one.measured)
            cells.append(f"<td>{seconds}</td>")
        cells.append(f"<td{bar(float(one.peak), largest, RED)}>{size_text(one.peak)}</td>")
        words = escaped(layout(one, with_mesh))
        words = f"<b>{words}</b>" if one is best else words
        why = f"<br><span style='opacity:.7'>{escaped(one.reason)}</span>"
        rows.append("".join([*cells, f"<td class='t s'>{words}{why}</td>"]))
    return "".join(f"<tr>{row}</tr>" for row in rows)


def _html(plan: Plan) -> str:
    """Render a plan for notebooks: its title, the front, and advice."""
    front, shown = plan.front, _shown(plan)
    rows = _front_rows(shown, plan.candidates[0], several_meshes(plan))
    parts = [f"<p><b>{escaped(' '.join(_title(plan, len(front))))}</b></p>", scrolled(rows)]
    if len(front) > len(shown):
        left = len(front) - len(shown)
        parts.append(f"<p>… and {left} more that use less memory and take longer</p>")
    if plan.advice:
        items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in plan.advice)
        parts.append(details("Advice", f"<ul>{items}</ul>", True))
    return enclosed(parts)


# --- JSON -----------------------------------------------------------------------------------------


def _written(plan: Plan, path: str | os.PathLike[str] | None) -> str:
    """Return a plan as JSON, and write it to a file if there is a path.

    Raises:
      ArgumentTypeError: an axis name has no form in JSON.
    """
    try:
        data = to_plain(plan, Plan, _CLASSES)
    except Malformed as error:
        raise ArgumentTypeError(
            f"Plan.to_json: {error}, which cannot be written. Use strings, numbers, or tuples of"
            " these as axis names."
        ) from None
    whole = {"format": _FORMAT, "version": _VERSION, "plan": data}
    text = json.dumps(whole, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
    return text


def _read(source: str | os.PathLike[str]) -> Plan:
    """Return the plan in a JSON text, or in the file of a path.

    Raises:
      ArgumentTypeError: it is neither a text nor a path.
      ArgumentError: there is no such file, or it does not contain a plan.
    """
    text, what = _source_text(source)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _foreign(what, f"it is not JSON ({error})") from None
    if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
        raise _foreign(what, f"the key 'format' is not {_FORMAT!r}")
    if data.get("version") != _VERSION:
        raise ArgumentError(
            f"Plan.from_json: {what} has version {_short(data.get('version'))}, but this namedax"
            f" reads version {_VERSION}. Write the plan with this namedax, or read it with the"
            " namedax that wrote it."
        )
    try:
        if data.keys() != {"format", "version", "plan"}:
            raise Malformed(f"the keys are {_short(sorted(data))}")
        plan: Plan = from_plain(data["plan"], Plan, _CLASSES)
        if not plan.candidates:
            raise Malformed("candidates is empty")
        if plan.memory <= 0:
            raise Malformed(f"memory is {plan.memory}, not a positive number of bytes")
        for i, one in enumerate(plan.candidates):
            check_report(one.report, f"candidates[{i}].report")
            if not all(size >= 1 for size in one.mesh.values()):
                raise Malformed(f"candidates[{i}].mesh has an axis without devices")
            if min(one.time, one.peak, 0 if one.measured is None else one.measured) < 0:
                raise Malformed(f"candidates[{i}] has a negative time or peak")
    except (Malformed, RecursionError) as error:
        raise _foreign(what, str(error)) from None
    return plan


def _source_text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the JSON, and a description of its source for messages."""
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"Plan.from_json: the argument is of type {type(source).__name__}. Pass the JSON as a"
            " string, or the path of a file."
        )
    if isinstance(source, str) and (not source or source.lstrip()[:1] in ("{", "[")):
        return source, "the text"
    what = f"the file {_short(os.fspath(source))}"
    try:
        return Path(source).read_text(encoding="utf-8"), what
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ArgumentError(
            f"Plan.from_json: {what} cannot be read ({error}). Pass the path of a file that"
            " plan.to_json(path) has written, or its text."
        ) from None


def _foreign(what: str, fact: str) -> ArgumentError:
    return ArgumentError(
        f"Plan.from_json: {what} is not a complete plan: {fact}. Write it again with"
        " plan.to_json(path)."
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
