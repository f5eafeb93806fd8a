// Where everything lies. dagre places graphs of up to LAID_OUT nodes, if that is not more than MOST_WORK; others, for
// which it would take long, are placed in rows by depth. Hulls around partitions and room for labels cost time too,
// and are left out above HULLED.

const HULLED = 350;
const LAID_OUT = 2500;
const MOST_WORK = 120000; // some seconds
const PATIENT = 500; // nodes up to which ranks are chosen so that edges are short
const MARGIN = 28;
const HULL_TITLE = 25;
const ROW_GAP = 52;
const NODE_GAP = 22;
const WIDEST_ROW = 40;
const END_GAP = 20; // between the ends of edges at one node
const SHORT = 90; // pixels down that an edge goes directly, since no node lies between
const BEND = 10; // pixels from an end within which an edge does not bend

/** Sets x, y (centres) of nodes and hulls, and points and label places of edges; returns the size of it all. */
function layOut(model) {
  if (model.nodes.length > LAID_OUT || work(model) > MOST_WORK) {
    return { ...inRows(model), note: "A large graph: ops stand in rows by their depth, without hulls." };
  }
  const hulled = model.nodes.length <= HULLED;
  try {
    const size = byDagre(model, hulled);
    return { ...size, note: hulled ? "" : `More than ${HULLED} nodes: partitions are shown by colour, labels on hover.` };
  } catch (error) {
    return { ...inRows(model), note: `Ops stand in rows by their depth, since a better layout failed: ${error.message}` };
  }
}

/** How long dagre takes, roughly: the points that it has to place, times those in a row. A point is a node, or where an
 * edge crosses a row.
 */
function work(model) {
  const depth = new Map(depths(model));
  const rows = 1 + model.nodes.reduce((most, node) => Math.max(most, depth.get(node)), 0);
  const crossed = model.edges.reduce((sum, { from, to }) => sum + Math.abs(depth.get(to) - depth.get(from)), 0);
  return (model.nodes.length + crossed) ** 2 / rows;
}

function byDagre(model, hulled) {
  const g = new dagre.graphlib.Graph({ multigraph: true, compound: hulled });
  g.setGraph({
    rankdir: "TB",
    nodesep: NODE_GAP,
    edgesep: 14,
    ranksep: hulled ? 34 : 44,
    align: "UL",
    marginx: MARGIN,
    marginy: MARGIN,
    ranker: model.nodes.length <= PATIENT ? "network-simplex" : "longest-path",
  });
  for (const node of model.nodes) g.setNode(node.id, { width: node.width, height: node.height });
  for (const hull of hulled ? model.hulls : []) {
    g.setNode(hull.id, {});
    for (const node of hull.members) g.setParent(node.id, hull.id);
  }
  for (const edge of model.edges) {
    const label = hulled && edge.label ? { width: textWidth(edge.label, SMALL_FONT) + 10, height: 15 } : {};
    g.setEdge(edge.from.id, edge.to.id, { ...label, labelpos: "c" }, edge.key);
  }
  dagre.layout(g);
  for (const node of model.nodes) Object.assign(node, centre(g.node(node.id)));
  for (const edge of model.edges) {
    const placed = g.edge(edge.from.id, edge.to.id, edge.key);
    edge.points = placed.points;
    edge.place = hulled && edge.label ? centre(placed) : null;
  }
  model.hulls = hulled ? model.hulls : [];
  for (const hull of model.hulls) surround(hull, g.node(hull.id));
  joinEnds(model);
  return { width: g.graph().width, height: g.graph().height };
}

/** Edges leave nodes at the bottom and arrive at the top, beside each other in the order of where they come from. */
function joinEnds(model) {
  const starts = new Map();
  const ends = new Map();
  for (const node of model.nodes) {
    const [arriving, leaving] = ["to", "from"].map((end) => node.edges.filter((edge) => edge[end] === node));
    spread(node, arriving, node.y - node.height / 2, ends);
    spread(node, leaving, node.y + node.height / 2, starts);
  }
  for (const edge of model.edges) {
    const [start, end] = [starts.get(edge), ends.get(edge)];
    // Points beside the ends would only make it wriggle, and so would those of a short edge.
    const inner = edge.points.slice(1, -1).filter((point) => point.y > start.y + BEND && point.y < end.y - BEND);
    edge.points = [start, ...(edge.place || end.y - start.y > SHORT ? inner : []), end];
  }
}

