// Finding ops, tensors and modules, also those in closed modules: by name, kind and type, or by one of these alone,
// `kind:relu`, `type:bf16`, `name:conv1`.

function fieldsOf(model, node) {
  if (node.type === "group") return { kind: [], name: [namesOf(node).join("."), node.name], type: [] };
  if (!node.op) return { kind: [node.type], name: [node.tensor.name], type: [node.tensor.data_type] };
  const made = node.op.outputs.map(([, id]) => model.tensors.get(id));
  const held = node.held.map((id) => model.tensors.get(id));
  return {
    kind: [node.op.kind],
    name: [node.op.name, `op ${node.op.id}`, ...[...made, ...held].map((tensor) => tensor.name)],
    type: [...made, ...held].map((tensor) => tensor.data_type),
  };
}

/** Nodes that fit, in order; the modules come last. */
function find(model, text) {
  const [, field, rest] = /^(?:(kind|name|type):)?(.*)$/s.exec(text.trim().toLowerCase());
  const wanted = rest.trim();
  if (!wanted) return [];
  return [...model.leaves, ...model.groups].filter((node) => {
    const fields = fieldsOf(model, node);
    const texts = field ? fields[field] : Object.values(fields).flat();
    return texts.some((one) => one.toLowerCase().includes(wanted));
  });
}

/** What is to be seen of a node: itself, or the outermost closed module around it. */
function seenOf(node) {
  let seen = node;
  for (let around = node.parent; around; around = around.parent) if (!around.open) seen = around;
  return seen;
}

/** Opens the modules around a node; returns whether one was closed. */
function uncover(node) {
  let changed = false;
  for (let around = node.parent; around; around = around.parent) {
    changed ||= !around.open;
    around.open = true;
  }
  return changed;
}
