"""Unknowns of equations: Newton's method, written down as operations, with derivatives that are those of the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc import _expression as e
from gpc._lib import InputError

__all__ = ["Equations", "Solution"]

_ADVICE = "take more iterations or a guess that is closer, and residuals whose derivatives by the unknowns are not singular"
_SETTLED = 1e-8  # of an unknown's size: what Newton's next step may move it by
_LEAST = 1e-4  # of the largest unknown's size: what another one counts as at least

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": e.add, "sub": e.sub, "mul": e.mul, "div": e.div, "neg": e.neg, "abs": e.absolute, "sqrt": e.sqrt, "exp": e.exp, "log": e.log, "floor": e.floor,
    "pow": e.power, "hypot": e.hypot, "min": e.minimum, "max": e.maximum, "lt": e.less, "le": e.at_most, "eq": e.equal, "select": e.choose,
    "atan2": e._BINARY["arctan2"], "detach": e.detach,
    **{op: e._UNARY[name] for op, name in (("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"))},
    **{op: e._UNARY[op] for op in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}


def _root(x: Any) -> Any:
    return e.sqrt(e.sub(1.0, e.mul(x, x)))


def _square_sum(x: Any, y: Any) -> Any:
    return e.add(e.mul(x, x), e.mul(y, y))


# The partial derivatives of a value v by its operands, as docs/reference/program.md has them; what is not here has none.
_PARTIALS: dict[str, Callable[..., tuple[Callable[[], Any], ...]]] = {
    "add": lambda v, x, y: (lambda: 1.0, lambda: 1.0), "sub": lambda v, x, y: (lambda: 1.0, lambda: -1.0),
    "mul": lambda v, x, y: (lambda: y, lambda: x), "div": lambda v, x, y: (lambda: e.div(1.0, y), lambda: e.neg(e.div(v, y))),
    "neg": lambda v, x: (lambda: -1.0,), "abs": lambda v, x: (lambda: e._sign(x),),
    "sqrt": lambda v, x: (lambda: e.choose(e.equal(v, 0.0), 0.0, e.div(0.5, v)),), "exp": lambda v, x: (lambda: v,), "log": lambda v, x: (lambda: e.div(1.0, x),),
    "sin": lambda v, x: (lambda: _OPERATIONS["cos"](x),), "cos": lambda v, x: (lambda: e.neg(_OPERATIONS["sin"](x)),),
    "tan": lambda v, x: (lambda: e.add(1.0, e.mul(v, v)),), "asin": lambda v, x: (lambda: e.div(1.0, _root(x)),), "acos": lambda v, x: (lambda: e.div(-1.0, _root(x)),),
    "atan": lambda v, x: (lambda: e.div(1.0, e.add(1.0, e.mul(x, x))),), "sinh": lambda v, x: (lambda: _OPERATIONS["cosh"](x),),
    "cosh": lambda v, x: (lambda: e.sinh(x),), "tanh": lambda v, x: (lambda: e.sub(1.0, e.mul(v, v)),),
    "pow": lambda v, x, y: (lambda: e.mul(y, e.power(x, e.sub(y, 1.0))), lambda: e.mul(v, e.log(x))),
    "atan2": lambda v, y, x: (lambda: e.div(x, _square_sum(x, y)), lambda: e.neg(e.div(y, _square_sum(x, y)))),
    "hypot": lambda v, x, y: (lambda: e.div(x, v), lambda: e.div(y, v)),
    "min": lambda v, x, y: (lambda: e.at_most(x, y), lambda: e.less(y, x)), "max": lambda v, x, y: (lambda: e.at_most(y, x), lambda: e.less(x, y)),
}


def counted(iterations: Any, where: str) -> int:
    """A number of Newton's iterations, each of which is written down."""
    if isinstance(iterations, bool) or not isinstance(iterations, (int, np.integer)) or not 1 <= iterations <= 100:
        raise InputError(f"{where}: iterations is {iterations!r}, want a number of Newton's iterations, 1 to 100")
    return int(iterations)


