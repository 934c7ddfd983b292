// Follows page_items.js in the same function: waits until a page is quiet, and acts on the item of a
// number. A function that takes a `documentKey` does nothing in any other document.

// ------------------------------------------------------------------ waiting

const settle = async (quiet, most) => {
  const began = performance.now();
  // An action may change the page a moment later: one that was quiet before is still watched for
  // half the quiet time.
  const earliest = began - quiet / 2;
  while (performance.now() - began < most) {
    await sleep(Math.max(1, Math.min(quiet, quiet - (performance.now() - lastChange))));
    const still = performance.now() - Math.max(lastChange, earliest);
    if (still < quiet) continue;
    const before = lastChange;
    watchInside(document);
    if (lastChange === before) break;
  }
};

// ------------------------------------------------------------------ actions

const find = (id, documentKey) => {
  if (documentKey && documentKey !== DOCUMENT_KEY) return { problem: "other" };
  const kept = nodes.get(id);
  if (!kept) return { problem: "unknown" };
  const node = kept.deref();
  // The document of a frame that was removed, or shows another one, has no window.
  if (!node || !get(node, "isConnected") || !viewOf(node)) return { problem: "gone" };
  return { node, el: isText(node) ? parentOf(node) : node };
};

const inView = (el, box) => box.top >= 0 && box.left >= 0
  && box.bottom <= viewOf(el).innerHeight && box.right <= viewOf(el).innerWidth;

// The rotations, reflections and scales of an element and of all that it is in, as one matrix.
const transformOf = (el) => {
  let whole = new DOMMatrix();
  for (let one = el; one; one = get(one, "assignedSlot") || parentOf(one) || hostOf(one)) {
    const { transform, rotate, scale } = getComputedStyle(one);
    const [x, y] = scale.split(" ").map(Number);  // NaN for "none"
    const own = new DOMMatrix().rotate(parseFloat(rotate) || 0).scale(x || 1, y || x || 1);
    whole = own.multiply(new DOMMatrix(transform)).multiply(whole);
  }
  return whole;
};

// A point of a frame's document in the document that the frame is in. The center of the frame is the
// center of its box, however it is transformed.
const outOf = (frame, at) => {
  const box = frame.getBoundingClientRect(), style = getComputedStyle(frame);
  const wide = frame.offsetWidth, high = frame.offsetHeight, { a, b, c, d } = transformOf(frame);
  // Scale that is no transform, such as that of a zoom.
  const moreX = box.width / (Math.abs(a) * wide + Math.abs(c) * high) || 1;
  const moreY = box.height / (Math.abs(b) * wide + Math.abs(d) * high) || 1;
  const x = frame.clientLeft + parseFloat(style.paddingLeft) + at.x - wide / 2;
  const y = frame.clientTop + parseFloat(style.paddingTop) + at.y - high / 2;
  return {
    x: box.left + box.width / 2 + moreX * (a * x + c * y),
    y: box.top + box.height / 2 + moreY * (b * x + d * y),
  };
};

// A point of an element's document in the window, or what is on top of a frame that it is in.
const inWindow = (el, at) => {
  let point = at;
  for (let view = viewOf(el); view !== window && view.frameElement; view = view.parent) {
    const frame = view.frameElement;
    point = outOf(frame, point);
    const hit = topAt(frame, point);
    if (hit !== frame) return { by: hit };
  }
  return point;
};

const bringIntoView = (el, where) => {
  const box = tagOf(el) === "AREA" ? imageOf(el) || el : el;
  call(box, "scrollIntoView", { ...where, behavior: "instant" });
};

const locate = (id, documentKey) => {
  const found = find(id, documentKey);
  if (found.problem) return found;
  const { node, el } = found;
  if (disabled(el) || (tagOf(el) === "LABEL" && el.control && disabled(el.control))) {
    return { problem: "disabled" };
  }
  if (!shown(boxOf(node))) return { problem: "hidden" };
  const at = pointOf(node, el);
  if (!at.problem && inView(el, boxOf(node))) return at;
  bringIntoView(el, { block: "center", inline: "center" });
  return pointOf(node, el);
};

// Where an item is, and whether the page has noticed that the mouse is over it.
const hover = (id, documentKey) => {
  const at = locate(id, documentKey);
  if (at.problem) return at;
  const { el } = find(id, documentKey);
  const over = [el, ...labelsOf(el)].some((one) => matches(one, ":hover"));
  return { ...at, over };
};

