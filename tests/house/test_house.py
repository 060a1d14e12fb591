"""The house: every module stands in a room, and imports run from the top of the house to the bottom.

The sources are read as syntax trees, so nothing is missed: imports within functions count, and so do those for static checkers only.
"""

import ast
import collections
import functools
import pathlib
import re

import pytest

from namedax.ops.namespaces.public_names import NAMES

PACKAGE = pathlib.Path(__file__).parents[2] / "namedax"

# From the bottom to the top. A module may import what stands in a lower room, and in its own.
ROOMS = (
    "ops.namespaces.public_names",  # the table of the public names, which imports nothing
    "errors",  # what can go wrong
    "messages",  # what explains it
    "core",  # what an array, a name and a region are
    "resources",  # where names live, and how blocks move
    "primitives",  # what is known of the primitives of JAX
    "programs",  # what is done to traced programs; late sums and loops in time communicate, so it is above resources
    "ops.operands",  # how an operation takes its operands; nmap looks into programs, so it is above these
    "ops.elementwise",
    "ops.reduction",
    "ops.collectives",
    "ops.shape",  # makes arrays by their indices along names, which a collective knows (axis_index)
    "ops.contraction",  # moves axes, which is renaming
    "ops.indexing",
    "ops.window",
    "ops.sorting",  # reads by index, which reductions do not
    "ops.linalg.tall",  # factorizations of blocks
    "ops.linalg.matrix",  # norms are statistics, and need singular values
    "ops.statistics",  # quantiles sort
    "ops.loops",
    "ops.groups",  # cumulative operations within groups are scans
    "ops.random",
    "ops.linalg",  # draws random vectors
    "ops.nn",
    "ops.experts",  # a router is a softmax, and a sort
    "ops.ragged",  # an attention, and experts
    "ops.namespaces",
    "image",
    "lax",
    "linalg",
    "nn",
    "numpy",
    "random",
    "scipy",
    "xmap",  # needs operations, and no operation needs it
    "typing",
    "hlo",
    "insight.analysis.records",  # what is found of a program, which machines time and pictures show
    "machines",  # how long what is found takes
    "insight.drawing",  # pictures; of arrays, and of what is found of a program
    "insight.analysis",
    "insight.profiling",  # measured times, beside what is found of a program
    "debug",  # values, placements and types of a program, with the communication that is found of it
    "insight.planning",  # which layout a machine finds, by what is found of each
    "plan",  # the command of planning
    "insight.transfers",  # from one layout to another, timed by machines
    "interop",
    "distributed",
    "checkpoints",  # places what it reads as parts of many processes are placed
    "testing",
    "ops.namespaces.definitions",  # imports of the public names, for editors
    "",  # the face, namedax/__init__.py
    "models",  # programs of users, which are written with the face
)
# Folders of rooms, which are none themselves.
FOLDERS = ("ops", "insight")
# The private modules and folders at the top of the package: a reader sees the architecture from them.
PRIVATE = {"core", "insight", "messages", "ops", "primitives", "programs", "resources", "xmap"}
# An import within a function needs a reason: the module that imports, what it imports, and why not at the top.
WITHIN_FUNCTIONS: dict[tuple[str, str], str] = {}
# A module that is looked up by a name which is not a literal may be in a higher room, so the module that looks it up needs a reason.
LOOK_UP_BY_NAME = {
    "": "the top of the house: imports a public name from its table when it is first touched",
    "ops.namespaces.lifting": "a Namespace fills the module that holds it (namedax.numpy, ...), and imports JAX's module and submodules when touched",
    "models.architectures": "imports the module of the architecture that a checkpoint names",
    "models.command": "imports the module of the command that is called, since others need more packages",
    "insight.planning.command": "imports the module of the user's program that the command line names",
    "ops.operands.nmap": "finds a lifted function in the module that has it, which pickles it by its name",
    "checkpoints.written_names": "finds the enumeration of a stored name in a module that the user's program has imported",
}


