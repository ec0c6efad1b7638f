"""Small objects on huge pages: the same memory, used, given back and used again."""

import subprocess
import sys

import pytest

pytest.importorskip("implicast.world._arenas", reason="not built: there is no C compiler")

STORY = """
import gc, re, sys
from implicast.world import _arenas

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

def lot(salt):
    return [(salt, number, str(number)) for number in range(400_000)]

before = lot(1)
assert _arenas.on_huge_pages() == _arenas.on_huge_pages()
first = resident()
kept = [lot(salt) for salt in range(4)]
most = resident()
assert all(lot(salt) == each for salt, each in enumerate(kept)), "what was put there is there"
del kept, before
gc.collect()
least = resident()
again = [lot(salt) for salt in range(4)]
assert all(each[-1] == (salt, 399_999, "399999") for salt, each in enumerate(again))
print(first, most, least, resident())
"""


def test_what_is_on_huge_pages_is_kept_given_back_and_used_again():
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is looked up in /proc")
    ran = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    first, most, least, again = map(int, ran.stdout.split())
    assert most > first + 150
    assert least < first + 30, "arenas that are free go back to the system"
    assert again < most + 30, "and are used again"
