const data = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);
const state = { query: null, node: null, set: null, graph: 0, view: {}, scale: {} };
let drawn = null; // what is on show: the view, and the elements of its nodes and edges

const graph = () => data.graphs[state.graph];
const viewName = () => state.view[state.graph] || Object.keys(graph().views)[0];
const view = () => graph().views[viewName()];
const whoShares = (queries) =>
  queries.length > 1 ? `shared by ${queries.length} queries` : queries.length ? `only ${data.queries[queries[0]].name}` : "";

// Head

function showHead() {
  part("title").textContent = `The plan of ${data.title}`;
  part("subtitle").textContent = `${plural(data.queries.length, "query")}, planned by ${data.optimizer}`;
  for (const tile of data.tiles) {
    part("tiles").append(make("div", { class: "tile" }, make("dt", {}, tile.name), make("dd", {}, tile.value),
      tile.note ? make("dd", { class: "small" }, tile.note) : null));
  }
  themeButton(part("theme"));
}

// Queries

// A name that may be broken after its underscores.
const breakable = (name) => name.split(/(?<=_)/).flatMap((word, at) => (at ? [make("wbr"), word] : [word]));

const rows = [];
function showList() {
  const list = part("list");
  const places = new Map();
  data.queries.forEach((query, at) => {
    if (!places.has(query.place)) places.set(query.place, []);
    places.get(query.place).push(at);
  });
  // Units of one query would make as many headings as queries.
  const alone = [...places].filter(([, queries]) => queries.length === 1).flatMap(([, queries]) => queries);
  const groups = [...places].filter(([, queries]) => queries.length > 1);
  if (alone.length) groups.push([groups.length ? "units of their own" : "", alone]);
  for (const [place, queries] of groups) {
    const ways = new Set(queries.map((at) => data.queries[at].way));
    const heading = place && ways.size === 1 && data.queries[queries[0]].way ? `${place} · ${data.queries[queries[0]].way}` : place;
    const rowsHere = queries.map((at) => {
      const query = data.queries[at];
      const results = query.results !== undefined ? plural(query.results, "result") : ways.size > 1 || !place ? query.way : "";
      const button = make("button", { type: "button", tabindex: -1, "aria-pressed": "false", title: query.name,
        onclick: () => chooseQuery(state.query === at ? null : at) },
        make("span", { class: "name" }, ...breakable(query.name)), make("span", { class: "mark", hidden: true }, "shares"), make("span", { class: "way" }, results));
      rows[at] = { button, item: make("li", {}, button), words: `${query.name}\n${query.text}\n${query.words}`.toLowerCase() };
      return rows[at].item;
    });
    list.append(make("section", {}, heading ? make("h3", {}, `${heading} (${queries.length})`) : null, make("ul", {}, ...rowsHere)));
  }
  const settle = roving(list, "button");
  const filter = () => {
    const wanted = part("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of rows) {
      const shown = wanted.every((word) => row.words.includes(word));
      row.item.hidden = !shown;
      found += shown;
    }
    for (const section of list.children) section.hidden = ![...section.querySelectorAll("li")].some((item) => !item.hidden);
    part("found").textContent = wanted.length ? `${found} of ${plural(rows.length, "query")}` : plural(rows.length, "query");
    settle();
    markFound();
  };
  part("search").addEventListener("input", filter);
  part("search").addEventListener("keydown", (event) => {
    const first = rows.find((row) => !row.item.hidden);
    if ((event.key === "ArrowDown" || event.key === "Enter") && first) {
      event.preventDefault();
      const top = [...list.querySelectorAll("li")].find((item) => !item.hidden).firstChild;
      if (event.key === "Enter") top.click(); else top.focus();
    }
  });
  filter();
}

// Marks the nodes whose text has all the words that are searched for, and brings the first into sight.
function markFound() {
  if (!drawn) return;
  const wanted = part("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = drawn.shown.nodes.flatMap((node, at) => {
    const words = [node.label, node.note, ...(node.names || [])].join("\n").toLowerCase();
    return wanted.length && wanted.every((word) => words.includes(word)) ? [at] : [];
  });
  drawn.nodes.forEach((element, at) => element.classList.toggle("found", found.includes(at)));
  if (wanted.length) part("found").textContent = part("found").textContent.replace(/,.*|$/, found.length ? `, ${plural(found.length, "node")} here` : "");
  reveal(found.slice(0, 1));
}

// Graphs

