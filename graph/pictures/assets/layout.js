// Where everything lies. Each open module is laid out by itself, from the innermost outwards, and kept for the next
// time. What comes into a module and leaves it does so at ports in its border. dagre places up to LAID_OUT boxes, if
// that is not more than MOST_WORK; others, for which it would take long, stand in rows by depth. Hulls around
// partitions and room for labels cost time too, and are left out above HULLED.

const HULLED = 250;
const LAID_OUT = 2500;
const MOST_WORK = 120000; // some seconds
const PATIENT = 500; // boxes up to which ranks are chosen so that edges are short
const MARGIN = 28;
const PADDING = 16; // in a module
const HULL_TITLE = 25;
const GROUP_TITLE = 30;
const ROW_GAP = 52;
const NODE_GAP = 22;
const WIDEST_ROW = 40;
const END_GAP = 20; // between the ends of edges at one box
const SHORT = 90; // pixels down that an edge goes directly, since no box lies between
const BEND = 10; // pixels from an end within which an edge does not bend
const HARD = 20; // weight of what keeps ports at the border

/** Places of all that is to be seen, and the notes that there are to make. */
function layOut(model) {
  const notes = new Set();
  return { ...layoutOf(model.root, notes), notes: [...notes] };
}

/** Which modules in a group are open. */
function signatureOf(group) {
  return group.children
    .filter((child) => child.type === "group" && child.open)
    .map((child) => `${child.id}(${signatureOf(child)})`)
    .join();
}

function layoutOf(group, notes) {
  const signature = signatureOf(group);
  if (!group.layouts.has(signature)) group.layouts.set(signature, freshLayout(group));
  const layout = group.layouts.get(signature);
  if (layout.note) notes.add(layout.note);
  for (const box of layout.boxes) if (box.inner?.note) notes.add(box.inner.note);
  return layout;
}

function freshLayout(group) {
  const level = levelOf(group);
  level.hulls = hullsOf(group);
  const count = level.boxes.length;
  if (count > LAID_OUT || work(level) > MOST_WORK) {
    inRows(level);
    level.note = "Large: ops stand in rows by their depth, without hulls.";
  } else {
    try {
      byDagre(level, count <= HULLED);
      if (count > HULLED) level.note = `More than ${HULLED} ops side by side: partitions are shown by colour, labels on hover.`;
    } catch (error) {
      inRows(level);
      level.note = `Ops stand in rows by their depth, since a better layout failed: ${error.message}`;
    }
  }
  frame(level, group);
  return level;
}

// --- what lies in a group ---

/** The child of a group in which a node is; null where it is outside. */
function childOf(group, node) {
  let child = node;
  while (child && child.parent !== group) child = child.parent;
  return child ?? null;
}

function levelOf(group) {
  const boxes = new Map();
  for (const item of group.children) {
    const inner = item.type === "group" && item.open ? layoutOf(item, new Set()) : null;
    const { width, height } = inner ?? { width: item.boxWidth, height: item.boxHeight };
    boxes.set(item, { id: item.id, item, inner, width, height, edges: [] });
  }
  const ports = new Map();
  const edges = new Map();

  function port(end, tensor) {
    const id = `${end} ${tensor.id}`;
    if (!ports.has(id)) ports.set(id, { id: `port ${id}`, end, tensor, width: 1, height: 1, edges: [] });
    return ports.get(id);
  }

  for (const leaf of group.ops) {
    for (const link of leaf.links) {
      const [out, into] = [childOf(group, link.from), childOf(group, link.to)];
      if (out === into) continue;
      const from = out ? boxes.get(out) : port("in", link.tensor);
      const to = into ? boxes.get(into) : port("out", link.tensor);
      const key = `${from.id} → ${to.id}: ${link.tensor.id}`;
      if (!edges.has(key)) edges.set(key, { key, from, to, tensor: link.tensor, links: new Set() });
      edges.get(key).links.add(link);
    }
  }
  for (const edge of edges.values()) {
    edge.from.edges.push(edge);
    edge.to.edges.push(edge);
    edge.label = labelOf(edge);
  }
  return { boxes: [...boxes.values()], ports: [...ports.values()], edges: [...edges.values()] };
}

