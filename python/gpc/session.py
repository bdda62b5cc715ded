"""A session: a case with a map on an engine."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpc import traces
from gpc._lib import ARRAY, HANDLE, INT, OUT, TEXT, InputError, Object, address, array, ask, call, create, declare, empty, lib, reals, remark, text
from gpc._plot import Panel, figure
from gpc._progress import Progress, progress_of
from gpc.loops import Decision, Decisions, Floats, Loop, Loops, _weights
from gpc.results import Drive, Evaluation, Findings, Front, Refinement
from gpc.system import System, seconds

__all__ = ["Session", "Spec", "Step", "Switch", "Variable", "cases", "version"]

Latents = NDArray[np.float32]

declare("gpc_cases", OUT)
declare("gpc_about", HANDLE, OUT)
declare("gpc_methods", HANDLE, OUT)
declare("gpc_spec", HANDLE, OUT)
declare("gpc_observe", HANDLE, TEXT, *(ARRAY, INT) * 2)
declare("gpc_refine", HANDLE, TEXT, *(ARRAY, INT) * 3, OUT, HANDLE)
declare("gpc_front", HANDLE, TEXT, *(ARRAY, INT) * 2, OUT, HANDLE)
declare("gpc_evaluate", HANDLE, TEXT, OUT, HANDLE)
declare("gpc_encode", HANDLE, INT, INT, *(ARRAY, INT) * 4)
declare("gpc_decode", HANDLE, INT, *(ARRAY, INT) * 5)
declare("gpc_jacobian", HANDLE, INT, INT, *(ARRAY, INT) * 2)
declare("gpc_step", HANDLE, INT, *(ARRAY, INT) * 8)


@dataclass(frozen=True, repr=False)
class Variable:
    """A component of a vector. lo and hi are its hard box, physical units; None: unbounded."""

    name: str
    unit: str
    lo: float | None
    hi: float | None

    def __repr__(self) -> str:
        box = "" if self.lo is None and self.hi is None else f" in {_bound(self.lo, '−∞')} to {_bound(self.hi, '∞')}"
        return f"<{f'{self.name} {self.unit}'.rstrip()}{box}>"


def _bound(v: float | None, none: str) -> str:
    return none if v is None else f"{v:g}"


@dataclass(frozen=True)
class Switch:
    """An action that takes one of a few values."""

    action: int
    """Its place in the action."""
    values: tuple[float, ...]
    """In ascending order."""
    least: tuple[int, ...]
    """For how many periods each value stays at least."""
    most: int
    """Changes in any window; 0: any number."""
    window: int
    """Periods of a window."""
    last: int
    """Place in the context of the value before."""
    ages: int
    """Place in the context of the periods since the last change, behind which are those of the changes before it, most in all."""


@dataclass(frozen=True, repr=False)
class Spec:
    """What the vectors of a case are."""

    name: str
    description: str
    state: tuple[Variable, ...]
    """Measured state s [n_s]."""
    context: tuple[Variable, ...]
    """Context c [n_c], known exactly at every decision."""
    action: tuple[Variable, ...]
    """One action u [n_u]."""
    objectives: tuple[Variable, ...]
    """Objectives J [M]."""
    margins: tuple[Variable, ...]
    """Hard margins [n_m], each ≥ 0 when kept."""
    plan: int
    """Actions in one decoded plan."""
    steps: int
    """Decisions in one episode."""
    step_s: float
    """Control period, s."""
    margin_tolerance: float
    """How far below 0 a margin may be before it counts as violated."""
    latent: int
    """n_z of the map; 0 for a method without one."""
    switches: tuple[Switch, ...] = ()
    """Actions that take one of a few values."""

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """The box of an action: lower and upper bounds [n_u]; infinite where there is none."""
        lo = [-np.inf if v.lo is None else v.lo for v in self.action]
        hi = [np.inf if v.hi is None else v.hi for v in self.action]
        return np.array(lo), np.array(hi)

    def rows(self) -> list[tuple[str, int, str, str, float | None, float | None]]:
        """Every variable: which vector it is of, its index there, name, unit, lo and hi."""
        vectors = {"state": self.state, "context": self.context, "action": self.action, "objectives": self.objectives, "margins": self.margins}
        return [(of, i, v.name, v.unit, v.lo, v.hi) for of, vector in vectors.items() for i, v in enumerate(vector)]

    def table(self) -> str:
        """rows as a text to print."""
        lines = [("vector", "index", "name", "unit", "lo", "hi")]
        lines += [(of, str(i), name, unit, _bound(lo, ""), _bound(hi, "")) for of, i, name, unit, lo, hi in self.rows()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(vector)}" for name, vector in (
            ("state", self.state), ("context", self.context), ("action", self.action), ("objectives", self.objectives), ("margins", self.margins),
        ))
        return f"<gpc.Spec {self.name!r}: {sizes}, {self.steps} decisions every {self.step_s:g} s; table() lists them>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{c}</th>" for c in ("vector", "index", "name", "unit", "lo", "hi"))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in (of, i, name, unit, _bound(lo, ""), _bound(hi, ""))) + "</tr>"
            for of, i, name, unit, lo, hi in self.rows()
        )
        return f"<p><b>{html.escape(self.name)}</b> {html.escape(self.description)}</p><table><tr>{head}</tr>{body}</table>"


def _spec(fields: dict[str, Any]) -> Spec:
    vectors = {k: tuple(Variable(**v) for v in fields[k]) for k in ("state", "context", "action", "objectives", "margins")}
    switches = tuple(Switch(**{**w, "values": tuple(w["values"]), "least": tuple(w["least"])}) for w in fields["switches"])
    return Spec(**{**fields, **vectors, "switches": switches})


def _options(case: str | os.PathLike[str] | System) -> dict[str, Any]:
    """What names a case to the library: a name, a file, or the text of a system."""
    if isinstance(case, System):
        return {"system": case.text()}
    if not isinstance(case, (str, os.PathLike)):
        raise InputError(f"{case!r} is of type {type(case).__name__}, want the name of a case, the file of a system, or a gpc.System")
    return {"case": os.fspath(case)}


def _warn(case: str | os.PathLike[str] | System, *, refuse: bool = False) -> None:
    """Warns of errors and remarks that a check of a user's system finds, before it is used, or refuses errors."""
    if not isinstance(case, System) and not os.fspath(case).endswith(".json"):
        return
    found, name = Findings(ask(lib.gpc_check, text({**_options(case), "own": True}))), case.name if isinstance(case, System) else os.fspath(case)
    if isinstance(case, System):
        found = case._located(found)
    if refuse and found.errors:
        raise InputError(found.errors.lines()[0])
    _remark_findings(name, found)


