"""Array types as annotations, and `checked`, which checks a function's arguments and results.

An annotation has a dtype, a positional shape and a named shape, in the format in which arrays print
their type:

    f32[(5,), {"batch": 20}]      positional shape (5,), named shape {batch: 20}
    f32["n", {"batch", "k"}]      one positional axis of size n (a variable), and two named axes
    f32[{"batch": "b", "k": 7}]   no positional axis; the size of batch is the variable b
    f32[3, "n"], f32[()]          no named axes
    f32[..., {"batch"}]           any positional axes
    f32[3, {"batch", ...}]        at least the axis batch; with sizes: {"batch": 20, ...: ...}
    f32                           any shape

A size is an integer, a size variable (a string; one variable has one size within one call), or open
(`None`). The comparison runs in Python, on types alone: `checked` adds no operation to a traced
program.

This module exports the public names. `array_types` defines the dtypes and the array types
that their square brackets make. `checking` compares a value with these, and with annotations that
contain them, describes the differences, and checks the arguments and results of functions.
"""

from namedax.core.annotations import ArrayLike as ArrayLike
from namedax.core.annotations import AxisSpec as AxisSpec
from namedax.core.annotations import EitherArray as AnyArray
from namedax.typing.array_types import ArrayType as ArrayType
from namedax.typing.array_types import ElementType as ElementType
from namedax.typing.array_types import any_ as any_
from namedax.typing.array_types import bf16 as bf16
from namedax.typing.array_types import bool_ as bool_
from namedax.typing.array_types import c64 as c64
from namedax.typing.array_types import c128 as c128
from namedax.typing.array_types import complexfloating as complexfloating
from namedax.typing.array_types import element_type as element_type
from namedax.typing.array_types import f16 as f16
from namedax.typing.array_types import f32 as f32
from namedax.typing.array_types import f64 as f64
from namedax.typing.array_types import floating as floating
from namedax.typing.array_types import i8 as i8
from namedax.typing.array_types import i16 as i16
from namedax.typing.array_types import i32 as i32
from namedax.typing.array_types import i64 as i64
from namedax.typing.array_types import inexact as inexact
from namedax.typing.array_types import integer as integer
from namedax.typing.array_types import key as key
from namedax.typing.array_types import number as number
from namedax.typing.array_types import signedinteger as signedinteger
from namedax.typing.array_types import u8 as u8
from namedax.typing.array_types import u16 as u16
from namedax.typing.array_types import u32 as u32
from namedax.typing.array_types import u64 as u64
from namedax.typing.array_types import unsignedinteger as unsignedinteger
from namedax.typing.checking import check as check
from namedax.typing.checking import checked as checked
from namedax.typing.checking import matches as matches

__all__ = [
    "AnyArray",
    "ArrayLike",
    "ArrayType",
    "AxisSpec",
    "ElementType",
    "any_",
    "bf16",
    "bool_",
    "c64",
    "c128",
    "check",
    "checked",
    "complexfloating",
    "element_type",
    "f16",
    "f32",
    "f64",
    "floating",
    "i8",
    "i16",
    "i32",
    "i64",
    "inexact",
    "integer",
    "key",
    "matches",
    "number",
    "signedinteger",
    "u8",
    "u16",
    "u32",
    "u64",
    "unsignedinteger",
]


def __dir__() -> list[str]:
    return __all__
