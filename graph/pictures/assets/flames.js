// The flame chart of a profile: time runs to the right; partitions stand over their steps, threads below each other.

const ROW = 24;
const AXIS = 26;
const GAP = 14; // between threads
const NARROWEST = 0.4; // pixels of what is drawn
const HUES_OF_KINDS = { primitive: 212, host: 38, copy: 322, filling: 185, exchange: 130, wait: 0 };
const FINEST = 0.01; // microseconds in a pixel

function element(id) {
  return document.getElementById(id);
}

/** Microseconds, in words. */
function micro(number) {
  return number === 0 ? "0" : time(number / 1e6);
}

class Chart {
  constructor(profile, canvas) {
    Object.assign(this, { profile, canvas, wanted: "", current: null, hovered: null });
    this.bars = profile.events.map(([line, start, length, thread], number) => {
      const told = profile.lines[line];
      return { number, told, start, length, thread, row: thread * 2 + (told.kind === "partition" ? 0 : 1) };
    });
    this.begin = minimum(this.bars.map((bar) => bar.start), 0);
    this.end = maximum(this.bars.map((bar) => bar.start + bar.length), 1);
    this.fit();
  }

  get width() {
    return this.canvas.clientWidth;
  }

  fit() {
    const spare = (this.end - this.begin) * 0.01 || 1;
    this.from = this.begin - spare;
    this.perPixel = (this.end - this.begin + 2 * spare) / Math.max(1, this.width);
    this.draw();
  }

  zoom(factor, at = this.width / 2) {
    const fixed = this.from + at * this.perPixel;
    const widest = (1.5 * (this.end - this.begin)) / Math.max(1, this.width) || 1;
    this.perPixel = Math.min(widest, Math.max(FINEST, this.perPixel / factor));
    this.from = fixed - at * this.perPixel;
    this.draw();
  }

  move(pixels) {
    this.from -= pixels * this.perPixel;
    this.draw();
  }

  top(bar) {
    return AXIS + bar.row * ROW + bar.thread * GAP;
  }

  at(x, y) {
    const when = this.from + x * this.perPixel;
    const slack = 2 * this.perPixel;
    return this.bars.find((bar) => y >= this.top(bar) && y < this.top(bar) + ROW && when >= bar.start - slack && when <= bar.start + bar.length + slack) ?? null;
  }

  matches() {
    if (!this.wanted) return [];
    return this.bars.filter(({ told }) => `${told.name}\n${told.implementation}\n${told.tensors.join("\n")}`.toLowerCase().includes(this.wanted));
  }

  /** Shows a bar, and moves there if it is not in view. */
  choose(bar) {
    this.current = bar;
    const x = (bar.start - this.from) / this.perPixel;
    const wide = bar.length / this.perPixel;
    if (x < 0 || x + wide > this.width) this.from = bar.start + bar.length / 2 - (this.width / 2) * this.perPixel;
    this.draw();
    return bar;
  }

  draw() {
    const { canvas } = this;
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const ratio = window.devicePixelRatio || 1;
    const threads = Math.max(1, this.profile.threads.length);
    const height = AXIS + threads * (2 * ROW + GAP);
    canvas.style.height = `${height}px`;
    canvas.width = this.width * ratio;
    canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const [ink, muted, line, accent] = ["--ink", "--muted", "--line", "--accent"].map((name) => style.getPropertyValue(name));
    this.axis(g, muted, line, height);
    const found = new Set(this.matches());
    for (const bar of this.bars) {
      const x = (bar.start - this.from) / this.perPixel;
      const wide = Math.max(NARROWEST, bar.length / this.perPixel);
      if (x > this.width || x + wide < 0) continue;
      const hue = HUES_OF_KINDS[bar.told.kind];
      const faint = this.wanted && !found.has(bar);
      g.globalAlpha = faint ? 0.25 : 1;
      g.fillStyle = hue === undefined ? line : `hsl(${hue} ${dark ? "45% 32%" : "75% 80%"})`;
      g.fillRect(x, this.top(bar) + 1, wide > 3 ? wide - 0.7 : wide, ROW - 2);
      if (bar === this.current || bar === this.hovered) {
        g.strokeStyle = accent;
        g.lineWidth = 2;
        g.strokeRect(x, this.top(bar) + 1, wide, ROW - 2);
      }
      if (wide > 30) this.write(g, bar, x, wide, ink);
    }
    g.globalAlpha = 1;
    g.fillStyle = muted;
    this.profile.names.forEach((name, thread) => {
      if (name) g.fillText(name, 4, this.top({ row: thread * 2, thread }) + ROW / 2);
    });
  }

