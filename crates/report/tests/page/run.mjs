// Runs the scripts of a page, clicks and types on all that can be, and prints what went wrong, as JSON:
//   node run.mjs PAGE.html light|dark [open]
// With `open` it only opens the page.
// jsdom lays nothing out: every element is as wide as the window. Canvases are real, and so is what unpacks data.

import { readFileSync } from "node:fs";
import { createCanvas } from "@napi-rs/canvas";
import { JSDOM, VirtualConsole } from "jsdom";

const [path, scheme, only] = process.argv.slice(2);
const errors = [];
const WIDTH = 1000;
const media = { "(prefers-color-scheme: dark)": scheme === "dark", print: false };
const listeners = [];

const virtualConsole = new VirtualConsole();
// Of style sheets jsdom reads less than browsers do: light-dark() and nesting are no errors of the page.
virtualConsole.on("jsdomError", (error) => { if (error.type !== "css parsing") errors.push(`uncaught: ${error.stack ?? error}`); });
for (const level of ["error", "warn", "assert"]) virtualConsole.on(level, (...told) => errors.push(`console.${level}: ${told.join(" ")}`));
process.on("unhandledRejection", (error) => errors.push(`rejected: ${error?.stack ?? error}`));

// A variable of the page's style is a pair of colours, light and dark, of which jsdom knows nothing.
function channelsOf(variable) {
  const pair = before.match(new RegExp(`${variable}: light-dark\\(#(\\w+), #(\\w+)\\)`));
  const theme = document.documentElement.dataset.theme ?? scheme;
  return pair[theme === "dark" ? 2 : 1].match(/../g).map((digits) => parseInt(digits, 16));
}

// What jsdom lacks of a browser.
function complete(window) {
  window.matchMedia = (query) => {
    if (!(query in media)) errors.push(`a query that the test does not know: ${query}`);
    return { matches: media[query], addEventListener: (_, listener) => listeners.push(listener) };
  };
  Object.assign(window, { DecompressionStream, Response });
  const { HTMLElement, HTMLCanvasElement } = window;
  Object.defineProperty(HTMLElement.prototype, "clientWidth", { get: () => WIDTH });
  HTMLElement.prototype.scrollIntoView = () => {};
  window.getComputedStyle = (element) => ({ color: `rgb(${channelsOf(element.style.color.slice("var(".length, -1)).join(", ")})` });
  const contexts = new WeakMap();
  HTMLCanvasElement.prototype.getContext = function () {
    if (!contexts.has(this)) contexts.set(this, createCanvas(this.width, this.height).getContext("2d"));
    return contexts.get(this);
  };
  canvasOf = (canvas) => contexts.get(canvas);
  window.addEventListener("unhandledrejection", (event) => errors.push(`rejected: ${event.reason}`));
}
let canvasOf;

// Until all charts are drawn, ten seconds at most.
async function drawn() {
  const waiting = () => [...document.querySelectorAll("#sections .chart")].some((chart) => !chart.querySelector("svg"));
  for (let turn = 0; turn < 1000 && waiting(); turn++) await new Promise((resolve) => setTimeout(resolve, 10));
}

const settled = async () => { for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 2)); };

// The script is taken out and run when the page is there, so that its time can be told from that of reading the page:
// of the processor, as the host may have much else to do.
const [before, script] = readFileSync(path, "utf8").split("<script>\n");
const dom = new JSDOM(before, {
  runScripts: "dangerously", pretendToBeVisual: true, url: "file:///report.html", virtualConsole, beforeParse: complete,
});
const { window } = dom;
const { document } = window;
const begun = process.cpuUsage();
document.body.append(Object.assign(document.createElement("script"), { textContent: script.slice(0, script.indexOf("</script>")) }));
await drawn();
const { user, system } = process.cpuUsage(begun);
const opened = (user + system) / 1000;
let clicks = 0;

function click(element) {
  clicks += 1;
  element.dispatchEvent(new window.MouseEvent("click", { bubbles: true, cancelable: true }));
}

function type(input, text) {
  input.value = text;
  input.dispatchEvent(new window.Event("input", { bubbles: true }));
}

function point(element) {
  for (const [x, y] of [[0, 0], [200, 120], [600, 200], [995, 90]]) {
    const event = new window.MouseEvent("pointermove", { bubbles: true, clientX: x, clientY: y });
    element.dispatchEvent(event);
  }
  element.dispatchEvent(new window.MouseEvent("pointerleave", {}));
}