class Equations:
    """Residuals that are to be 0, as they were written down as a function of known inputs and then unknowns."""

    def __init__(self, code: e.Code, residuals: Sequence[Any], unknowns: int) -> None:
        self._nodes, self._results, self._lines = code.needed([code.value(r) for r in residuals])
        self.unknowns, self._first = unknowns, code.inputs - unknowns

    def depends(self, unknown: int) -> bool:
        """Whether the residuals depend on an unknown."""
        return any(self._first + unknown in v for v in (self._results, *(rest for op, *rest in self._nodes if op != "const")))

    def values(self, inputs: Sequence[Any], slopes: bool = False) -> tuple[list[Any], Any]:
        """The residuals, and where asked for their derivatives by the unknowns, of inputs and then unknowns."""
        values, tangents = [*inputs], [{i - self._first: 1.0} if i >= self._first and slopes else {} for i in range(len(inputs))]
        code = next((x._code for x in inputs if isinstance(x, e.Expression)), None)
        for (op, *rest), line in zip(self._nodes, self._lines):
            if code is not None:
                code.line = line
            x, along = ([], []) if op == "const" else ([values[i] for i in rest], [tangents[i] for i in rest])
            values.append(_OPERATIONS[op](*x) if x else rest[0])
            tangents.append(_tangent(op, values[-1], x, along) if any(along) else {})
        if code is not None:
            code.line = None
        jacobian = np.array([[tangents[r].get(k, 0.0) for k in range(self.unknowns)] for r in self._results], object)
        return [values[r] for r in self._results], jacobian

    def solve(self, known: Sequence[Any], guess: Sequence[Any], iterations: int, where: str, names: Sequence[str]) -> list[Any]:
        """The unknowns where the residuals are 0, by so many of Newton's iterations from a guess; where and names are what errors say.

        The iterations are detached: nothing is differentiated through them. Two more steps, by the Jacobian at their end, have the
        derivatives of the solution: with each of such steps they are exact to one order more.
        """
        fixed, z = [e.detach(x) for x in known], [e.detach(x) for x in guess]
        for _ in range(iterations):
            try:
                residuals, jacobian = self.values([*fixed, *z], True)
                z = [e.sub(x, d) for x, d in zip(z, e._objects(e._solve(jacobian, residuals)))]
            except InputError as problem:
                raise InputError(f"{where}: the guess leads to {str(problem).removeprefix(e.at(e._line()))}: {_ADVICE}") from None
        z = [e.detach(x) for x in z]
        inverse = e._objects(e._solve(self.values([*fixed, *z], True)[1], np.eye(self.unknowns)))
        for last in (False, False, True):
            residuals, _ = self.values([*known, *z])
            steps = e._product(inverse, np.array(residuals, object))
            if not last:
                z = [e.sub(x, d) for x, d in zip(z, steps)]
        values = [*z, *residuals, *steps]
        code = next((x._code for x in values if isinstance(x, e.Expression)), None)
        solution = Solution(names, where, iterations)
        if code is None:
            solution.check(np.array(values, float)[:, None])
        else:
            solution.write(code, values)
        return z


class Solution:
    """What was solved for in a function: the unknowns with their residuals and what Newton's next step would move them by."""

    def __init__(self, names: Sequence[str], where: str, iterations: int) -> None:
        self._names, self._where, self._iterations = names, where, iterations

    def write(self, code: e.Code, values: Sequence[Any]) -> None:
        """Adds it to those that the code was solved for, of unknowns, residuals and steps."""
        self._code, self._results, _ = code.needed([code.value(v) for v in values])
        code.solved.append(self)

    def check_at(self, inputs: NDArray[np.float64]) -> None:
        """Refuses unknowns that are not reached at points, inputs of the function [entries, points]."""
        values = e.evaluate(self._code, inputs)
        self.check(np.array([values[v] for v in self._results]))

    def check(self, values: NDArray[np.float64]) -> None:
        """Refuses unknowns that are not reached, of unknowns, residuals and steps [3 * unknowns, points]."""
        z, residuals, steps = np.split(values, 3)
        size = np.nanmax(np.abs(z), axis=1, keepdims=True, initial=0)
        moved = np.abs(steps) / np.maximum(size + _LEAST * size.max(), np.finfo(float).tiny)
        moved[~np.isfinite(moved)] = np.inf
        i, point = np.unravel_index(np.argmax(moved), moved.shape)
        if moved[i, point] > _SETTLED:
            k = int(np.argmax(np.abs(residuals[:, point])))
            raise InputError(
                f"{self._where}: after {self._iterations} iterations residual {k} is {residuals[k, point]:.3g}, want 0, where {self._names[int(i)]!r} is {z[i, point]:.6g}, and "
                f"the next would change it by {-steps[i, point]:.3g}: {_ADVICE}"
            )


def _tangent(op: str, v: Any, x: list[Any], along: list[dict[int, Any]]) -> dict[int, Any]:
    """The derivatives of an operation's value by the unknowns, from those of its operands."""
    out: dict[int, Any] = {}
    if op == "select":
        for k in {**along[1], **along[2]}:
            out[k] = e.choose(x[0], along[1].get(k, 0.0), along[2].get(k, 0.0))
        return out
    for partial, tangent in zip(_PARTIALS[op](v, *x) if op in _PARTIALS else (), along):
        if tangent:
            slope = partial()
            for k, t in tangent.items():
                out[k] = e.add(out.get(k, 0.0), e.mul(slope, t))
    return out
