"""What the server says when it cannot answer: one error, in the shape vLLM and OpenAI share."""

from http import HTTPStatus

_KINDS = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}


class ApiError(Exception):
    """An answer other than 200. `param` names the field at fault, if one is."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param

    def body(self) -> dict[str, object]:
        """`{"error": {"message", "type", "param", "code"}}`, `code` being the HTTP status."""
        kind = _KINDS.get(self.status) or HTTPStatus(self.status).phrase.title().replace(" ", "")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}


class BadRequest(ApiError):
    """Status 400."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(400, message, param)
