"use strict";
/* Text from the model and from users is set as text, never as HTML. */
const $ = (id) => document.getElementById(id);
const state = {
  about: null, classes: [], pictures: [], examples: [], token: "", values: [], trial: null, timer: 0,
  round: 0, // of suggestions, of which only the latest is shown
  pending: null, // the picture that is the first example of a new class
  noun: "picture", // what the samples are called; rows of a table are handled like pictures
  answers: [], // predictions of all rows, also of those that are not shown
};
const TOP = 5;
const SHOWN_CLASSES = 300;
const SHOWN_ROWS = 200;
const SHOWN_CELLS = 4;
const SHOWN_THUMBS = 12;
const SUGGESTED = 6;
const THUMBNAIL_PIXELS = 96;
/* Some images of described classes are always assigned to the background, so a smaller share says nothing. */
const SHOWN_BACKGROUND = 0.1;

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

function countOf(n, what) {
  return n + " " + what + (n === 1 ? "" : "s");
}

function button(text, className, action) {
  const made = make("button", className, text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

function thumb(picture) {
  if (!picture.image) return make("span", "row-name", picture.file.name);
  const image = make("img", "thumb");
  image.src = picture.image.src;
  image.alt = image.title = picture.file.name;
  return image;
}

function showThumbs(list, pictures, tag) {
  list.replaceChildren(...pictures.slice(0, SHOWN_THUMBS).map((picture) => {
    const item = make(tag);
    item.append(thumb(picture));
    return item;
  }));
  if (pictures.length > SHOWN_THUMBS) list.append(make(tag, "small", "and " + (pictures.length - SHOWN_THUMBS) + " more"));
}

/* Show how many entries of a list are hidden below. */
function cue(list) {
  const end = list.offsetTop + list.clientHeight + list.scrollTop;
  const below = Array.from(list.children).filter((row) => !row.hidden && row.offsetTop + row.offsetHeight / 2 > end);
  list.parentElement.querySelector(".more").textContent = below.length ? "↓ " + below.length + " more" : "";
}

class Refused extends Error {
  constructor(status, reason) { super(reason); this.status = status; }
}

async function ask(path, options = {}) {
  return (await send(path, options)).json().catch(() => ({}));
}

/* crypto.randomUUID only exists under https and on localhost. */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function send(path, options) {
  const headers = { ...(options.headers || {}) };
  if (state.token) headers.Authorization = "Bearer " + state.token;
  if (options.json !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(options.json);
  }
  // One key for all attempts: a change whose answer came too late is not made twice.
  if (options.method) headers["Idempotency-Key"] = newKey();
  let response;
  for (let tries = 0; ; tries += 1) {
    try {
      response = await fetch(path, { method: options.method || "GET", headers, body: options.body, signal: options.signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "The service is not responding.");
    }
    if (response.status !== 503 || tries === 3) break;
    await new Promise((done) => setTimeout(done, 500 * 2 ** tries));
  }
  if (response.ok) return response;
  const content = await response.json().catch(() => ({}));
  if (response.status === 401) showToken();
  throw new Refused(response.status, content.reason || "The service returned status " + response.status + ".");
}

/* Start */

function showToken() {
  $("token-part").hidden = false;
  $("main").hidden = true;
  $("token").focus();
}

async function begin() {
  try {
    state.about = await ask("about");
    state.classes = (await ask("classes")).classes;
    if (state.about.learns) state.examples = (await ask("examples")).examples;
  } catch (error) {
    $("what").textContent = error.message;
    if (error.status === 401) say("token-message", state.token ? "This token is not valid." : "", true);
    return;
  }
  const about = state.about;
  $("token-part").hidden = true;
  $("main").hidden = false;
  $("what").textContent = about.model + ", " + about.method.split(".").pop();
  $("drop").hidden = !about.takes_images;
  $("table-in").hidden = !about.columns;
  $("features-only").hidden = about.takes_images || Boolean(about.columns);
  if (about.columns) {
    state.noun = "row";
    for (const element of document.querySelectorAll("[data-rows]")) element.textContent = element.dataset.rows;
    makeRowForm();
  }
  $("features-only").textContent = "This model accepts feature vectors (" + about.n_features + " numbers each), not pictures, " +
    "because its file does not name the network that computed its features. Programs can send vectors to /predict; you can still describe classes here.";
  $("by-text").hidden = about.described_by !== "text";
  $("text").placeholder = about.example_text || "";
  $("by-attributes").hidden = about.described_by !== "attributes";
  $("describe").hidden = about.described_by === "nothing";
  $("describe-note").textContent = {
    nothing: "Classes cannot be added: this model was fitted without descriptions of its classes.",
    text: "Adding a class is instant: the model builds it from your description.",
    attributes: "Adding a class is instant: the model builds it from its attributes.",
  }[about.described_by];
  $("empty-words").textContent = "The model recognises " + state.classes.length + " classes, " +
    "and any class you describe, even if it has never seen a " + state.noun + " of it.";
  if (about.learns) $("kept-words").textContent = "Pictures are sent only to this service. It stores the features of those it learns from, but not the pictures.";
  makeSliders();
  showEmpty();
  showSamples();
  showClasses();
  showCorrections();
  showAdapted();
}

/* Training pictures, if the service knows their folder */

async function trainingPicture(name) {
  return (await send("pictures/" + name.split("/").map(encodeURIComponent).join("/"), {})).blob();
}

async function showTraining(image, name) {
  image.alt = image.title = name;
  try {
    image.src = URL.createObjectURL(await trainingPicture(name));
  } catch {
    image.replaceWith(make("span", "", name));
  }
}

function showEmpty() {
  $("empty").hidden = (!state.about.takes_images && !state.about.columns) || state.pictures.length > 0;
  $("learn").hidden = !state.about.adapts;
  $("bar").hidden = !state.pictures.length;
}

function showSamples() {
  $("try-samples").hidden = !state.about.samples.length;
  $("samples").replaceChildren(...state.about.samples.map((name) => {
    const item = make("li");
    const image = make("img");
    item.append(image);
    showTraining(image, name);
    return item;
  }));
}

async function trySamples() {
  const files = await Promise.all(state.about.samples.map(async (name) => {
    return new File([await trainingPicture(name)], name, { type: "image/jpeg" });
  }));
  addPictures(files);
}

/* Classes */

function kind(entry) {
  if (entry.known_by === "seen") return ["seen", "seen"];
  const examples = entry.examples ? ", " + countOf(entry.examples, "example") : "";
  if (entry.added) return ["added", "added here" + examples];
  return ["described", examples ? "described" + examples : "described only"];
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
      const remove = button("Remove", "quiet", () => removeClass(entry.name));
      remove.setAttribute("aria-label", "Remove " + entry.name);
      row.append(remove);
    }
    return row;
  });
  if (found.length > SHOWN_CLASSES) rows.push(make("li", "muted", "and " + (found.length - SHOWN_CLASSES) + " more"));
  if (!found.length) rows.push(make("li", "muted", "No class matches."));
  $("classes").replaceChildren(...rows);
  $("class-names").replaceChildren(...state.classes.map((entry) => {
    const option = make("option");
    option.value = entry.name;
    return option;
  }));
  cue($("classes"));
}

