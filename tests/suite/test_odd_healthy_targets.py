"""Healthy targets with habits of their own: none of them may be accused, from either vantage point."""

from __future__ import annotations

import pytest
from suite_layers import Asked, Change, Json, Layer
from suite_odd_engines import CACHES, MODELS, UNRELIABLE, head_only
from suite_odd_gateways import ANSWERS, GATEWAYS, ON_BOTH_ENTRIES, no_details_on_chat, only
from suite_targets import Judged, Target, judge

from conformance.options import Budget
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, Status
from reference_gateway.messages.content import ERROR_MARK


def accused(judged: Judged) -> dict[str, str]:
    """Whatever is worse than "not decided"."""
    return {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}


def undecided(judged: Judged) -> dict[str, str]:
    return {k: v for k, v in judged.said.items() if v.startswith("inconclusive")}


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_habit_of_sending_passes_everything(name: str) -> None:
    judged = judge(GATEWAYS[name](), recorder=True, entries=(Entry.MESSAGES,))
    assert (accused(judged), undecided(judged)) == ({}, {})
    assert judged.code is ExitCode.GREEN
    for rule in ("CON-01", "PIN-01", "USE-01", "USE-02", "STR-07", "ERR-02"):
        assert judged.status(rule) is Status.PASS, judged.said


MISTOLD = {
    "reports what was not read as creation": {"USE-03", "USE-04", "USE-08"},
    "leaves out counts of 0": {"USE-03"},
}
"""Habits whose totals are right and whose parts are not: nothing that a client sees tells, a recorder does."""


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in MISTOLD])
def test_a_habit_of_answering_passes_everything(name: str) -> None:
    entries = tuple(Entry) if name in ON_BOTH_ENTRIES else (Entry.MESSAGES,)
    judged = judge(ANSWERS[name](), recorder=True, entries=entries)
    assert (accused(judged), undecided(judged)) == ({}, {})
    assert judged.code is ExitCode.GREEN
    # Load, and a channel towards a Claude upstream, are not given to this target.
    given = [rule for rule in RULES.values() if not rule.needs_load and rule.id != "PFX-05"]
    decided = [v for v in judged.verdicts if v.entry in entries and RULES[v.rule] in given]
    assert {v.status for v in decided} - {Status.NOT_APPLICABLE} == {Status.PASS}


@pytest.mark.parametrize(
    "name",
    ["tells all in message_start", "reports what was not read as creation", "sends running totals",
     "leaves out counts of 0"],
)  # fmt: skip
def test_a_habit_of_answering_passes_from_the_clients_side(name: str) -> None:
    judged = judge(ANSWERS[name](), recorder=False)
    assert (accused(judged), undecided(judged)) == ({}, {})
    assert judged.code is ExitCode.GREEN


@pytest.mark.parametrize("name", MISTOLD)
def test_a_habit_that_only_scripts_can_tell_of(name: str) -> None:
    """Right by the totals; what is said of writes, or of a reported 0, is not what the upstream said."""
    judged = judge(ANSWERS[name](), recorder=True, entries=(Entry.MESSAGES,))
    assert judged.failed == MISTOLD[name], judged.said
    assert {said.split()[0] for said in accused(judged)} == MISTOLD[name]
    assert judged.code is ExitCode.RED


def test_a_reported_zero_that_is_left_out_is_called_so() -> None:
    judged = judge(ANSWERS["leaves out counts of 0"](), recorder=True, entries=(Entry.MESSAGES,))
    verdict = next(v for v in judged.verdicts if (v.rule, v.entry) == ("USE-03", Entry.MESSAGES))
    assert (verdict.code, "a reported 0 is left out" in verdict.reason) == ("zero-left-out", True)


@pytest.mark.parametrize("name", MODELS)
def test_a_habit_of_the_model_passes_everything(name: str) -> None:
    judged = judge(MODELS[name](), recorder=True)
    assert (accused(judged), undecided(judged)) == ({}, {})
    assert judged.code is ExitCode.GREEN


@pytest.mark.parametrize("name", CACHES)
def test_an_odd_cache_passes_every_rule_that_counts_decide(name: str) -> None:
    judged = judge(CACHES[name](), recorder=False, budget=Budget.STANDARD)
    assert accused(judged) == {}
    # Whether an engine knows cache_salt is not seen where a first hit comes late.
    assert {said.split()[0] for said in undecided(judged)} <= ({"ISO-01"} if "third" in name else set())
    assert judged.code is ExitCode.GREEN
    assert judged.status("PFX-09") is Status.PASS


