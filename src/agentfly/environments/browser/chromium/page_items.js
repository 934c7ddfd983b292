// Follows page_elements.js in the same function: lists what a person could see and use as numbered
// items.
const MAX_ITEMS = 3000, MAX_OPTIONS = 40;

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
    const options = optionsOf(el), listed = options.slice(0, MAX_OPTIONS);
    item.options = listed.map((one) => clean(one.text));
    item.disabled = [...listed.keys()].filter((place) => matches(listed[place], ":disabled"));
    item.more = options.length - listed.length;
  }
  return item;
};
const optionsOf = (select) => [...select.options].filter((one) =>
  !isHidden(one) && (parentOf(one) === select || !isHidden(parentOf(one))));
const isHidden = (el) => getComputedStyle(el).display === "none";

const IN_ROW = "input,select,textarea,button,a,img,svg,[onclick],[role],[tabindex],"
  + "[contenteditable]:not([contenteditable=false i])";
const TOGGLED = new Set(["checkbox", "radio", "file", "button"]);  // By a click on their labels.

// Whether the walk lists more of an element in a cell than its text.
const standsOut = (el) => {
  if (!rendered(el)) return false;
  const tag = tagOf(el), role = roleOf(el, getComputedStyle(el));
  return (role !== null && role !== "heading") || tag === "TABLE" || EMBEDDED.has(tag)
    || isFrame(el) || Boolean(get(el, "shadowRoot"))
    || (tag === "LABEL" && el.control && !seen(el.control));
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
    if (tag === "LABEL" && this.labelAlone(el)) return;
    if (role) {
      this.control(el, role);
      if (tag !== "IMG" || !el.useMap) return;
      for (const area of areasOf(el)) this.add(area, itemOf(area, "link"));
      return;
    }
    if (isFrame(el)) return this.frame(el);
    if (tag === "LABEL" && this.labels(el)) return;
    if (tag === "TR" && this.row(el)) return;
    const inline = style.display.startsWith("inline") || style.display === "contents";
    if (!inline) this.flush();
    const before = this.items.length + this.run.length;
    this.children(el);
    if (!inline) this.flush();
    if (before !== this.items.length + this.run.length) return;
    if (EMBEDDED.has(tag)) this.embedded(el);
    else this.box(el, style);
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
    if (!control || control.type === "hidden" || !seen(control)) return false;
    this.flush();
    if (label.contains(control)) this.visit(control);
    return true;
  }

  // A label stands for a control that can't be seen, as in a switch that is drawn.
  labelAlone(label) {
    const control = label.control;
    if (!control || seen(control) || !shown(boxOf(label))) return false;
    const own = roleOf(control, getComputedStyle(control)), toggled = TOGGLED.has(own);
    if (!toggled && !visible(control)) return false;
    const role = toggled ? own : "clickable", states = statesOf(control);
    const name = clean(labelText(label)) || visibleText(label) || nameOf(control, own);
    this.flush();
    this.add(label, { role, name: name || classes(label), ...(states.length ? { states } : {}) });
    for (const one of label.querySelectorAll("a,button,input,select,textarea")) {
      if (one !== control && seen(one)) this.visit(one);
    }
    return true;
  }

  row(tr) {
    if (tr.querySelector(IN_ROW)) return false;
    const cells = [...tr.cells].filter((cell) =>
      call(cell, "checkVisibility", { checkOpacity: true }));
    const texts = cells.map((cell) => clean(textOf(cell))).filter((one) => one);
    if (!texts.length) return false;
    if (cells.some((cell) => getComputedStyle(cell).cursor === "pointer")) return false;
    if ([...tr.querySelectorAll("td *,th *")].some(standsOut)) return false;
    this.flush();
    this.add(tr, { role: "row", name: clean(texts.join(" | "), MAX_TEXT) });
    return true;
  }

  // A document or a player that a plug-in would show: one line.
  embedded(el) {
    const name = clean(get(el, "title") || el.data || el.src);
    if (!name || !shown(boxOf(el))) return;
    this.flush();
    this.add(el, { role: "frame", name });
  }

  frame(el) {
    if (!opens(el)) return;
    this.flush();
    const inside = el.contentDocument;  // null for a frame of another site
    if (inside && inside.body && !isRefused(el, inside)) this.children(inside.body);
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
// Whether a frame is still blank, because its address is not allowed or was not loaded yet.
const isRefused = (frame, inside) => get(inside, "URL") === "about:blank"
  && !call(inside.body, "hasChildNodes") && /^(?!about:|javascript:)./.test(frame.src);
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