/* Update classes, corrections and predictions after a change of the model. */
async function modelChanged() {
  state.classes = (await ask("classes")).classes;
  if (state.about.learns) state.examples = (await ask("examples")).examples;
  showClasses();
  showCorrections();
  return predictAgain();
}

async function removeClass(name) {
  try {
    await ask("classes/" + encodeURIComponent(name), { method: "DELETE" });
    await modelChanged();
    say("classes-message", "Removed " + name + ".");
    $("classes").focus();
  } catch (error) {
    say("classes-message", error.message, true);
  }
}

/* Describing a class */

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
    const row = make("div", attribute.binary ? "slider check" : "slider");
    const label = make("label", "", attribute.name);
    const input = make("input");
    const output = make("output");
    input.type = attribute.binary ? "checkbox" : "range";
    input.id = "attribute-" + place;
    label.htmlFor = input.id;
    output.htmlFor = input.id;
    if (!attribute.binary) Object.assign(input, { min: low, max: high, step: "any" });
    input.addEventListener("input", () => {
      state.values[place] = Number(attribute.binary ? input.checked : input.value);
      output.textContent = shown(state.values[place]);
      tryLater();
    });
    row.append(label, input);
    if (!attribute.binary) row.append(output);
    row.dataset.name = attribute.name.toLowerCase();
    return row;
  });
  $("sliders").replaceChildren(...rows);
  $("filter-field").hidden = rows.length < 12;
  setValues(state.values);
  cue($("sliders"));
}

function shown(value) {
  return value === null ? "unknown" : String(Number(value.toPrecision(3)));
}

