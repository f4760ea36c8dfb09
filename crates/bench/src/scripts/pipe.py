# Copies stdin to stdout and finds changed files, as usually written in Python.
import json
import sys

CHANGES = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
open_calls = {}
changed = []
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    out.write(line)
    try:
        event = json.loads(line)
    except ValueError:
        continue
    message = event.get("message") if isinstance(event, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        continue
    for block in content:
        if block.get("type") == "tool_use" and block.get("name") in CHANGES:
            given = block["input"]
            open_calls[block["id"]] = given.get("file_path") or given.get("notebook_path")
        elif block.get("type") == "tool_result":
            path = open_calls.pop(block.get("tool_use_id"), None)
            if path and not block.get("is_error"):
                changed.append(path)
out.flush()
