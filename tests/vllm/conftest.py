"""These tests start real vLLM: `make test-vllm` collects them, plain `pytest tests` never needs vLLM."""

from __future__ import annotations

import os

WANTED = bool(os.environ.get("PREFIXPROOF_TEST_VLLM"))

collect_ignore_glob = [] if WANTED else ["test_*.py"]
