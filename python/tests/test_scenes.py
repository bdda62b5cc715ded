"""Scenes of one's own, from files, as the command line takes them."""

import json

import numpy as np
import pytest

import gpc

CASE, SEED = "integrator-convex", 991


@pytest.fixture(scope="module")
def scene(command, tmp_path_factory):
    """Writes a drawn scene, with changes, and gives its file."""
    folder = tmp_path_factory.mktemp("scenes")

    def write(name, episode=2, change=lambda s: None):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        code, _, err = command("scene", CASE, "--seed", str(SEED), "--episode", str(episode), "--out", str(file))
        assert code == 0, err
        s = json.loads(file.read_text())
        change(s)
        file.write_text(json.dumps(s))
        return file

    return write


def test_a_session_on_a_scene_is_the_command_line_s(command, cart, scene):
    file = scene("one.json")
    with gpc.open(CASE, threads=1, scene=file) as s:
        state, context = s.observe()
        for a, b in zip((state, context), cart.observe(2, seed=SEED)):
            np.testing.assert_array_equal(a, b)
        assert s.spec == cart.spec and s.about()["notices"] == []
        code, out, err = command("refine", CASE, "--scene", str(file), "--threads", "1", "--candidates", "128", "--seed", "5", "--json")
        assert code == 0, err
        wanted, got = json.loads(out), s.refine(state, context, candidates=128, seed=5)
        assert wanted.pop("latency_us").keys() == got.pop("latency_us").keys()
        assert got == wanted
        code, out, err = command("eval", CASE, "--method", "direct", "--scene", str(file), "--json")
        assert code == 0, err
        wanted = json.loads(out)
        for r in (s.evaluate("direct"), cart.evaluate("direct", scene=str(file))):
            assert r["episodes"] == 1 and r["scenes_sha256"] == wanted["scenes_sha256"] != ""
            assert [r[k] for k in ("cost_mean", "margin_min", "decisions")] == [wanted[k] for k in ("cost_mean", "margin_min", "decisions")]
    with gpc.open(CASE, threads=1, door="subprocess") as far:
        assert far.evaluate("direct", scene=file)["cost_mean"] == wanted["cost_mean"]


def test_a_folder_has_an_episode_a_file(cart, scene):
    folder = scene("all/a.json", 4).parent
    scene("all/b.json", 1)
    with gpc.open(CASE, threads=1, scene=folder) as s:
        for number, episode in ((0, 4), (1, 1)):
            np.testing.assert_array_equal(s.observe(number)[0], cart.observe(episode, seed=SEED)[0])
        assert s.evaluate("direct")["episodes"] == 2
        with pytest.raises(gpc.InputError, match="episode 2 of 2 scenes"):
            s.observe(2)


def test_the_plant_is_the_scene_s(cart, scene):
    def weaker(s):
        s["params"]["u_max"] *= 0.1

    file = scene("weaker.json", change=weaker)
    with gpc.open(CASE, threads=1, scene=file) as s:
        assert any("params.u_max" in n for n in s.about()["notices"])
        state, context = s.observe()
        limited, own = (np.hypot(*o.decide(state, context).u) for o in (s, cart))
        assert limited <= 0.15 + 1e-6 < own
        assert any("params.u_max" in b["what"] for b in s.evaluate("direct")["beyond"])
    assert any("params.u_max" in b["what"] for b in cart.evaluate("direct", scene=file)["beyond"])


def test_bad_scenes_are_refused_by_field(cart, scene, tmp_path):
    def changed(name, change):
        return scene(name, change=change)

    for file, named in (
        (changed("case.json", lambda s: s.update(case="opf30")), r'case is "opf30", want "integrator-convex"'),
        (changed("version.json", lambda s: s.update(gpc_scene=2)), "gpc_scene"),
        (changed("unknown.json", lambda s: s.update(weather="fine")), "weather"),
        (changed("param.json", lambda s: s["params"].update(u_max=-1)), r"params: .*u_max"),
        (changed("scene.json", lambda s: s["scene"].update(wind=1)), r"scene: .*wind"),
        (tmp_path / "none.json", "none.json"),
    ):
        with pytest.raises(gpc.InputError, match=named):
            gpc.open(CASE, threads=1, scene=file)
        with pytest.raises(gpc.InputError, match=named):
            cart.evaluate("direct", scene=file)
    file = scene("good.json")
    for arguments, named in (({"episodes": 1}, "episodes and scene"), ({"regime": "x"}, "regime and scene"), ({"shift": {"x": 1.1}}, "shift and scene"), ({"trace": file}, "scene")):
        with pytest.raises(gpc.InputError, match=named):
            cart.evaluate("direct", scene=file, **arguments)
    with gpc.open(CASE, threads=1, scene=file) as s, pytest.raises(gpc.InputError, match="regime and scene"):
        s.observe(regime="x")
    with pytest.raises(gpc.InputError, match="scene needs the library"):
        gpc.open(CASE, scene=file, door="subprocess")
