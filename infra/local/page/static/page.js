// The live page: asks what changed, and draws it. Nothing here comes from another address.

import { Chart, amount, clock } from "/charts.js";

const RANGES = [15, 60, 180];
const chosen = { dashboard: "", minutes: RANGES[0], byHand: false, paused: false };
const drawn = new Map();
let layout = null;
let last = null;

const byId = (id) => document.getElementById(id);

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function length(seconds) {
  return seconds >= 120 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`;
}

// "Sekali-dev-lock-leak-lost": what all alarms share says nothing.
function short(name) {
  const names = layout.alarms.map((alarm) => alarm.name);
  let common = names[0] ?? "";
  for (const other of names) while (!other.startsWith(common)) common = common.slice(0, -1);
  const cut = common.lastIndexOf("-") + 1;
  return name.slice(cut).replaceAll("-", " ");
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  for (const part of drawn.values()) part.forget?.();
  if (last) show(last);
}

function controls() {
  byId("pace").textContent =
    layout.minuteSeconds === 60
      ? "live, in CloudWatch's own time"
      : `live; one minute of CloudWatch is played in ${length(layout.minuteSeconds)}`;
  for (const dashboard of layout.dashboards) {
    const label = dashboard.name.split("-").at(-1);
    const button = made("button", { type: "button", "data-dashboard": dashboard.name }, label[0].toUpperCase() + label.slice(1));
    button.addEventListener("click", () => open(dashboard.name));
    byId("tabs").append(button);
  }
  for (const minutes of RANGES) {
    const label = length(minutes * layout.minuteSeconds);
    const button = made("button", { type: "button", "data-minutes": minutes, title: `${minutes} of CloudWatch's minutes` }, label);
    button.addEventListener("click", () => {
      chosen.minutes = minutes;
      chosen.byHand = true;
      marks();
      refresh();
    });
    byId("ranges").append(button);
  }
  byId("pause").addEventListener("click", () => {
    chosen.paused = !chosen.paused;
    marks();
  });
  byId("all").addEventListener("click", () => {
    const few = byId("alarms").classList.toggle("short");
    byId("all").setAttribute("aria-pressed", String(!few));
    byId("all").textContent = few ? "Show every symptom" : "Show what rings";
  });
  byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function marks() {
  for (const button of byId("tabs").children) {
    if (button.dataset.dashboard === chosen.dashboard) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  for (const button of byId("ranges").children) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === chosen.minutes));
  }
  byId("pause").setAttribute("aria-pressed", String(chosen.paused));
  byId("pause").textContent = chosen.paused ? "Go on" : "Pause";
}

function open(name) {
  chosen.dashboard = name;
  for (const part of drawn.values()) part.close?.();
  drawn.clear();
  const board = byId("board");
  board.replaceChildren();
  for (const widget of layout.dashboards.find((one) => one.name === name).widgets) {
    board.append(place(widget));
  }
  marks();
  refresh();
}

function place(widget) {
  if (widget.kind === "text") {
    const heading = made("div", { class: "heading" }, made("h2", {}, widget.title));
    if (widget.text) heading.append(made("p", {}, widget.text));
    return heading;
  }
  const unit = widget.axes?.left?.label ?? "";
  const card = made("article", { class: `card ${widget.kind}`, style: `grid-column: span ${widget.width}`, "data-widget": widget.id });
  card.append(made("h3", {}, widget.title, made("span", {}, unit)));
  if (widget.kind === "graph") {
    const host = made("div", { class: "plot" });
    card.append(host);
    drawn.set(widget.id, new Chart(host, widget));
  } else {
    const host = made("div");
    card.append(host);
    drawn.set(widget.id, { show: { number: numbers, ranking, alarms: chips }[widget.kind] ?? unknown, host, widget });
  }
  return card;
}

function numbers(host, found) {
  const cells = found.map((one) => made("div", {}, made("b", { "data-label": one.label }, amount(one.value)), made("span", {}, one.label)));
  host.replaceChildren(made("div", { class: "numbers" }, ...cells));
}

function ranking(host, found) {
  if (found.rows.length === 0) {
    host.replaceChildren(made("p", { class: "numbers" }, made("span", {}, "none in this time")));
    return;
  }
  const most = found.rows[0].total;
  const head = made("tr", {}, ...found.keys.map((key) => made("th", { scope: "col" }, key)), made("th", { scope: "col" }, "times"));
  const rows = found.rows.map((row) => {
    const cells = row.keys.map((key, index) => {
      const cell = made("td", { class: index === row.keys.length - 1 ? "key" : "" }, key);
      if (index === row.keys.length - 1) cell.append(made("i", { class: "bar", style: `width: ${(100 * row.total) / most}%` }));
      return cell;
    });
    return made("tr", {}, ...cells, made("td", {}, amount(row.total)));
  });
  host.replaceChildren(made("table", { class: "ranked" }, made("thead", {}, head), made("tbody", {}, ...rows)));
}

function chips(host, _, widget) {
  const states = new Map(last.alarms.map((alarm) => [alarm.name, alarm.state]));
  const found = widget.alarms.map((name) => {
    const state = states.get(name) ?? "INSUFFICIENT_DATA";
    return made("span", { class: "chip", "data-state": state, title: state }, made("i", { class: "dot", "aria-hidden": "true" }), short(name), made("span", { class: "skip" }, state));
  });
  const fine = widget.alarms.filter((name) => states.get(name) === "OK").length;
  found.push(made("span", { class: "chip rest", "data-state": "OK" }, made("i", { class: "dot", "aria-hidden": "true" }), `${fine} OK`));
  host.replaceChildren(made("div", { class: found.length > 12 ? "chips many" : "chips" }, ...found));
}

