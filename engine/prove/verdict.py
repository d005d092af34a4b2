"""The word: loads, never loads, or only for some lengths; which group is to blame, and what has been seen to help."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import lcm
from typing import Any, Literal

from engine.embedded.families import family_of
from engine.embedded.groups import Geometry, KVGroup
from engine.prove.sweep import Play, Row, lengths, row_of, script_of

Word = Literal["loads", "never loads", "loads only for some lengths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is proved: groups and the flags that matter."""

    groups: tuple[KVGroup, ...]
    chunk_blocks: int = 1
    retention: int | None = 0
    prompt_only: bool = True
    budget: int = 8_192


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change under which the same sweep loads, and the least it loads of a re-sent prompt."""

    change: str
    least: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a sweep came to. `speaker` says whose word it is; `veto` is the group most re-sends failed on."""

    word: Word
    speaker: str
    rows: tuple[Row, ...]
    veto: int | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def sweep(setting: Setting, play: Play, version: str, at: Sequence[int] | None = None) -> list[Row]:
    """All rows of a setting. Raises `RuntimeError` with vLLM's own words where it refuses or fails."""
    rows = []
    for tokens in at or lengths(setting.groups, setting.chunk_blocks):
        script = script_of(
            tokens,
            setting.groups,
            chunk_blocks=setting.chunk_blocks,
            retention=setting.retention,
            prompt_only=setting.prompt_only,
            budget=setting.budget,
        )
        trace = play(script)
        for name in ("unsupported", "error"):
            if name in trace:
                raise RuntimeError(str(trace[name]))
        rows.append(row_of(script, trace, version))
    return rows


def word_of(rows: Sequence[Row]) -> Word:
    """Judged by the re-sent prompts alone: a follow-up turn may find what a longer prompt before it left."""
    loading = sum(row.again > 0 for row in rows)
    return "never loads" if not loading else "loads" if loading == len(rows) else "loads only for some lengths"


def judge(setting: Setting, play: Play, version: str, speaker: str, at: Sequence[int] | None = None) -> Verdict:
    """Sweep, and where something does not load try what may help, each by a sweep of its own."""
    rows = sweep(setting, play, version, at)
    word = word_of(rows)
    blamed = Counter(row.veto for row in rows if not row.again and row.veto is not None)
    veto = blamed.most_common(1)[0][0] if blamed else None
    remedies: list[Remedy] = []
    if word != "loads":
        for change, other in candidates(setting, version):
            try:
                found = sweep(other, play, version, at)
            except (RuntimeError, ValueError):
                continue
            if word_of(found) == "loads":
                remedies.append(Remedy(change, min(row.again for row in found)))
    return Verdict(word, speaker, tuple(rows), veto, tuple(remedies), _notes(word, rows))


def candidates(setting: Setting, version: str) -> list[tuple[str, Setting]]:
    """Changes worth a try, least costly first."""
    found: list[tuple[str, Setting]] = []
    geometry = Geometry(setting.groups)
    windows = [setting.groups[number] for number in geometry.window_ids]
    if windows and family_of(version).sparse_store:
        interval = lcm(geometry.step, *(group.block * setting.chunk_blocks for group in windows))
        if interval != setting.retention:
            found.append((f"--prefix-cache-retention-interval {interval}", replace(setting, retention=interval)))
    if setting.chunk_blocks > 1:
        found.append(("one block a chunk (blocks_per_chunk 1)", replace(setting, chunk_blocks=1)))
    plain = tuple(group for group in setting.groups if not group.draft)
    if plain and len(plain) < len(setting.groups):
        found.append(("no speculation (drop --speculative-config)", replace(setting, groups=plain)))
    return found


def _notes(word: Word, rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    if word == "never loads" and any(any(row.turns) for row in rows):
        notes.append(
            "the next turn of a conversation may still load what an earlier, shorter prompt left "
            f"(up to {max(max(row.turns) for row in rows)} tokens here)"
        )
    return tuple(notes)


def in_words(verdict: Verdict, groups: Sequence[KVGroup], explain: Callable[[int], str] | None = None) -> list[str]:
    """The verdict for a person, its first line alone being the answer."""
    name = explain or (lambda number: group_name(groups, number))
    first: str = verdict.word
    if verdict.word == "loads only for some lengths":
        first += f" ({sum(row.again > 0 for row in verdict.rows)} of {len(verdict.rows)})"
    if verdict.veto is not None and verdict.word != "loads":
        first += f": {name(verdict.veto)} vetoes"
        if verdict.remedies:
            first += f"; {verdict.remedies[0].change} fixes it"
    lines = [first, f"  by {verdict.speaker}"]
    lines += [f"  group {number}: {group.name}" for number, group in enumerate(groups)]
    lines.append("  prompt tokens   re-sent: loaded   next turns: loaded")
    for row in verdict.rows:
        turns = ", ".join(map(str, row.turns))
        lines.append(f"  {row.tokens:13}   {row.again:15}   {turns}")
    for remedy in verdict.remedies:
        lines.append(f"  seen to load with {remedy.change}: at least {remedy.least} tokens of a re-sent prompt")
    if verdict.word != "loads" and not verdict.remedies:
        lines.append("  nothing tried here makes it load: without the tier its memory and its copies are saved")
    lines += [f"  {note}" for note in verdict.notes]
    return lines


def group_name(groups: Sequence[KVGroup], number: int) -> str:
    """`group 1 (sliding window 129)`."""
    group = groups[number]
    what = f"sliding window {group.window}" if group.window is not None else "full attention"
    return f"group {number} ({'draft, ' if group.draft else ''}{what})"
