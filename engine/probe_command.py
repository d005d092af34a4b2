"""`prefixproof-engine probe URL`: the probe on the command line, its findings and their words."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import httpx

from engine.chat_client import ChatClient
from engine.probe import MetricsError, Observed, Probe, ProbeError, Sent, Settings, evicted
from engine.wording import count, size, table

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

KEY_VARIABLE = "PREFIXPROOF_API_KEY"
HALF = 0.5
"""Share of what was pushed out and asked for again that must come back (L2-01)."""


class Outcome(StrEnum):
    """What a probe says of one question."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One question, in the words of the suite's rule of that id."""

    id: str
    outcome: Outcome
    said: str


def add_command(commands: Commands) -> None:
    """Add `probe` to the command line."""
    parser = commands.add_parser(
        "probe",
        help="push sessions out of L1 and see whether L2 brings them back",
        description="Send sessions straight to a quiet engine, push them out of L1 and send them once "
        "more. Sends about "
        "twice the pool's tokens; never more than --budget.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("url", help="the engine's base URL")
    add("--metrics", metavar="URL", help="its metrics (default: URL/metrics)")
    add("--model", help="model name (default: the first that it lists)")
    add(
        "--budget",
        type=int,
        default=Settings.budget_tokens,
        metavar="TOKENS",
        help="prompt tokens at most (default: %(default)s)",
    )
    add("--session-tokens", type=int, metavar="N", help="prompt tokens of one session (default: by pool and model)")
    add(
        "--reset",
        action="store_true",
        help="empty L1 by /reset_prefix_cache instead of by pressure (disruptive: needs VLLM_SERVER_DEV_MODE=1)",
    )
    add("--timeout", type=float, default=180.0, metavar="SECONDS", help="for one request (default: %(default)s)")
    add("--json", action="store_true", help="findings as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = Settings(session_tokens=arguments.session_tokens, budget_tokens=arguments.budget, reset=arguments.reset)
    try:
        with ChatClient(
            arguments.url,
            model=arguments.model,
            api_key=os.environ.get(KEY_VARIABLE),
            timeout_s=arguments.timeout,
        ) as client:
            seen = Probe(client, arguments.metrics or client.url, settings, _say).run()
    except (ProbeError, MetricsError) as error:
        _say(str(error))
        return 2
    except httpx.HTTPError as error:
        _say(f"{arguments.url} stopped answering ({type(error).__name__})")
        return 2
    found = findings(seen)
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in found], indent=1) + "\n")
    else:
        sys.stdout.write(table([(f"{f.id:<6} {f.outcome.value:<7}", f.said) for f in found]) + "\n")
    return 1 if any(finding.outcome is Outcome.FAIL for finding in found) else 0


def findings(seen: Observed) -> list[Finding]:
    """What was seen, question by question. The ids are those of the suite's rules on the second tier."""
    found = [_l1(seen)]
    if not seen.has_tier:
        return [*found, Finding("L2-01", Outcome.UNKNOWN, "this engine has no host tier")]
    return [*found, _l2_01(seen), _l2_02(seen), _l2_03(seen), _l2_04(seen), _l2_05(seen), _l2_06(seen)]


def _l1(seen: Observed) -> Finding:
    warm = seen.warm
    if warm is None or warm.cached is None:
        return Finding(
            "L1", Outcome.UNKNOWN, "usage has no cached tokens: start vLLM with --enable-prompt-tokens-details"
        )
    expected = (warm.prompt_tokens - 1) // seen.block_size * seen.block_size
    said = (
        f"an immediate repeat of {count(warm.prompt_tokens)} tokens had {count(warm.cached)} cached "
        f"(at most {count(expected)})"
    )
    return Finding("L1", Outcome.PASS if warm.cached >= HALF * expected else Outcome.FAIL, said)


def _again(seen: Observed) -> tuple[float, float, float, int] | None:
    """Hits, bytes and tokens asked of the sessions sent again, and their number; None where counters are unknown."""
    hits = loaded = asked = 0.0
    number = 0
    for session in evicted(seen):
        counted = session.counted
        if counted is None or counted.l2_hits is None or counted.load_bytes is None:
            return None
        hits += counted.l2_hits
        loaded += counted.load_bytes
        asked += counted.l2_queries or 0.0
        number += 1
    return (hits, loaded, asked, number) if number else None


