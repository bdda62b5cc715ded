import { act, useStore } from "./store";
import type { Description, Series } from "./api";

interface Happened { k: number; to: number; t: number; episode: number; text: string; bad: boolean }

const listed = 60;

/** happenedAt says what a decision was beside the method's own, "" where it was nothing. */
function happenedAt(s: Series, i: number, about: Description): string {
  const margin = s.margin[i];
  const fallback = s.fallback[i] && s.fallback[i] !== "none" ? ` (${s.fallback[i]})` : "";
  return [
    s.event[i],
    margin !== null && margin < -about.margin_tolerance && "limit violated",
    s.late[i] && "late",
    s.replaced[i] && `fallback in place of the method's action${fallback}`,
    !s.replaced[i] && fallback && `guard${fallback}`,
    s.off[i] && "off the map",
  ].filter(Boolean).join(", ");
}

/** happened are the stretches of decisions at which something was, the last first. */
function happened(s: Series, about: Description): Happened[] {
  const list: Happened[] = [];
  for (let i = s.t.length - 1; i >= 0; i--) {
    const text = happenedAt(s, i, about);
    const before = list[list.length - 1];
    if (!text) continue;
    if (before?.text === text && before.k === s.first + i + 1 && before.episode === s.episode[i]) Object.assign(before, { k: s.first + i, t: s.t[i] });
    else list.push({ k: s.first + i, to: s.first + i, t: s.t[i], episode: s.episode[i], text, bad: text.includes("violated") });
  }
  return list;
}

/** Events are what passes too fast to be seen: fallbacks, late decisions, states off the map, changes, and what was refused. */
export function Events() {
  const s = useStore();
  if (!s.about || !s.series) return null;
  const { about, series } = s;
  const first = series.first;
  const refused = s.refusals.filter((r) => r.k >= first).map((r): Happened => ({ k: r.k, to: r.k, t: series.t[r.k - first] ?? 0, episode: series.episode[r.k - first] ?? 0, text: `refused: ${r.text}`, bad: false }));
  const all = [...happened(series, about), ...refused].sort((a, b) => b.k - a.k);
  return (
    <section class="panel events" aria-labelledby="events-title">
      <h2 id="events-title">
        Events <span class="count">{all.length > listed ? `the last ${listed} of ${all.length}` : all.length || ""}</span>
      </h2>
      {all.length === 0 && <p class="hint">None among the {series.t.length} decisions at hand: no fallback, none late, none off the map, no limit violated.</p>}
      <ul>
        {all.slice(0, listed).map((e) => (
          <li key={`${e.k} ${e.text}`} class={e.bad ? "bad" : ""}>
            <button type="button" class="word" onClick={() => void act("seek", { k: e.k })}>
              episode {e.episode}, {e.to > e.k ? `decisions ${e.t}–${e.t + e.to - e.k}` : `decision ${e.t}`}
            </button>
            <span>{e.text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