const POINTS = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.2], [0.5, 0.8], [0.08, 0.5], [0.92, 0.5]];
const GRID = [1, 3, 5, 7, 9].flatMap((x) => [1, 3, 5, 7, 9].map((y) => [x / 10, y / 10]));
const pointsOf = (node) => {
  const boxes = isText(node) ? [boxOf(node)] : [...call(node, "getClientRects"), boxOf(node)];
  const points = isText(node) || tagOf(node) !== "AREA" ? POINTS : [...POINTS, ...GRID];
  return boxes.filter(shown).flatMap((box) => points.map(([x, y]) =>
    ({ x: box.left + box.width * x, y: box.top + box.height * y })));
};
const topAt = (el, at) => {
  let hit = get(el, "ownerDocument").elementFromPoint(at.x, at.y);
  while (hit && get(hit, "shadowRoot")) {
    const inner = get(hit, "shadowRoot").elementFromPoint(at.x, at.y);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  return hit;
};
const isPart = (hit, node, el) => [el, ...labelsOf(el)].some((one) => contains(one, hit))
  || (isText(node) && contains(hit, node));
// The first point in the window at which an item or its label is on top, or what covers it. A
// control that its label draws is often cut to nothing.
const pointOf = (node, el) => {
  const covers = [];
  for (const at of [node, ...labelsOf(el)].flatMap(pointsOf)) {
    const hit = topAt(el, at);
    const point = hit && isPart(hit, node, el) ? inWindow(el, at) : { by: hit };
    if ("x" in point) return point;
    covers.push(point.by);
  }
  return { problem: "covered", by: describe(covers[0]) };
};
const describe = (hit) =>
  hit ? visibleText(hit).slice(0, 60) || tagOf(hit).toLowerCase() : "something";

const setValue = (el, value) => {
  const kind = el.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(el, value);
  el.dispatchEvent(new Event("input", { bubbles: true }));
  el.dispatchEvent(new Event("change", { bubbles: true }));
};

// Gives an element the focus: keys and text go to whatever has it.
const takesFocus = (el) => {
  call(el, "focus");
  const active = call(el, "getRootNode").activeElement;
  return Boolean(active) && (contains(el, active) || (editable(active) && contains(active, el)));
};

// Makes a field ready for typing over its content, or fills in one that can't be typed into.
const field = (id, text, documentKey) => {
  const found = find(id, documentKey);
  if (found.problem) return found;
  const { el } = found;
  if (!matches(el, "input,textarea") && !editable(el)) return { problem: "no field" };
  if (disabled(el)) return { problem: "disabled" };
  if (get(el, "readOnly")) return { problem: "read only" };
  const type = get(el, "type");
  if (type === "file") return { problem: "file" };
  if (["checkbox", "radio", "button", "submit", "reset", "image"].includes(type)) {
    return { problem: "no field" };
  }
  if (!visible(el)) return { problem: "hidden" };
  bringIntoView(el, { block: "nearest" });
  if (!takesFocus(el)) return { problem: "no focus" };
  if (["date", "time", "color", "range", "month", "week", "datetime-local"].includes(type)) {
    const probe = document.createElement("input");
    probe.type = type;
    probe.value = text;
    // Chromium writes a color in lower case.
    const kept = type === "range" ? isNumber(text)
      : probe.value.toLowerCase() === text.toLowerCase();
    if (!kept) return { problem: "not a value", kind: type };
    setValue(el, text);
    return { done: true };
  }
  if (editable(el)) {
    get(el, "ownerDocument").getSelection().selectAllChildren(el);
  } else {
    el.select();
  }
  return { done: false, empty: editable(el) ? !textOf(el) : !el.value };
};

// A slider takes any text: it moves to its middle for one that is no number.
const isNumber = (text) => {
  const probe = document.createElement("input");
  probe.type = "number";
  probe.value = text;
  return probe.value !== "";
};

const choose = (id, option, documentKey) => {
  const found = find(id, documentKey);
  if (found.problem) return found;
  const { el } = found;
  if (tagOf(el) !== "SELECT") return { problem: "no list" };
  if (disabled(el)) return { problem: "disabled" };
  if (!visible(el)) return { problem: "hidden" };
  const wanted = clean(option), all = optionsOf(el);
  const same = (one) => [clean(one.text), clean(one.value)];
  const exact = (one) => same(one).includes(wanted);
  const alike = (one) => same(one).some((x) => x.toLowerCase() === wanted.toLowerCase());
  const off = (one) => matches(one, ":disabled"), on = all.filter((one) => !off(one));
  const hit = on.find(exact) || all.find(exact) || on.find(alike) || all.find(alike);
  if (!hit) return { problem: "no option" };
  if (off(hit)) return { problem: "disabled option" };
  if (!takesFocus(el)) return { problem: "no focus" };
  hit.selected = !el.multiple || !hit.selected;
  el.dispatchEvent(new Event("input", { bubbles: true }));
  el.dispatchEvent(new Event("change", { bubbles: true }));
  return {};
};

const focus = (id, documentKey) => {
  const found = find(id, documentKey);
  if (found.problem) return found;
  if (disabled(found.el)) return { problem: "disabled" };
  if (!visible(found.el)) return { problem: "hidden" };
  return takesFocus(found.el) ? {} : { problem: "no focus" };
};

const scroll = (id, down, documentKey) => {
  const found = find(id, documentKey);
  if (found.problem) return found;
  let { el } = found;
  const hidden = () => get(el, "scrollHeight") - get(el, "clientHeight");
  while (el && hidden() <= 1) el = parentOf(el);
  if (!el) return { problem: "no scroll" };
  const before = get(el, "scrollTop"), far = 0.9 * get(el, "clientHeight");
  call(el, "scrollBy", { top: down ? far : -far, behavior: "instant" });
  const now = get(el, "scrollTop");
  const end = now >= hidden() - 1 ? "bottom" : now <= 1 ? "top" : "";
  return { moved: Math.abs(now - before) > 0.5, end };
};

const show = (id) => {
  const { el } = find(id);
  if (el) bringIntoView(el, { block: "start" });
  return {};
};

const text = (id, documentKey) => {
  if (id === null) return { text: document.body ? textOf(document.body).slice(0, 200000) : "" };
  const found = find(id, documentKey);
  if (found.problem) return found;
  const { el } = found;
  const value = get(el, "value");
  const whole = typeof value === "string" && isField(el) ? value : textOf(el);
  return { text: (whole || "").slice(0, 200000) };
};

const title = () => ({ title: clean(document.title), url: location.href.slice(0, MAX_NAME) });

globalThis.agentfly = {
  list, settle, locate, hover, field, choose, focus, scroll, show, text, title,
};
