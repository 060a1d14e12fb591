"""`nx.explain` against the compiled program, for programs that are not examples of ours (tests/insight/analysis/corpus/programs.py).

Kinds and bytes of collectives are equal in all of them, loops included. The peak of the memory is compared with the arguments, results and
temporary arrays of the compiled program, and operations with XLA's count, which counts the body of a loop once.
"""

from collections import Counter

import pytest

import namedax as nx
from tests.insight.analysis.corpus.programs import PROGRAMS

# The peak of the report, divided by that of the compiled program: the least and the largest of all programs, but for those below.
PEAK = (0.78, 1.25)
# Programs outside of that range on the oldest or the newest JAX, as the guide lists them ("Accuracy"): the least and the largest ratio.
PEAK_DEVIATIONS = {
    # Too low: XLA writes an activation beside the product that it belongs to,
    "mixer block": (0.7, 1),
    # or the elements of a reduction, on CPU.
    "batch normalization, training": (0.48, 1),
    "conditional random field": (0.5, 1),
    "transducer loss": (0.65, 1),
    "histogram": (0.03, 1),
    # JAX 0.10 copies a transposed matrix,
    "optimal transport": (0.65, 1),
    # but does not write the shifted arrays of a stencil.
    "rolling windows": (0.95, 2.8),
    "Ising model": (0.95, 1.7),
    # Too high: XLA computes the differences of all pairs in the loop of their sum.
    "bodies under gravity": (1, 13),
}
# Programs without large products: XLA does not count comparisons, selections and transcendental functions, or rewrites a window.
FLOPS = (0.89, 1.1)
FLOPS_DEVIATIONS = {
    "batch normalization, training": (0.75, 1),
    "transducer loss": (1, 1.3),
    "conditional random field": (1, 1.3),
    "optimal transport": (1, 1.2),
    "Ising model": (1, 1.4),
    "random walk": (1, 1.3),
    "gradients of each example": (1, 1.4),
    "top-k sampling": (1, 2.5),
    "sort": (0.6, 1),
    "histogram": (0.6, 1),
    "prefix sums": (0.1, 1),
    "segment sums": (0.85, 7.5),  # a scatter: XLA of JAX 0.10 counts its addition once with the flags of the tests
    "Fourier filter": (0.6, 1),
}
QUICK = {
    "experts over devices, training",
    "gated MLP, training",
    "sharded parameters, training",
    "kernel ridge",
    "heat equation",
    "three factors",
    "top-k sampling",
}


def in_range(ratio, usual, known):
    low, high = known or usual
    return min(low, usual[0]) <= ratio <= max(high, usual[1])


@pytest.mark.fast(3)
@pytest.mark.full(10)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.fast(0), id=name.replace(" ", "-")) for name in PROGRAMS],
)
def test_the_report_has_the_figures_of_the_compiled_program(name):
    program = PROGRAMS[name]
    f, args = program.mapped(), program.values()
    report, compiled = nx.explain(f, *args), f.lower(*args).compile()

    sent = Counter()
    for collective in report.collectives:
        sent[collective.kind + (" in a loop" if collective.trips > 1 else "")] += collective.bytes
    want = {kind: size for kind, (_, size) in nx.hlo.summary(compiled).items() if size}
    assert {kind: size for kind, size in sent.items() if size} == want

    memory = compiled.memory_analysis()
    peak = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    assert in_range(report.memory.peak / peak, PEAK, PEAK_DEVIATIONS.get(name)), f"peak: {report.memory.peak / peak:.2f}"

    flops = sum(operation.flops for operation in report.operations)
    counted = compiled.cost_analysis()["flops"]  # of one step of each loop
    assert in_range(flops / counted, FLOPS, FLOPS_DEVIATIONS.get(name)), f"operations: {flops / counted:.2f}"


def test_deviations_belong_to_programs():
    assert {*PEAK_DEVIATIONS, *FLOPS_DEVIATIONS, *QUICK} <= PROGRAMS.keys()
    assert len(PROGRAMS) >= 40
