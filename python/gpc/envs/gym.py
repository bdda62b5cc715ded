"""Gymnasium's environments: Env is one, VectorEnv is many that are stepped in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

try:
    import gymnasium
except ImportError as e:
    raise ImportError("these environments need Gymnasium: pip install gymnasium, or gpc with its extra [rl] (gpc.envs.Fleet is the same without it)") from e
import numpy as np
from numpy.typing import NDArray
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from gpc._lib import InputError
from gpc._plot import Panel, figure, pixels
from gpc.envs.fleet import Case, Fleet, floats

__all__ = ["Env", "VectorEnv"]

_AUTORESET: dict[AutoresetMode, Literal["next-step", "same-step", "disabled"]] = {
    AutoresetMode.NEXT_STEP: "next-step", AutoresetMode.SAME_STEP: "same-step", AutoresetMode.DISABLED: "disabled",
}


def _spaces(fleet: Fleet) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Of one observation and one vector of objectives as a reward."""
    box = gymnasium.spaces.Box
    return box(-np.inf, np.inf, fleet.observation.shape[1:], fleet.dtype.type), box(-np.inf, np.inf, fleet.objectives.shape[1:], np.float64)


class _Actions:
    """A fleet's actions as Gymnasium has them: a box; of switched actions the places of their values; a dict of both."""

    def __init__(self, fleet: Fleet) -> None:
        self._switches, self._names = fleet.spec.switches, [v.name for v in fleet.spec.action]
        self._switched = [w.action for w in self._switches]
        self._continuous = [i for i in range(len(self._names)) if i not in self._switched]
        self._last, self._dtype = np.array([len(w.values) - 1 for w in self._switches], np.int64), fleet.dtype
        box = gymnasium.spaces.Box(-1, 1, (len(self._continuous),), fleet.dtype.type)
        self.space: gymnasium.Space[Any] = box
        if self._switched:
            places = gymnasium.spaces.MultiDiscrete(self._last + 1)
            self.space = gymnasium.spaces.Dict({"continuous": box, "discrete": places}) if self._continuous else places

    def rows(self, given: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
        """Actions of the space, as many as shape says, in the fleet's [−1, 1]."""
        if not self._switched:
            return floats(given, (*shape, len(self._names)), name)
        out = np.empty((*shape, len(self._names)), self._dtype)
        if self._continuous:
            if not isinstance(given, Mapping) or set(given) != {"continuous", "discrete"}:
                raise InputError(f'{name} is a {type(given).__name__}, want a dict with "continuous" and "discrete"')
            out[..., self._continuous] = floats(given["continuous"], (*shape, len(self._continuous)), f'{name}["continuous"]')
            given, name = given["discrete"], f'{name}["discrete"]'
        places = np.asarray(given)
        if places.dtype.kind not in "iu" or places.shape != (*shape, len(self._switched)):
            raise InputError(f"{name} is an array of {places.dtype} of shape {places.shape}, want whole numbers of shape {(*shape, len(self._switched))}")
        for k, w in enumerate(self._switches):
            wrong = (places[..., k] < 0) | (places[..., k] > self._last[k])
            if wrong.any():
                raise InputError(f"{name} has {places[..., k][wrong][0]} for {self._names[w.action]}, want the place of one of its values, 0 to {self._last[k]}")
        out[..., self._switched] = 2 * places / self._last - 1
        return out


class Env(gymnasium.Env[NDArray[Any], Any]):
    """One environment of a case, `gymnasium.make("gpc/CASE-v0")`; the arguments are those of `Fleet`.

    Where all actions are switched, an action is the places of their values, MultiDiscrete; where some are, a dict of "continuous",
    in [−1, 1], and "discrete", places.

    reset(seed=s) begins episode 0 of seed s, the one after it the next; options={"episode": k}
    begins number k. info has cost, violated, objectives, margins, sigma and episode_number. With
    mo=True the reward is the vector of minus the objectives, as MO-Gymnasium has it.

    With render_mode="rgb_array" render draws the objectives and the smallest margin of the episode so far, by matplotlib.

    What step and reset return is the caller's: it is copied from the library's arrays.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, case: Case, *, mo: bool = False, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode is {render_mode!r}, want None or \"rgb_array\"")
        self.render_mode = render_mode
        self._drawn: list[list[float]] = []  # of each step: objectives and the smallest margin
        self.fleet = Fleet(case, 1, autoreset="disabled", threads=1, **options)
        self.observation_space, objectives = _spaces(self.fleet)
        self._actions = _Actions(self.fleet)
        self.action_space, self.mo = self._actions.space, mo
        if mo:
            self.reward_space, self.reward_dim = objectives, objectives.shape[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._drawn.clear()
        number = (options or {}).get("episode")
        observation = self.fleet.reset(seed, episodes=None if number is None else [number])
        return observation[0].copy(), {"episode_number": int(self.fleet.episode[0])}

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        f = self.fleet
        f.step(self._actions.rows(action, (), "action")[None])
        if self.render_mode is not None:
            self._drawn.append([*f.objectives[0].tolist(), float(f.margins[0].min(initial=np.inf))])
        reward = -f.objectives[0] if self.mo else float(f.reward[0])
        return f.observation[0].copy(), reward, bool(f.terminated[0]), bool(f.truncated[0]), {
            "cost": float(f.cost[0]), "violated": bool(f.violated[0]), "objectives": f.objectives[0].copy(), "margins": f.margins[0].copy(),
            "sigma": f.sigma[0].copy(), "episode_number": int(f.episode[0]),
        }

    def render(self) -> Any:
        """RGB [height, width, 3], or None without a render_mode."""
        if self.render_mode is None:
            return None
        lines = np.array(self._drawn).reshape(len(self._drawn), self.fleet.objectives.shape[1] + 1)
        panels = [Panel(f"J{i + 1}", "", lines[:, i]) for i in range(lines.shape[1] - 1)]
        return pixels(figure(np.arange(1, len(lines) + 1), "decision", [*panels, Panel("smallest margin", "", lines[:, -1], (0, None))]))

    def close(self) -> None:
        self.fleet.close()

    def __repr__(self) -> str:
        return f"<gpc.envs.Env {self.fleet.spec.name!r}>"

    __str__ = __repr__


class VectorEnv(gymnasium.vector.VectorEnv[NDArray[Any], Any, NDArray[Any]]):
    """Environments of a case that Go steps, `gymnasium.make_vec("gpc/CASE-v0", num_envs=n,
    vectorization_mode="vector_entry_point")`; the arguments are those of `Fleet`.

    autoreset_mode is one of Gymnasium's three and stands in metadata. Under SAME_STEP info has
    final_obs with its mask _final_obs. reset(options={"reset_mask": mask}) begins some of the
    environments; options={"episode": numbers} those episodes. Each key of info has a mask
    _key of the rows that are of a step. With mo=True rewards are (n, J), minus the objectives.

    copy=True, the default, returns arrays that are the caller's, as Gymnasium's own vector
    environments do. copy=False returns the library's arrays themselves, which the next step
    overwrites.
    """

    def __init__(
        self, case: Case, num_envs: int = 1, *, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, mo: bool = False, copy: bool = True,
        render_mode: str | None = None, **options: Any,
    ) -> None:
        mode = AutoresetMode(autoreset_mode) if isinstance(autoreset_mode, str) else autoreset_mode
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.render_mode = render_mode
        self.fleet = Fleet(case, num_envs, autoreset=_AUTORESET[mode], **options)
        self.num_envs, self.copy, self.mo = num_envs, copy, mo
        self.single_observation_space, objectives = _spaces(self.fleet)
        self._actions = _Actions(self.fleet)
        self.single_action_space = self._actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        if mo:
            self.reward_space, self.reward_dim = objectives, objectives.shape[0]
        self._same_step = mode is AutoresetMode.SAME_STEP

    def _own(self, a: NDArray[Any]) -> NDArray[Any]:
        return a.copy() if self.copy else a

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        observation = self.fleet.reset(seed, options.get("reset_mask"), options.get("episode"))
        return self._own(observation), {"episode_number": self._own(self.fleet.episode)}

    def step(self, actions: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        f = self.fleet
        f.step(self._actions.rows(actions, (self.num_envs,), "actions"))
        stepped = self._own(f.stepped)
        info: dict[str, Any] = {}
        for key in ("cost", "violated", "objectives", "margins", "sigma"):
            info[key], info["_" + key] = self._own(getattr(f, key)), stepped
        info["episode_number"] = self._own(f.episode)
        if self._same_step:
            ended = f.terminated | f.truncated
            if ended.any():
                info["final_obs"], info["_final_obs"] = self._own(f.final), ended
        reward = -f.objectives if self.mo else self._own(f.reward)
        return self._own(f.observation), reward, self._own(f.terminated), self._own(f.truncated), info

    def close_extras(self, **_: Any) -> None:
        self.fleet.close()

    def __repr__(self) -> str:
        return f"<gpc.envs.VectorEnv {self.fleet.spec.name!r}: {self.num_envs} environments>"
