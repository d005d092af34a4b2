"""Healthy clients whose counts look odd: none of them may be called a fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from forensics_rig import flat, report_of

from conformance.forensics import synthetic
from conformance.forensics.constants import Status
from conformance.forensics.request import Part, Request
from conformance.forensics.synthetic import CLAUDE, REASONIX, growing, one_shot, short_sessions, with_parts
from conformance.forensics.terminal import as_text

UNKNOWN = ("/v1/chat/completions", "m", "(not given)", "batch")

Log = Callable[[int], list[Request]]


def nightly(seed: int, key: tuple[str, str, str, str] = UNKNOWN) -> list[Request]:
    """The same batch, sorted by size, three nights in a row: rises only, and several times."""
    nights = [one_shot(key, 60, in_order=True, seed=f"{seed}-{night}") for night in range(3)]
    return [r._replace(time=r.time + 86_400 * night) for night, log in enumerate(nights) for r in log]


def replicas(seed: int) -> list[Request]:
    """A session routed at random over three replicas: each knows the turns that it has seen itself."""
    rng = Random(seed)
    found = []
    known = [18_000] * 3
    for request in growing(CLAUDE, 6, 40, seed=str(seed)):
        if request.prompt < 33_000:
            known = [18_000] * 3
        replica = rng.randrange(3)
        found.append(request._replace(cached=known[replica] // 256 * 256))
        known[replica] = request.prompt
    return found


def evicting(seed: int) -> list[Request]:
    """Half of the turns have fallen back to the front that others keep warm."""
    rng = Random(seed)
    return [r._replace(cached=17_920) if rng.random() < 0.5 else r for r in growing(CLAUDE, 6, 40, seed=str(seed))]


def tiny_growth(seed: int) -> list[Request]:
    """Coarse steps and small turns: many turns share a count, as they must."""
    return growing(REASONIX, 8, 60, step=2_096, growth=(20, 160), seed=str(seed))


def single_block(seed: int) -> list[Request]:
    """Prompts of a little more than one coarse step."""
    return growing(REASONIX, 20, 12, step=2_096, growth=(20, 120), base=2_200, seed=str(seed))


def few_shot_capture(seed: int) -> list[Request]:
    """Requests that begin with the same examples; nothing is appended. In order of size, from a known client."""
    front = (Part("system[0]", "s", 60_000, 15_000, "system"),)
    examples = tuple(
        Part(f"messages[{i}].content[0]", f"example{i}", 4_000, 1_000, ("user", "assistant")[i % 2]) for i in range(4)
    )
    found = []
    for i, request in enumerate(one_shot(CLAUDE, 120, shared=19_000, in_order=True, seed=str(seed))):
        last = Part("messages[4].content[0]", f"{seed}-{i}", 4 * (request.prompt - 19_000), None, "user")
        found.append(request._replace(session="examples", parts=(*front, *examples, last)))
    return found


def document_capture(seed: int) -> list[Request]:
    """A document of its own in front of one fixed question, each request a conversation."""
    found = []
    for i, request in enumerate(one_shot(CLAUDE, 120, seed=str(seed))):
        size = 4 * (request.prompt - 18_000)
        parts = (
            Part("tools", "t", 60_000, 15_000, "tools"),
            Part("system[0]", "s", 12_000, 3_000, "system"),
            Part("messages[0].content[0]", f"document{i}", size, size // 4, "user"),
            Part("messages[0].content[1]", "question", 200, 50, "user"),
        )
        found.append(request._replace(session=f"c{i}", parts=parts))
    return found


INNOCENT: dict[str, Log] = {
    "one-shot requests over one front": lambda s: one_shot(CLAUDE, 200, seed=str(s)),
    "the same, few": lambda s: one_shot(CLAUDE, 30, seed=str(s)),
    "the same, sorted by size": lambda s: one_shot(CLAUDE, 200, in_order=True, seed=str(s)),
    "the same, sorted, client unknown, every night": nightly,
    "the same, by a client known to append": lambda s: nightly(s, CLAUDE),
    "the same, captured": lambda s: with_parts(one_shot(REASONIX, 200, seed=str(s)), chat=True, one_shot=True),
    "few-shot requests, sorted, captured": few_shot_capture,
    "documents before a question, captured": document_capture,
    "sessions of two turns": lambda s: short_sessions(CLAUDE, 100, turns=2, seed=str(s)),
    "sessions of five turns": lambda s: short_sessions(CLAUDE, 60, turns=5, seed=str(s)),
    "long sessions": lambda s: growing(CLAUDE, 6, 60, cold=0.15, seed=str(s)),
    "coarse steps": lambda s: growing(REASONIX, 6, 60, step=2_096, growth=(150, 700), seed=str(s)),
    "coarse steps, small turns": tiny_growth,
    "prompts of one coarse step": single_block,
    "nothing but the template floor": lambda _: synthetic.floor_only(REASONIX, 150),
    "routing over replicas": replicas,
    "a pool that evicts half": evicting,
    "a pool overrun between turns": lambda _: synthetic.overrun_pool(CLAUDE, 6, 40),
    "the day after": lambda _: synthetic.day_after(),
    "the day after, captured at the client": lambda _: with_parts(synthetic.day_after()),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", INNOCENT)
def test_no_fault_is_found(tmp_path: Path, name: str, seed: int) -> None:
    report = report_of(tmp_path, INNOCENT[name](seed))
    assert [f for f in report.findings if f.status is Status.PINNED] == []
    assert report.code == 0


def test_requests_of_their_own_are_told_from_sessions_by_their_falls(tmp_path: Path) -> None:
    report = report_of(tmp_path, one_shot(CLAUDE, 200))
    [finding] = report.findings
    assert finding.status is Status.UNDECIDED
    assert "prompts fall as they rise" in finding.why[0]
    assert "not called a fault" in flat(report)


def test_a_capture_proves_requests_of_their_own(tmp_path: Path) -> None:
    report = report_of(tmp_path, with_parts(one_shot(REASONIX, 200), chat=True, one_shot=True))
    [finding] = report.findings
    assert finding.status is Status.LEGITIMATE
    assert "200 of 200 captured requests open a conversation of their own" in finding.why[0]


def test_one_rise_is_a_suspicion_that_says_why_it_is_no_proof(tmp_path: Path) -> None:
    pinned = [r for r in synthetic.incident_day() if r.key == CLAUDE][:76]
    report = report_of(tmp_path, pinned)
    [finding] = report.findings
    assert finding.status is Status.SUSPECTED
    assert "sorted by size look the same" in finding.doubts[0]
    assert as_text(report, 80).startswith("No fault proven.")
    assert report.code == 0


def test_the_same_session_captured_is_proof(tmp_path: Path) -> None:
    captured = [r for r in synthetic.incident_capture() if r.key == CLAUDE][:76]
    report = report_of(tmp_path, captured)
    assert [f.status for f in report.findings] == [Status.PINNED]


def test_an_overrun_pool_is_suspected_and_the_doubt_is_the_pool(tmp_path: Path) -> None:
    [finding] = report_of(tmp_path, synthetic.overrun_pool(CLAUDE, 6, 40)).findings
    assert finding.status is Status.SUSPECTED
    assert any("a pool that loses conversations between turns" in doubt for doubt in finding.doubts)


def test_an_unknown_client_is_judged_by_whether_prompts_grow_by_the_answers(tmp_path: Path) -> None:
    pinned = [r._replace(client="(not given)") for r in synthetic.incident_day() if r.key == CLAUDE]
    [shown] = report_of(tmp_path, pinned).findings
    assert shown.status is Status.PINNED
    assert any("prompts grew by what had been answered" in line for line in shown.why)
    [unknown] = report_of(tmp_path, [r._replace(answer=None) for r in pinned]).findings
    assert unknown.status is Status.SUSPECTED
    assert any("nothing shows that these requests continue one another" in line for line in unknown.doubts)


def test_a_varying_part_is_no_fault_where_hits_follow(tmp_path: Path) -> None:
    report = report_of(tmp_path, with_parts(synthetic.day_after()))
    assert report.findings == []
    assert any("system[0] varies in what was captured" in line for line in report.remainders)
    assert any("something behind the capture takes it out" in line for line in report.remainders)


def test_sessions_that_never_get_past_the_floor_are_a_suspicion(tmp_path: Path) -> None:
    requests = [r._replace(cached=256 if r.cached else 0) for r in growing(CLAUDE, 6, 40)]
    [finding] = report_of(tmp_path, requests).findings
    assert finding.status is Status.SUSPECTED
    assert "what the template alone may share" in finding.doubts[0]
