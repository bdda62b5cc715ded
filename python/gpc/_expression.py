"""Expressions: numbers of a function that is not evaluated but written down, operation by operation.

A function of a system is called with vectors of expressions. Python's operators and NumPy's functions on them
append operations to the function's code; what they are is in docs/reference/program.md of the project. Each operation remembers
the line of the user's that it comes from.
"""

from __future__ import annotations

import builtins
import dis
import functools
import linecache
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import InputError

__all__ = ["Code", "Expression", "Vector", "array", "where", "zeros"]

Line = tuple[str, int]
_NUMPY_S = os.path.join(os.path.dirname(os.path.abspath(np.__file__)), "")
_OWN = (os.path.join(os.path.dirname(os.path.abspath(__file__)), ""), _NUMPY_S)
_LIBRARIES = (*_OWN, os.path.join(os.path.dirname(os.__file__), ""))


def _caller() -> tuple[FrameType | None, bool]:
    """The user's frame, and whether functions of NumPy's own stand between it and this."""
    frame: FrameType | None = sys._getframe(1)
    numpy = False
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        numpy = numpy or frame.f_code.co_filename.startswith(_NUMPY_S)
        frame = frame.f_back
    return frame, numpy


def _line() -> Line:
    """Where the user's code is."""
    frame, _ = _caller()
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def at(line: Line) -> str:
    """A line as errors begin with."""
    return f"{line[0]}:{line[1]}: " if line[0] else ""


class Code:
    """The operations of one function, in the order in which they are computed. Equal ones are one."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.nodes: list[tuple[Any, ...]] = []
        self.lines: list[Line] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self.refused: InputError | None = None  # a branch, which an except of the user's may have hidden
        self.line: Line | None = None  # the line of operations that are written again, in place of the caller's
        self.solved: list[Any] = []  # what equations were solved for, to be checked

    def put(self, *node: Any) -> int:
        key = (*node, math.copysign(1, node[1])) if node[0] == "const" else node
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.inputs + len(self.nodes)
            self.nodes.append(node)
            self.lines.append(self.line or _line())
        return found

    def value(self, x: Any, where: str | None = None) -> int:
        """The value of an expression of this code, or of a number; where is what errors begin with, None for the user's line."""
        if isinstance(x, Expression):
            if x._code is not self:
                raise InputError(f"{at(_line()) if where is None else where}this expression belongs to another function: pass it as an argument, or compute it again here")
            return x._value
        return self.put("const", _number(x, where))

    def constant(self, value: int) -> float | None:
        if value >= self.inputs and self.nodes[value - self.inputs][0] == "const":
            return float(self.nodes[value - self.inputs][1])
        return None

    def needed(self, results: Sequence[int]) -> tuple[list[list[Any]], list[int], list[Line]]:
        """What the results need, the results and the lines, renumbered."""
        keep = set(results)
        for i in reversed(range(len(self.nodes))):
            if self.inputs + i in keep and self.nodes[i][0] != "const":
                keep.update(self.nodes[i][1:])
        place = list(range(self.inputs)) + [0] * len(self.nodes)
        code: list[list[Any]] = []
        lines: list[Line] = []
        for i, node in enumerate(self.nodes):
            if self.inputs + i not in keep:
                continue
            place[self.inputs + i] = self.inputs + len(code)
            code.append(list(node) if node[0] == "const" else [node[0], *(place[v] for v in node[1:])])
            lines.append(self.lines[i])
        return code, [place[v] for v in results], lines


def _number(x: Any, where: str | None = None) -> float:
    several = isinstance(x, (Vector, np.ndarray)) and np.ndim(x) > 0
    try:
        if not several and not isinstance(x, (str, bytes)):
            return float(x)
    except (TypeError, ValueError):
        pass
    said = f"a vector of {np.size(x)} stands where a number is wanted: take an entry, such as u[0]" if several else f"{x!r} is a {type(x).__name__}, want a number or an expression"
    raise InputError((at(_line()) if where is None else where) + said)


_BRANCH = (
    "a branch on a number that is not known yet: the function is traced for all its arguments. "
    "In place of if and the ternary use np.where, of and, or, not the operators & | ~, of min and max np.minimum and np.maximum"
)
_CONVERT = "a number that is not known yet cannot become a Python number: use NumPy's functions in place of math's, and no index or loop that depends on it"
_ARRAY = "np.array of unknown numbers: write gpc.array, with which NumPy's comparisons and functions work"
_ENTRY = "an entry of a NumPy array cannot be a number that is not known yet: make the array by gpc.zeros or gpc.array"


