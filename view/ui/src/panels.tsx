import type { Num, Variable } from "./api";
import { bound } from "./map";
import { age, shown, useStore } from "./store";
import { clamp, number, within, withUnit } from "./format";

export function Now() {
  const s = useStore();
  const frame = shown(s);
  const about = s.about;
  if (!about || !frame) return null;
  const broken = frame.margin !== null && frame.margin < -about.margin_tolerance;
  const off = frame.residual_limit > 0 && frame.residual !== null && frame.residual > frame.residual_limit;
  const over = about.deadline_us > 0 && frame.latency_us !== null && frame.latency_us > about.deadline_us;
  const tile = (name: string, value: string, state: "" | "good" | "warn" | "bad", note: string) => (
    <div class={`tile ${s.connected ? state : ""}`}>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
        <span>{s.connected ? note : `${age(s)} old`}</span>
      </dd>
    </div>
  );
  return (
    <section class="panel now" aria-labelledby="now-title">
      <h2 id="now-title">
        Decision
        {s.preview && <span class="badge preview">preview</span>}
      </h2>
      <dl>
        {tile("smallest margin", number(frame.margin, 3), frame.margin === null ? "" : broken || frame.failed ? "bad" : "good", frame.failed ? "state lost" : broken ? "✕ violated" : frame.margin === null ? "" : "✓ kept")}
        {tile("latency", frame.latency_us === null ? "–" : withUnit(frame.latency_us / 1000, "ms", 3), over || frame.late ? "warn" : "", frame.late ? "late: fallback" : about.deadline_us ? `of ${number(about.deadline_us / 1000, 3)} ms` : "no deadline")}
        {tile("residual", number(frame.residual, 3), off ? "warn" : "", frame.residual_limit > 0 ? (off ? "off the map" : "on the map") : "")}
        {tile("decided by", frame.u ? (frame.replaced ? "fallback" : "method") : "–", frame.replaced ? "warn" : "", frame.fallback === "none" ? "" : `guard: ${frame.fallback}`)}
      </dl>
      {frame.note && <p class="note bad">{frame.note}</p>}
    </section>
  );
}

/** Bars are values in their boxes. */
function Bars({ of, values, before }: { of: Variable[]; values: Num[]; before?: Num[] | null }) {
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
        return (
          <li key={v.name} title={lo !== null ? `${number(lo)} to ${number(hi)} ${v.unit}` : undefined}>
            <span class="name" title={v.name}>{v.name}</span>
            <span class="bar" aria-hidden="true">
              {inBox && <i style={{ left: `${Math.min(zero, bar)}%`, width: `${Math.max(0.6, Math.abs(bar - zero))}%` }} />}
              {inBox && was !== null && was !== undefined && <em style={{ left: `${at(was)}%` }} />}
            </span>
            <b>{within(x, lo, hi)}</b>
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
  return (
    <section class="panel dispatch" aria-labelledby="dispatch-title" data-preference={frame.preference.w?.join(" ")}>
      <h2 id="dispatch-title">{about.grid ? "Dispatch" : "Action"}</h2>
      {frame.u ? <Bars of={kept.map((i) => about.action[i])} values={kept.map((i) => frame.u![i])} before={s.preview && s.frame?.u ? kept.map((i) => s.frame!.u![i]) : null} /> : <p class="hint">No decision yet.</p>}
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
  all.sort((a, b) => a.m - b.m);
  const bind = all.filter((x) => x.m <= bound(about)).length;
  const most = Math.max(...all.slice(0, listed).map((x) => x.m), 1e-9);
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
              <li key={v.name} class={state}>
                <span class="name" title={v.name}>{v.name}</span>
                <span class="bar" aria-hidden="true">
                  <i style={{ width: `${Math.max(0.6, (100 * Math.max(0, m)) / most)}%` }} />
                </span>
                <b>{number(m, 3)}</b>
                <span class="unit">{state === "bad" ? "violated" : state === "warn" ? "binds" : v.unit}</span>
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
