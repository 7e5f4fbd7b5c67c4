// The overview, the page of a method, addresses and the light or dark theme.
function hero() {
  return el("section", { class: "hero", "aria-label": "In short" },
    el("h1", { tabindex: -1 }, DATA.title),
    DATA.summary ? el("p", { class: "lead" }, DATA.summary) : null,
    DATA.answers ? answers(DATA.answers) : null);
}

// Images with the answers of a method.
function answers({ caption, images }) {
  const shown = images.map(({ source, answer, truth }) => {
    const right = answer === truth;
    return el("figure", { class: right ? "above" : "below" }, picture(source, truth, 44),
      el("figcaption", {}, right ? `✓ ${answer}` : `✗ ${answer}, is ${truth}`));
  });
  return [el("p", { class: "note" }, caption), el("div", { class: "answers" }, shown)];
}

function chosenText(run) {
  const parts = Object.entries(run.hyper_parameters).map(([name, value]) =>
    `${name} = ${value}${Object.hasOwn(run.edges, name) ? " ⚠" : ""}`);
  return parts.join(", ");
}

function runTable(runs) {
  const rows = runs.map((run) => ({
    ...run,
    words: [DATA.methods[run.method].name, SETTINGS[run.setting], DATA.groups[run.group].label, run.failed].join(" ").toLowerCase(),
  }));
  const columns = [
    { label: "Method", key: (run) => DATA.methods[run.method].name, cell: (run) => methodLink(run.method) },
    { label: "Setting", key: (run) => run.setting, cell: (run) => SETTINGS[run.setting] ?? run.setting },
  ];
  if (DATA.groups.length > 1) {
    columns.push({ label: "Data", key: (run) => DATA.groups[run.group].label, cell: (run) => DATA.groups[run.group].label });
  }
  columns.push(
    { label: "Seed", numeric: true, key: (run) => run.seed, cell: (run) => (run.seed === null ? "–" : String(run.seed)) },
    { label: "Tuned and fitted", numeric: true, key: (run) => run.tuning, cell: (run) => seconds(run.tuning) },
    { label: "Measured", numeric: true, key: (run) => run.measuring, cell: (run) => seconds(run.measuring) },
    { label: "Factor", title: "calibration factor", numeric: true, key: (run) => run.factor, cell: (run) => (run.factor === null ? "–" : String(run.factor).replace("-", "−")) },
    {
      label: "Chosen", key: (run) => run.failed || chosenText(run),
      cell: (run) => (run.failed ? el("span", { class: "failed" }, `failed: ${run.failed}`) : el("small", { class: "chosen-values" }, chosenText(run) || "–")),
    },
  );
  return sortable("Runs", columns, rows);
}

// What choosing hyper-parameters on the test images would give, beside honest choices.
function inflationSection() {
  if (!DATA.inflation.length) return null;
  const rows = DATA.inflation.map((row) => ({ ...row, gain: row.test - row.held_out, words: "" }));
  const share = (label, name) => ({
    label, numeric: true, key: (row) => row[name], cell: (row) => barred(row[name], number(row[name])),
  });
  const columns = [
    { label: "Method", key: (row) => row.method, cell: (row) => row.method },
    { label: "Data", key: (row) => row.where, cell: (row) => row.where },
    { label: "Measure", key: (row) => row.metric, cell: (row) => row.metric },
    share("Default", "default"), share("Held-out classes", "held_out"), share("Test classes", "test"),
    { label: "Inflation", numeric: true, key: (row) => row.gain, cell: (row) => signed(row.gain) },
  ];
  return section("inflation", "Test selection",
    note("Numbers of the same runs with default hyper-parameters, with those chosen on held-out seen classes, and with those that are best on the test images. The last are not results; no other table contains them."),
    sortable("Test selection", columns, rows).element);
}

function runSection() {
  const table = runTable(DATA.runs);
  return section("runs", "Runs and times",
    el("div", { class: "controls" }, searchField("Filter runs", (text) => table.filter(text))), table.element);
}