@functools.cache
def modules():
    """Every module, by its name without that of the package, with its path."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_stub(module):
    """Whether a module is a stub alone, for type checkers: there is nothing to import when the program runs."""
    path = PACKAGE.joinpath(*module.split("."))
    return path.with_suffix(".pyi").exists() and not path.with_suffix(".py").exists() and not path.is_dir()


def imports_of(tree, known):
    """What a module imports of the package: (module, line, within a function)."""

    def visit(node, within):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "namedax":
                    yield alias.name.removeprefix("namedax").lstrip("."), node.lineno, within
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: a relative import"
            if node.module.split(".")[0] == "namedax":
                base = node.module.removeprefix("namedax").lstrip(".")
                for alias in node.names:
                    full = f"{base}.{alias.name}".lstrip(".")
                    yield full if full in known else base, node.lineno, within
        within = within or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            yield from visit(child, within)

    return list(visit(tree, False))


@functools.cache
def imports():
    known = frozenset(modules())
    found = {name: imports_of(ast.parse(path.read_text()), known) for name, path in modules().items()}
    return {name: [one for one in targets if not is_stub(one[0])] for name, targets in found.items()}


def room(module):
    """The room that a module stands in: the longest of those whose name it begins with."""
    rooms = [r for r in ROOMS if r and (module == r or module.startswith(f"{r}."))]
    if rooms:
        return max(rooms, key=len)
    assert module in ("", *FOLDERS), f"namedax.{module} stands in no room; say in ROOMS where it belongs"
    return module


# Functions that return a module by its name, and the method of `sys.modules` that does.
_FINDERS = {
    "importlib.import_module",
    "__import__",
    "builtins.__import__",
    "importlib.__import__",
    "pkgutil.resolve_name",
    "sys.modules.get",
}
# The modules that these are in.
_FINDING_MODULES = ("sys", "importlib", "pkgutil", "builtins")
CONSTRUCTED = "a name that is not a literal"


def lookups_of(tree):
    """Find modules of the package that a module looks up by name: (module, or CONSTRUCTED, line, True).

    Its own name (`__name__`) and literal names of other packages are left out. So is `sys.modules[name] = module`, which puts a module there. Every
    other use of `sys.modules`, such as a loop over it, counts as a name that is not a literal.
    """
    known_as = {"__import__": "__import__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in _FINDING_MODULES:
                    known_as[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and node.module in _FINDING_MODULES:
            known_as |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def path(node):
        if isinstance(node, ast.Name):
            return known_as.get(node.id, "")
        return f"{path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) and path(node.value) else ""

    def found(name, line):
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
            package, _, rest = name.value.replace(":", ".").partition(".")
            return [(rest, line, True)] if package == "namedax" else []
        return [] if isinstance(name, ast.Name) and name.id == "__name__" else [(CONSTRUCTED, line, True)]

    def visit(node):
        if isinstance(node, ast.Call) and path(node.func) in _FINDERS:
            names = node.args[:1] or [keyword.value for keyword in node.keywords if keyword.arg == "name"] or [None]
            yield from found(names[0], node.lineno)
            parts = [*node.args, *node.keywords]
        elif isinstance(node, ast.Subscript) and path(node.value) == "sys.modules":
            if not isinstance(node.ctx, ast.Store):
                yield from found(node.slice, node.lineno)
            parts = [node.slice]
        elif path(node) in _FINDERS | {"sys.modules"}:  # given on, or searched
            yield CONSTRUCTED, node.lineno, True
            parts = []
        else:
            parts = ast.iter_child_nodes(node)
        for part in parts:
            yield from visit(part)

    return list(visit(tree))


@functools.cache
def lookups():
    return {name: lookups_of(ast.parse(path.read_text())) for name, path in modules().items()}


def by_literal_name(graph):
    return {module: [one for one in targets if one[0] != CONSTRUCTED] for module, targets in graph.items()}


def upwards(graph):
    """The imports that run upwards, as lines of text."""
    order = {r: i for i, r in enumerate(ROOMS)}
    order |= dict.fromkeys(FOLDERS, order["errors"])  # these import nothing
    return [
        f"namedax.{module}, line {line}: imports namedax.{target}, which is above it"
        for module, targets in graph.items()
        for target, line, _ in targets
        if order[room(target)] > order[room(module)]
    ]


def circles(graph):
    """A circle among modules as a list, or nothing."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        path.append(module)
        found = next(filter(None, (visit(target) for target, _, _ in graph[module] if target != module)), [])
        path.pop()
        done.add(module)
        return found

    return next(filter(None, map(visit, graph)), [])


def test_imports_run_downwards():
    assert upwards(imports()) == []


def test_lookups_by_name_run_downwards():
    """A low module gets what it needs from above by a hook that the package fills, such as `errors.install_hints`."""
    assert upwards(by_literal_name(lookups())) == []


