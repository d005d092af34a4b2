"""Names the plugin for a checkout that is not installed; where it is installed, pytest sees it is already there."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["prefixproof_plugin", "pytester"]

# They start real vLLM: `make test-vllm` collects them, `pytest tests` never needs vLLM.
collect_ignore = [] if os.environ.get("PREFIXPROOF_TEST_VLLM") else ["tests/vllm"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    from prefixproof_plugin import add_short_options

    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    add_short_options(config, parser)
