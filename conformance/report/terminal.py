"""The report as text: what a run prints before the cases and after them.

Plain lines of at most `width` characters that read the same in a terminal, in a CI log and without colour.
"""

from __future__ import annotations

import io
from typing import TypedDict

from rich.box import Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from conformance.report import wording
from conformance.rules import RULES
from conformance.verdicts import Cell, Change, ExitCode, RuleResult, RunReport, Status, Table, Verdict

NARROWEST, WIDEST = 60, 180
WIDE = 120
"""From this width on, the table has a column of its own for reasons."""

STYLES = {
    Status.PASS: "green",
    Status.FAIL: "bold red",
    Status.WARN: "yellow",
    Status.INCONCLUSIVE: "yellow",
    Status.NOT_RUN: "dim",
    Status.NOT_APPLICABLE: "dim",
    Status.ERROR: "bold red",
}
RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A rule under the head and nothing else: no line drawing, so that any log shows it."""


class Look(TypedDict):
    """How wide the text may be, in characters, and whether it may carry colour."""

    width: int
    colour: bool


def header(report: RunReport, *, load: bool = False, width: int, colour: bool) -> str:
    """What will be judged, from where and for how many tokens, in a sentence; printed before the cases run. `load`: a
    part of it is under load, which is not in the plan's count."""
    page = _Page(width, colour)
    entries = " and ".join(entry.path for entry in report.entries)
    planned = (
        f"about {wording.requests(report.requests_planned)} / {report.prompt_tokens_planned:,} prompt tokens "
        f"will be sent ({report.budget}), {wording.looked_at_again(report)}"
    )
    if report.prompt_tokens_cap:
        planned += f", {report.prompt_tokens_cap:,} at most"
    page.line(f"judging {report.target}, model {report.model or 'of its choice'}, on {entries}; {planned}")
    if load:
        page.line("load: comes on top, on each entry prompts of more than twice what L1 holds; the report counts them")
    for fact in report.facts:
        if fact.name == "restart":
            page.line(f"restart: {fact.value}")
    return page.text()


def summary(report: RunReport, code: ExitCode, *, width: int, colour: bool) -> str:
    """The whole result: table, details of what broke, what stayed open, and the exit code with its meaning."""
    page = _Page(width, colour)
    page.line(f"prefixproof {report.suite_version}, rule set {report.rule_set}", style="bold")
    _headline(page, report)
    _head(page, report)
    if report.verdicts:
        page.add(_table(report, page.width))
    for result in wording.failures(report):
        _details(page, result)
    _open(page, report)
    _baseline(page, report)
    page.line("")
    if report.problem is not None:
        page.pair("problem", report.problem, style="bold red")
    for why in report.withheld if code is ExitCode.INCOMPLETE else ():
        page.pair("incomplete", why, style="bold red")
    _headline(page, report)
    if report.verdicts:
        page.line(wording.summary_line(report), style="bold")
    page.line(wording.exit_line(code, report), style="bold green" if code is ExitCode.GREEN else "bold red")
    return page.text()


