"""What ppo_lagrangian.py and cpo.py share: a Gaussian policy, its critics, and batches of experience.

The parts and their constants are those of OmniSafe 0.5.0 (omnisafe/configs/on-policy, models/actor,
common/buffer, common/normalizer), whose release resolves on Python 3.10 alone.

Networks this small cost the number of calls, not of products. So parameters lie in one tensor, both critics
are one batch, and the gradients of what is stepped through ten thousands of times are written out;
test_baselines.py holds them to autograd's.
"""

from __future__ import annotations

import collections
import math

import numpy as np
import torch

import common


class Networks:
    """Networks of the same sizes side by side: affine layers with tanh between them.

    theta [count, parameters] has the weights [in, out] and the bias of each layer one behind the other, and `extra`
    numbers of a caller's own. They are uniform in ±1/√in, as PyTorch draws them, which is OmniSafe's `kaiming_uniform`.
    """

    def __init__(self, count: int, sizes: list[int], extra: int = 0):
        self.sizes = list(zip(sizes[:-1], sizes[1:]))
        self.theta = torch.zeros(count, sum((a + 1) * b for a, b in self.sizes) + extra)
        self.layers = self.split(self.theta)
        for (a, _), layer in zip(self.sizes, self.layers):
            for part in layer:
                part.uniform_(-1 / math.sqrt(a), 1 / math.sqrt(a))

    def split(self, theta: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Weights [count, in, out] and bias [count, 1, out] of each layer, where theta has them."""
        layers, at = [], 0
        for a, b in self.sizes:
            layers.append((theta[:, at : at + a * b].unflatten(1, (a, b)), theta[:, None, at + a * b : at + (a + 1) * b]))
            at += (a + 1) * b
        return layers

    def forward(self, x: torch.Tensor, layers=None) -> list[torch.Tensor]:
        """What each layer reads for observations x [n, in], then the answers [count, n, out]."""
        layers = layers or self.layers
        read = [x.expand(len(self.theta), *x.shape)]
        for i, (weight, bias) in enumerate(layers):
            y = torch.baddbmm(bias, read[-1], weight)
            read.append(y if i == len(layers) - 1 else y.tanh())
        return read

    def gradient(self, read: list[torch.Tensor], slope: torch.Tensor) -> torch.Tensor:
        """The gradient [count, layers' parameters] of what has that slope in the answers of forward."""
        parts = []
        for i in reversed(range(len(self.layers))):
            parts += [slope.sum(1), torch.bmm(read[i].mT, slope).flatten(1)]
            if i:
                slope = torch.bmm(slope, self.layers[i][0].mT) * (1 - read[i] * read[i])
        return torch.cat(parts[::-1], 1)

    def tangent(self, read: list[torch.Tensor], direction: torch.Tensor) -> torch.Tensor:
        """What the answers of forward change by, to first order, where theta changes by direction."""
        change = None
        for i, ((weight, _), (along_weight, along_bias)) in enumerate(zip(self.layers, self.split(direction))):
            y = torch.baddbmm(along_bias, read[i], along_weight)
            y = y if change is None else torch.baddbmm(y, change, weight)
            change = y if i == len(self.layers) - 1 else y * (1 - read[i + 1] * read[i + 1])
        return change


class Policy(Networks):
    """Normal actions about a network's answer; the logarithms of their deviations are the last of theta.

    Functions of theta [1, parameters] are of the policy's own without it.
    """

    def __init__(self, observation: int, action: int, hidden: list[int]):
        super().__init__(1, [observation, *hidden, action], action)
        self.action = action

    def log_std(self, theta=None) -> torch.Tensor:
        return (self.theta if theta is None else theta)[0, -self.action :]

    def normal(self, x: torch.Tensor, theta=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean [n, actions] and logarithm of the deviation [actions]."""
        return self.forward(x, None if theta is None else self.split(theta))[-1][0], self.log_std(theta)

    def log_prob(self, x: torch.Tensor, action: torch.Tensor, theta=None) -> torch.Tensor:
        mean, log_std = self.normal(x, theta)
        return log_density((action - mean) * (-log_std).exp(), log_std)

    def ascent(self, read: list[torch.Tensor], z: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The gradient [1, parameters] of Σ weight·log_prob of actions that lie z deviations from their mean."""
        z, weight = z[None], weight[None, :, None]
        return torch.cat([self.gradient(read, weight * z * (-self.log_std()).exp()), (weight * (z * z - 1)).sum(1)], 1)


def log_density(z: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """The logarithm of the density of actions [n, actions] that lie z deviations from their mean."""
    return -0.5 * (z * z).sum(-1) - log_std.sum() - 0.5 * math.log(2 * math.pi) * z.shape[-1]


def divergence(before, after) -> torch.Tensor:
    """KL(before‖after) of the whole action, the mean over observations, of two `Policy.normal`s."""
    (mean0, log0), (mean1, log1) = before, after
    return (log1 - log0 + 0.5 * ((2 * log0).exp() + (mean0 - mean1) ** 2) * (-2 * log1).exp() - 0.5).sum(-1).mean()


def clip_norm(gradient: torch.Tensor, most: float) -> torch.Tensor:
    """Each row, shortened where it is longer than most, as torch.nn.utils.clip_grad_norm_ has it."""
    return gradient * (most / (torch.linalg.vector_norm(gradient, dim=1, keepdim=True) + 1e-6)).clamp(max=1)


class Normaliser:
    """The running mean and deviation of observations; what they are scaled to is clipped at ±5."""

    bound, least = 5.0, 1e-2

    def __init__(self, n: int):
        self.count, self.mean, self.squares = 0, np.zeros(n), np.zeros(n)

    def update(self, x: np.ndarray) -> None:
        n, mean = len(x), x.mean(0, dtype=np.float64)
        total, delta = self.count + n, mean - self.mean
        self.squares += ((x - mean) ** 2).sum(0) + delta**2 * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.maximum(np.sqrt(self.squares / (self.count - 1)), self.least)

    def __call__(self, x: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.clip((x - self.mean) / self.deviation, -self.bound, self.bound), dtype=torch.float32)


def advantages(reward, value, after, ended, gamma: float, lam: float):
    """Generalised advantage estimation (Schulman et al. 2016) of steps [t, environment].

    value is that of the observation before a step, after that of the one behind it, 0 where the
    episode is over for good; ended marks the last step of an episode, which nothing is carried over.
    Gives the advantages and the targets of the values.
    """
    out, carry = np.zeros_like(reward), np.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        carry = reward[t] + gamma * after[t] - value[t] + gamma * lam * (1 - ended[t]) * carry
        out[t] = carry
    return out, out + value


class Learner:
    """A policy with critics of reward and cost, in its environments."""

    def __init__(self, run: common.Run, own: dict):
        torch.manual_seed(run.training_seed() % 2**32)
        np.random.seed(run.training_seed() % 2**32)
        self.run, self.own = run, own
        self.count = own["environments"]
        self.env = common.make(run.task, self.count, run.training_seed())
        self.sizes = self.env.single_observation_space.shape[0], self.env.single_action_space.shape[0]
        n, m = self.sizes
        self.policy, self.critics = Policy(n, m, own["hidden"]), Networks(2, [n, *own["hidden"], 1])
        self.optimiser = torch.optim.Adam([self.critics.theta], lr=own["critic_lr"], fused=True)
        self.normaliser = Normaliser(n)
        # Return, cost and length of the last 100 episodes, OmniSafe's window.
        self.episodes: collections.deque = collections.deque(maxlen=100)
        self.sums = np.zeros((3, self.count))
        self.observation = None
        self.steps = own["steps_per_epoch"] // self.count
        self.done = run.done

    def parts(self) -> dict:
        """What a checkpoint holds the state of: tensors and optimisers."""
        return {"policy": self.policy.theta, "critics": self.critics.theta, "optimiser": self.optimiser}

    def restore(self) -> None:
        """Goes on from the run's checkpoint, where it has one."""
        saved = self.run.checkpoint_folder()
        if not saved:
            return
        state = torch.load(saved / "learner.pt", weights_only=False)
        for name, part in self.parts().items():
            if isinstance(part, torch.Tensor):
                part.copy_(state[name])
            else:
                part.load_state_dict(state[name])
        self.normaliser.__dict__.update(state["normaliser"])
        self.episodes.extend(state["episodes"])

    def save(self, folder) -> None:
        state = {name: part if isinstance(part, torch.Tensor) else part.state_dict() for name, part in self.parts().items()}
        torch.save(state | {"normaliser": self.normaliser.__dict__, "episodes": list(self.episodes)}, folder / "learner.pt")

    def actor(self) -> common.Actor:
        n = self.normaliser
        layers = [(weight[0].T.contiguous(), bias[0, 0]) for weight, bias in self.policy.layers]
        return common.Actor(layers, "tanh", "clip", n.mean, n.deviation, n.bound)

    def values(self, x: torch.Tensor) -> np.ndarray:
        """What the critics expect [2, n] of observations [n, …]."""
        return self.critics.forward(x)[-1][..., 0].numpy().astype(np.float64)

    def collect(self) -> dict[str, torch.Tensor]:
        """An epoch of experience, flattened."""
        if self.observation is None:
            self.observation, _ = self.env.reset(seed=self.run.training_seed())
        steps, count, (n, m) = self.steps, self.count, self.sizes
        x, act, logp = torch.zeros(steps + 1, count, n), torch.zeros(steps, count, m), torch.zeros(steps, count)
        reward, cost, ended = np.zeros((steps, count)), np.zeros((steps, count)), np.zeros((steps, count), bool)
        ends, lasts = [], []  # steps that end an episode which goes on for the critics, and what is seen there
        deviation = self.policy.log_std().exp()
        for t in range(steps):
            self.normaliser.update(self.observation)
            x[t] = self.normaliser(self.observation)
            z = torch.randn(count, m)
            act[t] = self.policy.forward(x[t])[-1][0] + deviation * z
            logp[t] = log_density(z, self.policy.log_std())
            self.observation, reward[t], terminated, truncated, info = self.env.step(act[t].clamp(-1, 1).numpy())
            cost[t] = common.costs(info, count)
            ended[t] = terminated | truncated
            self.sums += reward[t], cost[t], np.ones(count)
            if ended[t].any():
                goes_on = truncated & ~terminated & (not common.timed(self.run.task))
                for i in np.flatnonzero(goes_on):
                    ends.append((t, i))
                    lasts.append(self.normaliser(np.asarray(info["final_obs"][i])))
                for i in np.flatnonzero(ended[t]):
                    self.episodes.append(tuple(self.sums[:, i]))
                    self.run.episode(*self.sums[:2, i])
                    self.sums[:, i] = 0
        x[steps] = self.normaliser(self.observation)
        values = self.values(x.flatten(0, 1)).reshape(2, steps + 1, count)
        values, after = values[:, :-1], np.where(ended, 0, values[:, 1:])
        if ends:
            t, i = np.transpose(ends)
            after[:, t, i] = self.values(torch.stack(lasts))
        adv_r, target_r = advantages(reward, values[0], after[0], ended, self.own["gamma"], self.own["lam"])
        adv_c, target_c = advantages(cost, values[1], after[1], ended, self.own["cost_gamma"], self.own["lam_c"])
        adv_r = (adv_r - adv_r.mean()) / (adv_r.std() + 1e-8)
        adv_c = adv_c - adv_c.mean()
        flat = lambda v: torch.as_tensor(v, dtype=torch.float32).flatten(0, 1)
        self.done += steps * count
        return {
            "x": flat(x[:-1]), "act": flat(act), "logp": flat(logp), "adv_r": flat(adv_r), "adv_c": flat(adv_c),
            "targets": flat(np.stack([target_r, target_c], -1)),
        }

    def measured(self) -> tuple[float, float]:
        """The mean cost and length of the last episodes; of those begun where none has ended."""
        if self.episodes:
            return float(np.mean([e[1] for e in self.episodes])), float(np.mean([e[2] for e in self.episodes]))
        return float(self.sums[1].mean()), float(self.sums[2].mean())

    def batches(self, data: dict[str, torch.Tensor]):
        """Shuffled parts of a batch."""
        order = torch.randperm(len(data["x"]))
        names, shuffled = list(data), [v[order] for v in data.values()]
        for parts in zip(*(v.split(self.own["batch_size"]) for v in shuffled)):
            yield dict(zip(names, parts))

    def critics_gradient(self, b: dict[str, torch.Tensor]) -> torch.Tensor:
        """Of the mean squares of target − value and critic_norm_coef·Σθ², for each critic."""
        read = self.critics.forward(b["x"])
        slope = (read[-1] - b["targets"].T[..., None]) * (2 / len(b["x"]))
        return self.critics.gradient(read, slope).add_(self.critics.theta, alpha=2 * self.own["critic_norm_coef"])

    def fit_critics(self, b: dict[str, torch.Tensor]) -> None:
        """One step of both critics on a part of a batch."""
        self.critics.theta.grad = clip_norm(self.critics_gradient(b), self.own["max_grad_norm"])
        self.optimiser.step()

    def learn(self, update) -> None:
        """As many whole epochs of experience and update(batch) as the run has interactions for."""
        epoch = self.steps * self.count
        if self.run.total < epoch:
            raise ValueError(f"{self.run.total} interactions are fewer than an epoch of {epoch}")
        self.restore()
        with torch.no_grad():
            while self.done + epoch <= self.run.total and self.run.every(self.done, self.actor, self.save):
                update(self.collect())
        self.run.end(self.done, self.actor, self.save)
