import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { duration, percent } from "./format";
import { get, post, type Description, type Exact, type Fan, type Frame, type Num, type Operating, type Preference, type Series, type State } from "./api";

// Everything that the page shows. Events of the server change it; views are drawn again at
// most once a picture of the screen.
export interface Store {
  about?: Description;
  state?: State;
  frame?: Frame;
  preview?: Frame; // what would be decided now; until the next frame
  fan?: Fan;
  exact?: Exact; // that a hand has asked for
  solving?: AbortController; // of one on its way
  series?: Series;
  connected: boolean;
  heard: number; // when the server last said anything, ms of performance.now
  lag: number; // how long that took, beyond the fastest of this connection
  saidAt: number; // when it said so by its own clock, ms
  framed: number; // when it last sent a frame
  framedAt: number; // by its own clock
  newest?: number; // frame that it then had
  refused: string; // why it lets this page not in
  error: string;
  refusals: { k: number; text: string }[]; // the last, beside the frame that was shown
  sessions: string[]; // of others, that can be shown
  notice: string;
  restart?: { before: Preference }; // the server has started again, and what was preferred before
  room: { of: string; largest: Record<string, number> }; // of each kind of limit, in the episode that is shown
  zoom?: "episode" | [number, number]; // decisions of the time lines; undefined: all at hand
  hover?: number; // decision under the pointer
  theme: "dark" | "light";
  picked?: Picked; // on the map
  loadBus?: number; // the last bus and the last branch that were
  branch?: number;
  operated?: Operating; // the last operating point of the network
  event: string; // the last change of the plant in this episode
  // What a hand at the controls has asked for and the server has not yet said; then what it has set.
  held?: Preference;
  chosen?: Preference;
}

export interface Picked { kind: "bus" | "branch"; at: number }

const saved = localStorage.getItem("gpc-theme");
const system = matchMedia("(prefers-color-scheme: light)");

export const store: Store = {
  connected: false,
  heard: performance.now(),
  lag: 0,
  saidAt: 0,
  framed: performance.now(),
  framedAt: 0,
  refused: "",
  error: "",
  refusals: [],
  room: { of: "", largest: {} },
  sessions: [],
  notice: "",
  event: "",
  theme: saved === "dark" || saved === "light" ? saved : system.matches ? "light" : "dark",
};

const views = new Set<() => void>();
let nextFrame = 0;

/** changed has every view drawn again. */
export function changed(): void {
  if (!nextFrame) {
    nextFrame = requestAnimationFrame(() => {
      nextFrame = 0;
      views.forEach((draw) => draw());
    });
  }
}

export function useStore(): Store {
  const [, draw] = useState(0);
  useEffect(() => {
    const view = () => draw((n) => n + 1);
    views.add(view);
    return () => void views.delete(view);
  }, []);
  return store;
}

export function setTheme(theme: "dark" | "light", keep: boolean): void {
  store.theme = theme;
  document.documentElement.dataset.theme = theme;
  if (keep) localStorage.setItem("gpc-theme", theme);
  changed();
}

setTheme(store.theme, false);
system.addEventListener("change", () => {
  if (!localStorage.getItem("gpc-theme")) setTheme(system.matches ? "light" : "dark", false);
});

// mostKept frames are in the time lines.
const mostKept = 4096;

/** picked is the bus or branch that a person has chosen, on the map or in the list. */
export function picked(at: Picked | undefined): void {
  store.picked = at;
  if (at?.kind === "bus") store.loadBus = at.at;
  if (at?.kind === "branch") store.branch = at.at;
  changed();
}

// Generations: of the last event of a state, which its frames follow, and of the frame at hand.
let toldOf = 0;
let shownOf = 0;

let reading = false;
let readAt = 0;
let later = 0; // the timer of readLater
let seriesOf: number | undefined; // generation of the time lines

/** readSeries reads the time lines, of the same run only what is new. */
async function readSeries(): Promise<void> {
  if (reading) return;
  reading = true;
  try {
    for (let of; of !== store.state?.generation; ) {
      of = store.state?.generation;
      readAt = performance.now();
      const known = seriesOf === of ? store.series : undefined;
      const series = await get<Series>(known ? `series?from=${known.first + known.t.length}` : "series");
      if (of !== store.state?.generation) continue; // of frames that are gone
      if (!series.t) break; // nothing is new
      if (known && store.series === known && series.first === known.first + known.t.length) extend(known, series);
      else if (!known || series.first > known.first + known.t.length) store.series = series;
      seriesOf = of;
      if (store.frame && shownOf === of) include(store.frame); // the server may have made it since
    }
    changed();
  } catch (e) {
    fault(e);
  }
  reading = false;
}

