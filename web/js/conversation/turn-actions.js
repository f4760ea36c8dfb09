/**
 * What can be done with a whole turn: copy its answer, or a link to it.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { toast } from "../ui/toast.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/**
 * Copies what the agent wrote last in a turn, as Markdown.
 *
 * @param {string} session
 * @param {Conversation} conversation
 * @param {number} turn
 */
export async function copyAnswer(session, conversation, turn) {
  const texts = inTurn(conversation, turn).filter((it) => it.kind === "text");
  const answer = texts.at(-1);
  if (!answer) {
    toast("This turn has no answer.");
    return;
  }
  try {
    const { source } = await callApi(
      "GET",
      sessionPath(session, `/items/${encodeURIComponent(answer.id)}`),
    );
    await copyText(source?.text ?? "", "The answer was copied as Markdown.");
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
  }
}

/**
 * Copies a link to where a turn begins.
 *
 * @param {string} session
 * @param {Conversation} conversation
 * @param {number} turn
 */
export async function copyLink(session, conversation, turn) {
  const items = inTurn(conversation, turn);
  const first = items.find((it) => it.kind === "prompt") ?? items[0];
  if (!first) return;
  const address = `#/s/${session}/at/${first.position.join(".")}`;
  await copyText(new URL(address, location.href).href, "A link to this turn was copied.");
}

/** @param {Conversation} conversation @param {number} turn */
function inTurn(conversation, turn) {
  return [...conversation.items.values()]
    .filter((it) => it.turn === turn && !it.parent && it.html)
    .sort((a, b) => a.position[0] - b.position[0] || a.position[1] - b.position[1]);
}

/** @param {string} text @param {string} done */
async function copyText(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    toast(done);
  } catch {
    toast("The browser does not allow copying here.");
  }
}
