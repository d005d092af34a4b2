"""Exact repeats of sessions with tools and without, in turns: what a varying tool section alone makes cold."""

from __future__ import annotations

import random

from conformance.evidence.conversation import Sent
from conformance.observe.lab import WireLab
from conformance.observe.observations import ToolArms


def send_tool_arms(lab: WireLab, *, pairs: int, scale: float, warm_send: int, rng: random.Random) -> ToolArms:
    """`pairs` sessions of each kind under fresh salts, their order drawn anew for each pair."""
    with_tools: list[tuple[Sent, Sent]] = []
    without: list[tuple[Sent, Sent]] = []
    for _ in range(pairs):
        order = [(True, with_tools), (False, without)]
        rng.shuffle(order)
        for tools, found in order:
            conversation = lab.conversation(scale=scale, tools=tools)
            first = conversation.send()
            for _ in range(warm_send - 2):
                conversation.send()
            found.append((first, conversation.send()))
    return ToolArms(tuple(with_tools), tuple(without))
