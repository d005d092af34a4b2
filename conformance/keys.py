"""A key, found in whatever form a target may repeat it.

A gateway can echo the key it was sent in any header, error, event or id: as it is, escaped for JSON, HTML or a URL, in
hexadecimal, or inside base64 (`Basic` credentials, a forwarded header), where the key begins at any of three offsets.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"

WHOLE_WORD_BELOW = 8
"""A key of fewer characters is hidden only where it stands by itself: inside longer words it is no key."""

PART = 12
"""Characters of a key's head or tail that give it away, where a target cut what it repeats."""

_BASE64_RUN = r"[A-Za-z0-9+/_-]*"


class Keys:
    """Hides a few secrets in texts. Without secrets it leaves everything as it is."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._patterns = tuple(pattern for secret in secrets if secret for pattern in _patterns(secret))

    def hide(self, text: str) -> str:
        """The text with every form of every secret replaced by `[redacted]`."""
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text


@lru_cache(maxsize=8)
def hider(*secrets: str | None) -> Keys:
    """The `Keys` of these secrets, made once."""
    return Keys(secrets)


def spellings(secret: str) -> set[str]:
    """The secret as text may carry it: plain, and escaped for JSON, HTML, URLs, Python and shells."""
    plain = {
        secret,
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        html.escape(secret, quote=False),
    }
    plain |= {json.dumps(secret)[1:-1].replace("/", "\\/"), "".join(f"\\u{ord(c):04x}" for c in secret)}
    plain |= {quote(secret, safe=""), quote(secret), quote_plus(secret), quote(quote(secret, safe=""), safe="")}
    plain |= {"".join(f"%{b:02x}" for b in secret.encode()), "".join(f"&#{ord(c)};" for c in secret)}
    plain |= {json.dumps(text)[1:-1] for text in plain}
    return plain | {secret.encode().hex(), secret[::-1]}


def base64_cores(secret: str) -> set[str]:
    """The characters of base64 that depend on the secret alone, for each of the three offsets it can begin at."""
    cores = set()
    data = secret.encode()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        head = (0, 2, 3)[offset]  # characters that also hold bits of what stands before
        tail = len(encoded) if (offset + len(data)) % 3 == 0 else len(encoded) - 1
        cores |= {core := encoded[head:tail], core.replace("+", "-").replace("/", "_")}
    return {core for core in cores if len(core) >= WHOLE_WORD_BELOW}


def _patterns(secret: str) -> list[re.Pattern[str]]:
    texts = sorted(spellings(secret), key=len, reverse=True)
    short = len(secret) < WHOLE_WORD_BELOW
    edges = (r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])") if short else ("", "")
    found = [re.compile(edges[0] + "(?:" + "|".join(map(re.escape, texts)) + ")" + edges[1], re.IGNORECASE)]
    if cores := base64_cores(secret):
        alternatives = "|".join(map(re.escape, sorted(cores)))
        found.append(re.compile(f"{_BASE64_RUN}(?:{alternatives}){_BASE64_RUN}=*"))
    if len(secret) >= PART + 4:
        found.append(re.compile(_prefix_pattern(secret), re.IGNORECASE))
        found.append(re.compile(_suffix_pattern(secret), re.IGNORECASE))
    return found


def _prefix_pattern(secret: str) -> str:
    """The head of the secret and as much more of it as follows."""
    rest = ""
    for character in reversed(secret[PART:]):
        rest = f"(?:{re.escape(character)}{rest})?"
    return re.escape(secret[:PART]) + rest


def _suffix_pattern(secret: str) -> str:
    rest = ""
    for character in secret[:-PART]:
        rest = f"(?:{rest}{re.escape(character)})?"
    return rest + re.escape(secret[-PART:])
