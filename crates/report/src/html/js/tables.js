// Tables that sort and search. A cell carries what it is sorted by where its text does not tell.

// Of each table that sorts, what shows anew which row is chosen.
const sorting = new WeakMap();

// An address, alone or before words.
const ADDRESS = /^0x[0-9a-f]+(?= |$)/;

// The number that a text begins with; the lowest of all where there is none.
function numberIn(text) {
  const address = text.match(ADDRESS);
  if (address) return Number(address[0]);
  const number = parseFloat(text.replace("−", "-").replace(/^[<+]/, ""));
  return Number.isNaN(number) ? -Infinity : number;
}

function valueOf(row, column, isNumber) {
  const cell = row.cells[column];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return isNumber ? numberIn(cell.textContent) : cell.textContent;
}

const compare = (x, y) => typeof x === "number" ? (x > y) - (x < y) : x.localeCompare(y, "en", { numeric: true });

function sortTable(table) {
  if (sorting.has(table)) return;
  const { what, first, sorted } = table.dataset;
  const [body] = table.tBodies;
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  // One name that looks like an address makes no column of them.
  const hasAddresses = (column) => {
    const texts = rows.map((row) => row.cells[column].textContent).filter((text) => text !== "");
    return texts.length > 0 && texts.every((text) => ADDRESS.test(text));
  };
  const isNumber = (column) => heads[column].classList.contains("number") || hasAddresses(column);
  // The rows come in this order.
  let order = sorted === undefined ? null : { column: Number(sorted), descending: true, isGiven: true };
  let query = "";
  let texts = null;
  let all = false;
  const status = el("span");
  const more = el("button", { type: "button", class: "more", onclick: () => { all = true; update(); } });

  function update() {
    if (query) texts ??= rows.map((row) => row.textContent.toLowerCase());
    const found = query ? rows.filter((_, index) => texts[index].includes(query)) : [...rows];
    if (order && !order.isGiven) {
      const sign = order.descending ? -1 : 1;
      const asNumbers = isNumber(order.column);
      const values = new Map(found.map((row) => [row, valueOf(row, order.column, asNumbers)]));
      found.sort((a, b) => sign * compare(values.get(a), values.get(b)));
    }
    const shown = all ? found : found.slice(0, Number(first));
    body.replaceChildren(...shown);
    heads.forEach((head, column) => {
      if (!head.querySelector(".sort")) return;
      const is = order && order.column === column;
      head.setAttribute("aria-sort", !is ? "none" : order.descending ? "descending" : "ascending");
    });
    status.textContent = query ? `${exact(found.length)} of ${exact(rows.length)} ${what}` : `${exact(rows.length)} ${what}`;
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${exact(found.length)}`;
  }

  heads.forEach((head, column) => {
    if (rows.some((row) => row.cells[column].classList.contains("picture"))) return;
    head.replaceChildren(el("button", { type: "button", class: "sort", onclick: () => {
      const again = order && order.column === column;
      order = { column, descending: again ? !order.descending : isNumber(column) };
      update();
    } }, head.textContent));
  });
  const search = el("input", { type: "search", placeholder: `Search ${what}`, "aria-label": `Search ${what}`,
    oninput: (event) => { query = event.target.value.trim().toLowerCase(); update(); } });
  if (rows.length > 1) table.parentElement.before(el("div", { class: "tools" }, search, status));
  table.parentElement.after(more);
  sorting.set(table, rows);
  update();
}

function sortTables(place) {
  for (const table of place.querySelectorAll("table[data-what]")) sortTable(table);
}
