"""A session: a case with a map on an engine."""

from __future__ import annotations

from gpc._lib import Object, ask, lib, make, text

__all__ = ["Session", "open", "version"]


def version() -> dict[str, str]:
    """Version and commit of the library."""
    return ask(lib.gpc_version)


class Session(Object):
    """A case with a map on an engine; open makes it."""


def open(case: str, model: str | None = None, *, method: str = "", backend: str = "auto", threads: int = 0, tf32: bool = False) -> Session:
    """Opens a case with a map, None for the bundled one, on a backend ("auto", "cpu", "cuda" or "ref")
    with so many threads, 0 for every core. method is what decides, "" for the one that the
    map was compiled for, or else "gpc"."""
    options = {"case": case, "model": model or "", "method": method, "backend": backend, "threads": threads, "tf32": tf32}
    return Session(make(lib.gpc_open, text(options)))
