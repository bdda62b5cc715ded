"""The environments: Gymnasium's contract, the same episodes as an evaluation, arrays in place."""

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest

import gpc
from gpc.envs import CASES, Fleet, make, make_vec, mo_vec
from gpc.envs.bench import NumpyIntegrator

FAST = ("integrator-convex", "integrator-nonconvex", "multiagent-static", "opf30", "opf30-uncertain")


def actions(n, width, steps):
    return np.random.default_rng(5).uniform(-1, 1, (steps, n, width)).astype(np.float32)


def test_every_case_is_registered():
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    assert [*CASES] == [c["name"] for c in gpc.cases() if c["group"] == "the paper"]
    for case in CASES:
        for prefix in ("", "mo-"):
            assert f"gpc/{prefix}{case}-v0" in gymnasium.registry


def test_registered_by_its_name_alone():
    pytest.importorskip("gymnasium", minversion="1.0")
    subprocess.run([sys.executable, "-c", 'import gymnasium; gymnasium.make("gpc.envs:gpc/integrator-convex-v0").reset(seed=991)'], check=True)


@pytest.mark.parametrize("case", FAST)
def test_gymnasium_checker(case):
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(f"gpc/{case}-v0").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("case", FAST)
def test_stable_baselines_checker(case):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(make(case), warn=True)


@pytest.mark.parametrize("case", FAST)
def test_mo_gymnasium(case):
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    env = mo_gymnasium.make(f"gpc/mo-{case}-v0")
    space = env.unwrapped.reward_space
    env.reset(seed=991)
    env.action_space.seed(0)
    _, reward, *_, info = env.step(env.action_space.sample())
    assert reward in space and reward.shape == (env.unwrapped.reward_dim,)
    np.testing.assert_array_equal(reward, -info["objectives"])
    weight = np.ones(len(reward)) / len(reward)
    scalar = mo_gymnasium.wrappers.LinearReward(env, weight)
    scalar.reset(seed=991)
    _, r, *_ = scalar.step(np.zeros(env.action_space.shape, np.float32))
    assert np.ndim(r) == 0


def test_vector_reward_of_many():
    pytest.importorskip("gymnasium", minversion="1.0")
    envs = mo_vec("integrator-convex", 5, seed=991)
    envs.reset()
    _, reward, *_, info = envs.step(envs.action_space.sample())
    assert reward.shape == (5, 2)
    np.testing.assert_array_equal(reward, -info["objectives"])


def test_vector_entry_point():
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    envs = gymnasium.make_vec("gpc/integrator-convex-v0", num_envs=7, vectorization_mode="vector_entry_point", seed=991, threads=2)
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    observation, info = envs.reset(seed=992)
    assert observation in envs.observation_space and list(info["episode_number"]) == list(range(7))
    one = make("integrator-convex")
    for i in range(7):
        first, _ = one.reset(seed=992, options={"episode": i})
        np.testing.assert_array_equal(first, observation[i])


@pytest.mark.parametrize("case", FAST)
def test_threads_do_not_matter(case):
    seen = []
    for threads in (1, 2, 5):
        with Fleet(case, 24, seed=991, threads=threads, cycle=6, autoreset="same-step", failure_cost=1) as f:
            f.reset()
            rows = []
            for a in actions(24, f.action.shape[1], 25):
                f.step(a)
                rows.append(np.concatenate([x.reshape(24, -1).astype(np.float64) for x in (
                    f.observation, f.reward, f.cost, f.terminated, f.truncated, f.objectives, f.margins, f.sigma, f.episode,
                )], axis=1))
            seen.append(np.array(rows))
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0], other)


