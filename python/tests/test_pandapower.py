"""gpc.pandapower beside pandapower itself."""

import copy
import warnings

import numpy as np
import pytest

import gpc

pp = pytest.importorskip("pandapower")
pn = pytest.importorskip("pandapower.networks")
gp = pytest.importorskip("gpc.pandapower")

warnings.simplefilter("ignore")

FLOWS = {
    "case9": pn.case9, "case14": pn.case14, "case30": pn.case30, "case39": pn.case39, "case118": pn.case118, "case300": pn.case300,
    "example_simple": pn.example_simple, "example_multivoltage": pn.example_multivoltage, "mv_oberrhein": pn.mv_oberrhein,
    "cigre_mv": lambda: pn.create_cigre_network_mv(with_der="all"),
}
OPTIMA = {"case9": pn.case9, "case14": pn.case14, "case30": pn.case30, "case39": pn.case39, "case118": pn.case118}


def tables(net):
    return {name: net[name] for name in net if name.startswith("res_") and hasattr(net[name], "columns") and len(net[name])}


def assert_same(ours, theirs, tolerance):
    """Every result table has pandapower's rows, columns and numbers."""
    a, b = tables(ours), tables(theirs)
    assert a.keys() == b.keys()
    for name in a:
        assert list(a[name].columns) == list(b[name].columns), name
        assert a[name].index.equals(b[name].index), name
        for column in a[name].columns:
            np.testing.assert_allclose(a[name][column].to_numpy(float), b[name][column].to_numpy(float), rtol=tolerance, atol=tolerance, err_msg=f"{name}.{column}")


@pytest.mark.parametrize("name", FLOWS)
def test_power_flows_are_pandapowers(name):
    theirs = FLOWS[name]()
    ours = copy.deepcopy(theirs)
    pp.runpp(theirs, numba=False, tolerance_mva=1e-9)
    gp.runpp(ours)
    assert ours.converged
    assert_same(ours, theirs, 1e-5)
    again = copy.deepcopy(ours)
    gp.runpp(again, init="results")
    assert again._ppc["gpc"]["iterations"] <= 1
    assert_same(again, theirs, 1e-5)


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_are_pandapowers(name):
    theirs = OPTIMA[name]()
    ours = copy.deepcopy(theirs)
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    assert ours.OPF_converged
    assert ours.res_cost == pytest.approx(theirs.res_cost, rel=1e-5)
    assert {k: list(v.columns) for k, v in tables(ours).items()} == {k: list(v.columns) for k, v in tables(theirs).items()}
    balance = ours.res_bus.p_mw.sum() + sum(ours[t].pl_mw.sum() for t in ("res_line", "res_trafo") if len(ours[t]))
    assert balance == pytest.approx(0, abs=1e-4)
    for bus, row in ours.bus.iterrows():
        assert row.min_vm_pu - 1e-6 <= ours.res_bus.vm_pu[bus] <= row.max_vm_pu + 1e-6


def congested():
    """Two lines to a load with a cheap and a dear unit, where the cheap one's line is full."""
    net = pp.create_empty_network()
    a, b, c = (pp.create_bus(net, 110, min_vm_pu=0.95, max_vm_pu=1.05) for _ in range(3))
    pp.create_ext_grid(net, a, vm_pu=1.02, min_p_mw=0, max_p_mw=400, min_q_mvar=-300, max_q_mvar=300)
    pp.create_gen(net, c, p_mw=50, min_p_mw=0, max_p_mw=300, min_q_mvar=-200, max_q_mvar=200, controllable=True)
    pp.create_load(net, b, p_mw=150, q_mvar=40)
    for x, y, loading in ((a, b, 60), (b, c, 100), (a, c, 100)):
        pp.create_line(net, x, y, 30, "243-AL1/39-ST1A 110.0", max_loading_percent=loading)
    pp.create_poly_cost(net, 0, "ext_grid", cp1_eur_per_mw=1)
    pp.create_poly_cost(net, 0, "gen", cp1_eur_per_mw=5, cp2_eur_per_mw2=0.01)
    return net


def test_ratings_limit_currents_as_pandapower_has_them():
    theirs, ours = congested(), congested()
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    assert theirs.res_line.loading_percent[0] == pytest.approx(60, abs=1e-3)
    assert ours.res_line.loading_percent[0] == pytest.approx(60, abs=1e-5)
    assert_same(ours, theirs, 2e-3)
    by_power = congested()
    gp.runopp(by_power, OPF_FLOW_LIM=0)
    line = by_power.res_line.loc[0]
    rating = 0.6 * by_power.line.max_i_ka[0] * 110 * np.sqrt(3)
    assert max(np.hypot(line.p_from_mw, line.q_from_mvar), np.hypot(line.p_to_mw, line.q_to_mvar)) == pytest.approx(rating, rel=1e-6)
    assert abs(line.loading_percent - 60) > 0.1


