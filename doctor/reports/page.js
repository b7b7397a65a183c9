"use strict";
// The page is whole without this: it adds two buttons and a filter, opens what a link leads to, and opens all for print.
(() => {
  const all = () => document.querySelectorAll("details:not(.fold)");
  for (const tools of document.querySelectorAll(".tools")) {
    tools.hidden = false;
    tools.addEventListener("click", (event) => {
      const wanted = event.target.dataset.open;
      if (wanted) for (const item of tools.closest("section").querySelectorAll("details:not(.fold)")) item.open = wanted === "yes";
    });
  }
  for (const field of document.querySelectorAll("input[data-filter]")) {
    field.hidden = false;
    const groups = [...field.closest("section").querySelectorAll(".group")];
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const group of groups) {
        group.hidden = !group.querySelector(".names").textContent.toLowerCase().includes(wanted);
        if (wanted && !group.hidden) group.parentElement.closest("details")?.setAttribute("open", "");
      }
    });
  }
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...all()].filter((item) => !item.open);
    for (const item of opened) item.open = true;
  });
  addEventListener("afterprint", () => {
    for (const item of opened) item.open = false;
  });
})();
