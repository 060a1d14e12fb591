"""Writes docs/reference/examples.json: an example of every function, run, and what it sends when one of its names is sharded, measured.

`python tools/reference.py` writes it all, which takes a quarter of an hour; `python
tools/reference.py nx.sum nx.lax.psum` what is said of these; `--check` compares instead of writing,
and fails if something differs. tests/house/test_reference.py compares some. The calls are in
reference_calls.py.

What is sent is read from compiled programs: the call is the body of a mapped function, with one
name after the other on a mesh of eight devices, and so is its transpose for the gradient. The
results must be those of the unmapped call.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs" / "extensions"), str(ROOT / "tools")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import reference_calls as calls  # noqa: E402
import reference_names as names  # noqa: E402
from recorded_calls import MEASURED, SHOWN, candidates, listed, operands_of, sized  # noqa: E402

import namedax as nx  # noqa: E402
from namedax.hlo import Collective  # noqa: E402

DEVICES = 8
#: The letters of the sizes of the names that can be on the mesh, in `MEASURED`.
LETTERS = {"k": "N", "b": "M"}
#: A size that does not divide over the devices.
UNEVEN = 13
FILE = ROOT / "docs" / "reference" / "examples.json"


# --- calls ----------------------------------------------------------------------------------------------------------


NO_COST, NO_EXAMPLE = listed(calls.NO_COST), listed(calls.NO_EXAMPLE)


def scope() -> dict[str, Any]:
    """What an example can use."""
    return {"jax": jax, "jnp": jnp, "nx": nx}


def evaluate(call: str, sizes: dict[str, int]) -> tuple[dict[str, Any], Any]:
    """The operands of a call, and what it gives."""
    values = {name: eval(sized(calls.OPERANDS[name], sizes), scope()) for name in operands_of(call)}
    return values, eval(sized(call, sizes), {**scope(), **values})


# --- the example ------------------------------------------------------------------------------------------------------


def example(call: str) -> str:
    """The example as it is shown: what is imported, the operands, the call, and the result."""
    lines = [f"{name} = {sized(calls.OPERANDS[name], SHOWN)}" for name in operands_of(call)] + [
        sized(call, SHOWN)
    ]
    text = "\n".join(lines)
    modules = [
        line
        for word, line in (("jax.", "jax"), ("jnp.", "jax.numpy as jnp"))
        if re.search(rf"(?<![\w.]){word}", text)
    ]
    shown = [
        f">>> import {', '.join([*modules, 'namedax as nx'])}",
        *(f">>> {line}" for line in lines),
    ]
    result = evaluate(call, SHOWN)[1]
    return "\n".join([*shown, re.sub(r" at 0x\w+", "", repr(result))])


def is_finite(result: Any) -> bool:
    """Whether all numbers of a result are numbers."""
    leaves = [
        np.asarray(leaf)
        for leaf in jax.tree.leaves(result)
        if isinstance(leaf, jax.Array) and not _is_key(leaf)
    ]
    return all(
        np.isfinite(leaf.astype(complex if np.iscomplexobj(leaf) else float)).all()
        for leaf in leaves
    )


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


# --- what is sent -----------------------------------------------------------------------------------------------------


def _named(*trees: Any) -> list[nx.NamedArray]:
    leaves = jax.tree.leaves(trees, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))
    return [leaf for leaf in leaves if isinstance(leaf, nx.NamedArray)]


def _names_of(tree: Any) -> list[Any]:
    dims = [dim for leaf in _named(tree) for dim in leaf.dims]
    return list(dict.fromkeys(dim for dim in dims if dim is not None))


def _bytes(tree: Any) -> list[int]:
    return [
        leaf.nbytes
        for leaf in jax.tree.leaves(tree)
        if hasattr(leaf, "nbytes") and not _is_key(leaf)
    ]


def costs(call: str) -> dict[str, Any]:
    """What a call sends for each of its names that can be on the mesh, forwards and in the gradient."""
    values, plain = evaluate(call, MEASURED)
    on_mesh = [name for name in LETTERS if name in _names_of((values, plain))]
    body = _body(call, MEASURED)
    mesh = jax.make_mesh((DEVICES,), ("x",))

    found: dict[str, Any] = {}
    for name in on_mesh:
        mapped = nx.xmap(body, axis_resources={name: "x"}, mesh=mesh)
        try:
            sent, result = _compiled(mapped, values)
        except nx.errors.NamedaxError as error:
            said = _refused(error)
            found[name] = {"forward": said, "gradient": said}
            continue
        except (TypeError, jax.errors.JaxRuntimeError) as error:
            if "manual axis types" not in str(error) and "Unable to convert" not in str(error):
                raise
            said = f"JAX {jax.__version__} does not compile it over several devices"
            found[name] = {"forward": said, "gradient": said}
            continue
        _compare(call, name, result, plain)
        size = MEASURED[LETTERS[name]]
        forward = phrase(sent, size, _bytes(values), _bytes(plain))
        found[name] = {
            "forward": forward,
            "gradient": _gradient(mapped, values, plain, size),
            **_elsewhere(_Case(call, name, MEASURED, values, plain), forward),
        }
    return found


def _body(call: str, sizes: dict[str, int]) -> Callable[[dict[str, Any]], Any]:
    code = compile(sized(call, sizes), call, "eval")
    return lambda values: eval(code, {**scope(), **values})


@dataclasses.dataclass(frozen=True)
class _Case:
    """A call with operands, one of whose names is to be placed, and the unmapped result."""

    call: str
    name: str
    sizes: dict[str, int]
    values: dict[str, Any]
    plain: Any

    @property
    def body(self) -> Callable[[dict[str, Any]], Any]:
        return _body(self.call, self.sizes)

    def compare(self, result: Any) -> None:
        _compare(self.call, self.name, result, self.plain)


def _elsewhere(case: _Case, forward: str) -> dict[str, str]:
    """What differs for a size that does not divide, in a loop, and outside of mapped functions.

    What is left out is supported, and outside sends what it sends in a mapped function.
    """
    said = {
        "uneven": _uneven(case),
        "loop": _supported(case, nx.SerialLoop(4)),
        "auto": _outside(case, jax.sharding.AxisType.Auto),
        "explicit": _outside(case, jax.sharding.AxisType.Explicit),
    }
    return {key: text for key, text in said.items() if text not in ("", forward)}


def _uneven(case: _Case) -> str:
    sizes = {**case.sizes, LETTERS[case.name]: UNEVEN}
    try:
        values, plain = evaluate(case.call, sizes)
    except (nx.errors.NamedaxError, TypeError, ValueError):
        return f"not measured: this call does not take {UNEVEN} elements"
    named = _named(values, plain)
    size = next((v.named_shape[case.name] for v in named if case.name in v.dims), 0)
    if size % DEVICES == 0:
        return f"not measured: this call has {size} elements for {UNEVEN}"
    return _supported(_Case(case.call, case.name, sizes, values, plain), "x")


def _supported(case: _Case, resource: Any) -> str:
    """Nothing if a mapped function gives the unmapped result; otherwise why not."""
    mesh = jax.make_mesh((DEVICES,), ("x",)) if resource == "x" else None
    try:
        result = nx.xmap(case.body, axis_resources={case.name: resource}, mesh=mesh)(case.values)
    except nx.errors.NamedaxError as error:
        return _refused(error)
    case.compare(result)
    return ""


def _outside(case: _Case, axis_type: Any) -> str:
    """What a call under `jit` sends for operands that are sharded over this name."""
    name, values = case.name, case.values
    if name not in _names_of(values):
        return "no operand has the axis"
    mesh = jax.make_mesh((DEVICES,), ("x",), axis_types=(axis_type,))
    placed = {
        key: nx.shard(value, {name: "x"}, mesh) if name in _names_of(value) else value
        for key, value in values.items()
    }
    try:
        compiled = jax.jit(case.body).lower(placed).compile()
        case.compare(compiled(placed))
    except nx.errors.NamedaxError as error:
        return _refused(error)
    except jax.errors.JaxRuntimeError as error:
        if not re.search("UNIMPLEMENTED|RET_CHECK", str(error)):
            raise
        return "XLA does not run it over several CPU devices"
    sent = nx.hlo.collectives(compiled)
    return phrase(sent, case.sizes[LETTERS[name]], _bytes(values), _bytes(case.plain))


def _compiled(mapped: Any, values: dict[str, Any]) -> tuple[Sequence[Collective], Any]:
    compiled = mapped.lower(values).compile()
    return nx.hlo.collectives(compiled), mapped(values)


def _compare(call: str, name: str, have: Any, want: Any) -> None:
    """Law 2: the result does not depend on where a name lives."""
    pairs = zip(
        jax.tree.leaves(have, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray)),
        jax.tree.leaves(want, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray)),
        strict=True,
    )
    for h, w in pairs:
        if isinstance(w, nx.NamedArray):
            order = [dim for dim in w.dims if dim is not None]
            h, w = nx.positional(h, [*order, ...]), nx.positional(w, [*order, ...])
        if isinstance(w, jax.Array) and not _is_key(w):
            np.testing.assert_allclose(
                np.asarray(h),
                np.asarray(w),
                rtol=2e-3,
                atol=2e-3,
                err_msg=f"{call} with {name} sharded",
            )


def _gradient(mapped: Any, values: dict[str, Any], plain: Any, size: int) -> str:
    """What the transpose of a call sends, whose inputs are what the call kept."""
    smooth = {name: value for name, value in values.items() if _is_float(value)}
    if not smooth or not any(_is_float(leaf) for leaf in jax.tree.leaves(plain)):
        return "no gradient"
    rest = {name: value for name, value in values.items() if name not in smooth}
    try:
        result, transpose = jax.vjp(lambda smooth: mapped({**rest, **smooth}), smooth)
        cotangent = jax.tree.map(
            lambda leaf: leaf if _is_float(leaf) else np.zeros(leaf.shape, jax.dtypes.float0),
            result,
        )
        compiled = (
            jax.jit(lambda transpose, cotangent: transpose(cotangent))
            .lower(transpose, cotangent)
            .compile()
        )
    except nx.errors.NamedaxError as error:
        return _refused(error)
    except (TypeError, ValueError, NotImplementedError) as error:
        return _why_not(error)
    return phrase(nx.hlo.collectives(compiled), size, _bytes(values), _bytes(plain))


def _refused(error: Exception) -> str:
    """The class of an error, and its first sentence without the operation that it begins with."""
    first = re.split(r"[.;] ", str(error).partition(": ")[2])[0]
    return f"rejected, :py:obj:`nx.errors.{type(error).__name__}`: {first.strip().replace('*', '')}"


def _why_not(error: Exception) -> str:
    if isinstance(error, NotImplementedError) or re.search(
        "everse-mode differentiation does not work|float0|gradient .* not supported", str(error)
    ):
        return "JAX has no gradient of it"
    raise error


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.inexact)


# --- in words -----------------------------------------------------------------------------------------------------------


def phrase(sent: Sequence[Collective], size: int, operands: list[int], results: list[int]) -> str:
    """The collectives in words; what one brings is compared with the sizes of the operands and the results."""
    whole, result = max(operands, default=0), sum(results)
    known = [
        (whole, "the whole operand" if whole != result else "the whole array"),
        (result, "the result"),
        (whole // DEVICES, "a device's block"),
        (result // DEVICES, "a device's block of the result"),
        (whole // size, "one element along the axis"),
        (whole // size * DEVICES, "one element along the axis from each device"),
    ]
    counted = collections.Counter(
        (one.kind, one.in_loop, _as_large_as(one.bytes, known, whole)) for one in sent
    )
    return "; ".join(_said(*key, count) for key, count in counted.items()) or "nothing"


def _as_large_as(size: int, known: list[tuple[int, str]], whole: int) -> str:
    if size <= 8:
        return "one number"
    for bytes_, words in known:
        if size == bytes_:
            return f"as large as {words}"
    return f"{size} B (the operand has {whole} B)" if whole else f"{size} B"


def _said(kind: str, in_loop: bool, size: str, count: int) -> str:
    number = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}.get(count, str(count))
    each = " each" if count > 1 else ""
    return f"{number} {kind}{'s' * (count > 1)}{' in a loop' * in_loop}: {size}{each}"


# --- the file -----------------------------------------------------------------------------------------------------------


def record(entry: names.Entry) -> dict[str, Any]:
    """What is said of a function: its example, and what it sends."""
    if entry.name in NO_COST and names.has_example(entry):
        return {"no_cost": NO_COST[entry.name]}
    if entry.name in NO_EXAMPLE:
        return {"no_example": NO_EXAMPLE[entry.name]}
    call = _working(entry)
    said: dict[str, Any] = {} if names.has_example(entry) else {"example": example(call)}
    if entry.name in NO_COST:
        return said | {"no_cost": NO_COST[entry.name]}
    values, result = evaluate(call, MEASURED)
    types = {name: _type_of(value) for name, value in values.items()}
    return said | {
        "call": sized(call, MEASURED),
        "operands": types,
        "result": _type_of_tree(result),
        "cost": costs(call),
    }


def _type_of_tree(result: Any) -> str:
    leaves = jax.tree.leaves(result, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))
    types = [_type_of(leaf) if hasattr(leaf, "dtype") else type(leaf).__name__ for leaf in leaves]
    return types[0] if len(types) == 1 and leaves[0] is result else f"({', '.join(types)})"


def _type_of(value: Any) -> str:
    match = re.match(r"NamedArray\((.*?), dims", repr(value), re.S)
    return match[1] if match else f"{value.dtype}{list(value.shape)}"


def _working(entry: names.Entry) -> str:
    tried = [re.sub(r"\bF\b", entry.name, call) for call in candidates(entry.name)]
    for call in tried[:-1]:
        try:
            if is_finite(evaluate(call, SHOWN)[1]):
                return call
        except Exception as error:
            del error  # the next one
    return tried[-1]


def functions(wanted: list[str]) -> Iterator[names.Entry]:
    """The functions of the reference, or those that are asked for."""
    return (e for e in names.entries() if e.kind == "function" and (not wanted or e.name in wanted))


def main() -> None:
    """Writes the file, or compares with it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="functions, such as nx.sum; default: all")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments = parser.parse_args()
    have = json.loads(FILE.read_text())["functions"] if FILE.exists() else {}
    found, failed = {}, []
    for entry in functions(arguments.names):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[entry.name] = record(entry)
        except Exception as error:
            failed.append(
                f"{entry.name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"
            )
    differ = [name for name, said in found.items() if have.get(name) != said]
    if arguments.check:
        print("\n".join([f"differs: {name}" for name in differ] + failed) or "as recorded")
        raise SystemExit(bool(differ or failed))
    known = {entry.name for entry in functions([])}
    merged = {name: said for name, said in sorted((have | found).items()) if name in known}
    FILE.write_text(
        json.dumps({"jax": jax.__version__, "functions": merged}, indent=1, ensure_ascii=False)
        + "\n"
    )
    print(f"{len(found)} recorded, {len(failed)} failed\n" + "\n".join(failed))
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
