// Runs in a world of its own in every document: the page's scripts can neither see nor change it.
// Reads elements: their roles, names, values and states, whether they are visible, and where.
const MAX_NODES = 60000;
const MAX_NAME = 200, MAX_AREA = 800, MAX_TEXT = 1000;  // Characters.
const ids = new WeakMap(), nodes = new Map();
const DOCUMENT_KEY = Math.random().toString(36).slice(2);
let lastId = 0, lastChange = performance.now();

const idOf = (node) => {
  if (!ids.has(node)) {
    ids.set(node, ++lastId);
    nodes.set(lastId, new WeakRef(node));
  }
  return ids.get(node);
};
const shorten = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
const clean = (text, most = MAX_NAME) =>
  shorten((text || "").slice(0, most * 4).replace(/[\s\u0085]+/g, " ").trim(), most);

// The fields of a form hide its own properties (<input name="children">), but not those of its
// prototype: whatever may be a form is read there. Names of forms and images hide those of the
// document (<img name="body">) only in the page's own world.
const get = (node, name) => Reflect.get(Object.getPrototypeOf(node), name, node);
const call = (node, name, ...values) => get(node, name).apply(node, values);
const isText = (node) => get(node, "nodeType") === 3;
const tagOf = (el) => get(el, "tagName").toUpperCase();
const parentOf = (node) => get(node, "parentElement");
const attribute = (el, name) => call(el, "getAttribute", name);
const matches = (el, selector) => call(el, "matches", selector);
const contains = (el, node) => call(el, "contains", node);
const editable = (el) => get(el, "isContentEditable") === true;
// Elements that `content-visibility: auto` does not render yet have no innerText.
const leftOut = (el) => call(el, "checkVisibility")
  && !call(el, "checkVisibility", { contentVisibilityAuto: true });
const textOf = (el) => (leftOut(el) ? null : get(el, "innerText")) ?? get(el, "textContent");

