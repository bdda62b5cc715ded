import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { duration, percent } from "./format";
import { get, post, type Description, type Fan, type Frame, type Operating, type Preference, type Series, type State } from "./api";

// Everything that the page shows. Events of the server change it; views are drawn again at
// most once a picture of the screen.
export interface Store {
  about?: Description;
  state?: State;
  frame?: Frame;
  preview?: Frame; // what would be decided now; until the next frame
  fan?: Fan;
  series?: Series;
  connected: boolean;
  heard: number; // when the server last said anything, ms of performance.now
  framed: number; // when it last sent a frame
  error: string;
  sessions: string[]; // of others, that can be shown
  notice: string; // what a new start of the server has changed
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
  framed: performance.now(),
  error: "",
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

async function readSeries(): Promise<void> {
  if (reading) return;
  reading = true;
  try {
    for (let of; of !== store.state?.generation; ) {
      of = store.state?.generation;
      readAt = performance.now();
      const series = await get<Series>("series");
      if (of !== store.state?.generation) continue; // of frames that are gone
      store.series = series;
      if (store.frame && shownOf === of) include(store.frame); // the server may have made it since
    }
    changed();
  } catch (e) {
    fault(e);
  }
  reading = false;
}

/** readLater reads the time lines anew, at most once a second. */
function readLater(): void {
  later ||= window.setTimeout(() => ((later = 0), void readSeries()), Math.max(0, readAt + 1000 - performance.now()));
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
  s.t.push(f.t);
  s.episode.push(f.episode);
  s.j.forEach((line, i) => line.push(f.j?.[i] ?? null));
  s.priority.forEach((line, i) => line.push(steered?.[i] ?? null));
  s.margin.push(f.margin);
  s.latency_us.push(f.latency_us);
  s.residual.push(f.residual);
  s.replaced.push(f.replaced);
  s.late.push(f.late);
  s.s?.forEach((line, i) => line.push(f.s[i] ?? null));
  s.u?.forEach((line, i) => line.push(f.u?.[i] ?? null));
  const bodies = (f.shapes ?? []).filter((d) => d.role === "body" && d.path.length === 1).map((d) => d.path[0]);
  s.bodies?.forEach((line, b) => line.push(bodies[b] ?? [null, null]));
  for (const d of f.shapes ?? []) {
    for (const at of d.path) {
      for (const a of [0, 1] as const) {
        s.lo[a] = Math.min(s.lo[a] ?? at[a], at[a] - d.r);
        s.hi[a] = Math.max(s.hi[a] ?? at[a], at[a] + d.r);
      }
    }
  }
  const over = s.t.length - mostKept;
  if (over > 0) {
    for (const line of [s.t, s.episode, s.margin, s.latency_us, s.residual, s.replaced, s.late, ...s.j, ...s.priority, ...(s.s ?? []), ...(s.u ?? []), ...(s.bodies ?? [])]) line.splice(0, over);
    s.first += over;
  }
}

// silent is how long a server that is there says nothing at most, ms: three times view.aliveEvery.
const silent = 6000;

/** connect follows the server's events, and comes back where they end or cease. */
export function connect(): void {
  const events = new EventSource("view/events");
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
    if (!store.connected) changed(); // what is shown grows older
  }, 1000);
  const on = <T>(name: string, f: (v: T) => void) =>
    events.addEventListener(name, (e) => {
      store.heard = performance.now();
      f(JSON.parse((e as MessageEvent<string>).data) as T);
      changed();
    });
  on("alive", () => {
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
    changed();
  };
  events.onerror = () => lost(events.readyState === EventSource.CLOSED);
}

/** restarted sets the preference again that was set at this page, and says what became of it. */
async function restarted(before: State, about: Description | undefined): Promise<void> {
  const now = store.about;
  const name = (p: Preference) => (p.adaptive ? "the adaptive priority" : (p.w ?? []).map((v, i) => `${now?.objectives[i]?.name ?? i} ${percent(v)}`).join(", "));
  const { chosen, state } = store;
  store.notice = "The server has started again; its earlier lines are gone.";
  if (!state || same(before.preference, state.preference)) return changed();
  if (chosen && same(chosen, before.preference) && now?.steers && now.case === about?.case) {
    await act("preference", { w: chosen.adaptive ? null : chosen.w });
    if (store.state && same(chosen, store.state.preference)) {
      store.notice += ` Your preference is set again: ${name(chosen)}.`;
      return changed();
    }
  }
  store.notice += ` The preference of before is lost; now it is ${name(store.state!.preference)}.`;
  changed();
}

/** take has a state of the server, of an event or of an answer, and keeps the later: of other frames than those before everything is read again. */
function take(s: State): void {
  const { state: before, about } = store;
  if (before?.start === s.start && s.order < before.order) return;
  store.state = s;
  if (store.held && same(store.held, s.preference)) store.held = undefined;
  if (about && s.generation === before?.generation) return;
  store.preview = store.fan = undefined;
  if (before?.start !== s.start) store.series = store.frame = undefined; // of a run that is gone
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
  try {
    take(await post(what, typeof body === "function" ? body() : body));
    store.error = "";
  } catch (e) {
    fault(e);
  }
  changed();
}

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
function wrong(text: string): void {
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
