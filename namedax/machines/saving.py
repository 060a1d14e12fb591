"""Dicts of machines and links that JSON can store: checks of their keys, and lists of links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from namedax.errors import ArgumentError, did_you_mean, show_names

__all__ = ["arguments_of", "links_as_list", "links_from_list"]

_Link = TypeVar("_Link")


def links_as_list(
    links: Mapping[Any, _Link], as_dict: Callable[[_Link], dict[str, object]]
) -> list[dict[str, object]]:
    """Return links by mesh axis as a list, because keys of JSON are strings.

    Args:
      links: the links by mesh axis, by several, or by `...` for all.
      as_dict: returns the dict of a link.
    """
    return [{"axes": _axes_as_json(key), "link": as_dict(link)} for key, link in links.items()]


def _axes_as_json(key: object) -> object:
    if key is ...:
        return None
    axes = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(axis, str) for axis in axes):
        raise ArgumentError(
            f"Machine.to_dict: the mesh axis {key!r} of links is not a string, which JSON"
            " requires. Use strings as the names of mesh axes."
        )
    return list(axes) if isinstance(key, tuple) else key


def arguments_of(
    operation: str, data: object, fields: Iterable[str], required: Iterable[str]
) -> dict[str, Any]:
    """Return the arguments of a dict, after a check of its keys.

    Args:
      operation: the name in messages.
      data: a dict, as from JSON.
      fields: the keys that it may have.
      required: the keys that it must have.
    """
    fields = list(fields)
    if not isinstance(data, Mapping):
        raise ArgumentError(
            f"{operation}: expected a dict, as from {operation.replace('from_dict', 'to_dict')}();"
            f" got {type(data).__name__}. Pass the dict, for JSON that of json.loads(text)."
        )
    if unknown := [str(key) for key in data if key not in fields]:
        raise ArgumentError(
            f"{operation}: the dict has the unknown keys {show_names(unknown)}. Remove them, or"
            f" choose from {show_names(fields)}.{did_you_mean(unknown[0], fields)}"
        )
    if missing := [key for key in required if key not in data]:
        raise ArgumentError(
            f"{operation}: the dict lacks {show_names(missing)}. Pass the complete dict of"
            f" {operation.replace('from_dict', 'to_dict')}()."
        )
    return dict(data)


def links_from_list(data: object, make: Callable[[Any], _Link]) -> dict[Any, _Link]:
    """Return links by mesh axis, from a list of axes and links.

    Args:
      data: the list, as from `links_as_list`.
      make: returns the link of a dict.
    """
    if not isinstance(data, list):
        raise ArgumentError(
            f"Machine.from_dict: links must be a list, got {type(data).__name__}. Pass"
            " [{'axes': None, 'link': {...}}]; None is all axes."
        )
    links: dict[Any, _Link] = {}
    for item in data:
        parts = arguments_of("Machine.from_dict", item, ("axes", "link"), ("axes", "link"))
        axes = parts["axes"]
        fits = axes is None or isinstance(axes, str)
        if isinstance(axes, list) and axes and all(isinstance(axis, str) for axis in axes):
            axes, fits = tuple(axes), True
        if not fits:
            raise ArgumentError(
                f"Machine.from_dict: axes={axes!r} must be None for all axes, a mesh axis, or a"
                " list of mesh axes, such as ['data', 'model']."
            )
        key = ... if axes is None else axes
        if key in links:
            raise ArgumentError(
                f"Machine.from_dict: links has axes={parts['axes']!r} twice. Keep one of them."
            )
        links[key] = make(parts["link"])
    return links
