// What translation costs against the memory that is backed for it, one point per kernel (Romer 1998, figure 3-5).
// Costs may lie decades apart, so their axis is logarithmic; no cost at all has a line of its own below it.

const ZERO_ROOM = 30;
const LABEL_HEIGHT = 15;
const LETTER_WIDTH = 7;

// The kernels of which memory is known.
const backed = (row) => metric(row, "kernel.backed_bytes_peak");
const hasPoint = (row) => backed(row) !== undefined && together(row) > 0 && killedAt(row) === undefined;

function tradeoffFrame(rows, full) {
  const costs = rows.map(together).filter((cost) => cost > 0).map(Math.log10);
  const [cheap, costly] = [Math.min(...costs) - 0.12, Math.max(...costs) + 0.12];
  const memory = rows.filter(hasPoint).map(backed);
  const room = Math.max((Math.max(...memory) - Math.min(...memory)) * 0.06, Math.max(...memory) * 0.01);
  const [least, most] = [Math.max(0, Math.min(...memory) - room), Math.max(...memory) + room];
  const frame = { left: 64, top: 34, height: full < 560 ? 270 : 340, least, most, cheap, costly };
  frame.width = full - frame.left - 22;
  frame.bottom = frame.top + frame.height;
  frame.x = (memory) => frame.left + frame.width * (memory - least) / (most - least);
  frame.y = (cost) => frame.top + (frame.height - ZERO_ROOM) * (costly - Math.log10(cost)) / (costly - cheap);
  return frame;
}

function tradeoffGrid(frame) {
  const { left, top, width, bottom } = frame;
  const parts = [];
  const across = (y, text, look = "grid") => parts.push(
    svg("line", { class: look, x1: left, x2: left + width, y1: y, y2: y }),
    svg("text", { x: left - 9, y: y + 4, "text-anchor": "end" }, text));
  const lines = frame.costly - frame.cheap > 3.5 ? [1] : [1, 2, 5];
  for (let power = Math.floor(frame.cheap); power <= frame.costly; power++) {
    for (const m of lines) {
      const cost = m * 10 ** power;
      if (Math.log10(cost) >= frame.cheap && Math.log10(cost) <= frame.costly) across(frame.y(cost), cost.toFixed(Math.max(0, -power)));
    }
  }
  across(bottom, "0", "axis");
  // Steps of memory are round in binary.
  const unit = 2 ** (10 * Math.floor(Math.log2(Math.max(1, frame.most)) / 10));
  const step = niceStep((frame.most - frame.least) / unit, width < 420 ? 3 : 6);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let index = Math.ceil(frame.least / unit / step); index * step * unit <= frame.most; index++) {
    const x = frame.x(index * step * unit);
    parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }),
      svg("text", { x, y: bottom + 18, "text-anchor": "middle" }, `${(index * step).toFixed(digits)} ${bytes(unit).split(NB)[1]}`));
  }
  parts.push(svg("text", { x: 0, y: 12 }, "cycles per instruction (logarithmic, 0 apart)"),
    svg("text", { x: left + width - 4, y: bottom - 7, "text-anchor": "end", class: "faint" }, "a perfect TLB"),
    svg("text", { x: left + width, y: bottom + 36, "text-anchor": "end", class: "faint" }, "most memory backed at one time"));
  return parts;
}

// Kernels than which no other is cheaper without backing more, or backs less without costing more.
const isFrontier = (row, rows) => !rows.some((other) => together(other) <= together(row) && backed(other) <= backed(row) &&
  (together(other) < together(row) || backed(other) < backed(row)));

