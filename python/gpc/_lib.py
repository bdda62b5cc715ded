"""The library behind the package: loading it, calling it, its errors and its arrays.

The convention is that of python/libgpc/lib.go. A module declares the functions that it
calls (`declare`) and calls them by `call`, `ask` for those that answer in JSON, or `create` for
those that make an object; `array` checks what a user gives before its `address` is passed.

The library holds Go's runtime, which starts when it is loaded: at the first call, not
at import. One process has one copy of it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ARRAY", "FLOAT", "HANDLE", "INT", "OUT", "TEXT",
    "Error", "InputError", "Object", "address", "array", "as_json", "ask", "call", "create", "declare", "empty", "lib", "number", "reals", "remark", "text", "with_options", "write",
]


class Error(RuntimeError):
    """A call failed. The text is that of the command line."""


class InputError(Error, ValueError):
    """What the caller gave was wrong: a name, a file, an array, an option."""


HANDLE = ctypes.c_size_t  # an object: Object.handle
INT = ctypes.c_int64
FLOAT = ctypes.c_double
TEXT = ctypes.c_char_p  # UTF-8: text(), or options as JSON
ARRAY = ctypes.c_void_p  # address(), and INT for its length
OUT = ctypes.c_void_p  # ctypes.byref of what is written

_signatures: dict[str, tuple[Any, ...]] = {}


def declare(name: str, *types: Any) -> None:
    """States the parameters of a function of the library, all but the last, err."""
    _signatures[name] = types


class _Library:
    """The functions that are declared, as attributes."""

    def __getattr__(self, name: str) -> Any:
        types = _signatures.get(name)
        if types is None:
            raise AttributeError(f"gpc: no function {name} is declared")
        function = getattr(_load(), name)
        function.argtypes = (*types, ctypes.c_void_p)
        function.restype = ctypes.c_int32
        setattr(self, name, function)
        return function


lib = _Library()

_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_libgpc.so")
_loading = threading.Lock()
_loaded: ctypes.CDLL | None = None
_free: Any = None
_forked = False

_FORKED = (
    "gpc: this process was forked from one in which gpc had started, and Go's threads do not survive a fork; "
    'start processes by multiprocessing.get_context("spawn") or "forkserver"'
)


def _after_fork() -> None:
    global _forked, _loading
    _forked = _loaded is not None
    _loading = threading.Lock()  # a thread that held it is not here


os.register_at_fork(after_in_child=_after_fork)


def _load() -> ctypes.CDLL:
    global _loaded, _free
    with _loading:
        if _loaded is None:
            _check_platform()
            library = ctypes.CDLL(_file)
            library.gpc_free.argtypes, library.gpc_free.restype = (ctypes.c_void_p,), None
            _free, _loaded = library.gpc_free, library
    return _loaded


def _check_platform() -> None:
    """Says why the library cannot be loaded here."""
    if not sys.platform.startswith("linux"):
        raise Error(f"gpc: the library is for Linux, this is {sys.platform}: the door \"subprocess\" of gpc.open needs the gpc program alone")
    if not _glibc():
        raise Error(
            "gpc: the library needs glibc, and this Python runs on another C library, such as musl: Go's runtime in a shared library "
            "needs thread-local storage that only glibc gives to what is loaded late; use a glibc image, or the door \"subprocess\" of gpc.open, which needs the gpc program alone"
        )
    if not os.path.exists(_file):
        raise Error(f"gpc: {_file} is missing: install a wheel (make wheel), or build it in place (make python)")
    for other in _mapped():
        if not _same(other, _file):
            raise Error(f"gpc: this process has loaded {other} already, and one process can have one copy of the library; the other is {_file}")


def _glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (ValueError, OSError):
        return False


def _mapped() -> list[str]:
    """The copies of the library that are in this process."""
    name = os.path.basename(_file)
    found = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and os.path.basename(fields[5].removesuffix(" (deleted)")) == name:
                found.add(fields[5])
    return sorted(found)


def _same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def _take(pointer: ctypes.c_void_p) -> str:
    """A text of the library's as Python's."""
    if not pointer.value:
        return ""
    value = ctypes.string_at(pointer.value).decode("utf-8", "replace")
    _free(pointer)
    return value


_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")


def with_options(message: str) -> str:
    """A message of the command line with its flags as the options of this package: estimate for --estimate."""
    return _FLAG.sub(lambda m: {"token-file": "token"}.get(m[1], m[1].replace("-", "_")), message)


def _raise(code: int, err: ctypes.c_void_p) -> None:
    raise (InputError if code == 2 else Error)(with_options(_take(err)))


Events = Callable[[dict[str, Any]], None]


def call(function: Any, *args: Any, long: bool = False, progress: Callable[[int, int], None] | None = None, events: Events | None = None) -> None:
    """Calls a function of the library with args, and raises what goes wrong.

    long is for functions that take the handle of gpc_cancel_new before err: they run in a
    thread of their own, so that Ctrl-C, or whatever else progress raises, cancels them within
    two seconds. progress is called about ten times a second with (done, total), events with each thing
    that the run has reported.
    """
    if _forked:
        raise Error(_FORKED)
    err = ctypes.c_void_p()
    code = _run(function, args, err, progress, events) if long else function(*args, ctypes.byref(err))
    if code:
        _raise(code, err)


def _run(
    function: Any, args: Sequence[Any], err: ctypes.c_void_p, progress: Callable[[int, int], None] | None, events: Events | None,
) -> int:
    run = Object(create(lib.gpc_cancel_new))
    ended = threading.Event()
    result: list[int | BaseException] = []

    def work() -> None:
        try:
            result.append(function(*args, run.handle, ctypes.byref(err)))
        except BaseException as e:  # of ctypes: an argument of a wrong type
            result.append(e)
        finally:
            ended.set()

    threading.Thread(target=work, name="gpc", daemon=True).start()
    try:
        # Not without end: a signal that another thread is given does not wake this one.
        while not ended.wait(0.1):
            _report(run.handle, progress, events)
        if result[0] == 0:
            _report(run.handle, progress, events)
    except BaseException:
        call(lib.gpc_cancel, run.handle)
        ended.wait(_PATIENCE)  # what has not ended by then ends by itself: the thread keeps what it needs
        raise
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _report(handle: int, progress: Callable[[int, int], None] | None, events: Events | None) -> None:
    if events is not None:
        for e in ask(lib.gpc_events, handle):
            events(e)
    if progress is not None:
        progress(*_progress(handle))


_PATIENCE = 1.5  # s, as the command line's


def _progress(handle: int) -> tuple[int, int]:
    done, total = ctypes.c_int64(), ctypes.c_int64()
    call(lib.gpc_progress, handle, ctypes.byref(done), ctypes.byref(total))
    return done.value, total.value


def create(function: Any, *args: Any) -> int:
    """The handle that a function gives in its last parameter before err."""
    handle = ctypes.c_size_t()
    call(function, *args, ctypes.byref(handle))
    return handle.value


def ask(
    function: Any, *args: Any, long: bool = False, progress: Callable[[int, int], None] | None = None, events: Events | None = None,
) -> Any:
    """The JSON that a function answers in its last parameter before a run's and err."""
    out = ctypes.c_void_p()
    call(function, *args, ctypes.byref(out), long=long, progress=progress, events=events)
    return json.loads(_take(out))


