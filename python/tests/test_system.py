"""A system written in Python: what is written down is what is meant, what is wrong is said with its line, and what is compiled drives."""

import copy
import inspect
import json
import os
import pickle
import resource
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import _expression as expression
from gpc import grid
from gpc.system import seconds

SMALL = {"scenarios": 6, "manifold_epochs": 8, "rollout_epochs": 1, "latent": 4, "hidden": 16}


def cart(name="cart", **more):
    """A cart that brakes within its track."""
    y = gpc.System(
        name, "a cart on a track", state={"x": ("m", -2, 2), "v": ("m/s", -1, 1)}, context={"goal": "m", "before": "N"}, action={"force": ("N", -5, 5)},
        period=0.1, **{"scenario": {"x": (-1, 1), "v": (-0.5, 0.5), "goal": (-1, 1)}, "steps": 15, "training": SMALL, **more},
    )

    @y.ode()
    def _(s, u):
        return s.v, u.force

    @y.memory
    def _(u):
        return {"before": u.force}

    @y.objectives(position="m²", effort="N²")
    def _(c, u, n):
        return (n.x - c.goal) ** 2 + 0.1 * n.v**2, 0.01 * u.force**2 + 0.001 * (u.force - c.before) ** 2

    @y.margins(left="m", right="m")
    def _(n):
        return n.x + 2 - np.minimum(n.v, 0) ** 2 / 8, 2 - n.x - np.maximum(n.v, 0) ** 2 / 8

    return y


def evaluated(f, *columns):
    """f, of a vector of each column's length, by NumPy and as it is written down."""
    code = expression.Code(sum(len(c) for c in columns))
    start, vectors = 0, []
    for c in columns:
        vectors.append(expression.Vector([expression.Expression(code, start + i) for i in range(len(c))]))
        start += len(c)
    got = expression._objects(f(*vectors)).reshape(-1)
    nodes, results, _ = code.needed([code.value(v) for v in got])
    values = expression.evaluate(nodes, np.concatenate(columns)[:, None])
    return np.array([values[v][0] for v in results]), np.asarray(f(*columns), float).reshape(-1)


A = np.array([[1.0, 0.0, 2.0], [0.0, -1.5, 0.0], [0.5, 0.25, 3.0]])


@pytest.mark.parametrize("f", [
    lambda x, y: x + y - 2 * x * y / (1 + y**2), lambda x, y: -x + abs(y) + x**3 + np.abs(x) ** 0.5 + np.abs(y) ** 1.7 + (2 + y) ** -2,
    lambda x, y: np.sin(x) + np.cos(y) + np.tan(x) + np.arctan(y) + np.arctan2(x, y) + np.hypot(x, y), lambda x, y: np.arcsin(x / 9) + np.arccos(y / 9),
    lambda x, y: np.exp(x) + np.log(np.abs(y)) + np.sinh(x) + np.cosh(y) + np.tanh(x) + np.expm1(x) + np.log1p(np.abs(y)),
    lambda x, y: np.arcsinh(x) + np.arccosh(1 + np.abs(y)) + np.arctanh(x / 9) + np.log2(np.abs(x)) + np.log10(np.abs(y)) + np.exp2(x) + np.cbrt(y),
    lambda x, y: np.minimum(x, y) + np.maximum(x, 0) + np.clip(y, -0.5, 0.5) + np.sign(x) + np.floor(y) + np.ceil(x) + np.trunc(y) + x % 0.7 + y // 0.3,
    lambda x, y: np.where((x < y) & (x > -1) | ~(y >= 0), x, 2 * y), lambda x, y: np.where(x != y, np.heaviside(x, 0.5), np.square(y)),
    lambda x, y: A @ x + y @ A, lambda x, y: A @ (A @ x) - np.dot(A, y), lambda x, y: [np.sum(x), np.prod(y), np.mean(x), np.max(x), np.min(y), x @ y],
    lambda x, y: [np.linalg.norm(x), np.linalg.norm(y, 1), np.linalg.norm(x - y, np.inf)], lambda x, y: np.linalg.solve(A + np.outer(x, x), y),
    lambda x, y: np.linalg.inv(A + np.diag(x)), lambda x, y: [np.linalg.det(A + np.outer(x, y))], lambda x, y: np.concatenate([x[1:], y[:2], np.diff(x)]),
    lambda x, y: np.cross(x, y), lambda x, y: np.stack([x, y]).T.reshape(-1), lambda x, y: np.outer(x, y) + np.kron(np.eye(3), np.ones((1, 1))),
    lambda x, y: np.array([x[0] * y[1], x[2] + 1, 4.0]) * 2, lambda x, y: np.sin(np.array([x[0], y[0]])), lambda x, y: np.deg2rad(x) + np.degrees(y) + np.reciprocal(x),
    lambda x, y: np.fmod(x, 0.7) + np.copysign(x, y) + np.logaddexp(x, y), lambda x, y: [np.amax(x), np.amin(y)],
    lambda x, y: np.cumsum(x) + np.roll(y, 1) + np.flip(x), lambda x, y: [np.any(x > 0), np.all(y > -9)], lambda x, y: np.array([1.0, 2, 3]) - x + np.float64(2) * y,
])
def test_what_is_written_down_is_what_numpy_computes(f):
    rng = np.random.default_rng(3)
    for _ in range(5):
        got, want = evaluated(f, rng.normal(size=3), rng.normal(size=3))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("share", [
    lambda v, x: np.where(v > 0, 0.5, 0.2) * v, lambda v, x: np.where((v > 0) & (x > -9), 0.5, 0.2) * v, lambda v, x: np.where((v > 0) | (x > 9), 0.5, 0.2) * v,
    lambda v, x: np.where(~(v > 0), 0.2, 0.5) * v, lambda v, x: (v > 0) * 0.5 * v + (v <= 0) * 0.2 * v, lambda v, x: 0.2 * v + ((v > 0) & (x > -9)) * v * 0.3,
    lambda v, x: (0.5 - 0.3 * (1 - (v > 0))) * v,
])
def test_conditions_of_several_comparisons_have_one_s_optima(share):
    """Where several were rounded together, or multiplied, episodes cost up to 2 % more than the reference."""
    y = gpc.System("drag", state={"x": ("m", -3, 3), "v": ("m/s", -3, 3)}, context={"goal": "m"}, action={"u": ("N", -3, 3)}, scenario={"x": (-1, 1), "v": (-0.5, 0.5), "goal": (-1, 1)}, steps=12, period=0.2)
    y.ode()(lambda s, u: (s.v, u.u - share(s.v, s.x)))
    y.objectives(cost="1")(lambda c, u, n: (n.x - c.goal) ** 2 + 0.3 * n.v**2 + 0.05 * u.u**2)
    with gpc.nmpc(y, threads=1) as exact:
        r = exact.evaluate("nmpc", episodes=3, seed=5, preference=[1], progress=False)
    assert r["cost_mean"] == pytest.approx(2.55544, rel=1e-4) and r["regret"]["max_pct"] < 1e-3


def test_a_choice_of_casadi_s_is_one_choice():
    """CasADi writes a sum of two parts, each of which jumps where the choice has a corner that the solver can follow."""
    ca = pytest.importorskip("casadi")
    x = ca.SX.sym("x", 2)
    drag = gpc.from_casadi(ca.Function("drag", [x], [ca.if_else(ca.logic_and(x[1] > 0, x[0] > -9), 0.5, 0.2) * x[1]]))
    case = gpc.from_casadi(ca.Function("case", [x], [ca.conditional(x[1] > 0, [0.2], 0.5) * x[1]]))  # of a comparison that is 0
    for f in (drag, case, lambda s: np.where((s[1] > 0) & (s[0] > -9), 0.5, 0.2) * s[1]):
        code = expression.Code(2)
        choice = f(expression.Vector([expression.Expression(code, i) for i in range(2)]))
        written = [op for op, *_ in code.needed([code.value(choice)])[0]]
        assert written.count("select") == 2 and "eq" not in written  # of and or not, and of the choice


def filled(of, x, y):
    """A matrix that is written entry by entry, of NumPy or of gpc."""
    z = of.zeros((2, 3))
    z[0] = x
    z[1, :] = y
    z[0, 1] += y[2]
    z[1] *= 2
    z[:, 0] -= 1
    z[-1, [0, 2]] = [x[0], 4.0]
    z[np.array([True, False]), 1] = 7
    return z


def moved(of, x, y):
    z = of.array([x[0], x[1], 1.0])
    z += y
    z /= 2
    z **= 2
    z[1:] = z[1:][::-1] * x[1:]
    copy = x.copy()
    copy[0] = 5.0
    like = np.zeros_like(x)
    like[1] = y[0]
    return z - copy + like


