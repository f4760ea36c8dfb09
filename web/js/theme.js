// The theme and the size of text, before the first paint: a classic script, so that a dark page does
// not flash white.
(() => {
  try {
    const { dataset } = document.documentElement;
    const theme = localStorage.getItem("towpath.theme");
    if (theme && /^(light|dark|contrast)$/.test(theme)) dataset.theme = theme;
    const size = localStorage.getItem("towpath.size");
    if (size && /^(small|large|larger|largest)$/.test(size)) dataset.size = size;
  } catch {
    // Without storage the page has the theme of the system.
  }
})();
