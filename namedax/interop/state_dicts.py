"""Named arrays from the tensors of a state dict, and back.

A `spec` maps the keys of a published checkpoint to places of a tree, and the positional axes of
each tensor to named axes. `safetensors` reads and writes files with the same specs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from namedax.core.array import NamedArray, is_named, positions
from namedax.core.display import type_text
from namedax.core.element_types import native_order
from namedax.core.names import DType, Mesh, PyTree
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisResourceError,
    CheckpointError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.interop.entries import (
    Entry,
    NumbersByLabel,
    Sizes,
    Spec,
    Tied,
    parse_spec,
    parse_tied,
)
from namedax.interop.quantization import (
    QuantizationConfig,
    Quantized,
    dequantized,
    parse_quantization,
)
from namedax.interop.specs import (
    Equation,
    Header,
    equations_of_part,
    make_plans,
    place_arrays,
    raise_problems,
    solve,
)
from namedax.interop.tensors import Target, header_of, host_tensor, placed, tensors_of
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names
from namedax.ops.operands.pytree import data_of
from namedax.resources.assignment import check_mesh_axes, parse_placement
from namedax.resources.mesh import mesh_with_devices
from namedax.resources.stored_padding import on_host

__all__ = [
    "Outgoing",
    "check_tied",
    "from_state_dict",
    "ignored_patterns",
    "outgoing",
    "target_of",
    "to_state_dict",
]


@checks_signature
def from_state_dict(
    state: Mapping[str, Any],
    spec: Spec,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    tied: Tied | None = None,
    ignore: str | Sequence[str] = (),
    dtype: DType | None = None,
    quantization: QuantizationConfig | None = None,
) -> dict[str, Any]:
    """Convert a state dict to a tree of named arrays.

    An entry of `spec` maps a key to a place in the tree and a pattern. The left side of the pattern
    has the axes of the tensor, as in einops. The right side has the axes of the named array:
    `name=label`, or only the name if the label is the same. A name in braces in the key stands for
    an integer: the tensors with these keys are stacked along the axis of that label, from 0 without
    gaps. For other integers, write a range in the key:

    - `{layers:3..}`: 3, 4, ..., up to the last one in the state dict.
    - `{layers:..3}`: 0, 1, 2, without the end, as in Python.
    - `{layers:3..61}`: 3, 4, ..., 60.
    - `{layers:1..:2}` and `{layers:1..24:2}`: every second number.
    - `{layers:0,3,7}`: these numbers.

    The tensors of a range are stacked in ascending order. So each kind of layers of a model can
    have its own arrays, whose axis has the size of its range.

    A place with names in braces splits a tensor along the label before them. For example,
    `"{part:gate,up}"` reads index 0 of the label `part` to `gate`, and index 1 to `up`. On the left
    side, `(f part)` interleaves the two parts, and `(part f)` concatenates them.

    All keys, shapes and sizes are checked before any value is read.

    Args:
      state: a dict from keys to arrays of NumPy or JAX, or tensors of PyTorch.
      spec: a dict from key patterns to pairs `(place, pattern)`. A place is a path of dict keys,
        such as `"layers/query"`.
      axis_resources: as in `nx.shard`. Default: the arrays are not sharded.
      mesh: a mesh. Default: the mesh of `jax.set_mesh` if `axis_resources` is given.
      sizes: sizes by label or by axis name. They are required for all but one of the labels in
        parentheses. Other sizes follow from the shapes, and are checked. Names that `spec` does not
        contain have no effect. Default: none.
      numbers: a dict from labels in keys to lists of integers, such as the numbers of the layers of
        one kind from a configuration. It is a range for every key with this label, which is written
        without one. If a list is empty, the tree lacks the places of these keys. Default: none.
      tied: a dict from keys to the keys of equal tensors. A key of `spec` that the state dict lacks
        is read from its tied key. A tied key that `spec` lacks may be in the state dict, if it has
        equal bits. Default: none.
      ignore: patterns of keys that may be left over, such as `"*.inv_freq"`. Default: none.
      dtype: the dtype of floating-point tensors. Default: the stored one.
      quantization: the method of quantized tensors, `"mxfp4"` or `"fp8"`, or the entry
        `quantization_config` of a `config.json`. Quantized tensors are dequantized to `dtype`, by
        default to bfloat16, and `spec` has the keys and the axes of the model without quantization.
        With `"mxfp4"`, the tensor `w` with the axes `x`, `k`, `n` is stored as `w_blocks` and
        `w_scales` with the axes `x`, `n` and groups of 32 along `k`, as in GPT-OSS. With `"fp8"`,
        the tensor `w` has scales `w_scale_inv`, by default for blocks of 128 rows and 128 columns,
        as in DeepSeek-V3. Default: none, tensors stay as they are.

    Returns:
      A tree of nested dicts with named arrays.

    Raises:
      CheckpointError: keys are missing or left over, or shapes or sizes do not match. The message
        has every key.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: a key pattern, a place, `numbers`, `tied`, `dtype` or `quantization` is
        malformed.
      ArgumentTypeError: `spec` or a tensor has an invalid type.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis or devices.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.

    >>> import numpy as np, namedax as nx
    >>> state = {f"layers.{i}.q.weight": np.ones((6, 5), np.float32) for i in range(2)}
    >>> spec = {
    ...     "layers.{layers}.q.weight": (
    ...         "layers/query",
    ...         "(heads key) e -> {layers, embed=e, heads, key}",
    ...     )
    ... }
    >>> params = nx.interop.from_state_dict(state, spec, sizes={"heads": 3})
    >>> dict(params["layers"]["query"].named_shape)
    {'layers': 2, 'embed': 5, 'heads': 3, 'key': 2}
    """
    op = "from_state_dict"
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(
            f"{op}: state is {format_value(state)}, not a dict of tensors. Pass the state dict,"
            " such as model.state_dict()."
        )
    target = target_of(axis_resources, mesh, op)
    entries, ties = parse_spec(spec, numbers, op), parse_tied(tied, op)
    patterns, method = ignored_patterns(ignore, op), parse_quantization(quantization, op)
    stored = {key: header_of(key, tensor, op) for key, tensor in state.items()}
    tensors = dequantized(stored, method, patterns)
    matched = make_plans(
        tensors.headers,
        entries,
        op,
        sizes=sizes,
        tied=ties,
        ignore=patterns,
        dtype=dtype,
        stored_problems=tensors.problems,
    )

    check_layout_names(op, axis_resources, (d for p in matched.plans for d in p.entry.dims))
    reader = tensors.reader(_InMemory(state, stored))
    for key, source in matched.copies.items():
        check_tied(key, source, reader.read(key), reader.read(source), op)
    plans = matched.plans
    return place_arrays(plans, (placed(plan, reader, target, op) for plan in plans))


class _InMemory:
    """A reader of the tensors of a state dict in memory."""

    def __init__(self, state: Mapping[str, Any], headers: Mapping[str, Header]):
        self.state, self.headers = state, headers

    def read(self, key: str) -> np.ndarray:
        return host_tensor(self.state[key], self.headers[key])

    def release(self, key: str) -> None:
        pass


def target_of(
    axis_resources: Mapping[Hashable, Any] | None, mesh: Mesh | None, op: str
) -> Target | None:
    """Parse `axis_resources` and find the mesh; `None` without both."""
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            f"{op}: this function cannot be called inside a mapped function. Call it before the"
            " mapped function."
        )
    if axis_resources is None and mesh is None:
        return None
    # Loops do not affect the sharding.
    assignment = parse_placement(axis_resources, op)
    found = mesh_with_devices(mesh, op)
    check_mesh_axes(assignment, found, op)
    return assignment, found


def ignored_patterns(ignore: str | Sequence[str], op: str) -> tuple[str, ...]:
    """Return `ignore=` as a tuple.

    Raises:
      ArgumentTypeError: it is not a string or a list of strings.
    """
    patterns = (ignore,) if isinstance(ignore, str) else ignore
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(one, str) for one in patterns):
        raise ArgumentTypeError(
            f"{op}: ignore is {format_value(ignore)}, not a list of patterns. Write"
            ' ignore=["*.inv_freq"].'
        )
    return tuple(patterns)


_ROWS = 1 << 24  # bytes that are compared at a time


def check_tied(
    key: str, source: str, have: np.ndarray | Quantized, want: np.ndarray | Quantized, op: str
) -> None:
    """Check that two tied tensors have equal bits, which are the stored ones if it is quantized.

    Raises:
      CheckpointError: they differ.
    """
    pairs = [(have, want)]
    if not isinstance(have, np.ndarray) and not isinstance(want, np.ndarray):
        pairs = [*zip(have.stored, want.stored, strict=True)]
    if not all(_equal(one, other) for one, other in pairs):
        raise CheckpointError(
            f"{op}: {key!r} is tied to {source!r}, but their values differ. Add {key!r} to spec,"
            " and remove it from tied=."
        )


def _equal(have: object, want: object) -> bool:
    if not isinstance(have, np.ndarray) or not isinstance(want, np.ndarray):
        return False  # only one of them is quantized
    step = max(1, _ROWS * len(have) // max(1, have.nbytes)) if have.ndim else 1
    starts = range(0, len(have), step) if have.ndim else ()
    parts = [slice(start, start + step) for start in starts] if have.ndim else [()]
    return all(_equal_bits(have[part], want[part]) for part in parts)


def _equal_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return native_order(one).tobytes() == native_order(other).tobytes()


# --- from a tree ----------------------------------------------------------------------------------


@checks_signature
def to_state_dict(
    tree: PyTree,
    spec: Spec,
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    tied: Tied | None = None,
) -> dict[str, np.ndarray]:
    """Convert a tree of named arrays to a state dict, the inverse of `from_state_dict`.

    Gradients of the tree have the same spec, so this function also names them for a comparison.

    Communication: every array is gathered on the host, one tensor at a time.

    Args:
      tree: a pytree with an array at each place of `spec`. The order of its axes does not matter.
      spec: as in `from_state_dict`.
      sizes: sizes of labels that do not follow from the axes of the arrays: all but one of the
        labels in parentheses on the right. Default: none.
      numbers: the numbers of labels in keys, as in `from_state_dict`. Default: none.
      tied: as in `from_state_dict`. A tied key is not in the result. If `spec` has it, both arrays
        must have equal bits. Default: none.

    Returns:
      A dict from keys to NumPy arrays, in the order of `spec`.

    Raises:
      CheckpointError: the tree lacks a place or has others, or an array has other axes or sizes
        than its pattern.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: a key pattern, a place, `numbers` or `tied` is malformed.
      ArgumentTypeError: `spec` has an invalid type, or a leaf is traced or not an array.

    >>> import jax.numpy as jnp, namedax as nx
    >>> tree = {"query": nx.named(jnp.ones((5, 3, 2)), ["embed", "heads", "key"])}
    >>> spec = {"q.weight": ("query", "(heads key) e -> {embed=e, heads, key}")}
    >>> {key: tensor.shape for key, tensor in nx.interop.to_state_dict(tree, spec).items()}
    {'q.weight': (6, 5)}
    """
    op = "to_state_dict"
    return {
        key: out.gather() for key, out in outgoing(tree, spec, sizes, numbers, tied, op).items()
    }


class Outgoing:
    """A tensor that is gathered on request."""

    def __init__(self, header: Header, gather: Callable[[], np.ndarray]):
        self.header, self.gather = header, gather


def outgoing(
    tree: PyTree,
    spec: Spec,
    sizes: Sizes | None,
    numbers: NumbersByLabel | None,
    tied: Tied | None,
    op: str,
) -> dict[str, Outgoing]:
    """Return the tensors of a tree, by their keys, after all checks."""
    entries, ties = parse_spec(spec, numbers, op), parse_tied(tied, op)
    leaves = _leaves(tree, op)
    problems: list[str] = []
    found: dict[str, Outgoing] = {}
    left_over = dict.fromkeys(leaves)
    for entry in entries:
        left_over.pop(entry.place_text, None)
    for _, group in itertools.groupby(entries, key=lambda entry: entry.key):
        parts = [*group]
        absent = [entry for entry in parts if entry.place_text not in leaves]
        problems += [
            f"the tree has no array at {entry.place_text!r}, for {entry.key!r}."
            f"{did_you_mean(entry.place_text, left_over)}"
            for entry in absent
        ]
        if not absent:
            problems += _add(found, parts, leaves, sizes, op)
    problems += [
        f"the tree has {place!r}, {type_text(leaves[place])}, which has no key. Add an entry to"
        " spec, or remove the array from the tree."
        for place in left_over
    ]
    raise_problems(problems, "the tree", op)
    for key in [key for key in ties if key in found]:
        source = ties[key]
        if source not in found:
            raise CheckpointError(
                f"{op}: {key!r} is tied to {source!r}, which spec does not contain. Tie it to one"
                f" of the keys of spec.{did_you_mean(source, found)}"
            )
        if found[key].header != found[source].header:
            raise CheckpointError(
                f"{op}: {key!r}, {found[key].header.text}, is tied to {source!r},"
                f" {found[source].header.text}. Tied tensors are equal. Remove it from tied=."
            )
        check_tied(key, source, found[key].gather(), found[source].gather(), op)
    return {key: out for key, out in found.items() if key not in ties}


def _leaves(tree: PyTree, op: str) -> dict[str, Any]:
    """Return the leaves of a tree by their places."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_named):
        place = "/".join(_part(key) for key in path)
        leaf = on_host(leaf) if isinstance(leaf, NamedArray) else native_order(leaf)
        data = data_of(leaf)
        if isinstance(data, jax.core.Tracer) or not isinstance(data, (jax.Array, np.ndarray)):
            why = "has no values while it is traced" if hasattr(data, "dtype") else "is no array"
            raise ArgumentTypeError(
                f"{op}: {place!r} of the tree, {format_value(leaf)}, {why}. Pass a tree of arrays,"
                " outside of traced and mapped functions."
            )
        header_of(place, data, op)
        found[place] = leaf
    return found


