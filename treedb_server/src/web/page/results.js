// What a statement returned: as a table, as JSON, or as a plan.
import { command, count, cursorId, h, number, short, table } from "./dom.js";
import { picture, summary, tree } from "./plan.js";

// The documents of a reply, if it has some.
function documents(answer) {
  const { reply, show } = answer;
  if (reply.cursor) return reply.cursor.firstBatch ?? reply.cursor.nextBatch ?? [];
  const listed = reply[show];
  return Array.isArray(listed) && listed.every((one) => one && typeof one === "object" && !Array.isArray(one)) ? listed : null;
}

function columns(rows) {
  const names = new Map();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row)) {
      names.set(name, (names.get(name) ?? true) && (typeof value === "number" || value === null));
    }
  }
  return [...names].map(([name, numeric]) => ({ title: name, number: numeric, mono: true, value: (row) => short(row[name]) }));
}

// Shows an answer in `place`; more documents are fetched by a button. Returns what closes its cursor.
export function show(place, answer) {
  const plan = tree(answer.reply);
  const rows = documents(answer);
  const forms = [plan && "Plan", rows && "Table", "JSON"].filter(Boolean);
  let form = forms[0];
  let cursor = answer.reply.cursor ? { id: answer.reply.cursor.id, ns: answer.reply.cursor.ns } : null;
  const all = rows ? [...rows] : null;

  function close() {
    if (!cursor || number(cursor.id) === 0) return;
    const [database, ...collection] = cursor.ns.split(".");
    // If that fails, the server closes it some minutes later.
    command(database, { killCursors: collection.join("."), cursors: [cursorId(cursor.id)] }).catch(() => {});
    cursor = null;
  }

  async function more(event) {
    event.target.disabled = true;
    const [database, ...collection] = cursor.ns.split(".");
    try {
      const reply = await command(database, { getMore: cursorId(cursor.id), collection: collection.join("."), batchSize: 100 });
      all.push(...reply.cursor.nextBatch);
      cursor.id = reply.cursor.id;
    } catch (error) {
      place.append(h("div", { class: "error" }, error.message));
      return;
    }
    draw();
  }

  function draw() {
    const tabs = forms.map((name) => h("button", { "aria-pressed": String(name === form), onclick: () => { form = name; draw(); } }, name));
    const open = cursor && number(cursor.id) !== 0;
    const said = form === "Plan" ? summary(answer.reply) : all ? `${count(all.length)}${open ? "+" : ""} ${all.length === 1 ? "document" : "documents"}` : "";
    const shown = form === "Plan" ? picture(plan)
      : form === "Table" ? (all.length ? table(columns(all), all) : h("p", { class: "muted" }, "no documents"))
      : h("pre", { class: "json" }, all ? all.map((one) => JSON.stringify(one, null, 2)).join("\n") : JSON.stringify(answer.reply, null, 2));
    place.replaceChildren(
      h("div", { class: "bar tabs-bar" }, h("div", { class: "tabs" }, tabs), h("span", { class: "space" }), h("span", { class: "muted small", id: "said" }, said)),
      shown,
      open && form !== "Plan" ? h("p", {}, h("button", { onclick: more }, "More")) : "",
    );
  }
  draw();
  return close;
}
