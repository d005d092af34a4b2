"""Before anything is judged: is the target there, does it speak the dialects, take the key and know the model?

One tiny request an entry. Whatever makes judging pointless is a `TargetProblem` of one line that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from conformance.errors import TargetProblem
from conformance.verdicts import Entry
from conformance.wire.answers import Reply, members, object_of
from conformance.wire.endpoint import Endpoint, base_url
from conformance.wire.jsontext import dumps, loads_or_none
from conformance.wire.problems import broken, error_line, error_text, unreachable
from conformance.wire.raw import EVENT_STREAM, RawClient, content_type

if TYPE_CHECKING:
    from conformance.recorder import Recorder

LISTED = 10
"""Model ids shown at most."""

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
    recorder_sees: bool = False
    requests: int = 0
    prompt_tokens: int = 0


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

    def run(self, model: str | None, entries: Sequence[Entry] | None, notes: list[str]) -> Preflight:
        if model is None:
            model = self._only_model()
            notes.append(f"model {model}: the only one that {self._url} lists")
        mark = self._recorder.mark() if self._recorder else 0
        unrecorded = self._recorder.unrecorded if self._recorder else 0
        troubles = {entry: self._probe(entry, model, mark) for entry in entries or tuple(Entry)}
        working = tuple(entry for entry, trouble in troubles.items() if trouble is None)
        missing = self._missing(troubles, working, asked=entries is not None)
        notes += [f"{entry.path} is not judged: {line}" for entry, line in missing.items()]
        sees = bool(self._recorder and self._recorder.since(mark))
        if self._recorder and not sees:
            notes.append(self._blind(self._recorder, self._recorder.unrecorded - unrecorded))
        return Preflight(
            target=self._url,
            model=model,
            entries=working,
            missing=missing,
            notes=tuple(notes),
            recorder_sees=sees,
            requests=self._requests,
            prompt_tokens=self._prompt_tokens,
        )

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
        message = {"role": "user", "content": f"{preflight_token(self._marker, entry)} Answer with one word."}
        body = dumps({"model": model, "max_tokens": 16, "messages": [message]})
        self._requests += 1
        reply = self._client.post(entry, body, stream=False)
        self._prompt_tokens += max(reply.answer.usage.prompt or 0, 0)
        if 200 <= reply.status < 300:
            return self._misread(entry, reply)
        said = error_line(reply.status, reply.body, self._endpoint.api_key)
        words = error_text(reply.body)
        if 300 <= reply.status < 400:
            where = reply.headers.get("location", "nowhere")
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
        return self._other(f"refuses a minimal request to {entry.path} ({said})")

    def _misread(self, entry: Entry, reply: Reply) -> Trouble | None:
        """What is wrong with a 2xx answer, or None when it is one of the entry's dialect."""
        if reply.answer.error is None:
            return None
        kind = content_type(reply.headers)
        if kind == "text/html" or reply.body.lstrip()[:1] == b"<":
            return Trouble(Kind.ABSENT, f"{self._url} has no {entry.path} (HTTP {reply.status} with a web page)")
        if kind == EVENT_STREAM:
            return self._other(f"answers a plain request to {entry.path} with an event stream")
        return self._other(f"does not speak the protocol of {entry.path} (HTTP {reply.status}): {reply.answer.error}")

    def _server(self, entry: Entry, said: str, mark: int) -> Trouble:
        records = self._recorder.since(mark) if self._recorder else ()
        engine = self._recorder.engine_url if self._recorder else None
        if engine is not None and any(record.status is None for record in records):
            return self._other(f"works, but the engine at {engine} does not answer the recorder: is --engine right?")
        key = "" if self._endpoint.api_key else ", or does it want a key (PREFIXPROOF_API_KEY)?"
        return self._other(f"answers a minimal request to {entry.path} with {said}: is its engine up{key or '?'}")

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
        return [model["id"] for model in listed if isinstance(model.get("id"), str)]

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
        said = error_line(reply.status, reply.body, self._endpoint.api_key)
        if reply.status in (401, 403):
            raise TargetProblem(self._key_line(said))
        why = "lists no model" if 200 <= reply.status < 300 else said
        raise TargetProblem(f"{self._url} does not say which models it has (GET /v1/models: {why}): give --model")

    def _blind(self, recorder: Recorder, others: int) -> str:
        line = f"the recorder at {recorder.url} saw none of the suite's requests: point a channel of the gateway at it"
        return f"{line} (requests without the suite's marker that passed meanwhile: {others})" if others else line


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - LISTED
    return ", ".join(ids[:LISTED]) + (f" and {more} more" if more > 0 else "")
