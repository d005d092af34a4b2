"""The switch ``strip_anthropic_billing_header``.

Claude Code puts a text at the head of its system prompt that names the client's version and, in some versions,
a hash of the whole request (``cch``). It means something to Anthropic's own API, which removes it before the
model sees it. In front of any other engine it is a new first block on every request, after which no cached
prefix is found. The rule is fixed on purpose: a list of prefixes that users edit would be a way to lose prompts.
"""

import re

PREFIX = "x-anthropic-billing-header:"

_PAIRS = r"(?:[ \t]*\w+=[^;\s]*(?:;|(?=\s|\Z)))*"
_TEXT = re.compile(rf"\s*{re.escape(PREFIX)}{_PAIRS}(?:[ \t]*\r?\n|[ \t]*\Z)?")


def is_attribution(block_text: str) -> bool:
    """True when a system block is an attribution block: it is then left out whole."""
    return block_text.lstrip().startswith(PREFIX)


def without_attribution_line(system: str) -> str:
    """A string system prompt without a leading attribution text; any other text comes back as it is.

    The text is the name and the ``key=value;`` pairs behind it; the line goes with them if nothing else is on it.
    Some clients and gateways join it to the prompt without a line break: what follows the pairs is the prompt. A
    text that is nothing but the line becomes empty.
    """
    if not is_attribution(system):
        return system
    rest = _TEXT.sub("", system, count=1)
    return rest if rest.strip() else ""
