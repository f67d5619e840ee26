"use strict";
// Everything that users have named is put into the page as text, never as markup.
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let model = null;  // its name; names are told to those who may read

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
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))}\u00a0ms`;
  for (const [unit, name, part, less] of [[86400, "days", 3600, "h"], [3600, "h", 60, "min"], [60, "min"], [1, "s"]]) {
    if (seconds < unit) continue;
    const rest = part ? Math.floor(seconds % unit / part) : 0;
    return `${Math.floor(seconds / unit)}\u00a0${name}${rest ? ` ${rest}\u00a0${less}` : ""}`;
  }
}
function bytes(count) {
  for (const [unit, name] of [[2 ** 40, "TB"], [2 ** 30, "GB"], [2 ** 20, "MB"]]) if (count >= unit) return `${short(count / unit)} ${name}`;
  return `${short(count / 1024)} KB`;
}
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString("en-GB", {hour: "2-digit", minute: "2-digit"});
const moment = (seconds, now) => now - seconds < 86400 ? clock(seconds) :
  `${new Date(seconds * 1000).toLocaleDateString("en-GB", {day: "numeric", month: "short"})}, ${clock(seconds)}`;

// Lines of points [x, y], each line with a class; x may be logarithmic. Over time, `hour` is the slices: the axis ends now.
function plot(id, lines, {log = false, xs = short, low = null, high = null, dots = null, hour = null, now = 0, level = null} = {}) {
  const box = $(id), width = Math.max(box.clientWidth, 200), height = 170, left = 46, bottom = 22, top = 8;
  const points = [...lines.flatMap(line => line.points), ...(dots || [])].filter(p => p[1] !== null);
  if (points.length < (dots || hour ? 1 : 2)) { box.replaceChildren(element("p", "Nothing to show yet.", {class: "nothing"})); return; }
  const at = log ? x => Math.log10(Math.max(x, 1)) : x => x;
  let [x0, x1] = [Math.min(...points.map(p => at(p[0]))), Math.max(...points.map(p => at(p[0])))];
  const values = points.map(p => p[1]).concat(level === null ? [] : [level]);
  let y0 = low === null ? Math.min(...values) : low, y1 = high === null ? Math.max(...values) : high;
  if (dots) [x0, x1] = [0, 1];
  if (hour) [x0, x1] = [Math.min(hour[0].at, now - 300), now];
  if (x1 <= x0) x1 = x0 + 1;
  if (y1 <= y0) y1 = y0 + (Math.abs(y0) || 1);
  const X = x => left + (at(x) - x0) / (x1 - x0) * (width - left - 8), Y = y => height - bottom - (y - y0) / (y1 - y0) * (height - bottom - top);
  const picture = drawn("svg", {viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"});
  for (const [from, to] of hour ? downtimes(hour) : []) {
    picture.append(drawn("rect", {class: "down", x: X(from), y: top, width: X(to) - X(from), height: height - bottom - top}));
    if (X(to) - X(from) > 40) picture.append(drawn("text", {x: (X(from) + X(to)) / 2, y: top + 14, "text-anchor": "middle"}, "down"));
  }
  for (const share of [0, 0.5, 1]) {
    const y = y0 + share * (y1 - y0);
    picture.append(drawn("line", {class: "grid", x1: left, x2: width - 8, y1: Y(y), y2: Y(y)}),
                   drawn("text", {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, short(y)));
    const place = x0 + share * (x1 - x0);
    picture.append(drawn("text", {x: left + share * (width - left - 8), y: height - 6, "text-anchor": ["start", "middle", "end"][2 * share]},
                         hour && share === 1 ? `now, ${xs(place)}` : xs(log ? 10 ** place : place)));
  }
  if (level !== null) picture.append(drawn("line", {class: "level", x1: left, x2: width - 8, y1: Y(level), y2: Y(level)}));
  for (const line of lines) {
    let path = "", pen = false;
    for (const [x, y] of line.points) {
      if (y === null) { pen = false; continue; }
      const point = `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
      path += pen ? `L${point}` : `M${point}L${point}`;  // a point that stands alone is a dot
      pen = true;
    }
    picture.append(drawn("path", {class: `line ${line.kind}`, d: path}));
  }
  for (const [x, y, size] of dots || []) picture.append(drawn("circle", {class: "dot", cx: X(x), cy: Y(y), r: 3 + 7 * Math.sqrt(size)}));
  if (dots) picture.append(drawn("line", {class: "right", x1: X(0), y1: Y(0), x2: X(1), y2: Y(1)}));
  box.replaceChildren(picture);
}
// From when to when there was no server: slices without even a count of rows.
function downtimes(hour) {
  const found = [];
  for (const {at, learned} of hour) {
    if (learned !== null) continue;
    if (found.length && found.at(-1)[1] === at) found.at(-1)[1] = at + SLICE;
    else found.push([at, at + SLICE]);
  }
  return found;
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
const LACKS = {multiclass: ["calibration", "sd", "moved", "parts", "surprises", "knows"], regression: ["calibration"]};
// What a constant prediction says always.
const CONSTANT = {binary: "the base rate", multiclass: "the base rates", regression: "the mean"};
const SLICE = 10;
const MARKS = {failing: "✖", warning: "⚠", idle: "○", healthy: "✔", waiting: "…"};

// The status line: what is wrong in large letters, what that means below it. `also`: what else is to be said, less loud.
function judge(level, text, since, also = []) {
  const cut = text.search(/[:;.] /), headline = cut < 0 ? text.replace(/\.$/, "") : text.slice(0, cut);
  $("status").className = `status ${level}`;
  if ($("verdict").textContent !== headline) $("verdict").textContent = headline;  // not read out again each second
  $("since").textContent = since;
  const rest = cut < 0 ? "" : text.slice(cut + 2);
  $("detail").textContent = rest.charAt(0).toUpperCase() + rest.slice(1);
  $("also").replaceChildren(...also.map(one => {
    const made = element("li", one.text, {class: one.level});
    made.append(element("span", ` ${one.since}`, {class: "since"}));
    return made;
  }));
  document.title = `${MARKS[level]} ${$("name").textContent} · ${headline}`;
}
function sinceWhen(one, now) {
  if (/ for \d/.test(one.text)) return `since ${moment(one.since, now)}`;  // how long is said
  return `since ${moment(one.since, now)} (${span(Math.max(now - one.since, 1))})`;
}

function cardsOf(told) {
  const {live, counters, server, labels} = told, {refused, snapshot} = server;
  const loss = (counters.log_loss !== undefined ? "log_loss" : "squared_loss").replace("_", " ");
  const count = Object.values(refused).reduce((sum, one) => sum + one, 0), behind = told.version - snapshot.version;
  const cards = [
    ["requests", `${short(server.requests_per_second)}/s`, server.p50 === null ? "none in the last minute" : `p50\u00a0${span(server.p50)}, p99\u00a0${span(server.p99)}`],
    ["refused, last hour", whole(count), count ? Object.entries(refused).map(([status, n]) => `${status}: ${whole(n)}`).join(" · ") : "no requests", Object.keys(refused).some(status => status >= 500) ? "alert" : ""],
    ["queue", whole(server.queue), `of at most ${whole(server.queue_limit)} requests`, 2 * server.queue >= server.queue_limit ? "alert" : ""],
  ];
  if (server.disk_free !== null) cards.push(["disk free", bytes(server.disk_free), server.log_bytes === null ? "" : `the log has ${bytes(server.log_bytes)}`, server.disk_free < 2 ** 28 ? "alert" : ""]);
  cards.push(
    ["last snapshot", snapshot.age === null ? "none" : span(Math.max(snapshot.age, 1)), snapshot.age === null ? `${whole(told.version)} entries in the log` : behind ? `ago; ${whole(behind)} entries since` : "ago; all is in it"],
    ["last error", server.last_error ? moment(server.last_error.at, told.now) : "none", server.last_error ? server.last_error.text : "since the start", server.last_error && told.now - server.last_error.at < 3600 ? "alert" : ""],
    [`${loss}, last hour`, short(live.loss_hour), compared(told), live.base && live.base.alarm ? "alert" : ""],
    ["learned", `${short(live.learned_per_second)}/s`, "rows, in the last minute"],
    ["predicted", `${short(live.predicted_per_second)}/s`, "rows, in the last minute"],
  );
  if (labels) {
    const {recent, usual, silent} = live.delay;
    cards.push(["label delay", recent === null ? "–" : span(recent), recent !== null ? usual === null ? "in the last five minutes" : `usually ${span(usual)}` :
      silent === null ? "no labels came later" : `none for ${span(silent)}${usual === null ? "" : `; usually ${span(usual)}`}`]);
    cards.push(["rows waiting", whole(labels.open), server.oldest_row === null || !labels.open ? "for a label" : `for labels, the first for ${span(server.oldest_row)}`]);
  }
  cards.push(["examples", whole(told.examples), `learned in all; ${loss} ${short(counters[loss.replace(" ", "_")])}`]);
  return cards;
}
function compared(told) {
  const base = told.live.base, constant = CONSTANT[told.task] || "the base rate";
  if (!base) return "no labels in the last hour";
  if (base.better === null) return "all labels were the same";
  const percent = Math.abs(100 * base.better);
  const much = percent < 0.5 ? "as good as" : `${percent < 10 ? Number(percent.toPrecision(1)) : whole(percent)}% ${base.better < 0 ? "worse" : "better"} than`;
  return `${much} ${constant} (${short(base.loss)})`;
}

function show(told) {
  for (const id of LACKS[told.task] || []) $(id).closest("h2, .card").hidden = true;
  const live = told.live, now = told.now, server = told.server, status = told.status;
  $("name").textContent = told.name;
  $("subtitle").textContent = `${told.learner}, ${whole(told.weights)} weights${told.read_only ? "; a read-only replica" : ""} · ` +
    `bayou ${server.version} on ${server.host}, up ${span(Math.max(server.uptime, 1))}`;
  judge(status.level, status.text, sinceWhen(status, now), status.also.map(one => ({...one, since: sinceWhen(one, now)})));
  $("main").className = "";
  $("cards").replaceChildren(...cardsOf(told).map(([name, value, meaning, kind]) => {
    const made = element("div", null, {class: kind || ""});
    made.append(element("dt", name), element("dd", value), element("dd", meaning, {class: "meaning", title: meaning}));
    return made;
  }));
  const over = (what, kind) => ({kind, points: live.hour.map(part => [part.at + SLICE / 2, what(part)])});
  const time = {xs: clock, hour: live.hour, now};
  const base = live.base && live.loss_hour !== null ? live.base.loss : null;
  $("basekey").lastChild.textContent = CONSTANT[told.task] || "the base rate";
  plot("curve", [{kind: "c0", points: live.curve}], {log: true, xs: whole});
  plot("hour", [over(part => part.loss, "c0")], {...time, level: base});
  plot("sd", [over(part => part.sd, "c0")], {...time, low: 0});
  plot("rate", [over(part => part.learned === null ? null : part.learned / SLICE, "c0"),
                over(part => part.predicted === null ? null : part.predicted / SLICE, "c2")], {...time, low: 0});
  const most = Math.max(...live.calibration.map(bin => bin.weight), 1);
  plot("calibration", [], {low: 0, high: 1, dots: live.calibration.map(bin => [bin.predicted, bin.actual, bin.weight / most])});
  const largest = Math.max(...live.moved.map(one => Math.abs(one.change)), 1e-9);
  table("moved", [["feature", "names"], ["weight", "number"], ["moved", "number"], ["", "wide"]], live.moved.map(one => [
    one.feature, short(one.mean), (one.change < 0 ? "" : "+") + short(one.change), bar(Math.abs(one.change) / largest, one.change < 0)]),
    "Nothing was learned yet.");
  const lanes = live.parts.filter(part => part.weight !== undefined).sort((a, b) => b.weight - a.weight);
  table("parts", [["lane", "names"], ["weight", "number"], ["", "wide"]], lanes.map(part => [
    part.name, `${(100 * part.weight).toFixed(1)}%`, bar(part.weight)]), "This learner has one answer, and no lanes.");
  table("surprises", [["row", "row"], ["label", "number"], ["predicted", "number"], ["loss", "number"]], (live.surprises || []).map(one => [
    one.row, short(one.label), short(one.expected), short(one.loss)]), live.surprises ? "No surprises." : "Rows are shown to tokens with the scope `write`.");
  const labels = told.labels;
  const counts = labels ? Object.entries(labels.counts) : [];
  const joined = labels ? labels.counts.joined || 0 : 0, gone = labels ? (labels.counts.expired || 0) + (labels.counts.dropped || 0) : 0;
  table("labels", [["", ""], ["", "number"]], !labels ? [] : [
    ["wait for at most", span(labels.wait)],
    ["rows waiting", whole(labels.open)],
    ["labels waiting", whole(labels.early)],
    ...(joined + gone ? [["share of rows joined", `${(100 * joined / (joined + gone)).toFixed(1)}%`]] : []),
    ...(live.delays ? [["delay, half within", span(live.delays.p50)], ["delay, 99% within", span(live.delays.p99)]] : []),
    ...counts.map(([name, count]) => [name, whole(count)]),
  ], "A replica joins no labels.");
  $("age").textContent = `as of ${new Date(told.now * 1000).toLocaleTimeString("en-GB")}`;
  document.documentElement.dataset.version = told.version;
}

// Numbers that are not news any more are shown as such.
let heard = Date.now() / 1000;
function lost(level, text) {
  $("main").className = "stale";
  judge(level, text, `last news at ${moment(heard, Date.now() / 1000)}`);
}
setInterval(() => {
  const silent = Date.now() / 1000 - heard;
  if (silent > 5 && !$("main").className) lost("failing", "No news from the server");
}, 1000);

// What the server answers, or null where it does not; then the page says so.
async function ask(path) {
  const token = sessionStorage.getItem("token");
  let answer;
  try { answer = await fetch(path, {headers: token ? {authorization: `Bearer ${token}`} : {}}); }
  catch { lost("failing", "The server does not answer"); return null; }
  $("tokens").hidden = answer.status !== 401;
  if (!answer.ok) {
    lost(answer.status === 401 ? "idle" : "warning", (await answer.json()).error);
    return null;
  }
  return answer;
}
async function choose() {
  const answer = await ask("/models");
  if (!answer) return;
  const {models} = await answer.json();
  model = new URLSearchParams(location.search).get("model") || models[0];
  if (models.length < 2) return;
  $("chooser").hidden = false;
  $("chooser").replaceChildren(...models.map(name => name === model ? element("strong", name) :
    element("a", name, {href: `?model=${encodeURIComponent(name)}`})));
}
async function listen() {
  if (model === null) await choose();
  const answer = model === null ? null : await ask(`/models/${encodeURIComponent(model)}/events`);
  if (!answer) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) { lost("failing", "The server has stopped"); return; }
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) { heard = Date.now() / 1000; show(JSON.parse(part.slice(6))); }
  }
}
async function watch() {
  for (;;) {
    try { await listen(); } catch (error) { lost("failing", `The server is gone (${error.message || error})`); }
    await new Promise(done => setTimeout(done, 2000));
  }
}

$("tokens").addEventListener("submit", event => { event.preventDefault(); sessionStorage.setItem("token", $("token").value); location.reload(); });
watch();
