// From the graph's description to what can be drawn: nodes for ops, for the graph's inputs and outputs, and for the
// modules around ops; links for the tensors between them. Constants are lines in the box of the op that reads them.

const KIND_FONT = "600 13px system-ui, sans-serif";
const NAME_FONT = "400 11px system-ui, sans-serif";
const SMALL_FONT = "400 10.5px system-ui, sans-serif";
const LINE = { kind: 17, name: 14, small: 14, held: 14 };
const HELD_LINES = 3; // of constants in one box
const HELD_LENGTH = 36; // letters of such a line
const KINDS_LENGTH = 42; // letters for the kinds of ops in a closed module
const BAR = 8; // pixels for the strip of colours in a closed module
const FIRST_VIEW = 44; // boxes up to which a page opens modules by itself

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

/** Class names that say who runs a partition. */
function runnerOf(partition) {
  if (partition.backend === null) return "nobody";
  return partition.backend === "numpy" ? "numpy" : "library";
}

function tagOf(partition) {
  const words = [`#${partition.id}`, partition.backend ?? "no backend"];
  if (partition.seconds !== null) words.push("·", time(partition.seconds));
  return words.join(" ");
}

/** Whether a tensor is a line in the boxes of its readers: a weight or another constant that no op makes. */
function isFolded(tensor, outputs) {
  const fixed = tensor.role === "constant" || tensor.role === "parameter" || tensor.property_type === "constant";
  return fixed && tensor.producer === null && tensor.consumers.length > 0 && !outputs.has(tensor.id);
}

/** Lines for the constants of an op: those of one type and shape share one. */
function heldLines(op, tensors, folded) {
  const groups = new Map();
  for (const [port, id] of op.inputs) {
    if (!folded.has(id)) continue;
    const { text } = tensors.get(id);
    if (!groups.has(text)) groups.set(text, { ports: [], ids: [] });
    groups.get(text).ports.push(port);
    groups.get(text).ids.push(id);
  }
  const all = [...groups].map(([text, { ports, ids }]) => {
    const room = Math.max(8, HELD_LENGTH - text.length);
    return { text: `${shortened(ports.join(", "), room)} ${text}`, ids, style: "held", font: SMALL_FONT };
  });
  if (all.length <= HELD_LINES) return all;
  const rest = all.slice(HELD_LINES - 1);
  const ids = rest.flatMap((line) => line.ids);
  return [...all.slice(0, HELD_LINES - 1), { text: `and ${ids.length} more constants`, ids, style: "held", font: SMALL_FONT }];
}

function opNode(op, partition, held) {
  const lines = [{ text: op.kind, style: "kind", font: KIND_FONT }];
  if (op.title) lines.push({ text: shortened(op.title), style: "name", font: NAME_FONT });
  lines.push(...held);
  if (partition && partition.ops.length === 1) lines.push({ text: tagOf(partition), style: "small", font: SMALL_FONT });
  return { id: `op ${op.id}`, type: "op", op, partition, lines, links: [], held: held.flatMap((line) => line.ids) };
}

function pillNode(tensor, type) {
  const lines = [
    { text: shortened(tensor.name), style: "name", font: NAME_FONT },
    { text: tensor.text, style: "small", font: SMALL_FONT },
  ];
  return { id: `${type} ${tensor.id}`, type, tensor, partition: null, lines, links: [] };
}

function sized(node) {
  const width = Math.max(...node.lines.map((line) => textWidth(line.text, line.font)));
  const height = node.lines.reduce((sum, line) => sum + LINE[line.style], 0);
  node.boxWidth = Math.ceil(width) + (node.type === "input" || node.type === "output" ? 28 : 24);
  node.boxHeight = height + { op: 14, group: 16 + BAR, input: 9, output: 9 }[node.type];
  return node;
}

// --- modules ---

function groupNode(id, name, parent) {
  return { id, type: "group", name, parent, depth: parent ? parent.depth + 1 : 0, children: [], ops: [], layouts: new Map(), open: !parent };
}

/** The module that holds everything, with those in it; nodes know their `parent`. */
function buildTree(nodes) {
  const root = groupNode("group", "", null);
  const known = new Map();
  for (const node of nodes) {
    let parent = root;
    root.ops.push(node);
    for (const name of node.op?.path ?? []) {
      const id = `${parent.id} › ${name}`;
      if (!known.has(id)) {
        const made = groupNode(id, name, parent);
        known.set(id, made);
        parent.children.push(made);
      }
      parent = known.get(id);
      parent.ops.push(node);
    }
    node.parent = parent;
    parent.children.push(node);
  }
  return { root, groups: [...known.values()] };
}

function namesOf(group) {
  return group.parent?.parent ? [...namesOf(group.parent), group.name] : [group.name];
}

/** A number alone says little: `layer1.0`. */
function titleOf({ name, parent }) {
  return /^\d+$/.test(name) && parent?.parent ? `${parent.name}.${name}` : name;
}

