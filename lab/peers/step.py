#!/usr/bin/env python3
"""Times the latent step of gpc beside PyTorch (eager, torch.compile) and JAX (jit).

The step is that of `gpc bench step --case size:opf30`: D_s and D_u of the OPF sizes,
the field −∇V by automatic differentiation, RK2 with its cap, the metric JᵀJ + λI from
forward-mode Jacobians, its top three eigenpairs from eigh, the Lie residual, decode and
clip. Weights and inputs are gpc's own, from its --record file; every program's results
are compared with gpc's before any is timed.

    step.py --gpc bin/gpc --out peers-step.json [--batch 4096] [--backend cpu|cuda]

Programs take turns, --rounds times. On a GPU the least time of each turn counts; on
the CPU the mean CPU time of its calls, which other work on the machine does not
stretch, with one thread for every program. A ratio is the least of all of the
peer's turns over the least of ours, lo and hi are the least and largest of the rounds'
own ratios. Peers compute in float32 (TF32 off) on a GPU where their build has one and
--backend is not cpu. A program that is not installed is left out, and named.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gpc", default="bin/gpc", help="the gpc binary")
    p.add_argument("--out", required=True, help="file for the record")
    p.add_argument("--batch", type=int, default=4096)
    p.add_argument("--backend", choices=["cpu", "cuda"], default=None, help="default: cuda where torch or jax find a GPU")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1.0, help="of each program's turn")
    p.add_argument("--threads", type=int, default=1, help="of every program on the CPU")
    return p.parse_args()


def gpc(a, backend, seconds, record=None):
    """One turn of ours: the time of a step in µs, by the clock of the backend, and the record's head."""
    command = [a.gpc, "bench", "step", "--case", "size:opf30", "--batch", str(a.batch), "--backend", backend,
               "--threads", str(a.threads), "--time", f"{seconds}s", "--json"]
    if record:
        command += ["--record", record]
    out = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    row = next(r for r in out["results"] if r["op"] == "step")
    return row["min_us"] if backend == "cuda" else row["cpu_us"], out


CONSTANTS = ("dt", "vmax", "epsilon", "lambda", "top_k", "lie_gain", "lie_scale")


def constants(metadata):
    """The numbers of a recorded step. Its metadata also holds checksums, which are none."""
    c = {k: float(metadata[k]) for k in CONSTANTS}
    c["top_k"] = int(c["top_k"])
    assert c["top_k"] == 3, "the rotation here is that of three eigenvectors"
    return c


LAYERS = 3
DELTA = 1e-12  # δ_v of the cap


def torch_step(data, c, device):
    import torch
    from torch.func import grad, jacfwd, vmap

    torch.set_float32_matmul_precision("highest")
    t = {k: torch.tensor(v, device=device) for k, v in data.items()}

    def net(name, z):
        for i in range(LAYERS):
            z = z @ t[f"{name}.{i}.weight"].T + t[f"{name}.{i}.bias"][0]
            if i < LAYERS - 1:
                z = torch.relu(z)
        return z

    def energy(z, x, w):
        s, u = net("decoder_s", z), net("decoder_u", z)
        v = ((x - s) ** 2).sum(-1) / c["epsilon"] + w[:, 0] * (s * s).sum(-1) / 2 + w[:, 1] * (u * u).sum(-1) / 2
        return v.sum()

    def cap(v):
        return v * torch.clamp(c["vmax"] / (torch.linalg.vector_norm(v, dim=-1, keepdim=True) + DELTA), max=1.0)

    def advance(field, z, x, w):
        k1 = cap(field(z, x, w))
        k2 = cap(field(z + 0.5 * c["dt"] * k1, x, w))
        dz = c["dt"] * k2
        j = vmap(jacfwd(lambda v: net("decoder_s", v)))(z)
        g = j.transpose(1, 2) @ j + c["lambda"] * torch.eye(z.shape[1], device=z.device)
        values, vectors = torch.linalg.eigh(g)
        values, b = values[:, -3:].flip(-1), vectors[:, :, -3:].flip(-1)
        lead = torch.gather(b, 1, b.abs().argmax(1, keepdim=True))
        b = b * torch.where(lead < 0, -1.0, 1.0)
        local = torch.einsum("bnk,bn->bk", b, dz)
        angle = torch.einsum("bnk,bn->bk", b, k2) * (c["lie_scale"] * c["dt"] / values.sqrt())
        theta = torch.linalg.vector_norm(angle, dim=-1, keepdim=True).clamp_min(1e-20)
        axis = angle / theta
        turned = (local * theta.cos() + torch.linalg.cross(axis, local) * theta.sin()
                  + axis * (axis * local).sum(-1, keepdim=True) * (1 - theta.cos()))
        moved = z + dz + c["lie_gain"] * torch.einsum("bnk,bk->bn", b, turned - local)
        return moved, net("decoder_u", moved).clamp(-3.0, 3.0)

    def eager_field(z, x, w):
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return -torch.autograd.grad(energy(z, x, w), z)[0]

    def functional_field(z, x, w):
        return -grad(energy)(z, x, w)

    inputs = (t["z"], t["x"], t["weights"])

    def finish(result):
        if device != "cpu":
            torch.cuda.synchronize()
        return result

    def run(step):
        with torch.no_grad():
            return finish(step(*inputs))

    compiled = torch.compile(lambda z, x, w: advance(functional_field, z, x, w), dynamic=False)
    return {
        f"PyTorch {torch.__version__.split('+')[0]}, eager": lambda: run(lambda z, x, w: advance(eager_field, z, x, w)),
        f"PyTorch {torch.__version__.split('+')[0]}, torch.compile": lambda: run(compiled),
    }, lambda r: [v.cpu().numpy() for v in r]


