/**
 * Dictation by the browser's own recogniser. It writes into the message field and never sends.
 *
 * @module
 */

import { toast } from "../ui/toast.js";

/** What the recogniser reports, in words. Silence, and an end that was asked for, are no errors. */
const PROBLEMS = /** @type {Record<string, string>} */ ({
  "not-allowed": "The browser does not allow the microphone here. Allow it in the site settings.",
  "service-not-allowed": "The browser does not allow speech recognition here.",
  "audio-capture": "There is no microphone.",
  network: "Speech recognition needs a network, and there is none.",
  "language-not-supported": "The browser does not recognise speech in your language.",
});

/**
 * @typedef {{ area: HTMLTextAreaElement, element: HTMLElement, setText: (text: string) => void }} DictatedField
 */

/** The recogniser that listens. There is one microphone. @type {any} */
let running;

/**
 * Starts or stops dictating into the message field.
 *
 * @param {DictatedField} composer
 * @param {HTMLElement} button
 */
export function toggleDictation(composer, button) {
  if (running) running.stop();
  else start(composer, button);
}

/** @param {DictatedField} composer @param {HTMLElement} button */
function start(composer, button) {
  const Recogniser =
    /** @type {any} */ (window).SpeechRecognition ??
    /** @type {any} */ (window).webkitSpeechRecognition;
  const recogniser = new Recogniser();
  recogniser.lang = navigator.language;
  recogniser.continuous = true;
  recogniser.interimResults = true;
  // What is said after sending belongs to no message.
  const sent = () => recogniser.abort();
  composer.element.addEventListener("sending", sent);
  const show = (/** @type {boolean} */ on) => {
    running = on ? recogniser : undefined;
    if (!on) composer.element.removeEventListener("sending", sent);
    button.setAttribute("aria-pressed", String(on));
    button.title = on ? "Stop dictating" : "Dictate";
    button.setAttribute("aria-label", button.title);
  };
  // What was dictated replaces itself until it is final. The rest of the text is the user's.
  const before = composer.area.value.slice(0, composer.area.selectionStart);
  const behind = composer.area.value.slice(composer.area.selectionEnd);
  let written = composer.area.value;
  recogniser.onresult = (/** @type {any} */ event) => {
    if (running !== recogniser) return;
    // The user typed meanwhile, or went to another session: what is said now would overwrite it.
    if (composer.area.value !== written || !composer.area.isConnected) {
      recogniser.stop();
      return;
    }
    const said = [...event.results].map((it) => it[0].transcript).join("");
    const gap = before && !/\s$/.test(before) && !/^\s/.test(said) ? " " : "";
    written = before + gap + said + behind;
    composer.setText(written);
    const end = written.length - behind.length;
    composer.area.setSelectionRange(end, end);
  };
  recogniser.onerror = (/** @type {any} */ event) => {
    if (event.error === "aborted" || event.error === "no-speech") return;
    toast(PROBLEMS[event.error] ?? `Speech recognition failed: ${event.error}.`);
  };
  recogniser.onend = () => {
    if (running === recogniser) show(false);
  };
  show(true);
  try {
    recogniser.start();
  } catch (problem) {
    show(false);
    toast(/** @type {Error} */ (problem).message);
  }
}
