"""The gateway's own usage log: one JSON line per request with the upstream's raw usage.

Billing reads this, so neither switches nor faults touch it. It holds no prompt, no answer and no key.
"""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .jsontext import dumps

logger = logging.getLogger("reference_gateway.usage")


def log_usage(record: dict[str, Any]) -> None:
    """Write one record, stamped with the time; free of cost where nobody listens."""
    if logger.isEnabledFor(logging.INFO):
        line = dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **record})
        logger.info("%s", line.decode("utf-8", "replace"))


def write_usage_to(path: Path) -> logging.Handler:
    """Append records to a file; the caller removes and closes the handler.

    Raises:
        OSError: the file cannot be opened.
    """
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return handler
