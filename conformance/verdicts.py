"""The result model: what a judgement says, and what a run of the suite amounts to.

Plain data, no pytest and no HTTP. Reports render it; judgements make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

Cell = str | int | float | None


class Entry(StrEnum):
    """An API path of the target."""

    MESSAGES = "messages"
    CHAT = "chat"

    @property
    def path(self) -> str:
        return "/v1/messages" if self is Entry.MESSAGES else "/v1/chat/completions"


class Status(StrEnum):
    """What a judgement says of one rule on one entry."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    WARN = "warn"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run"
    NOT_APPLICABLE = "not applicable"
    ERROR = "suite error"

    @property
    def judged(self) -> bool:
        """True when the rule was really decided: its evidence said yes or no."""
        return self in (Status.PASS, Status.FAIL, Status.WARN)


SEVERITY = (
    Status.ERROR,
    Status.FAIL,
    Status.WARN,
    Status.INCONCLUSIVE,
    Status.PASS,
    Status.NOT_RUN,
    Status.NOT_APPLICABLE,
)
"""Worst first: what stands for a rule when its entries differ."""


class Vantage(StrEnum):
    """Where the evidence of a verdict was seen from (design: the four vantage points)."""

    CLIENT = "client"
    UPSTREAM = "upstream"
    ENGINE = "engine"
    LOAD = "load"


class ExitCode(IntEnum):
    """Process exit codes of the suite. 2 to 5 keep pytest's own meaning; after 3 to 5 nothing is reported."""

    GREEN = 0
    RED = 1
    INTERRUPTED = 2
    TARGET = 10
    SUITE = 11
    INCOMPLETE = 12


@dataclass(frozen=True)
class Table:
    """Rows behind a verdict, e.g. one per turn. Every row has as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True)
class Change:
    """The first place where two upstream prompts that should agree differ.

    `before`/`after` hold about 60 characters around it. Text the suite did not send is masked (letters `a`,
    digits `9`), so that a report shows its shape and never its content. Where the part is one the client sent
    (`system[0]` is its first system block), `offset` and `span` count in the client's own text.
    """

    part: str  # e.g. "system[0]", "tool 3 (Bash)", "message 4 (user)"
    offset: int  # characters into that part
    before: str
    after: str
    kind: str  # e.g. "attribution block", "tools re-ordered"
    field: str = ""  # what varies inside the part, e.g. "the value of `cch`"
    span: tuple[int, int] | None = None  # first and last character of what varies, from 0
    mark: tuple[int, int] | None = None  # half-open, in `before` and `after`: what varies, where masking may hide it


@dataclass(frozen=True)
class Excerpt:
    """One request and its answer as a report may show them: secrets removed, long text cut."""

    title: str
    request: str
    response: str
    upstream_request: str | None = None
    upstream_response: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the suite says of one rule on one entry.

    `n` is the number of client requests whose observation the judgement used. `code` is a short stable word for
    the way it failed (for baselines); empty unless failed or warned, or inconclusive because a finding cannot be laid
    at the gateway's door: its family is then not green. `root` is the id of the rule whose failure explains this one:
    then this verdict is a consequence. `cost` is what it costs behind this target, where that is not what the rule says
    of every target. `known` is the reason a baseline gives for this failure.
    """

    rule: str
    entry: Entry
    status: Status
    reason: str
    vantage: Vantage
    n: int
    code: str = ""
    root: str | None = None
    tables: tuple[Table, ...] = ()
    ruled_out: tuple[str, ...] = ()
    change: Change | None = None
    excerpts: tuple[Excerpt, ...] = ()
    cost: str = ""
    known: str | None = None

    def because_of(self, root: str) -> Verdict:
        """The same verdict, marked as a consequence of `root`."""
        return replace(self, root=root)


@dataclass(frozen=True)
class RuleResult:
    """All verdicts of one rule in one run; `status` is the worst of them."""

    rule: str
    verdicts: tuple[Verdict, ...]

    @property
    def status(self) -> Status:
        return min((v.status for v in self.verdicts), key=SEVERITY.index)

    @property
    def n(self) -> int:
        return sum(v.n for v in self.verdicts)

    @property
    def cost(self) -> str:
        """What its failure costs behind this target; empty where the rule's own words hold."""
        told = [v.cost for v in self.verdicts if v.status in (Status.FAIL, Status.WARN)]
        return told[0] if told and all(told) else ""

    @property
    def known(self) -> bool:
        """True when it failed or warned, and a baseline covers every verdict that did."""
        broken = [v for v in self.verdicts if v.status in (Status.FAIL, Status.WARN)]
        return bool(broken) and self.status is not Status.ERROR and all(v.known is not None for v in broken)

    @property
    def root(self) -> str | None:
        roots = {v.root for v in self.verdicts if v.status in (Status.FAIL, Status.WARN)}
        return roots.pop() if len(roots) == 1 else None