def _misused(python: str) -> InputError:
    """Why a number is asked for that is not known: by NumPy, of an array that it does not know as one of expressions, or by Python."""
    frame, numpy = _caller()
    if frame is None:
        return InputError(python)
    op, flag = _instruction(frame)
    arrays = _ENTRY if python == _CONVERT else _ARRAY
    if op.startswith("STORE_S"):  # of an item or a slice
        why = _ENTRY
    elif numpy or op == "COMPARE_OP" and not flag:
        why = arrays
    elif "CALL" in op:
        by = {_numpy_s(frame, name) for name in re.findall(r"([\w.]+)\(", _text(frame))} - {None}
        why = python if by == {False} else arrays if by == {True} else f"{python}. Or {arrays}"
    else:
        why = python
    return InputError(at((frame.f_code.co_filename, frame.f_lineno)) + why)


def _instruction(frame: FrameType) -> tuple[str, int]:
    """What the frame is at, and of a comparison whether Python asks for its truth at once, as if does since 3.13."""
    code, i = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[i]], code[i + 1] & 16 if sys.version_info >= (3, 13) else 0


def _text(frame: FrameType) -> str:
    """The call that the frame is at, up to its bracket, or the whole line before Python 3.11."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    if sys.version_info < (3, 11):
        return line
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    call = line.encode()[positions[2] or 0 :].decode(errors="replace")
    return call.partition("(")[0] + "("


def _numpy_s(frame: FrameType, name: str) -> bool | None:
    """Whether a name that is called is NumPy's, or else one of Python's functions; None where it is neither."""
    root = name.partition(".")[0]
    of = frame.f_locals.get(root, frame.f_globals.get(root, getattr(builtins, root, None)))
    module = of.__name__ if isinstance(of, ModuleType) else getattr(of, "__module__", None) or type(of).__module__
    return True if module.partition(".")[0] == "numpy" else False if module in ("builtins", "math", "cmath") else None


def refusal(e: Exception, where: str) -> InputError:
    """An error of NumPy's or Python's in the user's function, as one that begins with its line."""
    line, objects, function, step = where, False, "", e.__traceback__
    while step is not None:
        frame = step.tb_frame
        objects = objects or any(isinstance(v, np.ndarray) and v.dtype == object for v in frame.f_locals.values())
        if not frame.f_code.co_filename.startswith(_LIBRARIES) and "site-packages" not in frame.f_code.co_filename:
            line, function = at((frame.f_code.co_filename, step.tb_lineno)), ""
        elif not function and frame.f_code.co_filename.startswith(_NUMPY_S):
            function = frame.f_code.co_name
        step = step.tb_next
    said = str(e).replace("'Expression' object", "a number that is not known yet").replace("'Vector' object", "a vector of such numbers")
    mentioned = "Expression" in said or said != str(e)
    said = f"{type(e).__name__}: {said}"
    if objects or "dtype('O')" in said:
        known = not function or any(f.__name__ == function for f in (*_FUNCTIONS, *_MOVES))
        said = f"{_ARRAY if known else _UNKNOWN.format(function)}. NumPy says: {said}"
    elif mentioned:
        said = said.splitlines()[0] + ": NumPy's functions work on unknown numbers, and CasADi's by gpc.from_casadi"
    return InputError(line + said)


class Expression:
    """A number of a function that is written down. Operators and NumPy's functions make further ones."""

    __slots__ = ("_code", "_value")
    __array_priority__ = 1000.0

    def __init__(self, code: Code, value: int) -> None:
        self._code, self._value = code, value

    def __repr__(self) -> str:
        if self._value < self._code.inputs:
            return f"<input {self._value}>"
        return f"<{self._code.nodes[self._value - self._code.inputs][0]}>"

    def __bool__(self) -> bool:
        self._code.refused = _misused(_BRANCH)
        raise self._code.refused

    def __float__(self) -> float:
        raise _misused(_CONVERT)

    __int__ = __index__ = __complex__ = __float__
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _function(func, args, kwargs)

    # NumPy's loops over arrays of objects ask for the methods that are set below, and for this one.
    def conjugate(self) -> Expression:
        return self


def _code(*x: Any) -> Code:
    for e in x:
        if isinstance(e, Expression):
            return e._code
    raise TypeError("no expression")


def _apply(op: str, *x: Any) -> Any:
    """The operation of numbers and expressions."""
    code = _code(*x)
    return Expression(code, code.put(op, *(code.value(v) for v in x)))


