"""Faults in how a finished answer says that it ended."""

from collections.abc import Iterable

from ..seams import JSONObject, Mutations


class _Endings(Mutations):
    """Overrides name the stop reasons that are told wrongly, in which form, in both dialects' words."""

    plain = False
    streamed = False
    mistaken: frozenset[str] = frozenset()

    def plain_answer(self, answer: JSONObject) -> JSONObject:
        if not self.plain:
            return answer
        if answer.get("type") == "message":
            return {**answer, "stop_reason": self._told(answer["stop_reason"], "end_turn")}
        return self._finished(answer)

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if not self.streamed or event["type"] != "message_delta":
            return (event,)
        delta = event["delta"]
        return ({**event, "delta": {**delta, "stop_reason": self._told(delta["stop_reason"], "end_turn")}},)

    def chat_chunk(self, chunk: JSONObject) -> JSONObject:
        return self._finished(chunk) if self.streamed else chunk

    def _finished(self, answer: JSONObject) -> JSONObject:
        choices = [
            {**choice, "finish_reason": self._told(choice.get("finish_reason"), "stop")}
            for choice in answer.get("choices") or ()
        ]
        return answer if choices == answer.get("choices") else {**answer, "choices": choices}

    def _told(self, reason: str | None, instead: str) -> str | None:
        return instead if reason in self.mistaken else reason


class StreamedCallsEndTurn(_Endings):
    """Streams of tool calls say that the turn is over."""

    streamed = True
    mistaken = frozenset(("tool_use", "tool_calls"))


class PlainCallsEndTurn(_Endings):
    """Plain answers with tool calls say that the turn is over."""

    plain = True
    mistaken = frozenset(("tool_use", "tool_calls"))


class LengthEndTurn(_Endings):
    """Answers cut at their token limit say that the turn is over."""

    plain = True
    streamed = True
    mistaken = frozenset(("max_tokens", "length"))
