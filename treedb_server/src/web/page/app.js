// The page: what it shows and when it asks for it.
import { LoggedOut, ask, askOtherTabs, bytes, command, count, duration, failure, h, keepSecret, listing, micros, more, number, short, table } from "./dom.js";
import { chart } from "./chart.js";
import { show } from "./results.js";

const EVERY = 2000;
// Each costs a request: more are shown when they are asked for.
const COLLECTIONS = 200;
const PROFILERS = 100;
// Entries of profilers that are shown, and that each database is asked for.
const KEPT = 200;
const OF_EACH = 100;
const SPAN = 10 * 60 * 1000;
const main = document.getElementById("main");
const samples = [];
let session = null;
let database = sessionStorage.getItem("database") ?? "";
let timer = 0;
// What belongs to a view that is no longer shown is not drawn.
let view = 0;

function problem(error) {
  return h("div", { class: "error", role: "alert" }, error.message);
}

// ---- who it is

// Nothing is left to who logs in next.
function forget() {
  last = "";
  close = () => {};
  session = null;
  samples.length = 0;
  sessionStorage.clear();
}

function login(message) {
  clearTimeout(timer);
  view += 1;
  forget();
  document.getElementById("nav").hidden = true;
  document.getElementById("logout").hidden = true;
  document.getElementById("who").textContent = "";
  const field = (label, name, type, value, complete) => h("label", {}, label, h("input", { name, type, value, autocomplete: complete, required: true }));
  const form = h("form", { class: "card login", onsubmit: async (event) => {
    event.preventDefault();
    const { user, password, database } = form.elements;
    form.querySelector("button").disabled = true;
    try {
      const { secret, ...who } = await ask("/api/login", { user: user.value, password: password.value, database: database.value });
      keepSecret(secret);
      session = who;
      await begin();
    } catch (error) {
      login(error.message);
    }
  } },
  h("h2", {}, "Log in"),
  field("User", "user", "text", "", "username"),
  field("Password", "password", "password", "", "current-password"),
  field("Database of the user", "database", "text", "admin", "off"),
  h("button", { class: "main" }, "Log in"),
  message ? h("div", { class: "error", role: "alert" }, message) : "");
  main.replaceChildren(form);
  form.elements.user.focus();
}

document.getElementById("logout").addEventListener("click", async () => {
  close();
  await ask("/api/logout").catch(() => {});
  forget();
  start();
});

// ---- overview

async function sample(unattended) {
  const status = await command("admin", { serverStatus: 1 }, { unattended });
  const latencies = Object.fromEntries(Object.entries(status.opLatencies).map(([kind, { latency, ops }]) => [kind, { micros: number(latency), ops: number(ops) }]));
  samples.push({ time: Date.now(), up: number(status.uptimeMillis), latencies });
  while (samples.length && Date.now() - samples[0].time > SPAN + EVERY) samples.shift();
  return status;
}

// What happened between each two samples, a second or an operation.
function rates(kind, of) {
  return samples.slice(1).map((now, index) => {
    const before = samples[index];
    // The server has been started again.
    if (now.up < before.up) return null;
    const ops = now.latencies[kind].ops - before.latencies[kind].ops;
    if (of === "ops") return ops / ((now.time - before.time) / 1000);
    return ops > 0 ? (now.latencies[kind].micros - before.latencies[kind].micros) / ops : null;
  });
}

