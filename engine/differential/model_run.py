"""Plays a script on the embedded core and writes down the trace that `vllm_worker` writes down for vLLM."""

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from engine.differential.scripts import Script
from engine.embedded.core import EngineCore
from engine.embedded.hashing import block_hashes, token_bytes
from engine.embedded.offload_state import Copies, OffloadState

Trace = dict[str, Any]


class Player:
    """One script on one core of class `core_class`."""

    def __init__(self, script: Script, version: str, core_class: type[EngineCore] = EngineCore) -> None:
        self.script = script
        self._started: list[Copies] = []
        started = self._started

        class Noting(core_class.offload_class):  # type: ignore[name-defined,misc]
            """Notes every transfer as it begins."""

            def load(self, *args: Any, **kwargs: Any) -> Copies:
                copies: Copies = super().load(*args, **kwargs)
                started.append(copies)
                return copies

            def store(self, state: OffloadState, *args: Any) -> tuple[Copies | None, bool]:
                copies, failed = super().store(state, *args)
                if copies is not None:
                    started.append(copies)
                return copies, failed

        watched = type(core_class.__name__, (core_class,), {"offload_class": Noting})
        self.core: EngineCore = watched(script.config(version))
        self._labels: dict[bytes, int] = {}

    def _label(self, number: int) -> None:
        asked = self.script.requests[number]
        unit = self.core.config.geometry.unit
        for key in block_hashes(token_bytes(asked.prompt + asked.outputs), unit, asked.salt):
            self._labels.setdefault(key, len(self._labels))

    def _key(self, key: bytes) -> list[int]:
        return [key[32] if len(key) > 32 else 0, self._labels[key[:32]]]

    def _l1(self) -> dict[int, list[int]]:
        return {block: self._key(key) for block, key in self.core.pool.contents().items()}

    def _l2(self) -> dict[tuple[int, ...], bool]:
        if self.core.tier is None:
            return {}
        return {tuple(self._key(key)): ready for key, ready in self.core.tier.contents().items()}

    def play(self, *, detail: bool = False, quiet: bool = False) -> Trace:
        """The whole script; the trace of every step, or without one if `quiet`."""
        script, core = self.script, self.core
        for number in () if quiet else range(len(script.requests)):
            self._label(number)
        events = sorted(script.events, key=lambda event: event[0])
        steps: list[Trace] = []
        held: dict[str, Any] = {}
        outputs: dict[str, int] = {}
        place = now = 0
        before_l1, before_l2 = self._l1(), self._l2()
        began = time.perf_counter()
        while place < len(events) or core.has_work:
            resets = []
            while place < len(events) and events[place][0] <= now:
                _at, what, argument = events[place]
                place += 1
                name = str(argument)
                if what == "add":
                    asked = script.requests[int(argument)]
                    core.add(name, asked.prompt, outputs=asked.outputs, cache_salt=asked.salt)
                    held[name] = core.request(name)
                    outputs[name] = 0
                elif what == "abort":
                    core.abort(name)
                else:
                    resets.append(core.reset_prefix_cache(bool(argument)))
            self._started.clear()
            emitted = [event.request_id for event in core.step()]
            for name in emitted:
                outputs[name] += 1
            now += 1
            if quiet:
                if now > script.max_steps:
                    break
                continue
            after_l1, after_l2 = self._l1(), self._l2()
            seen: Trace = {
                "scheduled": [[request.id, count] for request, count in core.last_scheduled],
                "sampled": emitted,
                "stores": self._transfers(store=True),
                "loads": self._transfers(store=False),
                "evicted_l1": [] if resets else sorted(k for b, k in before_l1.items() if after_l1.get(b) != k),
                "evicted_l2": [] if resets else sorted(list(k) for k in before_l2.keys() - after_l2.keys()),
            }
            if resets:
                seen["resets"] = resets
            state = {
                "l1": sorted([block, *key] for block, key in after_l1.items()),
                "l2": sorted([*key, int(ready)] for key, ready in after_l2.items()),
                "free": core.pool.free_order(),
            }
            seen.update(state if detail else {"state": digest(state)})
            steps.append(seen)
            before_l1, before_l2 = after_l1, after_l2
            if now > script.max_steps:
                break
        return {
            "steps": steps,
            "requests": {
                name: {
                    "local": request.local,
                    "external": request.external,
                    "preemptions": request.preemptions,
                    "outputs": outputs[name],
                }
                for name, request in held.items()
            },
            "finished": now <= script.max_steps,
            "capacity": core.tier.capacity if core.tier is not None else 0,
            "vetoes": self.core.offload.vetoes.total() if self.core.offload is not None else 0,
            "seconds": time.perf_counter() - began,
        }

    def _transfers(self, *, store: bool) -> list[Any]:
        return [
            [copies.owner.request_id, copies.blocks, sorted(self._key(key) for key in copies.keys)]
            for copies in self._started
            if copies.is_store is store
        ]


def digest(state: Mapping[str, object]) -> str:
    """A short name of everything that L1, L2 and the free queue hold."""
    return sha256(json.dumps(state, separators=(",", ":"), sort_keys=True).encode()).hexdigest()[:16]


def play(script: Script, version: str, *, core_class: type[EngineCore] = EngineCore, detail: bool = False) -> Trace:
    """The trace of `script` on the embedded core under `version`'s rules."""
    return Player(script, version, core_class).play(detail=detail)
