import type { ComponentChildren } from "preact";
import type { Description, Num, Switch, Variable } from "./api";
import { bound, limitName } from "./map";
import { age, off as offMap, shown, useStore } from "./store";
import { clamp, milliseconds, number, within, withUnit } from "./format";
import { valueName } from "./lines";
import { Term } from "./term";

export function Now() {
  const s = useStore();
  const frame = shown(s);
  const about = s.about;
  if (!about || !frame) return null;
  const broken = frame.margin !== null && frame.margin < -about.margin_tolerance;
  const off = offMap(frame);
  const least = (frame.margins ?? []).findIndex((m) => m !== null && m === frame.margin);
  const limit = about.margins[least];
  const over = about.deadline_us > 0 && frame.latency_us !== null && frame.latency_us > about.deadline_us;
  const tile = (name: ComponentChildren, value: string, state: "" | "good" | "warn" | "bad", note: string) => (
    <div class={`tile ${s.connected ? state : ""}`}>
      <dt>{name}</dt>
      <dd>
        <b>
          {value.split(" ")[0]} <small>{value.split(" ")[1]}</small>
        </b>
        <span>{s.connected ? note : `${age(s)} old`}</span>
      </dd>
    </div>
  );
  return (
    <section class="panel now" aria-labelledby="now-title">
      <h2 id="now-title">
        Decision {frame.t}
        {s.preview && <span class="badge preview">preview</span>}
      </h2>
      <dl>
        {tile(<Term word="smallest margin">How far the action keeps from the limit that is nearest, in the unit of that limit. Below 0 it is broken; down to −{number(about.margin_tolerance, 2)} counts as rounding.</Term>, withUnit(frame.margin, limit?.unit ?? "", 3), frame.margin === null ? "" : broken || frame.failed ? "bad" : "good", frame.failed ? "state lost" : frame.margin === null ? "" : `${broken ? "✕ violated" : "✓ kept"}${limit ? `: ${limitName(limit.name)}` : ""}`)}
        {tile("latency", frame.latency_us === null ? "–" : withUnit(frame.latency_us / 1000, "ms", 3), over || frame.late ? "warn" : "", frame.late ? "late: fallback" : about.deadline_us ? `of ${milliseconds(about.deadline_us / 1000)}` : "no deadline")}
        {tile(<Term word="residual">How far the state is from what the map makes of it, squared, in units of the map. Above its limit the map was not trained for this state.</Term>, number(frame.residual, 3), off ? "warn" : "", frame.residual_limit > 0 ? `${off ? "off the map, " : ""}limit ${number(frame.residual_limit, 3)}` : "")}
        {tile("decided by", frame.u ? (frame.replaced ? "fallback" : "method") : "–", frame.replaced ? "warn" : "", frame.fallback === "none" ? "" : `guard: ${frame.fallback}`)}
        {frame.cost !== null && <Cost cost={frame.cost} best={frame.best} about={about} weights={frame.weights ?? []} adaptive={frame.preference.adaptive} />}
      </dl>
      {frame.note && <p class="note bad">{frame.note}</p>}
    </section>
  );
}

/** Cost is that of a decision beside the exact optimum of the same decision. */
function Cost({ cost, best, about, weights, adaptive }: { cost: number; best: Num; about: Description; weights: number[]; adaptive: boolean }) {
  // Of one objective alone it is that in its unit; a weighted sum has none.
  const counted = about.objectives.map((o, i) => ({ ...o, w: weights[i] ?? 0 })).filter((o) => o.w > 1e-12 * Math.max(...weights));
  const [unit, per] = counted.length === 1 ? [counted[0].unit, counted[0].w] : ["", 1];
  return (
    <div class={`tile wide ${best === null ? "warn" : ""}`}>
      <dt>
        <Term word={unit ? "cost" : "cost, weighted"}>
          What an episode counts for this decision {adaptive ? "under the adaptive priority" : "under the preference"}: {counted.map((o) => `${number(o.w, 3)} × ${o.name}${o.unit && ` in ${o.unit}`}`).join(" + ")}{unit ? ", here in its own unit" : ", without a unit"}. The optimum is the exact solver's, for the same loads, ramps and preference.
        </Term>
      </dt>
      <dd>
        <b>{withUnit(cost / per, unit, 6)}</b>
        <span>{best === null ? "the exact solver finds no dispatch within the limits" : `exact optimum ${withUnit(best / per, unit, 6)}, ${above(cost, best)}`}</span>
      </dd>
    </div>
  );
}

/** above is how much a cost is above the optimum, in words. */
function above(cost: number, best: number): string {
  const percent = (100 * (cost - best)) / Math.abs(best || 1);
  return Math.abs(percent) < 0.0005 ? "+0 %" : `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(percent < 0.1 ? 3 : 2)} %`;
}