function setValues(values) {
  state.values = values.slice();
  Array.from($("sliders").children).forEach((row, place) => {
    const input = row.querySelector("input");
    if (input.type === "checkbox") {
      input.checked = values[place] === 1;
      input.indeterminate = values[place] !== 1 && values[place] !== 0;
      return;
    }
    input.value = values[place];
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
  cue($("sliders"));
  $("shown").textContent = wanted ? n + " of " + $("sliders").children.length : "";
}

async function copyClass() {
  const name = $("like").value.trim();
  say("like-note", "");
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

function checkLike() {
  const name = $("like").value.trim();
  if (!name || state.classes.some((entry) => entry.name === name)) return;
  const words = name.toLowerCase().split(/\s+/);
  const near = state.classes.filter((entry) => words.some((word) => entry.name.toLowerCase().includes(word))).slice(0, 3);
  say("like-note", "There is no class “" + name + "”. " +
    (near.length ? "Did you mean " + near.map((entry) => "“" + entry.name + "”").join(" or ") + "?" : "Choose one from the list."), true);
}

function checkName() {
  const name = $("name").value.trim();
  const known = state.classes.find((entry) => entry.name.toLowerCase() === name.toLowerCase());
  if (!name || !known) say("name-note", "");
  else if (known.name !== name) say("name-note", "The existing class “" + known.name + "” differs only in capital letters.");
  else say("name-note", "This class already exists. " + (known.added ? "Remove it below or choose another name." : "Choose another name."), true);
}

function sameAs(name) {
  const known = state.classes.find((entry) => entry.name === name);
  return "It has the same description as “" + name + "”" + (known && known.known_by === "seen" ? ", which has training " + state.noun + "s" : "") +
    ", so the model cannot tell them apart.";
}

/* While a class is being described, show which pictures match it. */

function tryLater() {
  clearTimeout(state.timer);
  state.timer = setTimeout(tryClass, state.about.described_by === "text" ? 500 : 120);
}

async function tryClass() {
  if (state.trial) state.trial.abort();
  const described = description();
  const pictures = state.pictures.filter((picture) => picture.features);
  if (!described || !pictures.length) {
    showTrial(null);
    return;
  }
  const trial = state.trial = new AbortController();
  try {
    const found = await predictFeatures(pictures, 1, described, trial.signal);
    const matching = pictures.filter((_, place) => found[place].trial);
    showTrial(matching, "Matches " + matching.length + " of " + countOf(pictures.length, state.noun) + "." +
      (found[0].sameAs ? " " + sameAs(found[0].sameAs) : ""));
    $("bar-words").textContent = "Matches " + matching.length + " of " + pictures.length;
  } catch (error) {
    if (error.name !== "AbortError") showTrial([], error.message);
  }
}

function showTrial(matching, words) {
  $("trial").hidden = !matching;
  $("bar").classList.toggle("matches", Boolean(matching));
  $("trial-words").textContent = words || "";
  $("bar-words").textContent = $("pictures-title").textContent;
  showThumbs($("trial-thumbs"), matching || [], "li");
  showThumbs($("bar-thumbs"), matching || [], "span");
  showMatching((picture) => Boolean(matching) && matching.includes(picture));
}

function showMatching(test) {
  for (const picture of state.pictures) {
    const matching = test(picture);
    picture.card.classList.toggle("matching", matching);
    picture.matches.hidden = !matching;
  }
}

async function addClass(event) {
  event.preventDefault();
  const name = $("name").value.trim();
  const described = description();
  if (!name) {
    say("describe-message", "Enter a name for the class.", true);
    $("name").focus();
    return;
  }
  if (!described) {
    say("describe-message", state.about.described_by === "text" ? "Describe the class in a few words." : "All attributes are 0. Set some, or start from an existing class.", true);
    return;
  }
  $("add").disabled = true;
  const before = new Map(state.pictures.map((picture) => [picture, picture.best]));
  try {
    const added = await ask("classes", { method: "POST", json: { name, ...described } });
    clearTimeout(state.timer);
    if (state.trial) state.trial.abort();
    const pending = state.pending;
    describeFor(null);
    if (pending) await label(pending, added.name);
    await modelChanged();
    const pictures = state.pictures.filter((picture) => picture.features);
    const matches = pictures.filter((picture) => picture.best === added.name && before.get(picture) !== added.name).length;
    say("describe-message", "Added " + added.name + "." +
      (pictures.length ? " Matches " + matches + " of " + countOf(pictures.length, state.noun) + "." : "") +
      (added.same_as ? " " + sameAs(added.same_as) : ""));
    showTrial(null);
    $("name").value = "";
    checkName();
    $("text").value = "";
  } catch (error) {
    say("describe-message", error.message, true);
  } finally {
    $("add").disabled = false;
  }
}

/* Corrections */

function describeFor(picture) {
  state.pending = picture;
  $("for-picture").hidden = !picture;
  if (!picture) return;
  $("for-picture-image").hidden = !picture.image;
  if (picture.image) $("for-picture-image").src = picture.image.src;
  if (state.about.described_by === "attributes") {
    $("like").value = picture.best;
    copyClass();
  }
  $("describe-part").scrollIntoView({ block: "nearest" });
  $("name").focus();
}

/* Thumbnails of corrected pictures stay in this browser, since the service does not store pictures. */
const THUMBNAILS = "zslearn thumbnail ";

function keepThumbnail(picture) {
  const { image } = picture;
  if (!image || !image.naturalWidth) return;
  const scale = THUMBNAIL_PIXELS / Math.max(image.naturalWidth, image.naturalHeight);
  const canvas = make("canvas");
  canvas.width = Math.max(1, Math.round(scale * image.naturalWidth));
  canvas.height = Math.max(1, Math.round(scale * image.naturalHeight));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  try {
    localStorage.setItem(THUMBNAILS + picture.example.id, canvas.toDataURL("image/jpeg", 0.8));
  } catch { /* Storage is full or disabled: the file name is shown instead. */ }
}

function keptThumbnail(example) {
  try {
    return localStorage.getItem(THUMBNAILS + example.id);
  } catch {
    return null;
  }
}

function forgetThumbnails() {
  try {
    const kept = new Set(state.examples.map((example) => THUMBNAILS + example.id));
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(THUMBNAILS) && !kept.has(key)) localStorage.removeItem(key);
    }
  } catch { /* Storage is disabled. */ }
}

/* Teach the model the class of a picture, in place of an earlier correction. */
async function label(picture, name) {
  if (picture.example) await ask("examples/" + picture.example.id, { method: "DELETE" });
  picture.example = null;
  const json = { ...samples([picture]), images: [picture.file.name] };
  const kept = await ask("examples?class=" + encodeURIComponent(name), { method: "POST", json });
  picture.example = kept.examples[0];
  keepThumbnail(picture);
}

async function correct(picture, name) {
  if (picture.busy) return;
  picture.busy = true;
  try {
    await label(picture, name);
    const changed = await modelChanged();
    sayLearned("Learned that it is “" + picture.example.class + "”.", changed, picture);
  } catch (error) {
    // The change may have been made although its answer came too late; show it, so that it can be undone.
    if (error.status === 503) await modelChanged().catch(() => {});
    say("corrected-message", error.message, true);
  } finally {
    picture.busy = false;
  }
}

async function undo(example) {
  try {
    await ask("examples/" + example.id, { method: "DELETE" });
    for (const picture of state.pictures) {
      if (picture.example && picture.example.id === example.id) picture.example = null;
    }
    sayLearned("Correction undone.", await modelChanged());
  } catch (error) {
    say("corrected-message", error.message, true);
  }
}

function sayLearned(words, changed, picture) {
  const others = changed.filter((other) => other !== picture).length;
  say("corrected-message", words + (state.pictures.length > 1 ? " " + countOf(others || "No", "other " + state.noun) + " changed." : ""));
}

function exampleThumb(example, picture) {
  const kept = picture && picture.image ? picture.image.src : keptThumbnail(example);
  if (!kept) return make("span", "muted small", example.image);
  const image = make("img", "thumb");
  image.src = kept;
  image.alt = image.title = example.image;
  return image;
}

function showCorrections() {
  forgetThumbnails();
  $("corrections-part").hidden = !state.examples.length;
  $("corrections-title").textContent = countOf(state.examples.length, "correction");
  $("corrections").replaceChildren(...state.examples.map((example) => {
    const picture = state.pictures.find((shown) => shown.example && shown.example.id === example.id);
    const row = make("li");
    const back = button("Undo", "quiet", () => undo(example));
    back.setAttribute("aria-label", "Undo " + example.class + " for " + example.image);
    row.append(exampleThumb(example, picture), make("span", "label", example.class), back);
    return row;
  }));
  for (const picture of state.pictures) {
    // The class of a correction may have been removed.
    if (picture.example && !state.examples.some((example) => example.id === picture.example.id)) picture.example = null;
    showCorrection(picture);
  }
}

/* Show a correction above the prediction of the model. */
function showCorrection(picture) {
  const example = picture.example;
  picture.corrected.hidden = !example;
  picture.bestLine.textContent = example ? example.class : picture.answer || picture.bestLine.textContent;
  if (example) picture.corrected.replaceChildren(make("span", "", "Your correction" + (example.class === picture.best ? "" : "; the model still predicts " + picture.best)), button("Undo", "quiet", () => undo(example)));
}

/* Adapting to unlabelled pictures */

/* The samples of a request: feature vectors, or rows of a table */
function samples(pictures) {
  if (state.about.columns) return { rows: pictures.map((picture) => picture.features) };
  return { features: pictures.map((picture) => picture.features.map((value) => Number(value.toPrecision(9)))) };
}

async function adapt(preview) {
  const pictures = state.pictures.filter((picture) => picture.features).slice(0, state.about.max_unlabelled);
  if (!pictures.length) return;
  $("learned").hidden = false;
  $("learned-words").textContent = "Checking " + countOf(pictures.length, state.noun) + " …";
  for (const id of ["accept", "dismiss", "forget"]) $(id).hidden = true;
  try {
    const found = await ask("adapt?preview=" + preview, { method: "POST", json: samples(pictures) });
    const changed = pictures.flatMap((picture, place) => (found.answers[place].before === found.answers[place].after ? [] : [[picture, found.answers[place]]]));
    if (!preview) {
      await modelChanged();
      await showAdapted();
      return;
    }
    const rates = (found.score_after === null ? "" : " On held-out classes, the score goes from " + percent(found.score_before) + " to " + percent(found.score_after) + ".") +
      (found.background_share >= SHOWN_BACKGROUND ? " " + percent(found.background_share) + " of the " + state.noun + "s fit no class." : "");
    $("learned-words").textContent = found.reason || (changed.length || "None") + " of " + countOf(pictures.length, state.noun) + " would change class." + rates;
    $("learned-changes").replaceChildren(...changed.map(([picture, answer]) => {
      const row = make("li");
      row.append(thumb(picture), make("span", "", answer.before + " → " + answer.after));
      return row;
    }));
    $("accept").hidden = !found.accepted;
    $("dismiss").hidden = false;
    $("learned").scrollIntoView({ block: "nearest" });
    $(found.accepted ? "accept" : "dismiss").focus({ preventScroll: true });
  } catch (error) {
    $("learned-words").textContent = error.message;
    $("learned-changes").replaceChildren();
    $("dismiss").hidden = false;
  }
}

async function showAdapted() {
  const n = state.about.adapts ? (await ask("adapt")).n_images : 0;
  $("learned").hidden = !n;
  $("learned-words").textContent = n ? "The model has adapted to " + countOf(n, "unlabelled " + state.noun) + "." : "";
  $("learned-changes").replaceChildren();
  for (const id of ["accept", "dismiss"]) $(id).hidden = true;
  $("forget").hidden = !n;
}

async function undoAdaptation() {
  try {
    await ask("adapt", { method: "DELETE" });
    await showAdapted();
    await modelChanged();
  } catch (error) {
    $("learned-words").textContent = error.message;
  }
}

/* What to label next */

function lookAt(picture) {
  picture.card.scrollIntoView({ block: "center" });
  picture.ranked.querySelector("button").focus({ preventScroll: true });
}

async function suggestNext() {
  if (!state.about.learns) return;
  const pictures = state.pictures.filter((picture) => picture.features && !picture.example).slice(0, state.about.max_unlabelled);
  const round = state.round += 1;
  let found = { suggestions: [], classes: [] };
  try {
    if (pictures.length > 1) found = await ask("suggest?n=" + SUGGESTED, { method: "POST", json: samples(pictures) });
  } catch { /* Suggestions are an offer: without them, all else still works. */ }
  if (round !== state.round) return;
  $("next-part").hidden = !found.suggestions.length;
  $("next").replaceChildren(...found.suggestions.map((one) => {
    const picture = pictures[one.sample];
    const item = make("li");
    const choice = button("", "", () => lookAt(picture));
    choice.setAttribute("aria-label", "Label " + picture.file.name + ", predicted " + one.class);
    choice.append(thumb(picture), make("span", "", one.class + " " + percent(one.probability)));
    item.append(choice);
    return item;
  }));
  const vague = found.classes.filter((entry) => entry.same_attributes !== null);
  $("next-words").textContent = vague.length ? "A better description would help " + vague.slice(0, SUGGESTED).map((entry) =>
    "“" + entry.class + "” (same as “" + entry.same_attributes + "”)").join(", ") + "." : "";
}

/* Pictures */

async function predictFeatures(pictures, top, trial, signal) {
  const found = [];
  for (let start = 0; start < pictures.length; start += state.about.max_batch) {
    const some = pictures.slice(start, start + state.about.max_batch);
    const json = samples(some);
    if (trial) json.trial = trial;
    const answer = await ask("predict?top=" + top, { method: "POST", json, signal });
    for (const prediction of answer.predictions) {
      found.push({ ...prediction, trial: answer.trial !== null && prediction.ranked[0].class === answer.trial, sameAs: answer.same_as });
    }
  }
  return found;
}

async function predictAgain() {
  const pictures = state.pictures.filter((picture) => picture.features);
  if (!pictures.length) return [];
  const before = pictures.map((picture) => picture.best);
  const found = await predictFeatures(pictures, TOP);
  pictures.forEach((picture, place) => showPrediction(picture, found[place]));
  pictures.forEach((picture, place) => {
    picture.was.textContent = picture.best === before[place] ? "" : "was: " + before[place];
  });
  suggestNext();
  return pictures.filter((picture, place) => picture.best !== before[place]);
}

function addPictures(files) {
  const pictures = Array.from(files, makePicture);
  if (!pictures.length) return;
  state.pictures.push(...pictures);
  $("results").append(...pictures.map((picture) => picture.card));
  $("pictures-bar").hidden = false;
  showEmpty();
  sendPictures(pictures);
}

async function sendPictures(pictures) {
  const waiting = pictures.slice();
  let done = 0;
  const work = async () => {
    for (let picture = waiting.shift(); picture; picture = waiting.shift()) {
      await sendPicture(picture);
      done += 1;
      say("pictures-message", done < pictures.length ? done + " of " + pictures.length + " done" : countOf(state.pictures.length, "picture"));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  suggestNext();
  if (description()) tryLater();
}

async function sendPicture(picture) {
  const body = new FormData();
  body.append("images", picture.file, picture.file.name || "picture");
  try {
    const answer = await ask("predict/images?features=true&top=" + TOP, { method: "POST", body });
    picture.features = answer.predictions[0].features;
    showPrediction(picture, answer.predictions[0]);
  } catch (error) {
    showUnreadable(picture, error);
  }
}

/* Rows of a table */

function makeRowForm() {
  $("row-fields").replaceChildren(...state.about.columns.map((column, place) => {
    const label = make("label", "field", column.name);
    const choices = { "yes/no": ["", "yes", "no"], category: ["", ...column.levels] }[column.kind];
    const input = make(choices ? "select" : "input");
    input.id = "column-" + place;
    if (choices) input.append(...choices.map((choice) => new Option(choice, choice)));
    else input.type = column.kind;
    if (column.kind === "number") {
      input.step = "any";
      input.placeholder = "e.g. " + shown(column.typical);
    }
    label.append(input);
    return label;
  }));
}

function filledRow() {
  return Object.fromEntries(state.about.columns.map((column, place) => {
    const { value } = $("column-" + place);
    return [column.name, value === "" ? null : column.kind === "number" ? Number(value) : value];
  }));
}

async function predictRow(event) {
  event.preventDefault();
  const json = { rows: [filledRow()] };
  await addRows(() => ask("predict?features=true&top=" + TOP, { method: "POST", json }), (place) => "row " + (state.answers.length + place + 1));
}

async function predictTable(file) {
  const body = new FormData();
  body.append("table", file, file.name);
  await addRows(() => ask("predict/table?features=true&top=" + TOP, { method: "POST", body }));
}

async function addRows(request, nameOf) {
  say("table-message", "Predicting …");
  let answers;
  try {
    answers = (await request()).predictions;
  } catch (error) {
    say("table-message", error.message, true);
    return;
  }
  say("table-message", "");
  if (nameOf) answers.forEach((answer, place) => { answer.image = nameOf(place); });
  state.answers.push(...answers);
  const added = answers.slice(0, Math.max(0, SHOWN_ROWS - state.pictures.length)).map((answer) => {
    const picture = makePicture({ name: /^\d+$/.test(answer.image) ? "row " + answer.image : answer.image });
    picture.features = answer.row;
    showCells(picture);
    return picture;
  });
  state.pictures.push(...added);
  $("results").append(...added.map((picture) => picture.card));
  added.forEach((picture, place) => showPrediction(picture, answers[place]));
  $("pictures-bar").hidden = false;
  $("download").hidden = false;
  say("pictures-message", countOf(state.answers.length, "row"));
  $("results-more").hidden = state.answers.length <= state.pictures.length;
  $("results-more").textContent = (state.answers.length - state.pictures.length) + " more rows are not shown here; download the predictions to see all.";
  showEmpty();
  suggestNext();
  if (description()) tryLater();
}

function showCells(picture) {
  const cells = state.about.columns.filter((column) => picture.features[column.name] !== null);
  const text = cells.slice(0, SHOWN_CELLS).map((column) => column.name + " " + picture.features[column.name]);
  picture.fileName.after(make("p", "was", text.join(", ") + (cells.length > SHOWN_CELLS ? ", …" : "")));
}

function csvCell(value) {
  const text = String(value ?? "");
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

async function download() {
  // Rows are predicted again, since the model may have changed.
  const pictures = state.answers.map((answer) => ({ features: answer.row }));
  const answers = await predictFeatures(pictures, 2);
  const lines = [["row", "class", "known by", "probability", "runner-up"]];
  answers.forEach((answer, place) => {
    const [best, second] = answer.ranked;
    lines.push([state.answers[place].image, answer.none_of_these ? "none of these" : best.class, best.known_by, best.probability, second ? second.class : ""]);
  });
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "predictions.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

/* Reasons of the service for unreadable files, with a title and a text */
const UNREADABLE = [
  ["not an image", "Not a picture", "Supported formats are JPEG, PNG, GIF, WebP, TIFF and BMP."],
  ["the file is empty", "Empty file", "This file is empty."],
  ["truncated", "Damaged file", "Part of this picture is missing."],
  ["pixels are more than", "Too large", "This picture has more pixels than the service accepts."],
  ["longer than", "Too large", "This file is larger than the service accepts."],
];

function showUnreadable(picture, error) {
  const [, title, words] = UNREADABLE.find(([part]) => error.message.includes(part)) ||
    ["", error.status === 422 ? "Cannot be read" : "Not recognised", error.message.replace(/^images\[0\] .* cannot be read: /, "")];
  picture.image.hidden = true;
  picture.card.classList.add("bad");
  picture.bestLine.textContent = title;
  picture.marks.replaceChildren(make("span", "", words));
}

function makePicture(file) {
  const card = make("li", "card");
  const top = make("div", "card-top");
  const image = file instanceof File ? make("img") : null;
  if (image) {
    image.alt = image.title = file.name;
    image.src = URL.createObjectURL(file);
    image.addEventListener("error", () => { image.hidden = true; });
    top.append(image);
  } else {
    card.classList.add("of-row");
  }
  const words = make("div");
  const fileName = make("p", "file-name", file.name);
  const bestLine = make("p", "best", "…");
  const marks = make("div", "marks");
  const was = make("p", "was");
  const ranked = make("ol", "ranked");
  const corrected = make("p", "corrected");
  const wrong = make("div", "correct");
  const matches = make("p", "matches", "Matches the new class");
  const why = make("details");
  const summary = make("summary", "", "Why?");
  const reasons = make("div");
  corrected.hidden = true;
  wrong.hidden = true;
  matches.hidden = true;
  why.hidden = true;
  ranked.setAttribute("aria-label", "Most likely classes of " + file.name);
  words.append(fileName, bestLine, marks, was);
  why.append(summary, reasons);
  top.append(words);
  card.append(top, ranked, corrected, wrong, matches, why);
  const picture = { file, card, fileName, bestLine, marks, was, ranked, corrected, wrong, matches, why, reasons, image, features: null, best: null, answer: "", example: null, busy: false };
  const other = make("input");
  other.type = "text";
  other.placeholder = "another class";
  other.setAttribute("aria-label", "Correct class of " + file.name);
  other.setAttribute("list", "class-names");
  other.addEventListener("change", () => {
    if (other.value.trim()) correct(picture, other.value.trim());
    other.value = "";
  });
  wrong.append(make("p", "", "Wrong? Click the correct class or enter it:"), other);
  if (state.about.described_by !== "nothing") wrong.append(button("New class", "quiet", () => describeFor(picture)));
  why.addEventListener("toggle", () => { if (why.open) explain(picture); });
  return picture;
}

function percent(value) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  return value >= 0.0995 ? (100 * value).toFixed(0) + " %" : (100 * value).toFixed(1) + " %";
}

function showPrediction(picture, found) {
  const best = found.ranked[0];
  picture.best = best.class;
  picture.answer = found.none_of_these ? "None of these" : best.class;
  showCorrection(picture);
  const marks = found.none_of_these ? [make("span", "mark seen", "nearest: " + best.class)] : [mark(best)];
  if (found.surely && found.surely.depth > 0 && found.surely.node !== best.class) {
    marks.push(make("span", "mark seen", "confident: " + found.surely.node));
  }
  picture.marks.replaceChildren(...marks);
  picture.ranked.replaceChildren(...found.ranked.map((entry) => {
    const item = make("li");
    const row = state.about.learns ? button("", "", () => correct(picture, entry.class)) : make("div");
    if (state.about.learns) row.title = "Correct to " + entry.class;
    item.append(row);
    const value = entry.probability === null ? shown(entry.score) : percent(entry.probability);
    if (entry.probability !== null) {
      const fill = make("span", "fill");
      fill.style.width = 100 * entry.probability + "%";
      row.append(fill);
    }
    const words = make("span", "", entry.class + " ");
    words.append(make("span", "kind", kind(entry)[1]));
    row.append(words, make("span", "value", value));
    return item;
  }));
  picture.wrong.hidden = !state.about.learns;
  picture.why.hidden = false;
  if (picture.why.open) explain(picture);
}

async function explain(picture) {
  if (!picture.features) return;
  picture.reasons.textContent = "Loading …";
  try {
    const answer = await ask("predict?explain=true&top=2", { method: "POST", json: samples([picture]) });
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
  part(why.predicted.label + " is built from", why.built_from.map((share) => share.label + " " + percent(share.share)));
  if (why.runner_up && state.about.described_by === "attributes") {
    part("Differs from " + why.runner_up.label + " in", why.attributes.map((attribute) => attribute.name + ": " + shown(attribute.value) + " instead of " + shown(attribute.runner_up_value)));
  }
  if (state.about.shows_pictures && why.pictures.length) {
    const near = make("ul", "near");
    near.append(...why.pictures.map((picture) => {
      const item = make("li");
      const image = make("img", "thumb");
      const label = make("span");
      for (const part of picture.label.split(/(?<=[_ ./-])/)) label.append(part, make("wbr"));
      item.append(image, label);
      showTraining(image, picture.name);
      return item;
    }));
    const shown = make("dd");
    shown.append(near);
    list.append(make("dt", "", "Nearest training pictures"), shown);
  } else {
    part("Nearest training " + state.noun + "s", why.pictures.map((near) => near.label + " (" + near.name + ")"));
  }
  if (!list.children.length) {
    list.append(make("dt", "", why.predicted.label + " has training " + state.noun + "s"), make("dd", "", why.runner_up ? "The runner-up is " + why.runner_up.label + "." : ""));
  }
  return list;
}

function clearPictures() {
  for (const picture of state.pictures) if (picture.image) URL.revokeObjectURL(picture.image.src);
  state.pictures = [];
  state.answers = [];
  for (const id of ["download", "results-more"]) $(id).hidden = true;
  $("results").replaceChildren();
  $("pictures-bar").hidden = true;
  say("corrected-message", "");
  describeFor(null);
  showTrial(null);
  showEmpty();
  showCorrections();
  showAdapted();
  suggestNext();
  $(state.about.columns ? "table-file" : "files").focus();
}

/* Events */

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
$("like").addEventListener("change", checkLike);
$("name").addEventListener("input", checkName);
$("for-nothing").addEventListener("click", () => describeFor(null));
$("try-samples").addEventListener("click", trySamples);
$("learn").addEventListener("click", () => adapt(true));
$("accept").addEventListener("click", () => adapt(false));
$("dismiss").addEventListener("click", showAdapted);
$("forget").addEventListener("click", undoAdaptation);
for (const id of ["sliders", "classes"]) $(id).addEventListener("scroll", () => cue($(id)));
window.addEventListener("resize", () => ["sliders", "classes"].forEach((id) => cue($(id))));
$("filter").addEventListener("input", filterSliders);
$("class-filter").addEventListener("input", showClasses);
// A picture dropped outside the frame must not replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
for (const name of ["dragenter", "dragover"]) $("drop").addEventListener(name, () => $("drop").classList.add("over"));
for (const name of ["dragleave", "drop"]) $("drop").addEventListener(name, () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => addPictures(event.dataTransfer.files));
$("table-file").addEventListener("change", () => {
  if ($("table-file").files.length) predictTable($("table-file").files[0]);
  $("table-file").value = "";
});
$("predict-paste").addEventListener("click", () => predictTable(new File([$("paste").value], "pasted.csv")));
$("row-form").addEventListener("submit", predictRow);
$("download").addEventListener("click", () => download().catch((error) => say("table-message", error.message, true)));
for (const name of ["dragenter", "dragover"]) $("drop-table").addEventListener(name, () => $("drop-table").classList.add("over"));
for (const name of ["dragleave", "drop"]) $("drop-table").addEventListener(name, () => $("drop-table").classList.remove("over"));
$("drop-table").addEventListener("drop", (event) => { if (event.dataTransfer.files.length) predictTable(event.dataTransfer.files[0]); });
begin();