def jax_step(data, c, device):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")
    where = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    t = {k: jax.device_put(v, where) for k, v in data.items()}

    def net(name, z):
        for i in range(LAYERS):
            z = z @ t[f"{name}.{i}.weight"].T + t[f"{name}.{i}.bias"][0]
            if i < LAYERS - 1:
                z = jax.nn.relu(z)
        return z

    def energy(z, x, w):
        s, u = net("decoder_s", z), net("decoder_u", z)
        return jnp.sum((x - s) ** 2) / c["epsilon"] + jnp.sum(w[:, 0] * jnp.sum(s * s, -1) / 2 + w[:, 1] * jnp.sum(u * u, -1) / 2)

    def cap(v):
        return v * jnp.minimum(1.0, c["vmax"] / (jnp.linalg.norm(v, axis=-1, keepdims=True) + DELTA))

    def step(z, x, w):
        field = lambda at: -jax.grad(energy)(at, x, w)
        k1 = cap(field(z))
        k2 = cap(field(z + 0.5 * c["dt"] * k1))
        dz = c["dt"] * k2
        j = jax.vmap(jax.jacfwd(lambda v: net("decoder_s", v)))(z)
        g = jnp.swapaxes(j, 1, 2) @ j + c["lambda"] * jnp.eye(z.shape[1], dtype=z.dtype)
        values, vectors = jnp.linalg.eigh(g)
        values, b = values[:, :-4:-1], vectors[:, :, :-4:-1]
        lead = jnp.take_along_axis(b, jnp.argmax(jnp.abs(b), 1, keepdims=True), 1)
        b = b * jnp.where(lead < 0, -1.0, 1.0)
        local = jnp.einsum("bnk,bn->bk", b, dz)
        angle = jnp.einsum("bnk,bn->bk", b, k2) * (c["lie_scale"] * c["dt"] / jnp.sqrt(values))
        theta = jnp.maximum(jnp.linalg.norm(angle, axis=-1, keepdims=True), 1e-20)
        axis = angle / theta
        turned = (local * jnp.cos(theta) + jnp.cross(axis, local) * jnp.sin(theta)
                  + axis * jnp.sum(axis * local, -1, keepdims=True) * (1 - jnp.cos(theta)))
        moved = z + dz + c["lie_gain"] * jnp.einsum("bnk,bk->bn", b, turned - local)
        return moved, jnp.clip(net("decoder_u", moved), -3.0, 3.0)

    jitted = jax.jit(step)
    inputs = (t["z"], t["x"], t["weights"])
    return {f"JAX {jax.__version__}, jit": lambda: jax.block_until_ready(jitted(*inputs))}, lambda r: [jax.device_get(v) for v in r]