/** readLater reads the time lines anew, at most three times a second. */
function readLater(): void {
  later ||= window.setTimeout(() => ((later = 0), void readSeries()), Math.max(0, readAt + 300 - performance.now()));
}

let reads = 0;
let read = Promise.resolve();

/** readAll reads everything again; of two at once the later is what counts, for both. */
function readAll(): Promise<void> {
  return (read = described(++reads));
}

async function described(turn: number): Promise<void> {
  try {
    const about = await get<Description>("case");
    if (turn !== reads) return read;
    for (const v of [about.state, about.action, about.objectives, about.margins].flat()) if (v.unit === "1") v.unit = "";
    store.about = about;
    document.title = `${about.case} · gpc view`;
    await readSeries();
    store.error = "";
    await opened();
    addressed();
  } catch (e) {
    fault(e);
  }
  changed();
}

/** fault says what went wrong; without a connection that is what went wrong, and is said already. */
function fault(e: unknown): void {
  if (!store.connected) return;
  store.error = e instanceof Error ? e.message : String(e);
  changed();
}

/** include adds a frame to the time lines; after a gap they are read anew. */
function include(f: Frame): void {
  const s = store.series;
  if (!s) return;
  const next = s.first + s.t.length;
  if (f.k < next) return;
  if (f.k > next) return readLater();
  const steered = f.priority?.length ? f.priority : f.sigma;
  const one = (v: Num | undefined): Num[] => [v ?? null];
  const discs = (f.shapes ?? []).filter((d) => d.role === "body" && d.path.length === 1);
  const reach = (by: 1 | -1, far: (...v: number[]) => number) => ([0, 1] as const).map((a) => far(...(f.shapes ?? []).flatMap((d) => d.path.map((at) => at[a] + by * d.r)))) as [number, number];
  extend(s, {
    first: f.k,
    t: [f.t],
    episode: [f.episode],
    j: s.j.map((_, i) => one(f.j?.[i])),
    priority: s.priority.map((_, i) => one(steered?.[i])),
    margin: [f.margin],
    latency_us: [f.latency_us],
    residual: [f.residual],
    replaced: [f.replaced],
    late: [f.late],
    fallback: [f.fallback],
    off: [off(f)],
    event: [(f.event ?? "") + (f.note ?? "")],
    s: s.s?.map((_, i) => one(f.s[i])),
    u: s.u?.map((_, i) => one(f.u?.[i])),
    bodies: s.bodies?.map((_, b): [Num, Num][] => [discs[b]?.path[0] ?? [null, null]]),
    lo: reach(-1, Math.min),
    hi: reach(1, Math.max),
  });
}

/** extend appends the decisions that come next to the time lines. */
function extend(s: Series, next: Series): void {
  const columns = (s: Series): unknown[][] => [s.t, s.episode, s.margin, s.latency_us, s.residual, s.replaced, s.late, s.fallback, s.off, s.event, ...s.j, ...s.priority, ...(s.s ?? []), ...(s.u ?? []), ...(s.bodies ?? [])];
  const more = columns(next);
  for (const [i, line] of columns(s).entries()) line.push(...(more[i] ?? next.t.map(() => [null, null])));
  for (const a of [0, 1] as const) {
    s.lo[a] = Math.min(s.lo[a] ?? Infinity, next.lo[a] ?? Infinity);
    s.hi[a] = Math.max(s.hi[a] ?? -Infinity, next.hi[a] ?? -Infinity);
  }
  const over = s.t.length - mostKept;
  if (over > 0) {
    for (const line of columns(s)) line.splice(0, over);
    s.first += over;
  }
}

/** off reports whether a decision was made off the map. */
export const off = (f: Frame): boolean => f.residual_limit > 0 && f.residual !== null && f.residual > f.residual_limit;

// aliveEvery is view.aliveEvery, and silent how long a server that is there says nothing at most, ms.
const aliveEvery = 2000;
const silent = 3 * aliveEvery;

// drift of two clocks, ms in one: the fastest event of an hour ago may have come by a clock that is off by a third of a second.
const drift = 1e-4;

// confirmEvery is the least time between two words of what was seen, ms.
const confirmEvery = 100;

