// The whole picture in a corner, with the part that is in view; it shows as long as not all of it is.

const MAP = { width: 170, height: 240 };

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

  draw(shown) {
    const { width, height } = this.view.size;
    this.scale = Math.min(MAP.width / width, MAP.height / height);
    this.sheet.setAttribute("width", width * this.scale);
    this.sheet.setAttribute("height", height * this.scale);
    this.sheet.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const least = 2 / this.scale;
    const boxes = [...shown.frames, ...shown.nodes].map((node) => {
      const [wide, high] = [Math.max(node.width, least), Math.max(node.height, least)];
      const rect = svg("rect", { class: node.closer ? "ground" : "box", x: node.x - wide / 2, y: node.y - high / 2, width: wide, height: high });
      const owner = svg("g", {}, rect);
      owner.setAttribute("class", node.element.getAttribute("class"));
      owner.setAttribute("style", node.element.getAttribute("style") ?? "");
      return owner;
    });
    this.sheet.replaceChildren(...boxes);
    this.follow();
  }

  follow() {
    const { x, y, scale, room, size } = this.view;
    const { width, height } = size;
    const all = room.width / scale >= width && room.height / scale >= height && x >= -1 && y >= -1
      && x + width * scale <= room.width + 1 && y + height * scale <= room.height + 1;
    this.map.classList.toggle("hidden-map", all);
    const shrunk = this.scale / scale;
    this.frame.style.transform = `translate(${(-x * shrunk).toFixed(1)}px, ${(-y * shrunk).toFixed(1)}px)`;
    this.frame.style.width = `${(room.width * shrunk).toFixed(1)}px`;
    this.frame.style.height = `${(room.height * shrunk).toFixed(1)}px`;
  }

  go(event) {
    const { left, top } = this.sheet.getBoundingClientRect();
    this.view.centre((event.clientX - left) / this.scale, (event.clientY - top) / this.scale);
  }
}
