"""The code in messages runs: the remedies of mistakes that people make, and of every example of docs/errors.md.

A remedy is the code after "Write", "Pass", "Did you mean" and the like. A statement is run as it stands. A value or a
keyword argument takes the place of the wrong one in the program. Both with the variables of the program.
"""

import ast
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import NamedaxError
from tests import wrong_and_right

# Words in front of code.
_WORDS = (
    "write",
    *("Pass", "Use", "Call", "Take", "did you mean", "did you mean the axes", "as in", "such as", "or", "becomes"),
    *(
        "positions with",
        "positions first with",
        "by keyword,",
        "sizes by name as",
        "as one dict:",
        "and name its axes:",
        "the two axes:",
    ),
    *("by commas:", "of the axis:", "of the values,", "an entry per axis:", "call the result:", "first:", "axes only:"),
    *("without a name):", "one of them:", "rename it:"),
)
_BEFORE = re.compile(rf"(?i)(?<![\w'])(?:{'|'.join(map(re.escape, sorted(_WORDS, key=len, reverse=True)))})\s")
_CODE = (ast.Call, ast.Subscript, ast.BinOp, ast.Compare, ast.Tuple, ast.List, ast.Dict, ast.ListComp)


def _parsed(text):
    """The expression, or the keyword argument, that a text is; `None` if it is English."""
    if text.endswith((",", ".")) and not text.endswith("..."):
        return None
    try:
        value = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        try:
            call = ast.parse(f"f({text})", mode="eval").body
        except (SyntaxError, ValueError):
            return None
        is_keyword = isinstance(call, ast.Call) and len(call.keywords) == 1 and not call.args and call.keywords[0].arg
        return call if is_keyword and not isinstance(call.keywords[0].value, ast.Attribute) else None
    return value if _is_code(value, text) else None


def _is_code(value, text):
    if isinstance(value, ast.Tuple):
        return all(isinstance(e, ast.Constant) or (e.__class__ in _CODE and _is_code(e, text)) for e in value.elts)
    if any(isinstance(n, ast.Call) and f"{getattr(n.func, 'id', None)} (" in text for n in ast.walk(value)):
        return False  # English: "elementwise (0 < x)"
    return isinstance(value, _CODE) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def remedies(message):
    """The code in a message.

    >>> from tests.whole.test_remedies import remedies
    >>> remedies("sum: no. Pass axis='batch' or axis='k'. Write nx.sum(x, 'k'), or one name.")
    ["axis='batch'", "axis='k'", "nx.sum(x, 'k')"]
    """
    message = re.sub(r"\[NX\d+\]$", "", message).strip()
    found = []
    for anchor in _BEFORE.finditer(message):
        rest = message[anchor.end() :][:300]
        ends = [i for i in range(len(rest), 0, -1) if i == len(rest) or rest[i] in " .,;:?\n"]
        code = next((rest[:end] for end in ends if _parsed(rest[:end]) is not None), None)
        if rest.startswith("for "):
            code = f"[{rest[rest.index(': ') + 2 : rest.index(';')]} {rest[: rest.index(': ')]}]"
        if code is not None and code not in found:
            found.append(code)
    # one name of a list that the message has, too
    return [code for code in found if not (code[0] == "'" and any(code in other for other in found if other != code))]


def _is_statement(code):
    """True for code that names what it acts on; a value or a keyword takes the place of the wrong one."""
    value = _parsed(code)
    elements = value.elts if isinstance(value, ast.Tuple) else [value]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "f":
        return not code.startswith(tuple(f"{k.arg}=" for k in value.keywords))
    return all(isinstance(e, (ast.ListComp, ast.Call, ast.Subscript, ast.BinOp, ast.Compare)) for e in elements)


def mended(program, wrong, code):
    """The program with the code of a remedy in place of what is wrong; the remedy itself if it is a statement."""
    if _is_statement(code):
        return code
    return program.replace(wrong, code + ", " * wrong.endswith(", ")) if wrong else f"{program[:-1]}, {code})"


