"""CasADi's functions as functions of expressions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpc import _expression as e
from gpc._implicit import Equations, counted
from gpc._lib import InputError

__all__ = ["CasadiFunction", "from_casadi"]

# What CasADi's operations are; others are refused by name.
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": lambda x, y: _sum(x, y), "SUB": e.sub, "MUL": e.mul, "DIV": e.div, "POW": e.power, "CONSTPOW": e.power, "FMIN": e.minimum, "FMAX": e.maximum, "HYPOT": e.hypot,
    "ATAN2": e._BINARY["arctan2"], "LT": e.less, "LE": e.at_most, "EQ": lambda x, y: e.negation(x) if e.is_truth(x) and e._is(y, 0) else e.equal(x, y), "NE": e._BINARY["not_equal"], "AND": e.both, "OR": e.either,
    "IF_ELSE_ZERO": lambda c, x: e.choose(c, x, 0.0), "FMOD": e._BINARY["fmod"],
    "REMAINDER": lambda x, y: e.sub(x, e.mul(y, _nearest(e.div(x, y)))),
    "COPYSIGN": e._BINARY["copysign"],
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
    "CALL": "a call of another function that cannot be expanded, such as an integrator: write its equations, and unknowns of equations by @y.algebraic",
    "BSPLINE": 'a B-spline of its own: write it by ca.interpolant(name, "bspline", grid, values), or a table by np.interp',
    "SOLVE": 'a linear solve at run time: ca.solve(A, b, "symbolicqr") is expanded', "ERF": "the error function: there is no such operation",
    "LOGSUMEXP": "its log-sum-exp: write it by ca.exp and ca.log", "LINSOL": 'a linear solve at run time: ca.solve(A, b, "symbolicqr") is expanded',
}

_INTERPOLANTS = ("LinearInterpolant", "BSplineInterpolant")
_ROOTFINDERS = ("Newton", "FastNewton", "KinsolInterface", "ImplicitToNlp")


def _nearest(x: Any) -> Any:
    return e.floor(e.add(x, 0.5))


def _sum(x: Any, y: Any) -> Any:
    """x + y, or one choice of what CasADi's if_else writes as a sum: of two parts that jump, though the choice may not."""
    one, other = e.node(x), e.node(y)
    if one[:1] == other[:1] == ("select",):
        code = x._code
        negated = e.node(e.Expression(code, other[1]))
        if negated[:2] == ("select", one[1]) and [code.constant(v) for v in (*negated[2:], one[3], other[3])] == [0, 1, 0, 0]:
            return e.choose(*(e.Expression(code, v) for v in (one[1], one[2], other[2])))
    return e.add(x, y)


class _Interpolant:
    """An interpolant of CasADi's, of one and more dimensions: entries of its result as a function of those of its argument.

    In each dimension a point has a weight for every node of the table. The result is the table's products with them.
    """

    def __init__(self, f: Any) -> None:
        spline = f.class_name() == "BSplineInterpolant"
        # What the function was made of is known by what it writes for a file, in which each field has its name.
        text = f.serialize({"debug": True})
        written = bytes(ord(a) - 97 + 16 * (ord(b) - 97) for a, b in zip(text[::2], text[1::2]))

        def field(name: str) -> Any:
            at = written.rfind(f"{name}V".encode()) if name == "BSpline::coeffs" else written.find(f"{name}V".encode())  # those of derivatives stand before
            start = at + len(name) + 2  # count, then a letter and a number for each
            kind = "<f8" if written[start + 8 : start + 9] == b"d" else "<i8"
            count = int.from_bytes(written[start : start + 8], "little") if at >= 0 else 0
            return np.frombuffer(written, [("type", "S1"), ("value", kind)], count, start + 8)["value"] if count else np.empty(0)

        points, ends, self.table = (field(k) for k in (
            ("BSplineCommon::knots", "BSplineCommon::offset", "BSpline::coeffs") if spline else ("Interpolant::grid", "Interpolant::offset", "Interpolant::values")
        ))
        grids = [points[int(a) : int(b)] for a, b in zip(ends, ends[1:])]
        degrees = field("BSplineCommon::degree") if spline else [0] * len(grids)
        self.weights = [functools.partial(_spline, int(d), g) if spline else functools.partial(_linear, g) for d, g in zip(degrees, grids)]
        sizes = [len(g) - int(d) - 1 if spline else len(g) for d, g in zip(degrees, grids)]
        if f.n_in() != 1 or f.nnz_in(0) != len(grids) or self.table.size != f.nnz_out(0) * int(np.prod(sizes)):
            raise InputError(f"{f.name()} of CasADi is an interpolant of many points at once, or of a table that is an argument: call it point by point, with numbers as its table")
        for share in (0.1, 0.45, 0.8):
            x = [g[0] + share * (g[-1] - g[0]) for g in grids]
            if not np.allclose(self(x), f(x).full().reshape(-1), rtol=1e-9, atol=1e-9 * np.abs(self.table).max()):
                raise InputError(f"{f.name()} of CasADi is an interpolant that this version of CasADi writes in another form: write it by np.interp")

    def __call__(self, x: list[Any]) -> list[Any]:
        values = [float(v) for v in self.table]
        for v, weights in reversed([*zip(x, self.weights)]):
            w = weights(v)
            rows = len(values) // len(w)
            values = [functools.reduce(e.add, map(e.mul, values[i::rows], w)) for i in range(rows)]
        return values


