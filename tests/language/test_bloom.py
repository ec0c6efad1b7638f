"""Bloom filters: never wrong about absence, wrong about presence as often as they were sized for."""

from hashlib import sha1

import pytest

from implicast.language.bloom import Bloom, bits_for, hashes_for, positions
from implicast.language.errors import LanguageError
from implicast.language.parse import parse


def filled(count: int, error: float = 0.1, prefix: str = "t") -> Bloom:
    bloom = Bloom.sized(count, error)
    bloom.update(f"{prefix}{number}" for number in range(count))
    return bloom


@pytest.mark.parametrize("error", [0.3, 0.1, 0.01])
def test_the_false_positive_rate_is_what_was_asked_for(error: float) -> None:
    bloom = filled(5_000, error)

    wrong = sum(bloom.might_hold(f"absent{number}") for number in range(20_000)) / 20_000

    assert all(bloom.might_hold(f"t{number}") for number in range(5_000))
    assert wrong == pytest.approx(error, rel=0.25)
    assert 0.4 < bloom.fill() < 0.6


def test_a_target_passes_if_every_wanted_tag_of_some_term_may_be_there() -> None:
    bloom = Bloom(10_000, 4)
    bloom.update(["jazz", "football"])

    assert bloom.passes(parse("jazz & football"))
    assert bloom.passes(parse("jazz & !football"))
    assert bloom.passes(parse("samba | jazz"))
    assert bloom.passes(parse("jazz & price = @5"))
    assert not bloom.passes(parse("jazz & samba"))
    assert not bloom.passes(parse("samba & polka | chess"))


def test_a_union_holds_what_either_holds() -> None:
    one, other = filled(100), filled(100, prefix="u")

    both = one | other

    assert all(both.might_hold(f"{prefix}{number}") for prefix in "tu" for number in range(100))
    assert both.fill() > one.fill()
    with pytest.raises(LanguageError, match="cannot be united"):
        one.union(filled(101))


def test_a_filter_travels_as_bytes() -> None:
    bloom = filled(100)

    copy = Bloom.from_bytes(bloom.to_bytes(), bloom.bits, bloom.hashes)

    assert copy == bloom
    assert len(bloom.to_bytes()) == (bloom.bits + 7) // 8
    with pytest.raises(LanguageError, match="bytes"):
        Bloom.from_bytes(b"abc", bloom.bits, bloom.hashes)


def test_positions_come_from_one_digest_by_double_hashing() -> None:
    state = sha1(
        len(b"bloom").to_bytes(4, "big") + b"bloom" + len(b"jazz").to_bytes(4, "big") + b"jazz"
    )
    first, second = (int.from_bytes(state.digest()[start : start + 8], "big") for start in (0, 8))

    assert positions("jazz", 480, 4) == tuple(
        (first + turn * (1 + second % 479)) % 480 for turn in range(4)
    )


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, 2.0])
def test_a_rate_that_is_no_chance_is_refused(error: float) -> None:
    with pytest.raises(LanguageError, match="between 0 and 1"):
        Bloom.sized(10, error)


def test_sizes_without_sense_are_refused() -> None:
    with pytest.raises(LanguageError, match="at least 1"):
        bits_for(0, 0.1)
    with pytest.raises(LanguageError, match="no Bloom filter"):
        Bloom(0, 1)
    assert hashes_for(0.5) == 1
    assert hashes_for(0.9) == 1
