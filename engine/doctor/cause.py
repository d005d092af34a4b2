"""Why a tier stores and never loads: the recipe, walked as far as the evidence goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.doctor.finding import family
from engine.doctor.groups import Group
from engine.doctor.installation import Installation
from engine.doctor.launch import Launch
from engine.doctor.logs import LogSummary
from engine.doctor.traps import RETENTION, vetoing
from engine.metrics import Counters, Reading
from engine.wording import count, size

FEW_LINES = 30
"""Intervals with stores (10 s each) below which a log says nothing of loads."""


@dataclass(frozen=True)
class Evidence:
    """All that the doctor was given; None for what it was not."""

    launch: Launch | None = None
    groups: tuple[Group, ...] = ()
    version: str | None = None
    reading: Reading | None = None
    log: LogSummary | None = None
    installation: Installation | None = None

    @property
    def counters(self) -> Counters:
        return self.reading.counters if self.reading else Counters()

    @property
    def stored(self) -> float | None:
        """Bytes stored, by metrics or by the log."""
        if self.counters.store_bytes is not None:
            return self.counters.store_bytes
        return self.log.stored if self.log else None

    @property
    def loaded(self) -> float | None:
        """Bytes loaded, by metrics or by the log."""
        if self.counters.load_bytes is not None:
            return self.counters.load_bytes
        return self.log.loaded if self.log else None

    @property
    def lookups(self) -> float | None:
        if self.counters.lookups is not None:
            return self.counters.lookups
        return self.log.lookups if self.log and self.log.lookups else None

    @property
    def write_only(self) -> bool:
        return bool(self.stored) and self.loaded == 0

    @property
    def too_early(self) -> str | None:
        """Why a tier without loads need not mean anything yet, or None where it does."""
        turned = self.reading.turned_over(self.counters) if self.reading else None
        if turned is not None:
            return (
                f"what was computed fills {100 * turned:.0f} % of L1 once: nothing had to leave it"
                if turned < 1
                else None
            )
        if self.reading is None and self.log is not None and self.log.store_lines < FEW_LINES:
            return f"the log tells of {self.log.store_lines} intervals with stores only"
        return None


@dataclass(frozen=True)
class Step:
    """One step of the recipe: what was asked, what was found, and whether that decides it."""

    asked: str
    found: str
    decides: bool = False


def walk(evidence: Evidence) -> list[Step]:
    """The steps, in order, up to the one that decides; what evidence does not reach is said."""
    steps: list[Step] = []
    for step in _steps(evidence):
        steps.append(step)
        if step.decides:
            break
    return steps


def _steps(evidence: Evidence) -> Iterator[Step]:
    yield _files(evidence)
    yield _stores(evidence)
    yield _asked(evidence)
    yield _missed(evidence)
    yield _capacity(evidence)
    yield _groups(evidence)
    yield Step(
        "what is left",
        "press sessions out of L1 and send them again (`prefixproof-engine probe`): by residue of the prompt length = "
        "vLLM 0.27 to 0.29's kind; hits with speculation off = the draft group; an exact repeat hits "
        "and a follow-up turn "
        "does not = re-rendering, or answers under prompt-only offload",
    )


def _files(evidence: Evidence) -> Step:
    asked = "is the connector the released one?"
    held = evidence.installation
    if held is None:
        return Step(asked, "not looked at: --installation FOLDER compares its files with the wheel's record")
    if held.changed:
        return Step(
            asked,
            f"NO: {', '.join(held.changed)} differ from vLLM {held.version}: what is said by version may not hold",
        )
    return Step(asked, f"yes: {held.checked} files are as vLLM {held.version} was released")


def _stores(evidence: Evidence) -> Step:
    asked = "does it store?"
    stored, counters = evidence.stored, evidence.counters
    if stored is None:
        return Step(asked, "unknown: no such series, and no log", decides=True)
    if stored:
        return Step(asked, f"yes, {size(stored)}")
    why = "prompts shorter than a chunk, or no traffic"
    if counters.allocation_failures:
        why = f"{count(counters.allocation_failures)} stores found no room"
    elif counters.stores_skipped:
        why = f"{count(counters.stores_skipped)} stores were below the reuse threshold"
    return Step(asked, f"no: {why}", decides=True)


def _asked(evidence: Evidence) -> Step:
    asked = "is it asked?"
    lookups, queries = evidence.lookups, evidence.counters.l2_queries
    if lookups == 0:
        return Step(asked, "never: no lookup was made", decides=True)
    if queries == 0:
        return Step(
            asked, "no tokens were: L1 still holds all that is asked for. Press harder, or reset L1", decides=True
        )
    if lookups is None and queries is None:
        log = evidence.log
        known = (
            f"the log has {sum(log.external_rates.values()):,} external hit rates"
            if log and log.external_rates
            else "unknown"
        )
        return Step(asked, known)
    parts = [f"{count(lookups)} lookups"] if lookups is not None else []
    parts += [f"{count(queries)} tokens"] if queries is not None else []
    return Step(asked, f"yes: {', '.join(parts)}")


def _missed(evidence: Evidence) -> Step:
    asked = "does it ever hit?"
    hits, log = evidence.counters.l2_hits, evidence.log
    if evidence.loaded:
        return Step(asked, f"yes: {size(evidence.loaded)} were loaded", decides=True)
    if hits:
        return Step(
            asked, f"{count(hits)} tokens hit and nothing was loaded: requests ended before their copy", decides=True
        )
    said = "every lookup missed" if hits == 0 else "nothing was loaded"
    if log and log.never_hit:
        said += f"; the log says 0.0 % {sum(log.external_rates.values()):,} times and never anything else"
    reading = evidence.reading
    if reading and reading.pool_usage is not None and reading.pool_usage < 0.05 and evidence.counters.computed:
        said += (
            f"; {100 * reading.pool_usage:.1f} % of the pool is in use while "
            f"{count(evidence.counters.computed)} tokens were computed anew"
        )
    if log and log.worst:
        worst = log.worst
        said += (
            f"; at {worst.at} the pool was {worst.usage:g} % used while {worst.prompt_rate:,.0f} prompt tokens/s were "
            f"computed and {size(worst.stored)} stored: just then the tier should have served"
        )
    return Step(asked, said)


def _capacity(evidence: Evidence) -> Step:
    asked = "can it be too small?"
    held = evidence.launch.tier_bytes if evidence.launch else None
    stored = evidence.stored
    if held is None:
        return Step(asked, "the tier's size is not known: give --config, or a log with the engine's start")
    if stored is not None and stored < held:
        return Step(asked, f"no: {size(stored)} were stored in {size(held)}, so nothing was ever pushed out of it")
    return Step(
        asked,
        f"what was stored is {(stored or 0) / held:.1f} times its {size(held)}: a prefix "
        f"may be gone before it "
        "is asked for; KV events of the CPU medium would show it",
    )


def _groups(evidence: Evidence) -> Step:
    asked = "does a group veto?"
    launch, log = evidence.launch, evidence.log
    if launch is None:
        return Step(asked, "the launch is not known: give --config")
    found = vetoing(launch, evidence.groups, family(evidence.version))
    drafted = f" The engine's log names draft groups {log.draft_groups}." if log and log.draft_groups else ""
    if found:
        said = "; ".join(f"{veto.who}: {veto.why}" for veto in found)
        return Step(
            asked, f"yes. {said}.{drafted} Remedy: {RETENTION} {launch.chunk_tokens or 'BLOCK_SIZE'}", decides=True
        )
    if not evidence.groups:
        return Step(asked, f"the model's groups are not known: give --model-config.{drafted}")
    return Step(
        asked,
        f"none is known to, of {', '.join(map(str, evidence.groups))} on vLLM {evidence.version or '?'}.{drafted}",
    )


def removal(evidence: Evidence) -> str | None:
    """What taking a write-only tier away frees, or None where it is read."""
    if not evidence.write_only:
        return None
    held = evidence.launch.tier_bytes if evidence.launch else None
    freed = f"{size(held)} of host memory" if held else "its host memory"
    return (
        f"until then, without the tier nothing is slower: it frees {freed} and the bandwidth of "
        f"{size(evidence.stored)} written in vain"
    )
