"""`docs/how-to/run-a-network.md` followed word by word, in namespaces of its own.

    unshare -rnmpf --kill-child --mount-proc python tests/live/how_to.py

types every command that stands in a block of the page, in their order, and checks what the page says of each. Two
addresses of one machine stand for its two machines, so that a node listens at the address it advertises and not at all;
nothing else is changed. Prints what was typed; exit code 1, with a sentence, when something is not as the page says.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-network.md"
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESSES = ("192.0.2.7", "192.0.2.8")
WAIT_S = 60.0
GOES_ON = ("local ", "inbox ", "node ", "authority serve")
"""What runs until it is stopped."""


class NotAsSaid(Exception):
    """Something is not as the page says."""


class Terminal:
    """One command, typed in a terminal of its own."""

    def __init__(self, words, folder):
        self.words = words
        self._said = (folder / f"said-{time.monotonic_ns()}").open("w+")
        command = [sys.executable, "-m", "implicast", *words]
        self._process = subprocess.Popen(
            command, cwd=folder, stdout=self._said, stderr=subprocess.STDOUT
        )
        print("$ implicast", shlex.join(words), flush=True)

    def text(self):
        self._said.seek(0)
        return self._said.read()

    def shows(self, pattern):
        """Wait until it shows this."""
        deadline = time.monotonic() + WAIT_S
        while not re.search(pattern, self.text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NotAsSaid(
                    f"implicast {shlex.join(self.words)} does not show {pattern!r} but:\n{self.text()}"
                )
            time.sleep(0.1)

    def ends(self):
        """Wait until it ends well; what it said."""
        if self._process.wait(WAIT_S):
            raise NotAsSaid(
                f"implicast {shlex.join(self.words)} ends with {self._process.returncode}:\n{self.text()}"
            )
        return self.text()

    def interrupt(self):
        """Ctrl-C."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(WAIT_S)


def typed(page):
    """The blocks of the page: lists of commands, or text that goes into a file."""
    for block in BLOCK.findall(page):
        lines = [line for line in block.splitlines() if line]
        are_commands = all(line.startswith("implicast ") for line in lines)
        yield [shlex.split(line)[1:] for line in lines] if are_commands else block


def here(words):
    """The same command where two machines are one."""
    if "--advertise" not in words:
        return words
    host = words[words.index("--advertise") + 1].partition(":")[0]
    return [word.replace("0.0.0.0", host) for word in words]


class Reader:
    """Follows the page."""

    def __init__(self, folder):
        self._folder = folder
        self._open = {}
        """By folder or command, what goes on."""

    def follow(self, page):
        try:
            for block in typed(page):
                if isinstance(block, str):
                    (self._folder / "lab-authority" / "authority.toml").write_text(block)
                    continue
                for words in block:
                    self._type(here(words))
        finally:
            for terminal in reversed(self._open.values()):
                terminal.interrupt()

    def _type(self, words):
        line = shlex.join(words)
        if words[0] == "client":
            self._with_proxies()
        terminal = Terminal(words, self._folder)
        if not line.startswith(GOES_ON):
            self._check(words, terminal.ends())
            return
        self._open[line if words[0] != "node" else words[1]] = terminal
        if words[0] == "local":
            terminal.shows("Ctrl-C stops the network")
        elif words[0] == "inbox":
            terminal.shows("hello from ann" if "--dir" in words else "hello")
        elif words[0] == "node":
            self._answers(words[1], "registered")

    def _check(self, words, said):
        """What the page says of it."""
        casts = words[0] == "cast" or "--cast" in words
        if casts and not re.search(r"([1-9]\d*) of \1 notified", said):
            raise NotAsSaid(f"not all were notified by implicast {shlex.join(words)}:\n{said}")
        if "allow" in words:
            self._types_once(["describe", 'gpu, eu, role = "doctor"', "--dir", "ann"])
        if words[0] == "client" and "--describe" in words:
            self._types_once(["cast", "phone", "-m", "wake up", "--dir", "ann"])
        elif words[0] == "client" and not casts and said.count("wake up") != 1:
            raise NotAsSaid(f"the client did not fetch the message once:\n{said}")

    def _types_once(self, words):
        """What a reader tries at this place."""
        self._check(words, Terminal(words, self._folder).ends())

    def _with_proxies(self):
        for name in ("ann", "bob"):
            if name in self._open:
                self._open.pop(name).interrupt()
                self._open[f"{name} --proxy"] = Terminal(["node", name, "--proxy"], self._folder)
                self._answers(name, "registered")

    def _answers(self, name, what):
        """Wait until the node in a folder is so far."""
        deadline = time.monotonic() + WAIT_S
        command = [sys.executable, "-m", "implicast", "status", "--dir", name, "--json"]
        while (
            f'"{what}": true'
            not in subprocess.run(
                command, cwd=self._folder, capture_output=True, text=True, check=False
            ).stdout
        ):
            if time.monotonic() > deadline:
                raise NotAsSaid(f"the node in {name} is not {what} after {WAIT_S:.0f} s")
            time.sleep(0.3)


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ADDRESSES:
        subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory(prefix="implicast-how-to-") as folder:
        os.environ["HOME"] = folder
        os.environ.pop("IMPLICAST_HOME", None)
        try:
            Reader(Path(folder)).follow(PAGE.read_text())
        except NotAsSaid as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
