"""Words are exactly what scikit-learn's default pattern finds in the lower-cased text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longtail.features.tokenise import CODE_POINTS, SPECIAL, Words, tokenise, word_table

#: Letters whose lower case is special, other cases and scripts, marks, digits of several kinds, separators.
AWKWARD = "aBz09_ -.\n\t\x00\x85\u00a0äÖßẞİıIiſKÅΣσςΑǅǄѢé\u0301\u0307\u200d\ufeffⅣ²½٣०一々漢ｆ𝐀𝟘𐐀𐐨😀ȺȾ"


def words_of(words: Words) -> list[list[str]]:
    spelled = [words.blob[a:b].tobytes().decode() for a, b in zip(words.offsets[:-1], words.offsets[1:], strict=True)]
    assert len(set(spelled)) == len(spelled)
    starts = [0, *words.ends]
    return [[spelled[i] for i in words.stream[a:b]] for a, b in zip(starts[:-1], words.ends, strict=True)]


def expected(texts: list[str]) -> list[list[str]]:
    return [re.findall(r"(?u)\b\w\w+\b", text.lower()) for text in texts]


def test_by_hand() -> None:
    found = words_of(tokenise(["The cat, the CAT & a dog_1!", "", "x", "Straße İÇ ΟΔΟΣ café"]))
    # The marked i of 'İ'.lower() is two characters, and the mark is no word character, so it splits the word.
    assert found == [["the", "cat", "the", "cat", "dog_1"], [], [], ["straße", "οδος", "café"]]


@given(st.lists(st.text(alphabet=AWKWARD) | st.text(), max_size=8))
@example(["ab" * 3000, "Ⱥ" * 500, "ȺȺȺȺ", "𝐀", "𝐀𝐀", "ä", "ää", "漢", "漢字"])
@example(["exactly8", "exactly8x", "seventee", "seventeenseventee"])
def test_like_the_pattern(texts: list[str]) -> None:
    assert words_of(tokenise(texts)) == expected(texts)


def test_lone_surrogates_separate() -> None:
    texts = ["ab\ud800cd", "\udfff"]
    assert words_of(tokenise(texts)) == expected(texts)


def test_many_words_grow_the_table() -> None:
    text = " ".join(f"w{i} {'long' * 3}{i}" for i in range(5000))
    assert words_of(tokenise([text, text])) == expected([text, text])


@pytest.mark.parametrize(
    ("one", "other"),
    [("collideswiththis", "ki3shizu7h0g3pln"), ("znza49gk", "hes3vc5owiththis")],
    ids=["two long words", "a short and a long word"],
)
def test_equal_hashes_are_told_apart(one: str, other: str) -> None:
    words = tokenise([f"{one} {other} {one}"])
    assert words.hashes[0] == words.hashes[1]
    assert words_of(words) == [[one, other, one]]


def test_hash_is_stable() -> None:
    # Worked out with Python's whole numbers from the definition in the kernel's docstring.
    def mix(h: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            h = ((h ^ (h >> 33)) * factor) % 2**64
        return h ^ (h >> 33)

    for word in ("ab", "exactly8", "ninechars", "straßenbahnhaltestelle"):
        h, data = 0, word.encode()
        for i in range(0, len(data), 8):
            h = mix(h ^ int.from_bytes(data[i : i + 8], "little"))
        assert tokenise([word]).hashes[0] == h


def test_table_is_that_of_the_interpreter() -> None:
    table = word_table()
    for c in map(chr, range(CODE_POINTS)):
        if c not in SPECIAL:
            low = c.lower()
            assert len(low) == 1
            assert table[ord(c)] == (ord(low) if re.match(r"\w", low) else 0)
            # Texts with special letters are lowered before: lowering again must change nothing.
            assert low.lower() == low
            # What the kernel's room for lower-case bytes rests on.
            assert 0xD800 <= ord(c) <= 0xDFFF or 2 * len(low.encode()) <= 3 * len(c.encode())
    assert not table.flags.writeable
    assert np.count_nonzero(table) > 100_000