def text(value: Any) -> bytes:
    """What TEXT takes: a str as it is, anything else as JSON."""
    if not isinstance(value, str):
        value = as_json(value)
    return value.encode()


def as_json(value: Any) -> str:
    """value as JSON, of NumPy's numbers and arrays too; a number that is not finite is an InputError that says where it is."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{_not_finite(value)}, want a finite number") from None


def _plain(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return x.tolist()
    raise InputError(f"{x!r} is a {type(x).__name__}, want a number, a text, or a list or dict of these")


def _not_finite(value: Any, path: str = "") -> str:
    """The first number in value that is NaN or infinite, with its path; "" for none."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (float, np.floating)):
        return "" if np.isfinite(value) else f"{path} is {value}"
    entries: Any = ()
    if isinstance(value, dict):
        entries = ((f"{path}.{k}" if path else str(k), v) for k, v in value.items())
    elif isinstance(value, (list, tuple)):
        entries = ((f"{path}[{i}]", v) for i, v in enumerate(value))
    return next(filter(None, (_not_finite(v, at) for at, v in entries)), "")


def number(value: Any, name: str, want: str = "a number") -> float:
    """value as a finite float, or an InputError that names it."""
    try:
        own = float(value)
    except (TypeError, ValueError):
        own = np.nan
    if not np.isfinite(own):
        raise InputError(f"{name} is {value!r}, want {want}")
    return own


def _release(handle: int) -> None:
    if not _forked:
        call(lib.gpc_release, handle)


