"""Known answers of what is written here: run by `make baselines-test`."""

from __future__ import annotations

import argparse
import hashlib
import math
import pathlib
import struct

import numpy as np
import pytest
import torch

import common
import cpo
import onpolicy
import point
import ppo_lagrangian


@pytest.fixture(autouse=True)
def doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def quadratic(rng: np.random.Generator, n: int):
    a = rng.normal(size=(n, n))
    return a @ a.T + 0.1 * np.eye(n)


def test_conjugate_gradients_solve_a_dense_system():
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 30):
        h, b = quadratic(rng, n), rng.normal(size=n)
        matrix = torch.as_tensor(h)
        x = cpo.conjugate_gradients(lambda v: matrix @ v, torch.as_tensor(b), 6 * n).numpy()
        np.testing.assert_allclose(x, np.linalg.solve(h, b), rtol=1e-8, atol=1e-10)


def feasible(h, b, c, delta):
    """Whether some step in the trust region meets the limit, by the one that lowers the cost most."""
    w = np.linalg.solve(h, b)
    return c - math.sqrt(2 * delta * (b @ w)) <= 0


# The problem is convex, so that a point with multipliers that meet the conditions of Karush, Kuhn and Tucker is the
# solution. Costs are drawn so that each case of the paper's theorem is met often.
def test_the_step_is_the_solution_of_its_problem():
    rng, met = np.random.default_rng(2), {"free": 0, "binding": 0, "interior": 0, "recovery": 0, "violated": 0}
    for trial in range(600):
        n = int(rng.integers(2, 9))
        h, g, b, delta = quadratic(rng, n), rng.normal(size=n), rng.normal(size=n), 0.01
        if trial % 5 == 0:
            b = -rng.uniform(0.5, 2) * g + 0.05 * rng.normal(size=n)  # reward and cost go the same way
        reach = math.sqrt(2 * delta * (b @ np.linalg.solve(h, b)))
        c = float(rng.choice([0.0, rng.uniform(-1.5, 1.5)])) * reach
        matrix = torch.as_tensor(h)
        x, lowers = cpo.step(torch.as_tensor(g), torch.as_tensor(b), c, lambda v: matrix @ v, delta, 200)
        x = x.numpy()
        size = 0.5 * x @ h @ x
        assert size <= delta * (1 + 1e-6)
        if not feasible(h, b, c, delta):
            met["recovery"] += 1
            assert not lowers
            np.testing.assert_allclose(x, -math.sqrt(2 * delta / (b @ np.linalg.solve(h, b))) * np.linalg.solve(h, b), rtol=1e-6, atol=1e-9)
            continue
        assert lowers
        met["violated"] += c > 0
        assert c + b @ x <= 1e-6 * reach + 1e-12
        # g + νb + λHx = 0 with λ, ν ≥ 0 that are zero where their limit does not bind.
        columns = np.stack([b, h @ x], 1)
        (nu, lam), *_ = np.linalg.lstsq(columns, -g, rcond=None)
        scale = np.linalg.norm(g)
        if abs(c + b @ x) > 1e-5 * reach:  # the cost does not bind
            met["free"] += 1
            lam, nu = -(g @ x) / (x @ h @ x), 0.0
        elif size < delta * (1 - 1e-5):  # it alone does
            met["interior"] += 1
        else:
            met["binding"] += 1
        assert np.linalg.norm(g + nu * b + lam * (h @ x)) <= 1e-5 * scale, (trial, c, nu, lam)
        assert lam >= -1e-6 * scale and nu >= -1e-6 * scale
        # No step at random is better.
        for _ in range(50):
            y = rng.normal(size=n)
            y *= math.sqrt(2 * delta / (y @ h @ y)) * rng.uniform() ** (1 / n)
            if c + b @ y <= 0:
                assert g @ y >= g @ x - 1e-6 * scale * math.sqrt(delta)
    assert min(met[k] for k in ("free", "binding", "recovery", "violated")) >= 30, met


