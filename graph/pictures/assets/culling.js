// What is drawn at all: of a large picture what is in view and around it, and from afar, where no text could be read,
// a few paths in the place of thousands of boxes and lines.

const READABLE = 0.3; // the scale below which it is seen from afar
const AROUND = 0.25; // of the view's width and height, what is drawn beside it
const WASTE = 2.2; // times the view's width that may stay drawn after zooming in
const AT_ONCE = 60; // elements that are shown in one frame
const HIDDEN_AT_ONCE = 400;
const MANY = 1000; // elements of a picture that gets ready to be seen from afar
const BAND = 3000; // pixels of a picture, at least, whose boxes and lines from afar are one path each
const BANDS = 10; // at most
const HUE_STEP = 15;
const HEATS = 8; // shades from afar
const THIN = 0.9; // pixels of lines from afar
const MARKED = ["pinned", "near", "match", "told"]; // also drawn from afar

class Culling {
  constructor(scene, view) {
    Object.assign(this, { scene, view, items: [], shown: null, window: null, far: false, waiting: [], leaving: [], painted: false, asked: 0 });
    this.overview = svg("g", { class: "overview", "aria-hidden": "true", display: "none" });
    view.watchers.push(() => this.follow());
  }

  /** Takes what was drawn anew; what is out of view is hidden before it is ever seen. */
  take(shown) {
    this.shown = shown;
    this.items = [
      ...[...shown.nodes, ...shown.frames].map((node) => itemOf(node.element, node.x - node.width / 2, node.y - node.height / 2, node.width, node.height)),
      ...shown.frames.map((node) => itemOf(node.closer, node.x - node.width / 2, node.y - node.height / 2, node.width, GROUP_TITLE)),
      ...shown.edges.map((drawn) => itemOf(drawn.element, ...drawn.extent)),
      ...shown.hulls.flatMap(({ element, title, left, top, width, height }) => [element, title].map((one) => itemOf(one, left, top, width, height))),
    ];
    this.scene.prepend(this.overview);
    this.repaint();
    this.window = null;
    this.follow(Infinity);
  }

  /** Colours or marks have changed. */
  repaint() {
    this.painted = false;
    if (this.items.length > MANY) requestIdleCallback(() => this.paint());
    this.refresh();
  }

  refresh() {
    if (!this.shown) return;
    this.window = null;
    this.follow();
  }

  /** Comes after each move; most change nothing here. */
  follow(most = AT_ONCE) {
    if (!this.shown) return;
    const seen = this.view.inView;
    const far = this.view.scale < READABLE;
    if (this.window && far === this.far && within(seen, this.window) && this.window.right - this.window.left < WASTE * (seen.right - seen.left)) return;
    const [across, down] = [AROUND * (seen.right - seen.left), AROUND * (seen.bottom - seen.top)];
    this.window = { left: seen.left - across, top: seen.top - down, right: seen.right + across, bottom: seen.bottom + down };
    this.far = far;
    this.leaving = [];
    this.waiting = [];
    for (const item of this.items) if (item.on !== this.wanted(item)) (item.on ? this.leaving : this.waiting).push(item);
    if (this.waiting.length > most) {
      const centre = [(seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2];
      const distance = new Map(this.waiting.map((item) => [item, Math.hypot((item.left + item.right) / 2 - centre[0], (item.top + item.bottom) / 2 - centre[1])]));
      this.waiting.sort((a, b) => distance.get(b) - distance.get(a)); // taken from the end
    }
    this.work(most);
  }

  wanted(item) {
    if (item.element === document.activeElement) return true; // what is hidden has no focus
    return meet(item, this.window) && (!this.far || MARKED.some((name) => item.element.classList.contains(name)));
  }

  /** Shows and hides a part of what waits, and the rest in the next frames. */
  work(most) {
    const parts = [takenFrom(this.leaving, Math.max(most, HIDDEN_AT_ONCE)), takenFrom(this.waiting, most)];
    for (const item of parts.flat()) {
      item.on = !item.on;
      item.element.classList.toggle("out", !item.on);
    }
    this.drawOverview(this.far || this.waiting.length > 0);
    if (!(this.waiting.length || this.leaving.length) || this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.work(AT_ONCE);
    });
  }

