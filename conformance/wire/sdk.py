"""What the two official SDKs have in common as clients of a target.

Both come from one generator: the same options, exceptions and response objects, on `httpx2`.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from conformance.wire.answers import Answer, Reply, failure_of
from conformance.wire.deadline import bound_answers
from conformance.wire.endpoint import KEPT_ALIVE_S, Endpoint
from conformance.wire.problems import broken, broken_off, error_line, error_text, one_line, redact

HEADER_PARAMETERS = {"user_profile_id", "workspace_id"}
"""Parameters of the SDKs' `create` that become headers, not body members."""


class Sdk:
    """An SDK's client against one endpoint: no retries, no environment proxies on loopback.

    `module` is the SDK, `make` its client class. Connection trouble is raised as the SDK raises it
    (see `problems.broken`); everything an HTTP answer can say becomes a `Reply`.
    """

    def __init__(self, endpoint: Endpoint, module: ModuleType, make: Callable[..., Any], **options: Any) -> None:
        import httpx2

        self._module = module
        self._endpoint = endpoint
        timeout = httpx2.Timeout(endpoint.timeout_s, connect=endpoint.connect_timeout_s)
        self._client = make(
            api_key=endpoint.api_key or "unused",
            max_retries=0,
            timeout=timeout,
            default_headers=endpoint.marks,
            http_client=module.DefaultHttpxClient(
                timeout=timeout,
                limits=httpx2.Limits(keepalive_expiry=KEPT_ALIVE_S),
                event_hooks={"response": [bound_answers(httpx2, endpoint.answer_timeout_s)]},
                **endpoint.client_options,
            ),
            **options,
        )
        # Without a key the SDK would send the placeholder: omit the header, so that the target sees no key at all.
        self._headers: dict[str, Any] = {**endpoint.credentials} or {"authorization": module.Omit()}

    def close(self) -> None:
        """Close the SDK's connections."""
        self._client.close()

    def _words(self, what: object) -> str:
        return one_line(redact(error_text(what), self._endpoint.api_key))

    def _request_headers(self, headers: Mapping[str, str]) -> dict[str, Any]:
        return {**self._headers, **headers}

    def _reply(self, http: Any, answer: Answer) -> Reply:
        return Reply(
            status=http.status_code,
            headers=http.headers,
            answer=answer,
            sent=len(http.request.content),
        )

    def _accumulated(self, produce: Callable[[], Answer]) -> Answer:
        """What `produce` reads out of the SDK's objects, or an answer that says how the SDK failed at it."""
        try:
            return produce()
        except self._module.APIStatusError as exc:
            return Answer(error=f"error event: {self._words(exc.body)}")
        except Exception as exc:
            why = broken(exc)
            if why is not None:
                return broken_off(why)
            if isinstance(exc, self._module.APIError) and exc.body is not None:
                return Answer(error=f"error event: {self._words(exc.body) or self._words(str(exc))}")
            return Answer(error=f"sdk: {self._words(f'{type(exc).__name__}: {exc}'.rstrip(': '))}")

    def _object(self, parsed: Any) -> Any:
        """The SDK's model of an answer as plain data. Raises `TypeError` when the SDK made no model of it."""
        if not isinstance(parsed, self._module.BaseModel):
            raise TypeError(f"it gave {type(parsed).__name__}, not a model of the answer (no JSON content type?)")
        return parsed.model_dump(exclude_unset=True, warnings=False)

    def _guarded(self, call: Callable[[], Reply], model: str) -> Reply:
        """Run `call`, turning HTTP error statuses into replies."""
        try:
            with _no_model_warnings(model):
                return call()
        except self._module.APIStatusError as exc:
            http = exc.response
            return Reply(
                status=http.status_code,
                headers=http.headers,
                error=error_line(http.status_code, http.content, self._endpoint.api_key),
                failure=failure_of(http.status_code),
                sent=len(http.request.content),
            )


def body_parameters(create: Callable[..., Any]) -> frozenset[str]:
    """The body members that an SDK's `create` has parameters for."""
    names = inspect.signature(create).parameters
    not_body = HEADER_PARAMETERS | {"self", "timeout", "stream"}
    return frozenset(name for name in names if not name.startswith("extra_") and name not in not_body)


@contextlib.contextmanager
def _no_model_warnings(model: str) -> Iterator[None]:
    """The `anthropic` SDK warns of Claude models past their date; behind a gateway that name is an alias."""
    if not model.startswith("claude"):
        yield  # filters are the whole process's, so they are touched for no other model
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
