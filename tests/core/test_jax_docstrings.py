"""The docstrings of functions that are made from JAX's own describe their parameters."""

import inspect

import jax.numpy as jnp
import pytest

import namedax as nx
from namedax.core.jax_docstrings import described, documented, summary_in_words


def google(x, axis=-1, *others, out=None):
    """Sum of it all

    Args:
      x: an array,
        of numbers.
      axis (int): which one:

        - first;
        - last.
      unknown: not in the signature.

    Returns:
      The sum.

    See also:
      - :func:`jax.numpy.cumsum`: another one.
    """
    del x, axis, others, out


def test_a_docstring_in_parts():
    found = described(google)
    assert found.summary == "Sum of it all"
    assert found.returns == "The sum."
    assert found.see_also == ("numpy.cumsum",)
    assert found.parameters["x"] == "an array,\nof numbers."
    assert found.parameters["axis"] == "which one:\n\n- first;\n- last."


def test_a_docstring_is_written_again_with_names():
    assert documented(google, "Named.", axes=["axis"], more={"out_axis": "a new name."}, communication="much.") == (
        "Sum of it all.\n\nNamed.\n\nArgs:\n  x: an array,\n    of numbers.\n  axis: which one:\n\n    - first;\n    - last.\n"
        "    Also an axis name, or a tuple of names and positions.\n  unknown: not in the signature.\n"
        "  out: must be left out: arrays are immutable.\n  out_axis: a new name.\n\nReturns:\n  The sum.\n\n"
        "  Named axes of the arguments are axes of the result.\n\nCommunication: much."
    )


@pytest.mark.parametrize(
    ("alias", "stands_for"),
    [(jnp.acos, jnp.arccos), (jnp.conj, jnp.conjugate), (jnp.degrees, jnp.rad2deg), (jnp.abs, jnp.absolute)],
)
def test_an_alias_has_the_description_of_what_it_stands_for(alias, stands_for):
    assert summary_in_words(alias) == summary_in_words(stands_for) != ""
    assert described(alias).parameters == described(stands_for).parameters != {}


def test_functions_without_a_docstring_have_a_sentence():
    def without(x):
        del x

    assert documented(without, name="fft").startswith("Apply a Fourier transform")
    assert "x: an array, named or not." in documented(without, name="fft")


def test_help_describes_the_operands_and_options():
    """Also those that a signature of JAX does not show, and those of two names on one line."""
    text = inspect.getdoc(nx.clip)
    assert "Args:\n  arr: " in text
    assert "\n  min: " in text
    assert "\n  max: " in text
    text = inspect.getdoc(nx.add)
    assert "\n  x: " in text
    assert "\n  y: " in text
    assert "args:" not in text
    assert "Also an axis name" in inspect.getdoc(nx.numpy.fft.rfft)
