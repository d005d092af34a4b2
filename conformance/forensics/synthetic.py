"""Made-up logs whose truth is known: the incident's days, days of healthy clients, and what looks like a fault.

    python -m conformance.forensics.synthetic incident > day.jsonl

The incident's figures (requests, counts and sums of 2026-08-17 and -18) are those of its public report; the rest of a
day is drawn so that they come out. Deterministic: the same name gives the same log.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from random import Random

import orjson

from conformance.forensics.capture import capture_dict
from conformance.forensics.request import Part, Request

BLOCK = 256
CLAUDE = ("/v1/messages", "llm-prime", "claude-cli/2.1.116", "user-a")
REASONIX = ("/v1/chat/completions", "deepseek-v4-flash-0731", "reasonix/1.38.11", "user-a")
OPENCODE = ("/v1/chat/completions", "llm-prime", "opencode/1.18.33", "user-a")

Key = tuple[str, str, str, str]

AUGUST_14 = 1_786_665_600.0
"""2026-08-14 00:00:00 UTC."""
AUGUST_17, AUGUST_18 = AUGUST_14 + 3 * 86_400, AUGUST_14 + 4 * 86_400

PINNED = 17_920
CLAUDE_PROMPT, REASONIX_PROMPT, OPENCODE_PROMPT = 48_110_000, 56_690_000, 1_320_000
REASONIX_CACHED = 47_435_008
"""The one multiple of 256 that is 47.44 M and 83.67 % of 56.69 M at once."""
OPENCODE_COUNTS = (0, 256, 256, 256, 256, 256, 187_648)

AFTER = ((109_974, 256), (111_232, 109_824), (111_422, 111_104), (118_702, 0), (119_455, 118_528))
"""Consecutive turns of the day after: prompt and cached tokens."""
AFTER_RATE = 0.8309


def incident_day() -> list[Request]:
    """2026-08-17: 451 + 444 + 7 requests of one user; 28 x 0, 40 x 256 and 383 x 17,920 among the 451."""
    return _ordered(_pinned_day(), _reasonix_day(), _opencode_day())


def incident_capture() -> list[Request]:
    """The same day as a gateway's capture: the parts of every request, hashed."""
    return _ordered(
        with_parts(_pinned_day()), with_parts(_reasonix_day(), chat=True), with_parts(_opencode_day(), chat=True)
    )


