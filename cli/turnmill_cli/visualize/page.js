// The page is complete without this: it shows repeated images, and unfolds what a link leads to.
"use strict";
for (const image of document.querySelectorAll("img[data-same]")) {
  const first = document.getElementById(image.dataset.same);
  if (first) image.src = first.src;
}
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) {
    if (node.tagName === "DETAILS") node.open = true;
  }
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
if (location.hash) reveal();
for (const bar of document.querySelectorAll(".buttons")) {
  bar.hidden = false;
  bar.addEventListener("click", (event) => {
    const open = event.target.dataset.open;
    if (open === undefined) return;
    for (const fold of document.querySelectorAll("#turns details.fold")) fold.open = open === "true";
  });
}
