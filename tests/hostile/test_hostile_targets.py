"""Targets that answer nonsense: every rule ends in a verdict or an error the suite raised on purpose, and in time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hostile_target import COMPLETION, DELTA, MESSAGE, Hostile, HostileTarget, events, plain, well_behaved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.casebook import load_cases
from conformance.errors import PrefixproofError, SendingStopped, TargetProblem
from conformance.options import Budget, RunOptions
from conformance.rules import RULES
from conformance.run import Run
from conformance.servers import serve
from conformance.verdicts import Entry
from conformance.wire.deadline import MAX_ANSWER_BYTES
from conformance.wire.endpoint import Endpoint
from conformance.wire.raw import RawClient

TIMEOUT_S = 0.3
ANSWERS = Callable[[str, bool, int], Hostile]

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip
HUGE = 10**400


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def put(value: Any, path: Sequence[Any], new: Any) -> Any:
    """`value` with another value at a place."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {k: put(v, rest, new) if k == key else v for k, v in value.items()}
    return [put(v, rest, new) if i == key else v for i, v in enumerate(value)]


@st.composite
def bent(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    """A good answer with one to three places replaced by anything."""
    value: Any = whole
    for _ in range(draw(st.integers(1, 3))):
        value = put(value, draw(st.sampled_from(places(whole))), draw(JSON))
    return dict(value) if isinstance(value, dict) else {"value": value}


HOSTILE = st.one_of(
    st.builds(plain, JSON),
    st.builds(plain, bent(MESSAGE)),
    st.builds(plain, bent(COMPLETION)),
    st.builds(events, st.lists(st.one_of(JSON, bent(DELTA), st.binary(max_size=12)), max_size=4), cut=st.booleans()),
    st.builds(
        events,
        st.lists(
            st.one_of(
                st.sampled_from(
                    [
                        {"type": "message_start", "message": MESSAGE},
                        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
                        {"type": "content_block_stop", "index": 0},
                        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
                        {"type": "message_stop"},
                        {"type": "error", "error": {"type": "x", "message": "y"}},
                    ]
                ),
                JSON,
            ),
            max_size=6,
        ),
    ),
    st.builds(
        Hostile,
        st.tuples(st.binary(max_size=40)),
        st.sampled_from([200, 204, 301, 302, 307, 400, 401, 404, 418, 429, 500, 503]),
        st.sampled_from(
            [
                (),
                (("content-type", "text/event-stream"),),
                (("content-type", "text/html"), ("location", "/elsewhere")),
                (("content-type", "application/json; charset=latin-1"), ("retry-after", "soon")),
            ]
        ),
        cut=st.booleans(),
    ),
)


def outcome(answers: ANSWERS, listen: str | None = None) -> dict[str, str]:
    """What became of every rule: a status, or the name of an error the suite raised on purpose.

    `listen` is where the suite's recorder waits; the target asks it before it answers.
    """
    found: dict[str, str] = {}
    upstream = f"http://{listen}" if listen is not None else None
    with serve(HostileTarget(answers, upstream), grace_s=0.0) as server:
        run = Run(
            RunOptions(
                target=server.url,
                model="m",
                budget=Budget.QUICK,
                timeout_s=TIMEOUT_S,
                pause_s=0.0,
                upstream_listen=listen,
            )
        )
        try:
            try:
                run.preflight()
            except TargetProblem as error:  # the machine may be slower than the short timeout of these runs
                return dict.fromkeys(ALL, type(error).__name__)
            for rule_id, case in load_cases().items():
                for entry in RULES[rule_id].entries:
                    try:
                        case.function(observed=run.observed(entry), judge=run.record)
                    except TargetProblem as error:  # which ends a run
                        return dict.fromkeys(ALL, type(error).__name__) | found
                    except PrefixproofError as error:
                        found[f"{rule_id} {entry}"] = type(error).__name__
            found |= {f"{v.rule} {v.entry}": v.status for v in run.verdicts}
            run.report()
            run.exit_code()
        finally:
            run.close()
    return found


ALL = {f"{rule.id} {entry}" for rule in RULES.values() for entry in rule.entries}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(HOSTILE, min_size=1, max_size=4), st.booleans())
def test_nonsense_never_crashes_a_run(answers: list[Hostile], mixed: bool) -> None:
    def answer(path: str, streamed: bool, number: int) -> Hostile:  # noqa: ARG001
        return well_behaved(path) if mixed and number % 2 else answers[number % len(answers)]

    assert set(outcome(answer)) == ALL