def day_after() -> list[Request]:
    """2026-08-18, part of a day: 54 requests, 83.09 %, none at 17,920; 5 x 0, 4 x 256, 3, 14 and 28 in bands."""
    rng = Random("after")
    warm = [48_000, 53_000, 58_500]
    warm += [67_200 + 3_900 * i for i in range(11)]
    turns = [(prompt, _floor(prompt - rng.randrange(900, 1_500))) for prompt in warm]
    turns += AFTER
    prompt = 129_700
    for _ in range(28):
        turns.append((prompt, max(131_072, _floor(prompt - rng.randrange(300, 1_100)))))
        prompt += rng.randrange(1_600, 3_000)
        turns[-1] = (max(turns[-1][0], 131_500), turns[-1][1])
    cold = [0, 256, 0, 256, 0, 256, 0]
    total = sum(cached for _, cached in turns) + sum(cold)
    missing = round(total / AFTER_RATE) - sum(prompt for prompt, _ in turns)
    sizes = [missing // len(cold)] * len(cold)
    sizes[-1] += missing - sum(sizes)
    for i, (size, cached) in enumerate(zip(sizes, cold, strict=True)):
        turns.insert(7 * i, (size, cached))
    return _timed(CLAUDE, turns, AUGUST_18 + 6 * 3_600, rng)


def first_days() -> list[Request]:
    """2026-08-12 to -14: one client at 93 %; on the 14th the user takes up Claude Code (about 16 %), another user
    with the same client stays at about 91 %."""
    rng = Random("first")
    days: list[list[Request]] = []
    for day in range(3):
        start = AUGUST_14 + (day - 2) * 86_400 + 7 * 3_600
        days.append(growing(REASONIX, 8, 40, start=start, cold=0.05, seed=f"first{day}"))
    turns: list[tuple[int, int]] = []
    for _ in range(3):
        turns += [(p, PINNED) for p in _climb(rng, 50, 40_000, 180_000)]
        turns[-50] = (turns[-50][0], 0)
    days.append(_timed(CLAUDE, turns, AUGUST_14 + 13 * 3_600, rng))
    other = (*CLAUDE[:3], "user-b")
    days.append(growing(other, 6, 40, start=AUGUST_14 + 9 * 3_600, cold=0.07, seed="other"))
    return _ordered(*days)


def growing(
    key: Key,
    sessions: int,
    turns: int,
    *,
    start: float = AUGUST_17,
    step: int = BLOCK,
    growth: tuple[int, int] = (900, 2_600),
    base: int = 30_000,
    cold: float = 0.0,
    seed: str = "",
) -> list[Request]:
    """Healthy sessions: each turn hits the one before, cut to `step`; a share `cold` misses."""
    rng = Random(f"growing{seed}")
    found = []
    for _ in range(sessions):
        prompt = base + rng.randrange(2_000)
        before = 0
        for _ in range(turns):
            hit = 0 if rng.random() < cold else before // step * step
            found.append((prompt, hit))
            before, prompt = prompt, prompt + rng.randrange(*growth)
    return _timed(key, found, start, rng)


def one_shot(key: Key, requests: int, *, shared: int = 18_000, in_order: bool = False, seed: str = "") -> list[Request]:
    """Healthy: every request opens a conversation over one system text and tools; `in_order` of size."""
    rng = Random(f"oneshot{seed}")
    sizes = [shared + rng.randrange(1_000, 30_000) for _ in range(requests)]
    turns = [(size, _floor(shared)) for size in (sorted(sizes) if in_order else sizes)]
    return _timed(key, turns, AUGUST_17, rng, appending=False)


def short_sessions(key: Key, sessions: int, *, turns: int = 3, shared: int = 18_000, seed: str = "") -> list[Request]:
    """Healthy: sessions of a few turns, the first of which hits what all share."""
    rng = Random(f"short{seed}")
    found = []
    for _ in range(sessions):
        prompt, before = shared + rng.randrange(500, 9_000), shared
        for _ in range(turns):
            found.append((prompt, _floor(before)))
            before, prompt = prompt, prompt + rng.randrange(400, 2_500)
    return _timed(key, found, AUGUST_17, rng)


def floor_only(key: Key, requests: int) -> list[Request]:
    """Healthy: prompts that have nothing in common but the template's preamble."""
    rng = Random("floor")
    return _timed(
        key, [(rng.randrange(2_000, 60_000), BLOCK) for _ in range(requests)], AUGUST_17, rng, appending=False
    )


def overrun_pool(key: Key, sessions: int, turns: int, *, pause: float = 1_500.0) -> list[Request]:
    """No fault of a prefix: between turns the pool loses the conversation, while others keep the front warm."""
    rng = Random("overrun")
    found = [(p, PINNED) for _ in range(sessions) for p in _climb(rng, turns, 40_000, 150_000)]
    return _timed(key, found, AUGUST_17, rng, quick=(pause, 2 * pause))


def with_parts(requests: Sequence[Request], *, chat: bool = False, one_shot: bool = False) -> list[Request]:
    """The same requests as captured: Claude Code's parts, or with `chat` another client's; a conversation goes on
    while its prompts grow, with `one_shot` never."""
    found: list[Request] = []
    turn, conversation, before = 0, 0, 0
    for number, request in enumerate(requests):
        if one_shot or request.prompt < before:
            turn, conversation = 0, conversation + 1
        before = request.prompt
        name = f"{request.client}-{conversation}"
        parts = (_chat_front() if chat else _claude_front(number)) + _history(name, turn, request.prompt)
        turn += 1
        found.append(request._replace(session=_sha(name), parts=parts))
    return found


def _claude_front(number: int) -> tuple[Part, ...]:
    # Bytes of Claude Code 2.1.116 with the entry point claude-vscode, tokens in proportion to the incident's count.
    fields = (
        ("cc_version", _sha("2.1.116.d8c")),
        ("cc_entrypoint", _sha("claude-vscode")),
        ("cch", _sha(f"cch{number}")),
    )
    return (
        Part("system[0]", _sha(f"attribution{number}"), 91, 38, "system", fields),
        Part("system[1]", _sha("identity"), 62, 14, "system"),
        Part("system[2]", _sha("instructions"), 26_051, 6_020, "system"),
        Part("tools", _sha("tools"), 74_027, 17_700, "tools"),
    )


def _chat_front() -> tuple[Part, ...]:
    return (
        Part("tools", _sha("chat tools"), 14_100, 3_300, "tools"),
        Part("messages[0].content[0]", _sha("chat system"), 2_800, 640, "system"),
    )


def _history(name: str, turn: int, prompt: int) -> tuple[Part, ...]:
    count = 2 * turn + 1
    size = max(1, 4 * (prompt - 24_000) // count)
    return tuple(
        Part(f"messages[{i + 1}].content[0]", _sha(f"{name}-{i}"), size, size // 4, ("user", "assistant")[i % 2])
        for i in range(count)
    )


def _pinned_day() -> list[Request]:
    rng = Random("pinned")
    lengths = (76, 75, 75, 75, 75, 75)
    prompts = [p for n in lengths for p in _climb(rng, n, 40_000, 172_000)]
    prompts = _scaled(prompts, CLAUDE_PROMPT, 40_000)
    starts = {sum(lengths[:i]) for i in range(len(lengths))}
    cold = sorted(starts | set(rng.sample([i for i in range(len(prompts)) if i not in starts], 68 - len(starts))))
    none = set(rng.sample(cold, 28))
    turns = [(p, (0 if i in none else BLOCK) if i in set(cold) else PINNED) for i, p in enumerate(prompts)]
    return _timed(CLAUDE, turns, AUGUST_17 + 5 * 3_600, rng, paused=set(cold))


def _reasonix_day() -> list[Request]:
    rng = Random("reasonix")
    prompts = [p for _ in range(6) for p in _climb(rng, 74, 35_000, 222_000)]
    prompts = _scaled(prompts, REASONIX_PROMPT, 35_000)
    turns = [(p, _floor(prompts[i - 1]) if i % 74 else 0) for i, p in enumerate(prompts)]
    order = [i for i in range(len(turns)) if i % 74]
    rng.shuffle(order)
    cold = {i for i in range(len(turns)) if not i % 74}
    excess = sum(cached for _, cached in turns) - REASONIX_CACHED
    for i in order:
        prompt, cached = turns[i]
        lost = min(cached, excess)
        if not lost:
            break
        turns[i] = (prompt, cached - lost)
        cold.add(i)
        excess -= lost
    return _timed(REASONIX, turns, AUGUST_17 + 6 * 3_600, rng, paused=cold)


def _opencode_day() -> list[Request]:
    prompts = [OPENCODE_PROMPT // 7 + 150 * (i - 3) for i in range(7)]
    prompts[-1] += OPENCODE_PROMPT - sum(prompts)
    return _timed(
        OPENCODE, list(zip(prompts, OPENCODE_COUNTS, strict=True)), AUGUST_17 + 20 * 3_600, Random("opencode")
    )


def _climb(rng: Random, turns: int, low: int, high: int) -> list[int]:
    steps = [rng.uniform(0.4, 1.6) for _ in range(turns - 1)]
    each = (high - low) / sum(steps)
    prompts = [low + rng.randrange(400)]
    for step in steps:
        prompts.append(prompts[-1] + max(1, round(step * each)))
    return prompts


def _scaled(prompts: list[int], total: int, low: int) -> list[int]:
    """The same shape with the sum `total`: distances from `low` are stretched alike."""
    factor = (total - low * len(prompts)) / sum(p - low for p in prompts)
    scaled = [low + int((p - low) * factor) for p in prompts]
    for i in range(total - sum(scaled)):
        scaled[i % len(scaled)] += 1
    return scaled


def _timed(
    key: Key,
    turns: Iterable[tuple[int, int]],
    start: float,
    rng: Random,
    *,
    quick: tuple[float, float] = (8.0, 60.0),
    paused: set[int] | None = None,
    appending: bool = True,
) -> list[Request]:
    """`turns` with times: `quick` seconds apart, minutes before those `paused`. What a prompt grows by begins with the
    answer before it."""
    time, found = start, []
    answers = Random(f"answers{start}")
    listed = list(turns)
    for i, (prompt, cached) in enumerate(listed):
        time += rng.uniform(630, 780) if paused is not None and i in paused else rng.uniform(*quick)
        growth = listed[i + 1][0] - prompt if i + 1 < len(listed) else 0
        answer = answers.randrange(60, 900)
        if appending and growth > 0:
            answer = 1 + int(growth * answers.uniform(0.15, 0.6))
        found.append(Request(round(time, 3), *key, "", prompt, cached, (), answer))
    return found


def _ordered(*streams: Sequence[Request]) -> list[Request]:
    return sorted((request for stream in streams for request in stream), key=lambda request: request.time)


def _floor(tokens: int) -> int:
    return tokens // BLOCK * BLOCK


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


LOGS: dict[str, Callable[[], list[Request]]] = {
    "incident": incident_day,
    "incident-capture": incident_capture,
    "after": day_after,
    "first-days": first_days,
    "one-shot": lambda: one_shot(CLAUDE, 300),
    "short-sessions": lambda: short_sessions(CLAUDE, 120),
    "coarse": lambda: growing(REASONIX, 6, 60, step=2_096, growth=(150, 700)),
    "floor-only": lambda: floor_only(OPENCODE, 200),
}


def json_line(request: Request) -> bytes:
    """One line: a capture's where the request has parts, a usage table's otherwise."""
    if request.parts:
        return orjson.dumps(capture_dict(request)) + b"\n"
    row = {
        "time": request.time,
        "entry": request.entry,
        "model": request.model,
        "client": request.client,
        "user": request.user,
        "prompt_tokens": request.prompt,
        "cached_tokens": request.cached,
        "completion_tokens": request.answer,
    }
    return orjson.dumps(row) + b"\n"


def main(arguments: Sequence[str]) -> int:
    """Write the named log as JSON lines to standard output."""
    if len(arguments) != 1 or arguments[0] not in LOGS:
        sys.stderr.write(f"usage: python -m conformance.forensics.synthetic {'|'.join(LOGS)}\n")
        return 2
    sys.stdout.buffer.writelines(map(json_line, LOGS[arguments[0]]()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