class _Rootfinder:
    """A root finder of CasADi's: entries of its results as a function of those of its arguments."""

    def __init__(self, f: Any, iterations: int) -> None:
        g = f.oracle()
        self.name, self.iterations, self.residual = f.name(), iterations, from_casadi(g, iterations=iterations)
        # The unknowns are the argument that has another name than in the residual's function, and the result of that name.
        found = [i for i in range(f.n_in()) if f.name_in(i) != g.name_in(i)]
        if len(found) != 1 or g.name_in(found[0]) not in f.name_out():
            raise InputError(f"{f.name()} of CasADi is a root finder that this version of CasADi writes in another form: write its equations by @y.algebraic")
        self.unknown, self.root = found[0], f.name_out().index(g.name_in(found[0]))
        self.names = [f"{g.name_in(self.unknown)}[{i}]" for i in range(f.nnz_in(self.unknown))]
        self.ends = np.cumsum([f.nnz_in(i) for i in range(f.n_in())])[:-1]

    def _results(self, given: list[Any]) -> list[list[Any]]:
        """The outputs of the residual's function, entry by entry."""
        args = []
        for entries, (shape, nonzeros) in zip(given, self.residual._in):
            dense = np.zeros(shape[0] * shape[1]).astype(object)
            dense[nonzeros] = [*entries]
            args.append(dense.reshape(shape, order="F"))
        results = self.residual(*args)
        several = results if isinstance(results, tuple) else (results,)
        return [[*e._objects(r).reshape(-1, order="F")[nonzeros]] for r, (_, nonzeros) in zip(several, self.residual._out)]

    def __call__(self, x: list[Any]) -> list[Any]:
        given = np.split(np.array(x, object), self.ends)
        guess = given.pop(self.unknown)
        code = e.Code(len(x))
        inputs = np.array([e.Expression(code, i) for i in range(len(x))], object)
        own = np.split(inputs, np.cumsum([len(g) for g in given]))
        own.insert(self.unknown, own.pop())
        equations = Equations(code, self._results(own)[self.root], len(guess))
        z = equations.solve([v for g in given for v in g], [*guess], self.iterations, f"{self.name} of CasADi", self.names)
        given.insert(self.unknown, np.array(z, object))
        results = self._results(given)
        results[self.root] = z
        return [v for r in results for v in r]


def _linear(grid: Any, x: Any) -> list[Any]:
    """The weights of the values at the grid on the lines between them, of which the first and the last go on."""
    past = []
    for i in range(len(grid) - 1):
        share = e.div(e.sub(x, grid[i]), grid[i + 1] - grid[i])
        past.append(e._clip(share, 0.0 if i else None, 1.0 if i < len(grid) - 2 else None))
    return [e.sub(a, b) for a, b in zip([1.0, *past], [*past, 0.0])]


