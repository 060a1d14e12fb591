"""The notation of einsum: what a specification says, and what every mistake in it is told."""

import jax.numpy as jnp
import pytest

import namedax as nx
from namedax.ops.contraction.spec import parse_einsum
from tests import make
from tests.harness import said


def ones(*shape):
    return make.ones(shape, jnp.float32)


# --- what it says ------------------------------------------------------------------------------------

READINGS = {
    "n{b,k},{k,m}->n{b,m}": [("n", "b k"), ("", "k m"), ("n", "b m")],
    "ij,jk": [("i j", ""), ("j k", ""), None],
    "{kpos:pos, heads}->{heads,pos_sp:kpos}": [("", "kpos:pos heads"), ("", "heads pos_sp:kpos")],
    "i...j{}, ...->j...": [("i ... j", ""), ("...", ""), ("j ...", "")],
    " a { b , c } b -> { c } a ": [("a b", "b c"), ("a", "c")],
    "{a}{b}i{c}->": [("i", "a b c"), ("", "")],
    ",i->i": [("", ""), ("i", ""), ("i", "")],
    "": [("", ""), None],
    "{batch size,d-model,layer.0}->{d-model}": [("", "batch_size d-model layer.0"), ("", "d-model")],
}


@pytest.mark.parametrize("text", READINGS)
def test_reading(text):
    spec = parse_einsum(text)
    assert spec.text == text
    *operands, result = READINGS[text]
    for term, wanted in zip((*spec.operands, spec.result), (*operands, result), strict=True):
        if wanted is None:
            assert term is None
            continue
        letters, names = (part.split() for part in wanted)
        assert term.letters == tuple(letters)
        names = [name.replace("_size", " size").split(":") for name in names]
        assert term.names == tuple((pair[0], pair[-1]) for pair in names)
        # Every letter and name stands where the term says that it does.
        assert all(text.startswith(letter, at) for letter, at in zip(term.letters, term.letters_at, strict=True))
        assert all(text.startswith(label, at) for (label, _), at in zip(term.names, term.names_at, strict=True))
        assert text.startswith(term.text, term.at)


def test_a_specification_is_parsed_once():
    assert parse_einsum("ab,bc->ac") is parse_einsum("ab,bc->ac")


# --- malformed specifications ------------------------------------------------------------------------
# The message, then the specification with a caret under the bad spot.

NO_MEANING = (
    " has no meaning here. Write one letter per positional axis, names in braces, commas between operands, and "
    "'->' before the result."
)

MALFORMED = {
    "brace-never-closed": ("n{b,k->n{b}", "this brace is never closed.", 1),
    "brace-never-closed-at-the-end": ("ij{a,b", "this brace is never closed.", 2),
    "brace-in-a-brace": ("{a,{b}}->", "this brace is never closed.", 0),
    "closed-without-opening": ("ab}->a", "'}'" + NO_MEANING, 2),
    "empty-name": ("{a,,b}->{a}", "expected an axis name here.", 3),
    "name-before-comma": ("{a,}->{a}", "expected an axis name here.", 3),
    "nothing-after-colon": ("{a:}->", "expected an axis name here.", 3),
    "two-colons": ("{a:b:c}->", "expected ',' or '}' after a name.", 4),
    "name-twice": (
        "{a,b,a}->",
        "name 'a' appears twice in one operand. For the diagonal over two axes, write {a, a:b}.",
        5,
    ),
    "name-twice-in-the-result": ("{a,b}->{b,a,b}", "name 'b' appears twice in one result.", 12),
    "read-twice": ("{a,c:b,d:b}->", "axis 'b' is read twice in one operand.", 7),
    "written-twice": ("{a}->{b:a,a}", "axis 'a' is written twice in one result.", 10),
    "letter-twice-in-the-result": (
        "ij->iji",
        "letter 'i' appears twice in the result. Use a separate letter for each axis.",
        6,
    ),
    "two-ellipses": ("...i...->i", "a term has a second '...'. Write at most one.", 4),
    "digit": ("i2->i", "'2'" + NO_MEANING, 1),
    "one-dot": ("i.j->", "'.'" + NO_MEANING, 1),
    "half-an-arrow": ("ij-ij", "'-'" + NO_MEANING, 2),
    "two-arrows": ("ij->i->j", "the specification must end here. Write one result, without a comma or a second arrow.", 5),
    "two-results": ("ij->i, j", "the specification must end here. Write one result, without a comma or a second arrow.", 5),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name):
    text, why, at = MALFORMED[name]
    with pytest.raises(nx.errors.EinsumError) as caught:
        nx.einsum(text, ones())
    assert said(caught.value) == f"einsum: {why}\n  {text}\n  {' ' * at}^"