function showTabs() {
  const tabs = part("tabs");
  data.graphs.forEach((each, at) => {
    tabs.append(make("button", { type: "button", role: "tab", id: `tab-${at}`, "aria-controls": "graph", tabindex: -1,
      onclick: () => { state.graph = at; state.node = null; state.set = null; showGraph(); light(); showDetails(); } }, each.title));
  });
  roving(tabs, "button", ["ArrowLeft", "ArrowRight"]);
  tabs.hidden = data.graphs.length < 2;
}

function showGraph() {
  const here = graph();
  [...part("tabs").children].forEach((tab, at) => {
    tab.setAttribute("aria-selected", String(at === state.graph));
    tab.tabIndex = at === state.graph ? 0 : -1;
  });
  part("graph").setAttribute("aria-labelledby", `tab-${state.graph}`);
  part("words").textContent = here.words;
  const names = Object.keys(here.views);
  part("views").replaceChildren(...(names.length < 2 && viewName() === "all" ? [] : names.map((name) =>
    make("button", { type: "button", "aria-pressed": String(name === viewName()),
      onclick: () => { state.view[state.graph] = name; state.node = null; showGraph(); light(); showDetails(); } },
    name === "summary" ? "Summary" : `All ${here.size.toLocaleString("en")} nodes`))));
  const weak = view().edges.filter((edge) => edge.weak).length;
  part("legend").textContent = LEGENDS[here.kind] || "";
  part("hidden-edges").textContent = weak ? `${plural(weak, here.kind === "candidates" ? "conflict" : "arrow")} ${weak > 1 ? "are" : "is"} drawn only with a query or node that is chosen.` : "";
  drawn = draw(view(), here);
  part("graph").replaceChildren(drawn.svg);
  if (!state.scale[`${state.graph}/${viewName()}`]) fit(READABLE);
  else zoom(scale());
  markFound();
}

const LEGENDS = {
  template: "A box is a place where totals are kept, named by the event that leads to it; ×n: n queries share it. Double frame: matches end. Thick arrow: a step that is computed once for several queries. Dashed frame: several nodes as one.",
  joins: "From events on the left to matches on the right. ×n: n queries read it. Double frame: a query's matches are read here. Dashed frame: several nodes as one.",
  gloria: "A box is a state of the template, ◆ one whose events make snapshots. An arrow with a label S1, S2, … is computed once for the queries of that Q-set, listed below; one without is nobody's to share.",
  candidates: "Each box is a run of symbols that several queries have in common; a dashed line joins two that cannot both be shared. Double frame: shared.",
};

function draw(shown, here) {
  const svg = make("svg", { viewBox: `0 0 ${shown.width} ${shown.height}`, role: "group", "aria-label": `${here.title}: ${plural(shown.nodes.length, "node")}` },
    make("defs", {}, make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
      make("path", { d: "M0,0.6 L7.4,4 L0,7.4 z", class: "arrow" }))));
  for (const lane of shown.lanes) svg.append(make("text", { class: "lane", x: lane.x || 12, y: lane.y + 12 }, lane.words));
  const edges = shown.edges.map((edge) => {
    const names = ["edge", "moves", edge.kind];
    if (edge.queries.length > 1) names.push("shared");
    if (edge.tone !== undefined) names.push(`tone-${edge.tone}`);
    if (edge.weak) names.push("weak");
    const arrow = edge.kind === "conflict" ? {} : { "marker-end": "url(#arrow)" };
    const group = make("g", { class: names.join(" ") }, make("path", { d: edge.path, class: "line moves", ...arrow }), make("path", { d: edge.path, class: "reach" }),
      edge.mark ? make("text", { x: edge.at[0], y: edge.at[1] + 4, "text-anchor": "middle", ...exactly(edge.mark[1]) }, edge.mark[0]) : null);
    const ends = `${shown.nodes[edge.source].label} ${edge.kind === "conflict" ? "against" : "to"} ${shown.nodes[edge.target].label}`;
    withTip(group, () => [ends, ...facts(edge), whoShares(edge.queries)]);
    svg.append(group);
    return group;
  });
  const nodes = shown.nodes.map((node, at) => {
    const sharing = node.queries.length > 1 && node.kind !== "start";
    const kind = node.kind === "shared" ? "kind-shared end" : node.kind.replace(" ", "-");
    const group = make("g", { class: `node moves ${kind}${sharing ? " shared" : ""}`, tabindex: -1, role: "button", "data-at": at, "aria-pressed": "false",
      transform: `translate(${node.x},${node.y})`, "aria-label": [node.label, WORDS[node.kind] || node.kind, node.note, whoShares(node.queries)].filter(Boolean).join(", ") },
      make("rect", { class: "ring", x: -5, y: -5, width: node.w + 10, height: node.h + 10, rx: 11 }),
      make("rect", { class: "body moves", width: node.w, height: node.h, rx: node.kind === "leaf" || node.kind === "start" ? node.h / 2 : 7 }),
      node.kind === "end" || node.kind === "shared" ? make("rect", { class: "inner", x: 3, y: 3, width: node.w - 6, height: node.h - 6, rx: 5 }) : null,
      ...written(node),
      sharing ? badge(node) : null);
    group.addEventListener("click", () => chooseNode(at));
    withTip(group, () => [node.label + (node.note ? `: ${node.note}` : ""), ...facts(node), whoShares(node.queries)]);
    svg.append(group);
    return group;
  });
  if (nodes.length) nodes[0].setAttribute("tabindex", "0");
  svg.addEventListener("keydown", walk);
  svg.addEventListener("focusin", (event) => {
    const focused = event.target.closest(".node");
    if (focused) for (const node of nodes) node.setAttribute("tabindex", node === focused ? "0" : "-1");
  });
  return { svg, nodes, edges, shown };
}

