import { useMemo, useState } from "preact/hooks";
import type { Description, Grid, Operating } from "./api";
import { picked as pick, shown, useStore } from "./store";
import { clamp, number, percent } from "./format";

interface Spot { x: number; y: number; unit?: [number, number]; load?: [number, number]; label: [number, number] }

const reach = 19; // of symbols from their bus
const crowded = 120; // buses: beyond it there are no names

/** spots finds where units, loads and names stand: in the widest gaps between a bus's branches. */
function spots(g: Grid): Spot[] {
  const around = g.buses.map((): number[] => []);
  for (const b of g.branches) {
    const angle = (from: number, to: number) => Math.atan2(g.positions[to][1] - g.positions[from][1], g.positions[to][0] - g.positions[from][0]);
    around[b.from].push(angle(b.from, b.to));
    around[b.to].push(angle(b.to, b.from));
  }
  const units = new Set(g.units.map((u) => u.bus));
  return g.positions.map(([x, y], i) => {
    const taken = around[i];
    const free = (): [number, number] => {
      const sorted = [...taken].sort((a, b) => a - b);
      let best = -1;
      let at = -Math.PI / 2;
      sorted.forEach((a, k) => {
        const next = k + 1 < sorted.length ? sorted[k + 1] : sorted[0] + 2 * Math.PI;
        if (next - a > best) {
          best = next - a;
          at = a + (next - a) / 2;
        }
      });
      taken.push(Math.atan2(Math.sin(at), Math.cos(at)));
      return [Math.cos(at), Math.sin(at)];
    };
    const spot: Spot = { x, y, label: [0, 0] };
    if (units.has(i)) spot.unit = free();
    spot.load = free();
    spot.label = free();
    return spot;
  });
}

/** shade is the class of a loading. */
const shade = (load: number): string => (load > 1.0005 ? "over" : load > 0.95 ? "full" : load > 0.7 ? "high" : load > 0.4 ? "mid" : "low");

/** tint is the class of a voltage between its limits. */
function tint(v: number, lo: number | null, hi: number | null): string {
  const [a, b] = [lo ?? 0.9, hi ?? 1.1];
  const at = (v - a) / Math.max(b - a, 1e-9);
  if (at < -0.001 || at > 1.001) return "broken";
  return at < 0.06 ? "v0" : at < 0.3 ? "v1" : at <= 0.7 ? "v2" : at <= 0.94 ? "v3" : "v4";
}

interface Hint { x: number; y: number; lines: string[] }

