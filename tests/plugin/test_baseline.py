"""The baseline file: what it may hold, what it covers, and when an entry of it is stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugin_rig import verdict

from conformance.baseline import Baseline, check_writable, failures_of, read, write
from conformance.errors import UsageProblem
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, KnownFailure, Status, Verdict, by_rule, exit_code

KNOWN = KnownFailure("PFX-02", Entry.MESSAGES, "attribution-kept", "ticket 7")


def failure(code: str = "attribution-kept", rule: str = "PFX-02", entry: Entry = Entry.MESSAGES) -> Verdict:
    return verdict(rule, entry, Status.FAIL, "it does not", code=code)


def toml(path: Path, **row: str) -> Path:
    values = {"rule": "PFX-02", "entry": "messages", "code": "attribution-kept", "reason": "ticket 7"} | row
    path.write_text("[[known]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()), encoding="utf-8")
    return path


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    written = toml(tmp_path / "known.toml")
    row = {"rule": "PFX-02", "entry": "messages", "code": "attribution-kept", "reason": "ticket 7"}
    as_json = tmp_path / "known.json"
    as_json.write_text(json.dumps({"known": [row]}), encoding="utf-8")
    assert read(written) == read(as_json) == Baseline((KNOWN,))


def test_an_empty_file_knows_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "known.toml"
    empty.write_text("", encoding="utf-8")
    assert read(empty) == Baseline()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml", "not TOML: "),
        ("[known]\nrule = 'PFX-02'", "must hold a list `known` and nothing else"),
        ("known = []\nother = 1", "must hold a list `known` and nothing else"),
        ("known = [1]", "entry 1 must have rule, entry, code, reason and nothing else"),
        ("[[known]]\nrule = 'PFX-02'\nentry = 'messages'\ncode = 'x'", "entry 1 must have rule, entry, code, reason"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"--baseline known\.toml: ") as refused:
        read(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rule": "PFX-99"}, "there is no rule PFX-99"),
        ({"entry": "chat"}, "PFX-02 is judged on messages, not on chat"),
        ({"entry": "responses"}, "not on responses"),
        ({"reason": "  "}, "must be a text that is not empty"),
        ({"code": ""}, "must be a text that is not empty"),
        ({"until": "2027"}, "must have rule, entry, code, reason and nothing else"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(tmp_path: Path, row: dict[str, str], message: str) -> None:
    with pytest.raises(UsageProblem, match="entry 1") as refused:
        read(toml(tmp_path / "known.toml", **row))
    assert message in str(refused.value)


def test_a_missing_file_a_folder_and_bytes_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.toml", tmp_path, binary):
        with pytest.raises(UsageProblem, match=f"--baseline {path.name}: "):
            read(path)


def test_a_rule_listed_twice_is_refused(tmp_path: Path) -> None:
    path = toml(tmp_path / "known.toml")
    path.write_text(path.read_text() * 2, encoding="utf-8")
    with pytest.raises(UsageProblem, match="PFX-02 on messages is listed twice"):
        read(path)


def test_only_that_failure_is_covered() -> None:
    baseline = Baseline((KNOWN, KnownFailure("USE-06", Entry.CHAT, "total-moves", "ticket 8")))
    assert baseline.marked(failure()).known == "ticket 7"
    assert baseline.marked(failure("other-code")).known is None
    assert baseline.marked(failure("total-moves", "USE-06")).known is None, "another entry"
    assert baseline.marked(verdict("PFX-02", Entry.MESSAGES, Status.PASS, code="attribution-kept")).known is None
    assert baseline.marked(verdict("PFX-02", Entry.MESSAGES, Status.ERROR, code="attribution-kept")).known is None
    assert baseline.marked(verdict("USE-06", Entry.CHAT, Status.WARN, code="total-moves")).known == "ticket 8"


@pytest.mark.parametrize(
    ("seen", "where"),
    [
        (failure(), "seen"),
        (failure("other"), "stale"),
        (verdict("PFX-02", Entry.MESSAGES, Status.PASS), "stale"),
        (verdict("PFX-02", Entry.MESSAGES, Status.INCONCLUSIVE), "unchecked"),
        (verdict("PFX-02", Entry.MESSAGES, Status.NOT_RUN), "unchecked"),
        (verdict("PFX-02", Entry.MESSAGES, Status.NOT_APPLICABLE), "unchecked"),
        (verdict("PFX-02", Entry.MESSAGES, Status.ERROR), "unchecked"),
        (verdict("PFX-01", Entry.MESSAGES, Status.PASS), "unchecked"),
    ],
)
def test_an_entry_is_seen_stale_or_not_checked(seen: Verdict, where: str) -> None:
    baseline = Baseline((KNOWN,))
    state = baseline.state([baseline.marked(seen)])
    assert [len(getattr(state, name)) for name in ("seen", "stale", "unchecked")] == [
        int(name == where) for name in ("seen", "stale", "unchecked")
    ]


def test_a_known_failure_is_judged_and_does_not_fail_a_run() -> None:
    baseline = Baseline((KNOWN,))

    def code(*verdicts: Verdict) -> ExitCode:
        marked = [baseline.marked(v) for v in verdicts]
        return exit_code(
            by_rule(marked),
            families_of={rule.id: rule.family for rule in RULES.values()},
            musts=frozenset(RULES),
            requested=("cache",),
            stale=bool(baseline.state(marked).stale),
        )

    assert code(failure()) is ExitCode.GREEN
    assert code(failure(), failure("x", "PFX-01")) is ExitCode.RED
    assert code(failure("other")) is ExitCode.RED
    assert code(verdict("PFX-02", Entry.MESSAGES, Status.PASS)) is ExitCode.RED
    assert code(verdict("PFX-02", Entry.MESSAGES, Status.INCONCLUSIVE)) is ExitCode.INCOMPLETE
    assert code(failure(), verdict("PFX-01", Entry.CHAT, Status.ERROR)) is ExitCode.SUITE


@pytest.mark.parametrize("name", ["known.toml", "known.json"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    odd = KnownFailure("USE-06", Entry.CHAT, "total-moves", 'a "quoted" \\ reason, ünïcode')
    write(Baseline((KNOWN, odd)), tmp_path / name)
    assert read(tmp_path / name) == Baseline((KNOWN, odd))


def test_a_reason_a_target_had_a_hand_in_is_still_read_back(tmp_path: Path) -> None:
    hostile = verdict("USE-06", Entry.CHAT, Status.FAIL, "bell \x07, \x7f, \x1b[31m\nand a lone \ud800", code="c")
    for name in ("known.toml", "known.json"):
        write(failures_of([hostile], Baseline(), "2026-11-29"), tmp_path / name)
        [entry] = read(tmp_path / name).entries
        assert entry.reason.startswith("written by --write-baseline on 2026-11-29: bell")


def test_writing_keeps_reasons_and_what_was_not_checked_and_drops_what_is_gone() -> None:
    gone = KnownFailure("USE-01", Entry.MESSAGES, "sum-wrong", "ticket 8")
    unsure = KnownFailure("PFX-14", Entry.CHAT, "body-differs", "ticket 9")
    verdicts = [
        failure(),
        verdict("USE-01", Entry.MESSAGES, Status.PASS),
        verdict("PFX-14", Entry.CHAT, Status.INCONCLUSIVE),
        verdict("USE-06", Entry.CHAT, Status.WARN, "moves", code="total-moves"),
        verdict("STR-01", Entry.MESSAGES, Status.ERROR),
    ]
    made = failures_of(verdicts, Baseline((KNOWN, gone, unsure)), "2026-11-29")
    assert [(e.rule, e.reason) for e in made.entries] == [
        ("PFX-02", "ticket 7"),
        ("USE-06", "written by --write-baseline on 2026-11-29: moves"),
        ("PFX-14", "ticket 9"),
    ]


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.toml")
    assert list(tmp_path.iterdir()) == []
    kept = toml(tmp_path / "known.toml")
    before = kept.read_text()
    check_writable(kept)
    assert kept.read_text() == before
    for path in (tmp_path, tmp_path / "none" / "known.toml"):
        with pytest.raises(UsageProblem, match="--write-baseline"):
            check_writable(path)


def test_the_example_in_the_docs_is_a_file_that_is_read(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "baseline.md").read_text(encoding="utf-8")
    example = docs.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "known.toml").write_text(example, encoding="utf-8")
    [entry] = read(tmp_path / "known.toml").entries
    assert entry.code == "attribution-forwarded"
