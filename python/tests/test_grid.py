"""gpc.grid and gpc.griddata: networks from everywhere, scenarios, and what machine learning reads."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gpc
from gpc import _outages, grid, griddata


def balance(n, r, s, k):
    """The largest imbalance of a bus, MW and MVAr, from results alone."""
    left = np.zeros((2, len(n.bus)))
    at = {int(b): i for i, b in enumerate(n.bus)}
    left[0] -= s.pd[k] + n.bus_table[:, 4] * r.vm[k] ** 2
    left[1] -= s.qd[k] - n.bus_table[:, 5] * r.vm[k] ** 2
    for g, b in enumerate(n.gen_bus):
        left[:, at[int(b)]] += r.pg[k, g], r.qg[k, g]
    for l, (f, t) in enumerate(zip(n.branch_from, n.branch_to)):
        left[:, at[int(f)]] -= r.pf[k, l], r.qf[k, l]
        left[:, at[int(t)]] -= r.pt[k, l], r.qt[k, l]
    return np.abs(left).max()


def test_islands_are_secure_as_each_is_alone():
    one = grid.network("case_ieee30")
    bus, branch, gen = (np.vstack([t, t]) for t in (one.bus_table, one.branch_table, one.gen_table))
    bus[len(one.bus):, 0] += 100
    branch[len(one.branch_table):, :2] += 100
    gen[len(one.gen_table):, 0] += 100
    bus[:, 2:4] *= 0.9
    two = grid.secure({**tables(one), "bus": bus, "branch": branch, "gen": gen, "gencost": np.vstack([tables(one)["gencost"]] * 2)})
    alone = grid.secure(one, (0.9 * one.pd, 0.9 * one.bus_table[:, 3]))
    assert two.secure.all() and two.objective[0] == pytest.approx(2 * alone.objective[0], rel=1e-7)


def test_the_optimum_of_a_case():
    n = grid.network("case30")
    r = grid.opf(n)
    assert r.optimal.all() and abs(r.objective[0] - 576.8923) < 1e-3
    assert r.vm.shape == (1, 30) and r.pg.shape == (1, 6) and r.pf.shape == (1, 41)
    assert balance(n, r, grid.Scenarios(n.pd[None], n.qd[None]), 0) < 1e-5
    assert grid.STATUS[r.status[0]] == "optimal" and "30 buses" in repr(n)


def test_scenarios_are_those_one_by_one_on_any_number_of_threads():
    one, two = grid.network("case30", threads=1), grid.network("case30", threads=2)
    s = grid.sample(one, 60, "pglearn", seed=3, high=1.0)
    a, b = grid.opf(one, s), grid.opf(two, s)
    for name in ("status", "iterations", "objective", "vm", "price_p", "pf", "mu_to"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.optimal.sum() > 30
    for k in (0, 17, 59):
        alone = grid.opf(one, (s.pd[k], s.qd[k]))
        np.testing.assert_array_equal(alone.vm[0], a.vm[k])
    warm = grid.opf(one, s, chains=4)
    np.testing.assert_array_equal(warm.status, a.status)
    np.testing.assert_allclose(warm.objective[a.optimal], a.objective[a.optimal], rtol=1e-6)
    assert np.isnan(a.vm[~a.optimal]).all() and not np.isnan(a.vm[a.optimal]).any()
    assert a.solves_per_second > 0


def test_active_loads_alone_keep_power_factors():
    n = grid.network("case9")
    half = grid.opf(n, 0.5 * n.pd)
    both = grid.opf(n, (0.5 * n.pd, 0.5 * n.qd))
    np.testing.assert_array_equal(half.objective, both.objective)


def test_what_is_out_carries_nothing():
    n = grid.network("case14")
    s = grid.sample(n, 40, "opfdata", seed=5, outages=True)
    assert ((s.branch_out >= 0) ^ (s.gen_out >= 0)).all()
    r = grid.opf(n, s)
    assert r.optimal.all()
    for k in range(len(s)):
        if s.branch_out[k] >= 0:
            assert r.pf[k, s.branch_out[k]] == 0 and r.qt[k, s.branch_out[k]] == 0
        else:
            assert abs(r.pg[k, s.gen_out[k]]) < 1e-6
        assert balance(n, r, s, k) < 1e-4
    np.testing.assert_array_equal(s.pd, grid.sample(n, 40, "opfdata", seed=5, outages=True).pd)


def tables(n):
    """MATPOWER's tables of a network, as a mapping."""
    cost = np.column_stack([np.tile([2, 0, 0, 3], (len(n.gen_bus), 1)), n.cost_table])
    return {"baseMVA": n.base_mva, "bus": n.bus_table, "gen": n.gen_table, "branch": n.branch_table, "gencost": cost}


def powermodels(n):
    """The same as PowerModels holds it."""
    base, rad = n.base_mva, np.pi / 180
    rows = lambda table: {str(i + 1): row for i, row in enumerate(table)}  # noqa: E731
    return {
        "per_unit": True, "baseMVA": base, "name": n.name,
        "bus": rows([{"bus_i": int(b[0]), "bus_type": int(b[1]), "vmax": b[11], "vmin": b[12], "base_kv": b[9], "vm": b[7], "va": b[8] * rad} for b in n.bus_table]),
        "load": rows([{"load_bus": int(b[0]), "pd": b[2] / base, "qd": b[3] / base, "status": 1} for b in n.bus_table]),
        "shunt": rows([{"shunt_bus": int(b[0]), "gs": b[4] / base, "bs": b[5] / base, "status": 1} for b in n.bus_table]),
        "gen": rows([{
            "gen_bus": int(g[0]), "pg": g[1] / base, "qg": g[2] / base, "qmax": g[3] / base, "qmin": g[4] / base, "vg": g[5], "gen_status": 1, "pmax": g[8] / base, "pmin": g[9] / base,
            "model": 2, "ncost": 3, "cost": [c[0] * base**2, c[1] * base, c[2]],
        } for g, c in zip(n.gen_table, n.cost_table)]),
        "branch": rows([{
            "f_bus": int(r[0]), "t_bus": int(r[1]), "br_r": r[2], "br_x": r[3], "b_fr": r[4] / 2, "b_to": r[4] / 2, "g_fr": 0, "g_to": 0, "rate_a": r[5] / base, "br_status": 1,
            "tap": r[8] or 1.0, "transformer": bool(r[8]), "shift": r[9] * rad, "angmin": r[11] * rad, "angmax": r[12] * rad,
        } for r in n.branch_table]),
    }


