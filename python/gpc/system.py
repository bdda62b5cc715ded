"""A system of equations written in Python.

    import numpy as np
    import gpc

    cart = gpc.System(
        "cart", "a cart on a track", state={"x": "m", "v": "m/s"}, action={"force": ("N", -5, 5)},
        scenario={"x": (-1, 1), "v": (-0.5, 0.5)}, steps=40, period=0.1,
    )

    @cart.ode()
    def _(s, u):
        return s.v, u.force

    @cart.objectives(position="m²", effort="N²")
    def _(u, n):
        return n.x**2 + 0.1 * n.v**2, 0.01 * u.force**2

    @cart.margins(left="m", right="m")
    def _(n):
        return n.x + 2 - 0.5 * np.minimum(n.v, 0) ** 2 / 5, 2 - n.x - 0.5 * np.maximum(n.v, 0) ** 2 / 5

    controller = gpc.compile(cart, budget="2m")

Each function is called with vectors of expressions, twice, and is to write the same both times; it asks for what it needs by the names of its parameters: s the
state, c the context (with the clock c.clock, from 0 to 1, where episodes end), u the action, n the state after it, p the scenario's
parameters. docs/reference/python.md and docs/reference/system-file.md of the project have the rest.
"""

from __future__ import annotations

import copy
import html
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpc import _forecast
from gpc._expression import Code, Expression, Vector, _objects, add, at, choose, div, evaluate, less, mul, refusal
from gpc._implicit import Equations, counted
from gpc._jumps import jump
from gpc._lib import OUT, TEXT, Error, InputError, as_json, ask, declare, lib, number, remark, text, write
from gpc._switches import Switched, discretes
from gpc.results import Findings
from gpc.traces import Trace

__all__ = ["FreeTime", "Shape", "System", "box", "disc", "free_time", "line"]

declare("gpc_system", TEXT, OUT)
declare("gpc_check", TEXT, OUT)

Variables = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

CLOCK, DURATION = "clock", "duration"
_BEFORE_THE_END = 1e3  # a terminal margin until the last decision
_FORM = 'want a unit such as "m", ("m", lo, hi), (lo, hi), or a dict with unit, lo, hi'
_SWITCHED = ", or gpc.on_off(), gpc.one_of(…) or gpc.integer(lo, hi) of an action that takes one of a few values"


class Shape:
    """A part of a picture; line, disc and box make them."""

    def __init__(self, role: str, numbers: Sequence[Any], *, points: int, is_disc: bool, of: int = 0, heading: Any = None) -> None:
        self.numbers = [*numbers] if heading is None else [*numbers, heading]
        self.fields: dict[str, Any] = {"role": role, "points": points}
        if is_disc:
            self.fields["disc"] = True
        if heading is not None:
            self.fields["heading"] = True
        if of:
            self.fields["of"] = of


def line(role: str, *path: Any, of: int = 0) -> Shape:
    """A line through points (x, y), m; role is "body", "obstacle", "goal" or "ground". One that ends where it begins is filled."""
    return Shape(role, [v for point in path for v in point], points=len(path), is_disc=False, of=of)


def disc(role: str, x: Any, y: Any, radius: Any, *, of: int = 0, heading: Any = None) -> Shape:
    """A disc about a centre, m; heading is an angle from the first axis, rad."""
    return Shape(role, [x, y, radius], points=1, is_disc=True, of=of, heading=heading)


def box(role: str, x: Any, y: Any, width: Any, height: Any, *, of: int = 0) -> Shape:
    """A filled rectangle about a centre, m."""
    w, h = width / 2, height / 2
    return line(role, (x - w, y - h), (x + w, y - h), (x + w, y + h), (x - w, y + h), (x - w, y - h), of=of)


def _elsewhere() -> Any:
    raise InputError("a system that was pickled has its file alone: its functions stay in the process that wrote them")


class FreeTime:
    """How long a period may be, s; free_time makes it."""

    def __init__(self, lo: float, hi: float) -> None:
        self.lo, self.hi = (number(v, f"free_time: {name}", "a time in s") for name, v in (("lo", lo), ("hi", hi)))
        if not 0 < self.lo < self.hi < np.inf:
            raise InputError(f"free_time({lo!r}, {hi!r}): want the shortest and the longest period, s, with 0 < lo < hi")


def free_time(lo: float, hi: float) -> FreeTime:
    """Periods that each decision chooses the length of, from lo to hi, s: time= of a System, in place of period. The action has
    one entry more, duration, which objectives read: their sum is the end time."""
    return FreeTime(lo, hi)


