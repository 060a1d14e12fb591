"""The link of a mesh axis: a ring, a line or a switch, with its bandwidth and latency."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

from namedax.errors import ArgumentError, did_you_mean

__all__ = ["Kind", "Link", "positive"]

Kind = Literal["ring", "line", "switch"]


@dataclasses.dataclass(frozen=True)
class Link:
    """The connection between the devices along a mesh axis.

    On a ring each device has a neighbor on both sides, and collectives send in both directions at
    once. A line is a ring that does not close: data for the other end goes in one direction, with
    half of the bandwidth. On a switch every device reaches every other with its full bandwidth.

    Attributes:
      bandwidth: bytes per second that one device can send along this mesh axis; on a ring or a
        line, in both directions together.
      latency: the minimum seconds of a message: for each hop on a ring or a line, for each round
        through a switch.
      kind: `"ring"`, `"line"` or `"switch"`; default: `"ring"`.
      closes: a ring closes only along axes whose size is a multiple of this; others are lines. A
        v5e slice closes at 16 chips, a v5p slice at multiples of 4. Default: 1.
      dimensions: for a torus, the number of axes with separate links. More mesh axes than that
        share them evenly. Default: `None`, one for each mesh axis.
      reach: the number of devices that it connects, over all mesh axes together: 8 GPUs in a node,
        256 chips in a pod. Default: `None`, any number.
      beyond: the link between such groups of devices, such as the network between nodes. Default:
        `None`.

    Raises:
      ArgumentError: a bandwidth that is not positive, a negative latency, an unknown kind, or
        counts that are not positive integers.

    >>> Link(bandwidth=9e10, latency=1e-6)
    Link(bandwidth=90000000000.0, latency=1e-06, kind='ring', closes=1, dimensions=None, reach=None, beyond=None)
    """

    bandwidth: float
    latency: float
    kind: Kind = "ring"
    closes: int = dataclasses.field(default=1, kw_only=True)
    dimensions: int | None = dataclasses.field(default=None, kw_only=True)
    reach: int | None = dataclasses.field(default=None, kw_only=True)
    beyond: Link | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        positive("Link", "bandwidth", self.bandwidth, "bytes per second")
        if not _is_number(self.latency) or not 0 <= self.latency < math.inf:
            raise ArgumentError(
                f"Link: latency={self.latency!r} must be zero or a positive number of seconds, such"
                " as 1e-6."
            )
        if self.kind not in get_args(Kind):
            raise ArgumentError(
                f"Link: kind={self.kind!r} is not a kind of link. Choose from 'ring', 'line',"
                f" 'switch'.{did_you_mean(self.kind, get_args(Kind))}"
            )
        for name in ("closes", "dimensions", "reach"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1) and not (
                value is None and name != "closes"
            ):
                raise ArgumentError(f"Link: {name}={value!r} must be a positive integer.")
        if self.beyond is not None and not isinstance(self.beyond, Link):
            raise ArgumentError(
                f"Link: beyond={self.beyond!r} is not a Link. Pass the Link between groups of"
                " `reach` devices."
            )
        if self.beyond is not None and self.reach is None:
            raise ArgumentError(
                "Link: beyond= is the link between groups of devices. Pass the size of a group as"
                " reach=."
            )

    def closed(self, size: int) -> bool:
        """Return True if an axis of `size` devices is a closed ring."""
        return self.kind == "ring" and size % self.closes == 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(of: str, name: str, value: Any, unit: str) -> None:
    """Raise an error that names the argument, unless `value` is a positive and finite number.

    >>> positive("Machine", "memory", -1, "bytes")
    Traceback (most recent call last):
      ...
    namedax.errors.ArgumentError: Machine: memory=-1 must be a positive number of bytes, such as 1e9. [NX018]
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise ArgumentError(
            f"{of}: {name}={value!r} must be a positive number of {unit}, such as 1e9."
        )