  paint() {
    if (this.painted) return;
    this.bands = overviewOf(this.shown, Math.max(BAND, this.view.size.height / BANDS));
    this.overview.replaceChildren(...this.bands.map((band) => band.element));
    this.painted = true;
  }

  drawOverview(visible) {
    if (!visible) {
      this.overview.setAttribute("display", "none");
      return;
    }
    this.paint();
    this.overview.style.setProperty("--thin", (THIN / Math.min(READABLE, this.view.scale)).toFixed(2));
    for (const band of this.bands) band.element.classList.toggle("out", !meet(band, this.window));
    this.overview.removeAttribute("display");
  }

  /** Shows an element that is to have the focus, wherever it is. */
  show(element) {
    const item = this.items.find((one) => one.element === element);
    if (!item || item.on) return;
    item.on = true;
    element.classList.remove("out");
  }

  /** The node or open module at a point of the picture, where it is seen from afar. */
  at(x, y) {
    if (!this.far) return null;
    const over = (node) => Math.abs(node.x - x) <= node.width / 2 && Math.abs(node.y - y) <= node.height / 2;
    return this.shown.nodes.find(over) ?? this.shown.frames.findLast(over) ?? null;
  }
}

function takenFrom(list, most) {
  return list.splice(Math.max(0, list.length - most));
}

function itemOf(element, left, top, width, height) {
  return { element, left, top, right: left + width, bottom: top + height, on: true };
}

function meet(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function within(inner, outer) {
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top && inner.bottom <= outer.bottom;
}

// --- from afar ---

/** Paths for what is drawn, with their extents: grounds of modules from the outermost, then hulls, lines and boxes. */
function overviewOf({ nodes, frames, edges, hulls }, high) {
  const bands = new Map();

  function add(order, name, style, top, extent, path) {
    const key = [order, Math.floor(top / high), name, style].join("|");
    if (!bands.has(key)) bands.set(key, { order, name, style, paths: [], left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity });
    const band = bands.get(key);
    band.paths.push(path);
    const [left, upper, width, height] = extent;
    Object.assign(band, { left: Math.min(band.left, left), top: Math.min(band.top, upper), right: Math.max(band.right, left + width), bottom: Math.max(band.bottom, upper + height) });
  }

  function addBox(order, name, style, left, top, width, height) {
    add(order, name, style, top, [left, top, width, height], `M${left.toFixed(0)},${top.toFixed(0)}h${width.toFixed(0)}v${height.toFixed(0)}h${(-width).toFixed(0)}z`);
  }

  const corner = (node) => [node.x - node.width / 2, node.y - node.height / 2, node.width, node.height];
  for (const frame of frames) addBox(frame.depth, `ground depth${frame.depth % 2}`, "", ...corner(frame));
  for (const { element, partition, left, top, width, height } of hulls) {
    const plain = element.classList.contains("plain");
    addBox(1000, plain ? "ring plain" : "ring", plain ? "" : hueStyle(hueOf(partition)), left, top, width, height);
  }
  for (const { element, extent, straight } of edges) {
    add(1001, element.classList.contains("copy") ? "line copy" : "line", "", extent[1], extent, straight);
  }
  for (const node of nodes) addBox(1002, ...boxStyle(node), ...corner(node));
  return [...bands.values()].sort((a, b) => a.order - b.order).map(({ name, style, paths, left, top, right, bottom }) => (
    { element: svg("path", { class: name, style: style || null, d: paths.join("") }), left, top, right, bottom }
  ));
}

function hueStyle(hue) {
  return `--hue:${Math.round(Number(hue) / HUE_STEP) * HUE_STEP}`;
}

/** Class and style of a node's box. */
function boxStyle({ element }) {
  const kinds = ["nobody", "pill", "group"].filter((name) => element.classList.contains(name));
  const name = ["box", ...kinds].join(" ");
  if (element.classList.contains("hot")) return [`${name} warm`, `--heat:${Math.round(Number(element.style.getPropertyValue("--heat")) * HEATS) / HEATS}`];
  if (element.classList.contains("owned")) return [`${name} hued`, hueStyle(element.style.getPropertyValue("--hue"))];
  return [name, ""];
}
