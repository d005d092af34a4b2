"""The embedded core against what vLLM's own code did: traces recorded from several releases, replayed."""

from collections import Counter
from pathlib import Path

import pytest

from engine.differential.compare import coverage
from engine.differential.generate import GROUP_SETS, random_script
from engine.differential.model_run import play
from engine.differential.mutants import MUTANTS
from engine.differential.run import first_catch
from engine.differential.scripts import load
from engine.differential.vectors import VECTORS, condensed, read
from engine.embedded.core import EngineCore

FILES = sorted(VECTORS.glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_step_is_as_vllm_took_it(path: Path) -> None:
    version, traces = read(path)
    covered: Counter[str] = Counter()
    sets: Counter[str] = Counter()
    for script, real in traces:
        trace = play(script, version)
        assert condensed(trace) == real["condensed"], f"{script.name}: {script.title}"
        covered += coverage(trace, script)
        sets[script.name.rsplit("/", 1)[0]] += 1
    assert set(sets) == {kind.name for kind in GROUP_SETS}
    # Vectors that exercise nothing would agree with anything.
    for name in ("evicting", "L2 evicting", "loading", "preempting", "aborting", "branching", "concurrent", "vetoed"):
        assert covered[name] >= 3, f"{name}: {covered}"


def test_vectors_are_shipped_and_small() -> None:
    assert "vllm-0.32.0.jsonl.gz" in {path.name for path in FILES}
    assert sum(path.stat().st_size for path in FILES) <= 300_000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_core_with_a_fault_is_caught(mutant: type[EngineCore]) -> None:
    for path in reversed(FILES):
        version, traces = read(path)
        if first_catch(mutant, traces, version) is not None:
            return
    pytest.fail(f"{mutant.__name__} agrees with vLLM everywhere")


def test_a_script_survives_its_text() -> None:
    for kind in GROUP_SETS:
        script = random_script(kind, 7)
        assert load(script.dump()).dump() == script.dump()
        assert random_script(kind, 7) == script
