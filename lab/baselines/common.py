"""What the baselines share: tasks, the file of an actor, evaluation, curves, checkpoints.

A task is a case of gpc, or one whose answer is known: `pendulum` (Gymnasium's Pendulum-v1) or
`point` (point.py). A Run is one training of one method on one task with one seed. It leaves

    ACTORS/TASK-METHOD-SEED.safetensors   the actor that `gpc eval --model` runs
    CURVES/TASK-METHOD-SEED.csv           one line an evaluation
    ACTORS/TASK-METHOD-SEED/              checkpoint and TensorBoard files

and begun again it goes on behind its last checkpoint, in new episodes and with other random
numbers.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import sys
import time

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch.utils.tensorboard import SummaryWriter

CASES = ("integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain", "multiagent-static", "multiagent-moving")
KNOWN = ("pendulum", "point")

# Episodes of training and of the curves are apart from each other and from every seed that
# `gpc eval` records with.
TRAINING_SEED = 1_000_000_000
CURVE_SEED = 991
CURVE_EPISODES = 20


def make(task: str, count: int, seed: int, safeguard: bool = False, cycle: int = 0) -> gym.vector.VectorEnv:
    """count environments of a task, whose episodes follow each other in the same step; cycle of them, 0 for no end."""
    if task == "pendulum":
        env = gym.make_vec("Pendulum-v1", count, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
    elif task == "point":
        import point

        env = point.PointVec(count)
    else:
        import gpc.envs

        env = gpc.envs.make_vec(task, count, seed, safeguard=safeguard, cycle=cycle, autoreset_mode=AutoresetMode.SAME_STEP, threads=1)
    env.reset(seed=seed)
    return env


def timed(task: str) -> bool:
    """Whether an observation holds the time left, so that the last step of an episode ends it for a
    value function too."""
    return task.startswith("integrator")


def costs(info: dict, count: int) -> np.ndarray:
    """The cost of a step in each environment: how far hard limits are broken."""
    return np.asarray(info["cost"]) if "cost" in info else np.zeros(count)


def weights(env: gym.vector.VectorEnv, penalty: dict[str, float]) -> np.ndarray:
    """The penalty of each margin of a case, in the order of its margins."""
    names = [m.name for m in env.fleet.spec.margins]
    if unknown := [name for name in penalty if name not in names]:
        raise SystemExit(f"penalty: {', '.join(unknown)} is no margin of the case: it has {', '.join(names)}")
    return np.array([float(penalty.get(name, 0)) for name in names])


def step_cost(env: gym.vector.VectorEnv) -> float:
    """What a step costs in the mean of an episode in which every action is zero: of the same episodes whenever a training is
    begun or resumed."""
    env.reset(seed=TRAINING_SEED)
    idle, total, steps = np.zeros((env.num_envs, *env.single_action_space.shape), np.float32), 0.0, 0
    while True:
        _, reward, terminated, truncated, _ = env.step(idle)
        total, steps = total - float(np.mean(reward)), steps + 1
        if np.any(terminated | truncated):
            return total / steps


class Sb3(VecEnv):
    """A Gymnasium vector environment as Stable-Baselines3 takes one.

    penalty takes units of cost from the learner's reward in every step that breaks the margin of that name, however little,
    or with "step" for each margin what a step costs in the mean of an episode without action; what is recorded of an episode
    stays the case's own return.
    """

    def __init__(self, task: str, count: int, seed: int, safeguard: bool = False, penalty: dict[str, float] | str | None = None):
        self.env, self.first_seed, self.timed = make(task, count, seed, safeguard), seed, timed(task)
        if penalty == "step":
            penalty = dict.fromkeys((m.name for m in self.env.fleet.spec.margins), step_cost(self.env))
        self.penalty = weights(self.env, penalty) if penalty else None
        super().__init__(count, self.env.single_observation_space, self.env.single_action_space)
        self.none: dict = {}

    def reset(self) -> np.ndarray:
        observation, _ = self.env.reset(seed=self.first_seed)
        self.sums, self.lengths = np.zeros((2, self.num_envs)), np.zeros(self.num_envs, int)
        return observation.astype(np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self):
        observation, reward, terminated, truncated, info = self.env.step(self.actions)
        done = terminated | truncated
        self.sums += reward, costs(info, self.num_envs)
        self.lengths += 1
        if self.penalty is not None:
            reward = reward - (info["margins"] < -self.env.fleet.spec.margin_tolerance) @ self.penalty
        infos = [self.none] * self.num_envs
        for i in np.flatnonzero(done):
            infos[i] = {
                "terminal_observation": np.asarray(info["final_obs"][i], np.float32),
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i] and not self.timed),
                "episode": {"r": self.sums[0, i], "l": int(self.lengths[i]), "c": self.sums[1, i]},
            }
        self.sums[:, done], self.lengths[done] = 0, 0
        return observation.astype(np.float32), reward.astype(np.float32), done, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name, indices=None):
        return [getattr(self.env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        raise NotImplementedError

    def env_method(self, method_name, *args, indices=None, **kwargs):
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs


# Matrices with more entries are rounded to half precision: TD3's, whose actors would else be
# three quarters of all that is committed.
SINGLE = 10_000


class Actor(torch.nn.Module):
    """The deterministic part of a policy as gpc runs it: output(MLP(clip((x − mean)·scale))), in [−1, 1].

    layers are the affine ones, in order, as (weight [out, in], bias); mean and deviation are of the observation. A clipped
    output is in units of an action space of ± limit. It is computed in float32, of matrices beyond SINGLE entries that are
    rounded to half precision, and what is evaluated here is what is exported.
    """

    def __init__(self, layers, activation: str, output: str, mean=None, deviation=None, bound: float = 10.0, limit: float = 1.0):
        super().__init__()
        n = layers[0][0].shape[1]
        self.layers = [(weight.detach().clone(), bias.detach().clone()) for weight, bias in layers]
        if output == "clip":
            weight, bias = self.layers[-1]
            self.layers[-1] = weight / limit, bias / limit
        self.layers = [(weight.half().float() if weight.numel() > SINGLE else weight, bias) for weight, bias in self.layers]
        self.activation, self.output, self.bound = activation, output, bound
        self.mean = torch.zeros(n) if mean is None else torch.as_tensor(np.asarray(mean, np.float32))
        self.scale = torch.ones(n) if deviation is None else torch.as_tensor((1 / np.asarray(deviation, np.float64)).astype(np.float32))
        # Without a normalisation nothing is clipped.
        if mean is None:
            self.bound = 3e38

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = ((x - self.mean) * self.scale).clamp(-self.bound, self.bound)
        for i, (weight, bias) in enumerate(self.layers):
            x = torch.nn.functional.linear(x, weight, bias)
            last = i == len(self.layers) - 1
            x = {"relu": torch.relu, "tanh": torch.tanh, "clip": lambda v: v.clamp(-1, 1)}[self.output if last else self.activation](x)
        return x

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self(torch.as_tensor(np.asarray(observation, np.float32))).numpy()

    def save(self, path: os.PathLike, **provenance) -> None:
        """Writes the file that gpc runs, replacing one that is there whole."""
        tensors = {"mean": self.mean.numpy(), "scale": self.scale.numpy()}
        for i, (weight, bias) in enumerate(self.layers):
            tensors[f"layer{i}.weight"], tensors[f"layer{i}.bias"] = (weight.half() if weight.numel() > SINGLE else weight).numpy(), bias.numpy()
        metadata = {"kind": "gpc-actor", "version": "1", "activation": self.activation, "output": self.output, "bound": repr(float(np.float32(self.bound)))}
        metadata |= {k: str(v) for k, v in provenance.items()}
        path = pathlib.Path(path)
        new = path.with_name(path.name + ".partial")
        new.write_bytes(safetensors(metadata, tensors))
        os.replace(new, path)


def safetensors(metadata: dict[str, str], tensors: dict[str, np.ndarray]) -> bytes:
    """A file of tensors in single precision, or float16 ones in half, with the checksums that gpc reads (docs/reference/files.md)."""
    header, payload, sums = {}, b"", ""
    for name, t in tensors.items():
        dtype, kind = ("F16", "<f2") if t.dtype == np.float16 else ("F32", "<f4")
        data = np.ascontiguousarray(t, kind).tobytes()
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
        sums += hashlib.sha256(data).hexdigest()
    unsealed = "0" * 64
    text = json.dumps({"__metadata__": metadata | {"tensors_sha256": sums, "sha256": unsealed}} | header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    length = struct.pack("<Q", len(text))
    return length + text.replace(unsealed.encode(), hashlib.sha256(length + text).hexdigest().encode(), 1) + payload


def evaluate(actor: Actor, env: gym.vector.VectorEnv) -> dict[str, float]:
    """The first episode of every environment under the deterministic policy."""
    observation, _ = env.reset(seed=CURVE_SEED)
    n, low, high = env.num_envs, env.single_action_space.low, env.single_action_space.high
    total, cost, running = np.zeros(n), np.zeros(n), np.ones(n, bool)
    while running.any():
        observation, reward, terminated, truncated, info = env.step(low + (actor.act(observation) + 1) / 2 * (high - low))
        total += np.where(running, reward, 0)
        cost += np.where(running, costs(info, n), 0)
        running &= ~(terminated | truncated)
    return {
        "return_mean": total.mean(), "return_std": total.std(ddof=1), "cost_mean": cost.mean(), "violating_episodes": (cost > 0).mean(),
    }


@dataclasses.dataclass
class Curve:
    """The CSV and TensorBoard files of a run. Lines behind its last checkpoint are dropped."""

    path: pathlib.Path
    board: SummaryWriter
    columns = ("interactions", "cpu_seconds", "return_mean", "return_std", "cost_mean", "violating_episodes", "training_return", "training_cost")

    def begin(self, done: int) -> float:
        """Keeps what was recorded up to done interactions; gives the CPU time spent on it."""
        kept, spent = [], 0.0
        if done and self.path.exists():
            with self.path.open(newline="") as f:
                kept = [r for r in csv.DictReader(f) if int(r["interactions"]) <= done]
            if kept:
                spent = float(kept[-1]["cpu_seconds"])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("w", newline="") as f:
            w = csv.DictWriter(f, self.columns)
            w.writeheader()
            w.writerows(kept)
        return spent

    def add(self, **row) -> None:
        with self.path.open("a", newline="") as f:
            csv.DictWriter(f, self.columns).writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
        for k, v in row.items():
            self.board.add_scalar(k, v, row["interactions"])


class Run:
    """One training. begin() says how far it was; every() is called about every thousand interactions."""

    def __init__(self, args: argparse.Namespace, method: str, library: str, safeguard: bool = False):
        torch.set_num_threads(1)
        self.args, self.method, self.library, self.safeguard = args, method, library, safeguard
        self.task, self.seed, self.total = args.task, args.seed, args.interactions
        name = f"{args.task}-{method}-{args.seed}"
        self.folder, self.actor_path = args.actors / name, args.actors / f"{name}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.curve = Curve(args.curves / f"{name}.csv", SummaryWriter(str(self.folder / "tensorboard")))
        self.evaluation = make(args.task, CURVE_EPISODES, CURVE_SEED, safeguard, CURVE_EPISODES)
        self.stop = False
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, self.interrupted)
        self.done = self.begin()
        self.next_evaluation = self.done - self.done % args.every + args.every if self.done else 0
        self.saved = time.monotonic()
        self.recent: list[tuple[float, float]] = []
        self.start = time.monotonic()
        self.start_done = self.done

    def interrupted(self, *_: object) -> None:
        self.stop = True

    def begin(self) -> int:
        done = 0
        checkpoint = self.checkpoint_folder()
        if checkpoint:
            done = json.loads((checkpoint / "run.json").read_text())["interactions"]
        self.spent = self.curve.begin(done) - time.process_time()
        return done

    def checkpoint_folder(self) -> pathlib.Path | None:
        """The last checkpoint that is whole."""
        for name in ("checkpoint", "checkpoint.old"):
            if (self.folder / name / "run.json").exists():
                return self.folder / name
        return None

    def training_seed(self) -> int:
        """The seed of random numbers and episodes from here on."""
        return TRAINING_SEED + 100_000_000 * self.seed + self.done

    def episode(self, reward: float, cost: float) -> None:
        """Notes an episode of the training."""
        self.recent = (self.recent + [(float(reward), float(cost))])[-100:]

    def every(self, done: int, actor, save) -> bool:
        """Evaluates and saves where it is time; actor() is the policy now, save(folder) writes all that training goes on
        with. False: the run is to end."""
        self.done = done
        if done >= self.next_evaluation:
            self.next_evaluation = done - done % self.args.every + self.args.every
            self.record(actor())
        if self.stop or time.monotonic() - self.saved > self.args.save_seconds:
            self.save(save)
        return not self.stop

    def record(self, actor: Actor) -> None:
        row = evaluate(actor, self.evaluation)
        recent = np.array(self.recent or [(np.nan, np.nan)]).mean(0)
        self.curve.add(interactions=self.done, cpu_seconds=self.spent + time.process_time(), training_return=recent[0], training_cost=recent[1], **row)
        rate = (self.done - self.start_done) / max(1e-9, time.monotonic() - self.start)
        left = f"{(self.total - self.done) / rate / 60:.0f} min left" if rate else ""
        print(f"{self.task} {self.method} {self.seed}: {self.done} of {self.total}, return {row['return_mean']:.4g}, cost {row['cost_mean']:.3g}, {rate:.0f}/s {left}",
              file=sys.stderr, flush=True)

    def save(self, save) -> None:
        new, kept, old = (self.folder / n for n in ("checkpoint.new", "checkpoint", "checkpoint.old"))
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        save(new)
        (new / "run.json").write_text(json.dumps({"interactions": self.done}))
        shutil.rmtree(old, ignore_errors=True)
        if kept.exists():
            kept.rename(old)
        new.rename(kept)
        shutil.rmtree(old, ignore_errors=True)
        self.saved = time.monotonic()

    def finish(self, actor: Actor) -> None:
        """Records the last evaluation and exports the actor; the checkpoint is not needed any more."""
        self.record(actor)
        self.curve.board.close()
        provenance = {"case": self.task, "problem_sha256": "", "preference": "adaptive"}
        if self.task in CASES:
            import gpc

            provenance["problem_sha256"] = next(c["problem_sha256"] for c in gpc.cases() if c["name"] == self.task)
        actor.save(self.actor_path, algorithm=self.method, library=self.library, seed=self.seed, interactions=self.done, **provenance)
        for name in ("checkpoint", "checkpoint.old", "checkpoint.new"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


    def end(self, done: int, actor, save) -> None:
        """The end of a training, or its interruption, which ends the program with 130."""
        self.done = done
        if self.stop:
            self.save(save)
            sys.exit(130)
        self.finish(actor())


def normalisation(env: VecEnv) -> tuple:
    """Mean, deviation and bound of the observations of an environment, empty for one that has none."""
    if not isinstance(env, VecNormalize):
        return ()
    return env.obs_rms.mean, np.sqrt(env.obs_rms.var + env.epsilon), env.clip_obs


class Watch(BaseCallback):
    """Run.every for an algorithm of Stable-Baselines3, before each of its roll-outs."""

    def __init__(self, run: Run, actor, save):
        super().__init__()
        self.run, self.actor, self.save = run, actor, save

    def _on_rollout_start(self) -> None:
        self.going = self.run.every(self.num_timesteps, self.actor, self.save)

    def _on_step(self) -> bool:
        for i in np.flatnonzero(self.locals["dones"]):
            episode = self.locals["infos"][i]["episode"]
            self.run.episode(episode["r"], episode["c"])
        return self.going


def arguments(settings: dict, doc: str | None) -> tuple[argparse.Namespace, dict]:
    """The flags of a method, and its settings with those of --set in their place."""
    root = pathlib.Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--task", required=True, choices=CASES + KNOWN)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--interactions", type=int, default=1_000_000)
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting in place of its default")
    p.add_argument("--actors", type=pathlib.Path, default=root / "build" / "baselines")
    p.add_argument("--curves", type=pathlib.Path, default=root / "build" / "baselines" / "curves")
    p.add_argument("--every", type=int, default=20_000, help="interactions between evaluations")
    p.add_argument("--save-seconds", type=float, default=120, help="between checkpoints")
    args = p.parse_args()
    if args.seed < 0 or args.interactions < 1:
        p.error("--seed is at least 0, --interactions at least 1")
    own = settings["default"] | settings.get(args.task, {})
    for text in args.set:
        name, _, value = text.partition("=")
        if name not in own:
            p.error(f"--set {name}: the settings are {', '.join(own)}")
        own[name] = json.loads(value)
    return args, own
