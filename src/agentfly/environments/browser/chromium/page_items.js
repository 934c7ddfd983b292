// Runs in a world of its own in every document: the page's scripts can neither see nor change it.
// Lists what a person could see and use as numbered items, and finds the item of a number again.
const MAX_ITEMS = 3000, MAX_NODES = 60000, MAX_OPTIONS = 40;
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
  shorten((text || "").slice(0, most * 4).replace(/\s+/g, " ").trim(), most);

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
observer.observe(document, {
  subtree: true, childList: true, attributes: true, characterData: true,
});

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
  if (tag === "IFRAME") return null;  // What is in it has roles.
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
  if (isField(el)) return clean(get(el, "placeholder") || get(el, "title") || get(el, "name"));
  return visibleText(el) || clean(get(el, "title") || attribute(el, "name"));
};
const labelsOf = (el) => [...(get(el, "labels") || [])];
const fileOf = (src) => src && !src.startsWith("data:") ? src.split(/[?#]/)[0].split("/").pop() : "";
const labelText = (label) => [...label.childNodes].map((node) =>
  isText(node) ? node.data : get(node, "matches") && matches(node, "select,textarea,input")
    ? "" : get(node, "textContent")).join(" ");
const isField = (el) => matches(el, "input,textarea,select") || editable(el);

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
    const root = get(one, "shadowRoot");
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
  if (!isText(node)) return call(node, "getBoundingClientRect");
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

// ------------------------------------------------------------------ the list of items

const SVG = "http://www.w3.org/2000/svg";  // A frame has an SVGElement of its own.
const USABLE = "input,select,textarea,button,a,svg,li,tr,[role],[onclick]";

const itemOf = (el, role) => {
  const item = { role, name: nameOf(el, role) };
  const value = valueOf(el, role), states = statesOf(el);
  if (value !== null && value !== undefined && (isField(el) || value !== item.name)) {
    item.value = value;
  }
  if (role === "link" && !item.name) item.name = classes(el);
  if (states.length) item.states = states;
  if (tagOf(el) === "SELECT") {
    item.options = [...el.options].slice(0, MAX_OPTIONS).map((one) => clean(one.text));
    item.more = Math.max(0, el.options.length - MAX_OPTIONS);
  }
  return item;
};

class Walk {
  constructor(hidden) {
    this.items = [];
    this.run = [];
    this.visited = 0;
    this.cut = false;
    this.waits = [];
    this.hidden = hidden.length ? hidden.join(",") : null;
  }

  flush() {
    if (!this.run.length) return;
    const text = clean(this.run.map((node) => node.data).join(" "), MAX_TEXT);
    const seen = text && this.run.find((node) => node.data.trim());
    if (seen) this.add(this.anchor(seen), { role: "text", name: text });
    this.run = [];
  }

  // A text that is all there is in its element is clicked through the element.
  anchor(node) {
    const el = parentOf(node);
    return el && this.run.every((one) => contains(el, one)) && get(el, "children").length === 0
      ? el : node;
  }

  add(node, item) {
    if (this.items.length >= MAX_ITEMS) { this.cut = true; return; }
    this.items.push({ id: idOf(node), ...item });
  }

  children(el) {
    const root = get(el, "shadowRoot") || el;
    const list = tagOf(el) === "SLOT" && el.assignedNodes().length ? el.assignedNodes()
      : get(root, "childNodes");
    for (const child of list) {
      if (this.cut) return;
      this.visit(child);
    }
  }

  visit(node) {
    if (++this.visited > MAX_NODES) { this.cut = true; return; }
    if (isText(node)) {
      if (node.data.trim() && shown(boxOf(node)) && !skipsText(parentOf(node))) this.run.push(node);
      return;
    }
    if (get(node, "nodeType") !== 1 || SKIPPED.has(tagOf(node))) return;
    if (this.hidden && matches(node, this.hidden)) return;
    const style = getComputedStyle(node);
    if (style.display === "none") return;
    // In a closed <details>, or in an element with `content-visibility: hidden`.
    if (style.display !== "contents" && !call(node, "checkVisibility")) return;
    if (style.visibility !== "visible" || +style.opacity === 0) {
      if (style.visibility !== "visible") this.hiddenParts(node);
      return;
    }
    // One element that can't be read must not cost the whole page, nor vanish unseen.
    try { this.element(node, style); } catch (error) {
      this.run = [];
      this.add(node, { role: "unreadable", name: tagOf(node).toLowerCase() });
    }
  }

  // A hidden element may have visible children.
  hiddenParts(node) {
    for (const child of get(node, "children")) this.visit(child);
  }

  element(el, style) {
    if (get(el, "namespaceURI") === SVG) return this.drawing(el, style);
    const tag = tagOf(el), role = roleOf(el, style);
    if (tag === "IMG" ? !el.complete : pictured(el, style)) this.awaits(el);
    if (role) return this.control(el, role);
    if (tag === "IFRAME") return this.frame(el);
    if (tag === "LABEL" && this.labels(el)) return;
    if (tag === "TR" && this.row(el)) return;
    const inline = style.display.startsWith("inline") || style.display === "contents";
    if (!inline) this.flush();
    const before = this.items.length + this.run.length;
    this.children(el);
    if (!inline) this.flush();
    if (before === this.items.length + this.run.length) this.box(el, style);
  }

  control(el, role) {
    if (!shown(boxOf(el)) && !matches(el, "input,summary,a")) {
      if (role === "clickable" || role === "heading") this.children(el);
      return;
    }
    this.flush();
    if (role === "clickable" && this.clickable(el)) return;
    if (!shown(boxOf(el)) && !visibleText(el)) return;
    this.add(el, itemOf(el, role));
  }

  // Lists what stands for a clickable element: its usable parts, its named parts, or, if it has no
  // name, its look. Returns false for one with a name, which is listed itself.
  clickable(el) {
    if (call(el, "querySelector", USABLE)) {
      this.children(el);
      this.flush();
      return true;
    }
    if (this.group(el)) return true;
    if (nameOf(el, "clickable")) return false;
    if (!this.box(el, getComputedStyle(el))) {
      this.add(el, { role: "clickable", name: classes(el) });
    }
    return true;
  }

  // Several clickable parts in a row, such as icons with names.
  group(el) {
    const parts = [...get(el, "children")];
    const inline = (one) => getComputedStyle(one).display.startsWith("inline");
    if (parts.length < 2 || !parts.every(inline) || !parts.every(visibleText)) return false;
    for (const one of parts) this.add(one, { role: "clickable", name: visibleText(one) });
    return true;
  }

  // A label's text is the name of its control, which is listed by itself.
  labels(label) {
    const control = label.control;
    if (!control || control.type === "hidden" || !shown(boxOf(control))) return false;
    this.flush();
    if (label.contains(control)) this.visit(control);
    return true;
  }

  row(tr) {
    if (tr.querySelector("input,select,textarea,button,a,img,svg,[onclick],[role],[tabindex]")) {
      return false;
    }
    const cells = [...tr.cells].map((cell) => clean(cell.innerText)).filter((one) => one);
    if (!cells.length || [...tr.cells].some((cell) => getComputedStyle(cell).cursor === "pointer")) {
      return false;
    }
    this.flush();
    this.add(tr, { role: "row", name: clean(cells.join(" | "), MAX_TEXT) });
    return true;
  }

  frame(el) {
    this.flush();
    const inside = el.contentDocument;  // null for a frame of another site
    if (inside && inside.body) this.children(inside.body);
    else this.add(el, { role: "frame", name: clean(el.title || el.src) });
    this.flush();
  }

  drawing(el, style) {
    // An icon beside its name.
    if (el.getAttribute("aria-hidden") === "true") return;
    const tag = el.tagName.toLowerCase();
    if (SHAPES.has(tag)) {
      const box = boxOf(el);
      if (!shown(box) && tag !== "line") return;
      const fill = colorName(style.fill) || colorName(style.stroke);
      const label = clean(el.textContent);
      this.flush();
      const corners = tag === "polygon" && el.points ? `${el.points.numberOfItems} corners` : "";
      this.add(el, {
        role: tag === "text" ? "glyph" : tag,
        name: [label, fill, corners, size(box)].filter(Boolean).join(" "),
      });
      return;
    }
    this.flush();
    for (const child of el.children) this.visit(child);
  }

  // A picture that is still being loaded has no size yet.
  awaits(el) {
    if (!givenUp.has(el)) this.waits.push(el);
  }

  // A colored or pictured box without content.
  box(el, style) {
    const box = boxOf(el);
    if (box.width < 4 || box.height < 4 || get(el, "children").length) return false;
    const color = colorName(style.backgroundColor);
    const pointed = style.cursor === "pointer";
    const picture = style.backgroundImage !== "none" || style.content.startsWith("url(");
    if (!color && !picture && !pointed) return false;
    this.flush();
    this.add(el, {
      role: "box",
      name: [
        clean(get(el, "title") || attribute(el, "aria-label") || classes(el)), color, size(box),
      ].filter(Boolean).join(" "),
    });
    return true;
  }
}
// Whether an element does not show the text in it; `checkVisibility` answers for elements alone.
const skipsText = (el) => {
  if (!el) return false;
  const { display, contentVisibility } = getComputedStyle(el);
  if (display === "contents") return skipsText(parentOf(el));
  return (contentVisibility === "hidden" && display !== "inline")
    || (tagOf(el) === "DETAILS" && !el.open);
};
const pictured = (el, style) => style.content.startsWith("url(") && !shown(boxOf(el));
const classes = (el) => clean(attribute(el, "class") || get(el, "id"), 40);

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const givenUp = new WeakSet();
const list = async (hidden, patience) => {
  const began = performance.now();
  let walk = new Walk(hidden);
  for (;;) {
    if (document.body) walk.children(document.body);
    walk.flush();
    if (!walk.waits.length) break;
    if (performance.now() - began > patience) {
      walk.waits.forEach((el) => givenUp.add(el));
      break;
    }
    await sleep(10);
    walk = new Walk(hidden);
  }
  return {
    url: location.href, title: clean(document.title), items: walk.items, cut: walk.cut,
    document: DOCUMENT_KEY,
  };
};
