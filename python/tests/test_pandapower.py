"""gpc.pandapower beside pandapower itself."""

import copy
import warnings

import numpy as np
import pytest

import gpc
import gpc.grid as grid

pandas = pytest.importorskip("pandas")
pp = pytest.importorskip("pandapower")
pn = pytest.importorskip("pandapower.networks")
gp = pytest.importorskip("gpc.pandapower")

warnings.simplefilter("ignore")

FLOWS = {
    "case9": pn.case9, "case14": pn.case14, "case30": pn.case30, "case39": pn.case39, "case118": pn.case118, "case300": pn.case300,
    "example_simple": pn.example_simple, "example_multivoltage": pn.example_multivoltage, "mv_oberrhein": pn.mv_oberrhein,
    "cigre_mv": lambda: pn.create_cigre_network_mv(with_der="all"), "four_loads": pn.panda_four_load_branch, "kerber": pn.create_kerber_dorfnetz,
    "open_ring": pn.simple_mv_open_ring_net, "case89pegase": pn.case89pegase,
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


def assert_same_flow(theirs):
    """grid.pf has the voltages of a solved net, and what its references inject."""
    net = copy.deepcopy(theirs)
    n = grid.network(net)
    flow = grid.pf(n)
    on = theirs.res_bus.index[theirs.res_bus.vm_pu.notna()]
    rows = net._pd2ppc_lookups["bus"][on]
    assert flow.converged and not flow.remark
    np.testing.assert_allclose(flow.vm[rows], theirs.res_bus.vm_pu[on], rtol=0, atol=1e-8)
    np.testing.assert_allclose((flow.va[rows] - theirs.res_bus.va_degree[on] + 180) % 360 - 180, 0, atol=1e-6)
    if len(net.dcline):  # whose power pandapower does not count at its bus
        return
    at = np.isin(n.bus, n.reference)
    injected = flow.pg[np.isin(n.gen_bus, n.reference)].sum() - n.pd[at].sum()
    assert injected == pytest.approx(-theirs.res_bus.p_mw[on][np.isin(rows, np.flatnonzero(at))].sum(), abs=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_power_flows_are_pandapowers(name):
    theirs = FLOWS[name]()
    ours = copy.deepcopy(theirs)
    pp.runpp(theirs, numba=False, tolerance_mva=1e-9)
    gp.runpp(ours)
    assert ours.converged
    assert_same(ours, theirs, 1e-5)
    assert_same_flow(theirs)
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


@pytest.mark.parametrize("limits", [[0.1], [0.1, 0.2], [1e9]])
def test_units_at_the_external_grid_stay_within_their_limits(limits):
    theirs = congested()
    for q in limits:
        pp.create_gen(theirs, 0, p_mw=5, vm_pu=1.02, min_q_mvar=-q, max_q_mvar=q)
    ours = copy.deepcopy(theirs)
    pp.runpp(theirs, enforce_q_lims=True, numba=False)
    gp.runpp(ours, enforce_q_lims=True)
    assert abs(ours.res_gen.q_mvar[1]) == pytest.approx(limits[0]) or limits[0] > 1
    assert_same(ours, theirs, 1e-6)


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


def with_trafo(**columns):
    """A standard transformer of vector group YNd5, and its load."""
    def add(net):
        bus = pp.create_bus(net, 20, min_vm_pu=0.9, max_vm_pu=1.1)
        pp.create_transformer(net, 1, bus, "25 MVA 110/20 kV", max_loading_percent=100)
        for k, v in columns.items():
            net.trafo[k] = v
        pp.create_load(net, bus, p_mw=12, q_mvar=3)
    return add


def with_trafo3w(net):
    m, low = (pp.create_bus(net, kv, min_vm_pu=0.9, max_vm_pu=1.1) for kv in (20, 10))
    pp.create_transformer3w(net, 1, m, low, "63/25/38 MVA 110/20/10 kV", max_loading_percent=100)
    pp.create_load(net, m, p_mw=12, q_mvar=3)
    pp.create_load(net, low, p_mw=9, q_mvar=2)


def with_switches(net):
    bus = pp.create_bus(net, 110, min_vm_pu=0.9, max_vm_pu=1.1)
    pp.create_switch(net, 1, bus, "b")
    pp.create_load(net, bus, p_mw=3, q_mvar=1)
    pp.create_load(net, pp.create_bus(net, 110), p_mw=3)  # at no line
    pp.create_switch(net, 0, 2, "l", closed=False)


def with_tables(net):
    """A transformer and a shunt whose steps stand in tables."""
    with_trafo(tap_pos=2, tap_changer_type="Tabular", tap_dependency_table=True, id_characteristic_table=0)(net)
    columns = {"voltage_ratio": [1, 1.02, 1.05], "angle_deg": [0.0, 3, 5], "vk_percent": [12.0, 12.6, 13.2], "vkr_percent": [0.42, 0.43, 0.45]}
    net["trafo_characteristic_table"] = pandas.DataFrame({"id_characteristic": 0, "step": [0, 1, 2], **columns})
    pp.create_shunt(net, 1, q_mvar=-8, p_mw=0.1, step=2, vn_kv=105.0)
    net.shunt["step_dependency_table"], net.shunt["id_characteristic_table"] = True, 0
    net["shunt_characteristic_table"] = pandas.DataFrame({"id_characteristic": 0, "step": [1, 2, 3], "q_mvar": [-5.0, -11, -20], "p_mw": [0.1, 0.2, 0.3]})


def with_shorted_line(net):
    """A line beside a closed switch begins where it ends."""
    bus = pp.create_bus(net, 110, min_vm_pu=0.9, max_vm_pu=1.1)
    pp.create_switch(net, 1, bus, "b")
    pp.create_line(net, 1, bus, 30, "149-AL1/24-ST1A 110.0", max_loading_percent=100)
    pp.create_load(net, bus, p_mw=3, q_mvar=1)


def with_flexible_sgen(bus):
    def add(net):
        pp.create_sgen(net, bus, p_mw=6, q_mvar=2, controllable=True, min_p_mw=0, max_p_mw=8, min_q_mvar=0, max_q_mvar=0)
    return add


def with_uncontrolled_gen(net):
    pp.create_gen(net, 1, p_mw=5, vm_pu=1.0, min_p_mw=0, max_p_mw=15, min_q_mvar=-50, max_q_mvar=50, controllable=False)


def with_dcline(net):
    pp.create_dcline(net, 0, 1, p_mw=10, loss_percent=1, loss_mw=0.1, vm_from_pu=1.02, vm_to_pu=1.0, max_p_mw=20)


def with_flexible_load(net):
    """A load that is worth less than the power that it would take."""
    pp.create_load(net, 1, p_mw=20, q_mvar=5, controllable=True, min_p_mw=0, max_p_mw=20, min_q_mvar=0, max_q_mvar=5)
    pp.create_poly_cost(net, 1, "load", cp1_eur_per_mw=-10)


ELEMENTS = {
    "trafo": with_trafo(), "iron losses": with_trafo(pfe_kw=500.0, i0_percent=5.0, shift_degree=0.0), "trafo3w": with_trafo3w, "switches": with_switches, "shorted line": with_shorted_line, "tables": with_tables, "dcline": with_dcline,
    "asymmetric_load": lambda net: pp.create_asymmetric_load(net, 1, 1, 2, 1, 0.1, 0.2, 0.3), "asymmetric_sgen": lambda net: pp.create_asymmetric_sgen(net, 1, 1, 2, 1, 0.1, 0.2, 0.3),
    "ward": lambda net: pp.create_ward(net, 1, 2, 0.5, 3, 0.2), "xward": lambda net: pp.create_xward(net, 1, 2, 0.5, 0.3, 0.2, 0.5, 5, 1.0),
    "shunt": lambda net: pp.create_shunt(net, 1, q_mvar=-8, p_mw=0.1, step=2), "storage": lambda net: pp.create_storage(net, 1, 3, 10, q_mvar=1),
    "motor": lambda net: pp.create_motor(net, 1, 3, 0.9), "impedance": lambda net: pp.create_impedance(net, 0, 2, 0.01, 0.05, 100, rtf_pu=0.02, xtf_pu=0.06),
    "flexible load": with_flexible_load, "flexible sgen": with_flexible_sgen(1), "flexible sgen at a gen": with_flexible_sgen(2), "flexible sgen at the grid": with_flexible_sgen(0),
    "uncontrolled gen": with_uncontrolled_gen, "second grid": lambda net: pp.create_ext_grid(net, 2, vm_pu=1.0, va_degree=-1),
    "scaled sgen": lambda net: pp.create_sgen(net, 1, 6, 2, scaling=0.5), "no limits": lambda net: net.gen.drop(columns="max_q_mvar", inplace=True),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_element_by_both_doors(name):
    """runpp and grid.pf are pandapower's power flow; grid.opf is runopp, or says what it lacks."""
    net = congested()
    ELEMENTS[name](net)
    theirs, ours = copy.deepcopy(net), copy.deepcopy(net)
    pp.runpp(theirs, numba=False)
    gp.runpp(ours)
    assert_same(ours, theirs, 1e-6)
    assert_same_flow(theirs)
    refused = {"asymmetric_load": "asymmetric_load 0", "asymmetric_sgen": "asymmetric_sgen 0", "no limits": "OPF parameters", "second grid": "other types of buses"}
    if name in refused:
        with pytest.raises(gpc.InputError, match=refused[name]):
            grid.opf(net)
        if name in ("asymmetric_load", "asymmetric_sgen"):
            with pytest.raises(gpc.InputError, match=refused[name]):
                gp.runopp(ours)
        return
    gp.runopp(ours)
    assert grid.opf(net, current_limits=True).objective[0] == pytest.approx(ours.res_cost, rel=1e-7)


def elements(add):
    def net():
        n = congested()
        add(n)
        return n
    return net


with_svc = elements(lambda net: pp.create_svc(net, 1, x_l_ohm=1, x_cvar_ohm=-10, set_vm_pu=1.0, thyristor_firing_angle_degree=90))
with_dependent_load = elements(lambda net: pp.create_load(net, 1, p_mw=1, const_z_p_percent=50, const_z_q_percent=50))


@pytest.mark.parametrize("run, net, keywords, what", [
    ("runpp", with_svc, {}, "svc 0"),
    ("runopp", with_svc, {}, "svc 0"),
    ("runpp", with_dependent_load, {}, "load 1: .*depend"),
    ("runpp", congested, {"algorithm": "bfsw"}, "algorithm"),
    ("runpp", congested, {"tdpf": True}, "tdpf"),
    ("runpp", congested, {"init": "sideways"}, "sideways"),
    ("runopp", congested, {"OPF_FLOW_LIM": 1}, "OPF_FLOW_LIM"),
    ("runopp", congested, {"tollerance": 1}, "tollerance"),
])
def test_what_is_not_solved_is_named(run, net, keywords, what):
    with pytest.raises(gpc.InputError, match=what):
        getattr(gp, run)(net(), **keywords)


@pytest.mark.parametrize("net, what", [(with_svc, "svc 0"), (with_dependent_load, "load 1: .*depend")])
def test_a_network_refuses_what_runpp_refuses(net, what):
    with pytest.raises(gpc.InputError, match=what):
        grid.network(net())


def test_external_grids_share_the_balance():
    theirs = pp.create_empty_network()
    ends = [pp.create_bus(theirs, 110.0) for _ in range(3)]
    for bus, weight in ((0, 3), (2, 1)):
        pp.create_ext_grid(theirs, ends[bus], slack_weight=weight)
    pp.create_load(theirs, ends[1], 100, 20)
    for bus in (0, 1):
        pp.create_line(theirs, ends[bus], ends[bus + 1], 10, "184-AL1/30-ST1A 110.0")
    ours = copy.deepcopy(theirs)
    pp.runpp(theirs, numba=False, distributed_slack=True)
    gp.runpp(ours, distributed_slack=True)
    assert_same(ours, theirs, 1e-6)


def test_flexible_loads():
    theirs, ours = elements(with_flexible_load)(), elements(with_flexible_load)()
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    assert theirs.res_load.p_mw[1] < 19
    assert_same(ours, theirs, 5e-3)


def test_dependent_loads_as_constant():
    theirs, ours = with_dependent_load(), with_dependent_load()
    pp.runpp(theirs, numba=False, voltage_depend_loads=False)
    gp.runpp(ours, voltage_depend_loads=False)
    assert_same(ours, theirs, 1e-5)


def test_the_page_s_snippet(monkeypatch, tmp_path):
    from test_snippets import PANDAPOWER, run

    run(PANDAPOWER, monkeypatch, tmp_path)


def test_optima_with_dc_lines():
    theirs = congested()
    pp.create_dcline(theirs, 0, 1, p_mw=10, loss_percent=1.2, loss_mw=0.05, vm_from_pu=1.02, vm_to_pu=1.0, max_p_mw=25,
                     min_q_from_mvar=-10, max_q_from_mvar=10, min_q_to_mvar=-10, max_q_to_mvar=10)
    ours = copy.deepcopy(theirs)
    door = grid.opf(copy.deepcopy(theirs), current_limits=True)
    pp.runopp(theirs, numba=False)
    gp.runopp(ours)
    assert ours.res_cost == pytest.approx(theirs.res_cost, rel=1e-5) and door.objective[0] == pytest.approx(ours.res_cost, rel=1e-8)
    assert ours.res_dcline.p_from_mw[0] == pytest.approx(theirs.res_dcline.p_from_mw[0], abs=1e-2)
    assert ours.res_dcline.p_from_mw[0] == pytest.approx(-1.012 * ours.res_dcline.p_to_mw[0] + 0.05, abs=1e-6)


@pytest.mark.parametrize("make", [pn.mv_oberrhein, pn.create_kerber_dorfnetz, pn.panda_four_load_branch, pn.case24_ieee_rts])
def test_the_two_doors_have_one_optimum(make):
    """Vector groups of 150° and set-points beyond limits lead grid.opf to the optimum of runopp."""
    ours = make()
    r = grid.opf(copy.deepcopy(ours), current_limits=True)
    gp.runopp(ours)
    assert r.optimal[0] and r.objective[0] == pytest.approx(ours.res_cost, rel=1e-7)
    theirs = make()
    pp.runpp(theirs, numba=False, tolerance_mva=1e-9)
    assert_same_flow(theirs)


def test_controls_change_no_admittance_of_their_own():
    """A control that would replace iron losses and the like by the table's π equivalents is refused; of a plain net it is not."""
    n = grid.network(pn.case9())
    flow = grid.pf(n, controls=[f"shunt {n.bus[4]} bus {n.bus[4]} 1 1.01 -100 100"])
    assert flow.converged and flow.controls[0]["keeps"]
    with pytest.raises(gpc.InputError, match="no π equivalents"):
        grid.pf(grid.network(pn.example_multivoltage()), controls=["tap 1 bus 1 1 1.01 0.9 1.1"])