/** What is written at an edge: copies on the way, at the op that they are done for; otherwise the tensor. */
function labelOf({ from, to, tensor, links }) {
  const copies = [...links].flatMap((link) => [
    ...(from.item === link.from ? link.leaving : []),
    ...(to.item === link.to ? link.arriving : []),
  ]);
  // The pills of the graph's inputs and outputs say themselves what the tensor is, and an edge that goes on in a module
  // says it once.
  const inner = from.item && to.item && from.item.type !== "input" && to.item.type !== "output";
  const words = inner && !from.inner && !to.inner ? [tensor.text] : [];
  if (copies.length) words.push(`⇄ ${[...new Set(copies.map((step) => step.change || step.name))].join(", ")}`);
  return words.length ? { text: words.join("  "), copies } : null;
}

/** Partitions of several ops that all stand in this group. */
function hullsOf(group) {
  const members = new Map();
  for (const node of group.children) {
    if (!node.partition || node.partition.ops.length < 2) continue;
    if (!members.has(node.partition)) members.set(node.partition, []);
    members.get(node.partition).push(node);
  }
  return [...members]
    .filter(([partition, nodes]) => nodes.length === partition.ops.length)
    .map(([partition, nodes]) => ({ id: `hull ${partition.id}`, partition, members: new Set(nodes) }));
}

// --- dagre ---

/** How long dagre takes, roughly: the points that it has to place, times those in a row. A point is a box, or where an
 * edge crosses a row.
 */
function work(level) {
  const depth = new Map(depths(level));
  const rows = 1 + level.boxes.reduce((most, box) => Math.max(most, depth.get(box)), 0);
  const crossed = sumOf(level.edges, ({ from, to }) => Math.abs(depth.get(to) - depth.get(from)));
  return (level.boxes.length + crossed) ** 2 / rows;
}

const drafts = new Map(); // what dagre has made of levels, by their form: the layers of a model are often alike

/** All that dagre reads of a level. */
function formOf(level, hulled) {
  const number = new Map([...level.boxes, ...level.ports].map((box, i) => [box, i]));
  const ofItem = new Map(level.boxes.map((box, i) => [box.item, i]));
  return JSON.stringify([
    hulled,
    level.boxes.map(({ width, height }) => [width, height]),
    level.ports.map((port) => port.end),
    level.edges.map(({ from, to, label }) => [number.get(from), number.get(to), label?.text]),
    level.hulls.map((hull) => [...hull.members].map((node) => ofItem.get(node))),
  ]);
}

function byDagre(level, hulled) {
  if (!hulled) level.hulls = [];
  const form = formOf(level, hulled);
  if (!drafts.has(form)) drafts.set(form, draftOf(level, hulled));
  const draft = drafts.get(form);
  [...level.boxes, ...level.ports].forEach((box, i) => Object.assign(box, draft.boxes[i]));
  level.edges.forEach((edge, i) => {
    edge.points = draft.edges[i].points.map(centre);
    edge.place = hulled && edge.label ? centre(draft.edges[i]) : null;
  });
  const byItem = new Map(level.boxes.map((box) => [box.item, box]));
  level.hulls.forEach((hull, i) => surround(hull, [...hull.members].map((node) => byItem.get(node)), draft.hulls[i]));
}

/** The places of a level's boxes and ports, edges and hulls. */
function draftOf(level, hulled) {
  const g = new dagre.graphlib.Graph({ multigraph: true, compound: hulled });
  const patient = level.boxes.length <= PATIENT;
  g.setGraph({
    rankdir: "TB", nodesep: NODE_GAP, edgesep: 14, ranksep: hulled ? 34 : 44, align: "UL", marginx: 0, marginy: 0,
    ranker: patient ? "network-simplex" : "longest-path",
  });
  for (const { id, width, height } of [...level.boxes, ...level.ports]) g.setNode(id, { width, height });
  for (const hull of level.hulls) {
    g.setNode(hull.id, {});
    for (const node of hull.members) g.setParent(node.id, hull.id);
  }
  for (const edge of level.edges) {
    const room = hulled && edge.label ? { width: textWidth(edge.label.text, SMALL_FONT) + 10, height: 15 } : {};
    g.setEdge(edge.from.id, edge.to.id, { ...room, labelpos: "c" }, edge.key);
  }
  anchor(g, level);
  dagre.layout(g);
  return {
    boxes: [...level.boxes, ...level.ports].map((box) => centre(g.node(box.id))),
    edges: level.edges.map((edge) => g.edge(edge.from.id, edge.to.id, edge.key)),
    hulls: level.hulls.map((hull) => g.node(hull.id)),
  };
}