def variables():
    """The variables of the programs below, and those that typical calls in messages mention."""
    x, y = nx.named(jnp.ones((8, 6)), ["batch", "k"]), nx.named(jnp.ones((6, 5)), ["k", "out"])
    return {
        **{"nx": nx, "jnp": jnp, "np": np, "jax": jax, "x": x, "y": y, "w": y},
        **{"odd": nx.named(jnp.ones(5), ["k"]), "d": jnp.ones((8, 6)), "ids": nx.named(jnp.arange(8) % 6, ["batch"])},
        **{"mesh": jax.make_mesh((4, 2), ("x", "y")), "key": jax.random.key(0), "axis": "k", "rate": 0.5, "f": nx.sin},
        **{"array": jnp.ones((8, 6)), "axes": ["batch", "k"], "arrays": [x, x], "indices": nx.named(jnp.arange(3), ["i"])},
        **{"condition": x > 0, "c": x > 0, "a": np.ones(6), "value": nx.named(jnp.ones(9), ["k"]), "mask": x > 0},
        **{"shape": (3,), "dtype": "float32", "out_sharding": None, "names": {"batch": "b"}, "num_classes": 6, "k": 2},
        **{"approximate": True, "path": "here", "idx": nx.named(jnp.arange(3), ["i"]), "shift": 1, "method": "linear"},
        **{"lower": 0, "upper": 3, "init_val": x, "body_fun": lambda i, c: c, "args": [x], "q": 0.5},
    }


# A program, and what of it a value in the message replaces; None where a keyword is to be added.
MISTAKES = [
    ("nx.mean(x, 'batch,k')", "'batch,k'"),
    ("nx.mean(x, 'batch k')", "'batch k'"),
    ("nx.sum(x, 'batch, k')", "'batch, k'"),
    ("x.max('k batch')", "'k batch'"),
    ("nx.nn.softmax(x, 'batch,k')", "'batch,k'"),
    ("nx.sum(x, 'bacth')", "'bacth'"),
    ("x.sum('bacth')", "'bacth'"),
    ("nx.numpy.sum(x, axis='bacth')", "'bacth'"),
    ("nx.sum(x, 0)", "0"),
    ("nx.sum(x, -1)", "-1"),
    ("x.sum(axis=0)", "axis=0"),
    ("nx.sum(x)", None),
    ("nx.argmax(x)", None),
    ("nx.cumsum(x)", None),
    ("nx.flip(x)", None),
    ("nx.sort(x)", None),
    ("nx.roll(x, 1)", None),
    ("nx.take(x, indices)", None),
    ("nx.lax.top_k(x, 3)", None),
    ("nx.nn.softmax(x)", None),
    ("nx.concatenate([x, x])", None),
    ("nx.concatenate([x, x], axis=0)", "axis=0"),
    ("nx.concatenate(x, 'batch')", None),
    ("nx.sum(x, 'batch', 'k')", "'batch', 'k'"),
    ("nx.sum(x, axes='k')", None),
    ("nx.sum(x, dim='k')", None),
    ("nx.named(d, 'batch k')", "'batch k'"),
    ("nx.named(d, 'batch, k')", "'batch, k'"),
    ("nx.named(jnp.ones(8), 'batch')", "'batch'"),
    ("nx.named(d, ('batch', 'k'))", "('batch', 'k')"),
    ("nx.named(d, 'batch', 'k')", None),
    ("nx.named(d, {'batch': 0, 'k': 1})", "{'batch': 0, 'k': 1}"),
    ("nx.positional(x, ['batch', 'q'])", "['batch', 'q']"),
    ("nx.positional(x, ['batch'])", "['batch']"),
    ("nx.positional(x, ['bacth', 'k'])", "['bacth', 'k']"),
    ("nx.positional(x, ['k', 'batch', 'q'])", "['k', 'batch', 'q']"),
    ("nx.positional(x, 'batch k')", "'batch k'"),
    ("nx.positional(x)", None),
    ("nx.rename(x, {'bacth': 'b'})", "'bacth'"),
    ("x.rename({'q': 'k'})", "{'q': 'k'}"),
    ("np.sin(x)", None),
    ("np.add(x, x)", None),
    ("np.sum(x)", None),
    ("np.dot(x, w)", None),
    ("np.concatenate([x, x])", None),
    ("np.asarray(x)", None),
    ("float(x)", None),
    ("bool(x)", None),
    ("'batch' in x", None),
    ("x == [1, 2]", None),
    ("x[0]", None),
    ("x[:, 0]", None),
    ("x['batch']", None),
    ("x['bacth', 0]", "'bacth'"),
    ("x.at[0].set(1.0)", None),
    ("x.at['k'].set(1.0)", None),
    ("x.at['batch', 0].add(odd)", None),
    ("x.isel(k=3)", None),
    ("x.unsqueeze(0)", None),
    ("x.sizes", None),
    ("x.batch", None),
    ("x.view(4)", None),
    ("x.flatten()", None),
    ("x.T", None),
    ("nx.numpy.ravel(x)", None),
    ("x @ w", None),
    ("nx.numpy.matmul(x, w)", None),
    ("nx.dot(x, w)", None),
    ("nx.dot(x, w, 'kk')", "'kk'"),
    ("nx.dot(x, w, 'batch')", None),
    ("nx.einsum('batch k, k out -> batch out', x, w)", "'batch k, k out -> batch out'"),
    ("nx.einsum('{batch k}->{batch}', x)", "'{batch k}->{batch}'"),
    ("x + odd", None),
    ("odd @ x", None),
    ("nx.numpy.add(x)", None),
    ("nx.sin(x, 'k')", None),
    ("nx.where(x > 0)", None),
    ("nx.pad(x, 1)", "1"),
    ("nx.merge_axes(x, 'batch', 'k')", "'batch'"),
    ("nx.broadcast_to(x, {'z': 3})", None),
    ("nx.quantile(x, 0.5, 'k', method='liner')", "'liner'"),
    ("nx.zeros({'a': 3})", "{'a': 3}"),
    ("nx.zeros(named_shape=('a', 3))", "named_shape=('a', 3)"),
    ("nx.ones(3, 'rows')", "3, 'rows'"),
    ("nx.arange(8, 'pos')", "'pos'"),
    ("nx.random.normal(key, {'a': 3})", "{'a': 3}"),
    ("nx.nn.dropout(x, 0.5)", None),
    ("nx.shard(x, {'batch': 'z'}, mesh)", "{'batch': 'z'}"),
    ("nx.shard(x, 'batch', mesh)", "'batch'"),
    ("nx.xmap(nx.sin, axis_resources={'x': 'batch'}, mesh=mesh)(x)", "{'x': 'batch'}"),
    ("nx.xmap(nx.sin, {'batch': 'x'}, mesh=mesh)(x)", "{'batch': 'x'}"),
    ("nx.xmap(nx.sin, in_axes=['batch', 'k'], out_axes=['k'])(d)", "['k']"),
    ("nx.xmap(nx.sin(x))", None),
    ("nx.explain(nx.sum, x, 'k')", None),
    ("nx.explain(nx.sum(x, 'k'))", None),
    ("nx.tensordot(x, w, 1)", None),
    ("[row for row in x]", None),
    ("len(x)", None),
    ("nx.roll(x, 1.5, axis='k')", "1.5, "),
    ("nx.named(jnp.ones((8, 6, 3)), ['batch', 'k'])", "['batch', 'k']"),
    ("nx.rename(x, {'batch': None})", None),
]


