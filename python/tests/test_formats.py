"""Files: a map read by hand, maps from outside, datasets and traces as arrays."""

import ast
import importlib.util
import json
import pathlib
import subprocess
import sys
import tokenize

import numpy as np
import pytest

import gpc
import gpc.data
import gpc.models
import gpc.traces

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "python" / "examples" / "decode.py"
MAPS = ("integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain")

# What decode.py may differ from the engine by, as docs/reference/formats.md states: float32 roundings of sums in another order, in units
# of the output's scale, and of the result.
OF_SCALE, OF_VALUE = 5e-6, 5e-7


def assert_rounded(own, engine, scale):
    assert (np.abs(own - engine) <= OF_SCALE * scale + OF_VALUE * np.abs(engine)).all(), (own, engine)

by_hand = importlib.util.module_from_spec(importlib.util.spec_from_file_location("decode", EXAMPLE))
by_hand.__spec__.loader.exec_module(by_hand)


def file_of(case):
    return str(ROOT / "paper" / "models" / f"{case}.safetensors")


def test_the_example_has_thirty_lines():
    """Of code: without comments, docstrings and empty lines."""
    tree = ast.parse(EXAMPLE.read_text())
    blocks = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.FunctionDef)) and ast.get_docstring(n)]
    said = {line for n in blocks for line in range(n.body[0].lineno, n.body[0].end_lineno + 1)}
    with EXAMPLE.open("rb") as f:
        tokens = [t for t in tokenize.tokenize(f.readline) if t.type not in (tokenize.ENCODING, tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)]
    lines = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)} - said
    assert 20 < len(lines) <= 30


@pytest.mark.parametrize("case", MAPS)
def test_numpy_alone_decides_as_direct_before_projection(case):
    tensors, metadata = by_hand.read(file_of(case))
    scale, state_scale = tensors["norm_decoder_u.scale"], tensors["norm_decoder_s.scale"]
    with gpc.open(case, threads=1) as s:
        lo, hi = (v.astype(np.float32) for v in s.spec.bounds)
        n, compared = 40, 0
        state, context = (np.array(v) for v in zip(*(s.observe(i) for i in range(n))))
        for w in (None, np.full(len(s.spec.objectives), 1 / len(s.spec.objectives))):
            z = s.encode(state, context, w)
            plans, states = s.decode(z, state, context)
            elsewhere, _ = s.decode(z[::-1].copy(), state, context)
            for i in range(n):
                own = by_hand.encode(tensors, metadata, state[i], context[i], w)
                assert_rounded(own, z[i], np.abs(z).max())
                if case.startswith("integrator"):
                    base = context[i, :2]  # u₋₁
                else:  # whatever it is: the plan of another latent less what D_u says of that
                    base = elsewhere[i] - by_hand.decode(tensors, z[n - 1 - i])
                inside = (elsewhere[i] > lo) & (elsewhere[i] < hi)
                plan = by_hand.decode(tensors, own, base=base, lo=lo, hi=hi)
                assert_rounded(plan[inside], plans[i][inside], scale[inside])
                assert_rounded(by_hand.decode(tensors, own, "s"), states[i], state_scale)
                compared += inside.sum()
        assert compared > n * len(lo)


def test_the_example_repeats_the_decisions_of_a_trace(command, cart, tmp_path):
    """Those of direct that its projection left as they were, from the trace and the map's file alone."""
    file = str(tmp_path / "t.jsonl")
    code, _, err = command("eval", "integrator-convex", "--method", "direct", "--episodes", "12", "--seed", "991", "--backend", "cpu", "--trace", file)
    assert code == 0, err
    t, (lo, hi) = gpc.traces.read(file), cart.spec.bounds
    lines = [{"s": s.tolist(), "c": c.tolist(), "base": c[:2].tolist(), "lo": lo.tolist(), "hi": hi.tolist()} for s, c in zip(t["x"], t["c"])]
    p = subprocess.run(
        [sys.executable, EXAMPLE, file_of("integrator-convex")], input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, check=True
    )
    printed = np.array([json.loads(line)["plan"] for line in p.stdout.splitlines()])
    plans, _ = cart.decode(cart.encode(t["x"], t["c"]), t["x"], t["c"])
    scale = by_hand.read(file_of("integrator-convex"))[0]["norm_decoder_u.scale"]
    assert_rounded(printed, plans, scale)
    alone = (plans == t["u"]).all(axis=1)
    assert alone.sum() > 2  # most begin or end at the limit of the slew
    assert_rounded(printed[alone], t["u"][alone], scale)