/** Keeps ports above or below everything else, by two points that are not drawn. */
function anchor(g, { boxes, ports, edges }) {
  const fed = new Set(edges.filter((edge) => edge.from.item).map((edge) => edge.to));
  const feeding = new Set(edges.filter((edge) => edge.to.item).map((edge) => edge.from));
  for (const [end, id, inner] of [["in", "roof", fed], ["out", "floor", feeding]]) {
    const mine = ports.filter((port) => port.end === end);
    if (!mine.length) continue;
    g.setNode(id, { width: 0, height: 0 });
    const join = (other, weight, minlen) => {
      const [from, to] = end === "in" ? [id, other] : [other, id];
      g.setEdge(from, to, { weight, minlen }, `${from} ${to}`);
    };
    for (const port of mine) join(port.id, HARD, 1);
    for (const box of boxes) if (!inner.has(box)) join(box.id, 0, 2);
  }
}

function centre({ x, y }) {
  return { x, y };
}

/** The hull's rectangle, with room for its title. */
function surround(hull, boxes, placed) {
  const left = Math.min(placed.x - placed.width / 2, ...boxes.map((box) => box.x - box.width / 2 - 10));
  const right = Math.max(placed.x + placed.width / 2, ...boxes.map((box) => box.x + box.width / 2 + 10));
  const top = Math.min(...boxes.map((box) => box.y - box.height / 2)) - HULL_TITLE - 6;
  const bottom = Math.max(...boxes.map((box) => box.y + box.height / 2)) + 10;
  Object.assign(hull, { left, top, width: right - left, height: bottom - top });
}

// --- rows ---

/** Rows by depth, wrapped where they are long; in a row, boxes stand near what they read. */
function inRows(level) {
  const rows = [];
  for (const [box, depth] of depths(level)) (rows[depth] ??= []).push(box);
  let y = 0;
  for (const row of rows.filter(Boolean)) {
    for (const box of row) {
      const read = box.edges.filter((edge) => edge.to === box && edge.from.x !== undefined);
      box.wish = read.length ? sumOf(read, (edge) => edge.from.x) / read.length : Infinity;
    }
    row.sort((a, b) => a.wish - b.wish || 0);
    for (let start = 0; start < row.length; start += WIDEST_ROW) {
      const part = row.slice(start, start + WIDEST_ROW);
      let x = 0;
      const height = Math.max(...part.map((box) => box.height));
      for (const box of part) {
        box.x = x + box.width / 2;
        box.y = y + height / 2;
        x += box.width + NODE_GAP;
      }
      y += height + ROW_GAP;
    }
  }
  for (const port of level.ports) {
    const ends = port.edges.map((edge) => (edge.from === port ? edge.to : edge.from)).filter((end) => end.x !== undefined);
    port.x = ends.length ? ends[0].x : 0;
    port.y = port.end === "in" ? -ROW_GAP : y;
  }
  for (const edge of level.edges) {
    edge.points = [centre(edge.from), centre(edge.to)];
    edge.place = null;
  }
  level.hulls = [];
}

