from __future__ import annotations
from pathlib import Path
from typing import Any
def write_table(path: Path, judged: Any, expected: Any) -> None: ...
