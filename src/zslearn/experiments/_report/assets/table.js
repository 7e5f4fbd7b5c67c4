// Tables that are sorted by their column heads, with pointer or keyboard.

// columns: { label, title, key: row → number or text or null, cell: row → node, numeric }
function sortable(caption, all, rows, sorted = null) {
  // A column without a value in any row is not shown.
  const columns = all.filter((column, i) => i === 0 || rows.some((row) => (column.key(row) ?? "") !== ""));
  const state = { column: sorted === null ? null : columns.indexOf(all[sorted]), down: true, filter: "" };
  const body = el("tbody");
  const heads = columns.map((column, i) =>
    el("th", { scope: "col", class: column.numeric ? "numeric" : null },
      el("button", { type: "button", title: column.title, onclick: () => sortBy(i) },
        column.label, el("span", { class: "arrow", "aria-hidden": "true" }))));
  const table = el("table", {}, el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, heads)), body);

  function sortBy(i) {
    state.down = state.column === i ? !state.down : Boolean(columns[i].numeric);
    state.column = i;
    draw();
    announce(`Sorted by ${columns[i].label}, ${state.down ? "largest" : "smallest"} first.`);
  }

  function compare(a, b) {
    const x = columns[state.column].key(a);
    const y = columns[state.column].key(b);
    // Missing values come last in both orders.
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
    return state.down ? -order : order;
  }

  function draw() {
    heads.forEach((head, i) => {
      const order = state.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", state.column === i ? order : "none");
    });
    let shown = rows.filter((row) => row.words.includes(state.filter));
    if (state.column in columns) shown = [...shown].sort(compare);
    body.replaceChildren(...shown.map((row) =>
      el("tr", {}, columns.map((column, i) =>
        el(i === 0 ? "th" : "td",
          { scope: i === 0 ? "row" : null, class: column.numeric ? "numeric" : null },
          column.cell(row))))));
    if (!shown.length) {
      body.append(el("tr", {}, el("td", { colspan: columns.length }, "Nothing matches the filter.")));
    }
    return shown.length;
  }

  draw();
  return {
    element: scrolling(caption, table),
    filter(text) {
      state.filter = text;
      const n = draw();
      announce(`${n} of ${rows.length} rows.`);
    },
  };
}

// The published number, with the difference if features and split are the same.
function paperText(cell) {
  const beside = [cell.features, cell.difference === null ? "" : signed(cell.difference)].filter(Boolean).join(", ");
  return `paper ${number(cell.published)}${beside ? ` (${beside})` : ""}`;
}

function numberCell(cell, top, published) {
  if (cell.mean === null) return "–";
  const deviation = cell.deviation === null ? null : el("small", {}, ` ± ${number(cell.deviation)}`);
  // An empty mark keeps its place, so that numbers are aligned.
  const mark = el("span", { class: "sign" }, cell.not_different ? el("abbr", { title: "does not differ from the best" }, "≈") : null);
  const value = el(cell.best ? "strong" : "span", {}, number(cell.mean));
  const bar = barred(top > 0 ? cell.mean / top : null, value, deviation, mark);
  if (!published || cell.published === null) return bar;
  const side = cell.difference === null ? null : cell.difference < 0 ? "below" : "above";
  return [bar, el("small", { class: "paper" }, el("span", { class: side }, paperText(cell)))];
}

function mainColumns(table, published) {
  const columns = [{
    label: "Method", key: (row) => DATA.methods[row.method].name, cell: (row) => methodLink(row.method),
  }];
  table.where.forEach((name, i) => columns.push({
    label: name, key: (row) => row.where[i], cell: (row) => breakable(row.where[i]),
  }));
  table.metrics.forEach((metric, i) => {
    const top = Math.max(...table.rows.map((row) => row.cells[i].mean ?? 0));
    columns.push({
      label: metric.label, title: metric.meaning, numeric: true,
      key: (row) => row.cells[i].mean, cell: (row) => numberCell(row.cells[i], top, published),
    });
  });
  return columns;
}

function mainTable() {
  const table = DATA.table;
  const rows = table.rows.map((row) => ({
    ...row, words: [DATA.methods[row.method].name, ...row.where].join(" ").toLowerCase(),
  }));
  const anyPublished = table.metrics.some((metric) => metric.published);
  const place = el("div");
  let drawn;
  let filter = "";
  function draw(published) {
    const columns = mainColumns(table, published);
    drawn = sortable("Main results", columns, rows, 1 + table.where.length);
    drawn.filter(filter);
    place.replaceChildren(drawn.element);
  }
  const controls = el("div", { class: "controls" }, searchField("Filter rows", (text) => {
    filter = text;
    drawn.filter(text);
  }));
  if (anyPublished) {
    const box = el("input", { type: "checkbox", checked: true, onchange: () => draw(box.checked) });
    const anyDifference = table.rows.some((row) => row.cells.some((cell) => cell.difference !== null));
    controls.append(el("label", { class: "check" }, box, `Published numbers${anyDifference ? " and differences" : ""}`));
  }
  draw(anyPublished);
  const meanings = table.metrics.map((m) => [el("dt", {}, m.label), el("dd", {}, m.meaning)]);
  return section("results", "Results", controls, place,
    el("details", {}, el("summary", {}, "Columns"), el("dl", { class: "meanings" }, meanings)),
    ...table.notes.map((text) => (text.length < 300 ? note(text)
      : el("details", {}, el("summary", {}, `${text.slice(0, 60)}…`), note(text)))),
    el("details", {}, el("summary", {}, "Settings of the runs"), facts(DATA.facts.map(([name, value]) => [name, breakable(value)]))));
}