/** Pairs of box and depth: one more than the deepest that it reads. Boxes on a cycle come last, in one row. */
function depths({ boxes, edges, ports }) {
  const outside = new Set(ports);
  const inner = (edge) => !outside.has(edge.from) && !outside.has(edge.to);
  const waiting = new Map(boxes.map((box) => [box, 0]));
  for (const edge of edges.filter(inner)) waiting.set(edge.to, waiting.get(edge.to) + 1);
  const depth = new Map();
  const ready = boxes.filter((box) => waiting.get(box) === 0);
  for (const box of ready) depth.set(box, 0);
  for (let next = 0; next < ready.length; next += 1) {
    const box = ready[next];
    for (const edge of box.edges) {
      if (edge.from !== box || !inner(edge)) continue;
      depth.set(edge.to, Math.max(depth.get(edge.to) ?? 0, depth.get(box) + 1));
      waiting.set(edge.to, waiting.get(edge.to) - 1);
      if (waiting.get(edge.to) === 0) ready.push(edge.to);
    }
  }
  const last = [...depth.values()].reduce((most, one) => Math.max(most, one), 0) + 1;
  for (const box of boxes) {
    const readers = box.edges.map((edge) => depth.get(edge.to) ?? last);
    if (box.item.type === "input" && readers.length) depth.set(box, Math.max(0, Math.min(...readers) - 1));
  }
  return [...boxes.map((box) => [box, waiting.get(box) === 0 ? depth.get(box) : last]), ...ports.map((port) => [port, 0])]
    .filter(([box]) => box.item);
}

// --- borders ---

/** Moves a level so that its corner is at 0, puts ports into its border, and joins edges to boxes. */
function frame(level, group) {
  const gap = group.parent ? PADDING : MARGIN;
  const head = group.parent ? GROUP_TITLE + PADDING : MARGIN;
  const solid = [
    ...level.boxes.map(({ x, y, width, height }) => ({ left: x - width / 2, top: y - height / 2, width, height })),
    ...level.hulls,
  ];
  const across = [
    ...solid.flatMap(({ left, width }) => [left, left + width]),
    ...level.ports.map((port) => port.x),
    ...level.edges.flatMap((edge) => edge.points.map((point) => point.x)),
    ...level.edges.flatMap(({ place, label }) => (place ? [-1, 1].map((sign) => place.x + (sign * textWidth(label.text, SMALL_FONT)) / 2) : [])),
  ];
  const left = minimum(across, 0) - gap;
  const top = minimum(solid.map((one) => one.top), 0) - head;
  const title = group.parent ? textWidth(group.heading, KIND_FONT) + 44 : 0;
  const spare = Math.max(0, title - (maximum(across, 0) + gap - left)) / 2;
  level.width = maximum(across, 0) + gap - left + 2 * spare;
  level.height = maximum(solid.map((one) => one.top + one.height), 0) + gap - top;
  const shift = (point) => {
    point.x += spare - left;
    point.y -= top;
  };
  [...level.boxes, ...level.ports].forEach(shift);
  for (const edge of level.edges) [...edge.points, ...(edge.place ? [edge.place] : [])].forEach(shift);
  for (const hull of level.hulls) {
    hull.left += spare - left;
    hull.top -= top;
  }
  for (const port of level.ports) port.y = port.end === "in" ? 0 : level.height;
  joinEnds(level);
}

/** Edges leave boxes at the bottom and arrive at the top, beside each other in the order of where they come from. */
function joinEnds(level) {
  const [starts, ends] = [new Map(), new Map()];
  for (const box of level.boxes) {
    spread(box, "in", box.edges.filter((edge) => edge.to === box), box.y - box.height / 2, ends);
    spread(box, "out", box.edges.filter((edge) => edge.from === box), box.y + box.height / 2, starts);
  }
  for (const edge of level.edges) {
    const [start, end] = [starts.get(edge) ?? centre(edge.from), ends.get(edge) ?? centre(edge.to)];
    // Points beside the ends would only make it wriggle, and so would those of a short edge.
    const inner = edge.points.slice(1, -1).filter((point) => point.y > start.y + BEND && point.y < end.y - BEND);
    edge.points = [start, ...(edge.place || end.y - start.y > SHORT ? inner : []), end];
  }
}

function spread(box, end, edges, y, places) {
  const beside = ({ points }) => points[Math.floor(points.length / 2)].x;
  const step = Math.min(END_GAP, (box.width - 20) / edges.length);
  edges.sort((a, b) => beside(a) - beside(b));
  edges.forEach((edge, i) => {
    const port = box.inner?.ports.find((one) => one.end === end && one.tensor === edge.tensor);
    const x = port ? box.x - box.width / 2 + port.x : box.x + (i - (edges.length - 1) / 2) * step;
    places.set(edge, { x, y });
  });
}
