// The page: forms make a story, the worker answers what the model makes of it.
// Nothing that comes from a story becomes markup: text is text, and the picture is parsed as SVG.

const MOST_SECONDS = 60; // of one answer, once Python runs
const OTHER = "another machine…";
const $ = (id) => document.getElementById(id);
const texts = { apply: "manifest", configure: "config", "write-state": "state", upgrade: "upgrade" };

let story = null;
let asking = null; // the question that the worker has not answered yet
let worker = null;
let ready = false; // whether Python runs in it
let archive = { name: "", text: "" };

function made(tag, text, ...inside) {
  const one = document.createElement(tag);
  if (text) one.textContent = text;
  one.append(...inside);
  // Rows are laid out as grids on a narrow screen, and stay rows to a screen reader.
  if (tag === "tr" || tag === "td") one.setAttribute("role", tag === "tr" ? "row" : "cell");
  return one;
}

// -- the worker ---------------------------------------------------------------------------------

function start() {
  worker?.terminate();
  ready = false;
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => (data.id ? answered(data) : loaded(data));
  worker.onerror = () => failed("the model cannot be loaded: pyodide/ is missing, or this browser runs no module workers");
}

function loaded({ loading, done }) {
  ready = !loading;
  if (!asking) return;
  $("progress").value = done;
  $("progress").hidden = ready;
  if (ready) asking.timer = setTimeout(tooLong, MOST_SECONDS * 1000);
  else $("status").textContent = loading;
}

let questions = 0;
function ask(question, { then } = {}) {
  if (asking) return;
  asking = { id: ++questions, then, timer: 0 };
  if (ready) asking.timer = setTimeout(tooLong, MOST_SECONDS * 1000);
  document.body.setAttribute("aria-busy", "true");
  worker.postMessage({ id: asking.id, question: JSON.stringify(question) });
}

function tooLong() {
  start();
  failed(`the model took longer than ${MOST_SECONDS} seconds`);
}

function answered({ id, answer, failed: why }) {
  if (!asking || id !== asking.id) return;
  if (typeof answer !== "string") { // what a broken Python answers next is worth nothing
    start();
    return failed(`the model failed: ${(why ?? "it gave no answer").trim().split("\n").at(-1)}`);
  }
  const { then } = asking;
  const found = JSON.parse(answer);
  done();
  $("error").textContent = found.error ?? "";
  if (found.story) show(found);
  if (then) then(found.error, found);
}

function failed(why) {
  done();
  $("progress").hidden = true;
  $("error").textContent = why;
}

function done() {
  for (const button of document.querySelectorAll("button")) button.disabled = false;
  if (asking) clearTimeout(asking.timer);
  asking = null;
  document.body.removeAttribute("aria-busy");
}

// -- what is shown ------------------------------------------------------------------------------

function show(found) {
  story = found.story;
  $("shown").hidden = false;
  $("status").textContent = `${found.head}: ${found.kubelet}${found.recover ? `; to recover: ${found.recover}` : ""}`;
  const last = found.steps.at(-1);
  $("came").textContent = [`${last.does.join("; ")}:`, ...(last.came.length ? last.came : ["nothing changes"])].join("\n");
  $("totals").textContent = found.machine;
  $("notes").replaceChildren(...found.notes.map((note) => made("li", note)));
  $("rows").replaceChildren(...rowsOf(found));
  $("story").replaceChildren(...found.steps.map(stepOf));
  $("file").textContent = found.state ?? "(there is none)";
  $("undo").disabled = !story.steps.length;
  if (!story.config) $("reserved").value = found.reserved;
  draw(found.svg);
  share(found);
}

function draw(svg) {
  const allowed = svg.replace(/^(<svg [^>]*?) style="[^"]*"/, "$1"); // the page's policy forbids it
  const parsed = new DOMParser().parseFromString(allowed, "image/svg+xml");
  const picture = document.importNode(parsed.documentElement, true);
  // It is made as small as its numbers can be read; a large machine is scrolled inside its box.
  picture.style.minWidth = `${0.7 * picture.getAttribute("width")}px`;
  $("picture").replaceChildren(picture);
}

