// What colours mean: who runs an op, what kind it is, how its result lies, or how long it takes.

const HUES = [30, 330]; // red is for what nothing runs
const FIRST_HUE = 212;
const GOLDEN_SHARE = 0.382; // of the hues, from one to the next, so that neighbours differ
const HOTTEST = 15; // ops that the key of times lists
const BACKEND_HUES = { onednn: 212, numpy: 38, native: 150 };
const FAMILIES = [
  [/^Conv/, 212], [/MatMul/, 258], [/Norm/, 172], [/Pool/, 128], [/SoftMax|Exp|Log/, 300], [/Reduce/, 86],
  [/Reshape|Transpose|Reorder|Concat|Gather|Slice|Pad/, 48], [/Quantize|TypeCast/, 330], [/^(Add|Multiply|Subtract|Divide|Maximum|Minimum)$/, 22],
];

function hueAt(number) {
  const [least, most] = HUES;
  const range = most - least;
  return (least + ((FIRST_HUE - least + number * GOLDEN_SHARE * range) % range)).toFixed(1);
}

function hueOf(partition) {
  return hueAt(partition.id);
}

function hueOfBackend(name) {
  return BACKEND_HUES[name] ?? hueAt(3 + name.length);
}

/** What can be chosen: a name for the choice, and of an op the value that is coloured, with its hue. */
function colourings(model) {
  const ops = model.root.ops.filter((node) => node.op);
  const layouts = [...new Set(ops.map(({ op }) => op.layout).filter(Boolean))].sort();
  const modes = {
    partition: { label: "partition", of: ({ partition }) => partition && `#${partition.id}`, hue: (_, { partition }) => hueOf(partition) },
    backend: { label: "backend", of: ({ partition }) => partition && (partition.backend ?? "no backend"), hue: hueOfBackend },
    kind: { label: "kind", of: ({ op }) => op.kind, hue: (kind) => FAMILIES.find(([pattern]) => pattern.test(kind))?.[1] ?? 195 },
    layout: { label: "layout", of: ({ op }) => op.layout || null, hue: (layout) => hueAt(layouts.indexOf(layout)) },
  };
  if (model.total) modes.time = { label: "time" };
  return modes;
}

/** Colours everything that is drawn, and returns the elements of the key. */
function paint(model, shown, mode, open) {
  const modes = colourings(model);
  model.colouring = mode;
  const coloured = [...shown.nodes, ...shown.frames].filter((node) => node.type === "op" || node.type === "group");
  const most = maximum(coloured.filter((node) => node.element.classList.contains("node")).map(secondsOf), 0);
  for (const node of coloured) {
    node.element.classList.remove("owned", "hot");
    if (mode === "time") {
      node.element.classList.add("hot");
      node.element.style.setProperty("--heat", most ? (secondsOf(node) / most).toFixed(3) : "0");
    } else if (node.type === "op") {
      const value = modes[mode].of(node);
      node.element.classList.toggle("owned", value !== null);
      if (value !== null) node.element.style.setProperty("--hue", modes[mode].hue(value, node));
    }
    if (node.bar) node.bar.replaceChildren(...(mode === "time" ? [] : segments(node, modes[mode])));
  }
  const overlay = mode === "partition";
  for (const hull of shown.hulls) hull.element.classList.toggle("plain", !overlay);
  if (mode === "time") return heatKey(model, most, open);
  return mode === "partition" ? [] : valueKey(model, modes[mode]);
}

function secondsOf(node) {
  return (node.type === "group" ? node.seconds : node.op.seconds) ?? 0;
}

function tally(nodes, { of, hue }) {
  const counts = new Map();
  for (const node of nodes) {
    const value = of(node);
    if (value === null) continue;
    if (!counts.has(value)) counts.set(value, { value, count: 0, seconds: 0, hue: hue(value, node) });
    counts.get(value).count += 1;
    counts.get(value).seconds += node.op.seconds ?? 0;
  }
  return [...counts.values()].sort((a, b) => b.count - a.count);
}

/** Draws the strips of closed modules anew. */
function paintStrips(model, nodes) {
  const closed = [...nodes].filter((node) => node.bar);
  if (model.colouring === "time" || !closed.length) return;
  const mode = colourings(model)[model.colouring];
  for (const group of closed) group.bar.replaceChildren(...segments(group, mode));
}

/** The strip of a closed module: how many of its ops have which colour; what is taken later has none yet. */
function segments(group, mode) {
  const all = group.ops.filter((node) => mode.of(node) !== null).length;
  const parts = tally(group.ops.filter((node) => !node.later), mode);
  const whole = group.boxWidth - 24;
  let x = group.x - whole / 2;
  return parts.map(({ count, hue }) => {
    const width = (whole * count) / all;
    const rect = svg("rect", { class: "segment", x, y: group.y + group.boxHeight / 2 - BAR - 6, width, height: BAR - 2, hue });
    x += width;
    return rect;
  });
}

function valueKey(model, mode) {
  const nodes = model.root.ops.filter((node) => node.op);
  const rows = tally(nodes, mode).map(({ value, count, seconds, hue }) =>
    html(
      "li",
      { class: "keyline" },
      html("span", { class: `swatch${value === "no backend" ? " nobody" : ""}`, hue }),
      html("span", { class: "what" }, value),
      html("span", { class: "time" }, [counted(count, "op"), model.total && time(seconds)].filter(Boolean).join(" · ")),
    ),
  );
  if (!rows.length) return [heading(`Colours: ${mode.label}`), html("p", { class: "muted" }, "The backends have not said it.")];
  return [heading(`Colours: ${mode.label}`), html("ul", { class: "key" }, ...rows)];
}

function heatKey(model, most, open) {
  const slowest = model.root.ops
    .filter((node) => node.op?.seconds)
    .sort((a, b) => b.op.seconds - a.op.seconds)
    .slice(0, HOTTEST);
  return [
    heading("Colours: time"),
    html("div", { class: "heat" }, html("span", {}, "0"), html("span", { class: "ramp" }), html("span", {}, time(most))),
    html("p", { class: "muted" }, "What is pale and has no time is done along with another op, or costs nothing."),
    heading("Where the time goes"),
    html("ul", { class: "key" }, ...slowest.map((node) => entry(
      { text: node.op.kind, aside: `${time(node.op.seconds)} · ${percent(node.op.seconds, model.total)}`, more: node.op.name, share: node.op.seconds / model.total },
      () => open(node),
    ))),
  ];
}