const WORDS = { state: "totals are kept here", end: "matches end here", start: "start", leaf: "events", group: "several nodes", snapshot: "snapshots are taken here" };

// Text is as wide as its box was made for, whatever the font.
const exactly = (width) => ({ textLength: width, lengthAdjust: "spacingAndGlyphs" });
function written(node) {
  const lines = [...node.lines.map((line) => ["", 15, line]), ...(node.notes || []).map((line) => ["note", 13.5, line])];
  let y = 3.5;
  return lines.map(([name, step, [words, width]]) => make("text", { class: name || null, x: 11, y: (y += step), ...exactly(width) }, words));
}

function badge(node) {
  const words = `×${node.queries.length}`;
  const width = 8 + words.length * 6.8;
  return make("g", { class: "badge", transform: `translate(${node.w - width + 8},-8)` },
    make("rect", { width, height: 15, rx: 7.5 }), make("text", { x: width / 2, y: 11, "text-anchor": "middle" }, words));
}

const facts = (of) => (of.facts || []).map(([name, value]) => `${name}: ${short(value, 160)}`);

// Arrow keys go to the nearest node on that side.
function walk(event) {
  const focused = event.target.closest(".node");
  if (!focused) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    chooseNode(Number(focused.dataset.at));
    return;
  }
  const aims = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const aim = aims[event.key];
  if (!aim) return;
  event.preventDefault();
  const from = drawn.shown.nodes[Number(focused.dataset.at)];
  let best = null, least = Infinity;
  drawn.shown.nodes.forEach((node, at) => {
    const dx = node.x + node.w / 2 - from.x - from.w / 2, dy = node.y + node.h / 2 - from.y - from.h / 2;
    const along = dx * aim[0] + dy * aim[1], aside = Math.abs(dx * aim[1] + dy * aim[0]);
    if (along > 1 && along + 2.5 * aside < least) { least = along + 2.5 * aside; best = at; }
  });
  if (best !== null) { drawn.nodes[best].focus({ preventScroll: true }); reveal([best]); }
}

// Zoom

const scale = () => state.scale[`${state.graph}/${viewName()}`];

// What is in the middle stays there.
function zoom(wanted) {
  const kept = Math.min(Math.max(wanted, 0.2), 2.5);
  const box = part("graph"), grows = kept / (scale() || kept);
  const [x, y] = [(box.scrollLeft + box.clientWidth / 2) * grows, (box.scrollTop + box.clientHeight / 2) * grows];
  state.scale[`${state.graph}/${viewName()}`] = kept;
  drawn.svg.setAttribute("width", drawn.shown.width * kept);
  drawn.svg.setAttribute("height", drawn.shown.height * kept);
  if (grows !== 1) box.scrollTo(x - box.clientWidth / 2, y - box.clientHeight / 2);
  const beyond = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
  part("hidden-part").textContent = beyond ? "The graph goes on beyond this frame: drag it, or press Fit to see all of it." : "";
}

const READABLE = 0.82; // of the size of letters: so small they are as a page is opened

