"""Draws the curves and writes the table of docs/baselines.md: report.py RESULTS, a device's folder of
bench/results with the baselines folder that all.py leaves."""

from __future__ import annotations

import collections
import csv
import pathlib
import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "gpc", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
from matplotlib import pyplot as plt  # noqa: E402

import point  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, FIGURES = ROOT / "docs" / "baselines.md", ROOT / "docs" / "baselines"
BEGIN, END = "<!-- {}: written by baselines/report.py -->", "<!-- end of {} -->"
METHODS = ["td3", "ppo", "ppo-lagrangian", "cpo", "ppo-shielded"]
# Published returns of the known answers (rl-baselines3-zoo, benchmark.md) and the point's best.
PUBLISHED = {("pendulum", "td3"): (-151.9, 90.2), ("pendulum", "ppo"): (-172.2, 104.2)}


def curves(folder: pathlib.Path) -> dict:
    """task → method → seed → rows."""
    out: dict = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(folder.glob("*.csv")):
        if path.stem == "evaluations":
            continue
        name, _, seed = path.stem.rpartition("-")
        method = next(m for m in sorted(METHODS, key=len, reverse=True) if name.endswith("-" + m))
        with path.open(newline="") as f:
            out[name.removesuffix("-" + method)][method][int(seed)] = [{k: float(v) for k, v in r.items()} for r in csv.DictReader(f)]
    return out


def draw(task: str, methods: dict) -> None:
    """Return and cost over interactions, each seed thin, their mean thick."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained")
    for method in [m for m in METHODS if m in methods]:
        colour = f"C{METHODS.index(method)}"
        for axis, key in zip(axes, ("return_mean", "cost_mean")):
            runs = [(np.array([r["interactions"] for r in rows]), np.array([r[key] for r in rows])) for rows in methods[method].values()]
            for x, y in runs:
                axis.plot(x / 1e3, y, color=colour, lw=0.5, alpha=0.5)
            grid = np.linspace(0, min(x[-1] for x, _ in runs), 100)
            axis.plot(grid / 1e3, np.mean([np.interp(grid, x, y) for x, y in runs], 0), color=colour, lw=1.6, label=method)
    axes[0].set(title=f"{task}: return", xlabel="thousand interactions")
    axes[1].set(title="cost: how far limits are broken, an episode", xlabel="thousand interactions")
    if task == "point":
        axes[0].axhline(point.best(int(point.LIMIT)), color="0.5", lw=0.8, ls="--")
        axes[1].axhline(point.LIMIT, color="0.5", lw=0.8, ls="--")
    for (of, method), (mean, _) in PUBLISHED.items():
        if of == task:
            axes[0].axhline(mean, color=f"C{METHODS.index(method)}", lw=0.8, ls="--")
    axes[0].legend(frameon=False)
    figure.savefig(FIGURES / f"{task}.svg", metadata={"Date": None})
    plt.close(figure)


def table(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] + ["---:"] * (len(head) - 1), *body])


def known(runs: dict) -> str:
    rows = [["task", "method", "interactions", "seeds", "return, mean ± deviation of seeds", "published or best", "return and cost in training", "limit of that cost"]]
    for task in ("pendulum", "point"):
        for method, seeds in runs.get(task, {}).items():
            last = [r[-1] for r in seeds.values()]
            returns = np.array([r["return_mean"] for r in last])
            want = "{:.1f} ± {:.1f} (of episodes)".format(*PUBLISHED[task, method]) if task == "pendulum" else f"{point.best(int(point.LIMIT)):.1f}"
            training, limit = "–", "–"
            if task == "point":  # the limit is of the policy that explores
                training, limit = " / ".join(f"{np.mean([r[k] for r in last]):.1f}" for k in ("training_return", "training_cost")), f"{point.LIMIT:g}"
            spread = f" ± {returns.std(ddof=1):.1f}" if len(returns) > 1 else ""
            rows.append([task, method, f"{last[0]['interactions']:.0f}", str(len(last)), f"{returns.mean():.1f}{spread}", want, training, limit])
    return table(rows)


def share(r: dict, key: str) -> str:
    return f"{100 * float(r[key]):.1f}" if r[key] else "–"


def results(path: pathlib.Path) -> str:
    with path.open(newline="") as f:
        rows = list(csv.DictReader(f))
    out = [["case", "loads", "method", "training seed", "episodes", "safe %", "95 %", "collision-free %", "decisions that keep every limit %", "fallbacks", "regret % (n)", "cost", "p50 µs"]]
    for r in sorted(rows, key=lambda r: (r["case"], r["regime"], METHODS.index(r["method"].split("+")[0]), r["method"], int(r["training_seed"]))):
        regret = f"{float(r['regret_pct']):.2f} ({r['regret_n']})" if r["regret_pct"] else f"– ({r['regret_n']})"
        out.append([
            r["case"], r["regime"] or "–", f"`{r['method']}`", r["training_seed"], r["episodes"], share(r, "safe"), f"[{share(r, 'safe_lo')}, {share(r, 'safe_hi')}]",
            share(r, "collision_free"), share(r, "feasible"), f"{r['fallback']} of {r['decisions']}", regret, f"{float(r['cost_mean']):.4g}" if r["cost_mean"] else "–", f"{float(r['p50_us']):.0f}",
        ])
    return table(out)


def replace(name: str, text: str) -> None:
    page = PAGE.read_text()
    begin, end = BEGIN.format(name), END.format(name)
    start, stop = page.index(begin) + len(begin), page.index(end)
    PAGE.write_text(page[:start] + "\n\n" + text + "\n\n" + page[stop:])


def main(results_folder: str) -> None:
    folder = pathlib.Path(results_folder) / "baselines"
    runs = curves(folder)
    FIGURES.mkdir(parents=True, exist_ok=True)
    for task, methods in runs.items():
        draw(task, methods)
    replace("known answers", known(runs))
    replace("curves", "\n".join(f"![return and cost of every method on {task}, over interactions](baselines/{task}.svg)\n" for task in runs))
    if (folder / "evaluations.csv").exists():
        replace("results", results(folder / "evaluations.csv"))


if __name__ == "__main__":
    main(*sys.argv[1:])
