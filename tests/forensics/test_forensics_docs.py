"""docs/forensics.md says what the command prints and what the format is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forensics_rig import report_of

from conformance.forensics import synthetic
from conformance.forensics.capture import capture_line
from conformance.forensics.cli import main
from conformance.forensics.columns import FIELDS
from conformance.forensics.constants import Status
from conformance.forensics.terminal import as_text
from conformance.sessions.attribution import ATTRIBUTION_PREFIX

TEXT = (Path(__file__).parents[2] / "docs" / "forensics.md").read_text(encoding="utf-8")


def test_the_excerpt_is_what_is_printed(tmp_path: Path) -> None:
    [excerpt] = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    printed = as_text(report_of(tmp_path, synthetic.LOGS["incident-capture"]()), 80)
    for piece in excerpt.split("[...]\n"):
        assert piece.rstrip() in printed


def test_every_status_field_and_option_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert [status for status in Status if f"*{status.value}*" not in TEXT] == []
    assert [name for name in FIELDS if f"`{name}`" not in TEXT] == []
    main(["--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--version"}
    assert {option for option in options if option not in TEXT} == set()


def test_every_key_of_a_capture_is_explained() -> None:
    body = {"system": f"{ATTRIBUTION_PREFIX} cch=1;\nx", "messages": [{"role": "user", "content": "y"}]}
    line = capture_line("/v1/messages", body, None, count=len).decode()
    keys = set(re.findall(r'"([a-z_]+)":', line)) - {"cch"}
    assert keys > {"capture", "parts", "fields", "tokens"}
    assert {key for key in keys if not re.search(rf"`(?:parts\[\]\.)?{key}`", TEXT)} == set()