def test_multipliers_stand_in_the_arrays():
    theirs, ours = congested(), congested()
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    from pandapower.pypower import idx_brch, idx_bus, idx_gen

    np.testing.assert_allclose(ours.res_bus.lam_p, theirs.res_bus.lam_p, atol=1e-3)
    np.testing.assert_allclose(ours.res_bus.lam_q, theirs.res_bus.lam_q, atol=1e-3)
    a, b = ours._ppc_opf, theirs._ppc_opf
    for column in (idx_brch.MU_SF, idx_brch.MU_ST):
        np.testing.assert_allclose(a["branch"][:, column].real, b["branch"][:, column].real, rtol=1e-3, atol=1e-3)
    assert max(a["branch"][:, [idx_brch.MU_SF, idx_brch.MU_ST]].real.max(axis=0)) > 1
    for upper, lower in ((idx_gen.MU_PMAX, idx_gen.MU_PMIN), (idx_gen.MU_QMAX, idx_gen.MU_QMIN)):
        np.testing.assert_allclose(*(m["gen"][:, upper] - m["gen"][:, lower] for m in (a, b)), rtol=1e-3, atol=1e-3)
    # The external grid's voltage is fixed: PYPOWER has the two multipliers of one value, gpc their difference.
    np.testing.assert_allclose(*(m["bus"][:, idx_bus.MU_VMAX] - m["bus"][:, idx_bus.MU_VMIN] for m in (a, b)), rtol=1e-3, atol=1e-3)
    assert min(a["bus"][0, [idx_bus.MU_VMAX, idx_bus.MU_VMIN]]) == 0
    # And units at a limit of P and of Q.
    theirs, ours = congested(), congested()
    for net in theirs, ours:
        net.gen.min_p_mw, net.gen.min_q_mvar, net.gen.max_q_mvar = 140.0, -100.0, -15.0
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    a, b = ours._ppc_opf["gen"][1], theirs._ppc_opf["gen"][1]
    assert a[idx_gen.MU_PMIN] == pytest.approx(b[idx_gen.MU_PMIN], rel=1e-3) and a[idx_gen.MU_PMIN] > 1
    # PYPOWER's optimum ends with Q a little beyond its limit, and so with a multiplier of 0 beside a price.
    assert a[idx_gen.MU_QMAX] == pytest.approx(theirs.res_bus.lam_q[2], rel=1e-2) and a[idx_gen.MU_QMAX] > 0.01


def test_reactive_limits():
    theirs = pn.case30()
    theirs.gen.max_q_mvar = 10.0
    ours = copy.deepcopy(theirs)
    pp.runpp(theirs, enforce_q_lims=True, numba=False)
    gp.runpp(ours, enforce_q_lims=True)
    assert (theirs.res_gen.q_mvar > 9.99).any()
    assert_same(ours, theirs, 1e-4)


def test_no_solution_is_pandapowers_exception():
    net = pn.case9()
    net.load.p_mw *= 10
    with pytest.raises(gp.LoadflowNotConverged, match="did not converge"):
        gp.runpp(net)
    assert not net.converged
    net = pn.case30()
    net.load.p_mw *= 3
    with pytest.raises(gp.OPFNotConverged, match="infeasible"):
        gp.runopp(net)
    assert not net.OPF_converged


def with_dcline():
    net = congested()
    pp.create_dcline(net, 0, 1, p_mw=10, loss_percent=1, loss_mw=0.1, vm_from_pu=1.02, vm_to_pu=1.0, max_p_mw=20)
    return net


def with_svc():
    net = congested()
    pp.create_svc(net, 1, x_l_ohm=1, x_cvar_ohm=-10, set_vm_pu=1.0, thyristor_firing_angle_degree=90)
    return net


def with_dependent_load():
    net = congested()
    pp.create_load(net, 1, p_mw=1, const_z_p_percent=50, const_z_q_percent=50)
    return net


def with_flexible_load():
    """A load that is worth less than the power that it would take."""
    net = congested()
    pp.create_load(net, 1, p_mw=20, q_mvar=5, controllable=True, min_p_mw=0, max_p_mw=20, min_q_mvar=0, max_q_mvar=5)
    pp.create_poly_cost(net, 1, "load", cp1_eur_per_mw=-10)
    return net


@pytest.mark.parametrize("run, net, keywords, what", [
    ("runopp", with_dcline, {}, "dcline 0"),
    ("runpp", with_svc, {}, "svc 0"),
    ("runopp", with_svc, {}, "svc 0"),
    ("runpp", with_dependent_load, {}, "load 1: .*depend"),
    ("runpp", congested, {"algorithm": "bfsw"}, "algorithm"),
    ("runpp", congested, {"distributed_slack": True}, "distributed_slack"),
    ("runpp", congested, {"tdpf": True}, "tdpf"),
    ("runpp", congested, {"init": "sideways"}, "sideways"),
    ("runopp", congested, {"OPF_FLOW_LIM": 1}, "OPF_FLOW_LIM"),
    ("runopp", congested, {"tollerance": 1}, "tollerance"),
])
def test_what_is_not_solved_is_named(run, net, keywords, what):
    with pytest.raises(gpc.InputError, match=what):
        getattr(gp, run)(net(), **keywords)


def test_flexible_loads():
    theirs, ours = with_flexible_load(), with_flexible_load()
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    assert theirs.res_load.p_mw[1] < 19
    assert_same(ours, theirs, 5e-3)


def test_dclines_and_dependent_loads_where_they_can_be_solved():
    theirs, ours = with_dcline(), with_dcline()
    pp.runpp(theirs, numba=False)
    gp.runpp(ours)
    assert_same(ours, theirs, 1e-5)
    theirs, ours = with_dependent_load(), with_dependent_load()
    pp.runpp(theirs, numba=False, voltage_depend_loads=False)
    gp.runpp(ours, voltage_depend_loads=False)
    assert_same(ours, theirs, 1e-5)


def test_the_page_s_snippet(monkeypatch, tmp_path):
    from test_snippets import PANDAPOWER, run

    run(PANDAPOWER, monkeypatch, tmp_path)
