"""Optimal power flows as the files that machine learning reads: OPFData's JSON and PGLearn's HDF5.

    import gpc.grid as grid, gpc.griddata as griddata

    n = grid.network("pglib_opf_case118_ieee.m")
    s = grid.sample(n, 15_000, "opfdata", seed=0, outages=True)
    griddata.write_opfdata("data", n, s, grid.opf(n, s))

Scenarios without an optimum are left out, as both data sets leave them out; the functions return
how many were written. docs/reference/acopf.md has every field.
"""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import InputError, write
from gpc.grid import Network, Optima, Scenarios

__all__ = ["opfdata", "write_opfdata", "write_pglearn"]


def opfdata(n: Network, scenarios: Scenarios, optima: Optima) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and document of every scenario with an optimum, in OPFData's layout: per unit and radians,
    what is out left out."""
    if not n.quadratic:
        raise InputError("opfdata: want costs that are polynomials of degree 2, this network has others")
    if not n.pi:
        raise InputError("opfdata: want branches that are π equivalents, as the layout has them; this pandapower net has others")
    base, rad = n.base_mva, np.pi / 180
    at = {int(b): i for i, b in enumerate(n.bus)}
    b, g, r = n.bus_table, n.gen_table, n.branch_table

    def place(ids: NDArray[Any]) -> NDArray[Any]:
        return np.array([at[int(i)] for i in ids], int)

    gen_at, from_at, to_at = place(n.gen_bus), place(n.branch_from), place(n.branch_to)
    load_at, shunt_at = _loaded(n, scenarios, optima), np.flatnonzero((b[:, 4] != 0) | (b[:, 5] != 0))
    transformer = (r[:, 8] != 0) | (r[:, 9] != 0)
    bus = np.column_stack([b[:, 9], b[:, 1], b[:, 12], b[:, 11]])
    c2, c1, c0 = n.cost_table.T
    middle = (g[:, 8] + g[:, 9]) / 2, (np.clip(g[:, 3], -1e9, 1e9) + np.clip(g[:, 4], -1e9, 1e9)) / 2
    gen = np.column_stack([g[:, 6], middle[0] / base, g[:, 9] / base, g[:, 8] / base, middle[1] / base, g[:, 4] / base, g[:, 3] / base, g[:, 5], c2 * base**2, c1 * base, c0])
    shunt = b[shunt_at][:, [5, 4]] / base
    tap, half = np.where(r[:, 8] == 0, 1, r[:, 8]), r[:, 4] / 2
    angle, impedance, rate = r[:, 11:13] * rad, r[:, 2:4], r[:, 5:8] / base
    line = np.column_stack([angle, half, half, impedance, rate])
    change = np.column_stack([angle, impedance, rate, tap, r[:, 9] * rad, half, half])
    for k in np.flatnonzero(optima.optimal):
        units, branches = np.ones(len(g), bool), np.ones(len(r), bool)
        if scenarios.gen_out is not None and scenarios.gen_out[k] >= 0:
            units[scenarios.gen_out[k]] = False
        if scenarios.branch_out is not None and scenarios.branch_out[k] >= 0:
            branches[scenarios.branch_out[k]] = False
        load = np.column_stack([scenarios.pd[k, load_at], scenarios.qd[k, load_at]]) / base
        flow = np.column_stack([optima.pt[k], optima.qt[k], optima.pf[k], optima.qf[k]]) / base
        lines, changes = branches & ~transformer, branches & transformer

        def edges(which: NDArray[Any], features: NDArray[Any]) -> dict[str, Any]:
            return {"senders": from_at[which].tolist(), "receivers": to_at[which].tolist(), "features": features[which].tolist()}

        def links(to: NDArray[Any]) -> dict[str, Any]:
            return {"senders": list(range(len(to))), "receivers": to.tolist()}

        yield int(k), {
            "grid": {
                "nodes": {"bus": bus.tolist(), "generator": gen[units].tolist(), "load": load.tolist(), "shunt": shunt.tolist()},
                "edges": {
                    "ac_line": edges(lines, line), "transformer": edges(changes, change),
                    "generator_link": links(gen_at[units]), "load_link": links(load_at), "shunt_link": links(shunt_at),
                },
                "context": [[[base]]],
            },
            "solution": {
                "nodes": {
                    "bus": np.column_stack([optima.va[k] * rad, optima.vm[k]]).tolist(),
                    "generator": (np.column_stack([optima.pg[k], optima.qg[k]])[units] / base).tolist(),
                },
                "edges": {"ac_line": edges(lines, flow), "transformer": edges(changes, flow)},
            },
            "metadata": {"objective": float(optima.objective[k])},
        }


def _loaded(n: Network, scenarios: Scenarios, optima: Optima) -> NDArray[Any]:
    """The buses with load, in the case or in a scenario."""
    if len(scenarios) != len(optima):
        raise InputError(f"there are {len(scenarios)} scenarios and {len(optima)} optima, want those of the same scenarios")
    return np.flatnonzero((n.pd != 0) | (n.qd != 0) | (scenarios.pd != 0).any(axis=0) | (scenarios.qd != 0).any(axis=0))


def write_opfdata(folder: str | os.PathLike[str], n: Network, scenarios: Scenarios, optima: Optima, *, first: int = 0) -> int:
    """Writes example_NUMBER.json of every optimum into folder, numbered from first as the scenarios are,
    each whole or not at all."""
    os.makedirs(folder, exist_ok=True)
    written = 0
    for k, document in opfdata(n, scenarios, optima):
        write(os.path.join(folder, f"example_{first + k}.json"), json.dumps(document, allow_nan=False))
        written += 1
    return written


def write_pglearn(folder: str | os.PathLike[str], n: Network, scenarios: Scenarios, optima: Optima, *, name: str = "", dtype: Any = np.float32) -> int:
    """Writes NAME_input.h5 and NAME_ACOPF.h5 in PGLearn's layout (needs h5py): per unit and radians, a
    row a scenario with an optimum."""
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as e:
        raise ImportError(f"write_pglearn needs h5py: pip install h5py ({e})") from e
    base, rad, keep = n.base_mva, np.pi / 180, optima.optimal
    loads, count = _loaded(n, scenarios, optima), int(keep.sum())
    status = [np.ones((count, size), bool) for size in (len(n.branch_from), len(n.gen_bus))]
    for table, out in zip(status, (scenarios.branch_out, scenarios.gen_out)):
        if out is not None:
            rows = np.flatnonzero(out[keep] >= 0)
            table[rows, out[keep][rows]] = False
    o = {f: v[keep] for f, v in vars(optima).items() if isinstance(v, np.ndarray)}
    files: dict[str, dict[str, Any]] = {
        "input": {"pd": scenarios.pd[keep][:, loads] / base, "qd": scenarios.qd[keep][:, loads] / base, "branch_status": status[0], "gen_status": status[1], "seed": np.flatnonzero(keep)},
        "ACOPF": {
            "primal": {"vm": o["vm"], "va": o["va"] * rad, **{k: o[k] / base for k in ("pg", "qg", "pf", "qf", "pt", "qt")}},
            "dual": {
                "kcl_p": o["price_p"] * base, "kcl_q": o["price_q"] * base, "vm": o["mu_vmin"] - o["mu_vmax"],
                "pg": (o["mu_pmin"] - o["mu_pmax"]) * base, "qg": (o["mu_qmin"] - o["mu_qmax"]) * base,
                "sm_fr": o["mu_from"] * base, "sm_to": o["mu_to"] * base, "va_diff": (o["mu_angmin"] - o["mu_angmax"]) / rad,
            },
            "meta": {"primal_objective_value": o["objective"], "solve_time": np.full(count, optima.seconds / max(len(optima), 1)), "iterations": o["iterations"]},
        },
    }
    os.makedirs(folder, exist_ok=True)
    for kind, content in files.items():
        path = os.path.join(folder, f"{name or n.name}_{kind}.h5")
        memory = io.BytesIO()  # a full disk ends a process in HDF5 itself
        with h5py.File(memory, "w") as f:
            _put(f, content, dtype)
            if kind == "ACOPF":
                f["meta"]["termination_status"] = np.array(["LOCALLY_SOLVED"] * count, dtype=h5py.string_dtype())
                f["meta"]["seed"] = np.flatnonzero(keep)
        write(path, memory.getvalue())
    return count


def _put(group: Any, content: dict[str, Any], dtype: Any) -> None:
    for key, v in content.items():
        if isinstance(v, dict):
            _put(group.create_group(key), v, dtype)
        else:
            group[key] = v.astype(dtype) if v.dtype == np.float64 else v
