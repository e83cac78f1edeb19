// Sets as a strip of bars; the chosen one as a graph and a table. A set can be given in the address: #set=97.

// Control characters and marks that turn or hide text are spelt out, as in printable.rs.
const DECEPTIVE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const printable = (text) => text.replace(DECEPTIVE, (c) =>
  ({ "\t": "\\t", "\r": "\\r", "\n": "\\n" })[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);

// The data of the page, with all texts safe to show.
const readData = (id) => JSON.parse(byId(id).textContent,
  (key, value) => typeof value === "string" ? printable(value) : value);

const result = readData("pagewalk-conflicts");
const LEVELS = 5;
const NODES_DRAWN = 8;
const ROWS_DRAWN = 14;

const baseName = (path) => path.slice(path.lastIndexOf("/") + 1) || path;
const pageName = (page) => page.file_offset === null
  ? `${baseName(page.owner)} ${page.start}` : `${baseName(page.owner)}+${page.file_offset}`;

// A page's place on the circle.
function placeOf(index, nodes) {
  const angle = 2 * Math.PI * index / nodes - Math.PI / 2;
  return { x: 285 + 105 * Math.cos(angle), y: 150 + 105 * Math.sin(angle) };
}

// An arrow that bends to its left, so that two in opposite directions stay apart.
function arrow(from, to, width) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const bend = 16;
  const middle = { x: (from.x + to.x) / 2 - bend * dy / length, y: (from.y + to.y) / 2 + bend * dx / length };
  const [ex, ey] = [to.x - middle.x, to.y - middle.y];
  const last = Math.hypot(ex, ey) || 1;
  const size = 5 + width;
  const tip = { x: to.x - 9 * ex / last, y: to.y - 9 * ey / last };
  const back = { x: tip.x - size * ex / last, y: tip.y - size * ey / last };
  const side = { x: -ey / last * size / 2, y: ex / last * size / 2 };
  const points = [tip, { x: back.x + side.x, y: back.y + side.y }, { x: back.x - side.x, y: back.y - side.y }];
  return [
    svg("path", {
      class: "arrow", "stroke-width": width,
      d: `M${from.x.toFixed(1)},${from.y.toFixed(1)}Q${middle.x.toFixed(1)},${middle.y.toFixed(1)} ` +
        `${back.x.toFixed(1)},${back.y.toFixed(1)}`,
    }),
    svg("polygon", { class: "head", points: points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join(" ") }),
  ];
}

function picture(array, graph) {
  const nodes = Math.min(graph.nodes.length, NODES_DRAWN);
  const most = Math.max(1, ...graph.edges.map((edge) => edge.count));
  const largest = Math.max(1, ...graph.nodes.map((node) => node.evicted + node.was_evicted));
  const drawn = graph.edges.filter((edge) => edge.victim < nodes && edge.victimiser < nodes);
  const arrows = [...drawn].reverse().map((edge) =>
    arrow(placeOf(edge.victim, nodes), placeOf(edge.victimiser, nodes), 0.6 + 4.4 * edge.count / most));
  const pages = graph.nodes.slice(0, nodes).map((node, index) => {
    const at = placeOf(index, nodes);
    const radius = 4 + 6 * Math.sqrt((node.evicted + node.was_evicted) / largest);
    const name = shorten(pageName(array.pages[node.page]), 26);
    // Beside it, or above and below at the top and the bottom.
    const aside = Math.sign(Math.round((at.x - 285) / 20));
    const anchor = ["end", "middle", "start"][aside + 1];
    const y = aside ? at.y + 4 : at.y + (at.y < 150 ? -16 : 26);
    return [
      svg("circle", { class: "page", cx: at.x, cy: at.y, r: radius }),
      svg("text", { x: at.x + 15 * aside, y, "text-anchor": anchor }, name),
    ];
  });
  const label = `Set ${graph.set}: arrows from ${nodes} pages to those that took their places`;
  return svg("svg", { viewBox: "0 0 570 300", role: "img", "aria-label": label }, arrows, pages);
}

function table(array, graph) {
  const name = (index) => el("td", { class: "name" }, pageName(array.pages[graph.nodes[index].page]));
  const cell = (text) => el("td", { class: "number" }, text);
  const rows = graph.edges.slice(0, ROWS_DRAWN).map((edge) => el("tr", {},
    name(edge.victimiser), name(edge.victim), cell(exact(edge.count)), el("td", { class: "name" }, edge.cause)));
  const titles = [["Who", ""], ["evicts whom", ""], ["times", "number"], ["most by", ""]];
  const head = titles.map(([title, kind]) => el("th", { class: kind, scope: "col" }, title));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

function showSet(array, panel, set) {
  const graph = array.graphs.find((graph) => graph.set === set);
  const misses = array.misses_by_set[set];
  const title = el("h4", {}, `Set ${set}: ${exact(misses)} misses`);
  if (!graph || !graph.edges.length) {
    panel.replaceChildren(title, el("p", { class: "nothing" }, "No pair of pages is above the threshold here."));
    return;
  }
  const pairs = Math.max(0, graph.edges.length - ROWS_DRAWN);
  const rest = [pairs ? `${exact(pairs)} more pairs` : null, graph.left_out ? `${exact(graph.left_out)} evictions of pairs below the threshold` : null];
  const told = rest.filter(Boolean).join(" and ");
  const more = told ? el("p", { class: "lead" }, `Not in the table: ${told}.`) : null;
  append(panel, (panel.replaceChildren(), [title, picture(array, graph), el("div", {}, table(array, graph), more)]));
}

function showArray(array, index) {
  const most = Math.max(1, ...array.misses_by_set);
  const panel = el("div", { class: "one", "aria-live": "polite" });
  const bars = array.misses_by_set.map((misses, set) => {
    const level = misses ? 1 + Math.min(LEVELS - 1, Math.floor(LEVELS * misses / most)) : 0;
    const style = `height: ${(100 * misses / most).toFixed(1)}%; background: var(--heat-${level})`;
    const label = `Set ${set}: ${exact(misses)} misses`;
    return el("button", {
      type: "button", title: label, "aria-label": label, "aria-pressed": "false", onclick: () => choose(set),
    }, el("i", { style }));
  });
  const choose = (set) => {
    bars.forEach((bar, other) => bar.setAttribute("aria-pressed", other === set));
    showSet(array, panel, set);
  };
  const move = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const to = bars[bars.indexOf(document.activeElement) + step];
    if (step && to) to.focus();
  };
  const axis = el("div", { class: "axis" }, el("span", {}, "set 0"), el("span", {}, `at most ${exact(most)} misses`),
    el("span", {}, `set ${bars.length - 1}`));
  byId(`sets-${index}`).replaceChildren(el("div", { class: "strip", onkeydown: move }, bars), axis, panel);
  const asked = Number(new URLSearchParams(location.hash.slice(1)).get("set") ?? NaN);
  choose(bars[asked] ? asked : array.misses_by_set.indexOf(Math.max(...array.misses_by_set)));
}

document.documentElement.classList.add("scripts");
result.arrays.forEach(showArray);
