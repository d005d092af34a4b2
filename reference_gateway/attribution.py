"""The switch ``strip_anthropic_billing_header``.

Claude Code puts a text at the head of its system prompt that names the client's version and, in some versions,
a hash of the whole request (``cch``). It means something to Anthropic's own API, which removes it before the
model sees it. In front of any other engine it is a new first block on every request, after which no cached
prefix is found. The rule is fixed on purpose: a list of prefixes that users edit would be a way to lose prompts.
"""

PREFIX = "x-anthropic-billing-header:"


def is_attribution(block_text: str) -> bool:
    """True when a system block is an attribution block: it is then left out whole."""
    return block_text.lstrip().startswith(PREFIX)


def without_attribution_line(system: str) -> str:
    """A string system prompt without a leading attribution line; any other text comes back as it is.

    A text that is nothing but the line becomes empty.
    """
    if not is_attribution(system):
        return system
    rest = system.lstrip().partition("\n")[2]
    return rest if rest.strip() else ""
