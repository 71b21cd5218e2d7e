// Lines over the last minutes.
import { h, svg } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 190;
const LEFT = 52;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;

// A limit of the axis that is easy to read.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= value);
}

// A chart of `lines` ({name, kind, values}) at `times`, in milliseconds; of the last `span` of them.
export function chart(title, lines, times, span, format) {
  const now = times.at(-1) ?? 0;
  const top = ceiling(Math.max(0, ...lines.flatMap((line) => line.values.filter((value) => value !== null))));
  const x = (time) => LEFT + (WIDTH - LEFT - RIGHT) * (1 - (now - time) / span);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (const part of [0, 0.5, 1]) {
    picture.append(
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(top * part), y2: y(top * part) }),
      svg("text", { x: LEFT - 8, y: y(top * part) + 4, "text-anchor": "end" }, format(top * part)),
    );
  }
  const minutes = span / 60000;
  for (const part of [1, 0.5, 0]) {
    const label = part === 0 ? "now" : `-${minutes * part} min`;
    const anchor = part === 1 ? "start" : part === 0 ? "end" : "middle";
    picture.append(svg("text", { x: x(now - span * part), y: HEIGHT - 5, "text-anchor": anchor }, label));
  }
  for (const line of lines) {
    // A line has a gap where nothing was measured.
    let path = "";
    let area = "";
    let begun = null;
    const close = (at) => {
      if (begun !== null && at !== null) area += `L${at},${y(0)}L${begun},${y(0)}Z`;
      begun = null;
    };
    let last = null;
    times.forEach((time, index) => {
      const value = line.values[index];
      if (value === null || now - time > span) return close(last);
      const point = `${x(time).toFixed(1)},${y(value).toFixed(1)}`;
      path += `${begun === null ? "M" : "L"}${point}`;
      area += `${begun === null ? "M" : "L"}${point}`;
      if (begun === null) begun = x(time).toFixed(1);
      last = x(time).toFixed(1);
    });
    close(last);
    picture.append(svg("path", { class: `area ${line.kind}`, d: area }), svg("path", { class: line.kind, d: path }));
  }
  const legend = lines.map((line) => {
    const value = line.values.at(-1);
    return h("span", {}, h("i", { class: line.kind }), `${line.name} `, h("b", {}, value === null || value === undefined ? "–" : format(value)));
  });
  return h("section", { class: "card" }, h("h2", {}, title), picture, h("div", { class: "legend" }, legend));
}