def test_lookups_by_a_constructed_name_have_a_reason():
    found = {module: [line for target, line, _ in targets if target == CONSTRUCTED] for module, targets in lookups().items()}
    assert {module: lines for module, lines in found.items() if lines and module not in LOOK_UP_BY_NAME} == {}
    assert [module for module in LOOK_UP_BY_NAME if not found[module]] == []


def test_there_are_no_circles():
    assert circles(imports()) == []


def test_imports_stand_at_the_top():
    within = {(module, target) for module, targets in imports().items() for target, _, inside in targets if inside}
    assert within == set(WITHIN_FUNCTIONS)


def test_every_room_is_inhabited():
    assert {room(module) for module in modules()} - {*FOLDERS} == set(ROOMS)


def test_few_private_modules_stand_at_the_top():
    public = {*NAMES[""].split(), "plan", ""}
    assert {module.partition(".")[0] for module in modules()} - public == PRIVATE


# Folders of tests that mirror no room: of whole programs, of this repository, of random programs, of namedax/models.
TESTS = PACKAGE.parent / "tests"
OTHER_FOLDERS = ("whole", "house", "fuzz", "models")


def without_a_room(paths):
    """Find modules of tests, by their paths in `tests`, that are in no folder of a room."""
    folders = {*(r.replace(".", "/") for r in ROOMS if r), *FOLDERS, *OTHER_FOLDERS}
    return [path.as_posix() for path in paths if path.parent.as_posix() not in folders]


def test_tests_mirror_the_rooms():
    paths = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
    assert without_a_room(paths) == []
    names = collections.Counter(path.name for path in paths)
    assert [name for name, count in names.items() if count > 1] == []  # pytest imports and selects modules by these


FACES = ("checkpoints", "debug", "image", "interop", "lax", "machines", "models", "nn", "numpy", "random", "scipy", "typing")
PACKAGES = [*FOLDERS, "programs.serial", *(r for r in ROOMS if r and r not in FACES and modules()[r].name == "__init__.py")]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_lives_there(package):
    """In about ten lines, which name every module; and it exports nothing, for it is not a face."""
    tree = ast.parse(modules()[package].read_text())
    docstring = ast.get_docstring(tree) or ""
    inhabitants = {m.removeprefix(f"{package}.").split(".")[0] for m in modules() if m.startswith(f"{package}.")}
    assert {i for i in inhabitants if f"`{i}`" not in docstring} == set()
    assert 4 <= len(docstring.splitlines()) <= 20
    assert len(tree.body) == 1


LONGEST_MODULE, LONGEST_FUNCTION = 750, 90
REASON = re.compile(r"^ *# Long: \w.*\.$", re.MULTILINE)


def too_long(text):
    """Find modules and functions (without their docstrings) that are long and do not say why, in a comment `# Long: reason.`"""
    if REASON.search(text):
        return
    if (length := len(text.splitlines())) > LONGEST_MODULE:
        yield f"{length} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node, clean=False) is not None else 0
            length = node.end_lineno - node.lineno + 1 - docstring
            if length > LONGEST_FUNCTION:
                yield f"{node.name}, line {node.lineno}: {length} lines"


@pytest.mark.parametrize("module", [m for m in modules() if m], ids=str)
def test_nothing_is_too_long(module):
    """Split it by idea, or give the reason beside it; do not make its lines denser."""
    assert list(too_long(modules()[module].read_text())) == []


def test_the_tests_find_what_they_look_for():
    known = {"core", "core.array", "ops.operands.nmap", "ops.window.pooling"}
    source = (
        "import namedax.core.array\n"
        "def f():\n"
        "    from namedax.ops.window import pooling\n"
        "if TYPE_CHECKING:\n"
        "    from namedax.ops.operands.nmap import nmap"
    )
    graph = {"core": imports_of(ast.parse(source), known)}
    assert graph["core"] == [("core.array", 1, False), ("ops.window.pooling", 3, True), ("ops.operands.nmap", 5, False)]
    assert [line.split(": ")[0] for line in upwards(graph)] == ["namedax.core, line 3", "namedax.core, line 5"]
    assert circles({"a": [("b", 1, False)], "b": [("c", 1, True)], "c": [("b", 2, False)]}) == ["b", "c", "b"]
    with pytest.raises(AssertionError, match="stands in no room"):
        room("cellar")
    paths = map(
        pathlib.PurePosixPath, ("test_array.py", "core/test_array.py", "ops/window/test_conv.py", "cellar/test_conv.py")
    )
    assert without_a_room(paths) == ["test_array.py", "cellar/test_conv.py"]
    long = "def f():\n" + '    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * 90 + "\ndef g():\n" + "    x = 1\n" * 89
    assert list(too_long(long)) == ["f, line 1: 91 lines"]
    assert list(too_long("x = 1\n" * 751)) == ["751 lines"]
    assert list(too_long("# Long: one table.\n" + "x = 1\n" * 751)) == []