@pytest.mark.parametrize("name", UNRELIABLE)
def test_a_cache_that_forgets_is_not_the_gateways_fault(name: str) -> None:
    judged = judge(UNRELIABLE[name](), recorder=False, budget=Budget.STANDARD)
    assert accused(judged) == {}
    assert judged.code is ExitCode.INCOMPLETE, "what cannot be judged is not green either"
    assert judged.status("PFX-01") is Status.INCONCLUSIVE
    assert judged.status("USE-06") is Status.PASS


def test_bytes_clear_a_gateway_in_front_of_four_replicas() -> None:
    judged = judge(Target(engines=4), recorder=True)
    assert accused(judged) == {}
    rules = ("CON-01", "PFX-01", "PFX-02", "PFX-09", "PFX-14", "USE-01")
    assert {judged.status(rule) for rule in rules} == {Status.PASS}


@pytest.mark.parametrize("recorder", [True, False])
@pytest.mark.parametrize("block_size", [528, 2096])
def test_coarse_counts_decide_less_and_accuse_nobody(block_size: int, recorder: bool) -> None:
    judged = judge(Target(block_size=block_size), recorder=recorder)
    assert accused(judged) == {}
    assert judged.status("PIN-01") is not Status.PASS, "a short run cannot see a plateau among such steps"
    assert judged.status("USE-06") is Status.PASS


@pytest.mark.parametrize("entry", Entry)
def test_one_entry_alone_is_enough(entry: Entry) -> None:
    judged = judge(Target(front=Layer(request=only(entry))), recorder=True)
    assert (accused(judged), undecided(judged)) == ({}, {})
    assert judged.code is ExitCode.GREEN
    assert {v.status for v in judged.verdicts if v.entry is not entry} == {Status.NOT_APPLICABLE}


def test_an_entry_without_cached_counts_is_not_judged_by_them() -> None:
    judged = judge(Target(front=Layer(usage=no_details_on_chat)), recorder=False)
    assert accused(judged) == {}
    for rule in ("PIN-01", "PIN-02", "PIN-03", "PFX-09"):
        assert (judged.status(rule), judged.status(rule, Entry.CHAT)) == (Status.PASS, Status.NOT_RUN)


def test_a_cache_that_keeps_only_the_head_is_not_a_matter_of_tools() -> None:
    """Its constant is a finding (PIN-03); that the tool section varies is none."""
    judged = judge(Target(back=Layer(usage=head_only(1024))), recorder=False)
    assert set(accused(judged)) <= {"PIN-03 messages", "PIN-03 chat"}


def results_as_text(asked: Asked) -> None:
    """Calls and their results as text, all results of a turn in one message, for an engine without tools."""
    messages: list[Json] = []
    for message in asked.body.get("messages", ()):
        if message.get("tool_calls"):
            said = [f"{call['function']['name']}({call['function']['arguments']})" for call in message["tool_calls"]]
            messages.append({"role": "assistant", "content": "\n".join((message.get("content") or "", *said))})
        elif message["role"] == "tool":
            content = message["content"]
            text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
            said = [f"<result of={message['tool_call_id']}>", text, "</result>"]
            if messages[-1]["content"].endswith("</result>"):
                said.insert(0, messages.pop()["content"])
            messages.append({"role": "user", "content": "\n".join(said)})
        else:
            messages.append(message)
    asked.body["messages"] = messages


def results_as_text_alone(asked: Asked) -> None:
    results_as_text(asked)
    for message in asked.body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = message["content"].replace(ERROR_MARK, "")


@pytest.mark.parametrize(("rendered", "lost"), [(results_as_text, False), (results_as_text_alone, True)])
def test_a_failure_is_looked_for_beside_its_own_result_where_all_are_one_text(rendered: Change, lost: bool) -> None:
    judged = judge(Target(middle=Layer(request=rendered)), recorder=True, entries=(Entry.MESSAGES,), rules=("CON-02",))
    assert judged.status("CON-02") is (Status.FAIL if lost else Status.PASS), judged.said
    assert ("as if it had succeeded" in judged.reason("CON-02")) is lost
