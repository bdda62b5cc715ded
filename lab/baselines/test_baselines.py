"""Known answers of what is written here: run by `lab/run baselines-test`."""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import all as queue
import common
import cpo
import onpolicy
import point
import ppo
import ppo_lagrangian
import search
import td3


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


def policy_and_batch(deviations: float = 0.3):
    """A policy whose actions have several deviations, and a batch that an earlier one of it left."""
    policy, n = onpolicy.Policy(3, 2, [5, 4]), 40
    policy.log_std().copy_(torch.tensor([0.3, -0.7]))
    x = torch.randn(n, 3)
    act = policy.normal(x)[0] + policy.log_std().exp() * torch.randn(n, 2)
    b = {"x": x, "act": act, "logp": policy.log_prob(x, act) + deviations * torch.randn(n), "adv": torch.randn(n), "targets": torch.randn(n, 2)}
    return policy, b


def test_the_fisher_product_is_the_dense_hessian():
    torch.manual_seed(3)
    policy, b = policy_and_batch()
    before = policy.normal(b["x"])
    dense = torch.autograd.functional.hessian(lambda theta: onpolicy.divergence(before, policy.normal(b["x"], theta)), policy.theta)[0, :, 0]
    product = cpo.fisher(policy, b["x"], 0.1)
    for _ in range(5):
        v = torch.randn(policy.theta.shape[1])
        torch.testing.assert_close(product(v), dense @ v + 0.1 * v, rtol=1e-9, atol=1e-12)


def test_density_and_divergence_are_those_of_torch():
    torch.manual_seed(4)
    policy, b = policy_and_batch()
    mean, log_std = policy.normal(b["x"])
    normal = torch.distributions.Normal(mean, log_std.exp().expand_as(mean))
    torch.testing.assert_close(policy.log_prob(b["x"], b["act"]), normal.log_prob(b["act"]).sum(-1))
    other = torch.distributions.Normal(mean + 0.2, 1.5 * normal.scale)
    want = torch.distributions.kl_divergence(normal, other).sum(-1).mean()
    torch.testing.assert_close(onpolicy.divergence((mean, log_std), (mean + 0.2, log_std + math.log(1.5))), want)


def test_gradients_that_are_written_out_are_autograds():
    torch.manual_seed(5)
    policy, b = policy_and_batch()
    theta = policy.theta.clone().requires_grad_()
    ratio = (policy.log_prob(b["x"], b["act"], theta) - b["logp"]).exp()
    for sign in (1, -1):  # ratios beyond the clip in both directions, under gains of both signs
        b["adv"] = sign * b["adv"]
        beyond = (ratio - 1).abs() > 0.2
        assert all(((ratio > 1) == up)[beyond & (b["adv"] > 0)].any() for up in (True, False))
    loss = -torch.min(ratio * b["adv"], ratio.clamp(0.8, 1.2) * b["adv"]).mean()
    torch.testing.assert_close(ppo_lagrangian.policy_gradient(policy, b, 0.2), torch.autograd.grad(loss, theta)[0])

    read = policy.forward(b["x"])
    direction = torch.randn_like(policy.theta)
    _, want = torch.func.jvp(lambda t: policy.normal(b["x"], t)[0], (policy.theta,), (direction,))
    torch.testing.assert_close(policy.tangent(read, direction)[0], want)

    norm = onpolicy.clip_norm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    torch.testing.assert_close(norm, torch.tensor([[0.6, 0.8], [0.3, 0.4]]), rtol=1e-6, atol=0)


def test_the_critics_step_is_that_of_the_written_loss():
    torch.manual_seed(8)
    learner = onpolicy.Learner.__new__(onpolicy.Learner)
    learner.own = cpo.SETTINGS["default"] | {"critic_norm_coef": 0.2, "max_grad_norm": 1.5}
    learner.critics = onpolicy.Networks(2, [3, 4, 1])
    learner.optimiser = torch.optim.SGD([learner.critics.theta], lr=1e-3)
    b = policy_and_batch()[1]
    b["targets"][:, 1] *= 10  # the norms of both gradients are limited apart
    before, want = learner.critics.theta.clone(), []
    for k in range(2):
        theta = learner.critics.theta.clone().requires_grad_()
        value = learner.critics.forward(b["x"], learner.critics.split(theta))[-1][k, :, 0]
        loss = ((value - b["targets"][:, k]) ** 2).mean() + 0.2 * (theta[k] ** 2).sum()
        g = torch.autograd.grad(loss, theta)[0][k]
        want.append(g * min(1, 1.5 / (float(g.norm()) + 1e-6)))
    learner.fit_critics(b)
    torch.testing.assert_close(learner.critics.theta, before - 1e-3 * torch.stack(want))
    assert not torch.allclose(want[0].norm(), want[1].norm())


