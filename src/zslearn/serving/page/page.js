"use strict";
/* Text from the model and from people is set as text, never as HTML. */
const $ = (id) => document.getElementById(id);
const state = { about: null, classes: [], pictures: [], token: "", values: [], trial: null, timer: 0 };
const TOP = 5;
const SHOWN_CLASSES = 300;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function say(id, text, bad) {
  $(id).textContent = text;
  $(id).classList.toggle("bad", Boolean(bad));
}

class Refused extends Error {
  constructor(status, reason) { super(reason); this.status = status; }
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (state.token) headers.Authorization = "Bearer " + state.token;
  if (options.json !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(options.json);
  }
  let response;
  for (let tries = 0; ; tries += 1) {
    try {
      response = await fetch(path, { method: options.method || "GET", headers, body: options.body, signal: options.signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "The service does not answer.");
    }
    if (response.status !== 503 || tries === 3) break;
    await new Promise((done) => setTimeout(done, 500 * 2 ** tries));
  }
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  if (response.status === 401) showToken();
  throw new Refused(response.status, content.reason || "The service answered " + response.status + ".");
}

/* Beginning */

function showToken() {
  $("token-part").hidden = false;
  $("main").hidden = true;
  $("token").focus();
}

async function begin() {
  try {
    state.about = await ask("about");
    state.classes = (await ask("classes")).classes;
  } catch (error) {
    $("what").textContent = error.message;
    if (error.status === 401) say("token-message", state.token ? "This is not the token." : "", true);
    if (error.status === 429) say("token-message", error.message, true);
    return;
  }
  const about = state.about;
  $("token-part").hidden = true;
  $("main").hidden = false;
  $("what").textContent = about.model + ", " + about.method.split(".").pop();
  $("drop").hidden = !about.takes_images;
  $("features-only").hidden = about.takes_images;
  $("features-only").textContent = "This model takes feature vectors (" + about.n_features + " numbers each), not pictures: " +
    "it does not say which network made its features. Programs can send vectors to /predict; classes can be described here.";
  $("by-text").hidden = about.described_by !== "text";
  $("by-attributes").hidden = about.described_by !== "attributes";
  $("describe").hidden = about.described_by === "nothing";
  $("describe-note").textContent = {
    nothing: "This model was fitted without descriptions of its classes: none can be added.",
    text: "Nothing is learned again: the model makes the class of what you say of it.",
    attributes: "Nothing is learned again: the model makes the class of its attributes.",
  }[about.described_by];
  makeSliders();
  showClasses();
}

/* Classes */

function kind(entry) {
  if (entry.added) return ["added", "described only, added"];
  return entry.known_by === "seen" ? ["seen", "seen"] : ["described", "described only"];
}

function mark(entry) {
  const [className, text] = kind(entry);
  return make("span", "mark " + className, text);
}

function showClasses() {
  const wanted = $("class-filter").value.trim().toLowerCase();
  const count = (test) => state.classes.filter(test).length;
  const added = count((entry) => entry.added);
  $("classes-count").textContent = count((e) => e.known_by === "seen") + " seen, " +
    (count((e) => e.known_by !== "seen") - added) + " described only, " + added + " added here.";
  const found = state.classes.filter((entry) => entry.name.toLowerCase().includes(wanted));
  found.sort((a, b) => Number(b.added) - Number(a.added));
  const rows = found.slice(0, SHOWN_CLASSES).map((entry) => {
    const row = make("li");
    row.append(make("span", "label", entry.name), mark(entry));
    if (entry.added) {
      const button = make("button", "quiet", "Remove");
      button.type = "button";
      button.setAttribute("aria-label", "Remove " + entry.name);
      button.addEventListener("click", () => removeClass(entry.name));
      row.append(button);
    }
    return row;
  });
  if (found.length > SHOWN_CLASSES) rows.push(make("li", "muted", "and " + (found.length - SHOWN_CLASSES) + " more"));
  if (!found.length) rows.push(make("li", "muted", "No class has this in its name."));
  $("classes").replaceChildren(...rows);
  $("class-names").replaceChildren(...state.classes.map((entry) => {
    const option = make("option");
    option.value = entry.name;
    return option;
  }));
}

async function classesChanged() {
  state.classes = (await ask("classes")).classes;
  showClasses();
  await predictAgain();
}

async function removeClass(name) {
  try {
    await ask("classes/" + encodeURIComponent(name), { method: "DELETE" });
    await classesChanged();
    say("classes-message", "Removed " + name + ".");
    $("classes").focus();
  } catch (error) {
    say("classes-message", error.message, true);
  }
}

/* Describing */

function description() {
  if (state.about.described_by === "text") {
    const text = $("text").value.trim();
    return text ? { text } : null;
  }
  return state.values.some((value) => value !== 0) ? { attributes: state.values } : null;
}

function makeSliders() {
  state.values = state.about.attributes.map(() => 0);
  const rows = state.about.attributes.map((attribute, place) => {
    const low = Math.min(0, attribute.low);
    const high = attribute.high > low ? Math.max(attribute.high, 0) : low + 1;
    const row = make("div", "slider");
    const label = make("label", "", attribute.name);
    const input = make("input");
    const output = make("output");
    input.type = "range";
    input.id = "attribute-" + place;
    label.htmlFor = input.id;
    output.htmlFor = input.id;
    Object.assign(input, { min: low, max: high, step: "any" });
    input.addEventListener("input", () => {
      state.values[place] = Number(input.value);
      output.textContent = shown(state.values[place]);
      tryLater();
    });
    row.append(label, input, output);
    row.dataset.name = attribute.name.toLowerCase();
    return row;
  });
  $("sliders").replaceChildren(...rows);
  $("filter-field").hidden = rows.length < 12;
  setValues(state.values);
}

function shown(value) {
  return String(Number(value.toPrecision(3)));
}

function setValues(values) {
  state.values = values.slice();
  Array.from($("sliders").children).forEach((row, place) => {
    row.querySelector("input").value = values[place];
    row.querySelector("output").textContent = shown(values[place]);
  });
}

function filterSliders() {
  const wanted = $("filter").value.trim().toLowerCase();
  let n = 0;
  for (const row of $("sliders").children) {
    row.hidden = !row.dataset.name.includes(wanted);
    n += row.hidden ? 0 : 1;
  }
  $("shown").textContent = wanted ? n + " of " + $("sliders").children.length : "";
}

async function copyClass() {
  const name = $("like").value;
  if (!state.classes.some((entry) => entry.name === name)) return;
  try {
    const found = await ask("classes/" + encodeURIComponent(name));
    setValues(found.attributes);
    say("describe-message", "");
    tryLater();
  } catch (error) {
    say("describe-message", error.message, true);
  }
}

/* While a class is being described, the pictures say whether it would take them. */

function tryLater() {
  clearTimeout(state.timer);
  state.timer = setTimeout(tryClass, state.about.described_by === "text" ? 500 : 120);
}

async function tryClass() {
  if (state.trial) state.trial.abort();
  const described = description();
  const pictures = state.pictures.filter((picture) => picture.features);
  if (!described || !pictures.length) {
    $("trial").textContent = "";
    showTaken(() => false);
    return;
  }
  const trial = state.trial = new AbortController();
  try {
    const found = await predictFeatures(pictures, 1, described, trial.signal);
    const taken = new Set(pictures.filter((_, place) => found[place].trial));
    showTaken((picture) => taken.has(picture));
    const names = Array.from(taken, (picture) => picture.file.name);
    $("trial").textContent = "It would take " + taken.size + " of " + pictures.length +
      (pictures.length === 1 ? " picture" : " pictures") + (names.length ? ": " + names.slice(0, 6).join(", ") : "") +
      (names.length > 6 ? " and more" : "") + ".";
  } catch (error) {
    if (error.name !== "AbortError") $("trial").textContent = error.message;
  }
}

function showTaken(test) {
  for (const picture of state.pictures) {
    const taken = test(picture);
    picture.card.classList.toggle("taken", taken);
    picture.takes.hidden = !taken;
  }
}

async function addClass(event) {
  event.preventDefault();
  const name = $("name").value.trim();
  const described = description();
  if (!name) {
    say("describe-message", "Give the class a name.", true);
    $("name").focus();
    return;
  }
  if (!described) {
    say("describe-message", state.about.described_by === "text" ? "Say something of the class." : "Every attribute is 0: move a slider, or begin with a copy.", true);
    return;
  }
  $("add").disabled = true;
  const before = new Map(state.pictures.map((picture) => [picture, picture.best]));
  try {
    const added = await ask("classes", { method: "POST", json: { name, ...described } });
    clearTimeout(state.timer);
    if (state.trial) state.trial.abort();
    await classesChanged();
    const took = state.pictures.filter((picture) => picture.best === added.name && before.get(picture) !== added.name).length;
    say("describe-message", "Added " + added.name + "." + (state.pictures.length ? " It took " + took + " of " + state.pictures.length + (state.pictures.length === 1 ? " picture." : " pictures.") : ""));
    $("trial").textContent = "";
    showTaken(() => false);
    $("name").value = "";
    $("text").value = "";
  } catch (error) {
    say("describe-message", error.message, true);
  } finally {
    $("add").disabled = false;
  }
}

/* Pictures */

async function predictFeatures(pictures, top, trial, signal) {
  const found = [];
  for (let start = 0; start < pictures.length; start += state.about.max_batch) {
    const some = pictures.slice(start, start + state.about.max_batch);
    const json = { features: some.map((picture) => picture.features) };
    if (trial) json.trial = trial;
    const answer = await ask("predict?top=" + top, { method: "POST", json, signal });
    for (const prediction of answer.predictions) {
      found.push({ ...prediction, trial: answer.trial !== null && prediction.ranked[0].class === answer.trial });
    }
  }
  return found;
}

async function predictAgain() {
  const pictures = state.pictures.filter((picture) => picture.features);
  if (!pictures.length) return;
  const found = await predictFeatures(pictures, TOP);
  pictures.forEach((picture, place) => showPrediction(picture, found[place]));
}

function addPictures(files) {
  const pictures = Array.from(files, makePicture);
  if (!pictures.length) return;
  state.pictures.push(...pictures);
  $("results").append(...pictures.map((picture) => picture.card));
  $("pictures-bar").hidden = false;
  sendPictures(pictures);
}

async function sendPictures(pictures) {
  const waiting = pictures.slice();
  let done = 0;
  const work = async () => {
    for (let picture = waiting.shift(); picture; picture = waiting.shift()) {
      await sendPicture(picture);
      done += 1;
      say("pictures-message", done < pictures.length ? done + " of " + pictures.length + " looked at" : state.pictures.length + (state.pictures.length === 1 ? " picture" : " pictures"));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  if (description()) tryLater();
}

async function sendPicture(picture) {
  const body = new FormData();
  body.append("images", picture.file, picture.file.name || "picture");
  try {
    const answer = await ask("predict?features=true&top=" + TOP, { method: "POST", body });
    picture.features = answer.predictions[0].features;
    showPrediction(picture, answer.predictions[0]);
  } catch (error) {
    picture.bestLine.textContent = "Not recognised";
    picture.marks.replaceChildren(make("span", "message bad", error.message));
  }
}

function makePicture(file) {
  const card = make("li", "card");
  const top = make("div", "card-top");
  const image = make("img");
  image.alt = "";
  image.src = URL.createObjectURL(file);
  image.addEventListener("error", () => { image.hidden = true; });
  const words = make("div");
  const name = make("p", "file-name", file.name);
  name.title = file.name;
  const bestLine = make("p", "best", "…");
  const marks = make("div", "marks");
  const ranked = make("ol", "ranked");
  const takes = make("p", "takes", "The new class would take it.");
  const why = make("details");
  const summary = make("summary", "", "Why?");
  const reasons = make("div");
  takes.hidden = true;
  why.hidden = true;
  ranked.setAttribute("aria-label", "Best classes of " + file.name);
  words.append(name, bestLine, marks);
  why.append(summary, reasons);
  top.append(image, words);
  card.append(top, ranked, takes, why);
  const picture = { file, card, bestLine, marks, ranked, takes, why, reasons, image, features: null, best: null };
  why.addEventListener("toggle", () => { if (why.open) explain(picture); });
  return picture;
}

function percent(value) {
  return value >= 0.0995 ? (100 * value).toFixed(0) + " %" : (100 * value).toFixed(1) + " %";
}

function showPrediction(picture, found) {
  const best = found.ranked[0];
  picture.best = best.class;
  picture.bestLine.textContent = found.none_of_these ? "None of these" : best.class;
  const marks = found.none_of_these ? [make("span", "mark seen", "nearest: " + best.class)] : [mark(best)];
  if (found.surely && found.surely.depth > 0 && found.surely.node !== best.class) {
    marks.push(make("span", "mark seen", "surely: " + found.surely.node));
  }
  picture.marks.replaceChildren(...marks);
  picture.ranked.replaceChildren(...found.ranked.map((entry) => {
    const row = make("li");
    const value = entry.probability === null ? shown(entry.score) : percent(entry.probability);
    if (entry.probability !== null) {
      const fill = make("span", "fill");
      fill.style.width = 100 * entry.probability + "%";
      row.append(fill);
    }
    const words = make("span", "", entry.class + " ");
    words.append(make("span", "kind", kind(entry)[1]));
    row.append(words, make("span", "value", value));
    return row;
  }));
  picture.why.hidden = false;
  if (picture.why.open) explain(picture);
}

async function explain(picture) {
  if (!picture.features) return;
  picture.reasons.textContent = "Asking …";
  try {
    const answer = await ask("predict?explain=true&top=2", { method: "POST", json: { features: [picture.features] } });
    picture.reasons.replaceChildren(reasonList(answer.predictions[0].explanation));
  } catch (error) {
    picture.reasons.textContent = error.message;
  }
}

function reasonList(why) {
  const list = make("dl", "why");
  const part = (title, texts) => {
    if (!texts.length) return;
    list.append(make("dt", "", title), make("dd", "", texts.join(", ")));
  };
  part(why.predicted.label + " was made from", why.made_from.map((share) => share.label + " " + percent(share.share)));
  if (why.runner_up && state.about.described_by === "attributes") {
    part("Distinguished from " + why.runner_up.label + " by", why.attributes.map((attribute) => attribute.name + " " + shown(attribute.value) + " against " + shown(attribute.runner_up_value)));
  }
  part("Nearest training pictures", why.pictures.map((near) => near.name + " (" + near.label + ")"));
  if (!list.children.length) {
    list.append(make("dt", "", why.predicted.label + " has training pictures"), make("dd", "", why.runner_up ? "The runner-up is " + why.runner_up.label + "." : ""));
  }
  return list;
}

function clearPictures() {
  for (const picture of state.pictures) URL.revokeObjectURL(picture.image.src);
  state.pictures = [];
  $("results").replaceChildren();
  $("pictures-bar").hidden = true;
  $("trial").textContent = "";
  $("files").focus();
}

/* What people do */

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token").value.trim();
  begin();
});
$("files").addEventListener("change", () => {
  addPictures($("files").files);
  $("files").value = "";
});
$("clear").addEventListener("click", clearPictures);
$("describe").addEventListener("submit", addClass);
$("text").addEventListener("input", tryLater);
$("like").addEventListener("input", copyClass);
$("filter").addEventListener("input", filterSliders);
$("class-filter").addEventListener("input", showClasses);
// A picture that misses the frame shall not replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
for (const name of ["dragenter", "dragover"]) $("drop").addEventListener(name, () => $("drop").classList.add("over"));
for (const name of ["dragleave", "drop"]) $("drop").addEventListener(name, () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => addPictures(event.dataTransfer.files));
begin();
