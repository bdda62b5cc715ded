"""The Python of README, tutorials and how-to pages runs as it stands, with smaller compilations."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gpc

ROOT = Path(__file__).parents[2]
SMALL = {"rounds": 1, "scenarios": 6, "starts": 20, "test_starts": 20, "target": 50, "budget": "1h", "progress": False}


def blocks(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)


def named(page):
    """The scripts that a page says under which name to save."""
    return dict(re.findall(r"Save this as `([a-z_]+\.py)`.*?```python\n(.*?)```", (ROOT / page).read_text(), re.S))


@pytest.fixture
def small(monkeypatch, tmp_path):
    compile = gpc.compile
    monkeypatch.setattr(gpc, "compile", lambda system, file, **options: compile(system, file, **{**options, **SMALL}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readme(small, capsys):
    (snippet,) = blocks("README.md")
    exec(compile(snippet, "README.md", "exec"), {})
    assert re.fullmatch(r"\[-?[0-9.e-]+\]\n", capsys.readouterr().out) and (small / "sled.safetensors").exists()


def test_tutorial(small, capsys, monkeypatch):
    """In README's folder cart.py compiles and prints what the page shows but for its digits, and use.py goes on from its map."""
    test_readme(small, capsys)
    page = "docs/tutorials/python.md"
    scripts = named(page)
    assert sorted(scripts) == ["cart.py", "use.py"]
    for name, text in scripts.items():
        (small / name).write_text(text.replace("episodes=100", "episodes=3"))
    monkeypatch.syspath_prepend(small)
    digits = re.compile(r"-?\d[0-9.e-]*")
    printed = [digits.sub("N", b) for b in blocks(page, "console")]
    for name in ("cart.py", "use.py"):
        runpy.run_path(str(small / name), run_name="__main__")
        out = re.sub(r"\s*\.\]", " N]", digits.sub("N", capsys.readouterr().out))
        shown = next(b for b in printed if f"python {name}" in b).split("\n", 1)[1]
        assert [line.split() for line in digits.sub("N", out).splitlines()] == [re.sub(r"N\.?\]", "N]", line).split() for line in shown.splitlines()]
    assert (small / "out_c").is_dir()


def test_house(small, command):
    """The house of the tutorial leaves as C by the commands of its page, with a few periods and the program in bin."""
    page = "docs/tutorials/switched.md"
    (small / "house.py").write_text(named(page)["house.py"].replace("steps=144", "steps=4"))
    runpy.run_path(str(small / "house.py"), run_name="__main__")
    (small / "bin").mkdir()
    (small / "bin" / "gpc").symlink_to(os.environ["GPC"])
    (commands,) = (b for b in blocks(page, "console") if "export house.json" in b)
    ran = subprocess.run(["bash", "-ec", re.sub(r"^\$ ", "", commands, flags=re.M)], capture_output=True, text=True)
    assert ran.returncode == 0 and "cost_off" in ran.stdout, ran.stdout + ran.stderr


def test_baseline(small, monkeypatch, capsys):
    """The script that trains a baseline: as it stands but for its length where there is a learner, else with one that acts at random."""
    (snippet,) = named("docs/reference/environments.md").values()
    if importlib.util.find_spec("gymnasium") is None:
        pytest.skip("needs gymnasium")
    if importlib.util.find_spec("stable_baselines3") is None:
        import types

        class PPO:
            def __init__(self, policy, env, seed):
                self.space = env.action_space

            def learn(self, steps):
                pass

            def predict(self, observation, deterministic):
                return self.space.sample(), None

        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(set_num_threads=lambda n: None))
        monkeypatch.setitem(sys.modules, "stable_baselines3", types.SimpleNamespace(PPO=PPO))
    exec(compile(snippet.replace("20_000", "200").replace("TEST, EPISODES = \"integrator-convex\", 1, 7, 100", "TEST, EPISODES = \"integrator-convex\", 1, 7, 2"), "ppo.py", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"PPO: mean cost [0-9.]+, unsafe in [0-2] of 2", out[0]) and re.fullmatch(r"map: mean cost [0-9.]+, unsafe in 0 of 2", out[1])


@pytest.mark.skipif(importlib.util.find_spec("pandapower") is None, reason="needs pandapower")
def test_pandapower(small):
    for snippet in blocks("docs/how-to/from-pandapower.md"):
        subprocess.run([sys.executable, "-c", snippet], check=True)