def test_the_line_search_takes_the_first_fraction_that_is_accepted():
    fractions = []

    def accepts(fraction):
        fractions.append(fraction)
        return fraction <= 0.5

    assert cpo.line_search(accepts, 15, 0.8) == pytest.approx(0.8**4)
    assert fractions == pytest.approx([0.8**k for k in range(5)])
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
    learner.own, learner.multiplier = own, torch.tensor(own["multiplier_init"])
    learner.multiplier_optimiser = torch.optim.Adam([learner.multiplier], lr=own["multiplier_lr"])
    learner.raise_multiplier(30.0)
    assert learner.multiplier.item() == pytest.approx(1e-3 + own["multiplier_lr"], abs=1e-6)  # Adam's first step is the rate
    for _ in range(200):
        learner.raise_multiplier(0.0)
    assert learner.multiplier.item() == 0


def test_an_update_is_omnisafes(tmp_path: pathlib.Path):
    """PPOLag._update and what it calls, as OmniSafe 0.5.0 has them: modules, autograd, an optimiser for each network, LinearLR."""
    n, epochs, limit = 256, 4, 10.0
    own = ppo_lagrangian.SETTINGS["default"] | {"steps_per_epoch": n, "cost_limit": limit, "hidden": [8, 6], "actor_lr": 3e-3, "multiplier_lr": 0.5}
    learner = ppo_lagrangian.Lagrangian(common.Run(arguments(tmp_path, "point", n * epochs), "ppo-lagrangian", "test"), own)

    def module(layers):
        parts = []
        for weight, bias in layers:
            linear = torch.nn.Linear(*weight.shape)
            linear.weight.data, linear.bias.data = weight.T.clone(), bias[0].clone()
            parts += [linear, torch.nn.Tanh()]
        return torch.nn.Sequential(*parts[:-1])

    mean = module([(w[0], b[0]) for w, b in learner.policy.layers])
    log_std = torch.nn.Parameter(torch.zeros(1))
    critics = [module([(w[k], b[k]) for w, b in learner.critics.layers]) for k in range(2)]
    actor = [log_std, *mean.parameters()]
    actor_optimiser = torch.optim.Adam(actor, lr=own["actor_lr"])
    optimisers = [torch.optim.Adam(c.parameters(), lr=own["critic_lr"]) for c in critics]
    scheduler = torch.optim.lr_scheduler.LinearLR(actor_optimiser, start_factor=1.0, end_factor=0.0, total_iters=epochs)
    multiplier = torch.nn.Parameter(torch.as_tensor(own["multiplier_init"]))
    multiplier_optimiser = torch.optim.Adam([multiplier], lr=own["multiplier_lr"])
    iterations, clipped = [], 0
    for epoch in range(epochs):
        torch.manual_seed(epoch)
        x = torch.randn(n, 2)
        with torch.no_grad():
            old = torch.distributions.Normal(mean(x), log_std.exp())
            act = old.sample()
            logp = old.log_prob(act).sum(-1)
        adv_r, adv_c, targets = act[:, 0] + torch.randn(n), 0.3 * torch.randn(n), 200 * torch.randn(n, 2)
        cost = (30.0, 12.0, 0.0, 11.0)[epoch]
        learner.episodes.clear()
        learner.episodes.extend([(0.0, cost - 1, 50), (0.0, cost + 1, 50)])
        learner.done = n * (epoch + 1)
        torch.manual_seed(100 + epoch)
        with torch.no_grad():
            learner.update({"x": x, "act": act, "logp": logp, "adv_r": adv_r, "adv_c": adv_c, "targets": targets})

        torch.manual_seed(100 + epoch)
        multiplier_optimiser.zero_grad()
        (-multiplier * (cost - limit)).backward()
        multiplier_optimiser.step()
        multiplier.data.clamp_(0.0, None)
        adv = (adv_r - multiplier.item() * adv_c) / (1 + multiplier.item())
        for i in range(own["update_iters"]):
            for part in torch.randperm(n).split(own["batch_size"]):
                for k in range(2):
                    optimisers[k].zero_grad()
                    loss = torch.nn.functional.mse_loss(critics[k](x[part])[:, 0], targets[part, k])
                    for p in critics[k].parameters():
                        loss += p.pow(2).sum() * own["critic_norm_coef"]
                    loss.backward()
                    clipped += float(torch.nn.utils.clip_grad_norm_(critics[k].parameters(), own["max_grad_norm"])) > own["max_grad_norm"]
                    optimisers[k].step()
                ratio = (torch.distributions.Normal(mean(x[part]), log_std.exp()).log_prob(act[part]).sum(-1) - logp[part]).exp()
                actor_optimiser.zero_grad()
                (-torch.min(ratio * adv[part], ratio.clamp(1 - own["clip"], 1 + own["clip"]) * adv[part]).mean()).backward()
                torch.nn.utils.clip_grad_norm_(actor, own["max_grad_norm"])
                actor_optimiser.step()
            new = torch.distributions.Normal(mean(x), log_std.exp())
            if torch.distributions.kl.kl_divergence(old, new).sum(-1, keepdim=True).mean() > own["target_kl"]:
                break
        scheduler.step()
        iterations.append(i + 1)

        torch.testing.assert_close(learner.multiplier, multiplier.data, rtol=0, atol=1e-12)
        torch.testing.assert_close(learner.policy.log_std(), log_std.data, rtol=0, atol=1e-9)
        torch.testing.assert_close(learner.policy.normal(x)[0], mean(x).detach(), rtol=0, atol=1e-8)
        for k in range(2):
            torch.testing.assert_close(learner.critics.forward(x)[-1][k], critics[k](x).detach(), rtol=0, atol=1e-8)
    assert min(iterations) < own["update_iters"] and clipped, (iterations, clipped)


