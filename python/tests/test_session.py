"""What a session decides, refines, evaluates and computes, beside the command line."""

import json
import threading

import numpy as np
import pytest

import gpc
from gpc.session import _spec as spec_of


def test_cases_are_those_of_the_command_line(command):
    code, out, _ = command("cases", "--json")
    assert code == 0
    assert gpc.cases() == json.loads(out)["cases"]


def test_methods_are_those_of_the_command_line(command, opf):
    code, out, _ = command("methods", "opf30", "--json")
    assert code == 0
    assert opf.methods() == json.loads(out)["methods"]
    assert opf.spec == spec_of(json.loads(out)["spec"])


def test_the_spec_says_names_units_and_bounds(opf):
    listed = next(c for c in gpc.cases() if c["name"] == "opf30")
    spec = opf.spec
    assert [f"{v.name} {v.unit}" for v in spec.state] == listed["state"]
    assert [f"{v.name} {v.unit}" for v in spec.context] == listed["context"]
    assert [f"{v.name} {v.unit}" for v in spec.action] == listed["action"]
    assert spec.latent == listed["nz"] and spec.steps == listed["steps"] and spec.step_s == listed["step_s"]
    lo, hi = spec.bounds
    assert lo.shape == hi.shape == (len(spec.action),) and (lo < hi).all()
    assert opf.map_spec == spec


def test_names_of_fallbacks_are_the_library_s(opf):
    from gpc._lib import ask, lib

    assert tuple(ask(lib.gpc_spec, opf.handle)["fallbacks"]) == gpc.FALLBACKS


def test_refine_is_the_command_line_s_to_the_bit(command, cart, opf):
    for s in (cart, opf):
        state, context = s.observe(3)
        for preference in (None, [1.0] + [0.0] * (len(s.spec.objectives) - 1)):
            args = [] if preference is None else ["--preference", ",".join(map(str, preference))]
            stdin = json.dumps({"s": state.tolist(), "c": context.tolist()})
            code, out, err = command("refine", s.spec.name, "--json", "--threads", "1", "--candidates", "512", "--seed", "5", *args, stdin=stdin)
            assert code in (0, 1), err
            wanted, got = json.loads(out), s.refine(state, context, preference, candidates=512, seed=5)
            assert wanted.pop("latency_us").keys() == got.pop("latency_us").keys()
            assert got == wanted


