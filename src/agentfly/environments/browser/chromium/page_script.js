// Runs in a world of its own in every document: the page's scripts can neither see nor change it.
// Lists what a person could see and use as numbered items, and finds the item of a number again.
(() => {
  const MAX_ITEMS = 3000, MAX_NODES = 60000, MAX_NAME = 200, MAX_OPTIONS = 40;
  const ids = new WeakMap(), nodes = new Map();
  let lastId = 0, lastChange = performance.now();

  const idOf = (node) => {
    if (!ids.has(node)) {
      ids.set(node, ++lastId);
      nodes.set(lastId, new WeakRef(node));
    }
    return ids.get(node);
  };
  const clean = (text, most = MAX_NAME) => {
    const short = (text || "").slice(0, most * 4).replace(/\s+/g, " ").trim();
    return short.length > most ? short.slice(0, most - 1) + "…" : short;
  };

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
    if (el instanceof HTMLFormElement) return null;
    const given = (el.getAttribute("role") || "").trim().toLowerCase();
    const tag = el.tagName.toUpperCase();
    if (tag === "INPUT") return el.type === "hidden" ? null : FIELDS[el.type] || "textbox";
    if (tag === "TEXTAREA") return "textbox";
    if (tag === "SELECT") return el.multiple ? "listbox" : "combobox";
    if (WIDGETS.has(given)) return given;
    if (tag === "BUTTON" || tag === "SUMMARY") return "button";
    if (tag === "A") return "link";
    if (el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable)) {
      return "textbox";
    }
    if (/^H[1-6]$/.test(tag)) return "heading";
    if (tag === "IMG") return "image";
    if (tag === "CANVAS") return "canvas";
    if (tag === "IFRAME") return null;  // What is in it has roles.
    if (tag === "VIDEO" || tag === "AUDIO") return tag.toLowerCase();
    if (el.hasAttribute("onclick") || el.tabIndex >= 0) return "clickable";
    const above = el.parentElement;
    if (style.cursor === "pointer" && above && getComputedStyle(above).cursor !== "pointer") {
      return "clickable";
    }
    return null;
  };

  const byIds = (el, list) => clean(list.split(/\s+/)
    .map((one) => el.getRootNode().getElementById && el.getRootNode().getElementById(one))
    .filter(Boolean).map((one) => one.innerText || one.textContent).join(" "));

  const visibleText = (el) => {
    const images = [...el.querySelectorAll("img[alt]")].map((one) => one.alt).join(" ");
    return clean((el.innerText !== undefined ? el.innerText : el.textContent) || images);
  };

  const nameOf = (el, role) => {
    const labelled = el.getAttribute("aria-labelledby");
    if (labelled && byIds(el, labelled)) return byIds(el, labelled);
    const label = el.getAttribute("aria-label");
    if (label && label.trim()) return clean(label);
    if ("labels" in el && el.labels && el.labels.length) {
      const text = clean([...el.labels].map(labelText).join(" "));
      if (text) return text;
    }
    if (el.tagName === "INPUT" && role === "button") return clean(el.value || el.alt || el.type);
    if (el.tagName === "IMG") return clean(el.alt || el.title || fileOf(el.src));
    if (isField(el)) return clean(el.placeholder || el.title || el.name || "");
    return visibleText(el) || clean(el.title || el.getAttribute("name") || "");
  };
  const fileOf = (src) => src && !src.startsWith("data:") ? src.split(/[?#]/)[0].split("/").pop() : "";
  const labelText = (label) => [...label.childNodes].map((node) =>
    node.nodeType === 3 ? node.data : node.matches && node.matches("select,textarea,input")
      ? "" : node.textContent).join(" ");
  const isField = (el) => el.matches("input,textarea,select") || el.isContentEditable;

  const valueOf = (el, role) => {
    if (el.tagName === "SELECT") {
      return [...el.selectedOptions].map((one) => clean(one.text)).join(", ");
    }
    if (el.tagName === "TEXTAREA") return el.value.slice(0, MAX_NAME * 4);
    if (el.tagName === "INPUT") {
      if (role === "password") return "•".repeat(Math.min(el.value.length, 20));
      return ["checkbox", "radio", "button", "file"].includes(role) ? null : clean(el.value);
    }
    if (role === "textbox") return clean(el.innerText);
    return el.getAttribute("aria-valuetext") || el.getAttribute("aria-valuenow");
  };

  const statesOf = (el) => {
    const states = [], aria = (name) => el.getAttribute("aria-" + name);
    if (el.checked === true || aria("checked") === "true") states.push("checked");
    if (aria("selected") === "true") states.push("selected");
    if (aria("expanded") === "true" || (el.tagName === "SUMMARY" && el.parentElement.open)) {
      states.push("expanded");
    }
    if (disabled(el)) states.push("disabled");
    if (el.readOnly === true) states.push("read only");
    if (active() === el) states.push("focused");
    return states;
  };
  const disabled = (el) => el.matches(":disabled") || el.getAttribute("aria-disabled") === "true";
  const active = () => {
    let one = document.activeElement;
    while (one && one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
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
    if (node.nodeType !== 3) return node.getBoundingClientRect();
    const range = node.ownerDocument.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  };
  const shown = (box) => box.width > 0.5 && box.height > 0.5;
  const size = (box) => `${Math.round(box.width)}x${Math.round(box.height)}`;

  const visible = (el) => {
    const view = el.ownerDocument.defaultView;
    return Boolean(view) && getComputedStyle(el).visibility === "visible" && shown(boxOf(el))
      && (!view.frameElement || visible(view.frameElement));
  };

  // ------------------------------------------------------------------ the list of items

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
      const text = clean(this.run.map((node) => node.data).join(" "), MAX_NAME * 5);
      const seen = text && this.run.find((node) => node.data.trim());
      if (seen) this.add(this.anchor(seen), { role: "text", name: text });
      this.run = [];
    }

    // A text that is all there is in its element is clicked through the element.
    anchor(node) {
      const el = node.parentElement;
      return el && this.run.every((one) => el.contains(one)) && el.children.length === 0
        ? el : node;
    }

    add(node, item) {
      if (this.items.length >= MAX_ITEMS) { this.cut = true; return; }
      this.items.push({ id: idOf(node), ...item });
    }

    children(el) {
      const root = el.shadowRoot || el;
      const list = el.tagName === "SLOT" && el.assignedNodes().length ? el.assignedNodes()
        : root.childNodes;
      for (const child of list) {
        if (this.cut) return;
        this.visit(child);
      }
    }

    visit(node) {
      if (++this.visited > MAX_NODES) { this.cut = true; return; }
      if (node.nodeType === 3) {
        if (node.data.trim() && shown(boxOf(node))) this.run.push(node);
        return;
      }
      if (node.nodeType !== 1 || SKIPPED.has(node.tagName.toUpperCase())) return;
      if (this.hidden && node.matches(this.hidden)) return;
      const style = getComputedStyle(node);
      if (style.display === "none") return;
      if (style.visibility !== "visible" || +style.opacity === 0) {
        if (style.visibility !== "visible") this.hiddenParts(node);
        return;
      }
      // A form's fields may hide its own properties: <input name="children">.
      try { this.element(node, style); } catch (error) { this.run = []; }
    }

    // A hidden element may have visible children.
    hiddenParts(node) {
      for (const child of node.children) this.visit(child);
    }

    element(el, style) {
      if (el instanceof SVGElement) return this.drawing(el, style);
      if (el.tagName === "IMG" ? !el.complete : pictured(el, style)) this.awaits(el);
      const role = roleOf(el, style);
      if (role) return this.control(el, role);
      if (el.tagName === "IFRAME") return this.frame(el);
      if (el.tagName === "LABEL" && this.labels(el)) return;
      if (el.tagName === "TR" && this.row(el)) return;
      const inline = style.display.startsWith("inline") || style.display === "contents";
      if (!inline) this.flush();
      const before = this.items.length + this.run.length;
      this.children(el);
      if (!inline) this.flush();
      if (before === this.items.length + this.run.length) this.box(el, style);
    }

    control(el, role) {
      if (!shown(boxOf(el)) && !el.matches("input,summary,a")) {
        if (role === "clickable" || role === "heading") this.children(el);
        return;
      }
      this.flush();
      if (role === "clickable"
          && el.querySelector("input,select,textarea,button,a,svg,li,tr,[role],[onclick]")) {
        this.children(el);
        this.flush();
        return;
      }
      if (role === "clickable" && this.group(el)) return;
      if (!shown(boxOf(el)) && !visibleText(el)) return;
      if (role === "clickable" && !nameOf(el, role)) {
        return this.box(el, getComputedStyle(el)) || this.add(el, { role, name: classes(el) });
      }
      const item = { role, name: nameOf(el, role) };
      const value = valueOf(el, role), states = statesOf(el);
      if (value !== null && value !== undefined && (isField(el) || value !== item.name)) {
        item.value = value;
      }
      if (role === "link" && !item.name) item.name = classes(el);
      if (states.length) item.states = states;
      if (el.tagName === "SELECT") {
        item.options = [...el.options].slice(0, MAX_OPTIONS).map((one) => clean(one.text));
        item.more = Math.max(0, el.options.length - MAX_OPTIONS);
      }
      this.add(el, item);
    }

    // Several clickable parts in a row, such as icons with names.
    group(el) {
      const parts = [...el.children];
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
      this.add(tr, { role: "row", name: cells.join(" | ") });
      return true;
    }

    frame(el) {
      this.flush();
      let inside = null;
      try { inside = el.contentDocument; } catch (error) { inside = null; }
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
      if (box.width < 4 || box.height < 4 || el.children.length) return false;
      const color = colorName(style.backgroundColor);
      const pointed = style.cursor === "pointer";
      const picture = style.backgroundImage !== "none" || style.content.startsWith("url(");
      if (!color && !picture && !pointed) return false;
      this.flush();
      this.add(el, {
        role: "box",
        name: [clean(el.title || el.getAttribute("aria-label") || classes(el)), color, size(box)]
          .filter(Boolean).join(" "),
      });
      return true;
    }
  }
  const pictured = (el, style) => style.content.startsWith("url(") && !shown(boxOf(el));
  const classes = (el) => clean(
    (typeof el.className === "string" && el.className) || el.id || "", 40);

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
      document: token,
    };
  };
  const token = Math.random().toString(36).slice(2);

  // ------------------------------------------------------------------ waiting

  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const settle = async (quiet, most) => {
    const began = performance.now();
    let still = began;
    while (performance.now() - began < most) {
      await sleep(Math.max(1, Math.min(quiet, quiet - (performance.now() - lastChange))));
      still = performance.now() - Math.max(lastChange, began - quiet / 2);
      if (still >= quiet) break;
    }
  };

  // ------------------------------------------------------------------ actions

  const find = (id, given) => {
    if (given && given !== token) return { problem: "other" };
    const kept = nodes.get(id);
    if (!kept) return { problem: "unknown" };
    const node = kept.deref();
    if (!node || !node.isConnected) return { problem: "gone" };
    return { node, el: node.nodeType === 3 ? node.parentElement : node };
  };

  const inView = (box) => box.top >= 0 && box.left >= 0
    && box.bottom <= innerHeight && box.right <= innerWidth;

  // The offset of a frame in the window.
  const offset = (el) => {
    let x = 0, y = 0, view = el.ownerDocument.defaultView;
    while (view && view !== window && view.frameElement) {
      const box = view.frameElement.getBoundingClientRect();
      x += box.left + view.frameElement.clientLeft;
      y += box.top + view.frameElement.clientTop;
      view = view.parent;
    }
    return { x, y };
  };

  const locate = (id, given) => {
    const found = find(id, given);
    if (found.problem) return found;
    const { node, el } = found;
    if (disabled(el)) return { problem: "disabled" };
    if (!shown(boxOf(node))) return { problem: "hidden" };
    if (!inView(boxOf(node)) || !hits(node, el)) {
      el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    }
    const at = hits(node, el);
    if (!at) return { problem: "covered", by: cover(node, el) };
    const far = offset(el);
    return { x: at.x + far.x, y: at.y + far.y };
  };

  // Where an item is, and whether the page has noticed that the mouse is over it.
  const hover = (id, given) => {
    const at = locate(id, given);
    if (at.problem) return at;
    const { el } = find(id, given);
    const over = [el, ...(el.labels || [])].some((one) => one.matches(":hover"));
    return { ...at, over };
  };

  const POINTS = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.2], [0.5, 0.8], [0.08, 0.5], [0.92, 0.5]];
  const pointsOf = (node) => {
    const boxes = node.nodeType === 3 ? [boxOf(node)] : [...node.getClientRects(), boxOf(node)];
    return boxes.filter(shown).flatMap((box) => POINTS.map(([x, y]) =>
      ({ x: box.left + box.width * x, y: box.top + box.height * y })));
  };
  const topAt = (el, at) => {
    let hit = el.ownerDocument.elementFromPoint(at.x, at.y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(at.x, at.y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  };
  const hits = (node, el) => pointsOf(node).find((at) => {
    const hit = topAt(el, at);
    return hit && (el.contains(hit) || (el.labels && [...el.labels].some((l) => l.contains(hit)))
      || (node.nodeType === 3 && hit.contains(node)));
  });
  const cover = (node, el) => {
    const at = pointsOf(node)[0], hit = at && topAt(el, at);
    return hit ? visibleText(hit).slice(0, 60) || hit.tagName.toLowerCase() : "something";
  };

  const setValue = (el, value) => {
    const kind = el.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(el, value);
    el.dispatchEvent(new Event("input", { bubbles: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // Gives an element the focus: keys and text go to whatever has it.
  const takesFocus = (el) => {
    el.focus();
    const active = el.getRootNode().activeElement;
    return Boolean(active) && (el.contains(active)
      || (active.isContentEditable && active.contains(el)));
  };

  // Makes a field ready for typing over its content, or fills in one that can't be typed into.
  const field = (id, text, given) => {
    const found = find(id, given);
    if (found.problem) return found;
    const { el } = found;
    if (!el.matches("input,textarea") && !el.isContentEditable) return { problem: "no field" };
    if (disabled(el)) return { problem: "disabled" };
    if (el.readOnly) return { problem: "read only" };
    if (el.type === "file") return { problem: "file" };
    if (["checkbox", "radio", "button", "submit", "reset", "image"].includes(el.type)) {
      return { problem: "no field" };
    }
    if (!visible(el)) return { problem: "hidden" };
    el.scrollIntoView({ block: "nearest", behavior: "instant" });
    if (!takesFocus(el)) return { problem: "no focus" };
    if (["date", "time", "color", "range", "month", "week", "datetime-local"].includes(el.type)) {
      setValue(el, text);
      return el.value === text || el.type === "range" ? { done: true }
        : { problem: "not a value", kind: el.type };
    }
    if (el.isContentEditable) {
      getSelection().selectAllChildren(el);
    } else {
      el.select();
    }
    return { done: false, empty: el.isContentEditable ? !el.innerText : !el.value };
  };

  const choose = (id, option, given) => {
    const found = find(id, given);
    if (found.problem) return found;
    const { el } = found;
    if (el.tagName !== "SELECT") return { problem: "no list" };
    if (disabled(el)) return { problem: "disabled" };
    if (!visible(el)) return { problem: "hidden" };
    const wanted = clean(option), all = [...el.options];
    const same = (one) => [clean(one.text), clean(one.value)];
    const hit = all.find((one) => same(one).includes(wanted))
      || all.find((one) => same(one).some((x) => x.toLowerCase() === wanted.toLowerCase()));
    if (!hit) return { problem: "no option" };
    if (hit.disabled) return { problem: "disabled" };
    if (!takesFocus(el)) return { problem: "no focus" };
    if (el.multiple) hit.selected = !hit.selected; else el.value = hit.value;
    if (!el.multiple) hit.selected = true;
    el.dispatchEvent(new Event("input", { bubbles: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
    return {};
  };

  const focus = (id, given) => {
    const found = find(id, given);
    if (found.problem) return found;
    if (disabled(found.el)) return { problem: "disabled" };
    if (!visible(found.el)) return { problem: "hidden" };
    return takesFocus(found.el) ? {} : { problem: "no focus" };
  };

  const scroll = (id, down, given) => {
    const found = find(id, given);
    if (found.problem) return found;
    let { el } = found;
    while (el && el.scrollHeight <= el.clientHeight + 1) el = el.parentElement;
    if (!el) return { problem: "no scroll" };
    const before = el.scrollTop;
    el.scrollBy({ top: (down ? 0.9 : -0.9) * el.clientHeight, behavior: "instant" });
    const most = el.scrollHeight - el.clientHeight;
    const end = el.scrollTop >= most - 1 ? "bottom" : el.scrollTop <= 1 ? "top" : "";
    return { moved: Math.abs(el.scrollTop - before) > 0.5, end };
  };

  const show = (id) => {
    const { el } = find(id);
    if (el) el.scrollIntoView({ block: "start", behavior: "instant" });
    return {};
  };

  const text = (id, given) => {
    if (id === null) return { text: document.body ? document.body.innerText.slice(0, 200000) : "" };
    const found = find(id, given);
    if (found.problem) return found;
    const { el } = found;
    const whole = "value" in el && typeof el.value === "string" && isField(el) ? el.value
      : el.innerText !== undefined ? el.innerText : el.textContent;
    return { text: (whole || "").slice(0, 200000) };
  };

  const title = () => clean(`${document.title} ${location.href}`);

  globalThis.agentfly = {
    list, settle, locate, hover, field, choose, focus, scroll, show, text, title,
  };
})();
