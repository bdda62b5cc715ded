"""Draws the curves and writes the tables of docs/results/baselines.md: report.py RESULTS, a device's folder of
lab/results with the baselines folder that all.py and search.py leave; evaluations are also those beside it."""

from __future__ import annotations

import collections
import io
import math
import pathlib
import re
import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "gpc", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
from matplotlib import pyplot as plt  # noqa: E402

import all as queue  # noqa: E402
import point  # noqa: E402
import search  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, FIGURES = ROOT / "docs" / "results" / "baselines.md", ROOT / "docs" / "baselines"
BEGIN, END = "<!-- {}: written by lab/baselines/report.py -->", "<!-- end of {} -->"
METHODS = ["td3", "ppo", "ppo-lagrangian", "cpo", "ppo-shielded", "td3-penalty"]
# Published returns of the known answers (rl-baselines3-zoo, benchmark.md) and the point's best.
PUBLISHED = {("pendulum", "td3"): (-151.9, 90.2), ("pendulum", "ppo"): (-172.2, 104.2)}


def curves(folder: pathlib.Path) -> dict:
    """task → method → seed → rows, of runs that have some."""
    out: dict = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(folder.glob("*.csv")):
        if path.stem in ("evaluations", "cost"):
            continue
        name, _, seed = path.stem.rpartition("-")
        method = next(m for m in sorted(METHODS, key=len, reverse=True) if name.endswith("-" + m))
        rows = [{k: float(v) for k, v in r.items()} for r in queue.read(path)]
        if rows:
            out[name.removesuffix("-" + method)][method][int(seed)] = rows
    return out


def ended(runs: dict, task: str, method: str) -> list[dict[str, float]]:
    """The last lines of the trainings that had all of their interactions, but for an epoch."""
    interactions = next(p[3] for p in queue.PLAN if p[:2] == (task, method))
    last = [rows[-1] for _, rows in sorted(runs.get(task, {}).get(method, {}).items())]
    return [r for r in last if r["interactions"] >= 0.97 * interactions]


def plain(svg: str) -> str:
    """A figure without what nobody sees: its metadata, groups' names that nothing refers to, and white space."""
    svg = re.sub(r" *<metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(?:figure|axes|patch|line2d|text|xtick|ytick|matplotlib|legend|PolyCollection|FillBetweenPolyCollection)[\w.]*"', "", svg)
    svg = re.sub(r" *\n([LCQMz])", r"\1", svg)
    return re.sub(r"(?<=[LCQM]) (?=[-\d])|^ +|(?<=\.\d\d) \n|\n(?=\")", "", svg, flags=re.MULTILINE)


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
        axes[0].axhline(point.best(point.LIMIT), color="0.5", lw=0.8, ls="--")
        axes[1].axhline(point.LIMIT, color="0.5", lw=0.8, ls="--")
    for (of, method), (mean, _) in PUBLISHED.items():
        if of == task:
            axes[0].axhline(mean, color=f"C{METHODS.index(method)}", lw=0.8, ls="--")
    axes[0].legend(frameon=False)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    hundredths = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", drawn.getvalue())  # of a point: half of the file
    (FIGURES / f"{task}.svg").write_text(plain(hundredths))
    plt.close(figure)


def table(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] + ["---:"] * (len(head) - 1), *body])


def of_seeds(values: list[float], form: str) -> str:
    """The mean over seeds, with its deviation where there are several."""
    return format(np.mean(values), form) + (f" ± {format(np.std(values, ddof=1), form)}" if len(values) > 1 else "")


def planned(task: str, method: str) -> int:
    return next(p[2] for p in queue.PLAN if p[:2] == (task, method))


def known(runs: dict) -> str:
    rows = [["task", "method", "interactions", "seeds", "return, mean ± deviation of seeds", "published or best", "return and cost in training", "limit of that cost"]]
    for task, method, seeds, _ in queue.PLAN:
        if task not in ("pendulum", "point"):
            continue
        last = ended(runs, task, method)
        want = "{:.1f} ± {:.1f} (of episodes)".format(*PUBLISHED[task, method]) if task == "pendulum" else f"{point.best(point.LIMIT):.1f}"
        own = ["–", f"0 of {seeds}", "–", want, "–", "–"]
        if last:
            own = [f"{last[0]['interactions']:.0f}", f"{len(last)} of {seeds}", of_seeds([r["return_mean"] for r in last], ".1f"), want, "–", "–"]
            if task == "point":  # the limit is of the policy that explores
                own[-2:] = " / ".join(of_seeds([r[k] for r in last], ".1f") for k in ("training_return", "training_cost")), f"{point.LIMIT:g}"
        rows.append([task, method, *own])
    return table(rows)