@pytest.mark.parametrize("name", ["case9", "case14", "case30", "case118"])
def test_every_way_in_has_the_same_optimum(name, tmp_path):
    n = grid.network(name)
    want = grid.opf(n).objective[0]
    path = tmp_path / "case.json"
    path.write_text(json.dumps(powermodels(n)))
    for source in (tables(n), powermodels(n), path):
        assert grid.opf(source).objective[0] == pytest.approx(want, rel=1e-7)


def test_pandapower_nets():
    pytest.importorskip("pandapower")
    import pandapower.networks as pn

    import gpc.pandapower as gp

    net = pn.case30()
    gp.runopp(net, OPF_FLOW_LIM=0)
    assert grid.opf(net).objective[0] == pytest.approx(float(net.res_cost), rel=1e-6)


def test_a_prompt_shows_results_in_a_line():
    n = grid.network("case30")
    s = grid.Scenarios(n.pd * [[1], [0.9], [3]], n.qd * [[1], [0.9], [3]], branch_out=np.array([-1, 0, -1]))
    assert repr(s) == "Scenarios(3 of 30 buses; load 170.28 to 567.6 MW; 1 with a branch out)"
    r = grid.opf(n, s)
    assert repr(r).startswith("Optima(2 optimal, 1 infeasible; objective ") and repr(r).endswith("30 buses, 6 units, 41 branches)")
    assert "objective" not in repr(grid.opf(n, 3 * n.pd)) and repr(grid.opf(n)).startswith("Optima(1 optimal; objective 576.892 $/h; 30 buses, 6 units, 41 branches)\nbus")


