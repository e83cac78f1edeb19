// Memory over time, one small picture per kernel on common axes: what is backed, and what of that was never touched.

const MULTIPLE_HEIGHT = 84;

// Kernels whose memory was sampled often enough for a line.
const hasHistory = (row) => (row.memory || []).length > 1;

// Nothing is backed before the first instruction.
const historyOf = (row) => [{ instructions: 0, backed_bytes: 0, touched_bytes: 0 }, ...row.memory];

function multipleFrame(rows, width) {
  const samples = rows.flatMap((row) => row.memory);
  const most = Math.max(1, ...samples.map((sample) => sample.backed_bytes));
  const end = Math.max(1, ...samples.map((sample) => sample.instructions));
  const [left, top] = [2, 8];
  return {
    left, top, most, end, width: width - 2 * left, bottom: top + MULTIPLE_HEIGHT,
    x: (instructions) => left + (width - 2 * left) * instructions / end,
    y: (memory) => top + MULTIPLE_HEIGHT * (1 - memory / most),
  };
}

function multipleLines(frame, history) {
  const points = (of) => history.map((sample) => `${frame.x(sample.instructions).toFixed(1)} ${frame.y(of(sample)).toFixed(1)}`);
  const backedLine = points((sample) => sample.backed_bytes);
  const touchedLine = points((sample) => sample.touched_bytes);
  const last = frame.x(history[history.length - 1].instructions).toFixed(1);
  return [
    svg("path", { class: "in-use", d: `M${touchedLine.join("L")}L${last} ${frame.bottom}L${frame.left} ${frame.bottom}Z` }),
    svg("path", { class: "untouched", d: `M${backedLine.join("L")}L${[...touchedLine].reverse().join("L")}Z` }),
    svg("path", { class: "backed", d: `M${backedLine.join("L")}` }),
  ];
}

function multiple(frame, row, width) {
  const history = historyOf(row);
  const last = history[history.length - 1];
  const killed = killedAt(row) !== undefined;
  const show = (event) => {
    const at = (event.clientX - event.currentTarget.getBoundingClientRect().left - frame.left) / frame.width * frame.end;
    const nearest = history.reduce((a, b) => Math.abs(b.instructions - at) < Math.abs(a.instructions - at) ? b : a);
    showTooltip(event, row.policy, [`after ${count(nearest.instructions)} instructions`, `${bytes(nearest.backed_bytes)} backed`,
      `${bytes(nearest.backed_bytes - nearest.touched_bytes)} never touched`]);
  };
  const height = frame.bottom + 20;
  const highest = Math.max(...history.map((sample) => sample.backed_bytes));
  const wasted = Math.max(...history.map((sample) => sample.backed_bytes - sample.touched_bytes));
  const text = `${row.policy}: at most ${bytes(highest)} backed and ${bytes(wasted)} never touched`;
  const x = frame.x(last.instructions);
  const flip = x > frame.width / 2;
  return el("figure", {},
    el("figcaption", { title: row.policy }, shorten(row.policy, Math.floor(width / LETTER_WIDTH)),
      el("span", { class: "sub" }, `at most ${bytes(highest)}, ${bytes(wasted)} untouched`)),
    el("div", { class: "chart", style: `height:${height}px` }, svg("svg", { width, height, role: "img", "aria-label": text,
      onpointermove: show, onpointerleave: hideTooltip },
    svg("rect", { class: "ground", x: frame.left, y: frame.top, width: frame.width, height: MULTIPLE_HEIGHT }),
    svg("line", { class: "grid", x1: frame.left, x2: frame.left + frame.width, y1: frame.top, y2: frame.top }),
    multipleLines(frame, history),
    killed ? [svg("line", { class: "mark", x1: x, x2: x, y1: frame.top, y2: frame.bottom }),
      svg("text", { x: x + (flip ? -5 : 5), y: frame.top + 14, "text-anchor": flip ? "end" : "start", class: "strong" }, "killed")] : null,
    svg("line", { class: "axis", x1: frame.left, x2: frame.left + frame.width, y1: frame.bottom, y2: frame.bottom }),
    svg("text", { x: frame.left, y: frame.bottom + 15, class: "faint" }, "0"),
    svg("text", { x: frame.left + frame.width, y: frame.bottom + 15, "text-anchor": "end", class: "faint" },
      `${count(frame.end)} instructions`))));
}

function showMemory(process) {
  const place = byId("memory");
  const groups = kernelGroups(process).map(([machine, rows]) => [machine, rows.filter(hasHistory)])
    .filter(([, rows]) => rows.length > 0);
  place.hidden = groups.length === 0;
  if (place.hidden) return;
  const full = place.clientWidth;
  const columns = Math.max(1, Math.floor((full + 24) / 264));
  const width = Math.floor((full - 24 * (columns - 1)) / columns);
  const key = (look, text) => el("span", { class: "entry" }, el("span", { class: `key ${look}` }), text);
  place.replaceChildren(...groups.flatMap(([machine, rows]) => {
    const frame = multipleFrame(rows, width);
    return [el("h3", {}, `Memory over time, on ${machine}`),
      el("div", { class: "legend" }, key("in-use", "backed and touched"), key("untouched", "backed and never touched")),
      el("div", { class: "multiples", style: `grid-template-columns:repeat(${columns},${width}px)` },
        rows.map((row) => multiple(frame, row, width))),
      el("p", { class: "lead" }, `All on one scale: the line at the top is ${bytes(frame.most)}.`)];
  }));
}
