"""USE-01 without a recorder: what the reported totals alone, or an engine that can be asked directly, can prove."""

from __future__ import annotations

from conformance.evidence.conversation import Sent
from conformance.judgements.usage import cached_moves_total, dialect_table, evidence_of_pair, repeat_pairs
from conformance.judgements.verdict import Judging, evidence, evidence_of
from conformance.observe.observations import DialectPair
from conformance.observe.observed import Observed
from conformance.verdicts import Status, Table, Vantage, Verdict

_NEEDS = "needs a recorder (--upstream-listen), or the chat entry to compare with"


def adds_up_to_other_entry(observed: Observed) -> Verdict:
    """USE-01 without upstream usage: the sum grows with what is sent, and warm it is the other entry's total.

    A total that disagrees is this entry's fault only where arithmetic, or the engine's own count, says so.
    """
    judging = Judging("USE-01", observed.entry, Vantage.CLIENT)
    qualification = observed.qualification
    n = len(qualification.probes)
    fresh = [p.first for p in qualification.probes]
    if not all(s.valid for s in fresh):
        return judging.undecided("a probe request failed", n)
    tables: tuple[Table, ...] = (qualification.table,)
    if unreadable := _unreadable(observed, judging, fresh, tables):
        return unreadable
    pair = observed.dialects
    if not qualification.counted["message"]:
        return _does_not_grow(observed, judging, pair, n)
    if pair is None:
        return judging.not_run(_NEEDS)
    ours, theirs = pair.messages.usage.prompt, pair.chat.usage.prompt
    if ours is None or theirs is None:
        return judging.undecided("one of the entries reports no prompt tokens", n + 2)
    tables = (dialect_table(pair.messages, pair.chat),)
    slack = observed.thresholds.usage.dialect_slack(theirs, upstream_known=False)
    differ = f"the same text counts {ours:,} tokens here and {theirs:,} on the chat entry"
    if abs(ours - theirs) <= slack:
        return judging.passes(
            f"the same text counts {ours:,} tokens here and {theirs:,} on /v1/chat/completions, warm",
            n + 2,
            tables=tables,
        )
    pairs = repeat_pairs(observed)
    side = cached_moves_total(pairs)
    warm = pair.messages.usage.cached or 0
    if side is not None and abs((ours - theirs) - (warm if side == "added to" else -warm)) <= slack:
        return judging.says(
            Status.FAIL,
            f"{differ}, which is off by this entry's {warm:,} cached tokens; they are {side} its total: over "
            f"{len(pairs)} requests sent twice it moved by exactly as many as were warm",
            n + 2,
            code="cached-counted-wrong",
            tables=(*tables, qualification.table),
            excerpts=evidence_of_pair(pair, observed),
        )
    if (direct := _direct_total(pair)) is not None and abs(ours - direct) <= slack:
        return judging.passes(
            f"{differ}; asked directly, the engine counts {direct:,}: this entry's total is right", n + 2, tables=tables
        )
    other = observed.other
    if other is not None and (moved := cached_moves_total(repeat_pairs(other))) is not None:
        return judging.undecided(
            f"{differ}, where cached tokens are {moved} the total (see USE-06 there)", n + 2, tables=tables
        )
    return judging.undecided(f"{differ}: needs a recorder to say why", n + 2, tables=tables)


def _unreadable(observed: Observed, judging: Judging, fresh: list[Sent], tables: tuple[Table, ...]) -> Verdict | None:
    """The verdict where the answers carry no total that could be compared; None where all do.

    A missing usage is not a usage of zero: nothing else is said of it.
    """
    n = len(fresh)
    silent = [s for s in fresh if s.exchange is not None and not s.exchange.usage.raw]
    if len(silent) == n:
        return judging.says(
            Status.FAIL,
            f"none of {n} answers carries a usage object, which a message requires (input_tokens, output_tokens)",
            n, code="usage-missing", tables=tables, excerpts=evidence_of(observed, ("the first answer", silent[0])),
        )  # fmt: skip
    if silent:
        return judging.withholds(
            f"{len(silent)} of {n} answers carry no usage object, which a message requires",
            n, code="usage-missing", tables=tables,
        )  # fmt: skip
    if all(s.prompt is None for s in fresh):
        return judging.says(
            Status.FAIL, f"none of {n} answers has an integer count of input tokens in its usage", n,
            code="no-integer", tables=tables, excerpts=evidence_of(observed, ("the first answer", fresh[0])),
        )  # fmt: skip
    below = [s for s in fresh if s.prompt is not None and s.prompt < 0]
    if below:
        return judging.says(
            Status.FAIL, f"{len(below)} of {n} answers count less than 0 prompt tokens: e.g. {below[0].prompt:,}", n,
            code="below-zero", tables=tables, excerpts=evidence_of(observed, ("the first such answer", below[0])),
        )  # fmt: skip
    return None


def _does_not_grow(observed: Observed, judging: Judging, pair: DialectPair | None, n: int) -> Verdict:
    """A total that stays while the message grows: made up, or an honest count of a prompt that was cut."""
    tables = (observed.qualification.table,)
    reason = "the reported total does not grow when the message grows"
    direct = _direct_total(pair)
    if (
        pair is not None
        and pair.direct is not None
        and direct is not None
        and (ours := pair.messages.usage.prompt) is not None
    ):
        slack = observed.thresholds.usage.dialect_slack(direct, upstream_known=False)
        if abs(ours - direct) > slack:
            return judging.says(
                Status.FAIL,
                f"{reason}; one text counts {ours:,} tokens here and {direct:,} asked directly of the engine",
                n + 2,
                code="total-ignores-prompt",
                tables=tables,
                ruled_out=("an engine that cuts its prompts: it counts the whole text where it is asked directly",),
                excerpts=(
                    evidence("one text here", pair.messages, observed),
                    evidence("the same, asked of the engine", pair.direct, observed),
                ),
            )
    return judging.withholds(
        f"{reason}: it is made up, or an honest count of a prompt that is cut: needs a recorder, or --engine to ask "
        "the engine directly",
        n,
        code="total-ignores-prompt",
        tables=tables,
    )


def _direct_total(pair: DialectPair | None) -> int | None:
    """What the engine itself counts for the text of the pair, where it could be asked."""
    direct = pair.direct if pair is not None else None
    return direct.usage.prompt if direct is not None and direct.ok else None
