"""Closed loops: one, or thousands that decide together."""

from __future__ import annotations

import ctypes
import json
import threading
from dataclasses import dataclass
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpc import _lib
from gpc._lib import ARRAY, HANDLE, INT, OUT, TEXT, Error, InputError, Object, address, array, call, create, declare, empty, lib, text

if TYPE_CHECKING:
    from gpc.session import Session

__all__ = ["FALLBACKS", "Decision", "Decisions", "Loop", "Loops"]

Floats = NDArray[np.float64]

declare("gpc_drive_new", HANDLE, TEXT, INT, OUT)
declare("gpc_drive_reset", HANDLE, INT)
declare("gpc_drive_prepare", HANDLE)
declare("gpc_drive_goal", HANDLE, TEXT)
declare("gpc_drive_executed", HANDLE, INT, ARRAY, INT)
declare("gpc_drive_decide", HANDLE, INT, *(ARRAY, INT) * 5)

FALLBACKS = (
    "midpoint", "second-slope", "no-step", "lie", "observation", "action", "margin", "residual",
    "solver", "conservative", "guard", "incumbent", "rescue", "map", "escape", "method", "gap", "weights",
)
"""Names of the bits of Decisions.fallback, from bit 0 (package domain, Fallback)."""

SENSOR_FAULTS = ("fine", "missing", "outlier", "frozen")
"""Names of what a loop with an estimator finds wrong with what is measured (package closedloop/estimate, Fault)."""

