// The whole picture in a corner, with the part that is in view; it shows as long as not all of it is.

const MAP = { width: 170, height: 240 };
const NARROW = 36; // pixels

class Minimap {
  constructor(map, view) {
    this.map = map;
    this.view = view;
    [this.sheet, this.frame] = map.children; // apart, so that moving draws nothing again
    map.addEventListener("pointerdown", (event) => {
      map.setPointerCapture(event.pointerId);
      this.go(event);
    });
    map.addEventListener("pointermove", (event) => event.buttons && this.go(event));
    view.watchers.push(() => this.follow());
  }

  /** The sheet is as wide and high as the picture, made smaller, but never so narrow that it can't be hit. */
  draw(shown) {
    const { width, height } = this.view.size;
    const scale = Math.min(MAP.width / width, MAP.height / height);
    this.across = Math.max(NARROW, width * scale) / width;
    this.down = Math.max(NARROW, height * scale) / height;
    this.sheet.setAttribute("width", width * this.across);
    this.sheet.setAttribute("height", height * this.down);
    this.sheet.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.boxes = new Map([...shown.frames, ...shown.nodes].map((node) => {
      const [wide, high] = [Math.max(node.width, 2 / this.across), Math.max(node.height, 1 / this.down)];
      const rect = svg("rect", { class: node.closer ? "ground" : "box", x: node.x - wide / 2, y: node.y - high / 2, width: wide, height: high });
      return [node, svg("g", {}, rect)];
    }));
    this.recolour(this.boxes.keys());
    this.sheet.replaceChildren(...this.boxes.values());
    this.follow();
  }

  /** Gives boxes the colours that their nodes have. */
  recolour(nodes) {
    for (const node of nodes) {
      const box = this.boxes.get(node);
      if (!box) continue;
      box.setAttribute("class", node.element.getAttribute("class"));
      box.classList.remove("out"); // the map has all of them
      box.setAttribute("style", node.element.getAttribute("style") ?? "");
    }
  }

  follow() {
    const { x, y, scale, room, size } = this.view;
    const { width, height } = size;
    const all = room.width / scale >= width && room.height / scale >= height && x >= -1 && y >= -1
      && x + width * scale <= room.width + 1 && y + height * scale <= room.height + 1;
    this.map.classList.toggle("hidden-map", all);
    const [wide, high] = [this.across / scale, this.down / scale];
    this.frame.style.transform = `translate(${(-x * wide).toFixed(1)}px, ${(-y * high).toFixed(1)}px)`;
    this.frame.style.width = `${(room.width * wide).toFixed(1)}px`;
    this.frame.style.height = `${Math.max(3, room.height * high).toFixed(1)}px`;
  }

  go(event) {
    const { left, top } = this.sheet.getBoundingClientRect();
    this.view.centre((event.clientX - left) / this.across, (event.clientY - top) / this.down);
  }
}
