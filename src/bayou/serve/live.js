"use strict";
// Everything that users have named is put into the page as text, never as markup.
const about = JSON.parse(document.getElementById("about").textContent);
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const model = about.single || new URLSearchParams(location.search).get("model") || about.models[0];
const prefix = about.single === null ? `/models/${encodeURIComponent(model)}` : "";

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const short = x => x === null || x === undefined ? "–" : Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en") :
  Math.abs(x) >= 10 ? x.toFixed(1) : Math.abs(x) >= 0.001 || x === 0 ? Number(x.toPrecision(3)).toString() : x.toExponential(1);
const whole = x => Math.round(x).toLocaleString("en");
function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${short(seconds)} s`;
  if (seconds < 7200) return `${short(seconds / 60)} min`;
  return seconds < 172800 ? `${short(seconds / 3600)} h` : `${short(seconds / 86400)} days`;
}

// Lines of points [x, y], each line with a class; x may be logarithmic.
function plot(id, lines, {log = false, xs = short, low = null, high = null, dots = null} = {}) {
  const box = $(id), width = Math.max(box.clientWidth, 200), height = 180, left = 46, bottom = 22, top = 8;
  const points = [...lines.flatMap(line => line.points), ...(dots || [])].filter(p => p[1] !== null);
  if (points.length < (dots ? 1 : 2)) { box.replaceChildren(element("p", "Nothing to show yet.", {class: "nothing"})); return; }
  const at = log ? x => Math.log10(Math.max(x, 1)) : x => x;
  let [x0, x1] = [Math.min(...points.map(p => at(p[0]))), Math.max(...points.map(p => at(p[0])))];
  let y0 = low === null ? Math.min(...points.map(p => p[1])) : low, y1 = high === null ? Math.max(...points.map(p => p[1])) : high;
  if (dots) [x0, x1] = [0, 1];
  if (x1 <= x0) x1 = x0 + 1;
  if (y1 <= y0) y1 = y0 + (Math.abs(y0) || 1);
  const X = x => left + (at(x) - x0) / (x1 - x0) * (width - left - 8), Y = y => height - bottom - (y - y0) / (y1 - y0) * (height - bottom - top);
  const picture = drawn("svg", {viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"});
  for (const share of [0, 0.5, 1]) {
    const y = y0 + share * (y1 - y0);
    picture.append(drawn("line", {class: "grid", x1: left, x2: width - 8, y1: Y(y), y2: Y(y)}),
                   drawn("text", {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, short(y)));
    const place = x0 + share * (x1 - x0);
    picture.append(drawn("text", {x: left + share * (width - left - 8), y: height - 6, "text-anchor": ["start", "middle", "end"][2 * share]},
                         xs(log ? 10 ** place : place)));
  }
  for (const line of lines) {
    let path = "", pen = false;
    for (const [x, y] of line.points) {
      if (y === null) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
      pen = true;
    }
    picture.append(drawn("path", {class: `line ${line.kind}`, d: path}));
  }
  for (const [x, y, size] of dots || []) picture.append(drawn("circle", {class: "dot", cx: X(x), cy: Y(y), r: 3 + 7 * Math.sqrt(size)}));
  if (dots) picture.append(drawn("line", {class: "right", x1: X(0), y1: Y(0), x2: X(1), y2: Y(1)}));
  box.replaceChildren(picture);
}

function table(id, head, rows, nothing) {
  if (!rows.length) { $(id).replaceChildren(element("caption", nothing, {class: "nothing"})); return; }
  const top = element("tr");
  for (const [name, kind] of head) top.append(element("th", name, {class: kind}));
  const body = rows.map(cells => {
    const row = element("tr");
    cells.forEach((cell, k) => {
      const place = element("td", cell instanceof Node ? null : cell, {class: head[k][1]});
      if (cell instanceof Node) place.append(cell);
      row.append(place);
    });
    return row;
  });
  $(id).replaceChildren(top, ...body);
}
function bar(share, less) {
  const made = element("span", null, {class: less ? "bar less" : "bar"});
  made.style.width = `${Math.min(100, 100 * share)}%`;
  return made;
}

// What a model of several classes, or of numbers, has nothing to show for.
const LACKS = {classes: ["calibration", "sd", "moved", "parts", "surprises", "knows"], regress: ["calibration"]};

function show(told) {
  for (const id of LACKS[told.task] || []) $(id).closest("h2, .card").hidden = true;
  const live = told.live, counters = told.counters, loss = counters.log_loss !== undefined ? "log_loss" : "squared_loss";
  const named = loss.replace("_", " ");
  $("name").textContent = told.name;
  $("subtitle").textContent = `${told.learner}, ${whole(told.weights)} weights${told.read_only ? "; a read-only replica" : ""}`;
  const cards = [
    ["examples", whole(told.examples), "learned in all"],
    [named, short(counters[loss]), "of all predictions before learning"],
    [`${named}, last hour`, short(live.loss_hour), "what it costs now"],
    ["learned", `${short(live.learned_per_second)}/s`, "in the last minute"],
    ["predicted", `${short(live.predicted_per_second)}/s`, "in the last minute"],
    ["version", whole(told.version), "entries of the log"],
  ];
  if (told.labels) cards.push(["open rows", whole(told.labels.open), "wait for their label"]);
  $("cards").replaceChildren(...cards.map(([name, value, meaning]) => {
    const made = element("div");
    made.append(element("dt", name), element("dd", value), element("dd", meaning, {class: "meaning"}));
    return made;
  }));
  const alarms = [];
  if (live.drift && live.drift.alarm) alarms.push(
    `The data drift: over the last hour a model that had stopped learning would have lost ${short(live.drift.gap)} more per row ` +
    `(± ${short(live.drift.error)}, on ${whole(live.drift.rows)} rows). Keep labels coming.`);
  if (told.log && told.log.damage) alarms.push(told.log.damage);
  $("alarm").textContent = alarms.join(" ");
  const clock = seconds => new Date(seconds * 1000).toLocaleTimeString("en-GB", {hour: "2-digit", minute: "2-digit"});
  const over = (what, kind) => ({kind, points: live.hour.map(part => [part.at, what(part)])});
  plot("curve", [{kind: "c0", points: live.curve}], {log: true, xs: whole});
  plot("hour", [over(part => part.loss, "c0")], {xs: clock});
  plot("sd", [over(part => part.sd, "c0")], {xs: clock, low: 0});
  plot("rate", [over(part => part.learned / 10, "c0"), over(part => part.predicted / 10, "c2")], {xs: clock, low: 0});
  const most = Math.max(...live.calibration.map(bin => bin.weight), 1);
  plot("calibration", [], {low: 0, high: 1, dots: live.calibration.map(bin => [bin.predicted, bin.actual, bin.weight / most])});
  const largest = Math.max(...live.moved.map(one => Math.abs(one.change)), 1e-9);
  table("moved", [["feature", "names"], ["weight", "number"], ["moved", "number"], ["", "wide"]], live.moved.map(one => [
    one.feature, short(one.mean), (one.change < 0 ? "" : "+") + short(one.change), bar(Math.abs(one.change) / largest, one.change < 0)]),
    "Nothing was learned yet.");
  const lanes = live.parts.filter(part => part.weight !== undefined).sort((a, b) => b.weight - a.weight);
  table("parts", [["lane", "names"], ["weight", "number"], ["", "wide"]], lanes.map(part => [
    part.name, `${(100 * part.weight).toFixed(1)}%`, bar(part.weight)]), "This learner has one answer, and no lanes.");
  table("surprises", [["row", "row"], ["label", "number"], ["predicted", "number"], ["loss", "number"]], live.surprises.map(one => [
    one.row, short(one.label), short(one.expected), short(one.loss)]), "No surprises.");
  const labels = told.labels;
  const counts = labels ? Object.entries(labels.counts) : [];
  const joined = labels ? labels.counts.joined || 0 : 0, gone = labels ? (labels.counts.expired || 0) + (labels.counts.dropped || 0) : 0;
  table("labels", [["", ""], ["", "number"]], !labels ? [] : [
    ["wait for at most", span(labels.wait)],
    ["rows that wait", whole(labels.open)],
    ["labels that wait", whole(labels.early)],
    ...(joined + gone ? [["share of rows joined", `${(100 * joined / (joined + gone)).toFixed(1)}%`]] : []),
    ...(live.delays ? [["delay, half within", span(live.delays.p50)], ["delay, 99% within", span(live.delays.p99)]] : []),
    ...counts.map(([name, count]) => [name, whole(count)]),
  ], "A replica joins no labels.");
  $("age").textContent = `as of ${new Date(told.now * 1000).toLocaleTimeString("en-GB")}`;
  document.documentElement.dataset.version = told.version;
}

async function listen() {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(`${prefix}/events`, {headers: token ? {authorization: `Bearer ${token}`} : {}});
  if (!answer.ok) {
    if (answer.status === 401) $("tokens").hidden = false;
    throw new Error((await answer.json()).error);
  }
  $("tokens").hidden = true;
  $("notice").textContent = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) show(JSON.parse(part.slice(6)));
  }
}
async function watch() {
  for (;;) {
    try { await listen(); $("notice").textContent = "The server has stopped; waiting for it."; }
    catch (error) { $("notice").textContent = String(error.message || error); }
    await new Promise(done => setTimeout(done, 2000));
  }
}

if (about.models.length > 1) {
  $("chooser").hidden = false;
  $("chooser").append(...about.models.map(name => name === model ? element("strong", name) :
    element("a", name, {href: `?model=${encodeURIComponent(name)}`})));
}
$("tokens").addEventListener("submit", event => { event.preventDefault(); sessionStorage.setItem("token", $("token").value); location.reload(); });
watch();
