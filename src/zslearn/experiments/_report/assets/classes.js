// Classes: tiles on the overview, and one page per class.
const MILLION = 1e6;
const ORDERS = ["hardest first", "easiest first", "by name"];
const AT_ONCE = NARROW ? 24 : 54;

function byClass(group, setting) {
  return DATA.by_class.filter((part) => part.group === group && part.setting === setting);
}

// Mean accuracy over methods, in millionths; null if no method has one.
function meanAccuracy(parts, position) {
  const found = parts.map((part) => part.accuracy[position]).filter((value) => value !== null);
  return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
}

function tile(group, position, accuracy) {
  const of = DATA.groups[group];
  const name = of.classes[position];
  const images = imagesOf(group, name);
  const share = accuracy === null ? null : accuracy / MILLION;
  return el("a", { class: "tile", href: classAddress(group, position) },
    images.length ? picture(images[0], "", 48) : null,
    el("span", { class: "name" }, name),
    el("span", { class: "kind" }, position < of.n_unseen ? "unseen" : "seen"),
    barred(share, number(share, 2)));
}

function classSection() {
  const parts = DATA.groups.flatMap((group, i) => Object.keys(SETTINGS)
    .filter((setting) => byClass(i, setting).length)
    .map((setting) => ({ group: i, setting, label: `${group.label}, ${SETTINGS[setting]}` })));
  if (!parts.length) return null;
  const state = { part: 0, method: 0, order: 0, filter: "", limit: AT_ONCE };
  const grid = el("div", { class: "tiles" });
  const count = el("p", { class: "small" });
  const more = el("button", { type: "button", class: "quiet" }, "Show more");
  const methodField = el("span", { class: "slot" });

  function methods() {
    const found = byClass(parts[state.part].group, parts[state.part].setting);
    const names = found.map((part) => DATA.methods[part.method].name);
    methodField.replaceChildren(choice("Method", ["mean of all methods", ...names], (i) => {
      state.method = i;
      draw();
    }));
  }

  function draw() {
    const { group, setting } = parts[state.part];
    const all = byClass(group, setting);
    const used = state.method === 0 ? all : [all[state.method - 1]];
    const of = DATA.groups[group];
    let found = of.classes
      .map((name, i) => ({ name, i, accuracy: meanAccuracy(used, i) }))
      .filter((item) => item.accuracy !== null && item.name.toLowerCase().includes(state.filter));
    if (state.order === 2) found.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
    else found.sort((a, b) => (state.order === 0 ? 1 : -1) * (a.accuracy - b.accuracy) || a.i - b.i);
    const total = found.length;
    found = found.slice(0, state.limit);
    grid.replaceChildren(...found.map((item) => tile(group, item.i, item.accuracy)));
    more.hidden = found.length === total;
    const left = of.left_out ? ` ${of.left_out} further classes are only in the records.` : "";
    count.textContent = `${found.length} of ${total} classes.${left}`;
  }

  more.addEventListener("click", () => {
    state.limit += 4 * AT_ONCE;
    draw();
  });
  const controls = el("div", { class: "controls" },
    parts.length > 1 ? choice("Where", parts.map((part) => part.label), (i) => {
      Object.assign(state, { part: i, method: 0, limit: AT_ONCE });
      methods();
      draw();
    }) : null,
    methodField,
    choice("Order", ORDERS, (i) => {
      state.order = i;
      draw();
    }),
    searchField("Filter classes", (text) => {
      state.filter = text;
      draw();
      announce(count.textContent);
    }));
  methods();
  draw();
  return section("classes", "Classes",
    note("Bars show accuracies: among the unseen classes (conventional), or among all classes after calibration (generalized). Select a class to open its page."),
    controls, grid, el("div", { class: "more" }, count, more));
}

function confusion(part, group, position) {
  const other = part.taken_for[position];
  if (other === null) return "–";
  const name = DATA.groups[group].classes[other];
  const images = imagesOf(group, name);
  return el("a", { class: "confused", href: classAddress(group, other) },
    images.length ? picture(images[0], "", 28) : null,
    el("span", {}, name), el("small", {}, ` ${number(part.share[position] / MILLION, 2)}`));
}

function classPage(group, position) {
  const of = DATA.groups[group];
  const name = of.classes[position];
  const images = imagesOf(group, name);
  const settings = Object.keys(SETTINGS).filter((s) => byClass(group, s).some((p) => p.accuracy[position] !== null));
  const tables = settings.map((setting) => {
    const rows = byClass(group, setting).filter((part) => part.accuracy[position] !== null)
      .map((part) => ({ ...part, words: DATA.methods[part.method].name.toLowerCase() }));
    return [el("h2", {}, `${SETTINGS[setting][0].toUpperCase()}${SETTINGS[setting].slice(1)} setting`),
      sortable(`Accuracy on ${name}, ${SETTINGS[setting]}`, [
        { label: "Method", key: (row) => DATA.methods[row.method].name, cell: (row) => methodLink(row.method) },
        {
          label: "Accuracy", numeric: true, key: (row) => row.accuracy[position],
          cell: (row) => barred(row.accuracy[position] / MILLION, number(row.accuracy[position] / MILLION)),
        },
        {
          label: "Most frequent confusion", key: (row) => (row.taken_for[position] === null ? null : of.classes[row.taken_for[position]]),
          cell: (row) => confusion(row, group, position),
        },
      ], rows, 1).element];
  });
  // Classes that a method mistakes for this one.
  const takers = new Map();
  for (const part of DATA.by_class.filter((p) => p.group === group)) {
    part.taken_for.forEach((other, i) => {
      if (other === position) takers.set(i, Math.max(takers.get(i) ?? 0, part.share[i]));
    });
  }
  const near = [...takers].sort((a, b) => b[1] - a[1]).slice(0, 12);
  return [
    el("p", { class: "crumb" }, el("a", { href: "#classes" }, "Classes"), ` / ${of.label}`),
    el("h1", { tabindex: -1 }, name),
    note(position < of.n_unseen ? "An unseen class, without training images." : "A seen class, with training images."),
    images.length ? el("div", { class: "examples" }, images.map((source, i) => picture(source, `Example ${i + 1} of ${name}`, 96))) : null,
    ...tables.flat(),
    near.length ? [el("h2", {}, "Classes mistaken for it"),
      note("The number is the largest share of the images of a class, over methods and settings."),
      el("div", { class: "tiles" }, near.map(([i, share]) => tile(group, i, share)))] : null,
  ].flat();
}
