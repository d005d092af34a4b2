"""Steps a core from an asyncio loop for as long as it has work, and tells each request of its tokens."""

import asyncio
import logging
from collections.abc import Callable

from engine.embedded.core import EngineCore
from engine.embedded.hashing import TokenIds
from engine.embedded.requests import TokenEvent

_log = logging.getLogger(__name__)

_STEPS_A_TURN = 8

Listener = Callable[[TokenEvent | Exception], None]


class Driver:
    """Owns the stepping of one core. Use from one loop only.

    `interval` seconds pass between steps. With 0 a few steps are made before the loop gets its turn: switching costs
    more than stepping.
    """

    def __init__(self, core: EngineCore, interval: float = 0.0) -> None:
        self.core = core
        self._interval = interval
        self._burst = 1 if interval else _STEPS_A_TURN
        self._listeners: dict[str, Listener] = {}
        self._task: asyncio.Task[None] | None = None
        self._serial = 0

    def submit(self, prompt: TokenIds, outputs: TokenIds, cache_salt: str | None, listener: Listener) -> str:
        """Queue a request and return its id. The listener gets each token, or one exception if the core breaks.

        Raises `ValueError` for a request the core refuses.
        """
        self._serial += 1
        request_id = f"request-{self._serial}"
        self.core.add(request_id, prompt, outputs=outputs, cache_salt=cache_salt)
        self._listeners[request_id] = listener
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return request_id

    def abort(self, request_id: str) -> None:
        """Drop a request whose client is gone; nothing happens if it is finished."""
        if self._listeners.pop(request_id, None) is not None:
            self.core.abort(request_id)

    def drop_all(self, error: Exception) -> None:
        """Tell every request in flight of `error`, and drop it."""
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener(error)
        for request_id in listeners:
            self.core.abort(request_id)

    async def close(self) -> None:
        """Stop stepping. Requests in flight are dropped unheard."""
        for request_id in list(self._listeners):
            self.abort(request_id)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self.core.has_work:
            try:
                for _ in range(self._burst):
                    self._tell(self.core.step())
            except Exception as error:
                _log.exception("the engine core failed; its requests are dropped")
                self.drop_all(error)
                return
            await asyncio.sleep(self._interval)

    def _tell(self, events: list[TokenEvent]) -> None:
        for event in events:
            listener = self._listeners.get(event.request_id)
            if event.result is not None:
                self._listeners.pop(event.request_id, None)
            if listener is not None:
                listener(event)