def test_the_points_best_return_is_that_of_the_formula():
    assert point.best(10) == pytest.approx(-32) and point.best(49.5) == pytest.approx(-0.25) == point.best(1000)
    env, rng = point.PointVec(64, noise=0), np.random.default_rng(9)
    for limit in (0.5, 10, 40):
        # The level that the cost is used up at, by bisection in the environment itself.
        low, high = point.EDGE, point.GOAL
        for _ in range(60):
            level = (low + high) / 2
            total, cost = followed(env, np.full((point.STEPS, 64), level))
            low, high = (level, high) if cost[0] <= limit else (low, level)
        assert total[0] == pytest.approx(point.best(limit), abs=1e-6)
        # No other levels over time are better, whatever they cost less, nor is their mean, which has the mean cost.
        total, cost = followed(env, level + rng.normal(0, 0.3, (point.STEPS, 64)).cumsum(0) / 5)
        multiplier = 2 * (point.GOAL - level)
        assert (total - multiplier * (cost - limit) <= point.best(limit) + 1e-9).all()


def followed(env: point.PointVec, levels: np.ndarray):
    """Returns and costs of points that go where levels [step, point] are, as far as they can."""
    observation, _ = env.reset()
    total, cost = np.zeros((2, env.num_envs))
    for level in levels:
        observation, reward, _, _, info = env.step((level - env.x / 2)[:, None])
        total, cost = total + reward, cost + info["cost"]
    return total, cost


