// Copies stdin to stdout and finds changed files, as usually written for Node.
import { createInterface } from "node:readline";

const CHANGES = new Set(["Edit", "Write", "MultiEdit", "NotebookEdit"]);
const open = new Map();
const changed = [];
process.stdin.pipe(process.stdout);
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let event;
  try {
    event = JSON.parse(line);
  } catch {
    continue;
  }
  const content = event?.message?.content;
  if (!Array.isArray(content)) continue;
  for (const block of content) {
    if (block.type === "tool_use" && CHANGES.has(block.name)) {
      open.set(block.id, block.input.file_path ?? block.input.notebook_path);
    } else if (block.type === "tool_result") {
      const path = open.get(block.tool_use_id);
      open.delete(block.tool_use_id);
      if (path && !block.is_error) changed.push(path);
    }
  }
}
