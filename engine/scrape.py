"""A Prometheus scrape of vLLM, parsed: families, their samples, and one replica's values by name and label.

Absent is not zero: a family that is not declared at all is unknown to this engine, one that is declared and has no
sample has not counted yet. vLLM declares the series of its host tier at start and gives them a first sample at the
first transfer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 10.0
MAX_BYTES = 64 * 1024 * 1024

Labels = tuple[tuple[str, str], ...]


class MetricsError(Exception):
    """A scrape that cannot be had or read; the message says what to do."""


@dataclass(frozen=True, order=True)
class Replica:
    """One engine of one server: vLLM labels every series with both."""

    model: str
    engine: str

    def __str__(self) -> str:
        return f"{self.model} engine {self.engine}"


@dataclass(frozen=True)
class Scrape:
    """One scrape. `samples` maps a sample's name (`vllm:prefix_cache_hits_total`) to labels and values."""

    declared: frozenset[str]
    """Names of families, without `_total`."""
    samples: Mapping[str, tuple[tuple[Labels, float], ...]]
    where: str = "a scrape"

    def replicas(self) -> tuple[Replica, ...]:
        """Those that any `vllm:` series speaks of."""
        found = {
            Replica(dict(labels).get("model_name", ""), dict(labels).get("engine", "0"))
            for name, rows in self.samples.items()
            if name.startswith("vllm:")
            for labels, _ in rows
            if "model_name" in dict(labels)
        }
        return tuple(sorted(found))

    def value(self, name: str, replica: Replica | None = None, **labels: str) -> float | None:
        """The sum of a sample's rows that carry these labels; None where there is no such row.

        A counter is named without `_total`. Raises nothing.
        """
        rows = self.samples.get(f"{name}_total", self.samples.get(name, ()))
        found = [value for row, value in rows if _matches(dict(row), replica, labels)]
        return sum(found) if found else None

    def is_declared(self, name: str) -> bool:
        """True when the engine has this family, counted yet or not."""
        return name in self.declared

    def label(self, name: str, label: str, replica: Replica | None = None) -> str | None:
        """A label's value on the first row of an information series."""
        for row, _ in self.samples.get(name, ()):
            held = dict(row)
            if label in held and (replica is None or held.get("engine", replica.engine) == replica.engine):
                return held[label]
        return None


def parse(text: str, where: str = "a scrape") -> Scrape:
    """Read the text of a scrape. Raises `MetricsError` when it is none, or holds no series of vLLM."""
    declared: set[str] = set()
    samples: dict[str, list[tuple[Labels, float]]] = {}
    try:
        for family in text_string_to_metric_families(text):
            # The parser strips `_total` only where the family is declared with it.
            declared.add(family.name.removesuffix("_total"))
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((tuple(sorted(sample.labels.items())), sample.value))
    except ValueError as error:
        raise MetricsError(f"{where}: no Prometheus metrics ({str(error)[:80]}): name an engine's /metrics") from None
    if not any(name.startswith("vllm:") for name in declared):
        raise MetricsError(f"{where}: metrics, but none of vLLM's (vllm:...): name the engine's own /metrics")
    return Scrape(frozenset(declared), {name: tuple(rows) for name, rows in samples.items()}, where)


def fetch(source: str, *, timeout_s: float = TIMEOUT_S) -> Scrape:
    """A scrape from a URL (`/metrics` is added where the path is empty) or from a file. Raises `MetricsError`."""
    if "://" not in source:
        try:
            return parse(Path(source).read_text(encoding="utf-8"), source)
        except OSError as error:
            raise MetricsError(f"{source}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise MetricsError(f"{source}: no text: save what the engine's /metrics answers") from None
    shown = re.sub(r"//[^/@]*@", "//", source.partition("?")[0])
    try:
        url = httpx.URL(source)
        with httpx.Client(trust_env=False, timeout=timeout_s, follow_redirects=True) as client:
            answer = client.get(url.copy_with(path="/metrics") if url.path in ("", "/") else url)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise MetricsError(f"{shown} does not answer ({type(error).__name__})") from None
    if answer.status_code != httpx.codes.OK:
        raise MetricsError(f"{shown} answers {answer.status_code}: name the engine's own /metrics")
    if len(answer.content) > MAX_BYTES:
        raise MetricsError(f"{shown} is larger than {MAX_BYTES // 2**20} MiB")
    return parse(answer.text, shown)


def _matches(row: Mapping[str, str], replica: Replica | None, labels: Mapping[str, str]) -> bool:
    if replica is not None and (row.get("model_name"), row.get("engine", "0")) != (replica.model, replica.engine):
        return False
    return all(row.get(name) == value for name, value in labels.items())