def searched(folder: pathlib.Path) -> str:
    """A row a training; those that are planned and not there too, with what they will take."""
    rows, left = [["method", "setting", "task", "value", "interactions", "return", "its cost", "cost in training", "limit", "score", "CPU min"]], 0.0
    for method, (setting, values, tasks) in search.GRID.items():
        for task in tasks:
            found = {v: r for v in values if (r := search.last(folder, method, v, task))}
            scores = search.scores(found, method, task) if len(found) == len(values) else {}
            limit = search.limit(method, task)
            for v in values:
                head = [f"`{method}`", f"`{setting}`", task, str(v)]
                if r := found.get(v):
                    rows.append([
                        *head, f"{r['interactions']:.0f}", f"{r['return_mean']:.5g}", f"{r['cost_mean']:.3g}", f"{r['training_cost']:.3g}",
                        f"{limit:g}" if math.isfinite(limit) else "–", f"{scores[v]:.2f}" if scores else "–", f"{r['cpu_seconds'] / 60:.1f}",
                    ])
                    continue
                seconds = search.forecast(folder.parent, method, task) or 0.0
                left += seconds
                rows.append([*head, "not recorded", *["–"] * 5, f"({seconds / 60:.1f})" if seconds else "–"])
    choices = [f"`{m}`: `{search.GRID[m][0]}` {search.chosen(folder, m) or 'is not chosen yet: not all of its trainings have ended'}." for m in search.GRID]
    if left:
        choices.append(f"What is not recorded takes about {left / 60:.0f} min of CPU time; in parentheses by what 10 000 interactions cost ([time](#time)), of the method's dearest task where its own is not measured.")
    return table(rows) + "\n\n" + " ".join(choices)


def spread(rows: list[dict], key: str, form: str, scale: float = 1) -> str:
    values = [scale * float(r[key]) for r in rows if r[key]]
    return of_seeds(values, form) if values else "–"


def below(runs: dict) -> str:
    """How many of a method's trainings end, in the mean of the last tenth, below the return of the untrained policy, and what
    its cost of limits was before and is at the end where any does."""
    if not runs:
        return "–"
    ends = [(rows[0], rows[-max(1, (len(rows) - 1) // 10) :]) for _, rows in sorted(runs.items())]
    mean = lambda rows, key: float(np.mean([r[key] for r in rows]))  # noqa: E731
    worse = [(first, last) for first, last in ends if mean(last, "return_mean") < first["return_mean"]]
    if not worse:
        return f"0 of {len(ends)}"
    cost = [np.mean([first["cost_mean"] for first, _ in worse]), np.mean([mean(last, "cost_mean") for _, last in worse])]
    return f"{len(worse)} of {len(ends)} (cost of limits {cost[0]:.3g} → {cost[1]:.3g})"


def results(found: list[dict], runs: dict) -> str:
    """A row a method of each case, of all its seeds; the ones that are planned and not there too."""
    out = [[
        "case", "loads", "method", "seeds", "end below the untrained return", "episodes", "safe %", "its 95 %, all seeds within", "collision-free %", "decisions that keep every limit %", "answered by the safeguard, of decisions",
        "regret %, n", "cost", "p50 µs",
    ]]
    for case, (_, _, regimes) in queue.EVALUATE.items():
        task = case.removesuffix("-uncertain")
        for method in [m for m in METHODS if any(p[:2] == (task, m) for p in queue.PLAN)]:
            for regime in regimes:
                for name in [method] if method == "ppo-shielded" else [method, method + "+safeguard"]:
                    rows = sorted((r for r in found if (r["case"], r["regime"], r["method"]) == (case, regime, name)), key=lambda r: int(r["training_seed"]))
                    head = [case, regime or "–", f"`{name}`", f"{len(rows)} of {planned(task, method)}", below(runs.get(task, {}).get(method, {}))]
                    if not rows:
                        out.append(head + ["–"] * (len(out[0]) - len(head)))
                        continue
                    regret = [float(r["regret_pct"]) for r in rows if r["regret_pct"]]
                    out.append([
                        *head, rows[0]["episodes"], spread(rows, "safe", ".1f", 100), f"[{100 * min(float(r['safe_lo']) for r in rows):.1f}, {100 * max(float(r['safe_hi']) for r in rows):.1f}]",
                        spread(rows, "collision_free", ".1f", 100), spread(rows, "feasible", ".2f", 100), f"{sum(int(r['fallback']) for r in rows)} of {sum(int(r['decisions']) for r in rows)}",
                        f"{of_seeds(regret, '.2f')}, {', '.join(r['regret_n'] for r in rows)}" if regret else "–", spread(rows, "cost_mean", ".4g"), spread(rows, "p50_us", ".0f"),
                    ])
    return table(out)


def costs(results_folder: pathlib.Path, runs: dict) -> str:
    """What the queue takes."""
    rate = queue.seconds(results_folder)
    rows, total = [["task", "method", "CPU s of 10 000 interactions", "interactions", "CPU min a training", "seeds", "CPU min, all", "as trained, CPU min"]], 0.0
    for task, method, seeds, interactions in queue.PLAN:
        took = [r["cpu_seconds"] / 60 for r in ended(runs, task, method)]
        per, forecast = rate.get((task, method)), ["–"] * 3
        if per:
            minutes = per * interactions / 600_000
            total += seeds * minutes
            forecast = [f"{per:.3g}", f"{minutes:.1f}", f"{seeds * minutes:.1f}"]
        rows.append([task, f"`{method}`", forecast[0], str(interactions), forecast[1], str(seeds), forecast[2], of_seeds(took, ".1f") if took else "–"])
    rows.append(["all that is measured", "", "", "", "", str(sum(seeds for task, method, seeds, _ in queue.PLAN if (task, method) in rate)), f"{total:.0f}", ""])
    return table(rows)


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
    replace("search", searched(folder))
    replace("curves", "\n".join(f"![return and cost of every method on {task}, over interactions](../baselines/{task}.svg)\n" for task in runs))
    replace("results", results([r for f in sorted(folder.resolve().parents[1].glob("*/baselines/evaluations.csv")) for r in queue.read(f)], runs))
    replace("time", costs(folder.parent, runs))


if __name__ == "__main__":
    main(*sys.argv[1:])
