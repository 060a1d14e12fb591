"""Arguments that the commands of `python -m namedax.models` share: the model, and its layout."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import jax

from namedax.errors import AxisResourceError, did_you_mean, show_names
from namedax.insight.planning.command import layout_argument, mesh_argument
from namedax.models import common

__all__ = ["add_layout", "add_model", "layout_and_axes", "read_layout"]

Titles = Mapping[str, tuple[dict[str, int], dict[str, Any]]]


def add_model(add: Callable[..., Any]) -> None:
    """Add the model: a folder, or an architecture."""
    add(
        "model",
        nargs="?",
        default="llama",
        metavar="FOLDER",
        help="a checkpoint, with config.json and *.safetensors; or an architecture with random"
        " parameters (%(default)s)",
    )


def add_layout(add: Callable[..., Any], titles: Iterable[str], default: str) -> None:
    """Add the layout and the mesh."""
    names = ", ".join(repr(title) for title in titles)
    add(
        "--layout",
        default=default,
        help=f"axis_resources, such as \"{{'batch': 'data'}}\", or one of {names} (%(default)s)",
    )
    add("--mesh", type=mesh_argument, metavar="AXIS=N,...", help="the mesh: data=4,model=2")


def read_layout(
    options: argparse.Namespace,
    titles: Titles,
    names: Collection[str],
    axis_types: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the mesh and `axis_resources` of `--layout` and `--mesh`.

    Args:
      options: the arguments of the command line.
      titles: layouts with titles. Of these, names that the model lacks are left out.
      names: the axis names of the model.
      axis_types: the types of the mesh axes.

    Raises:
      AxisResourceError: as `layout_and_axes`.
    """
    axes, resources = layout_and_axes(options.layout, options.mesh, titles, names)
    return common.make_mesh(axes, axis_types), resources


def layout_and_axes(
    text: str, mesh: dict[str, int] | None, titles: Titles, names: Collection[str]
) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the mesh axes with their sizes, and `axis_resources`.

    Args:
      text: a title, or a layout written as a dict.
      mesh: the axes and sizes of the mesh; `None` for those of the title, or for all devices.
      titles: layouts with titles. Of these, names that the model lacks are left out.
      names: the axis names of the model.

    Raises:
      AxisResourceError: the layout is neither a dict nor a title, it has a name that the model
        lacks, or its mesh is not given.
    """
    if text in titles:
        axes, resources = titles[text]
        axes = axes if mesh is None else mesh
        chosen = {name: entry for name, entry in resources.items() if name in names}
        return axes, chosen
    if not text.lstrip().startswith("{"):
        raise AxisResourceError(
            f"models: --layout {text!r} is neither a dict nor one of {show_names(list(titles))}."
            f"{did_you_mean(text, titles)}"
        )
    resources = layout_argument(text, "models: --layout")
    for name in resources:
        if name not in names:
            raise AxisResourceError(
                f"models: --layout has the name {name!r}, but the model has no such axis."
                f"{did_you_mean(name, names)} Its axes are {show_names(sorted(names))}."
            )
    places = [
        axis
        for entry in resources.values()
        for axis in ((entry,) if isinstance(entry, str) else tuple(entry))
    ]
    axes = mesh or dict.fromkeys(places, jax.device_count())
    if len(axes) > 1 and mesh is None:
        raise AxisResourceError(
            f"models: --layout has the mesh axes {show_names(list(axes))}, whose sizes are not"
            f" known. Pass them, such as --mesh {','.join(f'{axis}=2' for axis in axes)}."
        )
    return axes, {
        name: tuple(entry) if isinstance(entry, list) else entry
        for name, entry in resources.items()
    }
