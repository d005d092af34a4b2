"""Before anything is judged: is the target there, does it speak the dialects, take the key and know the model?

One request an entry, shaped as coding clients send them: streamed, with tools and system blocks. Only where that fails
further ones find out which part of it the target does not take. Whatever makes judging pointless is a `TargetProblem`
of one line that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from conformance.errors import TargetProblem
from conformance.preflight_request import client_body, client_session
from conformance.redact import public_url
from conformance.sessions import Session
from conformance.verdicts import Entry
from conformance.vocabulary import spoken
from conformance.wire.answers import Reply, members, object_of
from conformance.wire.endpoint import Endpoint, base_url
from conformance.wire.jsontext import dumps, loads_or_none
from conformance.wire.limits import TokenLimit
from conformance.wire.problems import broken, error_line, error_text, redact, unreachable
from conformance.wire.raw import EVENT_STREAM, RawClient, content_type

if TYPE_CHECKING:
    from conformance.recorder import Recorder

LISTED = 10
"""Model ids shown at most."""

LOOKS = 3
"""Requests by which an entry shows whether the recorder sees it: a gateway with two upstreams sends some elsewhere."""

ADAPTATIONS = 2
"""Requests that are sent again because the target wants another limit on its answers: another name, then a minimum."""

_MODEL_ID = re.compile(r"[\w./:@+-]{1,100}")
"""An operator's name for a model; what has spaces in it is no such name, and may be anybody's text."""

_ABSENT = (404, 405, 501)
_MODEL_REFUSALS = (400, 403, 404, 422, 503)
_KEY_WORDS = re.compile(
    # "No connected db" is what LiteLLM with a master key but no database says (as a 400) of any other key.
    r"api[ _-]?key|authenticat|unauthori[sz]ed|credential|virtual key|no connected db",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What a run can be done with. `missing` says in one line why an entry that nobody asked for is not there."""

    target: str  # the base URL
    model: str
    entries: tuple[Entry, ...]
    missing: dict[Entry, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    recorder_sees: frozenset[Entry] = frozenset()  # entries whose requests reach the recorder
    requests: int = 0
    prompt_tokens: int = 0
    limits: Mapping[Entry, TokenLimit] = field(default_factory=dict)  # where an entry insists on another than usual


def preflight_token(marker: str, entry: Entry) -> str:
    """The word by which a recorder knows the preflight's request to an entry."""
    return f"{marker}-preflight-{entry}"


class Kind(Enum):
    """What is the matter with an entry. Only an absent one can be left out of a run."""

    ABSENT = "absent"
    KEY = "key"
    MODEL = "model"
    OTHER = "other"


@dataclass(frozen=True)
class Trouble:
    """Why an entry cannot be judged, as a line that begins with the target's URL."""

    kind: Kind
    line: str


def check_target(
    target: str,
    *,
    model: str | None,
    api_key: str | None,
    entries: Sequence[Entry] | None,
    timeout_s: float,
    run_id: str,
    marker: str,
    recorder: Recorder | None = None,
) -> Preflight:
    """Find out which entries of `target` can be judged, and with which model.

    `entries` None tries both; one that is not there is then `missing`. `model` None takes the only one the target
    lists. The requests carry `marker`, so that a recorder behind the target knows them. Raises `TargetProblem`.
    """
    base, note = base_url(target)
    endpoint = Endpoint(url=base, api_key=api_key, timeout_s=timeout_s, run_id=run_id)
    client = RawClient(endpoint)
    try:
        return _Check(endpoint, client, marker, recorder).run(model, entries, [note] if note else [])
    except TargetProblem:
        raise
    except Exception as exc:
        why = broken(exc)
        if why is None:
            raise
        raise TargetProblem(unreachable(base, why, timeout_s)) from None
    finally:
        client.close()


class _Check:
    def __init__(self, endpoint: Endpoint, client: RawClient, marker: str, recorder: Recorder | None) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url
        self._client = client
        self._marker = marker
        self._recorder = recorder
        self._models: Reply | None = None
        self._requests = 0
        self._prompt_tokens = 0
        self._limits: dict[Entry, TokenLimit] = {}
        self._notes: list[str] = []

    def run(self, model: str | None, entries: Sequence[Entry] | None, notes: list[str]) -> Preflight:
        self._model = model or ""
        if model is None:
            model = self._model = self._only_model()
            notes.append(f"model {model}: the only one that {self._url} lists")
        unrecorded = self._recorder.unrecorded if self._recorder else 0
        troubles: dict[Entry, Trouble | None] = {}
        seen: set[Entry] = set()
        for entry in entries or tuple(Entry):
            mark = self._recorder.mark() if self._recorder else 0
            troubles[entry] = self._probe(entry, model, mark)
            if self._recorder and troubles[entry] is None and self._looked(self._recorder, entry, model, mark):
                seen.add(entry)
        working = tuple(entry for entry, trouble in troubles.items() if trouble is None)
        missing = self._missing(troubles, working, asked=entries is not None)
        notes += [f"{entry.path} is not judged: {line}" for entry, line in missing.items()]
        if self._recorder and not seen:
            notes.append(self._blind(self._recorder, model, self._recorder.unrecorded - unrecorded))
        return Preflight(
            target=self._url,
            model=model,
            entries=working,
            missing=missing,
            notes=(*notes, *self._notes),
            recorder_sees=frozenset(seen),
            requests=self._requests,
            prompt_tokens=self._prompt_tokens,
            limits=self._limits,
        )

    def _looked(self, recorder: Recorder, entry: Entry, model: str, mark: int) -> bool:
        """True once a request to the entry, sent up to `LOOKS` times, arrives at the recorder."""
        for _ in range(LOOKS - 1):
            if recorder.since(mark):
                return True
            self._probe(entry, model, mark)
        return bool(recorder.since(mark))

    def _missing(
        self, troubles: dict[Entry, Trouble | None], working: tuple[Entry, ...], *, asked: bool
    ) -> dict[Entry, str]:
        """The entries that may be left out; raises for any other trouble."""
        found = {entry: trouble for entry, trouble in troubles.items() if trouble is not None}
        only = f" (add --entry {working[0]} to judge only that one)" if working else ""
        for trouble in found.values():
            if trouble.kind is not Kind.ABSENT:
                raise TargetProblem(trouble.line + only)
        if found and (asked or not working):
            entry, trouble = next(iter(found.items()))
            if len(found) == len(Entry):
                raise TargetProblem(f"{trouble.line}, nor {Entry.CHAT.path}: is this the base URL of an LLM gateway?")
            raise TargetProblem(trouble.line + (only or f": is it a gateway with {entry.path}, and is the URL right?"))
        return {entry: trouble.line for entry, trouble in found.items()}

    def _probe(self, entry: Entry, model: str, mark: int) -> Trouble | None:
        session = client_session(entry, preflight_token(self._marker, entry), model)
        arrived = self._recorder.mark() if self._recorder else 0
        reply = self._ask(entry, session, stream=True)
        for _ in range(ADAPTATIONS):
            if not self._adapted(entry, reply):
                break
            reply = self._ask(entry, session, stream=True)
        streamed = self._trouble(entry, model, reply, mark)
        if streamed is None or streamed.kind in (Kind.KEY, Kind.MODEL) or reply.status == 429:
            return streamed
        plain = self._ask(entry, session, stream=False)
        trouble = self._trouble(entry, model, plain, mark)
        if trouble is None:
            why = self._said(reply) if reply.status >= 300 else reply.answer.error
            self._notes.append(f"{entry.path} takes plain requests and fails at streamed ones ({self._spoken(why)})")
            return None
        if trouble.kind is Kind.OTHER and 400 <= plain.status < 600 and plain.status != 429:
            bare = self._ask(entry, session, stream=False, tools=False)
            if self._trouble(entry, model, bare, mark) is None:
                if self._recorder and self._recorder.since(arrived):
                    self._notes.append(f"{entry.path} fails with tools and works without ({self._said(plain)})")
                    return None  # what the gateway made of them is known, and for the rules to judge
                return self._without_tools(entry, plain)
        return trouble

    def _ask(self, entry: Entry, session: Session, *, stream: bool, tools: bool = True) -> Reply:
        body = client_body(session, stream=stream, tools=tools)
        self._requests += 1
        limit = self._limits.get(entry, TokenLimit())
        reply = self._client.post(entry, dumps(limit.applied(body)), stream=stream, headers=session.headers())
        self._prompt_tokens += max(reply.answer.usage.prompt or 0, 0)
        return reply

    def _adapted(self, entry: Entry, reply: Reply) -> bool:
        """True when a refusal asks for another limit on the answer, and further requests will carry that."""
        if reply.status not in (400, 422):
            return False
        limit = self._limits.get(entry, TokenLimit()).after(entry, error_text(reply.body))
        if limit is None:
            return False
        self._limits[entry] = limit
        self._notes = [note for note in self._notes if not note.startswith(f"requests to {entry.path} carry")]
        self._notes.append(f"{limit.said(entry.path)}: the target asked for it ({self._said(reply)})")
        return True

    def _said(self, reply: Reply) -> str:
        return self._spoken(error_line(reply.status, reply.body, self._endpoint.api_key))

    def _spoken(self, words: str | None) -> str:
        """A target's words; those that neither the suite nor its user knows by their shape."""
        return spoken(words or "", self._url, self._model)

    def _without_tools(self, entry: Entry, refusal: Reply) -> Trouble:
        words = error_text(refusal.body)
        hint = (
            "start vLLM with --enable-auto-tool-choice and --tool-call-parser"
            if "tool-call-parser" in words or "tool_call_parser" in words
            else "choose a model and a channel that take tools"
        )
        return self._other(
            f"takes requests to {entry.path} only without tools, and coding clients send tools with every request "
            f"({self._said(refusal)}): {hint}"
        )

    def _trouble(self, entry: Entry, model: str, reply: Reply, mark: int) -> Trouble | None:
        """What a reply says against judging the entry; None when it is an answer."""
        if 200 <= reply.status < 300:
            return self._misread(entry, reply)
        said, words = self._said(reply), error_text(reply.body)
        if 300 <= reply.status < 400:
            where = self._key_hidden(public_url(reply.headers.get("location", "nowhere")))
            return self._other(f"redirects {entry.path} to {where} (HTTP {reply.status}): give the URL it leads to")
        if self._unknown_model(reply.status, words, model):
            return Trouble(Kind.MODEL, f"{self._url} knows no model {model!r} ({said}){self._listed()}")
        if reply.status in (401, 403) or (reply.status == 400 and _KEY_WORDS.search(words)):
            return Trouble(Kind.KEY, self._key_line(said))
        if reply.status in _ABSENT:
            return Trouble(Kind.ABSENT, f"{self._url} has no {entry.path} ({said})")
        if reply.status == 429:
            wait = reply.headers.get("retry-after")
            hint = f"try again in {wait} s" if wait and wait.isdigit() else "try again later"
            return self._other(f"answers the first request to {entry.path} with {said}: {hint}, or use another key")
        if reply.status >= 500:
            return self._server(entry, said, mark)
        return self._other(f"refuses a client's usual request to {entry.path} ({said})")

    def _misread(self, entry: Entry, reply: Reply) -> Trouble | None:
        """What is wrong with a 2xx answer, or None when it is one of the entry's dialect."""
        if reply.answer.error is None:
            return None
        kind = content_type(reply.headers)
        if kind == "text/html" or reply.body.lstrip()[:1] == b"<":
            return Trouble(Kind.ABSENT, f"{self._url} has no {entry.path} (HTTP {reply.status} with a web page)")
        if kind == EVENT_STREAM:
            return self._other(f"answers a plain request to {entry.path} with an event stream")
        why = self._spoken(self._key_hidden(reply.answer.error))
        return self._other(f"does not speak the protocol of {entry.path} (HTTP {reply.status}): {why}")

    def _server(self, entry: Entry, said: str, mark: int) -> Trouble:
        records = self._recorder.since(mark) if self._recorder else ()
        engine = self._recorder.engine_url if self._recorder else None
        if engine is not None and any(record.status is None for record in records):
            return self._other(f"works, but the engine at {engine} does not answer the recorder: is --engine right?")
        key = "" if self._endpoint.api_key else ", or does it want a key (PREFIXPROOF_API_KEY)?"
        return self._other(
            f"answers a client's usual request to {entry.path} with {said}: is its engine up{key or '?'}"
        )

    def _key_hidden(self, text: str) -> str:
        return redact(text, self._endpoint.api_key)

    def _other(self, what: str) -> Trouble:
        return Trouble(Kind.OTHER, f"{self._url} {what}")

    def _key_line(self, said: str) -> str:
        if self._endpoint.api_key:
            return f"{self._url} rejects the API key ({said}): check --api-key or PREFIXPROOF_API_KEY"
        return f"{self._url} wants an API key ({said}): give it in PREFIXPROOF_API_KEY, or with --api-key"

    def _unknown_model(self, status: int, words: str, model: str) -> bool:
        if status == 401:
            return False
        named = re.search(rf"(?<!\w){re.escape(model)}(?!\w)", words, re.IGNORECASE) is not None
        spoken_of = named or (status in (400, 404) and re.search(r"\bmodel\b", words, re.IGNORECASE) is not None)
        if not spoken_of:
            return False
        ids = self._ids()
        # Some gateways name the model in every error; then the list they give decides.
        return model not in ids if ids else named and status in _MODEL_REFUSALS

    def _list(self) -> Reply:
        if self._models is None:
            self._models = self._client.get("/v1/models")
        return self._models

    def _ids(self) -> list[str]:
        """The ids of GET /v1/models; empty when it does not give any."""
        parsed: Any = loads_or_none(self._list().body)
        listed = members(object_of(parsed).get("data")) or members(parsed)
        ids = [model["id"] for model in listed if isinstance(model.get("id"), str)]
        return [name for name in ids if _MODEL_ID.fullmatch(name)]

    def _listed(self) -> str:
        ids = self._ids()
        return f": it lists {_some(ids)}" if ids else ": check --model"

    def _only_model(self) -> str:
        ids = self._ids()
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise TargetProblem(f"{self._url} lists {len(ids)} models: choose one with --model: {_some(ids)}")
        reply = self._list()
        said = self._said(reply)
        if reply.status in (401, 403):
            raise TargetProblem(self._key_line(said))
        why = "lists no model" if 200 <= reply.status < 300 else said
        raise TargetProblem(f"{self._url} does not say which models it has (GET /v1/models: {why}): give --model")

    def _blind(self, recorder: Recorder, model: str, others: int) -> str:
        line = nothing_arrived(recorder.url or "", model)
        return f"{line} (requests without the suite's marker that passed meanwhile: {others})" if others else line


def nothing_arrived(listening: str, model: str) -> str:
    """What a recorder that no request reached means, and what to set. `listening` is its URL."""
    address = listening.partition("://")[2]
    return (
        f"no request of the target arrived at {address}: give the gateway's channel that serves {model} the upstream "
        f"URL {listening} (with the path its upstream URLs have, often /v1), check that the gateway can reach this "
        "address, and run again; or leave --upstream-listen out"
    )


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - LISTED
    return ", ".join(ids[:LISTED]) + (f" and {more} more" if more > 0 else "")
