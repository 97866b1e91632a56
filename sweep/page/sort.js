for (const head of document.querySelectorAll("table.sorted th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[head.cellIndex];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      const sign = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      return down ? -sign : sign;
    };
    const body = head.closest("table").tBodies[0];
    body.append(...[...body.rows].sort(order));
  });
}
