// Walks over address space and time. Cells are painted on a canvas, everything with words on an SVG above it.

const HEAT_COLORS = ["--heat-1", "--heat-2", "--heat-3", "--heat-4", "--heat-5"];
const STRIP = { top: 18, height: 46 };
const GROUP_GAP = 7;
const LOWEST_GROUP = 18;
const AXIS_HEIGHT = 40;

const sumColumns = (heat) => {
  const columns = new Array(heat.columns).fill(0);
  for (const row of heat.rows) row.walks.forEach((walks, column) => { columns[column] += walks; });
  return columns;
};

// Neighbouring rows of one mapping, merged where they would be thinner than two pixels.
function heatGroups(heat) {
  const height = Math.min(480, Math.max(150, heat.rows.length * 5));
  const merge = Math.max(1, Math.ceil(2 * heat.rows.length / height));
  const groups = [];
  for (const row of heat.rows) {
    const last = groups[groups.length - 1];
    if (last && last.mapping === row.mapping) last.source.push(row);
    else groups.push({ mapping: row.mapping, source: [row] });
  }
  const rowHeight = height / Math.ceil(heat.rows.length / merge);
  for (const group of groups) {
    group.rows = [];
    for (let first = 0; first < group.source.length; first += merge) {
      const part = group.source.slice(first, first + merge);
      const end = part[part.length - 1];
      group.rows.push({
        start: part[0].start, end: end.start + end.bytes,
        walks: part[0].walks.map((_, column) => part.reduce((sum, row) => sum + row.walks[column], 0)),
      });
    }
    group.walks = group.source.reduce((sum, row) => sum + row.walks.reduce((a, b) => a + b, 0), 0);
    group.height = Math.max(LOWEST_GROUP, Math.round(group.rows.length * rowHeight));
  }
  return groups;
}

// Columns, merged where the plot has fewer device pixels than the picture has columns.
function binColumns(walks, merge) {
  const bins = [];
  for (let first = 0; first < walks.length; first += merge) {
    bins.push(walks.slice(first, first + merge).reduce((a, b) => a + b, 0));
  }
  return bins;
}

function heatRamp() {
  const stops = HEAT_COLORS.map(colorOf);
  return (t) => {
    const at = t * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    const mixed = stops[low].map((channel, i) => Math.round(channel + (stops[low + 1][i] - channel) * (at - low)));
    return `rgb(${mixed.join(",")})`;
  };
}

function paintCells(plot) {
  const { canvas, groups, width, height, most, merge } = plot;
  const scale = Math.max(1, devicePixelRatio);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  const ramp = heatRamp();
  const empty = `rgb(${colorOf("--heat-0").join(",")})`;
  const colors = Array.from({ length: 256 }, (_, i) => ramp(i / 255));
  for (const group of groups) {
    context.fillStyle = empty;
    context.fillRect(0, Math.round(group.top * scale), canvas.width, Math.round(group.height * scale));
    group.rows.forEach((row, index) => {
      const top = Math.round((group.top + group.height * index / group.rows.length) * scale);
      const bottom = Math.round((group.top + group.height * (index + 1) / group.rows.length) * scale);
      const bins = binColumns(row.walks, merge);
      bins.forEach((walks, column) => {
        if (walks === 0) return;
        const left = Math.round(column / bins.length * canvas.width);
        const right = Math.round((column + 1) / bins.length * canvas.width);
        context.fillStyle = colors[Math.round(255 * Math.log1p(walks) / Math.log1p(most))];
        context.fillRect(left, top, right - left, bottom - top);
      });
    });
  }
}

function timeStrip(plot, columns, perColumn) {
  const { left, width } = plot;
  const rates = columns.map((walks) => walks * 1000 / perColumn);
  const peak = Math.max(...rates);
  const y = (rate) => STRIP.top + STRIP.height * (1 - rate / peak);
  const x = (column) => left + width * column / columns.length;
  const bottom = STRIP.top + STRIP.height;
  const steps = rates.map((rate, column) => `L${x(column).toFixed(1)} ${y(rate).toFixed(1)}L${x(column + 1).toFixed(1)} ${y(rate).toFixed(1)}`);
  return [
    svg("line", { class: "axis", x1: left, x2: left + width, y1: bottom, y2: bottom }),
    svg("path", { class: "strip", d: `M${left} ${bottom}${steps.join("")}L${left + width} ${bottom}Z` }),
    svg("text", { x: left, y: 11 }, "walks per 1000 instructions"),
    svg("text", { x: left - 8, y: STRIP.top + 9, "text-anchor": "end", class: "faint" }, `peak ${ratio(peak)}`),
    svg("text", { x: left - 8, y: bottom, "text-anchor": "end", class: "faint" }, "0"),
  ];
}