def test_the_fisher_product_is_the_dense_hessian():
    torch.manual_seed(3)
    policy, x = onpolicy.Policy(3, 2, [5]), torch.randn(40, 3)
    with torch.no_grad():
        policy.log_std += torch.tensor([0.3, -0.7])
    parameters = list(policy.parameters())
    theta = torch.nn.utils.parameters_to_vector(parameters).detach()
    with torch.no_grad():
        before = policy(x)

    def apart(v):
        parts, at = {}, 0
        for name, p in policy.named_parameters():
            parts[name] = v[at : at + p.numel()].view_as(p)
            at += p.numel()
        return onpolicy.divergence(before, torch.func.functional_call(policy, parts, (x,)))

    dense = torch.autograd.functional.hessian(apart, theta)
    product = cpo.fisher(policy, x, 0.1)
    for _ in range(5):
        v = torch.randn_like(theta)
        torch.testing.assert_close(product(v), dense @ v + 0.1 * v, rtol=1e-9, atol=1e-12)


def test_the_line_search_takes_the_first_fraction_that_is_accepted():
    asked = []

    def accepts(fraction):
        asked.append(fraction)
        return fraction <= 0.5

    assert cpo.line_search(accepts, 15, 0.8) == pytest.approx(0.8**4)
    assert asked == pytest.approx([0.8**k for k in range(5)])
    assert cpo.line_search(lambda _: False, 15, 0.8) == 0


def test_advantages_are_those_of_the_definition():
    rng, gamma, lam = np.random.default_rng(4), 0.9, 0.7
    reward, value, after = rng.normal(size=(3, 6, 2))
    ended = np.zeros((6, 2))
    ended[2, 0] = ended[5, 1] = 1
    got, target = onpolicy.advantages(reward, value, after, ended, gamma, lam)
    delta = reward + gamma * after - value
    for i in range(2):
        for t in range(6):
            want, weight = 0.0, 1.0
            for k in range(t, 6):
                want += weight * delta[k, i]
                weight *= gamma * lam
                if ended[k, i]:
                    break
            assert got[t, i] == pytest.approx(want)
    np.testing.assert_allclose(target, got + value)


def test_the_normaliser_is_the_mean_and_deviation_of_everything():
    rng = np.random.default_rng(5)
    parts = [rng.normal(3, 2, size=(k, 4)) for k in (5, 1, 17, 64)]
    n = onpolicy.Normaliser(4)
    for p in parts:
        n.update(p)
    everything = np.concatenate(parts)
    np.testing.assert_allclose(n.mean, everything.mean(0))
    np.testing.assert_allclose(n.deviation, everything.std(0, ddof=1))


def test_the_multiplier_rises_while_the_cost_is_above_its_limit():
    own = ppo_lagrangian.SETTINGS["default"] | {"cost_limit": 10.0}
    learner = ppo_lagrangian.Lagrangian.__new__(ppo_lagrangian.Lagrangian)
    learner.own, learner.multiplier = own, torch.nn.Parameter(torch.tensor(own["multiplier_init"]))
    learner.multiplier_optimiser = torch.optim.Adam([learner.multiplier], lr=own["multiplier_lr"])
    learner.raise_multiplier(30.0)
    assert learner.multiplier.item() == pytest.approx(1e-3 + 0.035, abs=1e-6)  # Adam's first step is the rate
    for _ in range(200):
        learner.raise_multiplier(0.0)
    assert learner.multiplier.item() == 0


def test_the_points_best_return_is_that_of_the_formula():
    assert point.best(10) == pytest.approx(29.5)
    env = point.PointVec(2)
    for limit in (0, 10, 30, 45):
        env.reset()
        total, cost, x = np.zeros(2), np.zeros(2), 0.0
        for t in range(point.STEPS):
            wait = limit < 45 and x > point.EDGE - 1e-9 and t < point.STEPS - limit
            _, reward, ended, _, info = env.step(np.full((2, 1), 0.0 if wait else 1.0))
            x = reward[0]
            total, cost = total + reward, cost + info["cost"]
        assert ended.all() and total[0] == pytest.approx(point.best(limit)) and cost[0] == limit
    assert point.best(45) == pytest.approx(127.5)


