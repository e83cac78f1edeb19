// Tables that sort and search, and the views made of them.

const FIRST_ROWS = 40;

// columns: { title, value(row) to sort by (absent: the column does not sort), show(row), number }.
// The table opens sorted by the column `sorted`.
function dataTable(host, { columns, rows, searched, sorted = 0, what, chosen, onChoose, first = FIRST_ROWS }) {
  let order = { column: sorted, descending: columns[sorted].number };
  let query = "";
  let all = false;

  const status = el("span");
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more", onclick: () => { all = true; update(); } });
  const heads = columns.map((column, index) => el("th", { scope: "col", class: column.number ? "number" : null },
    !column.value ? column.title : el("button", { type: "button", class: "sort", onclick: () => {
      order = { column: index, descending: order.column === index ? !order.descending : Boolean(column.number) };
      update();
    } }, column.title)));

  function compare(a, b) {
    const value = columns[order.column].value;
    const [x, y] = [value(a), value(b)];
    const result = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en");
    return order.descending ? -result : result;
  }

  function update() {
    const found = rows.filter((row) => searched(row).toLowerCase().includes(query)).sort(compare);
    const shown = all ? found : found.slice(0, first);
    const hadFocus = body.contains(document.activeElement);
    body.replaceChildren(...shown.map((row) => el("tr", {
      class: chosen && chosen(row) ? "chosen" : null,
      style: onChoose ? "cursor:pointer" : null,
      onclick: onChoose ? () => onChoose(row) : () => {},
    }, columns.map((column) => el("td", { class: column.number ? "number" : "name" }, column.show(row))))));
    heads.forEach((head, index) => {
      if (columns[index].value) head.setAttribute("aria-sort", index !== order.column ? "none" : order.descending ? "descending" : "ascending");
    });
    status.textContent = query ? `${exact(found.length)} of ${exact(rows.length)} ${what}` : `${exact(rows.length)} ${what}`;
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${exact(found.length)}`;
    // Who walks through the rows by keyboard stays where they are.
    if (hadFocus) body.querySelector(".chosen a")?.focus();
  }

  const search = el("input", { type: "search", placeholder: `Search ${what}`, "aria-label": `Search ${what}`,
    oninput: (event) => { query = event.target.value.trim().toLowerCase(); update(); } });
  host.replaceChildren(el("div", { class: "tools" }, search, status),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body)), more);
  update();
  return update;
}

function splitBar(row, whole) {
  const part = (n) => `width:${(whole > 0 ? n / whole * 100 : 0).toFixed(2)}%`;
  return el("div", { class: "bar", title: `${count(row.walks_data)} data, ${count(row.walks_fetch)} fetch` },
    el("i", { style: part(row.walks_data) }), el("i", { class: "fetch", style: part(row.walks_fetch) }));
}

const numberColumn = (title, value, show = count) =>
  ({ title, number: true, value, show: (row) => show(value(row)) });

const SHOWN_MAPPINGS = 8;

function showMappings(process) {
  const all = totalWalks(process);
  const rows = process.attribution.mappings.filter((row) => walksOf(row) > 0);
  replace("mappings-title", firstFinding(rows, all, "Walks by mapping"));
  if (!showSection("who-pays", rows.length > 0)) return;
  const cut = rows.length > SHOWN_MAPPINGS + 1 ? SHOWN_MAPPINGS : rows.length;
  const shown = rows.slice(0, cut);
  const rest = rows.slice(cut);
  if (rest.length > 0) {
    const sum = (key) => rest.reduce((total, row) => total + row[key], 0);
    shown.push({ name: `${rest.length} other mappings`, walks_data: sum("walks_data"), walks_fetch: sum("walks_fetch") });
  }
  const longest = Math.max(...shown.map(walksOf));
  replace("mapping-bars", el("div", { class: "stack" }, shown.map((row) => el("div", { class: "payer" },
    el("div", { class: "name", title: row.name }, shorten(row.name, 34)), splitBar(row, longest),
    el("div", { class: "number" }, count(walksOf(row))),
    el("div", { class: "number faint" }, percent(walksOf(row) / all))))));
}

function showMappingTable(process) {
  dataTable(byId("mapping-table"), {
    what: "mappings", rows: process.attribution.mappings, sorted: 8,
    searched: (row) => `${row.name} ${row.kind} ${row.build_id || ""}`,
    columns: [
      { title: "Mapping", value: (row) => row.name, show: (row) => [row.name,
        row.build_id ? el("span", { class: "sub mono" }, `build-id ${row.build_id}`) : null] },
      { title: "kind", value: (row) => row.kind, show: (row) => row.kind.replace("_", " ") },
      { title: "start", number: true, value: (row) => row.start, show: (row) => el("span", { class: "mono" }, address(row.start)) },
      numberColumn("size", (row) => row.bytes, bytes),
      numberColumn("pages touched", (row) => row.pages_touched),
      { title: "references", number: true, value: (row) => row.references_data + row.references_fetch,
        show: (row) => [count(row.references_data + row.references_fetch),
          el("span", { class: "sub" }, `${count(row.references_data)} data, ${count(row.references_fetch)} fetch`)] },
      numberColumn("data walks", (row) => row.walks_data),
      numberColumn("fetch walks", (row) => row.walks_fetch),
      numberColumn("walk cycles", (row) => row.walk_cycles),
    ],
  });
}

function showFunctions(process) {
  const all = totalWalks(process);
  const rows = process.attribution.functions;
  replace("functions-title", firstFinding(rows, all, "Walks by function"));
  if (!showSection("functions", rows.length > 0)) return;
  const longest = Math.max(...rows.map(walksOf));
  dataTable(byId("function-table"), {
    what: "functions", rows, sorted: 2,
    searched: (row) => `${row.name} ${row.object} ${row.file || ""}`,
    columns: [
      { title: "Function", value: (row) => row.name, show: (row) => [row.name, el("span", { class: "sub" }, row.object)] },
      { title: "source", value: (row) => row.file || "", show: (row) => row.file
        ? el("span", { class: "mono unbroken" }, row.line === null ? row.file : `${row.file}:${row.line}`) : "–" },
      numberColumn("walks", walksOf),
      { title: "share", number: true, value: walksOf, show: (row) => percent(all ? walksOf(row) / all : 0) },
      { title: "data and fetch", show: (row) => splitBar(row, longest) },
      numberColumn("data", (row) => row.walks_data),
      numberColumn("fetch", (row) => row.walks_fetch),
      numberColumn("walk cycles", (row) => row.walk_cycles),
    ],
  });
}

function showPages(process) {
  const all = totalWalks(process);
  const { pages, pages_left_out: leftOut } = process.attribution;
  replace("pages-title", pages.length ? pagesFinding(pages, all) : "Walks by page");
  byId("pages-lead").textContent = `The costliest ${pageName(basePage(process.machines[0]))} pages${leftOut ? `; ${exact(leftOut)} more pages with walks are left out` : ""}.`;
  if (!showSection("pages", pages.length > 0)) return;
  dataTable(byId("page-table"), {
    what: "pages", rows: pages, sorted: 2,
    searched: (row) => `${address(row.address)} ${row.mapping}`,
    columns: [
      { title: "Page", value: (row) => row.address, show: (row) => el("span", { class: "mono" }, address(row.address)) },
      { title: "mapping", value: (row) => row.mapping, show: (row) => row.mapping },
      numberColumn("walks", walksOf),
      { title: "share", number: true, value: walksOf, show: (row) => percent(all ? walksOf(row) / all : 0) },
      numberColumn("data", (row) => row.walks_data),
      numberColumn("fetch", (row) => row.walks_fetch),
    ],
  });
}

// Returns what shows anew which process is chosen: search and order stay as they are.
function showProcesses(onChoose) {
  const rows = result.processes.map((process, index) => ({ process, index }));
  const of = (name) => (row) => metric(row.process.machines[0], name) || 0;
  return dataTable(byId("process-table"), {
    what: "processes", rows, sorted: 5, first: 10, chosen: (row) => row.index === state.process, onChoose: (row) => onChoose(row.index),
    searched: ({ process }) => `${process.program} ${process.pid} ${process.command_line.join(" ")} ${process.ended}`,
    columns: [
      { title: "Program", value: (row) => baseName(row.process.program), show: (row) => [
        el("a", { href: "#summary" }, baseName(row.process.program)),
        el("span", { class: "sub" }, shorten(row.process.command_line.join(" "), 90))] },
      numberColumn("pid", (row) => row.process.pid, String),
      { title: "start", value: (row) => row.process.origin, show: (row) => row.process.origin },
      { title: "end", value: (row) => row.process.ended, show: (row) => row.process.ended },
      numberColumn("instructions", of("instructions")),
      numberColumn("walk cycles", of("walk_cycles")),
      numberColumn("walks", of("walks")),
      numberColumn("share", of("walk_cycle_share"), percent),
    ],
  });
}