class _Written:
    """A function of the system as it was written down."""

    def __init__(self, name: str, where: str, inputs: Sequence[tuple[str, str, int]], outputs: Sequence[tuple[str, str, int]], code: Code, results: Sequence[Any]) -> None:
        self.name, self.where, self.inputs, self.outputs = name, where, inputs, outputs
        if code.refused:
            raise code.refused
        self.solved = code.solved
        self.code, self.results, self.lines = code.needed([code.value(v, f"{where}{name}[{i}]: ") for i, v in enumerate(results)])

    def document(self) -> dict[str, Any]:
        def arguments(of: Sequence[tuple[str, str, int]]) -> list[dict[str, Any]]:
            return [{"name": name, "size": size, **({"of": vector} if vector else {})} for name, vector, size in of]

        code = [[op, _constant(rest[0])] if op == "const" else [op, *rest] for op, *rest in self.code]
        return {"name": self.name, "inputs": arguments(self.inputs), "outputs": arguments(self.outputs), "code": code, "results": self.results}

    def values(self, *inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs at points: inputs are [entries, points], as the result is. What is not finite is an error of its line."""
        for solution in self.solved:
            solution.check_at(np.concatenate(inputs))
        values = evaluate(self.code, np.concatenate(inputs))
        entries = sum(size for _, _, size in self.inputs)
        for i, v in enumerate(self.results):
            bad = ~np.isfinite(values[v])
            if bad.any():
                self._refuse(i, v, values, int(np.argmax(bad)), entries)
        return np.array([values[v] for v in self.results])

    def refuse_change(self, other: _Written) -> None:
        """Refuses a function that wrote something else when it was called for the second time."""
        where, once = "", ""
        for line, x, y in zip(self.lines, self.code, other.code):
            if repr(x) != repr(y):
                where, once = at(line), f"{x[1]!r} and then {y[1]!r}" if x[0] == y[0] == "const" else "one thing and then another"
                break
        if once or len(self.code) != len(other.code) or self.results != other.results:
            raise InputError(
                f"{where or self.where}{self.name} is called twice, and wrote {once or 'more the one time than the other'}: equations are no random number, time or counter; "
                "what differs between episodes is an entry of the scenario"
            )

    def refuse_jump(self, action: str, inputs: NDArray[np.float64], moved: NDArray[np.float64]) -> None:
        """Refuses a comparison that the outputs jump by on the way from inputs to moved, which differ in this action."""
        found = jump(self.code, self.results, inputs, moved)
        if found is not None:
            what = "dynamics" if self.name in ("ode", "step") else self.name
            raise InputError(
                f"{at(self.lines[found - len(inputs)]) or self.where}the {what} compare the action {action!r}, and jump where it turns: an input that switches is "
                "written as gpc.on_off() or gpc.one_of(…)"
            )

    def _refuse(self, result: int, value: int, values: Sequence[NDArray[np.float64]], point: int, entries: int) -> None:
        """Names the operation that was first not finite."""
        while value >= entries and self.code[value - entries][0] != "const":
            op, *operands = self.code[value - entries]
            if op == "select":
                operands = [operands[1] if values[operands[0]][point] != 0 else operands[2]]
            worse = [v for v in operands if not np.isfinite(values[v][point])]
            if not worse:
                numbers = ", ".join(f"{values[v][point]:.6g}" for v in operands)
                raise InputError(f"{at(self.lines[value - entries]) or self.where}{self.name}[{result}] is {values[value][point]} at a random start: {op} of {numbers}")
            value = worse[0]
        raise InputError(f"{self.where}{self.name}[{result}] is {values[value][point]} at a random start")


def _constant(v: float) -> Any:
    if v != v:
        return "NaN"
    if v in (np.inf, -np.inf):
        return "Infinity" if v > 0 else "-Infinity"
    return "-0" if v == 0 and np.signbit(v) else float(v)


def _variables(field: str, given: Variables | None, known: Mapping[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """Variables of a mapping by name, in the form of a file."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f'{field} is a {type(given).__name__}, want names with their units, such as {{"x": "m"}}')
    out: dict[str, dict[str, Any]] = {}
    for name, form in (given or {}).items():
        v: dict[str, Any] = {"name": str(name)}
        if not v["name"]:
            raise InputError(f"{field} has an entry without a name")
        if v["name"] in out:
            raise InputError(f"{field} has {str(name)!r} twice, as a text and not")
        if isinstance(form, np.ndarray):
            form = form.tolist()
        if isinstance(form, Mapping):
            strange = [k for k in form if k not in ("unit", "lo", "hi", "tolerance", "kind", "limit")]
            if strange:
                raise InputError(f"{field}[{name!r}] has {strange[0]!r}: {_FORM}{_SWITCHED if field == 'action' else ''}")
            v.update(form)
        elif isinstance(form, str):
            v["unit"] = form
        elif isinstance(form, Sequence) and len(form) in (2, 3) and (len(form) == 2 or isinstance(form[0], str)):
            if len(form) == 3:
                v["unit"] = form[0]
            v["lo"], v["hi"] = form[-2], form[-1]
        else:
            raise InputError(f"{field}[{name!r}] is {form!r}: {_FORM}{_SWITCHED if field == 'action' else ''}")
        for bound in ("lo", "hi"):
            if bound in v:
                try:
                    v[bound] = float(v[bound])
                except (TypeError, ValueError):
                    raise InputError(f"{field}[{name!r}].{bound} is {v[bound]!r}: {_FORM}{_SWITCHED if field == 'action' else ''}") from None
                if not np.isfinite(v[bound]):
                    raise InputError(f"{field}[{name!r}].{bound} is {v[bound]}, want a finite number")
        if "lo" in v and "hi" in v and v["lo"] > v["hi"]:
            raise InputError(f"{field}[{name!r}] is from {v['lo']:g} to {v['hi']:g}, want the smaller number first")
        if "lo" in v and v["lo"] == v.get("hi") and field != "action":
            raise InputError(f"{field}[{name!r}] is from {v['lo']:g} to {v['hi']:g}, want lo below hi{': leave out what never varies, and set it by @y.initial' if field == 'scenario' else ''}")
        if "unit" not in v and known and name in known and "unit" in known[name]:
            v["unit"] = known[name]["unit"]
        if not v.get("unit"):
            v.pop("unit", None)
        out[str(name)] = v
    return out


class System:
    """A controlled system: what its vectors are, and its equations by the decorators ode or step, objectives,
    margins and, as needed, algebraic, terminal_objectives, terminal_margins, memory, escape, initial, urgency, failed, measured and picture.

    state, context, action and scenario map names to a unit, ("unit", lo, hi) or (lo, hi). lo and hi of an action are its
    box, of a scenario's parameter the range that an episode draws it from; those of a state or a margin, optional, its typical range.
    gpc.on_off, gpc.one_of and gpc.integer are actions that take one of a few values. So does an action between whole numbers lo and hi
    that discrete marks, a list of True and False in the order of the actions, as CasADi's nlpsol has it.
    steps is the number of decisions in an episode, period the time between two, s, or time=gpc.free_time(lo, hi). horizon says that the plant runs on: a plan
    always looks so many decisions ahead, there is no clock, and steps is how many decisions a test drives. Without it episodes end
    after steps decisions. forecast maps names of signals that are known ahead to gpc.forecast(…) or (points, period): c.NAME is then the value at
    the time of the stage, and the context has the points, NAME_0 and so on. soft maps names of margins, which may then be exceeded, to a price of a unit of excess, (price, price of its square)
    or a dict with linear, quadratic and priority. rates map names of actions to how much they may change from one decision to the next; the context then
    has the action before, "last " and its name, behind all other entries. blocks are the numbers of periods that the actions of a plan stay for, such as
    (1, 1, 2, 4), of which the last repeats to the plan's end. delay is how old what a decision is made by will be when its action begins to act, in periods. constants is anything that JSON takes:
    what systems of the same equations are told apart by. The others are those of a file (docs/reference/system-file.md): rest,
    state_scale, objective_scale, margin_tolerance, semantic, solver, training, weight_design, navigation.
    """

    def __init__(
        self, name: str, description: str = "", *, state: Variables, action: Variables, scenario: Variables, context: Variables | None = None,
        steps: int, period: float | None = None, time: FreeTime | None = None, forecast: Variables | None = None, horizon: int = 0, delay: float = 0.0, rest: Sequence[float] | None = None, state_scale: Sequence[float] | None = None,
        objective_scale: Sequence[float] | None = None, margin_tolerance: float = 0.0, semantic: Mapping[str, Any] | None = None,
        soft: Mapping[str, Any] | None = None, rates: Mapping[str, float] | None = None, blocks: Sequence[int] | None = None, discrete: Sequence[bool] | None = None,
        solver: Mapping[str, Any] | None = None, training: Mapping[str, Any] | None = None, weight_design: Mapping[str, Any] | None = None,
        navigation: Mapping[str, Any] | None = None, constants: Any = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f'name is {name!r}, want what the system is called, such as "cart"')
        if not isinstance(steps, (int, np.integer)) or steps < 1:
            raise InputError(f"steps is {steps!r}, want the number of decisions in an episode, at least 1")
        if not isinstance(horizon, (int, np.integer)) or horizon < 0:
            raise InputError(f"horizon is {horizon!r}, want how many decisions a plan looks ahead where episodes have no end, or 0 where they end")
        if not 0 <= number(delay, "delay", "a number of periods") <= steps - 1:
            raise InputError(f"delay is {delay!r}, want 0 to {steps - 1} periods, one less than steps")
        if time is not None:
            action, period = self._timed(action, time, period, horizon, delay, rates, forecast)
        if not number(period, "period", "the time between two decisions, s") > 0:
            raise InputError(f"period is {period!r}, want the time between two decisions, s, above 0")
        self.name, self.description, self.steps, self.period, self.horizon = name, description, int(steps), float(period or 0), int(horizon)
        self.delay, self.time = float(delay), time
        self._clock = [] if self.horizon else [CLOCK]
        self._forecast = _forecast.forecasts(forecast)
        self._state, self._context = _variables("state", state), _variables("context", context)
        for name, f in self._forecast.items():
            points = _variables("forecast", f.context(name, self.period, bool(self.horizon)))
            for twice in (name, *points):
                if twice in self._context or twice in self._state or twice == CLOCK:
                    raise InputError(f"forecast[{name!r}] has {twice!r}, which is an entry of state or context: give it a name of its own")
            self._context |= points
        self._action, self._switched = self._actions(action, discrete)
        if CLOCK in self._context and self._clock:
            raise InputError(f"context[{CLOCK!r}] is added by itself, as the share of the episode that has passed: leave it out")
        for field, of in (("state", self._state), ("action", self._action)):
            if not of:
                raise InputError(f'{field} is empty, want at least one entry with its unit, such as {{"x": "m"}}')
        for twice in self._state:
            if twice in self._context:
                raise InputError(f"{twice!r} is an entry of both state and context: give each a name of its own")
        self._scenario = _variables("scenario", _forecast.scenario(scenario, self._forecast), {**self._context, **self._state})
        self._objectives: dict[str, dict[str, Any]] = {}
        self._margins: dict[str, dict[str, Any]] = {}
        self._terminal: dict[str, dict[str, dict[str, Any]]] = {"objectives": {}, "margins": {}}
        self._algebraic: dict[str, dict[str, Any]] = {}
        self._iterations = 0
        self._integrator: dict[str, Any] | None = None
        self._escape_steps = 0
        self._measurement: dict[str, Any] | None = None
        self._functions: dict[str, Callable[..., Any]] = {}
        for field, named in (("soft", soft), ("rates", rates)):
            if named is not None and not isinstance(named, Mapping):
                raise InputError(f"{field} is {named!r}, want a dict by name")
        if blocks is not None and not hasattr(blocks, "__len__"):
            raise InputError(f"blocks is {blocks!r}, want numbers of periods, such as (1, 1, 2, 4)")
        for i, n in enumerate(() if blocks is None else blocks):
            if not isinstance(n, (int, np.integer)) or n < 1:
                raise InputError(f"blocks[{i}] is {n!r}, want a number of periods, at least 1")
        if blocks is not None and len(blocks) == 0:
            raise InputError("blocks is empty, want numbers of periods, or None where the action may change in each")
        self._soft, self._rates, self._blocks = dict(soft or {}), dict(rates or {}), [int(n) for n in blocks or ()]
        for name in self._switched:
            if name in self._rates:
                raise InputError(f"rates[{name!r}] is of a switched action, which has no rate: how soon and how often it may change is said by its least and most")
        if time is not None and isinstance(rest, (Sequence, np.ndarray)) and len(rest) == len(self._action) - 1:  # the user's own actions
            rest = [*rest, (time.lo + time.hi) / 2]
        self._hints = {
            "rest": rest, "state_scale": state_scale, "objective_scale": objective_scale, "margin_tolerance": margin_tolerance, "semantic": semantic,
            "solver": solver, "training": training, "weight_design": weight_design, "navigation": navigation, "constants": constants,
        }
        self._text: str | None = None

    def _timed(self, action: Variables, time: FreeTime, period: float | None, horizon: int, delay: float, rates: Any, forecast: Any) -> tuple[Variables, float]:
        """The actions with the duration, and the longest period."""
        if not isinstance(time, FreeTime):
            raise InputError(f"time is {time!r}, want gpc.free_time(lo, hi) in place of period")
        for given, why in (
            (period is not None, "period is given too: the periods are from lo to hi of free_time, leave it out"),
            (horizon, "horizon says that the plant runs on: there is no end whose time could be free, leave one of the two out"),
            (delay, "delay counts periods, and these have no length of their own: leave one of the two out"),
            (forecast, "forecast has points that are seconds apart, and periods have no length of their own: leave one of the two out"),
            (isinstance(rates, Mapping) and DURATION in rates, f"rates[{DURATION!r}] is a rate of the time itself: leave it out"),
            (isinstance(action, Mapping) and DURATION in action, f"action[{DURATION!r}] is added by itself: leave it out, or give yours another name"),
        ):
            if given:
                raise InputError(f"time=gpc.free_time({time.lo:g}, {time.hi:g}), and {why}")
        return {**action, DURATION: ("s", time.lo, time.hi)} if isinstance(action, Mapping) and action else action, time.hi

    def _actions(self, given: Variables, discrete: Sequence[bool] | None) -> tuple[dict[str, dict[str, Any]], dict[str, Switched]]:
        """The actions in the form of a file, and those of them that are switched."""
        switched = {str(name): form for name, form in given.items() if isinstance(form, Switched)} if isinstance(given, Mapping) else {}
        all = _variables("action", {name: form.unit if isinstance(form, Switched) else form for name, form in given.items()} if switched else given)
        switched = discretes(discrete, all, switched)
        for name, w in switched.items():
            w.check(name, self.horizon or self.steps)
            for bound in ("lo", "hi"):
                all[name].pop(bound, None)
        for name, v in all.items():
            if "lo" in v and v["lo"] == v.get("hi"):
                raise InputError(f"action[{name!r}] is from {v['lo']:g} to {v['hi']:g}, want lo below hi: an action that cannot change is a constant of the equations")
        return all, switched

    # Decorators.

    def ode(self, substeps: int | Literal["auto"] = 1, *, stiff: bool = False, span: float | None = None, error: float | None = None) -> Callable[[F], F]:
        """The state's time derivative, of (s, c, u). The state after an action is what substeps of RK4 make of it in a period,
        or of Radau IIA of order 3 where the equations are stiff. span is the time in the units of the derivative, where that is not the second.

        substeps="auto" takes the number that keeps the error of a period below error, in units of each state's scale, None for 1e-3."""
        self._called("ode()", substeps)
        if substeps != "auto" and (isinstance(substeps, bool) or not isinstance(substeps, (int, np.integer)) or substeps < 1):
            raise InputError(f'substeps is {substeps!r}, want a number of steps in a period, at least 1, or "auto"')
        if error is not None and (substeps != "auto" or not 0 < error < np.inf):
            raise InputError(f'ode(substeps={substeps!r}, error={error!r}): want an error above 0, and with it substeps="auto"')
        self._integrator = {"method": "radau" if stiff else "rk4", "span_s": self.period if span is None else float(span), "substeps": substeps} | ({"error": error} if error else {})
        return self._take("ode")

    def step(self, f: F) -> F:
        """The state after an action, of (s, c, u), in place of ode."""
        return self._take("step")(f)

    def memory(self, f: F) -> F:
        """What changes of the context with a step, of (s, c, u, n): a dict by name, such as {"previous": u.force}."""
        return self._take("memory")(f)

    def objectives(self, units: Variables | None = None, **more: Any) -> Callable[[F], F]:
        """What an action costs, of (s, c, u, n): as many numbers as there are names here, each with its unit."""
        self._objectives = self._declared("objectives", 'position="m²"', units, more)
        return self._take("objectives")

    def margins(self, units: Variables | None = None, **more: Any) -> Callable[[F], F]:
        """Every hard limit as a margin that is ≥ 0 where it is kept, of (s, c, u, n), each with its name and unit."""
        self._margins = self._declared("margins", 'speed="m/s"', units, more)
        return self._take("margins")

    def terminal_objectives(self, units: Variables | None = None, **more: Any) -> Callable[[F], F]:
        """What the state costs that an episode ends in, of (s, c, u, n) of the last decision: names as those of objectives. Of an
        objective of that name it is a part; others are objectives of their own."""
        return self._at_the_end("objectives", 'position="m²"', units, more)

    def terminal_margins(self, units: Variables | None = None, **more: Any) -> Callable[[F], F]:
        """Limits of the state that an episode ends in, as margins that are ≥ 0 where they are kept, of (s, c, u, n) of the last decision."""
        return self._at_the_end("margins", 'speed="m/s"', units, more)

    def _at_the_end(self, kind: str, such: str, units: Variables | None, more: Mapping[str, Any]) -> Callable[[F], F]:
        if not self._clock:
            raise InputError(
                f"terminal_{kind} of a system with horizon={self.horizon}: it runs on, and has no last decision; each plan ends in a terminal cost and limits of its own. "
                f"Write {'costs' if kind == 'objectives' else 'limits'} of every state by @{self.name}.{kind}, or leave horizon out"
            )
        self._terminal[kind] = self._declared(f"terminal_{kind}", such, units, more)
        return self._take(f"terminal_{kind}")

    def algebraic(
        self, units: Variables | None = None, *, guess: Mapping[str, float] | Callable[..., Any] | None = None, iterations: int = 8, **more: Any,
    ) -> Callable[[F], F]:
        """Algebraic states z by name, each with its unit: the function returns, of (s, c, u, z), as many residuals, which are 0 at them.
        Other functions read them by a parameter z, and those of the state after the action, n, by zn.

        They are written down as so many of Newton's iterations from a guess, 0 where there is none: numbers by name, or a function of
        (s, c, u). What has not settled after them is an InputError with the residual."""
        self._algebraic = self._declared("algebraic", 'current="A"', units, more)
        if guess is not None and not callable(guess) and not isinstance(guess, Mapping):
            raise InputError(f"algebraic: guess is {guess!r}, want numbers by name, or a function of (s, c, u)")
        numbers: dict[str, Any] = dict(guess) if isinstance(guess, Mapping) else {}
        for name, value in numbers.items():
            if name not in self._algebraic:
                raise InputError(f"algebraic: guess[{name!r}] is none of {', '.join(self._algebraic)}")
            numbers[name] = number(value, f"algebraic: guess[{name!r}]", "a number; a function of (s, c, u) returns all of them")
        self._functions["guess"] = guess if callable(guess) else lambda: [numbers.get(k, 0.0) for k in self._algebraic]
        self._iterations = counted(iterations, "algebraic")
        return self._take("algebraic")

    def escape(self, steps: int) -> Callable[[F], F]:
        """An action that leads away from the limits within so many steps, such as braking, of (s, c)."""
        self._called("escape(3)", steps)
        if self._switched:
            raise InputError(f"{self.name} has switched actions ({', '.join(self._switched)}), and with them no escape: plans look to the end of each")
        self._escape_steps = steps
        return self._take("escape")

    def initial(self, f: F) -> F:
        """State and context that an episode begins with, of p: a dict by name. What is not in it is the parameter of that
        name, or else 0; so it is not needed where the scenario's parameters have the names of what they are."""
        return self._take("initial")(f)

    def urgency(self, f: F) -> F:
        """How urgent each objective is in a state, in [0, 1], of (s, c)."""
        return self._take("urgency")(f)

    def failed(self, f: F) -> F:
        """Whether a state is lost, such as a fall, of (s, c)."""
        return self._take("failed")(f)

    def measured(
        self, outputs: Mapping[str, Any], *, process: Mapping[str, float] | None = None, unknown: Mapping[str, Any] | None = None, bounded: bool = False, window: int = 0,
    ) -> Callable[[F], F]:
        """What the plant shows: outputs by name, each a standard deviation or ("unit", deviation). States of these names are measured,
        or what the decorated function returns of (s, c, u), u being the action before. The state is then estimated, in every evaluation,
        compilation, loop and export. process is the standard deviation of what acts on a state between two decisions. unknown are entries
        of the context that are estimated: a deviation about 0, or a dict of mean (0), deviation, lo, hi and drift. bounded says that all these are bounds,
        which no value exceeds, in place of deviations. window estimates so many last
        decisions at once; 0 is a Kalman filter."""
        if not isinstance(outputs, Mapping) or not outputs:
            raise InputError(f'measured takes {outputs!r}, want outputs by name, such as {{"x": 0.01}}')
        out: list[dict[str, Any]] = []
        for name, form in outputs.items():
            unit, deviation = form if isinstance(form, tuple) and len(form) == 2 else (self._state.get(name, {}).get("unit", ""), form)
            if not isinstance(unit, str) or not isinstance(deviation, (int, float, np.number)) or not 0 < float(deviation) < np.inf:
                raise InputError(f'measured[{name!r}] is {form!r}, want a standard deviation above 0, or ("unit", deviation)')
            out.append({"name": str(name), "deviation": float(deviation), **({"unit": unit} if unit else {})})
        for field, given, known in (("process", process, self._state), ("unknown", unknown, self._context)):
            for name in given or {}:
                if name not in known:
                    raise InputError(f"{field}[{name!r}] is no entry of the {'state' if known is self._state else 'context'}: {', '.join(known) or 'it is empty'}")
        about = {k: dict(v) if isinstance(v, Mapping) else {"deviation": v} for k, v in (unknown or {}).items()}
        self._measurement = {
            "outputs": [{k: v for k, v in o.items() if k != "deviation"} for o in out], "deviation": [o["deviation"] for o in out],
            "process": [float(process.get(k, 0.0)) for k in self._state] if process else None,
            "unknown": [{"context": k, **v} for k, v in about.items()], "bounded": bool(bounded), "window": window,
        }
        self._functions.pop("measured", None)
        self._text = None
        return self._take("measured")

    def picture(self, f: F) -> F:
        """What a state looks like, of (s, c): a list of line, disc and box."""
        return self._take("picture")(f)

    def _called(self, such: str, given: Any) -> None:
        """Refuses a decorator without its brackets, which is given the function in place of what it takes."""
        if callable(given):
            raise InputError(f"write @{self.name}.{such} above the function, with the brackets")

    def _declared(self, name: str, such: str, units: Variables | None, more: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """What a decorator says of the numbers that its function returns."""
        self._called(f"{name}({such})", units)
        if units is not None and not isinstance(units, Mapping):
            raise InputError(f"{name} takes {units!r}, want names with their units, such as @{self.name}.{name}({such})")
        own = _variables(name, {**(units or {}), **more})
        if not own:
            raise InputError(f"@{self.name}.{name}() names nothing: want the names of what the function returns with their units, such as @{self.name}.{name}({such})")
        return own

    def _take(self, name: str) -> Callable[[F], F]:
        def take(f: F) -> F:
            if not callable(f):
                raise InputError(f"@{name} decorates a function, not {f!r}")
            self._functions[name], self._text = f, None
            return f

        return take

    # Writing functions down.

    def _names(self, vector: str) -> list[str]:
        return {
            "state": [*self._state], "context": [*self._context, *self._clock], "action": [*self._action], "objectives": [*self._declarations("objectives")],
            "margins": [*self._declarations("margins")], "scenario": [*self._scenario], "algebraic": [*self._algebraic],
        }[vector]

    def _declarations(self, kind: str) -> dict[str, dict[str, Any]]:
        """The objectives or margins, with those of the end."""
        own, end = (self._objectives if kind == "objectives" else self._margins), self._terminal[kind] if f"terminal_{kind}" in self._functions else {}
        for name, v in end.items():
            if name in own and (kind == "margins" or v.get("unit") != own[name].get("unit")):
                why = "give it another name" if kind == "margins" else f"in {own[name].get('unit') or 'no unit'}: want the same unit, or another name"
                raise InputError(f"{self._where(f'terminal_{kind}')}terminal_{kind} has {name!r}, which {kind} have too, {why}")
        return {**own, **{k: v for k, v in end.items() if k not in own}}

    _vectors = {"s": "state", "c": "context", "u": "action", "n": "state", "p": "scenario", "z": "algebraic"}

    def _call(self, name: str, known: Mapping[str, Vector]) -> Any:
        """The user's function of what it asks for."""
        f = self._functions[name]
        try:
            parameters = inspect.signature(f).parameters
            for z, state in (("z", "s"), ("zn", "n")) if "algebraic" in self._functions and name not in ("algebraic", "guess") else ():
                if z in parameters and state in known:
                    known = {**known, z: Vector(self._solved(name, known, state), [*self._algebraic])}
            strange = [w for w, p in parameters.items() if w not in known and p.default is p.empty]
            if strange:
                meaning = ", ".join(f"{k} ({'the state after the action' if k == 'n' else self._vectors[k[0]]})" for k in known)
                raise InputError(f"{self._where(name)}the function {name} has a parameter {strange[0]!r}; it may ask for {meaning}")
            return f(**{w: known[w] for w in parameters if w in known})
        except Error:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError) as e:
            raise refusal(e, self._where(name)) from e

    def _where(self, name: str) -> str:
        code = getattr(inspect.unwrap(self._functions[name]), "__code__", None)
        return "" if code is None or code is _elsewhere.__code__ else at((code.co_filename, code.co_firstlineno))

    def _entries(self, name: str, got: Any, of: Sequence[str], what: str) -> list[Any]:
        """What a function returned, as one number for each name."""
        if isinstance(got, Mapping):
            for key in got:
                if key not in of:
                    raise InputError(f"{self._where(name)}{name} returns {key!r}, want {', '.join(of)}")
            missing = [key for key in of if key not in got]
            if missing:
                raise InputError(f"{self._where(name)}{name} does not return {missing[0]!r}")
            got = [got[key] for key in of]
        if got is None:
            raise InputError(f"{self._where(name)}{name} returns nothing, want {len(of)} {what}: {', '.join(of)}")
        if inspect.iscoroutine(got):
            got.close()
        if not isinstance(got, (Expression, list, tuple, int, float)) and not hasattr(got, "__array__"):
            raise InputError(f"{self._where(name)}{name} returns a {type(got).__name__}, want a tuple, an array or a dict by name of {len(of)} {what}: {', '.join(of)}")
        entries = list(_objects(got).reshape(-1))
        if len(entries) != len(of):
            raise InputError(f"{self._where(name)}{name} returns {len(entries)} numbers, want {len(of)} {what}: {', '.join(of)}")
        return entries

    def _begin(self, *inputs: str) -> tuple[Code, dict[str, Vector], list[tuple[str, str, int]]]:
        sizes = [len(self._names(self._vectors[i])) for i in inputs]
        code, known, start = Code(sum(sizes)), {}, 0
        for i, size in zip(inputs, sizes):
            known[i] = Vector([Expression(code, start + k) for k in range(size)], self._names(self._vectors[i]), self._signals() if i == "c" else None)
            known[i]._array.flags.writeable = False
            start += size
        return code, known, [("sNext" if i == "n" else i, self._vectors[i], size) for i, size in zip(inputs, sizes)]

    def _signals(self) -> dict[str, Callable[[Vector], Any]]:
        """What a context says of each signal that is known ahead."""
        length = 0.0 if self.horizon else self.steps * self.period
        return {name: lambda c, name=name, f=f: f.value(name, c, length) for name, f in self._forecast.items()}  # type: ignore[misc]

    def _written(self, name: str, inputs: Sequence[str], output: str, vector: str, what: str) -> _Written:
        code, known, arguments = self._begin(*inputs)
        names = self._names(vector)
        results = self._entries(name, self._call(name, known), names, what)
        if name == "ode" and self.time:
            results = [mul(v, div(known["u"][DURATION], self.period)) for v in results]
        return _Written(name, self._where(name), arguments, [(output, vector, len(names))], code, results)

    def _write(self) -> list[_Written]:
        for name, why in (("objectives", "what an action costs"), *((() if "step" in self._functions else (("ode", "how the state changes, or step"),)))):
            if name not in self._functions and f"terminal_{name}" not in self._functions:
                raise InputError(f"system {self.name!r} has no function {name}, {why}: write one below @{self.name}.{name}" + ("" if name == "step" else "(…)"))
        if "step" in self._functions and "ode" in self._functions:
            raise InputError(f"{self._where('step')}system {self.name!r} has both ode and step, want one of them")
        if self.time and "step" in self._functions:
            raise InputError(f"{self._where('step')}{self.name}.step is the state after a whole period, and time=gpc.free_time(…) leaves its length open: write the equations as @{self.name}.ode")
        all = [self._written("ode", "scu", "ds", "state", "derivatives")] if "ode" in self._functions else []
        all += [self._steps(), self._rewritten("objectives")]
        if self._names("margins"):
            all.append(self._rewritten("margins"))
        if "escape" in self._functions:
            all.append(self._written("escape", "sc", "u", "action", "entries of an action"))
        all.append(self._starts())
        if "urgency" in self._functions:
            all.append(self._written("urgency", "sc", "delta", "objectives", "urgencies"))
        if "failed" in self._functions:
            code, known, arguments = self._begin("s", "c")
            results = self._entries("failed", self._call("failed", known), ["failed"], "condition")
            all.append(_Written("failed", self._where("failed"), arguments, [("failed", "", 1)], code, results))
        if self._measurement is not None:
            all.append(self._outputs())
        return all

    def _rewritten(self, kind: str) -> _Written:
        """The objectives or margins, with those of the end at the last decision."""
        code, known, arguments = self._begin(*"scun")
        values: dict[str, Any] = dict.fromkeys(self._names(kind), 0.0)
        end = f"terminal_{kind}"
        for part, own in ((kind, self._objectives if kind == "objectives" else self._margins), (end, self._terminal[kind])):
            for name, v in zip(own, self._entries(part, self._call(part, known), [*own], kind)) if part in self._functions else ():
                if part == end:
                    v = choose(less(1 - 1.5 / self.steps, known["c"][CLOCK]), v, 0.0 if kind == "objectives" else _BEFORE_THE_END)
                values[name] = add(values[name], v)
        where = self._where(kind if kind in self._functions else end)
        return _Written(kind, where, arguments, [("j" if kind == "objectives" else "m", kind, len(values))], code, [*values.values()])

    def _solved(self, name: str, known: Mapping[str, Vector], state: str) -> list[Any]:
        """The algebraic states in a state, for the function of that name."""
        names, of = [*self._algebraic], ("algebraic", "guess")
        if "u" not in known and any("u" in inspect.signature(self._functions[f]).parameters for f in of):
            raise InputError(f"{self._where(name)}{name} asks for {'z' if state == 's' else 'zn'}, which depends on the action: {name} is of {', '.join(known)} alone")
        at_state = {"s": known[state], **{k: known[k] for k in "cu" if k in known}}
        guess = self._entries("guess", self._call("guess", at_state), names, "numbers")
        code, inputs, _ = self._begin("s", "c", "u", "z")
        equations = Equations(code, self._entries("algebraic", self._call("algebraic", inputs), names, "residuals"), len(names))
        if code.refused:
            raise code.refused
        for i, unknown in enumerate(names):
            if not equations.depends(i):
                raise InputError(f"{self._where('algebraic')}none of the residuals that algebraic returns depends on z.{unknown}")
        values = [*at_state["s"], *at_state["c"], *at_state.get("u", [0.0] * len(self._action))]
        return equations.solve(values, guess, self._iterations, f"{self._where('algebraic')}algebraic", names)

    def _unknowns(self) -> _Written:
        """The algebraic states as a function."""
        code, known, arguments = self._begin("s", "c", "u")
        return _Written("algebraic", self._where("algebraic"), arguments, [("z", "algebraic", len(self._algebraic))], code, self._solved("algebraic", known, "s"))

    def _unsettled(self, trace: Trace) -> list[str]:
        """What Newton's iterations do not reach along the plans of a trace: in its states, and in those after an action."""
        s, c, u, episode = (trace[key] for key in ("s", "c", "u", "episode"))
        follows = np.flatnonzero(episode[1:] == episode[:-1])
        c = c[:, : len(self._names("context"))]  # without the actions before, of which rates and switches are
        try:
            for at, by in ((s, slice(None)), (s[1:][follows], follows)):
                for solution in self._unknowns().solved:
                    solution.check_at(np.concatenate([at.T, c[by].T, u[by].T]))
        except InputError as problem:
            return [f"along plans, {problem}"]
        return []

    def _steps(self) -> _Written:
        """The step of state and context, or of the context alone where ode makes the state."""
        solved = "ode" in self._functions
        code, known, arguments = self._begin(*("scun" if solved else "scu"))
        state = [] if solved else self._entries("step", self._call("step", known), self._names("state"), "entries of the state")
        context = dict(zip(self._names("context"), known["c"]))
        if self._clock:
            context[CLOCK] = context[CLOCK] + 1 / self.steps
        else:
            for name, f in self._forecast.items():
                context.update(f.moved(name, known["c"], self.period))
        if "memory" in self._functions:
            after = known if solved else {**known, "n": Vector(state, self._names("state"))}
            changed = self._call("memory", after)
            if not isinstance(changed, Mapping):
                raise InputError(f"{self._where('memory')}memory returns {changed!r}, want a dict of the entries of the context that change")
            for key, v in changed.items():
                if key not in self._context:
                    raise InputError(f"{self._where('memory')}memory returns {key!r}, which is not an entry of the context: {', '.join(self._context) or 'it is empty'}")
                context[key] = v
        outputs = ([] if solved else [("sNext", "state", len(state))]) + [("cNext", "context", len(context))]
        where = self._where("memory" if solved and "memory" in self._functions else "ode" if solved else "step")
        return _Written("step", where, arguments, outputs, code, [*state, *context.values()])

    def _starts(self) -> _Written:
        code, known, arguments = self._begin("p")
        own = [*self._state, *self._context]
        values: dict[str, Any] = dict.fromkeys(own, 0.0)
        values.update({k: known["p"][k] for k in own if k in self._scenario})
        where, given = "", {}
        if "initial" in self._functions:
            where = self._where("initial")
            given = self._call("initial", known)
            if not isinstance(given, Mapping):
                raise InputError(f"{where}initial returns {given!r}, want a dict of state and context by name")
            for name in [k for k in given if k in self._forecast]:
                points = self._forecast[name].names(name)
                given = {**{k: v for k, v in given.items() if k != name}, **dict(zip(points, self._entries("initial", given[name], points, "points")))}
            for key in given:
                if key not in own:
                    raise InputError(f"{where}initial returns {key!r}, want some of {', '.join(own)}")
            values.update(given)
        elif not any(k in self._scenario for k in own):
            raise InputError(f"system {self.name!r}: no parameter of the scenario has the name of an entry of state or context: give one such a name, or write a function @{self.name}.initial")
        elif unused := [k for k in self._scenario if k not in own]:
            raise InputError(f"scenario[{unused[0]!r}] is no entry of state or context ({', '.join(own)}): give it the name of one, or write a function @{self.name}.initial that uses it")
        for name, f in self._forecast.items():
            if not any(k in self._scenario or k in given for k in f.names(name)):
                raise InputError(f"forecast[{name!r}] has no range that episodes draw its points from: say range= in gpc.forecast, or scenario={{{name!r}: (lo, hi)}}")
        outputs = [("s", "state", len(self._state)), ("c", "context", len(self._context) + len(self._clock))]
        return _Written("initial", where, arguments, outputs, code, [*values.values(), *(0.0 for _ in self._clock)])

    def _outputs(self) -> _Written:
        """What is measured: of the function that measured decorates, or states by their names."""
        assert self._measurement is not None
        names = [o["name"] for o in self._measurement["outputs"]]
        code, known, arguments = self._begin("s", "c", "u")
        if "measured" in self._functions:
            where, results = self._where("measured"), self._entries("measured", self._call("measured", known), names, "outputs")
        else:
            other = [n for n in names if n not in self._state]
            if other:
                raise InputError(f"measured[{other[0]!r}] is not a state ({', '.join(self._state)}): write what it is below @{self.name}.measured(…)")
            state = dict(zip(self._state, known["s"]))
            where, results = "", [state[n] for n in names]
        return _Written("outputs", where, arguments, [("y", "", len(names))], code, results)

    def _shapes(self) -> tuple[list[dict[str, Any]], _Written] | None:
        if "picture" not in self._functions:
            return None
        code, known, arguments = self._begin("s", "c")
        shapes = self._call("picture", known)
        if not isinstance(shapes, (list, tuple)) or not all(isinstance(s, Shape) for s in shapes):
            raise InputError(f"{self._where('picture')}picture returns {shapes!r}, want a list of gpc.line, gpc.disc and gpc.box")
        numbers = [v for s in shapes for v in s.numbers]
        return [s.fields for s in shapes], _Written("picture", self._where("picture"), arguments, [("shapes", "", len(numbers))], code, numbers)

    def _all(self) -> tuple[list[_Written], list[dict[str, Any]]]:
        """Every function, and what the shapes of the picture are."""
        written, pictured = self._write(), self._shapes()
        return ([*written, pictured[1]], pictured[0]) if pictured else (written, [])

    def _sizes(self) -> None:
        """Holds hints to the vectors that they are of."""
        for hint, vector in (("rest", "action"), ("state_scale", "state"), ("objective_scale", "objectives")):
            given, names = self._hints[hint], self._names(vector)
            if given is not None and (isinstance(given, (str, Mapping)) or not hasattr(given, "__len__")):
                raise InputError(f"{hint} is {given!r}, want a list of one number for each of {', '.join(names)}")
            if given is not None and len(given) != len(names):
                raise InputError(f"{hint} has {len(given)} entries, want one for each of {', '.join(names)}")
        for (name, v), x in zip(self._action.items(), () if self._hints["rest"] is None else self._hints["rest"]):
            if isinstance(x, (int, float, np.number)) and "lo" in v and "hi" in v and (x < v["lo"] or x > v["hi"]):
                raise InputError(f"rest of {name!r} is {x:g}, outside of its box, {v['lo']:g} to {v['hi']:g}")

    def _priced(self) -> list[dict[str, Any]]:
        """The soft limits in the form of a file."""
        out: list[dict[str, Any]] = []
        for name, form in self._soft.items():
            if name not in self._names("margins"):
                raise InputError(f"soft[{name!r}] is none of the margins: {', '.join(self._names('margins')) or 'there are none'}")
            if name in self._terminal["margins"] and "lo" not in self._terminal["margins"][name]:
                raise InputError(f'soft[{name!r}] is a limit of the end, whose usual size is not known: give it a range, such as {name}=("m", 0, 1)')
            if isinstance(form, Mapping):
                strange = [k for k in form if k not in ("linear", "quadratic", "priority")]
                if strange:
                    raise InputError(f"soft[{name!r}] has {strange[0]!r}, want linear, quadratic and priority")
                price = dict(form)
            elif isinstance(form, (int, float, np.number)):
                price = {"linear": form}
            elif isinstance(form, Sequence) and not isinstance(form, str) and len(form) == 2:
                price = {"linear": form[0], "quadratic": form[1]}
            else:
                raise InputError(f"soft[{name!r}] is {form!r}, want a price, (price, price of its square), or a dict with linear, quadratic and priority")
            out.append({"margin": name, **{k: v for k, v in price.items() if v}})
        return out

    def _rated(self) -> list[float]:
        """The rates in the order of the action; 0 is no limit."""
        for name in self._rates:
            if name not in self._action:
                raise InputError(f"rates[{name!r}] is no action: {', '.join(self._action)}")
            if not 0 < number(self._rates[name], f"rates[{name!r}]", "how much it may change from one decision to the next") < np.inf:
                raise InputError(f"rates[{name!r}] is {self._rates[name]!r}, want how much it may change from one decision to the next, above 0")
        return [float(self._rates.get(name, 0.0)) for name in self._action] if self._rates else []

    def _try(self, written: Sequence[_Written]) -> None:
        """Evaluates the functions at random starts and actions: what is not finite is an error of its line."""
        of = {w.name: w for w in written}
        rng, points = np.random.default_rng(1), 32

        def drawn(v: Mapping[str, Any]) -> NDArray[np.float64]:
            return rng.uniform(v["lo"], v["hi"], points) if "lo" in v and "hi" in v else rng.normal(size=points)

        p = np.array([drawn(v) for v in self._scenario.values()]).reshape(-1, points)
        begun = of["initial"].values(p)
        s, c = begun[: len(self._state)], begun[len(self._state) :]
        u = np.array([rng.choice(self._switched[k].values, points) if k in self._switched else drawn(v) for k, v in self._action.items()])
        n = s
        if "ode" in of:
            of["ode"].values(s, c, u)
        else:
            n = of["step"].values(s, c, u)[: len(s)]
        for name in ("objectives", "margins"):
            if name in of:
                of[name].values(s, c, u, n)
        for name in ("escape", "urgency", "failed", "picture"):
            if name in of:
                of[name].values(s, c)
        if "outputs" in of:
            of["outputs"].values(s, c, u)
        for i, (name, v) in enumerate(self._action.items()):
            if name in self._switched:
                continue
            moved = u.copy()
            moved[i] = drawn(v)
            if "lo" in v and "hi" in v:  # every second beyond an end, where a comparison with the end has turned
                beyond = 0.01 * (v["hi"] - v["lo"])
                moved[i, ::2] = rng.choice([v["lo"] - beyond, v["hi"] + beyond], len(moved[i, ::2]))
            for w in written:
                if w.name in ("ode", "step", "objectives", "margins"):
                    after = [n] if len(w.inputs) == 4 else []
                    w.refuse_jump(name, np.concatenate([s, c, u, *after]), np.concatenate([s, c, moved, *after]))

    # The file.

    def document(self) -> dict[str, Any]:
        """The system as the object that a file holds (docs/reference/system-file.md)."""
        self._sizes()
        written, pictured = self._all()
        for one, other in zip(written, self._all()[0]):
            one.refuse_change(other)
        self._try(written)
        vectors = [{"name": v, "entries": self._names(v)} for v in ("state", "context", "action", "objectives", "margins", "scenario")]
        out: dict[str, Any] = {
            "format": "gpc-system", "version": 1, "name": self.name, "description": self.description, "state": [*self._state.values()],
            "context": [*self._context.values()], "action": [*self._action.values()], "objectives": [*self._declarations("objectives").values()],
            "margins": [*self._declarations("margins").values()], "scenario": [*self._scenario.values()], "steps": self.steps, "step_s": self.period, "horizon": self.horizon, "delay": self.delay,
            "measurement": {k: v for k, v in (self._measurement or {}).items() if v},
            "integrator": self._integrator, "escape_steps": self._escape_steps, "soft": self._priced(), "rates": self._rated(), "blocks": self._blocks,
            "switches": [w.document(name, self._names("objectives")) for name, w in self._switched.items()], **self._hints, "picture": pictured,
            "program": {"format": "gpc-program", "version": 1, "name": self.name, "vectors": vectors, "functions": [w.document() for w in written]},
        }
        return {k: v for k, v in json.loads(as_json(out)).items() if v is not None and v != [] and v != {} and v != 0 and v != ""}

    def text(self) -> str:
        """The bytes of the file, in its one form; what is wrong with the system is an InputError."""
        if self._text is None:
            try:
                answer = ask(lib.gpc_system, text(self.document()))
            except InputError as e:
                if "a horizon of" not in str(e):
                    raise
                raise InputError(f"{f'horizon is {self.horizon}' if self.horizon else f'steps is {self.steps}'}: {e}") from None
            self._text = answer["text"]
            idle = [k for k, rate in self._rates.items() if "lo" in self._action[k] and float(rate) >= self._action[k]["hi"] - self._action[k]["lo"]]
            remark(self.name, [f"rates[{k!r}] is {self._rates[k]:g}, and its box no wider: it limits nothing" for k in idle] + (answer["remarks"] or []))
        return self._text

    def check(self) -> Findings:
        """What of the system is wrong, or accepted and may not be meant, as `gpc check` says it (docs/how-to/fix-your-equations.md): a list
        of dictionaries with severity ("error", "remark", "hint"), of, function, where, message and fix. Nothing is solved."""
        return self._located(ask(lib.gpc_check, text({"system": self.text()})))

    def _located(self, findings: Sequence[dict[str, Any]]) -> Findings:
        """Findings with file and line of the functions that they are about."""
        for f in findings:
            name = f.get("function", "")
            if name == "step" and "ode" in self._functions:
                name = "ode"
            f["where"] = self._where(name) if name in self._functions else ""
        return Findings(findings)

    def identity(self) -> dict[str, str]:
        """sha256 of the file, and problem_sha256, which maps of the system have too."""
        about = ask(lib.gpc_system, text(self.text()))
        return {k: about[k] for k in ("sha256", "problem_sha256")}

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the file, which the command line takes where it takes a case: gpc compile FILE.json."""
        if not os.fspath(file).endswith(".json"):
            raise InputError(f"{os.fspath(file)}: the name of a system's file ends in .json")
        write(file, self.text() + "\n")

    def function(self, name: str) -> Callable[..., NDArray[np.float64]]:
        """One of the functions as it was written down, of numbers: such as function("ode")(s, c, u)."""
        written, _ = self._all()
        for w in [*written, *([self._unknowns()] if "algebraic" in self._functions else [])]:
            if w.name == name:
                sizes = [size for _, _, size in w.inputs]

                def call(*inputs: ArrayLike) -> NDArray[np.float64]:
                    rows = [np.asarray(x, np.float64).reshape(-1) for x in inputs]
                    if [len(r) for r in rows] != sizes:
                        raise InputError(f"{name} takes {', '.join(f'{a[0]}[{a[2]}]' for a in w.inputs)}, not {', '.join(str(len(r)) for r in rows)} numbers")
                    return w.values(*(r[:, None] for r in rows))[:, 0]

                return call
        raise InputError(f"system {self.name!r} has no function {name!r}; it has {', '.join(w.name for w in written)}")

    def __getstate__(self) -> dict[str, Any]:
        """A pickled system has its file in place of its functions: it compiles and drives as it is."""
        return {**self.__dict__, "_text": self.text(), "_functions": dict.fromkeys(self._functions, _elsewhere)}

    def __copy__(self) -> System:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> System:
        other = object.__new__(type(self))
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and "_text" in self.__dict__:
            raise InputError(f"{name} of a system is said where it is made: make another System")
        super().__setattr__(name, value)

    def _length(self) -> str:
        steps = f"runs on, a horizon of {self.horizon} steps" if self.horizon else f"{self.steps} steps"
        return f"{steps} of {'up to ' if self.time else ''}{self.period:g} s"

    def __repr__(self) -> str:
        has = ", ".join(f for f in self._functions if f != "guess") or "no functions yet"
        return f"<gpc.System {self.name!r}: {len(self._state)} states, {len(self._action)} actions, {self._length()}; {has}>"

    def _repr_html_(self) -> str:
        rows = []
        for field, of in (("state", self._state), ("context", self._context), ("action", self._action), ("algebraic", self._algebraic),
                          ("objective", self._declarations("objectives")), ("margin", self._declarations("margins")), ("scenario", self._scenario)):
            for name, v in of.items():
                span = f"[{v['lo']:g}, {v['hi']:g}]" if "lo" in v and "hi" in v else ""
                if of is self._action and name in self._switched:
                    span = ", ".join(f"{x:g}" for x in self._switched[name].values)
                rows.append("".join(f"<td>{html.escape(str(x))}</td>" for x in (field, name, v.get("unit", ""), span)))
        body = "".join(f"<tr>{r}</tr>" for r in rows)
        return f"<p><b>{html.escape(self.name)}</b> {html.escape(self.description)}: {self._length()}</p><table><tr><th></th><th>name</th><th>unit</th><th>range</th></tr>{body}</table>"


_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(h|m|s)")


def seconds(budget: str | float) -> float:
    """A time such as "4m", "90s", "1h30m", or seconds."""
    if not isinstance(budget, str):
        return number(budget, "budget", 'a time such as "4m", "90s" or "1h30m", or seconds')
    parts = _BUDGET.findall(budget)
    if not parts or _BUDGET.sub("", budget).strip():
        raise InputError(f'budget is {budget!r}, want a time such as "4m", "90s" or "1h30m"')
    return sum(float(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in parts)
