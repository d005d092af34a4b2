from __future__ import annotations

import pytest

from conformance.errors import TargetProblem, UsageProblem
from conformance.wire.endpoint import Endpoint, base_url, is_loopback


@pytest.mark.parametrize(
    ("given", "base", "noted"),
    [
        ("http://gw:3000", "http://gw:3000", False),
        (" http://gw:3000/ ", "http://gw:3000", False),
        ("http://gw:3000/v1", "http://gw:3000", True),
        ("http://gw:3000/v1/", "http://gw:3000", True),
        ("https://gw/llm/v1/messages", "https://gw/llm", True),
        ("http://gw:3000/v1/chat/completions", "http://gw:3000", True),
        ("http://[::1]:3000/v1", "http://[::1]:3000", True),
        ("http://gw/api", "http://gw/api", False),
    ],
)
def test_one_target_under_all_its_urls(given: str, base: str, noted: bool) -> None:
    url, note = base_url(given)
    assert url == base
    assert (note is not None) == noted
    assert note is None or base in note


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("gw", "http://gw"),
        ("ftp://gw", "no http(s) URL"),
        ("", "write it like"),
        ("http://", "no http(s) URL"),
        ("http://gw:99999", "no URL"),
        ("http://gw:0", "port 0"),
        ("http://gw/v1?key=abc", "only its base"),
    ],
)
def test_what_is_no_url_is_said_with_what_to_write(given: str, says: str) -> None:
    with pytest.raises(TargetProblem) as problem:
        base_url(given)
    assert says in str(problem.value)
    assert "abc" not in str(problem.value)


@pytest.mark.parametrize("given", ["http://me:hunter2@gw:3000", "ftp://me:hunter2@gw", "http://me:hunter2@gw:port"])
def test_a_password_in_the_url_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(TargetProblem, match="--api-key") as problem:
        base_url(given)
    assert "hunter2" not in str(problem.value)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
    ],
)
def test_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) == loopback
    assert Endpoint(url=url, api_key=None, timeout_s=1, run_id="r").client_options["trust_env"] == (not loopback)


@pytest.mark.parametrize("key", ["sk-a\nb", " sk-a", "schlüssel"])
def test_a_key_that_fits_no_header_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        Endpoint(url="http://gw", api_key=key, timeout_s=1, run_id="r")
    assert key.strip() not in str(problem.value)


def test_a_key_is_not_part_of_the_repr() -> None:
    assert "sk-secret" not in repr(Endpoint(url="http://gw", api_key="sk-secret", timeout_s=1, run_id="r"))
