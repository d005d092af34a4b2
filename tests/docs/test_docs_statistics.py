"""docs/statistics.md shows the thresholds as they are, each with its meaning and its source."""

from __future__ import annotations

import tomllib

import pytest
from docs_text import ROOT, read

from conformance.aa.__main__ import put
from conformance.aa.thresholds_table import thresholds_table
from conformance.errors import PrefixproofError
from conformance.evidence.thresholds import thresholds_text

PAGE = ROOT / "docs" / "statistics.md"


def test_the_page_holds_the_table_the_writer_makes() -> None:
    page = read(PAGE)
    assert put(page, "thresholds", thresholds_table(thresholds_text())) == page


def test_every_threshold_has_its_row_with_its_value() -> None:
    data = tomllib.loads(thresholds_text())
    del data["source"]
    for section, values in data.items():
        for name, value in values.items():
            assert f"| `{section}.{name}` | {value} | " in read(PAGE)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("[qualify]\n", "[qualify]\nunexplained = 1\n", "qualify.unexplained lacks"),
        ("[qualify]\n", "[qualify]\nunsourced = 1  # said\n", "qualify.unsourced lacks"),
        ("[source.pinned]\n", '[source.pinned]\nghost = "x"\n', "no threshold: pinned.ghost"),
    ],
)
def test_a_threshold_nobody_explains_cannot_be_written(old: str, new: str, named: str) -> None:
    with pytest.raises(PrefixproofError, match=named):
        thresholds_table(thresholds_text().replace(old, new))


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(PrefixproofError, match="<!-- measured -->"):
        put("a page", "measured", "| a |")
