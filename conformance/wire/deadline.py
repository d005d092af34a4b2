"""Bounds on a whole answer. A read timeout alone never ends a stream that keeps sending pings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""No answer of a few hundred tokens is as long; a stream without end would fill the memory before its time is up."""


def bound_answers(module: ModuleType, seconds: float) -> Callable[[Any], None]:
    """A response hook for a client of `module` (httpx or httpx2): `ReadTimeout` once `seconds` are over, or for more
    than MAX_ANSWER_BYTES: a target that does not end its answers is in trouble, however fast it is.

    A hook and not a transport: a client that is given a transport ignores the environment's proxies.
    """

    base: Any = module.SyncByteStream

    class Bounded(base):  # type: ignore[misc] # the base is one of two libraries' classes
        def __init__(self, stream: Any) -> None:
            self._stream = stream
            self._until = time.monotonic() + seconds

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for piece in self._stream:
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise module.ReadTimeout(f"the answer is over {MAX_ANSWER_BYTES // 1024**2} MiB and goes on")
                if time.monotonic() > self._until:
                    raise module.ReadTimeout(f"the answer took over {seconds:g} s")
                yield piece

        def close(self) -> None:
            self._stream.close()

    def hook(response: Any) -> None:
        response.stream = Bounded(response.stream)

    return hook
