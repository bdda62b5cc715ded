"""What users of other tools write by mistake: each is refused at its line with the word to write, warned of, or taken as it is meant."""

import functools
import inspect
import itertools
import math
import random
import re
import sys
import time

import numpy as np
import pytest

import gpc

HERE = re.escape(__file__)


def system(ode=None, objectives=None, margins=None, name="cart", finish=None, substeps=1, **more):
    """A cart, of which each part may be another."""
    y = gpc.System(name, "c", **{
        "state": {"x": "m", "v": "m/s"}, "context": {"goal": "m"}, "action": {"force": ("N", -5, 5)}, "scenario": {"x": (-1, 1), "v": (-0.5, 0.5), "goal": (-1, 1)},
        "steps": 20, "period": 0.1, **more,
    })
    y.ode(substeps=substeps)(ode or (lambda s, u: (s.v, u.force)))
    y.objectives(position="m²", effort="N²")(objectives or (lambda c, u, n: ((n.x - c.goal) ** 2 + 0.1 * n.v**2, 0.01 * u.force**2)))
    y.margins(left="m", right="m")(margins or (lambda n: (n.x + 2, 2 - n.x)))
    if finish:
        finish(y)
    return y


def refused(y, says, of=None):
    with pytest.raises(gpc.InputError) as e:
        y().text()
    message = str(e.value)
    assert re.search(says, message), message
    if of is not None:
        lines, first = inspect.getsourcelines(of)
        at = re.match(f"{HERE}:([0-9]+): ", message)
        assert at and first <= int(at[1]) < first + len(lines), message


# Before Python 3.11 a line with several calls does not say which one it was, and the error says both.
END, ARRAYS = ("$", ": ") if sys.version_info >= (3, 11) else ("", "(: |Or )")
BRANCH, CONVERT = f": a branch on a number .* np.minimum and np.maximum{END}", f"NumPy's functions in place of math's, .* depends on it{END}"
ARRAY, ENTRY = f"{ARRAYS}np.array of unknown numbers: write gpc.array", "(: |Or )an entry of a NumPy array .*: make the array by gpc.zeros or gpc.array"
TWICE, GIVEN = "ode is called twice, and wrote", "what a function is given cannot be written: return what changes"


def loops(s, u):
    for _ in range(s.x):
        pass
    return s.v, u.force


def ends(s, u):
    x = s.x
    while x > 0:
        x = x - 1
    return x, u.force


def matches(s, u):
    match s.x:
        case 0:
            return s.v, u.force
    return s.v, 0


def hides(s, u):
    try:
        force = u.force if s.x > 0 else 0
    except Exception:
        force = 0
    return s.v, force


def fills(s, u):
    z = np.zeros(2)
    z[0] = s.v
    return z


def fills_slices(s, u):
    z = np.zeros(2)
    z[:] = [s.v, u.force]
    return z


def adds(s, u):
    z = np.zeros(2)
    z += s
    return z


def adds_objects(s, u):
    z = np.zeros(2)
    z += np.array([s.v, u.force])
    return z


def writes_name(s, u):
    s.x = 1.0
    return s.v, u.force


def writes_index(s, u):
    s[0] = 1.0
    return s.v, u.force


def writes_part(s, u):
    part = s[0:2]
    part[0] = 1.0
    return s.v, u.force


def writes_all(s, u):
    s += 1
    return s.v, u.force


def writes_vector(s, u):
    z = gpc.zeros(2)
    z[0] = s
    return z


def yields(s, u):
    yield s.v
    yield u.force


async def waits(s, u):
    return s.v, u.force


def forgets(s, u):
    s.v + u.force


def any_number(*args):
    return args


def any_names(**names):
    return names


def positional(s, u, /):
    return s.v, u.force


memory, count = {}, itertools.count(1)


def remembers(s, u):
    if "v" not in memory:
        memory["v"] = s.v
    return memory["v"], u.force


@functools.lru_cache
def cached(s, u):
    return s.v, u.force


