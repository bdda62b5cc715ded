"""Geometric Pareto Control: decisions on a learned Pareto manifold.

    import gpc

    with gpc.open("opf30") as s:
        state, context = s.observe()
        print(s.decide(state, context).u)

open(case, …) opens a case of cases() as a Session; compile(system, …) makes a map of a System. Both are left out of
`from gpc import *`, which leaves Python's own open and compile: see help(gpc.open) and help(gpc.compile). A Session
decides, refines, evaluates and plots; session.spec.table() says what its vectors are.

The library starts at the first call, not at import. See docs/reference/python.md of the project.
"""

from gpc._casadi import CasadiFunction, from_casadi
from gpc._expression import array, where, zeros
from gpc._forecast import forecast
from gpc._lib import Error, InputError
from gpc._switches import integer, on_off, one_of
from gpc.compiled import Controller, Server, nmpc
from gpc.compiled import compile as compile
from gpc.loops import FALLBACKS, Decision, Decisions, Loop, Loops
from gpc.session import Session, Spec, Step, Switch, Variable, cases, version
from gpc.session import open as open
from gpc.system import FreeTime, Shape, System, box, disc, free_time, line

# open and compile are not among them: from gpc import * leaves Python's own.
__all__ = [
    "FALLBACKS", "CasadiFunction", "Controller", "Decision", "Decisions", "Error", "FreeTime", "InputError", "Loop", "Loops", "Server", "Session", "Shape", "Spec", "Step", "Switch", "System",
    "Variable", "array", "box", "cases", "disc", "forecast", "free_time", "from_casadi", "integer", "line", "nmpc", "on_off", "one_of", "version", "where", "zeros",
]

for _public in (Error, InputError):
    _public.__module__ = __name__  # a traceback names them as they are caught

__version__: str


def __getattr__(name: str) -> str:
    """__version__, of the library, which starts for it."""
    if name == "__version__":
        return version()["version"]
    raise AttributeError(f"module 'gpc' has no attribute {name!r}")
