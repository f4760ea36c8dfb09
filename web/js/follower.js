/**
 * A WebSocket that is kept alive, and the truth about whether it is.
 *
 * The server beats every 15 seconds. Silence for three beats counts as a dead line, whatever the
 * socket says: phones keep sockets open that lead nowhere. The first retry comes at once, later
 * ones after twice the time up to half a minute, with some jitter so that many pages do not come
 * back in one moment.
 *
 * @module
 */

/** @typedef {import("./gateway.js").Frame} Frame */
/** @typedef {{ is: "connecting" | "live" | "lost", since: number, retry?: number, heard: number }} Line */

const BEAT = 15_000;
const SILENCE = 3 * BEAT;
const CONNECT_LIMIT = 10_000;
const LONGEST = 30_000;
const FIRST = 500;
/** A page that comes back to the foreground does not trust a line that was silent for longer. */
const FOREGROUND = BEAT + 5_000;

export class Follower {
  /**
   * @param {() => string} address where to connect, asked for anew at every attempt
   * @param {(frame: Frame) => void} heard
   * @param {(line: Line) => void} changed
   */
  constructor(address, heard, changed) {
    this.address = address;
    this.heard = heard;
    this.changed = changed;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.failures = 0;
    this.closed = false;
    /** @type {Line} */
    this.line = { is: "connecting", since: Date.now(), heard: 0 };
    /** @type {number | undefined} */
    this.timer = undefined;
    this.watch = setInterval(() => this.#check(SILENCE), 5_000);
    this.onReturn = () => {
      if (document.visibilityState === "visible") this.#check(FOREGROUND);
    };
    this.onOnline = () => this.retry();
    // A laptop without a network still reaches a server on itself, so the line is tried, not believed dead.
    this.onOffline = () => this.#drop();
    document.addEventListener("visibilitychange", this.onReturn);
    addEventListener("pageshow", this.onReturn);
    addEventListener("online", this.onOnline);
    addEventListener("offline", this.onOffline);
    this.#connect();
  }

  /** Says something. What cannot be said now is not kept: the server is asked anew after a reconnect.
   * @param {unknown} frame */
  say(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** Tries again at once, if there is no line. */
  retry() {
    if (this.closed || this.line.is === "live") return;
    this.failures = 0;
    this.#letGo();
    this.#connect();
  }

  /** Ends it for good. */
  close() {
    this.closed = true;
    clearInterval(this.watch);
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onReturn);
    removeEventListener("pageshow", this.onReturn);
    removeEventListener("online", this.onOnline);
    removeEventListener("offline", this.onOffline);
    this.#letGo();
  }

  #connect() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.address());
    this.socket = socket;
    if (this.line.is !== "lost") this.#become("connecting");
    this.timer = setTimeout(() => this.#drop(), CONNECT_LIMIT);
    socket.onmessage = (message) => {
      if (socket !== this.socket) return;
      clearTimeout(this.timer);
      this.failures = 0;
      this.line.heard = Date.now();
      // A line counts as live when the server has spoken, not when a proxy has opened it.
      if (this.line.is !== "live") this.#become("live");
      this.heard(JSON.parse(message.data));
    };
    socket.onclose = () => {
      if (socket === this.socket) this.#drop();
    };
  }

  /** Gives up the socket and arranges the next attempt. */
  #drop() {
    if (this.closed) return;
    this.#letGo();
    const wait = this.failures === 0 ? 0 : Math.min(LONGEST, FIRST * 2 ** (this.failures - 1)) + Math.random() * 500;
    this.failures += 1;
    this.#become("lost", Date.now() + wait);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#connect(), wait);
  }

  #letGo() {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onmessage = socket.onclose = null;
    socket.close();
  }

  /** @param {number} silence */
  #check(silence) {
    if (this.line.is === "live" && Date.now() - this.line.heard > silence) this.#drop();
    else if (this.line.is === "lost" && document.visibilityState === "visible" && silence === FOREGROUND) this.retry();
  }

  /** @param {Line["is"]} is @param {number} [retry] */
  #become(is, retry) {
    const since = this.line.is === is ? this.line.since : Date.now();
    this.line = { is, since, retry, heard: this.line.heard };
    this.changed(this.line);
  }
}
