// What there is to say about an op, a tensor, a partition and the whole graph: in the panel at length, in the tooltip
// in short.

const TOOLTIP_STEPS = 12;
const LISTED = 300; // partitions in the panel

function heading(text) {
  return html("h3", {}, text);
}

function pairs(entries) {
  const rows = entries.filter(([, content]) => content !== null && content !== "");
  return html("dl", {}, ...rows.flatMap(([name, content]) => [html("dt", {}, name), html("dd", {}, content)]));
}

function titled(title, subtitle, close) {
  const button = html("button", { type: "button", class: "close", title: "Back to the partitions (Esc)" }, "Close");
  button.addEventListener("click", close);
  const below = subtitle && html("p", { class: "muted" }, ...breakable(subtitle));
  return [html("div", { class: "top" }, html("h2", {}, title), button), below];
}

/** Text that may go on in the next line after a plus. */
function breakable(text) {
  return text.split(/(?<=\+)/).flatMap((part) => [part, html("wbr", {})]);
}

/** A line of the panel that opens something else. */
function entry(parts, open) {
  const button = html("button", { type: "button", class: parts.swatch ? "entry" : "entry plain" });
  if (parts.swatch) {
    button.append(html("span", { class: `swatch ${runnerOf(parts.swatch)}`, hue: hueOf(parts.swatch) }));
  }
  button.append(html("span", { class: "what" }, ...breakable(parts.text)), html("span", { class: "time" }, parts.aside ?? ""));
  if (parts.more) button.append(html("span", { class: "more" }, parts.more));
  if (parts.share) {
    const bar = html("span", {});
    bar.style.width = `${(100 * parts.share).toFixed(1)}%`;
    button.append(html("span", { class: "share" }, bar));
  }
  button.addEventListener("click", open);
  return html("li", {}, button);
}

function partitionEntry(model, partition, open) {
  const total = model.graph.partitions.reduce((sum, one) => sum + (one.seconds ?? 0), 0);
  return entry(
    {
      swatch: partition,
      text: `#${partition.id} ${partition.label}`,
      aside: time(partition.seconds),
      more: partition.backend ?? "no backend can run it",
      share: total && partition.seconds ? partition.seconds / total : 0,
    },
    open,
  );
}

// --- the panel ---

function overview(model, notes, key, open) {
  const { graph } = model;
  const total = graph.partitions.reduce((sum, one) => sum + (one.seconds ?? 0), 0);
  const parts = [html("h2", {}, "Partitions")];
  const listed = html("ul", { class: "legend" });
  if (graph.problem) parts.push(html("p", { class: "problem" }, graph.problem));
  parts.push(...notes.map((note) => html("p", { class: "note" }, note)));
  if (!graph.ops.length) parts.push(html("p", { class: "muted" }, "The graph has no ops yet."));
  if (total) parts.push(html("p", { class: "muted" }, `${time(total)} in all partitions, mean of the profiled executions`));
  parts.push(...key);
  if (key.length) parts.push(heading("All partitions"));
  const shown = graph.partitions.slice(0, LISTED);
  listed.append(...shown.map((partition) => partitionEntry(model, partition, () => open(partition))));
  if (shown.length < graph.partitions.length) {
    listed.append(html("li", { class: "muted" }, `and ${graph.partitions.length - shown.length} more; find their ops by name`));
  }
  parts.push(listed);
  parts.push(heading("Signs"));
  parts.push(
    html("p", { class: "muted" }, "Pills are inputs and outputs of the graph; constants are lines in the boxes that read them. A dashed border: NumPy runs it. A red one: nothing does. ⇄ is a reorder or conversion."),
    html("p", { class: "muted" }, "Drag to move, turn the wheel to zoom, click what you want to read about. A click opens a module, one on its title closes it."),
  );
  return parts;
}

function tensorEntry(model, port, id, pin) {
  const tensor = model.tensors.get(id);
  return entry(
    { text: `${port}: ${tensor.name}`, aside: tensor.text, more: manner(tensor) },
    () => pin({ type: "tensor", tensor }),
  );
}

