"""A plan: who sends what in which order, before anything is sent. Plain data, the same for the same options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StepKind = Literal["turn", "again", "side", "agents", "compact", "trace"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a session does.

    `turn` grows the conversation by `bytes` (the first one sends what there is) and sends it; `again` sends the last
    request once more, byte for byte; `side` sends the side requests of `name`; `agents` lets `count` sub-agents of
    `turns` requests run, then sends the turn with their results; `compact` asks for a summary and goes on with it.
    `trace` sends request `count` of a trace, `pause` seconds after its phase began.
    `recall` asks for the session's fact at the end of the turn, `pause` is slept before, in seconds.
    """

    kind: StepKind
    bytes: int = 0
    name: str = ""
    count: int = 0
    turns: int = 0
    recall: bool = False
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """A session before its first request. `base_bytes` None: the client's own sizes; `fact`: one to be recalled."""

    number: int
    client: str
    base_bytes: int | None
    role: str = "user"
    shape: Literal["scaled", "full"] = "scaled"
    fact: bool = False
    sdk: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """What one session does in one phase."""

    session: int
    steps: tuple[Step, ...]

    @property
    def requests(self) -> int:
        """Requests it sends, as far as they are known beforehand."""
        return sum(map(_requests, self.steps))


@dataclass(frozen=True, slots=True)
class Phase:
    """Tracks that may run side by side; the next phase starts when all are done and `pause` seconds have passed.

    Parts of what is one thing to a reader share a name; only the first of them `says` something.
    """

    name: str
    tracks: tuple[Track, ...]
    says: str
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run. `open_end`: it holds more than the time will take."""

    shape: str
    sessions: tuple[SessionSpec, ...]
    phases: tuple[Phase, ...]
    users: int
    notes: tuple[str, ...] = field(default=())
    open_end: bool = False

    @property
    def requests(self) -> int:
        """Requests the plan sends, sub-agents and side requests counted as far as they are known beforehand."""
        return sum(track.requests for phase in self.phases for track in phase.tracks)

    def prompt_bytes(self) -> int:
        """About how many bytes of prompt text the plan sends, growth included."""
        bases = {spec.number: spec.base_bytes or 40_000 for spec in self.sessions}
        total = 0
        for phase in self.phases:
            for track in phase.tracks:
                for step in track.steps:
                    if step.kind == "compact":
                        total += bases[track.session]
                        bases[track.session] = min(bases[track.session], 40_000)
                    bases[track.session] += step.bytes if step.kind == "turn" else 0
                    total += bases[track.session] * max(1, _requests(step) - step.count * step.turns)
        return total


def _requests(step: Step) -> int:
    if step.kind == "agents":
        return step.count * step.turns + 1
    return 2 if step.kind == "compact" else 1


def part_of(plan: Plan, index: int, count: int) -> tuple[Phase, ...]:
    """The phases with the tracks that fall to worker `index` of `count`: by session, so that one stays with one."""
    return tuple(
        Phase(phase.name, tuple(t for t in phase.tracks if t.session % count == index), phase.says, phase.pause)
        for phase in plan.phases
    )
