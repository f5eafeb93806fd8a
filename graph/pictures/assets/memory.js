// The memory of an execution: steps run to the right, bytes upwards. Rectangles are temporaries, where they lie in the
// arena and as long as they are needed; the line says how many bytes are in use.

const PLOT = { height: 132, left: 62, right: 12, top: 16, bottom: 17 };
const LABELLED = 74; // pixels of a temporary that has room for its size
const MOST_TICKS = 10;
const LONGEST_LABEL = 60; // letters over a stage
const SLIM = 6; // pixels of a temporary that is too low for a border

class MemoryChart {
  /** Tells `chosen(step, how)` which step it is, or null, by the pointer, a key or a click. `hue(op)` colours, `about(op)` names. */
  constructor(host, data, { hue, about, chosen }) {
    Object.assign(this, { data, hue, about, chosen, weighted: false, current: null, hovered: null, marked: [] });
    this.count = Math.max(1, data.steps.length);
    this.weights = data.constants + data.prepared;
    this.svg = svg("svg", { class: "timeline", tabindex: 0, role: "group", "aria-label": "Memory over the steps: arrow keys go from step to step, Home and End to the first and the last, Enter opens its op" });
    this.told = html("p", { class: "told muted", "aria-live": "polite" });
    this.button = html("button", { type: "button", "aria-pressed": "false", title: "Constants and parameters, and what was made of them, under the arena" }, "Weights");
    this.button.addEventListener("click", () => this.toggleWeights());
    host.replaceChildren(
      html("div", { class: "sums" }, html("h2", {}, "Memory"), ...this.sums(), this.weights ? this.button : null),
      this.svg,
      this.told,
    );
    this.svg.addEventListener("pointermove", (event) => this.pointed(event));
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    this.svg.addEventListener("click", (event) => this.choose(this.stepAt(event)));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.tell();
  }

  sums() {
    const { data } = this;
    const parts = [];
    const say = (name, text, title) => parts.push(html("span", { class: "sum", title }, html("span", { class: "muted" }, `${name} `), text));
    if (data.stages.some((stage) => stage.arena !== null)) say("arena", bytes(data.arena), "Memory of all temporaries, which is kept for the next execution");
    if (data.peak !== null && data.in_use[data.peak]) say("peak", `${bytes(data.in_use[data.peak])} at step ${data.peak + 1} of ${this.count}`, "Most bytes that are in use at once");
    if (data.constants) say("weights", bytes(data.constants), "Constants and parameters of the graph");
    if (data.prepared) say("made of them", bytes(data.prepared), "Weights in the layouts of kernels");
    if (data.between) say("between stages", bytes(data.between), "Results that stay until the call is over");
    const unplanned = [...new Set(data.stages.filter((stage) => stage.arena === null).map((stage) => stage.backend))];
    if (unplanned.length) parts.push(html("span", { class: "muted" }, `${unplanned.join(", ")} takes memory as it goes, which is not counted`));
    return parts;
  }

  toggleWeights() {
    this.weighted = !this.weighted;
    this.button.setAttribute("aria-pressed", String(this.weighted));
    this.draw();
  }

  // --- places ---

  get width() {
    return Math.max(1, this.svg.clientWidth - PLOT.left - PLOT.right);
  }

  x(step) {
    return PLOT.left + (step * this.width) / this.count;
  }

  y(number) {
    return PLOT.top + PLOT.height * (1 - (number + this.ground) / this.top);
  }

  stepAt(event) {
    const across = event.clientX - this.svg.getBoundingClientRect().left - PLOT.left;
    const step = Math.floor((across * this.count) / this.width);
    return step >= 0 && step < this.data.steps.length ? step : null;
  }

  /** The temporary at a step that lies there. */
  blockAt(event, step) {
    const down = event.clientY - this.svg.getBoundingClientRect().top;
    const above = (1 - (down - PLOT.top) / PLOT.height) * this.top - this.ground;
    const over = ({ stage, offset, nbytes, first, last }) => {
      const low = offset + this.data.stages[stage].waiting;
      return step >= first && step <= last && above >= low && above < low + nbytes;
    };
    return this.data.blocks.findLast(over) ?? null;
  }

  // --- drawing ---

