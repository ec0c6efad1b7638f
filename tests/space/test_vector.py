"""Membership vectors: packing, common prefixes, drawing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.space.vector import Vectors

bases = st.integers(2, 16)


def common_digit_by_digit(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


@given(bases, st.integers(0, 2**300), st.integers(0, 2**300))
def test_the_common_prefix_is_what_comparing_digit_by_digit_gives(
    alpha: int, one: int, other: int
) -> None:
    vectors = Vectors(alpha)
    v, w = vectors.pack_number(one), vectors.pack_number(other)

    by_digits = common_digit_by_digit(
        vectors.text(v, vectors.length), vectors.text(w, vectors.length)
    )

    assert vectors.common(v, w) == by_digits


@given(bases, st.integers(0, 2**300), st.data())
def test_vectors_share_a_prefix_exactly_if_their_prefixes_are_equal(
    alpha: int, number: int, data: st.DataObject
) -> None:
    vectors = Vectors(alpha)
    digits = data.draw(st.integers(0, vectors.length))
    v = vectors.pack_number(number)
    w = vectors.pack(vectors.text(v, digits))

    assert vectors.prefix(v, digits) == vectors.prefix(w, digits)
    assert vectors.common(v, w) >= digits


@given(bases, st.integers(0, 2**300))
def test_a_packed_number_is_a_valid_vector_of_63_bits_at_most(alpha: int, number: int) -> None:
    vectors = Vectors(alpha)

    assert vectors.valid(vectors.pack_number(number))
    assert vectors.pack_number(number) < 2**63


@pytest.mark.parametrize("alpha", [2, 3, 4])
def test_drawn_digits_are_evenly_spread(alpha: int) -> None:
    vectors = Vectors(alpha)

    firsts = Counter(
        vectors.digit(vectors.draw(b"secret", b"%d" % each), 0) for each in range(3_000)
    )

    assert sorted(firsts) == list(range(alpha))
    assert all(abs(count - 3_000 / alpha) < 5 * (3_000 / alpha) ** 0.5 for count in firsts.values())


def test_a_draw_depends_on_the_secret_and_on_every_name() -> None:
    vectors = Vectors(2)

    drawn = {
        vectors.draw(*names)
        for names in [(b"s", b"a"), (b"t", b"a"), (b"s", b"a", b""), (b"s", b"b")]
    }

    assert len(drawn) == 4
    assert vectors.draw(b"s", b"a") == vectors.draw(b"s", b"a")


def test_fields_beyond_the_base_are_not_valid() -> None:
    assert not Vectors(3).valid(0b11)
    assert not Vectors(2).valid(-1)
    assert not Vectors(2).valid(2**63)
