"""TD3 by Stable-Baselines3 (Fujimoto et al. 2018), for one task and seed.

Settings are those of rl-baselines3-zoo that its tuned tasks share (hyperparams/td3.yml: Pendulum-v1,
LunarLanderContinuous-v3, BipedalWalker-v3): discount 0.98, a replay of 200 000, 10 000
interactions at random first, noise 0.1, learning rate 1e-3, hidden layers of 400 and 300;
batches of 256 are the library's. In the cases of gpc observations and rewards are scaled by their running
deviations (VecNormalize), and `environments` are stepped for each of `gradient_steps` updates:
see docs/results/baselines.md.
"""

from __future__ import annotations

import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecNormalize

import common

SETTINGS = {
    "default": dict(
        environments=16, gradient_steps=4, learning_rate=1e-3, gamma=0.98, buffer_size=200_000, learning_starts=10_000, batch_size=256, noise=0.1,
        hidden=[400, 300], normalise=True, penalty=None,
    ),
    "pendulum": dict(environments=1, gradient_steps=1, normalise=False),
}


def main(method: str = "td3", penalty: dict | str | None = None, doc: str | None = __doc__) -> None:
    args, own = common.arguments(SETTINGS, doc)
    own["penalty"] = own["penalty"] or penalty
    run = common.Run(args, method, f"stable-baselines3 {sb3.__version__}")
    set_random_seed(run.training_seed() % 2**32)
    env = common.Sb3(args.task, own["environments"], run.training_seed(), penalty=own["penalty"])
    saved = run.checkpoint_folder()
    if own["normalise"]:
        env = VecNormalize.load(str(saved / "normalise.pkl"), env) if saved else VecNormalize(env, gamma=own["gamma"])
    if saved:
        model = sb3.TD3.load(saved / "model.zip", env=env, device="cpu")
        model.load_replay_buffer(saved / "replay.pkl")
    else:
        n = env.action_space.shape[0]
        model = sb3.TD3(
            "MlpPolicy", env, learning_rate=own["learning_rate"], gamma=own["gamma"], buffer_size=own["buffer_size"], learning_starts=own["learning_starts"],
            batch_size=own["batch_size"], train_freq=1, gradient_steps=own["gradient_steps"], action_noise=NormalActionNoise(np.zeros(n), np.full(n, own["noise"])),
            policy_kwargs=dict(net_arch=own["hidden"], optimizer_kwargs=dict(fused=True)), seed=run.training_seed() % 2**32, device="cpu",
        )

    def actor() -> common.Actor:
        layers = [(l.weight, l.bias) for l in model.actor.mu if isinstance(l, torch.nn.Linear)]
        return common.Actor(layers, "relu", "tanh", *common.normalisation(env))

    def save(folder) -> None:
        model.save(folder / "model.zip")
        model.save_replay_buffer(folder / "replay.pkl")
        if own["normalise"]:
            env.save(str(folder / "normalise.pkl"))

    model.learn(args.interactions - model.num_timesteps, callback=common.Watch(run, actor, save), reset_num_timesteps=False, log_interval=None)
    run.end(model.num_timesteps, actor, save)


if __name__ == "__main__":
    main()
