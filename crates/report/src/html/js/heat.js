// Walks over address space and time. Cells are painted on canvases, one pixel each; everything with words on an SVG above.

const HEAT_COLORS = ["--heat-1", "--heat-2", "--heat-3", "--heat-4", "--heat-5"];
const STRIP = { top: 18, height: 46 };
const GROUP_GAP = 7;
const LOWEST_GROUP = 18;
const AXIS_HEIGHT = 40;

// The colour that a variable has now: a canvas cannot read light-dark() itself.
function colorOf(variable) {
  const probe = el("span", { style: `color: var(${variable})`, hidden: "" });
  document.body.append(probe);
  const channels = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  probe.remove();
  return channels.slice(0, 3);
}

function heatRamp() {
  const stops = HEAT_COLORS.map(colorOf);
  return (t) => {
    const at = t * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    return stops[low].map((channel, i) => Math.round(channel + (stops[low + 1][i] - channel) * (at - low)));
  };
}

// Where each group of rows lies, and which rows of cells it has.
function layGroups(heat, full) {
  const rows = heat.groups.reduce((all, group) => all + group.places.length, 0);
  const height = Math.min(480, Math.max(150, rows * 5));
  const plot = { left: full >= 720 ? 190 : 96, offset: STRIP.top + STRIP.height + 14, groups: [] };
  plot.width = Math.max(1, full - plot.left - 64);
  let [top, first] = [0, 0];
  for (const group of heat.groups) {
    const count = group.places.length;
    const own = { ...group, top, first, height: Math.max(LOWEST_GROUP, Math.round(count * height / rows)) };
    plot.groups.push(own);
    top += own.height + GROUP_GAP;
    first += count;
  }
  plot.bottom = plot.offset + top - GROUP_GAP;
  return plot;
}

function paint(plot, group, heat, cells, colors) {
  const style = `left:${plot.left}px;top:${plot.offset + group.top}px;width:${plot.width}px;height:${group.height}px`;
  const sharp = heat.columns < plot.width ? ";image-rendering:pixelated" : "";
  const canvas = el("canvas", { width: heat.columns, height: group.places.length, style: style + sharp });
  const context = canvas.getContext("2d");
  context.fillStyle = colors.empty;
  context.fillRect(0, 0, canvas.width, canvas.height);
  group.places.forEach((_, row) => cells[group.first + row].walks.forEach((walks, column) => {
    if (walks === 0) return;
    context.fillStyle = colors.at(Math.log1p(walks) / Math.log1p(heat.most));
    context.fillRect(column, row, 1, 1);
  }));
  return canvas;
}

function timeStrip(plot, heat) {
  const { left, width } = plot;
  const bottom = STRIP.top + STRIP.height;
  const x = (column) => (left + width * column / heat.columns).toFixed(1);
  const steps = heat.strip.map((part, column) => {
    const y = (STRIP.top + STRIP.height * (1 - part)).toFixed(1);
    return `L${x(column)} ${y}L${x(column + 1)} ${y}`;
  });
  return [
    svg("line", { class: "axis", x1: left, x2: left + width, y1: bottom, y2: bottom }),
    svg("path", { class: "strip", d: `M${left} ${bottom}${steps.join("")}L${left + width} ${bottom}Z` }),
    svg("text", { x: left, y: 11 }, "walks per 1000 instructions"),
    svg("text", { x: left - 8, y: STRIP.top + 9, "text-anchor": "end", class: "faint" }, `peak ${heat.peak}`),
    svg("text", { x: left - 8, y: bottom, "text-anchor": "end", class: "faint" }, "0"),
  ];
}

function instructionAxis(plot, heat) {
  const { left, width, bottom } = plot;
  const ticks = apart(heat.ticks, (at) => left + width * at, 62).map((tick) => {
    const x = left + width * tick.at;
    return [svg("line", { class: "axis", x1: x, x2: x, y1: bottom + 4, y2: bottom + 8 }),
      svg("text", { x, y: bottom + 20, "text-anchor": tick.at === 0 ? "start" : "middle" }, tick.text)];
  });
  return [svg("line", { class: "axis", x1: left, x2: left + width, y1: bottom + 4, y2: bottom + 4 }), ticks,
    svg("text", { x: left + width, y: bottom + 36, "text-anchor": "end", class: "faint" }, "instructions executed")];
}

function groupLabels(plot) {
  const letters = Math.floor((plot.left - 10) / 7.3);
  return plot.groups.map((group) => {
    const top = plot.offset + group.top;
    return [
      svg("text", { x: plot.left - 8, y: top + 12, "text-anchor": "end", class: "strong" }, shorten(group.name, letters), svg("title", {}, group.name)),
      group.height >= 34 ? svg("text", { x: plot.left - 8, y: top + 27, "text-anchor": "end", class: "faint" }, shorten(group.start, letters)) : null,
      svg("text", { x: plot.left + plot.width + 8, y: top + 12 }, group.share),
    ];
  });
}

function followPointer(plot, heat, cells, overlay) {
  const frame = svg("rect", { class: "hover", visibility: "hidden" });
  overlay.append(frame);
  const leave = () => { frame.setAttribute("visibility", "hidden"); hideTooltip(); };
  overlay.addEventListener("pointerleave", leave);
  overlay.addEventListener("pointermove", (event) => {
    const box = overlay.getBoundingClientRect();
    const y = event.clientY - box.top - plot.offset;
    const group = plot.groups.find((one) => y >= one.top && y < one.top + one.height);
    const column = Math.floor((event.clientX - box.left - plot.left) / plot.width * heat.columns);
    if (!group || column < 0 || column >= heat.columns) return leave();
    const rows = group.places.length;
    const row = Math.min(rows - 1, Math.floor((y - group.top) / group.height * rows));
    setAll(frame, { visibility: "visible", x: plot.left + column / heat.columns * plot.width, width: plot.width / heat.columns,
      y: plot.offset + group.top + row / rows * group.height, height: group.height / rows });
    showTooltip(event, `${exact(cells[group.first + row].walks[column])} walks`, [group.name, group.places[row],
      `instructions ${heat.edges[column]} – ${heat.edges[column + 1]}`].filter(Boolean));
  });
}

const heatScale = (heat) => el("div", { class: "scale" }, "walks per cell:", el("span", {}, "1"), el("span", { class: "ramp" }),
  el("span", {}, heat.most_text), el("span", {}, `(logarithmic; a cell is ${heat.cell})`));

// The cells are rows of the run's data.
function drawHeat(host, heat, cells) {
  const full = host.clientWidth;
  const plot = layGroups(heat, full);
  const ramp = heatRamp();
  const shades = Array.from({ length: 256 }, (_, i) => `rgb(${ramp(i / 255).join(",")})`);
  const colors = { empty: `rgb(${colorOf("--heat-0").join(",")})`, at: (part) => shades[Math.round(255 * part)] };
  const canvases = plot.groups.map((group) => paint(plot, group, heat, cells, colors));
  const height = plot.bottom + AXIS_HEIGHT;
  const overlay = svg("svg", { width: full, height, role: "img", "aria-label": heat.label },
    timeStrip(plot, heat), instructionAxis(plot, heat), groupLabels(plot));
  host.replaceChildren(el("div", { class: "drawing", style: `height:${height}px` }, canvases, overlay), heatScale(heat));
  followPointer(plot, heat, cells, overlay);
}
