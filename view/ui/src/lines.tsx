import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Description, Num, Series, Switch, Variable } from "./api";
import { act, changed, shown, useStore, type Store } from "./store";
import { milliseconds, number, tick, withUnit } from "./format";
import { bound } from "./map";
import { Term } from "./term";

interface Chart { key: string; title: string; unit: string; names: string[]; of: (s: Series) => Num[][]; zero?: boolean; limit?: number; limitName?: string; log?: boolean; range?: [number, number]; least?: number; bounds?: Num[]; means?: string; lane?: Switch }

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
    of: (s) => [ms(s.latency_us).map((x) => (x && x > 0 ? x : null))],
    log: true,
    limit: about.deadline_us ? about.deadline_us / 1000 : undefined,
    limitName: "deadline",
  });
  return list;
}

/** states are the time lines in the room of a picture, of a case that has none. */
function states(about: Description, s: Series): Chart[] {
  const of = (key: "s" | "u", vector: Variable[], what: string) =>
    (s[key] ?? []).map((_, i): Chart => ({ key: `${key}${i}`, title: `${what} ${vector[i].name}`, unit: vector[i].unit, names: [vector[i].name], of: (s) => [s[key]?.[i] ?? []], bounds: key === "u" ? [vector[i].lo, vector[i].hi] : [] })); // the box of a state is no limit
  const drawn = s.s?.length ? mostLines : 0;
  return [...of("s", about.state, "State"), ...of("u", about.action, "Action").filter((_, i) => i < drawn && !about.switches.some((w) => w.action === i)), ...lanes(about)];
}

// mostLines of the actions without a switch are drawn where there is no picture.
const mostLines = 6;

/** lanes are the time lines of the switched actions: bars in the place of a line. */
function lanes(about: Description): Chart[] {
  return about.switches.map((w) => {
    const { name, unit } = about.action[w.action];
    return { key: `lane${w.action}`, title: `Switch ${name}`, means: "Filled bars were executed. Outlined ones are planned by the decision that is shown.", unit: onOff(w) ? "" : unit, names: [name], of: (s) => [s.u?.[w.action] ?? []], lane: w };
  });
}

const onOff = (w: Switch): boolean => w.values.length === 2 && w.values[0] === 0 && w.values[1] === 1;

/** valueName is what a value of a switch is called. */
export const valueName = (w: Switch, v: Num): string => (v === null ? "–" : onOff(w) && (v === 0 || v === 1) ? (v ? "on" : "off") : number(v).replace(/\.0+$|(\.\d*?)0+$/, "$1"));

/** planned are the values of a switched action that the plan has behind decision from; a preview has executed none of them. */
function planned(s: Store, w: Switch): { from: number; values: Num[] } {
  const f = shown(s);
  return { from: f?.k ?? 0, values: (f?.plan ?? []).slice(s.preview ? 0 : 1).map((u) => u[w.action]) };
}

/** runs are the stretches of one value: [value, first, behind the last]. */
function runs(values: Num[]): [number, number, number][] {
  const list: [number, number, number][] = [];
  values.forEach((v, i) => {
    const last = list[list.length - 1];
    if (last?.[0] === v && last[2] === i) last[2]++;
    else if (v !== null) list.push([v, i, i + 1]);
  });
  return list;
}

