// The words of the page: how numbers, attributes and tensors are written, and elements that hold them. What a graph
// says goes into the page as text alone, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const LONGEST_NAME = 30;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "hue") element.style.setProperty("--hue", value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function html(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A long name with its middle left out, so that it fits into a box. */
function shortened(text, longest = LONGEST_NAME) {
  const letters = Array.from(text);
  if (letters.length <= longest) return text;
  const head = Math.ceil((longest - 1) / 2);
  return letters.slice(0, head).join("") + "…" + letters.slice(letters.length - (longest - 1 - head)).join("");
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds === 0) return "0 µs";
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(2)} ms` : `${(seconds * 1e6).toFixed(1)} µs`;
}

function bytes(number) {
  if (number < 1024) return `${number} bytes`;
  if (number >= 2 ** 30) return `${(number / 2 ** 30).toFixed(2)} GiB`;
  return number < 2 ** 20 ? `${(number / 1024).toFixed(1)} KiB` : `${(number / 2 ** 20).toFixed(1)} MiB`;
}

function value(of) {
  if (Array.isArray(of)) return of.length ? of.map(value).join(" × ") : "none";
  if (typeof of === "boolean") return of ? "yes" : "no";
  return String(of);
}

function counted(number, what, several = `${what}s`) {
  return `${number} ${number === 1 ? what : several}`;
}

/** Layout and property of a tensor, as far as they are worth a word. */
function manner(tensor) {
  const words = [tensor.layout];
  if (tensor.property_type !== "undef") words.push(tensor.property_type.replace("_", " "));
  return words.join(", ");
}

function percent(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0)}%` : "";
}

function sumOf(things, number) {
  return things.reduce((sum, thing) => sum + (number(thing) ?? 0), 0);
}

/** The least of many numbers, more than a call may have arguments. */
function minimum(numbers, none) {
  return numbers.length ? numbers.reduce((a, b) => Math.min(a, b)) : none;
}

function maximum(numbers, none) {
  return numbers.length ? numbers.reduce((a, b) => Math.max(a, b)) : none;
}
