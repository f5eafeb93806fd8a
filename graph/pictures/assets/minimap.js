// The whole picture in a corner, with the part that is in view; it shows as long as not all of it is.

const MAP = { width: 170, height: 240 };

class Minimap {
  constructor(map, view) {
    this.map = map;
    this.view = view;
    this.frame = svg("rect", { class: "frame" });
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
    this.map.setAttribute("width", width * this.scale);
    this.map.setAttribute("height", height * this.scale);
    this.map.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const least = 2 / this.scale;
    const boxes = [...shown.frames, ...shown.nodes].map((node) => {
      const [wide, high] = [Math.max(node.width, least), Math.max(node.height, least)];
      const rect = svg("rect", { class: node.closer ? "ground" : "box", x: node.x - wide / 2, y: node.y - high / 2, width: wide, height: high });
      const owner = svg("g", {}, rect);
      owner.setAttribute("class", node.element.getAttribute("class"));
      owner.setAttribute("style", node.element.getAttribute("style") ?? "");
      return owner;
    });
    this.map.replaceChildren(...boxes, this.frame);
    this.follow();
  }

  follow() {
    const { x, y, scale, room, size } = this.view;
    const all = room.width / scale >= size.width && room.height / scale >= size.height && x >= -1 && y >= -1
      && x + size.width * scale <= room.width + 1 && y + size.height * scale <= room.height + 1;
    this.map.classList.toggle("hidden-map", all);
    for (const [name, value] of Object.entries({ x: -x / scale, y: -y / scale, width: room.width / scale, height: room.height / scale })) {
      this.frame.setAttribute(name, value);
    }
    this.frame.setAttribute("stroke-width", 2 / this.scale);
  }

  go(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.map.getScreenCTM().inverse());
    this.view.centre(point.x, point.y);
  }
}
