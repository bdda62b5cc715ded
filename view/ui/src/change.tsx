import type { TargetedSubmitEvent } from "preact";
import type { Grid, Operating } from "./api";
import { act, picked, shown, useHand, useStore, wrong } from "./store";
import { number, percent } from "./format";

/** ChangePanel changes the plant that runs: a load, or a branch that is opened or closed. */
export function ChangePanel() {
  const s = useStore();
  const about = s.about;
  const grid = about?.grid;
  if (!about || !grid || !about.changes.includes("load")) return null;
  const p = shown(s)?.grid ?? s.operated;
  return (
    <section class="panel change" aria-labelledby="change-title">
      <h2 id="change-title">Change the plant</h2>
      <Load grid={grid} p={p} />
      <Branches grid={grid} p={p} />
      <p class="hint" role="status">{s.event ? `Now: ${s.event}.` : "Choose here, or click a bus or a branch of the map."}</p>
    </section>
  );
}

type Submit = TargetedSubmitEvent<HTMLFormElement>;

/** entered is what a form's field holds as it is seen: what was chosen there may not have been drawn yet. */
function entered(form: HTMLFormElement | null, name: string): string {
  return String(new FormData(form ?? undefined).get(name) ?? "");
}

function Load({ grid, p }: { grid: Grid; p?: Operating }) {
  const s = useStore();
  const typed = useHand<{ bus: number; text: string }>();
  const loads = grid.buses.map((_, i) => i).filter((i) => p && (p.pd[i] !== 0 || p.qd[i] !== 0));
  if (!p || loads.length === 0) return null;
  const bus = s.picked?.kind === "bus" && loads.includes(s.picked.at) ? s.picked.at : (s.loadBus ?? loads[0]);
  const now = p.pd[bus] * grid.base_mva;
  const text = typed.value?.bus === bus ? typed.value.text : now.toFixed(1);
  const set = (e: Submit) => {
    e.preventDefault();
    const [bus, text] = [Number(entered(e.currentTarget, "bus")), entered(e.currentTarget, "power")];
    if (text.trim() === "" || !Number.isFinite(Number(text))) return wrong("A load is not set: want a number of MW.");
    typed.ask({ bus, text }, act("change", { change: { load: { bus, p_mw: Number(text) } } }));
  };
  return (
    <form class="row" onSubmit={set}>
      <label>
        <span>Load at bus</span>
        <select name="bus" value={bus} onChange={(e) => (typed.drop(), picked({ kind: "bus", at: Number(e.currentTarget.value) }))}>
          {loads.map((i) => (
            <option key={i} value={i}>
              {grid.buses[i].name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>MW, now {number(now, 3)}</span>
        <input name="power" type="number" step="any" value={text} onInput={(e) => typed.hold({ bus: Number(entered(e.currentTarget.form, "bus")), text: e.currentTarget.value })} />
      </label>
      <button type="submit">Set</button>
    </form>
  );
}

function Branches({ grid, p }: { grid: Grid; p?: Operating }) {
  const s = useStore();
  const at = s.picked?.kind === "branch" ? s.picked.at : (s.branch ?? 0);
  const b = grid.branches[at];
  if (!b) return null;
  const name = (k: number) => `${grid.buses[grid.branches[k].from].name}–${grid.buses[grid.branches[k].to].name}`;
  const how = (k: number) => (grid.branches[k].open ? "open" : p && grid.branches[k].rate ? percent(p.s[k] / (grid.branches[k].rate as number)) : "no rating");
  const set = (e: Submit) => {
    e.preventDefault();
    const k = Number(entered(e.currentTarget, "branch"));
    void act("change", { change: { branch: { at: k, open: !grid.branches[k].open } } });
  };
  return (
    <form class="row" onSubmit={set}>
      <label>
        <span>Branch</span>
        <select name="branch" value={at} onChange={(e) => picked({ kind: "branch", at: Number(e.currentTarget.value) })}>
          {grid.branches.map((_, k) => (
            <option key={k} value={k}>
              {name(k)} · {how(k)}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">{b.open ? "Close it" : "Open it"}</button>
    </form>
  );
}
