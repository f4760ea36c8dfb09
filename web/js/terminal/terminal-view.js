/**
 * The terminals of a session: one shown, all as tabs. The screens are kept by the server, so a reload
 * shows the same.
 *
 * @module
 */

import { callApi, sessionPath, streamAddress } from "../api.js";
import { Connection } from "../connection.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { currentAddress, replaceAddress } from "../ui/layers.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { TerminalInput } from "./input.js";
import { KeyRow } from "./key-row.js";
import { TerminalScreen } from "./screen.js";

/** @typedef {import("../gateway.js").Terminal} Terminal */
/** @typedef {import("../gateway.js").TerminalFrame} TerminalFrame */
/** @typedef {import("../session-page.js").SessionPage} SessionPage */

await loadStylesheet("/css/terminal.css");

/**
 * How long what was typed without a connection is kept, in milliseconds. Later it could surprise.
 */
const INPUT_LIFETIME = 10_000;
/** How many characters of it are kept. */
const MAX_WAITING_INPUT = 100_000;

/** @param {SessionPage} page @param {string} rest */
export function open(page, rest) {
  return new TerminalView(page, rest);
}

class TerminalView {
  /** @param {SessionPage} page @param {string} rest the number of a terminal */
  constructor(page, rest) {
    this.page = page;
    /** @type {Terminal[]} */ this.terminals = [];
    /** The number of the terminal that is shown. */
    this.number = 0;
    /** @type {TerminalScreen | undefined} */ this.screen = undefined;
    /** @type {TerminalInput | undefined} */ this.input = undefined;
    /** @type {Connection<TerminalFrame> | undefined} */ this.connection = undefined;
    /** What was typed while there was no connection. @type {{ text: string, at: number }[]} */
    this.waiting = [];
    this.isClosed = false;
    this.tabs = h("ul", { class: "terminal-tabs" });
    this.place = h("div", { class: "terminal-place" });
    this.message = h("div", { class: "terminal-message", role: "status", hidden: true });
    this.keys = new KeyRow(() => this.input);
    this.element = h(
      "section",
      { class: "terminal", "aria-label": "Terminal" },
      h(
        "div",
        { class: "terminal-bar" },
        this.tabs,
        iconButton("New terminal", PATHS.add, () => void this.start()),
      ),
      this.place,
      this.message,
      this.keys.element,
    );
    // The on-screen keyboard covers a part of the window, of which style sheets know nothing.
    this.fit = () => {
      const viewport = window.visualViewport;
      const covered = viewport ? innerHeight - viewport.height * viewport.scale : 0;
      this.element.style.marginBottom = covered > 60 ? `${covered}px` : "";
    };
    window.visualViewport?.addEventListener("resize", this.fit);
    void this.load(rest);
  }

  /** Reads which terminals there are, and shows one. @param {string} rest */
  async load(rest) {
    try {
      /** @type {{ terminals: Terminal[] }} */
      const { terminals } = await callApi("GET", this.#path());
      if (this.isClosed) return;
      this.terminals = terminals;
    } catch (problem) {
      this.#fail(problem, () => void this.load(rest));
      return;
    }
    const wanted = this.terminals.find((it) => String(it.number) === rest);
    const running = this.terminals.find((it) => !it.ended);
    const shown = wanted ?? running ?? this.terminals.at(-1);
    if (shown) this.#follow(shown.number);
    else await this.start();
  }

  /** Starts a shell. @param {number} [again] the number of one that has ended */
  async start(again) {
    const { columns, rows } = this.screen?.size ?? this.#estimate();
    try {
      /** @type {Terminal} */
      const terminal = await callApi("POST", this.#path(), { columns, rows, again });
      if (this.isClosed) return;
      this.#show("");
      if (again && again === this.number && this.connection) {
        // The server shows the new one on the same connection.
        this.focus();
        return;
      }
      if (!this.terminals.some((it) => it.number === terminal.number))
        this.terminals = [...this.terminals, terminal].sort((a, b) => a.number - b.number);
      this.#follow(terminal.number);
      this.focus();
    } catch (problem) {
      this.#fail(problem, () => void this.start(again));
    }
  }

  /** The size of a terminal before there is one. */
  #estimate() {
    const { clientWidth, clientHeight } = this.place;
    return {
      columns: Math.min(300, Math.max(20, Math.floor((clientWidth - 24) / 7.9))),
      rows: Math.min(150, Math.max(5, Math.floor((clientHeight - 12) / 18))),
    };
  }

  /** @param {string} [rest] */
  #path(rest = "") {
    return sessionPath(this.page.id, `/terminals${rest}`);
  }

