// Colors that people with any kind of color vision can tell apart (Okabe and Ito's palette).

export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7f7f7f"];
export const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2", "3 6"];

export const color = (index) => PALETTE[index % PALETTE.length];

export const SPANS = {
  queue: "#e69f00", generate: "#0072b2", tool: "#009e73", environment: "#cc79a7", reward: "#d55e00",
};

/** A color with a strength from 0 to 1, as CSS. */
export function tint(hex, strength) {
  const [r, g, b] = [1, 3, 5].map((start) => Number.parseInt(hex.slice(start, start + 2), 16));
  return `rgb(${r} ${g} ${b} / ${Math.max(0, Math.min(1, strength)).toFixed(3)})`;
}
