"""Actions that take one of a few values: how a system says them, what is refused, and the environments of them."""

import inspect
import json

import numpy as np
import pytest

import gpc
from gpc.envs import Fleet, make, make_vec

ALL = {"pump": gpc.on_off("1", least_on=2, least_off=3, most=(2, 8), cost=(0.5, "energy"), before=1), "gear": gpc.one_of(1, 2, 5)}


def tank(action, **more):
    """A tank that a pump fills."""
    y = gpc.System("tank", "a tank", state={"level": "m"}, action=action, **{"scenario": {"level": (0.5, 1.5)}, "steps": 12, "period": 60, **more})
    y.ode(span=1)(lambda s, u: 0.05 * u[0] - 0.02 * s.level)
    y.objectives(level="m²", energy="1")(lambda u, n: ((n.level - 1) ** 2, u[0]))
    y.margins(full="m")(lambda n: 2 - n.level)
    return y


def test_a_system_says_what_is_switched():
    y = tank({**ALL, "stage": gpc.integer(0, 6, "1", least=2), "valve": ("1", 0, 1)})
    d = json.loads(y.text())
    assert d["switches"] == [
        {"action": "pump", "values": [0, 1], "least": [3, 2], "most": 2, "window": 8, "cost": 0.5, "objective": "energy", "before": 1},
        {"action": "gear", "values": [1, 2, 5]}, {"action": "stage", "values": [0, 1, 2, 3, 4, 5, 6], "least": [2] * 7},
    ]
    assert d["action"] == [{"name": "pump", "unit": "1"}, {"name": "gear"}, {"name": "stage", "unit": "1"}, {"name": "valve", "unit": "1", "lo": 0, "hi": 1}]
    assert y.identity()["problem_sha256"] != tank({**ALL, "stage": gpc.integer(0, 6, "1"), "valve": ("1", 0, 1)}).identity()["problem_sha256"]
    assert "1, 2, 5" in y._repr_html_() and "1, 2, 5" in repr(ALL["gear"])
    assert json.loads(tank({"pump": gpc.on_off(least=[1, 4], before=False)}).text())["switches"] == [{"action": "pump", "values": [0, 1], "least": [1, 4], "before": 0}]


def test_the_file_is_read_back(command, tmp_path):
    y = tank(ALL)
    y.save(tmp_path / "tank.json")
    code, out, err = command("system", str(tmp_path / "tank.json"), "--out", str(tmp_path / "copy.json"), "--json")
    assert code == 0, err
    assert json.loads(out)["sha256"] == y.identity()["sha256"] and json.loads((tmp_path / "copy.json").read_text()) == json.loads(y.text())