  draw() {
    const { data } = this;
    this.ground = this.weighted ? this.weights : 0;
    const most = data.stages.map((stage) => stage.waiting + (stage.arena ?? 0));
    this.top = Math.max(1, maximum(most, 1) + this.ground);
    this.svg.setAttribute("height", PLOT.top + PLOT.height + PLOT.bottom);
    this.columns = svg("g", { class: "columns" });
    this.cursor = svg("g", { class: "cursor" });
    this.bars = data.blocks.map((block) => this.bar(block));
    this.svg.replaceChildren(
      ...this.axes(),
      ...(this.weighted ? this.bands() : []),
      this.columns,
      ...data.stages.flatMap((stage, number) => this.stage(stage, number)),
      ...this.bars,
      ...data.blocks.map((block) => this.sizeOf(block)).filter(Boolean),
      ...this.line(),
      this.cursor,
    );
    this.mark(this.marked);
    this.point();
  }

  rect(name, first, end, low, high, more = {}) {
    const [left, upper] = [this.x(first), this.y(high)];
    return svg("rect", { class: name, x: left.toFixed(1), y: upper.toFixed(1), width: Math.max(0.6, this.x(end) - left).toFixed(1), height: Math.max(0.6, this.y(low) - upper).toFixed(1), ...more });
  }

