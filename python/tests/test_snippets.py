"""The Python of every page runs as it stands, with less to compute: nothing of it is left out."""

import importlib.util
import re
from pathlib import Path

import pytest

import gpc

ROOT = Path(__file__).parents[2]
# What a snippet asks for that takes long, and what runs in its place.
LESS = {"episodes=100": "episodes=3", "10_000": "20", "300_000": "20", "num_envs=4096": "num_envs=8", "steps=144": "steps=4", "episodes=2)": "episodes=1)"}
SMALL = {"rounds": 1, "scenarios": 6, "starts": 20, "test_starts": 20, "target": 50, "budget": "1h", "progress": False}
EXTRA = ("gymnasium", "pandapower")  # packages that a page says are to be installed
SWITCHED = "docs/tutorials/switched.md"  # whose references of whole days take long
FEWER = {SWITCHED: {"scenarios": 2, "starts": 1, "test_starts": 1}}
PANDAPOWER = "docs/how-to/from-pandapower.md"  # whose snippet test_pandapower.py runs


def python_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def pages():
    files = [ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in (str(f.relative_to(ROOT)) for f in files) if python_of(page)]


def run(page, monkeypatch, folder):
    """Runs the snippets of a page, one after the other, each as a file of its own: by the page's name where another imports it."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    compile_system = gpc.compile
    monkeypatch.setattr(gpc, "compile", lambda system, *at, **options: compile_system(system, *at, **{**options, **SMALL, **FEWER.get(page, {})}))
    files = iter(re.findall(r"Save this as `([a-z_]+\.py)`", (ROOT / page).read_text()))
    for i, code in enumerate(python_of(page)):
        if re.search(r"^(from|import) stable_baselines3", code, re.M):
            continue  # test_pages.py runs it, with a learner of its own where there is none
        if re.search(r"^import casadi", code, re.M) and importlib.util.find_spec("casadi") is None:
            continue  # lab/run test-casadi installs it
        for much, less in LESS.items():
            code = code.replace(much, less)
        name = folder / (next(files, "cart.py") if "if __name__" in code else f"snippet{i}.py")
        name.write_text(code)
        exec(compile(code, str(name), "exec"), {"__name__": "__main__", "__file__": str(name)})


def test_the_pages_are_found():
    assert {"README.md", "docs/tutorials/python.md", SWITCHED, "docs/reference/python.md", PANDAPOWER} <= set(pages())


@pytest.mark.parametrize("page", [p for p in pages() if p != PANDAPOWER])
def test_snippets_run(page, monkeypatch, tmp_path):
    for name in EXTRA:
        if any(re.search(rf"^import {name}", code, re.M) for code in python_of(page)) and importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    run(page, monkeypatch, tmp_path)
    if page.startswith(("README", "docs/tutorials")):
        assert (tmp_path / {SWITCHED: "house.safetensors", "README.md": "sled.safetensors"}.get(page, "cart.safetensors")).exists()
