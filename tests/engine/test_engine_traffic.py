"""A file of requests on the embedded core, as `python -m engine.differential --traffic` serves it beside vLLM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.differential.traffic import TrafficError, embedded, read

ROWS = (
    {"prompt": 40, "block": 16, "ids": [1, 2]},
    {"prompt": 60, "block": 16, "ids": [1, 2, 3]},
    {"prompt": 64, "block": 16, "ids": [1, 9, 3, 7]},
    {"prompt": 40, "block": 16, "ids": [1, 2]},
)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "traffic.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("pool", "l2", "found"),
    [
        (1_600, 0, [[0, 0], [32, 0], [16, 0], [32, 0]]),
        # Five blocks of 16, all of which the third prompt takes; L2 gives back what it pushed out.
        (80, 0, [[0, 0], [32, 0], [16, 0], [16, 0]]),
        (80, 1_600, [[0, 0], [32, 0], [16, 0], [16, 16]]),
    ],
)
def test_prompts_find_what_their_ids_share(tmp_path: Path, pool: int, l2: int, found: list[list[int]]) -> None:
    traffic = read(written(tmp_path, *map(json.dumps, ROWS)))
    assert traffic.tokens == 204
    assert embedded(traffic.script(pool, l2), traffic.served, "0.32.0")[1] == found


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "holds no request"),
        (("{}",), r":1: want prompt, block and ids"),
        ((json.dumps(ROWS[0]), "nonsense"), r":2: want prompt, block and ids"),
        ((json.dumps({**ROWS[0], "ids": [1]}),), "an id for each full block"),
        ((json.dumps(ROWS[0]), json.dumps({**ROWS[0], "block": 8, "ids": [1] * 5})), "one block size for all"),
    ],
)
def test_what_is_no_traffic_is_said_with_its_line(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(TrafficError, match=says):
        read(written(tmp_path, *lines))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
