"""Plans: what a shape sends is decided by its options, before anything is sent."""

from __future__ import annotations

import pytest

from load.distributions import Fixed, LogNormal, Uniform, draw, share
from load.errors import LoadProblem
from load.limits import Limits, check_host
from load.options import LoadOptions, check, from_dict
from load.plan import Plan, part_of
from load.plans import plan_for
from load.shapes import KEEP, ONWARD, RETURN, SHAPES, Pressure, build

PRESSURE = Pressure(pool_tokens=200_000, seconds=30)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_gives_the_same_plan_again_and_another_one_for_another_seed(shape: str) -> None:
    first = build(shape, PRESSURE)
    assert build(shape, PRESSURE) == first
    others = [build(shape, Pressure(pool_tokens=200_000, seconds=30, seed=seed)) for seed in (1, 2, 3)]
    assert any(other != first for other in others)
    assert first.requests > 0
    assert first.prompt_bytes() > first.requests * 100


@pytest.mark.parametrize("shape", SHAPES)
def test_workers_share_a_plan_by_session_and_leave_nothing_out(shape: str) -> None:
    plan = build(shape, PRESSURE)
    parts = [part_of(plan, index, 3) for index in range(3)]
    for number, phase in enumerate(plan.phases):
        shared = sorted((t for part in parts for t in part[number].tracks), key=lambda t: t.session)
        assert shared == sorted(phase.tracks, key=lambda t: t.session)
    homes = [{t.session for phase in part for t in phase.tracks} for part in parts]
    assert not homes[0] & homes[1] | homes[1] & homes[2] | homes[0] & homes[2]


def test_evict_presses_past_l1_and_returns_once_to_all_that_filled_it() -> None:
    plan = build("evict", PRESSURE)
    tokens = {spec.number: (spec.base_bytes or 0) / 4 for spec in plan.sessions}
    phases = {phase.name: phase for phase in plan.phases}
    kept = next(spec.number for spec in plan.sessions if spec.role == "kept")
    filled = {t.session for t in phases["fill"].tracks} - {kept}
    back = [t.session for name in (RETURN, ONWARD) for t in phases[name].tracks]
    assert sorted(back) == sorted(filled)
    pressing = [[tokens[t.session] for t in phase.tracks] for phase in plan.phases if phase.name == "press"]
    assert sum(map(sum, pressing)) > 200_000, "or L1 would still hold them"
    assert max(map(sum, pressing)) < 0.6 * 200_000, "or the one that is kept would go too"
    order = [phase.name for phase in plan.phases]
    assert order[order.index("press") : order.index(RETURN)] == ["press", KEEP] * len(pressing)
    assert {t.session for phase in plan.phases if phase.name == KEEP for t in phase.tracks} == {kept}
    assert sum(tokens[n] for n in filled) < 0.3 * 200_000, "or their return would evict them anew"
    grown = [t.steps[0].bytes for t in phases[ONWARD].tracks]
    assert len(set(grown)) == len(grown), "next turns end all over a chunk"


@pytest.mark.parametrize(
    ("pressure", "says"),
    [
        (Pressure(), "--pool-tokens"),
        (Pressure(pool_tokens=10_000), "too small"),
        (Pressure(pool_tokens=200_000, factor=1.0), "--factor"),
        (Pressure(pool_tokens=200_000, mix="nobody"), "agents"),
    ],
)
def test_what_cannot_be_played_says_what_to_do(pressure: Pressure, says: str) -> None:
    with pytest.raises(LoadProblem, match=says):
        build("evict", pressure)
    with pytest.raises(LoadProblem, match="chat-only"):
        build("compaction-wave", Pressure(mix="chat-only"))


