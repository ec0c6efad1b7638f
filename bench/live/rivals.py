"""How members join each rival, and how its server is started. Imports happen inside: what is
missing is skipped.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from members import Join, Publish, Take

HOST = "127.0.0.1"


def library_path(home: Path) -> dict[str, str]:
    lib = home / "root" / "usr" / "lib" / "x86_64-linux-gnu"
    return {**os.environ, "LD_LIBRARY_PATH": f"{lib}:{home / 'root/lib/x86_64-linux-gnu'}"}


def started(home: Path, *words: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        words, env=library_path(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(1.0)
    if process.poll() is not None:
        raise OSError(f"{words[0]} ended with code {process.returncode}")
    return process


class Nats:
    """Core NATS: a subject for each tag."""

    name, settings = "NATS", "core subjects, one per tag, no JetStream, no TLS"

    def start(self, home: Path) -> Any:
        return started(home, str(home / "python/bin/nats-server"), "-a", HOST, "-p", "4222")

    def version(self, home: Path) -> str:
        return _said(home, home / "python/bin/nats-server", "--version").split()[-1]

    def join(self) -> Join:
        async def join(number: int, tags: tuple[str, ...], take: Take) -> Publish:
            import nats

            client = await nats.connect(f"nats://{HOST}:4222")

            async def came(message: Any) -> None:
                take(message.data)

            for tag in tags:
                await client.subscribe(f"tag.{tag}", cb=came)
            await client.flush()

            async def publish(topic: str, data: bytes) -> None:
                await client.publish(f"tag.{topic}", data)

            return publish

        return join


class Mosquitto:
    """MQTT 3.1.1: a topic for each tag."""

    name, settings = (
        "Mosquitto",
        "MQTT 3.1.1, a topic per tag, QoS 1 both ways, clean sessions, no TLS",
    )

    def start(self, home: Path) -> Any:
        file = home / "mosquitto.conf"
        file.write_text(
            f"listener 1883 {HOST}\nallow_anonymous true\npersistence false\nuser root\n"
        )
        return started(home, str(home / "root/usr/sbin/mosquitto"), "-c", str(file))

    def version(self, home: Path) -> str:
        return _said(home, home / "root/usr/sbin/mosquitto", "-h").split("\n")[0].split()[-1]

    def join(self) -> Join:
        async def join(number: int, tags: tuple[str, ...], take: Take) -> Publish:
            import paho.mqtt.client as mqtt

            loop, ready = asyncio.get_running_loop(), asyncio.Event()
            client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"m{number}")
            client.on_message = lambda _, __, message: loop.call_soon_threadsafe(
                take, message.payload
            )
            client.on_subscribe = lambda *_: loop.call_soon_threadsafe(ready.set)
            client.connect(HOST, 1883)
            client.loop_start()
            client.subscribe([(f"tag/{tag}", 1) for tag in tags])
            await ready.wait()

            async def publish(topic: str, data: bytes) -> None:
                client.publish(f"tag/{topic}", data, qos=1)

            return publish

        return join


class Redis:
    """Redis Pub/Sub: a channel for each tag."""

    name, settings = "Redis", "Pub/Sub channels, one per tag, no persistence, no TLS"

    def start(self, home: Path) -> Any:
        return started(
            home,
            str(home / "root/usr/bin/redis-server"),
            "--bind",
            HOST,
            "--port",
            "6379",
            "--save",
            "",
            "--appendonly",
            "no",
            "--protected-mode",
            "no",
        )

    def version(self, home: Path) -> str:
        return (
            _said(home, home / "root/usr/bin/redis-server", "--version").split("v=")[1].split()[0]
        )

    def join(self) -> Join:
        async def join(number: int, tags: tuple[str, ...], take: Take) -> Publish:
            import redis.asyncio as redis

            client = redis.Redis(host=HOST, port=6379)
            listening = client.pubsub(ignore_subscribe_messages=True)
            await listening.subscribe(*(f"tag:{tag}" for tag in tags))

            async def listen() -> None:
                async for message in listening.listen():
                    take(message["data"])

            tasks.append(asyncio.create_task(listen()))

            async def publish(topic: str, data: bytes) -> None:
                await client.publish(f"tag:{topic}", data)

            return publish

        tasks: list[asyncio.Task[None]] = []
        return join


class Zenoh:
    """Zenoh peers without a router: a key for each tag."""

    name = "Zenoh"
    settings = (
        "peers, gossip scouting from one known peer, a key expression per tag, reliable TCP, no TLS"
    )

    def start(self, home: Path) -> Any:
        return None

    def version(self, home: Path) -> str:
        import zenoh

        return str(getattr(zenoh, "__version__", "") or "1.10.2")

    def join(self) -> Join:
        async def join(number: int, tags: tuple[str, ...], take: Take) -> Publish:
            import zenoh

            await asyncio.sleep(0.05 * number)
            loop = asyncio.get_running_loop()
            config = zenoh.Config()
            config.insert_json5("mode", '"peer"')
            config.insert_json5("listen/endpoints", f'["tcp/{HOST}:{17000 + number}"]')
            config.insert_json5("connect/endpoints", f'["tcp/{HOST}:17000"]' if number else "[]")
            config.insert_json5("scouting/multicast/enabled", "false")
            session = zenoh.open(config)

            def came(sample: Any) -> None:
                loop.call_soon_threadsafe(take, bytes(sample.payload))

            everything.append(
                (session, [session.declare_subscriber(f"tag/{tag}", came) for tag in tags])
            )

            async def publish(topic: str, data: bytes) -> None:
                session.put(f"tag/{topic}", data)

            return publish

        everything: list[Any] = []
        return join


def _said(home: Path, *words: Any) -> str:
    return subprocess.run(
        [str(each) for each in words],
        env=library_path(home),
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


RIVALS: tuple[Callable[[], Any], ...] = (Nats, Mosquitto, Redis, Zenoh)


def make_importable(home: Path) -> None:
    sys.path.append(str(home / "python"))
