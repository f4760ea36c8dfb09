// What must hold for every view of the page, whatever it shows: measured in the page itself.

/**
 * Runs in the page. Returns what is wrong, in words.
 *
 * @param {{ target: number, contrast: boolean }} options the smallest size of a control, and whether colours are checked
 */
export async function layoutFaults({ target, contrast }) {
  // Observers of sizes are called at the end of a frame, and may change something.
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  const faults = new Set();
  const open = [...document.querySelectorAll("dialog[open]")].at(-1);
  const layer = document.querySelector("[popover=auto]:popover-open") ?? open ?? document.querySelector(".sidebar.open") ?? document.body;
  const describe = (element) => {
    const words = element.getAttribute("aria-label") ?? element.textContent ?? "";
    const name = typeof element.className === "string" ? element.className : "";
    return `${element.tagName.toLowerCase()}${name ? `.${name.trim().replaceAll(/\s+/g, ".")}` : ""} “${words.trim().slice(0, 24)}”`;
  };
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };
  const common = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });
  const size = (it) => [it.right - it.left, it.bottom - it.top];
  const empty = (it) => it.right - it.left < 1 || it.bottom - it.top < 1;
  const screen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  const styles = new Map();
  const style = (element) => styles.get(element) ?? styles.set(element, getComputedStyle(element)).get(element);
  const dock = document.querySelector(".dock");
  const clips = (element) => /auto|scroll|hidden|clip/.test(style(element).overflowX + style(element).overflowY);
  // Sizes are compared first: there are thousands of elements, and few of them are larger inside.
  const scrolls = (element, axis) =>
    (axis === "x" ? element.scrollWidth > element.clientWidth + 1 : element.scrollHeight > element.clientHeight + 1) &&
    /auto|scroll/.test(axis === "x" ? style(element).overflowX : style(element).overflowY);
  /** The part of the window in which the conversation is seen. */
  const reading = () => ({
    ...screen,
    top: Math.max(0, ...[...document.querySelectorAll(".top, .bar")].map((it) => box(it).bottom)),
    bottom: dock ? box(dock).top + parseFloat(style(dock).paddingTop) : innerHeight,
  });
  const visible = (element) => {
    let seen = common(box(element), screen);
    for (let up = element.parentElement; up && up !== document.documentElement; up = up.parentElement) {
      if (up.matches(".log, .page > .empty, .page > .usage")) seen = common(seen, reading());
      if (clips(up) && !up.matches(".page, body")) seen = common(seen, box(up));
      if (style(up).position === "fixed") break;
    }
    return seen;
  };
  const shown = (element) =>
    element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest(".visually-hidden, .skip") && element.getClientRects().length > 0;
  const container = (element) => {
    for (let up = element.parentElement; up && up !== document.body; up = up.parentElement) if (scrolls(up, "y") || scrolls(up, "x")) return up;
    return element.closest(".page") && !element.closest(".dock, .top, .bar") ? document.documentElement : undefined;
  };
  const controls = () => {
    const all = [...layer.querySelectorAll("button, input, select, textarea, summary, a[href], [role=option], label.radio-field, label.request-rule, label.switch-field")].filter(shown);
    // A label is the target of the box in it.
    const targets = all.filter((it) => !it.matches("input[type=radio], input[type=checkbox]") || !it.closest("label")).filter((it) => !it.closest(".toasts"));
    return targets.filter((it) => !it.matches("label.switch-field") || it.querySelector("input"));
  };

  /** Whether one is meant to float above the conversation, which can be scrolled. */
  const floats = (one, other) => Boolean(one.closest(".menu, .pill-row") && other.closest(".log"));

  const checkGeometry = (all) => {
    const scrollBefore = scrollY;
    if (!all.length) faults.add("there are no controls at all");
    // What a decision needs is in sight without scrolling.
    for (const element of layer.querySelectorAll(".request-actions .button, .request-reason .button, .request-rules [type=submit], .sheet-foot .button, .sheet-head .icon-button, .composer textarea, .composer .send, .continue .button, .sidebar-search input")) {
      if (!shown(element)) continue;
      const [width, height] = size(visible(element));
      const [wholeWidth, wholeHeight] = size(box(element));
      const tall = element.matches("textarea");
      if (width < wholeWidth - 1.5 || (height < wholeHeight - 1.5 && !(tall && height > 30))) faults.add(`out of sight: ${describe(element)} ${JSON.stringify(box(element))}`);
    }
    // A title of any length leaves the buttons beside it in one row.
    const row = [...document.querySelectorAll(".bar > .icon-button, .bar > h1")].filter(shown).map((it) => (box(it).top + box(it).bottom) / 2);
    if (row.length && Math.max(...row) - Math.min(...row) > 12) faults.add("the bar has its buttons in several rows");
    for (const element of [...layer.querySelectorAll(".request-body")].filter(shown)) {
      const [, height] = size(visible(element));
      if (height < Math.min(element.scrollHeight - 2, 36)) faults.add(`no room to read in: ${describe(element)} ${Math.round(height)} px`);
    }
    // Parts of the page do not lie across each other.
    const parts = layer === document.body ? [...document.querySelectorAll(".sidebar, .top, .bar, .side, .request, .todo-strip, .queued-prompts, .composer, .continue, .status, .sheet-head, .sheet-body, .sheet-foot")].filter(shown) : [...layer.querySelectorAll(".sheet-head, .sheet-body, .sheet-foot")];
    parts.forEach((one, n) => {
      for (const other of parts.slice(n + 1)) {
        if (one.contains(other) || other.contains(one)) continue;
        const [width, height] = size(common(box(one), box(other)));
        if (width > 1 && height > 1) faults.add(`${describe(one)} lies across ${describe(other)} by ${Math.round(height)} px`);
      }
    });
    for (const outer of layer.querySelectorAll(".request, .request-inner, dialog, .dock")) {
      for (const child of outer.children) {
        if (!shown(child) || child.matches(".pill-row, .menu")) continue;
        const [inside, whole] = [box(outer), box(child)];
        const sideways = whole.left < inside.left - 1.5 || whole.right > inside.right + 1.5;
        if (!scrolls(outer, "y") && (whole.bottom > inside.bottom + 1.5 || whole.top < inside.top - 1.5 || sideways)) faults.add(`sticks out of ${describe(outer)}: ${describe(child)}`);
      }
    }
    // Nothing scrolls sideways except tables, formulas, code and diffs, which do so in themselves.
    if (document.documentElement.scrollWidth > innerWidth) faults.add(`the page is ${document.documentElement.scrollWidth - innerWidth} px too wide`);
    for (const element of layer.querySelectorAll("*:not(.diff *, pre *, svg *)")) {
      if (!scrolls(element, "x") || !shown(element) || element.matches("pre, .diff, .diff .side, .output, .table, .math.display, .table-wrap, .terminal-scroller, input, textarea")) continue;
      faults.add(`scrolls sideways: ${describe(element)} ${element.scrollWidth} > ${element.clientWidth}`);
    }
    for (const element of layer.querySelectorAll(".request pre, .request .diff")) if (scrolls(element, "x")) faults.add(`a card hides text to the right: ${describe(element)}`);
    // No two controls overlap.
    const seen = all.map((element) => [element, visible(element)]).filter(([, it]) => !empty(it));
    seen.forEach(([one, a], n) => {
      for (const [other, b] of seen.slice(n + 1)) {
        if (one.contains(other) || other.contains(one) || floats(one, other) || floats(other, one)) continue;
        const [width, height] = size(common(a, b));
        if (width > 1 && height > 1) faults.add(`${describe(one)} overlaps ${describe(other)}`);
      }
    });
    // Every control can be reached, receives its click and is large enough. In a long list the first,
    // the middle and the last are tried.
    const groups = Map.groupBy(all, container);
    for (const [scroller, members] of groups) {
      const some = scroller && members.length > 6 ? [members[0], members[members.length >> 1], members.at(-1)] : members;
      for (const element of some) {
        const room = scroller === document.documentElement ? size(reading())[1] : scroller ? scroller.clientHeight : innerHeight;
        const [wide, high] = size(box(element));
        if (scroller === document.documentElement && room < high + 8) continue;
        if (scroller) element.scrollIntoView({ block: scroller === document.documentElement ? "center" : "nearest", inline: "nearest" });
        if (scroller === document.documentElement) {
          const [place, own] = [reading(), box(element)];
          scrollBy(0, (own.top + own.bottom - place.top - place.bottom) / 2);
        }
        const part = visible(element);
        const [width, height] = size(part);
        if (width < wide - 1.5 || height < Math.min(high, room) - 1.5) {
          faults.add(`outside of the window: ${describe(element)} ${JSON.stringify(box(element))}`);
          continue;
        }
        const hit = document.elementFromPoint((part.left + part.right) / 2, (part.top + part.bottom) / 2);
        if (hit && floats(hit, element)) continue;
        if (!hit || !(element.contains(hit) || hit.contains(element))) faults.add(`${describe(element)} is covered by ${hit ? describe(hit) : "nothing"}`);
        const inline = style(element).display === "inline";
        if (!inline && (wide < target - 0.6 || high < target - 0.6)) faults.add(`too small: ${describe(element)} ${Math.round(wide)} × ${Math.round(high)}`);
      }
    }
    scrollTo(0, scrollBefore);
  };

  const checkContrast = (theme) => {
    const parse = (text) => {
      const numbers = text.match(/-?[\d.]+(e-?\d+)?/g)?.map(Number) ?? [0, 0, 0, 0];
      const [red, green, blue, alpha = 1] = numbers;
      return text.startsWith("color(") ? [red * 255, green * 255, blue * 255, alpha] : [red, green, blue, alpha];
    };
    const over = (top, below) => [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
    const ground = (element) => {
      const layers = [];
      for (let up = element; up; up = up.parentElement) {
        const colour = parse(style(up).backgroundColor);
        if (colour[3] > 0) layers.push(colour);
        if (colour[3] === 1) break;
      }
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
    };
    const brightness = (colour) => {
      const [red, green, blue] = colour.slice(0, 3).map((it) => it / 255).map((it) => (it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ratio = (a, b) => {
      const [dim, bright] = [brightness(a), brightness(b)].sort((x, y) => x - y);
      return (bright + 0.05) / (dim + 0.05);
    };
    const known = new Set();
    const walker = document.createTreeWalker(layer, NodeFilter.SHOW_TEXT);
    let tried = 0;
    for (let node = walker.nextNode(); node && tried < 600; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || known.has(element) || !element || element.closest(":disabled, .visually-hidden, .skip, option")) continue;
      known.add(element);
      if (!shown(element)) continue;
      tried += 1;
      let opacity = 1;
      for (let up = element; up; up = up.parentElement) opacity *= Number(style(up).opacity);
      const back = ground(element);
      const colour = parse(style(element).color);
      const text = over([...colour.slice(0, 3), colour[3] * opacity], back);
      const pixels = parseFloat(style(element).fontSize);
      const large = pixels >= 24 || (pixels >= 18.66 && Number(style(element).fontWeight) >= 700);
      const value = ratio(text, back);
      if (value < (large ? 3 : 4.5)) faults.add(`contrast ${value.toFixed(2)} in ${theme}: ${describe(element)}`);
    }
  };

  const root = document.documentElement;
  // A change of the theme styles the whole page anew, so each call begins with that of the last one.
  const themes = { dark: ["dark", "light"], contrast: ["contrast", "light"] }[root.dataset.theme] ?? ["light", "dark"];
  root.dataset.theme = themes[0];
  const all = controls();
  // One that the theme hides has an empty box.
  const boxes = () => JSON.stringify(all.map(box));
  checkGeometry(all);
  if (contrast) checkContrast(themes[0]);
  const before = boxes();
  root.dataset.theme = themes[1];
  styles.clear();
  if (contrast) checkContrast(themes[1]);
  if (boxes() !== before) faults.add("the theme moves controls");
  return [...faults];
}
