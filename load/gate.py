"""The gate: what must hold for a deploy to go on, read from TOML, with one line of reason each.

errors = 0                      # most requests that may fail
l2_loads_at_least = 0.5         # share of what was evicted and asked again that L2 must give back
write_amplification_at_most = 20.0
answers_unchanged = true        # facts recalled after a load as before it

[hit_rate]                      # least hit rate by entry, over the whole run
messages = 0.30
chat = 0.30

[returning_hit_rate]            # the same for sessions that came back after eviction
messages = 0.80
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from load.errors import LoadProblem
from load.record import Record
from load.samples import Tally
from load.second_tier import SecondTier
from load.shapes import RETURN

_Share = Field(default=None, ge=0, le=1)


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    messages: float | None = _Share
    chat: float | None = _Share


class Gate(BaseModel):
    """What must hold; a key that is not given is not asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    errors: int | None = Field(default=None, ge=0)
    l2_loads_at_least: float | None = _Share
    write_amplification_at_most: float | None = Field(default=None, gt=0)
    answers_unchanged: bool = False
    hit_rate: _Rates = _Rates()
    returning_hit_rate: _Rates = _Rates()


@dataclass(frozen=True, slots=True)
class Held:
    """One condition. `holds` None: it could not be judged, which is no pass."""

    name: str
    holds: bool | None
    reason: str
    rule: str = ""

    def line(self) -> str:
        """For a terminal."""
        word = {True: "holds", False: "FAILS", None: "NOT JUDGED"}[self.holds]
        return f"{word:10} {self.name}: {self.reason}" + (f" ({self.rule})" if self.rule and not self.holds else "")


def read_gate(path: str) -> Gate:
    """The gate of a file. Raises `LoadProblem` for one that cannot be read or has an unknown key or a bad value."""
    try:
        return Gate.model_validate(tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LoadProblem(f"--gate {path}: cannot be read as TOML ({type(error).__name__})") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise LoadProblem(f"--gate {path}: {place}: {first['msg']}") from None


def judge(gate: Gate, record: Record, tier: SecondTier | None) -> list[Held]:
    """Every condition that was asked for."""
    found: list[Held] = []
    if gate.errors is not None:
        found.append(_errors(gate.errors, record.samples.total()))
    for entry, least in gate.hit_rate:
        if least is not None:
            rate = record.samples.total(entry=entry).hit_rate
            found.append(_least(f"hit rate {entry}", rate, least, "nothing was reported there"))
    for entry, least in gate.returning_hit_rate:
        if least is not None:
            rate = record.samples.total(entry=entry, phase=RETURN).hit_rate
            found.append(_least(f"returning hit rate {entry}", rate, least, "no session came back there"))
    if gate.l2_loads_at_least is not None:
        found.append(_loads(gate.l2_loads_at_least, tier))
    if gate.write_amplification_at_most is not None:
        found.append(_amplification(gate.write_amplification_at_most, tier))
    if gate.answers_unchanged:
        found.append(_answers(tier))
    return found


def _errors(most: int, total: Tally) -> Held:
    said = f"{total.errors:,} of {total.requests:,} requests failed, at most {most} may"
    if total.errors <= most < total.errors + total.resent:
        return Held("errors", None, f"{said}; {dropped(total)}", "ERR-02")
    return Held("errors", total.errors <= most, said, "ERR-02")


def dropped(total: Tally) -> str:
    """What is to be said of requests that had to be sent a second time."""
    return (
        f"{total.resent:,} were answered on a second try only: the connection they first went out on ended without a "
        f"byte of an answer (a server that keeps connections for a moment only, or one that drops requests)"
    )


def _least(name: str, rate: float | None, least: float, unknown: str) -> Held:
    if rate is None:
        return Held(name, None, unknown)
    return Held(name, rate >= least, f"{rate:.2%}, at least {least:.2%}")


def _loads(least: float, tier: SecondTier | None) -> Held:
    name = "L2 loads"
    if tier is None:
        return Held(name, None, "only an evict run shows them")
    if tier.reason:
        return Held(name, None, tier.reason)
    if tier.write_only:
        said = f"{tier.store_bytes:,.0f} bytes stored, 0 loaded of {tier.evicted:,} tokens evicted and asked again"
        if tier.roomy:
            return Held(name, False, f"the tier is write-only: {said}", "L2-02")
        return Held(name, None, f"{said}; give --l2-tokens: a tier smaller than what was sent would look the same")
    share, least = tier.share_loaded, least * min(1.0, tier.kept_warm or 1.0)
    if share is None:
        return Held(name, None, "nothing was evicted, or the metrics do not say: press harder with --factor")
    said = f"{share:.1%} of what was evicted and asked again came from L2, at least {least:.1%}"
    if share < least and not tier.roomy:
        return Held(name, None, f"{said}; give --l2-tokens: a tier too small for what was sent would look the same")
    return Held(name, share >= least, said, "L2-01")


def _amplification(most: float, tier: SecondTier | None) -> Held:
    name = "write amplification"
    if tier is None or tier.reason:
        return Held(name, None, tier.reason if tier is not None else "only an evict run shows it")
    value = tier.amplification
    if value is None:
        return Held(
            name, False if tier.write_only else None, "nothing was loaded, so every byte stored was in vain", "L2-06"
        )
    return Held(name, value <= most, f"{value:.1f} bytes stored per byte loaded, at most {most:g}", "L2-06")


def _answers(tier: SecondTier | None) -> Held:
    name = "answers"
    if tier is None or not (tier.same_answers[1] or tier.recalled_loaded[1]):
        return Held(name, None, "no answer after a load could be compared")
    (same, steady), (kept, known) = tier.same_answers, tier.recalled_loaded
    said = "; ".join(
        [f"{same} of {steady} repeats after eviction answered as before"] * bool(steady)
        + [f"{kept} of {known} facts recalled after a load"] * bool(known)
    )
    if kept == known and same < steady:
        # An engine's greedy choice may turn out otherwise when it computes beside other requests.
        return Held(name, None, f"{said}: other words, and nothing forgotten", "L2-03")
    return Held(name, kept == known, said, "L2-03")