const observer = new MutationObserver(() => { lastChange = performance.now(); });
const watched = new WeakSet();
const watch = (root) => {
  if (watched.has(root)) return;
  watched.add(root);
  observer.observe(root, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
  lastChange = performance.now();
};
watch(document);
// Observes the visible frames of the page's site and the open shadow roots: an observer of a
// document notices no changes in them.
const watchInside = (root) => {
  for (const el of [...root.querySelectorAll("*")].slice(0, MAX_NODES)) {
    const inside = get(el, "shadowRoot")
      || (isFrame(el) && seen(el) && opens(el) && el.contentDocument);
    if (!inside) continue;
    watch(inside);
    watchInside(inside);
  }
};

// ------------------------------------------------------------------ roles, names, values

const SKIPPED = new Set([
  "SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "DATALIST", "DEFS",
]);
const SHAPES = new Set([
  "circle", "ellipse", "rect", "polygon", "polyline", "line", "path", "text", "image",
]);
const FIELDS = {
  checkbox: "checkbox", radio: "radio", button: "button", submit: "button", reset: "button",
  image: "button", range: "slider", number: "spinbutton", password: "password", file: "file",
  date: "date", time: "time", color: "color", month: "month", week: "week",
  "datetime-local": "datetime",
};
const EMBEDDED = new Set(["OBJECT", "EMBED"]);
const WIDGETS = new Set([
  "button", "link", "checkbox", "radio", "tab", "menuitem", "menuitemcheckbox",
  "menuitemradio", "option", "switch", "treeitem", "textbox", "searchbox", "combobox",
  "slider", "spinbutton",
]);

const roleOf = (el, style) => {
  const ariaRole = (attribute(el, "role") || "").trim().toLowerCase();
  const tag = tagOf(el);
  if (tag === "FORM") return null;
  if (tag === "INPUT") return el.type === "hidden" ? null : FIELDS[el.type] || "textbox";
  if (tag === "TEXTAREA") return "textbox";
  if (tag === "SELECT") return el.multiple ? "listbox" : "combobox";
  if (WIDGETS.has(ariaRole)) return ariaRole;
  if (tag === "BUTTON" || tag === "SUMMARY") return "button";
  if (tag === "A") return "link";
  const above = parentOf(el);
  if (editable(el) && !(above && editable(above))) return "textbox";
  if (/^H[1-6]$/.test(tag)) return "heading";
  if (tag === "IMG") return "image";
  if (tag === "CANVAS") return "canvas";
  if (isFrame(el) || EMBEDDED.has(tag)) return null;  // What is in it has roles.
  if (tag === "VIDEO" || tag === "AUDIO") return tag.toLowerCase();
  if (call(el, "hasAttribute", "onclick") || get(el, "tabIndex") >= 0) return "clickable";
  if (style.cursor === "pointer" && above && getComputedStyle(above).cursor !== "pointer") {
    return "clickable";
  }
  return null;
};

const byIds = (el, list) => {
  const root = call(el, "getRootNode");
  return clean(list.split(/\s+/).map((one) => root.getElementById && root.getElementById(one))
    .filter(Boolean).map((one) => get(one, "innerText") || get(one, "textContent")).join(" "));
};

const visibleText = (el) => {
  const images = [...call(el, "querySelectorAll", "img[alt]")].map((one) => one.alt).join(" ");
  return clean(textOf(el) || images);
};

const nameOf = (el, role) => {
  const labelled = attribute(el, "aria-labelledby");
  if (labelled && byIds(el, labelled)) return byIds(el, labelled);
  const label = attribute(el, "aria-label"), tag = tagOf(el);
  if (label && label.trim()) return clean(label);
  const text = clean(labelsOf(el).map(labelText).join(" "));
  if (text) return text;
  if (tag === "INPUT" && role === "button") return clean(el.value || el.alt || el.type);
  if (tag === "IMG") return clean(el.alt || el.title || fileOf(el.src));
  if (tag === "AREA") return clean(el.alt || el.title || fileOf(el.href));
  if (isField(el)) return clean(get(el, "placeholder") || get(el, "title") || get(el, "name"));
  return visibleText(el) || clean(get(el, "title") || attribute(el, "name"));
};
const labelsOf = (el) => [...(get(el, "labels") || [])];
const fileOf = (src) => src && !src.startsWith("data:") ? src.split(/[?#]/)[0].split("/").pop() : "";
const labelText = (label) => [...label.childNodes].map((node) =>
  isText(node) ? node.data : get(node, "matches") && matches(node, "select,textarea,input")
    ? "" : get(node, "textContent")).join(" ");
const isField = (el) => matches(el, "input,textarea,select") || editable(el);
const isFrame = (el) => ["IFRAME", "FRAME"].includes(tagOf(el));

const valueOf = (el, role) => {
  const tag = tagOf(el);
  if (tag === "SELECT") {
    return clean([...el.selectedOptions].map((one) => clean(one.text)).join(", "), MAX_TEXT);
  }
  if (tag === "TEXTAREA") return shorten(el.value, MAX_AREA);
  if (tag === "INPUT") {
    if (role === "password") return "•".repeat(Math.min(el.value.length, 20));
    return ["checkbox", "radio", "button", "file"].includes(role) ? null : clean(el.value);
  }
  if (role === "textbox") return clean(textOf(el));
  const ariaValue = attribute(el, "aria-valuetext") || attribute(el, "aria-valuenow");
  return ariaValue && clean(ariaValue);
};

const statesOf = (el) => {
  const states = [], aria = (name) => attribute(el, "aria-" + name);
  if (get(el, "checked") === true || aria("checked") === "true") states.push("checked");
  if (aria("selected") === "true") states.push("selected");
  if (aria("expanded") === "true" || matches(el, "details[open] > summary")) {
    states.push("expanded");
  }
  if (disabled(el)) states.push("disabled");
  if (get(el, "readOnly") === true) states.push("read only");
  if (active() === el) states.push("focused");
  return states;
};
const disabled = (el) =>
  matches(el, ":disabled") || attribute(el, "aria-disabled") === "true";
const active = () => {
  let one = document.activeElement, inner = one;
  while (inner) {
    one = inner;
    const root = get(one, "shadowRoot") || (isFrame(one) && one.contentDocument);
    inner = root && root.activeElement;
  }
  return one;
};

const COLORS = {
  black: [0, 0, 0], white: [255, 255, 255], gray: [128, 128, 128], red: [255, 0, 0],
  lime: [0, 255, 0], green: [0, 128, 0], blue: [0, 0, 255], yellow: [255, 255, 0],
  cyan: [0, 255, 255], magenta: [255, 0, 255], orange: [255, 165, 0], purple: [128, 0, 128],
  pink: [255, 192, 203], brown: [165, 42, 42], olive: [128, 128, 0], navy: [0, 0, 128],
  maroon: [128, 0, 0], teal: [0, 128, 128], silver: [192, 192, 192],
};
const colorName = (css) => {
  const parts = (css || "").match(/[\d.]+/g);
  if (!parts || parts.length < 3 || (parts.length > 3 && +parts[3] === 0)) return "";
  const [r, g, b] = parts.map(Number);
  let best = "", least = Infinity;
  for (const [name, [x, y, z]] of Object.entries(COLORS)) {
    const far = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
    if (far < least) { least = far; best = name; }
  }
  return best;
};

// ------------------------------------------------------------------ visibility and place

const boxOf = (node) => {
  if (!isText(node)) {
    return tagOf(node) === "AREA" ? areaBox(node) : call(node, "getBoundingClientRect");
  }
  const range = node.ownerDocument.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect();
};
const shown = (box) => box.width > 0.5 && box.height > 0.5;
const size = (box) => `${Math.round(box.width)}x${Math.round(box.height)}`;

const viewOf = (el) => get(el, "ownerDocument").defaultView;
const visible = (el) => {
  const view = viewOf(el);
  return Boolean(view) && getComputedStyle(el).visibility === "visible" && shown(boxOf(el))
    && (!view.frameElement || visible(view.frameElement));
};

// Whether a person can see an element: `visible` elements may be transparent.
const seen = (el) => shown(boxOf(el))
  && call(el, "checkVisibility", { checkOpacity: true, checkVisibilityCSS: true });
const rendered = (el) => getComputedStyle(el).display === "contents" || call(el, "checkVisibility");

// Whether a frame shows something: those of trackers are a point, or where no scrolling leads.
const opens = (frame) => {
  let { right, bottom } = boxOf(frame);
  for (let one = parentOf(frame) || hostOf(frame); one; one = parentOf(one) || hostOf(one)) {
    const leftward = getComputedStyle(one).direction === "rtl";
    right += get(one, "scrollLeft");
    if (leftward) right += get(one, "scrollWidth") - get(one, "clientWidth");
    bottom += get(one, "scrollTop");
  }
  return right > 1 && bottom > 1 && frame.clientWidth > 1 && frame.clientHeight > 1;
};
const hostOf = (el) => call(el, "getRootNode").host;

// The links of an image, and the box of one of them: an <area> itself has none.
const areasOf = (image) => {
  const name = image.useMap.slice(image.useMap.indexOf("#") + 1);
  const maps = [...call(image, "getRootNode").querySelectorAll("map")];
  const map = maps.find((one) => one.name === name);
  return map ? [...map.areas].filter((one) => matches(one, "[href]")) : [];
};
const imageOf = (area) => {
  const images = [...call(area, "getRootNode").querySelectorAll("img[usemap]")];
  return images.find((one) => shown(boxOf(one)) && areasOf(one).includes(area));
};
const areaBox = (area) => {
  const image = imageOf(area);
  if (!image) return new DOMRect();
  const { left, top } = boxOf(image), style = getComputedStyle(image);
  const x = left + image.clientLeft + parseFloat(style.paddingLeft);
  const y = top + image.clientTop + parseFloat(style.paddingTop);
  const at = area.coords.split(/[\s,;]+/).map(Number), kind = area.shape.toLowerCase();
  if (kind === "default") return boxOf(image);
  if (kind.startsWith("circ")) {
    return new DOMRect(x + at[0] - at[2], y + at[1] - at[2], 2 * at[2], 2 * at[2]);
  }
  const across = at.filter((_, n) => n % 2 === 0), down = at.filter((_, n) => n % 2 === 1);
  const first = Math.min(...across), highest = Math.min(...down);
  return new DOMRect(
    x + first, y + highest, Math.max(...across) - first, Math.max(...down) - highest,
  );
};