def attempt(program):
    """Run a program, and return its result or its error."""
    scope = variables()
    try:
        return eval(program, scope)
    except Exception as error:
        return error


@pytest.mark.full(42)
@pytest.mark.fast(14)
@pytest.mark.parametrize(("program", "wrong"), MISTAKES)
def test_the_remedies_of_a_message_run(program, wrong):
    error = attempt(program)
    assert isinstance(error, NamedaxError), error
    found = remedies(str(error))
    assert found, str(error)
    for code in found:
        result = attempt(mended(program, wrong, code))
        assert not isinstance(result, Exception), (code, mended(program, wrong, code), result, str(error))


# --- the examples of docs/errors.md ---------------------------------------------------------------

# What of the program a value in the message replaces; None for a message whose remedies are statements.
EXAMPLES = {
    'nx.rename(x, {"batch": 0})': None,
    'nx.sum(x, "bacth")': '"bacth"',
    "nx.sum(x, 0)": "0",
    'w = nx.named(jnp.ones(5), ["k"])\nx * w': None,
    'nx.named(jnp.ones((8, 6, 3)), ["batch", "k"])': '["batch", "k"]',
    "np.asarray(x)": None,
    'f = nx.xmap(lambda x: nx.sum(x, "k"), in_axes=["batch", "k"], out_axes=[])\nf(jnp.ones((8, 6)))': "[]",
    'f = nx.xmap(nx.sin, axis_resources={"bacth": "x"}, mesh=mesh)\nf(x)': '"bacth"',
    'nx.quantile(x, 0.5, "batch", method="liner")': '"liner"',
    "x.isel(k=3)": None,
    'bias = nx.ones(named_shape={"k_fsdp": 6})\nwith nx.strict_broadcasting():\n    x + bias': None,
}
# Why the messages of the others have no code to run.
NOT_CODE = {
    nx.errors.AxisNameError: "which of two axes gets another name is the choice of the user",
    nx.errors.AxisNotFoundError: "the size of a new axis is not known",
    nx.errors.UnevenAxisError: "another size, or fewer devices",
    nx.errors.SerialLoopError: "another layout",
    nx.errors.PipelineError: "another program",
    nx.errors.CheckFailedError: "other data, which the check describes",
    nx.errors.MeshError: "the sizes of the mesh are those of the hardware",
    nx.errors.PlacementConflictError: "another layout",
    nx.errors.PlanError: "more memory, or another program",
    nx.errors.RawBlockError: "another program",
    nx.errors.EinsumError: "a caret below the position of the error",
    nx.errors.RearrangeError: "other sizes",
    nx.errors.UnsupportedArgumentError: "the argument is left out",
    nx.errors.ArgumentTypeError: "shift=2 in place of a positional argument; it runs above",
    nx.errors.ArrayTypeError: "another annotation or another program",
    nx.errors.StoredPaddingError: "another program",
    nx.errors.CheckpointError: "each line of the message has the remedy of one difference",
}


