"""Differences between the structures of two pytrees, for error messages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jax.tree_util import KeyPath, PyTreeDef

from namedax.errors import closest, format_value

__all__ = ["ELEMENT", "Label", "children", "key_of", "tree_differences"]

# A text with {} in place of the path, or a function of the path.
Label = str | Callable[[KeyPath[Any]], str]

_MOST_DIFFERENCES, _MOST_KEYS = 3, 6


class _Element:
    """A leaf of a tree that is rebuilt from its structure."""


ELEMENT = _Element()


def tree_differences(
    have: PyTreeDef,
    want: PyTreeDef,
    labels: tuple[Label, Label],
    placeholder: object = ...,
) -> str:
    """Return sentences about the differences of two structures; empty if there is none.

    Args:
      have: the structure that the user passed.
      want: the structure that it should have.
      labels: the text of a place in each of them.
      placeholder: a node of `have` that may stand for any subtree of `want`: `ELEMENT` if `have`
        may be a prefix, or `None`. Default: none.

    >>> import jax
    >>> from namedax.messages.tree_differences import tree_differences
    >>> have, want = map(jax.tree.structure, ({"bias1": 1, "w": 2}, {"bias": 1, "w": 2}))
    >>> tree_differences(have, want, ("out_axes{}", "the result{}"))
    "the result['bias'] is missing from out_axes; out_axes['bias1'] is not in the result. Did you
    mean 'bias' instead of 'bias1'?"
    """
    if have == want:
        return ""
    comparison = _Comparison(_text_of(labels[0]), _text_of(labels[1]), placeholder)
    found = list(comparison.of(_rebuilt(have), _rebuilt(want), ()))
    if not found:  # equal up to placeholders, or nodes of one key
        return "" if placeholder is not ... else comparison.unlike(()).text + "."
    texts = [difference.text for difference in found[:_MOST_DIFFERENCES]]
    if more := len(found) - len(texts):
        texts.append(f"and {more} more difference{'s' if more > 1 else ''}")
    hints = dict.fromkeys(difference.hint for difference in found[:_MOST_DIFFERENCES])
    return f"{'; '.join(texts)}.{''.join(hints)}"


def children(node: object) -> list[tuple[Any, Any]] | None:
    """Return the keys and children of a node of a pytree; `None` for a leaf."""
    flat, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda inner: inner is not node)
    if len(flat) == 1 and not flat[0][0]:
        return None
    return [(path[0], child) for path, child in flat]


def key_of(entry: object) -> Hashable:
    """Return the key, index or name in an element of a path."""
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            found: Hashable = getattr(entry, attribute)
            return found
    return str(entry)


def _rebuilt(structure: PyTreeDef) -> Any:
    return structure.unflatten([ELEMENT] * structure.num_leaves)


def _text_of(label: Label) -> Callable[[KeyPath[Any]], str]:
    if isinstance(label, str):
        return lambda path: label.format(jax.tree_util.keystr(path))
    return label


class _Difference(NamedTuple):
    text: str
    hint: str = ""


class _Comparison(NamedTuple):
    """The comparison of two trees: the texts of their places, and the placeholder."""

    have_text: Callable[[KeyPath[Any]], str]
    want_text: Callable[[KeyPath[Any]], str]
    placeholder: object

    def of(self, have: Any, want: Any, path: KeyPath[Any]) -> Iterator[_Difference]:
        """Yield the differences of two subtrees at the same path."""
        if have is self.placeholder or have is want is ELEMENT:
            return
        ours, theirs = children(have), children(want)
        if ours is None or theirs is None or _kind(have) != _kind(want):
            yield _Difference(
                f"{self.have_text(path)} is {_describe(have)}, but {self.want_text(path)} is"
                f" {_describe(want)}"
            )
            return
        mine, needed = dict(ours), dict(theirs)
        missing = [key for key in needed if key not in mine]
        extra = [key for key in mine if key not in needed]
        for key in missing:
            yield _Difference(
                f"{self.want_text((*path, key))} is missing from {self.have_text(())}"
            )
        for key in extra:
            yield _Difference(
                f"{self.have_text((*path, key))} is not in {self.want_text(())}",
                _hint(key_of(key), map(key_of, missing)),
            )
        if not missing and not extra and _structure(have) != _structure(want):
            yield self.unlike(path)
        for key in mine:
            if key in needed:
                yield from self.of(mine[key], needed[key], (*path, key))

    def unlike(self, path: KeyPath[Any]) -> _Difference:
        """Return the difference of two nodes whose children have the same keys."""
        return _Difference(
            f"{self.have_text(path)} and {self.want_text(path)} have different static fields"
        )


def _hint(key: Hashable, candidates: Iterable[Hashable]) -> str:
    close = closest(key, candidates)
    if close is None:
        return ""
    return f" Did you mean {format_value(close)} instead of {format_value(key)}?"


def _structure(node: object) -> PyTreeDef:
    """Return the structure of a node, without those of its children."""
    return jax.tree.structure(node, is_leaf=lambda inner: inner is not node)


def _kind(node: Any) -> Hashable:
    """Return the class of a node, and the length of a list or tuple."""
    return type(node), len(node) if type(node) in (list, tuple) else None


def _describe(node: Any) -> str:
    if node is ELEMENT:
        return "a single value"
    if node is None:
        return "None"
    name = type(node).__name__
    text = f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    if isinstance(node, Mapping):
        return f"{text} with {_describe_keys(node)}"
    return f"{text} of length {len(node)}" if type(node) in (list, tuple) else text


def _describe_keys(keys: Iterable[Hashable]) -> str:
    texts = [format_value(key) for key in keys]
    if len(texts) > _MOST_KEYS:
        texts[_MOST_KEYS - 1 :] = [f"... ({len(texts)} keys)"]
    return f"the key{'s' if len(texts) > 1 else ''} {', '.join(texts)}" if texts else "no keys"
