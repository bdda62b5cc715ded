"""Environments of one case side by side, without Gymnasium: what the other modules are made of."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpc._lib import ARRAY, HANDLE, INT, OUT, TEXT, InputError, Object, address, array, ask, call, create, declare, lib, text
from gpc.session import Spec, _options, _spec
from gpc.system import System

__all__ = ["Case", "Fleet", "Preference"]

declare("gpc_fleet_new", TEXT, OUT)
declare("gpc_fleet_about", HANDLE, OUT)
declare("gpc_fleet_reset", HANDLE, INT, ctypes.c_uint64, ARRAY, INT, ARRAY, INT, ARRAY, INT, HANDLE)
declare("gpc_fleet_step", HANDLE, ARRAY, INT, HANDLE)
declare("gpc_fleet_physical", HANDLE, INT, ARRAY, ARRAY, INT)
declare("gpc_fleet_normalisation", HANDLE, ARRAY, ARRAY, INT, HANDLE)

Case = str | os.PathLike[str] | System
Preference = Literal["adaptive"] | Sequence[float]

# A reset that took longer, in seconds, is of a case whose episodes are slow to draw: its
# steps run so that Ctrl-C cancels them.
_SLOW = 0.2


class Fleet(Object):
    """`num_envs` environments of one case, stepped in one call.

    A step reads and writes the arrays below, which are the object's own and keep their
    place: what is in them is of the last step or reset. n is num_envs.

    ============== =================== ==========================================================
    action         (n, actions)        in [−1, 1]; the ends of the case's box. Not finite: an error. The values of a
                                       switched action stand at equal distances from −1 to 1; the nearest is taken
    observation    (n, s + c)          measured state and context, in their units
    final          (n, s + c)          same-step: the observation at the end of an episode that ended
    reward         (n,) float64        minus the stage cost
    cost           (n,) float64        Σ max(0, −margin) over the margins that are violated
    violated       (n,) bool           whether any is
    terminated     (n,) bool           goal met, state lost, or action refused by the plant
    truncated      (n,) bool           the episode's last step was taken
    stepped        (n,) bool           False: the row is of a reset
    objectives     (n, J) float64      of the step
    margins        (n, margins) float64
    sigma          (n, J) float64      the priority that the stage was scored with
    episode        (n,) int64          the number of the episode that is observed
    ============== =================== ==========================================================

    Environment i plays the episodes i, i + n, i + 2n, … of the seed: those of
    ``gpc eval --seed`` by their numbers. With `cycle` the numbers are taken modulo cycle.
    """

    def __init__(
        self,
        case: Case,
        num_envs: int = 1,
        seed: int = 1,
        preference: Preference = "adaptive",
        safeguard: bool = False,
        threads: int = 0,
        *,
        autoreset: Literal["next-step", "same-step", "disabled"] = "next-step",
        cycle: int = 0,
        noise: float = 0.0,
        regime: str = "",
        shift: Mapping[str, float] | None = None,
        past: bool = False,
        failure_cost: float = 0.0,
        dtype: Any = np.float32,
    ) -> None:
        """Opens the environments; nothing is drawn before `reset`.

        case: a name of gpc.cases(), a System or the file of one, or "opf:FILE.m".
        preference: "adaptive", or the weights of the objectives, on the simplex.
        safeguard: each action is projected onto the case's known limits before the plant has it, and replaced where the next state would break one.
        threads: 0 is as many as processors. What is written does not depend on it.
        cycle: the number of different episodes; 0: no bound.
        noise, regime, shift: of ``gpc eval``.
        past: an episode goes on to its end also after its goal is met.
        failure_cost: what each step that a failure leaves untaken costs; 0: twice the largest
            stage cost of the case's conservative action.
        dtype: float32 or float64, of observations and actions.
        """
        if isinstance(preference, str) and preference != "adaptive":
            raise InputError(f'preference is {preference!r}, want "adaptive" or a list of weights')
        self.dtype = np.dtype(dtype)
        super().__init__(create(lib.gpc_fleet_new, text({
            **_options(case), "environments": _whole("num_envs", num_envs), "seed": _whole("seed", seed), "cycle": _whole("cycle", cycle),
            "preference": None if isinstance(preference, str) else [float(w) for w in preference],
            "noise": float(noise), "regime": regime, "shift": {k: float(v) for k, v in (shift or {}).items()},
            "safeguard": bool(safeguard), "past": bool(past), "failure_cost": float(failure_cost), "autoreset": autoreset,
            "threads": _whole("threads", threads), "dtype": self.dtype.name,
        })))
        about = ask(lib.gpc_fleet_about, self.handle)
        #: What the vectors are; an observation is state and context one behind the other.
        self.spec: Spec = _spec(about["spec"])
        self.threads: int = about["threads"]
        self.num_envs = n = int(num_envs)
        width, actions = len(self.spec.state) + len(self.spec.context), len(self.spec.action)
        objectives, margins = len(self.spec.objectives), len(self.spec.margins)
        self.action = np.zeros((n, actions), self.dtype)
        self.observation = np.zeros((n, width), self.dtype)
        self.final = np.zeros((n, width), self.dtype)
        self.reward, self.cost = np.zeros(n), np.zeros(n)
        self.violated, self.terminated, self.truncated, self.stepped = (np.zeros(n, np.bool_) for _ in range(4))
        self.objectives, self.margins, self.sigma = np.zeros((n, objectives)), np.zeros((n, margins)), np.zeros((n, objectives))
        self.episode = np.zeros(n, np.int64)
        self._rows = np.array([address(a) for a in (
            self.action, self.observation, self.final, self.reward, self.cost, self.violated, self.terminated, self.truncated, self.stepped,
            self.objectives, self.margins, self.sigma, self.episode,
        )], np.uintp)
        self._own = self._rows[0]
        self._slow = False

    def reset(self, seed: int | None = None, which: NDArray[Any] | None = None, episodes: Sequence[int] | NDArray[Any] | None = None) -> NDArray[Any]:
        """Begins an episode everywhere, or where the bool array `which` is True; returns `observation`.

        With a seed environment i begins that seed's episode i; without, each begins its
        next. episodes are the numbers to begin instead, one an environment.
        """
        if which is not None:
            which = array(which, np.bool_, (self.num_envs,), "which")
        if episodes is not None:
            numbers = np.asarray(episodes)
            if numbers.dtype.kind not in "iu":
                raise InputError(f"episodes is an array of {numbers.dtype}, want whole numbers")
            episodes = array(np.ascontiguousarray(numbers, np.int64), np.int64, (self.num_envs,), "episodes")
        began = time.perf_counter()
        call(
            self._holding(lib.gpc_fleet_reset, which, episodes), self.handle, int(seed is not None), _whole("seed", seed or 0), address(which), _length(which), address(episodes), _length(episodes),
            address(self._rows), len(self._rows), long=True,
        )
        self._slow = time.perf_counter() - began > _SLOW
        return self.observation

    def step(self, action: NDArray[Any] | None = None) -> None:
        """Takes a step everywhere, with `action` of shape (n, actions), else with what stands in self.action.

        An array of self.dtype without gaps is read where it stands. One with gaps, as the slices of a learner's buffers
        are, or of another floating type is copied into self.action; any other type or shape is refused.
        """
        if action is None:
            self._rows[0] = self._own
        else:
            action = floats(action, self.action.shape, "action")
            if action.dtype == self.dtype and action.flags.c_contiguous:
                self._rows[0] = address(action)
            else:
                self.action[:] = action
                self._rows[0] = self._own
        if self._slow:
            call(self._holding(lib.gpc_fleet_step, action), self.handle, address(self._rows), len(self._rows), long=True)
        else:
            call(lib.gpc_fleet_step, self.handle, address(self._rows), len(self._rows), 0)

    def _holding(self, function: Any, *arrays: Any) -> Any:
        """The function with what it writes and reads: a call that was cancelled may end after who made it."""

        def held(*arguments: Any, _: Any = (self, arrays)) -> int:
            return function(*arguments)

        return held

    def physical(self, action: NDArray[Any], env: int = 0) -> NDArray[Any]:
        """The action in the case's units that one of [−1, 1] stands for in an environment now, as the plant would have it."""
        a = np.ascontiguousarray(floats(action, self.action.shape[1:], "action"), np.float64)
        u = np.empty_like(a)
        call(lib.gpc_fleet_physical, self.handle, _whole("env", env), address(a), address(u), len(a))
        return u

    def normalisation(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(mean, deviation) of an observation, float64: (observation − mean)/deviation is about 1 in size.

        They are what the case's bundled map normalises its input with, which is the same for
        everyone who uses the case; for a case without such a map, mean and standard
        deviation of the first observations of 64 episodes of an own seed.
        """
        mean, deviation = np.empty(self.observation.shape[1]), np.empty(self.observation.shape[1])
        call(lib.gpc_fleet_normalisation, self.handle, address(mean), address(deviation), len(mean), long=True)
        return mean, deviation


def floats(x: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """x as an array of some floating type with that shape, or an InputError that names it. Lists and tuples are converted, an array is left as it is."""
    if isinstance(x, (list, tuple)):
        try:
            x = np.array(x, np.float64)
        except (TypeError, ValueError) as e:
            raise InputError(f"{name}: want numbers: {e}") from None
    if not hasattr(x, "__array__"):
        raise InputError(f"{name} is a {type(x).__name__}, want a numpy array of floats")
    a = np.asarray(x)
    if a.dtype.kind != "f":
        raise InputError(f"{name} is an array of {a.dtype}, want floats")
    if a.shape != shape:
        raise InputError(f"{name} has shape {a.shape}, want {shape}")
    return a


def _whole(name: str, value: Any) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < 2**63:
        return int(value)
    raise InputError(f"{name} is {value!r}, want a whole number ≥ 0")


def _length(a: NDArray[Any] | None) -> int:
    return 0 if a is None else len(a)
