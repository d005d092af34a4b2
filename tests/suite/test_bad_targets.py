"""Broken targets: what the suite says of each, with a recorder behind it and from the client's side alone.

None may end with exit code 0. Where counts alone cannot name the fault, the run is incomplete.
"""

from __future__ import annotations

import pytest
from suite_bad_targets import BAD, fails
from suite_layers import Asked, Layer, Reply
from suite_targets import Judged, Target, judge

from conformance.options import Budget
from conformance.verdicts import Entry, ExitCode, Status

INCOMPLETE: frozenset[str] = frozenset()
STREAMS = frozenset(("STR-01", "STR-03", "USE-07"))


def rules(*ids: str) -> frozenset[str]:
    return frozenset(ids)


RECORDED = {
    "constant engine": INCOMPLETE,
    "engine without cache": INCOMPLETE,
    "constant on messages": INCOMPLETE,
    "constant on chat": INCOMPLETE,
    "400 on messages": INCOMPLETE,
    "400 on chat": INCOMPLETE,
    "drops the system": rules("CON-01"),
    "drops tools": rules("CON-01"),
    "replaces tool descriptions": rules("CON-01"),
    "cuts the history": rules("CON-01", "CON-02", "PFX-01"),
    "clock in system": rules("CON-01", "PFX-01", "PFX-13", "PFX-14"),
    "clock in system, system first": rules("CON-01", "PFX-01", "PFX-13", "PFX-14"),
    "clock in first tool, system first": rules("CON-01", "PFX-01", "PFX-13", "PFX-14"),
    "clock in streams": rules("CON-01", "PFX-01"),
    "shuffles tools in streams": rules("PFX-01", "PFX-09"),
    "renames the attribution": rules("PFX-02", "PFX-03", "PFX-04", "PIN-01"),
    "renames the attribution, system first": rules("PFX-02", "PFX-03", "PFX-04"),
    "400 after 5": INCOMPLETE,
    "all cached": rules("PIN-02", "USE-01", "USE-03", "USE-05"),
    "random cached": rules("PIN-02", "USE-01", "USE-03"),
    "cached of the request before": rules("PIN-02", "USE-01", "USE-03"),
    "negative": rules("USE-01", "USE-02", "USE-06"),
    "negative, all counts": rules("USE-01", "USE-02", "USE-09"),
    "floats": STREAMS - {"STR-01"} | {"USE-01", "USE-09"},
    "floats, all counts": rules("STR-01", "STR-06", "USE-01", "USE-05", "USE-07", "USE-09"),
    "strings, all counts": rules("STR-01", "STR-06", "USE-01", "USE-09"),
    "usage null": rules("STR-01", "STR-03", "STR-06", "USE-01", "USE-09"),
    "no usage in streams": STREAMS | {"STR-06", "USE-01", "USE-05", "USE-09"},
    "breaks streams": rules("STR-01"),
    "ends streams early": rules("STR-01", "STR-07", "STR-09", "USE-07"),
    "ends chat streams early": rules("STR-07", "STR-09", "USE-07"),
    "response cache, new ids": INCOMPLETE,
}
"""What fails with a recorder behind the gateway, on either entry."""

CLIENT = {
    "constant": INCOMPLETE,
    "constant with usage": INCOMPLETE,
    "constant with usage and ids": INCOMPLETE,
    "constant with a small prompt": INCOMPLETE,
    "constant on messages": INCOMPLETE,
    "constant on chat": INCOMPLETE,
    "constant engine": INCOMPLETE,
    "constant engine, cold": INCOMPLETE,
    "engine without cache": INCOMPLETE,
    "500 after 5": INCOMPLETE,
    "400 after 5": INCOMPLETE,
    "400 on messages": INCOMPLETE,
    "400 on chat": INCOMPLETE,
    "429 after 8": INCOMPLETE,
    "drops the system": INCOMPLETE,
    "drops the system in streams": rules("STR-03", "USE-07"),
    "drops tools": INCOMPLETE,
    "replaces tool descriptions": INCOMPLETE,
    "cuts the history": INCOMPLETE,
    "clock in system": INCOMPLETE,
    "clock in system, system first": INCOMPLETE,
    "clock in first tool": INCOMPLETE,
    "renames the attribution": rules("PIN-01"),
    "renames the attribution, system first": INCOMPLETE,
    "all cached": rules("PIN-02"),
    "random cached": rules("PIN-02"),
    "cached of the request before": rules("PIN-02"),
    "negative": rules("USE-06"),
    "negative, all counts": rules("USE-01"),
    "floats": STREAMS - {"STR-01"},
    "floats, all counts": rules("STR-01", "USE-01", "USE-07"),
    "strings, all counts": rules("STR-01", "USE-01"),
    "usage null": rules("STR-01", "STR-03", "USE-01"),
    "no usage in streams": STREAMS - {"USE-07"},
    "breaks streams": rules("STR-01"),
    "ends streams early": rules("STR-01", "USE-07"),
    "ends chat streams early": rules("USE-07"),
    "response cache": INCOMPLETE,
    "response cache, new ids": INCOMPLETE,
}
"""What fails from the client's side, on either entry. A constant total may be an honest count of a cut prompt."""

COUNTS_BADLY = frozenset(name for name in BAD if name.startswith("constant")) | {"400 on chat"}
"""Targets whose count_tokens is no count: CNT-01 warns, and nothing else does."""

MISCOUNTS = frozenset(("negative",))
"""Their totals are wrong, so that from the client's side the count, which is right, differs from them."""

