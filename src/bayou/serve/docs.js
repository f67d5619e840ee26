"use strict";
const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function card(path, method, told, shared) {
  const made = element("section", null, {class: "card try", "data-path": path});
  const title = element("h3");
  title.append(element("span", `${method.toUpperCase()} `, {class: "method"}), document.createTextNode(path));
  made.append(title, element("p", told.summary, {class: "how"}));
  const form = element("form"), inputs = new Map();
  for (const parameter of [...shared, ...(told.parameters || [])]) {
    const label = element("label", `${parameter.name} `, {title: parameter.description || ""});
    const choices = parameter.schema.enum;
    const input = element(choices ? "select" : "input", null, choices ? {} : {size: "12", placeholder: String(parameter.schema.default ?? "")});
    for (const choice of choices || []) input.append(element("option", choice));
    label.append(input);
    form.append(label);
    inputs.set(parameter, input);
  }
  let body = null, kind = null;
  if (told.requestBody) {
    kind = element("select", null, {"aria-label": "written as"});
    for (const one of Object.keys(told.requestBody.content)) if (!one.includes("arrow")) kind.append(element("option", one));
    body = element("textarea", told["x-example"], {"aria-label": "body", spellcheck: "false"});
    form.append(kind, body);
  }
  if (path.endsWith("/events")) {
    made.append(element("pre", `curl -N ${location.origin}${path}`));
    return made;
  }
  const answer = element("pre", null, {hidden: ""});
  form.append(element("button", "send", {type: "submit"}));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    let address = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.set(parameter.name, input.value);
    }
    const token = document.getElementById("token").value, headers = token ? {authorization: `Bearer ${token}`} : {};
    if (kind) headers["content-type"] = kind.value;
    try {
      const told = await fetch(address + (query.size ? `?${query}` : ""), {method: method.toUpperCase(), headers, body: body ? body.value : undefined});
      const text = await told.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is no JSON */ }
      answer.textContent = `${told.status}\n${shown.slice(0, 20000)}`;
    } catch (error) { answer.textContent = String(error); }
    answer.hidden = false;
  });
  made.append(form, answer);
  return made;
}

async function start() {
  const about = await (await fetch("/openapi.json")).json();
  const main = document.getElementById("requests");
  for (const [path, operations] of Object.entries(about.paths)) {
    for (const [method, told] of Object.entries(operations)) {
      if (method !== "parameters") main.append(card(path, method, told, operations.parameters || []));
    }
  }
  document.documentElement.dataset.ready = "yes";
}
start().catch(error => { document.getElementById("notice").textContent = String(error); });