/** bars draw each run as one bar with its value's name; the first value begins after decision from. */
function bars(u: uPlot, w: Switch, values: Num[], from: number, ahead: boolean) {
  const { ctx } = u;
  const bottom = u.bbox.top + u.bbox.height;
  const [left, right] = [u.bbox.left, u.bbox.left + u.bbox.width];
  ctx.save();
  ctx.fillStyle = ctx.strokeStyle = colour("--c0");
  ctx.lineWidth = 1.3 * devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "bottom";
  for (const [v, first, behind] of runs(values)) {
    const [x0, x1] = [from + first, from + behind].map((k) => Math.min(right, Math.max(left, u.valToPos(k, "x", true))));
    const y = u.valToPos(v, "y", true);
    if (x1 <= x0) continue;
    ctx.fillStyle = ctx.strokeStyle;
    ctx.globalAlpha = ahead ? 0.12 : 0.45;
    ctx.fillRect(x0, y, x1 - x0, bottom - y);
    ctx.globalAlpha = 1;
    ctx.setLineDash(ahead ? [4 * devicePixelRatio, 3 * devicePixelRatio] : []);
    ctx.strokeRect(x0, y, x1 - x0, bottom - y);
    const name = valueName(w, v);
    if (ctx.measureText(name).width < x1 - x0) {
      ctx.fillStyle = colour("--text");
      ctx.fillText(name, (x0 + x1) / 2, y - 2 * devicePixelRatio);
    }
  }
  ctx.restore();
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

/** episodeAt is where the episode of a decision begins and ends among those at hand. */
function episodeAt(s: Series, k: number): [number, number] {
  const at = Math.min(Math.max(0, k - s.first), s.t.length - 1);
  const of = s.episode[at];
  let [from, to] = [at, at];
  while (s.episode[from - 1] === of) from--;
  while (s.episode[to + 1] === of) to++;
  return [s.first + from, s.first + to];
}

/** Lines are the time lines, of all decisions at hand or of those that a pointer or the list has chosen. */
export function Lines() {
  const s = useStore();
  const about = s.about;
  if (!about || !s.series) return null;
  const zoomed = s.zoom === "episode" ? "episode" : s.zoom ? "chosen" : "all";
  const choose = (what: string) => {
    s.zoom = what === "episode" ? "episode" : undefined;
    changed();
  };
  return (
    <section class="lines" aria-label="Time lines">
      <label class="zoom">
        <span>Time lines of</span>
        <select value={zoomed} onChange={(e) => choose(e.currentTarget.value)}>
          <option value="all">all decisions at hand</option>
          <option value="episode">this episode</option>
          {zoomed === "chosen" && <option value="chosen">those chosen</option>}
        </select>
        <span class="hint">Drag over a line to choose; a click goes there; marks are where episodes begin.</span>
      </label>
      {[...(s.series.s ? [] : lanes(about)), ...charts(about)].map((c) => (
        <Line key={`${about.case}-${c.key}-${s.theme}`} chart={c} />
      ))}
    </section>
  );
}

/** powers are those of ten between two. */
function powers(lo: number, hi: number): number[] {
  const [from, to] = [lo, hi].map((v) => Math.round(Math.log10(v)));
  const every = Math.ceil((to - from + 1) / 6);
  return Array.from({ length: to - from + 1 }, (_, i) => from + i).filter((p) => (p - from) % every === 0).map((p) => 10 ** p);
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
    if (chart.lane) {
      const plan = planned(s, chart.lane);
      for (let k = now.first + x.length; k <= plan.from + plan.values.length; k++) x.push(k);
      return [x, x.map(() => null)];
    }
    const all: uPlot.AlignedData = [x, ...y];
    if (chart.limit !== undefined) all.push(x.map(() => chart.limit as number));
    return all;
  };
  useLayoutEffect(() => {
    const el = box.current!;
    const levels = chart.lane?.values;
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
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
        scales: {
          x: { time: false, range: (_u, lo, hi) => {
              const [from, to] = s.zoom === "episode" ? episodeAt(s.series!, at.current) : (s.zoom ?? [lo, Math.max(hi, lo + 20)]);
              return [from, Math.max(to, from + 1)];
            } },
          y: {
            distr: chart.log ? 3 : 1,
            range: (_u, lo, hi) => {
              if (chart.range) return chart.range;
              if (levels) return [levels[0] - 0.1 * (levels[levels.length - 1] - levels[0]), levels[levels.length - 1] + 0.35 * (levels[levels.length - 1] - levels[0])];
              if (!Number.isFinite(lo) || !Number.isFinite(hi)) return chart.log ? [0.1, 1] : [0, 1];
              if (chart.log) return [10 ** Math.floor(Math.log10(lo)), 10 ** Math.ceil(Math.log10(hi * 1.0001))];
              if (chart.least) [lo, hi] = [Math.min(lo, -chart.least), Math.max(hi, chart.least)];
              // A limit that is near stands in the picture.
              for (const b of chart.bounds ?? []) if (b !== null && Math.abs(b - (lo + hi) / 2) < 1.5 * Math.max(hi - lo, 1e-9)) [lo, hi] = [Math.min(lo, b), Math.max(hi, b)];
              const room = 0.08 * (hi - lo) || 0.05 * Math.abs(hi) || 1e-3;
              return [chart.zero ? 0 : lo - room, hi + room];
            },
          },
        },
        axes: [
          { ...axis, size: 22, space: 60, values: (_u, v) => v.map(String), label: "decision", labelSize: 15, labelFont: font, labelGap: 0 },
          { ...axis, size: 58, space: 21, ...(levels && levels.length < 7 ? { splits: () => levels } : chart.log ? { splits: (_u: uPlot, _i: number, lo: number, hi: number) => powers(lo, hi) } : {}), values: (_u, v) => v.map((x) => (levels ? valueName(chart.lane!, x) : chart.log ? (x ? number(x, 1) : "") : tick(x, v))) },
        ],
        series: [{}, ...lines],
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              s.zoom = [Math.round(u.posToVal(u.select.left, "x")), Math.round(u.posToVal(u.select.left + u.select.width, "x"))];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              changed();
            },
          ],
          drawAxes: [
            (u) => {
              const now = s.series!;
              u.ctx.save();
              u.ctx.fillStyle = ink;
              u.ctx.globalAlpha = 0.45;
              now.episode.forEach((e, i) => {
                const x = i > 0 && e !== now.episode[i - 1] ? u.valToPos(now.first + i, "x", true) : -1;
                if (x > u.bbox.left && x < u.bbox.left + u.bbox.width) u.ctx.fillRect(x, u.bbox.top, devicePixelRatio, u.bbox.height);
              });
              u.ctx.restore();
            },
          ],
          draw: [
            (u) => {
              if (chart.lane) {
                const [now, plan] = [s.series!, planned(s, chart.lane)];
                const done = chart.of(now)[0].slice(0, Math.max(0, plan.values.length ? plan.from - now.first + 1 : Infinity));
                bars(u, chart.lane, done, now.first - 1, false);
                bars(u, chart.lane, plan.values, plan.from, true);
              }
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
    const under = (k: number | undefined) => {
      if (k === s.hover) return;
      s.hover = k;
      changed();
    };
    u.over.addEventListener("click", seek);
    u.over.addEventListener("mousemove", (e) => under(Math.round(u.posToVal(e.clientX - u.over.getBoundingClientRect().left, "x"))));
    u.over.addEventListener("mouseleave", () => under(undefined));
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
  // Under the pointer, or else of the decision that is shown; where that is not read yet the last one that is.
  const asked = (s.hover ?? at.current) - series.first;
  const i = Math.min(Math.max(0, asked), series.t.length - 1);
  const values = chart.of(series).map((line) => line[i] ?? null);
  const where = s.hover !== undefined ? `decision ${series.t[i]}${series.episode[0] === series.episode[series.t.length - 1] ? "" : ` of episode ${series.episode[i]}`}: ` : "";
  const text = (v: Num): string => (chart.lane ? valueName(chart.lane, v) : number(v));
  const next = chart.lane && runs(planned(s, chart.lane).values);
  return (
    <div class="panel line">
      <h3>
        {chart.means ? <Term word={chart.title}>{chart.means}</Term> : chart.title}
        {chart.unit && <span class="unit">, {chart.unit}</span>}
        <span class={`values${asked > i ? " before" : ""}`}>
          {where}
          {chart.names.length > 1 ? (
            chart.names.map((n, k) => (
              <span key={n}>
                <i class={`stroke c${k} d${k % dashes.length}`} />
                {n} <b>{values[k] === null ? "–" : (values[k] as number).toFixed(2)}</b>
              </span>
            ))
          ) : (
            <b>{chart.lane ? text(values[0]) : withUnit(values[0], chart.unit)}</b>
          )}
          {chart.limit !== undefined && chart.limitName === "deadline" && <span>deadline {milliseconds(chart.limit)}</span>}
        </span>
      </h3>
      <div ref={box} class="plot" role="img" aria-label={`${chart.title} over decisions, now ${values.map(text).join(", ")} ${chart.unit}${next?.length ? `, planned ${next.map(([v, from, to]) => `${text(v)} for ${to - from}`).join(", ")}` : ""}`} />
    </div>
  );
}
