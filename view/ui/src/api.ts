// What the server says, under its JSON keys (docs/view.md). A number that does not exist is null.

export type Num = number | null;

export interface Variable { name: string; unit: string; lo: Num; hi: Num; limit: string; collision: boolean }
export interface Preference { adaptive: boolean; w?: number[] }
export interface Bus { name: string; v_min: Num; v_max: Num; reference: boolean }
export interface Branch { from: number; to: number; rate: Num; open: boolean }
export interface Unit { bus: number; p_min: number; p_max: number; q_min: Num; q_max: Num }
export interface Grid {
  base_mva: number;
  buses: Bus[];
  branches: Branch[];
  units: Unit[];
  positions: [number, number][];
  width: number;
  height: number;
}
export interface Switch { action: number; values: number[] }
export interface Episode { episode: number; steps: number; safe: boolean; margin: Num; cause?: string }
export interface Description {
  case: string;
  about: string;
  method: string;
  kind: "live" | "session" | "trace";
  source: string;
  warnings: string[];
  steers: boolean;
  steps: number;
  step_s: number;
  deadline_us: number;
  margin_tolerance: number;
  state: Variable[];
  action: Variable[];
  objectives: Variable[];
  margins: Variable[];
  vertices: number[][];
  episodes: Episode[];
  grid?: Grid;
  switches: Switch[];
  changes: string[];
}
export interface Shape { role: "body" | "obstacle" | "goal" | "ground"; of: number; view?: string; r: number; path: [number, number][] }
export interface Operating {
  v: number[];
  angle: number[];
  pd: number[];
  qd: number[];
  p: number[];
  s: number[];
  pg: number[];
  qg: number[];
}
export interface Frame {
  k: number;
  episode: number;
  t: number;
  s: Num[];
  u: Num[] | null;
  plan?: Num[][];
  j: Num[] | null;
  sigma: Num[] | null;
  priority: Num[] | null;
  preference: Preference;
  margin: Num;
  margins: Num[] | null;
  room: Record<string, number> | null;
  residual: Num;
  residual_limit: number;
  displacement: Num;
  latency_us: Num;
  fallback: string;
  replaced: boolean;
  late: boolean;
  failed: boolean;
  note?: string;
  event?: string;
  cost: Num;
  best: Num;
  weights?: number[];
  shapes?: Shape[];
  grid?: Operating;
}
export interface Ray { preference: Preference; j: Num[]; margin: Num; feasible: boolean; paths?: [number, number][][] }
export interface FrontPoint { w: number[]; j: Num[]; feasible: boolean; dominated: boolean }
export interface Fan { k: number; episode: number; t: number; ahead: number; present: number; rays: Ray[]; points?: FrontPoint[]; took_ms: number }
/** Exact is the front of the exact solver beside the map's of the same weightings. */
export interface Exact { k: number; episode: number; t: number; ahead: number; points: FrontPoint[]; same: FrontPoint[] | null; hypervolume_ratio: Num; incomplete: boolean; took_ms: number }
export interface State {
  playing: boolean;
  hz: number;
  k: number;
  first: number;
  last: number;
  start: number;
  generation: number;
  order: number;
  preference: Preference;
  steers: boolean;
  seed: number | null;
  session: string | null;
  fault: string;
  version: string;
}
export interface Series {
  first: number;
  t: number[];
  episode: number[];
  j: Num[][];
  priority: Num[][];
  margin: Num[];
  latency_us: Num[];
  residual: Num[];
  replaced: boolean[];
  late: boolean[];
  fallback: string[];
  off: boolean[];
  event: string[];
  s?: Num[][];
  u?: Num[][];
  bodies?: [Num, Num][][];
  lo: [Num, Num];
  hi: [Num, Num];
}

async function answered<T>(response: Response): Promise<T> {
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ?? response.statusText);
  return body as T;
}

export const get = async <T>(what: string, signal?: AbortSignal): Promise<T> => answered<T>(await fetch(`view/${what}`, { signal }));

export const post = async (what: string, body: unknown): Promise<State> =>
  answered<State>(await fetch(`view/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
