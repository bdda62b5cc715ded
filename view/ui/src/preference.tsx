import { useRef } from "preact/hooks";
import type { JSX, TargetedKeyboardEvent, TargetedPointerEvent } from "preact";
import type { Num } from "./api";
import { preference, prefer, shown, store, useStore, type Store } from "./store";
import { clamp, percent } from "./format";

const side = 240;
const tall = (side * Math.sqrt(3)) / 2;
const left = 30;
const top = 26;
// Corners in the order of the objectives: up, left, right.
const corners: [number, number][] = [
  [left + side / 2, top],
  [left, top + tall],
  [left + side, top + tall],
];

/** onSimplex moves weights to the nearest that are not negative and sum to 1. */
function onSimplex(w: number[]): number[] {
  const kept = w.map((v) => Math.max(0, v));
  const sum = kept.reduce((a, b) => a + b, 0);
  return sum > 0 ? kept.map((v) => v / sum) : kept.map(() => 1 / kept.length);
}

const place = (w: (number | null)[]): [number, number] => {
  let x = 0;
  let y = 0;
  corners.forEach((c, i) => {
    x += (w[i] ?? 0) * c[0];
    y += (w[i] ?? 0) * c[1];
  });
  return [x, y];
};

function weightsAt(x: number, y: number): number[] {
  const up = (corners[1][1] - y) / tall;
  const right = (x - corners[1][0]) / side - up / 2;
  return onSimplex([up, 1 - up - right, right]);
}

const text = (names: string[], w: number[]): string => names.map((n, i) => `${n} ${percent(w[i])}`).join(", ");

/** steering is σ of the decision that is shown. */
function steering(s: Store): Num[] | null | undefined {
  const frame = shown(s);
  return frame?.priority?.length ? frame.priority : frame?.sigma;
}

/** weights are those at hand, which may not have been drawn yet: a key moves them from there. */
function weights(s: Store, n: number): number[] {
  const steered = steering(s);
  return preference(s).w ?? (steered?.every((v) => v !== null) && steered.length === n ? (steered as number[]) : Array<number>(n).fill(1 / n));
}

export function PreferencePanel() {
  const s = useStore();
  const about = s.about;
  if (!about) return null;
  const names = about.objectives.map((o) => o.name);
  const at = preference(s);
  const steered = steering(s);
  const even = names.map(() => 1 / names.length);
  const w = weights(s, names.length);
  const set = (v: number[]) => about.steers && prefer({ adaptive: false, w: v });
  return (
    <section class="panel preference" aria-labelledby="preference-title">
      <h2 id="preference-title">Preference</h2>
      {names.length === 3 ? (
        <Triangle names={names} w={w} adaptive={at.adaptive} steered={steered ?? null} steers={about.steers} set={set} />
      ) : (
        <Sliders names={names} w={w} steers={about.steers} set={set} />
      )}
      <ul class="weights" aria-hidden="true">
        {names.map((n, i) => (
          <li key={n}>
            <span class={`key c${i}`} />
            <span class="name">{n}</span>
            <b>{(100 * w[i]).toFixed(1)} %</b>
          </li>
        ))}
      </ul>
      <div class="row">
        <button type="button" class="toggle" aria-pressed={at.adaptive} disabled={!about.steers} onClick={() => prefer(preference(s).adaptive ? { adaptive: false, w: onSimplex(weights(s, names.length)) } : { adaptive: true })}>
          Adaptive σ
        </button>
        <button type="button" disabled={!about.steers} onClick={() => set(even)}>
          Even
        </button>
      </div>
      <p class="hint">{about.steers ? (at.adaptive ? "The method weighs by urgency. Take the handle to weigh yourself." : "Drag, or use the arrow keys.") : "Recorded: the preference was set when it ran."}</p>
    </section>
  );
}

interface TriangleProps {
  names: string[];
  w: number[];
  adaptive: boolean;
  steered: (number | null)[] | null;
  steers: boolean;
  set: (w: number[]) => void;
}

