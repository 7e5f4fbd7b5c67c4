// Seen–unseen curves, whose points are read by hovering, touching, or with the arrow keys.
// On a phone, a drawing has fewer units, so that its text remains legible.
const PLOT = NARROW
  ? { width: 360, height: 320, left: 62, right: 10, top: 10, bottom: 48 }
  : { width: 640, height: 440, left: 56, right: 16, top: 14, bottom: 50 };
const VIEWS = ["accuracy on seen classes", "harmonic mean"];

function ticks(top) {
  const step = top > 0.5 ? 0.2 : top > 0.2 ? 0.1 : 0.05;
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
}

function scale(top, from, to) {
  return (value) => from + (value / top) * (to - from);
}

const upTo = (value) => Math.min(1, Math.ceil(value * 20 + 0.2) / 20) || 1;

function diamond(x, y, size) {
  return `M${x} ${y - size}L${x + size} ${y}L${x} ${y + size}L${x - size} ${y}Z`;
}

function axes(x, y, right, top, label) {
  const bottom = PLOT.height - PLOT.bottom;
  const lines = [
    ...ticks(right).map((t) => [
      svg("line", { class: "grid", x1: x(t), x2: x(t), y1: PLOT.top, y2: bottom }),
      svg("text", { class: "tick", x: x(t), y: bottom + 18, "text-anchor": "middle" }, t.toFixed(2)),
    ]),
    ...ticks(top).map((t) => [
      svg("line", { class: "grid", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(t), y2: y(t) }),
      svg("text", { class: "tick", x: PLOT.left - 8, y: y(t) + 4, "text-anchor": "end" }, t.toFixed(2)),
    ]),
  ];
  const middle = (PLOT.top + bottom) / 2;
  return [
    ...lines.flat(),
    svg("text", { class: "axis", x: (PLOT.left + PLOT.width) / 2, y: PLOT.height - 8, "text-anchor": "middle" },
      "accuracy on unseen classes"),
    svg("text", { class: "axis", "text-anchor": "middle", transform: `translate(14 ${middle}) rotate(-90)` }, label),
  ];
}

// The point with the highest harmonic mean, selected first if no factor is recorded.
function highest(curve) {
  const means = curve.unseen.map((u, i) => harmonic(curve.seen[i], u));
  return means.indexOf(Math.max(...means));
}

