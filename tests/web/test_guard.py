"""Nobody without the token, nobody from elsewhere; and nothing that strangers wrote does anything."""

import socket

import httpx
import pytest
from starlette.routing import Mount, Route

from implicast.web.app import application


def paths(desk):
    routes = application(desk, 1)._app.routes
    found = [route for route in routes if isinstance(route, Route)]
    assert any(isinstance(route, Mount) for route in routes)
    return [
        (
            method,
            route.path.replace("{uid}", "x")
            .replace("{draft:int}", "1")
            .replace("{letter:int}", "1")
            .replace("{number:int}", "0")
            .replace("{file:int}", "1"),
        )
        for route in found
        for method in sorted(route.methods or ())
    ]


def test_without_the_token_every_page_is_refused(stage):
    every = stage.do(paths, stage.desk("ann"))
    base = stage.base("ann")
    assert len(every) > 40
    for cookies in ({}, {f"implicast_{base.rpartition(':')[2]}": "wrong"}):
        with httpx.Client(base_url=base, cookies=cookies, headers={"origin": base}) as client:
            for method, path in [
                *every,
                ("GET", "/static/page.js"),
                ("GET", "/nowhere"),
                ("GET", "/?token=wrong"),
            ]:
                assert client.request(method, path).status_code in (401, 403), (method, path)


def test_the_token_leaves_the_address_and_becomes_a_cookie_no_script_reads(stage):
    answer = httpx.get(stage.address("ann"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "path", ["//elsewhere.example", "/\\elsewhere.example", "/%0d%0aset-cookie:x"]
)
def test_the_way_in_does_not_lead_elsewhere(stage, path):
    token = stage.address("ann").partition("token=")[2]
    answer = httpx.get(f"{stage.base('ann')}{path}?token={token}")
    assert not answer.headers.get("location", "/").startswith(("//", "/\\", "http"))
    assert "x" not in answer.headers.get_list("set-cookie")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {},
    ],
)
def test_changes_from_elsewhere_are_refused(stage, headers):
    client = stage.client("ann")
    before = stage.do(stage.desk("ann").drafts.all)
    del client.headers["origin"]
    answer = client.post("/write/new", data={"target": "samba"}, headers=headers)
    assert answer.status_code == 403
    assert stage.do(stage.desk("ann").drafts.all) == before


def test_a_foreign_name_for_this_machine_is_refused(stage):
    client = stage.client("ann")
    assert client.get("/inbox", headers={"host": "elsewhere.example"}).status_code == 403
    assert client.get("/inbox").status_code == 200


def test_every_answer_carries_the_policy(stage):
    client = stage.client("ann")
    for path in (
        "/inbox",
        "/static/htmx.min.js",
        "/nowhere",
        "/network/now",
        "/write/check?target=(",
    ):
        answer = client.get(path)
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in answer.headers["content-security-policy"]


def test_too_much_is_refused_before_it_is_read(stage):
    client = stage.client("ann")
    with socket.create_connection(("127.0.0.1", int(stage.base("ann").rpartition(":")[2]))) as line:
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        base = stage.base("ann")
        line.sendall(
            f"POST /write/new HTTP/1.1\r\nHost: {base[7:]}\r\nOrigin: {base}\r\nCookie: {cookie}\r\n"
            f"Content-Length: {1 << 30}\r\n\r\n".encode()
        )
        assert line.recv(100).startswith(b"HTTP/1.1 413")
    assert client.post("/write/new", content=iter([b"target=a"])).status_code == 413