def _remark_findings(name: str, found: Sequence[dict[str, Any]]) -> None:
    remark(name, Findings(f for f in found if f["severity"] != "hint").lines())


Plant = str | os.PathLike[str] | System | Mapping[str, float]


def _plant(plant: Plant | None) -> dict[str, Any]:
    """What names another plant than the model to the library."""
    if plant is None:
        return {}
    if isinstance(plant, Mapping):
        if not plant:
            raise InputError("plant is an empty mapping, want factors on parameters of the plant, by name")
        return {"plant_factors": {k: float(v) for k, v in plant.items()}}
    if isinstance(plant, System):
        return {"plant_system": plant.text()}
    return {"plant": os.fspath(plant)}


def _measured(
    estimate: float | Literal[False] | None, keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
) -> dict[str, Any]:
    """What is measured of a plant, and how late; None: what the session or the case says; an estimate of False: states."""
    if estimate is False:
        if keep_off is not None or estimate_window is not None:
            raise InputError("estimate is False, and keep_off and estimate_window need one")
        return {"informed": True, **({} if delay is None else {"delay": float(delay)})}
    given = {"estimate": estimate, "keep_off": keep_off, "delay": delay}
    window = {} if estimate_window is None else {"estimate_window": int(estimate_window)}
    return {**{k: float(v) for k, v in given.items() if v is not None}, **window}


def _budget(budget: str | float | None) -> float:
    if budget is None:
        return 0.0
    limit = seconds(budget)
    if not limit > 0:
        raise InputError(f"budget is {budget!r}, want it above 0")
    return limit


def _computing(computing: float | Sequence[float] | None) -> list[float]:
    """Median and 99th percentile, s."""
    if computing is None:
        return []
    times = [float(computing)] * 2 if isinstance(computing, (int, float)) else [float(v) for v in computing]
    if len(times) != 2:
        raise InputError(f"computing has {len(times)} times, want one, or the median and the 99th percentile")
    return times


