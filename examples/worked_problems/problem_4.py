"""Problem 4: the collective matmuls of problem 3 in both directions of the ring.

    python examples/worked_problems/problem_4.py

A link between two devices carries data in both directions at once. With `overlap="bidirectional"`
blocks go around in both directions, each half as far, in half as many steps. The total number of
bytes is the same.
"""

from __future__ import annotations

from problem_3 import compare


def main(b: int = 512, d: int = 1024, f: int = 2048) -> None:
    """Print the tables."""
    compare({"in one direction": True, "in both": "bidirectional"}, b, d, f)


if __name__ == "__main__":
    main()
