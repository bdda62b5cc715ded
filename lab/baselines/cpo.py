"""Constrained policy optimisation (Achiam et al. 2017), for one task and seed.

Settings are OmniSafe 0.5.0's (configs/on-policy/CPO.yaml), but for the limit and the length of an epoch: the limits of
gpc's cases are hard, so that the cost allowed is 0; steps_per_epoch is chosen by search.py, and comes from 16 environments.
The step is that of the paper's appendix; its parts are held to dense solutions in float64 by test_baselines.py.
"""

from __future__ import annotations

import math

import torch

import common
import onpolicy

SETTINGS = {
    "default": dict(
        environments=16, steps_per_epoch=2_000, update_iters=10, batch_size=128, target_kl=0.01, gamma=0.99, cost_gamma=0.99, lam=0.95, lam_c=0.95,
        critic_lr=1e-3, critic_norm_coef=1e-3, max_grad_norm=40.0, hidden=[64, 64], cg_damping=0.1, cg_iters=15, search_steps=15, search_decay=0.8,
        cost_limit=0.0,
    ),
    "point": dict(cost_limit=10.0),
}


def conjugate_gradients(product, b: torch.Tensor, iterations: int, tolerance: float = 1e-10) -> torch.Tensor:
    """x with product(x) = b, for a symmetric positive definite product."""
    x, residual, direction = torch.zeros_like(b), b.clone(), b.clone()
    square = residual @ residual
    for _ in range(iterations):
        if square.sqrt() < tolerance:
            break
        z = product(direction)
        alpha = square / (direction @ z)
        x += alpha * direction
        residual -= alpha * z
        last, square = square, residual @ residual
        direction = residual + square / last * direction
    return x


def dual(q: float, r: float, s: float, c: float, delta: float) -> tuple[float, float]:
    """The multipliers λ of the trust region and ν of the cost of

        minimise gᵀx  subject to  c + bᵀx ≤ 0,  ½ xᵀHx ≤ δ

    with q = gᵀH⁻¹g, r = gᵀH⁻¹b, s = bᵀH⁻¹b, where both can be met: c²/s ≤ 2δ or c < 0. Then
    x = −H⁻¹(g + νb)/λ. (Achiam et al., theorem 2.)
    """
    a, room = max(q - r * r / s, 0.0), 2 * delta - c * c / s
    if c < 0 and room < 0:  # the cost cannot bind inside the trust region
        return math.sqrt(q / (2 * delta)), 0.0

    # λ for which the cost binds (λc > r) and those for which it does not, as intervals.
    if c < 0:
        binds, free = (0.0, max(r / c, 0.0)), (max(r / c, 0.0), math.inf)
    elif c > 0:
        binds, free = (max(r / c, 0.0), math.inf), (0.0, max(r / c, 0.0))
    else:
        binds, free = ((0.0, math.inf), None) if r < 0 else (None, (0.0, math.inf))
    best = None
    for interval, top, slope, value in (
        (binds, a, room, lambda l: -0.5 * (a / l + room * l) - r * c / s), (free, q, 2 * delta, lambda l: -0.5 * (q / l + 2 * delta * l)),
    ):
        if interval is None or interval[1] == 0:
            continue
        # Away from 0 and ∞, which it only reaches where g is along b or the step on the edge of what can be met.
        lam = max(math.sqrt(top / max(slope, 1e-12 * delta)), 1e-9 * math.sqrt(q / delta))
        lam = min(max(lam, interval[0]), interval[1])
        if best is None or value(lam) > best[0]:
            best = (value(lam), lam)
    lam = best[1]
    return lam, max(0.0, (lam * c - r) / s)


def step(g: torch.Tensor, b: torch.Tensor, c: float, product, delta: float, iterations: int) -> tuple[torch.Tensor, bool]:
    """The step x of `dual`'s problem, and whether it also lowers gᵀx: where no step inside the trust region meets
    the limit, it is the one that lowers the cost most."""
    v = conjugate_gradients(product, g, iterations)
    q = float(g @ v)
    if float(b @ b) <= 1e-12 and c <= 0:
        return -math.sqrt(2 * delta / q) * v, True
    w = conjugate_gradients(product, b, iterations)
    r, s = float(g @ w), float(b @ w)
    if c > 0 and c * c / s > 2 * delta:
        return -math.sqrt(2 * delta / s) * w, False
    lam, nu = dual(q, r, s, c, delta)
    return -(v + nu * w) / lam, True


def line_search(accepts, steps: int, decay: float) -> float:
    """The first fraction 1, decay, decay², … that accepts takes; 0 where it takes none."""
    fraction = 1.0
    for _ in range(steps):
        if accepts(fraction):
            return fraction
        fraction *= decay
    return 0.0


def fisher(policy: onpolicy.Policy, x: torch.Tensor, damping: float):
    """The product of a vector with the Hessian of the divergence from the policy to itself, which is Jᵀ Σ⁻¹ J of the mean and
    2 for the logarithm of a deviation."""
    read, precision = policy.forward(x), (-2 * policy.log_std()).exp() / len(x)

    def product(v: torch.Tensor) -> torch.Tensor:
        mean = policy.gradient(read, policy.tangent(read, v[None]) * precision)[0]
        return torch.cat([mean, 2 * v[-policy.action :]]) + damping * v

    return product


class Cpo(onpolicy.Learner):
    def update(self, data: dict[str, torch.Tensor]) -> None:
        own, policy = self.own, self.policy

        def surrogates(theta):
            ratio = (policy.log_prob(data["x"], data["act"], theta) - data["logp"]).exp()
            return -(ratio * data["adv_r"]).mean(), (ratio * data["adv_c"]).mean()

        # At the policy that acted the ratio is 1.
        loss, cost = surrogates(policy.theta)
        read = policy.forward(data["x"])
        before = read[-1][0], policy.log_std().clone()
        z = (data["act"] - before[0]) * (-before[1]).exp()
        g, b = (policy.ascent(read, z, weight / len(z))[0] for weight in (-data["adv_r"], data["adv_c"]))
        # The surrogate of the cost is that of one step, the limit that of an episode.
        episode_cost, length = self.measured()
        c = (episode_cost - own["cost_limit"]) / length
        x, lowers = step(g, b, c, fisher(policy, data["x"], own["cg_damping"]), own["target_kl"], own["cg_iters"])

        def accepts(fraction: float) -> bool:
            new = policy.theta + fraction * x
            new_loss, new_cost = surrogates(new)
            far = onpolicy.divergence(before, policy.normal(data["x"], new))
            better = not lowers or c > 0 or new_loss <= loss
            return bool(torch.isfinite(new_loss + new_cost + far)) and far <= own["target_kl"] and better and new_cost - cost <= max(-c, 0)

        fraction = line_search(accepts, own["search_steps"], own["search_decay"])
        if fraction:
            policy.theta += fraction * x
        for _ in range(own["update_iters"]):
            for part in self.batches({k: data[k] for k in ("x", "targets")}):
                self.fit_critics(part)


def main() -> None:
    args, own = common.arguments(SETTINGS, __doc__)
    learner = Cpo(common.Run(args, "cpo", f"cpo.py, torch {torch.__version__}"), own)
    learner.learn(learner.update)


if __name__ == "__main__":
    main()