function unknown(host) {
  host.replaceChildren(made("p", {}, "This kind of widget is not drawn here."));
}

const WORDS = { OK: "OK", ALARM: "ALARM", INSUFFICIENT_DATA: "no data yet" };

function alarms(found) {
  const list = byId("alarms");
  for (const alarm of found) {
    let item = list.querySelector(`[data-alarm="${CSS.escape(alarm.name)}"]`);
    if (item === null) {
      item = alarmItem(layout.alarms.find((one) => one.name === alarm.name));
      list.append(item);
    }
    const details = item.firstElementChild;
    details.dataset.state = alarm.state;
    item.querySelector(".state").textContent = WORDS[alarm.state] + (alarm.suppressed ? ", silent" : "");
    const points = item.querySelector(".points");
    if (points) points.textContent = alarm.points.map(amount).join("  ");
    item.style.order = alarm.state === "ALARM" ? 0 : 1;
  }
  const ringing = found.filter((alarm) => alarm.state === "ALARM" && !layout.alarms.find((one) => one.name === alarm.name).composite);
  const verdict = byId("verdict");
  const text = ringing.length === 0 ? "All is well" : ringing.length === 1 ? `1 alarm: ${short(ringing[0].name)}` : `${ringing.length} alarms`;
  if (verdict.textContent !== text) verdict.textContent = text;
  verdict.dataset.state = ringing.length ? "ALARM" : "OK";
}

function alarmItem(known) {
  const more = made("div", { class: "more" });
  if (known.meaning) more.append(made("p", {}, known.meaning));
  if (known.first) more.append(made("p", {}, made("strong", {}, "First: "), known.first));
  more.append(made("p", {}, made("strong", {}, "Rings "), known.composite ? `with ${known.rule}` : `at ${known.rule}`));
  if (!known.composite) more.append(made("p", {}, made("strong", {}, "Data points "), made("code", { class: "points" })));
  if (known.runbook) more.append(made("p", {}, made("strong", {}, "Runbook "), made("code", {}, known.runbook)));
  const summary = made("summary", {}, made("i", { class: "dot", "aria-hidden": "true" }), made("b", {}, short(known.name)), made("span", { class: "state" }));
  return made("li", { "data-alarm": known.name, class: known.composite ? "composite" : "symptom" }, made("details", {}, summary, more));
}

function happened(changes, strikes) {
  const lines = changes.map((change) => ({
    at: change.at,
    parts: [made("span", { class: change.after === "ALARM" ? "rang" : "" }, `${short(change.alarm)} ${change.after === "ALARM" ? "rings" : WORDS[change.after]}`), made("small", {}, change.reason)],
  }));
  for (const strike of strikes) lines.push({ at: strike.from, parts: [made("span", { class: "fault" }, `fault: ${strike.name}`)] });
  lines.sort((one, other) => other.at - one.at);
  byId("changes").replaceChildren(
    ...lines.slice(0, 30).map((line) => made("li", {}, made("time", {}, clock(line.at)), made("div", {}, ...line.parts))),
  );
}

function run(figures) {
  const list = byId("run");
  if (list.children.length === 0) {
    for (const figure of figures) list.append(made("div", {}, made("dt", {}, figure.label), made("dd", { "data-figure": figure.name })));
  }
  for (const figure of figures) {
    const cell = list.querySelector(`[data-figure="${figure.name}"]`);
    cell.textContent = figure.value.toLocaleString("en");
    cell.dataset.value = figure.value;
  }
}

function show(found) {
  last = found;
  grow(found.started);
  run(found.run);
  alarms(found.alarms);
  happened(found.changes, found.strikes);
  // Before the stack was there, there is nothing to see.
  const first = chosen.byHand ? 0 : Math.max(0, Math.min(found.times.findIndex((at) => at >= found.started), found.times.length - 8));
  const times = found.times.slice(first);
  for (const [id, part] of drawn) {
    if (part instanceof Chart) {
      const lines = (found.widgets[id] ?? []).map((line) => ({ ...line, values: line.values.slice(first) }));
      part.show(times, lines, found.strikes);
    }
    else part.show(part.host, found.widgets[id], part.widget);
  }
}

// Until somebody chooses, the range grows with the run.
function grow(started) {
  if (chosen.byHand) return;
  const age = (Date.now() / 1000 - started) / layout.minuteSeconds;
  const fits = RANGES.find((minutes) => age <= minutes) ?? RANGES.at(-1);
  if (fits === chosen.minutes) return;
  chosen.minutes = fits;
  marks();
}

async function refresh() {
  const asked = chosen.dashboard;
  try {
    const answer = await fetch(`/api/read?dashboard=${encodeURIComponent(asked)}&minutes=${chosen.minutes}`);
    if (!answer.ok) throw new Error(`${answer.status}`);
    const found = await answer.json();
    document.body.classList.remove("stale");
    if (asked === chosen.dashboard) show(found);
  } catch (error) {
    document.body.classList.add("stale");
    byId("verdict").textContent = "The stack has ended";
    byId("verdict").dataset.state = "";
    if (!(error instanceof TypeError)) throw error;
  }
}

async function go() {
  layout = await (await fetch("/api/layout")).json();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  theme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  controls();
  open(layout.dashboards[0].name);
  const pause = Math.max(1000, layout.minuteSeconds * 500);
  setInterval(() => {
    if (!chosen.paused && !document.hidden) refresh();
  }, pause);
}

go();
