// The theme, before the first paint: a classic script, so that a dark page does not flash white.
(() => {
  try {
    const theme = localStorage.getItem("towpath.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the page has the theme of the system.
  }
})();
