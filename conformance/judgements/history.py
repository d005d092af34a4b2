"""PFX-06, 11, 12, 15 and CON-02: what a conversation's history becomes, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.diagnosis.items import Item, Request
from conformance.judgements.translated import finding, gone, got, shown, unseen
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.observe.probe_bodies import NOTED_TURNS, NOTES, RESULT_TEXTS, THOUGHTS, TWO_TEXTS
from conformance.observe.probe_texts import PICTURE_HEAD
from conformance.observe.translation_probes import Translated
from conformance.verdicts import Change, Table, Vantage, Verdict

Place = tuple[int, int]
Problem = tuple[str, str, Change]
"""Code, what is wrong, and the change that shows it."""

_MOST = 12
"""Problems of CON-02 that a report's table lists."""

_SHOWN = 80
"""Characters of a text in that table."""

_IN_SENT_ORDER = ("ask 1", "ask 2", "read", "weigh")
_IN_CALL_ORDER = ("read", "weigh", "ask 1", "ask 2")


def later_system_messages_stay(observed: Observed) -> Verdict:
    """PFX-06: system messages behind the first turn stand where the client put them."""
    judging = Judging("PFX-06", observed.entry, Vantage.UPSTREAM)
    before, after = observed.translation.noted
    if silent := unseen(judging, before, after):
        return silent
    request = got(after)
    order = [*NOTED_TURNS[:3], NOTES[0], *NOTED_TURNS[3:], NOTES[1]]
    places = {text: request.find(text) for text in order}
    for text in NOTED_TURNS:
        if places[text] is None:
            return judging.undecided("a message of the conversation does not arrive (see CON-01)", 2)
    first_turn = places[NOTED_TURNS[0]]
    assert first_turn is not None
    for at, text in enumerate(order):
        if text not in NOTES:
            continue
        place = places[text]
        said = f"message {at} (system)"
        if place is None:
            return finding(
                judging, observed, after, 2, gone(said, text, "content dropped"),
                code="system-message-dropped",
                says="a later system message does not arrive",
            )  # fmt: skip
        kind = "system message hoisted" if place < first_turn else "system message moved"
        if any(_at(places, other) > place for other in order[:at]) or any(
            _at(places, other) < place for other in order[at + 1 :] if other not in NOTES
        ):
            item = request.items[place[0]]
            change = Change(said, place[1], text, f"at {item.place}: {shown(item.text, observed)}", kind)
            return finding(
                judging, observed, after, 2, change,
                code="system-message-moved",
                says="a later system message is not where the client put it",
                ruled_out=("the client, because it only appended the message",),
            )  # fmt: skip
    return judging.passes("two later system messages, one at the very end, stand where the client put them", 2)


def _at(places: dict[str, Place | None], text: str) -> Place:
    return places[text] or (-1, -1)


def call_ids_are_stable(observed: Observed) -> Verdict:
    """PFX-11: the replay of a history carries the same ids; they may be renamed, always alike."""
    judging = Judging("PFX-11", observed.entry, Vantage.UPSTREAM)
    t = observed.translation
    probes = (t.plain, t.again, t.later)
    if silent := unseen(judging, *probes):
        return silent
    ids = [[item.id for item in got(probe).of("tool call")] for probe in probes]
    if not ids[0] or len({len(found) for found in ids}) > 1:
        return judging.undecided("the tool calls do not arrive as calls in every turn (see CON-02)", 3)
    for probe, found in zip(probes[1:], ids[1:], strict=True):
        for call, before, after in zip(got(probe).of("tool call"), ids[0], found, strict=True):
            if before != after:
                change = Change(call.place, 0, _masked(before), _masked(after), "tool-call id", "the value of `id`")
                which = "the same request again" if probe is t.again else "the next turn"
                return finding(
                    judging, observed, probe, 3, change,
                    code="ids-vary",
                    says=f"{which} carries other ids for the same calls",
                    ruled_out=("the client, because it sent the same ids each time",),
                )  # fmt: skip
    return judging.passes(f"{len(ids[0])} calls keep their ids in 3 requests", 3)


def _masked(call_id: str) -> str:
    """An id by its head: what is behind it is the gateway's own."""
    return f"{call_id[:12]}…{call_id[-4:]}" if len(call_id) > 18 else call_id


