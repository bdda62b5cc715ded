"""Systems of expressions that are drawn at random: each is refused in words, or is driven to the end and verified (GPC_LONG=1: more)."""

import os

import numpy as np
import pytest

import gpc

FUNCTIONS = [np.sin, np.tanh, np.abs, np.cos, np.exp, lambda v: np.sqrt(v * v + 1e-3), lambda v: np.maximum(v, 0)]


def expression(rng, values, depth):
    if depth == 0 or rng.random() < 0.15:
        return values[rng.integers(len(values))] if rng.random() < 0.75 else float(rng.choice([0, 1, -1, 2.5, 1e-3, 1e3, 1e6]))
    kind, a = rng.integers(7 + len(FUNCTIONS)), expression(rng, values, depth - 1)
    if kind < 3:
        return a + expression(rng, values, depth - 1)
    if kind < 5:
        return a * expression(rng, values, depth - 1)
    if kind == 5:
        return a - expression(rng, values, depth - 1)
    if kind == 6:
        return a / (expression(rng, values, depth - 1) + 2)
    return FUNCTIONS[kind - 7](a)


def drawn(seed):
    """A system with any of: ranges, unbounded and almost fixed actions, a context, soft limits, rates, scales of any size."""
    rng = np.random.default_rng(seed)
    ns, nu, has_context, limited = int(rng.integers(1, 4)), int(rng.integers(1, 3)), rng.random() < 0.5, rng.random() < 0.7
    scale = [float(rng.choice([1, 1, 1, 1, 1e-3, 1e3, 1e6])) for _ in range(ns)]
    boxes = [("N", -1, 1), ("N", -1, 1), "N", ("N", -1, -0.999999999)]
    scenario = {f"x{i}": tuple(np.sort(rng.normal(size=2) * rng.choice([1, 1, 10])) * scale[i]) for i in range(ns)}
    y = gpc.System(
        f"drawn{seed}", state={f"x{i}": "m" if rng.random() < 0.6 else ("m", -5 * scale[i], 5 * scale[i]) for i in range(ns)},
        action={f"u{i}": boxes[rng.integers(4)] for i in range(nu)}, context={"c0": "1"} if has_context else None,
        scenario={**scenario, **({"c0": (-1, 1)} if has_context else {})}, steps=int(rng.integers(2, 20)), period=float(rng.choice([1e-3, 0.1, 1, 10])),
        soft={"m0": {"linear": 10, "priority": int(rng.integers(5))}} if limited and rng.random() < 0.3 else None, rates={"u0": 0.1} if rng.random() < 0.2 else None,
    )
    key = int(rng.integers(1 << 30))

    def several(name, n, values):  # the same at each call
        own = np.random.default_rng([key, name])
        return [expression(own, values, 4) for _ in range(n)]

    if rng.random() < 0.5:
        y.ode(stiff=bool(rng.random() < 0.2))(lambda s, u, c: several(0, ns, [*s, *u, *c]))
    else:
        y.step(lambda s, u, c: several(0, ns, [*s, *u, *c]))
    y.objectives(a="1", b="1")(lambda u, n, c: [v * v + 0.01 * sum(w * w for w in u) for v in several(1, 2, [*n, *u, *c])])
    if limited:
        y.margins(m0="m")(lambda n: several(2, 1, [*n]))
    return y


@pytest.mark.parametrize("seed", range(300 if os.environ.get("GPC_LONG") else 24))
def test_a_random_system(seed, tmp_path, command):
    file, trace = str(tmp_path / "system.json"), str(tmp_path / "run.jsonl")
    try:
        drawn(seed).save(file)
    except gpc.InputError as e:
        assert len(str(e)) > 20
        return
    for arguments in (["eval", file, "--method", "nmpc", "--episodes", "2", "--seed", str(seed), "--threads", "1", "--trace", trace], ["verify", trace]):
        code, out, log = command(*arguments)
        assert code == 0, out[-500:] + log[-2000:]
