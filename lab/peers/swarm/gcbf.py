"""Drives the pretrained networks of GCBF+ (Zhang, So, Garg and Fan, T-RO 2025) on a CPU, through their own code.

    git clone https://github.com/MIT-REALM/gcbfplus DIR && git -C DIR checkout 5e7d5cd8c3616222a29dd13dfed6ad9db5cd885e
    python3 -m venv build/peers-swarm
    build/peers-swarm/bin/python -m pip install --no-deps --require-hashes --only-binary :all: -r lab/peers/swarm/requirements.txt
    build/peers-swarm/bin/python lab/peers/swarm/gcbf.py --gcbfplus DIR --env DubinsCar --robots 32 --area 4 --out out/dubins-32.jsonl
    build/peers-swarm/bin/python lab/peers/swarm/gcbf.py --gcbfplus DIR --env DubinsCar --robots 32 --area 4 --scenes SCENES.jsonl --out FILE.jsonl

Scenes are those of its test.py with the same seed, or those of a file with one scene a line:

    {"agents": [{"p": [x, y], "theta": rad, "v": m/s, "r": 0.05, "goal": [x, y]}, …], "obstacles": [{"c": [x, y], "v": [0, 0], "r": m}, …]}

--obstacles draws its rectangles, which that format does not hold. --discs draws discs by the same rule: a start or a goal is at least four radii of
a robot from every obstacle. A double integrator starts at rest, whatever theta and v say. --steps 0 with --write-scenes only draws.

The record has a header and a line for each episode. A robot collided if `collision_mask` says so of any state, the first included, and arrived if
`finish_mask` does: within 0.1 m of its goal. `safe`, `reach` and `success` are those of test.py: the share of robots that never collided, that
arrived, and both. A path ends at the arrival, so its ratio to the straight line may be below one. `ratio_to_goal` adds the distance that is left.
CPU times are those of `act` alone, in this process, without the first two of the run and those that compile.

Its graph has an edge for every pair of robots, and those out of range end at a node that nothing reads. --edges existing leaves these out before the
network. `edges_error` is then the largest difference that this made to an action of the first states; `act` counts the selection too.
Its environments build the graph robot by robot, so that of 1024 compiles for minutes and takes 7 GB.
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import types

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

# OPTIONAL are what gcbfplus imports for its pictures, its training and other methods.
OPTIONAL = ["colour", "control", "cv2", "ipdb", "jaxproxqp", "matplotlib", "mpl_toolkits", "seaborn", "tqdm", "wandb"]
VERSIONS = ["jax", "jaxlib", "flax", "optax", "jraph", "numpy", "scipy", "tensorflow-probability"]
DISC_DIAMETERS = [0.1, 0.5]  # m, of --discs
STEP = 1000  # of the training; the only one that is published


class Stub(type):
    """Empty classes, of which every name is another."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(name, (), {})


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules whose names are all empty classes, for those of OPTIONAL that are not installed."""

    def __init__(self):
        self.names = [n for n in OPTIONAL if importlib.util.find_spec(n) is None]

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: Stub.__getattr__(Stub, name)
        return module

    def exec_module(self, module):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gcbfplus", required=True, help="folder of its checkout")
    parser.add_argument("--commit", help="of that checkout, if it is no clone of git")
    parser.add_argument("--env", required=True, choices=["DubinsCar", "DoubleIntegrator"])
    parser.add_argument("--robots", type=int, required=True)
    parser.add_argument("--area", type=float, required=True, help="side of the square, m")
    parser.add_argument("--steps", type=int, default=256, help="of 0.03 s")
    parser.add_argument("--episodes", type=int, default=20)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--obstacles", type=int, default=0, help="rectangles")
    kinds.add_argument("--discs", type=int, default=0, help="discs")
    kinds.add_argument("--scenes", help="file of the scenes to drive")
    parser.add_argument("--write-scenes", help="file for the scenes that are drawn")
    parser.add_argument("--seed", type=int, default=1234, help="of the scenes; test.py has 1234")
    parser.add_argument("--edges", choices=["all", "existing"], default="all", help="of the graph that the network has")
    parser.add_argument("--out", required=True, help="file for the record")
    options = parser.parse_args()
    if options.write_scenes and (options.obstacles or options.scenes):
        parser.error("--write-scenes: the format has discs, and --obstacles draws rectangles" if options.obstacles else "--scenes is such a file")
    sys.path.insert(0, options.gcbfplus)
    sys.meta_path.append(Stubs())
    peer = Peer(options)
    for file in filter(None, [options.out, options.write_scenes]):
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
    graphs = peer.read() if options.scenes else peer.sample()
    with open(options.out, "w", encoding="utf-8") as record, open(options.write_scenes or os.devnull, "w", encoding="utf-8") as scenes:
        write(record, peer.header())
        episodes = []
        for number, graph in enumerate(graphs):
            if options.write_scenes:
                write(scenes, peer.scene(graph))
            if options.steps:
                episodes.append({"scene": number} | peer.episode(graph))
                write(record, episodes[-1])
    summarise(options, episodes)


def write(file, value):
    file.write(json.dumps(value, allow_nan=False) + "\n")
    file.flush()


class Peer:
    """The environment and the network of a run."""

    def __init__(self, options):
        import jax
        import yaml
        from gcbfplus.algo import make_algo
        from gcbfplus.env import make_env

        self.options, self.jax = options, jax
        self.env = make_env(options.env, options.robots, options.area, options.steps, num_obs=options.discs or options.obstacles)
        if not options.obstacles:
            self.env.create_obstacles = jax.vmap(disc().create)
            self.env.params["obs_len_range"] = DISC_DIAMETERS
        folder = os.path.join(options.gcbfplus, "pretrained", options.env, "gcbf+")
        with open(os.path.join(folder, "config.yaml"), encoding="utf-8") as f:
            config = vars(yaml.load(f, Loader=yaml.UnsafeLoader))
        sizes = {k: getattr(self.env, k) for k in ["node_dim", "edge_dim", "state_dim", "action_dim"]}
        network = {k: v for k, v in config.items() if k not in ("env", "num_agents")}
        self.algorithm = make_algo(env=self.env, n_agents=options.robots, **sizes, **network)
        self.algorithm.load(os.path.join(folder, "models"), STEP)
        self.act = jax.jit(self.algorithm.act)
        self.step = jax.jit(lambda graph, action: self.env.step(graph, action)[0])
        self.masks = jax.jit(lambda graph: (self.env.collision_mask(graph), self.env.finish_mask(graph), graph.env_states.agent[:, :2]))
        self.compiled, self.cpu, self.edges = set(), [], 0

    def header(self):
        env, options = self.env, self.options
        keys = {k: v for k, v in vars(options).items() if k not in ("gcbfplus", "commit", "out", "write_scenes")}
        radius = env.params["car_radius"]
        sizes = {"dt_s": env.dt, "radius_m": radius, "arrival_m": 2 * radius, "range_m": env.params["comm_radius"], "rays": env.params["n_rays"]}
        versions = {"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in VERSIONS}
        return {"benchmark": "peers-swarm", "method": "gcbf+", "commit": commit(options), "cpu": processor()} | keys | sizes | {"versions": versions}

    def sample(self):
        """The scenes of test.py."""
        reset = self.jax.jit(self.env.reset)
        keys = self.jax.random.split(self.jax.random.PRNGKey(self.options.seed), 1000)
        for key in keys[: self.options.episodes]:
            yield reset(self.jax.random.split(key, 2)[0])

    def read(self):
        """The scenes of a file."""
        graph = self.jax.jit(self.env.get_graph)
        with open(self.options.scenes, encoding="utf-8") as f:
            for number, line in enumerate(f):
                if number == self.options.episodes:
                    return
                scene = json.loads(line)
                agents, obstacles = scene["agents"], scene.get("obstacles", [])
                if len(agents) != self.options.robots:
                    sys.exit(f"{self.options.scenes}: scene {number} has {len(agents)} robots, want {self.options.robots}")
                radius = self.env.params["car_radius"]
                if any(a["r"] != radius for a in agents) or any(any(o.get("v", [0])) for o in obstacles):
                    sys.exit(f"{self.options.scenes}: scene {number}: robots have a radius of {radius} m, and obstacles stand still")
                state, goal = np.zeros((2, len(agents), 4), np.float32)
                state[:, :2], goal[:, :2] = [a["p"] for a in agents], [a["goal"] for a in agents]
                if self.options.env == "DubinsCar":
                    state[:, 2:] = [[a.get("theta", 0), a.get("v", 0)] for a in agents]
                    goal[:, 2] = np.arctan2(*(goal - state)[:, 1::-1].T)
                center = np.reshape([o["c"] for o in obstacles], (-1, 2)).astype(np.float32)
                diameter = np.array([2 * o["r"] for o in obstacles], np.float32)
                discs = self.env.create_obstacles(center, diameter, diameter, 0 * diameter)
                yield graph(self.env.EnvState(state, goal, discs))

    def scene(self, graph):
        """A line of a file of scenes."""
        state, goal, obstacle = self.jax.device_get(graph.env_states)
        if self.options.env != "DubinsCar":
            state = state * [1, 1, 0, 0]  # its velocity, zero, is no heading
        radius = self.env.params["car_radius"]
        agents = [{"p": s[:2].tolist(), "theta": float(s[2]), "v": float(s[3]), "r": radius, "goal": g[:2].tolist()} for s, g in zip(state, goal)]
        discs = [{"c": c.tolist(), "v": [0, 0], "r": float(w) / 2} for c, w in zip(obstacle.center, obstacle.width)]
        return {"agents": agents, "obstacles": discs}

    def select(self, graph):
        """The graph with the edges of robots in range, and a number of edges at the padding node that makes their count a power of two."""
        padding = graph.nodes.shape[0] - 1
        real = np.asarray(graph.receivers) != padding
        edges, spare = np.flatnonzero(real), np.flatnonzero(~real)
        self.edges = max(self.edges, len(edges))
        count = 1 << max(len(edges), 1).bit_length()
        if count >= len(real):
            return graph
        edges = np.concatenate([edges, spare[: count - len(edges)]])
        return graph._replace(edges=graph.edges[edges], receivers=graph.receivers[edges], senders=graph.senders[edges])

    def decide(self, graph):
        """The action, with its time unless this call compiles."""
        start = time.process_time()
        selected = self.select(graph) if self.options.edges == "existing" else graph
        action = self.act(selected)
        action.block_until_ready()
        elapsed, shape = time.process_time() - start, selected.receivers.shape
        self.cpu.append(None if len(self.cpu) < 2 or shape not in self.compiled else elapsed)
        self.compiled.add(shape)
        return action

    def episode(self, graph):
        options, first = self.options, len(self.cpu)
        result = {"robots": options.robots, "area": options.area, "obstacles": int(graph.env_states.obstacle.center.shape[0]), "steps": options.steps}
        goal, started, self.edges = np.asarray(graph.env_states.goal[:, :2]), time.perf_counter(), 0
        if options.edges == "existing":
            result["edges_error"] = float(abs(self.act(graph) - self.act(self.select(graph))).max())
        contact, arrival = np.full((2, options.robots), -1)  # the first steps of these
        positions, distance = [], np.inf
        for step in range(options.steps + 1):
            if step:
                graph = self.step(graph, self.decide(graph))
            collision, finish, position = map(np.asarray, self.masks(graph))
            if not np.isfinite(position).all():
                return result | {"failed": f"a position is not finite at step {step}"}
            contact[collision & (contact < 0)] = step
            arrival[finish & (arrival < 0)] = step
            positions.append(position)
            distance = min(distance, nearest(position))
        positions, arrived, collided = np.array(positions, float), arrival >= 0, contact >= 0
        length = np.concatenate([np.zeros((1, options.robots)), np.cumsum(np.linalg.norm(np.diff(positions, axis=0), axis=2), axis=0)])
        robots = np.arange(options.robots)
        path, straight = length[arrival, robots], np.linalg.norm(goal - positions[0], axis=1)
        left = np.linalg.norm(goal - positions[arrival, robots], axis=1)
        moved = arrival > 0
        ratio, whole = (path / straight)[moved], ((path + left) / straight)[moved]
        cpu = [1e3 * v for v in self.cpu[first:] if v is not None]
        return result | {
            "collided": int(collided.sum()), "arrived": int(arrived.sum()), "succeeded": int((arrived & ~collided).sum()),
            "collision_free": not collided.any(), "all_arrived": bool(arrived.all()), "last_arrival": steps(arrival[[arrival.argmax()]])[0],
            "smallest_distance_m": float(distance) if np.isfinite(distance) else None,
            "path_m": [float(p) if a else None for p, a in zip(path, arrived)], "straight_m": straight.tolist(),
            "arrival": steps(arrival), "collision": steps(contact),
            "ratio": float(ratio.mean()) if moved.any() else None, "ratio_to_goal": float(whole.mean()) if moved.any() else None,
            "act_cpu_ms": {"median": float(np.median(cpu)), "p99": float(np.quantile(cpu, 0.99)), "count": len(cpu)} if cpu else None,
            "edge_count": self.edges or int(graph.receivers.shape[0]), "wall_s": time.perf_counter() - started,
        }


def disc():
    """The class of discs: its LiDAR knows an obstacle of the plane by the class Rectangle, whose width is here the diameter."""
    import jax.numpy as jnp
    from gcbfplus.env.obstacle import Rectangle

    class Disc(Rectangle):
        @staticmethod
        def create(center, width, height, theta):
            return Disc(*Rectangle.create(center, width, height, theta))

        def inside(self, point, r=0.0):
            return jnp.linalg.norm(point - self.center) <= self.width / 2 + r

        def raytracing(self, start, end):
            """The share of the beam up to its first point on the disc, or 1e6."""
            beam, offset = end - start, start - self.center
            a, b, c = beam @ beam, beam @ offset, offset @ offset - self.width**2 / 4
            discriminant = b * b - a * c
            share = (-b - jnp.sqrt(jnp.maximum(discriminant, 0))) / a
            return jnp.where((discriminant >= 0) & (share >= 0) & (share <= 1), share, 1e6)

    return Disc


def steps(first):
    return [int(v) if v >= 0 else None for v in first]


def nearest(position):
    """The smallest distance of two robots."""
    if len(position) < 2:
        return np.inf
    from scipy.spatial import cKDTree

    return cKDTree(position).query(position, 2)[0][:, 1].min()


def commit(options):
    result = subprocess.run(["git", "-C", options.gcbfplus, "rev-parse", "HEAD"], check=False, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else options.commit


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.processor())


def summarise(options, episodes):
    """Prints the means of a run."""
    complete = [e for e in episodes if "failed" not in e]
    if not complete:
        return
    rates = {
        "safe": [1 - e["collided"] / e["robots"] for e in complete],
        "reach": [e["arrived"] / e["robots"] for e in complete],
        "success": [e["succeeded"] / e["robots"] for e in complete],
    }
    ratio = [e["ratio"] for e in complete if e["ratio"] is not None] or [np.nan]
    cpu = [e["act_cpu_ms"]["median"] for e in complete if e["act_cpu_ms"]] or [np.nan]
    print(f"{options.env}, {options.robots} robots, {options.area} m, {complete[0]['obstacles']} obstacles, {options.steps} steps, "
          f"{len(complete)} of {len(episodes)} episodes: " + ", ".join(f"{k} {100 * np.mean(v):.2f} %" for k, v in rates.items())
          + f", {sum(e['collision_free'] for e in complete)} episodes without a collision, ratio {np.mean(ratio):.3f}, act {np.median(cpu):.2f} ms of CPU")


if __name__ == "__main__":
    main()
