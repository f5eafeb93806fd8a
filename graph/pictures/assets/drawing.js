// From places to SVG. Open modules are frames with what they hold; closed ones are boxes.

const ROUND = 7;
const GROUP = "a"; // groups like `g`, but Chromium lays out what is in a `g`, also where that is not displayed

/** Draws a layout; returns what is to be seen: nodes, frames of open modules, edges and hulls, with their elements. */
function drawScene(layout, scene) {
  const shown = { nodes: [], frames: [], edges: [], hulls: [] };
  const layer = document.createDocumentFragment();
  drawLevel(layout, { x: 0, y: 0 }, layer, shown);
  scene.replaceChildren(layer);
  return shown;
}

function drawLevel(level, corner, layer, shown) {
  const hulls = level.hulls.map(({ partition, left, top, width, height }) => (
    { type: "partition", partition, left: left + corner.x, top: top + corner.y, width, height }
  ));
  layer.append(...hulls.map(drawHull));
  shown.hulls.push(...hulls);
  for (const box of level.boxes.filter((one) => one.inner)) {
    const group = placed(box, corner);
    layer.append(drawFrame(group));
    shown.frames.push(group);
    drawLevel(box.inner, { x: group.x - group.width / 2, y: group.y - group.height / 2 }, layer, shown);
  }
  for (const edge of level.edges) {
    const drawn = { type: "tensor", tensor: edge.tensor, edge, ports: [...edge.links].flatMap((link) => link.ports) };
    layer.append(drawEdge(drawn, corner));
    shown.edges.push(drawn);
  }
  for (const box of level.boxes.filter((one) => !one.inner)) {
    const node = placed(box, corner);
    layer.append(node.type === "group" ? drawClosed(node) : drawNode(node));
    shown.nodes.push(node);
  }
  for (const box of level.boxes.filter((one) => one.inner)) layer.append(drawCloser(box.item));
  layer.append(...hulls.map(drawTitle));
}

/** The box's node, with its place in the whole picture. */
function placed(box, corner) {
  return Object.assign(box.item, { x: box.x + corner.x, y: box.y + corner.y, width: box.width, height: box.height });
}

function drawHull(hull) {
  const { partition, left, top, width, height } = hull;
  hull.element = svg(
    GROUP,
    { class: `hull ${runnerOf(partition)}`, hue: hueOf(partition) },
    svg("rect", { x: left, y: top, width, height, rx: 12 }),
  );
  return hull.element;
}

/** Over edges that come through it. */
function drawTitle(hull) {
  const { partition, left, top, width } = hull;
  const room = Math.max(1, Math.floor((width - 20) / 6.4));
  const text = svg("text", { x: left + 10, y: top + 15 }, shortened(tagOf(partition), room));
  hull.title = svg(GROUP, { class: "title", hue: hueOf(partition) }, text);
  return hull.title;
}

