"""PPO with a Lagrange multiplier on the cost (Ray et al. 2019), for one task and seed.

Settings are OmniSafe 0.5.0's (configs/on-policy/PPOLag.yaml), but for the limit: the limits of gpc's cases are hard,
so that the cost allowed is 0, and 20 000 interactions an epoch come from 64 environments.
"""

from __future__ import annotations

import torch

import common
import onpolicy

SETTINGS = {
    "default": dict(
        environments=64, steps_per_epoch=20_000, update_iters=40, batch_size=64, target_kl=0.02, clip=0.2, gamma=0.99, cost_gamma=0.99, lam=0.95, lam_c=0.95,
        actor_lr=3e-4, critic_lr=3e-4, critic_norm_coef=1e-3, max_grad_norm=40.0, hidden=[64, 64],
        cost_limit=0.0, multiplier_init=1e-3, multiplier_lr=0.035,
    ),
    "point": dict(cost_limit=10.0),
}


class Lagrangian(onpolicy.Learner):
    def __init__(self, run: common.Run, own: dict):
        self.multiplier = torch.nn.Parameter(torch.tensor(own["multiplier_init"]))
        self.multiplier_optimiser = torch.optim.Adam([self.multiplier], lr=own["multiplier_lr"])
        self.holder = torch.nn.ParameterList([self.multiplier])
        self.actor_optimiser = None
        super().__init__(run, own)

    def parts(self) -> dict:
        if self.actor_optimiser is None:
            self.actor_optimiser = torch.optim.Adam(self.policy.parameters(), lr=self.own["actor_lr"], fused=True)
        return super().parts() | {"multiplier": self.holder, "multiplier_optimiser": self.multiplier_optimiser, "actor_optimiser": self.actor_optimiser}

    def update(self, data: dict[str, torch.Tensor]) -> None:
        own = self.own
        self.raise_multiplier(self.measured()[0])
        penalty = self.multiplier.item()
        data["adv"] = (data["adv_r"] - penalty * data["adv_c"]) / (1 + penalty)
        self.parts()
        for group in self.actor_optimiser.param_groups:  # to 0 over the run
            group["lr"] = own["actor_lr"] * max(0.0, 1 - (self.done - self.steps * self.count) / self.run.total)
        with torch.no_grad():
            before = self.policy(data["x"])
        for _ in range(own["update_iters"]):
            for b in self.batches(data):
                self.fit_critics(b)
                ratio = (self.policy.log_prob(b["x"], b["act"]) - b["logp"]).exp()
                loss = -torch.min(ratio * b["adv"], ratio.clamp(1 - own["clip"], 1 + own["clip"]) * b["adv"]).mean()
                self.actor_optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), own["max_grad_norm"])
                self.actor_optimiser.step()
            with torch.no_grad():
                if onpolicy.divergence(before, self.policy(data["x"])) > own["target_kl"]:
                    break

    def raise_multiplier(self, cost: float) -> None:
        """One ascent step on multiplier·(cost − limit), kept at least 0."""
        self.multiplier_optimiser.zero_grad()
        (-self.multiplier * (cost - self.own["cost_limit"])).backward()
        self.multiplier_optimiser.step()
        self.multiplier.data.clamp_(min=0.0)


def main() -> None:
    args, own = common.arguments(SETTINGS, __doc__)
    learner = Lagrangian(common.Run(args, "ppo-lagrangian", f"ppo_lagrangian.py, torch {torch.__version__}"), own)
    learner.learn(learner.update)


if __name__ == "__main__":
    main()
