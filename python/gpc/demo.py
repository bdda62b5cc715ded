"""python -m gpc.demo: decides, refines 4096 candidates, drives one episode under several preferences, and draws all of it.

It draws demo.png by matplotlib where that is installed, else demo.svg by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any
from xml.sax.saxutils import escape

import gpc
from gpc import traces

Curve = tuple[str, list[float], list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpc.demo", description=__doc__)
    parser.add_argument("--case", default="integrator-nonconvex", help="a name of gpc.cases()")
    parser.add_argument("--candidates", type=int, default=4096)
    parser.add_argument("--out", default="out/python-demo", help="folder to write")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with gpc.open(options.case) as s:
        about = s.about()
        print(f"{s.spec.name}: {s.spec.description}\nbackend {about['backend']} ({about['isa']}, {about['threads']} threads)\n")
        state, context = s.observe()
        d = s.decide(state, context)
        for v, u in zip(s.spec.action, d.u):
            print(f"  {v.name:<10} {u:12.6f} {v.unit}")
        print(f"  {'margin':<10} {float(d.margin):12.1e}   fallbacks: {', '.join(d.fallbacks) or 'none'}\n")

        start = time.perf_counter()
        r = s.refine(state, context, candidates=options.candidates)
        print(f"best of {r['candidates']} candidates, {r['feasible_candidates']} of them feasible, in {1e3 * (time.perf_counter() - start):.0f} ms: "
              f"cost {r['cost']:.6f}, one latent step alone {r['localized_cost']:.6f}")
        with open(os.path.join(options.out, "refinement.json"), "w", encoding="utf-8") as f:
            json.dump(r, f)

        trace = os.path.join(options.out, "episode.jsonl")
        if os.path.exists(trace):
            os.remove(trace)
        e = s.evaluate(episodes=1, trace=trace)
        print(f"one episode by {e['method']}: {e['decisions']} decisions, safe {e['safe']:.0f}, median {e['latency_us']['p50']:.0f} µs each")
        front, ways = preferences(s, options.out)
        print(f"the same episode under {len(front[0][1])} preferences between {s.spec.objectives[0].name} and {s.spec.objectives[1].name}")
        file = draw(options.out, r, *states(trace, s.spec), front, ways)
    print(file)


def states(trace: str, spec: gpc.Spec) -> tuple[list[float], list[Curve]]:
    """Time, s, and the measured states of the episode of a trace."""
    with open(trace, encoding="utf-8") as f:
        steps = [x for x in map(json.loads, f) if "x" in x]
    t = [spec.step_s * x["t"] for x in steps]
    return t, [(f"{v.name} {v.unit}".rstrip(), t, [x["x"][i] for x in steps]) for i, v in enumerate(spec.state[:6])]


def preferences(s: gpc.Session, folder: str, steps: int = 6) -> tuple[list[Curve], list[Curve]]:
    """The costs of an episode for its first two objectives under preferences between them, and the ways in the plane of a
    case whose first two states are coordinates of a plane."""
    first, second = s.spec.objectives[:2]
    placed = [v.unit for v in s.spec.state[:2]] == ["m", "m"]
    costs, ways = [], []
    for k in range(steps + 1):
        w = [1 - k / steps, k / steps, *[0.0] * (len(s.spec.objectives) - 2)]
        file = os.path.join(folder, "preference.jsonl")
        if os.path.exists(file):
            os.remove(file)
        s.evaluate(episodes=1, preference=w, trace=file, progress=False)
        run = traces.read(file)
        costs.append((run["J"][:, 0].sum(), run["J"][:, 1].sum()))
        if placed:
            ways.append((f"{first.name} {w[0]:.0%}", run["x"][:, 0].tolist(), run["x"][:, 1].tolist()))
    x, y = zip(*costs)
    return [(f"{second.name} against {first.name}", [float(v) for v in x], [float(v) for v in y])], ways


def draw(folder: str, refinement: dict[str, Any], t: list[float], curves: list[Curve], front: list[Curve], ways: list[Curve]) -> str:
    """Draws cost against candidates, the states of an episode, its front and its ways, and names the file."""
    rounds = refinement["rounds"]
    panels = [
        ("cost of the best", "candidates", [("best so far", [r["candidates"] for r in rounds], [r["cost"] for r in rounds]),
                                            ("one latent step", [rounds[0]["candidates"], rounds[-1]["candidates"]], [refinement["localized_cost"]] * 2)]),
        ("measured state", "time, s", curves),
        ("front: costs of one episode", front[0][0].partition(" against ")[2], front),
    ]
    if ways:
        panels.append(("its ways by preference", "m", ways))
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        file = os.path.join(folder, "demo.svg")
        with open(file, "w", encoding="utf-8") as f:
            f.write(svg(panels))
        return file
    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for i, (title, across, lines) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), i + 1, title=title, xlabel=across)
        for name, x, y in lines:
            axes.plot(x, y, marker="o" if lines is front else None, label=name)
        axes.legend()
    file = os.path.join(folder, "demo.png")
    figure.savefig(file, dpi=120)
    return file


COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf")


def svg(panels: list[tuple[str, str, list[Curve]]]) -> str:
    """Panels of curves side by side."""
    width, height, left, top, room = 480, 320, 70, 40, 60
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(panels)}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width * len(panels)}" height="{height}" fill="white"/>']
    for i, (title, across, lines) in enumerate(panels):
        x0, x1 = span([v for _, x, _ in lines for v in x])
        y0, y1 = span([v for _, _, y in lines for v in y])
        wide, high = width - left - 20, height - top - room

        def place(x: float, y: float) -> str:
            return f"{i * width + left + wide * (x - x0) / (x1 - x0):.1f},{top + high * (y1 - y) / (y1 - y0):.1f}"

        parts.append(f'<rect x="{i * width + left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>')
        parts.append(f'<text x="{i * width + left}" y="{top - 12}" font-size="14">{escape(title)}</text>')
        parts.append(f'<text x="{i * width + left + wide / 2}" y="{height - 26}" text-anchor="middle">{escape(across)}</text>')
        for v, at in ((y0, top + high), (y1, top + 10)):
            parts.append(f'<text x="{i * width + left - 6}" y="{at}" text-anchor="end">{v:.6g}</text>')
        for v, at in ((x0, left), (x1, left + wide)):
            parts.append(f'<text x="{i * width + at}" y="{top + high + 16}" text-anchor="middle">{v:.6g}</text>')
        for k, (name, x, y) in enumerate(lines):
            colour = COLOURS[k % len(COLOURS)]
            parts.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(place(a, b) for a, b in zip(x, y))}"/>')
            parts.append(f'<text x="{i * width + left + wide - 6}" y="{top + 16 + 15 * k}" text-anchor="end" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def span(v: list[float]) -> tuple[float, float]:
    """The range of an axis, never empty."""
    return min(v), max(v) if max(v) > min(v) else min(v) + 1


if __name__ == "__main__":
    main()
