"""The same calls through a process of their own: nothing of Go is loaded into this one.

gpc.open(…, door="subprocess") makes it. Loops are `gpc serve --stdin` (docs/how-to/serve.md), a process for each object, refinement and
evaluation are the commands. It may be used after a fork and where the library does not load, and a crash
there is an exception here; each call costs what two pipes and JSON do. Of a decision it tells the
smallest margin, not all of them, which are NaN; observe and the latent operations are the library's alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from gpc._lib import Error, InputError, array, empty, with_options
from gpc._progress import Progress
from gpc.loops import _BEHIND, SENSOR_FAULTS, Decision, Decisions, Floats, Goal, _goal, _weights
from gpc.results import Evaluation, Refinement
from gpc.session import Plant, Spec, _budget, _computing, _measured, _spec
from gpc.system import System

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SubprocessLoop", "SubprocessLoops", "SubprocessSession"]


def _program(name: str | None) -> str:
    found = shutil.which(name or os.environ.get("GPC", "gpc"))
    if found is None:
        raise Error(f"gpc: no program {name or os.environ.get('GPC', 'gpc')} on PATH: build it (make build) and name it by program=, GPC or PATH")
    return found


def _fail(code: int, err: str) -> NoReturn:
    """Raises what the command line said on its way out."""
    said = err.strip().rpartition("\n")[2].removeprefix("gpc: ")
    raise (InputError if code == 2 else Error)(with_options(said) or f"gpc ended with exit code {code}")


class _Server:
    """`gpc serve`: a line out for every line in."""

    def __init__(self, arguments: list[str]) -> None:
        self._lock, self._owed = threading.Lock(), 0
        self._err = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        # A process group of its own: Ctrl-C at the terminal is this process's to answer.
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._err, text=True, encoding="utf-8", start_new_session=True,
        )

    def ask(self, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        lines = [json.dumps(r) + "\n" for r in requests]
        with self._lock:
            if self._process.poll() is not None:
                self._ended()
            while self._owed:  # of a call that was interrupted
                self._line()
            self._owed = len(lines)
            writer = threading.Thread(target=self._write, args=("".join(lines),), daemon=True)
            writer.start()
            answers = [self._line() for _ in lines]
            writer.join()
        for a in answers:
            if "error" in a:
                raise (InputError if a.get("field") else Error)(a["error"])
        return answers

    def _write(self, text: str) -> None:
        try:
            self._process.stdin.write(text)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except (BrokenPipeError, ValueError):
            pass  # the reader says why

    def _line(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            self._ended()
        self._owed -= 1
        return json.loads(line)

    def _ended(self) -> NoReturn:
        code = self._process.wait()
        self._err.seek(0)
        _fail(code, self._err.read())

    def close(self) -> None:
        """Ends the process; a second time it does nothing."""
        if self._process.poll() is None:
            self._process.stdin.close()  # type: ignore[union-attr]
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._err.close()


class SubprocessSession:
    """A Session behind the command line; see gpc.open and Session."""

    def __init__(self, case: str, model: str, method: str, backend: str, threads: int, tf32: bool, device: int | None, program: str | None) -> None:
        self._program, self._case, self._method, self._model = _program(program), case, method, model
        self._engine = ["--backend", backend, "--threads", str(threads), *(["--tf32"] if tf32 else []), *([] if device is None else ["--device", str(device)])]
        self._map = ["--model", model] if model else []
        listed = self._command("methods", case)
        self.spec: Spec = _spec(listed["spec"])
        self.map_spec: Spec = _spec(listed["map_spec"])
        self._methods = listed["methods"]
        self._first = self.loop()
        self._health = self._first._server.ask([{"op": "health"}])[0]["health"]

    def __repr__(self) -> str:
        return f"<gpc.{type(self).__name__} {self.spec.name!r} by {self._health['method']} on {self._health['backend']}: {self._program}>"

    def _command(self, *arguments: str, stdin: str = "", codes: tuple[int, ...] = (0,)) -> Any:
        """The JSON of a command. Ctrl-C ends it."""
        p = subprocess.Popen([self._program, *arguments, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = p.communicate(stdin)
        except BaseException:
            p.terminate()
            p.communicate()
            raise
        if p.returncode not in codes or not out:
            _fail(p.returncode, err)
        return json.loads(out)

    def _serve(self, method: str, n: int, measured: Mapping[str, Any]) -> _Server:
        """A process for n loops of a method."""
        method = method or self._method
        named = ["--method", method] if method else []
        return _Server([self._program, "serve", self._case, "--stdin", "--json", "--log", "off", "--sessions", str(n), *self._map, *named, *self._engine, *_flags(measured)])

    def about(self) -> dict[str, Any]:
        """Case, method, map and what computes."""
        h = self._health
        return {"case": h["case"], "method": h["method"], "model": self._model, "backend": h["backend"], "isa": h["isa"], "threads": h["threads"]}

    def methods(self) -> list[dict[str, Any]]:
        """What method can name."""
        return self._methods

    def loop(
        self, method: str = "", *, candidates: int = 0, faults: bool = False, estimate: float | Literal[False] | None = None,
        keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> SubprocessLoop:
        """One closed loop; see Session.loop."""
        return SubprocessLoop(self, method, candidates, faults, _measured(estimate, keep_off, delay, estimate_window))

    def loops(
        self, n: int, method: str = "", *, candidates: int = 0, faults: bool = False, estimate: float | Literal[False] | None = None,
        keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> SubprocessLoops:
        """n closed loops; see Session.loops."""
        return SubprocessLoops(self, n, method, candidates, faults, _measured(estimate, keep_off, delay, estimate_window))

    def decide(self, state: ArrayLike, context: ArrayLike | None = None, preference: ArrayLike | None = None, *, out: Floats | None = None) -> Decision:
        """The first decision of an episode; see Session.decide."""
        if isinstance(state, np.ndarray) and state.ndim == 2:
            with self.loops(len(state)) as loops:
                return loops.decide(state, context, preference, out=out)  # type: ignore[return-value, arg-type]
        return self._first.decide(state, () if context is None else context, preference, fresh=True)

    def refine(
        self, state: ArrayLike, context: ArrayLike | None = None, preference: ArrayLike | None = None, *, candidates: int = 4096, flow_steps: int = 1,
        seed: int = 1, look_ahead: int = 0, rounds: bool = True, within: float = 0.0, projection: bool = True,
    ) -> Refinement:
        """The best feasible plan of many candidates; see Session.refine."""
        spec = self.spec
        s = array(state, np.float64, (len(spec.state),), "state")
        c = array(() if context is None else context, np.float64, (len(spec.context),), "context")
        arguments = [
            "refine", self._case, *self._map, *self._engine, "--candidates", str(candidates), "--flow-steps", str(flow_steps), "--seed", str(seed),
            "--look-ahead", str(look_ahead), *self._preference(preference), *([] if rounds else ["--no-rounds"]),
            *(["--within", f"{within}s"] if within else []), *([] if projection else ["--no-projection"]),
        ]
        return Refinement(self._command(*arguments, stdin=json.dumps({"s": s.tolist(), "c": c.tolist()}), codes=(0, 1)))

    def evaluate(
        self, method: str = "", *, episodes: int | None = None, seed: int = 1, regime: str = "", noise: float = 0.0, bias: float = 0.0,
        preference: ArrayLike | None = None, shift: Mapping[str, float] | None = None, scene: str | os.PathLike[str] | None = None,
        parallel: int = 1, trace: str | None = None, resume: bool = False, progress: bool | Progress | None = None,
        plant: Plant | None = None, steps: int | None = None, computing: float | Sequence[float] | None = None, budget: str | float | None = None,
        estimate: float | None = None, keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> Evaluation:
        """A method in closed loop on unseen episodes; see Session.evaluate. It reports no progress."""
        method, times = method or self._method, _computing(computing)
        arguments = [
            "eval", self._case, *self._map, *self._engine, *([] if episodes is None else ["--episodes", str(episodes)]), "--seed", str(seed), "--noise", repr(float(noise)), "--bias", repr(float(bias)),
            "--parallel", str(parallel), *(["--method", method] if method else []), *(["--regime", regime] if regime else []), *self._preference(preference),
            *(x for k, v in (shift or {}).items() for x in ("--shift", f"{k}={float(v)!r}")), *(["--trace", str(trace)] if trace else []),
            *(["--resume"] if resume else []), *(["--scene", str(scene)] if scene is not None else []), *self._plant(plant),
            *([] if steps is None else ["--steps", str(steps)]), *([] if budget is None else ["--budget", f"{_budget(budget)!r}s"]), *(["--computing", ",".join(f"{v!r}s" for v in times)] if times else []),
            *_flags(_measured(estimate, keep_off, delay, estimate_window)),
        ]
        return Evaluation(self._command(*arguments))

    def _plant(self, plant: Plant | None) -> list[str]:
        if plant is None:
            return []
        if isinstance(plant, System):
            raise InputError("a System needs the library: with door=\"subprocess\" save it and give its file")
        return ["--plant", ",".join(f"{k}={float(v)!r}" for k, v in plant.items()) if isinstance(plant, Mapping) else os.fspath(plant)]

    def _preference(self, preference: ArrayLike | None) -> list[str]:
        w = _weights(preference, len(self.spec.objectives))
        return [] if w is None else ["--preference", ",".join(map(repr, w.tolist()))]

    def __getattr__(self, name: str) -> Any:
        if name in ("observe", "encode", "decode", "jacobian", "step"):
            raise Error(f"gpc: {name} needs the library: open the case without door=\"subprocess\"")
        raise AttributeError(name)

    def close(self) -> None:
        """Ends the session's process; its loops have their own."""
        self._first.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SubprocessLoops:
    """Loops behind `gpc serve`; see Loops."""

    def __init__(self, session: SubprocessSession, n: int, method: str, candidates: int, faults: bool, measured: Mapping[str, Any]) -> None:
        if candidates:
            raise Error("gpc: candidates needs the library: name a method that has them, such as refine-512")
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"{n!r} closed loops, want a whole number from 1")
        self.n, self._faults, self._spec = n, faults, session.spec
        self._estimated = (len(self._spec.state), len(self._spec.context)) if "estimate" in measured else (0, 0)
        self._server = session._serve(method, n, measured)

    def reset(self, loop: int | None = None) -> None:
        """Starts an episode in one loop, or in all."""
        if loop is not None and not 0 <= loop < self.n:
            raise InputError(f"loop {loop}, want 0 to {self.n - 1}")
        self._server.ask({"op": "reset", "session": str(i)} for i in (range(self.n) if loop is None else (loop,)))

    def decide(
        self, state: Floats, context: Floats | None = None, preference: ArrayLike | Goal | None = None, *,
        out: Floats | None = None, record: Floats | bool = True, fresh: bool = False,
    ) -> Decisions:
        """One decision in every loop; see Loops.decide."""
        spec, n = self._spec, self.n
        estimates, (ns, nc) = sum(self._estimated) > 0, self._estimated
        s = array(state, np.float64, (n, len(spec.state)), "state", finite=not self._faults and not estimates)
        if estimates and not self._faults and np.isinf(s).any():
            raise InputError("state has an entry that is infinite, want numbers, or NaN where a sensor gave none")
        c = array(np.empty((n, 0)) if context is None else context, np.float64, (n, len(spec.context)), "context", finite=not self._faults and not estimates)
        m, nm = len(spec.objectives), len(spec.margins)
        w = None if (goal := _goal(preference)) else _weights(preference, m, n)
        u = empty(out, np.float64, (n, len(spec.action)), "out")
        r = empty(None if isinstance(record, bool) else record, np.float64, (n, m + nm + _BEHIND + 2 * ns + nc), "record")
        if fresh:
            self.reset()
        answers = self._server.ask(
            {"op": "decide", "session": str(i), "y" if estimates else "s": _null(s[i]), "c": _null(c[i]), "preference": json.loads(goal) if goal else None if w is None else w[i].tolist()}
            for i in range(n)
        )
        r[:] = np.nan
        for i, a in enumerate(answers):
            u[i] = a["u"]
            if a["sigma"] is not None:
                r[i, :m] = a["sigma"]
            r[i, m + nm : m + nm + 5] = [np.nan if a[k] is None else a[k] for k in ("margin", "residual", "residual_limit", "displacement", "fallback")]
            if estimates:
                known = a["estimate"]
                r[i, m + nm + _BEHIND :] = [*known["s"], *known["c"], *map(SENSOR_FAULTS.index, known["faults"])]
        return Decisions(u, r, m, nm, self._estimated, self._spec.margin_tolerance)

    def close(self) -> None:
        """Ends the loops and their process."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SubprocessLoop(SubprocessLoops):
    """One loop behind `gpc serve`; see Loop."""

    def __init__(self, session: SubprocessSession, method: str, candidates: int, faults: bool, measured: Mapping[str, Any]) -> None:
        super().__init__(session, 1, method, candidates, faults, measured)

    def decide(self, state: ArrayLike, context: ArrayLike = (), preference: ArrayLike | None = None, *, fresh: bool = False) -> Decision:  # type: ignore[override]
        """One decision; see Loop.decide."""
        spec = self._spec
        s = array(state, np.float64, (len(spec.state),), "state", finite=False)
        c = array(context, np.float64, (len(spec.context),), "context", finite=False)
        d = super().decide(s[None], c[None], preference, fresh=fresh)
        return Decision(d.u[0], d.record[0], d._objectives, d._margins, d._estimated, d._tolerance, tuple(v.name for v in self._spec.action))


def _flags(measured: Mapping[str, Any]) -> list[str]:
    """Flags of the command line."""
    return [x for k, v in measured.items() if k != "informed" for x in (f"--{k.replace('_', '-')}", repr(v))]


def _null(v: Floats) -> list[float | None]:
    """Numbers as JSON has them: null for none."""
    return [x if np.isfinite(x) else None for x in v.tolist()]
