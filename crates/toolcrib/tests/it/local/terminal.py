"""Runs a shell command at a terminal of its own, types what a person would, and prints what the terminal shows.

Standard input is JSON: `command`, `seconds`, and `typed`, a list of prompt, text and whether the text is typed unseen.
"""

import json
import os
import pty
import re
import select
import sys
import termios
import time

# A person does not type before a prompt is complete; programs switch the terminal's mode right after they print it.
PAUSE = 0.2

task = json.load(sys.stdin)
typed = task["typed"]
ends = time.monotonic() + task["seconds"]
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", task["command"]])


def give_up(why):
    os.kill(child, 9)
    sys.exit(f"{why}, after this:\n{shown.decode(errors='replace')}")


def echoes():
    return termios.tcgetattr(terminal)[3] & termios.ECHO


shown, seen, status = b"", 0, None
while True:
    if time.monotonic() > ends:
        give_up(f"no end within {task['seconds']} s")
    if select.select([terminal], [], [], 0.05)[0]:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # Linux: every process of the terminal has ended.
            piece = b""
        if not piece:
            break
        shown += piece
    elif status is not None:
        break  # A program in the background may have the terminal open for longer.
    elif os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        status = "ended"  # What it printed last may still have to be read.
    if typed:
        prompt, text, is_unseen = typed[0]
        place = shown.find(prompt.encode(), seen)
        if place >= 0:
            seen = place + len(prompt.encode())
            while is_unseen and echoes() and time.monotonic() < ends:
                time.sleep(0.01)
            time.sleep(PAUSE)
            os.write(terminal, text.encode() + b"\r")
            typed.pop(0)

code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if typed:
    sys.exit(f"no prompt {typed[0][0]!r} in this:\n{shown.decode(errors='replace')}")
sys.stdout.buffer.write(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\r", b"", shown))
sys.stdout.flush()
# `shown` has what both streams of the command printed.
print(code, file=sys.stderr)
