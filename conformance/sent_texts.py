"""Every text the suite itself sent: what a report may show whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.wire.exchange import Exchange

BETWEEN = "\0"
"""Stands in no text that is sent, so that no found text reaches over two of them."""


class SentTexts:
    """The strings of all requests of a growing list of exchanges, each once, names of members included."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._taken = 0
        self._texts: dict[str, None] = {}
        self._list: list[str] = []
        self._joined = ""

    def all(self) -> Sequence[str]:
        """The texts in the order they were first sent; later calls only append to them."""
        if self._taken == len(self._exchanges):
            return self._list
        for exchange in self._exchanges[self._taken :]:
            self._texts.update(dict.fromkeys(_strings(exchange.request)))
            if exchange.body is not None:
                self._texts.setdefault(exchange.body.decode("utf-8", "replace"))
        self._taken = len(self._exchanges)
        if len(self._list) < len(self._texts):
            new = list(self._texts)[len(self._list) :]
            self._joined += BETWEEN.join(["", *new])
            self._list += new
        return self._list

    def hold(self, text: str) -> bool:
        """True when `text` is part of one of them."""
        # Searched as one: there are thousands, and a report asks for hundreds.
        self.all()
        return text in self._joined


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
