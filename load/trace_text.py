"""Block ids as text: equal ids give equal text, unequal ids texts that part at their first word.

A word is three letters and a space, in whatever tokenizer about a token; with the embedded engine's `fast` tokenizer
exactly one. So a block of n tokens is n words.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

WORD_BYTES: Final = 4

_COMMON: Final = """
the and for are but not you all any can had her was one our out day get has him his how man new now old see
two way who boy did its let put say she too use age air art bad bag bar bed big bit box bus buy car cat cow
cry cup cut dog dry ear eat egg end eye far fat few fit fly fun gas god gun guy hat hit hot ice ill job key
kid law lay leg lie lot low map may met mix net nor off oil own pay pen per pet pot red rid row run sad sat
sea set sex sir sit six sky son sun tax tea ten tie tip top toy try via war web wet why win won yes yet add
act ago aid aim arm ask ate bat bay bet bid bow cap cop dad dam den dew dig dim dip dot due dye elf fan fed
fee fig fin fix fog fox fur gap gel gem gum gut gym ham hay hen hid hip hop hub hug hut ink jam jar jaw jet
joy jug kit lab lad lap led lid lip log mad mat mud mug nap nod nut oak odd opt owe owl pad pan paw pea peg
pie pig pin pit pod pop pub pun pup rag ram ran rap rat raw ray rib rig rim rip rob rod rot rub rug rum rut rye
sap saw sew shy sin sip ski sly sob sow spa spy
""".split()  # noqa: SIM905 - a list of them would fill a page
WORDS: Final = tuple(_COMMON)


def block_text(run: str, scope: str, number: int, tokens: int) -> str:
    """`tokens` words that follow from run, scope and id."""
    return _block(run, scope, number, tokens)


@lru_cache(maxsize=16_384)
def _block(run: str, scope: str, number: int, tokens: int) -> str:
    return _words(f"{run}/{scope}/{number}", tokens)


def own_text(run: str, request: int, tokens: int) -> str:
    """`tokens` words that no other request has."""
    return _words(f"{run}//own{request}", tokens)


def _words(seed: str, tokens: int) -> str:
    if tokens <= 0:
        return ""
    draws = hashlib.shake_128(seed.encode()).digest(tokens)
    # The first two words are a name of the text: 26**6 of them, so that no two begin alike by chance.
    name = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=6).digest(), "big")
    letters = "".join(chr(97 + name // 26**i % 26) for i in range(6))
    head = f"{letters[:3]} {letters[3:]} "
    text = head + "".join([WORDS[draw] + " " for draw in draws[2:]])
    return text[: tokens * WORD_BYTES]
