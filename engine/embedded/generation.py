"""From an answer to what leaves the engine: output tokens, and for each the delta a stream shows.

Both the plain and the streamed answer are put together from the same deltas, so they cannot disagree.
"""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from engine.embedded.answers import Answer
from engine.embedded.hashing import TOKEN_BYTES, token_ids
from engine.embedded.templates import Control, Json, ToolCall, render_answer
from engine.embedded.tokenizer import CALL_BEGIN, CALL_SEPARATOR, Tokenizer


@dataclass(frozen=True, slots=True)
class Generation:
    """`outputs`: token bytes, the end-of-sequence token included unless cut. `deltas[i]`: what token i shows, or None.

    `finish_reason`: stop, length or tool_calls; `stop_reason`: the stop string that ended it, if one did.
    """

    outputs: bytes
    deltas: tuple[Json | None, ...]
    finish_reason: str
    stop_reason: str | None = None

    @property
    def length(self) -> int:
        """Output tokens."""
        return len(self.deltas)

    def message(self) -> Json:
        """The whole answer as a chat message."""
        text = ""
        calls: list[tuple[str, str, list[str]]] = []
        for delta in self.deltas:
            if delta is None:
                continue
            text += str(delta.get("content") or "")
            started = delta.get("tool_calls")
            if isinstance(started, list):
                for call in started:
                    if "id" in call:
                        calls.append((call["id"], call["function"]["name"], []))
                    calls[call["index"]][2].append(call["function"]["arguments"])
        message: Json = {"role": "assistant", "content": text or (None if calls else "")}
        if calls:
            message["tool_calls"] = [
                {"id": number, "type": "function", "function": {"name": name, "arguments": "".join(parts)}}
                for number, name, parts in calls
            ]
        return message


def generate(
    answer: Answer, tokenizer: Tokenizer, digest: bytes, *, limit: int, stops: Sequence[str] = ()
) -> Generation:
    """Generate `answer`, at most `limit` (>= 1) tokens of it, ending at the first of the `stops` its text contains.

    The stop string itself is not shown. `digest` makes the ids of tool calls: the same for the same prompt.
    """
    outputs = bytearray()
    deltas: list[Json | None] = []
    for data, shown in _parts(answer, tokenizer, digest):
        outputs += data
        deltas += shown
    finish, stop_reason = "tool_calls" if answer.calls else "stop", None
    place, stop = _first_stop(answer.text, stops)
    if stop:
        finish, stop_reason = "stop", stop
        deltas = _cut_text(deltas, place, place + len(stop))
    if len(deltas) > limit:
        finish, stop_reason = "length", None
        del deltas[limit:]
    return Generation(bytes(outputs[: len(deltas) * TOKEN_BYTES]), tuple(deltas), finish, stop_reason)


def _parts(answer: Answer, tokenizer: Tokenizer, digest: bytes) -> Iterator[tuple[bytes, list[Json | None]]]:
    """Token bytes and deltas of each piece of the rendered answer."""
    calls = iter(enumerate(answer.calls))
    index, place = -1, "text"
    call: ToolCall | None = None
    for segment in render_answer(answer.text, answer.calls):
        if type(segment) is Control:
            shown: Json | None = None
            if segment == CALL_BEGIN:
                index, call = next(calls)
                place = "name"
            elif segment == CALL_SEPARATOR and call is not None:
                place = "arguments"
                shown = _call_delta(
                    index,
                    {"name": call.name, "arguments": ""},
                    id=f"call_{blake2b(digest + index.to_bytes(4, 'little'), digest_size=12).hexdigest()}",
                    type="function",
                )
            yield tokenizer.control(segment), [shown]
            continue
        data = tokenizer.encode(segment)
        pieces = list(_readable(data, tokenizer))
        if place == "text":
            yield data, [{"content": piece} if piece else None for piece in pieces]
        elif place == "name":
            yield data, [None] * len(pieces)
        else:
            yield data, [_call_delta(index, {"arguments": piece}) if piece else None for piece in pieces]


def _call_delta(index: int, function: Json, **more: str) -> Json:
    return {"tool_calls": [{"index": index, **more, "function": function}]}


def _readable(data: bytes, tokenizer: Tokenizer) -> Iterator[str]:
    """The text each token adds; a character split over tokens comes with the last of them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token in token_ids(data):
        yield decoder.decode(tokenizer.piece(token))


def _first_stop(text: str, stops: Sequence[str]) -> tuple[int, str]:
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    return min(found) if found else (-1, "")


def _cut_text(deltas: Sequence[Json | None], shown: int, seen: int) -> list[Json | None]:
    """The deltas up to the token that completes character `seen`, showing `shown` characters."""
    kept: list[Json | None] = []
    length = 0
    for delta in deltas:
        piece = str(delta["content"]) if delta and "content" in delta else ""
        visible = piece[: max(0, shown - length)]
        kept.append({"content": visible} if visible else None)
        length += len(piece)
        if length >= seen:
            break
    return kept
