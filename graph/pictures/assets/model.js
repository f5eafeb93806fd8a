// From the graph's description to what is drawn: nodes for ops, for the graph's inputs and its outputs; edges for
// tensors; hulls around partitions of several ops.

const KIND_FONT = "600 13px system-ui, sans-serif";
const NAME_FONT = "400 11px system-ui, sans-serif";
const SMALL_FONT = "400 10.5px system-ui, sans-serif";
const LINE = { kind: 17, name: 14, small: 14 };
const HUES = [30, 330]; // red is for what nothing runs
const FIRST_HUE = 212;
const GOLDEN_SHARE = 0.382; // of the hues, from a partition to the next, so that neighbours differ

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

function hueOf(partition) {
  const [least, most] = HUES;
  const range = most - least;
  return (least + ((FIRST_HUE - least + partition.id * GOLDEN_SHARE * range) % range)).toFixed(1);
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

function opNode(op, partition) {
  const lines = [{ text: op.kind, style: "kind", font: KIND_FONT }];
  if (op.name) lines.push({ text: shortened(op.name), style: "name", font: NAME_FONT });
  if (partition && partition.ops.length === 1) {
    lines.push({ text: tagOf(partition), style: "small", font: SMALL_FONT });
  }
  return { id: `op ${op.id}`, type: "op", op, partition, lines, edges: [] };
}

function pillNode(tensor, type) {
  const lines = [
    { text: shortened(tensor.name), style: "name", font: NAME_FONT },
    { text: tensor.text, style: "small", font: SMALL_FONT },
  ];
  return { id: `${type} ${tensor.id}`, type, tensor, partition: null, lines, edges: [] };
}

function sized(node) {
  const width = Math.max(...node.lines.map((line) => textWidth(line.text, line.font)));
  const height = node.lines.reduce((sum, line) => sum + LINE[line.style], 0);
  node.width = Math.ceil(width) + (node.type === "op" ? 24 : 28);
  node.height = height + (node.type === "op" ? 14 : 9);
  return node;
}

function buildModel(graph) {
  const tensors = new Map(graph.tensors.map((tensor) => [tensor.id, tensor]));
  const partitions = new Map(graph.partitions.map((partition) => [partition.id, partition]));
  const nodes = new Map();
  const makers = new Map();
  const edges = new Map();

  function add(node) {
    nodes.set(node.id, sized(node));
    return node;
  }

  function connect(from, to, tensor, port) {
    const key = `${from.id} → ${to.id}: ${tensor.id}`;
    const known = edges.get(key);
    if (known) {
      known.ports.push(port);
      return;
    }
    // The pills of the graph's inputs and outputs say themselves what the tensor is.
    const label = from.type === "op" && to.type === "op" ? tensor.text : "";
    const edge = { key, from, to, tensor, ports: [port], label };
    edges.set(key, edge);
    from.edges.push(edge);
    to.edges.push(edge);
  }

  for (const op of graph.ops) {
    const node = add(opNode(op, partitions.get(op.partition) ?? null));
    for (const [, id] of op.outputs) makers.set(id, node);
  }
  for (const tensor of graph.tensors) {
    if (tensor.producer === null) makers.set(tensor.id, add(pillNode(tensor, "input")));
  }
  for (const op of graph.ops) {
    for (const [port, id] of op.inputs) connect(makers.get(id), nodes.get(`op ${op.id}`), tensors.get(id), port);
  }
  for (const tensor of graph.tensors) {
    if (graph.outputs.includes(tensor.id)) connect(makers.get(tensor.id), add(pillNode(tensor, "output")), tensor, "output");
  }
  const members = new Map(graph.partitions.map((partition) => [partition.id, []]));
  for (const node of nodes.values()) if (node.partition) members.get(node.partition.id).push(node);
  const hulls = graph.partitions
    .filter((partition) => partition.ops.length > 1)
    .map((partition) => ({ id: `hull ${partition.id}`, partition, members: members.get(partition.id) }));
  return { graph, tensors, partitions, nodes: [...nodes.values()], edges: [...edges.values()], hulls, byId: nodes };
}
