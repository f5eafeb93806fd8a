// The picture from afar: a few paths in the place of thousands of boxes and lines. Those of a band of the picture that
// look alike are one path, so that what changes its colour has its own band drawn anew and nothing else.

const BAND = 3000; // pixels of a picture, at least, whose boxes and lines are one path each
const BANDS = 10; // at most
const HUE_STEP = 15;
const HEATS = 8; // shades
const THIN = 0.9; // pixels of lines

class Overview {
  constructor() {
    this.element = svg("g", { class: "overview", "aria-hidden": "true", display: "none" });
    this.layers = null;
  }

  /** What it stands for. It is drawn when it is to be seen, or before that by `paint`. */
  take(shown, size) {
    this.shown = shown;
    this.high = Math.max(BAND, size.height / BANDS);
    this.layers = null;
  }

  forget() {
    this.layers = null;
  }

  /** These have other colours now. */
  recolour(nodes, hulls) {
    if (!this.layers) return;
    this.rings.spoil(hulls);
    this.boxes.spoil(nodes);
  }

  paint() {
    if (!this.shown) return;
    if (!this.layers) {
      const { nodes, frames, edges, hulls } = this.shown;
      const outermost = [...frames].sort((a, b) => a.depth - b.depth);
      const depths = [...new Set(outermost.map((frame) => frame.depth))];
      this.rings = new Layer(hulls, this.high, ringOf);
      this.boxes = new Layer(nodes, this.high, boxOf);
      this.layers = [
        ...depths.map((depth) => new Layer(outermost.filter((frame) => frame.depth === depth), this.high, groundOf)),
        this.rings,
        new Layer(edges, this.high, lineOf),
        this.boxes,
      ];
      this.element.replaceChildren(...this.layers.map((layer) => layer.element));
    }
    for (const layer of this.layers) layer.paint();
  }

  /** Shows what of it is in a part of the picture. */
  show(part, scale) {
    this.paint();
    this.element.style.setProperty("--thin", (THIN / scale).toFixed(2));
    for (const layer of this.layers) layer.show(part);
    this.element.removeAttribute("display");
  }

  hide() {
    this.element.setAttribute("display", "none");
  }
}

/** Things of one sort, by bands of the picture. */
class Layer {
  /** `drawn(thing)` has the name and style of its path, the path, and its left, top, width and height; or is null. */
  constructor(things, high, drawn) {
    Object.assign(this, { high, drawn, element: svg("g", {}), bands: new Map() });
    for (const thing of things) {
      const number = this.bandOf(thing);
      if (!this.bands.has(number)) this.bands.set(number, { things: [], paths: [] });
      this.bands.get(number).things.push(thing);
    }
    this.stale = new Set(this.bands.keys());
  }

  bandOf(thing) {
    return Math.floor(topOf(thing) / this.high);
  }

  spoil(things) {
    for (const thing of things) this.stale.add(this.bandOf(thing));
  }

  paint() {
    for (const number of this.stale) {
      const band = this.bands.get(number);
      if (!band) continue;
      for (const { element } of band.paths) element.remove();
      band.paths = pathsOf(band.things, this.drawn);
      this.element.append(...band.paths.map((path) => path.element));
    }
    this.stale.clear();
  }

  show(part) {
    for (const { paths } of this.bands.values()) for (const path of paths) path.element.classList.toggle("out", !meet(path, part));
  }
}

/** One path for all that have one name and style, with its extent. */
function pathsOf(things, drawn) {
  const found = new Map();
  for (const thing of things) {
    const told = drawn(thing);
    if (!told) continue;
    const { name, style, path, left, top, width, height } = told;
    const key = `${name}|${style}`;
    if (!found.has(key)) found.set(key, { name, style, parts: [], left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity });
    const one = found.get(key);
    one.parts.push(path);
    Object.assign(one, { left: Math.min(one.left, left), top: Math.min(one.top, top), right: Math.max(one.right, left + width), bottom: Math.max(one.bottom, top + height) });
  }
  return [...found.values()].map(({ name, style, parts, left, top, right, bottom }) => (
    { element: svg("path", { class: name, style: style || null, d: parts.join("") }), left, top, right, bottom }
  ));
}

function topOf(thing) {
  return thing.extent?.[1] ?? thing.top ?? thing.y - thing.height / 2;
}

function box(name, style, left, top, width, height) {
  const path = `M${left.toFixed(0)},${top.toFixed(0)}h${width.toFixed(0)}v${height.toFixed(0)}h${(-width).toFixed(0)}z`;
  return { name, style, path, left, top, width, height };
}

function groundOf({ depth, x, y, width, height }) {
  return box(`ground depth${depth % 2}`, "", x - width / 2, y - height / 2, width, height);
}

/** Of a partition that is taken; by a slider it may be none yet. */
function ringOf({ element, partition, left, top, width, height }) {
  if (partition.later) return null;
  const plain = element.classList.contains("plain");
  return box(plain ? "ring plain" : "ring", plain ? "" : hueStyle(hueOf(partition)), left, top, width, height);
}

function lineOf({ element, extent: [left, top, width, height], straight }) {
  return { name: element.classList.contains("copy") ? "line copy" : "line", style: "", path: straight, left, top, width, height };
}

function boxOf(node) {
  const { x, y, width, height } = node;
  return box(...boxStyle(node), x - width / 2, y - height / 2, width, height);
}

function hueStyle(hue) {
  return `--hue:${Math.round(Number(hue) / HUE_STEP) * HUE_STEP}`;
}

/** Class and style of a node's box. */
function boxStyle({ element, later }) {
  if (later) return ["box", ""];
  const kinds = ["nobody", "pill", "group"].filter((name) => element.classList.contains(name));
  const name = ["box", ...kinds].join(" ");
  if (element.classList.contains("hot")) return [`${name} warm`, `--heat:${Math.round(Number(element.style.getPropertyValue("--heat")) * HEATS) / HEATS}`];
  if (element.classList.contains("owned")) return [`${name} hued`, hueStyle(element.style.getPropertyValue("--hue"))];
  return [name, ""];
}
