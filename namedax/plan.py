"""The command `python -m namedax.plan`. To call the search from Python, use `nx.plan`.

The import system stores an imported module as an attribute of its package, and `namedax.plan` is
the function. So this module is replaced by the function: `import namedax.plan` does not change
`namedax.plan`.
"""

import sys
from types import ModuleType
from typing import cast

from namedax.insight.planning.command import main
from namedax.insight.planning.planner import plan

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

sys.modules[__name__] = cast(ModuleType, plan)
