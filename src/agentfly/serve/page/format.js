// Numbers for people.

/** 0.7132 → "0.713", 12345 → "12.3k", null → "–". */
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-3)) return value.toExponential(1);
  if (size >= 1e6) return `${trim(value / 1e6, 3)}M`;
  if (size >= 1e4) return `${trim(value / 1e3, 3)}k`;
  return trim(value, digits);
}

function trim(value, digits) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(Math.max(digits, 1))));
}

export function reward(value) {
  return value === null || value === undefined ? "unscored" : value.toFixed(2);
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${trim(100 * share, 3)}%`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${trim(value * 1e6, 2)} µs`;
  if (value < 1) return `${trim(value * 1000, 3)} ms`;
  if (value < 120) return `${trim(value, 3)} s`;
  return value < 7200 ? `${trim(value / 60, 3)} min` : `${trim(value / 3600, 3)} h`;
}

export function bytes(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

export function ago(time) {
  if (!time) return "–";
  const past = Date.now() / 1000 - time;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86400) return `${Math.floor(past / 3600)} h ago`;
  return new Date(time * 1000).toISOString().slice(0, 10);
}

/** 12345 → "12,345". */
export const whole = (value) => value.toLocaleString("en-US");

export function count(value, noun) {
  return `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
}
