"""What the package says of itself: types, help and representations."""

import importlib.util
import pydoc
import re
import subprocess
import sys

import numpy as np
import pytest

import gpc


def test_types_find_a_typo_inside_with(tmp_path):
    """A session in a with block has its type: a method that it lacks is found, one that it has is not."""
    file = tmp_path / "typo.py"
    file.write_text(
        'import gpc\n\nwith gpc.open("opf30") as s, s.loop() as loop:\n    s.decid([0.0])\n    loop.decid([0.0])\n    s.decide([0.0])\n    loop.decide([0.0])\n'
        "    version: str = gpc.__version__\n"
    )
    said = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", file], capture_output=True, text=True).stdout
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert len(errors) == 2 and ':4: error: "Session" has no attribute "decid"' in errors[0] and ':5: error: "Loop" has no attribute "decid"' in errors[1], said


def test_help_names_what_one_begins_with():
    text = pydoc.plain(pydoc.render_doc(gpc))
    for name in ("open(case, …)", "compile(system, …)", "class Session", "cases("):
        assert name in text
    assert gpc.__version__ == gpc.version()["version"]
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        gpc.opne  # type: ignore[attr-defined]


def test_what_is_printed_is_short_and_has_names(opf):
    state, context = opf.observe()
    d = opf.decide(state, context)
    for value, words in (
        (opf, ("opf30", "navigator", "dispatch")), (opf.spec, ("opf30", "state 60", "action 12")), (d, ("Pg1", "12 in all", "margin", "none")),
        (opf.spec.action[0], ("Pg1", "pu", " to ")),
    ):
        text = repr(value)
        assert len(text) < 200 and all(w in text for w in words), text
    assert opf.spec._repr_html_().count("<tr>") == len(opf.spec.rows()) + 1 and "opf30" in opf._repr_html_()
    table = opf.spec.table().splitlines()
    assert table[0].split() == ["vector", "index", "name", "unit", "lo", "hi"] and len(table) == len(opf.spec.rows()) + 1
    assert [line for line in table if re.match(r"action +0 +Pg1 +pu +[0-9.]+ +[0-9.]+$", line)]
    closed = gpc.open("integrator-convex", threads=1)
    closed.close()
    assert "closed" in repr(closed)


def test_plots(cart):
    run = cart.drive(1)
    assert run["s"].shape == (20, 4) and run["u"].shape == (20, 2)
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(gpc.Error, match="pip install matplotlib"):
            cart.plot()
    else:
        assert len(cart.plot().axes) == 6


def test_environments_are_rendered():
    from gpc.envs.gym import Env

    with pytest.raises(gpc.InputError, match="render_mode is 'human'"):
        Env("integrator-convex", render_mode="human")
    env = Env("integrator-convex", render_mode="rgb_array")
    env.reset(seed=1)
    env.step(np.zeros(env.action_space.shape, env.action_space.dtype))
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(gpc.Error, match="pip install matplotlib"):
            env.render()
    else:
        assert env.render().shape[2] == 3
    env.close()