def _path(file: str | os.PathLike[str] | None) -> str:
    return "" if file is None else str(file)


def version() -> dict[str, str]:
    """Version and commit of the library."""
    return ask(lib.gpc_version)


def cases() -> list[dict[str, Any]]:
    """The cases with their dimensions: the entries of `gpc cases --json`."""
    return ask(lib.gpc_cases)


def open(
    case: str | os.PathLike[str] | System, model: str | os.PathLike[str] | None = None, *, method: str = "", backend: Literal["auto", "cpu", "cuda", "ref"] = "auto", threads: int = 0,
    tf32: bool = False, device: int | None = None, scene: str | os.PathLike[str] | None = None, door: Literal["library", "subprocess"] = "library",
    program: str | None = None, uncertain_gains: float = 0.0, estimate: float | None = None, keep_off: float | None = None, delay: float | None = None,
    estimate_window: int | None = None, robots: int = 0,
) -> Session:
    """Opens a case with a map on an engine.

    case is a name of cases(), a System or the file of one (docs/reference/system-file.md), or "opf:FILE.m" for the dispatch of a
    MATPOWER case. model is the file of a map, or of the weights of a method that brings its own; None is the bundled map.
    method is what decides, "" the one that the map was compiled for, or else the case's first. threads are
    those of the CPU, 0 for every core. tf32 lets CUDA round the inputs of large products, and
    device is the GPU's number, None for the first usable one. scene is a
    scene file, or a folder of them, as `--scene` takes it (docs/reference/formats.md): the session is on its
    plant, whose sizes and limits spec has, and observe and evaluate are of its episodes, in the order
    of the files' names; what lies outside of what maps are made for is in about()["notices"]. door
    "subprocess" calls the command line instead of the library (package door): program is its file,
    None for what the environment variable GPC names, or else "gpc" on PATH. uncertain_gains, such as 0.1, makes the gain of
    every actuator an entry of the context, from 0.9 to 1.1, which is estimated beside the state by what estimate says is
    measured. 0: the gains are those of the case. estimate, keep_off, delay and estimate_window are those of evaluate, for evaluations, loops,
    servers and exports that do not say their own; decide is given states, or your own estimates. robots, 13 to 4096, makes the scenes of a case of
    many robots those of so large a crowd, as `--robots` does; 0: the case's scenes.
    """
    if door == "subprocess":
        from gpc.door import SubprocessSession

        if scene is not None:
            raise InputError("scene needs the library: with door=\"subprocess\" give it to evaluate")
        if isinstance(case, System):
            raise InputError("a System needs the library: with door=\"subprocess\" save it and give its file")
        if uncertain_gains or robots or _measured(estimate, keep_off, delay, estimate_window):
            raise InputError("uncertain_gains, estimate, keep_off, delay and robots need the library: leave door out, or give all but the first and the last to loops")
        return SubprocessSession(os.fspath(case), "" if model is None else str(model), method, backend, threads, tf32, device, program)  # type: ignore[return-value]
    if door != "library":
        raise InputError(f'door is {door!r}, want "library" or "subprocess"')
    options = {
        **_options(case), "model": "" if model is None else str(model), "method": method, "backend": backend, "threads": threads, "tf32": tf32,
        "device": None if device is None else int(device), "scene": _path(scene), "uncertain_gains": float(uncertain_gains), "robots": int(robots), **_measured(estimate, keep_off, delay, estimate_window),
    }
    return Session(create(lib.gpc_open, text(options)))


