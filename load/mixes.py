"""Who is sent as whom: client versions, how they talk, and how long people and tools take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from load.distributions import Distribution, LogNormal, share

_TURNS: Final = LogNormal(8, 0.6, 2, 60)
_GROWTH: Final = LogNormal(2_400, 0.9, 400, 40_000)
_THINK: Final = LogNormal(4.0, 1.0, 0.2, 60)


@dataclass(frozen=True, slots=True)
class Habit:
    """How sessions of one client run.

    `turns` in requests, `growth` in bytes of prompt a turn, `think` in seconds before a turn, `base` in bytes of the
    first prompt (None: the client's scaled size). `title` names a side request at the start, `agents` is the share of
    sessions that start sub-agents once, `compacts` whether they may be made to compact.
    """

    client: str
    weight: int
    turns: Distribution = _TURNS
    growth: Distribution = _GROWTH
    think: Distribution = _THINK
    base: Distribution | None = None
    title: str = ""
    agents: float = 0.0
    compacts: bool = False


MIXES: Final[dict[str, tuple[Habit, ...]]] = {
    "agents": (
        Habit("claude-code-2.1.116-vscode", 4, title="title", agents=0.2, compacts=True),
        Habit("claude-code-2.1.332", 3, agents=0.2),
        Habit("opencode-1.18.33", 2, title="title", agents=0.1),
        Habit("reasonix-1.38.11", 1, growth=LogNormal(3_000, 0.9, 400, 40_000)),
    ),
    "claude-code": (
        Habit("claude-code-2.1.116-vscode", 3, title="title", agents=0.2, compacts=True),
        Habit("claude-code-2.1.220", 1),
        Habit("claude-code-2.1.332", 2, agents=0.2),
    ),
    "chat": (
        Habit("opencode-1.18.33", 2, title="title", agents=0.1),
        Habit("reasonix-1.38.11", 2),
        Habit("qwen-code-0.15.10", 1),
        Habit("pi-0.73.1", 1),
        Habit("aider-0.86.2", 1),
    ),
    "messages-only": (Habit("claude-code-2.1.220", 1), Habit("claude-code-2.0.77", 1)),
    "chat-only": (Habit("opencode-1.18.33", 1), Habit("reasonix-1.38.11", 1)),
}
"""Mix name -> habits. A client's weight is its share of the sessions."""


def habit_of(mix: str, seed: int, number: int) -> Habit:
    """The habit of session `number`: which client it is follows from the seed."""
    habits = MIXES[mix]
    point = share(seed, "client", number) * sum(habit.weight for habit in habits)
    for habit in habits:
        point -= habit.weight
        if point < 0:
            return habit
    return habits[-1]