class Object:
    """An object of the library. It is released by close, at the end of a with block, or
    when nothing refers to it any longer."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._finalizer = weakref.finalize(self, _release, handle)
        self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """What HANDLE takes."""
        if not self._handle:
            raise Error(f"gpc: this {type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Releases the object; a second time it does nothing."""
        self._handle = 0
        self._finalizer()

    def __reduce__(self) -> Any:
        raise Error(f"gpc: a {type(self).__name__} is not pickled or copied: it is of its process, and another number there; make one where it is needed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def array(x: Any, dtype: Any, shape: Sequence[int | None], name: str, *, finite: bool = True, written: bool = False, entries: str = "") -> NDArray[Any]:
    """x as a C-contiguous array of that dtype and shape (None: any length), or an InputError
    that names it.

    An array is taken as it is: never converted, never copied. Lists, tuples and numbers are
    converted. finite refuses NaN and infinities; written is for arrays that the library
    writes, which have to be arrays. entries is what a wrong shape's error ends with.
    """
    dtype = np.dtype(dtype)
    if isinstance(x, (list, tuple, int, float)) and not written:
        try:
            a = np.array(x, dtype)
        except (TypeError, ValueError, OverflowError) as e:
            raise InputError(f"{name}: want numbers: {e}") from None
    elif isinstance(x, np.ndarray) or hasattr(x, "__array__") and not written:
        a = np.asarray(x)
        _unmasked(x, name)
    else:
        raise InputError(f"{name} is a {type(x).__name__}, want a numpy array of {dtype}")
    if a.dtype != dtype:
        raise InputError(f"{name} is an array of {a.dtype}, want {dtype}")
    if a.ndim != len(shape) or any(w is not None and n != w for n, w in zip(a.shape, shape)):
        wanted = ", ".join("n" if w is None else str(w) for w in shape)
        raise InputError(f"{name} has shape {a.shape}, want ({wanted}{',' if len(shape) == 1 else ''}){entries}")
    if not a.flags.c_contiguous:
        raise InputError(f"{name} is not C-contiguous (strides {a.strides}): give numpy.ascontiguousarray of it")
    if written and not a.flags.writeable:
        raise InputError(f"{name} is read-only, and the result is written to it")
    if finite and not np.isfinite(a).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
        raise InputError(f"{name}{list(at)} is {a[at]}, want finite numbers")
    return a


def _unmasked(x: Any, name: str) -> None:
    if np.ma.is_masked(x):
        raise InputError(f"{name} has masked entries, want numbers: fill them, or leave them out")


def reals(x: Any, name: str) -> NDArray[np.float64]:
    """x as a C-contiguous array of numbers, converted, or an InputError that names it: nothing is lost on the way."""
    _unmasked(x, name)
    try:
        a = np.asarray(x)
        if a.dtype.kind in "cmM":
            raise TypeError(f"these are of {a.dtype}")
        return np.ascontiguousarray(a, np.float64)
    except (TypeError, ValueError, OverflowError) as e:
        raise InputError(f"{name}: want numbers: {e}") from None


def empty(out: Any, dtype: Any, shape: Sequence[int], name: str, *others: NDArray[Any] | None) -> NDArray[Any]:
    """out where it is given, checked, or a new array to be written; apart from the other arrays of the call."""
    if out is None:
        return np.empty(tuple(shape), dtype)
    if any(a is not None and np.may_share_memory(out, a) for a in others):
        raise InputError(f"{name} shares memory with another array of the call, and is written while that is in use")
    return array(out, dtype, shape, name, finite=False, written=True)


@overload
def address(a: NDArray[Any]) -> int: ...
@overload
def address(a: None) -> None: ...
@overload
def address(a: NDArray[Any] | None) -> int | None: ...
def address(a: NDArray[Any] | None) -> int | None:
    """What ARRAY takes: where the entries are; None for no array, with the length 0."""
    return None if a is None else a.__array_interface__["data"][0]


def write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file whole or not at all: until it is whole, what was there stays."""
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise InputError(f"{os.fspath(path)} cannot be written: the folder {os.path.dirname(os.fspath(path))} does not exist")
    part = f"{target}.{os.getpid()}.tmp"
    try:
        with open(part, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.remove(part)


def remark(name: str, remarks: Sequence[str] | None) -> None:
    """Warns of what is accepted and may not be meant, at the user's line."""
    frame, depth = sys._getframe(), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "gpc":
        frame, depth = frame.f_back, depth + 1
    for r in remarks or ():
        warnings.warn(f"{name}: {r}", stacklevel=depth)


declare("gpc_cancel_new", OUT)
declare("gpc_cancel", HANDLE)
declare("gpc_progress", HANDLE, OUT, OUT)
declare("gpc_events", HANDLE, OUT)
declare("gpc_release", HANDLE)
declare("gpc_version", OUT)
declare("gpc_open", TEXT, OUT)