/** A line through the points that goes straight down at each. */
function curve(points, { x, y }) {
  const at = (across, down) => `${(across + x).toFixed(1)},${(down + y).toFixed(1)}`;
  let path = `M${at(points[0].x, points[0].y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const bend = Math.max((to.y - from.y) / 2, 0);
    path += ` C${at(from.x, from.y + bend)} ${at(to.x, to.y - bend)} ${at(to.x, to.y)}`;
  }
  return path;
}

function drawEdge(drawn, corner) {
  const { points, place, label, to } = drawn.edge;
  const path = curve(points, corner);
  const arrives = to.item && !to.inner; // not where the line goes on in another module
  const copied = label?.copies.length > 0;
  const text = label && (place ?? (copied ? middle(points) : null));
  drawn.extent = extentOf(points, corner, text ? textWidth(label.text, SMALL_FONT) / 2 : 0);
  drawn.straight = `M${points.map((point) => `${(point.x + corner.x).toFixed(0)},${(point.y + corner.y).toFixed(0)}`).join("L")}`;
  drawn.element = svg(
    GROUP,
    { class: copied ? "edge copy" : "edge" },
    svg("path", { class: "line", d: path, "marker-end": arrives ? "url(#arrow)" : null }),
    svg("path", { class: "hit", d: path }),
    text ? svg("text", { x: text.x + corner.x, y: text.y + corner.y + 4 }, label.text) : null,
  );
  return drawn.element;
}

/** Left, top, width and height of a line, with room for its text. */
function extentOf(points, corner, beside) {
  const [across, down] = [points.map((point) => point.x), points.map((point) => point.y)];
  const [left, top] = [minimum(across, 0) - beside, minimum(down, 0) - 8];
  return [left + corner.x, top + corner.y, maximum(across, 0) + beside - left, maximum(down, 0) + 8 - top];
}

function middle(points) {
  const [a, b] = [points[Math.floor((points.length - 1) / 2)], points[Math.ceil((points.length - 1) / 2)]];
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

function texts(node, top) {
  let y = top;
  return node.lines.map((line) => {
    y += LINE[line.style];
    const ids = line.ids ? { "data-ids": line.ids.join(" ") } : {};
    return svg("text", { class: line.style, x: node.x, y: y - 4, ...ids }, line.text);
  });
}

function drawNode(node) {
  const { width, height, partition } = node;
  const classes = ["node", node.type === "op" ? "op" : "pill", node.type];
  if (partition) classes.push(runnerOf(partition));
  if (node.tensor?.property_type === "constant") classes.push("constant");
  const box = svg("rect", {
    x: node.x - width / 2, y: node.y - height / 2, width, height,
    rx: node.type === "op" ? ROUND : height / 2,
  });
  const block = sumOf(node.lines, (line) => LINE[line.style]);
  const label = { tabindex: 0, role: "button", "aria-label": spoken(node), "data-id": node.id };
  node.element = svg(GROUP, { class: classes.join(" "), ...label }, box, ...texts(node, node.y - block / 2));
  return node.element;
}

/** A closed module: two cards, what it is, and a strip of its ops' colours. */
function drawClosed(node) {
  const { width, height } = node;
  const [left, top] = [node.x - width / 2, node.y - height / 2];
  const label = { tabindex: 0, role: "button", "aria-expanded": "false", "aria-label": `module ${node.heading}`, "data-id": node.id };
  node.closer = null;
  node.bar = svg("g", {});
  node.element = svg(
    GROUP,
    { class: "node group", ...label },
    svg("rect", { class: "behind", x: left + 4, y: top + 4, width, height, rx: ROUND }),
    svg("rect", { x: left, y: top, width, height, rx: ROUND }),
    ...texts(node, top + 6),
    svg("text", { class: "sign", x: left + 11, y: top + 18 }, "+"),
    node.bar,
  );
  return node.element;
}

/** The ground of an open module. */
function drawFrame(node) {
  const { width, height } = node;
  node.bar = null;
  const ground = svg("rect", { class: "ground", x: node.x - width / 2, y: node.y - height / 2, width, height, rx: 10 });
  node.element = svg(GROUP, { class: `frame depth${node.depth % 2}` }, ground);
  return node.element;
}

/** Its title, over edges that come in; it closes the module. */
function drawCloser(node) {
  const [left, top] = [node.x - node.width / 2, node.y - node.height / 2];
  const label = { tabindex: 0, role: "button", "aria-expanded": "true", "aria-label": `module ${node.heading}`, "data-id": node.id };
  node.closer = svg(
    GROUP,
    { class: `closer depth${node.depth % 2}`, ...label },
    svg("rect", { x: left, y: top, width: node.width, height: GROUP_TITLE - 4, rx: 10 }),
    svg("text", { class: "sign", x: left + 13, y: top + 18 }, "−"),
    svg("text", { class: "kind", x: left + 24, y: top + 18 }, node.heading),
  );
  return node.closer;
}

function spoken(node) {
  if (node.type !== "op") return `${node.type} ${node.tensor.name}, ${node.tensor.text}`;
  const where = node.partition ? `, partition ${node.partition.id} on ${node.partition.backend ?? "no backend"}` : "";
  return `${node.op.kind} ${node.op.name}${where}`;
}
