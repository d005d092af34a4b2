"""Ways in which a broken gateway could end green without any rule being wrong: what was not looked at, or not seen."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from suite_bad_targets import BAD, FailsOnce, FrozenClock, fails, fails_now_and_then, roles_mapped
from suite_layers import Asked, Layer, Reply
from suite_targets import Judged, Target, engine_of, judge

from conformance.errors import UsageProblem
from conformance.options import Budget, RunOptions
from conformance.run import Run
from conformance.servers import serve
from conformance.verdicts import Entry, ExitCode, Status
from engine.embedded import create_app as engine_app


def facts(judged: Judged) -> dict[str, str]:
    assert judged.report is not None
    return {fact.name: fact.value for fact in judged.report.facts}


def facts_of(run: Run) -> dict[str, str]:
    return {fact.name: fact.value for fact in run.report().facts}


def why_open(judged: Judged) -> str:
    assert judged.report is not None
    return " | ".join(judged.report.withheld)


# Whose text it is


@pytest.mark.parametrize(("sent", "got"), [("assistant", "user"), ("user", "assistant"), ("user", "system")])
def test_a_text_in_anothers_mouth_is_a_changed_content(sent: str, got: str) -> None:
    judged = judge(Target(middle=Layer(request=roles_mapped({sent: got}))), recorder=True)
    for entry in Entry:
        assert judged.status("CON-01", entry) is Status.FAIL, judged.said
        assert f"was sent as {sent} text and arrives as {got} text" in judged.reason("CON-01", entry)
    assert judged.code is ExitCode.RED


def test_system_text_as_a_users_is_right_for_some_models_only() -> None:
    judged = judge(Target(middle=Layer(request=roles_mapped({"system": "user"}))), recorder=True)
    assert judged.status("CON-01") is Status.INCONCLUSIVE
    assert "right only where the model takes no system text" in judged.reason("CON-01")
    assert judged.code is ExitCode.INCOMPLETE or judged.failed
    assert "CON-01 is undecided on /v1/messages" in why_open(judged)


def test_developer_is_a_name_of_system() -> None:
    judged = judge(Target(middle=Layer(request=roles_mapped({"system": "developer"}))), recorder=True)
    assert {judged.status("CON-01", entry) for entry in Entry} == {Status.PASS}, judged.said


# Requests that fail


@pytest.mark.parametrize(("status", "recorder"), [(500, True), (500, False), (400, False)])
def test_a_target_that_fails_now_and_then_passes_nothing_and_is_accused_of_nothing(status: int, recorder: bool) -> None:
    judged = judge(Target(front=Layer(request=fails_now_and_then(status, 9))), recorder=recorder)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    assert judged.count(Status.PASS) == 0
    assert f"x HTTP {status})" in facts(judged)["messages: failures"]
    assert f"x HTTP {status})" in why_open(judged)


@pytest.mark.parametrize("every", [7, 10])
def test_wherever_the_failures_fall_nobody_is_accused(every: int) -> None:
    judged = judge(Target(front=Layer(request=fails_now_and_then(502, every))), recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said


def test_one_failed_request_is_a_stated_fact() -> None:
    judged = judge(Target(front=Layer(request=FailsOnce(500, 30))), recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.GREEN, set()), judged.said
    told = facts(judged)
    assert told["messages: failures"].endswith("requests to /v1/messages failed (1 x HTTP 500)")


def test_late_refusals_stop_the_run_as_server_errors_do() -> None:
    judged = judge(Target(front=Layer(request=fails(422, after=55))), recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    assert "stopped sending: the target answered 422 three times in a row" in why_open(judged)
    assert judged.report is not None
    assert judged.report.requests_sent < 70


def test_a_gateway_that_refuses_odd_requests_only_is_judged_on_the_others() -> None:
    def no_salt_and_no_notes(asked: Asked) -> Reply | None:
        odd = "cache_salt" in asked.body or any(m["role"] == "system" for m in asked.body["messages"][1:])
        return fails(400)(asked) if odd else None

    judged = judge(Target(front=Layer(request=no_salt_and_no_notes)), recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.GREEN, set()), judged.said
    assert not [name for name in facts(judged) if name.endswith("failures")]


# Requests that go past the recorder


def test_half_of_the_traffic_beside_the_recorder() -> None:
    target = Target(middle=Layer(route=lambda asked: asked.number % 2), past_recorder=True)
    judged = judge(target, recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    assert not [v for v in judged.verdicts if v.status is Status.PASS and v.vantage == "upstream"]
    told = facts(judged)["messages: recorder"]
    assert told.startswith("the recorder saw ")
    assert "of its own), and what passes" in told
    assert "answered requests to /v1/chat/completions" in why_open(judged)


def test_one_entry_beside_the_recorder() -> None:
    target = Target(front=Layer(route=lambda asked: int(asked.entry is Entry.MESSAGES)), second_gateway=True)
    judged = judge(target, recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    blind = "no request to /v1/messages arrives at the recorder, though others do: it goes by another channel"
    assert why_open(judged) == blind
    assert (judged.status("CON-01"), judged.reason("CON-01")) == (Status.NOT_RUN, blind)
    assert judged.status("CON-01", Entry.CHAT) is Status.PASS


def test_a_recorder_that_nothing_reaches_says_what_to_set() -> None:
    target = Target(middle=Layer(route=lambda _: 1), past_recorder=True)
    judged = judge(target, recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    assert why_open(judged).startswith("no request of the target arrived at 127.0.0.1:")
    assert "give the gateway's channel that serves llm-prime the upstream URL http://127.0.0.1:" in why_open(judged)
    assert judged.reason("CON-01").startswith("no request of the target arrived at 127.0.0.1:")


# What streams alone get wrong, from the client's side


@pytest.mark.parametrize(
    ("name", "entry", "budget"),
    [
        ("clock in streams", Entry.MESSAGES, Budget.QUICK),
        ("clock in streams", Entry.CHAT, Budget.STANDARD),
        ("shuffles tools in streams", Entry.CHAT, Budget.QUICK),
        ("shuffles tools in streams", Entry.MESSAGES, Budget.STANDARD),
    ],
)
def test_faults_of_streams_are_seen_without_a_recorder(name: str, entry: Entry, budget: Budget) -> None:
    judged = judge(BAD[name](), recorder=False, entries=(entry,), budget=budget)
    assert (judged.code, judged.failed) == (ExitCode.INCOMPLETE, set()), judged.said
    assert "streamed ones hit to their end" in judged.reason("PIN-01", entry)


def test_a_block_that_only_streams_keep_is_no_growing_conversation() -> None:
    def kept(asked: Asked) -> None:
        if asked.streamed and "tools" in asked.body:
            digest = hashlib.sha256(str(asked.body["messages"]).encode()).hexdigest()
            asked.body["system"][0]["text"] = digest + asked.body["system"][0]["text"][len(digest) :]

    judged = judge(Target(front=Layer(request=kept)), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("PIN-01") is Status.INCONCLUSIVE, judged.said
    assert "streamed and plain new turns do not grow alike" in judged.reason("PIN-01")
    assert judged.code is not ExitCode.GREEN


def test_half_of_each_arms_turns_is_streamed_and_none_more_is_sent() -> None:
    streamed: list[bool] = []
    judged = judge(
        Target(front=Layer(request=lambda asked: streamed.append(asked.streamed))), recorder=False,
        budget=Budget.STANDARD,
    )  # fmt: skip
    assert (judged.code, judged.failed) == (ExitCode.GREEN, set()), judged.said
    assert judged.report is not None
    assert len(streamed) == judged.report.requests_sent
    assert abs(len(streamed) - judged.report.requests_planned) <= 8
    assert 0.25 < sum(streamed) / len(streamed) < 0.5


# Clocks that tick slower than a run lasts


@pytest.mark.parametrize(
    ("form", "part"), [("%H:%M", "in_first_tool"), ("%I:%M %p", "in_system"), ("%Y-%m-%d %H:%M:00", "in_system")]
)
def test_a_clock_by_the_minute_is_known_by_its_form(form: str, part: str) -> None:
    judged = judge(Target(middle=Layer(request=getattr(FrozenClock(form), part))), recorder=True)
    assert judged.failed == {"CON-01", "PFX-13"}, judged.said
    assert "names the minute of its requests" in judged.reason("PFX-13")


@pytest.mark.parametrize("form", ["%B %d, %Y", "since 4:00 (not the time)"])
def test_a_date_may_change_and_is_not_seen_to(form: str) -> None:
    clock = FrozenClock(form)
    judged = judge(Target(middle=Layer(request=clock.in_system)), recorder=True)
    if "4:0" in clock.text and judged.status("PFX-13") is Status.FAIL:
        pytest.skip("the run falls into the very minute that the text names")
    assert judged.failed == {"CON-01"}, judged.said
    assert judged.status("PFX-13") is Status.INCONCLUSIVE
    assert "has the form of a date or time" in judged.reason("PFX-13")


def test_a_run_from_the_clients_side_says_how_long_it_watched() -> None:
    told = facts(judge(Target(), recorder=False))
    for entry in Entry:
        assert "what changes slower than that (the minute, the date) is not seen" in told[f"{entry}: watched for"]
    assert not [name for name in facts(judge(Target(), recorder=True)) if name.endswith("watched for")]


# Waiting as asked


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for_once_and_said(status: int) -> None:
    asked: list[int] = []
    failing = FailsOnce(status, 20, "1")

    def request(found: Asked) -> Reply | None:
        asked.append(found.number)
        return failing(found)

    judged = judge(Target(front=Layer(request=request)), recorder=True)
    assert (judged.code, judged.failed) == (ExitCode.GREEN, set()), judged.said
    assert facts(judged)["Retry-After"] == "waited once, 1 s in all, before a retry, as Retry-After asked"
    assert not [name for name in facts(judged) if name.endswith("failures")]


def test_a_wait_that_is_too_long_is_no_wait() -> None:
    judged = judge(Target(front=Layer(request=FailsOnce(429, 20, "3600"))), recorder=True)
    assert "up to 3600 s" in facts(judged)["Retry-After"]
    assert sum("failures" in name for name in facts(judged)) == 1


def test_counts_of_the_request_before_are_seen_by_a_larger_budget() -> None:
    judged = judge(
        BAD["cached of the request before"](), recorder=False, budget=Budget.STANDARD, entries=(Entry.MESSAGES,)
    )
    assert "PIN-02" in judged.failed, judged.said


# What is sent, and to whom


def test_the_direct_arm_is_counted_apart() -> None:
    judged = judge(BAD["cuts the history"](), recorder=False, budget=Budget.STANDARD, direct=True)
    assert judged.report is not None
    assert judged.report.engine_requests_sent > 20
    assert judged.report.engine_prompt_tokens_sent > 20_000
    healthy = judge(Target(), recorder=False, direct=True)
    assert healthy.report is not None
    assert healthy.report.engine_requests_sent == 2  # hello, and the text of both entries
    assert 0 < healthy.report.engine_prompt_tokens_sent < 5_000


@pytest.mark.parametrize(("budget", "recorder"), [(Budget.QUICK, True), (Budget.QUICK, False)])
def test_the_plan_is_what_is_sent(budget: Budget, recorder: bool) -> None:
    judged = judge(Target(), recorder=recorder, budget=budget)
    report = judged.report
    assert report is not None
    assert report.requests_sent == pytest.approx(report.requests_planned, rel=0.05)
    assert report.prompt_tokens_sent == pytest.approx(report.prompt_tokens_planned, rel=0.25)


def test_a_production_engines_pool_is_filled_by_two_percent_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return False

    def preflight(pool: int | None, **more: Any) -> Run:
        with serve(engine_app(engine_of(Target()))) as engine:
            target = {"target": engine.url, "entries": (Entry.CHAT,), "budget": Budget.QUICK}
            run = Run(RunOptions(**target, pool_tokens=pool, **more), ask=ask)  # type: ignore[arg-type]
            try:
                run.preflight()
                return run
            finally:
                run.close()

    assert facts_of(preflight(100_000))["pool"].startswith("about 13,200 of the pool's 100,000 tokens (13 %)")
    monkeypatch.setattr("conformance.pool.is_production", lambda *_: True)
    with pytest.raises(UsageProblem, match="at most 2 % of a production engine's pool"):
        preflight(100_000)
    preflight(100_000, pool_share=14.0)
    preflight(1_000_000)
    assert asked == []
    with pytest.raises(UsageProblem, match="stopped at your word: only the preflight's requests were sent"):
        preflight(None)
    assert len(asked) == 1
    assert re.search(r"about \d+ requests / [\d,]+ prompt tokens will be sent\. Go on\?", asked[0])
