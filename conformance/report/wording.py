"""The words every form of report shares, and the order in which results are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from conformance.rules import RULES, Rule
from conformance.verdicts import Change, Entry, ExitCode, RuleResult, RunReport, Status, Vantage, Verdict

EXIT_MEANING = {
    ExitCode.GREEN: "every MUST that was judged passed",
    ExitCode.RED: "a MUST failed",
    ExitCode.INTERRUPTED: "interrupted: what was judged until then is above, the rest was not looked at",
    ExitCode.TARGET: "the target cannot be judged: unreachable, wrong protocol, key or model",
    ExitCode.SUITE: "the suite itself failed; this says nothing about the target",
    ExitCode.INCOMPLETE: "incomplete, no word on a family of rules (--allow-unjudged FAMILY accepts that)",
}

SHOWN_STATUS = {
    Status.PASS: "pass",
    Status.FAIL: "FAIL",
    Status.WARN: "WARN",
    Status.INCONCLUSIVE: "inconclusive",
    Status.NOT_RUN: "not run",
    Status.NOT_APPLICABLE: "n/a",
    Status.ERROR: "SUITE ERROR",
}
"""A verdict as a table shows it; capitals, because a log may have no colour."""


STATUS_MEANING = {
    Status.PASS: "judged, and right",
    Status.FAIL: "judged, and a MUST is broken",
    Status.WARN: "judged, and a SHOULD is broken",
    Status.INCONCLUSIVE: "the evidence does not decide; the reason says why. Never counted as green",
    Status.NOT_RUN: "needs something that was not given, e.g. a recorder; the reason names it",
    Status.NOT_APPLICABLE: "the target has no such entry, or the rule does not concern it",
    Status.ERROR: "the suite failed; says nothing about the target",
}
"""What each verdict says, for a legend."""

ROOT_REASON = 120
"""Characters of a root's reason that the headline shows."""


def shown_status(result: RuleResult) -> str:
    """A rule's verdict as a table shows it; a failure a baseline knows is named so, and is still a failure."""
    return f"known {result.status}" if result.known else SHOWN_STATUS[result.status]


def in_catalogue_order(report: RunReport) -> list[RuleResult]:
    """The results in the order of the registry."""
    order = list(RULES)
    return sorted(report.results, key=lambda result: order.index(result.rule))


def failures(report: RunReport) -> list[RuleResult]:
    """Failed and warned rules and suite errors: each root, and its consequences right behind it."""
    broken = [r for r in in_catalogue_order(report) if r.status in (Status.FAIL, Status.WARN, Status.ERROR)]
    ids = {result.rule for result in broken}
    roots = [result for result in broken if result.root not in ids or result.root == result.rule]
    told: list[RuleResult] = []

    def tell(result: RuleResult) -> None:
        if result not in told:
            told.append(result)
            for other in broken:
                if other.root == result.rule:
                    tell(other)

    for result in [*roots, *broken]:
        tell(result)
    return told


def unjudged(report: RunReport) -> list[Verdict]:
    """Verdicts that left a rule undecided on an entry, in the order of the registry."""
    return [
        verdict
        for result in in_catalogue_order(report)
        for verdict in result.verdicts
        if verdict.status in (Status.INCONCLUSIVE, Status.NOT_RUN, Status.NOT_APPLICABLE)
    ]


def open_groups(report: RunReport) -> list[tuple[str, str]]:
    """What stayed undecided, as (rules and entries, verdict with its reason): alike ones in one line."""
    groups: dict[tuple[Status, str], dict[str, list[Verdict]]] = {}
    for verdict in unjudged(report):
        group = groups.setdefault((verdict.status, verdict.reason), {})
        group.setdefault(verdict.rule, []).append(verdict)
    return [(_named(report, rules), f"{status}: {reason}") for (status, reason), rules in groups.items()]


def _named(report: RunReport, rules: Mapping[str, Sequence[Verdict]]) -> str:
    """Rule ids, with the entries where a rule has another verdict on another entry."""
    all_of = {result.rule: len(result.verdicts) for result in report.results}
    names = [
        rule if len(said) == all_of[rule] and all_of[rule] > 1 else f"{rule} on {', '.join(v.entry for v in said)}"
        for rule, said in rules.items()
    ]
    return ", ".join(names)


def other_verdicts(report: RunReport) -> list[Verdict]:
    """Verdicts whose evidence no failure tells, in the order of the registry: what passed, and what stayed open."""
    return [v for result in in_catalogue_order(report) for v in result.verdicts if v not in told(result)]


def told(result: RuleResult) -> list[Verdict]:
    """The verdicts of a broken rule that its details tell: those that did not pass or stay undecided."""
    return [v for v in result.verdicts if v.status in (Status.FAIL, Status.WARN, Status.ERROR)]


