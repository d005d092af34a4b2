"""Targets for the suite to judge: layers in front of, inside and behind the reference pair.

    front -> reference gateway -> middle -> recorder -> back -> embedded engine

A layer in front or in the middle belongs to the gateway under test, one at the back to the engine.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from suite_layers import Layer, Other, Proxy, Vllm

from conformance.casebook import load_cases
from conformance.errors import SendingStopped, TargetProblem
from conformance.observe.lab import Salts
from conformance.options import Budget, RunOptions
from conformance.pair import ALIAS, engine_config, vllm_channel
from conformance.rules import RULES
from conformance.run import Run
from conformance.servers import serve
from conformance.verdicts import Entry, ExitCode, RunReport, Status, Verdict
from engine.embedded import EngineConfig
from engine.embedded import create_app as engine_app
from reference_gateway import Channel, GatewayConfig
from reference_gateway import create_app as gateway_app


@dataclass
class Target:
    """How a target is made. `channel` None is the reference gateway's vLLM channel."""

    front: Layer | None = None
    middle: Layer | None = None
    back: Layer | None = None
    engines: int = 1
    template: str = "tools-first"
    block_size: int = 64
    pool_tokens: int = 4_000_000
    fault: str | None = None
    strips: bool = True  # the channel's strip_anthropic_billing_header
    through_messages: bool = False  # a first gateway that speaks Anthropic Messages to a second one
    past_recorder: bool = False  # the middle layer has the engine itself as its second upstream
    second_gateway: bool = False  # the front layer has a second gateway, straight to the engine, as its second upstream
    vllm: str = ""  # the engine calls itself this vLLM, and from 0.32 on drops the attribution line as that does
    other_make: bool = False  # with vllm: its model list names another maker
    recorder_first: bool = False  # with through_messages: the recorder stands between the two gateways


@dataclass
class Judged:
    """What the suite said of a target."""

    verdicts: tuple[Verdict, ...]
    code: ExitCode
    report: RunReport | None
    problem: str = ""

    def status(self, rule: str, entry: Entry = Entry.MESSAGES) -> Status:
        return next(v.status for v in self.verdicts if (v.rule, v.entry) == (rule, entry))

    def reason(self, rule: str, entry: Entry = Entry.MESSAGES) -> str:
        return next(v.reason for v in self.verdicts if (v.rule, v.entry) == (rule, entry))

    @property
    def failed(self) -> set[str]:
        """Ids of rules that failed on any entry."""
        return {v.rule for v in self.verdicts if v.status is Status.FAIL}

    @property
    def said(self) -> dict[str, str]:
        """ "RULE entry" -> status and reason, for a reader of a failed assertion."""
        return {f"{v.rule} {v.entry.value}": f"{v.status.value}: {v.reason}" for v in self.verdicts}

    def count(self, status: Status) -> int:
        return sum(v.status is status for v in self.verdicts)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def judge(
    target: Target,
    *,
    recorder: bool,
    budget: Budget = Budget.QUICK,
    seed: int = 0,
    salt: str = "",
    direct: bool = False,
    **options: Any,
) -> Judged:
    """Judge a target on every rule, as the plugin does; `direct` names the engine without a recorder."""
    with ExitStack() as stack:
        engines = [
            stack.enter_context(serve(engine_app(engine_of(target)), grace_s=0.2)).url for _ in range(target.engines)
        ]
        engine = engines[0]
        if target.vllm:
            make = Other if target.other_make else Vllm
            engine = stack.enter_context(serve(make(target.vllm, engine), grace_s=0.2)).url
            engines = [engine]
        if target.back is not None or len(engines) > 1:
            engine = stack.enter_context(serve(Proxy(target.back or Layer(), engines), grace_s=0.2)).url
        if target.recorder_first:
            engine = stack.enter_context(serve(_gateway(target, engine), grace_s=0.2)).url
        upstream, listen = engine, None
        if recorder:
            listen = f"127.0.0.1:{free_port()}"
            upstream = f"http://{listen}"
        past = [engine] if target.past_recorder else []
        if target.middle is not None:
            upstream = stack.enter_context(serve(Proxy(target.middle, [upstream, *past]), grace_s=0.2)).url
        if not target.recorder_first:
            upstream = url = stack.enter_context(serve(_gateway(target, upstream), grace_s=0.2)).url
        if target.through_messages:
            config = GatewayConfig(
                channels=(Channel(name="claude", url=upstream, models=(ALIAS,), dialect="anthropic"),)
            )
            url = stack.enter_context(serve(gateway_app(config), grace_s=0.2)).url
        if target.front is not None:
            urls = [url]
            if target.second_gateway:
                urls.append(stack.enter_context(serve(_gateway(target, engine), grace_s=0.2)).url)
            url = stack.enter_context(serve(Proxy(target.front, urls), grace_s=0.2)).url
        merged: dict[str, Any] = {
            "target": url, "model": ALIAS, "budget": budget, "seed": seed, "pause_s": 0.0, "timeout_s": 20.0,
            "longest_wait_s": 1.5,
            "engine": engine if recorder or direct else None, "upstream_listen": listen, **options,
        }  # fmt: skip
        return judge_options(RunOptions(**merged), salt=salt)


def judge_options(options: RunOptions, *, salt: str = "") -> Judged:
    """One run, with what `conformance.case_run` does of a case's exceptions; salts are the same every time."""
    run = Run(options)
    run.run_id = f"{salt}000001"  # every target has an engine of its own: no run warms another
    run.salts = Salts(run.run_id)
    try:
        try:
            run.preflight()
        except TargetProblem as error:
            return Judged((), ExitCode.TARGET, None, str(error))
        problem = ""
        for rule_id, case in load_cases().items():
            for entry in RULES[rule_id].entries:
                if entry not in run.entries:
                    run.record(_own(rule_id, entry, Status.NOT_APPLICABLE, "no such entry"))
                    continue
                try:
                    case.function(observed=run.observed(entry), judge=run.record)
                except SendingStopped as error:
                    run.record(_own(rule_id, entry, Status.INCONCLUSIVE, str(error)))
                except TargetProblem as error:
                    problem = problem or str(error)
                    run.record(_own(rule_id, entry, Status.INCONCLUSIVE, str(error)))
                except Exception as error:
                    run.record(_own(rule_id, entry, Status.ERROR, f"{type(error).__name__}: {error}"))
        report = run.report()
        code = ExitCode.TARGET if problem else run.exit_code()
        return Judged(report.verdicts, code, report, problem)
    finally:
        run.close()


def _own(rule_id: str, entry: Entry, status: Status, reason: str) -> Verdict:
    return Verdict(rule=rule_id, entry=entry, status=status, reason=reason, vantage=RULES[rule_id].evidence[0], n=0)


def engine_of(target: Target) -> EngineConfig:
    return engine_config(
        template=target.template, block_size=target.block_size, tokenizer="fast", pool_tokens=target.pool_tokens
    )


def _gateway(target: Target, upstream: str) -> Any:
    channel = vllm_channel(upstream)
    if not target.strips:
        channel = channel.model_copy(update={"strip_anthropic_billing_header": False})
    return gateway_app(GatewayConfig(channels=(channel,)), target.fault)
