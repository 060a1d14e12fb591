"""The result of `nx.trace_names`: records of lines, as text for terminals, HTML for notebooks."""

from __future__ import annotations

import dataclasses
import html
import os
from typing import Any

__all__ = ["NameTrace", "TracedLine"]

_COLUMNS = 100
_WIDEST_SOURCE = 56


@dataclasses.dataclass(frozen=True)
class TracedLine:
    """A source line of a trace.

    Attributes:
      path: the file.
      line: the number of the line.
      text: the statement, in one line.
      depth: the depth of its indentation.
      function: the function that it belongs to.
      values: the variables that it has set, each with its type; `"return"` for a result. The line
        of a `def` has the arguments.
      communication: its collectives.
      count: the number of times that it made these values.
    """

    path: str
    line: int
    text: str
    depth: int
    function: str
    values: tuple[tuple[str, str], ...]
    communication: tuple[str, ...] = ()
    count: int = 1


@dataclasses.dataclass(frozen=True, repr=False)
class NameTrace:
    """The lines of a function, with the types of the values that they make.

    Attributes:
      lines: a record for each line, in the order of execution.
      error: the exception that the function raised, or `None`.
    """

    lines: tuple[TracedLine, ...]
    error: Exception | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain data, for JSON.

        Returns:
          A dictionary with `lines`, a list of dictionaries with the attributes of a line, and
            `error`, the text of the exception or `None`.
        """
        return {
            "lines": [
                {
                    **dataclasses.asdict(line),
                    "values": dict(line.values),
                    "communication": list(line.communication),
                }
                for line in self.lines
            ],
            "error": None if self.error is None else _error_text(self.error),
        }

    def __repr__(self) -> str:
        texts = [_source_text(line) for line in self.lines]
        width = min(_WIDEST_SOURCE, max(map(len, texts), default=0))
        rows, path = [], ""
        for line, text in zip(self.lines, texts, strict=True):
            if line.path != path:
                path = line.path
                rows.append(f"{os.path.basename(path)}:")
            rows += _rows(text, _notes(line), width)
        if self.error is not None:
            rows.append(_error_text(self.error))
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        style = "text-align:left; white-space:pre; font-family:monospace; vertical-align:top"
        rows = "".join(
            f"<tr><td>{line.line}</td>"
            f"<td style='{style}'>{html.escape('  ' * line.depth + line.text)}</td>"
            f"<td style='{style}'>{html.escape(chr(10).join(_notes(line)))}</td></tr>"
            for line in self.lines
        )
        error = "" if self.error is None else f"<pre>{html.escape(_error_text(self.error))}</pre>"
        head = "<tr><th>line</th><th>source</th><th>values</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{error}"


def _source_text(line: TracedLine) -> str:
    return f"{line.line:4}  {'  ' * line.depth}{line.text}"


def _notes(line: TracedLine) -> list[str]:
    """Return the values of a line, and its communication."""
    notes = [f"{name}: {text}" for name, text in line.values]
    if notes and line.count > 1:
        notes[-1] += f"  ({line.count} times)"
    return [*notes, *(f"! {text}" for text in line.communication)]


def _rows(text: str, notes: list[str], width: int) -> list[str]:
    """Return the rows of a line: its source on the left, and notes on the right."""
    longest = _COLUMNS if not notes else width
    shown = text if len(text) <= longest else text[: longest - 3] + "..."
    rows = []
    for note in notes:
        room = _COLUMNS - width - 2
        if len(note) > room:  # the note needs a row of its own
            if shown:
                rows.append(shown)
            rows.append(" " * max(0, _COLUMNS - len(note)) + note)
        else:
            rows.append(f"{shown:{width}}  {note}")
        shown = ""
    return rows or [shown]


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