def short_reason(result: RuleResult) -> str:
    """One line for a table row: the worst verdict's reason, with its entry where the entries differ."""
    worst = [verdict for verdict in result.verdicts if verdict.status is result.status]
    where = "" if len(worst) == len(result.verdicts) else f"on {', '.join(v.entry.value for v in worst)}: "
    root = f"consequence of {result.root}: " if result.root is not None else ""
    return f"{root}{where}{worst[0].reason}"


def shortened(text: str, length: int) -> str:
    """The text in at most `length` characters, cut at a word; what is cut off is in the details."""
    if len(text) <= length:
        return text
    return text[: length - 1].rsplit(" ", 1)[0] + "…"


def common_head(one: str, other: str) -> int:
    """How many characters two texts share at their start."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


def marked(change: Change) -> tuple[int, int, int]:
    """Where the texts of a change differ: the first character, and the ends of what differs in `before` and `after`.

    Where masking hides the difference, the place that was known before it did.
    """
    before, after = change.before, change.after
    head = common_head(before, after)
    if change.mark is not None and head > change.mark[0]:
        first, end = change.mark
        return first, min(end, len(before)), min(end, len(after))
    tail = common_head(before[head:][::-1], after[head:][::-1])
    return head, len(before) - tail, len(after) - tail


def headline(report: RunReport) -> list[str]:
    """How much failed and why, in plain lines: the count, then each root with what follows from it. Empty if none."""
    failed = [result for result in failures(report) if result.status is Status.FAIL]
    if not failed:
        return []
    ids = {result.rule for result in failed}
    roots: dict[str, list[str]] = {}
    for result in failed:
        leads = _root_among(result, {r.rule: r.root for r in failed if r.root in ids})
        roots.setdefault(leads, [])
        if leads != result.rule:
            roots[leads].append(result.rule)
    count = "1 rule" if len(failed) == 1 else f"{len(failed)} rules"
    causes = "" if len(failed) == 1 else f", from {len(roots)} root{'' if len(roots) == 1 else 's'}"
    known = sum(result.known for result in failed)
    excused = f" ({known} known)" if known else ""
    reasons = {result.rule: told(result)[0].reason for result in failed}
    return [f"{count} FAILED{excused}{causes}:", *(_root_line(rule, reasons[rule], roots[rule]) for rule in roots)]


def _root_among(result: RuleResult, root_of: Mapping[str, str | None]) -> str:
    """The rule at the end of the chain of roots; rules that name each other have none, and the first one stands."""
    seen = [result.rule]
    while (root := root_of.get(seen[-1])) is not None and root not in seen:
        seen.append(root)
    return seen[-1] if root_of.get(seen[-1]) is None else min(seen)


def _root_line(rule: str, reason: str, followers: Sequence[str]) -> str:
    line = f"{rule}: {shortened(printable(reason), ROOT_REASON)}"
    if not followers:
        return line
    return f"{line} ({', '.join(followers)} follow{'s' if len(followers) == 1 else ''} from it)"


def summary_line(report: RunReport) -> str:
    """E.g. "green for 13 of 15 rules; 1 failed, 1 not run"."""
    counts = Counter(result.status for result in report.results)
    known = Counter(result.status for result in report.results if result.known)
    rest = [
        f"{counts[status]} {word}" + (f" ({known[status]} known)" if known[status] else "")
        for status, word in (
            (Status.FAIL, "failed"),
            (Status.WARN, "warned"),
            (Status.ERROR, "suite error" if counts[Status.ERROR] == 1 else "suite errors"),
            (Status.INCONCLUSIVE, "inconclusive"),
            (Status.NOT_RUN, "not run"),
            (Status.NOT_APPLICABLE, "not applicable"),
        )
        if counts[status]
    ]
    total = len(report.results)
    line = f"green for {counts[Status.PASS]} of {total} rule{'' if total == 1 else 's'}"
    return f"{line}; {', '.join(rest)}" if rest else line


def exit_line(code: ExitCode, report: RunReport) -> str:
    """The exit code with its meaning in this run."""
    return f"exit {int(code)}: {exit_meaning(code, report)}"


def exit_meaning(code: ExitCode, report: RunReport) -> str:
    """What the code means here: the families that stayed open, known failures, and whether staleness failed the run."""
    known = sum(v.status is Status.FAIL and v.known is not None for v in report.verdicts)
    if code is ExitCode.INCOMPLETE and report.unjudged:
        return f"{EXIT_MEANING[code]}: {' and '.join(report.unjudged)}"
    if code is ExitCode.GREEN:
        but = f", but for {known} known failure{'' if known == 1 else 's'}" if known else ""
        return f"{EXIT_MEANING[code]}{but}{_left_out(report)}"
    if code is ExitCode.RED and report.baseline is not None and report.baseline.stale:
        new = any(v.status is Status.FAIL and v.known is None and RULES[v.rule].is_must for v in report.verdicts)
        n = len(report.baseline.stale)
        stale = f"{n} stale baseline entr{'y' if n == 1 else 'ies'}"
        return f"{EXIT_MEANING[code]}, and {stale}" if new else f"{stale}: remove what is gone from the file"
    return EXIT_MEANING[code]


def _left_out(report: RunReport) -> str:
    """What a green run says nothing of: entries and rules that were not judged, those that need load aside."""
    paths = [entry.path for entry in Entry if entry not in report.entries]
    words = [f"; nothing is said of {' and '.join(paths)}"] if paths and report.entries else []
    not_run = [r for r in report.results if r.status is Status.NOT_RUN and not RULES[r.rule].needs_load]
    if not_run:
        words.append(f"; {len(not_run)} of {len(report.results)} rules were not run (what they need is said above)")
    return "".join(words)


def looked_at_again(report: RunReport) -> str:
    """How much more is sent to a target with faults: what is found is looked at a second time (measured)."""
    if Vantage.UPSTREAM in report.vantages:
        return "up to half as many again where something is found and looked at a second time"
    return "up to three times as many where something is found and looked at a second time"


def baseline_lines(report: RunReport) -> list[tuple[str, str]]:
    """What became of each entry of a baseline, as names and values; the stale ones first."""
    state = report.baseline
    if state is None:
        return []
    lines = [
        (s.known, f"STALE: {s.seen}, so this entry must go ({s.known.code}: {s.known.reason})") for s in state.stale
    ]
    lines += [(known, f"known ({known.code}): {known.reason}") for known in state.seen]
    lines += [(known, f"not checked in this run ({known.code}): {known.reason}") for known in state.unchecked]
    return [(f"{known.rule} on {known.entry}", text) for known, text in lines]


def requests(number: int) -> str:
    """A number of requests, in words: "1 request", "1,200 requests"."""
    return f"{number:,} request{'' if number == 1 else 's'}"


def facts(report: RunReport) -> list[tuple[str, str]]:
    """What a reader needs to know of the run, as names and values."""
    listed = [
        ("target", report.target + (f", fault {report.fault}" if report.fault else "")),
        ("model", report.model or "(none named)"),
        ("entries", ", ".join(entry.value for entry in report.entries) or "none"),
        ("seen from", ", ".join(vantage.value for vantage in report.vantages) or "nowhere yet"),
    ]
    if report.prompt_tokens_planned:
        listed.append(("budget", f"{report.budget}: about {report.prompt_tokens_planned:,} prompt tokens planned"))
    if report.requests_sent:
        tokens, sent = f"{report.prompt_tokens_sent:,}", requests(report.requests_sent)
        listed.append(("sent", f"{tokens} prompt tokens in {sent}, {report.seconds:.1f} s"))
    if report.engine_requests_sent:
        tokens, sent = f"{report.engine_prompt_tokens_sent:,}", requests(report.engine_requests_sent)
        listed.append(("past the target", f"{tokens} prompt tokens in {sent} straight to the engine"))
    listed.append(("seed", f"{report.seed}, started {report.started}"))
    return listed + [(fact.name, fact.value) for fact in report.facts]


def authority_line(rule: Rule) -> str:
    return "; ".join(f"{a.name} <{a.link}>" if a.link else a.name for a in rule.authority)


def change_line(change: Change) -> str:
    field = f", {change.field}" if change.field else ""
    if change.span is None:
        return f"{change.part}{field}, from character {change.offset:,}: {change.kind}"
    first, last = change.span
    where = f"character {first:,}" if first == last else f"characters {first:,}-{last:,}"
    return f"{change.part}{field} ({where} from 0): {change.kind}"


def explain(rule: Rule, verdict: Verdict) -> str:
    """A verdict in a few plain lines, for pytest's own output."""
    lines = [f"{rule.id} {SHOWN_STATUS[verdict.status]} on {verdict.entry}: {rule.title}", f"  {verdict.reason}"]
    if verdict.change is not None:
        lines += [
            f"  changed: {change_line(verdict.change)}",
            f"    before | {printable(verdict.change.before)}",
            f"    after  | {printable(verdict.change.after)}",
        ]
    lines.append(f"  remedy: {rule.remedy}")
    return "\n".join(lines)


def excerpt_file(verdict: Verdict) -> str | None:
    """Where in a report folder the requests and answers behind a verdict are, or None when it has none."""
    return f"details/{verdict.rule}-{verdict.entry}.txt" if verdict.excerpts else None


def printable(text: str) -> str:
    """A text with control characters spelt out: a target must not steer the reader's terminal or log."""
    return "".join(c if c.isprintable() else _spelt(c) for c in text)


def _spelt(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\x{ord(character):02x}")