// All of it in its frame, where letters are then not smaller than asked for.
function fit(least = 0) {
  const box = part("graph"), tallest = parseFloat(getComputedStyle(box).maxHeight) || Infinity;
  // Once more, should the first have brought a scroll bar.
  for (const _ of [1, 2]) {
    const whole = Math.min(((box.clientWidth || 800) - 4) / drawn.shown.width, (tallest - 4) / drawn.shown.height);
    zoom(Math.min(1.15, Math.max(whole, least)));
  }
  box.scrollTo(0, 0);
}

function drag() {
  const box = part("graph");
  let from = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".node")) return;
    from = [event.clientX + box.scrollLeft, event.clientY + box.scrollTop];
    box.classList.add("dragged");
  });
  window.addEventListener("pointermove", (event) => {
    if (from) box.scrollTo(from[0] - event.clientX, from[1] - event.clientY);
  });
  window.addEventListener("pointerup", () => { from = null; box.classList.remove("dragged"); });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(scale() * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });
}

// Brings some nodes into sight.
function reveal(places) {
  if (!places.length) return;
  const box = part("graph");
  const by = scale();
  const nodes = places.map((at) => drawn.shown.nodes[at]);
  const left = Math.min(...nodes.map((node) => node.x)) * by, top = Math.min(...nodes.map((node) => node.y)) * by;
  const right = Math.max(...nodes.map((node) => node.x + node.w)) * by, bottom = Math.max(...nodes.map((node) => node.y + node.h)) * by;
  const to = (low, high, at, room) => (low >= at && high <= at + room ? at : high - low > room ? low - 20 : (low + high - room) / 2);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  box.scrollTo({ left: to(left, right, box.scrollLeft, box.clientWidth), top: to(top, bottom, box.scrollTop, box.clientHeight), behavior: calm ? "auto" : "smooth" });
}

// Choosing

function chooseQuery(at) {
  state.query = at;
  state.node = state.set = null;
  if (at !== null) {
    const home = data.graphs.findIndex((each) => each.key === data.queries[at].graph);
    const here = view().nodes.some((node) => node.queries.includes(at));
    if (!here && home >= 0 && home !== state.graph) { state.graph = home; showGraph(); }
  }
  light();
  showDetails();
  if (at !== null) reveal(drawn.shown.nodes.flatMap((node, n) => (node.queries.includes(at) && node.kind !== "start" ? [n] : [])));
}

function chooseNode(at) {
  state.node = state.node === at ? null : at;
  state.query = state.set = null;
  light();
  showDetails();
}

function chooseSet(at) {
  state.set = state.set === at ? null : at;
  state.query = state.node = null;
  if (state.set !== null && graph().kind !== "gloria") {
    state.graph = data.graphs.findIndex((each) => each.kind === "gloria");
    showGraph();
  }
  light();
  showDetails();
  if (state.set !== null) part("graph").scrollIntoView({ block: "nearest" });
}

function light() {
  const { query, node, set } = state;
  const chosen = node === null ? null : drawn.shown.nodes[node];
  const label = set === null ? null : data.sets[set].label;
  const holds = (queries) => query !== null && queries.includes(query);
  drawn.svg.classList.toggle("lighting", query !== null || node !== null || set !== null);
  const nearby = new Set();
  drawn.edges.forEach((element, at) => {
    const edge = drawn.shown.edges[at];
    const near = chosen !== null && (edge.source === node || edge.target === node);
    const lit = holds(edge.queries) || near || (label !== null && edge.mark && edge.mark[0] === label);
    if (lit && query === null) nearby.add(edge.source).add(edge.target);
    element.classList.toggle("lit", lit);
  });
  drawn.nodes.forEach((element, at) => {
    const lit = holds(drawn.shown.nodes[at].queries) || at === node || nearby.has(at);
    element.classList.toggle("lit", lit);
    element.setAttribute("aria-pressed", String(at === node));
  });
  const shared = new Set(chosen ? chosen.queries : label === null ? [] : data.sets[set].queries);
  rows.forEach((row, at) => {
    row.button.setAttribute("aria-pressed", String(at === query));
    row.button.classList.toggle("shares", shared.has(at));
    row.button.querySelector(".mark").hidden = !shared.has(at);
    row.button.classList.toggle("other", shared.size > 0 && !shared.has(at));
  });
  if (query !== null) rows[query].button.scrollIntoView({ block: "nearest" });
}

// Details

