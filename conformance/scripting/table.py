"""Which request gets which script, and the release of those that hold."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from conformance.scripting.script import End, Hold, Script, ScriptedReply, Wait

_WORD = re.compile(rb"[A-Za-z0-9_.:-]*")
_HEAD = re.compile(rb"[A-Za-z0-9_.:-]*\Z")
_LONGEST = 96
"""Bytes a token may have before and after the marker."""


class ScriptTable:
    """Token -> scripted reply. A token is a word (letters, digits, `_ . : -`) that contains the run's marker.

    `put`, `drop` and `release` are for other threads than the recorder's loop.
    """

    def __init__(self) -> None:
        self._replies: dict[str, ScriptedReply] = {}
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def put(self, token: str, reply: ScriptedReply) -> None:
        """Answer requests that carry `token` with `reply` from here on."""
        with self._lock:
            self._held[token] = _Held()
        self._replies[token] = reply

    def drop(self, token: str) -> None:
        """Forget a token; requests that hold are released."""
        self._replies.pop(token, None)
        self.release(token)
        with self._lock:
            self._held.pop(token, None)

    def release(self, token: str) -> None:
        """Let every request that holds, or will, go on."""
        with self._lock:
            held = self._held.get(token)
        if held is not None:
            held.release()

    def find(self, body: bytes, marker: bytes | None) -> tuple[str, ScriptedReply] | None:
        """The reply of a request, by the first word of its body that contains the marker and has a reply."""
        if not self._replies or not marker:
            return None
        at = body.find(marker)
        while at >= 0:
            head = _HEAD.search(body, max(0, at - _LONGEST), at)
            tail = _WORD.match(body, at, at + len(marker) + _LONGEST)
            token = ((head.group() if head else b"") + (tail.group() if tail else b"")).decode()
            if token in self._replies:
                return token, self._replies[token]
            at = body.find(marker, at + len(marker))
        return None

    async def held(self, token: str) -> None:
        """Wait until `token` is released."""
        with self._lock:
            held = self._held.get(token)
        if held is not None:
            await held.wait()


class _Held:
    """An event that one thread sets and tasks of a loop wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def release(self) -> None:
        with self._lock:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._open:
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()


class ScriptAborted(Exception):
    """Raised at the end of a script that cuts its connection: the server then closes it without an end."""


async def play(
    script: Script,
    *,
    start: Callable[[int, list[tuple[bytes, bytes]]], Coroutine[Any, Any, None]],
    chunk: Callable[[bytes], Coroutine[Any, Any, None]],
    hold: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Give a script's answer up to its end, which is the caller's to send. Raises ScriptAborted for a cut one."""
    for pause in script.before:
        await _pause(pause, hold)
    await start(script.status, [(name.encode(), value.encode()) for name, value in script.headers])
    for step in script.steps:
        if isinstance(step, bytes):
            await chunk(step)
        else:
            await _pause(step, hold)
    if script.end is End.ABORT:
        raise ScriptAborted


async def _pause(step: Wait | Hold, hold: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if isinstance(step, Wait):
        await asyncio.sleep(step.seconds)
    else:
        await hold()
