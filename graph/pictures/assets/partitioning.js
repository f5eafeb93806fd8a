// How the graph came to its partitions: a slider goes through what the partitioner asked, one question after another.
// What is taken later is pale; ops of the step at hand stand out, and below stands who took them, or why not.

const NAMED_OPS = 10; // of a step, in the text
const TOLD_BEFORE = 3; // refusals of the same ops
const REST = 140; // milliseconds after which a slider that is pulled stands still

class PartitioningView {
  /** Tells `moved(before, now)` that another number of steps is done, and `rested(ids)` when the slider stands still, with the ops of the step; `open(id)` shows an op. */
  constructor(host, model, { moved, rested, open, leave }) {
    const { steps, policy, unmatched } = model.graph.partitioning;
    Object.assign(this, { host, model, steps, policy, unmatched, moved, rested, open, at: 0, pulled: false });
    this.takenAt = new Map(); // op → the number of its step
    this.refusals = steps.flatMap((step, number) => (step.partition === null ? [number + 1] : []));
    this.stepsOf = new Map(); // op → numbers of all steps that ask for it
    steps.forEach((step, number) => {
      for (const op of step.ops) {
        if (step.partition !== null) this.takenAt.set(op, number + 1);
        if (!this.stepsOf.has(op)) this.stepsOf.set(op, []);
        this.stepsOf.get(op).push(number + 1);
      }
    });
    this.slider = html("input", { type: "range", min: 0, max: steps.length, value: 0, step: 1, "aria-label": "Steps of the partitioner", title: "Arrow keys go from step to step, Page keys further, Home and End to the first and the last" });
    this.count = html("span", { class: "count" });
    this.told = html("div", { class: "told" });
    const button = (text, label, click) => {
      const made = html("button", { type: "button", "aria-label": label, title: label }, text);
      made.addEventListener("click", click);
      return made;
    };
    this.back = button("◂", "One step back", () => this.go(this.at - 1));
    this.on = button("▸", "One step on", () => this.go(this.at + 1));
    this.refusal = button("Next refusal", "To the next step in which ops were refused", () => this.go(this.nextRefusal()));
    host.replaceChildren(
      html("div", { class: "sums" }, html("h2", {}, "Partitioning"), ...this.sums(), html("span", { class: "steering" }, this.refusal, this.back, this.count, this.on)),
      html("div", { class: "track" }, this.slider, this.strip()),
      this.told,
    );
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value), this.pulled));
    this.slider.addEventListener("pointerdown", () => (this.pulled = true));
    for (const name of ["pointerup", "pointercancel", "change"]) this.slider.addEventListener(name, () => this.released());
    host.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      leave();
    });
    this.tell();
  }

  sums() {
    const say = (name, text) => html("span", { class: "sum" }, html("span", { class: "muted" }, `${name} `), text);
    return [say("policy", this.policy), say("steps", String(this.steps.length)), say("refused", String(this.refusals.length))];
  }

  /** Under the slider, who took something at which step, and where nobody did. */
  strip() {
    const parts = [];
    for (const step of this.steps) {
      const kind = step.partition === null ? "refused" : step.backend ?? "nobody";
      const last = parts.at(-1);
      if (last?.kind === kind) last.length += 1;
      else parts.push({ kind, length: 1 });
    }
    let x = 0;
    const rects = parts.map(({ kind, length }) => {
      const bad = kind === "refused" || kind === "nobody";
      const rect = svg("rect", { class: bad ? "bad" : "by", x, y: 0, width: length, height: 1, ...(bad ? {} : { hue: hueOfBackend(kind) }) }, svg("title", {}, kind));
      x += length;
      return rect;
    });
    return svg("svg", { class: "strip", viewBox: `0 0 ${Math.max(1, x)} 1`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...rects);
  }

  // --- moving ---

  /** So many steps are done. */
  go(to, pulled = false) {
    const next = Math.min(this.steps.length, Math.max(0, to));
    if (next === this.at) return;
    const before = this.at;
    this.at = next;
    this.slider.value = next;
    this.tell();
    this.moved(before, next);
    clearTimeout(this.waiting);
    if (pulled) this.waiting = setTimeout(() => this.rested(this.opsNow), REST);
    else this.rested(this.opsNow);
  }

  released() {
    if (!this.pulled) return;
    this.pulled = false;
    clearTimeout(this.waiting);
    this.rested(this.opsNow);
  }

  nextRefusal() {
    return this.refusals.find((number) => number > this.at) ?? this.refusals[0] ?? this.at;
  }

  get step() {
    return this.steps[this.at - 1] ?? null;
  }

  get opsNow() {
    return this.step?.ops ?? [];
  }

  /** Ops that are taken between two numbers of steps. */
  takenBetween(before, now) {
    const taken = this.steps.slice(Math.min(before, now), Math.max(before, now)).filter((step) => step.partition !== null);
    return taken.flatMap((step) => step.ops);
  }

  isLater(op) {
    return (this.takenAt.get(op) ?? 0) > this.at;
  }

  // --- what is said ---

  nameOf(id) {
    const { op } = this.model.byId.get(`op ${id}`);
    return op.name ? `${op.kind} '${op.name}'` : `${op.kind} (op ${id})`;
  }

  /** A step in one sentence. */
  sentence(step) {
    const names = step.ops.slice(0, NAMED_OPS).map((id) => this.nameOf(id));
    if (step.ops.length > NAMED_OPS) names.push(`${step.ops.length - NAMED_OPS} more ops`);
    const what = names.join(", ");
    if (step.backend === null) return `nobody takes ${what}`;
    if (!step.pattern) return `${step.backend} can't be asked: ${step.reason}`;
    const who = `${step.backend}, ${step.pattern},`;
    if (step.partition === null) return `${who} refused ${what}: ${step.reason}`;
    return `${who} took ${what} as partition ${step.partition}${step.ends && `; ${step.ends}`}`;
  }

  tell() {
    const { step, at, steps } = this;
    this.count.textContent = `${at} / ${steps.length}`;
    this.back.disabled = at === 0;
    this.on.disabled = at === steps.length;
    this.refusal.disabled = !this.refusals.length;
    this.slider.setAttribute("aria-valuetext", step ? `step ${at} of ${steps.length}: ${this.sentence(step)}` : `before the first of ${counted(steps.length, "step")}: nothing is taken yet`);
    this.told.replaceChildren(...(step ? this.about(step) : this.beginning()));
  }

  beginning() {
    const names = this.unmatched.map(([backend, pattern]) => `${pattern} (${backend})`).join(", ");
    return [
      html("p", {}, "Nothing is taken yet. Patterns are asked by their priority; what one takes has its partition's colour from then on, what it was refused is framed in red."),
      html("p", { class: "muted" }, names && `Patterns that matched nothing: ${names}.`),
    ];
  }

  about(step) {
    const partition = step.partition === null ? null : this.model.partitions.get(step.partition);
    const swatch = partition && html("span", { class: `swatch ${runnerOf(partition)}`, hue: hueOf(partition) });
    if (step.backend !== null && !step.pattern) return [html("p", {}, html("strong", {}, step.backend), " can't be asked for anything."), html("p", { class: "problem" }, step.reason)];
    const outcome = step.partition === null ? html("strong", { class: "problem" }, "refused") : html("strong", {}, step.backend === null ? "nobody takes" : "took");
    const head = html(
      "p",
      { class: "head" },
      swatch,
      step.backend === null ? "" : html("span", {}, html("strong", {}, step.backend), html("span", { class: "muted" }, `, ${step.pattern}`)),
      outcome,
      ...this.chips(step.ops),
      step.partition === null ? "" : html("span", { class: "muted" }, `→ partition ${step.partition}`),
    );
    const lines = [head];
    if (step.reason) lines.push(html("p", { class: "problem" }, step.reason));
    if (step.ends) lines.push(html("p", {}, `${step.ends[0].toUpperCase()}${step.ends.slice(1)}.`));
    const runs = partition?.backend ?? null;
    if (partition && step.backend !== null && runs !== step.backend) {
      const why = [partition.why_not[step.backend], ...partition.rejected].filter(Boolean).join("; ");
      lines.push(html("p", {}, `Once compiled, ${runs ?? "nobody"} runs it${why && `: ${why}`}.`));
    }
    lines.push(...this.otherSteps(step));
    return lines;
  }

  chips(ops) {
    const made = ops.slice(0, NAMED_OPS).map((id) => {
      const { op } = this.model.byId.get(`op ${id}`);
      const chip = html("button", { type: "button", class: "chip", title: `Open ${this.nameOf(id)}` }, op.kind, op.name ? html("span", { class: "muted" }, ` ${shortened(op.name)}`) : "");
      chip.addEventListener("click", () => this.open(id));
      return chip;
    });
    if (ops.length > NAMED_OPS) made.push(html("span", { class: "muted" }, `and ${ops.length - NAMED_OPS} more`));
    return made;
  }

  /** What was said of the same ops before, and where those that were refused went. */
  otherSteps(step) {
    const numbers = [...new Set(step.ops.flatMap((op) => this.stepsOf.get(op)))].sort((a, b) => a - b);
    const before = numbers.filter((number) => number < this.at && this.steps[number - 1].partition === null).slice(-TOLD_BEFORE);
    const lines = before.map((number) => {
      const { backend, pattern, reason } = this.steps[number - 1];
      return html("p", { class: "muted" }, "Before, in ", this.link(number), `, ${backend}, ${pattern}, refused: ${reason}`);
    });
    if (step.partition !== null) return lines;
    const went = [...new Set(step.ops.map((op) => this.takenAt.get(op)).filter(Boolean))].slice(0, TOLD_BEFORE);
    const ways = went.flatMap((number, i) => [i ? ", " : "", this.link(number), ` by ${this.steps[number - 1].backend ?? "nobody"}`]);
    if (went.length) lines.push(html("p", { class: "muted" }, step.ops.length > 1 ? "They are taken in " : "It is taken in ", ...ways));
    return lines;
  }

  link(number) {
    const made = html("button", { type: "button", class: "chip" }, `step ${number}`);
    made.addEventListener("click", () => {
      this.go(number);
      this.slider.focus();
    });
    return made;
  }
}

// --- in the picture ---

/** Pales what is taken later, of all that is drawn. */
function pale(shown) {
  for (const node of shown.nodes) node.element.classList.toggle("later", Boolean(node.later));
  for (const hull of shown.hulls) palePartition(hull);
}

function palePartition({ partition, element, title }) {
  for (const one of [element, title]) one.classList.toggle("later", Boolean(partition.later));
}

/** Pales, or no longer, these ops and their partitions; returns what is drawn otherwise now. */
function paleOps(model, shown, ops, isLater) {
  const nodes = new Set(); // closed modules among them
  const partitions = new Set();
  for (const id of ops) {
    const node = model.byId.get(`op ${id}`);
    node.later = isLater(id);
    if (node.partition) {
      node.partition.later = node.later;
      partitions.add(node.partition);
    }
    const seen = seenOf(node);
    if (seen === node) node.element.classList.toggle("later", node.later);
    nodes.add(seen);
  }
  const hulls = partitions.size ? shown.hulls.filter((hull) => partitions.has(hull.partition)) : [];
  hulls.forEach(palePartition);
  return { nodes, hulls };
}
