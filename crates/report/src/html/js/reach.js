// Walks against reach, on logarithmic axes, one curve per page size.

// Base pages and huge pages, whatever sizes they have on the machine.
const curvesOf = (machine) => [["small", basePage(machine)], ["huge", hugePage(machine)]]
  .map(([look, pageSize]) => ({ look, pageSize, label: `${pageName(pageSize)} pages` }));

function reachFrame(points, full) {
  const left = 64;
  const right = 22;
  const frame = { left, top: 34, width: full - left - right, height: full < 560 ? 240 : 300 };
  const positive = points.map((p) => p.walks).filter((walks) => walks > 0);
  const highest = Math.ceil(Math.log10(Math.max(...positive, 10)));
  const lowest = Math.min(highest - 1, Math.floor(Math.log10(Math.min(...positive, 10 ** highest))));
  // No walks at all has no logarithm: it gets a line of its own below the lowest decade.
  const hasZero = points.some((p) => p.walks === 0);
  const decades = highest - lowest + (hasZero ? 1 : 0);
  const reaches = points.map((p) => Math.log2(p.reach_bytes));
  const [least, most] = [Math.min(...reaches), Math.max(...reaches)];
  return {
    ...frame, lowest, highest, hasZero, least, most,
    x: (reach) => frame.left + frame.width * (Math.log2(reach) - least) / Math.max(1, most - least),
    y: (walks) => frame.top + frame.height * (walks === 0 ? 1 : (highest - Math.log10(walks)) / decades),
  };
}

function reachGrid(frame) {
  const { left, top, width, height, x, y } = frame;
  const parts = [];
  const across = (at, text) => parts.push(
    svg("line", { class: "grid", x1: left, x2: left + width, y1: at, y2: at }),
    svg("text", { x: left - 9, y: at + 4, "text-anchor": "end" }, text));
  for (let power = frame.lowest; power <= frame.highest; power++) across(y(10 ** power), count(10 ** power).replace(/\.0+(?=\u00a0)/, ""));
  if (frame.hasZero) across(y(0), "0");
  const every = width < 420 ? 4 : 2;
  for (let power = Math.ceil(frame.least); power <= frame.most; power++) {
    if (power % every) continue;
    const at = x(2 ** power);
    parts.push(svg("line", { class: "grid", x1: at, x2: at, y1: top, y2: top + height }),
      svg("text", { x: at, y: top + height + 18, "text-anchor": "middle" }, bytes(2 ** power)));
  }
  parts.push(svg("line", { class: "axis", x1: left, x2: left + width, y1: top + height, y2: top + height }),
    svg("text", { x: 0, y: 12 }, "page walks"),
    svg("text", { x: left + width, y: top + height + 36, "text-anchor": "end", class: "faint" }, "reach of the last-level TLB"));
  return parts;
}

function reachCurve(frame, points, { look, label }) {
  const at = (p) => `${frame.x(p.reach_bytes).toFixed(1)} ${frame.y(p.walks).toFixed(1)}`;
  const last = points[points.length - 1];
  // The curve of small pages is named where it begins, that of huge pages where it ends: there the other one is far.
  const named = look === "small"
    ? { x: frame.x(points[0].reach_bytes) - 4, y: frame.y(points[0].walks) + 22 }
    : { x: frame.x(last.reach_bytes) + 4, y: frame.y(last.walks) - 12, "text-anchor": "end" };
  return [
    svg("path", { class: `curve ${look}`, d: `M${points.map(at).join("L")}` }),
    svg("text", { ...named, class: look }, label),
    points.map((p) => svg("circle", {
      class: `dot ${look}${p.is_machine ? " own" : ""}`, cx: frame.x(p.reach_bytes), cy: frame.y(p.walks), r: p.is_machine ? 6 : 4,
      onpointermove: (event) => showTooltip(event, `${exact(p.walks)} walks`, [
        label, `${exact(p.entries)} entries reach ${bytes(p.reach_bytes)}`, p.is_machine ? "this machine" : ""].filter(Boolean)),
      onpointerleave: hideTooltip,
    })),
  ].flat();
}

// The machine's own size, and the memory the program touches: a TLB that reaches further needs each walk once.
function reachMarks(frame, points, touched) {
  const { left, top, width, height } = frame;
  const own = points.filter((p) => p.is_machine);
  const labels = (width < 420 ? own.slice(0, 1) : own).map((p) => {
    const [x, y] = [frame.x(p.reach_bytes), frame.y(p.walks)];
    const flip = x > left + width * 0.7;
    return svg("text", { x: x + (flip ? -4 : 4), y: y - 13, "text-anchor": flip ? "end" : "start", class: "strong" },
      `this machine: ${exact(p.entries)} entries`);
  });
  const log = Math.log2(touched);
  if (touched <= 0 || log <= frame.least || log >= frame.most) return { lines: [], labels };
  const x = frame.x(touched);
  return {
    lines: [svg("line", { class: "mark", x1: x, x2: x, y1: top - 8, y2: top + height }),
      svg("text", { x: Math.min(x, left + width - 80), y: top - 14, "text-anchor": "middle", class: "faint" },
        `the program touches ${bytes(touched)}`)],
    labels,
  };
}

function showReach(process) {
  const host = byId("reach-chart");
  const points = process.reach;
  replace("reach-title", reachFinding(points, process.machines[0]));
  if (!showSection("reach", points.some((p) => p.walks > 0))) return;
  const full = host.clientWidth;
  const frame = reachFrame(points, full);
  const touched = (metric(process.machines[0], "pages_touched") || 0) * sizeBytes(basePage(process.machines[0]));
  const curves = curvesOf(process.machines[0]).map((look) => {
    const own = points.filter((p) => p.page_size === look.pageSize).sort((a, b) => a.entries - b.entries);
    return own.length ? reachCurve(frame, own, look) : [];
  });
  const marks = reachMarks(frame, points, touched);
  const height = frame.top + frame.height + 42;
  host.replaceChildren(el("div", { class: "chart", style: `height:${height}px` }, svg("svg", {
    width: full, height, role: "img", "aria-label": "Page walks against the reach of the last-level TLB, on logarithmic axes",
  }, reachGrid(frame), marks.lines, curves, marks.labels)));
}