class _Page:
    """Lines being written; rich lays them out into a string."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = min(max(width, NARROWEST), WIDEST)
        self._out = io.StringIO()
        self._console = Console(
            file=self._out,
            width=self.width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            no_color=not colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def add(self, item: RenderableType) -> None:
        self._console.print(item)

    def line(self, text: str, style: str = "", indent: int = 0) -> None:
        self.add(Padding(Text(wording.printable(text), style=style), (0, 0, 0, indent)))

    def pair(self, name: str, value: str, style: str = "", indent: int = 0, name_width: int = 12) -> None:
        grid = Grid.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=name_width, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(name), Text(wording.printable(value), style=style))
        self.add(Padding(grid, (0, 0, 0, indent)))

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._out.getvalue().splitlines()) + "\n"


def _headline(page: _Page, report: RunReport) -> None:
    """What failed and from which root: the first thing and nearly the last, so that neither end of a log lacks it."""
    for number, line in enumerate(wording.headline(report)):
        page.line(line, style="bold red", indent=2 * (number > 0))


def _head(page: _Page, report: RunReport) -> None:
    facts = wording.facts(report)
    name_width = min(max(len(name) for name, _ in facts) + 1, 24)
    for name, value in facts:
        page.pair(name, value, name_width=name_width)
    page.line("")


def _table(report: RunReport, width: int) -> Grid:
    wide = width >= WIDE
    grid = Grid(box=RULED, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="")
    grid.add_column("rule", width=6, no_wrap=True)
    grid.add_column("verdict", width=12, no_wrap=True)
    grid.add_column("level", width=6, no_wrap=True)
    grid.add_column("requests", justify="right", width=8, no_wrap=True)
    grid.add_column("what it asks", ratio=2, overflow="fold")
    if wide:
        grid.add_column("what was seen", ratio=3, overflow="fold")
    grid.expand = True
    for result in wording.in_catalogue_order(report):
        rule, status = RULES[result.rule], result.status
        reason = Text(wording.shortened(wording.printable(wording.short_reason(result)), width))
        title = Text(rule.title)
        if not wide and status is not Status.PASS:
            title = Text("\n- ").join([title, reason])
        cells: list[Text] = [
            Text(rule.id),
            Text(wording.shown_status(result), style=_style(result)),
            Text(rule.level),
            Text(f"{result.n}"),
            title,
        ]
        grid.add_row(*cells, *([reason] if wide else []))
    return grid


def _style(result: RuleResult) -> str:
    return STYLES[Status.WARN] if result.known else STYLES[result.status]


def _details(page: _Page, result: RuleResult) -> None:
    rule = RULES[result.rule]
    page.line("")
    role = f", consequence of {result.root}" if result.root is not None else ""
    title = f"{rule.id} {wording.shown_status(result)}{role}: {rule.title}"
    page.line("-" * page.width)
    page.line(title, style=_style(result))
    told = wording.told(result)
    for verdict in told:
        _verdict(page, verdict)
    for verdict in result.verdicts:
        if verdict not in told:
            page.pair("on " + verdict.entry.value, f"{verdict.status}: {verdict.reason}", indent=2)
    if result.status is Status.ERROR:
        page.pair("hint", "the same command with --tb=short shows where the suite failed", indent=2)
    else:
        page.pair("costs you", result.cost or rule.cost, indent=2)
        page.pair("remedy", rule.remedy, indent=2)
        page.pair("authority", wording.authority_line(rule), indent=2)


def _verdict(page: _Page, verdict: Verdict) -> None:
    page.pair("on " + verdict.entry.value, verdict.reason, indent=2)
    if verdict.known is not None:
        page.pair("known", verdict.known, indent=2)
    code = f", code {verdict.code}" if verdict.code else ""
    page.pair("seen from", f"{verdict.vantage}, {wording.requests(verdict.n)}{code}", indent=2)
    if verdict.change is not None:
        _change(page, verdict.change)
    for table in verdict.tables:
        _rows(page, table)
    for excuse in verdict.ruled_out:
        page.pair("ruled out", excuse, indent=2)
    path = wording.excerpt_file(verdict)
    if path is not None:
        page.pair("requests", f"{path}, in the folder --report names", indent=2)


def _change(page: _Page, change: Change) -> None:
    """Both texts one above the other, cut so that the first difference is in sight, and a mark under it."""
    page.pair("changed", wording.change_line(change), indent=2)
    label = "before | "
    room = page.width - 6 - len(label)
    before, after = wording.printable(change.before), wording.printable(change.after)
    same = len(wording.printable(change.before[: wording.marked(change)[0]]))
    start = max(0, same - room // 2) if max(len(before), len(after)) > room else 0
    for name, text in ((label, before), ("after  | ", after)):
        window = ("…" + text[start + 1 :]) if start else text
        page.line(name + (window if len(window) <= room else window[: room - 1] + "…"), indent=6)
    page.line(" " * (len(label) + same - start) + "^", indent=6)


def _rows(page: _Page, table: Table) -> None:
    page.line(table.title, indent=2)
    grid = Grid(box=RULED, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="")
    for number, column in enumerate(table.columns):
        numeric = all(row[number] is None or isinstance(row[number], (int, float)) for row in table.rows)
        grid.add_column(wording.printable(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(shown_cell(cell)) for cell in row))
    page.add(Padding(grid, (0, 0, 0, 4)))


def shown_cell(cell: Cell) -> str:
    """One cell of a table behind a verdict, as a reader wants it: thousands separated, three decimals at most."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return wording.printable(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.3f}".rstrip("0").rstrip(".")


def _open(page: _Page, report: RunReport) -> None:
    groups = wording.open_groups(report)
    if groups:
        page.line("")
        page.line("not judged")
    for names, said in groups:
        page.line(f"{names}: {said}", indent=2)


def _baseline(page: _Page, report: RunReport) -> None:
    lines = wording.baseline_lines(report)
    if lines:
        page.line("")
        page.line("baseline")
    for name, value in lines:
        page.pair(name, value, indent=2, name_width=19)