class Session(Object):
    """A case with a map on an engine; open makes it. It may be used by any thread; calls that
    need the same workspace wait for each other. Loops made of it outlive its close."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        specs = ask(lib.gpc_spec, self.handle)
        self.spec: Spec = _spec(specs["spec"])
        """What the vectors of the case are."""
        self.map_spec: Spec = _spec(specs["map_spec"])
        """What the map is about: spec, but for cases whose map is about a part of the scene."""
        self._outputs: list[str] = specs["outputs"]
        self._unread: list[int] = specs["unread"] or []
        remark(self.spec.name, specs["remarks"])
        self._warned = False
        self._implicit: System | None = None  # whose algebraic states are to be checked along plans
        self._first: Loop | None = None
        self._batch: Loops | None = None

    def about(self) -> dict[str, Any]:
        """Case, method, map and what computes: backend, instruction set, threads, and why."""
        return ask(lib.gpc_about, self.handle)

    def methods(self) -> list[dict[str, Any]]:
        """What method can name: the entries of `gpc methods CASE --json`."""
        return ask(lib.gpc_methods, self.handle)

    def observe(
        self, episode: int = 0, *, seed: int = 1, regime: str = "", noise: float = 0.0, preference: ArrayLike | None = None,
        shift: Mapping[str, float] | None = None,
    ) -> tuple[Floats, Floats]:
        """The first observation of a test episode, as evaluate draws it, or of scene number episode of
        those that the session was opened with: state [n_s] and context [n_c], physical units."""
        spec = self.spec
        s, c = np.empty(len(spec.state)), np.empty(len(spec.context))
        options = {"episode": episode, **self._scene(seed, regime, noise, 0.0, preference, shift)}
        call(lib.gpc_observe, self.handle, text(options), address(s), s.size, address(c), c.size)
        return s, c

    def context(self, values: Mapping[str, ArrayLike] | None = None, /, **more: ArrayLike) -> Floats:
        """A context [n_c] by the names of its entries, such as context(price=[…], goal=1): a signal that is known ahead by its own
        name, as an array of its points. Where they are not said, the clock and the age of a forecast are 0, what is estimated is NaN, and
        the last actions and their ages are those at the beginning of an episode."""
        names = [v.name for v in self.spec.context]
        out: dict[str, Any] = {k: 0.0 for k in names if k == "clock" or k.endswith("_age") and f"{k[:-4]}_0" in names}
        out.update((names[i], np.nan) for i in self._unread)
        for name, given in {**(values or {}), **more}.items():
            points = [name] if name in names else [*takewhile(lambda k: k in names, (f"{name}_{i}" for i in count()))]
            if not points:
                raise InputError(f"the context has no {name!r}, want some of {', '.join(names) or 'no entries'}")
            row = reals(given, name)
            if row.shape != (len(points),) and (name not in names or row.shape != ()):
                raise InputError(f"{name} has shape {row.shape}, want {'a number' if name in names else f'({len(points)},), a number for each point'}")
            out.update(zip(points, row.reshape(-1)))
        last = {*(f"last {v.name}" for v in self.spec.action), *(names[w.ages + i] for w in self.spec.switches for i in range(max(1, w.most)))} - {*out}
        if last.intersection(names):
            out.update((k, v) for k, v in zip(names, self.observe()[1]) if k in last)
        for name in names:
            if name not in out:
                raise InputError(f"{name!r} of the context is not said, want all of {', '.join(names)}")
        return np.array([out[k] for k in names])

    def drive(self, episode: int = 0, *, method: str = "", seed: int = 1) -> Drive:
        """An unseen episode: times t [n], s, measured states s [n, n_s], contexts c [n, n_c], actions u [n, n_u]."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.jsonl")
            options = {"method": method, "seed": seed, "episodes": episode + 1, "only": episode, "trace": file}
            ask(lib.gpc_evaluate, self.handle, text(options), long=True)
            trace = traces.read(file)
        return Drive(t=self.spec.step_s * trace["t"], s=trace["x"], c=trace["c"], u=trace["u"])

    def plot(self, episode: int = 0, *, method: str = "", seed: int = 1) -> Any:
        """States and actions of an unseen episode as a matplotlib figure; of a large case the first 12 of each."""
        run = self.drive(episode, method=method, seed=seed)
        panels = [Panel(v.name, v.unit, run[of][:, i], (v.lo, v.hi)) for of, vector in (("s", self.spec.state), ("u", self.spec.action))
                  for i, v in enumerate(vector[:12])]
        return figure(run["t"], "time, s", panels)

    def __repr__(self) -> str:
        if not self._handle:
            return f"<gpc.{type(self).__name__} {self.spec.name!r}, closed>"
        about = self.about()
        return f"<gpc.{type(self).__name__} {self.spec.name!r} by {about['method']} on {about['backend']}: {self.spec.description}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>"

    def _scene(self, seed: int, regime: str, noise: float, bias: float, preference: ArrayLike | None, shift: Mapping[str, float] | None) -> dict[str, Any]:
        w = _weights(preference, len(self.spec.objectives))
        return {
            "seed": seed, "regime": regime, "noise": noise, "bias": bias, "preference": None if w is None else w.tolist(), "shift": dict(shift or {}),
        }

    def loop(
        self, method: str = "", *, candidates: int = 0, faults: bool = False, estimate: float | Literal[False] | None = None,
        keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> Loop:
        """One closed loop of a method, "" the session's own. candidates is for methods that search,
        0 their own number. faults admits entries of observations that are not finite: the loop
        answers them as a sensor's fault and flags the decision; otherwise they are refused.

        estimate, keep_off, delay and estimate_window are those of evaluate. With an estimate the loop is given what is
        measured in place of the state, NaN where a sensor gave no number, and its decisions have the estimates; entries of the
        context that are estimated are not read. None is what the session was opened with, False that states are given.
        """
        return Loop(self, method, candidates, faults, _measured(estimate, keep_off, delay, estimate_window))

    def loops(
        self, n: int, method: str = "", *, candidates: int = 0, faults: bool = False, estimate: float | Literal[False] | None = None,
        keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> Loops:
        """n closed loops that decide together; see loop."""
        return Loops(self, n, method, candidates, faults, _measured(estimate, keep_off, delay, estimate_window))

    def decide(self, state: ArrayLike, context: ArrayLike | None = None, preference: ArrayLike | None = None, *, out: Floats | None = None) -> Decision:
        """The first decision of an episode at an observation, by the session's method.

        state [n_s], context [n_c] and preference are those of Loop.decide. Of rows [n, n_s] and
        [n, n_c], arrays of float64, it makes the n first decisions of n episodes together, as
        Loops.decide does, and writes the actions to out where that is given.
        """
        if isinstance(state, np.ndarray) and state.ndim == 2:
            return self._decide_all(state, context, preference, out)  # type: ignore[return-value]
        if out is not None:
            raise InputError("out needs many observations: state has one dimension, which is one observation")
        if self._first is None:
            self._first = self.loop(estimate=False)
        return self._first.decide(state, () if context is None else context, preference, fresh=True)

    def _decide_all(self, state: Floats, context: Any, preference: Any, out: Floats | None) -> Decisions:
        batch = self._batch
        if batch is None or batch.n != len(state):
            batch = self._batch = self.loops(len(state), estimate=False)
        return batch.decide(state, context, preference, out=out, fresh=True)

    def refine(
        self, state: ArrayLike, context: ArrayLike | None = None, preference: ArrayLike | None = None, *, candidates: int = 4096, flow_steps: int = 1,
        seed: int = 1, look_ahead: int = 0, remaining: int = 0, rounds: bool = True, within: float = 0.0, projection: bool = True,
    ) -> Refinement:
        """The best feasible plan of many latent candidates under the true dynamics.

        state [n_s], context [n_c] and preference are those of Loop.decide. The answer has the keys
        of `gpc refine --json` (docs/reference/json.md) and, for the same seed and threads, its values to the bit.
        within ends the rounds that would end later than so many seconds, 0 for never; the other
        options are those of the command.
        """
        spec = self.spec
        s = array(state, np.float64, (len(spec.state),), "state", finite=False)
        c = array(() if context is None else context, np.float64, (len(spec.context),), "context", finite=False)
        w = _weights(preference, len(spec.objectives))
        options = {
            "candidates": candidates, "flow_steps": flow_steps, "seed": seed, "look_ahead": look_ahead, "remaining": remaining,
            "no_rounds": not rounds, "within_s": within, "no_projection": not projection,
        }
        return Refinement(ask(
            lib.gpc_refine, self.handle, text(options), address(s), s.size, address(c), c.size, address(w), 0 if w is None else w.size, long=True,
        ))

    def front(
        self, state: ArrayLike, context: ArrayLike | None = None, *, points: int | None = None, weights: ArrayLike | None = None, look_ahead: int = 0,
        remaining: int = 0, exact: bool = False,
    ) -> Front:
        """The decisions of a moment under all weightings of the objectives, each with the roll-out that follows it.

        weights [n, M] are those asked for, None for at most so many points: a lattice, denser where it bends. Points that break a limit are
        polished, and all of a map that was compiled for a method that polishes. With exact they are solved without the map, fewer, of an even
        lattice. With switched inputs the points are plans of the session's method, the exact ones those of the reference, which takes long.
        The answer has the keys of `gpc front --json` (docs/reference/json.md), and its points as arrays: weights w [n, M], first actions
        u [n, n_u], sums of the objectives j [n, M], smallest margins, feasible and dominated [n].
        """
        spec = self.spec
        s = array(state, np.float64, (len(spec.state),), "state", finite=False)
        c = array(() if context is None else context, np.float64, (len(spec.context),), "context", finite=False)
        rows = None if weights is None else reals(weights, "weights")
        if rows is not None and (rows.ndim != 2 or not len(rows) or rows.shape[1] != len(spec.objectives)):
            raise InputError(f"weights have shape {rows.shape}, want (n, {len(spec.objectives)})")
        if points == 0:
            raise InputError(f"{points} points, want 1 or more")
        options = {"exact": exact, "points": points or 0, "weights": None if rows is None else rows.tolist(), "look_ahead": look_ahead, "remaining": remaining}
        return Front(ask(lib.gpc_front, self.handle, text(options), address(s), s.size, address(c), c.size, long=True))

    def evaluate(
        self, method: str = "", *, episodes: int | None = None, seed: int = 1, regime: str = "", noise: float = 0.0, bias: float = 0.0,
        preference: ArrayLike | None = None, shift: Mapping[str, float] | None = None, scene: str | os.PathLike[str] | None = None,
        candidates: int = 0, parallel: int = 1, trace: str | None = None, resume: bool = False, progress: bool | Progress | None = None,
        plant: Plant | None = None, steps: int | None = None, computing: float | Sequence[float] | None = None, budget: str | float | None = None,
        estimate: float | None = None, keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> Evaluation:
        """A method in closed loop on unseen episodes; the answer has the keys of `gpc eval --json`.

        method is "" for the session's own. episodes are drawn, None for 100; or scene is a file, or a
        folder of them, each an episode, as `--scene` takes it, None for those that the session was opened
        with. They say it all: episodes, regime and shift are refused beside them. noise is the standard
        deviation of the measurement noise in units of each state's scale, bias a constant error in each
        state's unit, shift parameters of the plant times factors, parallel the episodes that run side by
        side, trace a file for every decision. progress is a function of (done, total), True for a bar, False for none; None shows
        a bar at a terminal and in a notebook. Ctrl-C ends it within two seconds. budget is the time of all of it, such as "2m" or
        seconds, None for no limit: it then has the episodes that were driven (ended says so), and a reference has half of the time that is left.

        The rest is a plant that is not the model (docs/how-to/real-plant.md), None for what the case says. plant drives every episode in
        another plant, which the reference and the oracle alone know: a case's name, a System or its file, or factors on
        parameters of the plant by name. steps are the decisions of an episode, of a plant that runs on. computing is the
        declared time of a decision, s, or its median and 99th percentile: a late one is not executed. estimate measures every state with
        noise of that standard deviation in units of the state's scale, and decides by a Kalman filter's estimate, or by one of
        estimate_window last decisions at once; keep_off keeps so many standard deviations off every limit; delay is from
        measurement to action, in periods.
        """
        options = {
            **self._scene(seed, regime, noise, bias, preference, shift), **_plant(plant), **_measured(estimate, keep_off, delay, estimate_window), "steps": steps, "computing_s": _computing(computing), "method": method, "candidates": candidates, "scene": _path(scene),
            "episodes": episodes, "budget_s": _budget(budget), "parallel": parallel, "trace": "" if trace is None else str(trace), "resume": resume,
        }
        report, end = progress_of(progress, f"{self.spec.name} {method}".rstrip())
        with tempfile.TemporaryDirectory() as folder:
            if self._implicit is not None and trace is None:
                options["trace"] = os.path.join(folder, "trace.jsonl")
            try:
                result = Evaluation(ask(lib.gpc_evaluate, self.handle, text(options), long=True, progress=report))
            finally:
                end()
            if self._implicit is not None:
                remark(self.spec.name, self._implicit._unsettled(traces.read(options["trace"])))
                self._implicit = None
        if not self._warned:
            _remark_findings(self.spec.name, result.get("findings") or ())
            self._warned = True
        return result

    def _rows(self, state: Any, context: Any, n: int | None) -> tuple[Floats, Floats]:
        """Observations of what the map is about."""
        spec = self.map_spec
        s = array(state, np.float64, (n, len(spec.state)), "state")
        if context is None and not spec.context:
            context = np.empty((len(s), 0))
        return s, array(context, np.float64, (len(s), len(spec.context)), "context")

    def _latents(self, z: Any) -> Latents:
        self._mapped()
        return array(z, np.float32, (None, self.spec.latent), "z")

    def _mapped(self) -> None:
        if not self.spec.latent:
            raise InputError(f"method {self.about()['method']} of case {self.spec.name} has no map")

    def encode(
        self, state: Floats, context: Floats | None = None, preference: ArrayLike | None = None, *, localize: bool = False, out: Latents | None = None,
    ) -> Latents:
        """Latents z [n, n_z] of observations: E_x, or, localized, their points on the manifold.

        state [n, n_s] and context [n, n_c] are of map_spec, physical units; preference is that of
        Loops.decide. Written to out where it is given, float32.
        """
        self._mapped()
        s, c = self._rows(state, context, None)
        w = _weights(preference, len(self.map_spec.objectives), len(s))
        z = empty(out, np.float32, (len(s), self.spec.latent), "out", s, c, w)
        call(
            lib.gpc_encode, self.handle, len(s), int(localize), address(s), s.size, address(c), c.size, address(w), 0 if w is None else w.size,
            address(z), z.size,
        )
        return z

    def decode(
        self, z: Latents, state: Floats, context: Floats | None = None, *, out: Latents | None = None, out_state: Latents | None = None,
    ) -> tuple[Latents, Latents]:
        """Plans [n, plan·n_u], clipped, and states [n, n_s] of latents z [n, n_z], physical units, all
        float32. state and context are the observations that the plans are about."""
        z = self._latents(z)
        s, c = self._rows(state, context, len(z))
        spec = self.map_spec
        u = empty(out, np.float32, (len(z), spec.plan * len(spec.action)), "out", z, s, c)
        decoded = empty(out_state, np.float32, (len(z), len(spec.state)), "out_state", z, s, c, u)
        call(
            lib.gpc_decode, self.handle, len(z), address(z), z.size, address(s), s.size, address(c), c.size, address(u), u.size,
            address(decoded), decoded.size,
        )
        return u, decoded

    def jacobian(self, z: Latents, of: Literal["plan", "state"] = "plan", *, out: Latents | None = None) -> Latents:
        """Derivatives of decoded plans [n, plan·n_u, n_z], or states [n, n_s, n_z], in latents z
        [n, n_z]: physical units, before the clip, float32."""
        if of not in ("plan", "state"):
            raise InputError(f'of is {of!r}, want "plan" or "state"')
        z = self._latents(z)
        spec = self.map_spec
        size = len(spec.state) if of == "state" else spec.plan * len(spec.action)
        jac = empty(out, np.float32, (len(z), size, spec.latent), "out", z)
        call(lib.gpc_jacobian, self.handle, len(z), int(of == "state"), address(z), z.size, address(jac), jac.size)
        return jac

    def step(self, z: Latents, state: Floats, context: Floats | None = None, preference: ArrayLike | None = None) -> Step:
        """One latent step from each of z [n, n_z]: flow, Lie residual, ⊕, decode, clip, without retraction,
        smoothing and the low-pass of σ, which are a loop's. state [n, n_s], context [n, n_c] and
        preference are those of encode."""
        z = self._latents(z)
        s, c = self._rows(state, context, len(z))
        spec = self.map_spec
        w = _weights(preference, len(spec.objectives), len(z))
        moved, u = np.empty_like(z), np.empty((len(z), spec.plan * len(spec.action)), np.float32)
        energy, sigma = np.empty(len(z)), np.empty((len(z), len(spec.objectives)))
        call(
            lib.gpc_step, self.handle, len(z), address(z), z.size, address(s), s.size, address(c), c.size, address(w), 0 if w is None else w.size,
            address(moved), moved.size, address(u), u.size, address(energy), energy.size, address(sigma), sigma.size,
        )
        return Step(moved, u, energy, sigma)

    def close(self) -> None:
        """Releases the session; loops that were made of it stay until they are closed."""
        for made in (self._first, self._batch):
            if made is not None:
                made.close()
        self._first = self._batch = None
        super().close()


@dataclass(frozen=True, eq=False)
class Step:
    """What Session.step gives."""

    z: Latents
    """Moved latents [n, n_z]."""
    u: Latents
    """Their clipped plans [n, plan·n_u], physical units."""
    energy: Floats
    """Energy V at the latents that the step began at [n]."""
    sigma: Floats
    """Priority σ that steered it [n, M]."""