# The remedy is one operand, or another correct program.
OTHER_TYPES = (nx.errors.AxisSizeError, nx.errors.OuterProductError, nx.errors.NamedAxesLeftError, nx.errors.AxisNameError)


def type_of(result):
    return (result.dims, result.shape) if isinstance(result, nx.NamedArray) else type(result)


def run_example(program):
    """Run a program of the page in an empty folder, and return the value of its last line, or the error."""
    *before, last = program.splitlines()
    if last.startswith("    "):
        before, last = [*before[:-1]], last.strip()
    scope = {"y": variables()["odd"], "idx": variables()["idx"]}
    if "bias = " in program:
        before.append("y = bias")
    try:
        exec(wrong_and_right.BEFORE + "\n".join(before), scope)
        return eval(last, scope)
    except Exception as error:
        return error


@pytest.mark.parametrize("specimen", wrong_and_right.SPECIMENS, ids=lambda s: f"{s.kind.code} {s.wrong[:30]!r}")
def test_the_remedies_of_the_page_of_errors_run(specimen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if specimen.wrong not in EXAMPLES:
        assert specimen.kind in NOT_CODE
        return
    message = str(wrong_and_right.run(specimen.wrong))
    found = remedies(message)
    assert found, message
    types = []
    for code in found:
        wrong = EXAMPLES[specimen.wrong]
        before = specimen.wrong.splitlines()[:-1]
        if _is_statement(code):
            program = "\n".join([*(line for line in before if not line.startswith("with")), code])
        else:
            program = specimen.wrong.replace(wrong, code)
        result = run_example(program)
        assert not isinstance(result, Exception), (code, program, result)
        types.append(type_of(result))
    if specimen.kind not in OTHER_TYPES:
        assert type_of(run_example(specimen.right)) in types


if __name__ == "__main__":
    for program, wrong in MISTAKES:
        error = attempt(program)
        found = remedies(str(error))
        results = [attempt(mended(program, wrong, code)) for code in found]
        bad = [(code, r) for code, r in zip(found, results, strict=True) if isinstance(r, Exception)]
        if bad or not found or not isinstance(error, NamedaxError):
            print(program, "\n   ", repr(error)[:600], "\n   ", found, "\n   ", [(c, repr(r)[:200]) for c, r in bad])


SPACES = ("", "numpy", "lax", "nn", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.stats", "scipy.fft")


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_all_axes_can_be_passed_where_messages_advise_it():
    """`Pass axis=...` is advice of dozens of operations. A call that fails without an axis runs with it."""
    x = nx.named(jnp.arange(1.0, 61.0).reshape(3, 4, 5) / 70, ["a", "b", "c"])
    advised = []
    for space in SPACES:
        module = functools.reduce(getattr, filter(None, space.split(".")), nx)
        for name in dir(module):
            function = None if name.startswith("_") else getattr(module, name)
            if not callable(function) or inspect.isclass(function):
                continue
            for args in ((x,), (x, x), (x, 0.5)):
                try:
                    function(*args)
                except Exception as error:
                    if "Pass axis=..." in str(error) and "quantile" not in name and "percentile" not in name:
                        function(*args, axis=...)
                        advised.append(name)
                        break
                else:
                    break
    assert len(advised) > 50
    assert {"norm", "sum", "std"} <= set(advised)
