"""A program that speaks the protocol as far as ``hello``, and then does what its argument says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

LONGEST = 16 << 20


def main(manner: str) -> None:
    """Answer until the manner is to do something else."""
    for line in sys.stdin:
        request = json.loads(line)
        wrong = manner if request["op"] == "start" or manner.endswith("-at-once") else "good"
        answer: dict[str, Any] = {"id": request["id"]}
        if request["op"] == "hello":
            answer |= {"protocol": 1, "release": "1.36", "version": "v1.36.4"}
        misbehave(wrong.removesuffix("-at-once"), answer)
        if request["op"] == "shutdown":
            return


def misbehave(manner: str, answer: dict[str, Any]) -> None:
    match manner:
        case "hang":
            print("about to hang", file=sys.stderr, flush=True)
            signal.pause()
        case "exit":
            print("something snapped", file=sys.stderr, flush=True)
            sys.exit(7)
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "close":
            os.close(1)
            signal.pause()
        case "garbage":
            print("\x1b[31mhello there", flush=True)
        case "wrong-type":
            print(json.dumps(answer | {"refused": 7}), flush=True)
        case "oversize":
            sys.stdout.write("x" * (LONGEST + 1000))
            sys.stdout.flush()
            signal.pause()
        case "wrong-id":
            print(json.dumps(answer | {"id": answer["id"] + 5}), flush=True)
        case "twice":
            print(json.dumps(answer), json.dumps(answer), sep="\n", flush=True)
        case "late":
            time.sleep(0.3)
            print(json.dumps(answer), flush=True)
        case "not-utf-8":
            sys.stdout.buffer.write(b'{"id": \xff\xfe}\n')
            sys.stdout.flush()
        case "null":
            print("null", flush=True)
        case "nested":
            print("[" * 100_000, flush=True)
        case "huge-number":
            print('{"id": 1' + "0" * 400 + "}", flush=True)
        case "flood":
            for _ in range((1 << 30) >> 16):
                sys.stderr.write("x" * (1 << 16))
            print(json.dumps(answer), flush=True)
        case "old":
            print(json.dumps(answer | {"protocol": 0}), flush=True)
        case "nameless":
            print(json.dumps({"id": answer["id"], "protocol": 1}), flush=True)
        case "error":
            print(json.dumps(answer | {"error": "no such thing here"}), flush=True)
        case "panic":
            print(json.dumps(answer | {"panic": "index out of range"}), flush=True)
        case "chatter":
            sys.stderr.write("chatter\n" * 100_000)
            print(json.dumps(answer), flush=True)
        case "leave-children":
            leave_children()
            sys.exit(3)
        case _:
            print(json.dumps(answer), flush=True)


def leave_children() -> None:
    """Start a process that leaves this one's group and session, and say which it is."""
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    print(f"left {sleeper.pid}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
