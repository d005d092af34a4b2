"""The pressure shapes: options and the engine's pool size to a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from load.distributions import draw, share, whole
from load.errors import LoadProblem
from load.mixes import MIXES, Habit, habit_of
from load.plan import Phase, Plan, SessionSpec, Step, Track

BYTES_PER_TOKEN: Final = 4
"""Of English-like text and JSON, for sizes chosen beforehand; what was really sent is read from usage."""

SMALLEST_TOKENS: Final = 6_000
"""A session of a coding client with tools, system text and a question, scaled down as far as it goes."""

LARGEST_TOKENS: Final = 60_000

FEWEST_RETURNING: Final = 4
MOST_RETURNING: Final = 24


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a shape is made from.

    `pool_tokens` is L1's size, None where nobody knows it. `factor` is the working set over L1, `returning` the share
    of L1 that comes back. `think` scales all pauses. `seconds` and `requests` are the run's bounds.
    """

    seed: int = 0
    users: int = 4
    sessions: int | None = None
    mix: str = "agents"
    pool_tokens: int | None = None
    factor: float = 2.0
    returning: float = 0.25
    pause: float = 0.0
    think: float = 1.0
    seconds: float = 60.0
    requests: int = 5_000
    sdk_share: float = 0.05


def build(shape: str, pressure: Pressure) -> Plan:
    """The plan of `shape`. Raises `LoadProblem` for a shape, mix or size that cannot be played."""
    if shape not in SHAPES:
        raise LoadProblem(f"no shape {shape!r}: choose from {', '.join(SHAPES)}")
    if pressure.mix not in MIXES:
        raise LoadProblem(f"--mix {pressure.mix}: choose from {', '.join(MIXES)}")
    return SHAPES[shape](pressure)


