"""A constrained point whose best return under a limit of cost is known in closed form.

A point on a line begins at 0 and moves by 0.1·a a step, a ∈ [−1, 1], for 50 steps. The reward is
its position after the step, the cost 1 where that is beyond 0.5. The best without a limit is to
move on: return 127.5, cost 45. The best with an expected cost of at most d is to wait at 0.5 and to
leave it for the last d steps:

    d = 10: 0.1 + … + 0.5 (5 steps) + 35·0.5 + 0.6 + … + 1.5 (10 steps) = 29.5.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

STEPS, STRIDE, EDGE = 50, 0.1, 0.5
LIMIT = 10.0


def best(limit: int) -> float:
    """The largest return with a cost of at most limit, a whole number of steps."""
    arrive = round(EDGE / STRIDE)
    x = [min(STRIDE * (t + 1), EDGE) for t in range(STEPS - limit)] if limit < STEPS - arrive else [STRIDE * (t + 1) for t in range(STEPS)]
    x += [EDGE + STRIDE * (t + 1) for t in range(STEPS - len(x))]
    return sum(x)


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
        # The edge itself is free, whatever the sum of the strides was rounded to.
        reward, info = self.x.copy(), {"cost": (self.x > EDGE + 1e-6).astype(float)}
        ended = np.full(self.num_envs, self.t == STEPS)
        observation = self.observe()
        if self.t == STEPS:
            info |= {"final_obs": observation, "_final_obs": ended}
            observation, _ = self.reset()
        return observation, reward, ended, np.zeros(self.num_envs, bool), info
