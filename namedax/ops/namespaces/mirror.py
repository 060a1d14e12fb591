"""Give the named versions of functions the signatures of JAX's functions.

Porting replaces an import: each call that JAX accepts, with its parameter names, their order and
their defaults, must work here. A named version may have more parameters (`out_axis=`,
`named_shape=`) and other parameter names (`x` for JAX's `a`), and may lack a parameter that does
not apply to named axes (`out=`). `mirror` wraps it in a function with JAX's signature. Calls
without any name go to JAX's own function, which handles them as before. Other calls go to the named
version; an argument that it lacks raises an error.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np

from namedax.core.array import is_named
from namedax.core.display import type_text
from namedax.core.element_types import accumulation_type, in_native_order
from namedax.core.region import ambient
from namedax.errors import UnsupportedArgumentError
from namedax.messages.call_errors import bound, check_flags, flags_of, reject_miscall
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.namespaces.docstrings import with_parameters
from namedax.ops.operands.along_axes import names_in
from namedax.ops.operands.axes import AXIS_PARAMETERS, holds_names
from namedax.ops.operands.dispatch import call_program
from namedax.ops.operands.explanations import explain_call
from namedax.ops.operands.nmap import Lifted

__all__ = ["mirror", "public"]


# Hints to the compiler, which change no value; named versions ignore them.
_HINTS = frozenset({"optimize", "overwrite_input", "unique_indices", "indices_are_sorted"})


_EMPTY = inspect.Parameter.empty
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def public(module: types.ModuleType) -> list[str]:
    """Return the public names of a module without its submodules.

    Deprecated names are excluded: JAX creates them on access, with a warning.
    """
    return [
        name
        for name, value in vars(module).items()
        if not (name.startswith("_") or isinstance(value, types.ModuleType))
    ]


def mirror(
    theirs: Callable[..., Any],
    own: Callable[..., Any],
    module: str,
    *,
    always: bool = False,
    also: Collection[str] = (),
) -> Callable[..., Any]:
    """Wrap `own` in a function with the signature of `theirs`.

    Args:
      theirs: the function of JAX.
      own: its named version.
      module: the namespace of the result.
      always: True if calls without any name also go to `own`, for functions that take functions,
        which may close over named arrays; default: False.
      also: parameters in addition to `AXIS_PARAMETERS` that may be axis names; default: none.

    Returns:
      A function with the parameters of `theirs`, then the other parameters of `own`, by keyword.
      `own` itself, if it has these parameters already.
    """
    if getattr(own, "__wrapped__", None) is theirs:
        return own  # made from JAX's function, with its signature
    plan = _Plan.of(theirs, own)
    if plan is None:
        return own
    axis_parameters = frozenset(AXIS_PARAMETERS) | frozenset(also)
    places = tuple(
        i
        for i, p in enumerate(plan.signature.parameters.values())
        if p.name in axis_parameters and p.kind in _BY_POSITION
    )
    ours = frozenset(plan.extra)
    by_name = axis_parameters | ours

    def has_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return (
            any(holds_names(arg) for arg in args)
            or (args and isinstance(args[0], str) and "{" in args[0])  # a specification of einsum
            or any(i < len(args) and names_in(args[i]) for i in places)
            or any(
                key in ours or holds_names(value) or (key in by_name and names_in(value))
                for key, value in kwargs.items()
            )
        )

    flags = flags_of(theirs)

    def named(*args: Any, **kwargs: Any) -> Any:
        try:
            return plan.call(own, args, kwargs)
        except Exception as error:
            explain_call(name, face, args, kwargs, error)
            raise

    @functools.wraps(own)
    def face(*args: Any, **kwargs: Any) -> Any:
        try:
            if (kwargs and not flags.names.isdisjoint(kwargs)) or len(args) > flags.first:
                check_flags(own.__name__, flags, args, kwargs)
            args, kwargs = in_native_order(args, kwargs)
            if not always and not has_names(args, kwargs):
                region = ambient()
                # In a mapped function a lifted function moves a plain array to the mesh if needed.
                if region is not None and region.resources:
                    return plain(*args, **kwargs)
                try:
                    return theirs(*args, **kwargs)
                except Exception as error:
                    if _has_rare_type(args):
                        return named(*args, **kwargs)
                    reject_miscall(own.__name__, theirs, args, kwargs, error)
                    raise
            return call_program(named, args, kwargs)
        except Exception as error:
            shorten_eager(error)
            raise

    plain = Lifted(theirs, own.__name__)
    name = getattr(theirs, "__name__", own.__name__)
    face.__signature__ = plan.signature  # type: ignore[attr-defined]
    face.__module__, face.__name__, face.__qualname__ = module, name, name
    note = plan.note(f"{module}.{name}".removeprefix("namedax."))
    face.__doc__ = f"{plan.documented(inspect.getdoc(own) or '')}\n\n{note}"
    face._operation = name  # type: ignore[attr-defined]
    return face


def _has_rare_type(args: tuple[Any, ...]) -> bool:
    """Return True if an array is of complex numbers or of a narrow dtype.

    JAX sums no integers below 8 bits, and reduces no complex numbers on a mesh (0.10 to 0.12).
    """
    return any(
        isinstance(x, jax.Array)
        and isinstance(x.dtype, np.dtype)  # a random key has another one
        and (
            x.dtype.kind == "c" or (x.dtype.itemsize <= 1 and accumulation_type(x.dtype) != x.dtype)
        )
        for x in args
    )


def _same(a: object, b: object) -> bool:
    return a is b or (
        isinstance(a, (bool, int, float, str, tuple)) and type(a) is type(b) and a == b
    )


class _Plan:
    """A plan for passing the arguments of one signature to a function with another one.

    Attributes:
      signature: JAX's parameters, then the additional ones of the named version.
      renamed: the parameters of the named version by JAX's parameters.
      extra: the parameters that only the named version has.
      filled: JAX's defaults of parameters for which the named version has another default.
    """

    def __init__(
        self,
        signature: inspect.Signature,
        renamed: Mapping[str, str],
        extra: tuple[str, ...],
        own: inspect.Signature,
    ) -> None:
        self.signature, self.renamed, self.extra, self.own = signature, renamed, extra, own
        self.filled = {
            theirs: signature.parameters[theirs].default
            for theirs, ours in renamed.items()
            if own.parameters[ours].kind in (*_BY_POSITION, inspect.Parameter.KEYWORD_ONLY)
            and not _same(own.parameters[ours].default, signature.parameters[theirs].default)
            and signature.parameters[theirs].default is not _EMPTY
            and (
                isinstance(signature.parameters[theirs].default, (bool, int, float, str, tuple))
                or theirs in AXIS_PARAMETERS
            )
        }

    @classmethod
    def of(cls, theirs: Callable[..., Any], own: Callable[..., Any]) -> _Plan | None:
        """Return the plan for two functions; `None` if `own` can be called as it is.

        This includes functions of JAX whose parameters are not known.
        """
        try:
            jax_signature, signature = inspect.signature(theirs), inspect.signature(own)
        except (TypeError, ValueError):
            return None
        wanted, have = list(jax_signature.parameters.values()), list(signature.parameters.values())
        renamed = {p.name: p.name for p in wanted if p.name in signature.parameters}
        for one, other in zip(wanted, have, strict=False):  # another name for the same place
            if (
                one.name not in renamed
                and other.name not in jax_signature.parameters
                and {one.kind, other.kind} <= {*_BY_POSITION}
            ):
                renamed[one.name] = other.name
        stars = {
            p.kind: p.name
            for p in have
            if p.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        }
        renamed |= {p.name: stars[p.kind] for p in wanted if p.kind in stars}
        extra = tuple(p.name for p in have if p.name not in renamed.values())
        merged = _optional(wanted, renamed, signature)
        beside = [
            signature.parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name in extra
        ]
        rest = [p for p in merged if p.kind is inspect.Parameter.VAR_KEYWORD]
        merged = [p for p in merged if p.kind is not inspect.Parameter.VAR_KEYWORD] + beside + rest
        if [(p.name, p.kind, p.default) for p in merged] == [
            (p.name, p.kind, p.default) for p in have
        ]:
            return None
        typed = [
            p.replace(annotation=_annotation(p, signature.parameters.get(renamed.get(p.name, ""))))
            for p in merged
        ]
        return cls(
            inspect.Signature(typed, return_annotation=signature.return_annotation),
            renamed,
            extra,
            signature,
        )

    def call(self, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `own` with these arguments.

        Raises:
          UnsupportedArgumentError: an argument that `own` lacks is not JAX's default.
        """
        given = bound(own.__name__, self.signature, args, kwargs).arguments
        by_place: list[Any] = []
        by_name: dict[str, Any] = {}
        contiguous = True
        values = {
            self.renamed.get(key, key): self._checked(own, key, value, given)
            for key, value in given.items()
        }
        values |= {
            self.renamed[key]: value for key, value in self.filled.items() if key not in given
        }
        for key, parameter in self.own.parameters.items():
            if key not in values:
                contiguous = contiguous and parameter.kind is inspect.Parameter.VAR_POSITIONAL
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                by_place.extend(values[key])
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                by_name |= values[key]
            elif contiguous and parameter.kind in _BY_POSITION:
                by_place.append(values[key])
            else:
                by_name[key] = values[key]
        return own(*by_place, **by_name)

    def _checked(
        self, own: Callable[..., Any], key: str, value: Any, given: Mapping[str, Any]
    ) -> Any:
        if (
            key in self.renamed
            or key in self.extra
            or key in _HINTS
            or _same(value, self.signature.parameters[key].default)
        ):
            return value
        named = [
            leaf
            for leaf in jax.tree.leaves(list(given.values()), is_leaf=is_named)
            if is_named(leaf)
        ]
        of = type_text(named[0]) if named else "arguments with names"
        given_text = value if isinstance(value, (str, int, float)) else type(value).__name__
        raise UnsupportedArgumentError(
            f"{own.__name__}: {key}={given_text} is not supported for {of}. "
            + _REMEDY.get(
                key, "Leave it out; for an array without names it means what it means in JAX."
            )
        )

    def documented(self, doc: str) -> str:
        """Return the docstring of the named version for JAX's parameters, in JAX's order."""
        own = {**self.renamed, **{name: name for name in self.extra}}
        return with_parameters(doc, self.signature.parameters, own, self._text_of)

    def _text_of(self, parameter: str) -> str:
        if parameter in _HINTS:
            return "as in JAX, for arrays without names; ignored for others."
        return "as in JAX, for arrays without names; it must be left out for others."

    def note(self, where: str) -> str:
        """Return the sentences about the differences, for the docstring."""
        lost = [
            key
            for key in self.signature.parameters
            if key not in self.renamed and key not in self.extra and key not in _HINTS
            if not key.startswith("_")  # of JAX alone
        ]
        text = f"`nx.{where}` has JAX's parameters, in JAX's order"
        text += f", and `{'`, `'.join(self.extra)}` by keyword" if self.extra else ""
        text += ".\nArguments without any name go to JAX's own function."
        return text + (f" With names, `{'`, `'.join(lost)}` must be left out." if lost else "")


def _annotation(theirs: inspect.Parameter, own: inspect.Parameter | None) -> Any:
    """Return the annotation of the named version, or JAX's if that has none."""
    return (
        theirs.annotation
        if own is None or own.annotation in (_EMPTY, "Any", Any)
        else own.annotation
    )


_REMEDY = {
    "out": "Arrays are immutable, and JAX has no such argument either: take the result.",
    **dict.fromkeys(
        ("device", "out_sharding"),
        "The sharding of a named array follows from its names: nx.shard(x, axis_resources, mesh)"
        " places it.",
    ),
}


def _optional(
    wanted: list[inspect.Parameter], renamed: Mapping[str, str], own: inspect.Signature
) -> list[inspect.Parameter]:
    """Return JAX's parameters, with defaults for those that the named version does not require."""
    result: list[inspect.Parameter] = []
    may = True
    for parameter in reversed(wanted):
        if parameter.kind in _BY_POSITION and parameter.default is _EMPTY:
            default = (
                own.parameters[renamed[parameter.name]].default
                if parameter.name in renamed
                else _EMPTY
            )
            may = may and default is not _EMPTY
            parameter = parameter.replace(default=default) if may else parameter
        result.append(parameter)
    return result[::-1]
