"""The linear model: power flows, optima and distribution factors as PYPOWER's and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import gpc
from gpc import grid


def _susceptances(n):
    """Flows by angle [branches, buses], and incidence [buses, branches]."""
    at = {b: k for k, b in enumerate(n.bus)}
    tap = np.where(n.branch_table[:, 8] == 0, 1, n.branch_table[:, 8])
    incidence = np.zeros((len(n.bus), len(n.branch_from)))
    for k, (f, t) in enumerate(zip(n.branch_from, n.branch_to)):
        incidence[at[f], k], incidence[at[t], k] = 1, -1
    return (incidence / (n.branch_table[:, 3] * tap)).T, incidence


@pytest.mark.parametrize("case", ["case14", "case30", "case118"])
def test_factors_by_hand(case):
    n = grid.network(case)
    flows, incidence = _susceptances(n)
    rest = n.bus != n.reference[0]
    want = np.zeros(flows.shape)
    want[:, rest] = flows[:, rest] @ np.linalg.inv((incidence @ flows)[np.ix_(rest, rest)])
    got = grid.ptdf(n)
    assert np.allclose(got, want, atol=1e-11)
    assert np.array_equal(grid.ptdf(n, [3, 5]), got[[3, 5]])
    assert np.allclose(grid.ptdf(n, buses=[0, 2]), want[:, [0, 2]], atol=1e-11)
    shared = grid.ptdf(n, slack=np.ones(len(n.bus)))
    assert np.allclose(shared.sum(axis=1), 0, atol=1e-10) and np.allclose(shared - shared[:, :1], want - want[:, :1], atol=1e-10)
    pairs = want @ incidence
    outage = grid.lodf(n)
    assert np.array_equal(np.isfinite(outage).all(axis=0), ~n.bridge)
    for k in np.flatnonzero(~n.bridge)[:20]:
        column = pairs[:, k] / (1 - pairs[k, k])
        column[k] = -1
        assert np.allclose(outage[:, k], column, atol=1e-10)
        assert np.array_equal(grid.lodf(n, k), outage[:, [k]])


def test_numbers_of_elements_are_whole():
    """What an integer of 32 bits would round, wrap or read as nothing is refused."""
    n = grid.network("case14")
    for wrong in ([1.5], np.array([1 << 32]), [-2], np.ones(len(n.branch_from), bool), ["7"]):
        for name in ("branch_out", "gen_out"):
            with pytest.raises(gpc.InputError, match=f"(?s){name} is .*, want numbers of what is in service, −1 for nothing"):
                grid.opf(n, **{name: wrong})
        for factors, name in ((lambda x: grid.ptdf(n, x), "branches"), (lambda x: grid.ptdf(n, buses=x), "buses"), (lambda x: grid.lodf(n, x), "out")):
            with pytest.raises(gpc.InputError, match=f"(?s){name} is .*, want numbers of what is in service"):
                factors(wrong)
    assert np.isnan(grid.opf(n, branch_out=[7, -1]).objective).sum() == 0 and grid.ptdf(n, np.int64(3)).shape == (1, 14) and grid.ptdf(n, []).shape == (0, 14)
    for more in ({"minutes": 5}, {"ramp": np.ones(len(n.gen_bus))}):
        with pytest.raises(gpc.InputError, match="ramp and minutes are of the powers before"):
            grid.opf(n, **more)
    with pytest.raises(gpc.InputError, match="whose sum is above 0"):
        grid.ptdf(n, slack=np.zeros(14))


def test_sparse_factors_are_those_from_a_threshold_on():
    pytest.importorskip("scipy")
    n = grid.network("case118")
    dense, sparse = grid.ptdf(n), grid.ptdf(n, sparse=True, threshold=0.01)
    assert np.array_equal(sparse.toarray(), np.where(np.abs(dense) < 0.01, 0, dense))
    assert grid.lodf(n, [3], sparse=True).shape == (len(n.branch_from), 1)


def test_flow_and_optimum():
    n = grid.network("case9")
    r = grid.pf(n, dc=True)
    assert abs(r.pg[0] - 67) < 1e-9 and abs(r.pf[1] - 28.9673) < 1e-4 and (r.vm == 1).all() and r.loss == 0
    loads = np.stack([n.pd, 1.1 * n.pd, 4 * n.pd])
    o = grid.opf(n, loads, dc=True)
    assert o.status.tolist() == [1, 1, 2] and abs(o.objective[0] - 5216.0266077) < 1e-6
    assert np.allclose(o.pg[:2].sum(axis=1), loads[:2].sum(axis=1)) and np.isnan(o.pg[2]).all()
    assert np.allclose(o.price_p[0], o.price_p[0, 0])  # nothing is loaded
    with pytest.raises(gpc.InputError, match="outage"):
        grid.opf(n, branch_out=[1], dc=True)
    with pytest.raises(gpc.InputError, match="number 9"):
        grid.ptdf(n, [9])


def test_pandapower_agrees():
    pp = pytest.importorskip("pandapower")
    import pandapower.networks as networks

    for case in (networks.case30, networks.case39, networks.case118):
        net = case()
        pp.rundcpp(net)
        flow = grid.pf(net, dc=True)
        assert np.allclose(flow.va, net._ppc["bus"][:, 8], atol=1e-9) and np.allclose(flow.pf, net._ppc["branch"][:, 13].real, atol=1e-8)
        pp.rundcopp(net)
        assert np.allclose(grid.opf(net, dc=True).objective, net.res_cost, rtol=1e-7)