const chip = (words, small, on, sharing = false) => make("li", {}, make("button", { type: "button", class: sharing ? "sharing" : null, onclick: on }, words, small ? make("small", {}, ` ${small}`) : null));
const queryChip = (at, small = "") => chip(data.queries[at].name, small, () => chooseQuery(at));
const listed = (pairs) => make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
const closing = () => make("button", { type: "button", class: "close", onclick: letGo }, "Close");

function letGo() {
  state.query = state.node = state.set = null;
  light();
  showDetails();
}

function showDetails() {
  const box = part("details");
  part("said").textContent = inWords();
  if (state.query !== null) box.replaceChildren(...queryDetails(state.query));
  else if (state.node !== null) box.replaceChildren(...nodeDetails(drawn.shown.nodes[state.node]));
  else if (state.set !== null) box.replaceChildren(...setDetails(data.sets[state.set]));
  else box.replaceChildren(...overview());
}

// What was chosen, for those who hear the page.
function inWords() {
  const { query, node, set } = state;
  if (query !== null) return `${data.queries[query].name}: ${plural(drawn.shown.nodes.filter((each) => each.queries.includes(query)).length, "node")} of its path are highlighted`;
  if (node !== null) return `${drawn.shown.nodes[node].label}: ${whoShares(drawn.shown.nodes[node].queries)}`;
  return set === null ? "" : `Q-set ${data.sets[set].label}: ${plural(data.sets[set].queries.length, "query")}`;
}

function overview() {
  const units = graph().units || [];
  return [make("h2", {}, graph().title), make("p", { class: "muted small" }, "Choose a query to highlight its path, or a node to see who shares it."),
    units.length ? make("section", {}, make("h3", {}, "Units"), make("ul", { class: "small" }, ...units.slice(0, 30).map((unit) => make("li", {}, unit))),
      units.length > 30 ? make("p", { class: "muted small" }, `and ${units.length - 30} more`) : null) : null].filter(Boolean);
}

function queryDetails(at) {
  const query = data.queries[at];
  const home = data.graphs.find((each) => each.key === query.graph);
  const name = home.views.all ? "all" : "summary";
  const path = home.views[name].nodes.map((node, n) => [node, n]).filter(([node]) => node.queries.includes(at) && node.kind !== "start");
  inOrder(path, home.views[name].edges, at);
  const company = new Map();
  for (const [node] of path) if (node.kind !== "leaf") for (const other of node.queries) if (other !== at) company.set(other, (company.get(other) || 0) + 1);
  const most = [...company].sort((one, other) => other[1] - one[1]).slice(0, 10);
  const about = [["runs in", query.place], ["by", query.way], ...(query.facts || [])];
  return [closing(), make("h2", {}, query.name), query.words ? make("p", { class: "muted small" }, query.words) : null, listed(about),
    make("section", {}, make("pre", { tabindex: 0 }, query.text)),
    make("section", {}, make("h3", {}, "Its path"), make("ol", { class: "chips" }, ...path.map(([node, n]) =>
      chip(short(node.label, 40), node.queries.length > 1 ? `×${node.queries.length}` : "alone", () => {
        state.graph = data.graphs.indexOf(home);
        state.view[state.graph] = name;
        showGraph();
        chooseNode(n);
        reveal([n]);
      }, node.queries.length > 1)))),
    make("section", {}, make("h3", {}, most.length ? "Shares most with" : "Shares with no other query"), make("ul", { class: "chips" }, ...most.map(([other, times]) => queryChip(other, plural(times, "node"))))),
  ].filter(Boolean);
}

// Sorts the nodes of a query as its steps follow each other; what a circle leaves open, from left to right.
function inOrder(path, edges, query) {
  const steps = edges.filter((edge) => edge.queries.includes(query) && edge.source !== edge.target && edge.kind === "step");
  const depth = new Map(path.map(([, n]) => [n, 0]));
  for (let round = 0; round < path.length; round += 1) {
    for (const { source, target } of steps) {
      if (depth.has(source) && depth.has(target) && depth.get(target) <= depth.get(source) && depth.get(source) < path.length) depth.set(target, depth.get(source) + 1);
    }
  }
  path.sort(([one, a], [other, b]) => depth.get(a) - depth.get(b) || one.x - other.x || one.y - other.y);
}

