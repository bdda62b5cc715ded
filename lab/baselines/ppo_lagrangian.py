"""PPO with a Lagrange multiplier on the cost (Ray et al. 2019), for one task and seed.

Settings are OmniSafe 0.5.0's (configs/on-policy/PPOLag.yaml), but for the limit and the length of an epoch: the limits
of gpc's cases are hard, so that the cost allowed is 0; multiplier_lr is chosen by search.py, and an update's 2000 interactions come from 16 environments.
"""

from __future__ import annotations

import torch

import common
import onpolicy

SETTINGS = {
    "default": dict(
        environments=16, steps_per_epoch=2_000, update_iters=40, batch_size=64, target_kl=0.02, clip=0.2, gamma=0.99, cost_gamma=0.99, lam=0.95, lam_c=0.95,
        actor_lr=3e-4, critic_lr=3e-4, critic_norm_coef=1e-3, max_grad_norm=40.0, hidden=[64, 64],
        cost_limit=0.0, multiplier_init=1e-3, multiplier_lr=0.35,
    ),
    "point": dict(cost_limit=10.0),
}


def policy_gradient(policy: onpolicy.Policy, b: dict[str, torch.Tensor], clip: float) -> torch.Tensor:
    """The gradient [1, parameters] of −mean(min(r·A, clip(r, 1 ± clip)·A)), r the ratio of densities."""
    read, log_std = policy.forward(b["x"]), policy.log_std()
    z = (b["act"] - read[-1][0]) * (-log_std).exp()
    ratio = (onpolicy.log_density(z, log_std) - b["logp"]).exp()
    gain = ratio * b["adv"]
    # Where the clipped one is less, nothing depends on the policy.
    return policy.ascent(read, z, torch.where(gain <= ratio.clamp(1 - clip, 1 + clip) * b["adv"], gain, 0) / -len(z))


class Lagrangian(onpolicy.Learner):
    def __init__(self, run: common.Run, own: dict):
        super().__init__(run, own)
        self.actor_optimiser = torch.optim.Adam([self.policy.theta], lr=own["actor_lr"], fused=True)
        self.multiplier = torch.tensor(own["multiplier_init"])
        self.multiplier_optimiser = torch.optim.Adam([self.multiplier], lr=own["multiplier_lr"])

    def parts(self) -> dict:
        return super().parts() | {"multiplier": self.multiplier, "multiplier_optimiser": self.multiplier_optimiser, "actor_optimiser": self.actor_optimiser}

    def update(self, data: dict[str, torch.Tensor]) -> None:
        own, policy = self.own, self.policy
        self.raise_multiplier(self.measured()[0])
        penalty = self.multiplier.item()
        data["adv"] = (data.pop("adv_r") - penalty * data.pop("adv_c")) / (1 + penalty)
        for group in self.actor_optimiser.param_groups:  # to 0 over the run
            group["lr"] = own["actor_lr"] * max(0.0, 1 - (self.done - self.steps * self.count) / self.run.total)
        before = policy.normal(data["x"])
        before = before[0], before[1].clone()
        for _ in range(own["update_iters"]):
            for b in self.batches(data):
                self.fit_critics(b)
                policy.theta.grad = onpolicy.clip_norm(policy_gradient(policy, b, own["clip"]), own["max_grad_norm"])
                self.actor_optimiser.step()
            if onpolicy.divergence(before, policy.normal(data["x"])) > own["target_kl"]:
                break

    def raise_multiplier(self, cost: float) -> None:
        """One ascent step on multiplier·(cost − limit), kept at least 0."""
        self.multiplier.grad = torch.tensor(self.own["cost_limit"] - cost)
        self.multiplier_optimiser.step()
        self.multiplier.clamp_(min=0.0)


def main() -> None:
    args, own = common.arguments(SETTINGS, __doc__)
    learner = Lagrangian(common.Run(args, "ppo-lagrangian", f"ppo_lagrangian.py, torch {torch.__version__}"), own)
    learner.learn(learner.update)


if __name__ == "__main__":
    main()
