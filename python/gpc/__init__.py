"""Geometric Pareto Control: decisions on a learned Pareto manifold.

    import gpc
    with gpc.open("opf30") as s:
        u = s.decide(state, context).u

See docs/python.md of the project.
"""

from gpc._lib import Error, InputError
from gpc.session import Session, open, version

__all__ = ["Error", "InputError", "Session", "open", "version"]