function kindsOf(group) {
  const counts = new Map();
  for (const { op } of group.ops) counts.set(op.kind, (counts.get(op.kind) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function describeGroup(group, total) {
  const kinds = kindsOf(group);
  const named = kinds.map(([kind, count]) => (count > 1 ? `${count} ${kind}` : kind));
  const shown = named.filter((_, i) => i === 0 || named.slice(0, i + 1).join(", ").length < KINDS_LENGTH);
  if (shown.length < named.length) shown.push("…");
  group.seconds = sumOf(group.ops, ({ op }) => op.seconds);
  group.timed = group.ops.some(({ op }) => op.seconds !== null);
  const words = [counted(group.ops.length, "op")];
  if (group.timed) words.push(`${time(group.seconds)} (${percent(group.seconds, total)})`);
  group.lines = [
    { text: shortened(titleOf(group)), style: "kind", font: KIND_FONT },
    { text: words.join(" · "), style: "name", font: NAME_FONT },
    { text: shown.join(", "), style: "small", font: SMALL_FONT },
  ];
  group.heading = [titleOf(group), ...words].join(" · ");
  return sized(group);
}

function boxesIn(group) {
  return sumOf(group.children, (child) => (child.type === "group" && child.open ? boxesIn(child) : 1));
}

/** Opens modules, a depth at a time, as long as what is then to be seen can be taken in. */
function openAsFits(root, groups) {
  const deepest = Math.max(0, ...groups.map((group) => group.depth));
  for (let depth = 1; depth <= deepest; depth += 1) {
    const level = groups.filter((group) => group.depth === depth);
    for (const group of level) group.open = true;
    if (boxesIn(root) > FIRST_VIEW) {
      for (const group of level) group.open = false;
      return;
    }
  }
}

// --- all of it ---

function buildModel(graph) {
  const tensors = new Map(graph.tensors.map((tensor) => [tensor.id, tensor]));
  const partitions = new Map(graph.partitions.map((partition) => [partition.id, partition]));
  const outputs = new Set(graph.outputs);
  const folded = new Set(graph.tensors.filter((tensor) => isFolded(tensor, outputs)).map((tensor) => tensor.id));
  const byId = new Map();
  const makers = new Map();
  const links = new Map();

  function add(node) {
    byId.set(node.id, sized(node));
    return node;
  }

  function connect(from, to, tensor, port) {
    const key = `${from.id} → ${to.id}: ${tensor.id}`;
    const known = links.get(key);
    if (known) {
      known.ports.push(port);
      return;
    }
    const link = { from, to, tensor, ports: [port], leaving: [], arriving: [] };
    links.set(key, link);
    from.links.push(link);
    to.links.push(link);
  }

  for (const op of graph.ops) {
    const node = add(opNode(op, partitions.get(op.partition) ?? null, heldLines(op, tensors, folded)));
    for (const [, id] of op.outputs) makers.set(id, node);
  }
  for (const tensor of graph.tensors) {
    if (tensor.producer === null && !folded.has(tensor.id)) makers.set(tensor.id, add(pillNode(tensor, "input")));
  }
  for (const op of graph.ops) {
    for (const [port, id] of op.inputs) {
      if (!folded.has(id)) connect(makers.get(id), byId.get(`op ${op.id}`), tensors.get(id), port);
    }
  }
  for (const id of outputs) connect(makers.get(id), add(pillNode(tensors.get(id), "output")), tensors.get(id), "output");
  const leaves = [...byId.values()];
  const { root, groups } = buildTree(leaves);
  const total = sumOf(graph.partitions, (partition) => partition.seconds);
  for (const group of groups) byId.set(group.id, describeGroup(group, total));
  openAsFits(root, groups);
  placeCopies(graph, byId, tensors);
  return { graph, tensors, partitions, leaves, root, groups, byId, total };
}

/** Hands reorders and conversions to the links that they are done for. Their names have the tensor's that is made; or
 * the port's, or a word like it, for what is read.
 */
function placeCopies(graph, byId, tensors) {
  for (const step of graph.partitions.flatMap((partition) => partition.steps)) {
    const node = step.kind === "copy" && byId.get(`op ${step.op}`);
    if (!node) continue;
    const what = step.name.replace(/^\S+ /, "").replace(/ \([^()]*\)$/, "");
    const made = node.op.outputs.map(([, id]) => tensors.get(id)).find((tensor) => tensor.name === what);
    if (made) {
      const leaving = node.links.filter((link) => link.from === node && link.tensor === made);
      (leaving.find((link) => link.to.type === "output") ?? leaving[0])?.leaving.push(step);
    } else {
      const arriving = node.links.filter((link) => link.to === node);
      (arriving.find((link) => link.tensor.name === what || link.ports.includes(what)) ?? arriving[0])?.arriving.push(step);
    }
  }
}
