// Requests to the viewer's server, and the events that it sends when runs change.

/** Get JSON; an error carries the server's own message. */
export async function get(path, signal) {
  const answer = await fetch(path, { signal, headers: { Accept: "application/json" } });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.error?.message ?? `the server answered ${answer.status}`);
  return body;
}

export const run = (name, rest = "") => `/api/runs/${encodeURIComponent(name)}${rest}`;

const listeners = new Set();
let state = "connecting";

/** Call back with the names of runs that changed, until the signal is aborted. */
export function onChange(call, signal) {
  listeners.add(call);
  signal.addEventListener("abort", () => listeners.delete(call));
}

/** Listen to the server; call `onState` with "live" or "offline". */
export function listen(onState) {
  const source = new EventSource("/api/changes");
  const setState = (now) => { if (now !== state) { state = now; onState(now); } };
  source.addEventListener("ready", () => {
    const again = state === "offline";
    setState("live");
    if (again) for (const call of [...listeners]) call(null);
  });
  source.addEventListener("change", (event) => {
    const names = JSON.parse(event.data);
    for (const call of [...listeners]) call(names);
  });
  source.addEventListener("error", () => setState("offline"));
}

/** Whether a change concerns a run; null stands for all runs. */
export const concerns = (names, name) => names === null || names.includes(name);

/** Metrics of a run, kept and continued: only new lines are asked for. */
export class Metrics {
  constructor(name) {
    this.name = name;
    this.clear();
  }

  clear() {
    this.steps = []; this.times = []; this.series = new Map(); this.about = {}; this.problem = "";
  }

  async refresh(signal) {
    const got = await get(run(this.name, `/metrics?since=${this.steps.length}`), signal);
    if (got.from !== this.steps.length || got.from === 0) this.clear();
    const before = this.steps.length;
    this.steps.push(...got.steps);
    this.times.push(...got.times);
    Object.assign(this.about, got.about);
    this.problem = got.problem;
    for (const [name, values] of Object.entries(got.series)) {
      if (!this.series.has(name)) this.series.set(name, new Array(before).fill(null));
      this.series.get(name).push(...values);
    }
    for (const values of this.series.values()) while (values.length < this.steps.length) values.push(null);
    return got.steps.length > 0;
  }

  /** Points [step, value] of a metric, without gaps. */
  points(name) {
    const values = this.series.get(name) ?? [];
    return values.map((value, index) => [this.steps[index], value]).filter(([, value]) => value !== null);
  }

  /** Points [step, low, high] of a metric's interval, where it has one. */
  band(name) {
    const low = new Map(this.points(`${name}_low`));
    return this.points(`${name}_high`).filter(([x]) => low.has(x)).map(([x, high]) => [x, low.get(x), high]);
  }

  names() { return [...this.series.keys()]; }
}