function reproduceSection() {
  const commands = DATA.commands.map((command) => {
    const copy = el("button", {
      type: "button", class: "quiet",
      onclick: () => navigator.clipboard.writeText(command).then(() => announce("Copied."), () => announce("Not copied.")),
    }, "Copy");
    return el("div", { class: "command" }, el("pre", { tabindex: 0, "aria-label": "Command" }, el("code", {}, command)), copy);
  });
  return section("reproduce", "Reproduce",
    note("This command reproduces the records. Finished runs are not repeated."), commands,
    el("h3", {}, "Versions"),
    el("dl", { class: "versions" }, DATA.versions.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("h3", {}, "Splits"),
    el("dl", { class: "versions" }, DATA.groups.map((group) => el("div", {}, el("dt", {}, group.label), el("dd", {}, group.version || "unknown")))));
}

function worst(method) {
  const parts = DATA.by_class.filter((part) => part.method === method);
  return parts.map((part) => {
    const found = part.accuracy.map((accuracy, i) => ({ accuracy, i })).filter((item) => item.accuracy !== null);
    found.sort((a, b) => a.accuracy - b.accuracy);
    const label = `${DATA.groups.length > 1 ? `${DATA.groups[part.group].label}, ` : ""}${SETTINGS[part.setting] ?? part.setting}`;
    return [el("h3", {}, `Hardest classes, ${label}`),
      el("div", { class: "tiles" }, found.slice(0, 12).map((item) => tile(part.group, item.i, item.accuracy)))];
  }).flat();
}

function methodPage(position) {
  const method = DATA.methods[position];
  const runs = DATA.runs.filter((run) => run.method === position);
  const rows = DATA.table.rows.filter((row) => row.method === position);
  const numbers = rows.flatMap((row) => DATA.table.metrics.map((metric, i) => {
    const cell = row.cells[i];
    const where = row.where.join(", ");
    const paper = cell.published === null ? null : el("small", {}, ` ${paperText(cell)}`);
    return cell.mean === null ? null : el("div", { title: metric.meaning },
      el("dt", {}, where ? `${metric.label}, ${where}` : metric.label),
      el("dd", {}, number(cell.mean), cell.deviation === null ? null : el("small", {}, ` ± ${number(cell.deviation)}`), paper));
  }));
  const curves = DATA.groups.flatMap((_, i) => curveRuns(i)).filter((run) => run.method === position);
  if (several(curves.map((run) => run.group))) curves.forEach((run) => { run.label += `, ${DATA.groups[run.group].label}`; });
  const searched = runs.filter((run) => run.landscape !== null);
  return [
    el("p", { class: "crumb" }, el("a", { href: "#results" }, "Results"), " / method"),
    el("h1", { tabindex: -1 }, swatch(method), " ", method.name),
    el("dl", { class: "facts" }, numbers),
    curves.length ? [el("h2", {}, "Seen–unseen curve"),
      curveChart(`Seen–unseen curve of ${method.name}`, curves, curves.map((_, i) => i).slice(0, 8))] : null,
    searched.length ? [el("h2", {}, "Its hyper-parameter searches"), landscapes(searched)] : null,
    el("h2", {}, "Its runs"), runTable(runs).element,
    worst(position).length ? [el("h2", {}, "Its hardest classes"), worst(position)] : null,
  ].flat(3);
}

const OVERVIEW = [hero(), mainTable(), curveSection(), rankSection(), classSection(), searchSection(), inflationSection(), runSection(), reproduceSection()]
  .filter((part) => part !== null);
const NAMES = { results: "Results", curves: "Curves", ranks: "Ranks", classes: "Classes", search: "Search", inflation: "Test selection", runs: "Runs", reproduce: "Reproduce" };
const MAIN = document.getElementById("main");
document.getElementById("nav").append(...OVERVIEW.filter((part) => part.id)
  .map((part) => el("a", { href: `#${part.id}` }, NAMES[part.id])));
let isOverview = false;

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The parts of the page of a method or class; null for other addresses.
function pageOf(address) {
  const [kind, ...rest] = address.split("/");
  if (kind === "method") {
    const position = DATA.methods.findIndex((method) => method.name === decoded(rest.join("/")));
    return position < 0 ? null : { title: DATA.methods[position].name, parts: methodPage(position) };
  }
  if (kind === "class" && /^\d+$/.test(rest[0] ?? "") && Number(rest[0]) < DATA.groups.length) {
    const group = Number(rest[0]);
    const name = decoded(rest.slice(1).join("/"));
    const position = DATA.groups[group].classes.indexOf(name);
    return position < 0 ? null : { title: name, parts: classPage(group, position) };
  }
  return null;
}

function route(first) {
  const address = location.hash.slice(1);
  const page = pageOf(address);
  if (page) {
    isOverview = false;
    MAIN.replaceChildren(el("article", { class: "page" }, page.parts));
    document.title = `${page.title} – ${DATA.title}`;
    window.scrollTo(0, 0);
    MAIN.querySelector("h1").focus({ preventScroll: true });
    return;
  }
  if (!isOverview) MAIN.replaceChildren(...OVERVIEW);
  isOverview = true;
  document.title = DATA.title;
  const target = OVERVIEW.find((part) => part.id && part.id === address);
  if (target) {
    target.scrollIntoView();
    target.querySelector("h2").focus({ preventScroll: true });
  } else if (!first) {
    window.scrollTo(0, 0);
    MAIN.querySelector("h1").focus({ preventScroll: true });
  }
}

const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "zslearn-report-theme";

function stored(value) {
  // Browsers may refuse to store anything for files.
  try {
    if (value !== undefined) localStorage.setItem(THEME_KEY, value);
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function setTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  const button = document.getElementById("theme");
  button.textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${theme}. Change.`);
  button.dataset.theme = theme;
}

document.getElementById("theme").addEventListener("click", (event) => {
  const now = THEMES.indexOf(event.currentTarget.dataset.theme);
  const next = THEMES[(now + 1) % THEMES.length];
  setTheme(next);
  stored(next);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const fields = [...document.querySelectorAll('input[type="search"]')];
  const field = fields.find((box) => box.getBoundingClientRect().bottom > 60) ?? fields[0];
  if (!field) return;
  event.preventDefault();
  field.focus();
});

setTheme(THEMES.includes(stored()) ? stored() : "auto");
window.addEventListener("hashchange", () => route(false));
route(true);
