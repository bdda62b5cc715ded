import { useRef, useState } from "preact/hooks";
import { act, shown, store, useHand, useStore, worst } from "./store";
import { duration, number } from "./format";

const rates = [0.5, 1, 2, 5, 10, 20, 25, 30, 50, 100, 200, 500, 1000];

export const toggle = (): void => void act("pause", () => ({ paused: store.state?.playing ?? false }));
export const step = (by: 1 | -1): void => void act("step", { by });
export const toWorst = (): void => {
  const k = worst(store.series);
  if (k >= 0) void act("seek", { k });
};

/** newest goes to the decision that is sought until no other is sought meanwhile. */
async function newest(q: { busy?: Promise<void>; next?: number }): Promise<void> {
  while (q.next !== undefined) {
    const k = q.next;
    q.next = undefined;
    await act("seek", { k });
  }
  q.busy = undefined;
}

/** Field asks for the number that is typed into it when that is done. */
function Field({ name, value, most, ask }: { name: string; value: number; most: number; ask: (v: number) => Promise<void> }) {
  const typed = useHand<string>();
  const [wrong, setWrong] = useState("");
  return (
    <>
      <label class="episode">
        <span>{name}</span>
        <input
          type="number"
          min="0"
          value={typed.value ?? value}
          max={most}
          aria-invalid={wrong !== ""}
          onInput={(e) => (setWrong(""), typed.hold(e.currentTarget.value))}
          onChange={(e) => {
            const text = e.currentTarget.value;
            const ok = text !== "" && Number.isInteger(Number(text)) && Number(text) >= 0 && Number(text) <= most;
            setWrong(ok ? "" : `${name} ${text || "is empty"}: want a whole number from 0 to ${most}. It stays ${value}.`);
            if (ok) typed.ask(text, ask(Number(text)));
            else typed.drop();
          }}
          onBlur={(e) => Number(e.currentTarget.value) === value && typed.drop()}
        />
      </label>
      {wrong && <span class="wrong" role="alert">{wrong}</span>}
    </>
  );
}

export function Transport() {
  const s = useStore();
  const about = s.about;
  const state = s.state;
  const frame = shown(s);
  const seeking = useRef<{ busy?: Promise<void>; next?: number }>({});
  const sought = useHand<number>();
  const rate = useHand<number>();
  const recorded = useHand<number>();
  if (!about || !state || !frame) return null;
  const live = about.kind !== "trace";
  const playing = state.playing && s.connected;
  const seek = (k: number) => {
    const q = seeking.current;
    q.next = k;
    sought.ask(k, (q.busy ??= newest(q)));
  };
  const open = (episode: number) => recorded.ask(episode, act("reset", { episode }));
  const run = (hz: number) => rate.ask(hz, act("rate", { hz }));
  const time = about.step_s > 0 ? duration(frame.t * about.step_s) : "";
  const behind = state.last - state.k;
  const list = rates.includes(state.hz) ? rates : [...rates, state.hz].sort((a, b) => a - b);
  return (
    <div class="transport" role="group" aria-label="Playback">
      <div class="buttons">
        <button type="button" class="icon" title="One decision back (←)" aria-label="One decision back" disabled={state.k <= state.first} onClick={() => step(-1)}>
          <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M14 4v12L6 10ZM4 4h1.8v12H4Z" /></svg>
        </button>
        <button type="button" class="icon play" title={playing ? "Pause (space)" : "Play (space)"} aria-label={playing ? "Pause" : "Play"} onClick={toggle}>
          <svg viewBox="0 0 20 20" aria-hidden="true">{playing ? <path d="M5 4h3.4v12H5ZM11.6 4H15v12h-3.4Z" /> : <path d="M5.5 3.5L16 10L5.5 16.5Z" />}</svg>
        </button>
        <button type="button" class="icon" title="One decision on (→)" aria-label="One decision on" disabled={!live && state.k >= state.last} onClick={() => step(1)}>
          <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M6 4v12L14 10ZM14.2 4H16v12h-1.8Z" /></svg>
        </button>
      </div>
      <input
        class="scrub"
        type="range"
        min={state.first}
        max={Math.max(state.last, state.first + 1)}
        step="1"
        value={sought.value ?? state.k}
        aria-label="Decision"
        aria-valuetext={`decision ${frame.t} of episode ${frame.episode}`}
        onInput={(e) => seek(Math.min(state.last, Number(e.currentTarget.value)))}
      />
      <output class="where">
        <b>{frame.t}</b>
        {!live && <span> / {about.steps}</span>}
        {time && <span class="time"> · {time}</span>}
        {live && behind > 0 && <button type="button" class="small" onClick={() => seek(state.last)}>present</button>}
      </output>
      <div class="settings">
        <button type="button" title="Decision of the smallest margin (w)" onClick={toWorst}>
          Worst step
        </button>
        <label>
          <span class="hidden">Decisions a second</span>
          <select value={rate.value ?? state.hz} onChange={(e) => run(Number(e.currentTarget.value))}>
            {list.map((r) => (
              <option key={r} value={r}>
                {number(r, r < 1 ? 1 : 4).replace(/\.0+$/, "")} /s{about.step_s > 0 ? ` · ${pace(r * about.step_s)}` : ""}
              </option>
            ))}
          </select>
        </label>
        {live && about.kind === "session" ? null : live ? (
          <>
            <Field name="Episode" value={frame.episode} most={2 ** 31 - 1} ask={(episode) => act("reset", { episode })} />
            {state.seed !== null && <Field name="Seed" value={state.seed} most={Number.MAX_SAFE_INTEGER} ask={(seed) => act("seed", { seed })} />}
            <button type="button" title="Begin another episode" onClick={() => void act("reset", { episode: null })}>
              Next episode
            </button>
          </>
        ) : (
          <label>
            <span class="hidden">Episode</span>
            <select value={recorded.value ?? frame.episode} onChange={(e) => open(Number(e.currentTarget.value))}>
              {about.episodes.slice(0, 2000).map((e) => (
                <option key={e.episode} value={e.episode}>
                  episode {e.episode}
                  {e.safe ? "" : " · not safe"}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
    </div>
  );
}

/** pace is how much of the plant's own time goes by in a second. */
const pace = (x: number): string => (x >= 300 ? `${duration(x)} a second` : `${x >= 10 ? Math.round(x) : Number(x.toPrecision(2))}×`);
