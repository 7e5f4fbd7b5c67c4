// Searches as heat maps; a mark shows whether the chosen setting lies on an edge of its grid.
const CIVIDIS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

function shade(share) {
  const at = Math.max(0, Math.min(1, share)) * (CIVIDIS.length - 1);
  const i = Math.min(CIVIDIS.length - 2, Math.floor(at));
  return CIVIDIS[i].map((low, k) => Math.round(low + (at - i) * (CIVIDIS[i + 1][k] - low)));
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function paint(cell, share) {
  const rgb = shade(share);
  cell.style.setProperty("background-color", `rgb(${rgb.join(" ")})`);
  cell.style.setProperty("color", luminance(rgb) > 0.179 ? "#000" : "#fff");
}

const FURTHER = { smallest: "smaller", largest: "larger" };

function edgeNotes(run) {
  return Object.entries(run.edges).map(([name, edge]) =>
    el("p", { class: "edge" }, el("span", { "aria-hidden": "true" }, "⚠ "),
      `${name} = ${run.hyper_parameters[name] ?? "?"} is the ${edge} value of its grid: try ${FURTHER[edge]} ones.`));
}

function heatMap(run) {
  const map = run.landscape;
  const values = map.mean.flat().filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const onEdge = (name) => Object.hasOwn(run.edges, name);
  const rows = map.mean.map((row, i) => el("tr", {},
    map.y ? el("th", { scope: "row" }, map.y_values[i]) : null,
    row.map((value, j) => {
      if (value === null) return el("td", { class: "none" }, "–");
      const chosen = map.chosen !== null && map.chosen[0] === i && map.chosen[1] === j;
      const edge = chosen && (onEdge(map.x) || onEdge(map.y));
      const cell = el("td", { class: chosen ? (edge ? "chosen at-edge" : "chosen") : null },
        number(value), chosen ? el("span", { class: "unseen" }, edge ? " chosen, on an edge" : " chosen") : null,
        chosen ? el("span", { "aria-hidden": "true" }, edge ? " ⚠" : " ◆") : null);
      paint(cell, high > low ? (value - low) / (high - low) : 1);
      return cell;
    })));
  // Larger values are at the top, as in a chart.
  rows.reverse();
  const foot = el("tr", {}, map.y ? el("td", {}) : null,
    map.x_values.map((value) => el("th", { scope: "col" }, value)));
  const words = `Mean ${map.score} over the folds: ${map.x} increases to the right${map.y ? `, ${map.y} upwards` : ""}` +
    (map.others.length ? `; the best over ${map.others.join(", ")}` : "");
  const table = el("table", { class: "heat" },
    el("caption", { class: "unseen" }, words), el("tbody", {}, rows), el("tfoot", {}, foot));
  return el("div", {}, note(`${words}.`), scrolling("Search landscape", table), edgeNotes(run));
}

function searchLabel(run) {
  const name = [DATA.methods[run.method].name, SETTINGS[run.setting] ?? run.setting];
  if (DATA.groups.length > 1) name.push(DATA.groups[run.group].label);
  if (several(DATA.runs.map((other) => other.seed)) && run.seed !== null) name.push(`seed ${run.seed}`);
  return name.join(", ") + (Object.keys(run.edges).length ? " ⚠" : "");
}

function landscapes(runs) {
  const place = el("div");
  const draw = (i) => place.replaceChildren(heatMap(runs[i]));
  draw(0);
  return el("div", {}, el("div", { class: "controls" }, choice("Run", runs.map(searchLabel), draw)), place);
}

function searchSection() {
  const runs = DATA.runs.filter((run) => run.landscape !== null);
  if (!runs.length) return null;
  const edges = DATA.runs.filter((run) => Object.keys(run.edges).length).length;
  return section("search", "Hyper-parameter searches",
    note("Scores on held-out classes. ◆ marks the chosen setting, ⚠ one on the edge of its grid. " +
      (edges ? `${edges} of ${DATA.runs.length} runs chose a setting on an edge: values beyond the grid may be better.` : "No run chose a setting on an edge of its grid.")),
    landscapes(runs));
}