def test_a_front_is_the_command_line_s_and_of_single_decisions(command, cart, opf):
    for s in (cart, opf):
        state, context = s.observe(2, seed=5)
        code, out, err = command("front", s.spec.name, "--json", "--points", "60", "--episode", "2", "--seed", "5")
        assert code == 0, err
        front, wanted = s.front(state, context, points=60), json.loads(out)
        assert {k: wanted[k] for k in front} == front
        assert (front.w.shape, front.u.shape, front.j.shape) == tuple((len(front["points"]), n) for n in (len(s.spec.objectives), len(s.spec.action), len(s.spec.objectives)))
        with s.loop("direct") as loop:
            for k in (0, len(front["points"]) // 2, -1):
                np.testing.assert_array_equal(loop.decide(state, context, front.w[k], fresh=True).u, front.u[k])
        some = s.front(state, context, weights=front.w[[3, 1]])
        np.testing.assert_array_equal(some.u, front.u[[3, 1]])
        bounds = np.array(front["nadir"])
        k = front.within(bounds)
        assert k == front["knee"] and front.feasible[k] and not front.dominated[k] and front.within(np.array(front["ideal"]) - 1) is None
    for wrong, says in (({"weights": [1, 0]}, r"weights have shape \(2,\), want \(n, 2\)"), ({"weights": np.zeros((0, 2))}, r"shape \(0, 2\)"), ({"weights": [[1, 1]]}, "weights sum to 2"), ({"points": 0}, "0 points, want 1 or more"), ({"look_ahead": -1}, "look-ahead -1")):
        with pytest.raises(gpc.InputError, match=says):
            cart.front(*cart.observe(), **wrong)


def test_an_exact_front_is_below_the_map_s(opf):
    with gpc.open("cartpole") as s:
        state, context = s.observe(2, seed=5)
        exact = s.front(state, context, points=20, exact=True)
        own = s.front(state, context, weights=exact.w)
    assert exact.feasible.all() and len(exact.w) == 20
    assert ((exact.w * exact.j).sum(axis=1) <= (exact.w * own.j).sum(axis=1) * (1 + 1e-9)).all()
    state, context = opf.observe(2, seed=5)
    assert opf.front(state, context, points=6, exact=True).j.shape == (6, 3)  # of three objectives, by what mo-opf decides
    with gpc.open("water-tower", method="search-64") as s:
        state, context = s.observe(2, seed=5)
        exact = s.front(state, context, points=2, exact=True)
        own = s.front(state, context, weights=exact.w)
        assert len(s.front(state, context)["points"]) == 50
    assert ((exact.w * exact.j).sum(axis=1) <= (exact.w * own.j).sum(axis=1) * (1 + 1e-9)).all()


def test_a_loop_reaches_goals(cart):
    names = [v.name for v in cart.spec.objectives]
    state, context = cart.observe(1, seed=9001)
    front = cart.front(state, context, points=200)
    bound = 0.7 * front["ideal"][1] + 0.3 * front["nadir"][1]
    goal, k = {names[1]: f"<= {bound!r}"}, front.within([np.inf, bound])
    with cart.loop("direct") as loop, gpc.open(cart.spec.name, door="subprocess") as door, door.loop("direct") as other:
        decided = loop.decide(state, context, goal, fresh=True)
        np.testing.assert_allclose(decided.sigma, front.w[k], atol=0.02)
        np.testing.assert_array_equal(other.decide(state, context, goal, fresh=True).u, decided.u)
        steered = loop.decide(state, context, np.array([0.5, 0.5]), fresh=True)
        np.testing.assert_array_equal(steered.sigma, [0.5, 0.5])
        assert loop.decide(state, context, [names[0]], fresh=True).sigma[0] > decided.sigma[0]
        np.testing.assert_array_equal(loop.decide(state, context, fresh=True).u, cart.loop("direct").decide(state, context).u)
        for wrong, says in (({}, "goal is empty"), ({"comfort": "<= 1"}, f"no objective of case {cart.spec.name}"), ({names[0]: 3}, "bounds as"), ({names[0]: "< 3"}, "without a unit"), ({names[0]: "<= inf"}, "finite"), ([names[0], names[0]], f"names {names[0]} twice")):
            with pytest.raises(gpc.InputError, match=says):
                loop.decide(state, context, wrong)
    with cart.loop("nmpc") as loop, pytest.raises(gpc.InputError, match="by weights or the adaptive priority alone"):
        loop.decide(state, context, goal)


def test_evaluate_is_the_command_line_s(command, opf):
    code, out, err = command("eval", "opf30", "--method", "direct", "--episodes", "1", "--seed", "991", "--json")
    assert code == 0, err
    wanted, calls = json.loads(out), []
    got = opf.evaluate("direct", episodes=1, seed=991, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (1, 1)
    assert got.keys() == wanted.keys()
    for key in ("case", "method", "seed", "episodes", "safe", "regret_pct", "cost_mean", "margin_min", "decisions", "fallback"):
        assert got[key] == wanted[key], key


def test_loops_decide_as_each_alone(opf):
    n = 7
    observed = [opf.observe(i) for i in range(n)]
    state, context = (np.array(v) for v in zip(*observed))
    weights = np.tile([0.2, 0.3, 0.5], (n, 1))
    out, record = np.empty((n, len(opf.spec.action))), np.empty((n, len(opf.spec.objectives) + len(opf.spec.margins) + 8))
    with opf.loops(n, "direct") as loops:
        for preference in (None, weights):
            loops.reset()
            d = loops.decide(state, context, preference, out=out, record=record)
            assert d.u is out and d.record is record
            for i in range(n):
                with opf.loop("direct") as alone:
                    one = alone.decide(*observed[i], None if preference is None else weights[i])
                np.testing.assert_allclose(d.u[i], one.u, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(d.margins[i], one.margins, rtol=1e-4, atol=1e-5)
                assert d.fallback[i] == one.fallback and d.off_map[i] == one.off_map
        if preference is not None:
            np.testing.assert_allclose(d.sigma, weights)
        np.testing.assert_array_equal(d.margin, d.margins.min(axis=1))


def test_decide_is_the_first_decision_of_an_episode(opf):
    state, context = opf.observe(1)
    first = opf.decide(state, context)
    again = opf.decide(state.tolist(), context.tolist())
    with opf.loop() as loop:
        own = loop.decide(state, context)
        other = loop.decide(*opf.observe(2))
        fresh = loop.decide(state, context, fresh=True)
    for d in (again, own, fresh):
        np.testing.assert_array_equal(d.u, first.u)
        np.testing.assert_array_equal(d.record[:-3], first.record[:-3])
    assert not np.array_equal(other.sigma, opf.decide(*opf.observe(2)).sigma)  # its low-pass remembers
    rows = opf.decide(np.tile(state, (3, 1)), np.tile(context, (3, 1)))
    assert rows.u.shape == (3, len(opf.spec.action))
    np.testing.assert_allclose(rows.u, np.tile(first.u, (3, 1)), rtol=1e-5, atol=1e-6)
    assert first.fallbacks == () and not first.off_map and first.feasible


def test_any_method_decides(cart):
    state, context = cart.observe(0)
    with cart.loop("mpc") as loop, cart.loops(2, "mpc") as two:
        u = loop.decide(state, context).u
        d = two.decide(np.tile(state, (2, 1)), np.tile(context, (2, 1)))
    np.testing.assert_array_equal(d.u, np.tile(u, (2, 1)))
    assert np.isnan(d.sigma).all() and d.feasible.all()


def test_prepared_loops_decide_as_those_that_search(cart):
    state, context = cart.observe(0)
    with cart.loop("refine-64") as search, cart.loop("refine-64-ahead") as ahead, cart.loop("mpc") as other:
        other.prepare()
        np.testing.assert_array_equal(ahead.decide(state, context).u, search.decide(state, context).u)
        ahead.prepare()
        # Not where the dynamics lead: what is prepared is a policy, which answers what is measured.
        moved = ahead.decide(state + 0.01, context)
        assert moved.margin >= -cart.spec.margin_tolerance and moved.displacement >= 0


def test_the_latent_operations_are_the_decision(cart):
    n = 4
    state, context = (np.array(v) for v in zip(*(cart.observe(i) for i in range(n))))
    nz, nu = cart.spec.latent, len(cart.spec.action)
    z = cart.encode(state, context)
    assert z.shape == (n, nz) and z.dtype == np.float32
    u, decoded = cart.decode(z, state, context)
    scale = np.abs(state).max()
    np.testing.assert_allclose(decoded, state, atol=0.1 * scale)
    h, wrong = np.float32(2e-3), []
    for of, index in (("plan", 0), ("state", 1)):
        jac = cart.jacobian(z, of)
        assert jac.shape == (n, len(cart.spec.action if of == "plan" else cart.spec.state), nz)
        for e in h * np.eye(nz, dtype=np.float32):
            up, down = (cart.decode(z + s * e, state, context)[index] for s in (np.float32(1), np.float32(-1)))
            wrong.append(np.abs((up - down) / (2 * h) - jac @ (e / h)).ravel() / np.abs(jac).max())
    assert np.quantile(np.concatenate(wrong), 0.9) < 0.01  # but at the kinks of the networks
    moved = cart.step(cart.encode(state, context, localize=True), state, context)
    assert moved.z.shape == (n, nz) and moved.u.shape == (n, nu) and moved.energy.shape == (n,)
    np.testing.assert_allclose(moved.sigma.sum(axis=1), 1)
    np.testing.assert_allclose(cart.decode(moved.z, state, context)[0], moved.u, atol=1e-6)


def test_faults_are_refused_or_answered(cart):
    state, context = cart.observe(0)
    state[2] = np.nan
    name = cart.spec.state[2].name
    with cart.loop() as loop, pytest.raises(gpc.InputError, match=rf"state\[2\] \({name}\) is NaN"):
        loop.decide(state, context)
    with cart.loop(faults=True) as loop:
        d = loop.decide(state, context)
    assert "observation" in d.fallbacks and np.isfinite(d.u).all() and np.isnan(d.margin) and not d.feasible


def test_two_sessions_in_one_process():
    with gpc.open("integrator-convex", threads=1) as a, gpc.open("opf30", threads=1) as b, gpc.open("integrator-convex", threads=1) as c:
        state, context = a.observe(2)
        np.testing.assert_array_equal(a.decide(state, context).u, c.decide(state, context).u)
        assert len(b.decide(*b.observe(2)).u) == len(b.spec.action)
        loop = c.loop()
    np.testing.assert_array_equal(loop.decide(state, context, fresh=True).u.shape, (2,))  # loops outlive their session's close
    loop.close()


def test_a_case_whose_map_is_about_a_part():
    with gpc.open("multiagent-static", threads=1) as s:
        assert s.map_spec != s.spec and s.map_spec.latent > 0
        state, context = s.observe(0)
        r = s.refine(state, context, candidates=64)
        assert len(r["u"]) == r["look_ahead"] * len(s.spec.action)


def test_about_says_what_computes(opf):
    about = opf.about()
    assert about["case"] == "opf30" and about["threads"] == 1 and about["backend"] == "cpu" and about["notices"] == []
    assert set(gpc.version()) == {"version", "commit"}


def test_what_another_thread_closes_is_closed():
    """A thread that decides while another closes its objects is told so, and by nothing else."""
    told = set()
    for _ in range(5):
        s = gpc.open("integrator-convex", threads=1)
        state, context = s.observe(0)
        loop = s.loop("direct")

        def use(function, *args):
            try:
                while True:
                    function(*args)
            except gpc.Error as e:
                told.add(str(e))

        threads = [threading.Thread(target=use, args=args) for args in 2 * [(loop.decide, state, context), (s.encode, state[None], context[None])]]
        for t in threads:
            t.start()
        loop.decide(state, context)
        s.close()
        loop.close()
        for t in threads:
            t.join(60)
            assert not t.is_alive()
    assert told and all(text.endswith(" is closed") for text in told)


def test_a_crowd_has_the_robots_that_are_asked_for():
    with gpc.open("multiagent-moving", method="distributed-1", threads=1, robots=16) as s:
        assert (len(s.spec.state), len(s.spec.action)) == (4 * 16, 2 * 16)
        assert s.evaluate(episodes=1, progress=False)["safe"] == 1
    with pytest.raises(gpc.InputError, match="5 robots, want more than 12"):
        gpc.open("multiagent-moving", robots=5)
    with pytest.raises(gpc.InputError, match="no scenes of 20 robots"):
        gpc.open("cartpole", robots=20)
