"""Who pretends to be a part of the running stack gets nothing of what visitors say."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.gateway.doubles import LlmDouble, Script, Seen
from tests.gateway.stages.test_faults import eventually
from tests.running_stack import RunningStack
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient
from visavis.serving.errors import BusError
from visavis.wire.bus import Bus
from visavis.wire.permissions import PROCESSES, Login, User

PRETENDER = "llm-pretender"


async def known(gateway: GatewayClient) -> dict[str, bool]:
    """Whether each language model that the gateway knows is one that it would ask."""
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    return {s["instance"]: s["healthy"] for s in services if s["service"] == "llm"}


async def test_an_outsider_does_not_reach_the_bus(stack: RunningStack) -> None:
    for login in (None, Login(User.LLM, "a guess that is long enough")):
        with pytest.raises(BusError, match="nats_password_file"):
            await Bus.connect(stack.keys.nats_url, name="outsider", wait_s=20, login=login)


async def test_a_pretender_with_ten_thousand_slots_is_given_no_conversation(
    stack: RunningStack, gateway: GatewayClient
) -> None:
    """It has even stolen the model's password on the bus, but not what calls are proven by."""
    bus = await Bus.connect(stack.keys.nats_url, name=PRETENDER, login=stack.login(User.LLM))
    seen = Seen()
    pretender = LlmDouble(bus, Script(slots=10_000), seen, PRETENDER)
    await pretender.start()

    async def found() -> bool:
        return PRETENDER in await known(gateway)

    try:
        await eventually(found)
        async with gateway.session(language="en") as session:
            await session.ask("What is the capital of France?")
            assert answer_of(await until_turn(session, "finished")).strip()
        replicas = await known(gateway)
        assert replicas.pop(PRETENDER) is False
        assert list(replicas.values()) == [True]
        assert seen.requests == [] and seen.prompts == []
    finally:
        await pretender.stop()
        await bus.close()


async def test_one_stage_s_password_makes_no_replica_of_another(
    stack: RunningStack, gateway: GatewayClient
) -> None:
    bus = await Bus.connect(stack.keys.nats_url, name=PRETENDER, login=stack.login(User.TTS))
    pretender = LlmDouble(bus, Script(slots=10_000), Seen(), PRETENDER)
    await pretender.start()
    try:
        async with gateway.session(language="en") as session:  # which looks who is there
            await session.ask("What is the capital of France?")
            await until_turn(session, "finished")
            assert PRETENDER not in await known(gateway)
    finally:
        await pretender.stop()
        await bus.close()


def test_secrets_stand_in_no_command_line_and_no_log_and_each_has_its_own(
    stack: RunningStack,
) -> None:
    secrets = {user: stack.login(user).password for user in User}
    secrets_of_all = {*secrets.values(), stack.keys.stack}
    assert len(secrets_of_all) == len(User) + 1
    children = stack.process.children()
    told = [stack.output(), *(" ".join(child.cmdline()) for child in children)]
    told += [path.read_text(errors="replace") for path in stack.log_dir.glob("*.log")]
    assert not [text for text in told for secret in secrets_of_all if secret in text]
    for user in PROCESSES:
        child = stack.child("gateway" if user is User.GATEWAY else f"services.{user}")
        known = set(child.environ().values())
        assert known & secrets_of_all == {secrets[user], stack.keys.stack}
    (config,) = Path(tempfile.gettempdir()).glob(f"visavis-bus-{stack.process.pid}-*/bus.conf")
    kept = [config, *config.parent.glob("*.keys")]
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600, 0o600]
    assert config.parent.stat().st_mode & 0o777 == 0o700
