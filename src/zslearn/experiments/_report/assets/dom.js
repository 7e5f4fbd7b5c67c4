// Shared by all parts: the data, elements with text instead of markup, and formatted numbers.
const DATA = JSON.parse(document.getElementById("data").textContent);
const NARROW = window.innerWidth < 760;
const SVG = "http://www.w3.org/2000/svg";
const DASHES = { solid: null, dashed: "7 4", dotted: "2 3" };
const SETTINGS = { zsl: "conventional", gzsl: "generalized" };

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  // Strings become text nodes, so that they cannot contain markup.
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const number = (value, digits = 3) =>
  value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
const signed = (value, digits = 3) => (value > 0 ? "+" : "") + number(value, digits);
const seconds = (value) =>
  value === null ? "–" : value < 120 ? `${value.toFixed(1)} s` : `${(value / 60).toFixed(1)} min`;
const several = (values) => new Set(values).size > 1;
const harmonic = (a, b) => (a + b > 0 ? (2 * a * b) / (a + b) : 0);

// Long names of files and features break after an underscore, not within a word.
const breakable = (text) => text.split(/(?<=_)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));

function announce(text) {
  document.getElementById("live").textContent = text;
}

// A share as a bar behind its number.
function barred(share, ...children) {
  const cell = el("span", { class: "bar" }, ...children);
  if (share !== null) cell.style.setProperty("--share", `${Math.max(0, Math.min(1, share)) * 100}%`);
  return cell;
}

function swatch(method) {
  return svg(
    "svg",
    { class: "swatch", viewBox: "0 0 28 8", "aria-hidden": "true" },
    svg("line", {
      x1: 1, x2: 27, y1: 4, y2: 4, stroke: method.color, "stroke-width": 3.5,
      "stroke-dasharray": DASHES[method.line],
    }),
  );
}

const methodAddress = (position) => `#method/${encodeURIComponent(DATA.methods[position].name)}`;
const classAddress = (group, position) =>
  `#class/${group}/${encodeURIComponent(DATA.groups[group].classes[position])}`;

function methodLink(position) {
  const method = DATA.methods[position];
  return el("a", { class: "method", href: methodAddress(position) }, swatch(method), method.name);
}

function imagesOf(group, name) {
  // Own properties only: a class may be called "constructor".
  const pictures = DATA.images;
  const dataset = DATA.groups[group].dataset;
  if (!Object.hasOwn(pictures, dataset) || !Object.hasOwn(pictures[dataset], name)) return [];
  return pictures[dataset][name];
}

function picture(source, label, side) {
  return el("img", { src: source, alt: label, width: side, height: side, decoding: "async" });
}

function choice(label, options, onchange, selected = 0) {
  const box = el(
    "select",
    { onchange: () => onchange(Number(box.value)) },
    options.map((option, i) => el("option", { value: i, selected: i === selected }, option)),
  );
  return el("label", { class: "field" }, el("span", {}, label), box);
}

function searchField(label, oninput) {
  const box = el("input", { type: "search", autocomplete: "off", placeholder: "type, or press /" });
  box.addEventListener("input", () => oninput(box.value.trim().toLowerCase()));
  return el("label", { class: "field" }, el("span", {}, label), box);
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title`, tabindex: -1 }, title), ...children);
}

// A list of names with their values.
const facts = (pairs) =>
  el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
const note = (...children) => el("p", { class: "note" }, ...children);
const scrolling = (label, child) =>
  el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);

function download(name, address) {
  el("a", { href: address, download: name }).click();
}

// Save a drawing as a file: a copy with its colours and fonts, since styles do not apply to files.
const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity",
  "font-size", "font-weight", "text-anchor", "dominant-baseline"];

function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [drawing, ...drawing.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of STYLED) copies[i].setAttribute(name, style.getPropertyValue(name));
  });
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const background = getComputedStyle(document.body).backgroundColor;
  copy.prepend(svg("rect", { width, height, fill: background }));
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("font-family", "sans-serif");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return new XMLSerializer().serializeToString(copy);
}

function saveButtons(name, drawing) {
  const address = () => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(drawing))}`;
  const savePNG = () => {
    const image = new Image();
    image.onload = () => {
      const canvas = el("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      download(`${name}.png`, canvas.toDataURL("image/png"));
    };
    image.src = address();
  };
  return el("p", { class: "save" }, "Save as ",
    el("button", { type: "button", class: "quiet", onclick: () => download(`${name}.svg`, address()) }, "SVG"),
    el("button", { type: "button", class: "quiet", onclick: savePNG }, "PNG"));
}
