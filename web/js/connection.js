/**
 * A WebSocket that reconnects by itself, and its true state.
 *
 * The server sends a heartbeat every 15 seconds. Silence for three heartbeats counts as a lost
 * connection, whatever the socket reports: phones keep dead sockets open. The first retry is
 * immediate, later ones back off up to half a minute, with jitter so that many pages do not
 * reconnect at the same moment.
 *
 * @module
 */

/** @typedef {import("./gateway.js").Frame} Frame */
/** @typedef {import("./gateway.js").SessionListFrame} SessionListFrame */
/** @typedef {import("./gateway.js").TerminalFrame} TerminalFrame */
/** @typedef {{ kind: "connecting" | "live" | "lost", since: number, retry?: number, received: number }} ConnectionState */

const HEARTBEAT = 15_000;
const MAX_SILENCE = 3 * HEARTBEAT;
const CONNECT_TIMEOUT = 10_000;
const MAX_BACKOFF = 30_000;
const FIRST_BACKOFF = 500;
/** The failures that the server's own announcement of one counts as: the next attempt is in 16 s. */
const ANNOUNCED_FAILURES = 6;
/** A page that returns to the foreground does not trust a connection that was silent for longer. */
const MAX_SILENCE_FOREGROUND = HEARTBEAT + 5_000;

/** @template {Frame | SessionListFrame | TerminalFrame} F */
export class Connection {
  /**
   * @param {() => string} address where to connect, called for every attempt
   * @param {(frame: F) => void} received
   * @param {(state: ConnectionState) => void} changed
   */
  constructor(address, received, changed) {
    this.address = address;
    this.received = received;
    this.changed = changed;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.failures = 0;
    this.closed = false;
    /** @type {ConnectionState} */
    this.state = { kind: "connecting", since: Date.now(), received: 0 };
    /** @type {number | undefined} */
    this.timer = undefined;
    this.interval = setInterval(() => this.#check(MAX_SILENCE), 5_000);
    this.onReturn = () => {
      if (document.visibilityState === "visible") this.#check(MAX_SILENCE_FOREGROUND);
    };
    this.onOnline = () => this.retry();
    // A laptop without a network still reaches a server on itself, so it reconnects.
    this.onOffline = () => this.#drop();
    document.addEventListener("visibilitychange", this.onReturn);
    addEventListener("pageshow", this.onReturn);
    addEventListener("online", this.onOnline);
    addEventListener("offline", this.onOffline);
    this.#connect();
  }

  /**
   * Sends a frame if there is a connection. After a reconnect the server sends a new frame anyway.
   *
   * @param {import("./gateway.js").ClientFrame | import("./gateway.js").TerminalClientFrame} frame
   */
  send(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** Reconnects immediately if the connection is lost. */
  retry() {
    if (this.closed || this.state.kind === "live") return;
    this.failures = 0;
    this.#closeSocket();
    this.#connect();
  }

  /** Takes its time before it reconnects: the server has said that it would fail again right away. */
  backOff() {
    this.failures = ANNOUNCED_FAILURES;
  }

  /** Closes it for good. */
  close() {
    this.closed = true;
    clearInterval(this.interval);
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onReturn);
    removeEventListener("pageshow", this.onReturn);
    removeEventListener("online", this.onOnline);
    removeEventListener("offline", this.onOffline);
    this.#closeSocket();
  }

  #connect() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.address());
    this.socket = socket;
    if (this.state.kind !== "lost") this.#become("connecting");
    this.timer = setTimeout(() => this.#drop(), CONNECT_TIMEOUT);
    socket.onmessage = (message) => {
      if (socket !== this.socket) return;
      clearTimeout(this.timer);
      this.failures = 0;
      this.state.received = Date.now();
      // The connection is live when the server has sent a frame, not when a proxy has opened it.
      if (this.state.kind !== "live") this.#become("live");
      this.received(JSON.parse(message.data));
    };
    socket.onclose = () => {
      if (socket === this.socket) this.#drop();
    };
  }

  /** Closes the socket and schedules the next attempt. */
  #drop() {
    if (this.closed) return;
    this.#closeSocket();
    const delay =
      this.failures === 0
        ? 0
        : Math.min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (this.failures - 1)) + Math.random() * 500;
    this.failures += 1;
    this.#become("lost", Date.now() + delay);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#connect(), delay);
  }

  #closeSocket() {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onmessage = socket.onclose = null;
    socket.close();
  }

  /** @param {number} silence */
  #check(silence) {
    if (this.state.kind === "live" && Date.now() - this.state.received > silence) this.#drop();
    else if (
      this.state.kind === "lost" &&
      document.visibilityState === "visible" &&
      silence === MAX_SILENCE_FOREGROUND
    )
      this.retry();
  }

  /** @param {ConnectionState["kind"]} kind @param {number} [retry] */
  #become(kind, retry) {
    const since = this.state.kind === kind ? this.state.since : Date.now();
    this.state = { kind, since, retry, received: this.state.received };
    this.changed(this.state);
  }
}