/** Bars are values in their boxes. */
function Bars({ of, values, before, switches }: { of: Variable[]; values: Num[]; before?: Num[] | null; switches: Switch[] }) {
  return (
    <ul class="bars">
      {of.map((v, i) => {
        const x = values[i];
        const [lo, hi] = [v.lo, v.hi];
        const inBox = x !== null && x !== undefined && lo !== null && hi !== null && hi > lo;
        const at = (y: number) => 100 * clamp((y - (lo as number)) / ((hi as number) - (lo as number)), 0, 1);
        const zero = inBox && (lo as number) < 0 && (hi as number) > 0 ? at(0) : 0;
        const bar = inBox ? at(x) : 0;
        const was = before?.[i];
        const taken = switches.find((w) => w.action === i);
        return (
          <li key={v.name} title={lo !== null ? `${number(lo)} to ${number(hi)} ${v.unit}` : undefined}>
            <span class="name" title={v.name}>{v.name}</span>
            <span class="bar" aria-hidden="true">
              {inBox && <i style={{ left: `${Math.min(zero, bar)}%`, width: `${Math.max(0.6, Math.abs(bar - zero))}%` }} />}
              {inBox && was !== null && was !== undefined && <em style={{ left: `${at(was)}%` }} />}
            </span>
            <b>{taken ? valueName(taken, x ?? null) : within(x, lo, hi)}</b>
            <span class="unit">{v.unit}</span>
          </li>
        );
      })}
    </ul>
  );
}

export function Dispatch() {
  const s = useStore();
  const frame = shown(s);
  const about = s.about;
  if (!about || !frame) return null;
  const used = frame.u ? about.action.map((_, i) => i) : [];
  // Of a scene with fewer bodies than the case has room for, those that are there.
  const bodies = (frame.shapes ?? []).filter((d) => d.role === "body" && d.path.length === 1).length;
  const each = /\d$/.test(about.action[0]?.name ?? "") && bodies > 1 ? about.action.filter((a) => a.name.endsWith("0")).length : 0;
  const kept = each > 0 ? used.slice(0, each * bodies) : used;
  // Powers of a network in MW and Mvar.
  const base = (i: number): number => (about.grid && about.action[i].unit === "pu" && /^[PQ]g/.test(about.action[i].name) ? about.grid.base_mva : 1);
  const power = (i: number, v: Num): Num => (v === null ? null : v * base(i));
  const physical = (v: Variable): Variable => {
    const i = about.action.indexOf(v);
    return base(i) === 1 ? v : { ...v, unit: v.name.startsWith("P") ? "MW" : "Mvar", lo: power(i, v.lo), hi: power(i, v.hi) };
  };
  return (
    <section class="panel dispatch" aria-labelledby="dispatch-title" data-preference={frame.preference.w?.join(" ")}>
      <h2 id="dispatch-title">{about.grid ? "Dispatch" : "Action"}</h2>
      {frame.u ? <Bars of={kept.map((i) => physical(about.action[i]))} values={kept.map((i) => power(i, frame.u![i]))} switches={about.switches} before={s.preview && s.frame?.u ? kept.map((i) => power(i, s.frame!.u![i])) : null} /> : <p class="hint">No decision yet.</p>}
    </section>
  );
}

const listed = 9;

export function Margins() {
  const s = useStore();
  const frame = shown(s);
  const about = s.about;
  if (!about || !frame) return null;
  const all = (frame.margins ?? []).map((m, i) => ({ m, v: about.margins[i] })).filter((x): x is { m: number; v: Variable } => x.m !== null && !!x.v);
  // One scale for each kind of limit, over the episode: what is left of the most there was.
  const most = ({ limit }: Variable): number => Math.max(s.room.largest[limit] ?? 0, 1e-9);
  const left = (x: { m: number; v: Variable }): number => x.m / most(x.v);
  all.sort((a, b) => left(a) - left(b));
  const bind = all.filter((x) => x.m <= bound(about)).length;
  return (
    <section class="panel margins" aria-labelledby="margins-title">
      <h2 id="margins-title">
        Limits <span class="count">{all.length ? `${bind} of ${all.length} bind` : ""}</span>
      </h2>
      {all.length ? (
        <ul class="bars">
          {all.slice(0, listed).map(({ m, v }) => {
            const state = m < -about.margin_tolerance ? "bad" : m <= bound(about) ? "warn" : "";
            return (
              <li key={v.name} class={state} title={`${limitName(v.name)}: ${withUnit(m, v.unit)} left, of at most ${withUnit(most(v), v.unit, 3)} in this episode (${v.limit})`}>
                <span class="name">{limitName(v.name)}</span>
                {state ? (
                  <span class="state">{state === "bad" ? "violated" : "binds"}</span>
                ) : (
                  <span class="bar" aria-hidden="true">
                    <i style={{ width: `${Math.max(0.6, 100 * clamp(left({ m, v }), 0, 1))}%` }} />
                  </span>
                )}
                <b>{number(m, 3)}</b>
                <span class="unit">{v.unit}</span>
              </li>
            );
          })}
        </ul>
      ) : (
        <p class="hint">{frame.u ? "Not known one by one." : "No decision yet."}</p>
      )}
    </section>
  );
}