def results_keep_their_order(observed: Observed) -> Verdict:
    """PFX-12: parallel results come as sent, or always in the order of their calls; texts come as sent."""
    judging = Judging("PFX-12", observed.entry, Vantage.UPSTREAM)
    t = observed.translation
    probes = (t.plain, t.again, t.later)
    if silent := unseen(judging, *probes):
        return silent
    orders = []
    for probe in probes:
        request = got(probe)
        places = {name: request.find(RESULT_TEXTS[name]) for name in RESULT_TEXTS}
        if any(place is None for place in places.values()):
            return judging.undecided("not every tool result arrives (see CON-02)", 3)
        orders.append(tuple(sorted(places, key=lambda name: _at(places, name))))
        halves = [request.find(text) for text in TWO_TEXTS]
        if None in halves:
            return judging.undecided("not every text arrives (see CON-01)", 3)
        if halves != sorted(halves, key=lambda place: place or (-1, -1)):
            change = Change("the texts of one message", 0, TWO_TEXTS[0], TWO_TEXTS[1], "texts re-ordered")
            return finding(judging, observed, probe, 3, change, code="texts-reordered")
    wanted = [order for order in orders if order not in (_IN_SENT_ORDER, _IN_CALL_ORDER)]
    if wanted:
        change = Change(
            "parallel tool results", 0, ", ".join(_IN_SENT_ORDER), ", ".join(wanted[0]), "results re-ordered"
        )
        return finding(
            judging, observed, probes[orders.index(wanted[0])], 3, change,
            code="results-reordered",
            says="parallel tool results come neither as sent nor in the order of their calls",
        )  # fmt: skip
    if len(set(orders)) > 1:
        other = next(i for i, order in enumerate(orders) if order != orders[0])
        change = Change(
            "parallel tool results", 0, ", ".join(orders[0]), ", ".join(orders[other]), "results re-ordered"
        )
        return finding(
            judging, observed, probes[other], 3, change,
            code="results-order-varies",
            says="the same parallel tool results come in another order one turn later",
            ruled_out=("the client, because it sent them in one order each time",),
        )  # fmt: skip
    how = "as sent" if orders[0] == _IN_SENT_ORDER else "in the order of their calls"
    return judging.passes(f"parallel results come {how}, alike in 3 requests; texts come as sent", 3)


def old_thinking_is_treated_alike(observed: Observed) -> Verdict:
    """PFX-15: what was kept of earlier reasoning in one turn is kept in the next, and what was dropped stays out."""
    judging = Judging("PFX-15", observed.entry, Vantage.UPSTREAM)
    _, before, after = observed.translation.thinking
    if silent := unseen(judging, before, after):
        return silent
    texts = [item.text for kind in ("user", "assistant") for item in before.sent.of(kind)]
    if any(got(probe).find(text) is None for probe in (before, after) for text in texts if text not in THOUGHTS):
        return judging.undecided("the history does not arrive whole (see CON-01)", 2)
    kept = [[got(probe).find(thought) is not None for thought in THOUGHTS[:2]] for probe in (before, after)]
    for at, (then, now) in enumerate(zip(*kept, strict=True)):
        if then == now:
            continue
        sides = (THOUGHTS[at], "(nothing)") if then else ("(nothing)", THOUGHTS[at])
        kind = "thinking removed" if then else "thinking added"
        return finding(
            judging, observed, after, 2, Change(f"thinking of assistant message {at + 1}", 0, *sides, kind),
            code="thinking-by-position",
            says="earlier reasoning is treated by its position: one turn later it is treated otherwise",
            ruled_out=("the client, because it sent the same thinking in both turns",),
        )  # fmt: skip
    how = {(True, True): "kept", (False, False): "left out"}.get((kept[1][0], kept[1][1]), "kept by kind of message")
    return judging.passes(f"earlier reasoning is {how}, alike in both turns", 2)


def results_follow_their_calls(observed: Observed) -> Verdict:
    """CON-02: results stand right behind their calls, the message's text behind them; what they are made of arrives."""
    judging = Judging("CON-02", observed.entry, Vantage.UPSTREAM)
    t = observed.translation
    if silent := unseen(judging, t.plain):
        return silent
    request = got(t.plain)
    n = 1
    problems = _dropped(request)
    if not problems:  # the others look for the results' places
        problems = [*_out_of_place(request, observed), *_unlike_text(request, observed)]
        if any(item.error for item in t.plain.sent.of("tool result")):
            problems += _error_lost(request, t.plain.sent, observed)
    seen_in = t.plain
    images = ""
    if not t.images.refused and t.images.got is not None:
        n = 2
        lost = _images_lost(t.images)
        seen_in = t.images if lost and not problems else seen_in
        problems += lost
        whole = len(got(t.images).of("image")) >= len(t.images.sent.of("image"))
        images = (
            ", images as images" if whole else "; images are replaced by a text (a model without vision?), not judged"
        )
    if problems:
        return _all_of(judging, observed, seen_in, n, problems)
    return judging.passes(
        f"3 parallel results stand behind their calls, as text, the message's text behind them{images}", n
    )


def _all_of(judging: Judging, observed: Observed, probe: Translated, n: int, problems: Sequence[Problem]) -> Verdict:
    """A failure that names every kind of problem: the first with its change, the rest in a table."""
    kinds = list({problem[0]: problem for problem in reversed(problems)}.values())[::-1]
    code, first, change = kinds[0]
    also = f" (beside it: {'; '.join(kind[1] for kind in kinds[1:])})" if len(kinds) > 1 else ""
    shown_once = {(problem[0], problem[2].part): problem for problem in reversed(problems)}
    rows = tuple(
        (says, change.part, change.before[:_SHOWN], change.after[:_SHOWN])
        for _, says, change in list(shown_once.values())[::-1][:_MOST]
    )
    table = Table("what became of the history", ("problem", "place", "sent", "arrived"), rows)
    return finding(judging, observed, probe, n, change, code=code, says=f"{first}{also}", tables=(table,))


