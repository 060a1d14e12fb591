"""Quantized tensors of state dicts, dequantized while they are read.

A quantized tensor is stored as two: its values, and one scale for each block of them. In this
module they are one tensor with the key, the shape and the axes that it has without quantization. A
device block reads and dequantizes only the elements that it needs, a few at a time.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from namedax.errors import ArgumentError, ArgumentTypeError, did_you_mean, format_value
from namedax.interop.specs import Header

__all__ = [
    "Dequantized",
    "QuantizationConfig",
    "Quantized",
    "Reader",
    "dequantized",
    "parse_quantization",
]

QuantizationConfig = str | Mapping[str, Any]


class Quantization(NamedTuple):
    """A method of quantization."""

    method: str
    block: tuple[int, int] = (128, 128)  # of rows and columns, for "fp8"

    @property
    def suffixes(self) -> tuple[str, str]:
        """Return the suffixes of the keys of values and of scales."""
        return ("_blocks", "_scales") if self.method == "mxfp4" else ("", "_scale_inv")


def parse_quantization(config: QuantizationConfig | None, op: str) -> Quantization | None:
    """Parse `quantization=`: the name of a method, or the part of a `config.json`.

    Raises:
      ArgumentTypeError: it is not a string or a dict.
      ArgumentError: the method is not supported, or its blocks are invalid.
    """
    if config is None:
        return None
    entries = {"quant_method": config} if isinstance(config, str) else config
    if not isinstance(entries, Mapping):
        raise ArgumentTypeError(
            f"{op}: quantization is {format_value(config)}, not a string or a dict. Pass"
            ' quantization="mxfp4", quantization="fp8", or the entry "quantization_config" of a'
            " config.json."
        )
    method = entries.get("quant_method")
    if method not in ("mxfp4", "fp8"):
        raise ArgumentError(
            f"{op}: the method of quantization is {format_value(method)}."
            f"{did_you_mean(method, ['mxfp4', 'fp8'])} The supported ones are 'mxfp4' and 'fp8'."
        )
    block = entries.get("weight_block_size", [128, 128])
    if method == "fp8" and (
        not isinstance(block, (list, tuple))
        or len(block) != 2
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in block)
    ):
        raise ArgumentError(
            f"{op}: 'weight_block_size' of quantization is {format_value(block)}, not two sizes."
            " Only scales of blocks are supported, such as [128, 128]."
        )
    return Quantization(method, tuple(block)) if method == "fp8" else Quantization(method)


# --- tensors --------------------------------------------------------------------------------------

_FLOAT8 = np.dtype(jnp.float8_e4m3fn)
_FLOAT8_VALUES = np.arange(256, dtype=np.uint8).view(_FLOAT8).astype(np.float32)
_GROUP = 32  # values with one scale in MXFP4
# Twice the values of 4 bits, and half of the power of two of each exponent, whose bias is 127. So
# the power of the exponent 255 is finite, and zeros stay zeros, as in Transformers.
_TWICE = np.asarray([0, 1, 2, 3, 4, 6, 8, 12], np.float32)
_TWICE = np.concatenate([_TWICE, -_TWICE])
_HALF_POWERS = np.ldexp(np.float32(1), np.arange(256) - 128)
# The two values of each byte, the low four bits first, as one item of 8 bytes.
_PAIRS = np.stack([np.tile(_TWICE, 16), np.repeat(_TWICE, 16)], 1).view(np.uint64)[:, 0]


class Quantized(Protocol):
    """A quantized tensor.

    Attributes:
      stored: the tensors in which it is stored.
      order: its axes in the order of the stored values.
    """

    stored: tuple[np.ndarray, np.ndarray]
    order: tuple[int, ...]

    def take(self, index: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
        """Return the dequantized elements at the product of ascending indices of each axis."""
        ...


class _Mxfp4:
    """A tensor with the axes `x`, `k`, `n` from 4-bit floats, as in GPT-OSS.

    Bytes with two values have the axes `x`, `n`, groups of 32 along `k`, and 16. Their exponents
    have the axes `x`, `n` and groups.
    """

    order: tuple[int, ...] = (0, 2, 1)

    def __init__(self, blocks: np.ndarray, scales: np.ndarray):
        self.stored = blocks, scales

    def take(self, index: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
        blocks, scales = self.stored
        x, k, n = index
        groups = np.unique(k // _GROUP)
        pairs = np.take(_PAIRS, _select(blocks, [x, n, groups, np.arange(_GROUP // 2)]))
        values = pairs.view(np.float32)
        values *= np.take(_HALF_POWERS, _select(scales, [x, n, groups]))[..., None]
        values = values.reshape(len(x), len(n), len(groups) * _GROUP)
        place = np.searchsorted(groups, k // _GROUP) * _GROUP + k % _GROUP
        values = _select(values, [np.arange(len(x)), np.arange(len(n)), place])
        return values.astype(dtype, copy=False).transpose(0, 2, 1)


class _Float8:
    """A tensor of 8-bit floats with a scale for each block of its last two axes."""

    def __init__(self, values: np.ndarray, scales: np.ndarray, block: tuple[int, int]):
        self.stored, self.block = (values, scales), block
        self.order: tuple[int, ...] = tuple(range(values.ndim))

    def take(self, index: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
        stored, scales = self.stored
        *leading, rows, columns = index
        values = np.take(_FLOAT8_VALUES, _select(stored.view(np.uint8), index))
        of_row, of_column = rows // self.block[0], columns // self.block[1]
        row_blocks, column_blocks = np.unique(of_row), np.unique(of_column)
        scales = _select(scales, [*leading, row_blocks, column_blocks]).astype(np.float32)
        scales = np.take(scales, np.searchsorted(row_blocks, of_row), -2)
        values *= np.take(scales, np.searchsorted(column_blocks, of_column), -1)
        return values.astype(dtype, copy=False)


def _select(array: np.ndarray, index: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements at the product of ascending indices, as a view if possible."""
    slices = [_as_slice(one) for one in index]
    if all(one is not None for one in slices):
        return array[tuple(slices)]
    return array[np.ix_(*index)]


