"""`towpath run` in a terminal with $SESSION. It says what it shows as `view-page.mjs` does."""

import json
import os
import pty
import re
import select
import sys
import time

ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b.|\r")


class Terminal:
    def __init__(self, program, *arguments):
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", NO_COLOR="1")
            os.execv(program, [program, *arguments])
        self.raw = b""
        self.read = 0

    def seen(self):
        return ESCAPES.sub("", self.raw.decode(errors="replace"))

    def wait_for(self, words):
        """Waits until words appear after those that were waited for last."""
        end = time.monotonic() + 60
        while (at := self.seen().find(words, self.read)) < 0:
            ready, _, _ = select.select([self.screen], [], [], max(0, end - time.monotonic()))
            try:
                # Reading fails when the program has ended.
                chunk = os.read(self.screen, 65536) if ready else b""
            except OSError:
                chunk = b""
            if not chunk:
                sys.exit(f"`{words}` did not appear:\n{self.seen()}")
            self.raw += chunk
        self.read = at + len(words)


terminal = Terminal(os.environ["TOWPATH"], "run", "--resume", os.environ["SESSION"])
for number in range(1, int(os.environ["ROUNDS"]) + 1):
    terminal.wait_for("? Allow Run")
    terminal.wait_for("y yes")
    print("asked", flush=True)
    if sys.stdin.readline().strip() == "answer":
        os.write(terminal.screen, b"y")
    terminal.wait_for(f"Round {number} done.")
    print("settled", flush=True)
terminal.wait_for("Ctrl-D exits")
texts = re.findall(r"Round \d done\.", terminal.seen())
print(json.dumps(list(dict.fromkeys(texts))), flush=True)
os.write(terminal.screen, b"\x04")
os.waitpid(terminal.pid, 0)
