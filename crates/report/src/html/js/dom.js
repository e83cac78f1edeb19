// Building elements. Text only ever goes in as text, so a name from the traced program cannot become markup.

const byId = (id) => document.getElementById(id);

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  return node;
}

const el = (tag, attributes = {}, ...children) => append(setAll(document.createElement(tag), attributes), children);

const svg = (tag, attributes = {}, ...children) =>
  append(setAll(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes), children);

const exact = (n) => n.toLocaleString("en");

// At most `characters` of a text, its middle left out: paths tell the most at their ends.
function shorten(text, characters) {
  if (text.length <= characters) return text;
  const head = Math.floor((characters - 1) / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - (characters - 1 - head))}`;
}

function showTooltip(event, title, lines) {
  const tooltip = byId("tooltip");
  tooltip.replaceChildren(el("b", {}, title), ...lines.map((line) => el("span", {}, line)));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
  const top = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

const hideTooltip = () => { byId("tooltip").hidden = true; };
