// Elements from data. Text becomes text nodes, never HTML; addresses lead only within the page.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: h("a", {class: "x", href: "#/", onclick: f}, "text", child). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "href" && !String(value).startsWith("#")) throw new Error(`not a link within the page: ${value}`);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** Children that are there: null, undefined and false stand for none. */
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Show something instead of what an element holds. */
export function show(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** An address within the page: link(["run", "sums", "chains"], {stop: "answered"}). */
export function link(parts, query = {}) {
  const path = parts.map(encodeURIComponent).join("/");
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(kept).toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

/** Read an address: {parts: ["run", "sums"], query: {...}}. */
export function readAddress(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** The head of a table, from the titles of its columns. */
export function tableHead(titles) {
  return h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
}

/** A message in place of content. */
export function note(text, kind = "") {
  return h("p", { class: `note ${kind}`, role: kind === "error" ? "alert" : "status" }, text);
}

/** Call a function once things have been quiet for a while. */
export function debounce(call, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}