def evict(p: Pressure) -> Plan:
    """Grow the working set past L1, pause, and come back once: half exactly, half with their next turn."""
    if p.pool_tokens is None:
        raise LoadProblem("evict needs the size of L1: give --engine URL (its /metrics say so) or --pool-tokens N")
    if p.factor < 1.2:
        raise LoadProblem(f"--factor {p.factor:g} does not evict: give at least 1.2")
    back_tokens = p.pool_tokens * p.returning
    most = max(FEWEST_RETURNING, min(MOST_RETURNING, int(back_tokens // SMALLEST_TOKENS)))
    count = p.sessions or min(most, 8)
    size = int(back_tokens / count)
    if size < SMALLEST_TOKENS * 0.8:
        raise LoadProblem(
            f"a pool of {p.pool_tokens:,} tokens is too small for {count} returning sessions: "
            f"they would be {size:,} tokens each, and a client's smallest prompt is about {SMALLEST_TOKENS:,}"
        )
    size = min(size, LARGEST_TOKENS)
    pressing = max(1, -(-int(p.pool_tokens * p.factor - size * count) // size))
    # The first prompt leaves room for the turn that follows it.
    base = (size - _TURN // BYTES_PER_TOKEN) * BYTES_PER_TOKEN
    specs = [_session(p, n, base, role="returning", fact=True) for n in range(count)]
    specs += [_session(p, count + n, size * BYTES_PER_TOKEN, role="pressure") for n in range(pressing)]
    exact, onward = range(0, count, 2), range(1, count, 2)
    fill = (Step("turn"), Step("turn", bytes=_TURN, recall=True))
    # Once more while it is warm: only a model that repeats itself can be held to its answers later.
    warm = Phase(WARM_UP, _tracks(exact, (Step("again"),)), f"{len(exact)} of them send the same request once more")
    keeper = count + pressing
    specs.append(_session(p, keeper, size * BYTES_PER_TOKEN, role="kept"))
    phases = (
        Phase("fill", (*_tracks(range(count), fill), *_tracks(range(keeper, keeper + 1), (Step("turn"),))),
              f"{count} sessions of about {size:,} tokens, two turns each, and one that is kept warm"),
        warm,
        *_pressing(p, range(count, keeper), size, keeper),
        Phase(RETURN, _tracks(exact, (Step("again"),)), f"{len(exact)} sessions come back with the same request, once",
              pause=p.pause),
        Phase(ONWARD, _tracks(onward, _follow_ups(onward)), f"{len(onward)} come back with their next turn"),
        Phase("go on", _tracks(range(count), (Step("turn", bytes=_TURN, recall=True),)), "one more turn each"),
    )  # fmt: skip
    return Plan("evict", tuple(specs), phases, p.users)


WARM_UP: Final = "warm"
"""The phase in which the first sessions repeat themselves before any pressure."""

KEEP: Final = "keep"
"""The phases in which one session repeats itself amid pressure, often enough to stay: where even that misses, prompts
change with time, and what is not read back later is no tier's fault."""

_KEEP_EVERY: Final = 0.5
"""Share of L1 that is pressed between two repeats of the session that is kept."""

RETURN: Final = "return"
ONWARD: Final = "return with a turn"
"""The phases in which evicted sessions come back."""

_TURN: Final = 2_400
_RESIDUES: Final = 331
"""Bytes by which the returning sessions' next turns differ, so that their prompts end all over a chunk."""


def _pressing(p: Pressure, sessions: range, size: int, keeper: int) -> Iterator[Phase]:
    """The pressing sessions, in parts, with a repeat of the kept one after each."""
    assert p.pool_tokens is not None
    part = max(1, int(p.pool_tokens * _KEEP_EVERY) // size)
    says = f"{len(sessions)} other sessions, so that the working set is {p.factor:g} times L1"
    for first in range(sessions.start, sessions.stop, part):
        yield Phase("press", _tracks(range(first, min(first + part, sessions.stop)), (Step("turn"),)), says)
        yield Phase(KEEP, _tracks(range(keeper, keeper + 1), (Step("again"),)), "")
        says = ""


def _follow_ups(sessions: range) -> Callable[[int], tuple[Step, ...]]:
    place = {number: i for i, number in enumerate(sessions)}
    return lambda number: (Step("turn", bytes=_TURN + _RESIDUES * place[number], recall=True),)


def steady(p: Pressure) -> Plan:
    """Sessions of the mix one after the other, with the pauses people and tools make."""
    count = p.sessions or max(p.users, int(p.users * p.seconds / 20))
    return _talk("steady", p, count, "sessions, each with the turns, sizes and pauses of its client")


def soak(p: Pressure) -> Plan:
    """As steady, with new sessions until the time is over: as many as the bound on requests lets be sent."""
    if p.sessions is not None:
        return _talk("soak", p, p.sessions, "sessions, or as many as the time allows")
    plan = _talk("soak", p, p.users, "sessions at most: new ones until the time is over", requests=p.requests)
    return replace(plan, open_end=True)


def storm(p: Pressure) -> Plan:
    """Cold starts: every session's first request at once, then a second turn that should be warm."""
    count = p.sessions or 4 * p.users
    specs = tuple(_session(p, n, None) for n in range(count))
    phases = (
        Phase("storm", _tracks(range(count), (Step("turn"),)), f"{count} sessions begin at once"),
        Phase("second turn", _tracks(range(count), (Step("turn", bytes=_TURN),)), "one more turn each", pause=p.pause),
    )
    return Plan("storm", specs, phases, count)


def compaction_wave(p: Pressure) -> Plan:
    """Sessions of clients that compact grow, compact at once, and go on from their summaries."""
    count = p.sessions or 2 * p.users
    able = [habit for habit in MIXES[p.mix] if habit.compacts]
    if not able:
        raise LoadProblem(f"no client of --mix {p.mix} was recorded compacting: choose agents or claude-code")
    specs = tuple(_session(p, n, None, habit=able[n % len(able)]) for n in range(count))
    grow = (Step("turn"), *(Step("turn", bytes=2 * _TURN) for _ in range(4)))
    phases = (
        Phase("grow", _tracks(range(count), grow), f"{count} sessions, five turns each"),
        Phase("compact", _tracks(range(count), (Step("compact"),)), "all compact at once", pause=p.pause),
        Phase("go on", _tracks(range(count), (Step("turn", bytes=_TURN),) * 3), "three more turns each"),
    )
    return Plan("compaction-wave", specs, phases, p.users)


def repeats(p: Pressure) -> Plan:
    """Every session sends one turn and then the same request again and again: on one replica each repeat hits."""
    count = p.sessions or 6 * p.users
    specs = tuple(_session(replace(p, sdk_share=0.0), n, None) for n in range(count))
    steps = (Step("turn"), *(Step("again"),) * REPEATS)
    phases = (Phase("repeats", _tracks(range(count), steps), f"{count} sessions, each first turn {1 + REPEATS} times"),)
    return Plan("repeats", specs, phases, p.users)


REPEATS: Final = 5

SHAPES: Final[dict[str, Callable[[Pressure], Plan]]] = {
    "evict": evict,
    "steady": steady,
    "storm": storm,
    "compaction-wave": compaction_wave,
    "soak": soak,
    "repeats": repeats,
}
"""Shape name -> what builds its plan."""


_DRAWN: Final = 2_000


def _talk(shape: str, p: Pressure, count: int, says: str, *, requests: int = 0) -> Plan:
    """At least `count` sessions, and so many that they send at least `requests`."""
    specs: list[SessionSpec] = []
    tracks: list[Track] = []
    planned = 0
    while len(specs) < count or planned < requests:
        number = len(specs)
        if number >= _DRAWN:
            # Of so many, what later ones do is drawn no more: their texts are their own by number.
            specs.append(replace(specs[number - _DRAWN], number=number))
            tracks.append(replace(tracks[number - _DRAWN], session=number))
            planned += tracks[-1].requests
            continue
        habit = habit_of(p.mix, p.seed, number)
        base = whole(habit.base, p.seed, "base", number) if habit.base is not None else None
        specs.append(_session(p, number, base, habit=habit))
        tracks.append(Track(number, tuple(_day(p, habit, number))))
        planned += tracks[-1].requests
    return Plan(shape, tuple(specs), (Phase(shape, tuple(tracks), f"{len(specs):,} {says}"),), p.users)


def _day(p: Pressure, habit: Habit, number: int) -> list[Step]:
    steps = [Step("side", name=habit.title)] if habit.title else []
    turns = whole(habit.turns, p.seed, "turns", number)
    agents_at = turns // 2 if share(p.seed, "agents", number) < habit.agents else -1
    for turn in range(turns):
        pause = p.think * draw(habit.think, p.seed, "think", number, turn) if turn else 0.0
        if turn == agents_at and turn:
            steps.append(Step("agents", count=2, turns=2, pause=pause))
        else:
            grown = whole(habit.growth, p.seed, "growth", number, turn) if turn else 0
            steps.append(Step("turn", bytes=grown, pause=pause))
    return steps


def _session(
    p: Pressure, number: int, base: int | None, *, habit: Habit | None = None, role: str = "user", fact: bool = False
) -> SessionSpec:
    client = (habit or habit_of(p.mix, p.seed, number)).client
    sdk = not fact and share(p.seed, "sdk", number) < p.sdk_share
    return SessionSpec(number, client, base, role=role, fact=fact, sdk=sdk)


def _tracks(numbers: range, steps: tuple[Step, ...] | Callable[[int], tuple[Step, ...]]) -> tuple[Track, ...]:
    return tuple(Track(n, steps(n) if callable(steps) else steps) for n in numbers)
