// The page: reads the graph, draws it, and listens.

const STEP = 60; // pixels that an arrow key moves the picture
const FACTOR = 1.3; // by which a button zooms
const BOTH = 880; // pixels of a page that has room for the slider through partitioning and the chart of memory
const ROOMY = 560; // pixels of a page that opens with the chart of its memory

function element(id) {
  return document.getElementById(id);
}

function start() {
  const model = buildModel(JSON.parse(element("graph").textContent));
  const [picture, scene, panel, tooltip] = ["picture", "scene", "panel", "tooltip"].map(element);
  let shown = null; // what is drawn
  let thingOf = new Map(); // from its elements
  let notes = [];
  let key = [];
  let colouring = model.total ? "time" : "partition";
  let pinned = null;
  let hovered = null;
  let origin = null; // what had the focus before the panel took it
  let matches = [];
  let current = -1;
  let memory = null; // the chart of it, where it is known
  let partitioning = null; // the slider through its steps
  let asked = []; // elements of the ops that its step asks for
  let paled = new Set(); // nodes that the map has not shown yet as they are now
  let before = null; // colours and chart as they were before the slider came
  let told = null; // the node of the step that the chart points at

  const first = layOut(model);
  const view = new View(picture, scene, element("shield"), first, null);
  const minimap = new Minimap(element("minimap"), view);
  const culling = new Culling(scene, view);

  /** Draws what is open now. */
  function draw(layout = layOut(model)) {
    notes = layout.notes;
    view.size = layout;
    shown = drawScene(layout, scene);
    view.first = shown.nodes.find((node) => node.type === "op" || node.type === "group");
    thingOf = new Map([...shown.nodes, ...shown.frames, ...shown.edges, ...shown.hulls].map((thing) => [thing.element, thing]));
    for (const group of shown.frames) thingOf.set(group.closer, group);
    pale(shown);
    colour(colouring);
    marks(pinned);
    markMatches();
    tellOf(told);
    markStep();
    culling.take(shown);
  }

  function colour(mode) {
    colouring = mode;
    key = paint(model, shown, mode, (node) => pin(node, true));
    if (!pinned) showOverview();
    minimap.draw(shown);
    culling.repaint();
  }

  /** Opens or closes a module; its corner stays where it is. */
  function toggle(group, open = !group.open) {
    const corner = (node) => view.at(node.x - node.width / 2, node.y - node.height / 2);
    const before = corner(group);
    group.open = open;
    draw();
    const after = corner(group);
    view.move(before.x - after.x, before.y - after.y);
    if (open && pinned !== group) pin(group);
    focus(elementOf(group));
  }

  /** One depth of modules more, or less. */
  function openDepth(more) {
    const fits = model.groups.filter((group) => group.open !== more && (!more || group.parent.open));
    if (!fits.length) return;
    const depths = fits.map((group) => group.depth);
    const depth = more ? minimum(depths, 0) : maximum(depths, 0);
    for (const group of fits) if (group.depth === depth) group.open = more;
    draw();
    view.open();
  }

  /** What takes the focus for a node: of an open module, its title. */
  function elementOf(node) {
    return node.closer ?? node.element;
  }

  /** What is under the pointer. */
  function under(event) {
    const { target } = event;
    const group = target instanceof Element ? target.closest(".node, .closer, .frame, .edge, .hull") : null;
    return group ? thingOf.get(group) : culling.at(...view.pointOf(event));
  }

  // --- the panel ---

  /** A narrow page has no panel until it is asked for. */
  function showPanel(visible) {
    panel.hidden = !visible;
    panel.classList.toggle("asked", visible);
    element("toggle").setAttribute("aria-expanded", String(visible));
  }

  function showOverview() {
    panel.replaceChildren(...overview(model, notes, key, openPartition).filter(Boolean));
  }

  function marks(thing) {
    for (const marked of scene.querySelectorAll(".pinned, .near")) marked.classList.remove("pinned", "near");
    if (thing) markAround(thing);
    if (culling.far) culling.refresh();
  }

  function markAround(thing) {
    const parts = thing.type === "partition" ? [...shown.hulls, ...shown.nodes].filter((one) => one.partition === thing.partition) : [];
    for (const one of [thing, ...parts]) if (one.element?.isConnected) one.element.classList.add("pinned");
    for (const drawn of shown.edges) {
      const { from, to, links } = drawn.edge;
      const near = thing.type === "tensor" ? drawn.tensor === thing.tensor
        : from.item === thing || to.item === thing || [...links].some((link) => link.from === thing || link.to === thing);
      drawn.element.classList.toggle("near", near);
    }
  }

  function pin(thing, reveal = false) {
    pinned = thing;
    tooltip.hidden = true;
    const node = thing && (thing.type === "op" || thing.type === "group" || thing.lines);
    if (node && reveal && uncover(thing)) draw();
    marks(thing);
    memory?.mark(opsOf(thing));
    if (thing) panel.replaceChildren(...details(model, thing, pin).filter(Boolean));
    else showOverview();
    panel.scrollTop = 0;
    if (thing) showPanel(true);
    else panel.classList.remove("asked");
    if (node && reveal) view.reveal(thing);
  }

  function openPartition(partition) {
    const node = model.byId.get(`op ${partition.ops[0]}`);
    if (node && uncover(node)) draw();
    pin({ type: "partition", partition });
    if (node) view.reveal(node);
  }

  function openByKey(thing) {
    if (thing.type === "group") {
      toggle(thing);
      return;
    }
    origin = thing;
    pin(thing);
    panel.querySelector(".close").focus();
  }

  function close() {
    pin(null);
    if (origin?.element?.isConnected) focus(elementOf(origin));
    origin = null;
  }

  // --- memory ---

  /** Ids of the ops that a thing stands for. */
  function opsOf(thing) {
    if (thing?.type === "op") return [thing.op.id];
    if (thing?.type === "group") return thing.ops.filter((node) => node.op).map((node) => node.op.id);
    if (thing?.type === "partition") return thing.partition.ops;
    return [];
  }

  /** Marks the op of a step, or the closed module that it is in. */
  function tellOf(node) {
    told = node;
    for (const marked of scene.querySelectorAll(".told")) marked.classList.remove("told");
    if (node) seenOf(node).element.classList.add("told");
    if (culling.far) culling.refresh();
  }

  function chosen(step, how) {
    const op = step === null ? null : model.graph.memory.steps[step].op;
    const node = op === null ? null : model.byId.get(`op ${op}`) ?? null;
    if (how === "click" && node) pin(node, true);
    tellOf(node);
    if (how === "key" && node) view.reveal(seenOf(node));
  }

  function showMemory(visible) {
    element("memory").hidden = !visible;
    element("memory-toggle").setAttribute("aria-expanded", String(visible));
  }

  if (model.graph.memory) {
    const about = (op) => {
      const node = model.byId.get(`op ${op}`);
      return node ? [node.op.kind, node.op.name].filter(Boolean).join(" ") : "";
    };
    const hue = (op) => {
      const partition = model.byId.get(`op ${op}`)?.partition;
      return partition ? hueOf(partition) : null;
    };
    memory = new MemoryChart(element("memory"), model.graph.memory, { hue, about, chosen });
    element("memory-toggle").hidden = false;
    element("memory-toggle").addEventListener("click", () => showMemory(element("memory").hidden));
    showMemory(window.innerHeight >= ROOMY && (memory.weights > 0 || memory.data.arena > 0));
  }

  // --- partitioning ---

  /** Marks the ops of the step at hand, or the closed modules that they are in. */
  function markStep() {
    for (const marked of asked) marked.classList.remove("asked", "refused");
    asked = [];
    if (!partitioning || element("partitioning").hidden || !partitioning.step) return;
    const name = partitioning.step.partition === null ? "refused" : "asked";
    asked = partitioning.opsNow.map((id) => seenOf(model.byId.get(`op ${id}`)).element);
    for (const one of asked) one.classList.add(name);
  }

  /** Another number of steps is done: changes what looks otherwise now, and nothing else. */
  function stepped(ops) {
    const changed = paleOps(model, shown, ops, (id) => !element("partitioning").hidden && partitioning.isLater(id));
    paintStrips(model, changed.nodes);
    const marked = asked;
    markStep();
    for (const node of changed.nodes) paled.add(node);
    culling.recolour(changed.nodes, changed.hulls, [...marked, ...asked]);
  }

  function stepRested(ops) {
    minimap.recolour(paled);
    paled = new Set();
    if (ops.length) view.reveal(seenOf(model.byId.get(`op ${ops[0]}`)));
  }

  function showPartitioning(visible) {
    element("partitioning").hidden = !visible;
    element("partitioning-toggle").setAttribute("aria-expanded", String(visible));
    const mode = visible ? "partition" : before.colouring;
    if (visible) before = { colouring, memory: !element("memory").hidden };
    if (before.memory && window.innerHeight < BOTH) showMemory(!visible);
    stepped(partitioning.takenBetween(partitioning.at, partitioning.steps.length));
    element("colour").value = mode;
    colour(mode);
    if (visible) partitioning.slider.focus();
    else element("partitioning-toggle").focus();
  }

  if (model.graph.partitioning?.steps.length) {
    partitioning = new PartitioningView(element("partitioning"), model, {
      moved: (before, now) => stepped(partitioning.takenBetween(before, now)),
      rested: stepRested,
      open: (id) => pin(model.byId.get(`op ${id}`), true),
      leave: () => showPartitioning(false),
    });
    element("partitioning-toggle").hidden = false;
    element("partitioning-toggle").addEventListener("click", () => showPartitioning(element("partitioning").hidden));
  }

  // --- pointer ---

  picture.addEventListener("click", (event) => {
    if (view.moved) return;
    origin = null;
    const thing = under(event) ?? null;
    const held = event.target.closest(".held");
    if (held) openHeld(thing, held.dataset.ids.split(" "));
    else if (thing?.type === "group" && (!thing.open || event.target.closest(".closer"))) toggle(thing);
    else pin(thing);
  });

  /** A line of constants was clicked: one is shown itself, of several the op that has them. */
  function openHeld(node, ids) {
    const tensors = node.held.filter((id) => ids.includes(String(id)));
    pin(tensors.length === 1 ? { type: "tensor", tensor: model.tensors.get(tensors[0]) } : node);
  }

  picture.addEventListener("pointermove", (event) => {
    const thing = event.buttons ? null : under(event);
    tooltip.hidden = !thing;
    if (hovered !== thing) memory?.mark(opsOf((hovered = thing) ?? pinned));
    if (!thing) return;
    if (tooltip.shown !== thing) tooltip.replaceChildren(...tooltipOf(model, thing));
    tooltip.shown = thing;
    const { width, height } = tooltip.getBoundingClientRect();
    const right = event.clientX + 16 + width < window.innerWidth;
    tooltip.style.left = `${Math.max(4, right ? event.clientX + 16 : event.clientX - width - 12)}px`;
    tooltip.style.top = `${Math.max(4, Math.min(event.clientY + 14, window.innerHeight - height - 6))}px`;
  });
  picture.addEventListener("pointerleave", () => {
    tooltip.hidden = true;
    hovered = null;
    memory?.mark(opsOf(pinned));
  });

  // --- keys ---

  /** The node in that direction: along an edge up or down, or beside. */
  function neighbour(node, key) {
    const inside = new Set(node.type === "group" ? node.ops : [node]);
    const links = [...inside].flatMap((one) => one.links);
    if (key === "ArrowDown") return links.map((link) => link.to).filter((one) => !inside.has(one)).map(seenOf)[0];
    if (key === "ArrowUp") return links.map((link) => link.from).filter((one) => !inside.has(one)).map(seenOf)[0];
    const sign = key === "ArrowRight" ? 1 : -1;
    const beside = shown.nodes.filter((one) => Math.abs(one.y - node.y) < 12 && (one.x - node.x) * sign > 0);
    return beside.sort((a, b) => (a.x - b.x) * sign)[0];
  }

  /** Gives an element the focus, which it can't have as long as it is not drawn. */
  function focus(target) {
    culling.show(target);
    target.focus({ preventScroll: true });
  }

  /** What Tab goes to from there: all boxes have their turn, also those that are not drawn now. */
  function beside(target, backwards) {
    const all = [...scene.querySelectorAll("[data-id]")];
    const place = target === picture ? -1 : all.indexOf(target);
    if (place < 0 && (backwards || target !== picture)) return null;
    return all[place + (backwards ? -1 : 1)] ?? (backwards ? picture : null);
  }

  function focusedNode(target) {
    return target.dataset?.id ? model.byId.get(target.dataset.id) : null;
  }

  function zoomKey(key) {
    if (key === "+" || key === "=") view.zoom(FACTOR);
    else if (key === "-") view.zoom(1 / FACTOR);
    else if (key === "0") view.fit();
    else if (key === "]" || key === "[") openDepth(key === "]");
    else return false;
    return true;
  }

  picture.addEventListener("keydown", (event) => {
    const node = focusedNode(event.target);
    const next = event.key === "Tab" ? beside(event.target, event.shiftKey) : null;
    if (next) {
      event.preventDefault();
      focus(next);
      return;
    }
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      const next = node && neighbour(node, event.key);
      if (next) focus(elementOf(next));
      else if (!node) {
        const x = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key] ?? 0;
        const y = { ArrowUp: STEP, ArrowDown: -STEP }[event.key] ?? 0;
        view.move(x, y);
      }
    } else if (node && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      openByKey(node);
    }
  });
  picture.addEventListener("focusin", (event) => {
    const node = focusedNode(event.target);
    if (!node) return;
    if (event.target.matches(":focus-visible")) view.reveal(node);
    if (culling.far) culling.refresh();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.key === "Escape") close();
    else if (event.key === "/") element("search").focus();
    else if (!zoomKey(event.key)) return;
    event.preventDefault();
  });

  // --- search ---

  function markMatches() {
    const seen = new Set(matches.map((node) => (node.type === "group" && node.open ? node : seenOf(node))));
    for (const node of [...shown.nodes, ...shown.frames]) node.element.classList.toggle("match", seen.has(node));
    if (culling.far) culling.refresh();
  }

  function search(text) {
    matches = find(model, text);
    current = -1;
    scene.classList.toggle("searching", text.trim() !== "");
    markMatches();
    element("found").textContent = text.trim() ? `${matches.length} ${matches.length === 1 ? "match" : "matches"}` : "";
  }

  function next(backwards) {
    if (!matches.length) return;
    current = current < 0 && backwards ? matches.length - 1 : (current + (backwards ? -1 : 1) + matches.length) % matches.length;
    element("found").textContent = `${current + 1} of ${matches.length}`;
    pin(matches[current], true);
    view.legible();
    view.reveal(matches[current], true);
  }

  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey);
    if (event.key !== "Escape") return;
    event.target.value = "";
    search("");
    picture.focus();
  });

  // --- buttons ---

  element("zoom-in").addEventListener("click", () => view.zoom(FACTOR));
  element("zoom-out").addEventListener("click", () => view.zoom(1 / FACTOR));
  element("fit").addEventListener("click", () => view.fit());
  element("toggle").addEventListener("click", () => showPanel(getComputedStyle(panel).display === "none"));

  element("open-all").addEventListener("click", () => openDepth(true));
  element("close-all").addEventListener("click", () => openDepth(false));
  for (const id of ["open-all", "close-all"]) element(id).hidden = !model.groups.length;
  for (const [name, { label }] of Object.entries(colourings(model))) {
    element("colour").append(html("option", { value: name }, label));
  }
  element("colour").value = colouring;
  element("colour").addEventListener("change", (event) => {
    if (before) before.colouring = event.target.value;
    colour(event.target.value);
  });

  draw(first);
  view.open();
  pin(null);
}

start();