def _dropped(request: Request) -> list[Problem]:
    return [
        ("result-dropped", "a tool result does not arrive", gone(f"tool result {name}", text, "content dropped"))
        for name, text in RESULT_TEXTS.items()
        if request.find(text) is None
    ]


def _out_of_place(request: Request, observed: Observed) -> Iterator[Problem]:
    """A result that does not follow the calls, or text of its message in front of it."""
    calls = [i for i, item in enumerate(request.items) if item.kind == "tool call"]
    if not calls:
        return  # rendered as plain text for an upstream without tools: only the order counts (PFX-12)
    for text in RESULT_TEXTS.values():
        at = _index(request, text)
        between = next(
            (item for item in request.items[calls[0] : at] if item.kind in ("user", "system", "image")), None
        )
        if between is not None:
            change = Change(between.place, 0, text, shown(between.text, observed), "content between calls and results")
            yield "text-before-results", "something stands between tool calls and their results", change
        before = [item for item in request.items[:at] if item.kind == "tool call" and item.id == request.items[at].id]
        if request.items[at].kind == "tool result" and not before:
            change = Change(request.items[at].place, 0, text, "no call has its id", "result without its call")
            yield "result-unpaired", "a tool result carries an id that no call before it has", change


def _index(request: Request, text: str) -> int:
    place = request.find(text)
    assert place is not None
    return place[0]


def _unlike_text(request: Request, observed: Observed) -> Iterator[Problem]:
    """A result in list form whose blocks arrive as JSON, not as their texts."""
    items = [item for item in request.items if any(text in item.text for text in RESULT_TEXTS.values())]
    for item in items:
        rest = item.text
        for text in RESULT_TEXTS.values():
            rest = rest.replace(text, "")
        if '"type"' in rest or '"text"' in rest:
            sent = min((text for text in RESULT_TEXTS.values() if text in item.text), key=item.text.index)
            change = Change(item.place, 0, sent, shown(item.text, observed), "string/list rendering")
            yield "result-encoded", "a tool result in list form arrives as JSON, not as its texts", change


def _error_lost(request: Request, sent: Request, observed: Observed) -> list[Problem]:
    """`is_error` must leave a trace: a flag, or words besides the result's own that the other results do not get."""
    at = {name: _index(request, RESULT_TEXTS[name]) for name in ("weigh", "read")}
    together = at["weigh"] == at["read"]

    def besides(name: str) -> tuple[str, bool]:
        if together:
            return _around(request.items[at["weigh"]].text, RESULT_TEXTS[name], sent), False
        item = request.items[at[name]]
        rest = item.text
        for text in RESULT_TEXTS.values():
            rest = rest.replace(text, "")
        around = "".join(
            other.text
            for other in _neighbours(request, item)
            if not any(t in other.text for t in RESULT_TEXTS.values())
        )
        return (rest + around).strip(), item.error

    if besides("weigh") != besides("read"):
        return []
    item = request.items[at["weigh"]]
    change = Change(
        item.place, 0, "is_error: true", shown(item.text, observed), "content dropped", "the value of `is_error`"
    )
    return [("error-lost", "a failed tool result arrives as if it had succeeded", change)]


def _around(text: str, result: str, sent: Request) -> str:
    """The words between one of several results in one text and the one before it, and behind it on its line, without
    the names and ids that are its call's own."""
    before, _, behind = text.partition(result)
    ends = [before.rfind(other) + len(other) for other in RESULT_TEXTS.values() if other in before]
    start = max(ends, default=0)
    words = f"{before[start:]}\n{behind.partition(chr(10))[0]}"
    for call in sent.of("tool call"):
        for own in filter(None, (call.id, call.name)):
            words = words.replace(own, "")
    return words.strip()


def _neighbours(request: Request, item: Item) -> Sequence[Item]:
    return [
        other for other in request.items if other.id == item.id and other.kind == "tool result" and other is not item
    ]


def _images_lost(probe: Translated) -> list[Problem]:
    """Images that are gone without a trace, or spelled out as text; one replaced by some text of the gateway's may be
    right for a model that takes none."""
    sent, arrived = probe.sent.of("image"), got(probe).of("image")
    if len(arrived) >= len(sent):
        return []
    counts = f"{len(sent)} images", f"{len(arrived)} images"
    spelled = next((item for item in got(probe).items if PICTURE_HEAD in item.text), None)
    if spelled is not None:
        change = Change(spelled.place, 0, *counts, "image spelled out as text")
        return [("images-as-text", "an image arrives as the text of its bytes", change)]
    pieces = [sum(item.kind not in ("system", "tool call") for item in r.items) for r in (probe.sent, got(probe))]
    if pieces[1] >= pieces[0]:
        return []
    change = Change("images", 0, *counts, "content dropped")
    return [("images-lost", f"{len(sent)} images were sent, {len(arrived)} arrive as images", change)]
