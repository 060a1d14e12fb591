"""Plans as JSON: everything that prints and draws, without the program."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from namedax.core.plain_data import Malformed, from_plain, to_plain
from namedax.errors import ArgumentError, ArgumentTypeError
from namedax.insight.analysis.report import check_report
from namedax.resources.serial import SerialLoop

__all__ = ["read_plan", "write_plan"]

_FORMAT, _VERSION = "namedax.plan", 1
_CLASSES = (SerialLoop,)  # the values of `axis_resources` that are not strings or tuples of these


def write_plan(plan: Any, cls: type, path: str | os.PathLike[str] | None) -> str:
    """Return a plan as JSON, and write it to a file if there is a path.

    Raises:
      ArgumentTypeError: an axis name has no form in JSON.
    """
    try:
        data = to_plain(plan, cls, _CLASSES)
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


def read_plan(source: str | os.PathLike[str], cls: type) -> Any:
    """Return the plan in a JSON text, or in the file of a path.

    Raises:
      ArgumentTypeError: it is neither a text nor a path.
      ArgumentError: there is no such file, or it does not contain a plan.
    """
    text, what = _text(source)
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
        plan = from_plain(data["plan"], cls, _CLASSES)
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


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
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
