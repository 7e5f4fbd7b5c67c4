// Mean ranks: a row per method, with bars at the right that join methods that do not differ.
function rankChart(ranks) {
  const [width, left, letters] = NARROW ? [340, 132, 15] : [580, 206, 25];
  const [right, top, step] = [26 + 14 * ranks.not_different.length, 34, 28];
  const n = ranks.methods.length;
  const height = top + step * n + 26;
  const most = Math.max(n, 2);
  const x = (rank) => left + ((rank - 1) / (most - 1)) * (width - left - right - 40);
  const y = (i) => top + step * (i + 0.5);
  const labels = ranks.methods.map((m) => DATA.methods[m]);
  const words = labels.map((method, i) => `${method.name} ${ranks.mean_ranks[i].toFixed(2)}`).join("; ");
  const every = Math.max(1, Math.ceil(most / 12));
  const places = Array.from({ length: most }, (_, i) => i + 1).filter((p) => (p - 1) % every === 0);
  const parts = places.flatMap((p) => [
    svg("line", { class: "grid", x1: x(p), x2: x(p), y1: top, y2: top + step * n }),
    svg("text", { class: "tick", x: x(p), y: top - 8, "text-anchor": "middle" }, String(p)),
  ]);
  labels.forEach((method, i) => {
    const name = method.name.length > letters ? `${method.name.slice(0, letters - 1)}…` : method.name;
    parts.push(
      svg("line", { x1: left, x2: x(ranks.mean_ranks[i]), y1: y(i), y2: y(i), stroke: method.color, "stroke-width": 3, "stroke-dasharray": DASHES[method.line] }),
      svg("circle", { cx: x(ranks.mean_ranks[i]), cy: y(i), r: 6, fill: method.color }),
      svg("text", { class: "label", x: left - 10, y: y(i) + 4, "text-anchor": "end" }, name),
      svg("text", { class: "tick", x: x(ranks.mean_ranks[i]) + 11, y: y(i) + 4 }, ranks.mean_ranks[i].toFixed(2)),
    );
  });
  ranks.not_different.forEach(([first, last], k) => {
    const at = width - 12 - 14 * k;
    parts.push(svg("line", { class: "range", x1: at, x2: at, y1: y(first) - 7, y2: y(last) + 7 }));
  });
  if (ranks.critical_difference !== null) {
    const long = Math.min(ranks.critical_difference, most - 1);
    const at = top + step * n + 14;
    parts.push(
      svg("line", { class: "range", x1: x(1), x2: x(1 + long), y1: at, y2: at }),
      svg("text", { class: "tick", x: left - 10, y: at + 4, "text-anchor": "end" },
        `${NARROW ? "crit. diff." : "critical difference"} ${ranks.critical_difference.toFixed(2)}`),
    );
  }
  return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Mean ranks by ${ranks.title}: ${words}` }, parts);
}

function rankSection() {
  if (!DATA.ranks.length) return null;
  const cards = DATA.ranks.map((ranks) => {
    const drawing = rankChart(ranks);
    const tested = ranks.pvalue === null ? null
      : note(`Friedman test of equal ranks: χ² = ${number(ranks.statistic, 2)}, p ${ranks.pvalue < 0.001 ? "< 0.001" : `= ${number(ranks.pvalue)}`}. ` +
          "Bars at the right join methods whose mean ranks differ by less than the critical difference (Nemenyi, 5 %).");
    return el("div", { class: "card" }, el("h3", {}, ranks.title), drawing, tested,
      ranks.note ? note(ranks.note) : null, saveButtons("ranks", drawing));
  });
  return section("ranks", "Ranks", note("Mean ranks of the methods; rank 1 is the best."), el("div", { class: "cards" }, cards));
}