def test_what_is_refused(tmp_path):
    n = grid.network("case9")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for f, says in (
        (lambda: grid.network("case10"), "case10"),
        (lambda: grid.network(3), "a int"),
        (lambda: grid.network({"bus": [[1]]}), "baseMVA"),
        (lambda: grid.opf(n, np.ones((2, 8))), "shape"),
        (lambda: grid.opf(n, np.full(9, np.nan)), "finite"),
        (lambda: grid.opf(n, n.pd, branch_out=[9]), "branch 9 is not in the network"),
        (lambda: grid.opf(n, threads=1), "threads"),
        (lambda: grid.opf(n, n.pd, chains=-1), "chains"),
        (lambda: grid.sample(n, 1, "mine", seed=0), "recipe"),
        (lambda: grid.network({**powermodels(n), "dcline": {"1": {"br_status": 1}}}), "dcline 1 of PowerModels' data has no f_bus"),
        (lambda: grid.network({**tables(n), "dcline": np.ones((1, 17))}), "loss1 is 1"),
        (lambda: grid.network({**tables(n), "softlims": np.ones((1, 3))}), "softlims: no table that gpc uses"),
        (lambda: grid.network({**tables(n), "bus": np.ma.masked_less(tables(n)["bus"], 0.5)}), "bus has masked entries"),
        (lambda: grid.network({**tables(n), "branch": tables(n)["branch"] * (1 + 1j)}), "branch: want numbers: these are of complex"),
        (lambda: grid.network("nowhere.m"), "nowhere.m does not exist"),
        (lambda: grid.network(__file__ + "/x.json"), "x.json"),
        (lambda: grid.network(broken), "broken.json:1: .*JSON"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            f()


def test_opfdata_reads_as_opfdata(tmp_path):
    n = grid.network("case14")
    s = grid.sample(n, 6, "opfdata", seed=1, outages=True)
    r = grid.opf(n, s)
    assert griddata.write_opfdata(tmp_path, n, s, r, first=100) == 6
    for k in range(6):
        d = json.loads((tmp_path / f"example_{100 + k}.json").read_text())
        nodes, edges = d["grid"]["nodes"], d["grid"]["edges"]
        assert np.shape(nodes["bus"]) == (14, 4) and np.shape(nodes["load"])[1] == 2 and np.shape(nodes["generator"])[1] == 11
        lines, changes = len(edges["ac_line"]["senders"]), len(edges["transformer"]["senders"])
        assert lines + changes == 20 - (s.branch_out[k] >= 0) and len(nodes["generator"]) == 5 - (s.gen_out[k] >= 0)
        assert np.shape(edges["ac_line"]["features"]) == (lines, 9) and np.shape(edges["transformer"]["features"]) == (changes, 11)
        solution = d["solution"]
        np.testing.assert_allclose(np.array(solution["nodes"]["bus"])[:, 1], r.vm[k])
        assert np.shape(solution["edges"]["transformer"]["features"]) == (changes, 4)
        # The objective follows from the document alone, per unit.
        pg, unit = np.array(solution["nodes"]["generator"])[:, 0], np.array(nodes["generator"])
        assert (unit[:, 8] * pg**2 + unit[:, 9] * pg + unit[:, 10]).sum() == pytest.approx(d["metadata"]["objective"], rel=1e-6)
        # So do the flows: Ohm's law of a line from voltages and features.
        va, vm = np.array(solution["nodes"]["bus"]).T
        f, t = edges["ac_line"]["senders"], edges["ac_line"]["receivers"]
        x = np.array(edges["ac_line"]["features"])
        v = vm * np.exp(1j * va)
        into = v[f] * np.conj((v[f] - v[t]) / (x[:, 4] + 1j * x[:, 5]) + 1j * x[:, 2] * v[f])
        flow = np.array(solution["edges"]["ac_line"]["features"])
        np.testing.assert_allclose(into, flow[:, 2] + 1j * flow[:, 3], atol=1e-7)


def test_data_sets_have_every_load():
    """Also that of a bus without load in the case; and of other scenarios there are none."""
    n = grid.network("case9")
    pd, qd = np.tile(n.pd, (2, 1)), np.tile(n.qd, (2, 1))
    pd[1, 3], qd[1, 3] = 20, 5
    s = grid.Scenarios(pd, qd)
    r = grid.opf(n, s)
    for k, d in griddata.opfdata(n, s, r):
        load, unit = (np.array(d["grid"]["nodes"]["load"]), np.array(d["solution"]["nodes"]["generator"]))
        flows = np.array(d["solution"]["edges"]["ac_line"]["features"])
        assert load[:, 0].sum() * 100 == pytest.approx(pd[k].sum()) and unit[:, 0].sum() - load[:, 0].sum() == pytest.approx((flows[:, 0] + flows[:, 2]).sum(), abs=1e-6)
    with pytest.raises(gpc.InputError, match="2 scenarios and 1 optima"):
        next(griddata.opfdata(n, s, grid.opf(n)))


def test_what_is_out_is_not_left_out_in_silence():
    """Scenarios with outages are of opf(); ramps and limits of currents are not relaxed."""
    n = grid.network("case_ieee30")
    s = grid.sample(n, 1, seed=1, outages=True)
    assert len(grid.opf(n, s)) == 1
    for call in (lambda: grid.pf(n, s), lambda: grid.outages(n, "units", s), lambda: grid.outages(n, "units", scenarios=s), lambda: grid.secure(n, s), lambda: grid.least_relaxation(n, s)):
        with pytest.raises(gpc.InputError, match="which opf.. alone takes"):
            call()
    ramps = grid.opf(n, 1.2 * n.pd, previous=np.zeros(len(n.gen_bus)), ramp=np.full(len(n.gen_bus), 1e-3))
    assert not ramps.optimal[0]
    with pytest.raises(gpc.InputError, match="ramps"):
        ramps.why()
    with pytest.raises(gpc.InputError, match="currents cannot be relaxed"):
        grid.least_relaxation(grid.network("case9", current_limits=True))
    with pytest.raises(gpc.InputError, match="want 0 loads or more, and limits of"):
        grid.secure(grid.network("case9", current_limits=True), outages="units")


def test_outages_that_are_not_kept_are_counted():
    a = grid.outages("case39", "all", worst=5)
    assert (len(a), a.count) == (5, 56) and repr(a).startswith("OutageFlows(the worst 5 of 56 outages: ")
    assert repr(grid.outages("case39", "units")).startswith("OutageFlows(10 outages: ")


def test_a_disk_that_is_full_ends_no_process(tmp_path):
    """Nor is half of a file left."""
    pytest.importorskip("h5py")
    script = """
import resource, signal, gpc.grid as grid, gpc.griddata as griddata, os, sys
n = grid.network("case118")
s = grid.sample(n, 3, seed=1)
r = grid.opf(n, s)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
for write in (griddata.write_pglearn, griddata.write_opfdata):
    try:
        write(sys.argv[1], n, s, r)
    except OSError as e:
        print(e.strerror, [f for f in os.listdir(sys.argv[1]) if f != "case118_input.h5"])
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "File too large []\n" * 2, done


def test_pglearn_reads_as_pglearn(tmp_path):
    h5py = pytest.importorskip("h5py")
    n = grid.network("case9")
    s = grid.sample(n, 5, "pglearn", seed=1)
    r = grid.opf(n, s)
    count = griddata.write_pglearn(tmp_path, n, s, r, dtype=np.float64)
    assert count == r.optimal.sum() > 0
    with h5py.File(tmp_path / f"{n.name}_ACOPF.h5") as f, h5py.File(tmp_path / f"{n.name}_input.h5") as given:
        assert f["primal/vm"].shape == (count, 9) and given["pd"].shape == (count, 3) and given["branch_status"][:].all()
        np.testing.assert_allclose(f["meta/primal_objective_value"][:], r.objective[r.optimal])
        np.testing.assert_allclose(f["primal/pg"][:].sum(1), given["pd"][:].sum(1) + (f["primal/pf"][:] + f["primal/pt"][:]).sum(1), atol=1e-6)


def test_a_power_flow_is_that_of_the_command(command):
    n = grid.network("case39")
    r = grid.pf(n)
    want = json.loads(command("pf", "case39", "--json")[1])
    np.testing.assert_array_equal(r.vm, [b["vm"] for b in want["bus"]])
    np.testing.assert_array_equal(r.pt, [b["pt_mw"] for b in want["branch"]])
    assert r.converged and r.loss == want["loss_mw"] and [v["limit"] for v in r.violations] == [v["limit"] for v in want["violations"]]
    assert repr(r).startswith("Flow(converged; loss 43.6411 MW, 3 limits broken; 39 buses, 10 units, 46 branches)\nbus")
    far = grid.pf(n, 5 * n.pd)
    assert not far.converged and "mismatch" in far.reason and np.isnan(far.vm).all() and far.vm.shape == (39,) and "not converged" in repr(far)
    held = grid.pf("case118", enforce_q=True)
    assert (held.violations["limit"] == "qmin").sum() < (grid.pf("case118").violations["limit"] == "qmin").sum()


def test_a_power_flow_needs_no_costs():
    n = grid.network("case39")
    bare = {k: v for k, v in tables(n).items() if k != "gencost"}
    np.testing.assert_array_equal(grid.pf(bare).vm, grid.pf(n).vm)
    assert len(grid.outages(bare, "branches")) == 46


def test_a_power_flow_of_an_optimum_is_the_optimum():
    n = grid.network("pglib_opf_case118_ieee")
    r = grid.opf(n)
    by_optima, by_pair = grid.pf(n, dispatch=r), grid.pf(n, dispatch=(r.pg[0], r.vm[0]), flat=True)
    for f in (by_optima, by_pair):
        np.testing.assert_allclose(f.vm, r.vm[0], atol=1e-7)
        np.testing.assert_allclose(f.pf, r.pf[0], atol=1e-3)
    assert len(by_optima.violations) == 0 or by_optima.violations["by"].max() < 1e-3


def test_outages_are_those_of_the_command(command, tmp_path):
    n = grid.network("case39")
    for outages, args in (("branches", []), ("all", ["--emergency", "1.3", "--voltage-band", "0.05", "--enforce-q"])):
        a = grid.outages(n, outages) if not args else grid.outages(n, outages, emergency=1.3, voltage_band=0.05, enforce_q=True)
        want = json.loads(command("pf", "outages", "case39", "--outages", outages, "--json", *args)[1])
        assert len(a) == len(want["outages"]) and a.secure.sum() == want["secure"] and a.cut_off.sum() == want["cut_off"] and (~a.converged).sum() == want["unsolved"]
        for i, o in enumerate(want["outages"]):
            assert (a.outages[i]["outage"], a.outages[i]["row"]) == (o["outage"], o["row"]) and a.reason[i] == o["reason"] and a.lost_load[i] == o["lost_load_mw"]
            assert a.severity[i] == o["severity"] or np.isnan(a.severity[i]) and o["severity"] is None
            assert list(a.islanded[i]) == o["islanded"] and list(a.references[i]) == o["references"] and a.lost_generation[i] == o["lost_generation_mw"]
            assert [(v["limit"], v["bus"], v["branch"], v["by"]) for v in a.of(i)] == [(v["limit"], v["bus"], v["branch"], v["by"]) for v in o["violations"]]
        assert [v["by"] for v in a.before] == [v["by"] for v in want["violations"]]
        assert [(v["limit"], v["value"], v["out"], v["out_row"]) for v in a.elements] == [(e["limit"], e["value"], e["after"]["outage"], e["after"]["row"]) for e in want["elements"]]
        assert all(a.outages[e["k"]]["row"] == e["out_row"] for e in a.elements)
        frames = a.frames()
        assert [len(frames[k]) for k in ("outages", "violations", "elements")] == [len(a), len(a.violations), len(a.elements)]
        assert frames["outages"].lost_generation.max() == pytest.approx(830) and (frames["outages"].secure == a.secure).all()
    file = tmp_path / "outages"
    file.write_text("branch 35 # the worst\nunit 3\n")
    for outages in (file, str(file), ["branch 35", "unit 3"]):
        a = grid.outages(n, outages)
        assert repr(a).startswith("OutageFlows(2 outages: ") and "the worst: unit 3 at bus 32, pmax at unit 2 at bus 31 by 682.5 MW" in repr(a)
        assert list(a.branch_out) == [-1, 34] and list(a.gen_out) == [2, -1]


def test_an_outage_is_the_power_flow_without_the_branch():
    """Numbers of what is out are those of opf(), and what breaks follows from the network without it."""
    n = grid.network("case118")
    a = grid.outages(n, ["branch 16"])
    k = int(a.branch_out[0])
    without = tables(n)
    without["branch"] = np.delete(n.branch_table, k, axis=0)
    f = grid.pf(without)
    at = {int(b): i for i, b in enumerate(n.bus)}
    low = a.of(0)[a.of(0)["limit"] == "vmin"]
    assert len(low) and n.branch_row[k] == 15
    for v in low:
        assert f.vm[at[int(v["bus"])]] == pytest.approx(v["value"], abs=1e-6)
        assert v["by"] == pytest.approx(v["bound"] - v["value"], abs=1e-12)


def test_scenarios_count_what_outages_of_each_break():
    n = grid.network("case_ieee30")
    pd = n.pd * np.random.default_rng(1).uniform(0.5, 1.1, (12, len(n.pd)))
    r = grid.outages(n, "branches", scenarios=pd, emergency=1.3, voltage_band=0.06)
    each = [grid.outages(n, "branches", p, emergency=1.3, voltage_band=0.06) for p in pd]
    bad = [a.breaking | ~a.converged for a in each]
    want = {int(row): sum(int(b[a.outages["row"] == row].sum()) for a, b in zip(each, bad)) for row in each[0].outages["row"]}
    assert {int(o["row"]): int(k) for o, k in zip(r.outages, r.violated)} == {row: k for row, k in want.items() if k}
    assert r.scenarios == 12 and r.count == 41 and r.after[0] * 12 == pytest.approx(sum(b.any() for b in bad)) and (r.probability[:, 1] <= r.probability[:, 0]).all()
    assert len(r.elements) and r.elements["scenario"].max() < 12 and repr(r).startswith("OutageRisks(12 scenarios of 41 outages")
    assert len(grid.outages(n, ["branch 1, branch 2", "branch 3"], worst=1)) == 1
    with pytest.raises(gpc.InputError, match="scenarios are the loads"):
        grid.outages(n, "units", n.pd, scenarios=pd)


def test_outages_of_an_optimum_and_of_other_loads():
    n = grid.network("case39")
    optimum = grid.opf(n)
    a, b = grid.outages(n, "branches", dispatch=optimum), grid.outages(n, "branches")
    assert len(a.before) == 0 < len(b.before) and len(a.violations) != len(b.violations)
    light = grid.outages(n, "branches", 0.5 * n.pd, dispatch=(0.5 * optimum.pg[0], optimum.vm[0]))
    assert (light.violations["limit"] == "rating").sum() < (a.violations["limit"] == "rating").sum()
    one, two = (grid.outages(grid.network("case39", threads=t), "all") for t in (1, 2))
    np.testing.assert_array_equal(one.outages, two.outages)
    np.testing.assert_array_equal(one.severity, two.severity)


def test_what_an_outage_breaks_stands_beside_a_part_without_a_flow():
    """A branch that splits its island may leave a power flow in one part alone."""
    outage = {"outage": "branch", "row": 2, "from": 4, "to": 5}
    broken = {"limit": "vmax", "bus": 4, "gen": 0, "branch": 0, "from": 0, "to": 0, "end": "", "value": 1.2, "bound": 1.1, "by": 0.1, "unit": "pu"}
    rows = [{**outage, "converged": False, "violations": [broken]}, {**outage, "converged": True, "violations": [broken]}, {**outage, "converged": False, "violations": []}]
    assert _outages._checked([{"before": rows}], "before")["limit"].tolist() == ["no flow", "vmax", "vmax", "no flow"]


def test_a_secure_dispatch_is_that_of_the_command(command):
    n = grid.network("case_ieee30")
    r = grid.secure(n, 0.9 * n.pd)
    want = json.loads(command("opf", "secure", "case_ieee30", "--scale", "0.9", "--json")[1])
    assert r.secure.all() and r.objective[0] == pytest.approx(want["objective"], rel=1e-9) and r.outages == want["outages"] == 44
    np.testing.assert_allclose(r.pg[0], [g["pg"] for g in want["gen"]], atol=1e-5)
    np.testing.assert_allclose(r.price_p[0], [b["price"] for b in want["bus"]], atol=1e-5)
    assert [(o["outage"], o["row"]) for o in r.remembered] == [(o["outage"], o["row"]) for o in want["remembered"]]
    assert [(o["outage"], o["row"]) for o in r.left_out] == [(o["outage"], o["row"]) for o in want["left_out"]] and len(r.left_out) == 3
    assert r.before["limit"][0] == "no flow" and r.before["out_row"][0] == 1
    assert balance(n, r, grid.Scenarios(0.9 * n.pd[None], 0.9 * n.qd[None]), 0) < 1e-5
    assert repr(r) == "SecureOptima(1 secure against 44 outages; 0.083 % above the optimum without outages)"


def test_a_secure_dispatch_is_secure_when_looked_at_again():
    n = grid.network("case_ieee30")
    r = grid.secure(n, 0.9 * n.pd)
    keep = [f"branch {k + 1}" for k in n.branch_row[~n.bridge]] + [f"unit {k + 1}" for k in n.gen_row]
    limits = {"emergency": 1.3, "voltage_band": 0.05, "enforce_q": True}
    a = grid.outages(n, keep, 0.9 * n.pd, dispatch=r, participation="range", **limits)
    assert a.secure.all() and len(a) == r.outages == 44 and repr(a) == "OutageFlows(44 outages: 44 secure, 0 break a limit, 0 cut off load, 0 without a power flow)"
    by_factors = grid.outages(n, keep, 0.9 * n.pd, dispatch=r, participation=n.gen_table[:, 8] - n.gen_table[:, 9], **limits)
    assert by_factors.secure.all()
    alone = grid.outages(n, keep, 0.9 * n.pd, dispatch=r, **limits)  # the reference takes up what a unit leaves
    assert alone.converged.all() and not alone.secure.all()
    plain = grid.outages(n, keep, 0.9 * n.pd, dispatch=grid.opf(n, 0.9 * n.pd), participation="range", **limits)
    assert {(o["outage"], int(o["row"])) for o in plain.outages[~plain.secure]} == {(str(v["out"]), int(v["out_row"])) for v in r.before}


def test_a_dispatch_breaks_limits_in_a_share_of_scenarios(command, tmp_path):
    n = grid.network("case_ieee30")
    factors = 0.9 * (1 + 0.01 * np.random.default_rng(1).standard_normal((90, len(n.pd))))
    r = grid.secure(n, 0.9 * n.pd, outages="branches", scenarios=(factors * n.pd, factors * n.qd), violations=0.02)
    assert r.secure.all() and r.chance and r.chance["scenarios"] == 30 and r.objective[0] > r.chance["secure_objective"]
    assert r.chance["risk"]["probability"] < 0.2 < r.chance["secure"]["probability"] and r.chance["tightening"]
    table = tmp_path / "loads.csv"
    table.write_text("\n".join([",".join([f"{k}_{b}" for k in ("pd", "qd") for b in n.bus]), *(",".join(map(repr, map(float, [*(f * n.pd), *(f * n.qd)]))) for f in factors)]) + "\n")
    given = ("opf", "secure", "case_ieee30", "--scale", "0.9", "--outages", "branches", "--scenarios", str(table), "--violations", "0.02", "--json")
    want = json.loads(command(*given)[1])
    assert want["objective"] == pytest.approx(r.objective[0], rel=1e-6) and want["chance"]["risk"] == r.chance["risk"]
    assert grid.secure(n, 0.9 * n.pd).chance is None
    with pytest.raises(grid.InputError, match="three scenarios"):
        grid.secure(n, scenarios=[n.pd])


def test_a_series_of_secure_dispatches_goes_on_from_the_last():
    n = grid.network("case_ieee30", threads=1)
    r = grid.secure(n, n.pd * [[0.88], [0.89], [9]])
    assert list(r.status) == [1, 1, 2] and list(r.warm) == [False, True, False] and r.secure.sum() == 2
    assert np.isnan(r.pg[2]).all() and np.isnan(r.objective[2]) and r.reason[2] and not r.reason[0] and r.pf.shape == (3, 41)
    assert (r.objective[:2] > r.plain_objective[:2] - 1e-6).all() and "1 no secure point found" in repr(r)


def test_progress_is_told_and_ends_the_call():
    n = grid.network("case_ieee30")
    told = []
    grid.outages(n, "all", progress=lambda *p: told.append(p))
    grid.secure(n, n.pd * [[0.7], [0.71]], progress=lambda *p: told.append(p))
    assert (47, 47) in told and told[-1] == (2, 2)

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        grid.secure(n, n.pd * np.full((2000, 1), 0.9), progress=stop)
    assert grid.secure(n, 0.7 * n.pd).secure.all()


def test_what_would_have_to_give_is_named():
    r = grid.secure("case30", outages="branches")
    assert r.status[0] == 2 and "would have to give" in r.reason[0] and np.isnan(r.vm).all()
    assert len(r.gives) and (r.gives["by"] > 0).all() and r.gives["out_row"][0] == 36 and r.gives["limit"][0] == "rating" and r.gives["unit"][0] == "MVA"


def test_participation_moves_the_dispatch():
    n = grid.network("case_ieee30")
    of = lambda p: grid.secure(n, 0.9 * n.pd, outages=["branch 36", "unit 2"], participation=p).objective[0]  # noqa: E731
    first = np.eye(6)[0]
    assert of("range") == pytest.approx(of(n.gen_table[:, 8] - n.gen_table[:, 9]), rel=1e-6) and abs(of("equal") - of(first)) > 1e-3


def test_what_outages_refuse(tmp_path):
    n = grid.network("case14")
    three = grid.opf(n, n.pd * [[1], [0.9], [0.8]])
    none = grid.opf(n, 9 * n.pd)
    nan = np.full(14, np.nan)
    for f, says in (
        (lambda: grid.outages(n, "lines"), "outages: lines cannot be read: No such file or directory: want branches, units, all, a file"),
        (lambda: grid.outages(n, ["branch 7", "branch 99"]), "outages, line 2: no branch in service is row 99 of its table"),
        (lambda: grid.outages(n, ["line 7"]), 'outages, line 1: "line 7": want branch ROW or unit ROW, bus NUMBER or a name'),
        (lambda: grid.outages(n, []), "outages: no outage is listed"),
        (lambda: grid.outages(n, [7]), r"outages\[0\] is 7, want branches, units, all"),
        (lambda: grid.outages(n, 7), "outages is a int, want branches"),
        (lambda: grid.outages(n, participation="range"), "participation needs enforce_q"),
        (lambda: grid.outages(n, participation="none", enforce_q=True), 'participation "none": want range, pmax, equal, in power flows headroom, or an array of 5 factors'),
        (lambda: grid.outages(n, participation=np.ones(4), enforce_q=True), r"participation has shape \(4,\), want \(5,\)"),
        (lambda: grid.outages(n, emergency=0.5), "emergency is 0.5, want a factor of 1 to 100"),
        (lambda: grid.outages(n, voltage_band=np.nan), "voltage_band is nan, want a number"),
        (lambda: grid.outages(n, emergency="x"), "emergency is 'x', want a number"),
        (lambda: grid.outages(n, max_iterations=1.5), "max_iterations is 1.5, want a whole number"),
        (lambda: grid.outages(n, ["branch 1", "branch 1"]), "outages, line 2: branch 1 is listed twice"),
        (lambda: grid.pf(n, "x"), "loads: want numbers"),
        (lambda: grid.pf({**tables(n), "baseMVA": "x"}), "network: baseMVA is 'x', want MVA"),
        (lambda: grid.pf({**tables(n), "bus": [["a"]]}), "network: bus: want numbers"),
        (lambda: grid.pf({**tables(n), "bus": np.where(n.bus_table == 94.2, np.nan, n.bus_table)}), "bus 3: Pd is NaN"),
        (lambda: grid.pf({**tables(n), "branch": n.branch_table[:, :9]}), "mpc.branch has 9 columns"),
        (lambda: grid.opf({**tables(n), "gencost": np.zeros((0, 1))}), "no generator cost"),
        (lambda: grid.secure({**tables(n), "gencost": np.zeros((0, 1))}), "no generator cost"),
        (lambda: grid.outages(n, tolerance=-1), "tolerance -1 pu"),
        (lambda: grid.outages(n, loads=three.pg), "loads, active has shape"),
        (lambda: grid.pf(n, n.pd * [[1], [2]]), "loads has 2 rows, want one"),
        (lambda: grid.pf(n, nan), "finite"),
        (lambda: grid.pf(n, dispatch=three), "dispatch has 3 rows, want one"),
        (lambda: grid.pf(n, dispatch=none), "dispatch has no optimum"),
        (lambda: grid.pf(n, dispatch=[1, 2]), "dispatch is a list"),
        (lambda: grid.pf(n, dispatch=(three.pg[0], nan)), r"dispatch, voltages\[0\] is nan"),
        (lambda: grid.pf(n, dispatch=(three.pg[0], three.vm[0][:3])), r"dispatch, voltages has shape \(3,\), want \(14,\)"),
        (lambda: grid.secure(n, outages=["branch 14"], participation=[1, 1, 1, 1, 0]), "branch 14 from bus 7 to bus 8 cuts off a part of the network"),
        (lambda: grid.secure(n, participation="none"), 'participation "none": want range, pmax, equal, in power flows headroom, or an array of 5 factors'),
        (lambda: grid.secure(n, participation=np.full(5, -1.0)), "participation factor -1"),
        (lambda: grid.secure(n, emergency=0), "emergency is 0"),
    ):
        with pytest.raises(gpc.InputError, match=says):
            f()
    with pytest.raises(gpc.Error, match="without any outage: ") as e:
        grid.outages(n, loads=9 * n.pd)
    assert not isinstance(e.value, gpc.InputError)


def test_dc_lines_of_every_way_in():
    """The optimum with a DC line is IPOPT's, from a file's statements, a mapping and PowerModels' data alike."""
    tables = {
        "baseMVA": 100,
        "bus": [[1, 3, 0, 0, 0, 0, 1, 1.02, 0, 110, 1, 1.1, 0.9], [2, 2, 21.7, 12.7, 0, 0, 1, 1.01, 0, 110, 1, 1.1, 0.9], [3, 1, 44.2, 19, 0, 12, 1, 1, 0, 110, 1, 1.1, 0.9],
                [4, 1, 37.8, 6.1, 0, 0, 1, 1, 0, 110, 1, 1.1, 0.9], [5, 1, 27.6, 1.6, 0, 0, 1, 1, 0, 110, 1, 1.1, 0.9], [6, 2, 11.2, 7.5, 0, 0, 1, 1.02, 0, 110, 1, 1.1, 0.9]],
        "gen": [[1, 40, 0, 90, -60, 1.02, 100, 1, 180, 0], [2, 60, 0, 60, -40, 1.01, 100, 1, 100, 10], [6, 30, 0, 40, -20, 1.02, 100, 1, 70, 5]],
        "branch": [[1, 2, 0.019, 0.059, 0.053, 130, 0, 0, 0, 0, 1, -360, 360], [1, 5, 0.054, 0.223, 0.049, 130, 0, 0, 0, 0, 1, -360, 360],
                   [2, 3, 0.047, 0.198, 0.044, 65, 0, 0, 0, 0, 1, -360, 360], [2, 4, 0.058, 0.176, 0.034, 65, 0, 0, 0, 0, 1, -360, 360],
                   [2, 5, 0.057, 0.174, 0.035, 65, 0, 0, 0, 0, 1, -360, 360], [3, 4, 0.067, 0.171, 0.013, 65, 0, 0, 0, 0, 1, -360, 360],
                   [4, 5, 0.013, 0.042, 0, 65, 0, 0, 0, 0, 1, -360, 360], [5, 6, 0, 0.252, 0, 65, 0, 0, 0.97, 0, 1, -360, 360], [4, 6, 0, 0.3, 0, 65, 0, 0, 0.98, 0, 1, -360, 360]],
        "gencost": [[2, 0, 0, 3, 0.02, 20, 10], [2, 0, 0, 3, 0.03, 25, 0], [2, 0, 0, 3, 0.015, 32, 0]],
    }
    line = [1, 6, 1, 10, 9.9, 0, 0, 1.02, 1.02, 0, 25, -10, 10, -10, 10, 0.1, 0.01]
    without = grid.opf(tables)
    assert without.objective[0] == pytest.approx(3376.0089, abs=1e-3)
    r = grid.opf({**tables, "dcline": [line]})
    assert r.objective[0] == pytest.approx(3360.05254, abs=1e-4)  # IPOPT's
    assert r.pg.shape == (1, 5) and r.pg[0, 4] == pytest.approx(-0.99 * r.pg[0, 3] - 0.1) and r.pg[0, 3] == pytest.approx(-25, abs=1e-4)
    data = powermodels(grid.network(tables))
    data["dcline"] = {"1": {"f_bus": 1, "t_bus": 6, "br_status": 1, "pf": 0.1, "pt": -0.099, "qf": 0, "qt": 0, "vf": 1.02, "vt": 1.02, "pminf": 0, "pmaxf": 0.25, "qminf": -0.1, "qmaxf": 0.1,
                            "qmint": -0.1, "qmaxt": 0.1, "loss0": 0.001, "loss1": 0.01, "model": 2, "cost": [0, 0, 0]}}
    assert grid.opf(data).objective[0] == pytest.approx(r.objective[0], abs=1e-6)
    dear = grid.opf({**tables, "dcline": [line], "dclinecost": [[2, 0, 0, 2, 50, 0]]})
    assert dear.pg[0, 3] == pytest.approx(0, abs=1e-4) and dear.objective[0] > r.objective[0]
    linear = grid.opf({**tables, "dcline": [line]}, dc=True)
    assert linear.objective[0] == pytest.approx(3301.010192, abs=1e-4)  # IPOPT's, of the linear model
    secure = grid.secure(grid.network({**tables, "dcline": [line]}), outages="branches", emergency=1.5)
    assert secure.plain_objective[0] == pytest.approx(r.objective[0], abs=1e-5)
    assert secure.secure[0] and secure.pg[0, 4] == pytest.approx(-0.99 * secure.pg[0, 3] - 0.1, abs=1e-9)
    flow = grid.pf({**tables, "dcline": [line]})
    assert flow.pg[3:] == pytest.approx([-10, 9.8]) and flow.vm[5] == pytest.approx(1.02)


def test_files_of_other_programs(tmp_path):
    path = tmp_path / "two.raw"
    path.write_text("0,100,33 /\n\n\n1,'NORTH',230,3,1,1,1,1.02,0\n2,'SOUTH',230,1,1,1,1,1,0\n0/\n2,'1',1,1,1,50,10\n0/\n0/\n1,'A',0,0\n0/\n1,2,'1',0.01,0.1,0\n0/\nQ\n")
    n = grid.network(path)
    assert n.bus_name.tolist() == ["NORTH", "SOUTH"] and n.gen_name.tolist() == ["1-A"] and n.branch_name.tolist() == ["1-2-1"] and n.notes == []
    assert grid.pf(n).converged
    n.save(tmp_path / "two.m")
    again = grid.network(tmp_path / "two.m")
    assert again.name == "two" and again.bus_name.tolist() == n.bus_name.tolist() and np.array_equal(grid.pf(again).vm, grid.pf(n).vm)
    shunt = "0 / BEGIN SWITCHED SHUNT DATA\n2,1,0,1,1.02,1.0,0,100,'',0,4,10\n0/\nQ"
    path.write_text(path.read_text().replace("0/\nQ", shunt))
    n = grid.network(path)
    assert n.controls == ["shunt 2 bus 2 1 1.02 0 40 4"] and grid.pf(n).vm[1] < 1 and 1 - 1e-5 < grid.pf(n, controls=n.controls).vm[1] < 1.02 + 1e-5
    path.write_text(path.read_text().replace("0.1,0", "0.x,0"))
    with pytest.raises(gpc.InputError, match=r"two\.raw:12: field 5"):
        grid.network(path)


def test_units_share_the_balance():
    n = grid.network("case118")
    base = n.gen_table[:, 1]
    for participation in ("range", "pmax", "equal", "headroom", np.arange(len(base)) + 1.0):
        f = grid.pf(n, 1.03 * n.pd, participation=participation)
        weight = {"range": n.gen_table[:, 8] - n.gen_table[:, 9], "pmax": n.gen_table[:, 8], "equal": np.ones(len(base)), "headroom": n.gen_table[:, 8] - base}.get(
            participation if isinstance(participation, str) else "", participation)
        moved = f.pg - base
        inside = f.pg < n.gen_table[:, 8] - 1e-6
        assert f.converged and moved.sum() > 50
        assert np.allclose((moved / weight)[inside], (moved / weight)[inside][0], rtol=1e-5)
    shared = grid.outages(n, "units", 1.03 * n.pd, enforce_q=True, participation="headroom")
    alone = grid.outages(n, "units", 1.03 * n.pd, enforce_q=True)
    assert shared.secure.sum() > alone.secure.sum()
    with pytest.raises(gpc.InputError, match="headroom"):
        grid.pf(n, participation="most")


def test_pandapower_shares_the_same_balance():
    pp = pytest.importorskip("pandapower")
    import pandapower.networks as networks

    import gpc.pandapower as gp

    for case in (networks.case9, networks.case39, networks.case118):
        nets = [case(), case()]
        for net in nets:
            net.load.p_mw *= 1.03
            net.ext_grid["slack_weight"], net.gen["slack_weight"] = 1.0, np.linspace(0, 2, len(net.gen))
        pp.runpp(nets[0], distributed_slack=True, tolerance_mva=1e-8)
        gp.runpp(nets[1], distributed_slack=True, tolerance_mva=1e-8)
        for table in ("res_gen", "res_ext_grid", "res_bus", "res_line"):
            assert np.allclose(nets[0][table], nets[1][table], atol=1e-5, equal_nan=True)


def test_why_there_is_no_optimum():
    n = grid.network("case9")
    o = grid.opf(n, np.stack([n.pd, 3 * n.pd]))
    why = o.why()
    assert why.status == "optimal" and why.shortfall > 100 and o.why(1).cost == why.cost
    assert {"pmax", "rating", "vmax"} <= set(why.limits["limit"]) and "pmax at unit 1 at bus 1" in repr(why)
    # With these limits wider by what the relaxation says there is an optimum, and with less there is none.
    for share, status in ((1.001, 1), (0.9, 2)):
        case = {"baseMVA": n.base_mva, "bus": n.bus_table.copy(), "gen": n.gen_table.copy(), "branch": n.branch_table.copy(), "gencost": np.array([[2, 0, 0, 3, *c] for c in n.cost_table])}
        for v in why.limits:
            if v["limit"] == "pmax":
                case["gen"][v["gen"] - 1, 8] += share * v["by"]
            elif v["limit"] == "rating":
                case["branch"][v["branch"] - 1, 5] += share * v["by"]
            elif v["limit"] == "vmax":
                case["bus"][v["bus"] - 1, 11] += share * v["by"]
        wider = grid.network(case)
        assert grid.opf(wider, 3 * wider.pd).status[0] == status
    assert len(grid.least_relaxation(n).limits) == 0
    with pytest.raises(gpc.InputError, match="every scenario has an optimum"):
        grid.opf(n).why()
    assert o.why().frame().limit.tolist() == why.limits["limit"].tolist()


def test_why_pandapower_has_no_optimum():
    pytest.importorskip("pandapower")
    import pandapower.networks as networks

    import gpc.pandapower as gp

    net = networks.case9()
    net.load.p_mw *= 3
    net.line.name = [f"L{k}" for k in range(len(net.line))]
    with pytest.raises(gp.OPFNotConverged, match="pmax of ext_grid 0 by 1") as caught:
        gp.runopp(net)
    limits = caught.value.relaxation
    assert set(limits.element) == {"ext_grid", "gen", "line", "bus"} and limits[limits.element == "line"].name.tolist()[0] == "L0"
    line = limits[limits.element == "line"].iloc[0]
    assert line.bound == pytest.approx(250) and line.value - line.bound == pytest.approx(line.by)


def test_soft_limits_give_at_their_price():
    n = grid.network("case9")
    o = grid.opf(n, np.stack([n.pd, 2.3 * n.pd]), soft={"rating": 1000, "voltage": 1e6, "generation": 5000})
    hard = grid.opf(n)
    assert o.status.tolist() == [1, 1] and abs(o.objective[0] - hard.objective[0]) < 1e-4 and len(o.soft[0]) == 0
    assert abs(o.objective[1] - 22904.31383 - 66325.119) < 0.02  # IPOPT's, by casadi
    assert o.soft[1]["limit"].tolist() == ["rating", "rating"] and abs(o.soft[1]["by"].sum() * 1000 - (66325.119)) < 2 * 66325.119
    with pytest.raises(gpc.InputError, match="no soft limit"):
        grid.opf(n, soft={"flow": 1})
    single = grid.opf(n, 2.3 * n.pd, soft={"rating": 1000, "rating:1": 3000, "voltage": 1e6, "pmax": 5000, "qmax": 800})
    assert abs(single.objective[0] - 22666.931862 - 107072.823901) < 0.02  # IPOPT's


def test_outages_of_several_elements():
    n = grid.network("case39")
    o = grid.outages(n, ["branch 3", "branch 4, branch 8", "yard: bus 16", "unit 5, branch 13"])
    assert sorted(o.labels) == ["", "branch 4, branch 8", "unit 5, branch 13", "yard"] and o.labels[0] == "yard"  # it loses load
    i = o.labels.index("yard")
    assert o.lost_load[i] >= 329 and o.outages[i]["outage"] == "group" and o.branch_out[i] == -1
    case = {"baseMVA": n.base_mva, "bus": n.bus_table, "gen": n.gen_table, "branch": n.branch_table.copy()}
    case["branch"][[3, 7], 10] = 0
    want = grid.pf(case).violations
    got = o.of(o.labels.index("branch 4, branch 8"))
    assert len(got) and all(any(w["limit"] == v["limit"] and w["branch"] == v["branch"] and w["bus"] == v["bus"] and abs(w["by"] - v["by"]) < 1e-4 for w in want) for v in got if not v["branch"])
    assert "yard" in repr(o) and o.frames()["outages"].labels.tolist() == o.labels


def test_corrective_dispatch_within_ramps():
    n = grid.network("case118")
    before, out = grid.opf(n, 0.9 * n.pd), 7
    both = grid.opf(n, np.stack([0.9 * n.pd, 0.9 * n.pd]), branch_out=[out, -1])
    moved = np.abs(both.pg[0] - before.pg[0]).max()
    assert both.optimal.all() and moved > 50 and abs(both.objective[1] - before.objective[0]) < 1e-3
    costs = []
    for share in (0.95, 0.5):
        tight = grid.opf(n, 0.9 * n.pd, branch_out=[out], previous=before.pg[0], ramp=np.full(len(n.gen_bus), share * moved))
        assert tight.optimal[0] and abs(np.abs(tight.pg[0] - before.pg[0]).max() - share * moved) < 1e-3 * moved
        costs.append(tight.objective[0])
    assert both.objective[0] < costs[0] < costs[1]
    with pytest.raises(gpc.InputError, match="no ramps"):
        grid.opf(n, previous=before.pg[0])


def test_settings_are_variables_of_optima():
    n = grid.network("case14")
    lines = ["tap 8 0.9 1.1 16", "shift 9 -10 10", "tap 10 bus 6 1.05 1.07 0.9 1.1", "shunt 9 0 40"]
    r = grid.opf(n, controls=lines)
    assert r.optimal.all() and abs(r.objective[0] - 8078.3055) < 1e-4 < grid.opf(n).objective[0] - r.objective[0]
    tap, shift, other, shunt = (c["setting"] for c in r.controls[0])
    assert abs(tap - 0.975) < 1e-12 and r.controls[0][2]["keeps"]
    case = {"baseMVA": n.base_mva, "bus": n.bus_table.copy(), "gen": n.gen_table, "branch": n.branch_table.copy(), "gencost": np.c_[np.full(5, 2), np.zeros((5, 2)), np.full(5, 3), n.cost_table]}
    case["branch"][7, 8], case["branch"][8, 9], case["branch"][9, 8], case["bus"][8, 5] = tap, shift, other, shunt
    same = grid.opf(case)
    assert np.allclose(same.objective, r.objective, rtol=1e-7) and np.allclose(same.price_p, r.price_p, rtol=1e-5) and np.allclose(same.pf, r.pf, atol=0.1)
    loads = np.outer([0.9, 1.0, 1.02], n.pd)
    series = grid.opf(n, loads, controls=["tap 8 0.9 1.1", "shunt 9 0 40"], branch_out=[-1, 3, 7])
    assert series.optimal.all() and (series.objective < grid.opf(n, loads, branch_out=[-1, 3, 7]).objective).all() and series.pf[2, 7] == 0 and len(series.controls) == 3
    assert grid.opf(n).controls == []
    with pytest.raises(gpc.InputError, match="leave dc and soft out"):
        grid.opf(n, controls=lines, dc=True)
    with pytest.raises(gpc.InputError, match="needs a band"):
        grid.pf(n, controls=lines)
    with pytest.raises(gpc.InputError, match="not relaxed"):
        grid.opf(n, 9 * n.pd, controls=lines).why()


def test_controls_keep_their_bands():
    n = grid.network("case14")
    lines = ["tap 9 bus 9 1.04 1.045 0.85 1.15 40", "shunt 14 bus 14 1.045 1.05 0 40", "shift 8 flow 32 33 -20 20"]
    f = grid.pf(n, controls=lines)
    assert f.converged and [c["control"] for c in f.controls] == ["tap", "shunt", "shift"] and 32 - 1e-3 < f.pf[7] < 33 + 1e-3 and 1.045 - 1e-5 < f.vm[13] < 1.05 + 1e-5
    case = {"baseMVA": n.base_mva, "bus": n.bus_table.copy(), "gen": n.gen_table, "branch": n.branch_table.copy()}
    case["branch"][8, 8], case["bus"][13, 5], case["branch"][7, 9] = (c["setting"] for c in f.controls)
    assert np.allclose(grid.pf(case).vm, f.vm, atol=1e-8)
    assert grid.pf(n).controls == []
    with pytest.raises(gpc.InputError, match="line 1: no branch in service is 99"):
        grid.pf(n, controls=["tap 99 bus 9 1 1 0.9 1.1"])


def test_a_network_stays_in_its_process():
    """A handle that is copied would be freed twice, and in another process be that of another object. Results are pickled as their arrays."""
    n = grid.network("case14")
    with gpc.open("cartpole") as session:
        for of in (n, session, session.loop()):
            for copied in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(gpc.Error, match="is not pickled or copied: it is of its process"):
                    copied(of)
    for result in (grid.opf(n), grid.pf(n)):
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert np.array_equal(again.vm, result.vm) and repr(again) in repr(result)
            with pytest.raises(gpc.InputError, match="network"):
                again.plot()


def test_outages_are_counted():
    a = grid.outages(grid.network("case14"), "units")
    assert np.array_equal(a.of(-1), a.of(len(a) - 1))
    for i in (len(a), -len(a) - 1):
        with pytest.raises(IndexError):
            a.of(i)


def test_the_linear_model_has_no_reactive_limits_and_controls():
    n = grid.network("case14")
    for options in ({"enforce_q": True}, {"participation": "range"}, {"controls": ["tap 8 bus 9 1.03 1.05 0.9 1.1 16"]}):
        with pytest.raises(gpc.InputError, match="are of the AC model: leave dc out"):
            grid.pf(n, dc=True, **options)