_RESET, _FAULTS = 1, 2
_BEHIND = 8  # entries of a record behind σ and the margins


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """n decisions, rows in the order of the observations."""

    u: Floats
    """Executed actions [n, n_u], physical units (spec.action)."""
    record: Floats
    """All that follows, as the library wrote it [n, M + n_m + 8], with the estimates behind that where there are some."""
    _objectives: int
    _margins: int
    _estimated: tuple[int, int] = (0, 0)
    _tolerance: float = 0.0

    def __repr__(self) -> str:
        return f"<gpc.Decisions: {len(self.u)}, smallest margin {float(np.min(self.margin)) if self.margin.size else np.nan:.3g}>"

    def _column(self, i: int) -> Floats:
        return self.record[..., self._objectives + self._margins + i]

    @property
    def sigma(self) -> Floats:
        """Priority σ that steered [n, M]; NaN where a method has none."""
        return self.record[..., : self._objectives]

    @property
    def margins(self) -> Floats:
        """Every hard margin of u in the measured state [n, n_m], ≥ 0 when kept (spec.margins)."""
        return self.record[..., self._objectives : self._objectives + self._margins]

    @property
    def margin(self) -> Floats:
        """The smallest of margins [n]; NaN where the observation was not finite."""
        return self._column(0)

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether no margin is violated by more than rounding [n], by the case's spec.margin_tolerance; False where margin is NaN."""
        return self.margin >= -self._tolerance

    @property
    def residual(self) -> Floats:
        """‖x̂ − D_s(z)‖² at the localized latent [n], normalised units."""
        return self._column(1)

    @property
    def limit(self) -> Floats:
        """Of the residual [n]: above it the observation is off the map; 0 or inf: none is stated."""
        return self._column(2)

    @property
    def off_map(self) -> NDArray[np.bool_]:
        """Whether the map was not made for the observation [n]: by its residual, or a state or context beyond the data."""
        return (self.limit > 0) & ~(self.residual <= self.limit) | (self.fallback >> FALLBACKS.index("residual") & 1 == 1)

    @property
    def displacement(self) -> Floats:
        """‖z' − z‖ of the latent step [n]."""
        return self._column(3)

    @property
    def fallback(self) -> NDArray[np.uint32]:
        """Which guards acted [n], bit by bit (FALLBACKS)."""
        return self._column(4).astype(np.uint32)

    @property
    def seconds(self) -> Floats:
        """What the library took for localization, step and projection [n, 3]: those of the whole
        call, in each row."""
        at = self._objectives + self._margins + 5
        return self.record[..., at : at + 3]


    def _behind(self, start: int, count: int | None) -> Floats:
        at = self._objectives + self._margins + _BEHIND + start
        return self.record[..., at : None if count is None else at + count]

    @property
    def state(self) -> Floats:
        """The estimate of the state that a loop with an estimator decided by [n, n_s]; of another loop [n, 0]."""
        return self._behind(0, self._estimated[0])

    @property
    def context(self) -> Floats:
        """The context with the estimates in it [n, n_c]; of a loop without an estimator [n, 0]."""
        return self._behind(*self._estimated)

    @property
    def sensors(self) -> NDArray[np.intp]:
        """What was wrong with each value that was measured [n, n_y]: numbers of SENSOR_FAULTS."""
        return self._behind(sum(self._estimated), None).astype(np.intp)


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Decisions):
    """One decision: as Decisions, without the dimension n."""

    _names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = [f"{name} {u:.4g}" for name, u in zip(self._names, self.u)][:4]
        more = f", … {self.u.size} in all" if self.u.size > len(shown) else ""
        return f"<gpc.Decision {', '.join(shown)}{more}; margin {float(self.margin):.3g}, fallbacks: {', '.join(self.fallbacks) or 'none'}>"

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Names of the guards that acted; empty for none."""
        bits = int(self._column(4))
        return tuple(name for i, name in enumerate(FALLBACKS) if bits >> i & 1)


class Loops(Object):
    """n closed loops of one method, which decide in one call; Session.loops makes them.

    Loops of the navigator (gpc, direct and its other variants) share each call of the engine; those
    of any other method decide one after another. They may be used by any thread; calls wait for
    each other.
    """

    def __init__(self, session: Session, n: int, method: str = "", candidates: int = 0, faults: bool = False, measured: Mapping[str, Any] | None = None) -> None:
        if not isinstance(n, int) or isinstance(n, bool):
            raise InputError(f"{n!r} closed loops, want a whole number")
        options = {"method": method, "candidates": candidates, **(measured or {})}
        super().__init__(create(lib.gpc_drive_new, session.handle, text(options), n))
        spec = session.spec
        self.n, self._tolerance = n, spec.margin_tolerance
        self._sizes = len(spec.state), len(spec.context), len(spec.objectives)
        self._nu, self._nm = len(spec.action), len(spec.margins)
        states = [v.name for v in spec.state]
        outputs = states if "estimate" in options else [] if "informed" in options else session._outputs
        self._estimated = (len(spec.state), len(spec.context)) if outputs else (0, 0)
        self._shown, self._what = (len(outputs), "y, what is measured,") if outputs else (len(spec.state), "state")
        instead = f"; {_listed(session._outputs)} is measured, which a loop is given" if session._outputs and not outputs else ""
        self._entries = f": {_listed(outputs or states)}{instead}", f": {_listed([v.name for v in spec.context])}" if spec.context else ""
        self._width = self._sizes[2] + self._nm + _BEHIND + sum(self._estimated) + len(outputs)
        self._flags, self._goal, self._lock = _FAULTS if faults else 0, "", threading.Lock()
        self._about = f"{spec.name!r} by {method or 'its default method'}"

    def __repr__(self) -> str:
        many = "" if type(self).__name__ == "Loop" else f": {self.n} loops"
        return f"<gpc.{type(self).__name__} {self._about}{many if self._handle else ', closed'}>"

    def reset(self, loop: int | None = None) -> None:
        """Starts an episode in one loop, or in all."""
        call(lib.gpc_drive_reset, self.handle, -1 if loop is None else loop)

    def executed(self, u: ArrayLike, loop: int = 0) -> None:
        """Says that a loop executed u [n_u] in place of its last decision: an estimator counts on what was executed."""
        action = array(u, np.float64, (self._nu,), "u")
        call(lib.gpc_drive_executed, self.handle, loop, address(action), action.size)

    def prepare(self) -> None:
        """Lets every loop look for its next decision, after the actions of the last were executed.

        Methods that search or solve between decisions (refine-64-ahead, nmpc-ahead) answer
        at once then; without it they do when they are asked. Of others it does nothing.
        """
        call(lib.gpc_drive_prepare, self.handle)

    def decide(
        self, state: Floats, context: Floats | None = None, preference: ArrayLike | Goal | None = None, *,
        out: Floats | None = None, record: Floats | bool = True, fresh: bool = False,
    ) -> Decisions:
        """One decision in every loop.

        state [n, n_s] and context [n, n_c] are C-contiguous arrays of float64 in physical units
        (spec.state, spec.context), what is measured [n, n_y] in place of the state where it is estimated; context may be left out where a case has none. preference is
        None for the adaptive priority, or weights on the simplex, [M] for all or an array [n, M], or a goal: bounds of objectives to the
        end of the episode, as {"energy": "<= 3"}, or a list of objectives in the order of their importance (docs/explain/front.md). The actions
        are written to out [n, n_u] and the rest to record [n, M + n_m + 8], with an estimator [n, M + n_m + 8 + n_s + n_c + n_y], arrays of float64
        of the caller's; both are new arrays otherwise, and record=False leaves the rest out. fresh
        starts an episode in every loop first.
        """
        n = self.n
        _, nc, m = self._sizes
        s = array(state, np.float64, (n, self._shown), self._what, finite=False, entries=self._entries[0])
        c = array(np.empty((n, 0)) if context is None and nc == 0 else context, np.float64, (n, nc), "context", finite=False, entries=self._entries[1])
        weights = preference if isinstance(preference, np.ndarray) else None
        u = empty(out, np.float64, (n, self._nu), "out", s, c, weights)
        width = self._width
        r = empty(None if record is True else record, np.float64, (n, width), "record", s, c, weights, u) if record is not False else None
        with self._lock:  # the goal is that of the decision
            w = _weights(self._pursue(preference), m, n)
            call(
                lib.gpc_drive_decide, self.handle, self._flags | (_RESET if fresh else 0), address(s), s.size, address(c), c.size,
                address(w), 0 if w is None else w.size, address(u), u.size, address(r), 0 if r is None else r.size,
            )
        if r is None:
            r = np.broadcast_to(np.nan, (n, width))
        return Decisions(u, r, m, self._nm, self._estimated, self._tolerance)

    def _pursue(self, preference: Any) -> Any:
        """Gives the loops a preference that is a goal, and takes one away; what is left is weights or None."""
        goal = _goal(preference)
        if goal != self._goal:
            call(lib.gpc_drive_goal, self.handle, text(goal))
            self._goal = goal
        return None if goal else preference


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:8], *(["…"] if len(names) > 8 else [])])


Goal = Mapping[str, str] | list[str] | tuple[str, ...]
"""Bounds of objectives, or objectives in the order of their importance."""


def _goal(preference: Any) -> str:
    """A preference that is a goal as JSON, "" for another."""
    if isinstance(preference, Mapping) or (isinstance(preference, (list, tuple)) and preference and isinstance(preference[0], str)):
        return json.dumps(dict(preference) if isinstance(preference, Mapping) else list(preference), default=str)
    return ""


def _weights(preference: Any, m: int, n: int | None = None) -> Floats | None:
    """A preference as the library takes it: None, or weights for each of n rows."""
    if preference is None:
        return None
    if n is not None and isinstance(preference, np.ndarray) and preference.ndim == 2:
        return array(preference, np.float64, (n, m), "preference")
    w = array(preference, np.float64, (m,), "preference")
    return w if n is None else np.tile(w, (n, 1))


class Loop(Loops):
    """One closed loop of one method; Session.loop makes it.

    It keeps its arrays from call to call: a decision costs a few microseconds more than it does
    in Go. It may be used by any thread; calls wait for each other.
    """

    def __init__(self, session: Session, method: str = "", candidates: int = 0, faults: bool = False, measured: Mapping[str, Any] | None = None) -> None:
        super().__init__(session, 1, method, candidates, faults, measured)
        self._names = tuple(v.name for v in session.spec.action)
        _, nc, m = self._sizes
        ny = self._shown
        self._s, self._c, self._w = np.empty(ny), np.empty(nc), np.empty(m)
        self._u, self._r = np.empty(self._nu), np.empty(self._width)
        self._decide = lib.gpc_drive_decide
        self._error = ctypes.c_void_p()
        observation = address(self._s), ny, address(self._c), nc
        results = address(self._u), self._nu, address(self._r), self._r.size, ctypes.byref(self._error)
        self._adaptive: tuple[Any, ...] = (*observation, None, 0, *results)
        self._steered = (*observation, address(self._w), m, *results)

    def decide(self, state: ArrayLike, context: ArrayLike = (), preference: ArrayLike | Goal | None = None, *, fresh: bool = False) -> Decision:  # type: ignore[override]
        """One decision.

        state [n_s] and context [n_c] are arrays of float64, or lists, in physical units
        (spec.state, spec.context), finite unless the loop admits faults. Where it estimates, NaN is a sensor that gave no
        number. preference is None for the adaptive priority, weights [M] on the simplex, or a goal (see Loops.decide). fresh starts an
        episode first.
        """
        if _lib._forked:
            raise Error(_lib._FORKED)
        with self._lock:
            _put(self._s, state, self._what, self._entries[0])
            _put(self._c, context, "context", self._entries[1])
            arguments = self._adaptive
            if self._goal or not (preference is None or type(preference) is np.ndarray):
                preference = self._pursue(preference)
            if preference is not None:
                _put(self._w, preference, "preference")
                arguments = self._steered
            code = self._decide(self.handle, self._flags | fresh, *arguments)
            if code:
                _lib._raise(code, self._error)
            return Decision(self._u.copy(), self._r.copy(), self._sizes[2], self._nm, self._estimated, self._tolerance, self._names)


def _put(into: Floats, x: Any, name: str, entries: str = "") -> None:
    """Copies x, checked, into an array of the loop's."""
    if type(x) is not np.ndarray or x.dtype != into.dtype or x.shape != into.shape:
        x = array(x, into.dtype, into.shape, name, finite=False, entries=entries)
    into[:] = x