def test_an_actor_file_is_sealed_and_is_what_torch_computes(tmp_path: pathlib.Path):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(6)
    layers = [torch.nn.Linear(5, 9), torch.nn.Linear(9, 2)]
    mean, deviation = np.arange(5.0), np.linspace(0.5, 2, 5)
    actor = common.Actor([(l.weight, l.bias) for l in layers], "tanh", "clip", mean, deviation, 3.0, limit=2.0)
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

    def update_again(data):
        if other.done == 9600:
            assert torch.equal(other.policy.theta, learner.policy.theta) and torch.equal(other.critics.theta, learner.critics.theta)
            assert other.optimiser.state_dict()["state"][0]["step"] == learner.optimiser.state_dict()["state"][0]["step"] > 0
            assert other.normaliser.count == learner.normaliser.count + 3200
        other.update(data)

    other.learn(update_again)
    assert len(other.episodes) == 100
    lines = (tmp_path / "curves" / "point-cpo-1.csv").read_text().splitlines()
    done = [int(l.split(",")[0]) for l in lines[1:]]
    assert done == sorted(set(done)) and done[-1] == 12_800
    assert (tmp_path / "actors" / "point-cpo-1.safetensors").exists()


BUILT = pytest.mark.skipif(not (pathlib.Path(__file__).parents[2] / "python" / "gpc" / "_libgpc.so").exists(), reason="make python")


@BUILT
@pytest.mark.parametrize("case", common.CASES)
def test_stable_baselines_takes_every_case(case):
    import gpc.envs
    from stable_baselines3.common.env_checker import check_env

    check_env(gpc.envs.make(case), warn=True)


@BUILT
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
    actor = common.Actor([(l.weight, l.bias) for l in layers], activation, output, observation.mean(0), observation.std(0) + 1e-2)
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
        with s.loop(method) as loop, pytest.raises(gpc.InputError, match="for the preference adaptive, and asked for a decision under"):
            m = len(s.spec.objectives)
            loop.decide(observation[0, :size].astype(np.float64), observation[0, size:].astype(np.float64), [1.0 / m] * m)


@BUILT
def test_exploration_hides_what_driving_forward_gains():
    """What the page says of PPO in Case 2: a constant 0.05 of forward acceleration, with exploration of several deviations, in
    512 scenes; the difference of returns to none in the same scenes and noise."""
    scenes, said = 512, " ".join((queue.ROOT / "docs" / "results" / "baselines.md").read_text().split())

    def returns(forward: float, deviation: float) -> np.ndarray:
        env, rng, total = common.make("multiagent-static", scenes, 9001, cycle=scenes), np.random.default_rng(1), np.zeros(scenes)
        for _ in range(150):
            noise = deviation * rng.normal(size=(scenes, 6, 2))
            noise[..., 0] += forward
            total += env.step(noise.reshape(scenes, 12).clip(-1, 1))[1]
        return total

    for deviation in (0.135, 0.37, 1.0):
        gained = returns(0.05, deviation) - returns(0.0, deviation)
        mean, half = gained.mean(), 1.96 * gained.std() / math.sqrt(scenes)
        assert f"{round(mean, -2):.0f} ± {round(half, -2):.0f} at {deviation:g}".replace("-", "−") in said, (deviation, mean, half)


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


def test_every_first_seed_comes_before_a_second():
    seeds = [t[2] for t in queue.trainings("*", [1, 2, 3])]
    assert seeds == sorted(seeds) and len(seeds) == sum(p[2] for p in queue.PLAN) and seeds.count(1) == len(queue.PLAN)
    assert [t[:3] for t in queue.trainings("opf30-*", [1, 2])] == [("opf30", "cpo", 1), ("opf30", "td3", 1), ("opf30", "cpo", 2), ("opf30", "td3", 2)]