/** connect follows the server's events, and comes back where they end or cease. */
export function connect(): void {
  const name = Math.random().toString(36).slice(2);
  const events = new EventSource(`view/events?page=${name}`);
  // The server sends no more than what was seen and a little: on a slow link it sends what is now in place of what was.
  let [seen, said, fastest] = [0, 0, Infinity];
  const confirm = async (at: number) => {
    if ((seen = Math.max(seen, at)) > at || said) return;
    while (said < seen) {
      said = seen;
      await fetch(`view/seen?page=${name}&at=${said}`, { method: "POST" }).catch(() => {});
      await new Promise((done) => setTimeout(done, confirmEvery));
    }
    said = 0;
  };
  const lost = (again: boolean) => {
    store.connected = false;
    store.error = "";
    changed();
    if (again) {
      clearInterval(watch);
      events.close();
      setTimeout(connect, 1000);
    }
  };
  const watch = setInterval(() => {
    if (store.connected && performance.now() - store.heard > silent) lost(true);
    changed(); // what is shown grows older
  }, 1000);
  const on = <T>(name: string, f: (v: T) => void) =>
    events.addEventListener(name, (e) => {
      const { data, lastEventId } = e as MessageEvent<string>;
      const now = performance.now();
      fastest = Math.min(fastest + drift * (now - store.heard), now - Number(lastEventId));
      store.heard = now;
      store.saidAt = Number(lastEventId);
      store.lag = now - store.saidAt - fastest;
      f(JSON.parse(data) as T);
      void confirm(store.saidAt);
      changed();
    });
  on<{ k: number }>("alive", ({ k }) => {
    store.newest = k;
    if (store.about && store.about.kind !== "trace") void get<string[]>("sessions").then((names) => (store.sessions = names), fault);
  });
  on<State>("state", (s) => {
    toldOf = s.generation;
    take(s);
  });
  on<Frame>("frame", (f) => {
    if (toldOf !== store.state?.generation) return; // an answer has said that this one is gone
    shownOf = toldOf;
    store.frame = f;
    if (f.grid) store.operated = f.grid;
    if (f.event) store.event = f.event;
    else if (!f.u) store.event = "";
    store.framed = performance.now();
    store.framedAt = store.saidAt;
    store.newest = f.k;
    const of = `${toldOf} ${f.episode}`;
    if (store.room.of !== of) store.room = { of, largest: {} };
    for (const [kind, m] of Object.entries(f.room ?? {})) store.room.largest[kind] = Math.max(store.room.largest[kind] ?? 0, m);
    store.preview = undefined;
    if (store.state) {
      store.state.k = f.k;
      store.state.last = Math.max(store.state.last, f.k);
    }
    include(f);
    if (link && !store.state?.playing) addressed();
  });
  on<Frame>("preview", (f) => (store.preview = f));
  on<Fan>("fan", (f) => (store.fan = f));
  events.onopen = () => {
    store.heard = performance.now();
    store.connected = true;
    store.refused = "";
    changed();
  };
  events.onerror = () => {
    const closed = events.readyState === EventSource.CLOSED;
    lost(closed);
    if (closed) void refusal();
  };
}

/** refusal asks why the server does not let the page in: an EventSource does not say. */
async function refusal(): Promise<void> {
  const stop = new AbortController();
  try {
    const answer = await fetch("view/events", { signal: stop.signal });
    if (!answer.ok) store.refused = `The server does not let this page in: ${(await answer.json()).error}`;
  } catch {
    store.refused = ""; // it is not there
  }
  stop.abort();
  changed();
}

// late is how much older than now what is shown may be without a word, ms.
const late = 1000;

/** behind is how many seconds what is shown is older than what the server has, 0 where nobody would see that. */
export function behind(s: Store): number {
  const silence = Math.max(0, performance.now() - s.heard - 1.5 * aliveEvery);
  const skipped = s.frame && s.newest !== undefined && s.newest !== s.frame.k ? s.saidAt - s.framedAt : 0;
  const ms = s.lag + silence + skipped;
  return s.connected && ms >= late ? Math.round(ms / 1000) : 0;
}

/** restarted sets the preference again that was set at this page. */
async function restarted(before: State, about: Description | undefined): Promise<void> {
  store.restart = { before: before.preference };
  const { chosen, about: now } = store;
  if (chosen && same(chosen, before.preference) && now?.steers && now.case === about?.case) await act("preference", { w: chosen.adaptive ? null : chosen.w });
  changed();
}

