"""A yes-or-no question to whoever started the run at a terminal; a pipeline is never asked."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from conformance.pool import Ask


@dataclass
class Terminal:
    """Whether somebody sits there. pytest takes the standard streams away, so it is noted before pytest starts."""

    attended: bool = False

    def note(self) -> None:
        """Look at the standard streams as they are now."""
        self.attended = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))

    @property
    def ask(self) -> Ask | None:
        """How to ask; None where nobody can answer."""
        return _ask if self.attended else None


TERMINAL = Terminal()


def _ask(question: str) -> bool:
    try:
        with open("/dev/tty", "r+", encoding="utf-8", buffering=1, closefd=True) as terminal:
            terminal.write(f"\n{question} [y/N] ")
            terminal.flush()
            return terminal.readline().strip().lower() in ("y", "yes")
    except OSError:
        return False
