import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Description, Num, Series, Variable } from "./api";
import { act, useStore } from "./store";
import { number, tick } from "./format";
import { bound } from "./map";
import { Term } from "./term";

interface Chart { key: string; title: string; unit: string; names: string[]; of: (s: Series) => Num[][]; zero?: boolean; limit?: number; limitName?: string; range?: [number, number]; least?: number; bounds?: Num[]; means?: string }

function charts(about: Description): Chart[] {
  const list: Chart[] = about.objectives.map((o, i) => ({ key: `j${i}`, title: `J${"₁₂₃₄₅₆₇₈₉"[i] ?? i + 1} ${o.name}`, unit: o.unit, names: [o.name], of: (s: Series) => [s.j[i]] }));
  list.push({ key: "sigma", title: "Priority σ", means: "The weight of each objective in this decision; they sum to 1. An adaptive priority weighs by urgency, else it is the preference.", unit: "", names: about.objectives.map((o) => o.name), of: (s) => s.priority, range: [0, 1] });
  const unit = about.margins.every((m) => m.unit === about.margins[0]?.unit) ? (about.margins[0]?.unit ?? "") : "";
  list.push({ key: "margin", title: "Smallest margin", means: "How far each action keeps from the limit that is nearest. Below 0 a limit is broken.", unit, names: ["margin"], of: (s) => [s.margin], limit: 0, limitName: "limit", least: bound(about) });
  const ms = (v: Num[]) => v.map((x) => (x === null ? null : x / 1000));
  list.push({
    key: "latency",
    title: "Latency",
    unit: "ms",
    names: ["decision"],
    of: (s) => [ms(s.latency_us)],
    zero: true,
    limit: about.deadline_us ? about.deadline_us / 1000 : undefined,
    limitName: "deadline",
  });
  return list;
}

/** states are the time lines in the room of a picture, of a case that has none. */
function states(about: Description, s: Series): Chart[] {
  const of = (key: "s" | "u", vector: Variable[], what: string) =>
    (s[key] ?? []).map((_, i): Chart => ({ key: `${key}${i}`, title: `${what} ${vector[i].name}`, unit: vector[i].unit, names: [vector[i].name], of: (s) => [s[key]?.[i] ?? []], bounds: key === "u" ? [vector[i].lo, vector[i].hi] : [] })); // the box of a state is no limit
  return [...of("s", about.state, "State"), ...of("u", about.action, "Action")];
}

/** StateLines stand where a picture would. */
export function StateLines() {
  const s = useStore();
  const about = s.about;
  if (!about || !s.series?.s) return null;
  return (
    <div class="states">
      <h2 class="hidden">States and actions</h2>
      {states(about, s.series).map((c) => (
        <Line key={`${about.case}-${c.key}-${s.theme}`} chart={c} />
      ))}
    </div>
  );
}

const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3], [1, 4], [12, 4]];

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Lines() {
  const s = useStore();
  const about = s.about;
  if (!about || !s.series) return null;
  return (
    <section class="lines" aria-label="Time lines">
      {charts(about).map((c) => (
        <Line key={`${about.case}-${c.key}-${s.theme}`} chart={c} />
      ))}
    </section>
  );
}

// tall is the height of a time line, px.
const tall = 148;
// drawEvery bounds how often a time line is drawn again, ms.
const drawEvery = 80;