/** startedAgain is what a new start of the server has changed, by what is so now: all pages say the same. */
export function startedAgain({ restart, state, about }: Store): string {
  if (!restart || !state) return "";
  const now = state.preference;
  const name = now.adaptive ? "the adaptive priority" : (now.w ?? []).map((v, i) => `${about?.objectives[i]?.name ?? i} ${percent(v)}`).join(", ");
  return `The server has started again; its earlier lines are gone. ${same(restart.before, now) ? `The preference is that of before: ${name}.` : `The preference of before is lost; now it is ${name}.`}`;
}

/** take has a state of the server, of an event or of an answer, and keeps the later: of other frames than those before everything is read again. */
function take(s: State): void {
  const { state: before, about } = store;
  if (before?.start === s.start && s.order < before.order) return;
  store.state = s;
  if (store.held && same(store.held, s.preference)) store.held = undefined;
  if (about && s.generation === before?.generation) return;
  store.preview = store.fan = store.exact = undefined;
  store.solving?.abort();
  if (before?.start !== s.start) store.series = store.frame = store.restart = undefined; // of a run that is gone
  void readAll().then(async () => {
    if (before && before.start !== s.start) await restarted(before, about);
  });
}

function same(a: Preference, b: Preference): boolean {
  if (a.adaptive || b.adaptive) return a.adaptive === b.adaptive;
  return !!a.w && !!b.w && a.w.every((v, i) => Math.abs(v - b.w![i]) < 1e-9);
}

let acting = Promise.resolve();

/** act asks the server for something, when what was asked for before is answered: two requests at once may overtake each other. A body that depends on the answers before is a function. */
export function act(what: string, body: unknown | (() => unknown)): Promise<void> {
  return (acting = acting.then(() => asks(what, body)));
}

async function asks(what: string, body: unknown | (() => unknown)): Promise<void> {
  store.error = ""; // of what was asked before
  try {
    take(await post(what, typeof body === "function" ? body() : body));
  } catch (e) {
    fault(e);
    store.error = words(store.error);
    if (store.error && store.frame) store.refusals = [{ k: store.frame.k, text: store.error }, ...store.refusals].slice(0, 20);
  }
  changed();
}

/** solve asks for the exact front of this moment, or gives up the one on its way. */
export async function solve(): Promise<void> {
  if (store.solving) return store.solving.abort();
  const stop = (store.solving = new AbortController());
  changed();
  try {
    store.exact = await get<Exact>("exact", stop.signal);
  } catch (e) {
    if (!stop.signal.aborted) fault(e);
  }
  store.solving = undefined;
  changed();
}

/** forget takes the exact front away. */
export function forget(): void {
  store.exact = undefined;
  changed();
}

/** words are what the server says of a wrong change, without the names of its fields. */
const words = (text: string): string =>
  text
    .replace(/^load\.(p_mw|q_mvar) is (\S+), want (\S+ to \S+) at bus (\S+): /, (_, of, is, range, bus) => `A load of ${is} ${of === "p_mw" ? "MW" : "Mvar"} is not set: bus ${bus} takes ${range}, `)
    .replace(/^branch\.at is \d+: b/, "B")
    .replace(/^branch\.open is (true|false), which b(.*) is already$/, (_, open, name) => `B${name} is ${open === "true" ? "open" : "closed"} already`);

/** Hand is what a hand has at a control, from when it takes it until what it asks for is answered and drawn: what comes in between does not undo it. */
export interface Hand<T> {
  value: T | undefined;
  hold: (value: T) => void;
  drop: () => void;
  /** ask holds a value until the request for it is answered. */
  ask: (value: T, answered: Promise<void>) => void;
}

export function useHand<T>(): Hand<T> {
  const [held, hold] = useState<{ value: T; answered?: boolean }>();
  const drawn = held?.answered && store.frame?.k === store.state?.k;
  useLayoutEffect(() => {
    if (drawn) hold(undefined);
  });
  return {
    value: drawn ? undefined : held?.value,
    hold: (value) => hold({ value }),
    drop: () => hold(undefined),
    ask: (value, answered) => {
      const mine = { value };
      hold(mine);
      void answered.then(() => hold((now) => (now === mine ? { value, answered: true } : now)));
    },
  };
}

/** linked goes to the decision of a trace that the page's address names, and from then on the address names the one that is shown. */
async function linked(): Promise<void> {
  const at = new URLSearchParams(location.hash.slice(1));
  const episode = Number(at.get("episode") ?? NaN);
  if (Number.isInteger(episode) && episode !== store.frame?.episode) await act("reset", { episode });
  const k = Number(at.get("k") ?? NaN);
  if (Number.isInteger(k)) await act("seek", { k });
}

