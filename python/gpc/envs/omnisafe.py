"""The cases as OmniSafe's constrained environments. Importing this module registers gpc/CASE-v0:

    import gpc.envs.omnisafe
    omnisafe.Agent("CPO", "gpc/integrator-convex-v0").learn()

A step returns (observation, reward, cost, terminated, truncated, info), torch tensors that
are the caller's. Environments reset themselves in the step that ends an episode; info has
final_observation with its mask _final_observation.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
import torch
from gymnasium.spaces import Box
from omnisafe.envs.core import CMDP, env_register

from gpc.envs import CASES
from gpc.envs.fleet import Fleet

__all__ = ["ConstrainedEnv"]


@env_register
class ConstrainedEnv(CMDP):
    """`num_envs` environments of a case; the other arguments are those of `Fleet`.

    cost="violated" counts steps with a violated margin, cost="depth" sums by how much.
    """

    need_auto_reset_wrapper = False
    need_time_limit_wrapper = False

    _support_envs: ClassVar[list[str]] = [f"gpc/{case}-v0" for case in CASES]

    def __init__(self, env_id: str, num_envs: int = 1, device: Any = "cpu", cost: str = "violated", **options: Any) -> None:
        super().__init__(env_id)
        if cost not in ("violated", "depth"):
            raise ValueError(f'cost is {cost!r}, want "violated" or "depth"')
        self._fleet = f = Fleet(env_id.removeprefix("gpc/").removesuffix("-v0"), num_envs, autoreset="same-step", **options)
        self._num_envs, self._device = num_envs, torch.device(device)
        self._cost = f.violated if cost == "violated" else f.cost
        self._observation_space = Box(-np.inf, np.inf, f.observation.shape[1:], np.float32)
        self._action_space = Box(-1.0, 1.0, f.action.shape[1:], np.float32)
        self._metadata: dict[str, Any] = {}

    @property
    def max_episode_steps(self) -> int:
        """Steps of an episode."""
        return self._fleet.spec.steps

    def _tensor(self, a: NDArray[Any]) -> torch.Tensor:
        """A copy; of one environment its row."""
        return torch.tensor(a if self._num_envs > 1 else a[0], dtype=torch.float32, device=self._device)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        return self._tensor(self._fleet.reset(seed, episodes=(options or {}).get("episode"))), {}

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        f = self._fleet
        f.step(action.detach().cpu().numpy().reshape(f.action.shape))
        info: dict[str, Any] = {}
        ended = f.terminated | f.truncated
        if ended.any():
            info["final_observation"], info["_final_observation"] = self._tensor(f.final), ended
        return self._tensor(f.observation), self._tensor(f.reward), self._tensor(self._cost), self._tensor(f.terminated), self._tensor(f.truncated), info

    def set_seed(self, seed: int) -> None:
        self.reset(seed)

    def sample_action(self) -> torch.Tensor:
        shape = self._fleet.action.shape
        return torch.rand(shape if self._num_envs > 1 else shape[1:], device=self._device) * 2 - 1

    def render(self) -> None:
        """Episodes are drawn by `gpc-lab report`."""

    def close(self) -> None:
        self._fleet.close()
