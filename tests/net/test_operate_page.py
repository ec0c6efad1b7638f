"""`docs/how-to/operate-a-network.md` typed word by word."""

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

from commands import COMMAND

from implicast.net.commands import control
from implicast.net.commands.local import free_ports

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate-a-network.md"
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"\b(71\d\d|91\d\d)\b")
WAIT_S = 90


class Reader:
    """Follows the page in a folder."""

    def __init__(self, folder):
        self._folder, self.open, self.ended, self._ports = folder, {}, {}, {}

    def follow(self, lines):
        for line in lines:
            if line.startswith("# Ctrl-C in the terminal of "):
                self._stop(line.rpartition(" ")[2])
            else:
                words = shlex.split(PORT.sub(self._port, line))[1:]
                self._type(words)

    def _port(self, found):
        return str(self._ports.setdefault(found[0], free_ports(1)[0]))

    def _type(self, words):
        if words[0] == "node":
            with (self._folder / f"{words[1]}.log").open("a") as log:
                self.open[words[1]] = subprocess.Popen(
                    [*COMMAND, *words], cwd=self._folder, stdout=log, stderr=log
                )
            self._until_registered(words[1])
            return
        went = subprocess.run(
            [*COMMAND, *words], cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert went.returncode == 0, (words, went.stdout, went.stderr)
        if words[0] == "cast":
            assert "3 of 3 notified" in went.stdout
        if words[:2] == ["authority", "revoke"]:
            self.ended["cem"] = self.open.pop("cem").wait(timeout=WAIT_S)

    def _until_registered(self, name):
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                if next(control.ask(self._folder / name, {"do": "status"}))["registered"]:
                    return
            except control.ControlError:
                assert self.open[name].poll() is None, (self._folder / f"{name}.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def _stop(self, name):
        process = self.open.pop(name)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=WAIT_S)

    def close(self):
        for process in self.open.values():
            process.terminate()
        for process in self.open.values():
            process.wait(timeout=WAIT_S)


def test_the_page_can_be_followed_word_by_word(tmp_path):
    lines = [line for block in BLOCK.findall(PAGE.read_text()) for line in block.splitlines()]
    reader = Reader(tmp_path)
    try:
        reader.follow(lines)
        notes = control.ask(tmp_path / "bob", {"do": "inbox", "keep": True})
        assert sorted(each["text"] for each in notes) == ["first", "second"]
    finally:
        reader.close()
    assert reader.ended == {"cem": 2}
    assert "this node was revoked" in (tmp_path / "cem.log").read_text()
    assert json.dumps(lines).count("implicast") >= 15
