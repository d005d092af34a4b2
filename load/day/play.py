"""The day over HTTP, one request after the other, through gateway and engine; and what it cost them in CPU time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook

from conformance.forensics.capture import CaptureFile
from conformance.sessions.compaction import ContextMeter
from load.day.acts import Act, day
from load.day.arm import ROWS, Arm
from load.day.talks import DayTalks
from load.day.usage_log import lines_of, logged
from load.errors import TargetGone
from load.processes import keep_freed_memory, process_cpu, say
from load.samples import Sample
from load.sending import Sender
from load.tiers import scrape


def play(
    arm: Arm, host: str, engine: str | None, *, acts: Sequence[Act] | None = None, meter: ContextMeter | None = None,
    timeout_s: float = 120.0, usage_log: Path | None = None, capture: Path | None = None,
) -> Arm:  # fmt: skip
    """Send the whole day. Raises `TargetGone` when requests fail: a day with holes would be another day."""
    keep_freed_memory()
    todo = day(arm.inputs) if acts is None else acts
    talks = DayTalks(arm.inputs, meter=meter)
    client = FastHttpSession(host, EventHook(), None, network_timeout=timeout_s, connection_timeout=10.0)
    sender = Sender(host, client, api_key=None, run="incident", timeout_s=timeout_s)
    arm.before = scrape(engine) if engine else None
    began, cpu = time.monotonic(), process_cpu()
    said = began
    failures = 0
    written = len(lines_of(usage_log)) if usage_log is not None else 0
    writer = CaptureFile(capture) if capture is not None else None
    try:
        for number, act in enumerate(todo):
            for outgoing in talks.requests(act):
                sample = sender.send(outgoing, arm.name, lambda _: None)
                failures += sample.error is not None
                if failures > 3:
                    raise TargetGone(f"the day cannot be played: {sample.error}")
                talks.note(sample)
                if writer is not None and ROWS[sample.client] != "neighbour":
                    writer.write(
                        outgoing.path, outgoing.body, _usage(sample), client=sample.client, user="u1", time=act.at
                    )
                arm.samples.append(sample)
                arm.moments.append(act.at)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                tokens = sum(s.prompt or 0 for s in arm.samples)
                say(f"{said - began:6.0f} s  {arm.name}: {number:,} of {len(todo):,}, {tokens:,} prompt tokens")
    finally:
        sender.close()
        client.client.close()
    arm.seconds = time.monotonic() - began
    after = process_cpu()
    arm.cpu = {name: after[name] - cpu.get(name, 0.0) for name in after}
    arm.after = scrape(engine) if engine else None
    arm.compactions = talks.compactions
    if usage_log is not None:
        arm.truth = logged(usage_log, len(arm.samples), before=written)
    else:
        arm.truth = [(s.prompt or 0, s.cached or 0) for s in arm.samples]
    return arm


def _usage(sample: Sample) -> dict[str, int]:
    """What an OpenAI upstream would have reported."""
    return {"prompt_tokens": sample.prompt or 0, "cached_tokens": sample.cached or 0}
