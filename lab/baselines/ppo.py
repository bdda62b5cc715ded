"""PPO by Stable-Baselines3 (Schulman et al. 2017), for one task and seed.

Settings are the library's defaults, with observations and rewards scaled by their running deviations
(VecNormalize) as rl-baselines3-zoo has it for MuJoCo (`normalize: true`); its 2048 interactions an
update come from 64 environments. Pendulum-v1 has the zoo's own (hyperparams/ppo.yml).
"""

from __future__ import annotations

import stable_baselines3 as sb3
import torch
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecNormalize

import common

SETTINGS = {
    "default": dict(
        environments=64, n_steps=32, learning_rate=3e-4, gamma=0.99, gae_lambda=0.95, batch_size=64, n_epochs=10, clip_range=0.2, ent_coef=0.0, vf_coef=0.5,
        max_grad_norm=0.5, use_sde=False, sde_sample_freq=-1, hidden=[64, 64], normalise=True,
    ),
    "pendulum": dict(environments=4, n_steps=1024, learning_rate=1e-3, gamma=0.9, use_sde=True, sde_sample_freq=4, normalise=False),
}


def main(method: str = "ppo", safeguard: bool = False, doc: str | None = __doc__) -> None:
    args, own = common.arguments(SETTINGS, doc)
    run = common.Run(args, method, f"stable-baselines3 {sb3.__version__}", safeguard)
    set_random_seed(run.training_seed() % 2**32)
    env = common.Sb3(args.task, own["environments"], run.training_seed(), safeguard)
    saved = run.checkpoint_folder()
    if own["normalise"]:
        env = VecNormalize.load(str(saved / "normalise.pkl"), env) if saved else VecNormalize(env, gamma=own["gamma"])
    if saved:
        model = sb3.PPO.load(saved / "model.zip", env=env, device="cpu")
    else:
        passed = {k: own[k] for k in SETTINGS["default"] if k not in ("environments", "hidden", "normalise")}
        model = sb3.PPO("MlpPolicy", env, policy_kwargs=dict(net_arch=own["hidden"], optimizer_kwargs=dict(eps=1e-5, fused=True)), seed=run.training_seed() % 2**32, device="cpu", **passed)

    def actor() -> common.Actor:
        layers = [(l.weight, l.bias) for l in [*model.policy.mlp_extractor.policy_net, model.policy.action_net] if isinstance(l, torch.nn.Linear)]
        return common.Actor(layers, "tanh", "clip", *common.normalisation(env), limit=float(env.action_space.high[0]))

    def save(folder) -> None:
        model.save(folder / "model.zip")
        if own["normalise"]:
            env.save(str(folder / "normalise.pkl"))

    model.learn(args.interactions - model.num_timesteps, callback=common.Watch(run, actor, save), reset_num_timesteps=False, log_interval=None)
    run.end(model.num_timesteps, actor, save)


if __name__ == "__main__":
    main()