def _l2_01(seen: Observed) -> Finding:
    again = _again(seen)
    if again is None:
        return Finding("L2-01", Outcome.UNKNOWN, "hits or load bytes of the sessions sent again are unknown")
    hits, loaded, asked, number = again
    said = (
        f"{number} sessions sent again asked for {count(asked)} evicted tokens, {count(hits)} came "
        f"back, {size(loaded)} were loaded"
    )
    if not asked:
        return Finding("L2-01", Outcome.UNKNOWN, said + ": nothing was pushed out of L1")
    return Finding("L2-01", Outcome.PASS if loaded > 0 and hits >= HALF * asked else Outcome.FAIL, said)


def _l2_02(seen: Observed) -> Finding:
    again, whole = _again(seen), seen.whole
    if again is None or whole is None or whole.store_bytes is None:
        return Finding("L2-02", Outcome.UNKNOWN, "stores or loads are unknown")
    hits, loaded, asked, _ = again
    said = f"stored {size(whole.store_bytes)}, loaded {size(loaded)} with {count(hits)} hits"
    if loaded > 0 and hits > 0:
        return Finding("L2-02", Outcome.PASS, said)
    if not asked:
        return Finding("L2-02", Outcome.UNKNOWN, said + ": nothing was pushed out of L1")
    if not whole.store_bytes:
        return Finding("L2-02", Outcome.FAIL, said + ": nothing is stored either")
    return Finding("L2-02", Outcome.FAIL, said + ": write-only, unless L2 is smaller than what was sent in between")


def _l2_03(seen: Observed) -> Finding:
    loaded = [s for s in evicted(seen) if s.counted is not None and (s.counted.load_bytes or 0) > 0]
    if not loaded:
        return Finding("L2-03", Outcome.UNKNOWN, "no session was loaded from L2")
    differ = [s for s in loaded if s.again is not None and s.again.text != s.cold.text]
    said = f"{len(loaded) - len(differ)} of {len(loaded)} loaded sessions gave the answer of their cold run"
    return Finding("L2-03", Outcome.FAIL if differ else Outcome.PASS, said)


def _l2_04(seen: Observed) -> Finding:
    turn = next((s for s in seen.sessions if s.follow_up), None)
    counted = turn.counted if turn else None
    if turn is None or turn.again is None or counted is None or counted.l2_hits is None or not counted.l2_queries:
        return Finding("L2-04", Outcome.UNKNOWN, "no follow-up turn was answered and counted")
    known = _known_again(turn)
    said = (
        f"a follow-up turn found {count(counted.l2_hits)} of about {count(known)} tokens it shares with its first turn"
    )
    return Finding("L2-04", Outcome.PASS if counted.l2_hits >= HALF * known else Outcome.FAIL, said)


def _known_again(turn: Sent) -> float:
    """Tokens of the first turn's prompt that L1 did not hold any more."""
    counted, again = turn.counted, turn.again
    held = (counted.l1_hits or 0.0) if counted and again else 0.0
    return max(1.0, turn.cold.prompt_tokens - held)


def _l2_05(seen: Observed) -> Finding:
    if seen.failures:
        return Finding("L2-05", Outcome.FAIL, f"{len(seen.failures)} requests failed; the first: {seen.failures[0]}")
    return Finding("L2-05", Outcome.PASS, f"all {seen.fillers + 2 * len(seen.sessions) + 2} requests ended")


def _l2_06(seen: Observed) -> Finding:
    whole = seen.whole
    if whole is None or whole.store_bytes is None or whole.load_bytes is None:
        return Finding("L2-06", Outcome.UNKNOWN, "stores or loads are unknown")
    cold = sum(s.cold.seconds for s in seen.sessions) / max(len(seen.sessions), 1)
    back = [s.again.seconds for s in evicted(seen) if s.again is not None]
    ratio = "nothing loaded"
    if whole.load_bytes:
        ratio = f"{whole.store_bytes / whole.load_bytes:.1f} bytes stored for one loaded"
    mean = f"; an answer took {cold:.2f} s cold, {sum(back) / len(back):.2f} s again" if back else ""
    return Finding("L2-06", Outcome.PASS if whole.load_bytes else Outcome.UNKNOWN, ratio + mean)


def _say(text: str) -> None:
    sys.stderr.write(f"prefixproof-engine: {text}\n")
    sys.stderr.flush()
