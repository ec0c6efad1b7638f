"""Every scene of `tests/scenes` plays as its file says.

python tests/test_scenes.py             plays all scenes and prints what differs
python tests/test_scenes.py --rewrite   writes the transcripts anew
"""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from scene import SceneError, difference, load_scene, play, read_scene

FOLDER = Path(__file__).parent / "scenes"
PATHS = sorted(FOLDER.glob("*.txt"))
ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_scene(path):
    scene = load_scene(path)
    assert not (found := difference(scene, play(scene))), (
        f"{found}\nif the change means to alter this, run python tests/test_scenes.py --rewrite"
    )


def test_architecture_links_every_scene():
    text = ARCHITECTURE.read_text("utf-8")
    assert len(PATHS) >= 12
    assert [path.name for path in PATHS if f"(tests/scenes/{path.name})" not in text] == []


def test_a_changed_transcript_is_seen():
    scene = load_scene(FOLDER / "centralised_cast.txt")
    changed = read_scene(scene.name, scene.text.replace("notified=1", "notified=2"))
    assert changed.text != scene.text
    assert "-" in difference(changed, play(changed))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("design dht peers=4\n", "x.txt:1: the block ends without a line ----"),
        ("", "x.txt:1: there is no block"),
        ("run 1s\n----\n", "x.txt:1: run 1s: the first command is `design`"),
        ("design dht\n----\n", "it takes NAME peers=N"),
        ("design dht peers=4\ncrush 1\n----\n", "x.txt:2: crush 1: unknown command 'crush'"),
        ("design dht peers=4\ncrash 9\n----\n", "there is no peer at 9"),
        ("design dht peers=4\nhide Nonsense\n----\n", "dht has no message 'Nonsense'"),
        ("design dht peers=4\nrun 3h\n----\n", "'3h' is no duration"),
    ],
)
def test_an_error_names_file_line_and_remedy(text, said):
    with pytest.raises(SceneError) as caught:
        play(read_scene("x.txt", text))
    assert said in str(caught.value)


def test_the_command_plays_all_scenes():
    went = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert (went.returncode, went.stdout) == (0, f"{len(PATHS)} scenes play as written\n")


def main() -> int:
    """Plays all scenes; with `--rewrite` writes their transcripts."""
    parser = argparse.ArgumentParser(description="Play the scenes of tests/scenes.")
    parser.add_argument("--rewrite", action="store_true", help="write the transcripts anew")
    rewrite = parser.parse_args().rewrite
    found = []
    for path in PATHS:
        scene = load_scene(path)
        played = play(scene)
        if rewrite:
            path.write_text(played, "utf-8")
        elif text := difference(scene, played):
            found.append(text)
    if not rewrite:
        print("\n".join(found) or f"{len(PATHS)} scenes play as written")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
