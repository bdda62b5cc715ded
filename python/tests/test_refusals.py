"""What is wrong is refused by an exception that names it, with the command line's text where it has one."""

import numpy as np
import pytest

import gpc


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


def test_options_are_refused(opf, cart):
    state, context = opf.observe(0)
    for call, named in (
        (lambda: opf.refine(state, context, candidates=0), "0 candidates"),
        (lambda: opf.refine(state, context, [1, 1, 1]), "sum to 3"),
        (lambda: opf.evaluate(episodes=0), "0 episodes"),
        (lambda: opf.evaluate(regime="none"), "regime"),
        (lambda: opf.evaluate(shift={"none": 2.0}), "none"),
        (lambda: gpc.open("opf30", threads=-1), "--threads -1"),
        (lambda: gpc.open("opf30", backend="cpu", devices=[0, 1]), "--device 0,1"),
        (lambda: opf.loop("oracle-none"), "oracle-none"),
        (lambda: cart.loop("oracle"), "oracle"),
        (lambda: opf.loops(0), "0 closed loops"),
        (lambda: opf.loops(2.5), "2.5 closed loops"),
        (lambda: opf.jacobian(np.zeros((1, opf.spec.latent), np.float32), "action"), "want \"plan\" or \"state\""),
        (lambda: opf.jacobian(np.zeros((1, opf.spec.latent))), "z is an array of float64"),
        (lambda: opf.decide(state, context, out=np.empty(6)), "many observations"),
    ):
        with pytest.raises(gpc.InputError, match=named):
            call()


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
    from gpc._lib import call, lib, make

    with opf.loop() as loop, pytest.raises(gpc.InputError, match=r"the handle is that of a \*main.drive, want a \*main.session"):
        call(lib.gpc_refine, loop.handle, b"{}", None, 0, None, 0, None, 0, None, 0)
    with pytest.raises(gpc.Error, match="misuse of an invalid Handle"):
        call(lib.gpc_drive_reset, 1 << 40, -1)
    run = make(lib.gpc_cancel_new)
    with pytest.raises(gpc.Error, match="nil pointer dereference"):
        call(lib.gpc_progress, run, None, None)
    call(lib.gpc_release, run)
    with pytest.raises(gpc.InputError, match='unknown field "colour"'):
        call(lib.gpc_open, b'{"colour": 1}', None)