# Functions of s and u that are refused at their line.
EQUATIONS = {
    "if": (lambda s, u: (s.v, u.force if s.x > 0 else 0), BRANCH), "max": (lambda s, u: (s.v, max(u.force, 0)), BRANCH), "min of key": (lambda s, u: (s.v, min(s.x, s.v, key=abs)), BRANCH),
    "and": (lambda s, u: (s.v, s.x and s.v), BRANCH), "not": (lambda s, u: (s.v, not s.x), BRANCH), "chained": (lambda s, u: (s.v, np.where(0 < s.x < 1, 1, 0)), BRANCH),
    "in": (lambda s, u: (s.v, s.x in [0.0, 1.0]), BRANCH), "sorted": (lambda s, u: sorted([s.v, u.force]), BRANCH), "any": (lambda s, u: (s.v, any([s.x > 0, s.v > 0])), BRANCH),
    "while": (ends, BRANCH), "match": (matches, BRANCH), "a hidden branch": (hides, BRANCH), "branch of a vector": (lambda s, u: s if s else s, BRANCH),
    "math": (lambda s, u: (s.v, math.sin(s.x)), CONVERT), "int": (lambda s, u: (s.v, int(s.x)), CONVERT), "range": (loops, CONVERT), "math.hypot": (lambda s, u: (s.v, math.hypot(s.x, s.v)), CONVERT),
    "round": (lambda s, u: (s.v, round(s.x)), "doesn't define __round__ method: NumPy's functions work"), "format": (lambda s, u: (s.v, f"{s.x:.3f}"), "format string"),
    "np.round": (lambda s, u: (s.v, np.round(u.force)), "numpy.round does not work on expressions"), "np.sinc": (lambda s, u: (s.v, np.sinc(s.x)), "numpy.sinc does not work"),
    "np.piecewise": (lambda s, u: (s.v, np.piecewise(s.x, [s.x < 0], [0, 1])), "numpy.piecewise does not work"), "einsum": (lambda s, u: np.einsum("i,i->i", s, s), "numpy.einsum does not work"),
    "linspace": (lambda s, u: np.linspace(s.x, s.v, 2), "numpy.linspace does not work"), "keepdims": (lambda s, u: np.sum(s, keepdims=True), "numpy.sum of expressions: it got an unexpected keyword argument 'keepdims'"),
    "where=": (lambda s, u: np.add(s, 1, where=[True, False]), "numpy.add of expressions has no where="), "np.interp": (lambda s, u: (s.v, np.interp(s.v, [s.x, 1], [0, 1])), "numpy.interp of expressions: xp is .*, want increasing numbers"), "np.interp left": (lambda s, u: (s.v, np.interp(s.v, [0, 1], [0, 1], left=0)), "numpy.interp of expressions: it got an unexpected keyword argument 'left'"),
    "np.copyto": (lambda s, u: np.copyto(np.zeros(2), s), "numpy.copyto does not work"),
    # Arrays of NumPy's with unknown numbers.
    "solve": (lambda s, u: np.linalg.solve(np.array([[2.0, s.x], [s.x, 3.0]]), np.array([s.v, u.force])), ARRAY), "inv": (lambda s, u: np.linalg.inv(np.array([[2.0, s.x], [s.x, 3.0]]))[0], ARRAY),
    "det": (lambda s, u: (np.linalg.det(np.array([[2.0, s.x], [s.x, 3.0]])), 0), ARRAY), "eigvals": (lambda s, u: np.linalg.eigvals(np.array([[s.x, 1], [1, s.v]])), ": numpy.eigvals does not work"),
    "maximum": (lambda s, u: np.maximum(np.array([s.v, u.force]), 0), ARRAY), "relu": (lambda s, u: np.maximum(np.eye(2) @ np.array([s.v, u.force]) + 1, 0), ARRAY),
    "clip": (lambda s, u: np.clip(np.array([s.v, u.force]), 0, 1), ARRAY), "where": (lambda s, u: np.where(np.array([s.x, s.v]) > 0, 1, 0), ARRAY), "compared": (lambda s, u: np.array([s.x, s.v]) <= 1, ARRAY),
    "max of an array": (lambda s, u: (np.array([s.x, s.v]).max(), 0), ARRAY), "np.max of a list": (lambda s, u: (np.max([s.x, s.v]), 0), ARRAY), "sort": (lambda s, u: np.sort(np.array([s.v, u.force])), ARRAY),
    "of floats": (lambda s, u: np.array([s.v, u.force], float), ENTRY), "astype": (lambda s, u: np.array([s.v, u.force]).astype(float), ENTRY), "an entry": (fills, ENTRY), "a slice": (fills_slices, ENTRY),
    "np.zeros +=": (adds, ENTRY), "np.zeros += array": (adds_objects, ARRAY), "ragged": (lambda s, u: np.array([[s.v, 1], [u.force]]), "inhomogeneous"),
    "shapes": (lambda s, u: np.eye(3) @ s, r"a product of shapes \(3, 3\) and \(2,\)"), "shapes of np.array": (lambda s, u: np.eye(3) @ np.array([s.v, u.force]), "matmul: Input operand 1 has a mismatch"),
    "shapes of a sum": (lambda s, u: s + np.ones(3), "shape mismatch"), "a vector into an entry": (writes_vector, "a vector of 2 stands where a number is wanted"),
    # What is given.
    "s.x =": (writes_name, GIVEN), "s[0] =": (writes_index, GIVEN), "part[0] =": (writes_part, GIVEN), "s +=": (writes_all, GIVEN), "s[2]": (lambda s, u: (s[2], 0), "index 2 is out of bounds"),
    "s[-3]": (lambda s, u: (s[-3], 0), "index -3 is out of bounds"), "s[1.0]": (lambda s, u: (s[1.0], 0), "only integers"), "s[s > 0]": (lambda s, u: s[s > 0], "an index that is not known yet: choose entries by np.where"),
    "s.vel": (lambda s, u: (s.vel, 0), "there is no entry 'vel', want one of x, v"), "s['vel']": (lambda s, u: (s["vel"], 0), "there is no entry 'vel'"), "s.x[0]": (lambda s, u: (s.x[0], 0), "is not subscriptable"),
    "s.x.value": (lambda s, u: (s.x.value, 0), "has no attribute 'value'"), "s.x(1)": (lambda s, u: (s.x(1), 0), "is not callable"), "n": (lambda s, u, n: (n.v, 0), "has a parameter 'n'; it may ask for s"),
    "state": (lambda state, u: (state.v, 0), "has a parameter 'state'"), "*args": (any_number, "has a parameter 'args'"), "**names": (any_names, "has a parameter 'names'"), "s, u, /": (positional, "positional-only"),
    # What is returned.
    "one short": (lambda s, u: (s.v,), "ode returns 1 numbers, want 2 derivatives: x, v"), "None": (lambda s, u: None, "ode returns nothing"), "no return": (forgets, "ode returns nothing"),
    "a None": (lambda s, u: (s.v, None), r"ode\[1\]: None is a NoneType"), "a text": (lambda s, u: ("s.v", u.force), r"ode\[0\]: 's.v' is a str"), "a digit": (lambda s, u: (s.v, "1.0"), r"ode\[1\]: '1.0' is a str"),
    "yield": (yields, "ode returns a generator, want a tuple"), "async": (waits, "ode returns a coroutine"), "a set": (lambda s, u: {s.v, u.force}, "ode returns a set"), "map": (lambda s, u: map(np.sin, [s.v, s.x]), "ode returns a map"),
    "2 × 2": (lambda s, u: np.array([[s.v, u.force], [s.x, 0]]), "ode returns 4 numbers"), "u": (lambda s, u: (s.v, u), r"ode\[1\]: a vector of 1 stands where a number is wanted: take an entry, such as u\[0\]"),
    "another key": (lambda s, u: {"x": s.v, "v": 0, "z": 1}, "ode returns 'z', want x, v"), "a missing key": (lambda s, u: {"x": s.v}, "ode does not return 'v'"),
    "complex": (lambda s, u: (s.v, 1j * u.force), "1j is a complex, want a number"), "nan": (lambda s, u: (s.v, math.nan), r"ode\[1\] is nan at a random start"), "s.x + '1'": (lambda s, u: (s.v, s.x + "1"), "'1' is a str"),
    "x / 0": (lambda s, u: (s.v, u.force / (s.v * 0)), "a division by 0"), "1 / 0": (lambda s, u: (s.v, 1 / 0), "ZeroDivisionError"), "sqrt": (lambda s, u: (s.v, np.sqrt(s.x)), "sqrt of -"),
    # What changes from call to call.
    "random": (lambda s, u: (s.v, u.force + np.random.randn()), TWICE), "Python's random": (lambda s, u: (s.v, u.force * random.random()), TWICE), "time": (lambda s, u: (s.v, u.force * time.time()), TWICE),
    "a counter": (lambda s, u: (s.v, u.force * next(count)), TWICE), "a memory": (remembers, "this expression belongs to another function"), "lru_cache": (cached, "unhashable"),
    "on-off": (lambda s, u: (s.v, np.where(u.force > 0, 5.0, -5.0)), "the dynamics compare the action 'force', and jump"),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations_are_refused_at_their_line(name):
    f, says = EQUATIONS[name]
    refused(lambda: system(ode=f), says, inspect.unwrap(f))


def test_an_error_keeps_its_cause():
    with pytest.raises(gpc.InputError) as e:
        system(ode=EQUATIONS["solve"][0]).text()
    assert isinstance(e.value.__cause__, TypeError)


# Options, and functions that are refused without a line of their own.
OPTIONS = {
    "names in a list": ({"state": ["x", "v"]}, "state is a list, want names with their units"), "context in a list": ({"context": ["goal"]}, "context is a list"), "no state": ({"state": {}}, "state is empty"),
    "no action": ({"action": None}, "action is empty"), "lo > hi": ({"action": {"force": ("N", 5, -5)}}, r"action\['force'\] is from 5 to -5"), "lo == hi": ({"action": {"force": ("N", 2, 2)}}, r"action\['force'\] is from 2 to 2, want lo below hi"),
    "inf": ({"action": {"force": ("N", -np.inf, 5)}}, r"action\['force'\].lo is -inf"), "nan": ({"action": {"force": ("N", np.nan, 5)}}, r"action\['force'\].lo is nan"), "no form": ({"action": {"force": 5}}, r"action\['force'\] is 5: want a unit"),
    "integer": ({"action": {"force": {"unit": "N", "lo": 0, "hi": 1, "integer": True}}}, r"action\['force'\] has 'integer': .*gpc.on_off\(\)"), "values": ({"action": {"force": {"values": [0, 1]}}}, r"action\['force'\] has 'values'"),
    "a word as a bound": ({"scenario": {"x": (0, "far")}}, r"scenario\['x'\].hi is 'far'"), "a unit as a scenario": ({"scenario": {"x": "m"}}, r"\(x\) has no range"), "a number as a scenario": ({"scenario": {"x": 1.0}}, r"scenario\['x'\] is 1.0"),
    "another name": ({"scenario": {"x": (-1, 1), "vv": (-1, 1)}}, r"scenario\['vv'\] is no entry of state or context"), "no name": ({"state": {"x": "m", "": "1"}}, "state has an entry without a name"),
    "twice": ({"context": {"x": "m", "goal": "m"}}, "'x' is an entry of both state and context"), "as a text": ({"context": {1: "m", "1": "m", "goal": "m"}}, "context has '1' twice"), "clock": ({"context": {"goal": "m", "clock": "1"}}, r"context\['clock'\] is added by itself"), "name": ({"name": ""}, "name is ''"), "None": ({"name": None}, "name is None"),
    "steps 0": ({"steps": 0}, "steps is 0"), "steps 20.0": ({"steps": 20.0}, "steps is 20.0"), "a million steps": ({"steps": 1000000}, "^steps is 1000000: "), "a million ahead": ({"horizon": 1000000}, "^horizon is 1000000: "),
    "period": ({"period": -0.1}, "period is -0.1"), "a text as period": ({"period": "fast"}, "period is 'fast'"), "delay": ({"delay": 30}, "delay is 30, want 0 to 19 periods"), "a text as delay": ({"delay": "one"}, "delay is 'one'"),
    "rest": ({"rest": [9]}, "rest of 'force' is 9, outside of its box, -5 to 5"), "rest as a number": ({"rest": 1.0}, "rest is 1.0, want a list of one number for each of force"), "scale as a dict": ({"state_scale": {"x": 1}}, "state_scale is .*, want a list"),
    "scale": ({"objective_scale": [1]}, "objective_scale has 1 entries"), "scale 0": ({"objective_scale": [0, 1]}, r"ObjectiveScale\[0\] is 0"), "soft": ({"soft": {"lft": 1}}, r"soft\['lft'\] is none of the margins"),
    "soft as a list": ({"soft": ["left"]}, "soft is .*, want a dict by name"), "soft as a text": ({"soft": {"left": "high"}}, r"soft\['left'\] is 'high'"), "soft below 0": ({"soft": {"left": -1}}, "prices -1"),
    "rate": ({"rates": {"f": 1}}, r"rates\['f'\] is no action"), "rate 0": ({"rates": {"force": 0}}, r"rates\['force'\] is 0"), "rate as a text": ({"rates": {"force": "slow"}}, r"rates\['force'\] is 'slow'"),
    "rates as a list": ({"rates": [1]}, "rates is .*, want a dict by name"), "blocks": ({"blocks": 3}, "blocks is 3"), "solver": ({"solver": {"start": 4}}, 'unknown field "start" of solver; did you mean starts\\?, want one of horizon'), "a solver's name": ({"solver": "ipopt"}, "solver is a string"),
    "substeps 0": ({"substeps": 0}, "substeps is 0, want a number of steps"), "substeps 2.5": ({"substeps": 2.5}, "substeps is 2.5"), "memory": ({"finish": lambda y: y.memory(lambda u: u.force)}, "memory returns <input .*>, want a dict"),
    "objectives in a list": ({"finish": lambda y: y.objectives(["a", "b"])}, r"objectives takes \['a', 'b'\], want names with their units"), "no function": ({"finish": lambda y: y.step(None)}, "@step decorates a function, not None"),
    "initial": ({"finish": lambda y: y.initial(lambda p: {"x": "far"})}, r"initial\[0\]: 'far' is a str"), "margins": ({"margins": lambda n: np.array([n.x, n.v]) > 0}, ARRAY),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_refused_by_name(name):
    options, says = OPTIONS[name]
    refused(lambda: system(**options), says)


# What is taken: the equations' values at s = (0.3, -0.4), u = 2, and why.
TAKEN = {
    "abs": (lambda s, u: (s.v, abs(s.v)), 0.4, "Python's abs asks for no truth"), "sign": (lambda s, u: (s.v, np.sign(s.v)), -1, "friction is written so"), "%": (lambda s, u: (s.v, s.x % 0.2), 0.1, "it is NumPy's remainder"),
    "pi": (lambda s, u: (s.v, math.pi * s.x), 0.3 * math.pi, "a constant"), "float32": (lambda s, u: (s.v, np.float32(0.5) * u.force), 1, "a constant"), "True": (lambda s, u: (s.v, True), 1, "it is 1"), "sum": (lambda s, u: (s.v, sum(s)), -0.1, "it only adds"),
    "s[-1]": (lambda s, u: (s[-1], u[-1]), 2, "the last entry, as NumPy has it"), "a column": (lambda s, u: np.array([[s.v], [u.force]]), 2, "its entries in their order"), "a dict": (lambda s, u: {"v": u.force, "x": s.v}, 2, "by name"),
    "k=3": (lambda s, u, k=3.0: (s.v, k * u.force), 6, "a default binds a constant"), "a partial": (functools.partial(lambda s, u, k: (s.v, k * u.force), k=2.0), 4, "the same"), "pow": (lambda s, u: (s.v, pow(s.v, 2)), 0.16, "it is **"),
    "np.array": (lambda s, u: np.tanh(np.array([s.v, u.force])), np.tanh(2), "functions of one number work on it"), "a seed": (lambda s, u: (s.v, u.force * np.random.default_rng(0).integers(3, 4)), 6, "the same number each time"),
    "norm of np.array": (lambda s, u: (s.v, np.linalg.norm(np.array([s.x, s.v]))), 0.5, "it adds and multiplies"), "np.full": (lambda s, u: np.full(2, u.force), 2, "it moves entries"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_is_what_is_meant(name):
    f, value, _ = TAKEN[name]
    y = system(ode=f, substeps=4)
    assert y.text() and y.function("ode")([0.3, -0.4], [0, 0], [2.0]) == pytest.approx([y.function("ode")([0.3, -0.4], [0, 0], [2.0])[0], value])


def test_options_that_are_taken():
    assert system(action={"force": "N"}).text()  # the solver needs no box
    assert system(scenario={"x": np.array([-1, 1]), "v": (-0.5, 0.5), "goal": (-1, 1)}).text() == system().text()
    assert system(scenario={"x": ("-1", "1"), "v": (-0.5, 0.5), "goal": (-1, 1)}).text() == system().text()  # texts of numbers
    assert system(scenario={"x": (-1, 1), "goal": (-1, 1)}).function("initial")([0.5, 0.2]).tolist() == [0.5, 0, 0.2, 0]  # what is not drawn begins at 0
    assert '"tolerance":0.1' in system(state={"x": {"unit": "m", "tolerance": 0.1}, "v": "m/s"}).text()  # what a file's entry has
    y = system(  # an entry whose name Python keeps is had by index
        state={"φ": "rad", "lambda": "1"}, scenario={"φ": (-1, 1), "goal": (0, 1)}, ode=lambda s, u: (s["lambda"], u.force - s.φ), objectives=lambda n, u: (n.φ**2, u.force**2), margins=lambda n: (n.φ + 2, 2 - n.φ),
    )
    assert y.function("ode")([0.5, 3], [0, 0], [1]).tolist() == [3, 0.5]


@pytest.mark.filterwarnings("error")
def test_a_rate_that_limits_nothing_is_warned_of():
    with pytest.warns(UserWarning, match=r"rates\['force'\] is 100, and its box no wider: it limits nothing"):
        system(rates={"force": 100}).text()
    system(rates={"force": 1}).text()
