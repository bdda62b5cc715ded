import { useRef, useState } from "preact/hooks";
import type { Frame, FrontPoint, Num } from "./api";
import { forget, prefer, solve, useStore } from "./store";
import { number, percent, tick, ticks } from "./format";

const width = 320;
const height = 250;
const inner = { left: 66, right: 14, top: 12, bottom: 40 };

interface Point { x: number; y: number; ray: number; feasible: boolean; beaten: boolean; title: string; w?: number[] }

/** beaten: some point is no worse in either objective and better in one. */
const beaten = (p: { x: number; y: number }, all: { x: number; y: number }[]): boolean => all.some((q) => q.x <= p.x && q.y <= p.y && (q.x < p.x || q.y < p.y));

/** away is how far apart two points are on the screen, squared. */
const away = (a: [number, number], b: [number, number]): number => (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2;

/** walk moves the focus from point to point by arrows, and takes a point by Enter or space. */
function walk(e: KeyboardEvent): void {
  const points = [...(e.currentTarget as Element).querySelectorAll<SVGGElement>(".point")];
  const at = points.indexOf(document.activeElement as unknown as SVGGElement);
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (at < 0 || (!by && e.key !== "Enter" && e.key !== " ")) return;
  e.preventDefault();
  e.stopPropagation();
  if (by) points[(at + by + points.length) % points.length].focus();
  else points[at].dispatchEvent(new MouseEvent("click", { bubbles: true }));
}

/** telling is the pair of objectives that are most at odds: with the most points that no other beats. */
function telling(columns: Num[][]): [number, number] {
  let [best, most]: [[number, number], number] = [[0, 1], -1];
  columns.forEach((a, i) =>
    columns.forEach((b, j) => {
      if (j <= i) return;
      const all = a.map((x, k) => ({ x: x ?? Infinity, y: b[k] ?? Infinity }));
      const kept = new Set(all.filter((p) => !beaten(p, all)).map((p) => `${p.x.toPrecision(6)} ${p.y.toPrecision(6)}`)).size;
      if (kept >= most) [best, most] = [[i, j], kept];
    }),
  );
  return best;
}

/** age says of which decision a front is, and whether that is another than the one shown. */
function age(front?: { k: number; t: number; episode: number }, frame?: Frame): { old: boolean; when: string } {
  if (!front || !frame) return { old: false, when: "" };
  const ago = frame.k - front.k;
  const which = `From decision ${front.t}${front.episode === frame.episode ? "" : ` of episode ${front.episode}`}`;
  return { old: ago !== 0, when: ago > 0 ? `${which}, ${ago} ago` : which };
}

export function FrontPanel() {
  const s = useStore();
  const [axes, setAxes] = useState<[number, number] | null>(null);
  const first = useRef<[number, number] | undefined>(undefined); // until a person chooses
  const about = s.about;
  if (!about || about.objectives.length < 2) return null;
  const live = about.kind !== "trace";
  const exact = live ? s.exact : undefined;
  const fan = exact ? undefined : s.fan; // its costs are those of fewer decisions ahead
  // Live: what each preference would cost. Recorded: what the decisions did cost.
  const columns: Num[][] = about.objectives.map((_, i) => (live ? ((exact?.points ?? fan?.rays)?.map((r) => r.j[i]) ?? []) : (s.series?.j[i] ?? [])));
  const flat = first.current?.some((i) => Math.max(...columns[i].map((v) => v ?? 0)) - Math.min(...columns[i].map((v) => v ?? 0)) < 1e-9);
  if (columns[0].length > 1 && (flat ?? true)) first.current = telling(columns);
  const [ax, ay] = axes ?? first.current ?? [0, 1];
  const points: Point[] = [];
  const count = exact ? 0 : columns[0].length;
  for (let k = 0; k < count; k++) {
    const [x, y] = [columns[ax][k], columns[ay][k]];
    if (x === null || y === null) continue;
    const ray = live ? fan!.rays[k] : undefined;
    const w = ray?.preference.w;
    const what = ray ? (w ? w.map((v, i) => `${about.objectives[i].name} ${percent(v)}`).join(", ") : "adaptive") : `decision ${s.series!.t[k]}`;
    points.push({ x, y, ray: k, feasible: ray?.feasible ?? true, beaten: false, w, title: `${what}: ${number(x)}, ${number(y)}${ray && !ray.feasible ? " – breaks a limit" : ""}` });
  }
  if (live) points.forEach((p) => (p.beaten = beaten(p, points.filter((q) => q.feasible))));
  const present = live ? fan?.present : s.frame && s.series ? s.frame.k - s.series.first : undefined;
  // The map's front: a trade-off a point, which no preference has to be asked for one by one.
  const placed = (list?: FrontPoint[] | null) =>
    (live && list ? list : []).flatMap((p) => {
      const [x, y] = [p.j[ax], p.j[ay]];
      return x === null || y === null || !p.feasible ? [] : [{ x, y, w: p.w, dominated: p.dominated }];
    });
  const dots = placed(exact ? exact.same : fan?.points);
  const optima = placed(exact?.points);
  const box = (v: number[]): [number, number] => {
    if (!v.length) return [0, 1];
    const [lo, hi] = [Math.min(...v), Math.max(...v)];
    const room = 0.08 * (hi - lo) || Math.max(1e-6, 0.01 * Math.abs(hi));
    return [lo - room, hi + room];
  };
  const [x0, x1] = box([...points, ...dots, ...optima].map((p) => p.x));
  const [y0, y1] = box([...points, ...dots, ...optima].map((p) => p.y));
  const X = (v: number) => inner.left + ((v - x0) / (x1 - x0)) * (width - inner.left - inner.right);
  const Y = (v: number) => height - inner.bottom - ((v - y0) / (y1 - y0)) * (height - inner.top - inner.bottom);
  const label = (i: number) => about.objectives[i].name + (about.objectives[i].unit ? `, ${about.objectives[i].unit}` : "");
  const choose = (which: 0 | 1) => (
    <select aria-label={which === 0 ? "Objective across" : "Objective up"} value={which === 0 ? ax : ay} onChange={(e) => setAxes(which === 0 ? [Number(e.currentTarget.value), ay] : [ax, Number(e.currentTarget.value)])}>
      {about.objectives.map((o, i) => (
        <option key={o.name} value={i} disabled={i === (which === 0 ? ay : ax)}>
          {o.name}
        </option>
      ))}
    </select>
  );
  const now = points.find((p) => p.ray === present);
  const [across, up] = [ticks(x0, x1, 3), ticks(y0, y1, 4)];
  const title = live ? "Front" : "Decisions";
  const { old, when } = age(exact ?? fan, s.frame);
  const standing = (dots.length ? dots : optima).filter((p) => !p.dominated);
  const said = exact && `Crosses are ${exact.points.length} exact optima${exact.incomplete ? " (those that were solved in time)" : ""}, solved in ${number(exact.took_ms / 1000)} s${exact.same ? `; dots are the map's decisions under the same preferences, with ${exact.hypervolume_ratio?.toFixed(4) ?? "–"} of their hypervolume` : ""}. Means over ${exact.ahead} decision${exact.ahead > 1 ? "s" : ""} ahead.`;
  /** drag takes the preference of the point of the front that is nearest to the pointer. */
  const drag = (e: PointerEvent) => {
    if (!(e.buttons & 1) || !standing.length) return;
    const svg = e.currentTarget as SVGSVGElement;
    const to = svg.getScreenCTM()?.inverse();
    if (!to) return;
    const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(to);
    const distance = (p: { x: number; y: number }) => away([X(p.x), Y(p.y)], [at.x, at.y]);
    const nearest = standing.reduce((best, p) => (distance(p) < distance(best) ? p : best));
    prefer({ adaptive: false, w: nearest.w });
  };
  return (
    <section class={`panel front${old ? " old" : ""}`} aria-labelledby="front-title">
      <h2 id="front-title">
        {title}
        {about.objectives.length > 2 && (
          <span class="choose">
            {choose(1)} <span>over</span> {choose(0)}
          </span>
        )}
      </h2>
      {when && <p class="when">{when}</p>}
      {live && (
        <p class="solve">
          <button class="small" onClick={() => void solve()}>{s.solving ? "Cancel" : "Solve exactly"}</button>
          {exact && <button class="small" onClick={forget}>Preferences</button>}
          {s.solving && <span>the exact solver is at work</span>}
        </p>
      )}
      <svg viewBox={`0 0 ${width} ${height}`} role="group" class={standing.length ? "dragged" : undefined} onKeyDown={walk} onPointerMove={drag} aria-label={now ? `${title}${when && `, ${when.toLowerCase()}`}: the ${old ? "point of that decision" : "present point"} has ${label(ax)} ${number(now.x)} and ${label(ay)} ${number(now.y)}, of ${points.length} points` : exact ? `${title}, ${when.toLowerCase()}: ${said}` : `${title}: no point yet`}>
        <g class="axes">
          {across.map((v) => (
            <g key={`x${v}`}>
              <line x1={X(v)} x2={X(v)} y1={inner.top} y2={height - inner.bottom} />
              <text x={X(v)} y={height - inner.bottom + 15} text-anchor="middle">
                {tick(v, across)}
              </text>
            </g>
          ))}
          {up.map((v) => (
            <g key={`y${v}`}>
              <line x1={inner.left} x2={width - inner.right} y1={Y(v)} y2={Y(v)} />
              <text x={inner.left - 6} y={Y(v) + 4} text-anchor="end">
                {tick(v, up)}
              </text>
            </g>
          ))}
          <text class="name" x={(inner.left + width - inner.right) / 2} y={height - 6} text-anchor="middle">
            {label(ax)}
          </text>
          <text class="name" transform={`translate(10 ${(height - inner.bottom + inner.top) / 2}) rotate(-90)`} text-anchor="middle">
            {label(ay)}
          </text>
        </g>
        {dots.map((p, i) => (
          <circle key={`dot${i}`} class={`dot${p.dominated ? " beaten" : ""}`} cx={X(p.x)} cy={Y(p.y)} r={2} />
        ))}
        {optima.map((p, i) => (
          <path key={`exact${i}`} class="exact" d={`M${X(p.x) - 4} ${Y(p.y)}h8M${X(p.x)} ${Y(p.y) - 4}v8`} />
        ))}
        {!live && points.map((p) => <circle key={p.ray} class="past" cx={X(p.x)} cy={Y(p.y)} r={2} />)}
        {live &&
          points
            .filter((p) => p.ray !== present)
            .sort((a, b) => a.x - b.x || a.y - b.y)
            .map((p, i) => (
              <g key={p.ray} role="button" tabindex={i === 0 ? 0 : -1} aria-label={p.title} class={`point${p.beaten ? " beaten" : ""}${p.feasible ? "" : " broken"}`} transform={`translate(${X(p.x)} ${Y(p.y)})`} onClick={() => p.w && prefer({ adaptive: false, w: p.w })}>
                <title>{p.title}</title>
                <circle class="catch" r={11} />
                {p.feasible ? <circle r={4.5} /> : <path d="M-4-4L4 4M4-4L-4 4" />}
              </g>
            ))}
        {now && (
          <g class="present" transform={`translate(${X(now.x)} ${Y(now.y)})`}>
            <title>{`${old ? when : "present"}: ${now.title}`}</title>
            <path d="M0-8L8 0L0 8L-8 0Z" />
          </g>
        )}
      </svg>
      <p class="hint">
        {live
          ? exact
            ? said
            : fan
            ? `What each preference would cost, mean over ${fan.ahead} decision${fan.ahead > 1 ? "s" : ""} ahead. Click a point, or arrows and Enter, to take its preference.${standing.length ? ` Dots are the map's front, ${dots.length} trade-offs at once: drag along them.` : ""}`
            : "Nothing yet: a method looks ahead from the first decision on, unless the state is estimated. Where that takes longer than an episode, pause."
          : "Every decision of the episode; the diamond is the present one."}
      </p>
    </section>
  );
}
