"""Where a function that was written down jumps as its inputs change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._expression import evaluate

__all__ = ["jump"]

Floats = NDArray[np.float64]

_COMPARISONS = ("lt", "le", "eq")
_TRUTHS = (*_COMPARISONS, "select")  # & and | are selects
_HALVINGS = 60  # of the way between two points, until both are next to where a comparison turns
_SHARE = 1e-5  # of a result's size, beyond which its change there is a jump; that of a cube root of rounding is less


def jump(code: Sequence[Sequence[Any]], results: Sequence[int], inputs: Floats, moved: Floats) -> int | None:
    """The first value of code at which results jump on the way from inputs to moved [entries, points], or None.

    It is a comparison that the results differ by where its sides are equal, or a choice by a number that is no comparison. One
    whose two branches meet there, such as np.where(u > 0, 2 * u, 3 * u), is none: it is as a minimum or a maximum is.
    """
    entries = len(inputs)
    depends = list((inputs != moved).any(axis=1))
    for op, *operands in code:
        depends.append(op not in ("const", "detach") and any(depends[v] for v in operands))
    candidates = [entries + i for i, (op, *v) in enumerate(code) if depends[entries + i] and (
        op in _COMPARISONS or op == "select" and depends[v[0]] and not (v[0] >= entries and code[v[0] - entries][0] in _TRUTHS)
    )]
    if not candidates:
        return None
    here = evaluate(code, inputs)
    sizes = [np.abs(here[r][np.isfinite(here[r])]).max(initial=0) for r in results]
    for k in candidates:
        op, *operands = code[k - entries]
        x, y = operands[-2:]
        if op == "select":
            points = inputs
            sides = here[x], here[y]
        else:
            points = _between(code, x, y, inputs, moved)
            sides = np.zeros(points.shape[1]), np.ones(points.shape[1])
        a, b = (evaluate(code, points, {k: side}) for side in sides)
        for r, size in zip(results, sizes):
            with np.errstate(invalid="ignore"):
                change = np.abs(a[r] - b[r])
            if (np.isfinite(change) & (change > _SHARE * size)).any():
                return k
    return None


def _between(code: Sequence[Sequence[Any]], x: int, y: int, a: Floats, b: Floats) -> Floats:
    """Points between those of a and b where value x comes to exceed y, to rounding; of those for which it does so."""

    def exceeds(points: Floats) -> NDArray[np.bool_]:
        values = evaluate(code, points)
        return np.asarray(values[x] > values[y])

    below = exceeds(a)
    turns = below != exceeds(b)
    a, b, below = a[:, turns], b[:, turns], below[turns]
    for _ in range(_HALVINGS if turns.any() else 0):
        middle = (a + b) / 2
        same = exceeds(middle) == below
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return b
