"""A progress bar in a line of text, for terminals and notebooks; tqdm's where it is installed."""

from __future__ import annotations

import os
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
    bar: Bar | Tqdm
    try:
        from tqdm.auto import tqdm
    except ImportError:
        bar = Bar(what, sys.stderr)
    else:
        bar = Tqdm(what, tqdm)
    return bar, bar.close


def _watched(stream: TextIO | None) -> bool:
    return stream is not None and (stream.isatty() or "ipykernel" in sys.modules)


class Tqdm:
    """A bar of tqdm's, made with its total: a notebook's keeps the one that it is made with."""

    def __init__(self, what: str, bar: Callable[..., Any]) -> None:
        self.what, self.new_bar = what, bar
        self.bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if total < 1:
            return
        if self.bar is None:
            self.bar = self.new_bar(desc=self.what, total=total)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class Bar:
    """One line that is written over itself, in one line of the terminal: a longer one would be another each time."""

    def __init__(self, what: str, stream: TextIO) -> None:
        self.what, self.stream, self.start, self.shown = what, stream, time.monotonic(), 0

    def __call__(self, done: int, total: int) -> None:
        if total < 1:
            return
        passed = time.monotonic() - self.start
        left = f", {passed * (total - done) / done:.0f} s left" if 0 < done < total else ""
        counts = f"{done}/{total}, {passed:.0f} s{left}"
        room = self._columns() - len(counts) - 5
        width = max(10, min(30, room - len(self.what)))
        filled = width * min(done, total) // total
        what = self.what if len(self.what) + width <= room else self.what[: max(room - width - 1, 0)] + "…"
        line = f"{what} [{'#' * filled}{'.' * (width - filled)}] {counts}"
        self.stream.write("\r" + line.ljust(self.shown))
        self.stream.flush()
        self.shown = len(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 1 << 20
        except (AttributeError, OSError, ValueError):
            return 1 << 20

    def close(self) -> None:
        if self.shown:
            self.stream.write("\n")
            self.stream.flush()
