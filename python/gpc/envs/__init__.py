"""The cases as environments for learners.

    import gymnasium, gpc.envs
    env = gymnasium.make("gpc/opf30-v0")
    envs = gpc.envs.make_vec("integrator-convex", num_envs=4096, seed=1)

Importing this module registers gpc/CASE-v0 and gpc/mo-CASE-v0 of every case with Gymnasium, where that is installed.
`Fleet` is the same without Gymnasium; `gpc.envs.omnisafe` registers the cases with OmniSafe. See docs/reference/environments.md of the project.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from gpc.envs.fleet import Case, Fleet, Preference

if TYPE_CHECKING:
    from gpc.envs.gym import Env, VectorEnv

__all__ = ["CASES", "Case", "Fleet", "Preference", "make", "make_vec", "mo", "mo_vec", "register"]

#: The paper's cases, by which they are registered; others are `make("opf:case118.m")` and `make(system)`.
CASES = ("integrator-convex", "integrator-nonconvex", "multiagent-static", "multiagent-moving", "opf30", "opf30-uncertain")


def make(case: Case, **options: Any) -> Env:
    """One environment of a case, for Gymnasium; see `gpc.envs.gym.Env`."""
    from gpc.envs.gym import Env

    return Env(case, **options)


def make_vec(case: Case, num_envs: int = 1, seed: int = 1, preference: Preference = "adaptive", safeguard: bool = False, threads: int = 0, **options: Any) -> VectorEnv:
    """Environments of a case that are stepped in one call, for Gymnasium; see `gpc.envs.gym.VectorEnv`."""
    from gpc.envs.gym import VectorEnv

    return VectorEnv(case, num_envs, seed=seed, preference=preference, safeguard=safeguard, threads=threads, **options)


def mo(case: Case, **options: Any) -> Env:
    """One environment whose reward is the vector of minus the objectives, for MO-Gymnasium."""
    return make(case, mo=True, **options)


def mo_vec(case: Case, num_envs: int = 1, **options: Any) -> VectorEnv:
    """Environments whose rewards are vectors."""
    return make_vec(case, num_envs, mo=True, **options)


def register() -> None:
    """Registers the cases with Gymnasium; a second time it does nothing."""
    import gymnasium

    for case in CASES:
        for prefix, vector_reward in (("", False), ("mo-", True)):
            name = f"gpc/{prefix}{case}-v0"
            if name not in gymnasium.registry:
                gymnasium.register(
                    name, entry_point="gpc.envs.gym:Env", vector_entry_point="gpc.envs.gym:VectorEnv", disable_env_checker=vector_reward,
                    kwargs={"case": case, "mo": vector_reward},
                )


if importlib.util.find_spec("gymnasium") is not None:
    register()
