"""The door through a process: the library's answers, errors, forks and interrupts."""

import signal

import numpy as np
import pytest

import gpc


@pytest.fixture(scope="module")
def door():
    with gpc.open("opf30", threads=1, door="subprocess") as s:
        yield s


def test_decisions_are_the_library_s(opf, door):
    assert door.spec == opf.spec and door.methods() == opf.methods() and repr(door).startswith("<gpc.SubprocessSession 'opf30' by ")
    n = 600  # more than are at hand together
    observed = [opf.observe(i % 5) for i in range(n)]
    state, context = (np.array(v) for v in zip(*observed))
    with door.loops(n, "direct") as far, opf.loops(n, "direct") as near:
        for preference in (None, [0.2, 0.3, 0.5]):
            a, b = far.decide(state, context, preference), near.decide(state, context, preference)
            np.testing.assert_allclose(a.u, b.u, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(a.sigma, b.sigma, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(a.margin, b.margin, rtol=1e-3, atol=1e-5)
            np.testing.assert_array_equal(a.fallback, b.fallback)
            assert a.feasible.all() and b.feasible.all()
    one = door.decide(state[1], context[1])
    np.testing.assert_array_equal(one.u, opf.decide(state[1], context[1]).u)
    assert isinstance(one, gpc.Decision) and one.fallbacks == ()


def test_refinements_and_evaluations_are_the_library_s(opf, door):
    state, context = opf.observe(3)
    a, b = (s.refine(state, context, candidates=256, seed=5) for s in (door, opf))
    assert a.pop("latency_us").keys() == b.pop("latency_us").keys()
    assert a == b
    a, b = (s.evaluate("direct", episodes=1, seed=991, progress=False) for s in (door, opf))
    assert a["regret_pct"] == b["regret_pct"] and a.keys() == b.keys()


def test_errors_have_the_library_s_types(opf, door):
    state, context = opf.observe(0)
    for name in ("opf31", "opf:nowhere.m"):
        with pytest.raises(gpc.InputError) as near:
            gpc.open(name)
        with pytest.raises(gpc.InputError) as far:
            gpc.open(name, door="subprocess")
        assert str(far.value) == str(near.value)
    for call, named in (
        (lambda: door.decide(state[1:], context), "state has shape"),
        (lambda: door.loop("nothing").decide(state, context), 'no method "nothing"'),
        (lambda: door.decide(state, context, [1, 1, 1]), "sum to 3"),
        (lambda: gpc.open("opf30", door="window"), "want \"library\" or \"subprocess\""),
    ):
        with pytest.raises(gpc.InputError, match=named):
            call()
    with pytest.raises(gpc.Error, match="needs the library"):
        door.encode(state[None], context[None])
    with pytest.raises(gpc.Error, match="no program"):
        gpc.open("opf30", door="subprocess", program="no-such-gpc")


def test_a_process_that_dies_is_an_error(opf, door):
    with door.loop() as loop:
        loop._server._process.send_signal(signal.SIGKILL)
        loop._server._process.wait()
        with pytest.raises(gpc.Error, match="exit code -9"):
            loop.decide(*opf.observe(0))


def test_it_works_after_a_fork(script):
    out = script("""
import os, gpc
with gpc.open("integrator-convex", threads=1) as s:
    state, context = s.observe()
    u = s.decide(state, context).u
pid = os.fork()
if pid == 0:
    with gpc.open("integrator-convex", threads=1, door="subprocess") as s:
        print((s.decide(state, context).u == u).all(), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    assert out == "True\n"


def test_an_interrupt_leaves_it_in_step(opf, door):
    with door.loops(300, "navigator") as loops:
        state, context = (np.tile(v, (300, 1)) for v in opf.observe(0))
        wanted = loops.decide(state, context, fresh=True).u
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.005)
                for _ in range(1000):
                    loops.decide(state, context)
        finally:
            signal.signal(signal.SIGALRM, previous)
        np.testing.assert_array_equal(loops.decide(state, context, fresh=True).u, wanted)


def test_a_plant_that_is_not_the_model_is_the_library_s(tmp_path):
    y = gpc.System("sled", "a mass", state={"x": "m", "v": "m/s"}, action={"push": ("N", -2, 2)}, scenario={"x": (-1, 1)}, steps=8, period=0.2)
    y.initial(lambda p: {"x": p.x, "v": 0.0})
    y.ode()(lambda s, u: (s.v, u.push))
    y.objectives(cost="1")(lambda u, n: n.x**2 + n.v**2 + 0.1 * u.push**2)
    file = tmp_path / "sled.json"
    file.write_text(y.text())
    how = {"plant": {"push": 0.8}, "computing": (0.05, 0.4), "estimate": 0.01, "delay": 1.0, "episodes": 2, "progress": False}
    with gpc.open(file, method="nmpc", threads=1) as near, gpc.open(file, method="nmpc", threads=1, door="subprocess") as far:
        a, b = (s.evaluate(**how) for s in (near, far))
        assert a["cost_mean"] == b["cost_mean"] and a["plant"] == b["plant"] and a["late"] == b["late"] > 0
        with pytest.raises(gpc.InputError, match="end after 8"):
            far.evaluate(steps=30)
        with pytest.raises(gpc.InputError, match="its file"):
            far.evaluate(plant=y)
    with pytest.raises(gpc.InputError, match="need the library"):
        gpc.open(file, door="subprocess", uncertain_gains=0.1)
