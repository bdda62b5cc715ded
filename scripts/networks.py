"""Writes the table of networks into a document: networks.py FOLDER DOCUMENT, from what
scripts/networks.sh recorded in the folder."""

import json
import pathlib
import re
import sys

BEGIN, END = "<!-- networks: written by scripts/networks.sh -->", "<!-- end of networks -->"
NETWORKS = [
    ("case30", "case30", "30, MATPOWER"),
    ("case118", "case118", "118, MATPOWER (no line rated)"),
    ("pglib118", "pglib_opf_case118_ieee", "118, PGLib"),
    ("pglib300", "pglib_opf_case300_ieee", "300, PGLib"),
    ("case1354", "case1354pegase", "1354, PEGASE"),
]


def benchmark(text):
    """Milliseconds and metrics of every row of BenchmarkNetworks."""
    rows = {}
    for network, row, rest in re.findall(r"^BenchmarkNetworks/(\S+)/(\S+?)(?:-\d+)?\s+\d+\s+(.*)$", text, re.M):
        value = dict((unit, float(v)) for v, unit in re.findall(r"(\S+) (\S+)", rest.replace("\t", " ")))
        rows[network, row] = value["ns/op"] / 1e6, value
    return rows


def main(folder, document):
    folder = pathlib.Path(folder)
    bench = benchmark((folder / "networks.bench").read_text())
    lines = [
        "| buses | exact, cold | exact, warm | projection of the last dispatch | of an optimum with errors | `direct` | gap, feasible | `gpc-refine-64` | gap, feasible |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, file, title in NETWORKS:
        ms = lambda row: f"{bench[file, row][0]:.3g}"
        cells = [title, ms("exact-cold"), ms("exact-warm"), ms("hold"), ms("map")]
        for method in ("direct", "gpc-refine-64"):
            r = json.loads((folder / f"networks-{name}-{method}.json").read_text())
            gap = "–" if r["gap_pct"] is None else f"{r['gap_pct']:.3f} %"
            cells += [f"{r['latency_us']['p50'] / 1e3:.3g}", f"{gap}, {round(r['feasible'] * r['decisions'])}/{r['decisions']}"]
        lines.append("| " + " | ".join(cells) + " |")
    document = pathlib.Path(document)
    text = document.read_text()
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    document.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[stop:])


main(*sys.argv[1:])