def _as_slice(index: np.ndarray) -> slice | None:
    step = int(index[1] - index[0]) if len(index) > 1 else 1
    first, last = int(index[0]), int(index[-1])
    is_uniform = np.array_equal(index, np.arange(first, last + 1, step))
    return slice(first, last + 1, step) if is_uniform else None


# --- state dicts ----------------------------------------------------------------------------------


class Reader(Protocol):
    """A source of tensors, such as files."""

    def read(self, key: str) -> np.ndarray | Quantized:
        """Return a view of a tensor."""
        ...

    def release(self, key: str) -> None:
        """Release memory that the views of a tensor have used."""
        ...


class Dequantized(NamedTuple):
    """A state dict in which quantized tensors are single tensors.

    Attributes:
      headers: the headers of all tensors.
      sources: the keys of the values and scales of each quantized tensor.
      problems: quantized tensors that are not valid.
      quantization: the method.
    """

    headers: Mapping[str, Header]
    sources: Mapping[str, tuple[str, str]]
    problems: list[str]
    quantization: Quantization | None

    def reader(self, reader: Reader) -> Reader:
        """Return a reader of the tensors from one of the stored tensors."""
        return _Reader(reader, self)


class _Reader:
    def __init__(self, reader: Reader, tensors: Dequantized):
        self.stored, self.tensors = reader, tensors

    def read(self, key: str) -> np.ndarray | Quantized:
        if key not in self.tensors.sources:
            return self.stored.read(key)
        values, scales = map(self.stored.read, self.tensors.sources[key])
        assert isinstance(values, np.ndarray)
        assert isinstance(scales, np.ndarray)
        assert self.tensors.quantization is not None
        if self.tensors.quantization.method == "mxfp4":
            return _Mxfp4(values, scales)
        return _Float8(values, scales, self.tensors.quantization.block)

    def release(self, key: str) -> None:
        for stored in self.tensors.sources.get(key, (key,)):
            self.stored.release(stored)


def dequantized(
    headers: Mapping[str, Header], quantization: Quantization | None, ignore: Sequence[str]
) -> Dequantized:
    """Find the quantized tensors of a state dict.

    Args:
      headers: the headers of the stored tensors.
      quantization: the method, or `None` if quantized tensors stay as they are.
      ignore: patterns of keys that have no problems.
    """
    if quantization is None:
        return Dequantized(headers, {}, [], None)
    of_values, of_scales = quantization.suffixes
    result = dict(headers)
    sources: dict[str, tuple[str, str]] = {}
    problems: list[str] = []
    for key in headers:
        base = key.removesuffix(of_scales)
        values = base + of_values
        if base == key or values not in headers:
            continue
        del result[key], result[values]
        if base in result:
            problems.append(f"{base!r} is stored without quantization, and as {values!r}.")
        check = _mxfp4 if quantization.method == "mxfp4" else _float8
        shape, fault = check(headers[values], headers[key], quantization)
        if fault:
            problems.append(
                f"{values!r}, {headers[values].text}, with {key!r}, {headers[key].text}: {fault}"
            )
        sources[base] = values, key
        result[base] = Header(shape, np.dtype(jnp.bfloat16))
    for key, header in result.items():
        lacks_scales = (
            header.dtype == _FLOAT8
            if quantization.method == "fp8"
            else key.endswith(of_values) and header.dtype == np.uint8
        )
        if lacks_scales and not any(fnmatch.fnmatchcase(key, pattern) for pattern in ignore):
            scales = key.removesuffix(of_values) + of_scales
            problems.append(f"{key!r}, {header.text}, has no scales, {scales!r}.")
    return Dequantized(result, sources, problems, quantization)


def _mxfp4(blocks: Header, scales: Header, _: Quantization) -> tuple[tuple[int, ...], str]:
    """Return the shape of a tensor of MXFP4, and a problem or an empty string."""
    if len(blocks.shape) != 4 or blocks.shape[-1] != _GROUP // 2 or blocks.dtype != np.uint8:
        return blocks.shape, "blocks of mxfp4 are u8 with the axes experts, rows, groups and 16."
    x, n, groups = blocks.shape[:-1]
    if scales != Header((x, n, groups), np.dtype(np.uint8)):
        return blocks.shape, f"these blocks have scales of the type u8[{x},{n},{groups}]."
    return (x, groups * _GROUP, n), ""


def _float8(values: Header, scales: Header, how: Quantization) -> tuple[tuple[int, ...], str]:
    """Return the shape of a tensor of 8-bit floats, and a problem or an empty string."""
    if values.dtype != _FLOAT8 or len(values.shape) < 2:
        return values.shape, "values of fp8 are float8_e4m3fn with at least two axes."
    *leading, rows, columns = values.shape
    shape = (*leading, -(-rows // how.block[0]), -(-columns // how.block[1]))
    if scales.shape != shape or not jnp.issubdtype(scales.dtype, jnp.floating):
        return values.shape, (
            f"blocks of {how.block[0]}x{how.block[1]} values have floating-point scales of shape"
            f" {list(shape)}."
        )
    return values.shape, ""