# --- specifications that do not fit their operands ---------------------------------------------------

X = nx.named(ones(5, 2, 4), [None, "batch", "k"])
W = nx.named(ones(4, 3), ["k", "m"])
PLAIN = ones(5, 2)

UNFIT = {
    "unknown-letter": (
        "ij,jk->iq",
        (PLAIN, ones(2, 5)),
        nx.errors.EinsumError,
        "letter 'q' of the result is in no operand.",
        8,
    ),
    "unknown-name": (
        "n{batch,k}->n{bacth}",
        (X,),
        nx.errors.EinsumError,
        "name 'bacth' of the result is in no operand; the operands have the names 'batch', 'k'. Did you mean 'batch'?",
        14,
    ),
    "unknown-name-of-plain-arrays": (
        "ij->i{b}",
        (PLAIN,),
        nx.errors.EinsumError,
        "name 'b' of the result is in no operand; the operands have no names.",
        6,
    ),
    "skipped-name": (
        "n{batch},{k,m}->n{batch,k,m}",
        (X, W),
        nx.errors.EinsumError,
        "operand 0, f32[5]{batch:2, k:4}, has the axis 'k', which is mentioned elsewhere but skipped here. Mention it here "
        "too, or read it under another name, {other:k}.",
        0,
    ),
    "skipped-name-that-is-written": (
        "n{k}, {k,m} -> n{batch:m}",
        (X, W),
        nx.errors.EinsumError,
        "operand 0, f32[5]{batch:2, k:4}, has the axis 'batch', which is mentioned elsewhere but skipped here. Mention it here "
        "too, or read it under another name, {other:batch}.",
        0,
    ),
    "missing-name": (
        "n{batch,key}->n{batch}",
        (X,),
        nx.errors.AxisNotFoundError,
        "no axis 'key' in operand 0, f32[5]{batch:2, k:4}; its named axes are 'batch', 'k'.",
        8,
    ),
    "missing-name-that-is-read": (
        "n{batch,k}, {k,n:M}->n{n}",
        (X, W),
        nx.errors.AxisNotFoundError,
        "no axis 'M' in operand 1, f32[]{k:4, m:3}; its named axes are 'k', 'm'.",
        15,
    ),
    "missing-name-of-a-plain-array": (
        "ij{k}->ij",
        (PLAIN,),
        nx.errors.AxisNotFoundError,
        "no axis 'k' in operand 0, f32[5,2]; it has no named axis.",
        3,
    ),
    "too-few-letters": (
        "{batch,k}->{batch}",
        (X,),
        nx.errors.EinsumError,
        "operand 0 has 0 letters, but f32[5]{batch:2, k:4} has 1 positional axis. Write one letter for each, or '...'. "
        "If they come from an array without names, name it: nx.named(x, names).",
        0,
    ),
    "too-many-letters": (
        "i,jkl...->i",
        (ones(3), PLAIN),
        nx.errors.EinsumError,
        "operand 1 has 3 letters, but f32[5,2] has 2 positional axes. Write one letter for each, or '...'.",
        2,
    ),
    "letters-for-names": (
        "b k->b",
        (X,),
        nx.errors.EinsumError,
        "operand 0 has 2 letters, but f32[5]{batch:2, k:4} has 1 positional axis. Write one letter for each, or '...'. "
        "Write axis names in braces: '{batch,k}'.",
        0,
    ),
    "ellipsis-not-in-the-result": (
        "i...->i",
        (PLAIN,),
        nx.errors.EinsumError,
        "'...' appears in an operand, but not in the result. Add it to the result, or write letters.",
        6,
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_unfit(name):
    text, operands, error, why, at = UNFIT[name]
    with pytest.raises(error) as caught:
        nx.einsum(text, *operands)
    assert said(caught.value) == f"einsum: {why}\n  {text}\n  {' ' * at}^"
    # The same mistake inside of a mapped function is told in the same words.
    mapped = nx.xmap(lambda *xs: nx.einsum(text, *xs), None, None)
    with pytest.raises(error) as caught:
        mapped(*operands)
    assert said(caught.value) == f"einsum: {why}\n  {text}\n  {' ' * at}^"


SIZES = {
    "letter-in-two-operands": (
        "ij,jk->ik",
        (ones(2, 3), ones(4, 5)),
        nx.errors.PositionalAxisError,
        "letter 'j' has size 3 in operand 0, f32[2,3], and size 4 in operand 1, f32[4,5]. Axes with one label must have equal sizes.",
    ),
    "letter-in-one-operand": (
        "ii->i",
        (ones(2, 3),),
        nx.errors.PositionalAxisError,
        "letter 'i' has size 2 in operand 0, f32[2,3], and size 3 in operand 0, f32[2,3]. Axes with one label must have equal sizes.",
    ),
    "ellipsis": (
        "...,...->...",
        (ones(2, 3), ones(2)),
        nx.errors.PositionalAxisError,
        "an axis of '...' has size 3 in operand 0, f32[2,3], and size 2 in operand 1, f32[2]. Axes with one label must have equal sizes.",
    ),
    "name": (
        "{k},{k}->",
        (nx.named(ones(3), ["k"]), nx.named(ones(4), ["k"])),
        nx.errors.AxisSizeError,
        "axis 'k' has size 3 in operand 0, f32[]{k:3}, and size 4 in operand 1, f32[]{k:4}; a name has one size. "
        "Rename one of the two.",
    ),
    "name-that-is-read": (
        "{k},{k:j}->{k}",
        (nx.named(ones(3), ["k"]), nx.named(ones(4), ["j"])),
        nx.errors.AxisSizeError,
        "axis 'k' has size 3 in operand 0, f32[]{k:3}, and size 4 in operand 1, f32[]{j:4}; a name has one size. "
        "Rename one of the two.",
    ),
    "name-that-is-carried": (
        "i,i->",
        (nx.named(ones(2, 3), [None, "c"]), nx.named(ones(2, 4), [None, "c"])),
        nx.errors.AxisSizeError,
        "axis 'c' has size 3 in operand 0, f32[2]{c:3}, and size 4 in operand 1, f32[2]{c:4}; a name has one size. "
        "Rename one of the two.",
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_disagree(name):
    text, operands, error, why = SIZES[name]
    with pytest.raises(error) as caught:
        nx.einsum(text, *operands)
    assert said(caught.value) == f"einsum {text!r}: {why}"


NUMBERS = {
    "too-few": ("ij,jk->ik", (PLAIN,), "'ij,jk->ik' has 2 operands, but is called with 1 array."),
    "too-many": ("i->i", (PLAIN, PLAIN), "'i->i' has 1 operand, but is called with 2 arrays."),
    "none": ("i", (), "'i' has 1 operand, but is called with 0 arrays."),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_number_of_operands(name):
    text, operands, why = NUMBERS[name]
    with pytest.raises(nx.errors.EinsumError) as caught:
        nx.einsum(text, *operands)
    assert said(caught.value) == f"einsum: {why} Separate operands by commas."


def test_the_specification_comes_first():
    with pytest.raises(nx.errors.EinsumError) as caught:
        nx.einsum(PLAIN, "ij->i")
    assert said(caught.value) == (
        "einsum: the first argument is the specification, a string; got f32[5,2]. (Or follow each operand by a list of "
        "numbers, one per positional axis, and end with the list of the result.)"
    )
