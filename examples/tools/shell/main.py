"""Executes shell commands: one call per line on standard input, one answer per line on standard output."""

import json
import subprocess
import sys

# A model reads some thousand characters; the host refuses results above 1 MiB.
MAX_OUTPUT = 100_000
DEFAULT_TIMEOUT_MS = 30_000


def execute(args, context):
    timeout = args.get("timeout", DEFAULT_TIMEOUT_MS) / 1000
    process = subprocess.Popen(
        ["/bin/sh", "-c", args["command"]],
        cwd=args.get("cwd", context["dataDir"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=False,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        code = None
    return {"exitCode": code, "stdout": text(stdout), "stderr": text(stderr)}


def text(output):
    shown = output[:MAX_OUTPUT].decode("utf-8", "replace")
    return shown if len(output) <= MAX_OUTPUT else f"{shown}\n[{len(output) - MAX_OUTPUT} bytes more]"


for line in sys.stdin:
    call = json.loads(line)
    if "cancel" in call:
        continue
    try:
        answer = {"id": call["id"], "result": execute(call["args"], call["context"])}
    except Exception as error:
        answer = {"id": call["id"], "error": {"message": str(error)}}
    print(json.dumps(answer), flush=True)