def test_discrete_is_casadi_s():
    y = tank({"pump": ("1", 0, 1), "valve": ("1", 0, 1), "stage": (0, 4)}, discrete=[True, False, np.True_])
    assert [(w["action"], w["values"]) for w in json.loads(y.text())["switches"]] == [("pump", [0, 1]), ("stage", [0, 1, 2, 3, 4])]
    written = tank({"pump": gpc.on_off("1"), "valve": ("1", 0, 1), "stage": gpc.integer(0, 4)})
    assert y.text() == written.text()
    assert "switches" not in json.loads(tank({"pump": ("1", 0, 1)}, discrete=[False]).text())
    for action, discrete, says in (
        ({"pump": ("1", 0, 1)}, [True, False], "discrete is .*, want True or False for each of the actions pump"), ({"pump": ("1", 0, 1)}, [1], "want True or False"),
        ({"pump": "1"}, [True], r"action\['pump'\] is discrete and has no bounds"), ({"pump": ("1", 0, 1.5)}, [True], r"action\['pump'\] is discrete: hi is 1.5"),
        ({"pump": ("1", 0, 1e6)}, [True], "there are 1000001 whole numbers from 0 to 1000000, want at most 64"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            tank(action, discrete=discrete)


@pytest.mark.parametrize("say, says", [
    (lambda: gpc.one_of(), "values are none, want 2 to 64 numbers"), (lambda: gpc.one_of(3), "values are 3, want 2 to 64"), (lambda: gpc.one_of([]), "values are none"),
    (lambda: gpc.one_of(1, 1, 2), "values has 1 twice"), (lambda: gpc.one_of(2, 1), "values has 1 after 2, want numbers in ascending order"),
    (lambda: gpc.one_of(0, "a"), r"values\[1\] is 'a', want a number"), (lambda: gpc.one_of(0, np.inf), r"values\[1\] is inf, want a finite number"),
    (lambda: gpc.integer(3, 3), "lo is 3 and hi 3, want lo below hi"), (lambda: gpc.integer(0.5, 3), "lo is 0.5, want a whole number"), (lambda: gpc.integer(0, 99), "there are 100"),
    (lambda: gpc.on_off(least=0), "least is 0, want a number of periods, at least 1"), (lambda: gpc.on_off(least=[1, 2, 3]), "least has 3 entries"),
    (lambda: gpc.one_of(1, 2, least=[1, 1.5]), r"least\[1\] is 1.5"), (lambda: gpc.on_off(least_on=True), "least_on is True"), (lambda: gpc.on_off(least=2, least_on=3), "least is given beside"),
    (lambda: gpc.on_off(most=3), r"most is 3, want \(changes, periods\)"), (lambda: gpc.on_off(most=(4, 4)), "want fewer changes than periods"), (lambda: tank({"pump": ("1", [0, 1])}), r"\['pump'\].hi is.*gpc.one_of"), (lambda: gpc.on_off(most=(0, 3)), r"most\[0\] is 0, want a number of changes"),
    (lambda: gpc.on_off(cost=1), r"cost is 1, want \(price of a change, name of an objective\)"), (lambda: gpc.on_off(cost=(-1, "energy")), r"cost\[0\] is -1, want the price"),
    (lambda: gpc.on_off(before=0.5), "before is 0.5, want one of the values 0, 1"), (lambda: gpc.on_off(unit=3), "unit is 3"),
    (lambda: tank({"pump": gpc.on_off(least_on=13)}), r"action\['pump'\]: least has 13 periods, and a plan looks 12 ahead"),
    (lambda: tank({"pump": gpc.on_off(least_on=9)}, horizon=8), "least has 9 periods, and a plan looks 8 ahead"), (lambda: tank({"pump": gpc.on_off(most=(1, 20))}), "most has 20 periods"),
    (lambda: tank({"gear": (1, 2, 3, 4)}), r"action\['gear'\] is \(1, 2, 3, 4\): want a unit .*, or gpc.on_off\(\)"), (lambda: tank({"pump": gpc.on_off}), r"or gpc.on_off\(\)"),
    (lambda: tank({"pump": gpc.on_off()}, rates={"pump": 1}), r"rates\['pump'\] is of a switched action"),
    (lambda: tank({"pump": gpc.on_off(cost=(1, "noise"))}).text(), r"action\['pump'\]: the cost is of the objective 'noise', want one of level, energy"),
    (lambda: tank({"pump": gpc.on_off()}).escape(3), r"tank has switched actions \(pump\), and with them no escape"),
])
def test_what_cannot_be_switched_is_refused_where_it_is_written(say, says):
    with pytest.raises(gpc.InputError, match=says):
        say()


def compared(box=("1", -1, 1), ode=lambda s, u: u.v, memory=lambda u: {"on": u.v}, objectives=lambda u, n: n.x**2, margins=lambda n: 2 - n.x):
    """A system of a continuous and a switched action, one of whose functions compares."""
    y = gpc.System("compared", state={"x": "m"}, context={"on": "1"}, action={"v": box, "pump": gpc.on_off()}, scenario={"x": (0, 1)}, steps=10, period=0.1)
    y.ode()(ode)
    y.memory(memory)
    y.objectives(a="1")(objectives)
    y.margins(m="m")(margins)
    return y


@pytest.mark.parametrize("what, change", [
    ("dynamics", {"ode": lambda s, u: np.where(u.v > 0, 5, -5)}), ("dynamics", {"ode": lambda s, u: np.where(u.v > 0, 5, -5), "box": "1"}),
    ("dynamics", {"ode": lambda s, u: (u.v > 0) * 5}), ("dynamics", {"ode": lambda s, u: np.sign(u.v)}), ("dynamics", {"ode": lambda s, u: np.where(u.v, 5, -5), "box": (0, 1)}),
    ("dynamics", {"ode": lambda s, u: np.where(u.v > 0, 5, 0), "box": (0, 1)}), ("dynamics", {"ode": lambda s, u: np.where(u.v == 0, 0, 5), "box": (0, 1)}),
    ("dynamics", {"ode": lambda s, u: np.where(u.v >= 1, 5, 0), "box": (0, 1)}), ("dynamics", {"ode": lambda s, u: np.where((u.v > 0.3) & (s.x > 0.5), 5, -5)}),
    ("dynamics", {"ode": lambda s, u: np.where(2 * u.v >= s.x, u.pump, -5)}), ("dynamics", {"memory": lambda u: {"on": np.where(u.v > 0, 1, 0)}}),
    ("objectives", {"objectives": lambda u, n: n.x + np.where(u.v > 0.1, 5, 0)}), ("margins", {"margins": lambda u, n: np.where(u.v > 0, 1, 2 - n.x)}),
])
def test_an_action_that_is_compared_is_refused(what, change):
    with pytest.raises(gpc.InputError) as e:
        compared(**change).text()
    assert str(e.value).startswith(f"{__file__}:") and f"the {what} compare the action 'v'" in str(e.value) and "an input that switches is written as gpc.on_off() or gpc.one_of(…)" in str(e.value)
    line = int(str(e.value).removeprefix(f"{__file__}:").split(":")[0])
    assert "lambda" in inspect.getsource(inspect.getmodule(test_an_action_that_is_compared_is_refused)).splitlines()[line - 1]


@pytest.mark.parametrize("change", [
    {"ode": lambda s, u: np.where(s.x > 0.5, u.v, -u.v)}, {"ode": lambda s, u: np.minimum(u.v, 0.5) + np.maximum(u.v, -0.2) + np.abs(u.v) + np.clip(u.v, 0, 1)},
    {"ode": lambda s, u: np.where(u.v > 0, 0.9 * u.v, u.v / 0.9)}, {"ode": lambda s, u: np.arcsinh(u.v) + np.log1p(0.5 * u.v) + np.cbrt(u.v - 0.3)},
    {"ode": lambda s, u: np.where(u.pump > 0.5, u.v, -u.v)}, {"ode": lambda s, u: np.linalg.solve(gpc.array([[3 + u.v, 1], [1, 2 + u.v]]), gpc.array([s.x, 1]))[0]},
    {"objectives": lambda u, n: n.x + np.where(u.v > 0, 0.2 * u.v, -0.1 * u.v)}, {"margins": lambda n: np.where(n.x > 0, 1, 2 - n.x)},
])
def test_comparisons_of_states_and_switched_actions_and_kinks_stay(change):
    assert compared(**change).text()


def saved(tmp_path, action):
    file = tmp_path / "tank.json"
    tank(action).save(file)
    return str(file)


def test_a_description_has_the_switches(tmp_path):
    with Fleet(saved(tmp_path, {"valve": (0, 1), **ALL}), 1) as f:
        pump, gear = f.spec.switches
        assert (pump.action, pump.values, pump.least, pump.most, pump.window) == (1, (0, 1), (3, 2), 2, 8) and gear.values == (1, 2, 5)
        names = [v.name for v in f.spec.context]
        assert names[pump.last] == "last pump" and names[pump.ages] == "age of pump" and names[gear.last] == "last gear"


def test_places_of_values_are_what_the_plant_is_given(tmp_path):
    with Fleet(saved(tmp_path, {"valve": (0, 1), **ALL}), 1) as f:
        f.reset()
        for gear, value in ((-1, 1), (-0.6, 1), (-0.4, 2), (0.4, 2), (0.6, 5), (3, 5)):
            np.testing.assert_allclose(f.physical(np.array([0.0, 1.0, gear])), [0.5, 1, value])


def test_without_a_map_a_search_decides():
    system = tank({"pump": gpc.on_off(least_on=2, least_off=3)})
    with pytest.raises(gpc.InputError, match='tank has switched actions, for which there is no exact solver "nmpc": "search-512" decides without a map'):
        gpc.nmpc(system)
    with pytest.raises(gpc.InputError, match="tank has no bundled map: .* a method that needs none, such as method search-512"):
        gpc.open(system)
    with gpc.open(system, method="search-64") as search:
        on = search.drive()["u"][:, 0].astype(int)
        state, context = search.observe()
        assert np.array_equal(search.context(), context) and search.context({"last pump": 0, "age of pump": 2})[-2:].tolist() == [0, 2]
        context[search.spec.switches[0].last] = 7
        with pytest.raises(gpc.InputError, match=r"has last pump 7 in c\[\d+\], want one of \[0 1\]"):
            search.loop().decide(state, context)
    stays = [len(stay) for stay in np.split(on, np.flatnonzero(np.diff(on)) + 1)]
    assert set(on) <= {0, 1} and all(n >= (3, 2)[v] for n, v in zip(stays[1:-1], [on[k] for k in np.cumsum(stays)[:-2]]))


def test_environments_of_switched_actions(tmp_path):
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    from gymnasium.utils.env_checker import check_env

    file = saved(tmp_path, ALL)
    env = make(file)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([2, 3])
    check_env(env, skip_render_check=True)
    pump, gear = env.fleet.spec.switches
    n = len(env.fleet.spec.state)
    for action in ([1, 2], [0, 0], [1, 1]):
        observation, *_ = env.step(np.array(action))
        assert (observation[n + pump.last], observation[n + gear.last]) == (action[0], (1, 2, 5)[action[1]])
    for wrong, says in (([2, 0], "action has 2 for pump, want the place of one of its values, 0 to 1"), ([0, -1], "has -1 for gear"), ([0.5, 0], "want whole numbers of shape"), ([0], "want whole numbers")):
        with pytest.raises(gpc.InputError, match=says):
            env.step(np.array(wrong))
    envs = make_vec(file, 3)
    envs.reset(seed=9057)
    envs.step(np.array([[0, 0], [1, 1], [0, 2]]))
    np.testing.assert_array_equal(envs.fleet.observation[:, n + gear.last], [1, 2, 5])


def test_environments_of_both_kinds_of_actions(tmp_path):
    gymnasium = pytest.importorskip("gymnasium", minversion="1.0")
    from gymnasium.utils.env_checker import check_env

    file, spaces = saved(tmp_path, {"valve": ("1", 0, 1), **ALL}), gymnasium.spaces
    env = make(file)
    assert env.action_space == spaces.Dict({"continuous": spaces.Box(-1, 1, (1,), np.float32), "discrete": spaces.MultiDiscrete([2, 3])})
    check_env(env, skip_render_check=True)
    for wrong, says in ((np.zeros(3), 'want a dict with "continuous" and "discrete"'), ({"continuous": np.zeros(1), "discrete": np.array([0, 3])}, r'action\["discrete"\] has 3 for gear'),
                        ({"continuous": np.zeros(2), "discrete": np.array([0, 0])}, r'action\["continuous"\] has shape')):
        with pytest.raises(gpc.InputError, match=says):
            env.step(wrong)
    envs = make_vec(file, 4)
    envs.reset(seed=9057)
    envs.action_space.seed(1)
    observation, reward, *_ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space and np.isfinite(reward).all()
