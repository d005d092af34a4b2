"""What the documents point at is there, and they point at nothing of one machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from docs_text import DOCUMENTS, ROOT, blocks, name, prose, read

from conformance import __version__

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
OWN_FOLDERS = ("conformance", "engine", "reference_gateway", "load", "tests", "docs", "benchmarks", ".ci")
OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:home|root|work|tmp|Users|mnt|opt|private)/|[A-Za-z]:\\")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_to_files_resolve(document: Path) -> None:
    targets = [target for target in LINK.findall(prose(document)) if "://" not in target]
    missing = [target for target in targets if not (document.parent / target.partition("#")[0]).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_files_named_in_the_text_exist(document: Path) -> None:
    named = [word for word in CODE.findall(prose(document)) if word.split("/")[0] in OWN_FOLDERS and " " not in word]
    paths = [re.sub(r":.*$", "", word) for word in named if "/" in word and not re.search(r"[A-Z*<]{3}", word)]
    assert [path for path in paths if not list(ROOT.glob(path))] == []


def test_the_readme_draws_folders_that_exist() -> None:
    [tree] = [block for block in blocks("README.md", "text") if "rules.toml" in block]
    paths = [line.split()[0] for line in tree.splitlines()]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_no_path_of_a_machine(document: Path) -> None:
    assert OF_A_MACHINE.findall(read(document)) == []


def test_every_document_is_linked_from_the_readme() -> None:
    linked = {(ROOT / target).resolve() for target in LINK.findall(prose("README.md")) if "://" not in target}
    assert [name(document) for document in DOCUMENTS if document not in linked and document.name != "README.md"] == []


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    first = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert first is not None
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert first[1] == __version__ == project["version"]