def node(x: Any) -> tuple[Any, ...]:
    """The operation that makes a number, with its operands; empty for inputs and numbers that are known."""
    return x._code.nodes[x._value - x._code.inputs] if isinstance(x, Expression) and x._value >= x._code.inputs else ()


def is_truth(x: Any) -> bool:
    """Whether a number is what a comparison says, or several: a product with it is a choice, whose corner can be found."""
    op, *operands = node(x) or ("",)
    if op == "select":
        return all(x._code.constant(v) in (0, 1) or is_truth(Expression(x._code, v)) for v in operands[1:])
    return op in ("lt", "le", "eq")


def _is(x: Any, value: float) -> bool:
    if isinstance(x, Expression):
        return x._code.constant(x._value) == value
    return bool(_number(x) == value)


def _plain(*x: Any) -> bool:
    return not any(isinstance(v, Expression) for v in x)


def _counted(x: Any) -> Any:
    """A comparison that is counted with as a choice of 1 and 0, whose corner can be found."""
    return choose(x, 1.0, 0.0) if node(x)[:1] in (("lt",), ("le",), ("eq",)) else x


def add(x: Any, y: Any) -> Any:
    if _plain(x, y):
        return x + y
    x, y = _counted(x), _counted(y)
    return y if _is(x, 0) else x if _is(y, 0) else _apply("add", x, y)


def sub(x: Any, y: Any) -> Any:
    if _plain(x, y):
        return x - y
    x, y = _counted(x), _counted(y)
    return x if _is(y, 0) else neg(y) if _is(x, 0) else _apply("sub", x, y)


def mul(x: Any, y: Any) -> Any:
    """A product; with 0 it is 0, so that zeros of matrices leave no trace."""
    if _plain(x, y):
        return x * y
    if _is(x, 0) or _is(y, 0):
        return 0.0
    for truth, value in ((x, y), (y, x)):
        if is_truth(truth):
            return choose(truth, value, 0.0)
    return y if _is(x, 1) else x if _is(y, 1) else _apply("mul", x, y)


def div(x: Any, y: Any) -> Any:
    if _is(y, 0):
        raise InputError(f"{at(_line())}a division by 0")
    if _plain(x, y):
        return x / y
    return x if _is(y, 1) else _apply("div", x, y)


def neg(x: Any) -> Any:
    return -x if _plain(x) else _apply("neg", x)


def power(x: Any, y: Any) -> Any:
    if _plain(x, y):
        return x**y
    if not isinstance(y, Expression):
        y = _number(y)
        if y == 0.5:
            return _apply("sqrt", x)
        if y == int(y) and 0 < abs(y) <= 64:
            whole = _times(x, int(abs(y)))
            return whole if y > 0 else div(1.0, whole)
    return _apply("pow", x, y)