ON_BOTH_ENTRIES = frozenset(
    ("constant on messages", "constant on chat", "400 on messages", "400 on chat", "ends chat streams early",
     "floats, all counts", "ends streams early",
     "clock in system", "cuts the history", "all cached", "no usage in streams")
)  # fmt: skip
"""The others are looked at on /v1/messages alone, where every rule applies."""


def entries(name: str) -> tuple[Entry, ...]:
    return tuple(Entry) if name in ON_BOTH_ENTRIES else (Entry.MESSAGES,)


def check(judged: Judged, failed: frozenset[str], warned: frozenset[str] = frozenset()) -> None:
    assert judged.failed == failed, judged.said
    assert {v.rule for v in judged.verdicts if v.status is Status.WARN} == warned, judged.said
    assert judged.count(Status.ERROR) == 0, judged.said
    assert judged.code is (ExitCode.RED if failed else ExitCode.INCOMPLETE)


@pytest.mark.parametrize("name", RECORDED)
def test_a_broken_target_with_a_recorder_behind_it(name: str) -> None:
    warned = rules("CNT-01") if name in COUNTS_BADLY else rules()
    check(judge(BAD[name](), recorder=True, entries=entries(name)), RECORDED[name], warned)


@pytest.mark.parametrize("name", CLIENT)
def test_a_broken_target_from_the_clients_side(name: str) -> None:
    warned = rules("CNT-01") if name in COUNTS_BADLY | MISCOUNTS else rules()
    check(judge(BAD[name](), recorder=False, entries=entries(name)), CLIENT[name], warned)


@pytest.mark.parametrize("recorder", [True, False])
@pytest.mark.parametrize(("name", "says"), [("500", "HTTP 500"), ("429", "try again in 30 s")])
def test_a_target_that_answers_nothing_ends_before_it_is_judged(name: str, says: str, recorder: bool) -> None:
    judged = judge(BAD[name](), recorder=recorder)
    assert (judged.code, judged.verdicts) == (ExitCode.TARGET, ())
    assert says in judged.problem


def test_every_broken_target_is_looked_at() -> None:
    assert set(BAD) == set(RECORDED) | set(CLIENT) | {"500", "429"}


def test_a_target_that_fails_on_the_way_says_so() -> None:
    judged = judge(BAD["429 after 8"](), recorder=False)
    assert judged.reason("PIN-01") == "stopped sending: the target answered 429 three times in a row (Retry-After 30 s)"


def test_history_that_does_not_arrive_is_told_from_coarse_counts() -> None:
    judged = judge(BAD["cuts the history"](), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("PIN-01") is Status.INCONCLUSIVE
    assert "older turns do not reach the model" in judged.reason("PIN-01")


def test_hot_pairs_see_a_history_that_is_cut() -> None:
    for direct, failed in ((False, INCOMPLETE), (True, rules("PFX-01"))):
        target = BAD["cuts the history"]()
        check(judge(target, recorder=False, direct=direct, budget=Budget.STANDARD, entries=(Entry.MESSAGES,)), failed)


def test_failed_probes_are_not_taken_for_missing_counts() -> None:
    judged = judge(BAD["400 after 5"](), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.reason("PIN-02") == "stopped sending: the target answered 400 three times in a row"


def test_a_count_beside_wrong_totals_follows_from_them() -> None:
    judged = judge(BAD["negative"](), recorder=False, entries=(Entry.MESSAGES,))
    assert next(v.root for v in judged.verdicts if v.rule == "CNT-01") == "USE-06"


def test_a_count_that_is_refused_like_its_request_is_not_held_against_the_count() -> None:
    def request(asked: Asked) -> Reply | None:
        # The two of CNT-01, by what is theirs alone: a count came before.
        text = str(asked.body["messages"])
        if asked.path.endswith("/count_tokens"):
            counted.add(text)
        return fails(400)(asked) if text in counted else None

    counted: set[str] = set()
    judged = judge(Target(front=Layer(request=request)), recorder=True, entries=(Entry.MESSAGES,))
    assert judged.status("CNT-01") is Status.INCONCLUSIVE
    assert "the request itself is refused like its count" in judged.reason("CNT-01")


def test_a_stream_that_breaks_off_is_no_mixture_of_blocks() -> None:
    judged = judge(BAD["breaks streams"](), recorder=True, entries=(Entry.MESSAGES,))
    assert judged.status("STR-08") is Status.INCONCLUSIVE
    assert "no scripted stream arrived whole" in judged.reason("STR-08")


def test_negative_counts_are_no_estimate() -> None:
    judged = judge(BAD["negative"](), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("STR-02") is not Status.FAIL


def test_what_streams_alone_get_wrong_is_named() -> None:
    judged = judge(BAD["clock in streams"](), recorder=True, entries=(Entry.MESSAGES,))
    assert "one request, streamed twice, is sent upstream as two prompts: clock" in judged.reason("PFX-01")


@pytest.mark.parametrize(("after", "recorder"), [(40, False), (55, True)])
def test_a_target_that_breaks_late_is_not_green(after: int, recorder: bool) -> None:
    judged = judge(Target(front=Layer(request=fails(500, after=after))), recorder=recorder)
    check(judged, INCOMPLETE)
    assert judged.count(Status.PASS) > 0, "what was seen before it broke stays judged"


def test_a_response_cache_is_not_green() -> None:
    judged = judge(BAD["response cache"](), recorder=True, entries=(Entry.MESSAGES,))
    check(judged, INCOMPLETE)
    assert "response cache" in judged.reason("PIN-01")