def forever(piece: bytes, kind: str) -> ANSWERS:
    return lambda path, streamed, number: Hostile((piece,), headers=(("content-type", kind),), endless=True)  # noqa: ARG005


def always(answer: Hostile) -> ANSWERS:
    return lambda path, streamed, number: answer  # noqa: ARG005


HUGE_MESSAGE = b'{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":%s}'
NAMED = {
    "endless events": forever(b": ping\n\n" + b"data: {}\n\n" * 50, "text/event-stream"),
    "one endless line": forever(b"x" * 65536, "text/event-stream"),
    "an endless body": forever(b"[" * 65536, "application/json"),
    "slow bytes": always(Hostile((b"{", 0.02) * 4)),
    "bytes too slow": always(Hostile((b"{", 0.1), endless=True)),
    "silence": always(Hostile((30.0,))),
    "invalid UTF-8": always(Hostile((b'{"id": "\xff\xfe\x80"}',))),
    "invalid UTF-8 in events": always(events([b'{"id": "\xff\xfe"}', b"\xc3\x28"])),
    "gigantic usage": always(Hostile((HUGE_MESSAGE % (b'{"input_tokens":%d,"output_tokens":%d}' % (HUGE, HUGE)),))),
    "a number of 5000 digits": always(Hostile((HUGE_MESSAGE % (b'{"input_tokens":' + b"9" * 5000 + b"}"),))),
    "nesting": always(Hostile((b'{"a":' * 20_000,))),
    "redirects": always(Hostile((b"",), 307, (("location", "/v1/messages"),))),
    "always busy": always(plain({"error": {"message": "busy"}}, status=429)),
    "nothing at all": always(Hostile((), 200, ())),
    "every connection cut": always(Hostile((b'{"id"',), cut=True)),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_hostile_target_ends_in_verdicts(name: str) -> None:
    found = outcome(NAMED[name])
    assert set(found) == ALL
    assert set(found.values()) & {"pass"} == set(), "nothing here was alive"


def test_a_response_cache_is_no_evidence() -> None:
    """One answer, id and all, for whatever is sent: nothing about the cache may be concluded from it."""
    found = outcome(lambda path, streamed, number: well_behaved(path))  # noqa: ARG005
    assert set(found) == ALL
    assert {status for key, status in found.items() if key.startswith(("PFX", "PIN"))} & {"pass", "warn"} == set()


@pytest.mark.parametrize("stream", [False, True])
def test_the_bytes_of_an_answer_are_bounded(stream: bool) -> None:
    with serve(HostileTarget(NAMED["one endless line" if stream else "an endless body"]), grace_s=0.0) as server:
        client = RawClient(Endpoint(url=server.url, api_key=None, timeout_s=20, run_id="r"))
        reply = client.post(Entry.CHAT, b"{}", stream=stream)
        client.close()
    assert reply.answer.error is not None
    assert f"over {MAX_ANSWER_BYTES // 1024**2} MiB" in reply.answer.error
    assert reply.answer.failure == "timeout"
    assert len(reply.body) <= MAX_ANSWER_BYTES


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_nonsense_made_of_scripted_answers_never_crashes_a_run(answers: list[Hostile]) -> None:
    """A gateway that does ask the recorder, so that every scripted rule has something to judge."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    def answer(path: str, streamed: bool, number: int) -> Hostile:  # noqa: ARG001
        return answers[number % len(answers)]

    found = outcome(answer, listen=f"127.0.0.1:{port}")
    assert set(found) == ALL
    assert "pass" not in {status for key, status in found.items() if key.startswith("USE")}


def test_a_stopped_run_says_why() -> None:
    found = outcome(NAMED["always busy"])
    assert SendingStopped.__name__ in found.values() or "inconclusive" in found.values()
