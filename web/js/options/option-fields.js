/**
 * The fields of all options of a session: what was entered, and where an error belongs.
 *
 * @module
 */

import { OptionField } from "./option-field.js";

/** @typedef {import("../gateway.js").OptionResponse} OptionDescription */

export class OptionFields {
  /** @param {OptionDescription[]} options @param {import("./option-field.js").FieldContext} context */
  constructor(options, context) {
    /** @type {Map<string, OptionField>} */
    this.byName = new Map(options.map((it) => [it.name, new OptionField(it, context)]));
    /** What the fields held at first, as JSON. @type {Map<string, string>} */ this.initial =
      new Map();
    this.initialise({});
  }

  /** Shows the present values. @param {object} values */
  initialise(values) {
    const present = new Map(Object.entries(values));
    for (const field of this.byName.values()) {
      field.write(present.get(field.name) ?? null);
      this.initial.set(field.name, JSON.stringify(field.control.read()));
    }
  }

  /** What the fields hold now was saved. */
  accept() {
    for (const field of this.byName.values())
      this.initial.set(field.name, JSON.stringify(field.control.read()));
  }

  /** Enters values in some of the fields. @param {object} values */
  enter(values) {
    for (const [name, value] of Object.entries(values)) this.byName.get(name)?.write(value);
  }

  /** Shows what applies where nothing is entered. @param {object} values @param {string} source */
  inherit(values, source) {
    const given = new Map(Object.entries(values));
    for (const field of this.byName.values()) field.inherit(given.get(field.name), source);
  }

  /** Which fields differ from what they held at first. */
  changedNames() {
    const differs = (/** @type {OptionField} */ field) => {
      try {
        return JSON.stringify(field.control.read()) !== this.initial.get(field.name);
      } catch {
        return true;
      }
    };
    return [...this.byName.values()]
      .filter((it) => !it.refusal && differs(it))
      .map((it) => it.name);
  }

  /**
   * What was changed; `null` removes a value. `undefined` if a field has an error, which it shows.
   *
   * @returns {Record<string, unknown> | undefined}
   */
  changes() {
    /** @type {Record<string, unknown>} */ const changes = {};
    /** @type {OptionField | undefined} */ let failed;
    for (const field of this.byName.values()) {
      if (field.refusal) continue;
      try {
        const value = field.read();
        if (JSON.stringify(value) !== this.initial.get(field.name)) changes[field.name] = value;
      } catch {
        failed ??= field;
      }
    }
    if (!failed) return changes;
    this.#reveal(failed);
    return undefined;
  }

  /**
   * Shows an error of the server beside the field it is about. Returns whether there is one.
   *
   * @param {string} message
   */
  showProblem(message) {
    const [, name, reason] = /^`(\w+)`:? (.+)$/s.exec(message) ?? [];
    const field = this.byName.get(name ?? "");
    if (!field) return false;
    field.showError(reason.charAt(0).toUpperCase() + reason.slice(1));
    this.#reveal(field);
    return true;
  }

  /** @param {OptionField} field */
  #reveal(field) {
    const folded = field.element.closest("details");
    if (folded) folded.open = true;
    field.focus();
    field.element.scrollIntoView({ block: "nearest" });
  }
}