function rowsOf({ rows, pods }) {
  const shown = new Set();
  const lines = rows.map((row) => {
    const first = !shown.has(row.pod);
    shown.add(row.pod);
    const why = made("td", `${row.how} `);
    if (row.words) why.append(made("div", row.words), " ");
    if (row.words) why.lastElementChild.className = "words";
    const rule = made("a", row.rule);
    rule.href = row.source;
    rule.title = row.statement;
    rule.rel = "noopener";
    if (row.rule) why.append("(rule ", rule, ")");
    const name = `${row.pod}${row.container && `/${row.container}`}: ${row.asks}`;
    return made("tr", "", made("td", name), made("td", row.words ? "rejected" : row.cpus), why,
      made("td", "", ...(first ? [deletion(row.pod)] : [])));
  });
  const waiting = pods.filter((pod) => !shown.has(pod));
  return [...lines, ...waiting.map((pod) => made("tr", "", made("td", pod), made("td", "–"),
    made("td", "its manifest is in place; the kubelet shows nothing of it"), made("td", "", deletion(pod))))];
}

function deletion(pod) {
  const button = made("button", "Delete");
  button.type = "button";
  button.setAttribute("aria-label", `Delete pod ${pod}`);
  button.onclick = () => step("delete", pod);
  return button;
}

function stepOf({ does, came }) {
  const inside = came.length ? [made("ul", "", ...came.map((one) => made("li", one)))] : [];
  return made("li", does.join("; "), ...inside);
}

function share(found) {
  const address = new URL(location.href);
  address.hash = found.link;
  history.replaceState(null, "", address);
  $("link").value = found.link ? address.href : found["no link"];
  $("copy").disabled = !found.link;
  $("copied").textContent = "";
}

// -- what is asked ------------------------------------------------------------------------------

function step(kind, text) {
  if (!story) return;
  ask({ story: { ...story, steps: [...story.steps, [kind, text]] } }, { then: (error) => after(kind, error) });
}

function after(kind, error) {
  if (!error && kind === "apply") $("name").value = following($("name").value);
  if (!error && kind === "delete") $("containers").focus(); // the button is gone
  const result = $(error ? "error" : "status"), { top, bottom } = result.getBoundingClientRect();
  const seen = top >= 0 && bottom < innerHeight - 100;
  if (!seen && kind !== "delete") result.scrollIntoView();
}

function following(name) {
  const [, stem, number] = /^(.*?)(\d*)$/.exec(name);
  return number ? `${stem}${Number(number) + 1}` : `${name}2`;
}

function anew() {
  const other = $("machine").value === OTHER;
  const captured = other && archive.name;
  ask({ story: {
    machine: captured ? archive.name : other ? $("shape").value.trim() : $("machine").value,
    archive: captured ? archive.text : "",
    release: $("release").value, config: $("config").value, state: $("state").value, ran: $("ran").value,
  } });
}

function podOf() {
  const kind = $("class").value;
  const cpus = kind === "BestEffort" ? [""] : $("cpu").value.split("+").map((one) => one.trim());
  const names = cpus.length > 1 ? cpus.map((_, at) => `c${at + 1}`) : ["c"];
  const containers = cpus.map((cpu, at) => {
    const amounts = { ...(cpu && { cpu }), ...($("memory").value.trim() && { memory: $("memory").value.trim() }) };
    const resources = { Guaranteed: { limits: amounts }, Burstable: { requests: amounts }, BestEffort: {} }[kind];
    return { name: names[at], resources };
  });
  return JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: $("name").value.trim() }, spec: { containers } });
}

function configOf() {
  const lines = ["apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration", `cpuManagerPolicy: ${$("policy").value}`];
  const reserved = $("reserved").value.trim();
  if (reserved) lines.push(`reservedSystemCPUs: ${JSON.stringify(reserved)}`);
  const options = [...document.querySelectorAll("#options input:checked")].map((one) => `  ${one.value}: "true"`);
  if (options.length) lines.push("cpuManagerPolicyOptions:", ...options);
  if ($("topology").value !== "none") lines.push(`topologyManagerPolicy: ${$("topology").value}`);
  if ($("scope").value !== "container") lines.push(`topologyManagerScope: ${$("scope").value}`);
  if ($("memory-manager").value !== "None") {
    lines.push("memoryManagerPolicy: Static", "reservedMemory:", "- numaNode: 0", "  limits: {memory: 1Gi}");
  }
  const gates = $("gates").value.split(",").map((one) => one.trim().split("=")).filter(([name]) => name);
  if (gates.length) lines.push("featureGates:", ...gates.map(([name, on = "true"]) => `  ${JSON.stringify(name)}: ${on.trim()}`));
  return `${lines.join("\n")}\n`;
}

