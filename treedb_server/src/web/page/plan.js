// The plan of a query as a picture: a tree of stages, the result at the top.
import { count, h, number, short, svg } from "./dom.js";

const WIDTH = 236;
const GAP = 22;
const LINE = 17;
const DOWN = 34;

// The stages of an explain's reply as {title, details, kind, children}; null if it has none.
export function tree(reply) {
  if (Array.isArray(reply.stages)) {
    // Each stage of a pipeline reads what the one before it returns.
    return reply.stages.reduce((below, stage) => {
      const [name, body] = Object.entries(stage)[0];
      if (name === "$cursor") return found(body) ?? below;
      const details = [];
      if ("nReturned" in stage) details.push(`returned ${count(stage.nReturned)}`);
      const text = JSON.stringify(body);
      if (text !== "{}") details.push(text);
      return { title: name, details, kind: "", children: below ? [below] : [] };
    }, null);
  }
  return found(reply);
}

// What the whole query has cost, if it was run.
export function summary(reply) {
  const cursor = reply.stages?.find((stage) => stage.$cursor)?.$cursor;
  const stats = reply.executionStats ?? cursor?.executionStats;
  if (!stats) return "not run";
  const read = `read ${count(stats.totalKeysExamined)} keys and ${count(stats.totalDocsExamined)} documents`;
  return `returned ${count(stats.nReturned)}, ${read}, ${count(stats.executionTimeMillis)} ms`;
}

function found(reply) {
  const executed = reply.executionStats?.executionStages;
  const planned = reply.queryPlanner?.winningPlan;
  return executed ? node(executed) : planned ? node(planned) : null;
}

function node(stage) {
  const details = [];
  if (stage.indexName) details.push(`index ${stage.indexName}`);
  for (const [field, ranges] of Object.entries(stage.indexBounds ?? {})) details.push(`${field}: ${[ranges].flat().map(short).join(", ")}`);
  if (stage.sortPattern) details.push(`by ${JSON.stringify(stage.sortPattern)}`);
  if (stage.filter && Object.keys(stage.filter).length) details.push(`where ${JSON.stringify(stage.filter)}`);
  if ("limitAmount" in stage) details.push(`at most ${count(stage.limitAmount)}`);
  const read = [];
  if ("keysExamined" in stage && number(stage.keysExamined)) read.push(`${count(stage.keysExamined)} keys`);
  if ("docsExamined" in stage && number(stage.docsExamined)) read.push(`${count(stage.docsExamined)} documents`);
  if (read.length) details.push(`read ${read.join(", ")}`);
  if ("nReturned" in stage) details.push(`returned ${count(stage.nReturned)}`);
  const children = [stage.inputStage, ...(stage.inputStages ?? [])].filter(Boolean).map(node);
  const kind = /SCAN|HIT|IDHACK|COUNT_|DISTINCT_|TEXT|VECTOR/.test(stage.stage) ? (stage.stage === "COLLSCAN" ? "bad" : "good") : "";
  return { title: stage.stage ?? "?", details, kind, children };
}

function place(at, depth, left, all, levels) {
  const height = 30 + at.details.length * LINE;
  levels[depth] = Math.max(levels[depth] ?? 0, height);
  let width = 0;
  const children = at.children.map((child) => {
    const placed = place(child, depth + 1, left + width, all, levels);
    width += placed.width + GAP;
    return placed;
  });
  width = Math.max(WIDTH, width - GAP);
  const x = children.length ? (children[0].x + children.at(-1).x) / 2 : left + (width - WIDTH) / 2;
  const placed = { at, depth, x: Math.max(x, left), width, height, children };
  all.push(placed);
  return placed;
}

function cut(text, most = 33) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function picture(root) {
  const all = [];
  const levels = [];
  const placed = place(root, 0, 1, all, levels);
  const tops = levels.map((_, depth) => levels.slice(0, depth).reduce((sum, height) => sum + height + DOWN, 1));
  const height = tops.at(-1) + levels.at(-1) + 1;
  const width = placed.width + 2;
  const drawn = svg("svg", { class: "plan", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "the plan" });
  for (const { at, depth, x, height: own, children } of all) {
    for (const child of children) {
      const [fromX, fromY] = [child.x + WIDTH / 2, tops[child.depth]];
      const [toX, toY] = [x + WIDTH / 2, tops[depth] + own];
      const middle = (fromY + toY) / 2;
      drawn.append(svg("path", { d: `M${fromX},${fromY}C${fromX},${middle} ${toX},${middle} ${toX},${toY}` }));
    }
    const group = svg("g", { class: `stage ${at.kind}`, transform: `translate(${x},${tops[depth]})` });
    group.append(svg("title", {}, [at.title, ...at.details].join("\n")), svg("rect", { width: WIDTH, height: own, rx: 8 }));
    group.append(svg("text", { class: "title", x: 12, y: 21 }, at.title));
    at.details.forEach((detail, index) => {
      group.append(svg("text", { class: "detail", x: 12, y: 21 + LINE * (index + 1) }, cut(detail)));
    });
    drawn.append(group);
  }
  return h("div", { class: "scroll" }, drawn);
}
