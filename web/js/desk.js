/**
 * What a person can ask of one session. The server decides; what came of it is seen in the
 * conversation, and only a refusal is told here.
 *
 * @module
 */

import { ask, at, newId, Problem } from "./api.js";
import { toast } from "./toast.js";
import { several } from "./words.js";

/** @typedef {import("./gateway.js").WaitingPrompt} WaitingPrompt */
/** @typedef {import("./gateway.js").Request} Request */
/** @typedef {import("./gateway.js").Abilities} Abilities */

/** How often a prompt is tried again while the server cannot be reached. */
const ATTEMPTS = 4;

const OUTCOMES = /** @type {Record<string, string>} */ ({ allowed: "allowed", allowed_and_remembered: "allowed and remembered", denied: "refused", expired: "refused for want of an answer", withdrawn: "withdrawn" });

export class Desk {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** Requests that were answered here. @type {Set<string>} */ this.answered = new Set();
    /** @type {Promise<Abilities> | undefined} */ this.known = undefined;
  }

  /**
   * Sends a prompt, trying again while the server cannot be reached: its id makes that harmless.
   *
   * @param {import("./composer.js").Outgoing} prompt
   */
  async send(prompt) {
    const images = prompt.images.map(({ media_type, data }) => ({ media_type, data }));
    const body = { id: prompt.id, text: prompt.text, images: images.length ? images : undefined, delivery: prompt.delivery };
    for (let attempt = 1; ; attempt += 1) {
      try {
        await ask("POST", at(this.id, "/prompts"), body);
        return;
      } catch (problem) {
        if (!(problem instanceof Problem) || problem.status !== 0 || attempt >= ATTEMPTS) throw problem;
        await new Promise((resolve) => setTimeout(resolve, 150 * 2 ** attempt));
      }
    }
  }

  /** @param {string} prompt @param {string} text @returns {Promise<void>} */
  edit(prompt, text) {
    return ask("PATCH", at(this.id, `/prompts/${prompt}`), { text });
  }

  /** @param {WaitingPrompt} prompt */
  async takeBack(prompt) {
    await tried(ask("DELETE", at(this.id, `/prompts/${prompt.id}`)));
  }

  /** @param {WaitingPrompt} prompt @param {string | undefined} before */
  async move(prompt, before) {
    await tried(ask("POST", at(this.id, `/prompts/${prompt.id}/move`), { before }));
  }

  /**
   * Takes a waiting prompt back and says it into the running turn.
   *
   * @param {WaitingPrompt} prompt
   * @param {(text: string) => void} keep what to do with the words where that failed half-way
   */
  async steer(prompt, keep) {
    try {
      await ask("DELETE", at(this.id, `/prompts/${prompt.id}`));
    } catch (problem) {
      toast(/** @type {Error} */ (problem).message);
      return;
    }
    try {
      await this.send({ id: newId(), text: prompt.text, images: [], delivery: "steer" });
    } catch (problem) {
      keep(prompt.text);
      toast(/** @type {Error} */ (problem).message);
    }
  }

  /** @param {Request} request @param {import("./asks.js").Answer} answer */
  async answer(request, answer) {
    this.answered.add(request.id);
    try {
      await ask("POST", at(this.id, `/requests/${encodeURIComponent(request.id)}`), answer);
    } catch (problem) {
      this.answered.delete(request.id);
      const { kind, more, message } = /** @type {Problem} */ (problem);
      toast(kind === "resolved" ? `${request.tool}: already ${outcome(more.resolution)}` : message);
    }
  }

  /** Says who answered what was not answered here. @param {Request[]} requests */
  async tellWho(requests) {
    const others = requests.filter((it) => !this.answered.has(it.id));
    if (!others.length) return;
    const { entries } = await ask("GET", at(this.id, "/ledger")).catch(() => ({ entries: [] }));
    for (const request of others) {
      const entry = entries.find((/** @type {any} */ it) => it.id === request.id);
      toast(`${request.tool}: ${outcome(entry?.resolution)}`);
    }
  }

  /** @param {number} waiting */
  async interrupt(waiting) {
    if ((await tried(ask("POST", at(this.id, "/interrupt"), { queue: "keep" }))) && waiting) toast(`Stopping. ${several(waiting, "prompt")} still ${waiting === 1 ? "waits" : "wait"}.`);
  }

  /** @param {{ mode?: string, model?: string | null, effort?: string }} settings */
  async set(settings) {
    await tried(ask("PATCH", at(this.id, "/settings"), settings));
  }

  /** What the agent can do; asked once, since it has to be running to tell. */
  abilities() {
    this.known ??= ask("POST", at(this.id, "/wake")).catch((problem) => {
      this.known = undefined;
      throw problem;
    });
    return this.known;
  }

  /** @param {string} like @returns {Promise<string[]>} */
  async files(like) {
    return (await ask("GET", at(this.id, `/files?like=${encodeURIComponent(like)}`))).paths;
  }

  /** @param {string} before @returns {Promise<import("./gateway.js").Page>} */
  older(before) {
    return ask("GET", at(this.id, `/items?before=${before}&limit=50`));
  }
}

/** @param {import("./gateway.js").Resolution | undefined} resolution */
function outcome(resolution) {
  const what = OUTCOMES[resolution?.outcome ?? ""] ?? "answered";
  return resolution?.by ? `${what} by ${resolution.by.name} (${resolution.by.via})` : what;
}

/** Whether it went well; what did not is said. @param {Promise<unknown>} promise */
export async function tried(promise) {
  try {
    await promise;
    return true;
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
    return false;
  }
}
