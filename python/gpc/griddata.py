"""Optimal power flows as the files that machine learning reads: OPFData's JSON and PGLearn's HDF5.

    import gpc.grid as grid, gpc.griddata as griddata

    n = grid.network("pglib_opf_case118_ieee.m")
    griddata.generate("data", n, 300_000, "opfdata", seed=0, outages=True)   # a whole set, on all cores; the same call goes on

    s = grid.sample(n, 15_000, "opfdata", seed=0)
    griddata.write_opfdata("files", n, s, grid.opf(n, s))                    # scenarios of your own

Scenarios without an optimum are left out, as both data sets leave them out. docs/reference/acopf.md has every field.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import io
import json
import os
import tarfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpc._lib import ARRAY, HANDLE, INT, OUT, Error, InputError, address, array, as_json, ask, declare, lib, write
from gpc._progress import Progress, progress_of
from gpc.grid import Network, Optima, Scenarios, network, opf, sample

__all__ = ["Generated", "generate", "opfdata", "pglearn", "write_opfdata", "write_pglearn"]

declare("gpc_network_sum", HANDLE, OUT)
declare("gpc_rows", ARRAY, INT, INT, ARRAY, INT, OUT)


class _Topology(NamedTuple):
    """What the elements in service alone fix of a document: its text up to the loads, and the ends of lines and transformers."""

    head: str
    lines: str
    transformers: str


class _Documents:
    """Scenarios of a network as OPFData's JSON: per unit and radians, what is out left out."""

    def __init__(self, n: Network, loads: NDArray[Any]) -> None:
        _tabular(n)
        if not n.quadratic:
            raise InputError("opfdata: want costs that are polynomials of degree 2, this network has others")
        if not n.pi:
            raise InputError("opfdata: want branches that are π equivalents, as the layout has them; this pandapower net has others")
        self.base, rad = float(n.base_mva), np.pi / 180
        base, at = self.base, {int(b): i for i, b in enumerate(n.bus)}
        b, g, r = n.bus_table, n.gen_table, n.branch_table

        def place(ids: NDArray[Any]) -> NDArray[Any]:
            return np.array([at[int(i)] for i in ids], int)

        self.loads, shunts = loads, np.flatnonzero((b[:, 4] != 0) | (b[:, 5] != 0))
        self.transformer = (r[:, 8] != 0) | (r[:, 9] != 0)
        c2, c1, c0 = n.cost_table.T
        middle = (g[:, 8] + g[:, 9]) / 2, (np.clip(g[:, 3], -1e9, 1e9) + np.clip(g[:, 4], -1e9, 1e9)) / 2
        tap, half = np.where(r[:, 8] == 0, 1, r[:, 8]), r[:, 4] / 2
        angle, impedance, rate = r[:, 11:13] * rad, r[:, 2:4], r[:, 5:8] / base
        self.bus = _list(_texts([b[:, 9], b[:, 1], b[:, 12], b[:, 11]]))
        self.units = _texts([g[:, 6], middle[0] / base, g[:, 9] / base, g[:, 8] / base, middle[1] / base, g[:, 4] / base, g[:, 3] / base, g[:, 5], c2 * base**2, c1 * base, c0])
        self.shunt = _list(_texts(b[shunts][:, [5, 4]].T / base))
        self.branches = np.where(self.transformer, _texts([*angle.T, *impedance.T, *rate.T, tap, r[:, 9] * rad, half, half]), _texts([*angle.T, half, half, *impedance.T, *rate.T]))
        self.unit_at, self.ends = place(n.gen_bus), (place(n.branch_from), place(n.branch_to))
        self.links = f'"load_link":{_links(self.loads)},"shunt_link":{_links(shunts)}'
        # In an N−1 set a topology comes back: of small networks all are kept, of large ones few.
        self.topology = functools.lru_cache(max(1, 400_000 // (len(b) + len(r))))(self._topology)

    def _topology(self, branch: int, unit: int) -> _Topology:
        live, units = np.arange(len(self.transformer)) != branch, np.arange(len(self.units)) != unit
        lines, transformers = live & ~self.transformer, live & self.transformer
        ends = [f'"senders":{_list(self.ends[0][k].astype(str))},"receivers":{_list(self.ends[1][k].astype(str))},"features":' for k in (lines, transformers)]
        edges = f'"ac_line":{{{ends[0]}{_list(self.branches[lines])}}},"transformer":{{{ends[1]}{_list(self.branches[transformers])}}},"generator_link":{_links(self.unit_at[units])},{self.links}'
        head = f'{{"grid":{{"edges":{{{edges}}},"context":[[[{self.base!r}]]],"nodes":{{"bus":{self.bus},"generator":{_list(self.units[units])},"shunt":{self.shunt},"load":'
        return _Topology(head, *ends)

    def of(self, scenarios: Scenarios, optima: Optima) -> Iterator[tuple[int, _Topology, str]]:
        """Number, topology and the text from the loads on of every scenario with an optimum."""
        keep, step = np.flatnonzero(optima.optimal), 512
        for k in (keep[i : i + step] for i in range(0, len(keep), step)):
            out = [np.full(len(k), -1) if o is None else o[k] for o in (scenarios.branch_out, scenarios.gen_out)]
            live, units = (np.arange(size) != o[:, None] for size, o in zip((len(self.transformer), len(self.units)), out))
            flow = np.stack([optima.pt[k], optima.qt[k], optima.pf[k], optima.qf[k]], axis=2) / self.base
            tables = (
                _rows(np.stack([scenarios.pd[k][:, self.loads], scenarios.qd[k][:, self.loads]], axis=2) / self.base),
                _rows(np.stack([optima.va[k] * (np.pi / 180), optima.vm[k]], axis=2)), _rows(np.stack([optima.pg[k], optima.qg[k]], axis=2) / self.base, units),
                _rows(flow, live & ~self.transformer), _rows(flow, live & self.transformer),
            )
            for i, branch, unit, objective, load, bus, unit_text, lines, transformers in zip(k.tolist(), *(o.tolist() for o in out), optima.objective[k].tolist(), *tables):
                t = self.topology(branch, unit)
                yield i, t, (
                    f'{load}}}}},"solution":{{"nodes":{{"bus":{bus},"generator":{unit_text}}},"edges":{{"ac_line":{{{t.lines}{lines}}},"transformer":{{{t.transformers}{transformers}}}}}}},'
                    f'"metadata":{{"objective":{objective!r}}}}}'
                )


def _tabular(n: Network) -> None:
    """Refuses a network whose optima are not those of the tables that the layouts hold."""
    if n.beyond:
        raise InputError(f"network {n.name} has {' and '.join(n.beyond)}, which neither layout holds")


def _texts(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Each row of a table of these columns as JSON."""
    return np.array([json.dumps(row, separators=(",", ":"), allow_nan=False) for row in np.column_stack(list(columns)).tolist()], object)


def _list(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def _links(to: NDArray[Any]) -> str:
    return json.dumps({"senders": list(range(len(to))), "receivers": to.tolist()}, separators=(",", ":"))


def _rows(values: NDArray[Any], mask: NDArray[Any] | None = None) -> list[str]:
    """Of values [n, rows, columns] the rows in mask [n, rows] of each as JSON."""
    sizes = np.full(len(values), values.shape[1], np.int32) if mask is None else mask.sum(axis=1, dtype=np.int32)
    rows = array(values.reshape(-1, values.shape[2]) if mask is None else values[mask], float, (None, None), "results")
    return ask(lib.gpc_rows, address(rows), len(rows), rows.shape[1], address(sizes), len(sizes))


def opfdata(n: Network, scenarios: Scenarios, optima: Optima) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and document of every scenario with an optimum, in OPFData's layout: per unit and radians,
    what is out left out."""
    for k, topology, text in _Documents(n, _loaded(n, scenarios, optima)).of(scenarios, optima):
        yield k, json.loads(topology.head + text)


def _loaded(n: Network, scenarios: Scenarios, optima: Optima | None = None) -> NDArray[Any]:
    """The buses with load, in the case or in a scenario."""
    if optima is not None and len(scenarios) != len(optima):
        raise InputError(f"there are {len(scenarios)} scenarios and {len(optima)} optima, want those of the same scenarios")
    return np.flatnonzero((n.pd != 0) | (n.qd != 0) | (scenarios.pd != 0).any(axis=0) | (scenarios.qd != 0).any(axis=0))


def write_opfdata(folder: str | os.PathLike[str], n: Network, scenarios: Scenarios, optima: Optima, *, first: int = 0) -> int:
    """Writes example_NUMBER.json of every optimum into folder, numbered from first as the scenarios are,
    each whole or not at all. Returns how many."""
    os.makedirs(folder, exist_ok=True)
    written = 0
    for k, topology, text in _Documents(n, _loaded(n, scenarios, optima)).of(scenarios, optima):
        write(os.path.join(folder, f"example_{first + k}.json"), topology.head + text)
        written += 1
    return written


class _Archive:
    """A tar of examples in a folder, compressed in parts that stand one after another (RFC 1952): the text of a topology once for all."""

    def __init__(self, documents: _Documents, folder: str, path: str) -> None:
        self.documents, self.folder, self.pending = documents, folder, b""
        self.head = functools.lru_cache(documents.topology.cache_info().maxsize)(lambda topology: _compressed(topology.head.encode()))
        self.file = open(path, "wb", buffering=1 << 20)

    def add(self, first: int, scenarios: Scenarios, optima: Optima) -> None:
        for number, (_, topology, text) in enumerate(self.documents.of(scenarios, optima), first):
            entry, rest = tarfile.TarInfo(f"{self.folder}/example_{number}.json"), text.encode()
            entry.size = len(topology.head) + len(rest)
            self.file.write(_compressed(self.pending + entry.tobuf(tarfile.USTAR_FORMAT)) + self.head(topology))
            self.pending = rest + bytes(-entry.size % tarfile.BLOCKSIZE)

    def finish(self) -> None:
        self.file.write(_compressed(self.pending + bytes(2 * tarfile.BLOCKSIZE)))

    def close(self) -> None:
        self.file.close()


def _compressed(data: bytes) -> bytes:
    """data as a gzip file, the same bytes each time."""
    c = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    return c.compress(data) + c.flush()


class _Tables:
    """PGLearn's two files, inputs and results. They are made in memory: HDF5 ends the process on a full disk."""

    def __init__(self, n: Network, paths: list[str], dtype: Any) -> None:
        try:
            self.h5py = importlib.import_module("h5py")
        except ImportError as e:
            raise ImportError(f"PGLearn's layout needs h5py: pip install h5py ({e})") from e
        self.n, self.paths, self.dtype = n, paths, dtype
        self.blocks: list[tuple[dict[str, Any], ...]] = []

    def add(self, first: int, scenarios: Scenarios, optima: Optima) -> None:
        given, result = pglearn(self.n, scenarios, optima, np.arange(first, first + optima.optimal.sum()))
        del result["meta"]["solve_time"]  # which is another in each run
        self.append(given, result)

    def append(self, *contents: dict[str, Any]) -> None:
        self.blocks.append(tuple(_cast(c, self.dtype) for c in contents))

    def finish(self) -> None:
        for path, blocks in zip(self.paths, zip(*self.blocks)):
            buffer = io.BytesIO()
            with self.h5py.File(buffer, "w") as f:
                self._put(f, blocks)
            with open(path, "wb") as out:
                out.write(buffer.getbuffer())

    def _put(self, group: Any, blocks: Sequence[dict[str, Any]]) -> None:
        for key, first in blocks[0].items():
            parts = [b[key] for b in blocks]
            if isinstance(first, dict):
                self._put(group.create_group(key), parts)
                continue
            v = np.concatenate(parts)
            group[key] = v.astype(self.h5py.string_dtype()) if v.dtype.kind == "U" else v

    def close(self) -> None:
        self.blocks.clear()


def _cast(content: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """content with its floats in dtype."""
    return {key: _cast(v, dtype) if isinstance(v, dict) else v.astype(dtype) if v.dtype.kind == "f" else v for key, v in content.items()}


def pglearn(n: Network, scenarios: Scenarios, optima: Optima, seeds: NDArray[Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and results of the scenarios with an optimum as arrays in PGLearn's layout: per unit and radians, and duals as JuMP
    has them, derivatives of the objective by the right side of a constraint, so that those of upper limits are negative."""
    _tabular(n)
    seeds = np.flatnonzero(optima.optimal) if seeds is None else seeds
    base, rad, keep = n.base_mva, np.pi / 180, optima.optimal
    loads, count = _loaded(n, scenarios, optima), len(seeds)
    status = [np.ones((count, size), bool) for size in (len(n.branch_from), len(n.gen_bus))]
    for table, out in zip(status, (scenarios.branch_out, scenarios.gen_out)):
        if out is not None:
            rows = np.flatnonzero(out[keep] >= 0)
            table[rows, out[keep][rows]] = False
    o = {f: getattr(optima, f)[keep] for f in optima.__dataclass_fields__ if isinstance(getattr(optima, f), np.ndarray)}
    primal = {"vm": o["vm"], "va": o["va"] * rad, **{k: o[k] / base for k in ("pg", "qg", "pf", "qf", "pt", "qt")}}
    dual = {
        "kcl_p": o["price_p"] * base, "kcl_q": o["price_q"] * base, "vm": o["mu_vmin"] - o["mu_vmax"],
        "pg": (o["mu_pmin"] - o["mu_pmax"]) * base, "qg": (o["mu_qmin"] - o["mu_qmax"]) * base, "va_diff": (o["mu_angmin"] - o["mu_angmax"]) / rad,
    }
    # The thermal limit is pf² + qf² ≤ smax²; Ohm's law is of flows that are variables, whose stationarity has its dual.
    smax, at = n.branch_table[:, 5] / base, {int(b): i for i, b in enumerate(n.bus)}
    for end, side, buses in (("fr", "f", n.branch_from), ("to", "t", n.branch_to)):
        sm = dual[f"sm_{end}"] = -np.divide(o["mu_from" if end == "fr" else "mu_to"] * base, 2 * smax, out=np.zeros((count, len(smax))), where=smax > 0)
        for power in "pq":
            dual[f"ohm_{power}{side}"] = status[0] * (2 * sm * primal[power + side] - dual[f"kcl_{power}"][:, [at[int(b)] for b in buses]])
    said = {key: np.full(count, value) for key, value in (("termination_status", "LOCALLY_SOLVED"), ("primal_status", "FEASIBLE_POINT"), ("dual_status", "FEASIBLE_POINT"))}
    meta = {"primal_objective_value": o["objective"], "solve_time": np.full(count, optima.seconds / max(len(optima), 1)), "iterations": o["iterations"], "seed": seeds, **said}
    given = {"pd": scenarios.pd[keep][:, loads] / base, "qd": scenarios.qd[keep][:, loads] / base, "branch_status": status[0], "gen_status": status[1], "seed": seeds}
    return given, {"primal": primal, "dual": dual, "meta": meta}


def write_pglearn(folder: str | os.PathLike[str], n: Network, scenarios: Scenarios, optima: Optima, *, name: str = "", dtype: Any = np.float32) -> int:
    """Writes NAME_input.h5 and NAME_ACOPF.h5 in PGLearn's layout (needs h5py): per unit and radians, a
    row a scenario with an optimum. Returns how many."""
    os.makedirs(folder, exist_ok=True)
    with _whole([os.path.join(folder, f"{name or n.name}_{kind}.h5") for kind in ("input", "ACOPF")]) as parts:
        tables = _Tables(n, parts, dtype)
        tables.append(*pglearn(n, scenarios, optima))
        tables.finish()
    return int(optima.optimal.sum())


@contextlib.contextmanager
def _whole(paths: list[str]) -> Iterator[list[str]]:
    """Files to write in place of paths, which they become, on disk, at the end of a block that ends without an error."""
    parts = [f"{path}.part" for path in paths]
    try:
        yield parts
        for path, part in zip(paths, parts):
            with open(part, "rb") as f:
                os.fsync(f.fileno())
            os.replace(part, path)
    finally:
        for part in parts:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)


@dataclass(frozen=True)
class Generated:
    """A data set that is whole."""

    files: list[str]
    instances: int
    """In all of these files."""
    drawn: int
    """Scenarios of this call, those without an optimum among them; 0 where nothing was left to do."""
    size: int
    """Of all files, bytes."""
    seconds: float
    """Of this call, by the clock."""


class _Stopped(Exception):
    pass


def generate(
    folder: str | os.PathLike[str], source: Any, count: int, layout: str = "opfdata", *, seed: int, outages: bool = False, shard: int = 0, threads: int = 0,
    dtype: Any = np.float32, progress: bool | Progress | None = None, **draws: float,
) -> Generated:
    """Draws scenarios, solves them and writes count instances with an optimum as a data set into folder, on all cores.

    source is a Network, or what network() takes. layout "opfdata" draws as sample() does of that name, and packs 15 000 instances,
    or shard, into NAME_GROUP.tar.gz, as OPFData's authors do. Unpacked in place they are what torch_geometric's OPFDataset reads.
    layout "pglearn" draws and writes as PGLearn does (needs h5py): NAME_input_sFIRST-sLAST.h5 and NAME_ACOPF_sFIRST-sLAST.h5 of
    1000 instances, fewer of large networks, or shard, in dtype. PGLearn's merge.jl merges them. outages, and low, high and noise, are those of sample().

    A file is there whole or not at all. The same call goes on after an interruption, and what it writes is the same to the
    byte with any number of threads and interruptions; a folder of other options is refused. threads is how many files
    are written at once, 0 for a core each. progress is as in Session.evaluate().
    """
    n = source if isinstance(source, Network) else network(source)
    _tabular(n)
    if layout not in ("opfdata", "pglearn"):
        raise InputError(f'generate: layout "{layout}", want opfdata or pglearn')
    # So many that results and text of a block take some 30 MB.
    block = max(8, min(512, 500_000 // (len(n.bus) + len(n.gen_bus) + len(n.branch_from))))
    shard = shard or (15_000 if layout == "opfdata" else min(1000, 4 * block))
    if count < 1 or shard < 1 or threads < 0:
        raise InputError(f"generate: {count} instances in files of {shard} on {threads} threads, want at least one instance, and a shard and threads of 0 or more")
    none = sample(n, 0, layout, seed=seed, outages=outages, **draws)
    documents = _Documents(n, _loaded(n, none)) if layout == "opfdata" else None
    release, clock = "dataset_release_1" + "_nminusone" * outages, time.perf_counter()
    parts: list[tuple[int, int, list[str]]] = []
    for k, first in enumerate(range(0, count, shard)):
        size = min(shard, count - first)
        names = [f"{n.name}_{k}.tar.gz"] if documents else [f"{n.name}_{kind}_s{first}-s{first + size - 1}.h5" for kind in ("input", "ACOPF")]
        parts.append((first, size, [os.path.join(folder, name) for name in names]))
    os.makedirs(folder, exist_ok=True)
    stop, written, drawn = threading.Event(), [0] * len(parts), [0] * len(parts)

    def check(done: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped

    def part(k: int) -> None:
        first, size, paths = parts[k]
        draw = np.random.default_rng([seed, k])
        with _whole(paths) as to:
            file: _Archive | _Tables = _Archive(documents, f"gridopt-dataset-tmp/{release}/{n.name}/group_{k}", to[0]) if documents else _Tables(n, to, dtype)
            with contextlib.closing(file):
                while written[k] < size:
                    s = sample(n, min(block, size - written[k]), layout, seed=draw, outages=outages, **draws)
                    r = opf(n, s, progress=check)
                    file.add(first + written[k], s, r)
                    drawn[k] += len(s)
                    written[k] += int(r.optimal.sum())
                    if drawn[k] > 1000 + 100 * written[k]:
                        raise Error(f"generate: {written[k]} of {drawn[k]} scenarios of network {n.name} have an optimum: gpc.grid.opf(…).why() says why")
                    check(0, 0)
                file.finish()

    with _locked(folder):
        _same_set(os.path.join(folder, "set.json"), n, {"layout": layout, "count": count, "seed": seed, "outages": bool(outages), "shard": shard, "dtype": str(np.dtype(dtype)), **draws})
        left = [k for k, (_, _, paths) in enumerate(parts) if not all(map(os.path.exists, paths))]
        total = sum(parts[k][1] for k in left)
        report, end = progress_of(progress, f"generate {n.name}")
        with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
            runs = [pool.submit(part, k) for k in left]
            try:
                while True:
                    done, waiting = wait(runs, timeout=0.1)
                    for run in done:
                        run.result()
                    if report:
                        report(sum(written), total)
                    if not waiting:
                        break
            except OSError as e:
                raise Error(f"generate: {os.fspath(folder)} cannot be written: {e}; whole files stay, and the same call goes on") from e
            finally:
                stop.set()
                for run in runs:
                    run.cancel()
                end()
    files = [path for _, _, paths in parts for path in paths]
    return Generated(files, count, sum(drawn), sum(map(os.path.getsize, files)), time.perf_counter() - clock)


@contextlib.contextmanager
def _locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other calls out of a folder, of this process too."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"generate: another call writes into {os.fspath(folder)}") from None
        yield
    finally:
        os.close(lock)


def _same_set(path: str, n: Network, options: dict[str, Any]) -> None:
    """Writes what a folder holds, or refuses a folder that holds something else."""
    want = json.loads(as_json({"network": n.name, "sha256": ask(lib.gpc_network_sum, n.handle), **options}))
    if not os.path.exists(path):
        if others := sorted(name for name in os.listdir(os.path.dirname(path)) if not name.endswith(".tmp")):
            raise InputError(f"generate: {os.path.dirname(path)} holds {others[0]} and no set.json: give an empty folder")
        write(path, json.dumps(want, indent=1) + "\n")
        return
    with open(path, encoding="utf-8") as f:
        have = json.load(f)
    if other := [k for k in {**have, **want} if have.get(k) != want.get(k)]:
        raise InputError(f"generate: {path} is of another set, whose {other[0]} is {have.get(other[0])}, not {want.get(other[0])}: give another folder")
