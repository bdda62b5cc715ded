import { useRef } from "preact/hooks";
import type { TargetedKeyboardEvent, TargetedPointerEvent } from "preact";
import type { Shape, Variable } from "./api";
import { act, preference, shown, useHand, useStore } from "./store";
import { bound } from "./map";
import { number, withUnit } from "./format";

const wide = 900;

const path = (points: ([number, number] | [number | null, number | null])[], X: (v: number) => number, Y: (v: number) => number): string => {
  let d = "";
  let pen = false;
  for (const [x, y] of points) {
    if (x === null || y === null) {
      pen = false;
      continue;
    }
    d += `${pen ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
    pen = true;
  }
  return d;
};

type Spot = [number, number];

/** nearest is the smallest gap between a body and an obstacle or another body: its ends at their edges. */
function nearest(shapes: Shape[]): { gap: number; a: Spot; b: Spot } | undefined {
  let best: { gap: number; a: Spot; b: Spot } | undefined;
  const bodies = shapes.filter((d) => d.role === "body" && d.path.length === 1);
  const others = shapes.filter((d) => d.role === "obstacle");
  const meet = (p: Spot, r: number, q: Spot, s: number) => {
    const [dx, dy] = [q[0] - p[0], q[1] - p[1]];
    const far = Math.hypot(dx, dy) || 1e-12;
    const gap = far - r - s;
    if (!best || gap < best.gap) best = { gap, a: [p[0] + (dx / far) * r, p[1] + (dy / far) * r], b: [q[0] - (dx / far) * s, q[1] - (dy / far) * s] };
  };
  if (others.length === 0) return undefined;
  bodies.forEach((d, i) => {
    for (const o of others) {
      if (o.path.length === 1) meet(d.path[0], d.r, o.path[0], o.r);
      for (let k = 0; k + 1 < o.path.length; k++) {
        const [u, v] = [o.path[k], o.path[k + 1]];
        const [ex, ey] = [v[0] - u[0], v[1] - u[1]];
        const at = Math.min(1, Math.max(0, ((d.path[0][0] - u[0]) * ex + (d.path[0][1] - u[1]) * ey) / (ex * ex + ey * ey || 1)));
        meet(d.path[0], d.r, [u[0] + at * ex, u[1] + at * ey], o.r);
      }
    }
    for (let j = i + 1; j < bodies.length; j++) meet(d.path[0], d.r, bodies[j].path[0], bodies[j].r);
  });
  return best;
}

// What a scene without ground has shown so far: the picture grows with it and never shrinks.
const seen = { of: "", lo: [0, 0], hi: [0, 0] };

export function Arena() {
  const s = useStore();
  const svg = useRef<SVGSVGElement>(null);
  // A body that a hand moves, and where to.
  const hand = useHand<{ role: string; of: number; at: Spot }>();
  const frame = shown(s);
  const shapes = frame?.shapes;
  const series = s.series;
  if (!s.about || !frame || !shapes?.length) return null;
  // What bounds the scene: its ground, or else all that was seen.
  const ground = shapes.filter((d) => d.role === "ground" && d.path.length > 2);
  const lo: [number, number] = [Infinity, Infinity];
  const hi: [number, number] = [-Infinity, -Infinity];
  const grow = (x: number, y: number, r: number) => {
    lo[0] = Math.min(lo[0], x - r);
    hi[0] = Math.max(hi[0], x + r);
    lo[1] = Math.min(lo[1], y - r);
    hi[1] = Math.max(hi[1], y + r);
  };
  (ground.length ? ground : shapes).forEach((d) => d.path.forEach(([x, y]) => grow(x, y, d.r)));
  if (!ground.length && series && series.lo[0] !== null) {
    grow(series.lo[0] as number, series.lo[1] as number, 0);
    grow(series.hi[0] as number, series.hi[1] as number, 0);
  }
  if (!ground.length) {
    s.fan?.rays.forEach((r) => r.feasible && r.paths?.forEach((line) => line.forEach(([x, y]) => grow(x, y, 0))));
    const of = `${s.about.case} ${s.state?.generation} ${frame.episode}`;
    if (seen.of === of) {
      grow(seen.lo[0], seen.lo[1], 0);
      grow(seen.hi[0], seen.hi[1], 0);
    }
    Object.assign(seen, { of, lo: [...lo], hi: [...hi] });
  }
  const room = 0.03 * Math.max(hi[0] - lo[0], hi[1] - lo[1], 1e-3);
  const scale = wide / (hi[0] - lo[0] + 2 * room);
  const tall = Math.min(1.1 * wide, Math.max(0.3 * wide, (hi[1] - lo[1] + 2 * room) * scale));
  const X = (v: number) => (v - lo[0] + room) * scale;
  const Y = (v: number) => tall / 2 - (v - (lo[1] + hi[1]) / 2) * scale;
  const index = series ? frame.k - series.first : -1;
  // The episode's own part of the trails.
  const from = Math.max(0, index - frame.t);
  const trails = series?.bodies?.map((line) => line.slice(from, index + 1)) ?? [];
  const coming = s.about.kind === "trace" ? (series?.bodies?.map((line) => line.slice(index)) ?? []) : [];
  const old = s.fan ? frame.k - s.fan.k : 0; // decisions that the fan is behind
  const fan = s.fan && old >= 0 && old <= Math.max(3, s.fan.ahead / 2) && old <= frame.t && s.state?.k === s.state?.last ? s.fan : undefined;
  const bodies = shapes.filter((d) => d.role === "body" && d.path.length === 1);
  const hue = (b: number) => `b${(bodies[b]?.of ?? b) % 6}`;
  const names = bodies.some((d) => d.of > 0);
  const move = (role: string, of: number, at: Spot) => hand.ask({ role, of, at }, act("change", { change: { [role]: { of, to: [Number(at[0].toFixed(3)), Number(at[1].toFixed(3))] } } }));
  const under = (e: PointerEvent): Spot | undefined => {
    const box = svg.current?.getScreenCTM();
    if (!box) return undefined;
    const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(box.inverse());
    return [p.x / scale + lo[0] - room, (lo[1] + hi[1]) / 2 - (p.y - tall / 2) / scale];
  };
  // movable is a disc that a hand or arrow keys move between two decisions.
  const movable = (d: Shape, of: number) => {
    const c = d.role === "goal" ? `b${d.of % 6}` : "";
    const held = hand.value?.role === d.role && hand.value.of === of ? hand.value.at : undefined;
    const is = held ?? d.path[0];
    const step = (e: TargetedKeyboardEvent<SVGCircleElement>) => {
      const by = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[e.key];
      if (!by) return;
      e.preventDefault();
      e.stopPropagation();
      const far = e.shiftKey ? 0.5 : 0.1;
      move(d.role, of, [is[0] + far * by[0], is[1] + far * by[1]]);
    };
    const drop = (e: TargetedPointerEvent<SVGCircleElement>) => {
      const to = under(e);
      if (held && to) move(d.role, of, to);
    };
    return (
      <circle
        key={`${d.role}${of}`}
        class={`${d.role} ${c} movable`}
        cx={X(is[0])}
        cy={Y(is[1])}
        r={Math.max(d.r * scale, 2)}
        tabindex={0}
        role="button"
        aria-label={`${d.role === "goal" ? `Goal of robot ${of}` : `Obstacle ${of}`} at ${number(is[0], 3)}, ${number(is[1], 3)} m: drag it, or move it by arrow keys`}
        onKeyDown={step}
        onPointerDown={(e) => {
          e.preventDefault();
          e.currentTarget.setPointerCapture(e.pointerId);
          e.currentTarget.focus();
          hand.hold({ role: d.role, of, at: is });
        }}
        onPointerMove={(e) => {
          const to = held && e.currentTarget.hasPointerCapture(e.pointerId) ? under(e) : undefined;
          if (to) hand.hold({ role: d.role, of, at: to });
        }}
        onPointerUp={drop}
        onPointerCancel={hand.drop}
      />
    );
  };
  const moves = s.about.changes.includes("obstacle") && s.state?.k === s.state?.last;
  const obstacles = shapes.filter((d) => d.role === "obstacle");
  const near = frame.u || frame.event ? nearest(shapes) : undefined;
  // Of the gap the limits say how large it is: a picture may be a projection.
  const apart = s.about.margins.map((v, i) => ({ v, m: frame.margins?.[i] ?? null })).filter((x): x is { v: Variable; m: number } => x.v.collision && x.m !== null);
  const gap = apart.length ? apart.reduce((a, b) => (b.m < a.m ? b : a)) : undefined;
  const tight = gap && gap.m <= bound(s.about) ? "bad" : "";
  const binds = s.about.margins[frame.margins?.indexOf(frame.margin) ?? -1];
  const smallest = `smallest margin ${withUnit(frame.margin, binds?.unit ?? "")}${binds ? ` (${binds.name})` : ""}`;
  const views = [...new Set(shapes.flatMap((d) => d.view ?? []))];
  const one = (d: Shape, i: number) => {
    if (moves && d.path.length === 1 && (d.role === "obstacle" || d.role === "goal")) return movable(d, d.role === "goal" ? d.of : obstacles.indexOf(d));
    const c = d.role === "body" || d.role === "goal" ? `b${d.of % 6}` : "";
    if (d.path.length === 1) {
      const [x, y] = d.path[0];
      return <circle key={i} class={`${d.role} ${c}`} cx={X(x)} cy={Y(y)} r={Math.max(d.r * scale, 2)} />;
    }
    const [first, last] = [d.path[0], d.path[d.path.length - 1]];
    const closed = first[0] === last[0] && first[1] === last[1];
    return <path key={i} class={`${d.role} ${c}${closed ? " closed" : ""}`} d={path(d.path, X, Y) + (closed ? "Z" : "")} />;
  };
  // Each is counted in one projection.
  const once = (list: Shape[]) => list.filter((d) => !d.view || d.view === views[0]);
  const [who, what] = [once(bodies), once(obstacles).length];
  const label = `${who.length === 1 ? s.about.case : `Bodies ${who.map((d) => d.of).join(", ")}`}${views.length ? ` seen ${views.join(" and ")}` : ""}, ${what} obstacle${what === 1 ? "" : "s"}; ${smallest}${gap ? `; gap ${withUnit(gap.m, gap.v.unit)}` : ""}`;
  return (
    <figure class="arena">
      <svg ref={svg} viewBox={`0 0 ${wide} ${tall.toFixed(0)}`} role={moves ? "group" : "img"} aria-label={label}>
        {shapes.map((d, i) => d.role === "ground" && one(d, i))}
        {shapes.map((d, i) => d.role === "obstacle" && one(d, i))}
        <g class="coming">
          {coming.map((line, b) => (
            <path key={b} class={hue(b)} d={path(line, X, Y)} />
          ))}
        </g>
        <g class="fan">
          {fan?.rays.map((r, k) => k !== fan.present && r.paths?.map((line, b) => <path key={`${k}-${b}`} class={`${hue(b)}${r.feasible ? "" : " broken"}`} d={path(line, X, Y)} />))}
        </g>
        <g class="trails">
          {trails.map((line, b) => (
            <path key={b} class={hue(b)} d={path(line, X, Y)} />
          ))}
        </g>
        <g class="plan">{fan?.rays[fan.present]?.paths?.map((line, b) => <path key={b} class={hue(b)} d={path(line, X, Y)} />)}</g>
        {shapes.map((d, i) => d.role === "goal" && one(d, i))}
        {shapes.map((d, i) => d.role === "body" && one(d, i))}
        {near && <path class={`near ${tight}`} d={`M${X(near.a[0]).toFixed(1)} ${Y(near.a[1]).toFixed(1)}L${X(near.b[0]).toFixed(1)} ${Y(near.b[1]).toFixed(1)}`} />}
        {near && <circle class={`near ${tight}`} cx={X(near.b[0])} cy={Y(near.b[1])} r={3.5} />}
        {views.map((view) => {
          const within = shapes.filter((d) => d.view === view).flatMap((d) => d.path.map(([, y]) => Y(y) - d.r * scale));
          return (
            <text key={view} class="view" x={8} y={Math.max(16, Math.min(...within) + 4)}>
              {view}
            </text>
          );
        })}
        {names &&
          bodies.map((d, i) => (
            <text key={i} class="number" x={X(d.path[0][0])} y={Y(d.path[0][1])} dy={5}>
              {d.of}
            </text>
          ))}
      </svg>
      <figcaption>
        <span class="legend" aria-hidden="true">
          <span>
            <i class="swatch disc" /> body
          </span>
          <span>
            <i class="swatch goal" /> goal
          </span>
          <span>
            <i class="swatch obstacle" /> obstacle
          </span>
          {fan && (
            <span>
              <i class="swatch fan" /> under other preferences, {fan.ahead} ahead{old > 0 && ` from ${old} ago`}
            </span>
          )}
          {fan && (
            <span>
              <i class="swatch plan" /> {preference(s).adaptive ? "adaptive" : "yours"}
            </span>
          )}
          {near && (
            <span>
              <i class={`swatch near ${tight}`} /> {gap ? `gap ${withUnit(gap.m, gap.v.unit)} (${gap.v.name})` : "smallest gap drawn"}
            </span>
          )}
          {coming.length > 0 && (
            <span>
              <i class="swatch coming" /> what comes
            </span>
          )}
        </span>
        <span class="summary">
          {moves && "drag obstacles and goals · "}
          {smallest}
        </span>
      </figcaption>
    </figure>
  );
}
