"""An engine without a prefix cache behind a healthy gateway: nobody is accused, and nothing is green."""

from __future__ import annotations

from pathlib import Path

from vllm_rig import Judged, free_port, gateway, suite, vllm

from conformance.pair import ALIAS

CACHE_OFF = "--no-enable-prefix-caching"


def test_no_cache_is_no_verdict_on_the_gateway(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    judged: list[Judged] = []
    with vllm("cpu-tiny", tmp_path, CACHE_OFF) as server:
        words = ("--model", ALIAS, "--entry", "messages", "--engine", server.url)
        with gateway(server.url, "tiny") as url:
            judged.append(suite(url, tmp_path / "counts", *words))
        with gateway(f"http://{listen}", "tiny") as url:
            judged.append(suite(url, tmp_path / "bytes", *words, "--upstream-listen", listen))
    for run in judged:
        assert run.code == 12, run.output
        assert run.rules("fail", "warn", "suite error") == set(), run.output
        assert run.status("PIN-01") == {"inconclusive"}, run.output
    by_counts, by_bytes = judged
    assert "PFX-01" not in by_counts.rules("pass"), "no prefix was seen to be kept"
    assert by_bytes.status("PFX-01") == {"pass"}, "the bytes show it all the same"
