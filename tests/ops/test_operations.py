"""Laws 2 and 3: every row of the table of operations: the same values and gradients in every placement."""

import pytest

from tests.harness import PARTITIONER, PLACEMENTS, array, check
from tests.operations import OPERATIONS


@pytest.mark.fast(5)
@pytest.mark.parametrize("placement", [*PLACEMENTS, *PARTITIONER], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation, placement):
    named, plain, out_axes = OPERATIONS[operation]
    check(named, plain, (array(8, 4),), (["a", "b"],), out_axes, placement)
