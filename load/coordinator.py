"""The run as a whole, in the process that leads it: phases across all workers, bounds, scrapes, the end.

Workers are told of the plan and of each phase, and send their samples as they come, by messages of their own on
Locust's connection. A single process is its own only worker.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import gevent
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from load.board import Board
from load.errors import LoadExit, LoadProblem
from load.limits import TIME_BOUND, Limits
from load.options import LoadOptions, from_dict
from load.plan import Plan
from load.plans import plan_for
from load.processes import own_cpu, process_cpu, say
from load.record import Point, Record
from load.samples import UNFINISHED, Sample
from load.sending import load_sdks
from load.talk import hash_of
from load.tiers import Tiers, scrape

TICK_S: Final = 1.0
GRACE_S: Final = 5.0
"""How long answers under way may take once the run is to end."""

WORKER_PATIENCE_S: Final = 15
"""Seconds without a sign of life after which a worker is lost; Locust's own 3 are soon over on a busy machine."""

_BEGIN, _OPEN, _STOP, _SAMPLES, _DONE = "pp-begin", "pp-open", "pp-stop", "pp-samples", "pp-done"
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"


class Worker:
    """This process's part: its board, and the samples on their way to whoever leads."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.board = Board(self._keep, self._phase_done)
        self.leader: Leader | None = None
        self._waiting: list[list[Any]] = []
        self._cpu = 0.0
        runner = environment.runner
        if isinstance(runner, WorkerRunner):
            runner.register_message(_BEGIN, self._on_begin)
            runner.register_message(_OPEN, self._on_open)
            runner.register_message(_STOP, self._on_stop)
            gevent.spawn(self._flush_for_ever)

    def begin(self, plan: Plan, options: LoadOptions, index: int, count: int) -> None:
        """Take part in a run."""
        load_sdks(plan)
        self._cpu = own_cpu()
        self.board.begin(plan, options, index, count)

    def _keep(self, sample: Sample) -> None:
        tell_locust(self.environment, sample)
        if self.leader is not None:
            self.leader.take(sample)
        else:
            self._waiting.append(sample.row())

    def _phase_done(self, number: int) -> None:
        if self.leader is not None:
            self.leader.worker_done(0, number)
        else:
            self._flush()
            self._send(_DONE, {"phase": number, "cpu": own_cpu() - self._cpu})

    def _flush_for_ever(self) -> None:
        while True:
            gevent.sleep(TICK_S / 2)
            self._flush()

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows:
            self._send(_SAMPLES, rows)

    def _send(self, kind: str, data: Any) -> None:
        runner = self.environment.runner
        assert isinstance(runner, WorkerRunner)
        runner.send_message(kind, data)

    def _on_begin(self, environment: Environment, msg: Any, **_: Any) -> None:  # noqa: ARG002
        data = msg.data
        options = from_dict(data["options"])
        self.begin(plan_for(options, data["pool_tokens"]), options, data["index"], data["count"])

    def _on_open(self, environment: Environment, msg: Any, **_: Any) -> None:  # noqa: ARG002
        self.board.open(msg.data["phase"])

    def _on_stop(self, environment: Environment, msg: Any, **_: Any) -> None:  # noqa: ARG002
        self.board.stop()
        self._flush()


class Leader:
    """Leads one run after the other; `finished` is called with each record."""

    def __init__(self, environment: Environment, worker: Worker | None, finished: Callable[[Record], LoadExit]) -> None:
        self.environment = environment
        self.worker = worker
        self.record: Record | None = None
        self.limits: Limits | None = None
        self.problem: LoadProblem | None = None
        self._finished = finished
        self._workers: list[str] = []
        self._open = -1
        self._done: set[str] = set()
        self._worker_cpu: dict[str, float] = {}
        self._phase_began: Tiers | None = None
        self._cpu: dict[str, float] = {}
        self._ending = False
        self._asked = 0.0  # when Locust started the run: its own bound on time counts from there, planning included
        runner = environment.runner
        if isinstance(runner, MasterRunner):
            runner.register_message(_SAMPLES, self._on_samples)
            runner.register_message(_DONE, self._on_done)

    def start(self, options: LoadOptions) -> None:
        """Plan a run, say what it will do, and begin. Raises `LoadProblem`."""
        self._asked = time.time()
        tiers = scrape(options.engine) if options.engine else None
        if options.engine and tiers is None:
            raise LoadProblem("--engine does not answer on /metrics: check the URL, or leave it out")
        if not options.run:
            options = from_dict({**options.as_dict(), "run": _new_run()})
        pool = tiers.pool_tokens if tiers is not None else None
        plan = plan_for(options, pool)
        if self.worker is not None:
            load_sdks(plan)
        record = Record(options, plan, pool_tokens=options.pool_tokens or pool)
        record.block_size = tiers.block_size if tiers is not None else None
        record.first, record.began = tiers, time.time()
        self.record, self._ending, self._open = record, False, -1
        self.limits = Limits(options.max_seconds, options.max_requests, options.max_tokens)
        self._cpu = process_cpu()
        say(announcement(record))
        runner = self.environment.runner
        if isinstance(runner, MasterRunner):
            self._workers = sorted(client.id for client in runner.clients.all)
            record.workers = len(self._workers)
            for index, client in enumerate(self._workers):
                data = {"options": options.as_dict(), "pool_tokens": pool, "index": index, "count": len(self._workers)}
                runner.send_message(_BEGIN, data, client_id=client)
        else:
            assert self.worker is not None
            self._workers = ["0"]
            self.worker.begin(plan, options, 0, 1)
        gevent.spawn(self._tick)
        gevent.spawn(self._next_phase)

    def take(self, sample: Sample) -> None:
        """Count one finished request, from wherever."""
        record, limits = self.record, self.limits
        if record is None or limits is None:
            return
        record.samples.add(sample)
        failed = sample.error is not None and sample.error != UNFINISHED
        limits.note(prompt=sample.prompt, sent_bytes=sample.sent_bytes, status=sample.status, failed=failed)
        if not self._ending:
            if limits.gone:
                self._end(f"the target failed {limits.failures} times in a row", gone=True)
            elif (bound := limits.reached) is not None:
                self._end(bound)

    def worker_done(self, worker: int | str, phase: int) -> None:
        """A worker finished its part of a phase."""
        if phase != self._open or self._ending:
            return
        self._done.add(str(worker))
        if len(self._done) == len(self._workers):
            gevent.spawn(self._next_phase)

    def _next_phase(self) -> None:
        record = self.record
        assert record is not None
        phases = record.plan.phases
        if self._open >= 0:
            record.marks.append((phases[self._open].name, self._phase_began, self._scrape(settle=True)))
        if self._open + 1 == len(phases):
            self._end(None)
            return
        gevent.sleep(phases[self._open + 1].pause)
        if self._over():
            return
        self._open += 1
        self._done = set()
        self._phase_began = record.marks[-1][2] if record.marks else record.first
        runner = self.environment.runner
        if isinstance(runner, MasterRunner):
            for client in self._workers:
                runner.send_message(_OPEN, {"phase": self._open}, client_id=client)
        else:
            assert self.worker is not None
            self.worker.board.open(self._open)

    def _scrape(self, *, settle: bool = False) -> Tiers | None:
        assert self.record is not None
        engine = self.record.options.engine
        if engine is None:
            return None
        if settle:
            gevent.sleep(0.05)  # the last step's copies to L2 are made, and counted, by the step after it
        return scrape(engine)

    def _tick(self) -> None:
        record = self.record
        assert record is not None
        while not self._ending:
            self._point(record)
            say(progress(record, self.phase_name), end="\r" if sys.stderr.isatty() else "\n", every=5.0)
            gevent.sleep(TICK_S)
            if self._over():
                return
            limits = self.limits
            if limits is not None and (bound := limits.reached) is not None:
                self._end(bound)
            elif self._workers_lost():
                self._end("a worker was lost")

    def _over(self) -> bool:
        """Whether the run is ending: other greenlets decide that, so it is asked anew after every wait."""
        return self._ending

    def _point(self, record: Record) -> None:
        sums = {entry: record.samples.total(entry=entry) for entry in record.samples.values(1)}
        counted = {entry: (tally.rated, tally.cached) for entry, tally in sums.items()}
        record.series.append(Point(time.time() - record.began, self.phase_name, counted, self._scrape()))

    def _workers_lost(self) -> bool:
        runner = self.environment.runner
        if not isinstance(runner, MasterRunner):
            return False
        known = {client.id for client in runner.clients.all} - {client.id for client in runner.clients.missing}
        return not set(self._workers) <= known

    @property
    def phase_name(self) -> str:
        """Name of the open phase."""
        record = self.record
        if record is None or not 0 <= self._open < len(record.plan.phases):
            return ""
        return record.plan.phases[self._open].name

    def _end(self, why: str | None, *, gone: bool = False) -> None:
        """End the run: `why` is None when the plan was played."""
        if self._ending or self.record is None:
            return
        self._ending = True
        self.record.stopped, self.record.target_gone = why, gone
        gevent.spawn(self._wind_down)

    def _wind_down(self) -> None:
        record, runner = self.record, self.environment.runner
        assert record is not None
        assert runner is not None
        if isinstance(runner, MasterRunner):
            runner.send_message(_STOP)
        elif self.worker is not None:
            self.worker.board.stop()
        until = time.monotonic() + (GRACE_S if record.stopped is not None else 1.0)
        while time.monotonic() < until and self._busy():
            gevent.sleep(0.05)
        runner.stop()
        gevent.sleep(TICK_S if isinstance(runner, MasterRunner) else 0)
        self._conclude(record)
        if self.environment.web_ui is None:
            runner.quit()

    def cut_short(self) -> None:
        """Locust has stopped its users: by its own bound on time, a button or a signal. What was measured is told."""
        record = self.record
        if record is None or self._ending:
            return
        self._ending = True
        parsed = self.environment.parsed_options
        bound = getattr(parsed, "run_time", None)
        by_time = bound and time.time() - self._asked >= bound - TICK_S
        record.stopped = (
            f"{TIME_BOUND} of {bound:g} s (--run-time)" if by_time else "cut short: Locust was told to stop"
        )
        if self.worker is not None:
            self.worker.board.stop()
        self._conclude(record)

    def _conclude(self, record: Record) -> None:
        record.seconds = time.time() - record.began
        record.last = self._scrape(settle=True)
        self._point(record)
        after = process_cpu()
        record.cpu = {name: after[name] - self._cpu.get(name, 0.0) for name in after}
        record.cpu["client"] = record.cpu.get("client", 0.0) + sum(self._worker_cpu.values())
        self.environment.process_exit_code = int(self._finished(record))

    def _busy(self) -> bool:
        return (self.worker is not None and self.worker.board.busy > 0) or self.worker is None

    def _on_samples(self, environment: Environment, msg: Any, **_: Any) -> None:  # noqa: ARG002
        from load.samples import from_row

        for row in msg.data:
            self.take(from_row(row))

    def _on_done(self, environment: Environment, msg: Any, **_: Any) -> None:  # noqa: ARG002
        self._worker_cpu[msg.node_id] = msg.data["cpu"]
        self.worker_done(msg.node_id, msg.data["phase"])


def tell_locust(environment: Environment, sample: Sample) -> None:
    """A finished request as Locust's own events: its whole time, and under names of their own what it waited for."""
    error = RuntimeError(sample.error) if sample.error is not None else None
    name = f"{sample.entry} {sample.kind}"
    fire = environment.events.request.fire
    fire(
        request_type="POST", name=name, response_time=sample.total * 1000, response_length=sample.output or 0,
        exception=error, context={},
    )  # fmt: skip
    if sample.ttft is not None:
        fire(
            request_type="first token", name=name, response_time=sample.ttft * 1000, response_length=0, exception=None,
            context={},
        )  # fmt: skip
    if sample.gap_mean is not None:
        fire(
            request_type="token gap", name=name, response_time=sample.gap_mean * 1000, response_length=0,
            exception=None, context={},
        )  # fmt: skip