export function GridMap() {
  const s = useStore();
  const [hint, setHint] = useState<Hint | null>(null);
  const grid = s.about?.grid;
  const where = useMemo(() => (grid ? spots(grid) : []), [grid]);
  if (!grid || !s.about) return null;
  const pinned = s.picked;
  const frame = shown(s);
  const p = frame?.grid ?? (frame?.event ? s.operated : undefined);
  const limits = binding(s.about, frame?.margins ?? null);
  const wide = p ? Math.max(...p.p.map(Math.abs), 1e-9) : 1;
  const mva = grid.base_mva;
  const loading = (k: number): number => (p && grid.branches[k].rate ? p.s[k] / (grid.branches[k].rate as number) : 0);
  const rated = grid.branches.map((_, k) => k).filter((k) => grid.branches[k].rate);
  const most = p && rated.length ? rated.reduce((a, b) => (loading(b) > loading(a) ? b : a)) : -1;
  const name = (k: number) => `${grid.buses[grid.branches[k].from].name}–${grid.buses[grid.branches[k].to].name}`;
  const low = p ? p.v.indexOf(Math.min(...p.v)) : -1;
  const high = p ? p.v.indexOf(Math.max(...p.v)) : -1;
  const summary = p
    ? `Network of ${grid.buses.length} buses and ${grid.branches.length} branches. ${most >= 0 ? `Most loaded: ${name(most)}, ${percent(loading(most))}. ` : ""}Voltages ${number(p.v[low])} to ${number(p.v[high])} pu.`
    : `Network of ${grid.buses.length} buses and ${grid.branches.length} branches, no decision yet.`;
  // What binds here is named here, and after which outage.
  const busLimits = (bus: string) => [...["V", "Pg", "Qg", "ramp"].map((what) => what + bus), `afterPg${bus}`];
  const branchLimits = (k: number) => ["S", "after"].map((what) => what + name(k).replace("–", "-"));
  const bindAt = (names: string[]) => names.filter((n) => limits.has(n)).map((n) => (n.startsWith("after") ? `after its outage a limit binds (${limitName(n)})` : `${n} binds`));
  const busLines = (i: number): string[] => {
    const b = grid.buses[i];
    const lines = [`Bus ${b.name}${b.reference ? " (reference)" : ""}`, ...bindAt(busLimits(b.name))];
    if (p) {
      lines.push(`V ${number(p.v[i])} pu of ${number(b.v_min, 3)}–${number(b.v_max, 3)}, angle ${number((p.angle[i] * 180) / Math.PI, 3)}°`);
      if (p.pd[i] || p.qd[i]) lines.push(`load ${number(p.pd[i] * mva, 3)} MW, ${number(p.qd[i] * mva, 3)} Mvar`);
      grid.units.forEach((u, g) => {
        if (u.bus === i) lines.push(`unit ${number(p.pg[g] * mva, 3)} MW of ${number(u.p_min * mva, 3)}–${number(u.p_max * mva, 3)}, ${number(p.qg[g] * mva, 3)} Mvar`);
      });
    }
    return lines;
  };
  const branchLines = (k: number): string[] => {
    const lines = [`Branch ${name(k)}`, ...bindAt(branchLimits(k))];
    if (grid.branches[k].open) lines.push("open: carries nothing");
    else if (p) {
      lines.push(`${number(Math.abs(p.p[k]) * mva, 3)} MW to bus ${grid.buses[p.p[k] >= 0 ? grid.branches[k].to : grid.branches[k].from].name}`);
      lines.push(grid.branches[k].rate ? `${number(p.s[k] * mva, 3)} of ${number((grid.branches[k].rate as number) * mva, 3)} MVA, ${percent(loading(k))}` : `${number(p.s[k] * mva, 3)} MVA, no rating`);
    }
    return lines;
  };
  const told = hint ?? (pinned ? at(grid, pinned, pinned.kind === "bus" ? busLines(pinned.at) : branchLines(pinned.at)) : null);
  const names = grid.buses.length <= crowded;
  return (
    <figure class="map">
      <svg viewBox={`0 0 ${grid.width} ${grid.height}`} role="img" aria-label={summary} onPointerLeave={() => setHint(null)} onClick={() => pick(undefined)}>
        <g class="branches">
          {grid.branches.map((b, k) => {
            const [f, t] = [where[b.from], where[b.to]];
            const flow = p ? Math.abs(p.p[k]) / wide : 0;
            const [mx, my] = [(f.x + t.x) / 2, (f.y + t.y) / 2];
            const angle = (Math.atan2(t.y - f.y, t.x - f.x) * 180) / Math.PI + (p && p.p[k] < 0 ? 180 : 0);
            const show = () => setHint({ x: mx, y: my, lines: branchLines(k) });
            return (
              <g
                key={k}
                class={`branch ${b.open ? "open" : b.rate ? shade(loading(k)) : "low"}${pinned?.kind === "branch" && pinned.at === k ? " picked" : ""}`}
                onPointerEnter={show}
                onClick={(e) => {
                  e.stopPropagation();
                  pick({ kind: "branch", at: k });
                }}
              >
                <line class="catch" x1={f.x} y1={f.y} x2={t.x} y2={t.y} />
                <line x1={f.x} y1={f.y} x2={t.x} y2={t.y} stroke-width={b.open ? 1.6 : 1.6 + 4.4 * flow} />
                {p && !b.open && flow > 0.04 && names && <path class="arrow" transform={`translate(${mx} ${my}) rotate(${angle})`} d="M-3.5-5.5L5.5 0L-3.5 5.5Z" />}
                {b.open && <path class="gap" transform={`translate(${mx} ${my}) rotate(${angle})`} d="M-6-7V7M6-7V7" />}
                {!b.open && branchLimits(k).map((n) => limits.has(n) && <circle key={n} class={`ring${n.startsWith("after") ? " after" : ""}`} cx={mx} cy={my} r={n.startsWith("after") ? 15 : 11} />)}
              </g>
            );
          })}
        </g>
        <g class="buses">
          {grid.buses.map((b, i) => {
            const o = where[i];
            const loaded = p ? p.pd[i] > 0 || p.qd[i] > 0 : false;
            const [after, bound] = [limits.has(`afterPg${b.name}`), busLimits(b.name).some((n) => !n.startsWith("after") && limits.has(n))];
            return (
              <g
                key={i}
                class={`bus ${p ? tint(p.v[i], b.v_min, b.v_max) : "v2"}${bound ? " bound" : ""}${pinned?.kind === "bus" && pinned.at === i ? " picked" : ""}`}
                transform={`translate(${o.x} ${o.y})`}
                onPointerEnter={() => setHint({ x: o.x, y: o.y, lines: busLines(i) })}
                onClick={(e) => {
                  e.stopPropagation();
                  pick({ kind: "bus", at: i });
                }}
              >
                {o.unit && (
                  <g class="unit">
                    <line x2={o.unit[0] * reach * 0.6} y2={o.unit[1] * reach * 0.6} />
                    <circle cx={o.unit[0] * reach} cy={o.unit[1] * reach} r={8} />
                    <text x={o.unit[0] * reach} y={o.unit[1] * reach} dy={4}>
                      G
                    </text>
                  </g>
                )}
                {loaded && names && o.load && <path class="load" transform={`rotate(${(Math.atan2(o.load[1], o.load[0]) * 180) / Math.PI})`} d="M0 0H11M9-4.5L17 0L9 4.5Z" />}
                <circle class="catch" r={14} />
                {bound && <circle class="ring" r={10.5} />}
                {after && <circle class="ring after" r={14.5} />}
                <circle class="dot" r={6.5} />
                {names && (
                  <text class="name" x={o.label[0] * 16} y={o.label[1] * 16} dy={4.5}>
                    {b.name}
                  </text>
                )}
              </g>
            );
          })}
        </g>
      </svg>
      {told && (
        <div class="hover" style={{ left: `${clamp((100 * told.x) / grid.width, 4, 96)}%`, top: `${(100 * told.y) / grid.height}%`, transform: `translate(${told.x > 0.55 * grid.width ? "calc(-100% - 14px)" : "14px"}, ${told.y > 0.6 * grid.height ? "-100%" : "0"})` }}>
          {told.lines.map((l, i) => (i === 0 ? <b key={i}>{l}</b> : <span key={i}>{l}</span>))}
        </div>
      )}
      <figcaption>
        <span class="legend" aria-hidden="true">
          {(["low", "mid", "high", "full", "over"] as const).map((c, i) => (
            <span key={c}>
              <i class={`swatch line ${c}`} />
              {["≤ 40 %", "70 %", "95 %", "100 %", "over"][i]}
            </span>
          ))}
          <span class="gap">
            <i class="swatch dot v0" /> V low
          </span>
          <span>
            <i class="swatch dot v2" />
          </span>
          <span>
            <i class="swatch dot v4" /> V high
          </span>
          <span>
            <i class="swatch ring" /> limit binds
          </span>
          {s.about.margins.some((m) => m.name.startsWith("after")) && (
            <span>
              <i class="swatch ring after" /> binds after its outage
            </span>
          )}
          {grid.branches.some((b) => b.open) && (
            <span>
              <i class="swatch line open" /> open
            </span>
          )}
        </span>
        <span class="summary">{p ? `${most >= 0 ? `${name(most)} ${percent(loading(most))} · ` : ""}V ${number(p.v[low])}–${number(p.v[high])} pu · generation ${number(total(p) * mva, 4)} MW` : ""}</span>
      </figcaption>
    </figure>
  );
}

const total = (p: Operating): number => p.pg.reduce((a, b) => a + b, 0);

function at(g: Grid, what: { kind: "bus" | "branch"; at: number }, lines: string[]): Hint {
  if (what.kind === "bus") return { x: g.positions[what.at][0], y: g.positions[what.at][1], lines };
  const b = g.branches[what.at];
  return { x: (g.positions[b.from][0] + g.positions[b.to][0]) / 2, y: (g.positions[b.from][1] + g.positions[b.to][1]) / 2, lines };
}

/** limitName is a limit in words: of a dispatch that survives outages, the nearest limit after one. */
export const limitName = (name: string): string => name.replace(/^after(Pg)?(\d.*)$/, (_, unit, at) => `outage ${unit ? `of unit ${at}` : at.replace("-", "–")}`);

/** binding are the margins that have nothing left, by name. */
export function binding(about: Description, margins: (number | null)[] | null): Set<string> {
  const out = new Set<string>();
  margins?.forEach((m, i) => {
    if (m !== null && m <= bound(about)) out.add(about.margins[i].name);
  });
  return out;
}

/** bound is how small a margin is that binds: ten times what it may be below zero. */
export const bound = (about: Description): number => 10 * Math.max(about.margin_tolerance, 1e-6);