def test_load_beyond_this_machine_needs_the_host_said_twice() -> None:
    for host in ("http://127.0.0.1:3000", "http://localhost:1", "http://[::1]:1"):
        check_host(host, None)
    with pytest.raises(LoadProblem, match=r"--yes-load gw\.example"):
        check_host("http://gw.example:3000", None)
    with pytest.raises(LoadProblem, match="not the host"):
        check_host("http://gw.example:3000", "other.example")
    check_host("http://gw.example:3000", "GW.example")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "ftp://x"}, "--host"),
        ({"host": "http://u:secret@127.0.0.1"}, "credentials"),
        ({"users": 0}, "--users"),
        ({"max_seconds": float("nan")}, "--max-seconds"),
        ({"returning": 1.5}, "--returning"),
        ({"shape": "replay"}, "--trace"),
        ({"gate": "/nowhere/gate.toml"}, "no such file"),
        ({"run": "a b"}, "--run"),
        ({"shape": "flood"}, "no shape"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_without_their_secrets(given: dict[str, object], says: str) -> None:
    options = LoadOptions(**{"host": "http://127.0.0.1:1", **given})  # type: ignore[arg-type]
    with pytest.raises(LoadProblem, match=says) as problem:
        check(options)
    assert "secret" not in str(problem.value)


def test_options_survive_the_way_to_a_worker() -> None:
    options = LoadOptions(shape="evict", host="http://127.0.0.1:1", seed=7, l2_tokens=5)
    assert from_dict(options.as_dict()) == options
    plan: Plan = plan_for(options, 200_000)
    assert plan == plan_for(from_dict(options.as_dict()), 200_000)


def test_limits_end_a_run_by_time_requests_tokens_and_silence() -> None:
    limits = Limits(seconds=1_000, requests=3, tokens=10_000, failures=2)
    limits.note(prompt=100, sent_bytes=400)
    assert limits.reached is None
    limits.note(prompt=10**12, sent_bytes=4_000, status=0, failed=True)
    assert limits.sent_tokens == 100 + 2_000, "a target that miscounts does not end the run by its numbers"
    limits.note(prompt=None, sent_bytes=4_000, status=0, failed=True)
    assert limits.gone
    assert "3 requests" in str(limits.reached)
    assert "time bound" in str(Limits(seconds=0.0, requests=9, tokens=9).reached)
    used = Limits(seconds=9, requests=9, tokens=50)
    used.note(prompt=60, sent_bytes=4_000)
    assert "prompt tokens" in str(used.reached)


@pytest.mark.parametrize(
    ("statuses", "gone", "ends"),
    [((200, 200), False, True), ((502, 0), True, True), ((502, 200), False, True), ((429, 404), False, False)],
)
def test_failures_in_a_row_end_a_run_unless_they_are_refusals(
    statuses: tuple[int, int], gone: bool, ends: bool
) -> None:
    limits = Limits(seconds=1_000, requests=30, tokens=10_000, failures=2)
    for status in (statuses[0], *(200,) * 3):
        limits.note(prompt=None, sent_bytes=4, status=status, failed=status != 200)
    assert limits.reached is None
    for status in statuses:
        limits.note(prompt=None, sent_bytes=4, status=status, failed=True)
    assert limits.gone is gone
    assert limits.reached == ("2 requests in a row failed" if ends else None)


def test_draws_follow_from_their_key_alone() -> None:
    assert draw(LogNormal(8, 0.6, 2, 60), 1, "turns", 3) == draw(LogNormal(8, 0.6, 2, 60), 1, "turns", 3)
    many = [draw(LogNormal(8, 0.6, 2, 60), 1, "turns", n) for n in range(2_000)]
    assert sorted(many)[1_000] == pytest.approx(8, rel=0.1)
    assert min(many) >= 2
    assert max(many) <= 60
    assert {draw(Fixed(3), n) for n in range(9)} == {3}
    assert 4 < draw(Uniform(4, 5), "x") < 5
    assert all(0 < share("a", n) < 1 for n in range(500))


def test_a_soak_plans_as_many_sessions_as_its_requests_take_each_with_texts_of_its_own() -> None:
    few, many = (build("soak", Pressure(requests=n)) for n in (500, 60_000))
    assert few.open_end
    assert 500 <= few.requests < 600
    assert 60_000 <= many.requests < 60_100
    assert many.sessions[: len(few.sessions)] == few.sessions
    assert [spec.number for spec in many.sessions] == list(range(len(many.sessions)))
    assert [track.session for track in many.phases[0].tracks] == list(range(len(many.sessions)))
    assert not build("soak", Pressure(sessions=3)).open_end