@pytest.mark.parametrize("mode", ["next-step", "same-step", "disabled"])
def test_autoreset(mode):
    with Fleet("integrator-convex", 3, seed=991, autoreset=mode) as f:
        f.reset()
        for _ in range(f.spec.steps - 1):
            f.step(np.zeros_like(f.action))
            assert not f.truncated.any() and f.stepped.all()
        last = f.observation.copy()
        f.step(np.zeros_like(f.action))
        assert f.truncated.all() and not f.terminated.any()
        if mode == "disabled":
            np.testing.assert_array_equal(f.episode, [0, 1, 2])
            with pytest.raises(gpc.InputError, match="environment 0 has ended"):
                f.step(np.zeros_like(f.action))
            f.reset(which=np.array([True, True, False]))
            np.testing.assert_array_equal(f.episode, [3, 4, 2])
            return
        end = f.observation.copy() if mode == "next-step" else f.final.copy()
        assert (end[:, -1] == 1).all() and (last[:, -1] < 1).all()  # t/T
        if mode == "next-step":
            f.step(np.full_like(f.action, 0.5))
            assert not f.stepped.any() and not f.reward.any() and not f.objectives.any()
        np.testing.assert_array_equal(f.episode, [3, 4, 5])
        assert (f.observation[:, -1] == 0).all()


