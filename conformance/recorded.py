"""A request while it is being recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.wire.exchange import UpstreamRecord


@dataclass
class Slot:
    """One request being recorded; becomes an `UpstreamRecord` when it has ended."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int | None = None
    answer: list[bytes] = field(default_factory=list)
    complete: bool = False
    ended: bool = False
    dropped: bool = False
    script: str | None = None
    _record: UpstreamRecord | None = None

    def drop(self) -> int:
        """Forget the bodies; the number of bytes that frees."""
        freed = len(self.body) + sum(map(len, self.answer))
        self.dropped, self.body, self.answer = True, b"", []
        return freed

    def record(self) -> UpstreamRecord:
        """What is known by now."""
        if self._record is not None:
            return self._record
        record = UpstreamRecord(
            method=self.method,
            path=self.path,
            headers=self.headers,
            body=self.body,
            status=self.status,
            response_body=b"".join(self.answer),
            complete=self.complete,
            script=self.script,
        )
        if self.ended:
            self._record = record
        return record
