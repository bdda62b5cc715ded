"""The examples of systems in Python, with a budget for nothing but a small map: they run with nothing but the wheel."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import HANGS

FOLDER = Path(__file__).parents[2] / "examples" / "python"


def test_an_example_is_compiled_driven_and_exported(tmp_path):
    command = [sys.executable, FOLDER / "cartpole.py", "--budget", "20s", "--target", "100", "--episodes", "4", "--out", tmp_path / "out", "--json"]
    p = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert p.returncode == 0, p.stderr
    r = json.loads(p.stdout)
    assert r["episodes"] == 4 and 0 <= r["unsafe"] <= 4 and r["regret_n"] <= 4 and "regret_pct" in r
    assert (tmp_path / "out" / "cartpole-py.json").exists()
    if shutil.which(os.environ.get("CC", "cc")):
        assert r["c_episodes"] == 4 and r["c_unsafe"] == r["c_unsafe_gpc"] and "c_regret_pct" in r and r["c_agrees"], r


@pytest.mark.parametrize("name", ["crane", "glucose"])
def test_the_others_are_systems_that_a_solver_keeps_safe(name):
    code = f"""
import sys; sys.path.insert(0, {str(FOLDER)!r})
import gpc, {name}
with gpc.nmpc({name}.{name}, threads=1) as s:
    r = s.evaluate(episodes=1, progress=False)
assert r["safe"] == 1, r
"""
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS)
    assert p.returncode == 0, p.stderr
