"""Measured times of a program, joined with its prediction.

- `instructions` parses the HLO text of a compiled program: each instruction with its scopes, its
  frames and its operands.
- `events` reads a trace of JAX's profiler: which instruction ran on which device, and when.
- `joining` divides the time of a step among the instructions that run, and assigns instructions to
  the lines and operations of the report.
- `fitting` fits the figures of a machine to measured times.
- `profile` is the result, which is grouped, fitted, rendered and exported.
- `profiler` is the public function.

Read `events` and `joining` first.
"""
