"""The Sphinx extension for links to JAX's documentation: ``:jax:`jax.numpy.sum``` is a link to the page of that function.

JAX has one page for each function that it documents, under its public name. The few public functions that it does not document link to the
page of their module.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes

SITE = "https://docs.jax.dev/en/latest"
#: Public functions of JAX without a page: compared with the sources of JAX's documentation, of August 2026.
UNDOCUMENTED = frozenset({
    *(
        f"jax.lax.{name}"
        for name in (
            "conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token dce_sink dtype"
            " padtype_to_pads pcast reduce_window_shape_tuple shape_as_value"
        ).split()
    ),
    "jax.random.key_impl",
    "jax.scipy.special.bessel_jn",
})  # fmt: skip


def url(name: str) -> str:
    """The address of the page that documents a function of JAX's.

    >>> url("jax.numpy.sum")
    'https://docs.jax.dev/en/latest/_autosummary/jax.numpy.sum.html'
    >>> url("jax.lax.pcast")
    'https://docs.jax.dev/en/latest/jax.lax.html'
    """
    if name in UNDOCUMENTED:
        return f"{SITE}/{'.'.join(name.split('.')[:2])}.html"
    return f"{SITE}/_autosummary/{name}.html"


def role(
    role: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()
) -> Any:
    """The name of a function of JAX's as code, which links to its page."""
    return [nodes.reference(raw, "", nodes.literal(text, text), refuri=url(text))], []


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_role("jax", role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