function instructionAxis(plot, total) {
  const { left, width, bottom } = plot;
  const step = niceStep(total, width < 420 ? 3 : 7);
  const parts = [svg("line", { class: "axis", x1: left, x2: left + width, y1: bottom + 4, y2: bottom + 4 })];
  for (let at = 0; at <= total; at += step) {
    const x = left + width * at / total;
    parts.push(svg("line", { class: "axis", x1: x, x2: x, y1: bottom + 4, y2: bottom + 8 }),
      svg("text", { x, y: bottom + 20, "text-anchor": at === 0 ? "start" : "middle" }, count(at).replace(/\.0+(?=\u00a0)/, "")));
  }
  parts.push(svg("text", { x: left + width, y: bottom + 36, "text-anchor": "end", class: "faint" }, "instructions executed"));
  return parts;
}

function groupLabels(plot, all) {
  const { left, width, groups, offset } = plot;
  const letters = Math.floor((left - 10) / 7.3);
  return groups.flatMap((group) => {
    const top = offset + group.top;
    const first = group.rows[0].start;
    const roomy = group.height >= 34;
    return [
      svg("text", { x: left - 8, y: top + 12, "text-anchor": "end", class: "strong" },
        shorten(baseName(group.mapping), letters), svg("title", {}, group.mapping)),
      roomy ? svg("text", { x: left - 8, y: top + 27, "text-anchor": "end", class: "faint" }, shorten(address(first), letters)) : null,
      svg("text", { x: left + width + 8, y: top + 12 }, percent(group.walks / all)),
    ];
  }).filter(Boolean);
}

function followPointer(plot, heat) {
  const { overlay, left, width, offset, groups, merge } = plot;
  const frame = svg("rect", { class: "hover", visibility: "hidden" });
  overlay.append(frame);
  const leave = () => { frame.setAttribute("visibility", "hidden"); hideTooltip(); };
  overlay.addEventListener("pointerleave", leave);
  overlay.addEventListener("pointermove", (event) => {
    const box = overlay.getBoundingClientRect();
    const y = event.clientY - box.top - offset;
    const group = groups.find((g) => y >= g.top && y < g.top + g.height);
    const bins = Math.ceil(heat.columns / merge);
    const bin = Math.floor((event.clientX - box.left - left) / width * bins);
    if (!group || bin < 0 || bin >= bins) return leave();
    const index = Math.min(group.rows.length - 1, Math.floor((y - group.top) / group.height * group.rows.length));
    const row = group.rows[index];
    const walks = binColumns(row.walks, merge)[bin];
    const from = bin * merge * heat.instructions_per_column;
    setAll(frame, { visibility: "visible", x: left + bin / bins * width, width: width / bins,
      y: offset + group.top + index / group.rows.length * group.height, height: group.height / group.rows.length });
    // The row of many mappings lies nowhere.
    const place = row.end > row.start ? [`${address(row.start)} – ${address(row.end)} (${bytes(row.end - row.start)})`] : [];
    showTooltip(event, `${exact(walks)} walks`, [group.mapping, ...place,
      `instructions ${count(from)} – ${count(from + merge * heat.instructions_per_column)}`]);
  });
}

function heatScale(most, cell) {
  return el("div", { class: "scale" }, "walks per cell:", el("span", {}, "1"), el("span", { class: "ramp" }), el("span", {}, count(most)),
    el("span", {}, `(logarithmic; a cell is ${cell})`));
}

function showHeat(process) {
  const host = byId("heat");
  const heat = process.heat;
  const columns = sumColumns(heat);
  const all = columns.reduce((a, b) => a + b, 0);
  replace("heat-title", timeFinding(columns));
  if (!showSection("time", all > 0)) return;
  const full = host.clientWidth;
  const plot = { left: full >= 720 ? 190 : 96, offset: STRIP.top + STRIP.height + 14, groups: heatGroups(heat) };
  plot.width = full - plot.left - 54;
  plot.merge = Math.max(1, Math.ceil(heat.columns / plot.width));
  let top = 0;
  for (const group of plot.groups) {
    group.top = top;
    top += group.height + GROUP_GAP;
  }
  plot.height = top - GROUP_GAP;
  plot.bottom = plot.offset + plot.height;
  plot.most = Math.max(...plot.groups.flatMap((group) => group.rows.map((row) => Math.max(...binColumns(row.walks, plot.merge)))));
  plot.canvas = el("canvas", { style: `left:${plot.left}px;top:${plot.offset}px;width:${plot.width}px;height:${plot.height}px` });
  const height = plot.bottom + AXIS_HEIGHT;
  plot.overlay = svg("svg", { width: full, height, role: "img",
    "aria-label": `Heat map of ${count(all)} page walks, instructions across, address space down` },
    timeStrip(plot, columns, heat.instructions_per_column), instructionAxis(plot, heat.columns * heat.instructions_per_column),
    groupLabels(plot, all));
  const first = plot.groups[0].rows[0];
  const cell = `${bytes(first.end - first.start)} by ${count(plot.merge * heat.instructions_per_column)} instructions`;
  host.replaceChildren(el("div", { class: "chart", style: `height:${height}px` }, plot.canvas, plot.overlay), heatScale(plot.most, cell));
  paintCells(plot);
  followPointer(plot, heat);
}
