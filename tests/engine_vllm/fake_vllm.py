"""An environment with a `vllm` in it that serves `/health` and does what a test asks for by `FAKE_VLLM`."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.vllm.environment import Environment

_PROGRAM = """#!{python}
import http.server, os, signal, subprocess, sys, time

mode = os.environ.get("FAKE_VLLM", "")
words = sys.argv[1:]
host, port = (words[words.index(flag) + 1] for flag in ("--host", "--port"))
print("(APIServer pid=1) INFO 01-01 00:00:00 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with "
    "config", flush=True)
print("arguments", words, "path", os.environ["PYTHONPATH"], "extra", os.environ.get("EXTRA"), flush=True)
if mode.startswith("die:"):
    print("Traceback (most recent call last):", flush=True)
    print(mode[4:], flush=True)
    print("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
        "{{}}", flush=True)
    sys.exit(1)
if mode == "silent":
    time.sleep(600)
child = "import signal, time; "
if mode == "stubborn":
    child += "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("child", subprocess.Popen([sys.executable, "-c", child + "time.sleep(600)"]).pid, flush=True)

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if mode == "die-later":
            print("(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:9] ValueError: out of memory, or so", flush=True)
            os._exit(7)

    def log_message(self, *words):
        pass

http.server.HTTPServer((host, int(port)), Health).serve_forever()
"""


def make(folder: Path) -> Environment:
    """Write it into `folder`."""
    (folder / "bin").mkdir(parents=True)
    for name, text in (("vllm", _PROGRAM.format(python=sys.executable)), ("python", "#!/bin/sh\necho 0.32.0\n")):
        file = folder / "bin" / name
        file.write_text(text)
        file.chmod(0o755)
    return Environment(folder / "bin" / "python", "made by a test")
