"""The API's description in the words of OpenAPI 3.0, the last one that the bundled page shows.

Schemas come in those of JSON Schema 2020-12, which OpenAPI reads only from 3.1 on.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from fastapi import FastAPI

VERSION = "3.0.3"

_Json: TypeAlias = dict[str, Any]

_NULL: _Json = {"enum": [None]}
"""3.0 has no type for it; without a type, a schema may be null."""
_NEVER = ("HTTPValidationError", "ValidationError")
"""FastAPI's own 422, added where none is described: we answer otherwise."""
_JSON = "application/json"
_TEXTS = (
    "text/",
    "application/sdp",
    "application/vnd.apple.mpegurl",
    "application/x-ndjson",
    "application/x-subrip",
)
"""How media types begin that are read as text; all others but JSON are bytes."""


class DescribedApp(FastAPI):
    """An application whose description is right by its version."""

    wants_a_key = True
    """Whether somebody who shows nothing is refused."""

    def openapi(self) -> _Json:
        """Of all routes; made once."""
        if self.openapi_schema is None:
            self.openapi_version = VERSION
            self.openapi_schema = as_3_0(super().openapi())
            if not self.wants_a_key:
                _or_nothing(self.openapi_schema["paths"])
        return self.openapi_schema


def as_3_0(description: _Json) -> _Json:
    """The same API, with schemas that OpenAPI 3.0 knows."""
    components = description["components"]
    schemas = {
        name: schema_as_3_0(schema)
        for name, schema in components["schemas"].items()
        if name not in _NEVER
    }
    paths = _within(description["paths"])
    return {**description, "paths": paths, "components": {**components, "schemas": schemas}}


def _or_nothing(paths: _Json) -> None:
    """Have every route say that it does without what it takes as a key."""
    for route in (route for methods in paths.values() for route in methods.values()):
        if route["security"]:
            route["security"].append({})


def schema_as_3_0(schema: _Json) -> _Json:
    """One schema. What 3.0 cannot say of it, of an object's keys, is left out."""
    made = {key: _part(key, value) for key, value in schema.items() if key != "propertyNames"}
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "examples" in made:
        made["example"] = made.pop("examples")[0]
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in made:
            made |= {limit: made[exclusive], exclusive: True}
    if "$ref" in made and len(made) > 1:
        # Beside a reference nothing is read.
        made = {"allOf": [{"$ref": made.pop("$ref")}], **made}
    return _nullable(made) if {"type": "null"} in made.get("anyOf", ()) else made


def _nullable(schema: _Json) -> _Json:
    others = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
    if len(others) > 1 or "type" not in others[0]:
        return {**schema, "anyOf": [*others, _NULL]}
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    made = {**others[0], **rest, "nullable": True}
    return made if "enum" not in made else {**made, "enum": [*made["enum"], None]}


def _part(key: str, value: Any) -> Any:
    """What a schema says by one of its words."""
    if key == "properties":
        return {name: schema_as_3_0(schema) for name, schema in value.items()}
    if key in ("anyOf", "oneOf", "allOf"):
        return [schema_as_3_0(schema) for schema in value]
    if key in ("items", "additionalProperties", "not") and isinstance(value, dict):
        return schema_as_3_0(value)
    return value


def _within(node: Any) -> Any:
    """Paths and what they are made of."""
    if isinstance(node, list):
        return [_within(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {key: _told(key, value) for key, value in node.items() if not _is_never(value)}


def _told(key: str, value: Any) -> Any:
    """What stands by one word of a path."""
    if key == "schema":
        return schema_as_3_0(value)
    if key == "content":
        return {kind: _body(kind, _within(body)) for kind, body in value.items()}
    return _within(value)


def _body(media_type: str, told: _Json) -> _Json:
    """What comes in a body. Without a schema, generators would make a client that drops it."""
    if "schema" in told or media_type == _JSON:
        return told
    text = media_type.startswith(_TEXTS)
    return {"schema": {"type": "string"} if text else {"type": "string", "format": "binary"}}


def _is_never(answer: Any) -> bool:
    """Whether this is an answer as FastAPI itself would give it."""
    if not isinstance(answer, dict):
        return False
    told = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return str(told.get("$ref", "")).endswith("/HTTPValidationError")
