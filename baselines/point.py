"""A constrained point whose best return under a limit of cost is known in closed form.

A point on a line begins at 0 and moves by 0.1·a a step, a ∈ [−1, 1], for 50 steps. Its reward is −(x − 1.5)² of the position
after the step, its cost how far that is beyond 0.5. The best without a limit is to move on to 1.5: return −10.15, cost 40.5.
With an expected cost of at most d it is to move on to a level beyond the edge and to stay there: the reward is strictly
concave and the cost convex, so that equal levels are best and chance gains nothing (Jensen), and a multiplier has one value
at which the limit binds, 2·(1.5 − level). For d = 10:

    0.1 + 0.2 + 43·(level − 0.5) = 10, level 0.7256, return −34.54.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

STEPS, STRIDE, EDGE, GOAL = 50, 0.1, 0.5, 1.5
LIMIT = 10.0


def best(limit: float) -> float:
    """The largest return with an expected cost of at most limit, > 0."""
    out = STRIDE * np.arange(1, STEPS + 1)  # moving on
    beyond = np.maximum(out - EDGE, 0)
    for moved in range(STEPS):  # steps that are below the level
        level = EDGE + (limit - beyond[:moved].sum()) / (STEPS - moved)
        if moved == STEPS - 1 or level <= out[moved]:
            break
    return float(-((np.minimum(out, min(level, GOAL)) - GOAL) ** 2).sum())


class PointVec(gym.vector.VectorEnv):
    """Points side by side. An observation is the position and the share of the steps taken."""

    def __init__(self, count: int):
        self.num_envs = count
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, count)

    def reset(self, *, seed=None, options=None):
        self.x, self.t = np.zeros(self.num_envs), 0
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        return np.stack([self.x, np.full(self.num_envs, self.t / STEPS)], 1).astype(np.float32)

    def step(self, actions):
        self.x = self.x + STRIDE * np.clip(actions[:, 0], -1, 1)
        self.t += 1
        reward, info = -((self.x - GOAL) ** 2), {"cost": np.maximum(self.x - EDGE, 0)}
        ended = np.full(self.num_envs, self.t == STEPS)
        observation = self.observe()
        if self.t == STEPS:
            info |= {"final_obs": observation, "_final_obs": ended}
            observation, _ = self.reset()
        return observation, reward, ended, np.zeros(self.num_envs, bool), info