// One chart of several runs; `shown` are the positions drawn at first.
function curveChart(name, runs, shown) {
  const state = { view: 0, active: shown[0], at: 0, visible: new Set(shown) };
  const drawing = svg("svg", {
    class: "plot", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": name,
  });
  const readout = el("p", { class: "readout" });
  const slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "Point on the curve" });
  let heights, x, y, dot;

  const height = (curve, i) =>
    state.view === 0 ? curve.seen[i] : harmonic(curve.seen[i], curve.unseen[i]);

  function point(curve, i) {
    return [x(curve.unseen[i]), y(height(curve, i))];
  }

  function factorText(curve, i) {
    if (curve.factor.every((f) => f === null)) return "factor not recorded";
    return curve.factor[i] === null ? "factor −∞" : `factor ${String(curve.factor[i]).replace("-", "−")}`;
  }

  function describe() {
    const run = runs[state.active];
    const { curve } = run;
    const i = state.at;
    const h = harmonic(curve.seen[i], curve.unseen[i]);
    const marks = [i === curve.plain ? "no factor" : "", i === curve.calibrated ? "calibrated" : ""];
    const where = marks.filter(Boolean).join(", ");
    return `${factorText(curve, i)}${where ? ` (${where})` : ""}: unseen ${number(curve.unseen[i])}, ` +
      `seen ${number(curve.seen[i])}, harmonic mean ${number(h)}`;
  }

  function read() {
    const run = runs[state.active];
    const [cx, cy] = point(run.curve, state.at);
    dot.setAttribute("transform", `translate(${cx} ${cy})`);
    const words = describe();
    readout.replaceChildren(el("strong", {}, run.label), ` ${words}`);
    slider.max = run.curve.unseen.length - 1;
    slider.value = state.at;
    slider.setAttribute("aria-valuetext", `${run.label}, ${words}`);
    drawing.querySelectorAll("[data-run]").forEach((node) => {
      node.classList.toggle("active", Number(node.dataset.run) === state.active);
    });
    legend.querySelectorAll("button").forEach((button, i) => {
      button.setAttribute("aria-pressed", i === state.active ? "true" : "false");
    });
  }

  function draw() {
    const visible = [...state.visible];
    const right = upTo(Math.max(...visible.map((i) => Math.max(...runs[i].curve.unseen)), 0.05));
    heights = visible.map((i) => Math.max(...runs[i].curve.unseen.map((_, k) => height(runs[i].curve, k))));
    const top = upTo(Math.max(...heights, 0.05));
    x = scale(right, PLOT.left, PLOT.width - PLOT.right);
    y = scale(top, PLOT.height - PLOT.bottom, PLOT.top);
    const lines = visible.map((i) => {
      const { curve, method } = runs[i];
      const { color, line } = DATA.methods[method];
      const path = curve.unseen.map((_, k) => point(curve, k).map((v) => v.toFixed(1)).join(" ")).join("L");
      const marks = [];
      if (curve.plain !== null) {
        const [cx, cy] = point(curve, curve.plain);
        marks.push(svg("circle", { class: "mark", cx, cy, r: 5, fill: color }));
      }
      if (curve.calibrated !== null) {
        const [cx, cy] = point(curve, curve.calibrated);
        marks.push(svg("path", { class: "mark", d: diamond(cx, cy, 7), fill: color }));
      }
      return svg("g", { "data-run": i, class: "curve" },
        svg("path", { class: "line", d: `M${path}`, fill: "none", stroke: color, "stroke-dasharray": DASHES[line] }),
        ...marks);
    });
    dot = svg("g", { class: "dot" }, svg("circle", { r: 11, fill: "none" }));
    drawing.replaceChildren(...axes(x, y, right, top, VIEWS[state.view]), ...lines, dot);
    read();
  }

  function nearest(event) {
    const box = drawing.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * PLOT.width;
    const py = ((event.clientY - box.top) / box.height) * PLOT.height;
    let best = Infinity;
    for (const i of state.visible) {
      runs[i].curve.unseen.forEach((_, k) => {
        const [cx, cy] = point(runs[i].curve, k);
        // Switch to another curve only if it is clearly nearer.
        const distance = Math.hypot(cx - px, cy - py) + (i === state.active ? 0 : 6);
        if (distance < best) {
          best = distance;
          [state.active, state.at] = [i, k];
        }
      });
    }
    read();
  }

  function choose(i) {
    state.active = i;
    const { curve } = runs[i];
    state.at = curve.calibrated ?? curve.plain ?? highest(curve);
    state.visible.add(i);
    legend.querySelectorAll("input")[i].checked = true;
    draw();
  }

  function toggle(i, on) {
    if (on) state.visible.add(i);
    else if (state.visible.size > 1) state.visible.delete(i);
    else legend.querySelectorAll("input")[i].checked = true;
    if (!state.visible.has(state.active)) choose([...state.visible][0]);
    else draw();
  }

  const legend = el("ul", { class: "legend" }, runs.map((run, i) => {
    const box = el("input", {
      type: "checkbox", checked: state.visible.has(i), "aria-label": `Show ${run.label}`,
      onchange: () => toggle(i, box.checked),
    });
    const area = run.ausuc;
    return el("li", {}, box,
      el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => choose(i) },
        swatch(DATA.methods[run.method]), el("span", {}, run.label),
        area === null ? null : el("small", {}, number(area))));
  }));

  drawing.addEventListener("pointermove", nearest);
  drawing.addEventListener("pointerdown", nearest);
  slider.addEventListener("input", () => {
    state.at = Number(slider.value);
    read();
  });
  const first = runs[state.active].curve;
  state.at = first.calibrated ?? first.plain ?? highest(first);
  draw();
  return el("div", { class: "chart" },
    el("div", { class: "figure" }, drawing, slider, readout),
    el("div", { class: "beside" },
      choice("Vertical axis", VIEWS, (i) => {
        state.view = i;
        draw();
      }),
      runs.some((run) => run.curve.plain !== null)
        ? el("p", { class: "small" }, "Circle: factor 0. Diamond: the factor chosen on training data.")
        : null,
      legend, saveButtons("seen-unseen-curves", drawing)));
}

function curveRuns(group) {
  const runs = DATA.runs.filter((run) => run.group === group && run.curve !== null);
  const seeds = several(runs.map((run) => run.seed));
  const found = runs.map((run) => ({
    ...run, label: DATA.methods[run.method].name + (seeds && run.seed !== null ? `, seed ${run.seed}` : ""),
  }));
  return found.sort((a, b) => (b.ausuc ?? 0) - (a.ausuc ?? 0));
}

function curveSection() {
  const groups = DATA.groups.map((_, i) => i).filter((i) => curveRuns(i).length);
  if (!groups.length) return null;
  const place = el("div");
  function draw(i) {
    const runs = curveRuns(groups[i]);
    // At first, the best run of each method, and no more curves than can be distinguished.
    const methods = new Set();
    const shown = runs.map((_, k) => k).filter((k) => {
      const fresh = !methods.has(runs[k].method);
      methods.add(runs[k].method);
      return fresh;
    });
    place.replaceChildren(curveChart(`Seen–unseen accuracy curves on ${DATA.groups[groups[i]].label}`, runs, shown.slice(0, 8)));
  }
  draw(0);
  return section("curves", "Seen–unseen curves",
    note("Hover over a curve, touch it, or move the slider to read the calibration factor at each point. Dashed lines are methods based on EXEM."),
    groups.length > 1 ? el("div", { class: "controls" }, choice("Data", groups.map((i) => DATA.groups[i].label), draw)) : null,
    place);
}