@pytest.mark.parametrize(
    ("planted", "target"),
    [
        ('import sys\nroot = sys.modules["namedax"]', ""),
        ('import sys as _sys\nfound = _sys.modules.get("namedax.xmap")', "xmap"),
        ('from sys import modules\ndef f():\n    return modules["namedax.numpy"].sum', "numpy"),
        ('import importlib\nspace = importlib.import_module("namedax.numpy.fft")', "numpy.fft"),
        ('from importlib import import_module as load\nspace = load(name="namedax.ops.loops")', "ops.loops"),
        ('import importlib.util\nspace = importlib.import_module("namedax.lax")', "lax"),
        ('import pkgutil\nfunction = pkgutil.resolve_name("namedax.nn:softmax")', "nn.softmax"),
        ('space = __import__("namedax.insight.analysis")', "insight.analysis"),
    ],
)
def test_a_planted_lookup_that_goes_upward_is_found(planted, target):
    graph = {"core.array": lookups_of(ast.parse(planted)), "": lookups_of(ast.parse(planted))}
    line = len(planted.splitlines())
    assert graph["core.array"] == [(target, line, True)]
    assert upwards(by_literal_name(graph)) == [f"namedax.core.array, line {line}: imports namedax.{target}, which is above it"]


@pytest.mark.parametrize(
    "planted",
    [
        'import importlib\nimportlib.import_module(f"namedax.{space}")',
        'import importlib\nimportlib.import_module("." + space, "namedax")',
        'import importlib\nimportlib.import_module(".numpy", "namedax")',
        "import sys\nsys.modules[ROOT]",
        "import sys\nsys.modules.get(function.__module__)",
        "import sys\nfor name, module in sys.modules.items(): pass",
        "import sys\nfound = sys.modules",
        "import importlib\nlist(map(importlib.import_module, names))",
        "import sys\ndel sys.modules[name]",
    ],
)
def test_a_planted_lookup_by_a_constructed_name_is_found(planted):
    assert lookups_of(ast.parse(planted)) == [(CONSTRUCTED, 2, True)]


@pytest.mark.parametrize(
    "allowed",
    [
        'import sys\nlinen = sys.modules.get("flax.core.meta")',
        "import sys\nown = sys.modules[__name__]",
        "import sys\nsys.modules[made.__name__] = made",
        'import importlib\nimportlib.import_module("jax.numpy")',
        'modules = {}\nmodules["namedax"]',
    ],
)
def test_other_lookups_are_left_alone(allowed):
    assert lookups_of(ast.parse(allowed)) == []


def test_a_lookup_that_goes_downward_is_left_alone():
    source = 'import importlib\nimportlib.import_module("namedax.core.array")'
    assert upwards(by_literal_name({"xmap": lookups_of(ast.parse(source))})) == []


def share_of_any(paths):
    """The shares of the parameters, and of the results, whose annotation is `Any`."""
    found = {"parameters": [], "results": []}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                more = [one for one in (node.args.vararg, node.args.kwarg) if one]
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *more]
                found["parameters"] += [ast.unparse(one.annotation) == "Any" for one in every if one.annotation]
                found["results"] += [node.returns is not None and ast.unparse(node.returns) == "Any"]
    return {what: sum(found[what]) / len(found[what]) for what in found}


@pytest.mark.parametrize(("pattern", "most"), [("*.py", 0.1), ("*.pyi", 0.05)])
def test_types_are_precise(pattern, most):
    shares = share_of_any(PACKAGE.rglob(pattern))
    assert max(shares.values()) < most, shares


def test_the_share_of_any_is_counted(tmp_path):
    (tmp_path / "module.py").write_text("def f(x: Any, y: int, *z: Any) -> Any: ...\ndef g(self) -> list[Any]: ...\n")
    assert share_of_any([tmp_path / "module.py"]) == {"parameters": 2 / 3, "results": 0.5}