function opDetails(model, { op, partition }, pin) {
  const attributes = Object.entries(op.attributes).map(([name, of]) => [name, value(of)]);
  return [
    ...titled(op.kind, op.name, () => pin(null)),
    pairs([
      ["op", String(op.id)],
      ["time", op.seconds ? `${time(op.seconds)}, ${percent(op.seconds, model.total)} of all` : ""],
      ["layout", op.layout],
    ]),
    heading("Attributes"),
    attributes.length ? pairs(attributes) : html("p", { class: "muted" }, "none"),
    heading("Inputs"),
    html("ul", {}, ...op.inputs.map(([port, id]) => tensorEntry(model, port, id, pin))),
    heading("Outputs"),
    html("ul", {}, ...op.outputs.map(([port, id]) => tensorEntry(model, port, id, pin))),
    ...(partition ? [heading("Partition"), ...partitionBody(model, partition, pin, true)] : []),
  ];
}

function partitionDetails(model, partition, pin) {
  return [
    ...titled(`Partition ${partition.id}`, partition.label, () => pin(null)),
    ...partitionBody(model, partition, pin, false),
    heading("Ops"),
    html("ul", {}, ...partition.ops.map((id) => opEntry(model, id, pin))),
  ];
}

function opEntry(model, id, pin) {
  const node = model.byId.get(`op ${id}`);
  return entry({ text: node.op.kind, more: node.op.name, aside: time(node.op.seconds) }, () => pin(node, true));
}

function groupDetails(model, group, pin) {
  const outer = group.parent?.parent ? group.parent : null;
  return [
    ...titled(titleOf(group), outer ? `in ${namesOf(outer).join(".")}` : "", () => pin(null)),
    pairs([
      ["ops", String(group.ops.length)],
      ["time", group.timed ? `${time(group.seconds)}, ${percent(group.seconds, model.total)} of all` : ""],
      ["partitions", String(new Set(group.ops.map((node) => node.partition)).size)],
    ]),
    heading("Holds"),
    html("ul", {}, ...group.children.map((child) => (child.type === "group"
      ? entry({ text: titleOf(child), more: counted(child.ops.length, "op"), aside: child.timed ? time(child.seconds) : "" }, () => pin(child, true))
      : opEntry(model, child.op.id, pin)))),
    heading("Kinds"),
    pairs(kindsOf(group).map(([kind, count]) => [kind, String(count)])),
  ];
}

function partitionBody(model, partition, pin, linked) {
  const parts = [];
  if (linked) parts.push(html("ul", {}, partitionEntry(model, partition, () => pin({ type: "partition", partition }))));
  parts.push(
    pairs([
      ["backend", partition.backend ?? "none"],
      ["how", partition.strategy && html("span", {}, ...breakable(partition.strategy))],
      ["time", time(partition.seconds)],
      ["scratch", partition.scratch_bytes === null ? "" : bytes(partition.scratch_bytes)],
    ]),
  );
  if (partition.problem) parts.push(html("p", { class: "problem" }, partition.problem));
  for (const [title, steps] of stepGroups(partition)) {
    parts.push(heading(title), ...steps.map((step) => stepLine(step, true)));
  }
  const reasons = Object.entries(partition.why_not);
  if (reasons.length) parts.push(heading("Why no other backend"), pairs(reasons));
  if (partition.rejected.length) {
    parts.push(heading("Passed over"), ...partition.rejected.map((reason) => html("p", { class: "muted" }, reason)));
  }
  return parts;
}

function stepGroups(partition) {
  const groups = [
    ["Steps", (kind) => kind === "primitive" || kind === "host"],
    ["Copies and reorders", (kind) => kind === "copy"],
    ["Once for constants", (kind) => kind === "prepared"],
  ];
  return groups
    .map(([title, belongs]) => [title, partition.steps.filter((step) => belongs(step.kind))])
    .filter(([, steps]) => steps.length);
}

