"""The API's description: in words that its version has, and true of what answers; and of events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi import FastAPI

from deploy import client_types, events_page
from gateway.access.callers import SOCKET
from gateway.api.app import create_app
from gateway.api.events import Command, ServerEvent
from gateway.openai.errors import is_openai
from gateway.settings import GatewaySettings
from tests.gateway.access.test_roles import doors


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(GatewaySettings.model_validate({}))


@pytest.fixture(scope="module")
def described(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Whatever could be one: all objects within."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from schemas_in(each)
    elif isinstance(node, list):
        for each in node:
            yield from schemas_in(each)


def answers(described: dict[str, Any], method: str, path: str) -> dict[str, dict[str, Any]]:
    """Of one route: what each status brings, by media type."""
    told = described["paths"][path][method]["responses"]
    return {status: answer.get("content", {}) for status, answer in told.items()}


def test_no_schema_has_a_word_that_the_version_lacks(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.0.")
    for schema in schemas_in(described):
        assert schema.get("type") != "null"
        assert not {"const", "propertyNames", "prefixItems", "$defs"} & schema.keys()
        for limit in ("Minimum", "Maximum"):
            exclusive = schema.get(f"exclusive{limit}", False)
            assert isinstance(exclusive, bool) and (limit.lower() in schema or not exclusive)
        if schema.get("nullable"):
            assert "type" in schema and None in schema.get("enum", [None])
        assert "$ref" not in schema or len(schema) == 1
    assert "HTTPValidationError" not in str(described)


def test_limits_and_absences_are_told_as_the_version_tells_them(described: dict[str, Any]) -> None:
    asked = described["components"]["schemas"]["ChatRequest"]["properties"]
    share, stop = asked["top_p"], asked["stop"]["anyOf"]
    assert (share["minimum"], share["exclusiveMinimum"]) == (0, True)
    assert (share["maximum"], share["type"], share["nullable"]) == (1, "number", True)
    assert (len(stop), stop[-1]) == (3, {"enum": [None]})


def test_every_route_is_described_and_wants_a_key(described: dict[str, Any]) -> None:
    routes = {
        f"{method} {path}": route
        for path, methods in described["paths"].items()
        for method, route in methods.items()
    }
    assert "post /v1/sessions/{session_id}/webrtc" in routes
    assert [asked for asked, route in routes.items() if not route.get("description")] == []
    keyless = {asked for asked, route in routes.items() if not route["security"]}
    assert keyless == {"get /healthz", "get /readyz"}
    # This gateway has no keys: it does without, too.
    assert all({} in route["security"] for asked, route in routes.items() if asked not in keyless)


def test_generated_clients_have_names_that_say_what_they_do(described: dict[str, Any]) -> None:
    """And no two alike: generators leave out the second, and all that is made of it."""
    routes = [route for methods in described["paths"].values() for route in methods.values()]
    operations = [route["operationId"] for route in routes]
    assert len(set(operations)) == len(operations) and "create_session" in operations
    assert [name for name in operations if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    schemas = described["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == []
    titles = [schema.get("title", name) for name, schema in schemas.items()]
    assert len(set(titles)) == len(titles)
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for route in routes for tag in route["tags"]} == tags


def test_generated_clients_are_told_what_always_comes(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for name in ("NewSession", "NewPlace", "TurnRecord", "RecordingInfo", "RoomInfo"):
        assert set(schemas[name]["required"]) == set(schemas[name]["properties"]), name
    made = answers(described, "post", "/v1/sessions")
    told = [
        made[s]["application/json"]["schema"]["$ref"].rpartition("/")[2] for s in ("201", "202")
    ]
    assert told == ["NewSession", "NewPlace"]
    portrait = answers(described, "get", "/v1/avatars/{name}/portrait.jpg")
    assert portrait["200"]["image/jpeg"]["schema"]["format"] == "binary"
    full = described["paths"]["/v1/sessions"]["post"]["responses"]["429"]
    assert "Retry-After" in full["headers"]


def test_the_page_of_openais_api_names_our_own_paths(described: dict[str, Any]) -> None:
    page = Path(__file__).parents[3] / "docs" / "clients" / "openai-http.md"
    listed = re.search(r"\(ours are ([^)]*)\)", page.read_text(encoding="utf-8"))
    assert listed is not None
    ours = {path.split("/")[2] for path in described["paths"] if path.startswith("/v1/")}
    assert set(re.findall(r"`(.+?)`", listed[1])) == {
        name for name in ours if not is_openai(f"/v1/{name}")
    }


def test_every_socket_and_event_is_named(app: FastAPI, described: dict[str, Any]) -> None:
    """OpenAPI has no words for them: the text before the routes tells of them."""
    text = described["info"]["description"]
    sockets = [path for method, path in doors(app.routes) if method == SOCKET]
    named = [path for path in sockets if not path.endswith(":path}")]
    ends = [path.removeprefix("/v1/sessions/{session_id}/") for path in named]
    assert len(ends) > 6
    assert [
        end for end in ends if not re.search(rf"[/…]{re.escape(end.lstrip('/'))}[`?]", text)
    ] == []
    kinds = [kind.model_fields["type"] for kind in get_args(ServerEvent | Command)]
    types = {get_args(kind.annotation)[0] for kind in kinds} - {"place"}  # of a socket of its own
    assert [name for name in sorted(types) if not re.search(f'[`"]{name}[`"]', text)] == []


def test_where_clients_of_openai_ask_refusals_are_described_in_their_shape(
    described: dict[str, Any],
) -> None:
    for path, methods in described["paths"].items():
        for method in methods:
            told = answers(described, method, path)
            shapes = {
                content["application/json"]["schema"]["$ref"].rpartition("/")[2]
                for status, content in told.items()
                if "400" <= status < "503"
            }
            assert shapes <= {"OpenAiProblem" if is_openai(path) else "Problem"}, path


def test_answers_are_described_as_what_they_are(described: dict[str, Any]) -> None:
    captions = answers(described, "get", "/v1/sessions/{session_id}/turns/{turn}/captions")
    assert set(captions["200"]) == {"text/vtt", "application/x-subrip"}
    assert set(captions["404"]) == {"application/json"}
    hang_up = answers(described, "post", "/v1/realtime/calls/{session_id}/hangup")
    assert hang_up["200"] == {}
    chat = answers(described, "post", "/v1/chat/completions")
    assert set(chat["200"]) == {"application/json", "text/event-stream"}
    assert "404" in chat
    assert "404" in answers(described, "get", "/v1/models/{name}")


def test_the_page_of_events_is_fresh() -> None:
    kept = events_page.PAGE.read_text(encoding="utf-8")
    assert kept == events_page.page(), "run `python -m deploy.events_page`"


def test_typescript_knows_of_the_pages_client_what_there_is() -> None:
    kept = client_types.FILE.read_text(encoding="utf-8")
    assert kept == client_types.text(), "run `python -m deploy.client_types`"
    client = client_types.FILE.with_name("client.js").read_text(encoding="utf-8")
    exported = r"^export class (\w+)"
    assert re.findall(exported, kept, re.M) == re.findall(exported, client, re.M)
    method = r"^  (?:static )?(?:async )?([a-z]\w*)(?:<.*>)?\("
    typed, there = (set(re.findall(method, source, re.M)) for source in (kept, client))
    assert typed - there == {"addEventListener", "removeEventListener"} and there <= typed
    told = set(re.findall(r'#tell\({ type: "(\w+)"', client))
    assert told == set(re.findall(r'[{|] type: "(\w+)"', kept))


def test_every_message_and_every_field_says_what_it_means() -> None:
    silent = [
        f"{model.__name__}.{name}"
        for model in events_page.models()
        for name, field in model.model_fields.items()
        if name != "type" and not field.description
    ]
    assert silent == []
    assert [model.__name__ for model in events_page.models() if not model.__doc__] == []