@dataclass(frozen=True)
class KnownFailure:
    """One entry of a baseline: this rule may fail on this entry in this way, for this reason."""

    rule: str
    entry: Entry
    code: str
    reason: str


@dataclass(frozen=True)
class Stale:
    """A baseline entry whose failure is gone, and what was seen instead."""

    known: KnownFailure
    seen: str


@dataclass(frozen=True)
class BaselineState:
    """What became of a baseline's entries in one run; `unchecked` where the rule was not decided."""

    seen: tuple[KnownFailure, ...] = ()
    stale: tuple[Stale, ...] = ()
    unchecked: tuple[KnownFailure, ...] = ()


def by_rule(verdicts: Iterable[Verdict]) -> tuple[RuleResult, ...]:
    """Group verdicts by rule id, in order of first appearance."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.rule, []).append(verdict)
    return tuple(RuleResult(rule, tuple(group)) for rule, group in groups.items())


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line a reader needs to trust the run, e.g. ("granularity", "64 tokens, from 7 counts")."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything a report shows. Carries no key, no prompt of a user, no path of a machine."""

    suite_version: str
    rule_set: str
    target: str  # URL without credentials, or "embedded pair"
    model: str
    entries: tuple[Entry, ...]
    vantages: tuple[Vantage, ...]
    fault: str | None
    budget: str
    seed: int
    started: str  # ISO 8601, UTC
    seconds: float
    requests_sent: int
    prompt_tokens_planned: int
    prompt_tokens_sent: int
    requests_planned: int = 0
    engine_requests_sent: int = 0  # straight to the engine, past the target: the direct control arm
    engine_prompt_tokens_sent: int = 0
    prompt_tokens_cap: int = 0  # sending stops there; coarse counts and confirmations take more than planned
    facts: tuple[Fact, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    problem: str | None = None  # the one line of an exit 10 or 11
    families: tuple[str, ...] = ("cache", "usage")
    unjudged: tuple[str, ...] = ()  # families of which nothing, or not enough, could be decided
    unjudged_allowed: tuple[str, ...] = field(default=())
    withheld: tuple[str, ...] = ()  # why families are open although something of them was decided
    baseline: BaselineState | None = None

    @property
    def results(self) -> tuple[RuleResult, ...]:
        return by_rule(self.verdicts)


def exit_code(
    results: Sequence[RuleResult],
    *,
    families_of: dict[str, str],
    musts: frozenset[str],
    requested: Sequence[str],
    allowed_unjudged: Sequence[str] = (),
    withheld: Sequence[str] = (),
    stale: bool = False,
) -> ExitCode:
    """The exit code of a run whose target could be judged.

    `families_of` maps rule id -> family, `musts` are the ids of level MUST, `requested` the families whose rules
    were selected. A family needs at least one MUST that passed or failed; otherwise the run is incomplete. A family in
    `withheld` counts as unjudged whatever its rules say. Failures a baseline knows do not count; a baseline with a
    `stale` entry fails the run.
    """
    if any(result.status is Status.ERROR for result in results):
        return ExitCode.SUITE
    failed = (v for r in results if r.rule in musts for v in r.verdicts if v.status is Status.FAIL and v.known is None)
    if stale or any(failed):
        return ExitCode.RED
    left = unjudged_families(results, families_of=families_of, musts=musts, requested=requested, withheld=withheld)
    return ExitCode.INCOMPLETE if set(left) - set(allowed_unjudged) else ExitCode.GREEN


def unjudged_families(
    results: Sequence[RuleResult],
    *,
    families_of: dict[str, str],
    musts: frozenset[str],
    requested: Sequence[str],
    withheld: Sequence[str] = (),
) -> tuple[str, ...]:
    """The requested families of which no MUST was decided, and those in `withheld`."""
    judged = {families_of[r.rule] for r in results if r.rule in musts for v in r.verdicts if v.status.judged}
    return tuple(family for family in requested if family not in judged - set(withheld))
