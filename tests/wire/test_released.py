"""What processes of earlier versions say, and want to hear, means the same for ever.

`protos/released.txt` has a line for each thing on the wire between our processes: lines are added
to it, and none is changed or taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
    MethodDescriptor,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from visavis.v1 import asr_pb2, control_pb2, face_pb2, llm_pb2, media_pb2, tts_pb2

RELEASED = Path(__file__).parents[2] / "protos" / "released.txt"
OURS = (asr_pb2, control_pb2, face_pb2, llm_pb2, media_pb2, tts_pb2)


def lines_of(file: FileDescriptor) -> Iterator[str]:
    """Each field, value of an enum and call as one line."""
    for message in file.message_types_by_name.values():
        yield from lines_of_message(message)
    for enum in file.enum_types_by_name.values():
        yield from lines_of_enum(enum)
    for service in file.services_by_name.values():
        yield from (f"{service.full_name} {call_of(method)}" for method in service.methods)


def lines_of_message(message: Descriptor) -> Iterator[str]:
    name, proto = message.full_name, DescriptorProto()
    message.CopyToProto(proto)
    for reserved in proto.reserved_range:
        yield from (f"{name} {number} reserved" for number in range(reserved.start, reserved.end))
    yield from (f"{name} {field.number} {field.name}: {kind_of(field)}" for field in message.fields)
    for enum in message.enum_types:
        yield from lines_of_enum(enum)
    for inner in message.nested_types:
        yield from lines_of_message(inner)


def lines_of_enum(enum: EnumDescriptor) -> Iterator[str]:
    yield from (f"{enum.full_name} {value.number} {value.name}" for value in enum.values)


def kind_of(field: FieldDescriptor) -> str:
    """How it stands on the wire, and whether it can be told that it is absent."""
    named = field.message_type or field.enum_type
    types = FieldDescriptorProto.Type.DESCRIPTOR.values_by_number
    scalar = types[field.type].name.removeprefix("TYPE_").lower()
    kind = scalar if named is None else named.full_name
    if field.is_repeated:
        return f"repeated {kind}"
    oneof = field.containing_oneof
    return kind if oneof is None else f"{kind} in {oneof.name}"


def call_of(method: MethodDescriptor) -> str:
    asked, told = method.input_type.full_name, method.output_type.full_name
    asked = f"stream {asked}" if method.client_streaming else asked
    told = f"stream {told}" if method.server_streaming else told
    return f"{method.name}: {asked} -> {told}"


def test_what_was_ever_on_the_wire_means_the_same_for_ever() -> None:
    released = RELEASED.read_text(encoding="utf-8").splitlines()
    now = [line for module in OURS for line in lines_of(module.DESCRIPTOR)]

    def stands(line: str) -> bool:
        """A field that nobody uses any more is reserved: its number is not used anew."""
        message, number, *_ = line.split()
        return line in now or f"{message} {number} reserved" in now

    assert [line for line in released if not stands(line)] == [], "earlier versions use these"
    new = [line for line in now if line not in released]
    assert new == [], "add these lines to protos/released.txt, and see visavis/wire/levels.py"
