"""`report.html`."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from sample_report import HOSTILE, green, mixed, run_report, verdict, with_baseline

from conformance.diagnosis.divergence import text_change
from conformance.masks import nobodys
from conformance.report import as_html, wording
from conformance.rules import RULES
from conformance.verdicts import Change, Entry, ExitCode, RunReport, Status, Table

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and gathers tags, links and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.resources: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.add(value or "")
            if name in ("src", "srcset", "data", "action") or name.startswith("on"):
                self.resources.append(f"{tag} {name}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def render(report: RunReport, code: ExitCode) -> str:
    return as_html.render(report, code).decode()


@pytest.mark.parametrize(("report", "code"), [(green(), ExitCode.GREEN), (mixed(), ExitCode.RED)])
def test_the_page_is_whole_and_names_every_rule(report: RunReport, code: ExitCode) -> None:
    page = Page(render(report, code))
    for rule in RULES.values():
        assert rule.id in page.text
        assert rule.title in page.text


def test_nothing_is_fetched_and_nothing_runs() -> None:
    source = render(mixed(), ExitCode.RED)
    page = Page(source)
    assert page.resources == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert "@import" not in source
    assert "url(" not in source
    assert {link for link in page.links if not link.startswith("#")} <= {
        authority.link for rule in RULES.values() for authority in rule.authority
    }


def test_the_banner_begins_with_how_much_failed_and_leads_to_the_roots() -> None:
    source = render(mixed(), ExitCode.RED)
    banner = source[source.index('<div class="result bad"') :]
    assert banner.index("2 rules FAILED, from 1 root:") < banner.index("green for") < banner.index("exit 1: ")
    assert '<li><a href="#PFX-02">PFX-02</a>: the attribution block reached' in banner
    assert "FAILED" not in render(green(), ExitCode.GREEN)


def test_what_broke_stands_above_the_table_of_all_rules() -> None:
    source = render(mixed(), ExitCode.RED)
    assert source.index("<h2>What broke") < source.index('<h2 id="rules">')


def test_a_reader_by_keyboard_or_voice_finds_every_table() -> None:
    source = render(mixed(), ExitCode.RED)
    tables = source.count("<table")
    assert source.count('tabindex="0"') == tables, "what scrolls sideways can be reached by keyboard"
    assert source.count('role="region" aria-label') == tables
    assert source.count("<caption>") == tables - 1, "the rules' own table is named by its heading"
    assert "<th>" not in source.replace('<th scope="col">', "")
    assert "<main>" in source
    assert '<html lang="en">' in source


def test_a_legend_says_what_each_verdict_means() -> None:
    text = Page(render(green(), ExitCode.GREEN)).text
    for status in Status:
        assert wording.STATUS_MEANING[status] in text


def test_hostile_text_stays_text() -> None:
    page = Page(render(mixed(), ExitCode.RED))
    assert HOSTILE.replace("\x1b", "\\x1b") in page.text
    assert "\x1b" not in page.text


def test_links_inside_the_page_lead_somewhere() -> None:
    page = Page(render(mixed(), ExitCode.RED))
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids


def test_it_tells_what_broke_with_the_changed_characters_marked() -> None:
    source = render(mixed(), ExitCode.RED)
    assert "<mark>0f3a1</mark>" in source
    assert "<mark>b77d0</mark>" in source
    text = Page(source).text
    for expected in ("Consequence of PFX-02", "17,920", "ruled out", "remedy", "turn 4 of the claude-code session"):
        assert expected.lower() in text.lower()


@pytest.mark.parametrize(("before", "after"), [("same", "same"), ("", "added"), ("gone", ""), ("aXa", "aXXa")])
def test_any_pair_of_texts_can_be_marked(before: str, after: str) -> None:
    parts = as_html._parts(Change("system text", 0, before, after, "kind"))
    assert ["".join(part[1:]) for part in parts] == [before, after]


@pytest.mark.parametrize("front", ["", "a long text of somebody else's in front of it, "])
def test_what_masking_hides_is_marked_in_both_texts(front: str) -> None:
    change = text_change("system text", f"{front}at 10:17 by", f"{front}at 10:28 by", nobodys)
    before, after = as_html._parts(change)
    assert before[2] == after[2] == "99"
    assert all(text[1].endswith("aa 99:") for text in (before, after))
    assert after[3] == f"{before[3]} (differs where it is masked)"


def test_a_problem_and_a_lone_surrogate_can_be_shown() -> None:
    odd = verdict("USE-01", Entry.MESSAGES, Status.FAIL, "lone \ud800 surrogate")
    page = Page(render(run_report((odd,), problem="no answer"), ExitCode.TARGET))
    assert "no answer" in page.text
    assert "\\xd800" in page.text


def test_known_failures_and_stale_entries_are_shown() -> None:
    page = Page(as_html.render(with_baseline(), ExitCode.RED).decode())
    assert "known fail" in page.text
    assert "Known: ticket 7" in page.text
    assert "STALE: it passes" in page.text
    assert "not checked in this run (body-differs): ticket 10" in page.text
    assert "script" not in page.tags


def test_every_verdict_is_there_with_its_number_of_requests_and_its_tables() -> None:
    shown = Table("turns", ("turn", "cached"), ((1, 4_242),))
    report = run_report(
        (
            verdict("PFX-01", Entry.CHAT, Status.PASS, "kept", tables=(shown,), n=7),
            verdict("PFX-09", Entry.CHAT, Status.INCONCLUSIVE, "too few", n=3),
        )
    )
    page = Page(as_html.render(report, ExitCode.GREEN).decode())
    assert "PFX-01 on chat: pass, 7 requests" in page.text
    assert "4,242" in page.text
    assert "PFX-09 on chat: inconclusive, 3 requests" in page.text