def _part(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


class _Solved(NamedTuple):
    """An entry in the order of the axes of its array."""

    entry: Entry
    data: Any
    known: dict[Hashable, int]  # the sizes of its labels


def _add(
    found: dict[str, Outgoing],
    parts: Sequence[Entry],
    leaves: Mapping[str, Any],
    sizes: Sizes | None,
    op: str,
) -> list[str]:
    """Add the tensors of the entries of one key to `found`, and return problems."""
    solved: list[_Solved] = []
    for entry in parts:
        leaf = leaves[entry.place_text]
        one = _solve_leaf(entry, leaf, sizes, op)
        what = f"{entry.place_text!r}, {type_text(leaf)}, for {entry.key!r}"
        if isinstance(one, list):
            return [f"{what}: {fault}" for fault in one]
        solved.append(one)
        first = solved[0]
        if one.known != first.known or one.data.dtype != first.data.dtype:
            shown = type_text(leaves[first.entry.place_text])
            return [
                f"{what}: it differs from {first.entry.place_text!r}, {shown}. The parts of one"
                " tensor have equal sizes and dtypes."
            ]
    entry, data, known = solved[0]
    of_tensor = tuple(math.prod(known[label] for label in term.axes) for term in entry.left)
    header = Header(of_tensor, np.dtype(data.dtype))
    for key, gather in tensors_of([(one.entry, one.data) for one in solved], known):
        if key in found:
            return [f"{what}: its key {key!r} is that of another entry of spec."]
        found[key] = Outgoing(header, gather)
    return []


def _solve_leaf(entry: Entry, leaf: Any, sizes: Sizes | None, op: str) -> _Solved | list[str]:
    """Return the sizes of the labels of an array, or problems."""
    data = data_of(leaf)
    dims = positions(leaf, op) if isinstance(leaf, NamedArray) else (None,) * data.ndim
    wanted = [dim for dim in entry.dims if dim is not None]
    have = [dim for dim in dims if dim is not None]
    if set(have) != set(wanted) or len(dims) != len(entry.dims):
        return [f"the pattern {entry.pattern!r} has the named axes {show_names(wanted)}."]
    positional = iter([axis for axis, dim in enumerate(dims) if dim is None])
    order = [next(positional) if dim is None else dims.index(dim) for dim in entry.dims]
    entry = entry.in_order([order.index(axis) for axis in range(data.ndim)])
    equations = [
        Equation(term.axes, size, f"axis {place if term.name is None else term.name!r}")
        for place, (term, size) in enumerate(zip(entry.right, data.shape, strict=True))
    ]
    equations += equations_of_part(entry)
    equations += [
        Equation((label,), len(of.values), f"the number {label!r} of keys")
        for label, of in zip(entry.numbers, entry.ranges, strict=True)
        if of.values is not None
    ]
    known, problems = solve(entry, equations, sizes, op)
    return problems or _Solved(entry, data, known)
