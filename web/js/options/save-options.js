/**
 * Changing options of a session.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { confirmBypass } from "../dialogs/bypass.js";

/**
 * Changes options, and asks before the agent may do everything. Returns whether they were changed.
 *
 * @param {string} session
 * @param {Record<string, unknown>} options
 */
export async function saveOptions(session, options) {
  try {
    await callApi("PATCH", sessionPath(session), { options });
  } catch (problem) {
    const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
    if (kind !== "needs-confirmation") throw problem;
    if (!(await confirmBypass(message))) return false;
    await callApi("PATCH", sessionPath(session), { options, confirm: true });
  }
  return true;
}
