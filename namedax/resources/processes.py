"""Compare calls between processes before they communicate.

A multi-process program works only if all processes make the same calls. A process with a different
layout or size causes a hang, an abort or a wrong sharding. `compare` exchanges a hash of each
call's description. If the hashes differ, it also exchanges the descriptions, so that the error
shows the difference.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from namedax.errors import ArgumentError, NamedaxError

__all__ = ["all_devices", "compare", "mesh_text", "spans_processes", "stable_text"]

_SECONDS = "NAMEDAX_COMPARE_PROCESSES"
_DEFAULT = 300.0
_WORDS = 8  # of 32 bits, in a hash
_known: set[bytes] = set()  # hashes of compared calls, which are equal in all processes
_known_lock = threading.Lock()


def _time_limit() -> float:
    """Return the seconds to wait for other processes; 0 switches the comparison off."""
    text = os.environ.get(_SECONDS, "")
    try:
        seconds = float(text) if text else _DEFAULT
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ArgumentError(
            f"{_SECONDS}: the environment variable is {text!r}. Set it to the number of seconds to"
            " wait for other processes, or to 0 to switch the comparison off."
        )
    return seconds


@functools.lru_cache(maxsize=64)
def _representatives(mesh: Mesh) -> tuple[jax.Device, ...]:
    """Return one device of each process in the mesh, ordered by process index."""
    first: dict[int, Any] = {}
    for device in sorted(mesh.devices.flat, key=lambda device: device.id):
        first.setdefault(device.process_index, device)
    return tuple(first[index] for index in sorted(first))


def spans_processes(mesh: Mesh) -> bool:
    """Return True if the mesh has devices of this process and of others.

    The result is False if the comparison is switched off.
    """
    devices = _representatives(mesh)
    mine = jax.process_index()
    return (
        len(devices) > 1
        and any(device.process_index == mine for device in devices)
        and _time_limit() > 0
    )


def all_devices() -> Mesh:
    """Return a mesh of all devices of the program."""
    return Mesh(np.array(jax.devices()), ("devices",))


def stable_text(value: object) -> str:
    """Return a `repr` that all processes share: sets are sorted, object addresses removed."""
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(
                sorted(f"{stable_text(key)}: {stable_text(inner)}" for key, inner in value.items())
            )
            + "}"
        )
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(stable_text, value))) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(stable_text, value)) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(map(stable_text, value)) + ("," if len(value) == 1 else "") + ")"
    return re.sub(r"0x[0-9a-fA-F]+", "0x...", repr(value))


def mesh_text(mesh: Mesh) -> str:
    """Describe the axes of a mesh and its devices."""
    devices = [device.id for device in mesh.devices.flat]
    return (
        f"{dict(mesh.shape)} of types {[str(kind) for kind in mesh.axis_types]} over devices"
        f" {devices}"
    )


def compare(
    op: str,
    call: Mapping[str, str],
    mesh: Mesh,
    error: type[NamedaxError],
    *,
    once: bool,
    more: Callable[[], str] | None = None,
) -> None:
    """Compare a call with that of the other processes of a mesh.

    Every process of the mesh must come here; the processes wait for each other.

    Args:
      op: the operation, for messages.
      call: a description, by fields.
      mesh: a mesh that spans processes.
      error: the class of error to raise.
      once: if True, an equal call that was compared before is not compared again.
      more: the hash of the program, computed only if the call is compared. Default: none.

    Raises:
      NamedaxError: of class `error`; the calls differ, or a process did not call in time.
    """
    text = json.dumps({"operation": op, **call})
    key = _digest(text)
    if once:
        with _known_lock:
            if key in _known:
                return
    if more is not None:
        text = json.dumps({"operation": op, **call, "program": more()})
    data = text.encode()
    row = np.array([*np.frombuffer(_digest(text), np.uint32), len(data)], np.uint32)
    devices = _representatives(mesh)
    rows = _gather(row, devices, op, error)
    if (rows != rows[0]).any():
        padded = np.zeros(int(rows[:, _WORDS].max()), np.uint32)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        texts = [
            bytes(other[:size].astype(np.uint8)).decode()
            for other, size in zip(
                _gather(padded, devices, op, error), rows[:, _WORDS], strict=True
            )
        ]
        raise error(
            _difference(
                op,
                [device.process_index for device in devices],
                [json.loads(other) for other in texts],
            )
        )
    with _known_lock:
        _known.add(key)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _difference(op: str, processes: list[int], calls: list[dict[str, str]]) -> str:
    """Return the error message for calls that differ."""
    fields = list(dict.fromkeys(field for call in calls for field in call))
    differing = []
    for field in fields:
        values: dict[str, list[int]] = {}
        for process, call in zip(processes, calls, strict=True):
            values.setdefault(call.get(field, "nothing"), []).append(process)
        if len(values) > 1:
            found = "; ".join(
                f"{value} in {_processes(members)}" for value, members in values.items()
            )
            differing.append(f"{field}: {found}")
    return (
        f"{op}: the calls of the processes differ. {'. '.join(differing)}. Make the same call in"
        f" every process; set {_SECONDS}=0 in every process to switch this comparison off."
    )


def _processes(members: list[int]) -> str:
    shown = ", ".join(map(str, members[:8])) + (
        f" and {len(members) - 8} more" if len(members) > 8 else ""
    )
    return f"process {shown}" if len(members) == 1 else f"processes {shown}"


def _gather(
    row: np.ndarray, devices: tuple[jax.Device, ...], op: str, error: type[NamedaxError]
) -> np.ndarray:
    """Gather the rows of all processes, which wait for each other up to the time limit."""
    found: list[np.ndarray] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            found.append(_all_gather(row, devices))
        except Exception as reason:  # raised below, in the thread of the caller
            failed.append(reason)

    # A separate thread can have a time limit, and does not inherit the caller's traces and
    # contexts.
    seconds = _time_limit()
    thread = threading.Thread(target=work, daemon=True, name="namedax-compare-processes")
    thread.start()
    thread.join(seconds)
    if found:
        return found[0]
    reason = (
        f"within {seconds:g} seconds"
        if not failed
        else f"({type(failed[0]).__name__}: {str(failed[0])[:300]})"
    )
    mine = jax.process_index()
    others = [device.process_index for device in devices if device.process_index != mine]
    raise error(
        f"{op}: process {mine} cannot compare its call with that of the other processes, {others}:"
        f" they did not answer {reason}. Make the same call in every process, or set {_SECONDS} in"
        " every process: to more seconds, or to 0 to switch the comparison off."
    ) from (failed[0] if failed else None)


def _all_gather(row: np.ndarray, devices: tuple[jax.Device, ...]) -> np.ndarray:
    mesh = Mesh(np.array(devices), ("processes",))
    mine = next(device for device in devices if device.process_index == jax.process_index())
    sharding = NamedSharding(mesh, PartitionSpec("processes"))
    shape = (len(devices), *row.shape)
    rows = jax.make_array_from_single_device_arrays(
        shape, sharding, [jax.device_put(row[None], mine)]
    )
    gathered = jax.jit(_identity, out_shardings=NamedSharding(mesh, PartitionSpec()))(rows)
    return np.asarray(gathered.addressable_data(0))


def _identity(rows: jax.Array) -> jax.Array:
    return rows
