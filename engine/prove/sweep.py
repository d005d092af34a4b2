"""Prompts that show what a second tier gives back: each is sent, evicted, sent again, and continued.

L1 is emptied before every request that should load, and L2 is large enough for everything, so that only the groups'
rules decide. Lengths cover the remainders by the chunk of the coarsest group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from engine.differential.model_run import Player
from engine.differential.scripts import Asked, Script
from engine.embedded.groups import Geometry, KVGroup

Trace = dict[str, Any]
Play = Callable[[Script], Trace]

_REMAINDERS = 16
_ANSWER = 40
_QUESTION = 23


@dataclass(frozen=True, slots=True)
class Row:
    """One length: tokens of the prompt, what its re-send and the next two turns loaded, who vetoed the re-send."""

    tokens: int
    again: int
    turns: tuple[int, ...]
    veto: int | None


def lengths(groups: Sequence[KVGroup], chunk_blocks: int, remainders: int = _REMAINDERS) -> list[int]:
    """Prompt lengths in tokens: one of each kind of remainder by the coarsest chunk, well beyond every window."""
    chunk = lcm(*(group.block for group in groups)) * chunk_blocks
    window = max((group.window or 0 for group in groups), default=0)
    base = chunk * (4 + -(-2 * window // chunk))
    step = max(1, chunk // remainders)
    found = {*range(0, chunk, step), 1, chunk - 1}
    return [base + rest for rest in sorted(found) if rest < chunk]


def script_of(
    tokens: int,
    groups: tuple[KVGroup, ...],
    *,
    chunk_blocks: int,
    retention: int | None,
    prompt_only: bool,
    budget: int,
) -> Script:
    """A prompt of `tokens` tokens: cold, again, and two turns more, each after L1 was emptied."""
    prompt = tuple((place * 7 + 1) % 997 for place in range(tokens))
    answer = tuple((place * 5 + 3) % 991 for place in range(_ANSWER))
    second = (*prompt, *answer, *((place * 3 + 2) % 983 for place in range(_QUESTION)))
    third = (*second, *answer, *((place * 11 + 5) % 977 for place in range(_QUESTION)))
    requests = (Asked(prompt, answer), Asked(prompt, (1,)), Asked(second, answer), Asked(third, (1,)))
    every = sum(-(-(len(third) + _ANSWER) // group.block) + 2 for group in groups)
    pause = -(-len(third) // budget) + _ANSWER + 12
    events = []
    for number in range(len(requests)):
        events += [(number * pause, "reset", False), (number * pause, "add", number)]
    return Script(
        name=f"{tokens} tokens",
        groups=groups,
        num_blocks=2 * every,
        chunk_blocks=chunk_blocks,
        l2_chunks=6 * every,
        retention=retention if Geometry(groups).window_ids else 0,
        budget=budget,
        seats=8,
        prompt_only=prompt_only,
        copy_steps=0,
        requests=requests,
        events=tuple(events),  # type: ignore[arg-type]
        max_model_len=len(third) + _ANSWER,
    )


def row_of(script: Script, trace: Trace, version: str) -> Row:
    """What a trace says; the vetoing group is the model's, and only named where its answer is the trace's."""
    loaded = [trace["requests"][str(number)]["external"] for number in range(len(script.requests))]
    veto = None
    if not loaded[1]:
        player = Player(script, version)
        player.play(quiet=True)
        offload = player.core.offload
        if offload is not None and offload.vetoes:
            veto = offload.vetoes.most_common(1)[0][0]
    return Row(len(script.requests[0].prompt), loaded[1], tuple(loaded[2:]), veto)


def model_player(version: str) -> Play:
    """The embedded core as the one who plays."""
    return lambda script: Player(script, version).play(quiet=True)
