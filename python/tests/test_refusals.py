"""What is wrong is refused by an exception that names it, with the command line's text where it has one."""

import hashlib
import json

import numpy as np
import pytest

import gpc
import gpc.grid


def test_errors_are_the_command_line_s(command, tmp_path):
    wrong = tmp_path / "wrong.safetensors"
    wrong.write_bytes(b"no map")
    for args, opened in (
        (["eval", "opf31"], {"case": "opf31"}),
        (["eval", "opf30", "--model", str(wrong)], {"case": "opf30", "model": str(wrong)}),
        (["eval", "opf30", "--model", str(tmp_path / "none")], {"case": "opf30", "model": str(tmp_path / "none")}),
        (["eval", "opf30", "--method", "nothing"], {"case": "opf30", "method": "nothing"}),
        (["eval", "opf30", "--backend", "abacus"], {"case": "opf30", "backend": "abacus"}),
    ):
        code, _, err = command(*args)
        assert code == 2
        with pytest.raises(gpc.InputError) as e:
            gpc.open(**opened).evaluate(episodes=1)
        assert f"gpc: {e.value}\n" == err


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda s, c: (s.astype(np.float32), c), "state is an array of float32, want float64"),
        (lambda s, c: (s[:-1], c), r"state has shape \(\d+,\), want"),
        (lambda s, c: (np.repeat(s, 2)[::2], c), "state is not C-contiguous"),
        (lambda s, c: (s, c[:-1]), "context has shape"),
        (lambda s, c: (np.where(np.arange(len(s)) == 1, np.inf, s), c), r"state\[1\]"),
        (lambda s, c: (s, np.where(np.arange(len(c)) == 2, np.nan, c)), r"context\[2\]"),
        (lambda s, c: ("state", c), "state is a str"),
        (lambda s, c: (["a"] * len(s), c), "state: want numbers"),
        (lambda s, c: (s.astype(complex), c), "state is an array of complex128"),
    ],
)
def test_observations_are_refused_by_name(opf, change, named):
    state, context = change(*opf.observe(0))
    with pytest.raises(ValueError, match=named):
        opf.refine(state, context)
    if not (isinstance(state, np.ndarray) and not state.flags.c_contiguous):  # a loop copies what it is given
        with pytest.raises(ValueError, match=named):
            opf.decide(state, context)


def test_rows_are_refused_by_name(opf):
    n = 3
    state, context = (np.array(v) for v in zip(*(opf.observe(i) for i in range(n))))
    with opf.loops(n) as loops:
        for arguments, named in (
            ((state[:2], context), r"state has shape \(2, "),
            ((np.asfortranarray(state), context), "state is not C-contiguous"),
            ((state.astype(int), context), "state is an array of int64"),
            ((state, context, [0.5, 0.5]), "preference has shape"),
            ((state, context, np.array([[0.5, 0.5, 0.0], [2.0, -1, 0], [1, 0, 0]])), "observation 1: preference weight 2"),
        ):
            with pytest.raises(gpc.InputError, match=named):
                loops.decide(*arguments)
        bad = state.copy()
        bad[2, 1] = np.nan
        with pytest.raises(gpc.InputError, match=rf"state\[2, 1\] \({opf.spec.state[1].name}\)"):
            loops.decide(bad, context)
        with pytest.raises(gpc.InputError, match="out is an array of float32"):
            loops.decide(state, context, out=np.empty((n, len(opf.spec.action)), np.float32))
        frozen = np.empty((n, len(opf.spec.action)))
        frozen.flags.writeable = False
        with pytest.raises(gpc.InputError, match="out is read-only"):
            loops.decide(state, context, out=frozen)
        with pytest.raises(gpc.InputError, match="loop 3"):
            loops.reset(3)
        # What is written apart from what is read, of one buffer, is as of two.
        buffer = np.empty(state.size + n * len(opf.spec.action))
        shared, out = buffer[: state.size].reshape(state.shape), buffer[state.size :].reshape(n, -1)
        shared[:] = state
        want = loops.decide(state, context, fresh=True).u
        np.testing.assert_array_equal(loops.decide(shared, context, out=out, fresh=True).u, want)
        over = buffer[: out.size].reshape(out.shape)
        for options, named in (({"out": over}, "out shares memory"), ({"out": out, "record": buffer}, "record shares memory"), ({"preference": state[:, :3], "out": state[:, :3]}, "out shares memory")):
            with pytest.raises(gpc.InputError, match=named):
                loops.decide(shared, context, **options)
        z = opf.encode(state, context)
        with pytest.raises(gpc.InputError, match="out shares memory"):
            opf.jacobian(z, out=z)


