"""What TypeScript is to know of `gateway/static/client.js`, as `client.d.ts` beside it has it.

`python -m deploy.client_types` writes that file anew: messages and options from the models that the
gateway itself reads and sends, the classes from what stands here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway.api import events, schemas

FILE = Path(__file__).parents[1] / "gateway" / "static" / "client.d.ts"

_HEAD = """// Types of client.js, written by `python -m deploy.client_types`; see docs/apps.md.
"""
_CLASSES = """
/** What the gateway refused, and why: `code` for programs; status 0: it was not reached. */
export class GatewayError extends Error {
  constructor(status: number, code: string, message: string);
  readonly status: number;
  readonly code: string;
}

/** What the connection itself tells. */
export interface ConnectionEvents {
  /** One of the session's sockets, or face and voice (`webrtc`), is lost; it is made anew. */
  lost: { type: "lost"; socket: string };
  back: { type: "back"; socket: string };
  /** The session is over, or was not found again. */
  ended: { type: "ended"; socket?: string };
}

/** The detail of each CustomEvent, by its type; `event` is every one of them. */
export type SessionEvents = { [E in ServerEvent as E["type"]]: E } & ConnectionEvents & {
  event: ServerEvent | ConnectionEvents[keyof ConnectionEvents];
};

/** One picture's worth of the face, for who draws it. */
export interface Pose {
  mediaMs: number;
  /** The 52 of ARKit in their alphabetical order, 0 to 1. */
  weights: Float32Array;
  /** Yaw, pitch, roll, right, down, breath. */
  place: number[];
}

/** One conversation; an EventTarget of these events alone, so that a misspelt one is an error. */
export class Session {
  /** A session that your own server has made, with what it was told. url: the gateway's. */
  constructor(url: string, made: { id: string; token: string; token_expires_in_s?: number });
  /** A session of these options. key: an app's, where one is needed. */
  static make(url: string, options?: Omit<SessionRequest, "queue">, key?: string): Promise<Session>;
  id: string;
  /** Type `text`, as the visitor; the turn that answers it. */
  ask(text: string, manner?: Omit<TextRequest, "text">): Promise<number>;
  /** Have the face say `text` as it stands; "say" events name it by this number. */
  say(text: string, manner?: Omit<SayRequest, "text">): Promise<number>;
  /** What the visitor has typed so far and not sent: the answer to it will come sooner. */
  typing(text: string): void;
  interrupt(): Promise<TurnNumber>;
  /** What an `answer.tool_call` came to; where the connection is lost it goes over the next one. */
  toolResult(callId: string, output: string): void;
  /** Change language, voice, avatar, speed or style from the next turn on. */
  update(options: SessionChange): Promise<SessionInfo>;
  /** All else that the API can do with a session, by its token as it is now: ("GET", "/turns"). */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
  /** Face and voice over WebRTC. audio: the voice alone, where there is no video. */
  connect(where?: {
    video?: HTMLMediaElement | null;
    audio?: HTMLMediaElement | null;
    microphone?: boolean;
  }): Promise<MediaStream>;
  /** Whether the microphone, which stays open, gives silence: for push to talk. */
  muted: boolean;
  /** See and hear no more; the session goes on. */
  disconnect(): Promise<void>;
  /** The face for who draws it, 25 times a second. What it returns ends it. */
  blendshapes(draw: (pose: Pose) => void): () => void;
  /** The session ends, for everybody. */
  end(): Promise<void>;
  /** Follow it no more; it ends by itself when nobody is with it. */
  close(): void;
  addEventListener<K extends keyof SessionEvents>(
    type: K,
    listener: (event: CustomEvent<SessionEvents[K]>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<K extends keyof SessionEvents>(
    type: K,
    listener: (event: CustomEvent<SessionEvents[K]>) => void,
    options?: boolean | EventListenerOptions,
  ): void;
}
"""
_SENT = (*get_args(events.ServerEvent), schemas.SessionInfo, schemas.TurnNumber)
_TAKEN = (
    *get_args(events.Command),
    schemas.SessionRequest,
    schemas.SessionChange,
    schemas.TextRequest,
    schemas.SayRequest,
)
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_NULL = {"type": "null"}


def text() -> str:
    """The whole file."""
    modes: list[tuple[type[BaseModel], Literal["validation", "serialization"]]]
    modes = [(model, "serialization") for model in _SENT]
    modes += [(model, "validation") for model in _TAKEN]
    told = models_json_schema(modes)[1]["$defs"]
    sent = {model.__name__ for model in get_args(events.ServerEvent)}
    parts = [_HEAD]
    parts += [_interface(name, schema, sent=name in sent) for name, schema in told.items()]
    parts += [_union("ServerEvent", "What the gateway sends", events.ServerEvent)]
    parts += [_union("Command", "What it takes on the events socket", events.Command)]
    return "\n".join(parts) + _CLASSES


def _union(name: str, told: str, of: Any) -> str:
    kinds = "".join(f"\n  | {model.__name__}" for model in get_args(of))
    return f"/** {told}. */\nexport type {name} ={kinds};\n"


def _interface(name: str, schema: dict[str, Any], *, sent: bool) -> str:
    head = _comment(schema.get("description", ""), "")
    fields = "".join(_fields(schema, sent=sent))
    return f"{head}export interface {name} {{\n{fields}}}\n"


def _fields(schema: dict[str, Any], *, sent: bool) -> Iterator[str]:
    """sent: on a socket, where what has no value is left out and all else is there."""
    for name, told in schema["properties"].items():
        nullable = _NULL in told.get("anyOf", ())
        absent = nullable if sent else name not in schema.get("required", ())
        if sent and nullable:
            told = {**told, "anyOf": [option for option in told["anyOf"] if option != _NULL]}
        always = name == "type" or not absent
        yield _comment(told.get("description", ""), "  ")
        yield f"  {name}{'' if always else '?'}: {_type(told)};\n"


def _comment(told: str, indent: str) -> str:
    lines = inspect.cleandoc(told).replace("*/", "").split("\n") if told else []
    if len(lines) < 2:
        return "".join(f"{indent}/** {line} */\n" for line in lines)
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def _type(told: dict[str, Any]) -> str:
    match told:
        case {"$ref": str(name)}:
            return name.rpartition("/")[2]
        case {"enum": list(values)}:
            return " | ".join(json.dumps(value) for value in values)
        case {"const": value}:
            return json.dumps(value)
        case {"anyOf": list(options)}:
            return " | ".join(_type(option) for option in options)
        case {"type": "array", "items": dict(items)}:
            return f"({_type(items)})[]" if " | " in _type(items) else f"{_type(items)}[]"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"Record<string, {_type(values)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": "null"}:
            return "null"
    return _PLAIN[told["type"]]


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