  write(g, bar, x, wide, ink) {
    const left = Math.max(x, 0);
    const room = Math.min(x + wide, this.width) - left - 8;
    const letters = Math.floor(room / 7);
    if (letters < 3) return;
    g.fillStyle = ink;
    g.fillText(shortened(bar.told.name, letters), left + 4, this.top(bar) + ROW / 2);
  }

  axis(g, muted, line, height) {
    const rough = this.perPixel * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough);
    for (let when = Math.ceil(this.from / step) * step; when < this.from + this.width * this.perPixel; when += step) {
      const x = (when - this.from) / this.perPixel;
      g.fillStyle = line;
      g.fillRect(x, 0, 1, height);
      g.fillStyle = muted;
      g.fillText(micro(Math.max(0, when - this.begin)), x + 4, 11);
    }
  }
}

/** Lines about a bar. */
function toldOf(bar) {
  const { name, implementation, kind, tensors, partition, label } = bar.told;
  const where = kind === "partition" || partition === null ? "" : ` · partition ${partition}: ${label}`;
  const title = kind === "partition" ? `partition ${partition}: ${name}` : name;
  return [
    html("div", {}, html("strong", {}, title), ` · ${micro(bar.length)} · ${implementation} · ${kind}${where}`),
    html("div", { class: "muted" }, tensors.join(", ")),
  ];
}

function start() {
  const canvas = element("chart");
  const chart = new Chart(JSON.parse(element("profile").textContent), canvas);
  const tell = (bar) => chart.onTold?.(bar) ?? element("told").replaceChildren(...(bar ? toldOf(bar) : [html("span", { class: "muted" }, "Drag to move, turn the wheel to zoom, point at a step to read about it.")]));
  let grabbed = null;
  let whole = true; // until it is moved
  let seen = -1;

  new ResizeObserver(() => (whole ? chart.fit() : chart.draw())).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.draw());

  function zoom(factor, at) {
    whole = false;
    chart.zoom(factor, at);
  }

  function fit() {
    whole = true;
    chart.fit();
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 16 : 1) * 0.002), event.offsetX);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    grabbed = event.clientX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (grabbed = null));
  canvas.addEventListener("pointermove", (event) => {
    if (grabbed !== null) {
      whole = false;
      chart.move(event.clientX - grabbed);
      grabbed = event.clientX;
      return;
    }
    chart.hovered = chart.at(event.offsetX, event.offsetY);
    tell(chart.hovered ?? chart.current);
    chart.draw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !chart.bars.length) return;
    event.preventDefault();
    const number = chart.current ? chart.current.number + step : 0;
    tell(chart.choose(chart.bars[Math.min(chart.bars.length - 1, Math.max(0, number))]));
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") fit();
    else if (event.key === "/") element("search").focus();
    else return;
    event.preventDefault();
  });

  element("search").addEventListener("input", (event) => {
    chart.wanted = event.target.value.trim().toLowerCase();
    seen = -1;
    const found = chart.matches();
    const sum = sumOf(found, (bar) => bar.length);
    element("found").textContent = chart.wanted ? `${counted(found.length, "time")}, ${micro(sum)}` : "";
    chart.draw();
  });
  element("search").addEventListener("keydown", (event) => {
    const found = chart.matches();
    if (event.key !== "Enter" || !found.length) return;
    seen = (seen + (event.shiftKey ? -1 : 1) + found.length) % found.length;
    tell(chart.choose(found[seen]));
  });
  element("zoom-in").addEventListener("click", () => zoom(1.5));
  element("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
  element("fit").addEventListener("click", fit);
  if (chart.profile.memory) showMemory(chart, tell);
  tell(null);
}

/** The chart of memory: what is pointed at there stands out in the flame chart, and the other way round. */
function showMemory(chart, tell) {
  const { memory } = chart.profile;
  const barOf = ({ name, op }) => chart.bars.find(({ told }) => told.op === op && (`${told.name} (${told.implementation})` === name || told.name === name)) ?? null;
  const bars = new Map(memory.steps.map((step) => [step, barOf(step)]));
  const drawn = new MemoryChart(element("memory"), memory, {
    hue: (op) => (op === null ? null : (op * 137.5) % 360),
    about: (op) => `op ${op}`,
    chosen: (step, how) => {
      const bar = step === null ? null : bars.get(memory.steps[step]);
      if (how !== "pointer" && bar) chart.choose(bar);
      else chart.hovered = bar;
      tell(bar ?? chart.current);
      chart.draw();
    },
  });
  element("memory").hidden = false;
  drawn.draw();
  const alike = (a, b) => a.partition === b.partition && a.label === b.label;
  const opsOf = ({ told }) => (told.kind === "partition" ? chart.profile.lines.filter((line) => alike(line, told)) : [told]).map(({ op }) => op);
  chart.onTold = (bar) => drawn.mark(bar ? opsOf(bar).filter((op) => op !== null) : []);
}

start();
