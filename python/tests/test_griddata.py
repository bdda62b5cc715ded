"""gpc.griddata.generate: whole data sets, their bytes, interruptions, full disks, and the duals of their instances."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest
from optimality import violations

import gpc
from gpc import grid, griddata


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def changed(n, **tables):
    """A network with a column of a table times a factor."""
    case = {"baseMVA": n.base_mva, "bus": n.bus_table.copy(), "gen": n.gen_table, "branch": n.branch_table.copy(), "gencost": np.column_stack([np.tile([2, 0, 0, 3], (len(n.gen_bus), 1)), n.cost_table])}
    for name, (columns, factor) in tables.items():
        case[name][:, columns] *= factor
    return grid.network(case)


def documents(path):
    """Names and documents of an archive, in order."""
    with tarfile.open(path) as t:
        return [(m.name, json.load(t.extractfile(m))) for m in t]


def test_a_set_is_that_of_its_scenarios(tmp_path):
    n = grid.network("case14")
    done = griddata.generate(tmp_path, n, 25, seed=7, outages=True, shard=10, progress=False)
    assert done.instances == 25 and done.drawn >= 25 and [os.path.basename(f) for f in done.files] == [f"{n.name}_{k}.tar.gz" for k in range(3)]
    assert done.size == sum(os.path.getsize(f) for f in done.files) and sorted(os.listdir(tmp_path)) == sorted([*map(os.path.basename, done.files), "set.json"])
    all_of = [d for f in done.files for d in documents(f)]
    assert [name for name, _ in all_of] == [f"gridopt-dataset-tmp/dataset_release_1_nminusone/{n.name}/group_{k // 10}/example_{k}.json" for k in range(25)]
    # The second file's are those that the functions for scenarios of one's own write.
    s = grid.sample(n, 10, "opfdata", seed=np.random.default_rng([7, 1]), outages=True)
    r = grid.opf(n, s)
    assert r.optimal.all()
    assert [d for _, d in all_of[10:20]] == [d for _, d in griddata.opfdata(n, s, r)]
    for d, out in zip(griddata.opfdata(n, s, r), s.branch_out):
        nodes, edges = d[1]["grid"]["nodes"], d[1]["grid"]["edges"]
        assert {len(x) for x in nodes["load"]} == {2} and all(isinstance(x, float) for row in nodes["generator"] + nodes["load"] for x in row)
        assert len(edges["ac_line"]["features"]) + len(edges["transformer"]["features"]) == len(n.branch_from) - (out >= 0)


def test_scenarios_without_an_optimum_are_drawn_again(tmp_path):
    n = grid.network("case30")
    done = griddata.generate(tmp_path, n, 20, seed=1, shard=20, noise=0.5, progress=False)
    assert done.instances == 20 and done.drawn > 20 and len(documents(done.files[0])) == 20
    heavy = changed(grid.network("case9"), bus=(2, 10))
    with pytest.raises(gpc.Error, match="0 of 1024 scenarios of network network have an optimum"):
        griddata.generate(tmp_path / "none", heavy, 600, seed=1, progress=False)
    assert os.listdir(tmp_path / "none") == ["set.json"]


@pytest.mark.parametrize("layout", ["opfdata", "pglearn"])
def test_interruptions_and_threads_change_no_byte(tmp_path, layout):
    if layout == "pglearn":
        pytest.importorskip("h5py")
    n = grid.network("case30")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = {"seed": 3, "outages": True, "shard": 120, "progress": False}
    drawn = griddata.generate(whole, n, 600, layout, threads=1, **options).drawn

    def stop_at(instances):
        def progress(done, total):
            if done >= instances:
                raise KeyboardInterrupt
        return progress

    left = []
    for at in (1, 270):  # with 270 a file at least is whole: two threads have no 120 each
        with pytest.raises(KeyboardInterrupt):
            griddata.generate(broken, n, 600, layout, threads=2, **{**options, "progress": stop_at(at)})
        assert not [f for f in os.listdir(broken) if f.endswith(".part")]
        left.append(len(os.listdir(broken)))
    assert left[0] < left[1]
    kept = {p: p.stat().st_mtime_ns for p in broken.iterdir()}
    done = griddata.generate(broken, n, 600, layout, threads=2, **options)
    assert digests(broken) == digests(whole) and done.drawn < drawn and all(p.stat().st_mtime_ns == t for p, t in kept.items())
    assert griddata.generate(broken, n, 600, layout, **options).drawn == 0
    for other in ({"seed": 4}, {"shard": 500}, {"outages": False}, {"low": 0.9}):
        with pytest.raises(gpc.InputError, match=f"set.json is of another set, whose {next(iter(other))} is "):
            griddata.generate(broken, n, 600, layout, **{**options, **other})
    with pytest.raises(gpc.InputError, match="whose network is case30, not case14"):
        griddata.generate(broken, "case14", 600, layout, **options)
    (broken / "set.json").unlink()
    with pytest.raises(gpc.InputError, match="and no set.json: give an empty folder"):
        griddata.generate(broken, n, 600, layout, **options)


def test_a_folder_is_of_one_network(tmp_path):
    """Whatever its optima depend on: base and options, too, which are in none of MATPOWER's four tables."""
    n = grid.network("case9")
    case = {"baseMVA": 100, "bus": n.bus_table, "gen": n.gen_table, "branch": n.branch_table, "gencost": np.column_stack([np.tile([2, 0, 0, 3], (3, 1)), n.cost_table])}
    options = {"seed": np.int64(1), "low": np.float32(0.9), "progress": False}
    first = griddata.generate(tmp_path, case, 4, **options)
    for other in (grid.network({**case, "baseMVA": 200}), grid.network(case, optimality=1e-6), grid.network(case, max_iterations=20)):
        with pytest.raises(gpc.InputError, match="set.json is of another set, whose sha256 is "):
            griddata.generate(tmp_path, other, 4, **options)
    assert griddata.generate(tmp_path, grid.network(case, threads=1), 4, **options).files == first.files


