"""A gateway that keeps tools in a set, as a script: their order is another in every process of Python.

python set_gateway.py PORT UPSTREAM_HOST:PORT
"""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """`/v1/chat/completions` as it comes, but for the order of its tools."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, "application/json", b'{"object":"list","data":[]}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/chat/completions"):
            self._answer(404, "application/json", b'{"error":{"message":"no such path"}}')
            return
        if isinstance(body.get("tools"), list):
            named = {tool["function"]["name"]: tool for tool in body["tools"]}
            body["tools"] = [named[name] for name in set(named)]
        upstream = HTTPConnection(sys.argv[2], timeout=30)
        upstream.request("POST", self.path, json.dumps(body), {"content-type": "application/json"})
        answer = upstream.getresponse()
        self._answer(answer.status, answer.headers["content-type"], answer.read())
        upstream.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
