"""Names of tests that do not depend on the folder of their module. Nothing here imports JAX: conftest.py reads it before JAX starts."""


def without_room(node_id: str) -> str:
    """Return a node id without the folders that mirror the rooms of the package.

    A test keeps this name when its module moves to another room, so `--one-in` takes the same tests, and
    tests/without_auto_pcast.txt remains true. No two modules have the same base name (tests/house/test_house.py).

    >>> from tests.node_ids import without_room
    >>> without_room("tests/ops/indexing/test_take.py::test_eager[a/b]")
    'tests/test_take.py::test_eager[a/b]'
    >>> without_room("tests/fuzz/test_fuzz.py::test_specimens[ties]")
    'tests/fuzz/test_fuzz.py::test_specimens[ties]'
    """
    module, separator, test = node_id.partition("::")
    folder, _, file = module.rpartition("/")
    if folder.startswith("tests/") and folder != "tests/fuzz":
        module = f"tests/{file}"
    return f"{module}{separator}{test}"