def test_same_step_says_what_was_seen_last():
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    envs = make_vec("integrator-convex", 2, seed=991, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    envs.reset()
    for _ in range(20):
        observation, *_, info = envs.step(np.zeros((2, 2), np.float32))
    assert info["_final_obs"].all() and (info["final_obs"][:, -1] == 1).all() and (observation[:, -1] == 0).all()


def test_gymnasiums_wrappers():
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    for mode in (gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP):
        envs = gymnasium.make_vec("gpc/integrator-convex-v0", num_envs=3, vectorization_mode="vector_entry_point", autoreset_mode=mode, seed=991)
        envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
        envs.reset()
        total = np.zeros(3)
        for _ in range(20):
            *_, reward, _, truncated, info = envs.step(np.zeros((3, 2), np.float32))
            total += reward
        assert truncated.all()
        np.testing.assert_array_equal(info["episode"]["l"], 20)
        np.testing.assert_allclose(info["episode"]["r"], total)


def test_without_a_copy():
    pytest.importorskip("gymnasium", minversion="1.0")
    envs = make_vec("integrator-convex", 4, seed=991, copy=False)
    first, _ = envs.reset()
    observation, reward, *_ = envs.step(np.zeros((4, 2), np.float32))
    assert observation is first and np.shares_memory(reward, envs.fleet.reward)
    envs = make_vec("integrator-convex", 4, seed=991)
    first, _ = envs.reset()
    was = first.copy()
    envs.step(np.zeros((4, 2), np.float32))
    np.testing.assert_array_equal(first, was)


def test_the_same_plant_as_in_numpy():
    n = 16
    with Fleet("integrator-convex", n, seed=991, dtype=np.float64) as f:
        s = f.reset()
        plant = NumpyIntegrator(n, 0)
        plant.q, plant.v, plant.before, plant.p, plant.rate = s[:, :2].copy(), s[:, 2:4].copy(), s[:, 4:6].copy(), s[:, 6].copy(), s[:, 7].copy()
        for a in actions(n, 2, f.spec.steps - 1).astype(np.float64):
            observation, reward, objectives, margins, sigma, _ = plant.step(a)
            f.step(a)
            for got, want in ((f.observation, observation), (f.reward, reward), (f.objectives, objectives), (f.margins, margins), (f.sigma, sigma)):
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
            broken = margins < -f.spec.margin_tolerance
            np.testing.assert_array_equal(f.violated, broken.any(1))
            np.testing.assert_allclose(f.cost, -np.where(broken, margins, 0).sum(1), rtol=1e-9, atol=1e-9)


def test_preference_and_safeguard():
    with Fleet("opf30", 4, seed=991, preference=[0.2, 0.3, 0.5], safeguard=True, cycle=4) as f:
        f.reset()
        for a in actions(4, f.action.shape[1], 20):
            f.step(a)
            assert not f.violated.any()
            np.testing.assert_allclose(f.sigma, np.tile([0.2, 0.3, 0.5], (4, 1)))
    with Fleet("opf30", 4, seed=991, cycle=4) as f:
        f.reset()
        f.step(actions(4, f.action.shape[1], 1)[0])
        assert f.violated.any()


def test_one_joint_action_of_up_to_six_robots():
    with Fleet("multiagent-static", 8, seed=991, past=True) as f:
        f.reset()
        for a in actions(8, 12, 30):
            f.step(a)
            assert not f.terminated.any(), "an action beyond the slew bound is moved to it, not refused"
        u = f.physical(np.ones(12))
        radius = f.observation[0, [v.name for v in f.spec.state + f.spec.context].index("r5")]
        assert np.abs(u).max() <= 2 and (radius > 0 or not u[10:].any())


def test_normalisation():
    for case in ("integrator-convex", "multiagent-static"):
        with Fleet(case, 64, seed=992) as f:
            mean, deviation = f.normalisation()
            assert mean.shape == deviation.shape == f.observation.shape[1:] and (deviation > 0).all()
            assert np.abs((f.reset() - mean) / deviation).max() < 20


def test_wrong_input():
    with pytest.raises(gpc.InputError, match="unknown case"):
        Fleet("no-such-case")
    with pytest.raises(gpc.InputError, match="0 environments"):
        Fleet("opf30", 0)
    with pytest.raises(gpc.InputError, match="num_envs"):
        Fleet("opf30", 1.5)
    with pytest.raises(gpc.InputError, match="sum to"):
        Fleet("opf30", preference=[0.5, 0.6, 0.1])
    with pytest.raises(gpc.InputError, match="preference"):
        Fleet("opf30", preference="fixed")
    with pytest.raises(gpc.InputError, match="regime"):
        Fleet("opf30", regime="nowhere").reset()
    with Fleet("integrator-convex", 2) as f:
        with pytest.raises(gpc.InputError, match="before the first reset"):
            f.step(np.zeros((2, 2), np.float32))
        f.reset()
        for bad, what in ((np.zeros((2, 3), np.float32), "shape"), (np.full((2, 2), np.nan, np.float32), "u1 of environment 0 is NaN")):
            with pytest.raises(gpc.InputError, match=what):
                f.step(bad)
        with pytest.raises(gpc.InputError, match="which"):
            f.reset(which=np.array([1, 0]))
        with pytest.raises(gpc.InputError, match="episodes is an array of float64"):
            f.reset(episodes=[0.5, 1.5])
    with pytest.raises(gpc.Error, match="closed"):
        f.step(np.zeros((2, 2), np.float32))


WRONG_ACTIONS = (
    (lambda a: a.astype(int), "is an array of int64, want floats"),
    (lambda a: a.astype(np.uint8), "is an array of uint8"),
    (lambda a: a.astype(bool), "is an array of bool"),
    (lambda a: a.astype(complex), "is an array of complex128"),
    (lambda a: a.astype(object), "is an array of object"),
    (lambda a: a.astype(str), "is an array of <U"),
    (lambda a: a[..., :1], r"has shape \((\d, )?1,?\), want"),
    (lambda a: a[None], "has shape"),
    (lambda a: "left", "is a str"),
    (lambda a: None, "is a NoneType"),
    (lambda a: [[None, "x"]], "want numbers"),
    (lambda a: a * np.nan, "NaN"),
)


@pytest.mark.parametrize("change, named", WRONG_ACTIONS)
def test_actions_are_refused_by_name(change, named):
    named = named if named == "NaN" else "^actions?:? " + named
    a = actions(3, 2, 1)[0]
    env, envs = make("integrator-convex"), make_vec("integrator-convex", 3, seed=991)
    env.reset(seed=991), envs.reset()
    before = envs.fleet.observation.copy()
    for call, x in ((env.step, a[0]), (envs.step, a), (envs.fleet.step, a), (envs.fleet.physical, a[0])):
        if call == envs.fleet.step and change(x) is None:
            continue  # a fleet's step without an action takes what stands in its own array
        if call == envs.fleet.physical and named == "NaN":
            continue
        with pytest.raises(gpc.InputError, match=named):
            call(change(x))
    np.testing.assert_array_equal(envs.fleet.observation, before)


@pytest.mark.parametrize("change", [
    lambda a: np.repeat(a, 2, axis=-1)[..., ::2], np.asfortranarray, lambda a: a[::-1][::-1], lambda a: a.astype(np.float64), lambda a: a.astype(np.float64).tolist(),
])
def test_actions_with_gaps_or_of_another_float_are_copied(change):
    """As Gymnasium's own environments take them, which is what learners give."""
    a = actions(3, 2, 1)[0]
    with Fleet("integrator-convex", 3, seed=991) as one, Fleet("integrator-convex", 3, seed=991) as other:
        one.reset(), other.reset()
        one.step(change(a))
        other.step(a)
        np.testing.assert_array_equal(one.observation, other.observation)
        np.testing.assert_array_equal(one.physical(change(a)[0]), other.physical(a[0]))


def test_ctrl_c_ends_drawing(script):
    # The signal goes to a thread that is not the main one, which waits.
    printed = script("""
import os, signal, threading, time
from gpc.envs import Fleet
with Fleet("opf30", 100, seed=991) as f:
    began = time.process_time()
    f.reset()
    few = time.process_time() - began
def interrupt():
    while time.process_time() - began < few:  # it draws by then
        time.sleep(0.001)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
with Fleet("opf30", 20000, seed=991) as f:
    began = time.process_time()
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        f.reset()
        print("drawn to the end")
    except KeyboardInterrupt:  # not when all are drawn: CPU time does not depend on how busy the machine is
        print("interrupted", time.process_time() - began < 100 * few)
with Fleet("opf30", 2, seed=991) as f:
    print(f.reset().shape)
""")
    assert printed.split("\n")[:2] == ["interrupted True", "(2, 106)"]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_memory_does_not_grow():
    with Fleet("integrator-convex", 64, seed=991) as f:
        f.reset()
        a = np.zeros_like(f.action)
        for k in range(20_000):
            f.step(a)
            if k == 5000:
                gc.collect()
                before = resident()
    assert resident() - before < 32 << 20


def test_the_library_writes_numpys_memory():
    with Fleet("integrator-convex", 1, seed=991) as f:
        at = f.observation.__array_interface__["data"][0]
        f.reset()
        assert f.observation.__array_interface__["data"][0] == at
        assert ctypes.c_float.from_address(at).value == f.observation[0, 0] != 0


def test_omnisafe():
    omnisafe = pytest.importorskip("gpc.envs.omnisafe", reason="OmniSafe is not installed", exc_type=ImportError)
    env = omnisafe.ConstrainedEnv("gpc/integrator-convex-v0", num_envs=3, seed=991)
    observation, _ = env.reset(seed=991)
    for _ in range(env.max_episode_steps):
        observation, reward, cost, terminated, truncated, info = env.step(env.sample_action())
    assert observation.shape == (3, 9) and reward.shape == cost.shape == terminated.shape == (3,)
    assert truncated.all() and info["_final_observation"].all()


def test_a_system_is_an_environment_as_its_file_is(tmp_path):
    y = gpc.System("sled", state={"x": "m", "v": "m/s"}, action={"force": ("N", -5, 5)}, scenario={"x": (-1, 1)}, steps=5, period=0.1)
    y.ode()(lambda s, u: (s.v, u.force))
    y.objectives(position="m²")(lambda n: n.x**2)
    y.save(tmp_path / "sled.json")
    with Fleet(y, 2) as of_system, Fleet(tmp_path / "sled.json", 2) as of_file:
        assert of_system.spec == of_file.spec
        for f in (of_system, of_file):
            f.reset(seed=3)
        np.testing.assert_array_equal(of_system.observation, of_file.observation)
    pytest.importorskip("gymnasium", minversion="1.0")
    assert str(make(y)) == "<gpc.envs.Env 'sled'>"


def test_a_front_without_a_map_says_what_needs_none():
    y = gpc.System("sled", state={"x": "m"}, action={"v": ("m/s", -1, 1)}, scenario={"x": (-1, 1)}, steps=5, period=0.1)
    y.ode()(lambda u: (u.v,))
    y.objectives(position="m²", effort="1")(lambda u, n: (n.x**2, u.v**2))
    with gpc.nmpc(y) as exact:
        with pytest.raises(gpc.InputError, match=r"no bundled map, whose decisions a front has: make one with compile and give its file with model; exact optima need none"):
            exact.front(*exact.observe())
        assert len(exact.front(*exact.observe(), points=5, exact=True)["points"]) == 5