// -- forms --------------------------------------------------------------------------------------

function offer({ machines, releases, release, policyOptions }) {
  const whys = new Map(machines.map(({ name, why }) => [name, why]));
  const named = machines.map(({ name }) => made("option", name));
  $("machine").append(...named, made("option", OTHER));
  $("machines").append(...machines.map(({ name }) => made("option", name)));
  for (const id of ["release", "upgrade"]) {
    $(id).append(...releases.map((one) => made("option", one)));
    $(id).value = release;
  }
  $("upgrade").selectedIndex = 0;
  $("options").append(...policyOptions.map((name, at) => {
    const box = made("input");
    Object.assign(box, { type: "checkbox", value: name, id: `option-${at}` });
    const label = made("label", "", box, name);
    label.htmlFor = box.id;
    return label;
  }));
  const explain = () => {
    $("why").textContent = whys.get($("machine").value) ?? "";
    $("other").hidden = $("machine").value !== OTHER;
  };
  $("machine").value = whys.has("2s-2n-8c-smt2") ? "2s-2n-8c-smt2" : "2s-2n-16c-smt2";
  $("machine").onchange = explain;
  explain();
  for (const one of document.querySelectorAll("#options input, #policy, #reserved, #topology, #scope, #memory-manager, #gates")) {
    one.onchange = () => { $("config").value = configOf(); };
  }
}

function fill() { // the forms, after a story that came by its link
  const known = [...$("machine").options].some((one) => one.value === story.machine);
  $("machine").value = known && !story.archive ? story.machine : OTHER;
  $("shape").value = known || story.archive ? "" : story.machine;
  archive = { name: story.archive && story.machine, text: story.archive };
  $("machine").onchange();
  for (const name of ["config", "state", "ran"]) $(name).value = story[name];
  choose(story.release);
}

async function capture() {
  const [file] = $("capture").files;
  archive = { name: "", text: "" };
  if (!file) return;
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (const one of bytes) text += String.fromCharCode(one);
  archive = { name: file.name, text: btoa(text) };
  ask({ capture: archive }, { then: (error, { parts }) => { if (!error) take(parts); } });
}

function take(parts) { // a node as it was captured, as far as the archive has it
  for (const name of ["config", "state", "ran"]) if (parts[name]) $(name).value = parts[name];
  choose(parts.release);
  anew();
}

function choose(release) {
  if (!release) return;
  if (![...$("release").options].some((one) => one.value === release)) $("release").append(made("option", release));
  $("release").value = release;
}

function open() {
  ask({ link: location.hash.slice(1) }, { then: (error) => (error ? instead(error) : fill()) });
}

function instead(error) {
  if (story) return;
  anew();
  asking.then = () => { $("error").textContent = error; };
}

function listen() {
  $("node").onsubmit = (event) => { event.preventDefault(); anew(); };
  $("pod").onsubmit = (event) => { event.preventDefault(); step("apply", podOf()); };
  $("capture").onchange = capture;
  for (const button of document.querySelectorAll("[data-step]")) {
    const kind = button.dataset.step, from = button.dataset.from ?? texts[kind];
    button.onclick = () => step(kind, from ? $(from).value : "");
  }
  $("undo").onclick = () => story?.steps.length && ask({ story: { ...story, steps: story.steps.slice(0, -1) } });
  $("copy").onclick = async () => {
    $("link").select();
    const copied = await navigator.clipboard?.writeText($("link").value).then(() => true, () => false);
    $("copied").textContent = copied ? "The link is copied." : "The link is selected: copy it with Ctrl+C.";
  };
  onhashchange = open;
}

async function main() {
  if (location.protocol === "file:") return failed("this folder has to be served over HTTP, as by python -m http.server");
  try {
    const answer = await fetch("choices.json");
    if (!answer.ok) throw new Error(`HTTP status ${answer.status}`);
    offer(await answer.json());
  } catch (error) {
    return failed(`choices.json cannot be loaded: ${error.message}`);
  }
  start();
  listen();
  if (location.hash.length > 1) open();
  else anew();
}

main();