  axes() {
    const bottom = PLOT.top + PLOT.height;
    const whole = this.top;
    const lines = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const down = (bottom - part * PLOT.height).toFixed(1);
      return [
        svg("line", { class: "grid", x1: PLOT.left, x2: PLOT.left + this.width, y1: down, y2: down }),
        part % 0.5 || (part && whole < 2) ? null : svg("text", { class: "size", x: PLOT.left - 6, y: Number(down) + 4 }, part ? bytes(Math.round(part * whole)) : "0"),
      ];
    });
    const step = niceStep(this.count / Math.max(1, Math.min(MOST_TICKS, this.width / 60)));
    const ticks = [];
    for (let number = 0; number < this.data.steps.length; number += step) {
      ticks.push(svg("text", { class: "tick", x: ((this.x(number) + this.x(number + 1)) / 2).toFixed(1), y: bottom + 13 }, String(number + 1)));
    }
    return [...lines.flat().filter(Boolean), ...ticks];
  }

  /** Constants, and what was made of them, which stay all the time. */
  bands() {
    const { constants, prepared } = this.data;
    const band = (name, low, size, text) => size && [
      this.rect(`band ${name}`, 0, this.count, low - this.ground, low + size - this.ground),
      this.y(low - this.ground) - this.y(low + size - this.ground) > 13 ? svg("text", { class: "inside", x: PLOT.left + 6, y: this.y(low + size / 2 - this.ground) + 4 }, `${text} ${bytes(size)}`) : null,
    ];
    return [band("constants", 0, constants, "weights"), band("prepared", constants, prepared, "made of them")].flat().filter(Boolean);
  }

  /** The arena of a stage, under what lies in it. */
  stage({ start, end, arena, waiting, label, sizes, backend }, number) {
    const parts = [];
    if (waiting) parts.push(this.rect("band between", start, end, 0, waiting));
    if (number) parts.push(svg("line", { class: "border", x1: this.x(start), x2: this.x(start), y1: PLOT.top, y2: PLOT.top + PLOT.height }));
    const words = [this.data.stages.length > 1 && (sizes || label), arena === null && `${backend}: not planned`].filter(Boolean).join(" · ");
    const room = Math.min(LONGEST_LABEL, Math.floor((this.x(end) - this.x(start) - 8) / 6.8));
    if (words && room > 5) parts.push(svg("text", { class: "inside", x: this.x(start) + 4, y: PLOT.top - 5 }, shortened(words, room)));
    if (arena === null) parts.push(this.rect("unplanned", start, end, waiting, this.top - this.ground));
    else parts.push(this.rect("arena", start, end, waiting, waiting + arena));
    return parts;
  }

  bar(block) {
    const low = block.offset + this.data.stages[block.stage].waiting;
    const op = this.data.steps[block.writes[0] ?? block.first]?.op ?? null;
    const hue = this.hue(op);
    const slim = this.y(low) - this.y(low + block.nbytes) < SLIM ? " slim" : "";
    return this.rect(`block${block.scratchpad ? " scratchpad" : ""}${slim}`, block.first, block.last + 1, low, low + block.nbytes, hue === null ? {} : { hue });
  }

  sizeOf({ stage, offset, nbytes, first, last }) {
    const low = offset + this.data.stages[stage].waiting;
    if (this.x(last + 1) - this.x(first) < LABELLED || this.y(low) - this.y(low + nbytes) < 14) return null;
    return svg("text", { class: "inside centred", x: (this.x(first) + this.x(last + 1)) / 2, y: this.y(low + nbytes / 2) + 4 }, bytes(nbytes));
  }

  line() {
    const { stages, in_use: used, peak } = this.data;
    const paths = stages.filter((stage) => stage.arena !== null && stage.end > stage.start).map((stage) => {
      let path = "";
      for (let number = stage.start; number < stage.end; number += 1) {
        path += `${number === stage.start ? "M" : "L"}${this.x(number).toFixed(1)},${this.y(used[number]).toFixed(1)} H${this.x(number + 1).toFixed(1)} `;
      }
      return svg("path", { class: "used", d: path });
    });
    if (peak === null || !used[peak]) return paths;
    const at = { cx: ((this.x(peak) + this.x(peak + 1)) / 2).toFixed(1), cy: this.y(used[peak]).toFixed(1) };
    return [...paths, svg("circle", { class: "peak", r: 3.5, ...at }, svg("title", {}, `peak: ${bytes(used[peak])}`))];
  }

  // --- what is pointed at ---

  pointed(event) {
    const step = this.stepAt(event);
    this.hover(step, step === null ? null : this.blockAt(event, step));
  }

  hover(step, block = null) {
    if (step === this.hovered && block === this.block) return;
    const changed = step !== this.hovered;
    Object.assign(this, { hovered: step, block });
    this.point();
    this.tell();
    if (changed) this.chosen(step ?? this.current, "pointer");
  }

  choose(step) {
    this.current = step;
    this.point();
    this.tell();
    this.chosen(step, "click");
  }

  key(event) {
    const last = this.data.steps.length - 1;
    const now = this.current ?? -1;
    const next = { ArrowRight: Math.min(last, now + 1), ArrowLeft: Math.max(0, now - 1), Home: 0, End: last }[event.key];
    if (event.key === "Enter" && this.current !== null) this.choose(this.current);
    else if (next === undefined || last < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    else {
      Object.assign(this, { current: next, hovered: null, block: null });
      this.point();
      this.tell();
      this.chosen(next, "key");
    }
    event.preventDefault();
    event.stopPropagation();
  }

  point() {
    if (!this.cursor) return;
    const step = this.hovered ?? this.current;
    const column = (number, name) => this.rect(name, number, number + 1, -this.ground, this.top - this.ground);
    this.cursor.replaceChildren(...(step === null ? [] : [column(step, "now")]));
    this.bars.forEach((bar, number) => bar.classList.toggle("under", this.data.blocks[number] === this.block));
  }

  /** Marks the steps of ops, and what they make. */
  mark(ops) {
    this.marked = ops;
    if (!this.columns) return;
    const wanted = new Set(ops);
    const steps = this.data.steps.flatMap(({ op }, number) => (op !== null && wanted.has(op) ? [number] : []));
    const mine = new Set(steps);
    this.columns.replaceChildren(...steps.map((number) => this.rect("marked", number, number + 1, -this.ground, this.top - this.ground)));
    this.bars.forEach((bar, number) => bar.classList.toggle("made", this.data.blocks[number].writes.some((step) => mine.has(step))));
  }

  tell() {
    const step = this.hovered ?? this.current;
    if (step === null) {
      this.told.replaceChildren("Point at a step to see its op and what is in memory; a click opens the op. The line is what is in use, boxes are temporaries where they lie.");
      return;
    }
    const { steps, in_use: used, stages, blocks } = this.data;
    const { name, op } = steps[step];
    const stage = stages.find(({ start, end }) => step >= start && step < end);
    const live = blocks.filter(({ first, last }) => step >= first && step <= last).length;
    const words = [`step ${step + 1}`, name, op === null ? "" : this.about(op)];
    words.push(stage.arena === null ? "memory is not planned" : `${bytes(used[step])} in use by ${counted(live, "temporary", "temporaries")}`);
    this.told.replaceChildren(html("strong", {}, words.filter(Boolean).join(" · ")), this.block ? ` — ${blockWords(this.block)}` : "");
  }
}

function blockWords({ name, text, nbytes, first, last, reads, scratchpad }) {
  const numbers = reads.map((step) => step + 1);
  const shown = numbers.slice(0, 6).join(", ") + (numbers.length > 6 ? ", …" : "");
  const read = scratchpad ? "" : numbers.length ? `, read by ${shown}` : ", read by nobody";
  return `${[name, text].filter(Boolean).join(" ")}, ${bytes(nbytes)}, steps ${first + 1} to ${last + 1}${read}`;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((number) => number * power).find((one) => one >= least) ?? 1;
}
