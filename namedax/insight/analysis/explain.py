"""`explain`: a report of communication, computation and memory of a function, by tracing it."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from namedax.core.array import dims_of, is_named
from namedax.core.functions import cell_names, source_of
from namedax.core.names import Dims, PyTree
from namedax.core.user_code import is_user_file
from namedax.errors import ArgumentTypeError, NamedaxError
from namedax.hlo import collectives
from namedax.insight.analysis.figures import Compiled
from namedax.insight.analysis.findings import (
    SMALL,
    Added,
    NoRing,
    Uneven,
    UnmappedSharding,
    added_sums,
    findings_of,
    gathered_again,
    uneven_axes,
)
from namedax.insight.analysis.graph import (
    Body,
    Given,
    Graph,
    Node,
    Spec,
    Value,
    build,
    prune,
    spec_of,
)
from namedax.insight.analysis.records import Memory, Phase, PipelineRun
from namedax.insight.analysis.repetition import repetitions
from namedax.insight.analysis.report import Report
from namedax.insight.analysis.sharing import mark_uniform, share
from namedax.insight.analysis.sources import NOWHERE, Origin, Source
from namedax.insight.analysis.steps import steps_of
from namedax.insight.analysis.storage import Storage, kept_for_gradient
from namedax.messages.call_errors import checks_signature
from namedax.ops.loops.pipeline_timetable import Schedule
from namedax.ops.operands.pytree import stored_leaf
from namedax.primitives import costs
from namedax.primitives.equations import axes_of, exported_name
from namedax.primitives.record import Kind
from namedax.xmap.arguments import name_arguments
from namedax.xmap.mapped_function import Xmapped

__all__ = ["arguments_of", "check_call", "dynamic_positions", "explain"]


@checks_signature
def explain(
    f: Callable[..., Any], *args: PyTree, compile: bool = False, **kwargs: PyTree
) -> Report:
    """Report per-device communication, FLOPs and memory of a function by tracing; nothing runs.

    The report lists the collectives of the traced program. Each has its axis names, the operation
    of the model, the source line, and its phase (forward or gradient). Kinds and bytes are those of
    the compiled program: XLA runs equal collectives once, and runs a collective that is the same in
    every step of a loop outside the loop. XLA may combine several collectives into one. Outside
    mapped functions, XLA's partitioner decides on the communication. The part that follows from the
    shardings is in the report; for `partitioning="auto"` only `compile=True` shows it.

    Floating-point operations are counted as in the program; a multiply-add counts as two.
    Elementwise operations count as computed where their results are used, so only arrays in memory
    are read and written. The memory peak is an estimate.

    Args:
      f: a mapped function, or any function that calls mapped ones: a training step under `jax.jit`
        with its gradient and its optimizer.
      *args: its arguments: arrays, named arrays, or `jax.ShapeDtypeStruct`s. The mesh of the mapped
        functions may be a `jax.sharding.AbstractMesh` of any size. An argument without a sharding
        counts as placed for the mapped function.
      compile: whether to compile the program too, for the devices that are available.
        `report.compiled` then has the results of XLA. Default: False.
      **kwargs: keyword arguments of `f`.

    Returns:
      A `Report`, which prints as tables. See `Report.by`, `Report.summary`, `Report.diff`.

    Raises:
      ArgumentTypeError: `f` is not a function.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.sharding.AbstractMesh((256, 256), ("x", "y"))
    >>> def loss(w, images):
    ...     return nx.mean(nx.square(nx.dot(images, w, "inputs")), ["batch", "hidden"])
    >>> f = nx.xmap(jax.value_and_grad(loss), in_axes=(["inputs", "hidden"], ["batch", "inputs"]),
    ...             out_axes=({}, ["inputs", "hidden"]),
    ...             axis_resources={"batch": "x", "hidden": "y"}, mesh=mesh)
    >>> w = jax.ShapeDtypeStruct((512, 1024), "float32")
    >>> images = jax.ShapeDtypeStruct((2048, 512), "float32")
    >>> report = nx.explain(f, w, images)
    >>> report.summary()
    {'all-reduce': (2, 8196)}
    >>> [(c.kind, c.mesh_axes, c.names, c.bytes) for c in report.collectives if c.bytes > 4]
    [('all-reduce', ('x',), ('batch',), 8192)]
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"explain: the first argument must be the function to explain; got {type(f).__name__}."
            " Write nx.explain(f, *args), not nx.explain(f(*args))."
        )
    check_call("explain", f, args, kwargs)
    with _without_collections():
        traced = (f if hasattr(f, "trace") else jax.jit(f)).trace(*args, **kwargs)
        report = _report(f, traced, args, kwargs)
    return dataclasses.replace(report, compiled=_compiled(traced)) if compile else report


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector: a trace and its graph have many objects, which all stay in use.

    With two threads, the first one to leave resumes it.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _report(
    f: Callable[..., Any],
    traced: jax.stages.Traced,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> Report:
    """Return the report of a traced program, without that of the compiler."""
    given = arguments_of(f, traced, args, kwargs)
    definition = _definition(f)
    graph = build(traced.jaxpr, given, definition)
    mark_uniform(graph.body)
    prune(graph.body)
    share(graph.body)
    label = _Labels(graph.body, definition)
    storage = Storage(graph.body)
    steps, nodes_of = steps_of(graph.body, storage, label)
    placements = _placements(graph.body)
    loops = [label(origin) for origin in graph.unknown_loops]
    automatic = [label(origin) for origin in graph.automatic]
    unmapped = tuple(_unmapped(graph, placements))
    rings = _no_rings(graph.body, label)
    added = _added(graph.body, label)
    uneven = tuple(_uneven(graph))
    replicated = _replicated(graph, {argument.what for argument in uneven})
    exported = _exported(graph.body, label)
    return Report(
        _name(f),
        graph.mesh,
        placements,
        tuple(steps),
        _memory(graph.body, storage, label),
        tuple(
            findings_of(
                graph.mesh,
                placements,
                steps,
                repetitions(graph, placements, steps, nodes_of),
                replicated,
                uneven,
                unmapped,
                rings,
                added,
                gathered_again(graph.body),
                loops,
                automatic,
                exported,
            )
        ),
        None,
        dict(label.files),
        _pipelines(graph.body, label),
        is_traced=True,
    )


_OPTIONS = (
    "in_axes",
    "out_axes",
    "axis_sizes",
    "axis_resources",
    "mesh",
    "partitioning",
    "overlap",
    "passes",
    "slow_axes",
)  # of xmap


def check_call(
    op: str, f: Callable[..., Any], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> None:
    """Raise an error if the function does not take these arguments.

    Examples are `nx.explain(f)` without arguments, or options of `nx.xmap` among the arguments.

    Args:
      op: the function of `nx` that is called, such as `"explain"`.
      f: the function to call.
      args: its positional arguments.
      kwargs: its keyword arguments.

    Raises:
      ArgumentTypeError: the function does not take these arguments.
    """
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        given = signature.bind(*args, **kwargs).arguments
        _check_arrays(op, f, given)
    except ArgumentTypeError:
        raise
    except TypeError as error:
        name = getattr(f, "__name__", "f")
        options = [
            f"{key}=..." for key in kwargs if key in _OPTIONS and key not in signature.parameters
        ]
        remedy = (
            f"Write nx.{op}({name}, {', '.join(signature.parameters)}), with arrays or their"
            " types (jax.ShapeDtypeStruct)."
        )
        if options:
            remedy = (
                f"These are options of nx.xmap. Map the function first: nx.{op}(nx.xmap({name},"
                f" {', '.join(options)}), ...)."
            )
        raise ArgumentTypeError(
            f"{op}: {name} does not take these arguments: {error}. {remedy}"
        ) from None


def _definition(f: Callable[..., Any]) -> Source:
    """Return the line of the user's file that defines a function, if there is one."""
    found = source_of(f)
    code = None if found is None else found.__code__
    is_known = code is not None and is_user_file(code.co_filename)
    return Source(code.co_filename, code.co_firstlineno) if code and is_known else NOWHERE


def _check_arrays(op: str, f: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise if a function without static arguments gets a string, such as the name of an axis."""
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    if not texts or hasattr(f, "lower"):
        return
    name, arrays = _name(f), [key for key in given if key not in texts]
    name = f"nx.{name}" if getattr(f, "__module__", "").startswith("namedax.") else name
    options = [f"{key}={value!r}" for key, value in texts.items()]
    call = f"{name}({', '.join([*arrays, *options])})"
    raise ArgumentTypeError(
        f"{op}: the arguments are arrays or their types, and {' and '.join(options)} is a string."
        f" Write nx.{op}(lambda {', '.join(arrays)}: {call}, {', '.join(arrays)})."
    )


def _name(f: Callable[..., Any]) -> str:
    inner = getattr(f, "func", f)
    return str(getattr(inner, "__name__", type(f).__name__))


class _Labels:
    """Source lines as text, such as `model.py:12`, and `cell:3` in a notebook.

    The text has a folder if two files have one name.
    """

    def __init__(self, body: Body, definition: Source = NOWHERE):
        paths = {node.origin.source.path for node in _all_nodes(body)} - {""}
        named = defaultdict(set)
        for path in paths:
            named[os.path.basename(path)].add(path)
        self._text = {}
        for path in sorted(paths):
            short = os.path.basename(path)
            parts = path.split(os.sep)
            count = 2 if short == "__init__.py" or len(named[short]) > 1 else 1
            while any(
                other != path and other.split(os.sep)[-count:] == parts[-count:]
                for other in named[short]
            ):
                count += 1
            self._text[path] = os.sep.join(parts[-count:])
        sources = [node.origin.source for node in _all_nodes(body)]
        # In the order of the lines of the program; the definition stands for equations without one.
        lines = [source for source in sources if source != definition]
        self._text |= cell_names(source.path for source in (*lines, *sources))
        self.files = {text: path for path, text in self._text.items()}

    def __call__(self, origin: Origin) -> str:
        source = origin.source
        return f"{self._text[source.path]}:{source.line}" if source.path else ""


def _all_nodes(body: Body) -> Iterator[Node]:
    for node in body.nodes:
        yield node
        for inner in node.bodies:
            yield from _all_nodes(inner)


def _placements(body: Body) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for scopes in dict.fromkeys(node.origin.scopes for node in _all_nodes(body)):
        found.update(Origin(scopes).placements())
    return found


def _pipelines(body: Body, label: _Labels) -> dict[str, PipelineRun]:
    """Return the pipelines by their lines."""
    found: dict[str, tuple[Schedule, set[Phase]]] = {}
    for node in _all_nodes(body):
        origin = node.origin
        schedule = origin.pipeline
        if (
            schedule is not None
            and node.kind == Kind.EXCHANGE
            and origin.operation == "nx.pipeline"
        ):
            found.setdefault(label(origin), (schedule, set()))[1].add(origin.phase)
    return {
        line: PipelineRun.of(schedule, tuple(sorted(passes)))
        for line, (schedule, passes) in found.items()
    }


def _uneven(graph: Graph) -> Iterator[Uneven]:
    for axis in uneven_axes(graph.body):
        yield Uneven(
            _text(axis.argument), axis.name, axis.size, axis.padded, axis.mesh, axis.argument.bytes
        )


def _replicated(graph: Graph, uneven: Collection[str]) -> Iterator[tuple[str, int]]:
    for value in graph.body.inputs:
        if value is not None and value.parts == 1 and (what := _text(value)) not in uneven:
            yield what, value.bytes


def _text(value: Value) -> str:
    """Return the path and the type of an argument."""
    type_ = f"{value.aval.dtype}[{','.join(map(str, value.aval.shape))}]"
    return (
        f"{value.given.what} ({type_})"
        if value.given is not None and value.given.what
        else f"argument {type_}"
    )


def _no_rings(body: Body, label: _Labels) -> dict[NoRing, None]:
    """Return the contractions that communicate as if `overlap` had not been requested."""
    found: dict[NoRing, None] = {}
    for node in _all_nodes(body):
        why = node.origin.no_ring
        if why is not None and node.kind in (Kind.SUM, Kind.GATHER, Kind.SCATTER, Kind.EXCHANGE):
            found[NoRing(node.origin.operation, label(node.origin), *why)] = None
    return found


def _added(body: Body, label: _Labels) -> Iterator[Added]:
    """Describe the pairs of all-reduces whose results are used only in their sum or difference."""
    for pair in added_sums(body, SMALL):
        axes = tuple(dict.fromkeys(axes_of(pair[0].eqn)))
        first, second = ((node.origin.operation or "a cast", label(node.origin)) for node in pair)
        names = tuple(dict.fromkeys(name for node in pair for name in node.origin.names_on(axes)))
        size = sum(costs.size_in_bytes(node.eqn.invars[0].aval) for node in pair)
        yield Added((first, second), axes, names, pair[0].origin.phase, size)


def _exported(body: Body, label: _Labels) -> list[tuple[str, str]]:
    """Return the functions of `jax.export` that a program calls, with the lines of the calls."""
    nodes = [node for node in _all_nodes(body) if node.eqn is not None]
    return [
        (name, label(node.origin))
        for node in nodes
        if (name := exported_name(node.eqn)) is not None
    ]


def _unmapped(
    graph: Graph, placements: Mapping[str, tuple[str, ...]]
) -> Iterator[UnmappedSharding]:
    """Yield the arguments that are sharded over mesh axes to which no name is mapped."""
    used = {axis for axes in placements.values() for axis in axes}
    for value in graph.body.inputs:
        if value is not None and value.given is not None:
            axes = tuple(
                axis for place in value.given.spec or () for axis in place if axis not in used
            )
            if axes and costs.size_in_bytes(value.aval):
                yield UnmappedSharding(
                    value.given.what,
                    axes,
                    value.given.names_on(axes),
                    costs.size_in_bytes(value.aval),
                )


def _memory(body: Body, storage: Storage, label: Callable[[Origin], str]) -> Memory:
    arguments = sum(value.bytes for value in body.inputs if value is not None)
    results = sum(value.bytes for value in body.outputs if value is not None)
    kept: Counter[str] = Counter()
    for node, size in kept_for_gradient(body, storage):
        kept[label(node.origin)] += size
    ends = [value for value in (*body.inputs, *body.outputs) if value is not None]
    host = sum(value.size - value.bytes for value in ends)
    return Memory(arguments, results, dict(kept.most_common()), arguments + storage.peak(), host)


def _compiled(traced: jax.stages.Traced) -> Compiled:
    compiled = traced.lower().compile()
    analysis: Mapping[str, float] = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    sizes = {
        "arguments": int(memory.argument_size_in_bytes),
        "results": int(memory.output_size_in_bytes),
        "temporary": int(memory.temp_size_in_bytes),
    }
    return Compiled(collectives(compiled), float(analysis.get("flops", 0.0)), sizes)


def arguments_of(
    f: Callable[..., Any],
    traced: jax.stages.Traced,
    args: Sequence[PyTree],
    kwargs: dict[str, PyTree],
) -> list[Given]:
    """Return the facts about each array that the traced program takes, in order.

    The facts are empty for arrays that JAX does not list.
    """
    avals = traced.jaxpr.in_avals
    positional = dynamic_positions(args, traced.args_info[0])
    keywords = {key: value for key, value in kwargs.items() if key in traced.args_info[1]}
    tree = ({i: args[i] for i in positional}, keywords)
    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_named)[0]
    # A leaf that is not an array, such as a learning rate, is an argument with the shape ().
    if [getattr(stored_leaf(leaf), "shape", ()) for _, leaf in leaves] != [
        aval.shape for aval in avals
    ]:
        return [Given()] * len(avals)
    parameters = _parameters(f)
    dims = _dims(f, args, kwargs, len(leaves)) or [
        dims_of(leaf) if is_named(leaf) else () for _, leaf in leaves
    ]
    return [
        Given(_argument_text(path, parameters), tuple(names), _spec(stored_leaf(leaf)))
        for (path, leaf), names in zip(leaves, dims, strict=True)
    ]


def dynamic_positions(args: Sequence[PyTree], infos: Sequence[PyTree]) -> list[int]:
    """Return the positions of the traced arguments; JAX leaves out the static ones."""
    found: list[int] = []
    missing = len(args) - len(infos)
    for i, arg in enumerate(args):
        k = len(found)
        is_static = missing and (k == len(infos) or not _is_like(arg, infos[k]))
        if is_static:
            missing -= 1
        else:
            found.append(i)
    return found


def _is_like(arg: PyTree, info: PyTree) -> bool:
    tree: Any = jax.tree.structure(arg)
    shapes = [_shape(leaf) for leaf in jax.tree.leaves(arg)]
    return bool(tree == jax.tree.structure(info)) and shapes == [
        one.shape for one in jax.tree.leaves(info)
    ]


def _shape(leaf: object) -> tuple[int, ...] | None:
    """Return the shape of an array or a number; `None` for others, such as a static string."""
    return getattr(leaf, "shape", () if isinstance(leaf, (bool, int, float, complex)) else None)


def _parameters(f: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that take one positional argument each."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]


def _argument_text(path: Sequence[Any], parameters: Sequence[str]) -> str:
    """Return the text for messages of one argument.

    The path is in `({position: argument}, {keyword: argument})`.
    """
    group, first, *rest = path
    name = (
        first.key
        if group.idx == 1
        else parameters[first.key]
        if first.key < len(parameters)
        else first.key
    )
    return f"argument {name!r}{jax.tree_util.keystr(tuple(rest))}"


def _dims(
    f: Callable[..., Any], args: Sequence[PyTree], kwargs: dict[str, PyTree], count: int
) -> list[Dims] | None:
    """Return the axis names of the arguments according to the mappings of a mapped function."""
    if not isinstance(f, Xmapped):
        return None
    try:
        dims = [argument.dims for argument in name_arguments(f, args, kwargs)[0]]
    except (NamedaxError, TypeError):  # the mappings do not fit any abstract array
        return None
    return dims if len(dims) == count else None


def _spec(leaf: object) -> Spec | None:
    sharding = getattr(leaf, "sharding", None)
    return spec_of(sharding.spec) if isinstance(sharding, NamedSharding) else None