def test_nothing_is_lost_on_the_way(opf):
    """Masks, imaginary parts and times are not dropped: what numpy.asarray makes of them are other numbers."""
    state, context = opf.observe(0)
    masked = np.ma.array(state, mask=np.arange(len(state)) == 1)
    for call in (lambda x: opf.decide(x, context), lambda x: opf.refine(x, context), lambda x: opf.front(x, context, points=8)):
        with pytest.raises(gpc.InputError, match="state has masked entries"):
            call(masked)
    np.testing.assert_array_equal(opf.decide(np.ma.array(state), context).u, opf.decide(state, context).u)
    n = gpc.grid.network("case9")
    apparent = n.pd + 1j * n.qd
    out = np.ma.array([1, 2], mask=[False, True])
    for call, named in (
        (lambda: gpc.grid.opf(n, apparent), "loads: want numbers: these are of complex128"),
        (lambda: gpc.grid.pf(n, apparent), "loads: want numbers"),
        (lambda: gpc.grid.opf(n, np.ma.array(n.pd, mask=n.pd == 0)), "loads has masked entries"),
        (lambda: gpc.grid.opf(n, n.pd.astype("m8[s]")), "loads: want numbers: these are of timedelta64"),
        (lambda: gpc.grid.opf(n, branch_out=out), "branch_out is masked_array"),
        (lambda: opf.front(state, context, weights=np.full((2, 3), 1j)), "weights: want numbers"),
    ):
        with pytest.raises(gpc.InputError, match=named):
            call()


def test_options_are_refused(opf, cart):
    state, context = opf.observe(0)
    for call, named in (
        (lambda: opf.refine(state, context, candidates=0), "0 candidates"),
        (lambda: opf.refine(state, context, [1, 1, 1]), "sum to 3"),
        (lambda: opf.evaluate(episodes=0), "episodes 0: want 1 to"),
        (lambda: opf.evaluate(regime="none"), "regime"),
        (lambda: opf.evaluate(shift={"none": 2.0}), "none"),
        (lambda: gpc.open("opf30", threads=-1), "threads -1"),
        (lambda: gpc.open("opf30", backend="cpu", device=1), "device 1"),
        (lambda: opf.loop("oracle-none"), "oracle-none"),
        (lambda: cart.loop("oracle"), "oracle"),
        (lambda: opf.loops(0), "0 closed loops"),
        (lambda: opf.loops(2.5), "2.5 closed loops"),
        (lambda: opf.jacobian(np.zeros((1, opf.spec.latent), np.float32), "action"), "want \"plan\" or \"state\""),
        (lambda: opf.jacobian(np.zeros((1, opf.spec.latent))), "z is an array of float64"),
        (lambda: opf.decide(state, context, out=np.empty(6)), "many observations"),
        (lambda: gpc.open(3), "3 is of type int, want the name of a case"),
        (lambda: opf.observe(1.5), "options: episode is a number 1.5, want int"),
        (lambda: opf.evaluate(episodes=1, trace="/none/run.jsonl"), "trace: /none/run.jsonl cannot be written: the folder /none does not exist"),
        (lambda: opf.evaluate(episodes=1, shift={"none": float("nan")}), "shift.none is nan, want a finite number"),
    ):
        with pytest.raises(gpc.InputError, match=named):
            call()


def actor(path, **changed):
    """A sealed actor of integrator-convex that always answers 0 (docs/results/baselines.md), with changed entries."""
    n, m = 9, 2
    tensors = {"mean": np.zeros(n, "<f4"), "scale": np.ones(n, "<f4"), "layer0.weight": np.zeros((m, n), "<f4"), "layer0.bias": np.zeros(m, "<f4")}
    header, payload, sums = {}, b"", ""
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [len(payload), len(payload) + t.nbytes]}
        payload += t.tobytes()
        sums += hashlib.sha256(t.tobytes()).hexdigest()
    metadata = {
        "kind": "gpc-actor", "version": "1", "case": "integrator-convex", "problem_sha256": next(c["problem_sha256"] for c in gpc.cases() if c["name"] == "integrator-convex"),
        "algorithm": "td3", "library": "none", "seed": "0", "interactions": "0", "preference": "adaptive", "activation": "relu", "output": "clip", "bound": "1",
    } | changed | {"tensors_sha256": sums, "sha256": "0" * 64}
    text = json.dumps({"__metadata__": metadata} | header).encode()
    text += b" " * (-len(text) % 8)
    length = len(text).to_bytes(8, "little")
    path.write_bytes(length + text.replace(b"0" * 64, hashlib.sha256(length + text).hexdigest().encode()) + payload)
    return str(path)


