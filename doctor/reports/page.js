"use strict";
// The page is whole without this: it adds the two buttons, opens what a link leads to, and opens all for print.
(() => {
  const all = () => document.querySelectorAll("details");
  for (const tools of document.querySelectorAll(".tools")) {
    tools.hidden = false;
    tools.addEventListener("click", (event) => {
      const wanted = event.target.dataset.open;
      if (wanted) for (const item of tools.closest("section").querySelectorAll("details")) item.open = wanted === "yes";
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