let link = false;

/** addressed writes the decision of a trace that is shown into the page's address. */
function addressed(): void {
  const f = store.frame;
  if (store.about?.kind !== "trace" || !f) return;
  if (!link) {
    link = true;
    if (location.hash) return void linked();
  }
  history.replaceState(null, "", `#episode=${f.episode}&k=${f.k}`);
}

/** opened goes once to what the address of a page of a plant that runs names: a link, or a client's session. */
async function opened(): Promise<void> {
  if (link || store.about?.kind !== "live") return;
  link = true;
  const at = new URLSearchParams(location.hash.slice(1));
  const [to, session] = [at.get("link"), at.get("session")];
  if (session !== null) return act("session", { session });
  if (to === null) return;
  let read: unknown;
  try {
    read = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(to.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))));
  } catch {
    return wrong("The link in the address is cut off or damaged.");
  }
  await act("link", { link: read });
}

/** wrong says what went wrong until the next thing that is asked for. */
export function wrong(text: string): void {
  store.error = text;
  changed();
}

/** copyLink makes a link to what is shown when all that was asked for is done: in the address, and on the clipboard where that is allowed. */
export async function copyLink(): Promise<void> {
  try {
    await acting;
    let hash = location.hash;
    if (store.state?.session != null) hash = `#session=${encodeURIComponent(store.state.session)}`;
    else if (store.about?.kind === "live") {
      const bytes = new TextEncoder().encode(JSON.stringify(await get<unknown>("link")));
      const text = btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
      hash = `#link=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
    }
    history.replaceState(null, "", hash || location.pathname);
    store.error = "";
    store.notice = await navigator.clipboard.writeText(location.href).then(
      () => "The link to what is shown is copied.",
      () => "The link to what is shown is in the address bar.",
    );
    changed();
  } catch (e) {
    fault(e);
  }
}

/** saveTrace downloads the episode that runs. */
export async function saveTrace(): Promise<void> {
  try {
    await acting;
    const answer = await fetch("view/trace");
    if (!answer.ok) throw new Error((await answer.json()).error);
    const file = document.createElement("a");
    file.href = URL.createObjectURL(await answer.blob());
    file.download = /filename="?([^";]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "trace.jsonl";
    file.click();
    setTimeout(() => URL.revokeObjectURL(file.href), 10_000);
    store.error = "";
    store.notice = `${file.download} is saved: gpc verify re-simulates it, gpc view shows it.`;
    changed();
  } catch (e) {
    fault(e);
  }
}

let busy = false;
let wanted: Preference | undefined;

/** prefer sets the preference; while a request is on its way the newest alone waits. */
export function prefer(p: Preference): void {
  store.held = store.chosen = p;
  store.notice = "";
  store.restart = undefined;
  wanted = p;
  changed();
  if (!busy) void sendPreferences();
}

async function sendPreferences(): Promise<void> {
  busy = true;
  while (wanted) {
    const p = wanted;
    wanted = undefined;
    await act("preference", { w: p.adaptive ? null : p.w });
  }
  busy = false;
}

const since = (ms: number): string => {
  const seconds = Math.round((performance.now() - ms) / 1000);
  return seconds < 300 ? `${seconds} s` : duration(seconds);
};

/** age is how old what is shown is, where the server is not there to say so. */
export const age = (s: Store): string => since(s.heard);

// quiet is how long a client asks nothing before the page says so, ms: more than alive events are apart, which draw it.
const quiet = 5000;

/** waited is how long the client of a session has asked nothing, "" where it asks. */
export const waited = (s: Store): string => (s.about?.kind === "session" && s.state?.playing && performance.now() - s.framed > quiet ? since(s.framed) : "");

/** shown is the frame to draw: a preview stands in for the last one. */
export const shown = (s: Store): Frame | undefined => s.preview ?? s.frame;

/** preference is the one at hand: what a person asks for comes before what the server has. */
export const preference = (s: Store): Preference => s.held ?? s.state?.preference ?? { adaptive: true };

/** worst is the frame of the least margin among those at hand, −1 where there is none. */
export function worst(s: Series | undefined): number {
  let at = -1;
  s?.margin.forEach((m, i) => {
    if (m !== null && (at < 0 || m < (s.margin[at] as number))) at = i;
  });
  return at < 0 ? -1 : at + s!.first;
}
