"""The command `python -m namedax.models`: generate, train, plan and explain."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import jax

from namedax.errors import NamedaxError

__all__ = ["main"]

_HELP = """\
usage: python -m namedax.models COMMAND FOLDER [options]

FOLDER is a published checkpoint, with config.json and *.safetensors, or an architecture by name.

commands:
  generate  continue prompts, under any layout
  train     train a model, or fine-tune a published one
  explain   list parameters and the communication of a training step at its real size
  plan      search for the fastest layouts of a training step at its real size

explain and plan read config.json only, and need no device. --devices N simulates N devices on a CPU
(8). COMMAND --help lists the options of a command."""


#: The module and the function of each command; the modules of others are not imported.
_COMMANDS = {
    "generate": ("generate", "main"),
    "train": ("train", "main"),
    "explain": ("show", "explain"),
    "plan": ("show", "plans"),
}


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit code: 2 if an argument is invalid.

    Args:
      arguments: the arguments of the command line, without the name of the program.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_HELP)
        return 0
    name, *rest = arguments
    if name not in _COMMANDS:
        print(f"error: there is no command {name!r}.\n\n{_HELP}", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--devices", type=int, default=8)
    options, rest = parser.parse_known_args(rest)
    module, function = _COMMANDS[name]
    try:
        jax.config.update("jax_num_cpu_devices", options.devices)
        getattr(importlib.import_module(f"namedax.models.{module}"), function)(rest)
    except (NamedaxError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