def _spline(degree: int, knots: Any, x: Any) -> list[Any]:
    """The B-splines of a degree over knots, by their recursion. Outside of the knots they are 0."""
    # One comparison for each knot, so that two sides of it meet.
    last = knots[-1]
    past = {k: e.less(k, x) if k == last else e.at_most(k, x) for k in dict.fromkeys(knots)}
    weights = [e.sub(past[a], past[b]) if a < b else 0.0 for a, b in zip(knots, knots[1:])]
    for d in range(1, degree + 1):
        rising = [e.mul(e.sub(x, a), 1 / (b - a)) if a < b else 0.0 for a, b in zip(knots, knots[d:])]
        weights = [
            e.add(e.mul(w, up), e.mul(w_next, e.sub(1.0, up_next)))
            for w, w_next, up, up_next in zip(weights, weights[1:], rising, rising[1:])
        ]
    return weights


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
            elif callable(name):
                work.update(zip(to, name([work[i] for i in of])))
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


def from_casadi(f: Any, *, iterations: int = 8) -> CasadiFunction:
    """A casadi.Function as a function that equations of a System may call, with expressions or numbers.

        model = casadi.Function("f", [x, u], [rhs])     # of SX, or of MX that can be expanded
        f = gpc.from_casadi(model)

        @system.ode()
        def _(s, u):
            return f(s, u)

    Interpolants are lookups, outside of their grid as CasADi's. A root finder is so many iterations of Newton's, as those of
    System.algebraic. What does not map is an InputError that names it: integrators, linear solves but by symbolicqr.
    """
    import casadi

    if not isinstance(f, casadi.Function):
        raise InputError(f"from_casadi takes a casadi.Function, not a {type(f).__name__}: casadi.Function(name, [inputs], [outputs])")
    iterations = counted(iterations, "from_casadi")
    names = {getattr(casadi, k): k.removeprefix("OP_") for k in dir(casadi) if k.startswith("OP_")}
    if not f.is_a("SXFunction"):
        try:
            f = f.expand()
        except RuntimeError as problem:
            raise InputError(f"{f.name()} of CasADi cannot be expanded to scalars: {_culprit(f, names, str(problem))}") from None
    code: list[tuple[Any, ...]] = []
    made: dict[int, _Interpolant | _Rootfinder] = {}
    for k in range(f.n_instructions()):
        name: Any = names[f.instruction_id(k)]
        if name == "CALL":
            called = f.instructions_sx()[k].which_function()
            if called.class_name() in _INTERPOLANTS:
                name = made[called.__hash__()] = made.get(called.__hash__()) or _Interpolant(called)
            elif called.class_name() in _ROOTFINDERS:
                name = made[called.__hash__()] = made.get(called.__hash__()) or _Rootfinder(called, iterations)
            else:
                raise InputError(f"{f.name()} of CasADi: instruction {k} is CALL of {called.name()} ({called.class_name()}), {_WHY['CALL']}")
        elif name not in ("INPUT", "OUTPUT", "CONST") and name not in _BINARY and name not in _UNARY:
            raise InputError(f"{f.name()} of CasADi: instruction {k} is {name}: {_WHY.get(name, 'there is no such operation')}")
        of = f.instruction_constant(k) if name == "CONST" else f.instruction_input(k)
        code.append((name, of, f.instruction_output(k)))
    return CasadiFunction(f, code)


def _culprit(f: Any, names: dict[int, str], problem: str) -> str:
    """The instruction of a function of MX that cannot be expanded."""
    if f.is_a("MXFunction"):
        for k in range(f.n_instructions()):
            name = names[f.instruction_id(k)]
            if name == "CALL" and f.instruction_MX(k).which_function().class_name() in (*_INTERPOLANTS, *_ROOTFINDERS):
                return f"instruction {k} is CALL of an interpolant or a root finder, which CasADi expands since 3.7: install a newer one"
            if name in _WHY and name != "ERF":
                return f"instruction {k} is {name}, {_WHY[name]}"
    lines = [x for x in problem.splitlines() if x.strip()]
    return lines[-1] if lines else "CasADi does not say why"
