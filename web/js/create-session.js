/**
 * Creates sessions.
 *
 * @module
 */

import { callApi } from "./api.js";

/**
 * Creates a session; a profile can say something that must be confirmed.
 *
 * @param {object} body
 * @returns {Promise<import("./gateway.js").CreateSessionResponse>}
 */
export async function createSession(body) {
  try {
    return await callApi("POST", "/sessions", body);
  } catch (problem) {
    const { kind, message } = /** @type {import("./api.js").Problem} */ (problem);
    if (kind !== "needs-confirmation") throw problem;
    const { confirmAction } = await import("./dialogs/dialogs.js");
    if (!(await confirmAction("Create this session?", message, "Create"))) throw problem;
    return callApi("POST", "/sessions", { ...body, confirm: true });
  }
}
