"""A progress bar in a line of text, for terminals and notebooks; tqdm's where it is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Progress = Callable[[int, int], None]


def progress_of(wanted: bool | Progress | None, what: str) -> tuple[Progress | None, Callable[[], None]]:
    """What a call reports to, and what ends it: nobody for False, a bar for True, wanted itself
    where it is a function, and for None a bar where somebody looks: at a terminal or a notebook."""
    if callable(wanted):
        return wanted, lambda: None
    if wanted is False or wanted is None and not _watched(sys.stderr):
        return None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        bar = Bar(what, sys.stderr)
        return bar, bar.close
    return _tqdm(tqdm(desc=what))


def _watched(stream: TextIO | None) -> bool:
    return stream is not None and (stream.isatty() or "ipykernel" in sys.modules)


def _tqdm(bar: Any) -> tuple[Progress, Callable[[], None]]:
    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show, bar.close


class Bar:
    """One line that is written over itself."""

    width = 30

    def __init__(self, what: str, stream: TextIO) -> None:
        self.what, self.stream, self.start, self.shown = what, stream, time.monotonic(), 0

    def __call__(self, done: int, total: int) -> None:
        if total < 1:
            return
        filled = self.width * min(done, total) // total
        passed = time.monotonic() - self.start
        left = f", {passed * (total - done) / done:.0f} s left" if 0 < done < total else ""
        line = f"{self.what} [{'#' * filled}{'.' * (self.width - filled)}] {done}/{total}, {passed:.0f} s{left}"
        self.stream.write("\r" + line.ljust(self.shown))
        self.stream.flush()
        self.shown = len(line)

    def close(self) -> None:
        if self.shown:
            self.stream.write("\n")
            self.stream.flush()
