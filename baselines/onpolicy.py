"""What ppo_lagrangian.py and cpo.py share: a Gaussian policy, its critics, and batches of experience.

The parts and their constants are those of OmniSafe 0.5.0 (omnisafe/configs/on-policy, models/actor,
common/buffer, common/normalizer), whose release resolves on Python 3.10 alone.
"""

from __future__ import annotations

import collections

import numpy as np
import torch
from torch import nn

import common


def mlp(sizes: list[int]) -> nn.Sequential:
    """Affine layers with tanh between them; weights and biases uniform, as PyTorch draws them, which is OmniSafe's
    `kaiming_uniform`."""
    layers: list[nn.Module] = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Policy(nn.Module):
    """Normal actions about a network's answer, with a deviation that does not depend on the observation."""

    def __init__(self, observation: int, action: int, hidden: list[int]):
        super().__init__()
        self.mean = mlp([observation, *hidden, action])
        self.log_std = nn.Parameter(torch.zeros(action))

    def forward(self, x: torch.Tensor) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean(x), self.log_std.exp().expand(x.shape[0], -1))

    def log_prob(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self(x).log_prob(action).sum(-1)


def divergence(before: torch.distributions.Normal, after: torch.distributions.Normal) -> torch.Tensor:
    """KL(before‖after) of the whole action, the mean over observations."""
    return torch.distributions.kl_divergence(before, after).sum(-1).mean()


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
        n, m = self.env.single_observation_space.shape[0], self.env.single_action_space.shape[0]
        self.policy = Policy(n, m, own["hidden"])
        self.reward_critic, self.cost_critic = mlp([n, *own["hidden"], 1]), mlp([n, *own["hidden"], 1])
        self.critics = [*self.reward_critic.parameters(), *self.cost_critic.parameters()]
        self.optimiser = torch.optim.Adam(self.critics, lr=own["critic_lr"], fused=True)
        self.normaliser = Normaliser(n)
        # Return, cost and length of the last 100 episodes, OmniSafe's window.
        self.episodes: collections.deque = collections.deque(maxlen=100)
        self.sums = np.zeros((3, self.count))
        self.observation = None
        self.steps = own["steps_per_epoch"] // self.count
        self.done = run.done
        saved = run.checkpoint_folder()
        if saved:
            state = torch.load(saved / "learner.pt", weights_only=False)
            for name, part in self.parts().items():
                part.load_state_dict(state[name])
            self.normaliser.__dict__.update(state["normaliser"])
            self.episodes.extend(state["episodes"])

    def parts(self) -> dict:
        """What a checkpoint holds the state of."""
        return {"policy": self.policy, "reward_critic": self.reward_critic, "cost_critic": self.cost_critic, "optimiser": self.optimiser}

    def save(self, folder) -> None:
        state = {name: part.state_dict() for name, part in self.parts().items()}
        torch.save(state | {"normaliser": self.normaliser.__dict__, "episodes": list(self.episodes)}, folder / "learner.pt")

    def actor(self) -> common.Actor:
        layers = [l for l in self.policy.mean if isinstance(l, nn.Linear)]
        n = self.normaliser
        return common.Actor(layers, "tanh", "clip", n.mean, n.deviation, n.bound)

    def value(self, critic, x: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return critic(x)[:, 0].numpy().astype(np.float64)

    def collect(self) -> dict[str, torch.Tensor]:
        """An epoch of experience, flattened."""
        if self.observation is None:
            self.observation, _ = self.env.reset(seed=self.run.training_seed())
        steps, count = self.steps, self.count
        n, m = self.env.single_observation_space.shape[0], self.env.single_action_space.shape[0]
        x, act, logp = torch.zeros(steps, count, n), torch.zeros(steps, count, m), torch.zeros(steps, count)
        reward, cost, ended = np.zeros((steps, count)), np.zeros((steps, count)), np.zeros((steps, count))
        values, after = np.zeros((2, steps, count)), np.zeros((2, steps, count))
        critics = (self.reward_critic, self.cost_critic)
        for t in range(steps):
            self.normaliser.update(self.observation)
            x[t] = self.normaliser(self.observation)
            with torch.no_grad():
                normal = self.policy(x[t])
                act[t] = normal.sample()
                logp[t] = normal.log_prob(act[t]).sum(-1)
            for k, critic in enumerate(critics):
                values[k, t] = self.value(critic, x[t])
            if t > 0:
                after[:, t - 1] = np.where(ended[t - 1] == 1, after[:, t - 1], values[:, t])
            self.observation, reward[t], terminated, truncated, info = self.env.step(act[t].clamp(-1, 1).numpy())
            cost[t] = common.costs(info, count)
            ended[t] = terminated | truncated
            self.sums += reward[t], cost[t], np.ones(count)
            if ended[t].any():
                goes_on = truncated & ~terminated & (not common.timed(self.run.task))
                for i in np.flatnonzero(goes_on):
                    last = self.normaliser(np.asarray(info["final_obs"][i])[None])
                    after[:, t, i] = [self.value(critic, last)[0] for critic in critics]
                for i in np.flatnonzero(ended[t]):
                    self.episodes.append(tuple(self.sums[:, i]))
                    self.run.episode(*self.sums[:2, i])
                    self.sums[:, i] = 0
        last = self.normaliser(self.observation)
        after[:, -1] = np.where(ended[-1] == 1, after[:, -1], [self.value(critic, last) for critic in critics])
        adv_r, target_r = advantages(reward, values[0], after[0], ended, self.own["gamma"], self.own["lam"])
        adv_c, target_c = advantages(cost, values[1], after[1], ended, self.own["cost_gamma"], self.own["lam_c"])
        adv_r = (adv_r - adv_r.mean()) / (adv_r.std() + 1e-8)
        adv_c = adv_c - adv_c.mean()
        flat = lambda v: torch.as_tensor(np.asarray(v), dtype=torch.float32).reshape(steps * count, *np.shape(v)[2:])
        self.done += steps * count
        return {"x": flat(x), "act": flat(act), "logp": flat(logp), "adv_r": flat(adv_r), "adv_c": flat(adv_c), "target_r": flat(target_r), "target_c": flat(target_c)}

    def measured(self) -> tuple[float, float]:
        """The mean cost and length of the last episodes; of those begun where none has ended."""
        if self.episodes:
            return float(np.mean([e[1] for e in self.episodes])), float(np.mean([e[2] for e in self.episodes]))
        return float(self.sums[1].mean()), float(self.sums[2].mean())

    def batches(self, data: dict[str, torch.Tensor]):
        """Shuffled parts of a batch."""
        order = torch.randperm(len(data["x"]))
        for rows in order.split(self.own["batch_size"]):
            yield {k: v[rows] for k, v in data.items()}

    def fit_critics(self, b: dict[str, torch.Tensor]) -> None:
        """One step of both critics on a part of a batch."""
        loss = sum(nn.functional.mse_loss(critic(b["x"])[:, 0], b[target]) for critic, target in ((self.reward_critic, "target_r"), (self.cost_critic, "target_c")))
        self.optimiser.zero_grad()
        loss.backward()
        with torch.no_grad():  # the gradient of critic_norm_coef·Σp²
            for p in self.critics:
                p.grad.add_(p, alpha=2 * self.own["critic_norm_coef"])
        for critic in (self.reward_critic, self.cost_critic):
            nn.utils.clip_grad_norm_(critic.parameters(), self.own["max_grad_norm"])
        self.optimiser.step()

    def learn(self, update) -> None:
        """As many whole epochs of experience and update(batch) as the run has interactions for."""
        epoch = self.steps * self.count
        if self.run.total < epoch:
            raise ValueError(f"{self.run.total} interactions are fewer than an epoch of {epoch}")
        while self.done + epoch <= self.run.total and self.run.every(self.done, self.actor, self.save):
            update(self.collect())
        self.run.end(self.done, self.actor, self.save)
