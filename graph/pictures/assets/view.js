// Moving and zooming the picture.

const SMALLEST = 0.002;
const LARGEST = 4;
const LEGIBLE = 0.75; // the scale below which a page does not open, though not everything is in view
const STILL = 4; // pixels that a click may move

class View {
  /** Opens where `first` is, a node or nothing, and again when its room changes, until it is moved. */
  constructor(picture, scene, shield, size, first) {
    Object.assign(this, { picture, scene, shield, size, first, x: 0, y: 0, scale: 1, moved: false, own: true, all: false, watchers: [] });
    // A frame in a notebook has no size yet when its page starts.
    new ResizeObserver(() => this.resized()).observe(picture);
    picture.addEventListener("wheel", (event) => this.turned(event), { passive: false });
    picture.addEventListener("pointerdown", (event) => this.grabbed(event));
    picture.addEventListener("pointermove", (event) => this.pulled(event));
    for (const name of ["pointerup", "pointercancel"]) picture.addEventListener(name, () => this.released());
  }

  apply() {
    this.scene.setAttribute("transform", `translate(${this.x.toFixed(2)} ${this.y.toFixed(2)}) scale(${this.scale.toFixed(8)})`);
    for (const watcher of this.watchers) watcher();
  }

  resized() {
    this.known = null;
    if (!this.own) this.apply();
    else if (this.all) this.fit();
    else this.open();
  }

  /** Where the picture is in the page; asked for once, since it is at each move. */
  get room() {
    this.known ??= this.picture.getBoundingClientRect();
    return this.known;
  }

  /** The part of the picture that is in view. */
  get inView() {
    const { width, height } = this.room;
    const [left, top] = [-this.x / this.scale, -this.y / this.scale];
    return { left, top, right: left + width / this.scale, bottom: top + height / this.scale };
  }

  scaleOfAll() {
    const { width, height } = this.room;
    const all = Math.min(width / this.size.width, height / this.size.height, 1);
    return Math.max(SMALLEST, Number.isFinite(all) && all > 0 ? all : 1);
  }

  /** Everything, centred. */
  fit() {
    this.own = true;
    this.all = true;
    const { width, height } = this.room;
    this.scale = this.scaleOfAll();
    this.x = (width - this.size.width * this.scale) / 2;
    this.y = (height - this.size.height * this.scale) / 2;
    this.apply();
  }

  /** Everything if it can be read then, and otherwise the top, where `first` is. */
  open() {
    const { first } = this;
    this.fit();
    this.all = false;
    if (this.scale >= LEGIBLE || !first) return;
    const { width } = this.room;
    this.scale = LEGIBLE;
    const all = this.size.width * this.scale;
    this.x = all <= width ? (width - all) / 2 : Math.min(0, Math.max(width - all, width / 2 - first.x * this.scale));
    this.y = 0;
    this.apply();
  }

  zoom(factor, at) {
    this.own = false;
    const { left, top, width, height } = this.room;
    const x = at ? at.clientX - left : width / 2;
    const y = at ? at.clientY - top : height / 2;
    const scale = Math.min(LARGEST, Math.max(Math.min(SMALLEST, this.scale), this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  move(x, y) {
    this.own = false;
    this.x += x;
    this.y += y;
    this.apply();
  }

  /** Moves a node into view if it is not; `centred` does so anyway. */
  reveal(node, centred = false) {
    const { width, height } = this.room;
    const x = node.x * this.scale + this.x;
    const y = node.y * this.scale + this.y;
    const halves = [(node.width * this.scale) / 2, (node.height * this.scale) / 2];
    const inside = x > halves[0] && x < width - halves[0] && y > halves[1] && y < height - halves[1];
    if (centred || !inside) this.move(width / 2 - x, height / 2 - y);
  }

  /** Comes so near that texts can be read. */
  legible() {
    if (this.scale < LEGIBLE) this.zoom(LEGIBLE / this.scale);
  }

  /** Moves that point of the picture to the middle. */
  centre(x, y) {
    const { width, height } = this.room;
    this.move(width / 2 - x * this.scale - this.x, height / 2 - y * this.scale - this.y);
  }

  /** Where the pointer is in the picture. */
  pointOf(event) {
    const { left, top } = this.room;
    return [(event.clientX - left - this.x) / this.scale, (event.clientY - top - this.y) / this.scale];
  }

  /** Where a point of the picture is in the page. */
  at(x, y) {
    return { x: x * this.scale + this.x, y: y * this.scale + this.y };
  }

  turned(event) {
    // Inside another page, which the wheel is to scroll, it zooms only once the picture was clicked, or with Ctrl.
    const framed = window.parent !== window;
    if (framed && !event.ctrlKey && !document.hasFocus()) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.008 : 0.0016)), event);
  }

  grabbed(event) {
    if (event.button !== 0) return;
    this.moved = false;
    this.from = { x: event.clientX, y: event.clientY, left: this.x, top: this.y, pointer: event.pointerId };
  }

  pulled(event) {
    if (!this.from || event.pointerId !== this.from.pointer) return;
    const x = event.clientX - this.from.x;
    const y = event.clientY - this.from.y;
    if (!this.moved && Math.hypot(x, y) < STILL) return;
    if (!this.moved) this.picture.setPointerCapture(event.pointerId);
    this.moved = true;
    this.own = false;
    this.shield.hidden = false;
    this.x = this.from.left + x;
    this.y = this.from.top + y;
    this.apply();
  }

  released() {
    this.from = null;
    this.shield.hidden = true;
  }
}
