const given = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);
const EVERY = 2000; // milliseconds between looks
const MOST = 600; // micro-batches kept
const live = { samples: [], told: null, paused: false, byMost: false };

const whole = (value) => Math.round(value).toLocaleString("en");
const bytes = (value) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return [value.toLocaleString("en", { maximumFractionDigits: value < 10 && at ? 1 : 0 }), units[at]];
};
const seconds = (value) => (value >= 7200 ? [(value / 3600).toFixed(1), "h"] : value >= 180 ? [(value / 60).toFixed(1), "min"] : [value.toFixed(value < 10 ? 1 : 0), "s"]);
const moment = (text) => (text ? text.replace("T", " ").replace(/\.\d+/, "").replace("+00:00", " UTC") : "none yet");
const share = (value) => `${Math.round((100 * value) / Math.max(live.told.units.reduce((sum, unit) => sum + unit.seconds, 0), 1e-9))} %`;
const clock = (at) => new Date(at * 1000).toLocaleTimeString();

// Name, the number of a micro-batch (null: not known), how to write it, and whether it calls for a look.
const CHARTS = [
  { name: "Events per second", of: (sample) => sample.rows_per_second, write: (value) => [whole(value), "/s"] },
  { name: "Time of a micro-batch", of: (sample) => sample.batch_ms / 1000, write: seconds },
  { name: "Watermark behind the newest event", of: (sample) => sample.lag, write: seconds },
  { name: "Rows waiting for the watermark", of: (sample) => sample.waiting, write: (value) => [whole(value), "rows"] },
  { name: "Late rows in a micro-batch", of: (sample) => sample.late, write: (value) => [whole(value), "rows"], warn: (value) => value > 0 },
  { name: "State in the store", of: (sample) => sample.state_bytes, write: bytes },
];

