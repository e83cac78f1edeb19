// Columns of stacked parts between two axes. Heights come as parts of one, and all words with them.

function stackOf(stack, looks, frame, left, width) {
  let bottom = frame.bottom;
  return stack.parts.map((part, index) => {
    const height = frame.height * part;
    bottom -= height;
    return height > 0 ? svg("rect", { class: `piece ${looks[index]}`, x: left.toFixed(1), y: bottom.toFixed(1), width: width.toFixed(1), height: height.toFixed(1) }) : null;
  });
}

function drawBars(host, bars) {
  const full = host.clientWidth;
  const frame = frameOf(bars, full);
  const looks = bars.legend.map(([look]) => look);
  const step = frame.width / Math.max(1, bars.stacks.length);
  const gap = step > 6 ? Math.min(6, step * 0.2) : 0;
  const columns = bars.stacks.map((stack, index) => {
    const [title, ...lines] = stack.tells;
    const left = frame.left + step * index;
    return svg("g", { class: "point", role: "img", "aria-label": stack.tells.join(", "),
      onpointermove: (event) => showTooltip(event, title, lines), onpointerleave: hideTooltip },
    // The pointer need not meet a short column.
    svg("rect", { class: "touch", x: left, y: frame.top, width: step, height: frame.height }),
    stackOf(stack, looks, frame, left + gap / 2, Math.max(1, step - gap)));
  });
  const drawing = svg("svg", { width: full, height: frame.full, role: "img", "aria-label": bars.label },
    axes(bars, frame), columns, marks(bars, frame));
  const legend = el("div", { class: "legend" }, bars.legend.map(([look, text]) =>
    el("span", { class: "entry" }, el("span", { class: `key ${look}` }), shorten(text, 40))));
  append(host, (host.replaceChildren(), [legend, el("div", { class: "drawing", style: `height:${frame.full}px` }, drawing)]));
}