// Whether a column is in the order that its head says.
function checkOrder(table, head) {
  const column = [...head.parentElement.cells].indexOf(head);
  const cells = [...table.tBodies[0].rows].map((row) => row.cells[column]).filter((cell) => cell.textContent !== "");
  const addresses = cells.map((cell) => cell.textContent.match(/^0x[0-9a-f]+(?= |$)/)?.[0]);
  const hasAddresses = addresses.every((address) => address !== undefined);
  const values = cells
    .map((cell, row) => Number(hasAddresses ? addresses[row] : cell.dataset.value ?? (/^\d+$/.test(cell.textContent) ? cell.textContent : NaN)))
    .filter((value) => !Number.isNaN(value));
  const sign = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
  if (values.some((value, index) => index > 0 && sign * (value - values[index - 1]) < 0)) errors.push(`not sorted: ${head.textContent} of ${table.dataset.what}`);
}

async function exercise(place) {
  for (const button of place.querySelectorAll("table .sort")) {
    for (let time = 0; time < 2; time++) {
      click(button);
      checkOrder(button.closest("table"), button.closest("th"));
    }
  }
  for (const input of place.querySelectorAll("input[type=search]")) {
    for (const text of ["e", "no such row anywhere", ""]) type(input, text);
  }
  for (const button of place.querySelectorAll("button.more:not([hidden])")) click(button);
  for (const drawn of place.querySelectorAll(".chart svg, .chart .point")) point(drawn);
  for (const drawn of place.querySelectorAll(".chart .point[tabindex]")) { drawn.dispatchEvent(new window.Event("focus")); drawn.dispatchEvent(new window.Event("blur")); }
  for (const button of [...place.querySelectorAll("button[aria-pressed]")].slice(0, 40)) click(button);
  const theme = document.getElementById("theme");
  for (let time = 0; theme && time < 3; time++) click(theme);
  await settled();
}

// What is drawn: charts without a drawing, numbers that are none, canvases that are empty.
function look() {
  const charts = [...document.querySelectorAll(".chart")];
  for (const chart of charts) {
    if (!chart.querySelector("svg")) errors.push("a chart was not drawn");
    if (/NaN|undefined|null|Infinity/.test(chart.innerHTML)) errors.push(`a chart has what is no number: ${chart.innerHTML.match(/.{40}(NaN|undefined|null|Infinity).{40}/)}`);
  }
  for (const canvas of document.querySelectorAll("canvas")) {
    const { data } = canvasOf(canvas).getImageData(0, 0, canvas.width, canvas.height);
    const empty = channelsOf("--heat-0");
    if (data.every((channel, index) => index % 4 === 3 || channel === empty[index % 4])) errors.push("a canvas has no cell");
  }
  for (const link of document.querySelectorAll("nav a:not([hidden])")) {
    if (!document.querySelector(link.hash)) errors.push(`a link leads nowhere: ${link.hash}`);
  }
  return { charts: charts.length, sections: [...document.querySelectorAll("#sections > section")].map((section) => section.id),
    headline: document.querySelector("h1").textContent };
}

const views = [];
if (only === "open") {
  views.push(look());
  console.log(JSON.stringify({ errors, clicks, views, opened_ms: Math.round(opened) }));
  process.exit(0);
}
await exercise(document);
views.push(look());
for (const row of document.querySelectorAll(".processes:not([hidden]) tr[data-opens]")) {
  if (views.length > 4) break;
  click(row);
  await settled();
  views.push(look());
}
for (const chooser of document.querySelectorAll(".topbar select")) {
  if (chooser.closest("[hidden]")) continue;
  for (const option of [...chooser.options].slice(0, 4)) {
    chooser.value = option.value;
    chooser.dispatchEvent(new window.Event("change", { bubbles: true }));
    await settled();
    await exercise(document.getElementById("sections"));
    views.push(look());
  }
}
for (const listener of listeners) listener();
window.dispatchEvent(new window.Event("resize"));
window.dispatchEvent(new window.Event("scroll"));
await settled();
console.log(JSON.stringify({ errors, clicks, views, opened_ms: Math.round(opened) }));
process.exit(0);
