// What is drawn at all: of a large picture what is in view and around it, and from afar, where no text could be read,
// an overview in the place of thousands of boxes and lines.

const READABLE = 0.3; // the scale below which it is seen from afar
const AROUND = 0.25; // of the view's width and height, what is drawn beside it
const WASTE = 2.2; // times the view's width that may stay drawn after zooming in
const AT_ONCE = 60; // elements that are shown in one frame
const HIDDEN_AT_ONCE = 400;
const MANY = 1000; // elements of a picture that gets ready to be seen from afar
const MARKED = ["pinned", "near", "match", "told", "asked", "refused"]; // also drawn from afar

class Culling {
  constructor(scene, view) {
    Object.assign(this, { scene, view, items: [], itemOf: new Map(), shown: null, window: null, far: false, waiting: [], leaving: [], asked: 0, overview: new Overview() });
    view.watchers.push(() => this.follow());
  }

  /** Takes what was drawn anew; what is out of view is hidden before it is ever seen. */
  take(shown) {
    this.shown = shown;
    this.items = [
      ...[...shown.nodes, ...shown.frames].map((node) => placedItem(node.element, node.x - node.width / 2, node.y - node.height / 2, node.width, node.height)),
      ...shown.frames.map((node) => placedItem(node.closer, node.x - node.width / 2, node.y - node.height / 2, node.width, GROUP_TITLE)),
      ...shown.edges.map((drawn) => placedItem(drawn.element, ...drawn.extent)),
      ...shown.hulls.flatMap(({ element, title, left, top, width, height }) => [element, title].map((one) => placedItem(one, left, top, width, height))),
    ];
    this.itemOf = new Map(this.items.map((item) => [item.element, item]));
    this.overview.take(shown, this.view.size);
    this.scene.prepend(this.overview.element);
    this.repaint();
    this.window = null;
    this.follow(Infinity);
  }

  /** Colours have changed everywhere. */
  repaint() {
    this.overview.forget();
    if (this.items.length > MANY) requestIdleCallback(() => this.overview.paint());
    this.refresh();
  }

  /** These nodes and hulls have other colours now, and these elements other marks. */
  recolour(nodes, hulls, marked) {
    this.overview.recolour(nodes, hulls);
    if (!this.far && !this.waiting.length) return;
    for (const element of this.far ? marked : []) {
      const item = this.itemOf.get(element);
      if (item) this.turn(item, this.wanted(item));
    }
    this.drawOverview(true);
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
    for (const item of parts.flat()) this.turn(item, this.wanted(item)); // it may have been marked meanwhile
    this.drawOverview(this.far || this.waiting.length > 0);
    if (!(this.waiting.length || this.leaving.length) || this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.work(AT_ONCE);
    });
  }

  drawOverview(visible) {
    if (visible) this.overview.show(this.window, Math.min(READABLE, this.view.scale));
    else this.overview.hide();
  }

  turn(item, on) {
    item.on = on;
    item.element.classList.toggle("out", !on);
  }

  /** Shows an element that is to have the focus, wherever it is. */
  show(element) {
    const item = this.itemOf.get(element);
    if (item && !item.on) this.turn(item, true);
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

function placedItem(element, left, top, width, height) {
  return { element, left, top, right: left + width, bottom: top + height, on: true };
}

function meet(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function within(inner, outer) {
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top && inner.bottom <= outer.bottom;
}
