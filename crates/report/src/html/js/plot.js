// Curves and points between two axes. Places come as parts of one, and all words with them.

const LABEL_HEIGHT = 15;
const LETTER_WIDTH = 7;

function frameOf(plot, full) {
  const [left, right, top, below] = plot.is_small ? [2, 2, 8, 20] : [64, 22, 34, 42];
  const height = full < 560 && !plot.is_small ? Math.min(plot.height, 240) : plot.height;
  const frame = { left, top, width: Math.max(1, full - left - right), height, full: top + height + below };
  frame.right = left + frame.width;
  frame.bottom = top + height;
  frame.x = (part) => left + frame.width * part;
  frame.y = (part) => top + height * part;
  return frame;
}

// Labels that would stand on each other are left out.
function apart(ticks, place, room) {
  let last = -Infinity;
  return [...ticks].sort((a, b) => a.at - b.at).filter((tick) => {
    const at = place(tick.at);
    if (at - last < room) return false;
    last = at;
    return true;
  });
}

function axes(plot, frame) {
  const { left, right, top, bottom } = frame;
  const under = plot.is_small ? 15 : 18;
  const across = apart(plot.y.ticks, frame.y, 14).map((tick) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: frame.y(tick.at), y2: frame.y(tick.at) }),
    svg("text", { x: left - 9, y: frame.y(tick.at) + 4, "text-anchor": "end" }, tick.text)]);
  const upright = apart(plot.x.ticks, frame.x, 62).map((tick) => [
    tick.at > 0 ? svg("line", { class: "grid", x1: frame.x(tick.at), x2: frame.x(tick.at), y1: top, y2: bottom }) : null,
    svg("text", { x: frame.x(tick.at), y: bottom + under, "text-anchor": tick.at > 0 ? "middle" : "start" }, tick.text)]);
  return [plot.is_small ? svg("rect", { class: "ground", x: left, y: top, width: frame.width, height: frame.height }) : null,
    plot.is_small ? svg("line", { class: "grid", x1: left, x2: right, y1: top, y2: top }) : null,
    across, upright, svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    plot.y.title ? svg("text", { x: 0, y: 12 }, plot.y.title) : null,
    svg("text", { x: right, y: bottom + (plot.is_small ? 15 : 36), "text-anchor": "end", class: "faint" }, plot.x.title)];
}

function line(curve, frame) {
  const { points } = curve;
  if (!curve.is_joined || points.length === 0) return null;
  const joined = points.map((point) => `${frame.x(point.x).toFixed(1)} ${frame.y(point.y).toFixed(1)}`).join("L");
  const [first, last] = [points[0], points[points.length - 1]];
  const closed = curve.is_filled
    ? `L${frame.x(last.x).toFixed(1)} ${frame.bottom}L${frame.x(first.x).toFixed(1)} ${frame.bottom}Z` : "";
  return svg("path", { class: `${curve.is_filled ? "" : "curve "}${curve.look}`, d: `M${joined}${closed}` });
}

// Where the name of a curve stands: below its first point, or above its last.
function nameOf(curve, frame) {
  const point = curve.points[curve.is_named_at_end ? curve.points.length - 1 : 0];
  if (!curve.name || !point) return null;
  const [x, y] = [frame.x(point.x), frame.y(point.y)];
  return curve.is_named_at_end ? { x: x + 4, y: y - 12, anchor: "end" } : { x: x - 4, y: y + 22, anchor: "start" };
}

const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// Beside a point, or further off.
const OFFSETS = [0, 16, 32, 48, 64, 80].flatMap((far) => [
  ...(far ? [-far, far] : [0]).flatMap((dy) => [[10 + far / 4, dy], [-10 - far / 4, dy]]),
  ...(far ? [[0, -far], [0, far]] : [])]);

// A place for each label that covers no point and no other label; none where there are too many: the tooltip has the name.
function placeLabels(frame, points, reserved) {
  const taken = [...points.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 })), ...reserved];
  return points.map(({ x, y, text }) => {
    const width = text.length * LETTER_WIDTH;
    const boxAt = ([dx, dy]) => {
      const left = dx > 0 ? x + dx : dx < 0 ? x + dx - width : x - width / 2;
      return { left, right: left + width, top: y + dy - LABEL_HEIGHT / 2, bottom: y + dy + LABEL_HEIGHT / 2 };
    };
    const fits = (box) => box.left >= frame.left && box.right <= frame.right + 20 && box.top >= frame.top - 8 &&
      box.bottom <= frame.bottom - 2 && !taken.some((other) => overlaps(box, other));
    const found = text ? OFFSETS.find((offset) => fits(boxAt(offset))) : undefined;
    if (!found) return null;
    taken.push(boxAt(found));
    return { x: x + found[0], y: y + found[1], led: found[1] !== 0, anchor: ["end", "middle", "start"][Math.sign(found[0]) + 1] };
  });
}