def test_an_actor_file_is_sealed_and_is_what_torch_computes(tmp_path: pathlib.Path):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(6)
    layers = [torch.nn.Linear(5, 9), torch.nn.Linear(9, 2)]
    mean, deviation = np.arange(5.0), np.linspace(0.5, 2, 5)
    actor = common.Actor(layers, "tanh", "clip", mean, deviation, 3.0, limit=2.0)
    x = torch.randn(20, 5) * 4
    want = layers[1](torch.tanh(layers[0](((x.double() - torch.as_tensor(mean)) / torch.as_tensor(deviation)).clamp(-3, 3).float()))) / 2
    torch.testing.assert_close(actor(x), want.detach().clamp(-1, 1), rtol=0, atol=1e-6)
    actor.save(tmp_path / "a.safetensors", case="cart", algorithm="ppo")
    data = (tmp_path / "a.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = data[8 : 8 + length]
    at = header.index(b'"sha256":"') + len(b'"sha256":"')
    zeroed = header[:at] + b"0" * 64 + header[at + 64 :]
    assert header[at : at + 64].decode() == hashlib.sha256(data[:8] + zeroed).hexdigest()
    assert not list(tmp_path.glob("*.partial"))


def arguments(tmp_path: pathlib.Path, task: str, interactions: int) -> argparse.Namespace:
    return argparse.Namespace(task=task, seed=1, interactions=interactions, actors=tmp_path / "actors", curves=tmp_path / "curves", every=5_000, save_seconds=1e9)


def test_an_interrupted_training_goes_on_behind_its_checkpoint(tmp_path: pathlib.Path):
    torch.set_default_dtype(torch.float32)
    own = cpo.SETTINGS["default"] | cpo.SETTINGS["point"] | {"steps_per_epoch": 3200, "environments": 32}
    run = common.Run(arguments(tmp_path, "point", 12_800), "cpo", "test")
    learner = cpo.Cpo(run, own)
    updates = []

    def update(data):
        learner.update(data)
        updates.append(learner.done)
        run.stop = len(updates) == 2

    with pytest.raises(SystemExit):
        learner.learn(update)
    assert updates == [3200, 6400]
    again = common.Run(arguments(tmp_path, "point", 12_800), "cpo", "test")
    assert again.done == 6400
    other = cpo.Cpo(again, own)
    for a, b in zip(learner.policy.parameters(), other.policy.parameters()):
        assert torch.equal(a, b)
    assert other.normaliser.count == learner.normaliser.count and list(other.episodes) == list(learner.episodes)
    other.learn(other.update)
    lines = (tmp_path / "curves" / "point-cpo-1.csv").read_text().splitlines()
    done = [int(l.split(",")[0]) for l in lines[1:]]
    assert done == sorted(set(done)) and done[-1] == 12_800
    assert (tmp_path / "actors" / "point-cpo-1.safetensors").exists()


@pytest.mark.skipif(not (pathlib.Path(__file__).parent.parent / "python" / "gpc" / "_libgpc.so").exists(), reason="make python")
@pytest.mark.parametrize(("case", "method", "activation", "output", "hidden"), [
    ("integrator-convex", "td3", "relu", "tanh", [400, 300]), ("multiagent-moving", "cpo", "tanh", "clip", [64, 64]), ("opf30", "td3", "relu", "tanh", [400, 300]),
])
def test_go_decides_what_torch_does(tmp_path: pathlib.Path, case, method, activation, output, hidden):
    """The same observation through the file in Go and through PyTorch: the same answer within 1e-6."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(7)
    import gpc
    import gpc.envs

    env = gpc.envs.make_vec(case, 16, 991, autoreset_mode=common.AutoresetMode.SAME_STEP, threads=1)
    observation, _ = env.reset(seed=991)
    n, m = env.single_observation_space.shape[0], env.single_action_space.shape[0]
    sizes = [n, *hidden, m]
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
    actor = common.Actor(layers, activation, output, observation.mean(0), observation.std(0) + 1e-2)
    sha = next(c["problem_sha256"] for c in gpc.cases() if c["name"] == case)
    actor.save(tmp_path / "actor.safetensors", case=case, problem_sha256=sha, algorithm=method, library="test", seed=0, interactions=0, preference="adaptive")
    want = actor.act(observation)
    assert np.abs(want).max() > 0.05
    with gpc.open(case, model=str(tmp_path / "actor.safetensors"), method=method) as s:
        size = len(s.spec.state)
        for i in range(16):
            with s.loop(method) as loop:
                u = loop.decide(observation[i, :size].astype(np.float64), observation[i, size:].astype(np.float64)).u
            # What the environment makes of PyTorch's answer, as far apart as the answers may be.
            low = env.fleet.physical(want[i].astype(np.float64) - 1e-6, env=i)
            high = env.fleet.physical(want[i].astype(np.float64) + 1e-6, env=i)
            assert np.all(u >= low - 1e-12) and np.all(u <= high + 1e-12), (i, u, low, high)


@pytest.mark.parametrize(("script", "flags"), [
    ("td3", ["environments=8", "learning_starts=100", "batch_size=32", "hidden=[8]"]), ("ppo", ["environments=8", "n_steps=25", "hidden=[8]"]),
])
def test_a_training_of_the_library_goes_on_too(tmp_path: pathlib.Path, monkeypatch, script, flags):
    torch.set_default_dtype(torch.float32)
    import importlib

    module = importlib.import_module(script)
    argv = [script, "--task", "point", "--interactions", "1600", "--every", "400", "--actors", str(tmp_path), "--curves", str(tmp_path)]
    monkeypatch.setattr("sys.argv", argv + [a for f in flags for a in ("--set", f)])
    every, ends, runs = common.Run.every, [800, 10**9], []

    def stopping(run, done, actor, save):
        if run not in runs:
            runs.append(run)
        run.stop = done >= ends[0]
        return every(run, done, actor, save)

    monkeypatch.setattr(common.Run, "every", stopping)
    with pytest.raises(SystemExit) as left:
        module.main()
    assert left.value.code == 130 and (tmp_path / f"point-{script}-1" / "checkpoint" / "run.json").exists()
    del ends[0]
    module.main()
    # An interruption ends within the step that it meets.
    assert runs[1].start_done in (800, 808) and 1600 <= runs[1].done <= 1608
    done = [int(l.split(",")[0]) for l in (tmp_path / f"point-{script}-1.csv").read_text().splitlines()[1:]]
    assert done == sorted(set(done)) and done[0] == 0 and done[-1] == runs[1].done
    assert not (tmp_path / f"point-{script}-1" / "checkpoint").exists() and (tmp_path / f"point-{script}-1.safetensors").exists()


def test_the_critics_step_is_that_of_the_written_loss():
    torch.manual_seed(8)
    learner = onpolicy.Learner.__new__(onpolicy.Learner)
    learner.own = cpo.SETTINGS["default"] | {"critic_norm_coef": 0.2, "critic_lr": 1e-3}
    learner.reward_critic, learner.cost_critic = onpolicy.mlp([3, 4, 1]), onpolicy.mlp([3, 4, 1])
    learner.critics = [*learner.reward_critic.parameters(), *learner.cost_critic.parameters()]
    learner.optimiser = torch.optim.SGD(learner.critics, lr=1e-3)
    b = {"x": torch.randn(7, 3), "target_r": torch.randn(7), "target_c": torch.randn(7)}
    loss = sum(((c(b["x"])[:, 0] - b[t]) ** 2).mean() for c, t in ((learner.reward_critic, "target_r"), (learner.cost_critic, "target_c")))
    loss = loss + 0.2 * sum((p**2).sum() for p in learner.critics)
    want = [p.detach() - 1e-3 * g for p, g in zip(learner.critics, torch.autograd.grad(loss, learner.critics))]
    learner.fit_critics(b)
    for p, w in zip(learner.critics, want):
        torch.testing.assert_close(p.detach(), w)
