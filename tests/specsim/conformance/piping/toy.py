"""A command over a pipe, in plain Python: it fills bonus tokens, and goes wrong as its argument says.

``python toy.py HOW``: what is wrong with hello begins with ``hello-``, everything else is wrong with a call.
"""

import json
import os
import signal
import struct
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
HELLO = {"hello": "specsim.pipe/1", "name": "toy", "version": "1.2", "operations": ["fill_bonus_tokens"]}
WRONG_HELLO = {
    "hello-unknown": {**HELLO, "operations": ["fill_bonus_token"]},
    "hello-declares": {**HELLO, "declares": {"WORKER": "package.Worker"}},
    "hello-rejects": {**HELLO, "declares": {"REJECTS": 1}},
    "hello-limits": {**HELLO, "declares": {"LIMITS": {"fill_bonus_tokens": {"nodes": [1, 2]}}}},
    "hello-limited": {**HELLO, "declares": {"REJECTS": True, "LIMITS": {"fill_bonus_tokens": {"request": [1, 2]}}}},
    "hello-protocol": {**HELLO, "hello": "specsim.pipe/2"},
    "hello-field": {**HELLO, "operation": []},
}
CODES = {"I32": "i", "I64": "q"}


def framed(header, body=b""):
    words = json.dumps(header).encode()
    return struct.pack("<II", len(words), len(body)) + words + body


def packed(name, code, shape, values):
    entries = struct.pack(f"<{len(values)}{CODES[code]}", *values)
    words = json.dumps({name: {"dtype": code, "shape": shape, "data_offsets": [0, len(entries)]}}).encode()
    return struct.pack("<Q", len(words)) + words + entries


def entries_of(body, name):
    (length,) = struct.unpack_from("<Q", body)
    entry = json.loads(body[8 : 8 + length])[name]
    first, last = entry["data_offsets"]
    code = CODES[entry["dtype"]]
    return entry["shape"], struct.unpack_from(
        f"<{(last - first) // struct.calcsize(code)}{code}", body, 8 + length + first
    )


def read(length):
    arrived = sys.stdin.buffer.read(length)
    if len(arrived) < length:
        sys.exit(0)
    return arrived


def write(content):
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def bonus_tokens(body):
    (num_requests, width), tokens = entries_of(body, "accept_tokens")
    _, counts = entries_of(body, "num_accepted_tokens")
    chosen = [tokens[request * width + count - 1] for request, count in enumerate(counts)]
    return packed("bonus_tokens", "I32", [num_requests], chosen)


def answer(number, body):
    right = framed({"id": number}, bonus_tokens(body))
    if HOW in ("abort", "exit"):
        print("what it does last", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT) if HOW == "abort" else os._exit(7)
    elif HOW == "flood":
        print("words " * 50_000, file=sys.stderr, flush=True)
    elif HOW == "hang":
        time.sleep(600)
    elif HOW == "memory":
        kept = bytearray(512 << 20)
        kept[:: 1 << 12] = bytes(len(kept) >> 12).replace(b"\0", b"\1")
        time.sleep(600)
    elif HOW == "half":
        write(right[:20])
        time.sleep(600)
    wrong = {
        "garbage": b"CUDA error: out of memory\n",
        "more": right + b"[debug]",
        "id": framed({"id": number + 1}),
        "body": framed({"id": number}, b"no safetensors file"),
        "fields": framed({"id": number, "answer": 1}),
        "error": framed({"id": number, "error": "no kernel for this shape"}),
        "rejection": framed({"id": number, "rejection": "NODE_OUT_OF_RANGE", "message": "it has 3 nodes"}),
        "reason": framed({"id": number, "rejection": "NODE_OUT_OF_RANG"}),
        "nothing": framed({"id": number}),
        "type": framed({"id": number}, packed("bonus_tokens", "I64", [1], [5])),
        "name": framed({"id": number}, packed("bonus_token", "I32", [1], [5])),
    }
    write(wrong.get(HOW, right))


while True:
    header_length, body_length = struct.unpack("<II", read(8))
    asked, given = json.loads(read(header_length)), read(body_length)
    if "hello" in asked:
        write(framed({"id": asked["id"], **WRONG_HELLO.get(HOW, HELLO)}) + b"ready\n" * (HOW == "hello-more"))
    else:
        print(f"call {asked['id']}", file=sys.stderr)
        answer(asked["id"], given)