function stepLine(step, full) {
  const line = html(
    "div",
    { class: "step" },
    html("div", { class: "row" }, html("span", {}, step.name), html("span", { class: "time muted" }, time(step.seconds))),
  );
  if (full) line.append(...step.tensors.map((tensor) => html("div", { class: "tensors" }, tensor)));
  return line;
}

function tensorDetails(model, tensor, pin) {
  const maker = model.byId.get(`op ${tensor.producer}`);
  return [
    ...titled(tensor.name, tensor.text, () => pin(null)),
    pairs([
      ["id", String(tensor.id)],
      ["type", tensor.data_type],
      ["layout", tensor.layout],
      ["property", tensor.property_type === "undef" ? "" : tensor.property_type],
      ["role", tensor.role === "inner" ? "" : `${tensor.role} of the graph`],
    ]),
    ...(maker ? [heading("Made by"), html("ul", {}, opEntry(model, tensor.producer, pin))] : []),
    heading("Read by"),
    tensor.consumers.length
      ? html("ul", {}, ...tensor.consumers.map((id) => opEntry(model, id, pin)))
      : html("p", { class: "muted" }, "no op"),
  ];
}

/** What the panel shows of a node, tensor or partition. */
function details(model, thing, pin) {
  if (thing.type === "op") return opDetails(model, thing, pin);
  if (thing.type === "group") return groupDetails(model, thing, pin);
  if (thing.type === "partition") return partitionDetails(model, thing.partition, pin);
  return tensorDetails(model, thing.tensor, pin);
}

// --- the tooltip ---

function tooltipOf(model, thing) {
  if (thing.type === "op") return opTooltip(model, thing);
  if (thing.type === "group") return groupTooltip(thing);
  if (thing.type === "partition") return [html("strong", {}, ...breakable(`Partition ${thing.partition.id}: ${thing.partition.label}`)), ...partitionLines(thing.partition)];
  const { tensor } = thing;
  const ports = thing.ports ? html("p", { class: "muted" }, `read as ${thing.ports.join(", ")}`) : null;
  const copies = (thing.edge?.label?.copies ?? []).map((step) => stepLine(step, true));
  return [html("strong", {}, tensor.name), html("p", {}, `${tensor.text}, ${manner(tensor)}`), ports, ...copies].filter(Boolean);
}

function groupTooltip(group) {
  const kinds = kindsOf(group).map(([kind, count]) => `${count} ${kind}`);
  return [
    html("strong", {}, namesOf(group).join(".")),
    html("p", {}, group.heading.slice(titleOf(group).length + 3)),
    html("p", { class: "muted" }, kinds.join(", ")),
    html("p", { class: "muted" }, group.open ? "Click the title to close it." : "Click to open it."),
  ];
}

function opTooltip(model, { op, partition }) {
  const lines = [html("strong", {}, op.name ? `${op.kind} ${op.name}` : op.kind)];
  for (const [port, id] of [...op.inputs, ...op.outputs]) {
    const tensor = model.tensors.get(id);
    lines.push(html("p", {}, html("span", { class: "muted" }, `${port}  `), `${tensor.text}, ${manner(tensor)}`));
  }
  const attributes = Object.entries(op.attributes).map(([name, of]) => `${name} ${value(of)}`);
  if (attributes.length) lines.push(html("p", { class: "muted" }, attributes.join(" · ")));
  if (partition) lines.push(heading(`Partition ${tagOf(partition)}`), ...partitionLines(partition));
  return lines;
}

function partitionLines(partition) {
  const lines = [];
  if (partition.strategy) lines.push(html("p", {}, partition.strategy));
  if (partition.problem) lines.push(html("p", { class: "problem" }, partition.problem));
  let room = TOOLTIP_STEPS;
  for (const [title, steps] of stepGroups(partition)) {
    const shown = steps.slice(0, Math.max(room, 0));
    room -= shown.length;
    if (shown.length) lines.push(heading(title), ...shown.map((step) => stepLine(step, false)));
  }
  const left = partition.steps.length - (TOOLTIP_STEPS - room);
  if (left > 0) lines.push(html("p", { class: "muted" }, `and ${left} more; click to see them`));
  return lines;
}