// A line over time in a box of 300 by 60; nothing is drawn where nothing is known.
function spark(values, tall = 60, wide = 300) {
  const known = values.filter((value) => value !== null);
  const most = Math.max(...known, 1e-9);
  const x = (at) => (values.length < 2 ? wide : (at / (values.length - 1)) * wide);
  const y = (value) => tall - 2 - (value / most) * (tall - 6);
  const points = values.map((value, at) => (value === null ? null : [x(at), y(value)])).filter(Boolean);
  const svg = make("svg", { viewBox: `0 0 ${wide} ${tall}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(make("line", { class: "base", x1: 0, x2: wide, y1: tall - 1.5, y2: tall - 1.5 }));
  if (points.length === 1) points.unshift([points[0][0] - 4, points[0][1]]);
  if (points.length) {
    const line = points.map((point) => point.map((place) => place.toFixed(1)).join(",")).join(" ");
    svg.append(make("polygon", { class: "area", points: `${points[0][0].toFixed(1)},${tall} ${line} ${points.at(-1)[0].toFixed(1)},${tall}` }));
    svg.append(make("polyline", { class: "line", points: line }));
  }
  return svg;
}

const cards = CHARTS.map((chart) => {
  const card = { box: make("section", { class: "panel chart" }), now: make("p", { class: "now" }), draw: make("div"), range: make("p", { class: "range" }), flag: make("span", { class: "flag", hidden: true }, " · needs a look") };
  card.box.append(make("h2", {}, chart.name, card.flag), card.now, card.draw, card.range);
  part("charts").append(card.box);
  card.draw.addEventListener("pointermove", (event) => {
    const room = card.draw.getBoundingClientRect();
    const at = Math.round(((event.clientX - room.left) / room.width) * (live.samples.length - 1));
    point(card, chart, Math.min(Math.max(at, 0), live.samples.length - 1));
  });
  card.draw.addEventListener("pointerleave", () => showChart(card, chart));
  return card;
});

function showChart(card, chart) {
  const values = live.samples.map(chart.of);
  const known = values.filter((value) => value !== null);
  const last = known.length ? known.at(-1) : null;
  card.draw.replaceChildren(spark(values));
  const [number, unit] = last === null ? ["–", ""] : chart.write(last);
  card.now.replaceChildren(number, " ", make("small", {}, unit));
  const warned = Boolean(chart.warn && last !== null && chart.warn(last));
  card.box.classList.toggle("warned", warned);
  card.flag.hidden = !warned;
  const most = known.length ? chart.write(Math.max(...known)).join(" ") : "–";
  card.range.replaceChildren(make("span", {}, live.samples.length ? `since ${clock(live.samples[0].at)}` : "nothing yet"), make("span", {}, `highest ${most}`));
}

function point(card, chart, at) {
  const sample = live.samples[at];
  if (!sample) return;
  const value = chart.of(sample);
  const x = live.samples.length < 2 ? 300 : (at / (live.samples.length - 1)) * 300;
  const svg = card.draw.firstChild;
  svg.querySelector(".point")?.remove();
  svg.append(make("line", { class: "point", x1: x, x2: x, y1: 0, y2: 60 }));
  card.range.replaceChildren(make("span", {}, `batch ${sample.number}, ${clock(sample.at)}`), make("span", {}, value === null ? "not known" : chart.write(value).join(" ")));
}

const rows = new Map();
function showResults() {
  const told = live.told;
  const body = part("results").tBodies[0];
  for (const name of Object.keys(told.results)) {
    if (rows.has(name)) continue;
    const number = () => make("td", { class: "number" });
    const row = { line: make("tr"), total: number(), last: number(), draw: make("td"), time: number(), state: number(), others: make("td") };
    row.line.append(make("th", { scope: "row" }, name), row.total, row.last, row.draw, row.time, row.state, row.others);
    rows.set(name, row);
  }
  const names = Object.keys(told.results);
  const units = new Map(told.units.map((unit) => [unit.unit, unit]));
  if (live.byMost) names.sort((one, other) => told.results[other] - told.results[one]);
  const wanted = part("search").value.trim().toLowerCase();
  const shown = names.filter((name) => name.toLowerCase().includes(wanted));
  for (const name of shown) {
    const row = rows.get(name);
    const given = live.samples.map((sample) => sample.results[name] || 0);
    row.total.textContent = whole(told.results[name]);
    row.last.textContent = given.length ? whole(given.at(-1)) : "–";
    row.draw.replaceChildren(spark(given.slice(-120), 22, 220));
    // What a query costs is what its unit does: it shares that with the other queries there.
    const place = told.places[name], unit = place && units.get(place.unit);
    row.time.textContent = unit ? share(unit.seconds) : "–";
    row.state.textContent = unit ? bytes(unit.state_bytes).join(" ") : "–";
    row.others.textContent = place && place.queries > 1 ? plural(place.queries - 1, "query") : "";
    row.line.classList.toggle("gone", !told.queries.includes(name));
    row.line.firstChild.textContent = told.queries.includes(name) ? name : `${name} (no longer runs)`;
  }
  const order = shown.map((name) => rows.get(name).line);
  if (order.length !== body.children.length || order.some((line, at) => body.children[at] !== line)) body.replaceChildren(...order);
}

function showRest() {
  const told = live.told;
  const changes = [...told.changes].reverse();
  part("changes").replaceChildren(...changes.map((change) => make("li", {}, make("time", { datetime: new Date(change.at * 1000).toISOString() }, new Date(change.at * 1000).toLocaleString()), change.words)));
  const facts = [["micro-batches", whole(told.batches)], ["rows", whole(told.rows)], ["late rows", whole(told.late)], ["rows set aside", whole(told.set_aside)],
    ["counts beyond 64 bits", whole(told.overflows)], ["newest event", moment(told.newest)], ["watermark", moment(told.watermark)],
    ["results", whole(Object.values(told.results).reduce((sum, value) => sum + value, 0))]];
  part("units").tBodies[0].replaceChildren(...told.units.map((unit) => make("tr", {}, make("th", { scope: "row" }, unit.unit.replace(/[/+]/g, "$&\u200b")),
    ...[unit.seconds.toFixed(2), share(unit.seconds), bytes(unit.state_bytes).join(" ")].map((text) => make("td", { class: "number" }, text)))));
  part("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function showStatus(words, lost) {
  // What is read aloud changes only when it matters.
  part("subtitle").classList.toggle("lost", lost);
  if (part("subtitle").textContent !== words) part("subtitle").textContent = words;
}

function show() {
  CHARTS.forEach((chart, at) => showChart(cards[at], chart));
  showResults();
  showRest();
}

async function look() {
  if (!live.paused) {
    const last = live.samples.length ? live.samples.at(-1).number : 0;
    try {
      const answer = await fetch(`status.json?since=${last}`);
      if (!answer.ok) throw new Error(String(answer.status));
      const told = await answer.json();
      if (live.told && told.batches < live.told.batches) live.samples = []; // another stream answers here now
      live.samples.push(...told.samples);
      live.samples.splice(0, Math.max(0, live.samples.length - MOST));
      live.told = told;
      show();
      showStatus(`${plural(told.queries.length, "query")} running`, false);
    } catch {
      showStatus(live.told ? "The stream does not answer: it has ended or is out of reach. What you see is the last that was known." : "The stream does not answer.", true);
    }
  }
  setTimeout(look, EVERY);
}

part("title").textContent = `The stream of ${given.title}`;
part("plan").hidden = !given.plan;
themeButton(part("theme"));
part("pause").addEventListener("click", () => {
  live.paused = !live.paused;
  part("pause").setAttribute("aria-pressed", String(live.paused));
  showStatus(live.paused ? "Paused" : "Going on", false);
});
part("order").addEventListener("click", () => {
  live.byMost = !live.byMost;
  part("order").setAttribute("aria-pressed", String(live.byMost));
  if (live.told) showResults();
});
part("search").addEventListener("input", () => { if (live.told) showResults(); });
look().then(() => { document.documentElement.dataset.ready = "yes"; });
