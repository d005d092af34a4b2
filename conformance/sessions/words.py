"""The vocabulary of the filler text: 256 entries, so that one digest byte picks one entry.

Plain English with the identifiers, paths and numbers of source code mixed in: about 4.2 bytes a token with DeepSeek's
vocabulary, near what a coding client's real prompts come to. The angle brackets and ampersands are wanted: some JSON
encoders escape them, and a text has to arrive the same all the same.
"""

from __future__ import annotations

from typing import Final

_SHORT = """
a all an and any are as at be but by can do for get has he how if in into is it its may no not now of off on one or
out per put run see set she so the them then they this to too two up use was we when will with you your
"""

_PLAIN = """
above accept across after again agree allow along also answer apply ask avoid back because before begin below better
between break build call case change check choose clear close common compare copy correct count cover create decide
detail differ each early either empty enough equal error even every exact except fail field final
find first follow form found from full give good grow handle happen hold idea include input inside issue item join
keep kind known large last later learn least leave level light likely limit line list local long look main make many
mark matter mean middle missing mode more most move must name need never next note often once only open order
other over own part pass place plain point read repeat result right same save send short show side simple small some
start state step stop such sure take text than time true type under until value wait want way what where which while
whole why wide word work write wrong
"""

_CODE = """
self.value src/main.py test_cases --verbose read_file() max_items user_id 0x1f {key} [index] next(it) README.md 42:
len(data) != None; a/b/c.ts v2.1.0 return node_id=7 <T> ctx.lookup(k) buf[0:64] async-io /tmp/run.log #128 4096
utf-8 && parse_row stdout -> i+1 e.g.
"""

WORDS: Final[tuple[str, ...]] = tuple(f"{_SHORT}{_PLAIN}{_CODE}".split())