@pytest.mark.parametrize("f", [
    filled, moved, lambda n, x, y: [*(sum(r) for r in filled(n, x, y)), len(filled(n, x, y)), *filled(n, x, y).shape], lambda n, x, y: filled(n, x, y).reshape(3, 2).T @ np.ones(3),
    lambda n, x, y: filled(n, x, y)[:, [2, 0]] @ filled(n, x, y)[:, np.array([True, False, True])].T, lambda n, x, y: [np.sum(filled(n, x, y)), *filled(n, x, y).sum(1), *filled(n, x, y).mean(axis=-1)],
    lambda n, x, y: np.dot(filled(n, x, y), x), lambda n, x, y: filled(n, x, y) @ A @ filled(n, x, y).T, lambda n, x, y: np.concatenate([n.array([x[0]]), y, np.zeros(2)]),
    lambda n, x, y: np.concatenate([[x[0]], y, [x[1] * y[0], 2.0]]), lambda n, x, y: np.diff(np.concatenate([[x[0]], y])), lambda n, x, y: np.diff(y, prepend=[x[0]], append=x[1]),
    lambda n, x, y: np.append(x, [y[0]]), lambda n, x, y: np.insert(x, 1, [y[0], 3.0]), lambda n, x, y: np.stack([[x[0], y[0]], [y[1], 1.0]]), lambda n, x, y: np.hstack([x[0], y, [y[1]]]),
    lambda n, x, y: np.tile([x[0], y[0]], 2) + np.repeat([y[1], x[2]], 2) + np.roll([x[0], x[1], y[0], 1.0], 1), lambda n, x, y: np.block([[x[0], y[0]], [1.0, x[1]]]),
    lambda n, x, y: np.cross([x[0], 1.0, y[0]], [0, x[1], 2]), lambda n, x, y: np.kron([[x[0], 1.0]], [[y[0]], [y[1]]]), lambda n, x, y: np.split(np.append([x[0]], y), 2)[1] + np.cumsum([x[0], y[0]]),
    lambda n, x, y: np.stack([n.array([x[0], 1, 2]), y]), lambda n, x, y: np.block([[np.outer(x, y), np.zeros((3, 1))], [n.array([x]), np.ones((1, 1))]]),
    lambda n, x, y: [np.linalg.norm(filled(n, x, y)), *np.linalg.norm(filled(n, x, y), axis=1)], lambda n, x, y: np.linalg.solve(n.array([[2.0, x[0]], [x[0], 3.0]]), n.array([y[0], y[1]])),
    lambda n, x, y: np.linalg.inv(n.array([[2.0, x[0]], [x[0], 3.0]])), lambda n, x, y: [np.linalg.det(n.array([[2.0, x[0]], [x[0], 3.0]]))],
    lambda n, x, y: np.where(filled(n, x, y) > x, filled(n, x, y), y), lambda n, x, y: np.clip(filled(n, x, y), -0.5, 0.5) + filled(n, x, y).clip(0, 1) + np.clip(x, a_min=0, a_max=None),
    lambda n, x, y: np.minimum(filled(n, x, y), 0.1), lambda n, x, y: np.interp(n.array([x[0], y[0]]), [-1, 0, 2], [3, 1, 2.0]), lambda n, x, y: abs(filled(n, x, y)) + np.tanh(filled(n, x, y)) + np.exp(x / 9),
    lambda n, x, y: np.hypot(n.array([x[0], x[1]]), n.array([y[0], 2.0])), lambda n, x, y: np.cross(n.array([x[0], x[1], 1.0]), y), lambda n, x, y: np.eye(3) * x[0] + np.diag(n.array([x[0], x[1], 1.0])),
    lambda n, x, y: np.swapaxes(filled(n, x, y), 0, 1) + np.moveaxis(filled(n, x, y), 0, 1), lambda n, x, y: np.triu(np.outer(x, y)) + np.tril(np.outer(y, x), -1) + np.broadcast_to(x, (3, 3)),
    lambda n, x, y: np.tensordot(filled(n, x, y), A, axes=1), lambda n, x, y: [np.sum(x[:0]), np.prod(y[:0])], lambda n, x, y: np.select([x > 0, x > -1], [x, y], 3.0) + np.polyval([1, 2, 3.0], x),
    lambda n, x, y: [*filled(n, x, y).flatten(), *filled(n, x, y).max(axis=0)], lambda n, x, y: np.vstack([x, y]) + np.hstack([x, [1.0, 2.0, 3.0]]).reshape(2, 3),
])
def test_arrays_of_unknown_numbers_are_numpy_s(f):
    rng = np.random.default_rng(5)
    for _ in range(5):
        got, want = evaluated(lambda x, y: f(gpc if isinstance(x, expression.Vector) else np, x, y), rng.normal(size=3), rng.normal(size=3))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_a_network_of_relu_is_numpy_s():
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(n, m)) / np.sqrt(m), rng.normal(size=n)) for n, m in ((64, 3), (64, 64), (2, 64))]

    def network(x):
        h = gpc.array([x[0], x[1], x[2]]) if isinstance(x, expression.Vector) else x
        for w, b in layers[:-1]:
            h = np.maximum(w @ h + b, 0)
        return layers[-1][0] @ h + layers[-1][1]

    for _ in range(3):
        got, want = evaluated(network, rng.normal(size=3))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_a_copy_is_written_and_what_it_is_of_stays():
    s = expression.Vector([1.0, 2.0], ["x", "v"])
    z = gpc.array(s)
    z[0] = 5.0
    assert [*s] == [1.0, 2.0] and [*z] == [5.0, 2.0]


def test_zeros_of_a_matrix_leave_no_trace():
    code = expression.Code(3)
    x = expression.Vector([expression.Expression(code, i) for i in range(3)])
    y = np.diag([1.0, 2, 3]) @ x
    nodes, _, _ = code.needed([v._value for v in y])
    assert [n[0] for n in nodes] == ["const", "mul", "const", "mul"]


def line_of(text, of):
    lines, first = inspect.getsourcelines(of)
    return first + next(i for i, x in enumerate(lines) if text in x)


def wrong(change):
    y = cart("wrong")
    change(y)
    with pytest.raises(gpc.InputError) as e:
        y.text()
    return str(e.value)