CALL = """
import sys
import gpc.griddata as griddata
griddata.generate(sys.argv[1], "case14", 4000, seed=5, shard=500, progress=False)
"""


def test_a_set_survives_its_process(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    griddata.generate(whole, "case14", 4000, seed=5, shard=500, progress=False)
    run = subprocess.Popen([sys.executable, "-c", CALL, broken])
    while len([f for f in (os.listdir(broken) if broken.exists() else []) if f.endswith(".tar.gz")]) < 2 and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    for name, digest in digests(broken).items():
        assert name.endswith(".part") or digests(whole)[name] == digest
    griddata.generate(broken, "case14", 4000, seed=5, shard=500, progress=False)
    assert digests(broken) == digests(whole)


@pytest.mark.parametrize("layout", ["opfdata", "pglearn"])
def test_a_full_disk_leaves_whole_files(tmp_path, layout):
    """A limit of a file's size stands for the disk: writing beyond it is an OSError."""
    if layout == "pglearn":
        pytest.importorskip("h5py")
    code = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n" + CALL
    run = subprocess.run([sys.executable, "-c", code.replace("seed", f'layout="{layout}", seed'), tmp_path], capture_output=True, text=True)
    assert run.returncode == 1 and f"gpc.Error: generate: {tmp_path} cannot be written: " in run.stderr, run.stderr
    assert os.listdir(tmp_path) == ["set.json"]


def test_two_calls_do_not_share_a_folder(tmp_path):
    n, running, end = grid.network("case14"), threading.Event(), threading.Event()

    def progress(done, total):
        running.set()
        end.wait()

    first = threading.Thread(target=griddata.generate, args=(tmp_path, n, 20), kwargs={"seed": 1, "progress": progress})
    first.start()
    running.wait()
    with pytest.raises(gpc.InputError, match="another call writes into"):
        griddata.generate(tmp_path, n, 20, seed=1, progress=False)
    end.set()
    first.join()
    assert griddata.generate(tmp_path, n, 20, seed=1, progress=False).drawn == 0


def test_what_is_refused(tmp_path):
    for count, options, says in ((1, {"layout": "mine"}, "layout"), (0, {}, "at least one"), (5, {"shard": -1}, "shard"), (5, {"threads": -1}, "threads")):
        with pytest.raises(gpc.InputError, match=says):
            griddata.generate(tmp_path, "case9", count, seed=0, **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("layout", ["opfdata", "pglearn"])
def test_what_no_layout_holds_is_refused(tmp_path, layout):
    """Its optima would be of another problem than that of the files."""
    if layout == "pglearn":
        pytest.importorskip("h5py")
    n = grid.network("case9")
    cost, line = np.column_stack([np.tile([2, 0, 0, 3], (3, 1)), n.cost_table]), np.array([[4, 9, 1, 10, 9, 0, 0, 1, 1, -50, 50, -10, 10, -10, 10, 0, 0.0]])
    curve = np.column_stack([n.gen_table, np.tile([50, 200, -100, 100, -50, 50], (3, 1)), np.zeros((3, 5))])
    load = n.gen_table.copy()
    load[2, [1, 2, 3, 4, 8, 9]] = -50, -10, 0, -10, 0, -50
    case = {"baseMVA": 100, "bus": n.bus_table, "gen": n.gen_table, "branch": n.branch_table, "gencost": cost}
    for other, has in (
        (grid.network(case, current_limits=True), "limits of currents"), (grid.network({**case, "dcline": line}), "DC lines"), (grid.network({**case, "gencost": np.vstack([cost, cost])}), "costs of reactive power"),
        (grid.network({**case, "gen": curve}), "capability curves"), (grid.network({**case, "gen": load}, dispatchable="power-factor"), "loads of constant power factor"),
    ):
        with pytest.raises(gpc.InputError, match=f"has {has}.*, which neither layout holds"):
            griddata.generate(tmp_path, other, 5, layout, seed=0, progress=False)
        s = grid.sample(other, 2, layout, seed=0)
        with pytest.raises(gpc.InputError, match="which neither layout holds"):
            (griddata.write_opfdata if layout == "opfdata" else griddata.write_pglearn)(tmp_path, other, s, grid.opf(other, s))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("name", "outages", "draws", "binding"), [
    ("case9", False, {}, "kcl_p"), ("case30", True, {"high": 1.0}, "sm_fr"), ("pglib_opf_case118_ieee", True, {}, "sm_to"), ("narrow", False, {"high": 0.9}, "va_diff"),
])
def test_duals_are_pglearns(tmp_path, name, outages, draws, binding):
    h5py = pytest.importorskip("h5py")
    n = changed(grid.network("pglib_opf_case118_ieee"), branch=([11, 12], 0.25)) if name == "narrow" else grid.network(name)
    done = griddata.generate(tmp_path, n, 30, "pglearn", seed=11, shard=20, outages=outages, dtype=np.float64, progress=False, **draws)
    assert [os.path.basename(f) for f in done.files] == [f"{n.name}_{k}_s{s}.h5" for s in ("0-s19", "20-s29") for k in ("input", "ACOPF")]
    for given, result in zip(done.files[::2], done.files[1::2]):
        with h5py.File(given) as i, h5py.File(result) as o:
            assert set(o["meta/termination_status"].asstr()) == {"LOCALLY_SOLVED"} and set(o["meta/dual_status"].asstr()) == {"FEASIBLE_POINT"}
            np.testing.assert_array_equal(i["seed"], o["meta/seed"])
            assert (o["dual/sm_fr"][:] <= 0).all() and (outages == (not i["branch_status"][:].all() or not i["gen_status"][:].all()))
            equations, limits, stationarity, slack = violations(n, i, o)
            assert equations < 2e-9 and limits < 1e-8 and stationarity < 1e-7 and slack < 1e-6
            # The check can fail, by the dual of a constraint that binds.
            wrong = {g: {k: v[:].copy() for k, v in o[g].items()} for g in ("primal", "dual")}
            wrong["dual"][binding] *= 1.01
            assert violations(n, i, wrong)[2] > 1e-5