def test_a_queue_that_is_ended_leaves_no_training_behind(tmp_path: pathlib.Path):
    """In a copy of the folder, whose build folder is its own."""
    copy = tmp_path / "baselines"
    shutil.copytree(pathlib.Path(__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    p = subprocess.Popen([sys.executable, copy / "all.py", "train", tmp_path / "results", "--only", "point-cpo-1"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not (curves := list((tmp_path / "results").rglob("point-cpo-1.csv"))) or len(curves[0].read_text().splitlines()) < 2:
            assert time.monotonic() < deadline and p.poll() is None
            time.sleep(0.2)
    finally:
        p.terminate()
    assert p.wait(60) == 130
    assert list((tmp_path / "build").rglob("checkpoint/run.json")), "the training has saved itself"
    assert str(copy) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_an_evaluation_is_recorded_once_among_those_of_its_case(tmp_path: pathlib.Path, monkeypatch):
    build, results, other = tmp_path / "build", tmp_path / "results" / "here", tmp_path / "results" / "there"
    for folder in (build, results, other):
        folder.mkdir(parents=True)
    (other / "integrator-convex-navigator.json").write_text("{}")
    gpc = tmp_path / "gpc"
    gpc.write_text(f"""#!{sys.executable}
import json, sys
seed = int(sys.argv[sys.argv.index("--model") + 1][-len("1.safetensors")])
open({str(tmp_path / "calls")!r}, "a").write("x")
print(json.dumps({{"safe": seed / 10, "ci95": {{"safe": [0, 1]}}, "latency_us": {{"p50": 1, "p99": 2}}, "episodes": 3}}))
""")
    gpc.chmod(0o755)
    monkeypatch.setattr(queue, "BUILD", build)
    monkeypatch.setattr(queue, "PUBLISHED", tmp_path / "actors")
    arguments = argparse.Namespace(results=results, only="integrator-convex-*", seeds=[1, 2, 3], gpc=gpc, episodes=None)

    def evaluated(seed):
        (build / f"integrator-convex-td3-{seed}.safetensors").touch()
        assert queue.evaluate(arguments) == queue.evaluate(arguments) == 0
        with (other / "baselines" / "evaluations.csv").open(newline="") as f:
            rows = [(r["method"], r["training_seed"], r["training_seeds"]) for r in csv.DictReader(f)]
        return rows, json.loads((other / "integrator-convex-td3.json").read_text())["safe"]

    second, first = [("td3", "2", "3"), ("td3+safeguard", "2", "3")], [("td3", "1", "3"), ("td3+safeguard", "1", "3")]
    assert evaluated(2) == (second, 0.2)
    assert evaluated(1) == (second + first, 0.1)  # the first seed that is there is the record
    assert evaluated(3)[1] == 0.1 and (tmp_path / "calls").read_text() == "x" * 6
    # A plan with more seeds: the earlier lines say so too.
    monkeypatch.setattr(queue, "PLAN", [("integrator-convex", "td3", 4, 1_000_000)])
    arguments.seeds = [4]
    rows, _ = evaluated(4)
    assert len(rows) == 8 and {planned for _, _, planned in rows} == {"4"}


def test_actors_are_those_trained_here_and_else_those_published(tmp_path: pathlib.Path, monkeypatch, capsys):
    build, published = tmp_path / "build", tmp_path / "actors"
    build.mkdir()
    monkeypatch.setattr(queue, "BUILD", build)
    monkeypatch.setattr(queue, "PUBLISHED", published)
    for name in ("opf30-td3-1", "opf30-cpo-1", "integrator-convex-td3-2", "pendulum-ppo-1"):
        (build / f"{name}.safetensors").write_bytes(name.encode())
    arguments = argparse.Namespace(only="*")
    assert queue.publish(arguments) == 0
    assert sorted(f.name for f in published.iterdir()) == ["opf30-cpo-1.safetensors", "opf30-td3-1.safetensors"], "the first seeds of the cases"
    assert queue.found("opf30", "td3", 1) == build / "opf30-td3-1.safetensors"
    (build / "opf30-td3-1.safetensors").unlink()
    assert queue.found("opf30", "td3", 1) == published / "opf30-td3-1.safetensors" and queue.found("opf30", "ppo", 1) is None
    (build / "opf30-cpo-1.safetensors").write_bytes(b"new")
    monkeypatch.setattr(queue, "PUBLISHED_LIMIT", len(b"opf30-td3-1") + 2)  # with what is there already a byte too much
    assert queue.publish(arguments) == 1 and "want at most" in capsys.readouterr().err
    assert (published / "opf30-cpo-1.safetensors").read_bytes() == b"opf30-cpo-1"
    monkeypatch.setattr(queue, "PUBLISHED_LIMIT", 20)
    assert queue.publish(arguments) == 0 and (published / "opf30-cpo-1.safetensors").read_bytes() == b"new"


def test_all_that_is_published_fits(tmp_path: pathlib.Path):
    """Of the sizes that the methods have by default."""
    torch.set_default_dtype(torch.float32)
    sizes = {"integrator-convex": (9, 2), "integrator-nonconvex": (9, 2), "opf30": (106, 12), "multiagent-static": (141, 12), "multiagent-moving": (141, 12)}
    for task, method, _, _ in queue.PLAN:
        if task in sizes:
            n, m = sizes[task]
            hidden = [400, 300] if method == "td3" else [64, 64]
            layers = [torch.nn.Linear(a, b) for a, b in zip([n, *hidden], [*hidden, m])]
            actor = common.Actor([(l.weight, l.bias) for l in layers], "relu", "tanh", np.zeros(n), np.ones(n))
            actor.save(tmp_path / f"{task}-{method}.safetensors", case=task, algorithm=method, library="x" * 40, problem_sha256="0" * 64)
    assert len(list(tmp_path.iterdir())) == 14 and 1_000_000 < sum(f.stat().st_size for f in tmp_path.iterdir()) < queue.PUBLISHED_LIMIT


def test_large_matrices_are_in_half_precision(tmp_path: pathlib.Path):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(12)
    layers = [torch.nn.Linear(a, b) for a, b in zip([9, 400, 300], [400, 300, 2])]
    actor = common.Actor([(l.weight, l.bias) for l in layers], "relu", "tanh")
    assert torch.equal(actor.layers[0][0], layers[0].weight) and torch.equal(actor.layers[1][0], layers[1].weight.half().float())
    x = torch.randn(200, 9)
    exact = common.Actor([(l.weight, l.bias) for l in layers], "relu", "tanh")
    exact.layers[1] = layers[1].weight.detach(), layers[1].bias.detach()
    assert 0 < (actor(x) - exact(x)).abs().max() < 2e-4
    actor.save(tmp_path / "a.safetensors", case="cart", algorithm="td3")
    data = (tmp_path / "a.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert [header[f"layer{i}.weight"]["dtype"] for i in range(3)] == ["F32", "F16", "F32"] and header["layer1.bias"]["dtype"] == "F32"


def test_the_search_takes_the_value_with_the_least_score(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(search, "GRID", {"cpo": ("steps_per_epoch", (1, 2, 3), ("point", "integrator-convex"))})
    ends = {  # return and cost in training of a value on a task
        (1, "point"): (29, 20), (2, "point"): (28, 9), (3, "point"): (127, 45),
        (1, "integrator-convex"): (-900, 0), (2, "integrator-convex"): (-300, 1), (3, "integrator-convex"): (-250, 10),
    }
    for (value, task), (reward, cost) in ends.items():
        path = tmp_path / "search" / str(value) / f"{task}-cpo-{search.SEED}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        row = {"interactions": 100, "cpu_seconds": 5, "return_mean": reward, "cost_mean": 0, "training_return": 0, "training_cost": cost}
        queue.write(path, list(row), [row | {"interactions": 70, "training_cost": 1e6}, row | {"interactions": 90, "training_cost": cost - 0.5}, row | {"training_cost": cost + 0.5}])
    found = {v: search.last(tmp_path, "cpo", v, "point") for v in (1, 2, 3)}
    assert found[1]["training_cost"] == 20
    assert search.scores(found, "cpo", "point") == pytest.approx({1: 10 / 35 + 98 / 127, 2: 99 / 127, 3: 1.0})
    assert search.scores(found, "td3", "point") == pytest.approx({1: 98 / 127, 2: 99 / 127, 3: 0.0}), "it does not know of the cost"
    assert search.chosen(tmp_path, "cpo") == 2
    queue.write(path, list(row), [row | {"interactions": 50}])
    assert search.chosen(tmp_path, "cpo") is None, "a training had half the budget"
    path.unlink()
    assert search.chosen(tmp_path, "cpo") is None


def test_a_broken_limit_costs_a_step_of_an_episode_without_action():
    """By the rule of td3-penalty a reward loses the mean cost of an idle step for each margin that is broken, and what is
    recorded of an episode stays the case's own."""
    bare, priced = (common.Sb3("integrator-convex", 4, common.TRAINING_SEED, penalty=p) for p in (None, "step"))
    idle = np.zeros((4, *bare.action_space.shape), np.float32)
    for env in (bare, priced):
        env.reset()
    total, steps, broken, done = 0.0, 0, 0, np.zeros(4, bool)
    while not done.any():
        for env in (bare, priced):
            env.step_async(idle)
        _, own, done, infos = bare.step_wait()
        _, less, _, after = priced.step_wait()
        total, steps = total - float(np.mean(own)), steps + 1
        lost = (own - less) / priced.penalty[0]
        assert np.allclose(lost, np.round(lost), atol=1e-4) and (lost > -1e-4).all()
        broken += int(np.round(lost).sum())
        for a, b in zip(infos, after, strict=True):
            assert ("episode" in a) == ("episode" in b) and ("episode" not in a or a["episode"]["r"] == b["episode"]["r"])
    assert np.allclose(priced.penalty, total / steps, rtol=1e-5) and total > 0 and broken > 0, (priced.penalty, total / steps, broken)


def test_every_search_has_the_same_budget_about_the_method_s_own_setting():
    modules = {"td3": td3, "ppo": ppo, "ppo-lagrangian": ppo_lagrangian, "cpo": cpo}
    assert search.GRID.keys() == modules.keys() == set(queue.SCRIPT) - {"ppo-shielded", "td3-penalty"}
    for method, (setting, values, tasks) in search.GRID.items():
        assert len(set(values)) == 3 and len(tasks) == 3 and "point" in tasks
        assert modules[method].SETTINGS["default"][setting] in values
        assert not any(setting in modules[method].SETTINGS.get(task, {}) for task in tasks)
    trainings = list(search.trainings("*"))
    assert len(trainings) == len(set(trainings)) == 9 * len(search.GRID)


def test_the_settings_are_those_that_the_search_has_chosen():
    modules = {"td3": td3, "ppo": ppo, "ppo-lagrangian": ppo_lagrangian, "cpo": cpo}
    recorded = [f for f in queue.ROOT.glob("lab/results/*/baselines") if (f / "search").exists()]
    assert recorded
    for folder in recorded:
        for method, module in modules.items():
            best = search.chosen(folder, method)
            assert best is None or module.SETTINGS["default"][search.GRID[method][0]] == best, (folder, method)


def test_the_search_says_what_is_missing_and_what_it_takes(tmp_path: pathlib.Path):
    report = pytest.importorskip("report")
    folder = tmp_path / "baselines"
    rows = [{"task": "integrator-convex", "method": "td3", "cpu_seconds_per_10000": 30}, {"task": "opf30", "method": "td3", "cpu_seconds_per_10000": 45}]
    queue.write(folder / "cost.csv", list(rows[0]), rows)
    row = {"interactions": 200_000, "cpu_seconds": 660, "return_mean": -10.2, "cost_mean": 40, "training_return": -10.5, "training_cost": 39}
    queue.write(folder / "search" / "0.001" / f"point-td3-{search.SEED}.csv", list(row), [row])
    said = report.searched(folder)
    assert "| `td3` | `learning_rate` | point | 0.001 | 200000 | -10.2 | 40 | 39 | – | – | 11.0 |" in said
    assert "| `td3` | `learning_rate` | point | 0.003 | not recorded | – | – | – | – | – | (15.0) |" in said
    assert "| `td3` | `learning_rate` | integrator-convex | 0.003 | not recorded | – | – | – | – | – | (10.0) |" in said
    assert "| `ppo` | `learning_rate` | point | 0.0001 | not recorded | – | – | – | – | – | – |" in said
    assert "`td3`: `learning_rate` is not chosen yet" in said and f"about {2 * 15 + 3 * 10 + 3 * 15} min" in said


def test_an_unfinished_training_is_no_answer(tmp_path: pathlib.Path):
    report = pytest.importorskip("report")
    for seed, done in ((1, 998_400), (2, 678_912), (3, None)):
        rows = [] if done is None else [{"interactions": 0, "return_mean": -50}, {"interactions": done, "return_mean": -34}]
        queue.write(tmp_path / f"point-cpo-{seed}.csv", ["interactions", "return_mean"], rows)
    runs = report.curves(tmp_path)
    assert sorted(runs["point"]["cpo"]) == [1, 2]
    assert [r["interactions"] for r in report.ended(runs, "point", "cpo")] == [998_400]
