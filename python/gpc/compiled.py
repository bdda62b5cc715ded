"""From a system to a controller: compilation, and what a compiled controller does."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, TextIO

from numpy.typing import ArrayLike

from gpc._lib import HANDLE, OUT, TEXT, InputError, Object, ask, create, declare, lib, number, remark, text
from gpc._progress import Bar, _watched
from gpc.loops import Loop, _weights
from gpc.results import CompileReport, _number, _over
from gpc.session import Plant, Session, _measured, _options, _plant, _warn
from gpc.system import System, seconds

__all__ = ["Controller", "Event", "Server", "compile", "nmpc"]

declare("gpc_compile", TEXT, OUT, HANDLE)
declare("gpc_export_c", HANDLE, TEXT, OUT, HANDLE)
declare("gpc_serve", HANDLE, TEXT, OUT)
declare("gpc_server_about", HANDLE, OUT)

Event = Callable[[dict[str, Any]], None]

_PERCENT = "a number of percent, such as 0.5"


def compile(
    system: System | str | os.PathLike[str], out: str | os.PathLike[str] | None = None, *, target: float = 0.5, tail: float | None = None,
    budget: str | float = "15m", rounds: int = 0, scenarios: int = 0, starts: int = 0, test_starts: int = 0, seed: int = 1, threads: int = 0,
    progress: bool | Event | None = None, plant: Plant | None = None, estimate: float | None = None, keep_off: float | None = None, delay: float | None = None,
    uncertain_gains: float = 0.0, estimate_window: int | None = None, budget_cpu: bool = False,
) -> Controller:
    """Makes a map of a system that meets a target, and returns its controller: `gpc compile` (docs/how-to/compile.md).

    system is a System, the file of one, or a case's name; out the map's file, None for NAME.safetensors here. target is the
    mean cost above the optimum, %, that unseen starts may have, tail the largest of them, None for twenty times the target.
    budget is the time, such as "4m" or seconds, earlier runs included (budget_cpu: the CPU time of this process over its
    threads, on a machine that does other work): the folder OUT.compile keeps what was done, so that the same call goes on after an interruption. progress is True for bars and a line a round, False for none, or a
    function of events: {"stage", "done", "total"} and {"number", "round"}; None shows them at a terminal and in a notebook.
    Ctrl-C ends it within two seconds, with what was finished kept. A target that is not met is no error: see report["met"].

    plant, estimate, keep_off, delay and estimate_window are those of Session.evaluate: every start is driven in that plant, by what is measured of
    it. uncertain_gains, such as 0.1, trains the map over gains of the actuators from 0.9 to 1.1, which are estimated beside
    the state; it needs estimate. The controller has the same gains, and estimates, keeps off and is late in evaluate, loop, serve and export_c as here
    where these say no other.
    """
    gains = float(uncertain_gains)
    options = {**_options(system), "uncertain_gains": gains, **_plant(plant), **_measured(estimate, keep_off, delay, estimate_window)}
    name = system.name if isinstance(system, System) else os.path.splitext(os.path.basename(os.fspath(system)))[0]
    file = f"{name}.safetensors" if out is None else os.fspath(out)
    options |= {
        "out": file, "target_pct": number(target, "target", _PERCENT), "tail_pct": 0.0 if tail is None else number(tail, "tail", _PERCENT), "budget_s": seconds(budget), "budget_cpu": bool(budget_cpu), "rounds": rounds,
        "scenarios": scenarios, "starts": starts, "test_starts": test_starts, "seed": seed, "threads": threads,
    }
    for given, value in (("target", target), ("tail", tail), ("budget", budget)):
        if value is not None and not options[{"budget": "budget_s"}.get(given, f"{given}_pct")] > 0:
            raise InputError(f"{given} is {value!r}, want it above 0")
    _warn(system, refuse=True)
    events, bars = _watcher(progress, name)
    try:
        report = ask(lib.gpc_compile, text(options), long=True, progress=None if bars is None else bars.progress, events=events)
    finally:
        if bars is not None:
            bars.close()
    return Controller(system, file, report, uncertain_gains=gains, estimate=estimate, keep_off=keep_off, delay=delay, estimate_window=estimate_window)


def nmpc(
    system: System | str | os.PathLike[str], *, threads: int = 0, uncertain_gains: float = 0.0, estimate: float | None = None, keep_off: float | None = None,
    delay: float | None = None, estimate_window: int | None = None,
) -> Session:
    """The exact warm solver of a system as its controller: no map, nothing to compile. Its loop is .loop(), its
    evaluation .evaluate(). uncertain_gains, estimate, keep_off, delay and estimate_window are those of gpc.open."""
    options = {
        **_options(system), "method": "nmpc", "threads": threads, "uncertain_gains": float(uncertain_gains), **_measured(estimate, keep_off, delay, estimate_window),
    }
    session = Session(create(lib.gpc_open, text(options)))
    _warn(system)
    session._warned = True
    session._implicit = _implicit(system)
    return session


def _implicit(system: System | str | os.PathLike[str]) -> System | None:
    return system if isinstance(system, System) and system._algebraic else None


class Controller(Session):
    """A compiled system: a session that decides by its map, with the report of its compilation."""

    def __init__(
        self, system: System | str | os.PathLike[str], file: str, report: Mapping[str, Any], *, uncertain_gains: float = 0.0, estimate: float | None = None,
        keep_off: float | None = None, delay: float | None = None, estimate_window: int | None = None,
    ) -> None:
        measured = _measured(estimate, keep_off, delay, estimate_window)
        super().__init__(create(lib.gpc_open, text({**_options(system), "model": file, "uncertain_gains": uncertain_gains, **measured})))
        self.system = system
        """What it was compiled of."""
        self.file = file
        """The map's file, which gpc.open(system, file) opens again."""
        self._warned, self._implicit = True, _implicit(system)  # by compile
        self.report = CompileReport(report)
        """The report of the compilation, with the keys of `gpc compile --json`."""

    def nmpc(self) -> Loop:
        """A closed loop of the exact warm solver, beside the map's own."""
        return self.loop("nmpc")

    def export_c(
        self, folder: str | os.PathLike[str], *, method: str | None = None, episodes: int = 100, seed: int = 1, half: bool = False, fmu: bool = False,
        map_only: bool = False, records: int = 64, estimate: float | Literal[False] | None = None, keep_off: float | None = None, delay: float | None = None,
    ) -> dict[str, Any]:
        """Writes the whole controller as C99 to a folder that is empty or not there: map, projection, guard, escape, rest and
        plant (docs/how-to/export.md). main_test.c drives it from where it was driven here, in so many episodes of the seed.

        The answer has the keys of `gpc export --json`. method is what leaves. None is "direct-no-rescue", which is what C has of a map; with
        switched actions it is what the map was compiled for less what C does not have, "refine-512" of "refine-512-polish". "nmpc" is the exact
        controller, "" what the map was compiled for, which is refused where C does not have it. estimate, keep_off and delay are those of loop: the C has
        estimator and prediction too. fmu writes units of FMI 2.0 too; map_only the map alone, which keeps no limit, with a test against recorded decisions.
        """
        options = {
            "dir": os.fspath(folder), "method": "" if map_only else self._c_method(method), "episodes": episodes, "seed": seed, "half": half, "fmu": fmu, "map_only": map_only,
            "records": records, **_measured(estimate, keep_off, delay),
        }
        return ask(lib.gpc_export_c, self.handle, text(options), long=True)

    def _c_method(self, method: str | None) -> str:
        if method is not None:
            return method
        if not self.spec.switches:
            if (compiled := self.report["test"]["method"]) != "direct":
                remark(self.spec.name, [f'C has direct-no-rescue of this map, not {compiled}, which it was compiled for: evaluate("direct-no-rescue") says what that costs'])
            return "direct-no-rescue"
        candidates = re.match(r"(?:refine|search|relaxed)-(\d+)", self.report["test"]["method"])
        return f"refine-{candidates[1]}" if candidates else "direct"

    def export_fmu(self, folder: str | os.PathLike[str], *, method: str | None = None, episodes: int = 100, seed: int = 1) -> list[str]:
        """export_c with the controller and its plant as units of FMI 2.0 for co-simulation; returns the units' files."""
        return [os.path.join(os.fspath(folder), name) for name in self.export_c(folder, method=method, episodes=episodes, seed=seed, fmu=True)["fmu"]]

    def serve(
        self, listen: str = "127.0.0.1:0", *, unix: str | os.PathLike[str] | None = None, token: str = "", preference: ArrayLike | None = None,
        sessions: int = 0, deadline: float = 0.0, estimate: float | Literal[False] | None = None, keep_off: float | None = None,
        delay: float | None = None, estimate_window: int | None = None,
    ) -> Server:
        """Decides for many closed loops over HTTP, as `gpc serve` does (docs/how-to/serve.md), until the server that it returns is closed.

        listen is host:port, port 0 any that is free; an address that other machines reach needs a token. deadline, s, is by
        when a request is answered that states none, 0 for never. The rest is as in loop: with an estimate requests have what is
        measured, "y", in place of "s".
        """
        w = _weights(preference, len(self.spec.objectives))
        options = {
            "listen": listen, "unix": "" if unix is None else os.fspath(unix), "token": token, "preference": None if w is None else w.tolist(),
            "sessions": sessions, "deadline_ms": 1e3 * deadline, **_measured(estimate, keep_off, delay, estimate_window),
        }
        return Server(create(lib.gpc_serve, self.handle, text(options)))

    def __repr__(self) -> str:
        test = self.report["test"]
        verdict = "meets" if self.report["met"] else "misses"
        return (
            f"<gpc.Controller {self.spec.name!r}: {test['method']}, {test['unsafe']} of {test['episodes']} unseen episodes unsafe, "
            f"{_number(test['floored_pct'])} % above the optimum{_over(test)}; it {verdict} its target of {self.report['target']['mean_pct']:g} %>"
        )

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.spec.name)}</b> {html.escape(self.spec.description)}; {html.escape(self.file)}</p>{self.report._repr_html_()}"


