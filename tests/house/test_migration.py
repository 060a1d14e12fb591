"""Migration guides: both columns run and give the same values; the tables cover every name of the library.

Where a library is not installed (`pip install -e '.[peers]'` has them), its column is skipped; ours runs in tests/house/test_docs.py anyway.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import migration_pages

PAGES = sorted(page.name for page in migration_pages.PAGES_FOLDER.glob("from_*.md"))


def needs(page, *modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{page} is compared with {module}, which is not installed")


def named(value):
    """(dims, data) of an array that has names, whatever library it is of."""
    library = type(value).__module__.split(".")[0]
    if isinstance(value, nx.NamedArray):
        return value.dims, value.data
    if library == "haliax" and hasattr(value, "axes"):
        return [axis.name for axis in value.axes], value.array
    if library == "penzai" and hasattr(value, "named_shape"):
        names = tuple(value.named_shape)
        inside = value.untag_prefix(*names).unwrap() if names else value.unwrap()
        return names + (None,) * (inside.ndim - len(names)), inside
    if library == "coordax" and type(value).__name__ == "Field":
        return value.dims, value.data
    if library == "xarray" and hasattr(value, "values") and hasattr(value, "dims"):
        return [str(dim) for dim in value.dims], value.values
    if library in ("torch", "functorch"):
        return _of_torch(value)
    return None


def _of_torch(value):
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    if dims := getattr(value, "dims", ()):
        return [str(dim) for dim in dims], value.order(*dims).detach().numpy()
    return ((None,) * value.ndim, value.detach().numpy()) if hasattr(value, "detach") else None


plain = functools.partial(migration_pages.plain, named=named)
MODULES = {
    "from_coordax.md": ["coordax"],
    "from_einops.md": ["einops", "einx"],
    "from_flax.md": ["flax"],
    "from_haliax.md": ["haliax"],
    "from_penzai.md": ["penzai"],
    "from_pytorch.md": ["torch"],
    "from_xarray.md": ["xarray"],
}


def there(page, folder):
    """What the other library's blocks give. xmap is in JAX up to 0.4.30, so it needs a Python of its own."""
    if page == "from_xmap.md":
        python = os.environ.get("NAMEDAX_XMAP_PYTHON")
        if not python:
            pytest.skip("from_xmap.md is compared with JAX 0.4.30 where NAMEDAX_XMAP_PYTHON names a Python that has it")
        subprocess.run(
            [python, migration_pages.__file__, page, folder / "values"], check=True, env={**os.environ, "PYTHONPATH": ""}
        )
        return pickle.loads((folder / "values").read_bytes())
    needs(page, *MODULES.get(page, []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        return migration_pages.run(page, "there", plain)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("page", PAGES)
def test_both_columns_give_the_same(page, tmp_path):
    want, have = there(page, tmp_path), migration_pages.run(page, "here", plain)
    compared = 0
    for left, right in migration_pages.pairs(page):
        for name in want[left].keys() & have[right].keys():
            try:
                migration_pages.same(have[right][name], want[left][name])
            except AssertionError as error:
                raise AssertionError(f"{page}, block {left}, {name or 'its last line'}: {error}") from error
            compared += 1
    assert compared >= len(migration_pages.pairs(page)) - 2 > 0  # imports and definitions show nothing


# --- the tables ---------------------------------------------------------------------------------------------------------

WORD = re.compile(r"`nx(?:\.\w+)+")


@pytest.mark.parametrize("page", PAGES)
def test_words_of_ours_exist(page):
    words = {word[1:] for word in WORD.findall((migration_pages.PAGES_FOLDER / page).read_text())}
    assert words
    for word in sorted(words):
        functools.reduce(getattr, word.split(".")[1:], nx)


# What is public there: a module with a prefix for its names, or a class, whose names stand as `x.name`.
VOCABULARY = {
    "from_coordax.md": [("coordax", ""), ("coordax.Field", "x.")],
    "from_einops.md": [("einops", ""), ("einx", "einx.")],
    "from_haliax.md": [
        ("haliax", ""),
        ("haliax.nn", "nn."),
        ("haliax.random", "random."),
        ("haliax.partitioning", "partitioning."),
    ],
    "from_penzai.md": [("penzai.core.named_axes", "")],
    "from_pytorch.md": [("torch.distributed.tensor", "")],
    "from_xarray.md": [("xarray.DataArray", "x."), ("xarray", "xr.")],
}
_PRIVATE = {
    "__version__",
    "tree_flatten",
    "tree_unflatten",
    "Any",
    "Callable",
    "Hashable",
    "Mapping",
    "Sequence",
    "AxisName",
    "annotations",
    "attrs",
}


def public(path):
    """The public names of a module or class: its `__all__`, or what is not a module and was not imported for its own use."""
    module, _, last = path.rpartition(".")
    if last[:1].isupper():
        return [name for name in dir(getattr(importlib.import_module(module), last)) if name[0] != "_"]
    module = importlib.import_module(path)
    found = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if name[0] != "_" and not inspect.ismodule(value)
    ]
    return [name for name in found if not inspect.ismodule(getattr(module, name))]


@pytest.mark.fast(0)
@pytest.mark.parametrize("page", sorted(VOCABULARY))
def test_tables_know_every_word(page):
    needs(page, *MODULES[page])
    _, _, words = (migration_pages.PAGES_FOLDER / page).read_text().partition("## API equivalents")
    said = set(re.findall(r"`([\w.]+)", words))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = [
            prefix + name
            for path, prefix in VOCABULARY[page]
            for name in public(path)
            if prefix + name not in said and name not in said and name not in _PRIVATE
        ]
    assert not missing


@pytest.mark.fast(0)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_what_the_comparison_says_of_peers():
    """docs/about/comparison.md: what others refuse, check or import."""
    needs("comparison.md", "haliax", "penzai", "coordax", "xarray")
    import coordax
    import haliax
    import xarray
    from penzai import pz

    ones = jnp.ones((2, 3))
    with pytest.raises(ValueError):  # noqa: PT011 - a message of theirs is not ours to test
        haliax.named(ones, ("a", None))  # no positional axes
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    with pytest.raises(Exception, match="partitioned 4 times"):
        haliax.shard(haliax.named(jnp.ones(6), "a"), {"a": "x"}, mesh)
    assert nx.shard(nx.named(jnp.ones(6), ["a"]), {"a": "x"}, mesh, padded=False).named_shape["a"] == 6
    left, right = (coordax.LabeledAxis("a", np.arange(3.0) + start) for start in (0, 1))
    with pytest.raises(ValueError):  # noqa: PT011
        coordax.field(jnp.ones(3), left) + coordax.field(jnp.ones(3), right)
    labelled = [xarray.DataArray(np.ones(3), dims="a", coords={"a": np.arange(3) + start}) for start in (0, 1)]
    assert (labelled[0] + labelled[1]).shape == (2,)  # aligned by labels
    for wrong in (lambda: pz.nx.wrap(ones, "a", "b").untag("z"), lambda: haliax.sum(haliax.named(ones, ("a", "b")), axis="z")):
        with pytest.raises(ValueError):  # noqa: PT011
            wrong()
    private = {}
    for name in ("haliax", "penzai", "coordax", "einx"):
        if spec := importlib.util.find_spec(name):
            files = pathlib.Path(spec.origin).parent.rglob("*.py")
            private[name] = sum("jax._src" in file.read_text() for file in files)
    assert private.pop("haliax") == 3
    assert set(private.values()) == {0}


@pytest.mark.fast(0)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_what_the_comparison_says_of_frameworks():
    """docs/about/comparison.md: sizes that do not divide, and files that import private modules of JAX."""
    needs("comparison.md", "equinox", "flax")
    import equinox
    from flax import nnx

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    over_x = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    with pytest.raises(Exception, match="partitioned 4 times"):
        equinox.filter_shard(jnp.ones(6), over_x)
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("x", None))

    def layer():
        return nnx.Linear(6, 8, rngs=nnx.Rngs(0), kernel_init=init)

    with jax.set_mesh(mesh):
        with pytest.raises(Exception, match="partitioned 4 times"):
            layer()
        assert nnx.jit(layer)().kernel[...].is_fully_replicated  # silently
    imports = {}
    for name in ("equinox", "flax"):
        files = pathlib.Path(importlib.util.find_spec(name).origin).parent.rglob("*.py")
        imports[name] = sum("jax._src" in file.read_text() for file in files)
    assert min(imports.values()) > 0
    if (equinox.__version__, importlib.metadata.version("flax")) == ("0.13.8", "0.12.12"):
        assert imports == {"equinox": 11, "flax": 6}


def test_comparison_can_fail():
    """Values, names and the order of axes are compared, not only shapes."""
    x = np.arange(6.0).reshape(2, 3)
    migration_pages.same((("b", "a"), x.T), (("a", "b"), x))
    migration_pages.same(((None, None), x.T), (("a", "b"), x))  # the sizes say which is which
    for wrong in [(("a", "c"), x), (("a", "b"), x + 1e-3), (("a", "b", "c"), x[..., None]), [x]]:
        with pytest.raises(AssertionError):
            migration_pages.same(wrong, (("a", "b"), x))