function nodeDetails(node) {
  const names = node.names || [];
  const shown = node.queries.slice(0, 60);
  return [closing(), make("h2", {}, node.label), listed([["", whoShares(node.queries)], ...(node.facts || [])].filter(([, value]) => value)),
    names.length ? make("section", {}, make("h3", {}, `Stands for ${plural(names.length, "node")}`), make("p", { class: "small muted" }, short(names.join(", "), 600))) : null,
    make("section", {}, make("h3", {}, node.queries.length > 1 ? "Shared by" : "Needed by"), make("ul", { class: "chips" }, ...shown.map((at) => queryChip(at))),
      node.queries.length > shown.length ? make("p", { class: "muted small" }, `and ${node.queries.length - shown.length} more, marked in the list`) : null),
  ].filter(Boolean);
}

function setDetails(set) {
  return [closing(), make("h2", {}, `Q-set ${set.label}`), listed([["snapshots of", set.snapshots], ["shares", plural(set.transitions, "transition")]]),
    make("section", {}, make("h3", {}, plural(set.queries.length, "query")), make("ul", { class: "chips" }, ...set.queries.map((at) => queryChip(at))))];
}

// Tips

function withTip(element, lines) {
  const show = (x, y) => {
    const tip = part("tip");
    tip.replaceChildren(...lines().filter(Boolean).map((line) => make("p", {}, line)));
    tip.hidden = false;
    tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
  };
  const hide = () => { part("tip").hidden = true; };
  element.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
  element.addEventListener("pointerleave", hide);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) show(box.left, box.bottom - 10);
  });
  element.addEventListener("blur", hide);
}

// Below the board

function showBelow() {
  const below = part("below");
  if (data.costs.length) {
    const bars = data.costs.flatMap((each) => {
      const most = Math.max(...each.bars.map((bar) => bar.value), 1e-9);
      return [make("h3", {}, each.title, make("span", { class: "muted" }, ` · ${each.words}`)), ...each.bars.map((bar) =>
        make("div", { class: `bar${bar.chosen ? " chosen" : ""}` }, make("span", { class: "what" }, bar.chosen ? `✓ ${bar.name} (runs)` : bar.name),
          make("div", { class: "track", "aria-hidden": "true" }, make("div", { class: "fill", style: `width:${Math.max(0, (100 * bar.value) / most).toFixed(1)}%` })),
          make("span", { class: "value" }, bar.shown))),
      ...(each.notes || []).map((note) => make("p", { class: "muted small" }, note))];
    });
    below.append(make("section", { class: "panel bars" }, make("h2", {}, "This plan against others"), ...bars));
  }
  if (data.sets.length) {
    const body = data.sets.map((set, at) => make("tr", {}, make("td", {}, make("button", { type: "button", onclick: () => chooseSet(at), "aria-label": `Highlight Q-set ${set.label}` },
      make("span", { class: `set-mark tone-${set.tone}` }, set.label))), make("td", {}, set.snapshots), make("td", { class: "number" }, String(set.transitions)),
      make("td", {}, short(set.queries.map((query) => data.queries[query].name).join(", "), 90))));
    below.append(make("section", { class: "panel" }, make("h2", {}, "Q-sets and their snapshots"), make("div", { class: "scroll" }, table(["Q-set", "snapshots of", "#transitions", "queries"], body))));
  }
  for (const each of data.tables || []) {
    const body = each.rows.map((row) => make("tr", {}, ...row.map((cell, at) => make("td", { class: each.head[at].startsWith("#") ? "number" : null }, ...breakable(cell)))));
    below.append(make("section", { class: `panel${each.wide ? " wide" : ""}` }, make("h2", {}, each.title), each.words ? make("p", { class: "muted small" }, each.words) : null, make("div", { class: "scroll", tabindex: 0 }, table(each.head, body))));
  }
  below.append(make("details", { class: "panel wide" }, make("summary", {}, "The plan as text"), make("pre", { tabindex: 0 }, data.text)));
}

const table = (head, body) => make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col", class: name.startsWith("#") ? "number" : null }, name.replace(/^#/, ""))))), make("tbody", {}, ...body));

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { part("tip").hidden = true; letGo(); }
  if (document.activeElement === part("search") || event.ctrlKey || event.metaKey) return;
  const act = { "/": () => part("search").focus(), "+": () => part("in").click(), "-": () => part("out").click(), 0: () => fit() }[event.key];
  if (act && drawn) { event.preventDefault(); act(); }
});
part("in").addEventListener("click", () => zoom(scale() * 1.25));
part("out").addEventListener("click", () => zoom(scale() / 1.25));
part("fit").addEventListener("click", () => fit());
showHead();
showList();
if (data.graphs.length) { showTabs(); showGraph(); light(); showDetails(); drag(); }
showBelow();
document.documentElement.dataset.ready = "yes";
