"""A gateway in front of a Claude upstream can cache only what clients mark: the suite's sessions mark as clients do."""

from __future__ import annotations

from suite_claude import ClaudeNative
from suite_targets import judge_options

from conformance.observe.lab import Salts, WireLab
from conformance.options import Budget, RunOptions
from conformance.servers import serve
from conformance.sessions import CLAUDE_CODE
from conformance.verdicts import Entry, Status
from conformance.wire.client import Wire

MESSAGES = Entry.MESSAGES


def test_a_claude_upstream_is_seen_to_cache_and_accused_of_nothing() -> None:
    upstream = ClaudeNative()
    with serve(upstream.app()) as server:
        judged = judge_options(
            RunOptions(target=server.url, model="claude-x", budget=Budget.STANDARD, entries=(MESSAGES,), pause_s=0.0)
        )
    assert judged.report is not None
    facts = {fact.name: fact.value for fact in judged.report.facts}
    assert facts["messages: cache"] == "exact repeats hit"
    accused = {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}
    assert accused == {}
    for rule in ("PFX-01", "PFX-02", "PIN-01", "PIN-02", "PIN-03", "USE-06"):
        assert judged.status(rule) is Status.PASS, judged.said
    assert upstream.marked > 2 * upstream.unmarked


def test_every_session_of_claude_code_carries_marks_on_system_and_last_block() -> None:
    with serve(ClaudeNative().app()) as server:
        wire = Wire(server.url, api_key=None, model="m", timeout_s=5, recorder=None, run_id="r")
        lab = WireLab(
            entry=MESSAGES, wire=wire, salts=Salts("r"), seed=0, base_bytes=3_600, shape="scaled", sees_upstream=False,
            client=CLAUDE_CODE, prompt_token_cap=10**9,
        )  # fmt: skip
        with wire:
            for attribution in (False, True):
                conversation = lab.conversation(attribution=attribution)
                for _ in range(3):
                    body = conversation.session.body()
                    marked = [block for block in body["system"] if "cache_control" in block]
                    assert marked == body["system"][-2:]
                    last = body["messages"][-1]["content"][-1]
                    assert last["cache_control"] == {"type": "ephemeral"}
                    assert sum(str(m).count("cache_control") for m in body["messages"]) == 1
                    conversation.grow(300)
