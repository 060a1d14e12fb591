"""The command `python -m namedax.models`."""

import sys

from namedax.models.command import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