def test_actors_that_do_not_belong_are_refused_by_name(tmp_path):
    file = tmp_path / "actor.safetensors"
    with gpc.open("integrator-convex", model=actor(file), method="td3") as s:
        state, context = s.observe(0)
        with s.loop() as loop:
            np.testing.assert_allclose(loop.decide(state, context).u, 0)
            with pytest.raises(gpc.InputError, match="made for the preference adaptive, and asked for a decision under 0.5,0.5"):
                loop.decide(state, context, [0.5, 0.5])
        with pytest.raises(gpc.InputError, match="asked for a decision under 0.5,0.5"):
            s.evaluate(episodes=1, preference=[0.5, 0.5])
    for changed, named in (
        ({"case": "opf30"}, 'for case "opf30", want "integrator-convex"'), ({"version": "2"}, 'version of the file is "2"'), ({"algorithm": "cpo"}, "the algorithm of the actor is cpo"),
        ({"problem_sha256": "1" * 64}, "trained on other equations"),
    ):
        with pytest.raises(gpc.InputError, match=named):
            gpc.open("integrator-convex", model=actor(file, **changed), method="td3").loop()


def test_a_refused_refinement_leaves_the_session_whole():
    with gpc.open("integrator-convex", threads=1) as s:
        state, context = s.observe()
        with pytest.raises(gpc.InputError, match="0 candidates"):
            s.refine(state, context, candidates=0)
        assert s.refine(state, context, candidates=64)["candidates"] == 64


def test_what_is_closed_is_refused():
    s = gpc.open("integrator-convex", threads=1)
    state, context = s.observe()
    s.decide(state, context)
    loop = s.loop()
    loop.close()
    loop.close()
    with pytest.raises(gpc.Error, match="this Loop is closed"):
        loop.decide(state, context)
    s.close()
    with pytest.raises(gpc.Error, match="this Session is closed"):
        s.decide(state, context)


def test_a_wrong_handle_or_address_is_an_error_and_no_crash(opf):
    from gpc._lib import call, create, lib

    with opf.loop() as loop, pytest.raises(gpc.InputError, match=r"the handle belongs to a \*main.drive, want a \*main.session"):
        call(lib.gpc_refine, loop.handle, b"{}", None, 0, None, 0, None, 0, None, 0)
    with pytest.raises(gpc.Error, match="this object is closed"):
        call(lib.gpc_drive_reset, 1 << 40, -1)
    run = create(lib.gpc_cancel_new)
    with pytest.raises(gpc.Error, match="nil pointer dereference"):
        call(lib.gpc_progress, run, None, None)
    call(lib.gpc_release, run)
    with pytest.raises(gpc.InputError, match='unknown field "colour"'):
        call(lib.gpc_open, b'{"colour": 1}', None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"state": ["x", "v"]}, "state is a list, want names with their units"),
        ({"action": {"force": ("N", float("nan"), 5)}}, r"action\['force'\].lo is nan, want a finite number"),
        ({"scenario": {"x": (-1, float("inf"))}}, r"scenario\['x'\].hi is inf, want a finite number"),
        ({"scenario": {"x": (1, 1), "v": (-1, 1)}}, r"scenario\['x'\] is from 1 to 1, want lo below hi: leave out what never varies, and set it by @y.initial"),
        ({"action": {"force": ("N", 5, -5)}}, r"action\['force'\] is from 5 to -5, want the smaller number first"),
        ({"scenario": {"x": (1, -1), "v": (0, 1)}}, r"scenario\['x'\] is from 1 to -1"),
    ],
)
def test_systems_are_refused_by_name(change, named):
    given = {"state": {"x": "m", "v": "m/s"}, "action": {"force": ("N", -5, 5)}, "scenario": {"x": (-1, 1), "v": (0, 1)}, "steps": 10, "period": 0.1}
    with pytest.raises(gpc.InputError, match=named):
        gpc.System("cart", "a cart", **{**given, **change})


def test_optimal_flows_refuse_options_that_they_do_not_have():
    with pytest.raises(gpc.InputError, match="opf has no option load: loads are the second argument"):
        gpc.grid.opf("case9", load=np.zeros((2, 9)))
