/**
 * What a user can do with one session. Results appear in the conversation; only errors are
 * reported here.
 *
 * @module
 */

import { callApi, sessionPath, Problem } from "./api.js";
import { actorText } from "./ui/format.js";
import { toast } from "./ui/toast.js";

/** @typedef {import("./gateway.js").QueuedPrompt} QueuedPrompt */
/** @typedef {import("./gateway.js").Request} Request */
/** @typedef {import("./gateway.js").Abilities} Abilities */

/** How often sending a prompt is attempted while the server cannot be reached. */
const MAX_ATTEMPTS = 4;

const OUTCOMES = /** @type {Record<string, string>} */ ({
  allowed: "allowed",
  allowed_and_remembered: "allowed and remembered",
  denied: "denied",
  expired: "denied: no answer in time",
  withdrawn: "withdrawn",
});

export class SessionActions {
  /** @param {string} id @param {string} me the name of the user */
  constructor(id, me) {
    this.id = id;
    this.me = me;
    /** Requests that this page answered. @type {Set<string>} */ this.answered = new Set();
    /** @type {Promise<Abilities> | undefined} */ this.loadedAbilities = undefined;
  }

  /**
   * Sends a prompt, and retries while the server cannot be reached. Its id makes that safe.
   *
   * @param {import("./composer/composer.js").Outgoing} prompt
   */
  async send(prompt) {
    const images = prompt.images.map(({ media_type, data }) => ({ media_type, data }));
    const body = {
      id: prompt.id,
      text: prompt.text,
      images: images.length ? images : undefined,
      delivery: prompt.delivery,
    };
    for (let attempt = 1; ; attempt += 1) {
      try {
        await callApi("POST", sessionPath(this.id, "/prompts"), body);
        return;
      } catch (problem) {
        if (!(problem instanceof Problem) || problem.status !== 0 || attempt >= MAX_ATTEMPTS)
          throw problem;
        await new Promise((resolve) => setTimeout(resolve, 150 * 2 ** attempt));
      }
    }
  }

  /** @param {string} prompt @param {string} text @returns {Promise<void>} */
  edit(prompt, text) {
    return callApi("PATCH", sessionPath(this.id, `/prompts/${prompt}`), { text });
  }

  /** @param {QueuedPrompt} prompt */
  async remove(prompt) {
    await reportErrors(callApi("DELETE", sessionPath(this.id, `/prompts/${prompt.id}`)));
  }

  /** @param {QueuedPrompt} prompt @param {string | undefined} before */
  async move(prompt, before) {
    await reportErrors(
      callApi("POST", sessionPath(this.id, `/prompts/${prompt.id}/move`), { before }),
    );
  }

  /** Sends a queued prompt into the running turn. @param {QueuedPrompt} prompt */
  async steer(prompt) {
    const path = sessionPath(this.id, `/prompts/${prompt.id}`);
    await reportErrors(callApi("PATCH", path, { delivery: "steer" }));
  }

  /** @param {Request} request @param {import("./gateway.js").AnswerRequest} answer */
  async answer(request, answer) {
    this.answered.add(request.id);
    try {
      await callApi(
        "POST",
        sessionPath(this.id, `/requests/${encodeURIComponent(request.id)}`),
        answer,
      );
    } catch (problem) {
      this.answered.delete(request.id);
      const { kind, more, message } = /** @type {Problem} */ (problem);
      toast(
        kind === "resolved"
          ? `${request.tool}: already ${this.#outcome(more.resolution)}`
          : message,
      );
    }
  }

  /** Reports who answered requests that this page did not answer. @param {Request[]} requests */
  async reportAnswers(requests) {
    const others = requests.filter((it) => !this.answered.has(it.id));
    if (!others.length) return;
    const { entries } = await callApi("GET", sessionPath(this.id, "/ledger")).catch(() => ({
      entries: [],
    }));
    for (const request of others) {
      const entry = entries.find(
        (/** @type {import("./gateway.js").RequestEntry} */ it) => it.id === request.id,
      );
      toast(`${request.tool}: ${this.#outcome(entry?.resolution)}`);
    }
  }

  /** Stops the turn. Queued prompts wait until the user resumes them. */
  async interrupt() {
    const body = { queue: "keep", hold_queue: true };
    await reportErrors(callApi("POST", sessionPath(this.id, "/interrupt"), body));
  }

  /**
   * Lets queued prompts go on that wait since a turn was stopped or a budget is spent.
   *
   * @param {number} [limit] of the budget that the user saw: if it was raised meanwhile, nothing changes
   */
  async resumeQueue(limit) {
    const query = limit === undefined ? "" : `?limit=${limit}`;
    await reportErrors(callApi("POST", sessionPath(this.id, `/queue/resume${query}`), {}));
  }

  /** @param {{ mode?: string, model?: string | null, effort?: string, agent_options?: Record<string, string> }} settings */
  async set(settings) {
    await reportErrors(callApi("PATCH", sessionPath(this.id, "/settings"), settings));
  }

  /** Starts the agent if it does not run. */
  async wake() {
    await reportErrors(callApi("POST", sessionPath(this.id, "/wake")));
  }

  /** What the agent offers; requested once, because the agent must run to answer. */
  abilities() {
    this.loadedAbilities ??= callApi("POST", sessionPath(this.id, "/wake")).catch((problem) => {
      this.loadedAbilities = undefined;
      throw problem;
    });
    return this.loadedAbilities;
  }

  /** @param {import("./gateway.js").Resolution | null | undefined} resolution */
  #outcome(resolution) {
    const what = OUTCOMES[resolution?.outcome ?? ""] ?? "answered";
    return resolution?.by ? `${what} by ${actorText(resolution.by, this.me)}` : what;
  }

  /** @param {string} query @returns {Promise<string[]>} */
  async files(query) {
    const path = `/files?query=${encodeURIComponent(query)}`;
    return (await callApi("GET", sessionPath(this.id, path))).paths;
  }

  /** @param {string} before @param {number} limit @returns {Promise<import("./gateway.js").ItemPage>} */
  async older(before, limit) {
    const path = `/items?before=${before}&limit=${limit}`;
    const page = await callApi("GET", sessionPath(this.id, path));
    // The server says how far it has searched if it found nothing for a while.
    const searched = !page.items.length && page.more && page.before;
    return searched && searched !== before ? this.older(searched, limit) : page;
  }
}

/** Shows an error as a toast. Returns whether there was none. @param {Promise<unknown>} promise */
export async function reportErrors(promise) {
  try {
    await promise;
    return true;
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
    return false;
  }
}
