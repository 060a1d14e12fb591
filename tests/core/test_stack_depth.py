"""Room on Python's stack: frames of deep calls fit into the chunk of one large frame."""

import sys

import pytest

from namedax.core.stack_depth import with_stack_depth


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def test_arguments_and_results_pass_through():
    assert with_stack_depth(lambda *args, **kwargs: (args, kwargs), 1, 2, word=3) == ((1, 2), {"word": 3})
    assert with_stack_depth(with_stack_depth, depth, 300) == 300


def test_errors_pass_through():
    def raises():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        with_stack_depth(raises)


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults, as Linux does")
def test_calls_across_the_end_of_a_chunk_map_no_memory():
    resource = pytest.importorskip("resource")

    def faults(call):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        call()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def often():
        # Some of these depths end just before the end of a chunk, whatever the depth of the test is.
        for n in range(200):
            for _ in range(10):
                depth(n)

    often()
    assert faults(lambda: with_stack_depth(often)) < 100