def disagreement(name, got, want):
    """The largest and the median error of a row, relative to the largest entry. Rows whose
    unit lies at a kink of a ReLU may differ: they must be few."""
    import numpy as np

    report = {}
    for what, g, w in zip(("z", "u"), got, want):
        rows = np.abs(g.astype(np.float64) - w).max(1) / np.abs(w).max()
        if not np.isfinite(rows).all() or (rows > 1e-3).mean() > 2e-3 or np.median(rows) > 1e-5:
            sys.exit(f"{name} disagrees with gpc in {what}: median {np.median(rows):.2g}, largest {rows.max():.2g}, above 1e-3 in {(rows > 1e-3).sum()} rows")
        report[what] = {"median": float(np.median(rows)), "max": float(rows.max())}
    return report


def turn(f, seconds, backend):
    """The time of f in µs over about so many seconds, three calls at least: the least of a
    call on a GPU, the mean of the CPU time on the CPU."""
    times, start, computed = [], time.perf_counter(), time.process_time()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        f()
        times.append(time.perf_counter() - before)
    return 1e6 * (min(times) if backend == "cuda" else (time.process_time() - computed) / len(times))


def main():
    a = arguments()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
    if a.threads == 1:
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    missing, modules = [], {}
    for name in ("torch", "jax", "safetensors"):
        try:
            modules[name] = __import__(name)
        except ImportError as e:
            missing.append(name)
            print(f"peers: {name} is not installed: {e}", file=sys.stderr)
    if "safetensors" in missing or {"torch", "jax"} <= set(missing):
        sys.exit("peers: safetensors and one of torch and jax are needed: pip install torch jax safetensors numpy")
    found = {}
    if "torch" in modules:
        modules["torch"].set_num_threads(a.threads)
        found["torch"] = modules["torch"].cuda.is_available()
    if "jax" in modules:
        found["jax"] = modules["jax"].default_backend() == "gpu"
    backend = a.backend or ("cuda" if any(found.values()) else "cpu")

    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "step.safetensors")
        _, head = gpc(a, backend, 0.05, file)
        with safe_open(file, "np") as f:
            c, data = constants(f.metadata()), {k: f.get_tensor(k) for k in f.keys()}
    want = data.pop("z_next"), data.pop("u")
    programs, agreement = {}, {}
    for name, make in (("torch", torch_step), ("jax", jax_step)):
        if name in missing:
            continue
        if backend == "cuda" and not found[name]:
            print(f"peers: {name} finds no GPU and is left out", file=sys.stderr)
            continue
        made, host = make(data, c, backend)
        for label, f in made.items():
            agreement[label] = disagreement(label, host(f()), want)
            f()
            programs[label] = f
    ours, peers = [], {label: [] for label in programs}
    for r in range(a.rounds):
        ours.append(gpc(a, backend, a.seconds)[0])
        for label, f in programs.items():
            peers[label].append(turn(f, a.seconds, backend))
        print(f"peers: round {r + 1}: gpc {ours[-1]:.0f} µs, " + ", ".join(f"{k} {v[-1]:.0f} µs" for k, v in peers.items()), file=sys.stderr)
    ratios = []
    for label, times in peers.items():
        each = [t / o for t, o in zip(times, ours)]
        ratios.append({"op": "step", "case": "opf30 size", "peer": label, "batch": a.batch, "ratio": min(times) / min(ours),
                       "lo": min(each), "hi": max(each), "ours_us": min(ours), "peer_us": min(times)})
    record = {
        "device": head["device"], "commit": head["commit"], "command": " ".join(sys.argv), "backend": backend,
        "threads": a.threads, "rounds": a.rounds, "load_average": os.getloadavg()[2],
        "note": ("One run; programs take turns and the least "
                 + ("time of each counts." if backend == "cuda" else "CPU time of each counts, one thread each.")
                 + " Float32, the same weights and inputs, results compared before any is timed."),
        "agreement": agreement, "missing": [f"{m} (not installed)" for m in missing], "ratios": ratios,
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    partial = a.out + ".tmp"
    with open(partial, "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(partial, a.out)
    for r in ratios:
        print(f"{r['peer']}: {r['ratio']:.2f} times ours [{r['lo']:.2f}, {r['hi']:.2f}]", file=sys.stderr)


if __name__ == "__main__":
    main()