def _times(x: Any, n: int) -> Any:
    if n == 1:
        return x
    half = _times(x, n // 2)
    square = mul(half, half)
    return mul(square, x) if n % 2 else square


def _unary(op: str, number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: _apply(op, x) if isinstance(x, Expression) else number(x)


def _binary(op: str, number: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: number(x, y) if _plain(x, y) else _apply(op, x, y)


sqrt, exp, log, absolute, floor = (_unary(op, f) for op, f in (("sqrt", np.sqrt), ("exp", np.exp), ("log", np.log), ("abs", np.abs), ("floor", np.floor)))
sinh, detach = _unary("sinh", np.sinh), _unary("detach", lambda x: x)
minimum, maximum, hypot = _binary("min", np.minimum), _binary("max", np.maximum), _binary("hypot", np.hypot)
# A truth of numbers is a number too, as that of expressions: NumPy's would add up to one.
less, at_most, equal = (
    _binary(op, lambda x, y, f=f: float(f(x, y))) for op, f in (("lt", operator.lt), ("le", operator.le), ("eq", operator.eq))  # type: ignore[misc]
)


def choose(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is not 0, else y."""
    if _plain(condition):
        return x if condition else y
    if _plain(x, y) and x == y:
        return x
    return _apply("select", condition, x, y)


def both(x: Any, y: Any) -> Any:
    return choose(x, y, 0.0)


def either(x: Any, y: Any) -> Any:
    return choose(x, 1.0, y)


def negation(x: Any) -> Any:
    return choose(x, 0.0, 1.0)


def _sign(x: Any) -> Any:
    return choose(less(0.0, x), 1.0, choose(less(x, 0.0), -1.0, 0.0))


def _log1p(x: Any) -> Any:
    """Exact near 0 too, as Kahan's."""
    u = add(1.0, x)
    return choose(equal(u, 1.0), x, div(mul(log(u), x), choose(equal(u, 1.0), 1.0, sub(u, 1.0))))


def _expm1(x: Any) -> Any:
    half = mul(0.5, x)
    return mul(mul(2.0, sinh(half)), exp(half))


def _arcsinh(x: Any) -> Any:
    y = log(add(absolute(x), hypot(1.0, x)))
    return choose(less(x, 0.0), neg(y), y)


def _ceil(x: Any) -> Any:
    return neg(floor(neg(x)))


def _trunc(x: Any) -> Any:
    return choose(less(x, 0.0), _ceil(x), floor(x))


def _remainder(x: Any, y: Any) -> Any:
    return sub(x, mul(y, floor(div(x, y))))


def _cbrt(x: Any) -> Any:
    return mul(_sign(x), power(absolute(x), 1 / 3))


# What NumPy's functions of one, two and three numbers are.
_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": neg, "positive": lambda x: x, "absolute": absolute, "fabs": absolute, "sqrt": sqrt, "square": lambda x: mul(x, x), "exp": exp, "log": log,
    "reciprocal": lambda x: div(1.0, x), "floor": floor, "ceil": _ceil, "trunc": _trunc, "sign": _sign, "cbrt": _cbrt, "conjugate": lambda x: x,
    "log1p": _log1p, "expm1": _expm1, "exp2": lambda x: exp(mul(math.log(2), x)), "log2": lambda x: div(log(x), math.log(2)),
    "log10": lambda x: div(log(x), math.log(10)), "arcsinh": _arcsinh, "arccosh": lambda x: log(add(x, sqrt(sub(mul(x, x), 1.0)))),
    "arctanh": lambda x: mul(0.5, log(div(add(1.0, x), sub(1.0, x)))), "logical_not": negation, "invert": negation,
    "deg2rad": lambda x: mul(math.pi / 180, x), "radians": lambda x: mul(math.pi / 180, x), "rad2deg": lambda x: mul(180 / math.pi, x),
    "degrees": lambda x: mul(180 / math.pi, x),
    **{numpy: _unary(op, getattr(np, numpy)) for numpy, op in (
        ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("arcsin", "asin"), ("arccos", "acos"), ("arctan", "atan"), ("sinh", "sinh"), ("cosh", "cosh"), ("tanh", "tanh"),
    )},
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": add, "subtract": sub, "multiply": mul, "divide": div, "true_divide": div, "power": power, "float_power": power, "minimum": minimum, "maximum": maximum,
    "fmin": minimum, "fmax": maximum, "hypot": hypot, "arctan2": _binary("atan2", np.arctan2), "less": less, "less_equal": at_most,
    "greater": lambda x, y: less(y, x), "greater_equal": lambda x, y: at_most(y, x), "equal": equal, "not_equal": lambda x, y: negation(equal(x, y)),
    "logical_and": both, "logical_or": either, "bitwise_and": both, "bitwise_or": either, "remainder": _remainder,
    "floor_divide": lambda x, y: floor(div(x, y)), "fmod": lambda x, y: sub(x, mul(y, _trunc(div(x, y)))), "copysign": lambda x, y: choose(less(y, 0.0), neg(absolute(x)), absolute(x)),
    "logaddexp": lambda x, y: add(maximum(x, y), _log1p(exp(neg(absolute(sub(x, y)))))), "heaviside": lambda x, h: choose(less(x, 0.0), 0.0, choose(equal(x, 0.0), h, 1.0)),
}


def _clip(x: Any, lo: Any, hi: Any) -> Any:
    x = x if lo is None else maximum(x, lo)
    return x if hi is None else minimum(x, hi)


def _objects(x: Any) -> NDArray[Any]:
    """What arrays, vectors, expressions and lists of them hold, as an array of objects."""
    if isinstance(x, Vector):
        return x._array
    if isinstance(x, Expression):
        a = np.empty((), object)
        a[()] = x
        return a
    if isinstance(x, (list, tuple)) and any(isinstance(v, (Vector, Expression, np.ndarray, list, tuple)) for v in x):
        return np.array([_inside(v) for v in x], object)
    return np.asarray(x, object)


def _inside(x: Any) -> Any:
    a = _objects(x)
    return a[()] if a.ndim == 0 else a


def _vector(a: Any) -> Any:
    """An array of objects as a vector, and its one entry as it is."""
    if isinstance(a, tuple):
        return tuple(_vector(v) for v in a)
    if isinstance(a, list):
        return [_vector(v) for v in a]
    if isinstance(a, np.ndarray) and a.dtype == object:
        return a[()] if a.ndim == 0 else Vector(a)
    return a


def _each(f: Callable[..., Any], *x: Any) -> Any:
    arrays = np.broadcast_arrays(*(_objects(v) for v in x))
    out = np.empty(arrays[0].shape, object)
    for i in np.ndindex(out.shape):
        out[i] = f(*(a[i] for a in arrays))
    return _vector(out)


_UNKNOWN = "numpy.{} does not work on expressions: write it with other functions (docs/reference/python.md lists them)"


def _unknown(name: str) -> InputError:
    return InputError(at(_line()) + _UNKNOWN.format(name))


def _ufunc(ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    name = ufunc.__name__
    f = _UNARY.get(name) if ufunc.nin == 1 else _BINARY.get(name)
    if name == "clip":
        f = _clip  # type: ignore[assignment]
    out = kwargs.pop("out", None)
    if out is not None:
        if not isinstance(out[0], Vector):
            raise InputError(f"{at(_line())}numpy.{name} with out=, or of an operator such as +=: {_ENTRY}")
        out[0][...] = _ufunc(ufunc, method, inputs, kwargs)
        return out[0]
    strange = [k for k in kwargs if k not in ("axis", "dtype", "casting")]
    if strange:
        raise InputError(f"{at(_line())}numpy.{name} of expressions has no {strange[0]}=")
    if name in ("matmul", "vecdot", "matvec", "vecmat") and method == "__call__":
        return _vector(_product(*(_objects(x) for x in inputs)))
    if f is None:
        raise _unknown(name)
    if method == "__call__":
        return _each(f, *inputs)
    if method == "reduce":
        return _reduce(f, inputs[0], kwargs.get("axis", 0))
    if method == "outer":
        a, b = (_objects(x) for x in inputs)
        return _each(f, a.reshape(a.shape + (1,) * b.ndim), b)
    if method == "accumulate":
        return _vector(np.frompyfunc(f, 2, 1).accumulate(_objects(inputs[0]), axis=kwargs.get("axis", 0), dtype=object))
    raise _unknown(f"{name}.{method}")


_EMPTY: dict[Any, float] = {add: 0.0, mul: 1.0, either: 0.0, both: 1.0}


def _reduce(f: Callable[..., Any], x: Any, axis: Any = None) -> Any:
    a = _objects(x)
    if axis is None:
        a, axis = a.reshape(-1), 0
    rows = np.moveaxis(a, axis, 0)
    shape = rows.shape[1:]
    if len(rows) == 0:
        if f not in _EMPTY:
            raise InputError(f"{at(_line())}the largest or smallest of no numbers")
        return _vector(np.full(shape, _EMPTY[f], object))
    rows = rows.reshape(len(rows), -1)
    total = rows[0].copy()
    for row in rows[1:]:
        total[:] = [f(x, y) for x, y in zip(total, row)]
    return _vector(total.reshape(shape))


def _product(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """A matrix product in which zeros leave no trace."""
    left, right = a.reshape(1, -1) if a.ndim == 1 else a, b.reshape(-1, 1) if b.ndim == 1 else b
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise InputError(f"{at(_line())}a product of shapes {a.shape} and {b.shape}")
    out = np.empty((left.shape[0], right.shape[1]), object)
    for i, k in np.ndindex(out.shape):
        out[i, k] = _reduce(add, np.array([*map(mul, left[i], right[:, k])], object))
    return out.reshape([n for n, x in ((out.shape[0], a), (out.shape[1], b)) if x.ndim > 1])


def _norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    a = _objects(x)
    if ord == np.inf:
        return _reduce(maximum, _each(absolute, a), axis)
    if ord == 1:
        return _reduce(add, _each(absolute, a), axis)
    if ord not in (None, 2, "fro"):
        raise _unknown(f"linalg.norm of order {ord}")
    return _each(sqrt, _reduce(add, _each(mul, a, a), axis))


def _eliminate(a: Any, b: Any) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Rows of a and b after elimination, each pivot the largest of its column, and the sign of the rows' order."""
    a, b = _objects(a).copy(), _objects(b).copy()
    n = len(a)
    if a.shape != (n, n) or len(b) != n:
        raise InputError(f"{at(_line())}linear equations of shapes {a.shape} and {b.shape}")
    sign: Any = 1.0
    rows = np.concatenate([a, b.reshape(n, -1)], axis=1)
    for k in range(n):
        for i in range(k + 1, n):
            if _is(rows[i, k], 0):
                continue
            larger = less(absolute(rows[k, k]), absolute(rows[i, k]))
            for j in range(k, rows.shape[1]):
                rows[k, j], rows[i, j] = choose(larger, rows[i, j], rows[k, j]), choose(larger, rows[k, j], rows[i, j])
            sign = choose(larger, neg(sign), sign)
        for i in range(k + 1, n):
            if not _is(rows[i, k], 0):
                q = div(rows[i, k], rows[k, k])
                for j in range(k + 1, rows.shape[1]):
                    rows[i, j] = sub(rows[i, j], mul(q, rows[k, j]))
    return rows[:, :n], rows[:, n:], sign


def _solve(a: Any, b: Any) -> Any:
    shape = _objects(b).shape
    upper, right, _ = _eliminate(a, b)
    x = np.empty(right.shape, object)
    for c in range(right.shape[1]):
        for i in reversed(range(len(upper))):
            rest = right[i, c]
            for j in range(i + 1, len(upper)):
                rest = sub(rest, mul(upper[i, j], x[j, c]))
            x[i, c] = div(rest, upper[i, i])
    return _vector(x.reshape(shape))


def _det(a: Any) -> Any:
    upper, _, sign = _eliminate(a, np.zeros(len(_objects(a))))
    return _reduce(mul, [sign, *np.diagonal(upper)])


def _mean(x: Any, axis: Any = None) -> Any:
    a = _objects(x)
    return _each(div, _reduce(add, a, axis), float(a.size if axis is None else a.shape[axis]))


def _interp(x: Any, xp: Any, fp: Any) -> Any:
    """The line through (xp, fp) at x, held at both ends; xp are numbers."""
    knots, values = np.array([v if _plain(v) else np.nan for v in _objects(xp).reshape(-1)], float), _objects(fp)
    if knots.shape != values.shape or knots.size == 0 or not (np.diff(knots) > 0).all():
        raise InputError(f"{at(_line())}numpy.interp of expressions: xp is {xp}, want increasing numbers, as many as fp has")

    def one(v: Any) -> Any:
        y = values[0]
        for i in range(len(knots) - 1):
            y = add(y, mul(sub(values[i + 1], values[i]), _clip(div(sub(v, knots[i]), knots[i + 1] - knots[i]), 0.0, 1.0)))
        return y

    return _each(one, x)


# NumPy's functions of arrays that are not loops of the above.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: lambda c, x, y: where(c, x, y), np.sum: lambda x, axis=None: _reduce(add, x, axis), np.prod: lambda x, axis=None: _reduce(mul, x, axis),
    **dict.fromkeys((np.max, np.amax), lambda x, axis=None: _reduce(maximum, x, axis)), **dict.fromkeys((np.min, np.amin), lambda x, axis=None: _reduce(minimum, x, axis)), np.mean: _mean,
    np.clip: lambda x, a_min=None, a_max=None, min=None, max=None: _each(_clip, x, a_min if min is None else min, a_max if max is None else max),
    np.select: lambda conditions, choices, default=0.0: functools.reduce(lambda y, case: where(case[0], case[1], y), reversed([*zip(conditions, choices)]), default),
    np.polyval: lambda p, x: functools.reduce(lambda y, a: _each(add, _each(mul, y, x), a), [*p], 0.0), np.linalg.norm: _norm, np.linalg.solve: _solve,
    np.linalg.inv: lambda a: _solve(a, np.eye(len(_objects(a)))), np.linalg.det: _det,
    np.dot: lambda a, b: _each(mul, a, b) if 0 in (_objects(a).ndim, _objects(b).ndim) else _vector(_product(_objects(a), _objects(b))),
    np.inner: lambda a, b: _vector(_product(_objects(a), _objects(b).T)), np.vdot: lambda a, b: _vector(_product(_objects(a), _objects(b))),
    np.outer: lambda a, b: _each(mul, _objects(a).reshape(-1, 1), _objects(b).reshape(1, -1)),
    np.interp: _interp,
    np.any: lambda x, axis=None: _reduce(either, x, axis), np.all: lambda x, axis=None: _reduce(both, x, axis),
    np.zeros_like: lambda x: zeros(_objects(x).shape), np.ones_like: lambda x: array(np.ones(_objects(x).shape)), np.shape: lambda x: _objects(x).shape,
    np.ndim: lambda x: _objects(x).ndim, np.size: lambda x: _objects(x).size,
}
# NumPy's own on arrays of objects: they move entries, and add and multiply.
_MOVES = {
    getattr(np, name) for name in (
        "concatenate", "stack", "hstack", "vstack", "column_stack", "reshape", "ravel", "transpose", "roll", "flip", "diff", "cumsum", "tile", "repeat", "cross", "append",
        "atleast_1d", "atleast_2d", "squeeze", "expand_dims", "diag", "diagonal", "trace", "kron", "array_split", "split", "copy", "insert", "delete", "take", "swapaxes",
        "moveaxis", "block", "tensordot", "flipud", "fliplr", "broadcast_to", "hsplit", "vsplit", "triu", "tril",
    ) if hasattr(np, name)
}


def _function(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func in _FUNCTIONS:
        try:
            return _FUNCTIONS[func](*args, **kwargs)
        except TypeError as e:
            said = re.sub(r"^\S+\(\)", "it", str(e))
            raise InputError(f"{at(_line())}numpy.{func.__name__} of expressions: {said}") from None
    if func not in _MOVES:
        raise _unknown(func.__name__)
    if kwargs.get("out") is not None:
        raise InputError(f"{at(_line())}numpy.{func.__name__} of expressions has no out=")
    return _unpacked(func(*(_bare(a) for a in args), **{k: _bare(v) for k, v in kwargs.items()}))


def _unpacked(x: Any) -> Any:
    """What a function of NumPy's made, without the arrays of no dimension that lists of expressions were given to it as."""
    if isinstance(x, list):
        return [_unpacked(v) for v in x]
    return _vector(_entry(x) if isinstance(x, np.ndarray) and x.dtype == object and x.ndim else x)


_entry = np.frompyfunc(lambda v: v[()] if isinstance(v, np.ndarray) else v, 1, 1)


def _bare(x: Any) -> Any:
    """The arrays of objects in an argument, in place of vectors and expressions."""
    if isinstance(x, (Vector, Expression)):
        return _objects(x)
    return type(x)(_bare(v) for v in x) if isinstance(x, (list, tuple)) else x


_GIVEN = "what a function is given cannot be written: return what changes, or write into a copy by gpc.array"

# The methods of an array that a vector has, where no entry has the name: functions of NumPy's, and those that move entries.
_METHODS = ("sum", "prod", "min", "max", "mean", "dot", "clip", "any", "all")
_MOVING = ("reshape", "ravel", "flatten", "transpose", "cumsum", "repeat", "take", "copy", "squeeze", "diagonal", "trace", "swapaxes", "tolist")


class Vector(np.lib.mixins.NDArrayOperatorsMixin):
    """Several expressions with the operators and functions of an array. Entries of a system's vector are had by name
    too, as v.speed or v["speed"], which go before the attributes of an array such as v.T and v.sum()."""

    __slots__ = ("_array", "_names", "_signals")
    __array_priority__ = 1000.0

    def __init__(self, entries: Any, names: Sequence[str] = (), signals: Mapping[str, Callable[[Vector], Any]] | None = None) -> None:
        self._array = np.asarray(entries, object)
        self._names = {name: i for i, name in enumerate(names)}
        self._signals = signals or {}  # what is had by name too, and computed from the entries

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._names:
            if name in ("T", "shape", "ndim", "size"):
                return _vector(getattr(self._array, name))
            if name in _METHODS:
                return lambda *args, **kwargs: getattr(np, name)(self, *args, **kwargs)
            if name in _MOVING:
                return lambda *args, **kwargs: _vector(getattr(self._array, name)(*args, **kwargs))
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise InputError(at(_line()) + _GIVEN)
        object.__setattr__(self, name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        key = self._key(key)
        if not self._array.flags.writeable:
            raise InputError(at(_line()) + _GIVEN)
        entries = _objects(value)
        try:
            if not isinstance(self._array[key], np.ndarray):
                if entries.size != 1:
                    raise ValueError(f"a vector of {entries.size} stands where a number is wanted")
                entries = entries.reshape(())
            self._array[key] = entries if entries.ndim else entries[()]
        except (IndexError, ValueError) as e:
            raise InputError(f"{at(_line())}{e}") from None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in self._signals:
            return self._signals[key](self)
        key = self._key(key)
        try:
            return _vector(self._array[key])
        except IndexError as e:
            raise InputError(f"{at(_line())}{e}") from None

    def _key(self, key: Any) -> Any:
        """The index that a name stands for, or as it is."""
        if isinstance(key, (Expression, Vector)):
            raise InputError(f"{at(_line())}an index that is not known yet: choose entries by np.where")
        if isinstance(key, str):
            if key not in self._names:
                known = "want one of " + ", ".join([*self._names, *self._signals]) if self._names else "the entries have no names, use an index"
                raise InputError(f"{at(_line())}there is no entry {key!r}, {known}")
            return self._names[key]
        return key

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (_vector(v) if isinstance(v, np.ndarray) else v for v in self._array)

    def __dir__(self) -> list[str]:
        return [name for name in (*self._names, *self._signals) if name.isidentifier()]

    def __repr__(self) -> str:
        return f"<vector of {', '.join(self._names) or self._array.shape}>"

    def __bool__(self) -> bool:
        raise _misused(_BRANCH)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        if dtype not in (None, object, np.dtype(object)):
            raise _misused(_CONVERT)
        return self._array.copy()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _function(func, args, kwargs)


def array(entries: Any) -> Any:
    """A copy of numbers and expressions as an array that every function of NumPy that is known of expressions takes, and
    that is written as NumPy's arrays are: z[0] = s.v, z += 1.

    np.array of them is one too where operators and functions of one number are enough.
    """
    return _vector(_objects(entries).copy())


def zeros(shape: int | Sequence[int]) -> Any:
    """Zeros to write expressions into, as np.zeros is for numbers."""
    return array(np.zeros(shape))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; entry by entry of vectors. np.where with an expression in it is this."""
    return _each(choose, condition, x, y)


def _operators() -> None:
    """Gives Expression Python's operators, and the methods that NumPy's loops over arrays of objects ask for."""
    for name, f in (("add", add), ("sub", sub), ("mul", mul), ("truediv", div), ("pow", power), ("mod", _remainder), ("floordiv", _BINARY["floor_divide"]),
                    ("and", both), ("or", either)):
        setattr(Expression, f"__{name}__", _operator(f, False))
        setattr(Expression, f"__r{name}__", _operator(f, True))
    for name, f in (("lt", less), ("le", at_most), ("gt", _BINARY["greater"]), ("ge", _BINARY["greater_equal"]), ("eq", equal), ("ne", _BINARY["not_equal"])):
        setattr(Expression, f"__{name}__", _operator(f, False))
    for name, g in (("neg", neg), ("pos", _UNARY["positive"]), ("abs", absolute), ("invert", negation)):
        setattr(Expression, f"__{name}__", _method(g))
    for name, g in _UNARY.items():
        if not hasattr(Expression, name):
            setattr(Expression, name, _method(g))
    for name in ("arctan2", "hypot"):
        setattr(Expression, name, _operator(_BINARY[name], False))


def _method(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x)


def _operator(f: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    def apply(x: Any, y: Any) -> Any:
        if isinstance(y, np.ndarray) and y.ndim == 0:
            y = y[()]
        if isinstance(y, (np.ndarray, Vector)) and np.ndim(y) > 0:
            return NotImplemented if isinstance(y, Vector) else _each(f, *((y, x) if swapped else (x, y)))
        return f(y, x) if swapped else f(x, y)

    return apply


_operators()


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "exp": np.exp, "log": np.log,
    "floor": np.floor, "detach": np.positive, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "min": np.minimum, "max": np.maximum,
    "lt": lambda x, y: (x < y) * 1.0, "le": lambda x, y: (x <= y) * 1.0, "eq": lambda x, y: (x == y) * 1.0, "select": lambda c, x, y: np.where(c != 0, x, y),
}


def evaluate(
    code: Sequence[Sequence[Any]], inputs: NDArray[np.float64], fixed: Mapping[int, NDArray[np.float64]] | None = None,
) -> list[NDArray[np.float64]]:
    """Every value of code for inputs [entries, points], each [points]; those of fixed are what it says."""
    values = list(inputs)
    points = inputs.shape[1]
    with np.errstate(all="ignore"):
        for op, *rest in code:
            if fixed and len(values) in fixed:
                values.append(fixed[len(values)])
            else:
                values.append(np.full(points, float(rest[0])) if op == "const" else np.asarray(_NUMPY[op](*(values[v] for v in rest))))
    return values