function tile(label, value, note = "") {
  return h("div", { class: "tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note));
}

async function overview(mine, unattended = false) {
  let status;
  let running = [];
  try {
    status = await sample(unattended);
    running = (await command("admin", { currentOp: 1, $ownOps: false }, { unattended })).inprog.filter((op) => op.appName !== "TreeDB web page");
  } catch (error) {
    if (error instanceof LoggedOut) return login("");
    if (mine === view) main.replaceChildren(problem(error));
    if (mine === view) timer = setTimeout(() => overview(mine, true), EVERY);
    return;
  }
  if (mine !== view) return;
  const rate = (value) => (value >= 10 || value === 0 ? count(value) : value.toFixed(1));
  const kinds = [["reads", "one"], ["writes", "two"], ["commands", "three"]];
  const times = samples.slice(1).map(({ time }) => time);
  const lines = (of) => kinds.map(([name, kind]) => ({ name, kind, values: rates(name, of) }));
  const throughput = lines("ops");
  const now = throughput.reduce((sum, line) => sum + (line.values.at(-1) ?? 0), 0);
  const documents = status.metrics.document;
  main.replaceChildren(
    h("div", { class: "tiles" },
      tile("Operations a second", rate(now), `${count(status.network.numRequests)} since the start`),
      tile("Connections", count(status.connections.current), `${count(status.connections.active)} active, ${count(status.connections.available)} more allowed`),
      tile("Open cursors", count(status.metrics.cursor.open.total), `${count(status.transactions.currentOpen)} open transactions`),
      tile("Documents returned", count(documents.returned), `${count(documents.inserted)} inserted, ${count(documents.updated)} updated`),
      tile("Memory", bytes(number(status.mem.resident) * 1048576), "resident"),
      tile("Files", bytes(status.treedb.diskBytes), "pages, logs and values"),
      tile("Running for", duration(number(status.uptime)), `version ${status.treedb.version}`)),
    h("div", { class: "pair" },
      chart("Throughput, operations a second", throughput, times, SPAN, rate),
      chart("Latency, average of an operation", lines("latency"), times, SPAN, micros)),
    h("section", { class: "card" }, h("h2", {}, "Running now"),
      running.length ? table([
        { title: "Operation", value: (op) => op.op ?? "" },
        { title: "Namespace", value: (op) => op.ns ?? "", mono: true },
        { title: "For", number: true, value: (op) => micros(number(op.microsecs_running)) },
        { title: "Client", value: (op) => op.appName ?? op.client ?? op.desc ?? "" },
        { title: "Command", value: (op) => JSON.stringify(op.command), mono: true },
      ], running) : h("p", { class: "muted" }, "nothing but this page")));
  timer = setTimeout(() => overview(mine, true), EVERY);
}

// ---- collections

async function databases() {
  const all = (await command("admin", { listDatabases: 1 })).databases;
  if (!all.some(({ name }) => name === database)) database = all.find(({ name }) => !["admin", "config", "local"].includes(name))?.name ?? "test";
  return all;
}

function use(name) {
  database = name;
  sessionStorage.setItem("database", name);
}

async function collections(mine, opened = null, most = COLLECTIONS) {
  const all = await databases();
  const names = all.map(({ name }) => name);
  const found = names.includes(database) ? await listing(database, { listCollections: 1 }) : [];
  const tables = found.filter(({ type }) => type !== "view").sort((a, b) => a.name.localeCompare(b.name));
  const rows = await Promise.all(tables.slice(0, most).map(async ({ name }) => {
    const stats = await command(database, { collStats: name }).catch(() => ({}));
    return { name, stats };
  }));
  rows.sort((a, b) => number(b.stats.size) - number(a.stats.size) || a.name.localeCompare(b.name));
  const list = all.map(({ name, sizeOnDisk }) => h("button", { "aria-pressed": String(name === database), onclick: () => { use(name); go(); } },
    name, h("span", { class: "muted small" }, bytes(sizeOnDisk))));
  const indexes = opened ? await usage(opened) : null;
  if (mine !== view) return;
  const views = found.filter(({ type }) => type === "view");
  main.replaceChildren(h("div", { class: "split" },
    h("section", { class: "card list" }, h("h2", {}, "Databases"), list.length ? list : h("p", { class: "muted" }, "none yet")),
    h("div", {},
      h("section", { class: "card" }, h("h2", {}, `Collections of ${database}`),
        rows.length ? table([
          { title: "Collection", value: ({ name }) => name, mono: true },
          { title: "Documents", number: true, value: ({ stats }) => count(stats.count) },
          { title: "Size", number: true, value: ({ stats }) => bytes(stats.size) },
          { title: "Average", number: true, value: ({ stats }) => bytes(stats.avgObjSize) },
          { title: "On disk", number: true, value: ({ stats }) => bytes(stats.storageSize) },
          { title: "Indexes", number: true, value: ({ stats }) => `${count(stats.nindexes)}, ${bytes(stats.totalIndexSize)}` },
        ], rows, ({ name }) => collections(view, name, most).catch(broken)) : h("p", { class: "muted" }, "no collections"),
        more(tables.length - rows.length, COLLECTIONS, "collections, whose names come after these", () => collections(view, opened, most + COLLECTIONS).catch(broken)),
        rows.length && !opened ? h("p", { class: "muted small" }, "Choose a collection to see its indexes and how often they are used.") : "",
        views.length ? h("p", { class: "muted small" }, `Views: ${views.map(({ name }) => name).join(", ")}`) : ""),
      indexes)));
}

async function usage(collection) {
  const stats = await command(database, { collStats: collection });
  const used = await command(database, { aggregate: collection, pipeline: [{ $indexStats: {} }], cursor: {} })
    .then(({ cursor }) => cursor.firstBatch, (error) => error);
  const listed = (await command(database, { listIndexes: collection, cursor: {} })).cursor.firstBatch;
  const uses = (name) => {
    if (used instanceof Error) return h("span", { class: "pill" }, "not permitted");
    const found = used.find((one) => one.name === name);
    const ops = number(found?.accesses?.ops);
    return h("span", { class: `pill ${ops ? "used" : name === "_id_" ? "" : "unused"}` }, ops ? `${count(ops)} times` : "never");
  };
  const kind = (index) => ["unique", "sparse", "partialFilterExpression", "expireAfterSeconds", "hidden"]
    .filter((option) => index[option]).map((option) => (option === "partialFilterExpression" ? "partial" : option === "expireAfterSeconds" ? "TTL" : option)).join(", ");
  return h("section", { class: "card", id: "indexes" }, h("h2", {}, `Indexes of ${collection}`), table([
    { title: "Index", value: ({ name }) => name, mono: true },
    { title: "Keys", value: ({ key }) => JSON.stringify(key), mono: true },
    { title: "", value: kind },
    { title: "Size", number: true, value: ({ name }) => bytes(stats.indexSizes?.[name]) },
    { title: "Used since the start", value: ({ name }) => uses(name) },
  ], listed));
}

// ---- slow operations

async function slow(mine, most = PROFILERS) {
  const all = (await databases()).map(({ name }) => name).filter((name) => !["config", "local"].includes(name));
  const names = all.slice(0, most);
  const profiled = await Promise.all(names.map(async (name) => {
    const level = await command(name, { profile: -1 }).catch(() => null);
    const kept = await command(name, { find: "system.profile", sort: { $natural: -1 }, limit: OF_EACH, batchSize: OF_EACH }).then(({ cursor }) => cursor.firstBatch, () => []);
    return { name, level: level && number(level.was), slowms: level && number(level.slowms), kept };
  }));
  const lines = await command("admin", { getLog: "global" }).then(({ log }) => log.filter((line) => line.includes("slow operation")).slice(-100).reverse().map((line) => JSON.parse(line)), () => []);
  if (mine !== view) return;
  const kept = profiled.flatMap((one) => one.kept).sort((a, b) => short(b.ts).localeCompare(short(a.ts)));
  const levels = profiled.filter(({ level }) => level !== null);
  const choose = ({ name, level }) => h("label", { class: "bar small" }, h("span", { class: "mono" }, name),
    h("select", { onchange: async (event) => {
      await command(name, { profile: Number(event.target.value) }).then(go, broken);
    } }, ["nothing", "slow ones", "everything"].map((label, value) => h("option", { value, selected: value === level }, label))));
  main.replaceChildren(
    h("section", { class: "card" }, h("h2", {}, "Kept by the profiler"),
      h("p", { class: "muted small" }, `An operation is slow from ${levels[0]?.slowms ?? "?"} ms on. The profiler of a database keeps:`),
      h("div", { class: "bar" }, levels.map(choose)),
      more(all.length - names.length, PROFILERS, "databases, of which nothing is shown below", () => slow(view, most + PROFILERS).catch(broken)),
      kept.length > KEPT ? h("p", { class: "muted small" }, `The newest ${count(KEPT)} of ${count(kept.length)}, and of each database the newest ${count(OF_EACH)} at most.`) : "",
      kept.length ? table([
        { title: "When", value: ({ ts }) => short(ts).replace("T", " ").replace(/(\.\d+)?Z$/, "") },
        { title: "Took", number: true, value: ({ millis }) => `${count(millis)} ms` },
        { title: "Operation", value: ({ op }) => op },
        { title: "Namespace", value: ({ ns }) => ns, mono: true },
        { title: "Plan", value: ({ planSummary }) => planSummary ?? "", mono: true },
        { title: "Returned", number: true, value: ({ nreturned }) => (nreturned === undefined ? "" : count(nreturned)) },
        { title: "Command", value: (entry) => JSON.stringify(entry.command), mono: true },
      ], kept.slice(0, KEPT)) : h("p", { class: "muted" }, "nothing yet")),
    h("section", { class: "card" }, h("h2", {}, "In the log"),
      lines.length ? table([
        { title: "When", value: ({ t }) => short(t).replace("T", " ").replace(/(\.\d+)?Z$/, "") },
        { title: "Took", number: true, value: ({ attr }) => `${count(attr.millis)} ms` },
        { title: "Command", value: ({ attr }) => attr.command },
        { title: "Namespace", value: ({ attr }) => attr.namespace, mono: true },
        { title: "Plan", value: ({ attr }) => attr.plan ?? "", mono: true },
        { title: "Returned", number: true, value: ({ attr }) => (attr.returned === undefined ? "" : count(attr.returned)) },
        { title: "Answer", number: true, value: ({ attr }) => bytes(attr.bytes) },
        { title: "Connection", value: ({ ctx }) => ctx },
      ], lines) : h("p", { class: "muted" }, "no slow operations, or your roles do not show the log")));
}

// ---- query

// In memory only, and not longer than the log-in: statements may have passwords in them.
let last = "";
// Closes the cursor of the result that is shown.
let close = () => {};

async function query(mine) {
  const all = await databases();
  if (mine !== view) return;
  const names = [...new Set([...all.map(({ name }) => name), database])];
  const chosen = h("select", { "aria-label": "Database", onchange: () => use(chosen.value) }, names.map((name) => h("option", { value: name, selected: name === database }, name)));
  const text = h("textarea", { id: "statement", spellcheck: false, value: last, placeholder: "db.films.find({year: {$gt: 1990}}).sort({year: -1})", "aria-label": "Statement" });
  const place = h("div", { id: "results" });
  const took = h("span", { class: "muted small" });
  let running = null;
  const run = async (explain) => {
    if (running) return running.abort();
    const statement = text.value;
    last = statement;
    close();
    close = () => {};
    running = new AbortController();
    go.textContent = "Stop";
    const began = performance.now();
    try {
      const answer = await ask("/api/statement", { database: chosen.value, text: statement, explain }, { signal: running.signal });
      if (!answer.reply) {
        place.replaceChildren(h("div", { class: "error", role: "alert" }, answer.message));
        if ("at" in answer) {
          text.focus();
          text.setSelectionRange(answer.at, answer.at + 1);
        }
      } else if (number(answer.reply.ok) !== 1) {
        place.replaceChildren(problem(failure(answer.reply)));
      } else {
        close = show(place, answer);
      }
    } catch (error) {
      if (error instanceof LoggedOut) return login("");
      place.replaceChildren(problem(error.name === "AbortError" ? new Error("stopped") : error));
    } finally {
      running = null;
      go.textContent = "Run";
      took.textContent = `${(performance.now() - began).toFixed(0)} ms`;
    }
  };
  const go = h("button", { class: "main", id: "run", onclick: () => run(false) }, "Run");
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run(false);
    }
  });
  main.replaceChildren(
    h("section", { class: "card" },
      h("div", { class: "bar" }, chosen, h("span", { class: "muted small" }, "The statements are those of treedb shell. Ctrl+Enter runs them."), h("span", { class: "space" }), took),
      text,
      h("div", { class: "bar" }, go, h("button", { id: "explain", onclick: () => run(true) }, "Explain"))),
    h("section", { class: "card" }, place));
  place.append(h("p", { class: "muted" }, "Results are shown here."));
  text.focus();
}

// ---- which of them

const VIEWS = { overview, collections, slow, query };

function broken(error) {
  if (error instanceof LoggedOut) login("");
  else main.replaceChildren(problem(error));
}

function go() {
  clearTimeout(timer);
  view += 1;
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "overview";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  VIEWS[name](view).catch(broken);
}

async function begin() {
  document.getElementById("server").textContent = session.name;
  document.title = `TreeDB: ${session.name}`;
  document.getElementById("nav").hidden = false;
  const user = session.user?.authenticatedUsers[0];
  document.getElementById("who").textContent = session.authentication ? (user ? `${user.user}@${user.db}` : "") : "read-only: this server has no authentication";
  document.getElementById("logout").hidden = !session.authentication;
  go();
}

async function start() {
  try {
    session = await ask("/api/session");
    if (session.authentication && !session.user && await askOtherTabs()) session = await ask("/api/session");
    document.getElementById("server").textContent = session.name;
    if (session.authentication && !session.user && session.message) main.replaceChildren(problem(session));
    else if (session.authentication && !session.user) login("");
    else await begin();
  } catch (error) {
    main.replaceChildren(problem(error));
  }
}

window.addEventListener("hashchange", () => session && (session.user || !session.authentication) && go());
start();
