import type { Num } from "./api";

// rounding of the plant and of the page is written as 0.
const rounding = 1e-12;

/** number writes a value with so many significant digits, – where it is none. */
export function number(v: Num | undefined, digits = 4): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const size = Math.abs(v) < rounding ? 0 : Math.abs(v);
  if (size === 0) return "0";
  let text: string;
  if (size < 1e-4 || size >= 1e6) text = v.toExponential(Math.max(0, digits - 2));
  else text = v.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  return text.replaceAll("-", "−");
}

export const withUnit = (v: Num | undefined, unit: string, digits = 4): string => number(v, digits) + (unit && v !== null && v !== undefined ? ` ${unit}` : "");

/** milliseconds writes a time of a decision, from a minute on in minutes or hours. */
export const milliseconds = (ms: number): string => (ms < 60e3 ? withUnit(ms, "ms", 3) : ms < 7200e3 ? `${number(ms / 60e3, 3)} min` : duration(ms / 1000));

export const percent = (v: number): string => `${Math.round(100 * v)} %`;

/** duration is a time in a unit that suits it. */
export function duration(seconds: number): string {
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(2)} h`;
  if (seconds >= 300) return `${(seconds / 60).toFixed(1)} min`;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

/** decimals that write a step, and so every multiple of it, exactly. */
export function decimals(step: number): number {
  let d = 0;
  while (d < 12 && Math.abs(step * 10 ** d - Math.round(step * 10 ** d)) > 1e-6 * step * 10 ** d) d++;
  return d;
}

/** within writes a value to a thousandth of its box. */
export function within(v: Num | undefined, lo: Num, hi: Num): string {
  if (v === null || v === undefined || lo === null || hi === null || !(hi > lo)) return number(v);
  const text = v.toFixed(Math.max(0, 3 - Math.floor(Math.log10(hi - lo))));
  return (/[1-9]/.test(text) ? text : text.replace("-", "")).replace("-", "−");
}

export const clamp = (v: number, lo: number, hi: number): number => Math.min(hi, Math.max(lo, v));

/** ticks are round numbers between two, about n of them. */
export function ticks(lo: number, hi: number, n: number): number[] {
  const rough = (hi - lo) / Math.max(1, n);
  if (!(rough > 0)) return [lo];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 10 * power;
  const list: number[] = [];
  for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-9; v += step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return list;
}

/** tick writes a tick of an axis with the digits that tell it from the others. */
export function tick(x: number, v: number[]): string {
  if (v.length < 2) return number(x, 3);
  const size = Math.max(...v.map(Math.abs));
  const step = Math.abs(v[1] - v[0]);
  if (x === 0) return "0";
  const power = size < 1e-3 || size >= 1e6 ? Math.floor(Math.log10(size) + 1e-9) : 0;
  const text = (x / 10 ** power).toFixed(decimals(step / 10 ** power));
  return (power ? `${text}e${power}` : text).replaceAll("-", "−");
}