  /** The address of a terminal. @param {number} number */
  #address(number) {
    return `#/s/${this.page.id}/terminal/${number}`;
  }

  /** @param {number} number */
  #follow(number) {
    this.connection?.close();
    this.connection = undefined;
    this.screen?.close();
    this.number = number;
    this.waiting = [];
    this.#show("");
    const screen = new TerminalScreen({
      request: (from, count) => this.connection?.send({ frame: "scrollback", from, count }),
      resized: (columns, rows) => this.connection?.send({ frame: "resize", columns, rows }),
    });
    this.screen = screen;
    this.input = new TerminalInput(
      screen,
      (text) => this.#type(text),
      () => this.#modifiersChanged(),
    );
    fill(this.place, screen.element, screen.end);
    this.#drawTabs();
    const { base, sheet } = currentAddress();
    if (!sheet && base !== this.#address(number)) replaceAddress(this.#address(number));
    let greeted = 0;
    this.connection = new Connection(
      () => streamAddress(this.#path(`/${number}/follow`)),
      (frame) => {
        const { connection } = this;
        if (connection && connection.state.since !== greeted) {
          // A new connection: the server does not know yet how much fits here.
          greeted = connection.state.since;
          screen.requested = -1;
          if (screen.size.columns) connection.send({ frame: "resize", ...screen.size });
          this.#sendWaiting();
        }
        this.#received(screen, frame);
      },
      (state) => {
        if (state.kind === "lost" && this.connection?.failures) void this.#showLost();
        else if (state.kind === "live" && this.lost) this.#show("");
      },
    );
    if (document.activeElement === document.body && !matchMedia("(pointer: coarse)").matches)
      this.focus();
  }

  /** Sends what was typed, now or when there is a connection. @param {string} text */
  #type(text) {
    const { connection, waiting } = this;
    if (connection?.state.kind === "live") {
      connection.send({ frame: "input", text });
      return;
    }
    const length = waiting.reduce((sum, it) => sum + it.text.length, text.length);
    if (length <= MAX_WAITING_INPUT) waiting.push({ text, at: Date.now() });
  }

  #sendWaiting() {
    const since = Date.now() - INPUT_LIFETIME;
    for (const { text, at } of this.waiting.splice(0))
      if (at >= since) this.connection?.send({ frame: "input", text });
  }

  /** @param {TerminalScreen} screen @param {TerminalFrame} frame */
  #received(screen, frame) {
    if (screen !== this.screen) return;
    switch (frame.frame) {
      case "screen":
        this.#show("");
        screen.apply(frame);
        break;
      case "terminals":
        this.terminals = frame.terminals;
        this.#drawTabs();
        break;
      case "closed":
        this.#ended(frame.exit);
        break;
      default:
        screen.apply(frame);
    }
  }

  /** @param {import("../gateway.js").ShellExit | null | undefined} exit */
  #ended(exit) {
    const { number } = this;
    if (!exit) {
      // It was closed, here or elsewhere.
      this.connection?.close();
      this.connection = undefined;
      this.terminals = this.terminals.filter((it) => it.number !== number);
      const other = this.terminals.find((it) => it.number > number) ?? this.terminals.at(-1);
      if (other) this.#follow(other.number);
      else {
        this.screen?.close();
        this.screen = this.input = undefined;
        fill(this.place);
        this.#drawTabs();
        this.#show("There is no terminal open.", "Start a shell", () => void this.start());
      }
      return;
    }
    const how = exit.signal
      ? `ended by a signal (${exit.signal})`
      : exit.code
        ? `ended with exit code ${exit.code}`
        : "has ended";
    this.#show(`The shell ${how}.`, "Start again", () => void this.start(number));
  }

  async #closeTerminal(/** @type {Terminal} */ terminal) {
    const { confirmAction } = await import("../dialogs/dialogs.js");
    const name = label(terminal);
    if (
      !terminal.ended &&
      !(await confirmAction(`Close ${name}?`, "The programs in it are ended.", "Close"))
    )
      return;
    try {
      await callApi("DELETE", this.#path(`/${terminal.number}`));
      if (terminal.number !== this.number) {
        this.terminals = this.terminals.filter((it) => it.number !== terminal.number);
        this.#drawTabs();
      }
    } catch (problem) {
      this.#fail(problem, () => void this.#closeTerminal(terminal));
    }
  }

  #drawTabs() {
    fill(
      this.tabs,
      ...this.terminals.map((it) =>
        h(
          "li",
          {
            class: `terminal-tab${it.number === this.number ? " current" : ""}${it.ended ? " ended" : ""}`,
          },
          h(
            "a",
            {
              href: this.#address(it.number),
              title: label(it),
              "aria-current": it.number === this.number ? "page" : undefined,
            },
            h("span", {}, label(it)),
          ),
          iconButton(`Close ${label(it)}`, PATHS.close, () => void this.#closeTerminal(it)),
        ),
      ),
    );
  }

  #modifiersChanged() {
    this.keys.show();
    const leaves = this.input?.tabLeaves;
    if (leaves) this.#show("The Tab key leaves the terminal now. Ctrl+M changes that.");
    else if (!this.terminals.find((it) => it.number === this.number)?.ended) this.#show("");
  }

  /** Says that the connection is lost, and why if the server knows: the machine with the shell may be gone. */
  async #showLost() {
    const { connection, number } = this;
    const retry = () => connection?.retry();
    const isLost = () => this.lost && this.connection === connection && !this.isClosed;
    if (!this.lost)
      this.#show("The connection is lost. What runs here goes on.", "Reconnect now", retry);
    this.lost = true;
    try {
      /** @type {{ terminals: Terminal[] }} */
      const { terminals } = await callApi("GET", this.#path());
      if (!isLost() || terminals.some((it) => it.number === number)) return;
      // The server or the machine with the shell was started again, or the session is on another one.
      this.terminals = terminals;
      this.#ended(undefined);
    } catch (problem) {
      if (!isLost() || !(/** @type {import("../api.js").Problem} */ (problem).status)) return;
      this.#show(/** @type {Error} */ (problem).message, "Reconnect now", retry);
      this.lost = true;
    }
  }

  /** @param {unknown} problem @param {() => void} retry */
  #fail(problem, retry) {
    if (!this.isClosed) this.#show(/** @type {Error} */ (problem).message, "Try again", retry);
  }

  /** @param {string} text @param {string} [action] @param {() => void} [act] */
  #show(text, action, act) {
    this.lost = false;
    this.message.hidden = !text;
    fill(
      this.message,
      h("p", {}, text),
      action && h("button", { type: "button", class: "button", onclick: () => act?.() }, action),
    );
  }

  /** @param {string} rest */
  show(rest) {
    const number = Number(rest);
    if (!rest || number === this.number) return;
    if (this.terminals.some((it) => it.number === number)) this.#follow(number);
    else void this.load(rest);
  }

  focus() {
    this.input?.focus();
  }

  close() {
    this.isClosed = true;
    this.connection?.close();
    this.screen?.close();
    window.visualViewport?.removeEventListener("resize", this.fit);
  }
}

/** What a terminal is called. @param {Terminal} terminal */
function label(terminal) {
  return terminal.title ? `${terminal.number}: ${terminal.title}` : `Terminal ${terminal.number}`;
}
