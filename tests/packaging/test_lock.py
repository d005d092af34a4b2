"""`requirements.lock` holds all that `pyproject.toml` asks for, in versions that satisfy it."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINES = [line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
LOCK = {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in LINES)}
EXTRAS = PROJECT["project"]["optional-dependencies"]
ASKED = [
    Requirement(text)
    for text in [
        *PROJECT["project"]["dependencies"],
        *EXTRAS["dev"],
        *EXTRAS["load"],
        *PROJECT["build-system"]["requires"],
    ]
]


def test_a_line_is_a_name_and_a_version_and_nothing_else() -> None:
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line
    names = [canonicalize_name(line.split("==")[0]) for line in LINES]
    assert names == sorted(names)
    assert "prefixproof" not in LOCK


@pytest.mark.parametrize("requirement", ASKED, ids=str)
def test_what_the_project_asks_for_is_locked_and_satisfied(requirement: Requirement) -> None:
    assert requirement.specifier.contains(LOCK[canonicalize_name(requirement.name)], prereleases=True)


def test_what_the_locked_packages_ask_for_is_locked_and_satisfied() -> None:
    for name in LOCK:
        for text in metadata.distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                version = LOCK.get(canonicalize_name(requirement.name))
                assert version is not None, f"{name} asks for {requirement}"
                assert requirement.specifier.contains(version, prereleases=True), f"{name} asks for {requirement}"