class Server(Object):
    """Closed loops served over HTTP, until close or the end of a with block."""

    def about(self) -> dict[str, Any]:
        """Where it listens (doors), and its health."""
        return ask(lib.gpc_server_about, self.handle)

    @property
    def url(self) -> str:
        """Where requests go: POST url + "/v1/decide"."""
        return f"http://{self.about()['doors'][0]}"

    def __repr__(self) -> str:
        return f"<gpc.Server {self.url}>" if self._handle else "<gpc.Server, closed>"


class _Bars:
    """A bar for each stage and a line for each round."""

    def __init__(self, what: str, stream: TextIO) -> None:
        self.what, self.stream = what, stream
        self.bar = Bar(what, stream)

    def progress(self, done: int, total: int) -> None:
        self.bar(done, total)

    def event(self, e: dict[str, Any]) -> None:
        self.bar.close()
        self.bar = Bar(f"{self.what}: {e['stage']}" if e.get("stage") else self.what, self.stream)
        if "round" in e:
            r = e["round"]
            h = r["held_out"]
            self.stream.write(f"round {e['number']}, {r['kind']}: {r['why']}; {r['samples']} samples, held-out {_number(h['mean_pct'])} % (largest {_number(h['max_pct'])}), "
                              f"{h['unsafe']} of {h['episodes']} unsafe\n")

    def close(self) -> None:
        self.bar.close()


class _Calls:
    """Events and progress for a function of the user's."""

    def __init__(self, f: Event) -> None:
        self.f, self.stage = f, ""

    def progress(self, done: int, total: int) -> None:
        self.f({"stage": self.stage, "done": done, "total": total})

    def event(self, e: dict[str, Any]) -> None:
        if "round" in e:
            self.f({"number": e["number"], "round": e["round"]})
        else:
            self.stage = e["stage"]

    def close(self) -> None:
        """Nothing is open."""


def _watcher(wanted: bool | Event | None, what: str) -> tuple[Event | None, _Bars | _Calls | None]:
    if callable(wanted):
        calls = _Calls(wanted)
        return calls.event, calls
    if wanted is False or wanted is None and not _watched(sys.stderr):
        return None, None
    bars = _Bars(what, sys.stderr)
    return bars.event, bars