def _new_run() -> str:
    number = hash_of(os.urandom(8).hex())
    return "".join(_LETTERS[(number >> 5 * i) % len(_LETTERS)] for i in range(6))


def announcement(record: Record) -> str:
    """What the run is about to do."""
    plan, options = record.plan, record.options
    about = "at most" if plan.open_end else "about"
    lines = [f"{plan.shape}: {len(plan.sessions):,} sessions, {about} {plan.requests:,} requests and "
             f"{plan.prompt_bytes() // 4:,} prompt tokens to {options.host}, {plan.users} at a time"]  # fmt: skip
    lines += [f"  {phase.name}: {phase.says}" for phase in plan.phases if phase.says]
    pool = f"L1 holds {record.pool_tokens:,} tokens; " if record.pool_tokens else ""
    lines.append(
        f"  {pool}bounds: {options.max_seconds:g} s, {options.max_requests:,} requests, "
        f"{options.max_tokens:,} prompt tokens; seed {options.seed}, run {options.run}"
    )
    lines += [f"  note: {note}" for note in plan.notes]
    return "\n".join(lines)


def progress(record: Record, phase: str) -> str:
    """One line on how far the run is."""
    total = record.samples.total()
    rate = "-" if total.hit_rate is None else f"{total.hit_rate:.1%}"
    return (
        f"{time.time() - record.began:5.0f} s  {phase}: {record.how_many}, "
        f"{total.prompt:,} prompt tokens, hit rate {rate}, {total.errors:,} errors   "
    )
