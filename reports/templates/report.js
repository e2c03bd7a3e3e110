"use strict";
for (const button of document.querySelectorAll("button.copy")) {
  const text = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

// Each source's link stands once on the page; here it stands where the source is named.
for (const named of document.querySelectorAll("#scenarios .promise a")) {
  named.href = document.querySelector(`${named.hash} a`).href;
}

const search = document.getElementById("search");
if (search) {
  const found = document.getElementById("found");
  const entries = [...document.querySelectorAll(".row, .card")];
  let texts;
  const look = () => {
    texts ??= entries.map((entry) => (entry.cells?.[0] ?? entry).textContent.toLowerCase());
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    entries.forEach((entry, at) => {
      const match = words.every((word) => texts[at].includes(word));
      entry.classList.toggle("unfound", !match);
      left += match;
    });
    found.textContent = words.length ? `${left} of ${entries.length} entries` : "";
  };
  search.closest("p").hidden = false;
  search.addEventListener("input", look);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      look();
    }
  });
}

const kinds = { "+": "p", x: "f", "?": "u", "-": "s", ".": "n" };
const marks = { p: "✓", f: "✗", u: "?", s: "–", n: "" };
const cellOf = (sign, link) => {
  const cell = document.createElement("td");
  cell.className = kinds[sign];
  const text = link ? cell.appendChild(link.cloneNode()) : cell;
  text.textContent = marks[cell.className];
  return cell;
};
for (const signs of document.querySelectorAll(".many td[colspan]")) {
  for (const link of signs.children)  // the anchor that the next run's report has too
    link.hash = document.querySelector(link.hash).parentElement.id;
  const cells = [...signs.childNodes].flatMap((part) =>
    [...part.textContent.trim()].map((sign) => cellOf(sign, part.hash && part)));
  signs.replaceWith(...cells);
}

const skipped = new Map();
for (const note of document.querySelectorAll(".skips")) {
  const scenario = note.parentElement.querySelector("b").textContent;
  const texts = [...note.children].map((link) => {
    const place = document.querySelector(link.hash);
    skipped.set(place, [...(skipped.get(place) ?? []), scenario]);
    const reason = place.closest("details").querySelector(".reason").textContent;
    const one = note.cloneNode();
    one.textContent = `Skipped ${place.querySelector(".on").textContent.trim()}: ${reason}`;
    return one;
  });
  note.replaceWith(...texts);
}
for (const [place, scenarios] of skipped) place.append(`: ${scenarios.join(", ")}`);

const words = { p: "kept", f: "broken", u: "could not tell", s: "skipped", n: "did not run" };
for (const table of document.querySelectorAll(".matrix table")) {
  const heads = table.tHead.rows[0].cells;
  table.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("tbody td");
    if (cell && !cell.title) {
      const scenario = cell.parentElement.cells[0].textContent;
      const machine = heads[cell.cellIndex].textContent.trim();
      cell.title = `${scenario} on ${machine}: ${words[cell.className]}`;
    }
  });
}

const unfold = () => {
  let at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
};
addEventListener("hashchange", unfold);
unfold();
