// The views of `layout.mjs` that are about reading: formulas, tables and footnotes, the outline, sharing,
// what files add to the agent, the sizes of text and the third theme.
import { agentFilesReply } from "./stub-options.mjs";
import { codeHtml, item } from "./stub-api.mjs";

const WORD = "x".repeat(2000);
const COUNT = { tiny: 1, typical: 12, huge: 1000 };
const symbols = (count) => Array.from({ length: count }, (_, n) => `<msub><mi>a</mi><mn>${n}</mn></msub><mo>+</mo><mfrac><mrow><mi>x</mi></mrow><mrow><mn>${n + 1}</mn></mrow></mfrac>`).join("<mo>=</mo>");
const inline = (count) => `<span class="math"><math display="inline">${symbols(count)}</math></span>`;
const display = (count) => `<span class="math display"><math display="block">${symbols(count)}</math></span>`;
const aligned = `<span class="math display"><math display="block"><mtable class="menv-alignlike menv-align"><mtr><mtd><mi>a</mi></mtd><mtd><mo>=</mo><mi>b</mi><mo>+</mo><mi>c</mi></mtd></mtr><mtr><mtd><mi>d</mi><mo>+</mo><mi>e</mi></mtd><mtd><mo>=</mo><mi>f</mi></mtd></mtr></mtable></math></span>`;
const cell = (size, n) => (size === "huge" ? WORD.slice(0, 120) : ["The authentication middleware", "src/middleware/authentication.ts", "rejected", "12,345"][n % 4]);
const table = (size, columns) => `<div class="table"><table><thead><tr>${Array.from({ length: columns }, (_, n) => `<th>Column ${n}</th>`).join("")}</tr></thead><tbody>${Array.from({ length: Math.min(40, COUNT[size]) }, (_, row) => `<tr>${Array.from({ length: columns }, (_, n) => `<td>${cell(size, row + n)}</td>`).join("")}</tr>`).join("")}</tbody></table></div>`;
const COLUMNS = { tiny: 2, typical: 5, huge: 30 };
const answer = (size) =>
  item(`<div class="item text"><p>The area is ${inline(size === "huge" ? 60 : 1)} for every side.<sup>1</sup></p><p>${display(size === "huge" ? 200 : 4)}</p><p>${aligned}</p>${table(size, COLUMNS[size])}<ul><li><span class="task done">☑</span> Read the file</li><li><span class="task">☐</span> Write the test</li></ul><pre class="code" data-language="mermaid"><code>graph TD; A --&gt; B</code></pre>${codeHtml(size === "huge" ? WORD : "const a = 1;")}<p><code class="math display">$$\\frac{a$$</code></p><div class="footnote"><sup>1</sup>\n<p>${size === "huge" ? WORD : "As far as the file says."}</p>\n</div></div>`);
const prompt = (text) => item(`<div class="item prompt"><div class="words">${text}</div></div>`, { kind: "prompt", prompt: { id: "p1", author: "user", text, images: 0, state: "done" } });
const END = { number: 1, first: 1, rev: 1, files: [], prompts: [], rewound: false, end: { ending: "completed" }, tokens: {}, html: `<div class="end">4 min 31 s<span class="dot"> · </span>17k tokens in, 541 out</div>` };
const content = (size) => () => ({ items: [prompt("What is the area?"), answer(size)], turns: [END] });
const outline = (size) => ({ "GET /outline": { total: COUNT[size], prompts: Array.from({ length: COUNT[size] }, (_, n) => ({ position: [n + 1, 0], turn: n + 1, at: 1_700_000_000_000 + n, text: size === "huge" && n % 2 ? WORD.slice(0, 160) : `Fix the cart, and then look at the tests ${n}` })) } });
const attribute = (name, value) => (page) => page.evaluate(([name, value]) => { if (value) document.documentElement.dataset[name] = value; else delete document.documentElement.dataset[name]; }, [name, value]);

export function readingViews({ dialog, menuItem, appears }) {
  return Object.keys(COUNT).flatMap((size) => [
    { name: `reading: formulas and tables, ${size}`, content: content(size) },
    { name: `reading: high contrast, ${size}`, content: content(size), open: attribute("theme", "contrast"), close: attribute("theme", "") },
    { name: `reading: largest text, ${size}`, content: content(size), open: attribute("size", "largest"), close: attribute("size", "") },
    { name: `reading: small text, ${size}`, content: content(size), open: attribute("size", "small"), close: attribute("size", "") },
    dialog(`reading: outline, ${size}`, menuItem("Your messages"), { replies: outline(size), then: appears(".outline a") }),
    dialog(`reading: files of the agent, ${size}`, menuItem("About the agent"), { replies: { "GET /agent/files": agentFilesReply(COUNT[size], size === "huge" ? WORD.slice(0, 300) : "check") }, then: appears(".agent-files h4") }),
  ]).concat([
    dialog("reading: outline, none", menuItem("Your messages"), { replies: { "GET /outline": { prompts: [], total: 0 } } }),
    dialog("reading: share", menuItem("Share as HTML")),
  ]);
}