def test_errors_speak_of_the_user_s_names_and_lines():
    def branches(y):
        @y.ode()
        def _(s, u):
            return s.v, (u.force if s.x > 0 else 0)  # branches here

    def converts(y):
        import math

        @y.ode()
        def _(s, u):
            return s.v, math.sin(s.x)  # converts here

    def short(y):
        @y.ode()
        def _(s, u):
            return s.v

    def misnames(y):
        @y.objectives(position="m²", effort="N²")
        def _(n):
            return n.y, 0  # misnames here

    def asks(y):
        @y.margins(left="m")
        def _(next):
            return next

    def undefined(y):
        @y.objectives(position="m²", effort="N²")
        def _(n, u):
            return np.sqrt(-1 - n.x**2), u.force  # undefined here

    def unknown(y):
        @y.ode()
        def _(s, u):
            return s.v, np.sinc(s.x)  # unknown here

    def carried(y):
        outside = []

        @y.ode()
        def _(s, u):
            outside.append(s.v)
            return s.v, u.force

        @y.objectives(position="m²", effort="N²")
        def _(n):
            return n.x, outside[0]

    here = os.path.abspath(__file__)
    for change, marks in (
        (branches, [f"{here}:{line_of('# branches here', branches)}: a branch on a number", "np.where"]),
        (converts, [f"{here}:{line_of('# converts here', converts)}: a number that is not known yet", "NumPy's functions in place of math's"]),
        (short, ["ode returns 1 numbers, want 2 derivatives: x, v"]), (misnames, [f":{line_of('# misnames here', misnames)}: there is no entry 'y', want one of x, v"]),
        (asks, ["the function margins has a parameter 'next'; it may ask for s (state)"]),
        (undefined, [f"{here}:{line_of('# undefined here', undefined)}: objectives[0] is nan at a random start: sqrt of -"]),
        (unknown, [f"{here}:{line_of('# unknown here', unknown)}: numpy"]), (carried, ["this expression belongs to another function"]),
    ):
        message = wrong(change)
        for mark in marks:
            assert mark in message, (change.__name__, message)
    for options, mark in (
        ({"state_scale": [1]}, "state_scale has 1 entries, want one for each of x, v"), ({"training": {"latents": 3}}, "latents"),
        ({"rest": [np.nan]}, "rest[0] is nan, want a finite number"), ({"rest": [{1}]}, "{1} is a set, want a number"),
        ({"training": {"latent": -3}}, "training.latent is -3"), ({"name": "a/b"}, "slash"), ({"semantic": {"k": ["a"]}}, "semantic.k"),
    ):
        with pytest.raises(gpc.InputError) as e:
            cart(**{"name": "wrong", **options}).text()
        assert mark in str(e.value)
    with pytest.raises(gpc.InputError, match=r"scenario\['speed'\] is no entry of state or context \(x, v, goal, before\)"):
        cart("wrong", scenario={"x": (-1, 1), "speed": (-0.5, 0.5)}).text()
    for bare, says in (
        (lambda y: y.ode(lambda s: s), r"write @wrong.ode\(\) above the function"), (lambda y: y.escape(lambda s: s), r"write @wrong.escape\(3\)"),
        (lambda y: y.objectives(lambda s: s), r'write @wrong.objectives\(position="m²"\)'), (lambda y: y.margins(), r"@wrong.margins\(\) names nothing"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            bare(cart("wrong"))
    with pytest.raises(gpc.InputError, match="ends in .json"):
        cart().save("cart.txt")
    with pytest.raises(gpc.InputError, match="steps is 0"):
        gpc.System("x", state={"x": "m"}, action={"force": "N"}, scenario={"x": (0, 1)}, steps=0, period=1)
    with pytest.raises(gpc.InputError, match=r"action\['force'\] is 3: want a unit"):
        gpc.System("x", state={"x": "m"}, action={"force": 3}, scenario={"x": (0, 1)}, steps=1, period=1)
    with pytest.raises(gpc.InputError, match="has no function objectives"):
        gpc.System("x", state={"x": "m"}, action={"force": "N"}, scenario={"x": (0, 1)}, steps=1, period=1).text()


def test_a_plant_that_runs_on(tmp_path):
    y = cart("on", horizon=12, steps=60)
    document = json.loads(y.text())
    assert document["horizon"] == 12 and "runs on, a horizon of 12 steps" in repr(y)
    assert {v["name"]: v["entries"] for v in document["program"]["vectors"]}["context"] == ["goal", "before"]
    assert y.function("step")([0, 0], [1, 0], [2], [0, 0]).tolist() == [1, 2]
    with gpc.nmpc(y) as exact:
        state, context = exact.observe(1)
        assert len(context) == 2
        with exact.loop() as loop:
            for _ in range(200):  # beyond any episode
                d = loop.decide(state, context)
                state, context = np.asarray(state), np.asarray(context)
                state = np.array([state[0] + 0.1 * state[1] + 0.005 * d.u[0], state[1] + 0.1 * d.u[0]])
                context = np.array([context[0], d.u[0]])
        assert abs(state[0] - context[0]) < 1e-3 and abs(state[1]) < 1e-3
    with pytest.raises(gpc.InputError, match="horizon is -1"):
        cart("wrong", horizon=-1)


def test_a_delay():
    y = cart("late", delay=1)
    assert json.loads(y.text())["delay"] == 1
    with gpc.nmpc(y) as exact, gpc.nmpc(cart("late")) as prompt:
        state, context = np.array([0.1, 0.2]), np.zeros(3)
        with exact.loop() as loop, prompt.loop() as now:
            first = loop.decide(state, context).u
            assert not np.allclose(first, now.decide(state, context).u)  # it is of a period later
    for wrong in (-1, 1e9, float("nan")):
        with pytest.raises(gpc.InputError, match="delay is"):
            cart("wrong", delay=wrong)


def test_a_system_can_say_everything():
    y = cart("all", semantic={"k": [4, 2]}, rest=[0.0], objective_scale=[1, 2], state_scale=[1, 0.5], margin_tolerance=1e-8, constants={"mass": 1},
             solver={"starts": 2}, navigation={"top_k": 1})

    @y.ode(substeps=2, stiff=True)
    def _(s, u):
        return s.v, u.force - 50 * s.v

    @y.escape(steps=3)
    def _(s):
        return np.clip(-5 * np.tanh(s.v), -5, 5)

    @y.urgency
    def _(s):
        return 0.5, s.x**2 / (1 + s.x**2)

    @y.failed
    def _(s):
        return np.abs(s.x) > 3

    @y.initial
    def _(p):
        return {"x": p.x, "before": 0.5}

    @y.picture
    def _(s, c):
        return [gpc.box("body", s.x, 0, 0.3, 0.2), gpc.disc("goal", c.goal, 0, 0.1), gpc.line("ground", (-2, 0), (2, 0))]

    d = json.loads(y.text())
    assert d["integrator"] == {"method": "radau", "span_s": 0.1, "substeps": 2} and d["escape_steps"] == 3 and d["constants"] == {"mass": 1}
    assert {f["name"] for f in d["program"]["functions"]} == {"ode", "step", "objectives", "margins", "escape", "initial", "urgency", "failed", "picture"}
    np.testing.assert_allclose(y.function("initial")([0.3, 0.2, -0.4]), [0.3, 0.2, -0.4, 0.5, 0])
    np.testing.assert_allclose(y.function("step")([0, 0], [0, 0, 0.5], [2], [0, 0]), [0, 2, 0.5 + 1 / 15])
    assert y.function("failed")([4, 0], [0, 0, 0]) == 1
    assert "Radau" in gpc.System.ode.__doc__ and "cart on a track" in y._repr_html_() and "2 states" in repr(y)
    with gpc.nmpc(y) as s:
        assert [v.name for v in s.spec.margins][:3] == ["left", "right", "left+1"]
        state, context = s.observe()
        assert abs(float(s.decide(state, context).u[0])) <= 5


def test_the_file_is_the_system(command, tmp_path):
    y, file = cart(), tmp_path / "cart.json"
    y.save(file)
    code, out, err = command("system", str(file), "--json")
    assert code == 0, err
    about = json.loads(out)
    assert {"sha256": about["sha256"], "problem_sha256": about["problem_sha256"]} == y.identity()
    assert file.read_text() == y.text() + "\n" and cart().text() == y.text()
    code, out, err = command("eval", str(file), "--method", "nmpc", "--episodes", "2", "--seed", "5", "--json", "--trace", str(tmp_path / "t.jsonl"))
    assert code == 0, err
    with gpc.nmpc(y, threads=1) as s:
        own = s.evaluate(episodes=2, seed=5, progress=False)
    there = json.loads(out)
    assert (own["safe"], own["regret_pct"], own["regret_n"]) == (there["safe"], there["regret_pct"], there["regret_n"])
    # The trace holds the system: who verifies it needs no file.
    file.rename(tmp_path / "elsewhere.json")
    code, out, err = command("verify", str(tmp_path / "t.jsonl"))
    assert code == 0, out + err


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    events = []
    with gpc.compile(cart(), folder / "cart.safetensors", target=5, budget="1h", rounds=1, starts=20, test_starts=20, threads=1, progress=events.append) as c:
        c.events = events
        yield c


def test_a_context_beyond_the_data_is_off_the_map(controller):
    s, c = controller.observe(3)
    for goal, off in ((0.95, False), (-0.95, False), (1.5, True), (-1.5, True), (50, True)):
        d = controller.decide(s, controller.context(goal=goal, before=c[1]))
        assert d.off_map == off and ("residual" in d.fallbacks) == off, goal


def test_compiled_in_python(controller):
    assert controller.report["case"] == "cart" and controller.report["test"]["episodes"] == 20
    assert [e["number"] for e in controller.events if "round" in e] == [1] and any(e.get("total") for e in controller.events)
    r = controller.evaluate(episodes=10, seed=9, progress=False)
    assert r["episodes"] == 10 and r["unsafe"] == 0 if "unsafe" in r else r["safe"] == 1
    state, context = controller.observe(3)
    with controller.loop() as loop, controller.nmpc() as exact:
        np.testing.assert_array_equal(loop.decide(state, context).u, controller.drive(3)["u"][0])
        assert abs(exact.decide(state, context).u[0]) <= 5
    assert "target" in repr(controller) and "<table>" in controller._repr_html_()
    run = controller.drive(1)
    assert run["s"].shape == (15, 2) and run["u"].shape == (15, 1) and np.abs(run["u"]).max() <= 5
    with pytest.raises(gpc.Error, match="matplotlib"):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            controller.plot()
        else:
            raise gpc.Error("matplotlib is here")


def test_compiled_again_it_goes_on(controller):
    """A compilation that is finished is found so, and its map is opened by the system's file too."""
    again = []
    with gpc.compile(cart(), controller.file, target=5, budget="1h", rounds=1, starts=20, test_starts=20, threads=1, progress=again.append) as c:
        assert not any("round" in e for e in again)
        assert c.report["test"]["mean_pct"] == controller.report["test"]["mean_pct"]


def test_a_map_of_another_system_is_refused_by_name(controller):
    other = cart()

    @other.ode()
    def _(s, u):
        return s.v, 1.01 * u.force

    with pytest.raises(gpc.InputError, match="was trained on other equations than those of case cart"):
        gpc.open(other, controller.file)
    with pytest.raises(gpc.InputError, match="chart"):
        gpc.open(cart("chart"), controller.file)


def test_served_and_exported(controller, tmp_path):
    state, context = controller.observe(2)
    with controller.serve() as server:
        body = json.dumps({"session": "a", "s": state.tolist(), "c": context.tolist()}).encode()
        request = urllib.request.Request(server.url + "/v1/decide", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            assert abs(json.load(answer)["u"][0]) <= 5
        assert server.about()["health"]["decisions"] == 1
    with pytest.raises(gpc.Error, match="closed"):
        server.about()
    with pytest.raises(gpc.InputError, match="needs a token"):
        controller.serve("0.0.0.0:0")
    exported = controller.export_c(tmp_path / "c", episodes=3)
    assert exported["episodes"] == 3 and exported["method"] == "direct-no-rescue" and (tmp_path / "c" / "main_test.c").exists()
    assert controller.export_c(tmp_path / "map", map_only=True, records=8)["records"] == 8
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="not polish-ahead, which it was compiled for"):
        patch.setitem(controller.report["test"], "method", "polish-ahead")
        controller.export_c(tmp_path / "warned", episodes=1)
    units = controller.export_fmu(tmp_path / "fmu", episodes=1)
    assert len(units) == 2 and all(os.path.exists(u) for u in units)
    with pytest.raises(gpc.InputError, match="cannot be exported"):
        controller.export_c(tmp_path / "other", method="nmpc-ahead")
    assert controller.export_c(tmp_path / "exact", method="nmpc", episodes=1)["method"] == "nmpc"


def test_an_interrupt_ends_a_compilation_and_keeps_what_is_done(tmp_path):
    class Enough(Exception):
        pass

    def stop(e):
        if "round" in e:
            raise Enough

    out = tmp_path / "cart.safetensors"
    with pytest.raises(Enough):
        gpc.compile(cart(), out, target=1e-9, budget="1h", rounds=2, starts=20, test_starts=20, threads=1, progress=stop)
    events = []
    for _ in range(200):  # what has not ended within its patience ends by itself, and then lets go of the folder
        try:
            gpc.compile(cart(), out, target=1e-9, budget="1h", rounds=1, starts=20, test_starts=20, threads=1, progress=events.append).close()
            break
        except gpc.Error as e:
            if "in use" not in str(e) and "busy" not in str(e) and "another" not in str(e):
                raise
    assert not any(e.get("number") == 1 for e in events), "the first round was made again"


def test_budgets():
    assert (seconds("4m"), seconds("90s"), seconds("1h30m"), seconds("1.5m"), seconds(7)) == (240, 90, 5400, 90, 7)
    with pytest.raises(gpc.InputError, match='want a time such as "4m"'):
        seconds("four minutes")
    with pytest.raises(gpc.InputError, match="budget is None, want a time"):
        seconds(None)


def test_files_are_written_whole_or_not_at_all(tmp_path):
    """On a full disk, which a limit of the size of files stands for here, what was there stays, and nothing else is left."""
    n = grid.network("case118")
    saves = {"cart.json": cart().save, "case.m": n.save, "map.svg": grid.pf(n).plot().save}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, save in saves.items():
        (tmp_path / name).write_text("before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(OSError):
                save(tmp_path / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with pytest.raises(gpc.InputError, match="the folder .*nowhere does not exist"):
            save(tmp_path / "nowhere" / name)
    assert {f.name: f.read_text() for f in tmp_path.iterdir()} == dict.fromkeys(saves, "before")


def test_a_compilation_refuses_what_it_cannot_take(tmp_path):
    file = tmp_path / "cart.json"
    cart().save(file)
    whole = file.read_bytes()
    for options, says in (
        ({"target": "0.5%"}, "target is '0.5%', want a number of percent"), ({"target": np.nan}, "target is nan"), ({"tail": "10 %"}, "tail is '10 %'"),
        ({"threads": -1}, "threads -1: want 0 or more"), ({"threads": "two"}, "options: threads is a string, want int"),
        ({"out": file}, "would overwrite the system"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            gpc.compile(file, **{"out": tmp_path / "cart.safetensors", **options})
    assert file.read_bytes() == whole


def test_a_plant_that_is_not_the_model(tmp_path):
    """Methods know the model, the reference and the oracle the plant; declared times make decisions late; every state is measured."""
    y = cart(constants={"of": "plants"})
    file = tmp_path / "cart.json"
    file.write_text(y.text())
    with gpc.nmpc(y, threads=1) as s:
        own, oracle = s.evaluate(episodes=3), s.evaluate("oracle", episodes=3, plant={"force": 0.7})
        other = s.evaluate(episodes=3, plant={"force": 0.7}, trace=str(tmp_path / "run.jsonl"))
        assert other["plant"]["shift"] == {"force": 0.7} and "plant" not in own
        assert other["regret_pct"] > own["regret_pct"] + 0.1 and abs(oracle["regret_pct"]) < 0.05
        same = s.evaluate(episodes=3, plant=file)
        assert same["plant"]["problem_sha256"] == own["problem_sha256"] and same["cost_mean"] == own["cost_mean"]
        assert s.evaluate(episodes=3, plant=y)["cost_mean"] == own["cost_mean"]
        late, always = s.evaluate(episodes=3, computing=(0.05, 0.4)), s.evaluate(episodes=1, computing=0.15)
        assert 0 < late["late"] < late["decisions"] and always["late"] == always["decisions"]
        assert s.evaluate(episodes=3, estimate=0.01, keep_off=2, delay=1)["cost_mean"] != own["cost_mean"]
        for wrong, says in (
            ({"plant": {"push": 2.0}}, "push"), ({"plant": {}}, "empty"), ({"plant": "boat"}, "plant: "), ({"steps": 30}, "end after 15"),
            ({"computing": (1, 2, 3)}, "3 times"), ({"computing": -1.0}, "computing"), ({"estimate": 0.0}, "estimate"), ({"keep_off": 3.0}, "Measurement"),
        ):
            with pytest.raises(gpc.InputError, match=says):
                s.evaluate(episodes=1, **wrong)
    with gpc.nmpc(cart("running", horizon=8), threads=1) as s:
        assert s.evaluate(episodes=1, steps=40)["decisions"] == 40


def test_loops_estimate(tmp_path):
    """A loop with an estimator is given what is measured, decides as `gpc serve` does to the bit, and says what it estimates."""
    file = tmp_path / "cart.json"
    file.write_text(cart().text())
    rng = np.random.default_rng(3)
    how = {"estimate": 0.02, "keep_off": 2.0, "estimate_window": 4}
    with gpc.open(file, method="nmpc", threads=1) as near, gpc.open(file, method="nmpc", threads=1, door="subprocess") as far:
        s, c = near.observe(episode=2)
        with near.loop(**how) as a, far.loop(**how) as b, near.loop() as plain:
            for k in range(5):
                y = s + rng.normal(0, [0.08, 0.04])
                if k == 3:
                    y[1] = np.nan
                one, two = a.decide(y, c), b.decide(y, c)
                assert (one.u == two.u).all() and (one.state == two.state).all() and (one.context == two.context).all()
                assert [gpc.loops.SENSOR_FAULTS[i] for i in one.sensors] == ["fine", "missing" if k == 3 else "fine"] and (one.sensors == two.sensors).all()
                s = np.array([s[0] + 0.1 * s[1] + 0.005 * one.u[0], s[1] + 0.1 * one.u[0]])
                c = np.array([c[0], one.u[0], c[2] + 1 / 15])
            for loop in (a, b):
                with pytest.raises(gpc.InputError, match="state"):
                    loop.decide([np.inf, 0.0], c)
            with pytest.raises(gpc.InputError, match=r"y, what is measured, has shape \(1,\), want \(2,\): x, v$"):
                a.decide([0.0], c)
            assert np.abs(one.state - s).max() < 0.3 and plain.decide(*near.observe(episode=2)).state.size == 0
        with pytest.raises(gpc.InputError, match="Measurement"):
            near.loop(keep_off=3)
        with pytest.raises(gpc.InputError, match="estimate is False"):
            near.loop(estimate=False, keep_off=3)
    with gpc.nmpc(cart(), uncertain_gains=0.2, estimate=0.01, threads=1) as s:
        state, context = s.observe(episode=1)
        known = s.decide(state, context)
        context[2] = np.nan
        with s.loop() as loop, s.loop() as other:
            d = loop.decide(state, context)
            assert d.state.shape == (2,) and 0.6 <= d.context[2] <= 1.4 and known.state.size == 0
            other.decide(state, context)
            other.executed(-d.u)
            assert (loop.decide(state, context).u != other.decide(state, context).u).any()


def test_a_served_loop_estimates(tmp_path):
    """Served loops have the estimator of their controller: they take y, and answer with what they estimate."""
    made = gpc.compile(
        cart(steps=6), tmp_path / "cart.safetensors", target=1000.0, tail=1e6, rounds=1, starts=4, test_starts=4, budget="1h", budget_cpu=True, threads=1, progress=False, estimate=0.01,
    )
    with made:
        assert made.report["clock"] == "cpu"
        state, context = made.observe(episode=1)
        with made.loop("", estimate_window=3) as loop, made.serve(estimate_window=3) as server:
            ask = urllib.request.Request(server.url + "/v1/decide", json.dumps({"y": state.tolist(), "c": context.tolist()}).encode())
            with urllib.request.urlopen(ask) as r:
                answer = json.load(r)
            d = loop.decide(state, context)
            assert answer["u"] == d.u.tolist() and answer["estimate"]["s"] == d.state.tolist()
        with made.loop(estimate=False) as informed:
            assert informed.decide(state, context).state.size == 0


def test_day_ahead():
    """A signal that is known ahead is numpy.interp of knots in the context."""
    y = gpc.System(
        "tank", "a tank", state={"level": "m"}, context={"low": "m", "mid": "m", "high": "m"}, action={"flow": ("m", -1, 1)},
        scenario={"level": (-1, 1), "low": (-1, 1), "mid": (-1, 1), "high": (-1, 1)}, steps=12, period=1.0,
    )
    y.step(lambda s, u: s.level + 0.5 * u.flow)
    y.objectives(away="m²", effort="m²")(
        lambda c, u, n: ((n.level - np.interp(c.clock, [0, 0.5, 1], [c.low, c.mid, c.high])) ** 2, 0.1 * u.flow**2)
    )
    rng = np.random.default_rng(1)
    s, c, u, n = rng.normal(size=(4, 1)), rng.normal(size=(4, 4)), rng.normal(size=(4, 1)), rng.normal(size=(4, 1))
    c[:, 3] = [-0.2, 0.3, 0.5, 0.9]
    for i in range(4):
        away = y.function("objectives")(s[i], c[i], u[i], n[i])[0]
        assert away == pytest.approx((n[i, 0] - np.interp(c[i, 3], [0, 0.5, 1], c[i, :3])) ** 2)
    with gpc.nmpc(y, threads=1) as session:
        assert session.evaluate(episodes=2)["failures"] == 0
    with pytest.raises(gpc.InputError, match="increasing"):
        y.objectives(away="m²")(lambda c, n: n.level - np.interp(c.clock, [0, 0], [c.low, c.mid]))
        y.text()


def battery(declared):
    """A battery that knows price and load of its day: by gpc.forecast, or by entries of the context."""
    knots = {"price": ("€/kWh", 0.08, 0.45), "load": ("kW", 0.3, 3.0)}
    entries = {f"{name}_{i}": form for name, form in knots.items() for i in range(5)}
    more = {"forecast": {name: gpc.forecast(unit, points=5, period=21600, range=(lo, hi)) for name, (unit, lo, hi) in knots.items()}} if declared else {"context": entries}
    y = gpc.System(
        "battery", state={"soc": ("kWh", 0, 10)}, action={"charge": ("kW", -4, 4)}, steps=24, period=3600, **more,
        scenario={"soc": (2, 8), **({} if declared else {k: v[1:] for k, v in entries.items()})},
    )

    def now(c, name):
        return c[name] if declared else np.interp(c.clock, np.linspace(0, 1, 5), [c[f"{name}_{i}"] for i in range(5)])

    y.step(lambda s, u: s.soc + u.charge)
    y.objectives(money="€", wear="€")(lambda c, u: (now(c, "price") * (u.charge + now(c, "load")), 0.02 * u.charge**2))
    y.margins(empty="kWh", full="kWh", fuse="kW")(lambda c, u, n: (n.soc - 0.5, 9.5 - n.soc, 8 - now(c, "load") - u.charge))
    return y


def test_forecast():
    """A declared signal is what its knots in the context are, to the byte, and has its points by its name."""
    y, plain = battery(True), battery(False)
    assert y.text() == plain.text()
    with gpc.nmpc(y, threads=1) as a, gpc.nmpc(plain, threads=1) as b:
        s, c = a.observe(3)
        assert np.array_equal(a.decide(s, c).u, b.decide(s, c).u)
        assert np.array_equal(a.context({"load": c[5:10]}, price=c[:5]), c)
        assert a.context(price=c[:5], load=c[5:10], clock=0.5)[-1] == 0.5 and a.context(price=c[:5], load=c[5:10], load_2=9)[7] == 9
        for given, match in (({"price": c[:4], "load": c[5:10]}, r"price has shape \(4,\), want \(5,\)"), ({"price": c[:5]}, "'load_0' of the context is not said"),
                             ({"prize": 1}, "has no 'prize'"), ({"price_0": [1, 2]}, "price_0 has shape .* want a number")):
            with pytest.raises(gpc.InputError, match=match):
                a.context(**given)


@pytest.mark.parametrize("every", [900.0, 450.0, 1000.0, 3600.0])
def test_forecast_of_a_plant_that_runs_on(every):
    """Each stage of a plan has the price of its own time; the plan is that by knots that stay and a time that passes."""
    points, step, price = 8, 900.0, np.array([0.2, 0.2, 0.2, 0.5, 0.5, 0.2, 0.2, 0.3])

    def store(declared):
        knots = [f"price_{i}" for i in range(points)]
        more = {"forecast": {"price": gpc.forecast("€/kWh", points=points, period=every)}} if declared else {"context": {**dict.fromkeys(knots, "€/kWh"), "since": "s"}}
        y = gpc.System("store", state={"t": ("K", -3, 3)}, action={"power": ("kW", 0, 2)}, steps=48, period=step, horizon=24, rest=[1.0], **more,
                       scenario={"t": (-1, 1), **({"price": (0.1, 0.5)} if declared else dict.fromkeys(knots, (0.1, 0.5)))})
        y.step(lambda s, u: s.t + 0.25 * (1 - u.power))
        cost = (lambda c: c.price) if declared else lambda c: np.interp(c.since, every * np.arange(points), [c[k] for k in knots])
        if not declared:
            y.memory(lambda c: {"since": np.minimum(c.since + step, every * (points - 1))})
        y.objectives(money="€", comfort="K²")(lambda c, u, n: (cost(c) * u.power, 0.01 * n.t**2 + 0.02 * (u.power - 1) ** 2))
        y.margins(warm="K", cold="K")(lambda n: (2 - n.t, 2 + n.t))
        return y

    y = store(True)
    with gpc.nmpc(y, threads=1) as a, gpc.nmpc(store(False), threads=1) as b:
        c = a.context(price=price)
        assert len(c) == points + (every > step)
        for s in (-1.0, 0.0, 1.0):
            assert a.decide([s], c, [0.5, 0.5]).u == pytest.approx(b.decide([s], [*price, 0], [0.5, 0.5]).u, abs=1e-9)
        ahead, flat = a.decide([0], c, [0.5, 0.5]).u[0], a.decide([0], a.context(price=np.full(points, 0.2)), [0.5, 0.5]).u[0]
        assert ahead > flat + 0.1, "cools before the price rises"
    costs, move = [], y.function("step")
    for _ in range(40):
        costs.append(y.function("objectives")([0], c, [1], [0])[0])
        c = move([0], c, [1])[1:]
    assert costs == pytest.approx(np.interp(step * np.arange(40), every * np.arange(points), price), abs=1e-12)


@pytest.mark.parametrize("forecast, more, match", [
    (3, {}, "forecast is 3, want names"), ({"price": 9}, {}, r"forecast\['price'\] is 9, want gpc.forecast"), ({"price": (1, 60)}, {}, "points is 1"), ({"price": (10**6, 60)}, {}, "points is 1000000, want a number of points, 2 to 1000"),
    ({"price": (3, 0)}, {}, "period is 0"), ({"price": (3, 60)}, {}, "has no range"), ({"x": (3, 60)}, {}, "forecast\\['x'\\] has 'x', which is an entry"),
    ({"price": (3, 60)}, {"scenario": {"x": (-1, 1), "price": [(0, 1)] * 2}}, "want \\(lo, hi\\) of every point, or a list of 3"),
    ({"price": gpc.forecast(points=3, period=60, range=(0, 1))}, {"scenario": {"x": (-1, 1), "price": (0, 1)}}, "leave one of them out"),
    ({"price": gpc.forecast(points=3, period=0.07, range=(0, 1))}, {"horizon": 5}, "want a whole number of them in the period of 0.1 s"),
])
def test_forecasts_that_are_refused(forecast, more, match):
    with pytest.raises(gpc.InputError, match=match):
        cart(forecast=forecast, **more).text()


def test_forecast_by_initial():
    y = cart(forecast={"price": (3, 1.0)}, scenario={"x": (-1, 1), "low": (1, 2)})
    y.initial(lambda p: {"price": [p.low, 2 * p.low, p.low]})
    y.objectives(money="1")(lambda c, u: c.price * u.force**2)
    assert y.function("initial")([0.5, 1.5]).tolist() == [0.5, 0, 0, 0, 1.5, 3, 1.5, 0]
    assert y.function("objectives")([0, 0], [0, 0, 1.5, 3, 1.5, 0.5], [1], [0, 0]) == pytest.approx([1.5 + 1.5 * 0.75])


def test_uncertain_gains():
    """The gain of an actuator is an entry of the context, which evaluate estimates: that needs something that is measured."""
    with gpc.nmpc(cart(), uncertain_gains=0.2, estimate=0.01, threads=1) as s:
        assert s.spec.name == "cart-gains" and [v.name for v in s.spec.context] == ["goal", "before", "gain of force", "clock"]
        report = s.evaluate(episodes=2)
        assert report["case"] == "cart-gains" and report["failures"] == 0
        _, c = s.observe(episode=1)
        assert 0.8 <= c[2] <= 1.2 and c[2] != 1
    with gpc.nmpc(cart(), uncertain_gains=0.2, threads=1) as s:
        with pytest.raises(gpc.InputError, match="estimate"):
            s.evaluate(episodes=1)
        assert s.evaluate(episodes=1, estimate=0.01)["episodes"] == 1
    with pytest.raises(gpc.InputError, match="below 1"):
        gpc.nmpc(cart(), uncertain_gains=1.0)


def test_a_map_of_uncertain_gains(tmp_path):
    """A controller compiled over uncertain gains is opened with them again, and by no session without."""
    file = tmp_path / "cart.safetensors"
    made = gpc.compile(
        cart(steps=6), file, target=1000.0, tail=1e6, rounds=1, starts=4, test_starts=4, budget="1h", threads=1, progress=False,
        uncertain_gains=0.1, estimate=0.01, plant={"force": 0.95},
    )
    with made:
        assert made.report["measured"] and "force=0.95" in made.report["plant"] and made.evaluate(episodes=1)["case"] == "cart-gains"
    with gpc.open(cart(steps=6), file, uncertain_gains=0.1, threads=1) as s:
        assert s.spec.latent == 4
    with pytest.raises(gpc.InputError):
        gpc.open(cart(steps=6), file, threads=1)


def windy():
    """A cart that is wanted at a wall, and a wind that nobody knows."""
    y = gpc.System("windy", state={"x": ("m", -1, 1), "v": ("m/s", -1, 1)}, action={"force": ("N", -2, 2)}, context={"wind": ("N", -0.2, 0.2)},
                   scenario={"x": (-0.8, -0.3), "wind": (-0.2, 0.2)}, steps=30, period=0.1)
    y.ode()(lambda s, u, c: (s.v, u.force + c.wind))
    y.objectives(position="m²", effort="N²")(lambda u, n: ((n.x - 0.5) ** 2 + 0.1 * n.v**2, 0.01 * u.force**2))
    y.margins(wall="m")(lambda n: 0.5 - n.x - 0.6 * n.v)
    return y


def test_what_is_measured():
    y = windy()
    plain = y.identity()["problem_sha256"]
    y.measured({"x": 0.01}, process={"v": 0.003}, unknown={"wind": 0.12})
    d = y.document()
    assert d["measurement"] == {"outputs": [{"name": "x", "unit": "m"}], "deviation": [0.01], "process": [0, 0.003], "unknown": [{"context": "wind", "deviation": 0.12}]}
    assert y.identity()["problem_sha256"] == plain  # its maps are those of the system without
    with gpc.nmpc(y) as s:
        kept = s.evaluate("nmpc", episodes=8, seed=5, keep_off=4, progress=False)
        bare = s.evaluate("nmpc", episodes=8, seed=5, progress=False)
        assert kept["safe"] > bare["safe"]
        with s.loop() as loop, s.loops(2) as loops:
            one = loop.decide([-0.5], [np.nan, 0])
            assert one.state.shape == (2,) and one.context.shape == (2,) and one.sensors.tolist() == [0] and abs(one.state[0] + 0.5) < 0.01
            assert np.array_equal(loops.decide([[-0.5]] * 2, [[np.nan, 0]] * 2).state, [one.state] * 2)
            with pytest.raises(gpc.InputError, match=r"y, what is measured, has shape \(2,\), want \(1,\): x$"):
                loop.decide([-0.5, 0], [np.nan, 0])
            with pytest.raises(gpc.InputError, match=r"context has shape \(1,\), want \(2,\): wind, clock$"):
                loop.decide([-0.5], [np.nan])
        with pytest.raises(gpc.InputError, match=r"state has shape \(1,\), want \(2,\): x, v; x is measured, which a loop is given$"):
            s.decide([-0.5], [0, 0])
    within = windy()
    within.measured({"x": 0.02}, process={"v": 0.006}, unknown={"wind": 0.2}, bounded=True)
    assert within.document()["measurement"]["bounded"] is True
    with gpc.nmpc(within) as s:
        assert s.evaluate("nmpc", episodes=8, seed=5, keep_off=1, progress=False)["safe"] == 1
    of = windy()
    of.measured({"sine": ("1", 0.02)}, unknown={"wind": {"deviation": 0.1, "drift": 0.01}}, window=5)(lambda s: np.sin(s.x))
    assert of.document()["measurement"]["window"] == 5
    np.testing.assert_allclose(of.function("outputs")([0.3, 0], [0, 0], [0]), [np.sin(0.3)])
    with gpc.nmpc(of) as s, s.loop() as loop:
        assert abs(loop.decide([np.sin(-0.5)], [np.nan, 0]).state[0] + 0.5) < 0.02


@pytest.mark.parametrize(("given", "named"), [
    ({"outputs": {"x": 0}}, r"measured\['x'\] is 0, want a standard deviation"), ({"outputs": {"x": (-1, 1)}}, "want a standard deviation"),
    ({"outputs": {"y": 0.1}}, r"measured\['y'\] is not a state \(x, v\)"), ({"outputs": {"x": 0.1}, "process": {"w": 1}}, r"process\['w'\] is no entry of the state"),
    ({"outputs": {"x": 0.1}, "unknown": {"v": 1}}, r"unknown\['v'\] is no entry of the context: wind"), ({"outputs": {}}, "want outputs by name"),
    ({"outputs": {"x": 0.1}, "window": -1}, "a window of -1 decisions"), ({"outputs": {"x": 0.1}, "window": 5, "bounded": True}, "Bounded with a window of 5"),
])
def test_what_cannot_be_measured_is_refused(given, named):
    y = windy()
    with pytest.raises(gpc.InputError, match=named):
        y.measured(**given)
        y.text()


def test_soft_limits_and_rates():
    y = cart("slow", soft={"right": {"linear": 2, "quadratic": 3, "priority": 1}}, rates={"force": 0.5})
    assert json.loads(y.text())["soft"] == [{"margin": "right", "linear": 2, "quadratic": 3, "priority": 1}] and json.loads(y.text())["rates"] == [0.5]
    with gpc.open(y, method="nmpc", threads=1) as s:
        assert [v.name for v in s.spec.context] == ["goal", "before", "clock", "last force"]
        r = s.evaluate(episodes=3, method="nmpc")
        assert r["safe"] == 1 and [v["limit"] for v in r["soft"]] == ["right"]
        d = s.drive(0, method="nmpc")
        assert np.abs(np.diff(d["u"][:, 0], prepend=0)).max() <= 0.5 + 1e-6 and np.array_equal(d["c"][1:, 3], d["u"][:-1, 0])
    short = cart("slow", soft={"right": 2}, rates={"force": 0.5})
    assert short.identity() != cart("slow", soft={"right": (2, 1)}, rates={"force": 0.5}).identity()
    for more, says in (
        ({"soft": {"up": 1}}, "soft\\['up'\\] is none of the margins: left, right"), ({"soft": {"left": "dear"}}, "want a price"),
        ({"soft": {"left": {"cost": 1}}}, "'cost', want linear"), ({"soft": {"left": -1}}, "has the prices -1 and 0"),
        ({"rates": {"push": 1}}, "rates\\['push'\\] is no action: force"), ({"rates": {"force": 0}}, "above 0"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            cart("slow", **more).text()


def test_blocks_hold_the_actions_of_a_plan():
    y = cart("slow", blocks=(1, 2, 4))
    assert json.loads(y.text())["blocks"] == [1, 2, 4] and y.identity()["problem_sha256"] != cart("slow").identity()["problem_sha256"]
    with gpc.open(y, method="nmpc", threads=1) as s:
        assert s.evaluate(episodes=3, method="nmpc")["safe"] == 1
    for blocks, says in (((1, 0), "blocks\\[1\\] is 0, want a number of periods"), ((1.5,), "blocks\\[0\\] is 1.5"), ((), "blocks is empty")):
        with pytest.raises(gpc.InputError, match=says):
            cart("slow", blocks=blocks)


def test_an_unknown_case_names_the_doors_of_one_s_own():
    with pytest.raises(gpc.InputError, match=r'its file, which ends in \.json, or by the program of its module \(in Python: door="subprocess", program=FILE\)'):
        gpc.open("insulin")


def lagged(rate, *a, **k):
    """A cart whose force follows the requested one at so many 1/s, at a period of 0.1 s."""
    y = gpc.System("lagged", "a slow force", state={"x": ("m", -2, 2), "v": ("m/s", -3, 3), "f": ("N", -5, 5)}, action={"force": ("N", -5, 5)},
                   scenario={"x": (-1, 1), "v": (-0.5, 0.5)}, steps=10, period=0.1)
    y.ode(*a, **k)(lambda s, u: (s.v, s.f, rate * (u.force - s.f)))
    y.objectives(position="m²", effort="N²")(lambda u, n: (n.x**2 + 0.1 * n.v**2, 0.01 * u.force**2))
    return y


def test_the_integrator_is_checked(tmp_path):
    with pytest.raises(gpc.InputError, match=r"off by .* of the scale of f, and unstable: .* give ode substeps=8 or stiff=True with substeps=2 [^A-Z]*$"):
        lagged(80).text()
    with pytest.warns(UserWarning, match="lagged: one step of the integrator .substeps=1. is off by .* of the scale of f") as seen:
        lagged(12).text()
    assert seen[0].filename == __file__
    chosen = {error: json.loads(lagged(80, "auto", error=error).text())["integrator"] for error in (0.05, 1e-3)}
    assert [chosen[e]["substeps"] for e in chosen] == [4, 8] and all("error" not in c for c in chosen.values())
    for wrong in ({"error": 0.1}, {"substeps": "auto", "error": -1}, {"substeps": "few"}):
        with pytest.raises(gpc.InputError, match="auto|substeps"):
            lagged(1, **wrong).text()
    file = tmp_path / "lagged.json"
    with pytest.warns(UserWarning, match="scale of f"):
        lagged(12).save(file)
    with pytest.warns(UserWarning, match="scale of f"), gpc.nmpc(file, threads=1) as exact:
        run = exact.evaluate(episodes=2, seed=9001)
    assert run["integration"]["episodes"] == 2 and 0 < abs(run["integration"]["cost_pct"]) < 10 and "integration" in repr(run)


def test_a_steady_state_outside_a_range_is_said(tmp_path):
    y = gpc.System("tank", "rests where its level costs least", state={"h": ("m", 0.5, 2)}, action={"u": ("m/s", -1, 1)}, scenario={"h": (0.6, 1.5)}, steps=10, period=0.2, horizon=6)
    y.ode()(lambda u: (u.u,))
    y.objectives(level="m²", effort="m²/s²")(lambda u, n: (n.h**2, 0.1 * u.u**2))
    file, says = tmp_path / "tank.json", "steady state lies outside a declared range in 8 of 8 episodes .h at .* m, of a range of 0.5 to 2"
    with pytest.warns(UserWarning, match=says):
        y.save(file)
    assert y.check()[-1]["message"].endswith("does a margin lack?")
    with pytest.warns(UserWarning, match=says), gpc.nmpc(file, threads=1) as exact:
        assert "2 of 2 episodes (h at" in exact.evaluate(episodes=2, seed=1)["steady_state_outside"]


def test_plans_into_a_forecast_have_a_terminal_cost_or_it_is_said():
    """What a store holds at a plan's end is worth something: points farther apart than decisions had no terminal cost, without a word."""
    def store(horizon):
        y = gpc.System("store", state={"e": ("MWh", 0, 10)}, action={"buy": ("MW", 0, 4)}, scenario={"e": (2, 8)}, steps=12, period=3600, horizon=horizon, rest=[1.0],
                       forecast={"price": gpc.forecast("€/MWh", points=4, period=4 * 3600, range=(0.1, 0.7))})
        y.ode(span=1.0)(lambda s, u: u.buy - 1 - 0.01 * s.e)
        y.objectives(cost="€")(lambda s, c, u, n: 2 + c.price * u.buy + 0.02 * u.buy**2 + 0.01 * (n.e - 5) ** 2)
        y.margins(full="MWh", empty="MWh")(lambda n: (9.5 - n.e, n.e - 0.5))
        return y

    assert not [f for f in store(12).check() if "terminal" in f["message"]]
    with gpc.nmpc(store(12), threads=1) as short, gpc.nmpc(store(60), threads=1) as long:
        for e in (2.0, 8.0):
            c = short.context(price=[0.2, 0.6, 0.3, 0.4])
            assert short.decide([e], c).u == pytest.approx(long.decide([e], c).u, abs=5e-3)
    with pytest.warns(UserWarning, match="no steady state is found for the end of a plan in 8 of 8 episodes .price_age of the context changes"), gpc.nmpc(store(8), threads=1) as blind:
        assert "no terminal cost" in blind.evaluate(episodes=2, progress=False)["steady_state_outside"]


def test_a_budget_and_a_target_of_nothing_are_refused(tmp_path):
    for given in ({"budget": "0s"}, {"target": 0}, {"tail": -1}):
        with pytest.raises(gpc.InputError, match="above 0"):
            gpc.compile(cart(), tmp_path / "cart.safetensors", **given)


def test_knots_at_the_start_are_taken():
    knots = [f"p{i}" for i in range(7)]
    y = gpc.System("battery", "a store", state={"soc": ("kWh", 0, 10)}, context={k: "1" for k in knots}, action={"u": ("kW", -4, 4)},
                   scenario={"soc": (2, 8), **{k: (20, 300) for k in knots}}, steps=48, period=1800)
    y.ode(span=0.5)(lambda s, u: (u.u,))
    y.objectives(money="1", effort="N²")(lambda c, u: (np.interp(c.clock, np.linspace(0, 1, 7), [c[k] for k in knots]) * (5 + u.u), u.u**2))
    y.text()


def spoilt(objectives=None, margins=None, **more):
    """The cart with other functions."""
    y = cart("spoilt", **{"steps": 8, **more})
    if objectives:
        y.objectives(position="m²", effort="N²")(objectives)
    if margins:
        y.margins(left="m", right="m")(margins)
    return y


def test_a_system_is_checked():
    assert not [f for f in cart().check() if f["severity"] != "hint"]
    for y, severity, of, says in (
        (spoilt(scenario={"x": (5, 6), "v": (-0.5, 0.5), "goal": (-1, 1)}), "error", "margin right", "at 32 of 32 starts no action keeps the limits"),
        (spoilt(margins=lambda n: (n.x - 3, 2 - n.x)), "error", "margin left", "at 32 of 32 starts no action keeps the limits"),
        (spoilt(margins=lambda n: (n.x - 2, n.x - 2)), "error", "margin left", "margin left in 32 of them, down to -2"),
        (spoilt(margins=lambda n: (n.x - 0.5, 0.5 - n.x)), "error", "margin left", "at 32 of 32 starts"),
        (spoilt(lambda c: (c.goal**2, 1.0)), "error", "", "no objective depends on the action"),
        (spoilt(lambda n, u: (-10 - n.x, u.force**2)), "remark", "objective position", "is negative at 40 of 40 states"),
        (spoilt(scenario={"x": (-1000, 1000), "v": (-0.5, 0.5), "goal": (-1, 1)}), "remark", "state x", "has the range [-2, 2] m and is about"),
        (spoilt(lambda c, u, n: (np.floor(4 * (n.x - c.goal)) ** 2, 0.01 * u.force**2)), "remark", "objective position", "jumps at the state"),
        (spoilt(rest=[5]), "hint", "state v", "the action at rest, [5]"),
    ):
        found = y.check()
        matching = [f for f in found if f["severity"] == severity and f["of"] == of and says in f["message"] and f["fix"]]
        assert len(matching) == 1, found
        name = {"margins": "margins", "objectives": "objectives", "step": "ode"}.get(matching[0]["function"])
        assert matching[0]["where"] == (f"{__file__}:{y._functions[name].__code__.co_firstlineno}: " if name else "")
        assert says in repr(found) and bool(found.errors) == (severity == "error" or of == "state x") and found._repr_html_().count("<tr>") == len(found) + 1


def test_optima_lie_in_corners():
    for cost in (
        lambda c, u, n: np.abs(n.x - c.goal) + 0.05 * np.abs(u.force),
        lambda c, u, n: np.maximum(0, np.abs(n.x - c.goal) - 0.1) + 0.1 * np.abs(n.v) + 0.01 * u.force**2,
        lambda c, u, n: (n.x - c.goal) ** 2 + np.where(u.force > 0, 0.3, 0.1) * u.force + 1,
        lambda c, u, n: np.hypot(n.x - c.goal, 0.3 * n.v) + 0.01 * u.force**2,
    ):
        y = cart("corners", steps=20)
        y.objectives(position="1", effort="1")(lambda c, u, n, cost=cost: (cost(c, u, n), 1e-3 * u.force**2))
        assert not [f for f in y.check() if f["severity"] != "hint"]
        with gpc.nmpc(y, threads=1) as exact:
            run = exact.evaluate(episodes=5, progress=False)
        assert run["safe"] == 1 and run["regret_n"] == 5 and abs(run["regret"]["mean_pct"]) < 0.05


def test_compile_and_nmpc_check_first(tmp_path):
    wrong, file = spoilt(margins=lambda n: (n.x - 2, n.x - 2)), tmp_path / "wrong.safetensors"
    line = wrong._functions["margins"].__code__.co_firstlineno
    with pytest.raises(gpc.InputError, match=rf"test_system.py:{line}: error: at 32 of 32 starts no action keeps the limits.*what would help: margins that are ≥ 0"):
        gpc.compile(wrong, file)
    assert not (tmp_path / "wrong.safetensors.compile").exists()
    with pytest.warns(UserWarning, match=f"spoilt: .*:{line}: error: at 32 of 32 starts") as seen, gpc.nmpc(wrong, threads=1) as exact:
        run = exact.evaluate(episodes=2)
        assert exact.evaluate(episodes=1)["safe"] == 0
    assert len(seen) == 1 and seen[0].filename == __file__
    missing = run["no_reference"][0]
    assert missing["episodes"] == 2 and missing["reason"] == "no plan keeps the limits" and len(missing["start"]) == 2 and run["findings"][0]["severity"] == "error"
    assert "in 2 of 2 episodes: no plan keeps the limits, first in episode 0 from [" in repr(run) and "no episode is safe and has a reference" in repr(run)
    with pytest.warns(UserWarning, match="jumps") as seen, gpc.open(spoilt(lambda c, u, n: (np.floor(4 * (n.x - c.goal)) ** 2, u.force**2)), method="hold", threads=1) as held:
        held.evaluate(episodes=1)
        held.evaluate(episodes=1)
    assert len(seen) == 1


def test_regret_says_of_which_episodes_it_is():
    with gpc.nmpc(spoilt(lambda n, u: (-n.x, u.force**2)), threads=1) as exact:
        run = exact.evaluate(episodes=8, seed=5)
    below = [m for m in run["no_reference"] if m["reason"].startswith("the optimum does not cost more than nothing")]
    assert 0 < run["regret"]["n"] < 8 and below[0]["episodes"] + run["regret"]["n"] == 8
    assert f"over {run['regret']['n']} of 8 episodes" in repr(run) and "it costs -" in repr(run)


def test_a_pickled_system_is_its_file(tmp_path):
    y = cart()
    copied, there = copy.deepcopy(y), pickle.loads(pickle.dumps(y))
    assert there.text() == copied.text() == y.text() and repr(there) == repr(y)
    assert there.identity() == y.identity()
    assert copied.function("ode")([1, 2], [0, 0, 0], [3]).tolist() == [2, 3]
    with gpc.nmpc(there, threads=1) as s, gpc.nmpc(y, threads=1) as own:
        assert s.loop().decide(*s.observe(3)).u == own.loop().decide(*own.observe(3)).u
    with pytest.raises(gpc.InputError, match="stay in the process"):
        there.function("ode")
    text, shallow = y.text(), copy.copy(y)
    shallow.margins(wall="m")(lambda n: 2 - n.x)  # of the copy alone
    assert shallow.text() != text and y.text() == text == copy.deepcopy(y).text()
    with pytest.raises(gpc.InputError, match="steps of a system is said where it is made"):
        y.steps = 30
    with pytest.raises(gpc.InputError, match="no functions yet|objectives"):
        pickle.dumps(gpc.System("empty", state={"x": "m"}, action={"u": ("N", -1, 1)}, scenario={"x": (-1, 1)}, steps=3, period=1.0))


def test_what_loops_and_exceptions_are_called():
    with gpc.nmpc(cart(), threads=1) as s:
        loop, loops = s.loop(), s.loops(3, "nmpc")
        assert repr(loop) == "<gpc.Loop 'cart' by its default method>" and repr(loops) == "<gpc.Loops 'cart' by nmpc: 3 loops>"
        loop.close()
        assert repr(loop) == "<gpc.Loop 'cart' by its default method, closed>"
    assert f"{gpc.InputError}" == "<class 'gpc.InputError'>" and f"{gpc.Error}" == "<class 'gpc.Error'>"


def test_a_session_keeps_what_it_was_opened_with(tmp_path):
    """Loops, evaluations and exports keep off the limits what compile, open or nmpc were given, and take states where these are offered."""
    y = windy()
    y.measured({"x": 0.01}, process={"v": 0.003}, unknown={"wind": 0.12})
    near = [0.3], [np.nan, 0.9]
    with gpc.nmpc(y, keep_off=4, delay=1) as kept:
        assert np.isnan(kept.context()[0]) and kept.context(wind=0.1)[0] == 0.1
        with kept.loop() as own, kept.loop(keep_off=4) as said, kept.loop(keep_off=0) as bare, kept.loop(estimate=False) as informed:
            u = own.decide(*near).u
            assert (said.decide(*near).u == u).all() and (bare.decide(*near).u != u).any()
            d = informed.decide([0.3, 0.0], [0.1, 0.9])
            assert d.state.size == 0 and (kept.decide([0.3, 0.0], [0.1, 0.9]).u == d.u).all()
        run = kept.evaluate(episodes=2, progress=False)
        assert (run["kept_off"], run["delay"]) == (4, 1) and "kept_off" not in kept.evaluate(episodes=1, keep_off=0, progress=False)
    with pytest.raises(gpc.InputError, match="keep_off, delay"):
        gpc.open("cartpole", door="subprocess", keep_off=3)
    few = {"rounds": 1, "scenarios": 20, "starts": 20, "test_starts": 20, "target": 50, "tail": 1000}
    with gpc.compile(y, tmp_path / "windy.safetensors", keep_off=4, budget="20s", budget_cpu=True, progress=False, **few) as controller:
        assert "4 deviations kept off" in repr(controller.report) and controller.evaluate(episodes=1, progress=False)["kept_off"] == 4
        controller.export_c(tmp_path / "kept", episodes=1)
        controller.export_c(tmp_path / "bare", episodes=1, keep_off=0)
        of = [(tmp_path / d / "gpc_windy_measured.h").read_text() for d in ("kept", "bare")]
        assert "kept" in of[0] and "kept" not in of[1]


def test_the_margin_of_a_switched_decision_is_of_its_limits():
    y = gpc.System("pump", state={"level": "m"}, action={"pump": gpc.on_off(least=2)}, scenario={"level": (0.8, 1.2)}, steps=8, period=1)
    y.step(lambda s, u: s.level + 0.2 * u.pump - 0.1)
    y.objectives(level="m²", energy="1")(lambda u, n: ((n.level - 1) ** 2, 0.1 * u.pump))
    y.margins(full="m", dry="m")(lambda n: (2 - n.level, n.level))
    with gpc.open(y, method="search-64", threads=1) as s:
        d = s.decide([1.0], s.context())
        assert d.margin == min(d.margins[:2]) > 0 and d.feasible