function Line({ chart }: { chart: Chart }) {
  const s = useStore();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const drawn = useRef(0);
  const later = useRef(0);
  const at = useRef(0);
  const series = s.series!;
  at.current = s.state?.k ?? s.frame?.k ?? 0;
  const data = (): uPlot.AlignedData => {
    const now = s.series!;
    const x = now.t.map((_, i) => now.first + i);
    const y = chart.of(now);
    const all: uPlot.AlignedData = [x, ...y];
    if (chart.limit !== undefined) all.push(x.map(() => chart.limit as number));
    return all;
  };
  useLayoutEffect(() => {
    const el = box.current!;
    const [ink, grid, mark] = [colour("--muted"), colour("--grid"), colour("--text")];
    const lines: uPlot.Series[] = chart.names.map((label, i) => ({ label, stroke: colour(`--c${chart.names.length > 1 ? i : 0}`), width: 1.8, dash: dashes[i % dashes.length], points: { show: false }, spanGaps: false }));
    if (chart.limit !== undefined) lines.push({ label: chart.limitName, stroke: colour("--bad"), width: 1.3, dash: [5, 4], points: { show: false } });
    const font = "11.5px system-ui, sans-serif";
    const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const u = new uPlot(
      {
        width: el.clientWidth,
        height: tall,
        padding: [8, 10, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { time: false, range: (_u, lo, hi) => [lo, Math.max(hi, lo + 20)] },
          y: {
            range: (_u, lo, hi) => {
              if (chart.range) return chart.range;
              if (!Number.isFinite(lo) || !Number.isFinite(hi)) return [0, 1];
              if (chart.least) [lo, hi] = [Math.min(lo, -chart.least), Math.max(hi, chart.least)];
              // A limit that is near stands in the picture.
              for (const b of chart.bounds ?? []) if (b !== null && Math.abs(b - (lo + hi) / 2) < 1.5 * Math.max(hi - lo, 1e-9)) [lo, hi] = [Math.min(lo, b), Math.max(hi, b)];
              const room = 0.08 * (hi - lo) || 0.05 * Math.abs(hi) || 1e-3;
              return [chart.zero ? 0 : lo - room, hi + room];
            },
          },
        },
        axes: [
          { ...axis, size: 22, space: 60, label: "decision", labelSize: 15, labelFont: font, labelGap: 0 },
          { ...axis, size: 58, space: 21, values: (_u, v) => v.map((x) => tick(x, v)) },
        ],
        series: [{}, ...lines],
        hooks: {
          draw: [
            (u) => {
              for (const b of chart.bounds ?? []) {
                const { min, max } = u.scales.y;
                if (b === null || min == null || max == null || b < min || b > max) continue;
                const y = u.valToPos(b, "y", true);
                u.ctx.save();
                u.ctx.strokeStyle = colour("--bad");
                u.ctx.lineWidth = 1.3 * devicePixelRatio;
                u.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
                u.ctx.beginPath();
                u.ctx.moveTo(u.bbox.left, y);
                u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
                u.ctx.stroke();
                u.ctx.restore();
              }
              const x = u.valToPos(at.current, "x", true);
              if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
              u.ctx.save();
              u.ctx.strokeStyle = mark;
              u.ctx.globalAlpha = 0.75;
              u.ctx.lineWidth = devicePixelRatio;
              u.ctx.beginPath();
              u.ctx.moveTo(x, u.bbox.top);
              u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
              u.ctx.stroke();
              u.ctx.restore();
            },
          ],
        },
      },
      data(),
      el,
    );
    plot.current = u;
    const seek = (e: MouseEvent) => {
      const k = Math.round(u.posToVal(e.clientX - u.over.getBoundingClientRect().left, "x"));
      const now = s.series!;
      void act("seek", { k: Math.min(now.first + now.t.length - 1, Math.max(now.first, k)) });
    };
    u.over.addEventListener("click", seek);
    const sized = new ResizeObserver(() => u.setSize({ width: el.clientWidth, height: tall }));
    sized.observe(el);
    return () => {
      sized.disconnect();
      clearTimeout(later.current);
      u.destroy();
    };
  }, []);
  useEffect(() => {
    const draw = () => {
      later.current = 0;
      drawn.current = performance.now();
      plot.current?.setData(data());
    };
    if (later.current) return;
    const wait = drawEvery - (performance.now() - drawn.current);
    later.current = window.setTimeout(draw, Math.max(0, wait));
  });
  const i = at.current - series.first;
  const values = chart.of(series).map((line) => line[i] ?? null);
  return (
    <div class="panel line">
      <h3>
        {chart.means ? <Term word={chart.title}>{chart.means}</Term> : chart.title}
        {chart.unit && <span class="unit">, {chart.unit}</span>}
        <span class="values">
          {chart.names.length > 1 ? (
            chart.names.map((n, k) => (
              <span key={n}>
                <i class={`stroke c${k} d${k % dashes.length}`} />
                {n} <b>{values[k] === null ? "–" : (values[k] as number).toFixed(2)}</b>
              </span>
            ))
          ) : (
            <b>{number(values[0])}</b>
          )}
          {chart.limit !== undefined && chart.limitName === "deadline" && <span>deadline {number(chart.limit, 3)}</span>}
        </span>
      </h3>
      <div ref={box} class="plot" role="img" aria-label={`${chart.title} over decisions, now ${values.map((v) => number(v)).join(", ")} ${chart.unit}`} />
    </div>
  );
}