const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// A place for each label that covers no point and no other label: beside its point, or further off with a line to it.
function placeLabels(frame, points, reserved) {
  const taken = [...points.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 })), ...reserved];
  return points.map(({ x, y, text }) => {
    const width = text.length * LETTER_WIDTH;
    const boxAt = (dx, dy) => {
      const left = dx > 0 ? x + dx : dx < 0 ? x + dx - width : x - width / 2;
      return { left, right: left + width, top: y + dy - LABEL_HEIGHT / 2, bottom: y + dy + LABEL_HEIGHT / 2 };
    };
    const offsets = [];
    for (const far of [0, 16, 32, 48, 64, 80]) {
      for (const dy of far ? [-far, far] : [0]) offsets.push([10 + far / 4, dy], [-10 - far / 4, dy]);
      if (far) offsets.push([0, -far], [0, far]);
    }
    const fits = (box) => box.left >= frame.left && box.right <= frame.left + frame.width + 20 && box.top >= frame.top - 8 &&
      box.bottom <= frame.bottom - 2 && !taken.some((other) => overlaps(box, other));
    const found = offsets.find(([dx, dy]) => fits(boxAt(dx, dy)));
    // Too many at one place: the name stands in the tooltip and in the table.
    if (!found) return null;
    const box = boxAt(...found);
    taken.push(box);
    const side = Math.sign(found[0]);
    return { x: x + found[0], y: y + found[1], led: found[1] !== 0, anchor: ["end", "middle", "start"][side + 1] };
  });
}

function tradeoffPoints(frame, rows, reserved) {
  const placed = rows.filter(hasPoint);
  const letters = frame.width < 420 ? 20 : 40;
  const points = placed.map((row) => ({ row, x: frame.x(backed(row)), y: frame.y(together(row)), text: shorten(row.policy, letters) }));
  const labels = placeLabels(frame, points, reserved);
  return points.map(({ row, x, y, text }, index) => {
    const label = labels[index];
    const lines = [`${cycles(together(row))} cycles per instruction`, `${bytes(backed(row))} backed at one time`,
      `${bytes(metric(row, "kernel.untouched_bytes_peak") || 0)} for nothing`];
    const show = (event) => showTooltip(event, row.policy, lines);
    return svg("g", { class: `point${isFrontier(row, placed) ? " best" : ""}`, tabindex: 0, role: "img",
      "aria-label": `${row.policy}: ${lines.join(", ")}`,
      onpointermove: show, onpointerleave: hideTooltip, onblur: hideTooltip,
      onfocus: (event) => show({ clientX: event.target.getBoundingClientRect().right, clientY: event.target.getBoundingClientRect().top }) },
      label?.led ? svg("line", { class: "lead", x1: x, y1: y, x2: label.x, y2: label.y }) : null,
      label ? svg("text", { x: label.x, y: label.y + 4, "text-anchor": label.anchor }, text) : null,
      svg("circle", { cx: x, cy: y, r: 5 }));
  });
}

// The host's kernel backs what the program asks for: its memory is not counted, so it is a line.
function tradeoffHost(frame, rows) {
  const host = rows.find((row) => isHost(row) && !hasPoint(row) && together(row) > 0);
  if (!host) return { parts: [], reserved: [] };
  const y = frame.y(together(host));
  const right = frame.left + frame.width;
  const reserved = [{ left: right - 100, right, top: y - 19, bottom: y - 2 }];
  return { reserved, parts: [svg("line", { class: "mark", x1: frame.left, x2: right, y1: y, y2: y }),
    svg("text", { x: right - 4, y: y - 6, "text-anchor": "end", class: "faint" }, "the host's kernel")] };
}

function showTradeoff(process) {
  const place = byId("tradeoff");
  const groups = kernelGroups(process).filter(([, rows]) => rows.some(hasPoint));
  place.hidden = groups.length === 0;
  if (place.hidden) return;
  const full = place.clientWidth;
  place.replaceChildren(...groups.flatMap(([machine, rows]) => {
    const frame = tradeoffFrame(rows, full);
    const height = frame.bottom + 42;
    const host = tradeoffHost(frame, rows);
    return [el("h3", {}, `What translation costs against memory, on ${machine}`),
      el("div", { class: "chart tradeoff", style: `height:${height}px` }, svg("svg", { width: full, height, role: "group",
        "aria-label": `Cycles of address translation per instruction against memory backed, by kernel, on ${machine}` },
      tradeoffGrid(frame), host.parts, tradeoffPoints(frame, rows, host.reserved)))];
  }), el("p", { class: "lead" }, "Filled points: no other kernel is cheaper without backing more memory."));
}
