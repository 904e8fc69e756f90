"use strict";
// Sorts a table by the column whose header is pressed. Without script the table stands as it is.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) =>
    typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const rows = [...body.rows];
      const isNumber = rows.length > 0 && "value" in rows[0].cells[column].dataset;
      const current = header.getAttribute("aria-sort");
      const wanted = current ? (current === "ascending" ? "descending" : "ascending")
        : (isNumber ? "descending" : "ascending");
      const sign = wanted === "ascending" ? 1 : -1;
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", wanted);
    });
  });
}
