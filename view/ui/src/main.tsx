import { render } from "preact";
import { useEffect } from "preact/hooks";
import "./app.css";
import { Arena } from "./arena";
import { ChangePanel } from "./change";
import { Events } from "./happened";
import { FrontPanel } from "./front";
import { Lines, StateLines } from "./lines";
import { GridMap } from "./map";
import { Dispatch, Margins, Now } from "./panels";
import { PreferencePanel } from "./preference";
import { act, age, behind, changed, connect, copyLink, prefer, preference, saveTrace, setTheme, shown, startedAgain, store, useHand, useStore, waited } from "./store";
import { step, toWorst, toggle, Transport } from "./transport";

/** typed reports whether a key belongs to what has the focus. */
function typed(e: KeyboardEvent): boolean {
  const on = e.target as HTMLElement;
  if (on.closest("select, textarea") || on.getAttribute("role") === "slider") return true;
  if (on instanceof HTMLInputElement) return e.key.startsWith("Arrow") || e.key === "Home" || e.key === "End";
  return on instanceof HTMLButtonElement && (e.key === " " || e.key === "Enter");
}

function keys(e: KeyboardEvent): void {
  if (!store.connected && e.key !== "t") return;
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typed(e)) return;
  const does: Record<string, () => void> = {
    " ": toggle,
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Home: () => store.state && void act("seek", () => ({ k: store.state!.first })),
    End: () => store.state && void act("seek", () => ({ k: store.state!.last })),
    w: toWorst,
    a: () => store.state?.steers && prefer(preference(store).adaptive ? { adaptive: false, w: store.about?.objectives.map((_, __, all) => 1 / all.length) } : { adaptive: true }),
    t: () => setTheme(store.theme === "dark" ? "light" : "dark", true),
  };
  if (does[e.key]) {
    e.preventDefault();
    does[e.key]();
  }
}

function Page() {
  const s = useStore();
  const session = useHand<string>();
  useEffect(() => {
    document.addEventListener("keydown", keys);
    connect();
    return () => document.removeEventListener("keydown", keys);
  }, []);
  const follow = (name: string) => session.ask(name, act("session", { session: name ? name.slice(1) : null }));
  const about = s.about;
  const frame = shown(s);
  if (!about || !s.state || !frame) return <p class="loading" role="status">{s.refused || s.error || "connecting…"}</p>;
  const old = behind(s);
  // The panels are of the frame at hand, which is not yet the one that the server shows.
  const stale = old > 0 || (!s.preview && s.frame!.k !== s.state.k);
  const notice = [startedAgain(s), s.notice].filter(Boolean).join(" ");
  const badge = !s.connected ? "no connection" : waited(s) ? `no decision for ${waited(s)}` : old ? `${old} s behind` : about.kind === "trace" ? "recorded" : s.state.playing ? "live" : "paused";
  const picture = about.grid ? <GridMap /> : frame.shapes?.length ? <Arena /> : null;
  return (
    <>
      <header>
        <svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><path d="M7 6c0 10 9 19 19 19" /><circle cx="11.6" cy="18.2" r="3.8" /></svg>
        <h1>{about.case}</h1>
        <span class="method">{about.method}</span>
        <span class={`badge ${!s.connected || old ? "off" : badge === "live" ? "live" : ""}`}>{badge}</span>
        {(s.sessions.length > 0 || s.state.session !== null) && (
          <select aria-label="What is shown" value={session.value ?? (s.state.session === null ? "" : `s${s.state.session}`)} disabled={!s.connected} onChange={(e) => follow(e.currentTarget.value)}>
            <option value="">plant beside the server</option>
            {[...new Set([...s.sessions, ...(s.state.session === null ? [] : [s.state.session])])].map((name) => (
              <option key={name} value={`s${name}`}>
                session {name || "without a name"}
              </option>
            ))}
          </select>
        )}
        <span class="about">
          {about.kind === "live" ? `episode ${frame.episode} · ` : ""}
          {about.source}
        </span>
        <span class="take">
          <button type="button" class="small" title="A link that makes what is shown again" disabled={!s.connected} onClick={() => void copyLink()}>
            Copy link
          </button>
          {about.kind === "live" && (
            <button type="button" class="small" title="The episode so far as a trace, for gpc verify and gpc view" disabled={!s.connected} onClick={() => void saveTrace()}>
              Save trace
            </button>
          )}
        </span>
        <button type="button" class="icon" title="Dark or light (t)" aria-label={s.theme === "dark" ? "Light colours" : "Dark colours"} onClick={() => setTheme(s.theme === "dark" ? "light" : "dark", true)}>
          <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 2a8 8 0 1 0 0 16ZM10 4a6 6 0 0 1 0 12Z" fill-rule="evenodd" /></svg>
        </button>
      </header>
      {notice && s.connected && (
        <p class="alerts" role="status">
          {notice}
          <button type="button" class="small" onClick={() => ((store.notice = ""), (store.restart = undefined), changed())}>
            Close
          </button>
        </p>
      )}
      {(s.error || s.state.fault || about.warnings.length > 0) && (
        <div class="alerts" role="alert">
          {[s.error, s.state.fault, ...about.warnings].filter(Boolean).map((w) => (
            <p key={w}>{w}</p>
          ))}
        </div>
      )}
      <main>
        {!s.connected && (
          <p class="dead" role="alert">
            No connection to the server: nothing on this page is current. <span aria-hidden="true">It is {age(s)} old.</span> {s.refused}
          </p>
        )}
        <div class={`work${picture || s.series?.s ? "" : " bare"}${s.connected ? "" : " gone"}${stale ? " old" : ""}`} inert={!s.connected}>
          <div class="middle">
            <div class="stage panel">
              {picture ?? <StateLines />}
              <Transport />
            </div>
            <Events />
          </div>
          <div class="side steer">
            <PreferencePanel />
            <FrontPanel />
            <ChangePanel />
          </div>
          <div class="side facts">
            <Now />
            <Margins />
            <Dispatch />
          </div>
          <Lines />
        </div>
      </main>
      <footer>
        <kbd>space</kbd> play or pause <kbd>←</kbd>
        <kbd>→</kbd> step <kbd>w</kbd> worst step <kbd>a</kbd> adaptive <kbd>t</kbd> colours
        <span class="version">gpc {s.state.version}</span>
      </footer>
    </>
  );
}

render(<Page />, document.getElementById("app")!);
