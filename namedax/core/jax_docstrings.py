"""Descriptions of parameters and results in the docstrings of JAX, for functions made from its own.

The text is read from the JAX that is installed, so `help` describes the parameters that it has.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax

from namedax.core.functions import summary_of

__all__ = ["Described", "described", "documented", "summary_in_words"]

_SECTION = re.compile(r"(?m)^(Args|Returns|See [Aa]lso):[ ]*\n")
_BODY = re.compile(r"(?:[ \t]+\S.*(?:\n|$)|[ \t]*\n)*")
_ENTRY = re.compile(r"(?m)^(\*{0,2}\w+(?:\s*[,/]\s*\*{0,2}\w+)*)(?:\s*\([^)\n]*\))?\s?:(?:\s+|$)")
_ALIAS = re.compile(r"Alias (?:of|for) (?::\w+:)?`~?(?:jax|jnp)\.([\w.]+)`")

#: What parameters mean that docstrings of JAX leave out.
_PARAMETERS = {
    "a": "an array, named or not.",
    "args": "arrays, named or not.",
    "algorithm": "the algorithm of the generator; by default that of the platform.",
    "allow_pickle": "whether objects may be pickled; by default `True`.",
    "arr": "an array without names.",
    "array": "an array, named or not.",
    "ary": "an array, named or not.",
    "arys": "arrays, named or not.",
    "axes": "the positional axes that the indices select from, one for each index array.",
    "b": "an array, named or not.",
    "base_dilation": "the distance between elements of the operand, one number for each axis.",
    "batch_group_count": "the number of groups of the batch; by default 1.",
    "casting": "`'no'`, `'equiv'`, `'safe'` (default), `'same_kind'` or `'unsafe'`.",
    "computation": "a function of two values that combines them, associative and commutative.",
    "dimension": "the positional axis whose indices are counted.",
    "dimension_numbers": "the meaning of the axes of operand, kernel and result.",
    "dimensions": "positional axes.",
    "dtype": "a dtype.",
    "exponent_bits": "the number of bits of the exponent.",
    "fft_lengths": "the sizes of the transformed axes, the last ones.",
    "fft_type": "`'FFT'`, `'IFFT'`, `'RFFT'` or `'IRFFT'`, or a `jax.lax.FftType`.",
    "file": "a path, or an open file.",
    "from_": "a dtype, or an array.",
    "global_scale": "one scale for all blocks; by default `None`, no such scale.",
    "idxs": "arrays of indices, one for each of `axes`.",
    "impl_spec": "the implementation of the generator; by default `None`, the configured one.",
    "indices_or_sections": "the number of equal parts, or the indices at which parts begin.",
    "init_values": "the initial value of each operand, a scalar.",
    "k": "the number of elements to find.",
    "kw": "keyword arguments for the functions.",
    "kwargs": "as for the function of NumPy.",
    "kwds": "arrays without names, by the names that they have in the file.",
    "key": "a random key, or a named array of keys.",
    "keys": "random keys, named or not.",
    "lhs": "the left operand, named or not.",
    "lhs_shape": "the shape of the left operand.",
    "m": "the order, named or not.",
    "mantissa_bits": "the number of bits of the mantissa.",
    "max": "the upper bound, named or not.",
    "min": "the lower bound, named or not.",
    "mode": "the format of the blocks, `'nvfp4'` or `'mxfp8'`.",
    "operand": "an array, named or not.",
    "operand_shape": "the shape of the operand.",
    "operands": "arrays, named or not.",
    "out": "must be left out: arrays are immutable.",
    "out_sharding": "the sharding of the result, for arrays without names; by default `None`.",
    "overwrite_b": "ignored; by default `False`.",
    "padding": "the padding before and after each axis, or `'SAME'` or `'VALID'`.",
    "pads": "the padding before and after each axis.",
    "permutation": "the positional axes in their new order.",
    "precision": "the precision of the multiplication; by default `None`, the configured one.",
    "prevent_mlir_dce": "whether the compiler must keep the value, too; by default `False`.",
    "prototype": "an array, named or not, whose shape and dtype the result has.",
    "q": "an array, named or not.",
    "rank": "the number of positional axes of the result.",
    "rhs": "the right operand, named or not.",
    "rhs_shape": "the shape of the right operand.",
    "shape": "the sizes of the positional axes.",
    "size": "the number of elements.",
    "src": "an array, named or not.",
    "strides": "the distance between windows, one number for each axis.",
    "strip_zeros": "whether leading zeros are removed; by default `True`. In `jit` only `False`.",
    "to": "a dtype.",
    "use_consistent_padding": "whether padding counts as in a convolution; by default `False`.",
    "val": "a pytree of arrays.",
    "where": "must be left out; `nx.where` selects elements.",
    "window_dilation": "the distance between elements of a window, one number for each axis.",
    "window_dimensions": "the size of a window, one number for each axis.",
    "window_strides": "the distance between windows, one number for each axis.",
    "x": "an array, named or not.",
    "y": "an array, named or not.",
}
#: The results of functions that JAX does not describe.
_RETURNS = {
    "after_all": "A token.",
    "can_cast": "A `bool`.",
    "conv_general_permutations": "Three permutations: of the axes of operand, kernel and result.",
    "conv_shape_tuple": "A tuple of sizes.",
    "create_token": "A token.",
    "fromfile": "Nothing: it raises an error.",
    "fromiter": "Nothing: it raises an error.",
    "get_scaled_dot_general_config": "A configuration for `jax.nn.scaled_dot_general`.",
    "iterable": "A `bool`.",
    "key_dtype": "A dtype.",
    "rng_bit_generator": "The new key, and an array of random bits.",
    "rng_uniform": "An array of samples.",
    "shape_as_value": "An array of the sizes.",
    "stage": "An array.",
}
#: What functions do for which JAX has no sentence.
_SUMMARIES = {
    "can_cast": "Return True if one dtype can be cast to another by a rule.",
    "conv_general_shape_tuple": "Return the shape of the result of a convolution.",
    "conv_transpose_shape_tuple": "Return the shape of the result of a transposed convolution.",
    "dce_sink": "Keep a value in a program although nothing uses it.",
    "fft": "Apply a Fourier transform over the last positional axes.",
    "get_printoptions": "Return the options of NumPy for printing arrays.",
    "index_take": "Select elements by index arrays along some positional axes.",
    "printoptions": "Set the options of NumPy for printing arrays within a `with` block.",
    "random_gamma_grad": "Return the derivative of a gamma sample for its shape parameter.",
    "reduce_window_shape_tuple": "Return the shape of the result of a reduction over windows.",
    "solve_sylvester": "Solve the Sylvester equation `A X + X B = C`.",
    "set_printoptions": "Set the options of NumPy for printing arrays.",
}


@dataclasses.dataclass(frozen=True)
class Described:
    """The content of a docstring.

    Attributes:
      summary: the first paragraph, without indentation.
      parameters: the description of each parameter.
      returns: the description of the result, or the empty string.
      see_also: the functions that it refers to, such as `"numpy.exp2"`.
    """

    summary: str
    parameters: Mapping[str, str]
    returns: str
    see_also: tuple[str, ...]


def described(function: Callable[..., Any]) -> Described:
    """Return the content of the docstring of a function, or of the one that it is an alias of."""
    target = _target(function)
    sections = _sections(inspect.getdoc(target) or "")
    return Described(
        summary_of(target),
        _entries(sections.get("Args", "")),
        sections.get("Returns", ""),
        tuple(re.findall(r":\w+:`~?jax\.([\w.]+)`", sections.get("See also", ""))),
    )


def documented(
    function: Callable[..., Any],
    *paragraphs: str,
    name: str = "",
    communication: str = "none.",
    axes: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
    names: str = "Named axes of the arguments are axes of the result.",
) -> str:
    """Return the docstring of a function that is made from one of JAX's.

    Args:
      function: the function of JAX.
      paragraphs: the paragraphs after the summary.
      name: the name of the function; by default its own.
      communication: what it sends; empty for what is not said.
      axes: the parameters that take axis names too.
      more: the descriptions of parameters that JAX's function does not have.
      names: the names of the result.
    """
    known, name = described(function), name or getattr(function, "__name__", "")
    entries = {
        parameter: known.parameters.get(parameter) or _PARAMETERS.get(parameter, "")
        for parameter in _parameters(function, known.parameters)
    }
    for parameter in axes:
        entries[parameter] += "\nAlso an axis name, or a tuple of names and positions."
    entries |= more
    lines = [f"  {entry}: {_hanging(text, 4)}" for entry, text in entries.items()]
    returns = "\n\n".join(filter(None, [known.returns or _RETURNS.get(name, ""), names]))
    parts = [
        _sentence(known.summary, name),
        *paragraphs,
        "\n".join(["Args:", *lines]) if lines else "",
        f"Returns:\n  {_hanging(returns, 2)}" if returns else "",
        f"Communication: {communication}" if communication else "",
    ]
    return "\n\n".join(filter(None, parts))


def summary_in_words(function: Callable[..., Any]) -> str:
    """Return a sentence that says what a function of JAX does."""
    return _sentence(described(function).summary, getattr(function, "__name__", ""))


def _sentence(summary: str, name: str) -> str:
    if not summary or re.match(r"\w+\(|Alias of", summary) or ".. math" in summary:
        summary = _SUMMARIES.get(name, summary)
    return f"{summary[:1].upper()}{summary[1:].rstrip('. ')}." if summary else ""


def _parameters(function: Callable[..., Any], described: Mapping[str, str]) -> list[str]:
    """Return the parameters to describe: for `*args` the operands that the docstring names."""
    # Reading a signature takes longer than reading the docstring, and an import must not take long.
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return [name for name in names if not name.startswith("_")]
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return list(described)
    found = []
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL and name not in described:
            found += [one for one in described if one not in parameters] or [name]
        elif not name.startswith("_"):
            found.append(name)
    return found


def _hanging(text: str, indent: int) -> str:
    return textwrap.indent(text, " " * indent).strip()


def _target(function: Callable[..., Any]) -> Callable[..., Any]:
    found = _ALIAS.match(summary_of(function))
    if found is None:
        return function
    value: Any = jax
    for part in found[1].split("."):
        value = getattr(value, part, None)
    return function if value is None or value is function else _target(value)


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring, each up to the next line that is not indented."""
    found: dict[str, str] = {}
    for match in _SECTION.finditer(doc):
        body = _BODY.match(doc, match.end())
        text = textwrap.dedent(body[0] if body else "").strip("\n")
        found.setdefault(match[1].replace("Also", "also"), text)
    return found


def _level(block: str) -> str:
    """Return a paragraph with the indentation of its first line; what has a list stays as it is."""
    if re.search(r"(?m)^\s*(?:[-*+]|\w+[.)]|>>>)\s|::|^\s*\.\.", block):
        return block
    indent = block[: len(block) - len(block.lstrip())]
    return "\n".join(indent + line.strip() for line in block.split("\n"))


def _entries(section: str) -> dict[str, str]:
    found = {}
    heads = list(_ENTRY.finditer(section))
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(section)
        first, _, rest = section[head.end() : end].partition("\n")
        blocks = map(_level, re.split(r"\n\s*\n", textwrap.dedent(rest).rstrip()))
        text = "\n".join([first.strip(), "\n\n".join(blocks)]).strip()
        for name in re.split(r"\s*[,/]\s*", head[1]):
            found[name.lstrip("*")] = text
    return found
