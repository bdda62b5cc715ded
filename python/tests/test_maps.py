"""Results as pandas' data frames with names, and as maps in SVG."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import numpy as np
import pytest

import gpc
from gpc import grid

pandas = pytest.importorskip("pandas")


def test_tables_have_numbers_and_names(tmp_path):
    path = tmp_path / "two.raw"
    path.write_text("0,100,33 /\n\n\n10,'NORTH',230,3,1,1,1,1.02,0\n7,'SOUTH',230,1,1,1,1,1,0\n0/\n7,'1',1,1,1,50,10\n0/\n0/\n10,'A',0,0,,,1.02\n0/\n10,7,'1',0.01,0.1,0,100\n0/\nQ\n")
    f = grid.pf(path)
    assert f.res_bus.index.tolist() == [10, 7] and f.res_bus.name.tolist() == ["NORTH", "SOUTH"]
    assert np.allclose(f.res_bus.loc[7, ["p_mw", "q_mvar"]].astype(float), [50, 10]) and abs(f.res_bus.p_mw.sum() + f.loss) < 1e-9
    assert f.res_gen.loc[1, "name"] == "10-A" and f.res_gen.loc[1, "vm_pu"] == 1.02 and len(f.res_trafo) == 0
    line = f.res_line.loc[1]
    assert (line.from_bus, line.to_bus) == (10, 7) and abs(line.loading_percent - np.hypot(f.pf[0], f.qf[0])) < 1e-9 and abs(line.pl_mw - f.loss) < 1e-12
    assert "SOUTH" in repr(f) and repr(f).count("\n") == 3


def test_scenarios_are_a_level_of_the_index():
    n = grid.network("case14")
    o = grid.opf(n, np.stack([n.pd, 1.1 * n.pd]))
    assert o.res_bus.index.names == ["scenario", "bus"] and np.array_equal(o.res_bus.lam_p.loc[1], o.price_p[1])
    assert len(o.res_trafo) == 6 and len(o.res_trafo) + len(o.res_line) == len(o.res_branch) == 40
    assert "\n" not in repr(o)


def test_tables_are_pandapowers():
    pp = pytest.importorskip("pandapower")
    import pandapower.networks as networks

    net = networks.case118()
    pp.runpp(net, tolerance_mva=1e-8)
    f = grid.pf(net)
    order = np.argsort(net._pd2ppc_lookups["bus"][net.bus.index])  # of the arrays that both have made
    for column in ("vm_pu", "va_degree", "p_mw", "q_mvar"):
        assert np.allclose(f.res_bus[column], net.res_bus[column].to_numpy()[order], atol=1e-5)


@pytest.mark.parametrize("case", ["case9", "case118", "pglib_opf_case300_ieee"])
def test_a_map_has_every_element(case):
    o = grid.opf(case)
    n = o._of_network()
    for picture in (o.plot(), o.plot(buses="voltage"), o.plot(positions={int(b): (k, k % 7) for k, b in enumerate(n.bus)})):
        tree = xml.fromstring(picture._repr_svg_())
        tags = [e.tag.rpartition("}")[2] for e in tree.iter()]
        assert tags.count("line") == len(n.branch_from) and tags.count("circle") == len(n.bus)
        assert all(0 <= float(e.get("cx")) <= 900 for e in tree.iter() if e.tag.endswith("circle"))
    assert f"{o.price_p[0, 0]:.3f} $/MWh" in o.plot().text
    again = grid.opf(case).plot().text
    assert again == o.plot().text


def test_what_a_map_refuses(tmp_path):
    f = grid.pf("case9")
    f.plot().save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text().startswith("<svg")
    for arguments, says in (({"buses": "price"}, "want voltage"), ({"positions": np.ones((3, 2))}, "shape"), ({"positions": {1: (0, 0)}}, "no bus 2")):
        with pytest.raises(gpc.InputError, match=says):
            f.plot(**arguments)
