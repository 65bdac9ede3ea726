"""The HTTP API: what is asked for rightly, and every wrong way to ask."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import httpx
import pytest

from gateway.stages import catalog
from tests.fakes import MetricGrowth
from tests.full_disk import limited_files
from tests.gateway.conftest import RunningGateway, eventually, meets, until
from tests.gateway.doubles import Doubles, FaceDouble
from tests.gateway.visiting import new_session, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


# ------------------------------------------------------------ sessions


async def test_a_session_from_creation_to_end(http: httpx.AsyncClient, doubles: Doubles) -> None:
    session = await new_session(http, language="zh", voice="ada", avatar="eve", speed=1.5)
    info = (await http.get(f"/v1/sessions/{session}")).json()
    assert (info["language"], info["voice"], info["avatar"]) == ("zh", "ada", "eve")
    assert info["state"] == "idle" and info["stages"]["llm"] == doubles.running["llm"].instance
    (asr,) = doubles.seen.of("asr", "config")
    assert asr.config.recognition.language == "zh"
    assert asr.config.recognition.foresight, "answers are prepared before the pause"
    (tts,) = doubles.seen.of("tts", "config")
    assert tts.config.synthesis.speed == 1.5
    listed = (await http.get("/v1/sessions")).json()["sessions"]
    assert [s["id"] for s in listed] == [session]
    assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
    assert "no" in problem(await http.get(f"/v1/sessions/{session}"), 404)
    await until(lambda: doubles.leases() == 0)


async def test_a_session_goes_on_from_what_was_said_in_another(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    said = [
        {"side": "visitor", "text": "My name is Anna."},
        {"side": "avatar", "text": "Hello, Anna."},
    ]
    made = (await http.post("/v1/sessions", json={"history": said})).json()
    await http.post(f"/v1/sessions/{made['id']}/text", json={"text": "Who am I?"})
    await until(lambda: bool(doubles.seen.prompts))
    texts = [text for _, text in doubles.seen.prompts[0]]
    assert texts == ["My name is Anna.", "Hello, Anna.", "Who am I?"]
    refused = await http.post(
        "/v1/sessions", json={"history": [*said, {"side": "me", "text": "?"}]}
    )
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"language": "klingon!"}, "language"),
        ({"speed": 9}, "speed"),
        ({"voice": "a b"}, "voice"),
        ({"persona": "x" * 9000}, "persona"),
        ([], "body"),
        ({"queue": 0}, "queue"),
        ({"tools": [{"name": f"t{k}", "description": "x" * 1100} for k in range(64)]}, "64000"),
        ({"style": "weird"}, "style: there is no style 'weird'; known are neutral, happy"),
        ({f"key{index}": 1 for index in range(5000)}, "key7"),
    ],
)
async def test_a_bad_session_request_is_explained(
    http: httpx.AsyncClient, body: Any, words: str
) -> None:
    told = problem(await http.post("/v1/sessions", json=body), 422)
    assert words in told and len(told) < 4000


async def test_half_a_character_is_no_fault_of_ours(http: httpx.AsyncClient) -> None:
    """JSON can hold one, as a key or a value; no answer can."""
    headers = {"Content-Type": "application/json"}
    for content in (b'{"\\ud800": 1}', b'{"persona": "\\ud800"}'):
        problem(await http.post("/v1/sessions", content=content, headers=headers), 422)
    problem(await http.post("/v1/sessions", content=b"\xff{", headers=headers), 422)


async def test_unknown_names_list_what_exists(http: httpx.AsyncClient) -> None:
    assert "ada" in problem(await http.post("/v1/sessions", json={"voice": "bob"}), 404)
    session = await new_session(http)
    change = await http.patch(f"/v1/sessions/{session}", json={"avatar": "bob"})
    assert "eve" in problem(change, 404)


async def test_a_language_that_nobody_speaks_changes_nothing(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    session = await new_session(http)
    response = await http.patch(f"/v1/sessions/{session}", json={"language": "xx"})
    assert "en, zh" in problem(response, 404)
    assert (await http.get(f"/v1/sessions/{session}")).json()["language"] == "en"
    assert doubles.seen.of("asr", "listening") == []
    assert (await http.patch(f"/v1/sessions/{session}", json={"language": "zh-CN"})).is_success


async def test_a_client_that_leaves_while_its_session_is_made_keeps_no_slot(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    port = int(gateway.url.rsplit(":", 1)[1])
    attached = doubles.seen.attached.get("face", 0)
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    await writer.drain()
    writer.transport.abort()
    await until(lambda: doubles.seen.attached.get("face", 0) > attached)
    await until(lambda: doubles.leases() == 0 and not gateway.inside.sessions.all())


async def test_an_unknown_session_is_404_everywhere(http: httpx.AsyncClient) -> None:
    for asked in (
        "GET", "PATCH", "DELETE", "POST /text", "POST /interrupt", "GET /turns/1",
        "POST /recording", "GET /recording.mp4", "DELETE /webrtc/x",
    ):  # fmt: skip
        method, _, path = asked.partition(" ")
        body = {"text": "x"} if path == "/text" else {}
        response = await http.request(
            method, f"/v1/sessions/nobody{path}", json=None if method == "GET" else body
        )
        assert "nobody" in problem(response, 404), asked


async def test_changes_reach_the_stages(http: httpx.AsyncClient, doubles: Doubles) -> None:
    session = await new_session(http)
    change = {"language": "zh", "voice": "ada", "avatar": "eve", "speed": 0.8}
    info = (await http.patch(f"/v1/sessions/{session}", json=change)).json()
    assert info["language"] == "zh"
    await until(lambda: doubles.seen.of("asr", "listening"))
    await until(lambda: doubles.seen.of("tts", "synthesis"))
    assert doubles.seen.of("tts", "synthesis")[0].synthesis.voice == "ada"
    await until(lambda: doubles.seen.attached["face"] == 2)
    assert doubles.seen.of("face", "config")[-1].config.face.avatar == "eve"


async def test_no_slot_is_429_and_leaves_nothing(http: httpx.AsyncClient, doubles: Doubles) -> None:
    doubles.script.refuse["face"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    counted = MetricGrowth("gateway_session_refusals_total", status="429", reason="at_capacity")
    response = await http.post("/v1/sessions", json={})
    assert "face" in problem(response, 429) and counted.value == 1
    assert int(response.headers["Retry-After"]) > 0
    await until(lambda: doubles.leases() == 0)
    doubles.script.refuse.clear()


# ------------------------------------------------------------ text and turns


async def test_bad_text_is_explained(http: httpx.AsyncClient) -> None:
    session = await new_session(http)
    for text, status, words in (
        (None, 422, "text"),
        (" \n\t\u3000", 422, "nothing"),
        ("\0\x1b\u202e\u200b", 422, "nothing"),
        ("x" * 100_000, 422, "8000"),
        ("x" * 2_000_000, 413, "larger"),
    ):
        body = {} if text is None else {"text": text}
        response = await http.post(f"/v1/sessions/{session}/text", json=body)
        assert words in problem(response, status)


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/chat/completions"])
async def test_a_body_that_is_not_taken_for_json_says_where_or_why(
    http: httpx.AsyncClient, path: str
) -> None:
    for content, kind, said in (
        (b"{oops", "application/json", "body: not JSON, at character 2"),
        (b"{}", "application/x-www-form-urlencoded", "Content-Type: application/json"),
        (b'{"text": "\xff"}', "application/json", "body: not UTF-8, at byte 11"),
        (b"[" * 100_000, "application/json", "body: nested too deeply"),
        (b"9" * 5_000, "application/json", "body: a number in it has too many digits"),
    ):
        response = await http.post(path, content=content, headers={"Content-Type": kind})
        assert said in problem(response, 422 if path == "/v1/sessions" else 400)


async def test_interrupt_returns_the_epoch(http: httpx.AsyncClient) -> None:
    session = await new_session(http)
    turn = (await http.post(f"/v1/sessions/{session}/text", json={"text": "Hi."})).json()["turn"]
    after = (await http.post(f"/v1/sessions/{session}/interrupt")).json()["turn"]
    assert (turn, after) == (1, 2)
    record = (await http.get(f"/v1/sessions/{session}/turns/{turn}")).json()
    assert (record["state"], record["reason"]) == ("interrupted", "interrupt")
    assert "99" in problem(await http.get(f"/v1/sessions/{session}/turns/99"), 404)


# ------------------------------------------------------------ recordings


async def test_recordings_out_of_order(http: httpx.AsyncClient) -> None:
    path = f"/v1/sessions/{await new_session(http)}"
    problem(await http.get(f"{path}/recording.mp4"), 404)
    problem(await http.post(f"{path}/recording/stop"), 404)
    assert (await http.post(f"{path}/recording", json={"scope": "turn"})).status_code == 201
    problem(await http.post(f"{path}/recording", json={}), 409)
    problem(await http.get(f"{path}/recording.mp4"), 409)
    assert (await http.post(f"{path}/recording/stop")).json()["state"] == "done"
    problem(await http.get(f"{path}/recording.mp4"), 404)
    assert "scope" in problem(await http.post(f"{path}/recording", json={"scope": "x"}), 422)


# ------------------------------------------------------------ voices and avatars


async def test_voices_and_avatars(http: httpx.AsyncClient) -> None:
    (voice,) = (await http.get("/v1/voices")).json()["voices"]
    assert (voice["name"], voice["controls"], voice["styles"]) == ("ada", ["speed"], ["neutral"])
    form: dict[str, Any] = {
        "data": {"name": "me"},
        "files": {"photo": ("me.jpg", b"picture", "image/jpeg")},
    }
    assert (await http.post("/v1/avatars", **form)).json()["name"] == "me"
    assert "exists" in problem(await http.post("/v1/avatars", **form), 409)
    names = [a["name"] for a in (await http.get("/v1/avatars")).json()["avatars"]]
    assert names == ["eve", "me"]
    problem(await http.get("/v1/avatars/me/consent"), 404)
    portrait = await http.get("/v1/avatars/me/portrait.jpg")
    assert portrait.headers["content-type"] == "image/jpeg" and portrait.content
    problem(await http.patch("/v1/avatars/me", json={"name": "eve"}), 409)
    problem(await http.patch("/v1/avatars/me", json={"name": "a b"}), 422)
    renamed = await http.patch("/v1/avatars/me", json={"name": "mine"})
    assert renamed.json()["name"] == "mine"
    problem(await http.get("/v1/avatars/me/portrait.jpg"), 404)
    assert (await http.delete("/v1/avatars/mine")).status_code == 204
    problem(await http.delete("/v1/avatars/mine"), 404)


async def test_a_service_that_does_not_answer_in_time_is_named(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "CREATE_TIMEOUT_S", 0.3)
    form: dict[str, Any] = {"data": {"name": "slow"}, "files": {"photo": ("x", b"slow")}}
    told = problem(await http.post("/v1/avatars", **form), 503)
    assert told == "face: it does not answer within 0.3 s"


async def test_where_a_service_listens_is_told_to_nobody(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    await doubles.running["tts"].hang_up()
    told = problem(await http.get("/v1/voices"), 503)
    # Or it is off the list already.
    assert told in ("tts: its replica cannot be reached", "tts: no replica is running")
    await doubles.stop("tts")


async def test_a_replica_that_hangs_withholds_no_list(
    http: httpx.AsyncClient,
    gateway: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await doubles.start("tts")
    await meets(gateway, doubles)
    first = gateway.inside.registry.replicas("tts")[0].replica.instance
    doubles.script.silent = {first}
    monkeypatch.setattr(catalog, "CALL_TIMEOUT_S", 1.0)
    assert [v["name"] for v in (await http.get("/v1/voices")).json()["voices"]] == ["ada"]


async def test_what_the_person_shown_has_agreed_to_is_kept_and_told(
    http: httpx.AsyncClient,
) -> None:
    said = {"likeness": "Ann Lee", "agreed_to": "to greet visitors"}
    form: dict[str, Any] = {"data": {"name": "ann", **said}, "files": {"photo": ("x", b"picture")}}
    assert "Lee" not in (await http.post("/v1/avatars", **form)).text
    told = (await http.get("/v1/avatars/ann/consent")).json()
    by = {"stated_by": "an operator", "stated_via": "http", "stated_at": ""}
    assert told == {**said, **by}, "when it was stated the face says"
    assert "Lee" not in (await http.get("/v1/avatars")).text, "anybody may read that list"
    problem(await http.get("/v1/avatars/eve/consent"), 404)
    problem(await http.get("/v1/avatars/nobody/consent"), 404)
    await http.delete("/v1/avatars/ann")


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"data": {"name": "me"}, "files": {"photo": ("x", b"bad")}}, 422, "no face"),
        ({"data": {"name": "me"}, "files": {"photo": ("x", b"")}}, 422, "empty"),
        ({"data": {"name": "me"}, "files": {"other": ("x", b"y")}}, 422, "photo"),
        ({"files": {"photo": ("x", b"y")}}, 422, "name"),
        ({"data": {"name": "me"}, "files": {"photo": ("x", b"y" * 1_200_000)}}, 413, "1 MB"),
        ({"data": {"name": "../me"}, "files": {"photo": ("x", b"x")}}, 422, "name"),
        (
            {"data": {"name": b"m\xff"}, "files": {"photo": ("x", b"x")}},
            422,
            "name: not UTF-8, at byte 2",
        ),
        ({"content": b"nonsense", "headers": {"Content-Type": "multipart/form-data"}}, 400, ""),
    ],
)
async def test_a_bad_upload_is_explained(
    http: httpx.AsyncClient, form: dict[str, Any], status: int, words: str
) -> None:
    assert words in problem(await http.post("/v1/avatars", **form), status)


async def test_a_client_that_leaves_ends_the_making_of_its_avatar(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    face = doubles.running["face"]
    assert isinstance(face, FaceDouble)
    form: dict[str, Any] = {"data": {"name": "slow"}, "files": {"photo": ("x", b"slow")}}
    leaving = asyncio.create_task(http.post("/v1/avatars", **form))
    await until(lambda: face.creating)
    leaving.cancel()
    await until(lambda: not face.creating)


async def test_a_photo_needs_no_room_on_the_disk(http: httpx.AsyncClient) -> None:
    form: dict[str, Any] = {"data": {"name": "me"}, "files": {"photo": ("x", bytes(1_080_000))}}
    with limited_files(0):
        assert "larger than 1 MB" in problem(await http.post("/v1/avatars", **form), 413)


# ------------------------------------------------------------ operation


async def test_what_operators_see(http: httpx.AsyncClient, doubles: Doubles) -> None:
    async def told() -> list[dict[str, Any]]:
        services: list[dict[str, Any]] = (await http.get("/v1/services")).json()["services"]
        return services

    async def all_free() -> bool:
        """The sessions of the test before may still be leaving."""
        return all(s["healthy"] and s["free_slots"] == 4 for s in await told())

    await eventually(all_free)
    services = await told()
    assert [s["service"] for s in services] == ["asr", "face", "llm", "tts"]
    assert {engine["file"] for s in services for engine in s["engines"]} == {"double-q4.gguf"}
    targets = (await http.get("/v1/metrics-targets")).json()
    assert targets[0]["labels"] == {"service": "gateway"}
    assert "gateway_sessions" in (await http.get("/metrics")).text
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ok"}


async def test_the_api_page_needs_nothing_from_outside(http: httpx.AsyncClient) -> None:
    page = (await http.get("/docs")).text
    assert "https://" not in page.replace("https://fastapi", "")
    assert (await http.get("/docs/swagger-ui-bundle.js")).status_code == 200


async def test_what_openais_clients_do_not_find_is_told_in_their_shape(
    http: httpx.AsyncClient,
) -> None:
    for method, path, status, code in (
        ("POST", "/v1/audio/translations", 404, "unknown_url"),
        ("POST", "/v1/chat/nothing", 404, "unknown_url"),
        ("POST", "/v1/responses", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, None),
        ("GET", "/v1/models/nobody", 404, "model_not_found"),
    ):
        answer = await http.request(method, path)
        told = answer.json()["error"]
        assert (answer.status_code, told["code"]) == (status, code)
        assert told["type"] == "invalid_request_error" and told["message"]


async def test_a_wrong_method_is_told_the_right_ones(http: httpx.AsyncClient) -> None:
    assert "GET /v1/nothing" in problem(await http.get("/v1/nothing"), 404)
    for method, path, allowed in (
        ("PUT", "/v1/sessions", {"GET", "POST"}),
        ("POST", "/v1/sessions/nobody", {"GET", "PATCH", "DELETE"}),
        ("POST", "/static/main.js", {"GET", "HEAD"}),
    ):
        response = await http.request(method, path)
        problem(response, 405)
        assert set(response.headers["Allow"].split(", ")) == allowed
