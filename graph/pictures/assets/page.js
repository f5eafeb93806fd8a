// The page: reads the graph, draws it, and listens.

const STEP = 60; // pixels that an arrow key moves the picture
const FACTOR = 1.3; // by which a button zooms

function element(id) {
  return document.getElementById(id);
}

function start() {
  const graph = JSON.parse(element("graph").textContent);
  const model = buildModel(graph);
  const size = layOut(model);
  const picture = element("picture");
  const scene = element("scene");
  const panel = element("panel");
  const tooltip = element("tooltip");
  drawModel(model, scene);
  const view = new View(picture, scene, size, model.nodes.find((node) => node.type === "op"));
  const nodeOf = new Map(model.nodes.map((node) => [node.element, node]));
  const thingOf = new Map([
    ...nodeOf,
    ...model.edges.map((edge) => [edge.element, { type: "tensor", tensor: edge.tensor, ports: edge.ports, edge }]),
    ...model.hulls.map((hull) => [hull.element, { type: "partition", partition: hull.partition }]),
  ]);
  let pinned = null;
  let origin = null; // what had the focus before the panel took it

  function under(target) {
    const group = target instanceof Element ? target.closest(".node, .edge, .hull") : null;
    return group ? thingOf.get(group) : null;
  }

  // --- the panel ---

  /** A narrow page has no panel until it is asked for. */
  function showPanel(shown) {
    panel.hidden = !shown;
    panel.classList.toggle("asked", shown);
    element("toggle").setAttribute("aria-expanded", String(shown));
  }

  function marks(thing) {
    for (const marked of scene.querySelectorAll(".pinned, .near")) marked.classList.remove("pinned", "near");
    if (!thing) return;
    if (thing.element) thing.element.classList.add("pinned");
    for (const edge of thing.edges ?? []) edge.element.classList.add("near");
    if (thing.type === "tensor") {
      for (const edge of model.edges) if (edge.tensor === thing.tensor) edge.element.classList.add("near");
    }
    if (thing.type === "partition") {
      for (const hull of model.hulls) if (hull.partition === thing.partition) hull.element.classList.add("pinned");
      for (const node of model.nodes) if (node.partition === thing.partition) node.element.classList.add("pinned");
    }
  }

  function pin(thing, reveal = false) {
    pinned = thing;
    marks(thing);
    tooltip.hidden = true;
    const parts = thing ? details(model, thing, pin) : overview(model, size.note, openPartition);
    panel.replaceChildren(...parts.filter(Boolean));
    panel.scrollTop = 0;
    if (thing) showPanel(true);
    else panel.classList.remove("asked");
    if (thing && reveal && thing.element) view.reveal(thing);
  }

  function openPartition(partition) {
    pin({ type: "partition", partition });
    const first = model.nodes.find((node) => node.partition === partition);
    if (first) view.reveal(first);
  }

  function openByKey(thing) {
    origin = document.activeElement;
    pin(thing);
    panel.querySelector(".close").focus();
  }

  function close() {
    pin(null);
    if (origin) origin.focus();
    origin = null;
  }

  // --- pointer ---

  picture.addEventListener("click", (event) => {
    if (view.moved) return;
    origin = null;
    pin(under(event.target) ?? null);
  });
  picture.addEventListener("pointermove", (event) => {
    const thing = event.buttons ? null : under(event.target);
    tooltip.hidden = !thing;
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
  });

  // --- keys ---

  /** The node in that direction: along an edge up or down, or beside. */
  function neighbour(node, key) {
    if (key === "ArrowDown") return node.edges.find((edge) => edge.from === node)?.to;
    if (key === "ArrowUp") return node.edges.find((edge) => edge.to === node)?.from;
    const sign = key === "ArrowRight" ? 1 : -1;
    const beside = model.nodes.filter((one) => Math.abs(one.y - node.y) < 12 && (one.x - node.x) * sign > 0);
    return beside.sort((a, b) => (a.x - b.x) * sign)[0];
  }

  function zoomKey(key) {
    if (key === "+" || key === "=") view.zoom(FACTOR);
    else if (key === "-") view.zoom(1 / FACTOR);
    else if (key === "0") view.fit();
    else return false;
    return true;
  }

  picture.addEventListener("keydown", (event) => {
    const node = nodeOf.get(event.target);
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      const next = node && neighbour(node, event.key);
      if (next) next.element.focus();
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
    const node = nodeOf.get(event.target);
    if (node && event.target.matches(":focus-visible")) view.reveal(node);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLInputElement) return;
    if (event.key === "Escape") close();
    else if (event.key === "/") element("search").focus();
    else if (!zoomKey(event.key)) return;
    event.preventDefault();
  });

  // --- search ---

  let matches = [];
  let current = -1;

  function textOf(node) {
    const tensors = node.op ? node.op.outputs.map(([, id]) => model.tensors.get(id).name) : [node.tensor.name];
    const words = node.op ? [node.op.kind, node.op.name, `op ${node.op.id}`] : [];
    return [...words, ...tensors].join("\n").toLowerCase();
  }

  function search(text) {
    const wanted = text.trim().toLowerCase();
    matches = wanted ? model.nodes.filter((node) => textOf(node).includes(wanted)) : [];
    const matching = new Set(matches);
    current = -1;
    scene.classList.toggle("searching", wanted !== "");
    for (const node of model.nodes) node.element.classList.toggle("match", matching.has(node));
    element("found").textContent = wanted ? `${matches.length} ${matches.length === 1 ? "match" : "matches"}` : "";
  }

  function next(backwards) {
    if (!matches.length) return;
    current = (current + (backwards ? -1 : 1) + matches.length) % matches.length;
    element("found").textContent = `${current + 1} of ${matches.length}`;
    pin(matches[current]);
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

  pin(null);
}

start();
