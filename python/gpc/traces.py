"""Traces as columns; docs/reference/formats.md has every field. Python and NumPy alone, the library is not needed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import InputError

__all__ = ["Trace", "read"]

_VERSIONS = (2, 3)  # of 2, which lack the context
_VECTORS = ("x", "c", "u", "s", "sigma", "J", "priority", "times_us")
_NUMBERS = ("margin", "residual", "latency_us", "displacement")


@dataclass(frozen=True)
class Trace:
    """A trace: n decisions of all its episodes, one behind the other."""

    header: dict[str, Any]
    """The first line."""
    columns: dict[str, NDArray[Any]]
    """episode, t, fallback [n] int64, failed [n] bool, margin, residual, latency_us, displacement [n] and x, c, u, s, sigma, J,
    priority, times_us [n, width] float64. null is NaN, and so are the entries that shorter lists lack; one that no line has has width 0."""
    scenes: list[dict[str, Any]]
    """Of each episode."""
    ends: list[dict[str, Any]]
    """The verdicts, in the order of scenes."""
    episodes: list[int]
    """Their numbers."""
    sha256: str
    """Of the last record, and by the chain of the whole trace."""

    def __len__(self) -> int:
        return len(self.columns["t"])

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    def frame(self) -> Any:
        """The columns as a pandas.DataFrame, lists as x_0, x_1 and so on."""
        import pandas

        flat: dict[str, NDArray[Any]] = {}
        for name, values in self.columns.items():
            if values.ndim == 1:
                flat[name] = values
            else:
                flat.update((f"{name}_{i}", values[:, i]) for i in range(values.shape[1]))
        return pandas.DataFrame(flat)


def read(file: str) -> Trace:
    """Reads a trace and holds it to its hashes; one that a run has left in the middle of an episode is read up to there.
    `gpc verify` is what tells whether what it says is so."""
    header: dict[str, Any] | None = None
    lines: list[dict[str, Any]] = []
    scenes: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    episodes: list[int] = []
    pending: list[dict[str, Any]] = []
    record, last = hashlib.sha256(), ""
    with open(file, "rb") as f:
        for number, raw in enumerate(f, 1):
            if not raw.endswith(b"\n"):
                break
            try:
                line = json.loads(raw)
            except ValueError as e:
                raise InputError(f"{file}, line {number}: not JSON: {e}") from None
            if not isinstance(line, dict):
                raise InputError(f"{file}, line {number}: want a JSON object")
            if header is None:
                if line.get("trace") not in _VERSIONS:
                    raise InputError(f"{file}, line 1: the header has \"trace\": {line.get('trace')}, want one of {_VERSIONS}")
                header, last = line, hashlib.sha256(raw).hexdigest()
                continue
            if "sha256" in line:
                if line["sha256"] != record.hexdigest():
                    raise InputError(f"{file}, line {number}: damaged or edited: the checksum of episode {line.get('episode')} does not match its lines")
                last, record = line["sha256"], hashlib.sha256()
                *steps, end = pending[1:] or [{}]
                if not pending or "scene" not in pending[0] or "end" not in end:
                    raise InputError(f"{file}, line {number}: want an episode that begins with the line of its scene and closes with its end")
                scenes.append(pending[0]["scene"])
                ends.append(end["end"])
                episodes.append(pending[0]["episode"])
                lines += steps
                pending = []
                continue
            if not pending and line.get("before_sha256") != last:
                raise InputError(f"{file}, line {number}: damaged or edited: before_sha256 does not match the record before")
            record.update(raw)
            pending.append(line)
    if header is None:
        raise InputError(f"{file}: the file is empty, want a header line")
    try:
        columns = _columns(lines)
        if not header.get("margins"):
            columns["margin"][:] = np.inf  # without a hard limit there is no margin, which is null
        return Trace(header, columns, scenes, ends, episodes, last)
    except (KeyError, TypeError, ValueError) as e:
        raise InputError(f"{file}: a decision lacks a field, or a field is not a number: {e!r}") from None


def _columns(lines: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {name: np.array([line[name] for line in lines], np.int64) for name in ("episode", "t", "fallback")}
    columns["failed"] = np.array([line.get("failed", False) for line in lines], np.bool_)
    for name in _NUMBERS:
        columns[name] = np.array([np.nan if line[name] is None else line[name] for line in lines], np.float64)
    for name in _VECTORS:
        lists = [line.get(name) or [] for line in lines]
        a = np.full((len(lines), max(map(len, lists), default=0)), np.nan)
        for i, values in enumerate(lists):
            a[i, : len(values)] = values
        columns[name] = a
    return columns
