"""A constrained point whose best return under a limit of cost is known in closed form.

A point on a line begins at 0 and moves half the way to 2a a step, a ∈ [−1, 1], for 50 steps. Its reward is −(x − 1.5)² of the
position after the step, its cost how far that is beyond 0.5. The best without a limit is to be at 1 and then at 1.5: return
−0.25, cost 49.5. With an expected cost of at most d it is to go to a level beyond the edge and to stay there: the reward is
strictly concave and the cost convex, so that equal levels are best and chance gains nothing (Jensen), and a multiplier has one
value at which the limit binds, 2·(1.5 − level). For d = 10:

    50·(level − 0.5) = 10, level 0.7, return −32.

Rewards have noise of deviation 1. A learner that divides advantages by their deviation would else divide the slope of the
reward by itself wherever its actions are what makes rewards differ, and one multiplier would suit every level.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

STEPS, REACH, EDGE, GOAL = 50, 1.0, 0.5, 1.5  # REACH: how far the first step goes
LIMIT, NOISE = 10.0, 1.0


def best(limit: float) -> float:
    """The largest return with an expected cost of at most limit, ≥ 0."""
    level = EDGE + limit / STEPS
    if level > REACH:
        level = min(GOAL, EDGE + (limit - (REACH - EDGE)) / (STEPS - 1))
    return -((min(level, REACH) - GOAL) ** 2) - (STEPS - 1) * (level - GOAL) ** 2


class PointVec(gym.vector.VectorEnv):
    """Points side by side. An observation is the position and the share of the steps taken."""

    def __init__(self, count: int, noise: float = NOISE):
        self.num_envs, self.noise, self.rng = count, noise, np.random.default_rng()
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, count)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.x, self.t = np.zeros(self.num_envs), 0
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        return np.stack([self.x, np.full(self.num_envs, self.t / STEPS)], 1).astype(np.float32)

    def step(self, actions):
        self.x = 0.5 * self.x + np.clip(actions[:, 0], -1, 1)
        self.t += 1
        reward, info = -((self.x - GOAL) ** 2) + self.noise * self.rng.normal(size=self.num_envs), {"cost": np.maximum(self.x - EDGE, 0)}
        ended = np.full(self.num_envs, self.t == STEPS)
        observation = self.observe()
        if self.t == STEPS:
            info |= {"final_obs": observation, "_final_obs": ended}
            observation, _ = self.reset()
        return observation, reward, ended, np.zeros(self.num_envs, bool), info
