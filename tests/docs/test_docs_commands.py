"""Every option, command, exit code and rule the documents speak of exists, and every option is spoken of."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_text import DOCUMENTS, ROOT, name, read

from conformance import RULE_SET
from conformance.cli import PYTEST_OPTIONS, help_text
from conformance.observe.under_load import LOAD_FAULTS
from conformance.rules import RULES
from conformance.run import CAP_FACTOR
from conformance.verdicts import ExitCode, Status, Vantage
from prefixproof_plugin import OPTIONS
from reference_gateway import FAULTS

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OWN_COMMANDS = (
    ("engine", "serve"),
    ("engine", "serve", "--backend", "vllm"),
    ("engine", "inspect"),
    ("engine", "probe"),
    ("engine", "doctor"),
    ("engine.vllm.install",),
    ("engine", "prove"),
    ("engine.differential",),
    ("reference_gateway",),
    ("conformance.matrix",),
    ("conformance.load_matrix",),
    ("load",),
    ("load", "incident"),
    ("load.day.fit",),
    ("conformance.aa",),
    ("conformance.forensics.cli",),
)
RUN_TARGETS = "tests/targets/run_targets.py"
OF_OTHERS = {
    *("--enable-prompt-tokens-details", "--chat-template", "--kv-transfer-config", "--no-kv-transfer-config"),  # vLLM
    *("--no-speculative-config", "--prefix-cache-retention-interval"),  # vLLM
    *("--speculative-config", "--kv-offloading-size", "--no-enable-prefix-caching"),  # vLLM
    "--snapshot-update",  # syrupy
    "--config",  # LiteLLM too
    "--master",  # Locust
    "--worker",  # Locust
    "--run-time",  # Locust
}
USER_DOCUMENTS = [d for d in DOCUMENTS if d.name not in ("CONTRIBUTING.md", "CHANGELOG.md")]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every option of every command of the project."""
    options = {option.short for option in OPTIONS} | {option.prefixed for option in OPTIONS} | {"--help", "--version"}
    options |= {word for text, _ in PYTEST_OPTIONS for word in OPTION.findall(text)}
    for command in (*(("-m", *words) for words in OWN_COMMANDS), (RUN_TARGETS,)):
        shown = subprocess.run(
            [sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
        options |= set(OPTION.findall(shown.stdout))
    return options


@pytest.mark.parametrize("option", [option.short for option in OPTIONS])
def test_an_option_of_the_help_stands_in_a_document(option: str) -> None:
    assert option in help_text()
    where = [name(d) for d in USER_DOCUMENTS if re.search(rf"{option}(?![\w-])", read(d))]
    assert where != []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_an_option_of_a_document_exists(document: Path, known: set[str]) -> None:
    assert set(OPTION.findall(read(document))) - known - OF_OTHERS == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_make_target_of_a_document_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^|\$ )make ([a-z-]+)", read(document), re.MULTILINE))
    assert named - targets == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_fault_of_a_document_exists(document: Path) -> None:
    named = set(re.findall(r"--fault ([a-z][a-z-]+)", read(document)))
    assert named - set(FAULTS) - set(LOAD_FAULTS) == set()


def test_the_readme_names_every_exit_code_verdict_and_the_number_of_rules() -> None:
    text = read("README.md")
    assert [int(code) for code in re.findall(r"^\| (\d+) \| ", text, re.MULTILINE)] == sorted(map(int, ExitCode))
    shown = {"n/a" if status is Status.NOT_APPLICABLE else status.value for status in Status}
    assert {word for word in shown if f"| {word} |" not in text.lower()} == set()
    assert f"{len(RULES)} rules" in text


def test_the_readme_says_which_rules_need_a_recorder() -> None:
    only_upstream = [rule.id for rule in RULES.values() if rule.evidence == (Vantage.UPSTREAM,)]
    assert f"{', '.join(only_upstream)} are *not run*" in " ".join(read("README.md").split())


def test_the_readme_says_where_sending_stops() -> None:
    assert CAP_FACTOR == 2
    assert "sending stops for good at twice the budget" in " ".join(read("README.md").split())


def test_the_changelog_names_the_rule_set_and_the_number_of_faults() -> None:
    entry = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)[1]
    assert f"Rule set {RULE_SET}." in entry
    assert f"one of {len(FAULTS)} ways" in entry


def test_the_excerpt_in_the_readme_is_what_a_run_prints() -> None:
    """Numbers and hex digits may differ; words may not."""
    excerpt = next(block for block in re.findall(r"```text\n(.*?)```", read("README.md"), re.DOTALL) if "FAIL" in block)
    width = max(len(line) for line in excerpt.splitlines())
    run = subprocess.run(
        [sys.executable, "-m", "conformance.cli", "--fault", "keep-billing-header"],
        cwd=ROOT, env={"PATH": "", "COLUMNS": str(width), "PYTHONUTF8": "1"}, capture_output=True, text=True,
        encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == ExitCode.RED
    printed = {_shape(line) for line in run.stdout.splitlines()}
    assert [line for line in excerpt.splitlines() if line != "[...]" and _shape(line) not in printed] == []


def _shape(line: str) -> str:
    return re.sub(r" +", " ", re.sub(r"[\d,]*\d", "9", re.sub(r"cch=[0-9a-f]+", "cch=9", line)))
