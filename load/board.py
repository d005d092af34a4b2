"""What one process of the run has to do: its part of the plan, handed out phase by phase to its users."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.queue import Queue

from load.options import LoadOptions
from load.plan import Phase, Plan, SessionSpec, Track, part_of
from load.replaying import TraceTalk
from load.samples import Sample
from load.talk import Outgoing, Talk
from load.traces import read_trace

if TYPE_CHECKING:
    from load.sending import Sender


class Board:
    """Tracks of the open phase, the sessions they belong to, and who is told when a phase is done.

    `keep` gets every sample; `phase_done` the number of a phase whose last track of this process ended.
    """

    def __init__(self, keep: Callable[[Sample], None], phase_done: Callable[[int], None]) -> None:
        self._keep = keep
        self._phase_done = phase_done
        self._queue: Queue[tuple[int, Track]] = Queue()
        self.stopping = Event()
        self._clear()

    def _clear(self) -> None:
        self._phases: tuple[Phase, ...] = ()
        self._specs: dict[int, SessionSpec] = {}
        self._talks: dict[int, Talk] = {}
        self._tracks_left: Counter[int] = Counter()
        self._trace: TraceTalk | None = None
        self._opened = 0.0
        self._left = 0
        self.options: LoadOptions | None = None
        self.busy = 0

    def begin(self, plan: Plan, options: LoadOptions, index: int, count: int) -> None:
        """Take part `index` of `count` of a plan; whatever was there before is forgotten."""
        self._clear()
        while not self._queue.empty():
            self._queue.get_nowait()
        self.stopping.clear()
        self._phases = part_of(plan, index, count)
        self._tracks_left.update(track.session for phase in self._phases for track in phase.tracks)
        self._specs = {spec.number: spec for spec in plan.sessions}
        self.options = options

    def open(self, number: int) -> None:
        """Hand out phase `number`."""
        phase = self._phases[number]
        self._left = len(phase.tracks)
        self._opened = time.monotonic()
        for track in phase.tracks:
            self._queue.put((number, track))
        if not phase.tracks:
            self._phase_done(number)

    def stop(self) -> None:
        """Send nothing further; what is under way may end."""
        self.stopping.set()
        while not self._queue.empty():
            self._queue.get_nowait()

    def work(self, sender: Sender) -> None:
        """One track, when there is one. Blocks until then."""
        number, track = self._queue.get()
        self.busy += 1
        try:
            self._play(track, self._phases[number].name, sender)
        finally:
            self.busy -= 1
            self._tracks_left[track.session] -= 1
            if not self._tracks_left[track.session]:
                self._talks.pop(track.session, None)  # its text is of no more use, and a soak has thousands
            self._left -= 1
            if not self._left and not self.stopping.is_set():
                self._phase_done(number)

    def _play(self, track: Track, phase: str, sender: Sender) -> None:
        options = self.options
        assert options is not None, "begin() comes first"
        talk = self._talk(track.session, options)
        for step in track.steps:
            pause = step.pause if step.kind != "trace" else self._opened + step.pause - time.monotonic()
            if pause > 0 and self.stopping.wait(pause):
                return
            for _, group in groupby(talk.requests(step), key=attrgetter("group")):
                if self.stopping.is_set():
                    return
                self._send(list(group), phase, sender)

    def _talk(self, session: int, options: LoadOptions) -> Talk | TraceTalk:
        if options.trace is not None:
            self._trace = self._trace or TraceTalk(
                read_trace(options.trace, options.trace_requests), options.run, options.model, options.answer_tokens
            )
            return self._trace
        if session not in self._talks:
            self._talks[session] = Talk.begin(
                self._specs[session], seed=options.seed, run=options.run, model=options.model,
                max_tokens=options.answer_tokens,
            )  # fmt: skip
        return self._talks[session]

    def _send(self, group: list[Outgoing], phase: str, sender: Sender) -> None:
        if len(group) == 1:
            sender.send(group[0], phase, self._keep)
            return
        jobs = [gevent.spawn(sender.send, outgoing, phase, self._keep) for outgoing in group]
        try:
            gevent.joinall(jobs)
        finally:
            gevent.killall([job for job in jobs if not job.dead])
