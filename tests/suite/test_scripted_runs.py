"""Runs with scripts only, on gateways the suite did not start: nothing honest is accused, nothing passes unseen."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from conformance.casebook import CASES, load_cases
from conformance.errors import VantageMissing
from conformance.observe.error_scripts import ERRORS
from conformance.options import Budget, RunOptions
from conformance.pair import ALIAS, embedded_pair, engine_config, vllm_channel
from conformance.rules import RULES
from conformance.run import Run
from conformance.servers import serve
from conformance.verdicts import Entry, ExitCode, Status, Verdict
from reference_gateway import Channel, GatewayConfig, create_app

SCRIPTED = ("USE-02", "USE-03", "USE-04", "USE-05", "USE-08", "USE-09", "USE-10", "STR-05", "STR-06", "STR-07",
            "STR-08", "STR-09", "ERR-01", "ERR-02")  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def scripted_run(channel: Mapping[str, Any] | None = None, fault: str | None = None) -> Iterator[Run]:
    """A run of the suite, without an engine, on a gateway whose one channel is the recorder."""
    port = free_port()
    upstream = f"http://127.0.0.1:{port}"
    one = vllm_channel(upstream) if channel is None else Channel(name="c", url=upstream, **channel)
    with serve(create_app(GatewayConfig(channels=(one,)), fault)) as gateway:
        run = Run(
            RunOptions(
                target=gateway.url,
                model=ALIAS if channel is None else one.models[0],
                upstream_listen=f"127.0.0.1:{port}",
                budget=Budget.STANDARD,
            )
        )
        try:
            run.preflight()
            yield run
        finally:
            run.close()


def judged(run: Run, *rules: str) -> dict[tuple[str, Entry], Verdict]:
    """The verdicts of some rules on every entry the target has."""
    load_cases()
    for rule in rules:
        for entry in RULES[rule].entries:
            if entry in run.entries:
                CASES[rule].function(observed=run.observed(entry), judge=run.record)
    return {(v.rule, v.entry): v for v in run.verdicts}


@pytest.fixture(scope="module")
def alone() -> Iterator[Run]:
    with scripted_run() as run:
        yield run


def test_without_an_engine_the_scripted_rules_are_judged(alone: Run) -> None:
    assert alone.scripted_only
    verdicts = judged(alone, *SCRIPTED)
    assert {key: v.reason for key, v in verdicts.items() if v.status is not Status.PASS} == {}
    assert {v.rule for v in verdicts.values()} == set(SCRIPTED)
    assert any(fact.name == "recorder" and "--engine" in fact.value for fact in alone.report().facts)
    assert alone.exit_code() is ExitCode.INCOMPLETE, "the cache family was not judged"


@pytest.mark.parametrize("rule", [r.id for r in RULES.values() if r.id not in SCRIPTED and not r.needs_load])
def test_what_needs_an_engine_says_so(alone: Run, rule: str) -> None:
    load_cases()
    entry = RULES[rule].entries[0]
    with pytest.raises(VantageMissing, match="--engine URL"):
        CASES[rule].function(observed=alone.observed(entry), judge=alone.record)


def test_a_relay_to_a_messages_upstream_is_not_accused() -> None:
    """vllm-router and the like: the upstream speaks Messages, and whatever it says goes through."""
    with scripted_run({"dialect": "anthropic", "models": ("m",)}) as run:
        assert run.entries == (Entry.MESSAGES,)
        verdicts = judged(run, *SCRIPTED)
        exchanges = run.observed(Entry.MESSAGES).scripted
        assert exchanges is not None
    bad = {key: v.reason for key, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN, Status.ERROR)}
    assert bad == {}
    passed = {rule for (rule, _), v in verdicts.items() if v.status is Status.PASS}
    assert passed == {"USE-02", "USE-03", "USE-08", "USE-10", "STR-07", "STR-08", "STR-09", "ERR-01", "ERR-02"}
    assert {v.status for v in verdicts.values()} == {Status.PASS, Status.NOT_RUN}
    assert "Messages dialect" in verdicts["USE-04", Entry.MESSAGES].reason


def test_without_the_switch_only_what_is_wrong_is_accused() -> None:
    """llm-rosetta and ant2oai: cached tokens inside the input and beside it. The other rules are not dragged along."""
    with scripted_run(fault="input-includes-cached") as run:
        verdicts = judged(run, *SCRIPTED)
    failed = {rule for (rule, _), v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)}
    assert failed == {"USE-05"}
    undecided = {rule for (rule, _), v in verdicts.items() if v.status is Status.INCONCLUSIVE}
    assert undecided <= {"USE-02"}


def test_an_error_in_a_200_is_told_as_what_it_was() -> None:
    with scripted_run(fault="error-as-200") as run:
        verdict = judged(run, "ERR-01")["ERR-01", Entry.MESSAGES]
    assert verdict.code == "error-as-200"
    assert "refused-400 (plain): upstream 400 comes as a 200 with the error inside" in verdict.reason
    said = {case.name: case.said for case in ERRORS}
    assert (said["failed-500"], said["error-in-200"]) == ("upstream 500", "an error inside an upstream 200")


def test_a_target_that_goes_elsewhere_is_judged_without_scripts() -> None:
    """The channel behind the model name is not the recorder: nothing scripted is judged, and the verdict says why."""
    engine = engine_config(template="tools-first", block_size=64, tokenizer="fast")
    listen = f"127.0.0.1:{free_port()}"
    with embedded_pair(engine=engine, recorder=False) as pair:
        run = Run(RunOptions(target=pair.gateway_url, model=ALIAS, upstream_listen=listen))
        try:
            run.preflight()
            verdicts = judged(run, "USE-04", "ERR-02")
            assert not run.scripted_only
        finally:
            run.close()
    assert {v.status for v in verdicts.values()} == {Status.NOT_RUN}
    assert all(v.reason.startswith(f"no request of the target arrived at {listen}: ") for v in verdicts.values())
