"""CasADi's functions as functions of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpc import _expression as e
from gpc._lib import InputError

__all__ = ["CasadiFunction", "from_casadi"]

# What CasADi's operations are; others are refused by name.
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": e.add, "SUB": e.sub, "MUL": e.mul, "DIV": e.div, "POW": e.power, "CONSTPOW": e.power, "FMIN": e.minimum, "FMAX": e.maximum, "HYPOT": e.hypot,
    "ATAN2": e._BINARY["arctan2"], "LT": e.less, "LE": e.at_most, "EQ": e.equal, "NE": e._BINARY["not_equal"], "AND": e.both, "OR": e.either,
    "IF_ELSE_ZERO": lambda c, x: e.choose(c, x, 0.0), "FMOD": lambda x, y: e.sub(x, e.mul(y, e._trunc(e.div(x, y)))),
    "REMAINDER": lambda x, y: e.sub(x, e.mul(y, _nearest(e.div(x, y)))),
    "COPYSIGN": lambda x, y: e.choose(e.less(y, 0.0), e.neg(e.absolute(x)), e.absolute(x)),
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "ASSIGN": lambda x: x, "SQ": lambda x: e.mul(x, x), "TWICE": lambda x: e.add(x, x), "INV": lambda x: e.div(1.0, x), "NOT": e.negation,
    **{op: e._UNARY[numpy] for op, numpy in (
        ("NEG", "negative"), ("SQRT", "sqrt"), ("SIN", "sin"), ("COS", "cos"), ("TAN", "tan"), ("ASIN", "arcsin"), ("ACOS", "arccos"), ("ATAN", "arctan"),
        ("SINH", "sinh"), ("COSH", "cosh"), ("TANH", "tanh"), ("ASINH", "arcsinh"), ("ACOSH", "arccosh"), ("ATANH", "arctanh"), ("EXP", "exp"), ("LOG", "log"),
        ("LOG1P", "log1p"), ("EXPM1", "expm1"), ("FABS", "absolute"), ("SIGN", "sign"), ("FLOOR", "floor"), ("CEIL", "ceil"),
    )},
}
_WHY = {
    "CALL": "a call of another function that cannot be expanded, such as an integrator, a root finder or an interpolant: write its equations",
    "BSPLINE": "a B-spline: write it as a polynomial, or as np.where of polynomials", "INTERPOLANT": "an interpolant: write it as np.where of formulas",
    "SOLVE": 'a linear solve at run time: ca.solve(A, b, "symbolicqr") is expanded', "ERF": "the error function: there is no such operation",
    "LOGSUMEXP": "its log-sum-exp: write it by ca.exp and ca.log", "LINSOL": 'a linear solve at run time: ca.solve(A, b, "symbolicqr") is expanded',
}


def _nearest(x: Any) -> Any:
    return e.floor(e.add(x, 0.5))


class CasadiFunction:
    """A function of CasADi on numbers and expressions; from_casadi makes it."""

    def __init__(self, f: Any, code: list[tuple[Any, ...]]) -> None:
        self.name: str = f.name()
        self.inputs: list[str] = f.name_in()
        self.outputs: list[str] = f.name_out()
        self._in = [(f.size_in(i), _nonzeros(f.sparsity_in(i))) for i in range(f.n_in())]
        self._out = [(f.size_out(i), _nonzeros(f.sparsity_out(i))) for i in range(f.n_out())]
        self._code = code

    def __call__(self, *args: Any) -> Any:
        """The outputs, one alone as it is: a number of size 1, a vector of a column, else an array [rows, columns]."""
        if len(args) != len(self._in):
            raise InputError(f"{self.name} of CasADi takes {len(self.inputs)} arguments ({', '.join(self.inputs)}), not {len(args)}")
        given = []
        for name, (shape, nonzeros), x in zip(self.inputs, self._in, args):
            entries = e._objects(x).reshape(-1, order="F")
            if entries.size != shape[0] * shape[1]:
                raise InputError(f"{self.name} of CasADi: {name} has {entries.size} entries, want {shape[0]} × {shape[1]}")
            given.append([entries[p] for p in nonzeros])
        work: dict[int, Any] = {}
        results: list[Any] = [np.zeros(shape[0] * shape[1]).astype(object) for shape, _ in self._out]
        for name, of, to in self._code:
            if name == "INPUT":
                work[to[0]] = given[of[0]][of[1]]
            elif name == "OUTPUT":
                results[to[0]][self._out[to[0]][1][to[1]]] = work[of[0]]
            elif name == "CONST":
                work[to[0]] = of
            else:
                f = _BINARY.get(name) or _UNARY[name]
                work[to[0]] = f(*(work[i] for i in of))
        shaped = [_shaped(r, shape) for r, (shape, _) in zip(results, self._out)]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)

    def __repr__(self) -> str:
        return f"<{self.name} of CasADi: ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}), {len(self._code)} instructions>"


def _nonzeros(sparsity: Any) -> list[int]:
    """Where the entries that are not always zero are, column by column."""
    rows, columns = sparsity.get_triplet()
    return [c * sparsity.size1() + r for r, c in zip(rows, columns)]


def _shaped(entries: Any, shape: tuple[int, int]) -> Any:
    if shape == (1, 1):
        return entries[0]
    a = entries.reshape(shape, order="F")
    return e._vector(a[:, 0] if shape[1] == 1 else a)


def from_casadi(f: Any) -> CasadiFunction:
    """A casadi.Function as a function that equations of a System may call, with expressions or numbers.

        model = casadi.Function("f", [x, u], [rhs])     # of SX, or of MX that can be expanded
        f = gpc.from_casadi(model)

        @system.ode()
        def _(s, u):
            return f(s, u)

    What does not map is an InputError that names it: interpolants, integrators, root finders, linear solves but by symbolicqr.
    """
    import casadi

    if not isinstance(f, casadi.Function):
        raise InputError(f"from_casadi takes a casadi.Function, not a {type(f).__name__}: casadi.Function(name, [inputs], [outputs])")
    names = {getattr(casadi, k): k.removeprefix("OP_") for k in dir(casadi) if k.startswith("OP_")}
    if not f.is_a("SXFunction"):
        try:
            f = f.expand()
        except RuntimeError as problem:
            raise InputError(f"{f.name()} of CasADi cannot be expanded to scalars: {_culprit(f, names, str(problem))}") from None
    code: list[tuple[Any, ...]] = []
    for k in range(f.n_instructions()):
        name = names[f.instruction_id(k)]
        if name not in ("INPUT", "OUTPUT", "CONST") and name not in _BINARY and name not in _UNARY:
            raise InputError(f"{f.name()} of CasADi: instruction {k} is {name}: {_WHY.get(name, 'there is no such operation')}")
        of = f.instruction_constant(k) if name == "CONST" else f.instruction_input(k)
        code.append((name, of, f.instruction_output(k)))
    return CasadiFunction(f, code)


def _culprit(f: Any, names: dict[int, str], problem: str) -> str:
    """The instruction of a function of MX that cannot be expanded."""
    if f.is_a("MXFunction"):
        for k in range(f.n_instructions()):
            name = names[f.instruction_id(k)]
            if name in _WHY and name != "ERF":
                return f"instruction {k} is {name}, {_WHY[name]}"
    lines = [x for x in problem.splitlines() if x.strip()]
    return lines[-1] if lines else "CasADi does not say why"
