"""Notes on errors of JAX in code with named arrays."""

from __future__ import annotations

from types import TracebackType

from namedax.errors import NamedaxError
from namedax.messages.jax_errors import ErrorKind, named_result, recognize

__all__ = ["add_note", "explain_type_errors"]

_NOTES = {
    ErrorKind.NAMED_ARRAY: (
        "namedax: a function that takes positional arrays got a named array. Lift the function over"
        " the names with nx.nmap(function), or call its namesake in namedax (nx.numpy, nx.lax,"
        " nx.nn)."
    ),
    ErrorKind.EINSUM: (
        "namedax: JAX's einsum takes letters only. nx.einsum takes names too, in braces, one pair"
        " of braces for each operand: '{batch, k}, {k, out} -> {batch, out}'."
    ),
    ErrorKind.SHARD_MAP_MESH: (
        "namedax: a jax.shard_map in a mapped function already has its mesh. Leave mesh= out, and"
        " list the mesh axes without names that it maps: jax.shard_map(f, axis_names={'y'},"
        " in_specs=..., out_specs=...)."
    ),
    ErrorKind.VARIANCE: (
        "namedax: a loop or a branch of JAX combines a value that is the same on every device, such"
        " as a constant in a carry, with blocks of named arrays, which vary over mesh axes. Solvers"
        " of other libraries (diffrax, optimistix, lineax, blackjax) do that. Map the function that"
        " the solver calls (the vector field, the loss), f = nx.xmap(field, ...,"
        " axis_resources=...), and call the solver outside of the mapped function. A loop of your"
        " own casts its carry if it is nx.scan, nx.fori_loop, nx.while_loop or nx.cond."
    ),
}
_XEINSUM = "namedax: JAX removed xeinsum together with xmap. Use nx.einsum, with names in braces."


def _note_on(error: BaseException) -> str | None:
    """Return the note for an error of JAX in code with named arrays."""
    if isinstance(error, AttributeError) and error.name == "xeinsum":
        return _XEINSUM
    kind = recognize(error)
    if kind is ErrorKind.GRADIENT_OF_NAMES:
        return (
            f"namedax: the differentiated function returns {named_result(error)}, but a gradient"
            " needs a scalar. Reduce the remaining names in the function: nx.mean(loss, axis=...)"
            " reduces all of them."
        )
    return None if kind is None else _NOTES.get(kind)


def add_note(error: BaseException) -> None:
    """Add a note to an error of JAX that rejects named arrays."""
    note = None if isinstance(error, NamedaxError) else _note_on(error)
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


class _ExplainTypeErrors:
    """Adds the note to an error, as a context manager without state."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            add_note(error)


explain_type_errors = _ExplainTypeErrors()
