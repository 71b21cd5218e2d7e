// Elements, requests and how values are written.

// An element. Texts become text nodes: nothing of a document is ever read as HTML.
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key.includes("-") || key === "for") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// An element of a picture.
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat());
  return element;
}

// Reads JSON. Whole numbers that JavaScript's have not enough digits for stay texts: those of cursors, for one.
export function read(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const exact = (token) => (token[0] !== '"' && /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `{"$numberLong":"${token}"}` : token);
  return JSON.parse(text.replace(tokens, exact));
}

export class LoggedOut extends Error {}

// The second half of a log-in: unlike the cookie, no server on another port of this host gets it. It outlives a reload of the page; other
// tabs of the page are told it when they ask.
const SECRET = "secret";
const tabs = new BroadcastChannel("treedb");
tabs.addEventListener("message", ({ data }) => {
  const secret = sessionStorage.getItem(SECRET);
  if (data === "secret?" && secret) tabs.postMessage({ secret });
});

export function keepSecret(secret) {
  sessionStorage.setItem(SECRET, secret);
}

// Whether another tab has told its secret.
export function askOtherTabs() {
  return new Promise((resolve) => {
    const answered = ({ data }) => {
      if (!data.secret) return;
      keepSecret(data.secret);
      done(true);
    };
    const done = (found) => {
      clearTimeout(waiting);
      tabs.removeEventListener("message", answered);
      resolve(found);
    };
    const waiting = setTimeout(done, 300, false);
    tabs.addEventListener("message", answered);
    tabs.postMessage("secret?");
  });
}

// Asks the server. What is not a number in JavaScript stays the object that extended JSON makes of it. What nobody
// has asked for (`unattended`) does not keep the log-in alive.
export async function ask(path, body = {}, { signal = undefined, unattended = false } = {}) {
  let response;
  const headers = { "Content-Type": "application/json" };
  const secret = sessionStorage.getItem(SECRET);
  if (secret) headers["TreeDB-Session"] = secret;
  if (unattended) headers["TreeDB-Unattended"] = "1";
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer");
  }
  const text = await response.text();
  let answer;
  try {
    answer = read(text);
  } catch {
    throw new Error(text.trim() || `the server answers with status ${response.status}`);
  }
  if (response.status === 401 && path !== "/api/login") throw new LoggedOut(answer.message);
  if (!response.ok) throw new Error(answer.message ?? text);
  return answer;
}

// Runs a command; an error of it is thrown.
export async function command(database, body, options = {}) {
  const reply = await ask("/api/command", { database, command: body }, options);
  if (number(reply.ok) !== 1) throw failure(reply);
  return reply;
}

// The id of a cursor as a command takes it: one with few digits has become a number.
export function cursorId(id) {
  return typeof id === "number" ? { $numberLong: String(id) } : id;
}

// Everything that a command lists, batch after batch.
export async function listing(database, body) {
  let { cursor } = await command(database, { ...body, cursor: { batchSize: 1000 } });
  const all = cursor.firstBatch;
  const collection = cursor.ns.slice(database.length + 1);
  while (number(cursor.id) !== 0) {
    ({ cursor } = await command(database, { getMore: cursorId(cursor.id), collection, batchSize: 1000 }));
    all.push(...cursor.nextBatch);
  }
  return all;
}

// How much is not shown, and a button that shows up to `step` more of it; nothing if there is no more.
export function more(hidden, step, what, show) {
  if (hidden <= 0) return "";
  return h("p", { class: "bar small more" }, h("span", { class: "muted" }, `${count(hidden)} more ${what}`),
    h("button", { onclick: show }, `Show ${count(Math.min(hidden, step))} more`));
}

export function failure(reply) {
  return new Error(`${reply.codeName ?? "Error"} (${reply.code}): ${reply.errmsg}`);
}

// A number, of whatever kind it is in BSON.
export function number(value) {
  if (typeof value === "number") return value;
  if (value && typeof value === "object") {
    for (const kind of ["$numberLong", "$numberDouble", "$numberInt", "$numberDecimal"]) {
      if (kind in value) return Number(value[kind]);
    }
  }
  return 0;
}

const THOUSANDS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(n) {
  return THOUSANDS.format(number(n));
}

export function bytes(n) {
  let value = number(n);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

export function micros(n) {
  if (n >= 1e6) return `${(n / 1e6).toFixed(2)} s`;
  if (n >= 1e3) return `${(n / 1e3).toFixed(n >= 1e5 ? 0 : 1)} ms`;
  return `${n.toFixed(0)} µs`;
}

export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  const [length, unit] = parts[first];
  const whole = Math.floor(seconds / length);
  const next = parts[first + 1];
  const rest = next ? Math.floor((seconds - whole * length) / next[0]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
}

// A value in one line, as the shell writes it.
export function short(value) {
  if (value === null || value === undefined) return value === null ? "null" : "";
  if (typeof value !== "object") return typeof value === "string" ? value : String(value);
  if ("$oid" in value) return value.$oid;
  if ("$date" in value) return typeof value.$date === "string" ? value.$date : String(number(value.$date));
  if ("$numberDecimal" in value || "$numberLong" in value || "$numberDouble" in value) return String(Object.values(value)[0]);
  if ("$uuid" in value) return value.$uuid;
  return JSON.stringify(value);
}

// A table of rows; columns are {title, value(row), number?, mono?}.
export function table(columns, rows, choose = null) {
  const head = columns.map((column) => h("th", { class: column.number ? "number" : "" }, column.title));
  const body = rows.map((row) => {
    const cells = columns.map((column) => {
      const value = column.value(row);
      const kind = `${column.number ? "number" : ""} ${column.mono ? "mono" : ""}`.trim();
      const content = typeof value === "string" && !column.number ? h("span", { class: "long", title: value }, value) : value;
      return h("td", { class: kind }, content ?? "");
    });
    return h("tr", choose ? { class: "choice", onclick: () => choose(row) } : {}, cells);
  });
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}