function Triangle({ names, w, adaptive, steered, steers, set }: TriangleProps) {
  const svg = useRef<SVGSVGElement>(null);
  const handle = useRef<SVGGElement>(null);
  const [x, y] = place(w);
  const move = (e: PointerEvent) => {
    const box = svg.current?.getScreenCTM();
    if (!box) return;
    const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(box.inverse());
    set(weightsAt(at.x, at.y));
  };
  const down = (e: TargetedPointerEvent<SVGSVGElement>) => {
    if (!steers) return;
    e.currentTarget.setPointerCapture(e.pointerId);
    e.preventDefault();
    handle.current?.focus();
    move(e);
  };
  const key = (e: TargetedKeyboardEvent<SVGGElement>) => {
    const step = e.shiftKey ? 24 : 4.8;
    const by: Record<string, [number, number]> = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const corner = ["1", "2", "3"].indexOf(e.key);
    if (corner >= 0) set(names.map((_, i) => (i === corner ? 1 : 0)));
    else if (by[e.key]) {
      const [x, y] = place(weights(store, names.length));
      set(weightsAt(x + step * by[e.key][0], y + step * by[e.key][1]));
    }
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const outline = corners.map((c) => c.join(",")).join(" ");
  const lines: JSX.Element[] = [];
  for (let k = 1; k < 5; k++) {
    for (let i = 0; i < 3; i++) {
      const a = [0, 0, 0];
      const b = [0, 0, 0];
      a[i] = b[i] = k / 5;
      a[(i + 1) % 3] = b[(i + 2) % 3] = 1 - k / 5;
      const [p, q] = [place(a), place(b)];
      lines.push(<line key={`${k}-${i}`} x1={p[0]} y1={p[1]} x2={q[0]} y2={q[1]} />);
    }
  }
  const ring = steered?.length === 3 && steered.every((v) => v !== null) ? place(steered) : null;
  return (
    <svg ref={svg} class={`triangle${steers ? " steers" : ""}`} viewBox={`0 0 ${side + 2 * left} ${tall + top + 34}`} onPointerDown={down} onPointerMove={(e) => e.currentTarget.hasPointerCapture(e.pointerId) && move(e)}>
      <polygon class="simplex" points={outline} />
      <g class="lines">{lines}</g>
      {corners.map((c, i) => (
        <g key={i}>
          <circle class={`corner c${i}`} cx={c[0]} cy={c[1]} r={5} />
          <text x={c[0]} y={i === 0 ? c[1] - 12 : c[1] + 23} text-anchor={i === 0 ? "middle" : i === 1 ? "start" : "end"} dx={i === 1 ? -left + 4 : i === 2 ? left - 4 : 0}>
            {names[i]}
          </text>
        </g>
      ))}
      {ring && <circle class="steered" cx={ring[0]} cy={ring[1]} r={5}><title>σ that steered this decision: the weight of each objective, by urgency where the priority is adaptive</title></circle>}
      <g
        ref={handle}
        class={`handle${adaptive ? " adaptive" : ""}`}
        transform={`translate(${x} ${y})`}
        role="slider"
        tabindex={steers ? 0 : -1}
        aria-label={`Preference over ${names.join(", ")}: arrow keys move it, 1, 2 and 3 are the corners`}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(100 * w[0])}
        aria-valuetext={(adaptive ? "adaptive; " : "") + text(names, w)}
        aria-disabled={!steers}
        onKeyDown={key}
      >
        <circle class="halo" r={17} />
        <circle class="knob" r={9} />
      </g>
    </svg>
  );
}

function Sliders({ names, w, steers, set }: { names: string[]; w: number[]; steers: boolean; set: (w: number[]) => void }) {
  const change = (i: number, v: number) => {
    const w = weights(store, names.length);
    const rest = 1 - w[i];
    set(onSimplex(w.map((x, j) => (j === i ? v : rest > 1e-9 ? (x / rest) * (1 - v) : (1 - v) / (w.length - 1)))));
  };
  const rows = names.length === 2 ? [0] : names.map((_, i) => i);
  return (
    <div class="sliders">
      {rows.map((i) => (
        <label key={i}>
          <span>
            {names[i]}
            {names.length === 2 && <em> against {names[1]}</em>}
          </span>
          <input
            type="range"
            min="0"
            max="1"
            step="0.01"
            value={w[i]}
            disabled={!steers || names.length === 1}
            aria-valuetext={text(names, w)}
            onInput={(e) => change(i, clamp(Number(e.currentTarget.value), 0, 1))}
            onKeyDown={(e) => e.key.startsWith("Arrow") && e.stopPropagation()}
          />
        </label>
      ))}
    </div>
  );
}
