// The exported page: search, expanding, keys, theme, printing. The page is readable without it.
(() => {
  const $ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const input = document.querySelector("#search");
  const output = document.querySelector("#found");
  const turns = $("section.turn");
  let hits = [], hit = -1, here = -1;

  function search() {
    const words = input.value.trim().toLowerCase();
    hits.forEach((item) => item.classList.remove("found"));
    hits = []; hit = -1;
    if (words.length < 2) { output.textContent = ""; return; }
    for (const item of $(".item"))
      if (!item.querySelector(".item") && item.textContent.toLowerCase().includes(words)) hits.push(item);
    output.textContent = hits.length + (hits.length === 1 ? " match" : " matches");
    go(1);
  }
  function go(step) {
    if (!hits.length) return;
    hits[hit]?.classList.remove("found");
    hit = (hit + step + hits.length) % hits.length;
    const item = hits[hit];
    for (let up = item; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    const inner = item.querySelector("details"); if (inner) inner.open = true;
    item.classList.add("found");
    item.scrollIntoView({ block: "center" });
    output.textContent = `${hit + 1} of ${hits.length}`;
  }
  let waiting;
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 150); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { input.value = ""; search(); input.blur(); }
  });

  function turn(step) {
    turns[here]?.classList.remove("here");
    here = Math.max(0, Math.min(turns.length - 1, here + step));
    turns[here]?.classList.add("here");
    turns[here]?.scrollIntoView();
  }
  function fold() {
    const all = $("main details");
    const open = all.some((it) => !it.open);
    all.forEach((it) => { it.open = open; });
  }
  function theme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  }
  document.querySelector("#fold").addEventListener("click", fold);
  document.querySelector("#theme").addEventListener("click", theme);
  document.addEventListener("keydown", (event) => {
    if (event.target === input || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { "/": () => input.focus(), j: () => turn(1), k: () => turn(-1), e: fold, t: theme, n: () => go(1), N: () => go(-1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  for (const time of $("time[data-at]")) {
    const at = new Date(Number(time.dataset.at));
    time.title = time.textContent + " UTC";
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
  const bar = document.querySelector(".top");
  new IntersectionObserver(([title]) => bar.classList.toggle("named", !title.isIntersecting), { rootMargin: "-48px" })
    .observe(document.querySelector("h1"));
  let closed = [];
  addEventListener("beforeprint", () => { closed = $("main details:not([open])"); closed.forEach((it) => { it.open = true; }); });
  addEventListener("afterprint", () => closed.forEach((it) => { it.open = false; }));
})();
