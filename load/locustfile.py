"""`locust -f load/locustfile.py --host URL [--shape NAME]`: the users and shapes under Locust's own command.

Everything of Locust's works: its web page, `--headless`, `--processes`, `--master` and `--worker` on many machines.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import gevent
from locust import FastHttpUser, constant, events, runners, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner

from conformance.wire.endpoint import API_KEY_VARIABLE
from load.conclusion import conclude
from load.coordinator import WORKER_PATIENCE_S, Leader, Worker
from load.errors import LoadProblem
from load.options import add_options, from_namespace
from load.processes import keep_freed_memory
from load.sending import Sender
from load.shapes import SHAPES
from load.web_tab import add_tab

runners.HEARTBEAT_LIVENESS = WORKER_PATIENCE_S


class State:
    """What this process holds for the environment it runs in."""

    worker: Worker | None = None
    leader: Leader | None = None


class AgentUser(FastHttpUser):
    """Plays tracks of the plan, one after the other."""

    wait_time = constant(0)
    concurrency = 8
    max_retries = 0

    def on_start(self) -> None:
        worker = State.worker
        assert worker is not None
        options = worker.board.options or from_namespace(self.environment.parsed_options, host=self.host)
        self.sender = Sender(
            self.host or "", self.client, api_key=os.environ.get(API_KEY_VARIABLE) or None, run=options.run or "load",
            timeout_s=options.timeout,
        )  # fmt: skip

    def on_stop(self) -> None:
        self.sender.close()

    @task
    def play(self) -> None:
        assert State.worker is not None
        State.worker.board.work(self.sender)


@events.init_command_line_parser.add_listener
def _options(parser: LocustArgumentParser) -> None:
    parser.add_argument("--shape", default="steady", choices=(*SHAPES, "replay"), help="how load is put on")
    add_options(parser)


@events.init.add_listener
def _init(environment: Environment, **_: Any) -> None:
    keep_freed_memory()
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        State.worker = Worker(environment)
        return
    local = runner.__class__.__name__ == "LocalRunner"
    State.worker = Worker(environment) if local else None
    State.leader = Leader(environment, State.worker, conclude)
    if State.worker is not None:
        State.worker.leader = State.leader
    if environment.web_ui is not None:
        add_tab(environment, State.leader)
    # Nothing has let the loop look at the clock since the imports: `-t` would end a run by as many seconds too early.
    gevent.get_hub().loop.update_now()


@events.test_start.add_listener
def _start(environment: Environment, **_: Any) -> None:
    leader = State.leader
    if leader is None:
        return
    try:
        parsed = environment.parsed_options
        assert parsed is not None, "Locust's own main parses them"
        users = int(getattr(parsed, "num_users", None) or 1)
        leader.start(from_namespace(parsed, host=environment.host or parsed.host or "", users=users))
    except LoadProblem as problem:
        leader.problem = problem
        sys.stderr.write(f"prefixproof-load: {problem}\n")
        environment.process_exit_code = int(problem.code)
        runner = environment.runner
        assert runner is not None
        if environment.web_ui is None:
            gevent.spawn(runner.quit)
        else:
            gevent.spawn(runner.stop)


@events.test_stop.add_listener
def _stopped(environment: Environment, **_: Any) -> None:  # noqa: ARG001
    if State.leader is not None:
        State.leader.cut_short()


@events.quitting.add_listener
def _quitting(environment: Environment, **_: Any) -> None:
    """A signal ends Locust's main: its exit code is read before it stops the users."""
    if State.leader is not None and environment.runner is not None:
        environment.runner.stop()
