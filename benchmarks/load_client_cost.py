"""What a turn costs the load generator's client, against a bare FastHttpUser that sends the same bytes.

    .venv/bin/python benchmarks/load_client_cost.py

CPU seconds of the client's process only, both ways in one run, in turns; the server is a process of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from locust.contrib.fasthttp import FastHttpSession  # first: it patches the standard library
from locust.event import EventHook

from load.plan import SessionSpec, Step
from load.processes import keep_freed_memory
from load.sending import Sender
from load.talk import Outgoing, Talk

ROUNDS = 4
TURNS = 20
WARM_UP = 4
EVENTS = 18
GROWTH = 600
FIRST_BYTES = 24_000


def messages_stream() -> bytes:
    """A Messages stream of `EVENTS` words."""
    start = b'{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":0}}}'
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}'
    end = b'{"type":"message_delta","delta":{},"usage":{"input_tokens":9,"output_tokens":18}}'
    events = [start, *[delta] * EVENTS, end, b'{"type":"message_stop"}']
    return b"".join(b"event: x\ndata: " + event + b"\n\n" for event in events)


def chat_stream() -> bytes:
    """The same words as chunks of a chat completion, usage at the end."""
    delta = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}'
    usage = b'{"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":18,"total_tokens":27}}'
    return b"".join(b"data: " + event + b"\n\n" for event in (*[delta] * EVENTS, usage, b"[DONE]"))


def answer(body: bytes) -> bytes:
    """The whole answer, head and body."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def serve() -> None:
    """Answer every request with the stream of its entry, on a port that is printed."""
    messages, chat = answer(messages_stream()), answer(chat_stream())

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
            except asyncio.IncompleteReadError:
                writer.close()
                return
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            writer.write(chat if b"/chat/completions " in head else messages)
            await writer.drain()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=2**21)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def talk(name: str, size: int, messages: int, number: int) -> Talk:
    """A conversation of about `size` bytes in `messages` messages, once half of its turns were sent."""
    begun = Talk.begin(SessionSpec(number, name, FIRST_BYTES), seed=1, run="bench1", model="llm-prime", max_tokens=16)
    rounds = messages // 2 - 1
    grown = size - FIRST_BYTES - TURNS // 2 * (GROWTH + 300)
    for _ in range(rounds):
        begun.session.grow(max(400, grown // rounds))
    list(begun.requests(Step("turn")))
    return begun


def compare(host: str, name: str, size: int, messages: int) -> tuple[float, float, float]:
    """Median CPU of a turn: the load generator's, the bare client's; and the mean bytes of its body."""
    client = FastHttpSession(host, EventHook(), None)
    sender = Sender(host, client, api_key=None, run="bench1", timeout_s=30)
    ours, bare, lengths = [], [], []
    for number in range(ROUNDS):
        begun = talk(name, size, messages, number)
        for turn in range(TURNS):
            sent: list[Outgoing] = []

            def send(sent: list[Outgoing] = sent, begun: Talk = begun) -> None:
                for outgoing in begun.requests(Step("turn", bytes=GROWTH)):
                    sent.append(outgoing)
                    sample = sender.send(outgoing, "bench", lambda _: None)
                    assert sample.error is None, sample.error

            spent = cpu(send)
            outgoing = sent[-1]
            headers = {**outgoing.headers, "content-type": "application/json"}

            def plain(outgoing: Outgoing = outgoing, headers: dict[str, str] = headers) -> None:
                assert client.post(outgoing.path, data=outgoing.body, headers=headers).content  # type: ignore[arg-type]

            spent_plain = cpu(plain)
            if turn >= WARM_UP:
                ours.append(spent)
                bare.append(spent_plain)
                lengths.append(len(outgoing.body))
    return median(ours), median(bare), sum(lengths) / len(lengths)


def main() -> int:
    if sys.argv[1:] == ["--serve"]:
        asyncio.run(serve())
        return 0
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert server.stdout is not None
    keep_freed_memory()  # as every process of the load generator does
    host = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    try:
        for name in ("claude-code-2.1.116-vscode", "opencode-1.18.33"):
            for size, messages in ((40_000, 10), (400_000, 10), (400_000, 300)):
                ours, bare, length = compare(host, name, size, messages)
                print(  # noqa: T201
                    f"{name:28} {length:8,.0f} bytes {messages:4} messages: {1000 * ours:6.2f} ms, "
                    f"bare {1000 * bare:6.2f} ms, {ours / bare:5.2f} x, {1e9 * ours / length:6.1f} ns a byte"
                )
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
