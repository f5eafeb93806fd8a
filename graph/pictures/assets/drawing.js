// From places to SVG.

const ROUND = 7;

function drawModel(model, scene) {
  for (const hull of model.hulls) scene.append(drawHull(hull));
  for (const edge of model.edges) scene.append(drawEdge(edge));
  for (const node of model.nodes) scene.append(drawNode(node));
  for (const hull of model.hulls) scene.append(drawTitle(hull));
}

function drawHull(hull) {
  const { partition, left, top, width, height } = hull;
  hull.element = svg(
    "g",
    { class: `hull ${runnerOf(partition)}`, hue: hueOf(partition) },
    svg("rect", { x: left, y: top, width, height, rx: 12 }),
  );
  return hull.element;
}

/** Over edges that come through it. */
function drawTitle({ partition, left, top, width }) {
  const room = Math.max(1, Math.floor((width - 20) / 6.4));
  const text = svg("text", { x: left + 10, y: top + 15 }, shortened(tagOf(partition), room));
  return svg("g", { class: "title", hue: hueOf(partition) }, text);
}

/** A line through the points that goes straight down at each. */
function curve(points) {
  const at = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;
  let path = `M${at(points[0].x, points[0].y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const bend = Math.max((to.y - from.y) / 2, 0);
    path += ` C${at(from.x, from.y + bend)} ${at(to.x, to.y - bend)} ${at(to.x, to.y)}`;
  }
  return path;
}

function drawEdge(edge) {
  const path = curve(edge.points);
  edge.element = svg(
    "g",
    { class: "edge" },
    svg("path", { class: "line", d: path, "marker-end": "url(#arrow)" }),
    svg("path", { class: "hit", d: path }),
    edge.place ? svg("text", { x: edge.place.x, y: edge.place.y + 4 }, edge.label) : null,
  );
  return edge.element;
}

function drawNode(node) {
  const { width, height, partition } = node;
  const classes = ["node", node.type === "op" ? "op" : "pill", node.type];
  if (partition) classes.push("owned", runnerOf(partition));
  if (node.tensor?.property_type === "constant") classes.push("constant");
  const box = svg("rect", {
    x: node.x - width / 2, y: node.y - height / 2, width, height,
    rx: node.type === "op" ? ROUND : height / 2,
  });
  const block = node.lines.reduce((sum, line) => sum + LINE[line.style], 0);
  let y = node.y - block / 2;
  const texts = node.lines.map((line) => {
    y += LINE[line.style];
    return svg("text", { class: line.style, x: node.x, y: y - 4 }, line.text);
  });
  const label = { tabindex: 0, role: "button", "aria-label": spoken(node), "data-id": node.id };
  node.element = svg("g", { class: classes.join(" "), hue: partition ? hueOf(partition) : null, ...label }, box, ...texts);
  return node.element;
}

function spoken(node) {
  if (node.type !== "op") return `${node.type} ${node.tensor.name}, ${node.tensor.text}`;
  const where = node.partition ? `, partition ${node.partition.id} on ${node.partition.backend ?? "no backend"}` : "";
  return `${node.op.kind} ${node.op.name}${where}`;
}