function dots(plot, frame, reserved) {
  const letters = frame.width < 420 ? 20 : 40;
  const placed = plot.curves.filter((curve) => curve.has_dots).flatMap((curve) => curve.points.map((point) =>
    ({ curve, point, x: frame.x(point.x), y: frame.y(point.y), text: shorten(point.name ?? "", letters) })));
  const labels = placeLabels(frame, placed, reserved);
  return placed.map(({ curve, point, x, y, text }, index) => {
    const label = labels[index];
    const [title, ...lines] = point.tells;
    const show = (event) => showTooltip(event, title, lines);
    return svg("g", { class: `point ${curve.look} ${point.look ?? ""}`, tabindex: point.name ? 0 : null, role: "img",
      "aria-label": point.tells.join(", "), onpointermove: show, onpointerleave: hideTooltip, onblur: hideTooltip,
      onfocus: (event) => show({ clientX: event.target.getBoundingClientRect().right, clientY: event.target.getBoundingClientRect().top }) },
    label?.led ? svg("line", { class: "lead", x1: x, y1: y, x2: label.x, y2: label.y }) : null,
    label ? svg("text", { class: "strong", x: label.x, y: label.y + 4, "text-anchor": label.anchor }, text) : null,
    svg("circle", { class: "dot", cx: x, cy: y, r: point.look ? 6 : 4.5 }));
  });
}

function marks(plot, frame) {
  const { left, right, top, bottom } = frame;
  return plot.marks.map((mark) => {
    if (mark.x === null) {
      const y = frame.y(mark.y);
      return [svg("line", { class: "mark", x1: left, x2: right, y1: y, y2: y }),
        svg("text", { x: right - 4, y: y - 6, "text-anchor": "end", class: "faint" }, mark.text)];
    }
    const x = frame.x(mark.x);
    const upper = plot.is_small ? top + 14 : top - 14;
    const anchor = mark.x > 0.5 ? "end" : "start";
    return [svg("line", { class: "mark", x1: x, x2: x, y1: plot.is_small ? top : top - 8, y2: bottom }),
      svg("text", { x: x + (mark.x > 0.5 ? -5 : 5), y: upper, "text-anchor": anchor, class: "faint" }, mark.text)];
  });
}

// The last point before the pointer.
function follow(plot, frame) {
  const told = plot.curves.find((curve) => !curve.has_dots && curve.points.some((point) => point.tells));
  if (!told) return {};
  return { onpointerleave: hideTooltip, onpointermove: (event) => {
    const at = (event.clientX - event.currentTarget.getBoundingClientRect().left - frame.left) / frame.width;
    const point = told.points.filter((one) => one.x <= at).pop() ?? told.points[0];
    const [title, ...lines] = plot.title ? [plot.title, ...point.tells] : point.tells;
    showTooltip(event, title, lines);
  } };
}

function drawPlot(host, plot) {
  const full = host.clientWidth;
  const frame = frameOf(plot, full);
  // The word of a lying mark stands at its right end.
  const lying = plot.marks.filter((mark) => mark.x === null).map((mark) => [mark.text, { x: frame.right, y: frame.y(mark.y) - 6, anchor: "end" }]);
  const named = plot.curves.map((curve) => [curve.name, nameOf(curve, frame), curve.look]).filter(([, at]) => at);
  const reserved = [...lying, ...named].map(([text, { x, y, anchor }]) => {
    const left = anchor === "end" ? x - text.length * LETTER_WIDTH : x;
    return { left, right: left + text.length * LETTER_WIDTH, top: y - 13, bottom: y + 4 };
  });
  const drawing = svg("svg", { width: full, height: frame.full, role: "img", "aria-label": plot.label, ...follow(plot, frame) },
    axes(plot, frame), marks(plot, frame), plot.curves.map((curve) => line(curve, frame)),
    named.map(([text, { x, y, anchor }, look]) => svg("text", { x, y, "text-anchor": anchor, class: look }, text)), dots(plot, frame, reserved));
  const title = plot.title ? el("div", { class: "caption", title: plot.title }, shorten(plot.title, Math.max(8, Math.floor(full / LETTER_WIDTH))),
    el("span", { class: "sub" }, plot.sub)) : null;
  append(host, (host.replaceChildren(), [title, el("div", { class: "drawing", style: `height:${frame.full}px` }, drawing)]));
}