def test_a_map_goes_out_and_comes_back(tmp_path):
    state = gpc.models.state_dict(case="opf30")
    tensors, _ = by_hand.read(file_of("opf30"))
    assert state.keys() == tensors.keys()
    for name, a in state.items():
        np.testing.assert_array_equal(a, tensors[name])
    out = tmp_path / "again.safetensors"
    about = gpc.models.save(state, file_of("opf30"), out, command="a test")
    template = gpc.models.load(file_of("opf30")).about()
    made_of = about["provenance"]
    assert about["tensors"] == template["tensors"] and about["calibration"] == template["calibration"] and about["case"] == "opf30"
    assert "outside" in made_of["command"] and made_of["command"].endswith("a test") and made_of["initial_sha256"] == template["sha256"]
    assert made_of["samples"] == 0 and made_of["dataset_sha256"] == "" and made_of["problem_sha256"] == template["provenance"]["problem_sha256"]
    with gpc.open("opf30", threads=1) as a, gpc.open("opf30", str(out), threads=1) as b:
        x = a.observe(1)
        np.testing.assert_array_equal(a.decide(*x).u, b.decide(*x).u)
        state["decoder_u.2.bias"] = state["decoder_u.2.bias"] - np.float32(0.01)
        gpc.models.save(state, gpc.models.load(case="opf30"), out, calibration={"tau_geom": template["calibration"]["tau_geom"] / 2})
        with gpc.open("opf30", str(out), threads=1) as c:
            z = a.encode(*(v[None] for v in x))
            shifted, plan = (s.decode(z, *(v[None] for v in x))[0][0] for s in (c, a))
        lo, hi = (v.astype(np.float32) for v in a.spec.bounds)
    inside = (plan > lo) & (plan < hi)
    assert inside.sum() > 6
    np.testing.assert_allclose((shifted - plan)[inside], -0.01 * state["norm_decoder_u.scale"][inside], rtol=1e-2, atol=1e-6)
    calibration = gpc.models.load(str(out)).about()["calibration"]
    assert calibration["tau_geom"] == template["calibration"]["tau_geom"] / 2 and calibration["objective_nadir"] == template["calibration"]["objective_nadir"]


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda s: s.pop("encoder_x.0.weight"), "encoder_x.0.weight is missing"),
        (lambda s: s.update(wind=np.zeros(3)), 'unknown tensor "wind"'),
        (lambda s: s.update({"decoder_u.0.bias": np.zeros(3)}), "biases"),
        (lambda s: s.update({"decoder_u.0.bias": s["decoder_u.0.bias"].astype(int)}), "decoder_u.0.bias is an array of int"),
        (lambda s: s.update({"decoder_u.0.bias": np.full_like(s["decoder_u.0.bias"], np.nan)}), "not finite float32"),
        (lambda s: s.update({"norm_decoder_s.scale": -s["norm_decoder_s.scale"]}), "scale"),
        (lambda s: s.update({"codes": s["codes"][:, :2]}), "codes"),
    ],
)
def test_tensors_that_make_no_map_are_refused(change, named, tmp_path):
    state = gpc.models.state_dict(case="integrator-convex")
    change(state)
    with pytest.raises(gpc.InputError, match=named):
        gpc.models.save(state, file_of("integrator-convex"), tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


def test_what_is_no_map_is_refused(tmp_path):
    damaged = tmp_path / "m.safetensors"
    raw = bytearray(pathlib.Path(file_of("opf30")).read_bytes())
    raw[-1] ^= 1
    damaged.write_bytes(raw)
    with pytest.raises(gpc.InputError, match="damaged"):
        gpc.models.load(damaged)
    with pytest.raises(gpc.InputError, match="opf30"):
        gpc.models.load(file_of("opf30"), case="integrator-convex")
    with pytest.raises(gpc.InputError, match="give a file"):
        gpc.models.load()
    with pytest.raises(gpc.InputError, match="calibration"):
        gpc.models.save(gpc.models.state_dict(case="opf30"), file_of("opf30"), damaged, calibration={"tau": 1})


def test_a_map_goes_through_torch(tmp_path):
    torch = pytest.importorskip("torch", reason="the extra gpc[torch] is not installed")
    state = gpc.models.state_dict(case="opf30")
    m = gpc.models.to_torch(file_of("opf30"))
    assert list(m.state_dict()) == list(state) or m.state_dict().keys() == state.keys()
    out = tmp_path / "m.safetensors"
    gpc.models.save(m.state_dict(), file_of("opf30"), out)
    with gpc.open("opf30", str(out), threads=1) as s:
        x, c = (v[None] for v in s.observe(0))
        z = s.encode(x, c)
        slot = np.zeros((1, 1 + len(s.spec.objectives)))
        own = m.encode(torch.tensor(np.concatenate([x, c, slot], 1), dtype=torch.float32))
        np.testing.assert_allclose(own.detach().numpy(), z, atol=1e-4)
        np.testing.assert_allclose(m.state(own).detach().numpy(), s.decode(z, x, c)[1], atol=1e-4)


@pytest.fixture(scope="module")
def dataset(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "d"
    code, _, err = command("dataset", "opf30", "--scenarios", "6", "--weights", "2", "--chunk", "2", "--seed", "991", "--out", str(folder))
    assert code == 0, err
    return str(folder)


def test_a_dataset_is_arrays(dataset):
    d = gpc.data.load(dataset)
    with gpc.open("opf30", threads=1) as s:
        spec = s.spec
    n = len(d)
    assert n > 6 and n == sum(json.loads(p.read_text())["rows"] for p in pathlib.Path(dataset).glob("part-*.json"))
    for name, width in (("s", spec.state), ("c", spec.context), ("u", spec.action), ("target", spec.action), ("w", spec.objectives), ("sigma", spec.objectives), ("J", spec.objectives), ("margin", spec.margins)):
        a = getattr(d, name)
        assert a.shape == (n, len(width)) and a.dtype == np.float32 and np.isfinite(a).all(), name
    assert [v["name"] for v in d.layout["s"]] == [v.name for v in spec.state]
    assert set(d.scenario) <= set(range(6)) and d.adaptive.dtype == bool and 0 < d.adaptive.sum() < n
    np.testing.assert_allclose(d.w[~d.adaptive].sum(1), 1, rtol=1e-5)
    assert not d.w[d.adaptive].any()
    np.testing.assert_allclose(d.sigma[~d.adaptive], d.w[~d.adaptive])
    columns = d.columns()
    np.testing.assert_array_equal(columns["u_1"], d.u[:, 1])
    assert columns["kkt"].shape == (n,) and len(columns) == 6 + sum(getattr(d, k).shape[1] for k in ("s", "c", "u", "target", "w", "sigma", "J", "margin"))


def test_a_dataset_is_a_table(dataset):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra gpc[arrow] is not installed")
    import pyarrow.parquet as parquet

    d = gpc.data.load(dataset)
    table = d.table()
    parts = pyarrow.concat_tables(parquet.read_table(p) for p in sorted(pathlib.Path(dataset).glob("part-*.parquet")))
    assert set(table.column_names) == set(parts.column_names) and table.num_rows == parts.num_rows == len(d)
    for name in parts.column_names:
        assert table[name].to_pylist() == parts[name].to_pylist(), name
    assert table.field("s_0").metadata[b"name"].decode() == d.layout["s"][0]["name"] and table.field("w_0").metadata[b"unit"] == b"1"


def test_what_is_no_dataset_is_refused(dataset, tmp_path):
    with pytest.raises(gpc.InputError, match="dataset.json"):
        gpc.data.load(tmp_path)
    with pytest.raises(gpc.InputError, match="no folder"):
        gpc.data.load()
    with pytest.raises(gpc.InputError):
        gpc.data.load(dataset, dataset)


def test_a_trace_is_columns_and_its_decisions_are_made_again(command, tmp_path):
    for case, method in (("integrator-convex", "navigator"), ("opf30", "direct")):
        file = tmp_path / f"{case}.jsonl"
        code, _, err = command("eval", case, "--method", method, "--episodes", "2", "--seed", "991", "--trace", str(file), "--backend", "cpu")
        assert code == 0, err
        t = gpc.traces.read(file)
        with gpc.open(case, threads=1, backend="cpu") as s, s.loop(method) as loop:
            spec = s.spec
            n = len(t)
            assert t.header["case"] == case and t.header["trace"] == 3 and t.episodes == [0, 1] and n == sum(t["episode"] == e for e in (0, 1)).sum()
            assert t["x"].shape == (n, len(spec.state)) and t["c"].shape == (n, len(spec.context)) and t["u"].shape == (n, len(spec.action))
            assert {e["safe"] for e in t.ends} <= {True, False} and len(t.scenes) == 2
            for i in range(n):
                if t["t"][i] == 0:
                    loop.reset()
                np.testing.assert_array_equal(loop.decide(t["x"][i], t["c"][i]).u, t["u"][i])
        code, out, _ = command("verify", str(file), "--json")
        assert code == 0 and json.loads(out)["trace_sha256"] == t.sha256
        raw = file.read_bytes()
        file.write_bytes(raw.replace(b'"latency_us":', b'"latency_us":1', 1))
        with pytest.raises(gpc.InputError, match="damaged"):
            gpc.traces.read(file)
        file.write_bytes(raw[:-200])
        assert gpc.traces.read(file).episodes == [0]
        file.write_bytes(raw.replace(b'{"trace":3', b'{"trace":9', 1))
        with pytest.raises(gpc.InputError, match="trace"):
            gpc.traces.read(file)


def test_a_trace_of_the_version_before_is_read():
    t = gpc.traces.read(pathlib.Path(__file__).parent / "data" / "trace-2.jsonl")
    assert t.header["trace"] == 2 and t.episodes == [0] and len(t) == 20 and t["c"].shape == (20, 0) and np.isfinite(t["u"]).all() and np.isfinite(t["residual"]).all()


def test_a_trace_is_a_frame():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = gpc.traces.read(ROOT / "python" / "tests" / "data" / "trace-2.jsonl").frame()
    assert isinstance(frame, pandas.DataFrame) and {"episode", "t", "x_0", "u_1", "margin"} <= set(frame.columns)