function spread(node, edges, y, places) {
  const beside = ({ points }) => points[Math.floor(points.length / 2)].x;
  const step = Math.min(END_GAP, (node.width - 20) / edges.length);
  edges.sort((a, b) => beside(a) - beside(b));
  edges.forEach((edge, i) => places.set(edge, { x: node.x + (i - (edges.length - 1) / 2) * step, y }));
}

function centre({ x, y }) {
  return { x, y };
}

/** The hull's rectangle, with room for its title. */
function surround(hull, placed) {
  const left = Math.min(placed.x - placed.width / 2, ...hull.members.map((node) => node.x - node.width / 2 - 10));
  const right = Math.max(placed.x + placed.width / 2, ...hull.members.map((node) => node.x + node.width / 2 + 10));
  const top = Math.min(...hull.members.map((node) => node.y - node.height / 2)) - HULL_TITLE - 6;
  const bottom = Math.max(...hull.members.map((node) => node.y + node.height / 2)) + 10;
  Object.assign(hull, { left, top, width: right - left, height: bottom - top });
}

/** Rows by depth, wrapped where they are long; in a row, nodes stand near what they read. */
function inRows(model) {
  const rows = [];
  for (const [node, depth] of depths(model)) (rows[depth] ??= []).push(node);
  let y = MARGIN;
  let widest = 0;
  for (const row of rows.filter(Boolean)) {
    for (const node of row) {
      const read = node.edges.filter((edge) => edge.to === node && edge.from.x !== undefined);
      node.wish = read.length ? read.reduce((sum, edge) => sum + edge.from.x, 0) / read.length : Infinity;
    }
    row.sort((a, b) => a.wish - b.wish || 0);
    for (let start = 0; start < row.length; start += WIDEST_ROW) {
      const part = row.slice(start, start + WIDEST_ROW);
      let x = MARGIN;
      const height = Math.max(...part.map((node) => node.height));
      for (const node of part) {
        node.x = x + node.width / 2;
        node.y = y + height / 2;
        x += node.width + NODE_GAP;
      }
      widest = Math.max(widest, x);
      y += height + ROW_GAP;
    }
  }
  for (const edge of model.edges) {
    edge.points = [centre(edge.from), centre(edge.to)];
    edge.place = null;
  }
  joinEnds(model);
  model.hulls = [];
  return { width: widest, height: y };
}

/** Pairs of node and depth: one more than the deepest that it reads. Nodes on a cycle come last, in one row. */
function depths(model) {
  const waiting = new Map(model.nodes.map((node) => [node, 0]));
  for (const edge of model.edges) waiting.set(edge.to, waiting.get(edge.to) + 1);
  const depth = new Map();
  const ready = model.nodes.filter((node) => waiting.get(node) === 0);
  for (const node of ready) depth.set(node, 0);
  for (let next = 0; next < ready.length; next += 1) {
    const node = ready[next];
    for (const edge of node.edges) {
      if (edge.from !== node) continue;
      depth.set(edge.to, Math.max(depth.get(edge.to) ?? 0, depth.get(node) + 1));
      waiting.set(edge.to, waiting.get(edge.to) - 1);
      if (waiting.get(edge.to) === 0) ready.push(edge.to);
    }
  }
  const last = [...depth.values()].reduce((most, one) => Math.max(most, one), 0) + 1;
  for (const node of model.nodes) {
    const readers = node.edges.map((edge) => depth.get(edge.to) ?? last);
    if (node.type === "input" && readers.length) depth.set(node, Math.max(0, Math.min(...readers) - 1));
  }
  return model.nodes.map((node) => [node, waiting.get(node) === 0 ? depth.get(node) : last]);
}
