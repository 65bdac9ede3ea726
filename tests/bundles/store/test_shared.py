"""Bundles that were made on one machine are on all: two model folders, and a real nats-server that
lets in its users alone.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from typer.testing import CliRunner, Result

from services.asr.settings import AsrSettings
from services.face.settings import FaceSettings
from services.tts.settings import TtsSettings
from tests.bundles.families.small_voice import write_voice
from tests.conftest import PASSWORDS, connected, server_with_users
from visavis.bundles.making import BundleFacts, BundleOrder, write_bundle
from visavis.bundles.piper.making import make_piper
from visavis.bundles.store import State, bundle_path, load_manifest, verify
from visavis.bundles.store.shared import bring_shared, share_bundle
from visavis.serving.errors import BusError, ModelStoreError
from visavis.tools.cli.main import app
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bucket import Bucket
from visavis.wire.bus import Bus
from visavis.wire.permissions import User, users_config
from visavis.wire.subjects import BUNDLES

WEIGHTS = os.urandom(700_000)  # several messages of 128 KiB


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with server_with_users(tmp_path_factory.mktemp("bus")) as server:
        yield server


@pytest.fixture
async def server(running: NatsServer) -> AsyncIterator[NatsServer]:
    """One for all tests: what one shares is gone after it."""
    yield running
    bus = await connected(running, User.OPERATOR)
    with suppress(NotFoundError):
        await bus.client.jetstream().delete_stream(f"OBJ_{BUNDLES}")
    await bus.close()


@pytest.fixture
async def operator(server: NatsServer) -> AsyncIterator[Bus]:
    bus = await connected(server, User.OPERATOR)
    yield bus
    await bus.close()


@pytest.fixture
async def tts(server: NatsServer) -> AsyncIterator[Bus]:
    bus = await connected(server, User.TTS)
    yield bus
    await bus.close()


def make(folder: Path, name: str = "mine", weights: bytes = WEIGHTS) -> Path:
    """A bundle of two files, one in a folder of its own."""

    def fill(place: Path) -> BundleFacts:
        (place / "deep").mkdir()
        (place / "weights.bin").write_bytes(weights)
        (place / "deep" / "config.json").write_text("{}")
        return BundleFacts(task="vocoder", summary="weighs")

    order = BundleOrder(name, "MIT", model_dir=folder, replace=True)
    return write_bundle(order, "weigher", [Path(__file__)], fill)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where the bundle `mine` was made."""
    make(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The models of another machine: none yet."""
    return tmp_path / "there"


async def held(bus: Bus) -> int:
    """How many messages the bucket has: pieces of files, and what tells of them."""
    told = await bus.client.jetstream().stream_info(f"OBJ_{BUNDLES}")
    return int(told.state.messages)


def bundle_command(server: NatsServer, *arguments: str, password: str | None = None) -> Result:
    file = server.process.log_path.parent / "operator"
    file.write_text(password or PASSWORDS[User.OPERATOR])
    bus = ["--nats", server.url, "--nats-password-file", str(file)]
    return CliRunner().invoke(app, ["bundle", *arguments, *bus])


async def command(server: NatsServer, *arguments: str) -> Result:
    return await asyncio.to_thread(bundle_command, server, *arguments)


def what_is_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


async def objects(bus: Bus) -> set[str]:
    index = await Bucket(bus, BUNDLES, 0).index()
    return {name for name, digest in index.items() if digest}


async def test_what_is_damaged_on_the_bus_is_told_with_its_cure(
    server: NatsServer, operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    await share_bundle(operator, "mine", here)
    store = await operator.client.jetstream().object_store(BUNDLES)
    manifest = load_manifest("mine", here)
    assert manifest.made is not None
    weights = next(file for file in manifest.made.files if file.path == "weights.bin")
    nuid = (await store.get_info(f"mine/{weights.sha256}")).nuid
    piece = await operator.client.jetstream().get_msg(
        f"OBJ_{BUNDLES}", 1, f"$O.{BUNDLES}.C.{nuid}", next=True
    )
    assert piece.seq is not None
    await operator.client.jetstream().delete_msg(f"OBJ_{BUNDLES}", piece.seq)
    with pytest.raises(ModelStoreError, match=r"damaged.*`visavis bundle share mine --nats URL`"):
        await bring_shared(tts, ["mine"], there)
    assert what_is_in(there) == {".pull.lock"}
    again = await command(server, "share", "mine", "--model-dir", str(here))
    assert "Shared mine" in again.output
    await bring_shared(tts, ["mine"], there)
    assert bundle_path("mine", there) == there / "mine"


async def test_what_one_machine_shares_another_one_has(
    server: NatsServer, tts: Bus, here: Path, there: Path
) -> None:
    share = ("share", "mine", "--model-dir", str(here))
    assert "Shared mine" in (await command(server, *share)).output
    assert "shared already" in (await command(server, *share)).output
    (there / ".staging-mine").mkdir(parents=True)  # of a process that was killed
    (there / ".staging-mine" / "weights.bin").write_bytes(WEIGHTS[:300_000])
    await asyncio.gather(*(bring_shared(tts, ["mine", "whisper-base"], there) for _ in range(2)))
    (standing,) = verify(["mine"], model_dir=there)
    assert standing.state is State.READY
    assert bundle_path("mine", there) == there / "mine"
    assert (there / "mine" / "weights.bin").read_bytes() == WEIGHTS
    assert what_is_in(there) == {".pull.lock", "mine"}


async def test_what_is_on_the_disk_is_used_as_it_is(
    operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    await share_bundle(operator, "mine", here)
    make(there, weights=b"others")
    await bring_shared(tts, ["mine"], there)
    await bring_shared(None, ["mine"], there)
    assert (there / "mine" / "weights.bin").read_bytes() == b"others"
    (there / "mine" / "weights.bin").unlink()
    await bring_shared(tts, ["mine"], there)
    assert (there / "mine" / "weights.bin").read_bytes() == WEIGHTS


async def test_of_a_bundle_that_was_made_anew_nothing_old_stays(
    server: NatsServer, operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    assert await share_bundle(operator, "mine", here)
    old = await objects(operator)
    make(here, weights=b"newer")
    carried: list[tuple[int, int]] = []
    assert await share_bundle(operator, "mine", here, lambda *told: carried.append(told))
    assert carried[-1] == (5, 5), "what is there already is not carried again"
    new = await objects(operator)
    assert len(new) == len(old) == 3
    assert len(new & old) == 2
    await bring_shared(tts, ["mine"], there)
    assert (there / "mine" / "weights.bin").read_bytes() == b"newer"
    assert "shared no more" in (await command(server, "unshare", "mine")).output
    assert await objects(operator) == set()
    assert "no bundle 'mine' is shared; none is" in told(await command(server, "unshare", "mine"))


def told(result: Result) -> str:
    assert result.exception is not None
    return str(result.exception)


async def test_what_is_not_what_was_shared_is_refused(
    operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    await share_bundle(operator, "mine", here)
    made = load_manifest("mine", here).made
    assert made is not None
    (file,) = (file for file in made.files if file.path == "weights.bin")
    bucket = Bucket(operator, BUNDLES, 1 << 20)
    for false, said in (
        (WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1]), "weights.bin has sha256"),
        (WEIGHTS[:-1], "weights.bin has 699999 bytes"),
        (WEIGHTS + b"!", "700001 bytes, which is too much"),
    ):
        await bucket.put(f"mine/{file.sha256}", false)
        with pytest.raises((ModelStoreError, BusError), match=said):
            await bring_shared(tts, ["mine"], there)
    await bucket.delete(f"mine/{file.sha256}")
    with pytest.raises(BusError, match="not there any more"):
        await bring_shared(tts, ["mine"], there)
    assert what_is_in(there) == {".pull.lock"}
    assert await share_bundle(operator, "mine", here), "what is wrong in the bucket is put right"
    await bring_shared(tts, ["mine"], there)


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", "deep/../../evil", "a\\\\b", "."])
async def test_no_file_leads_out_of_its_folder(
    path: str, operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    text = (here / "mine" / "bundle.toml").read_text()
    await Bucket(operator, BUNDLES, 1 << 20).put("mine", text.replace("weights.bin", path).encode())
    with pytest.raises(ModelStoreError, match="must be a relative path"):
        await bring_shared(tts, ["mine"], there)
    assert what_is_in(there) == set()


async def test_a_manifest_of_another_bundle_is_refused(
    operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    text = (here / "mine" / "bundle.toml").read_bytes()
    await Bucket(operator, BUNDLES, 1 << 20).put("yours", text)
    with pytest.raises(ModelStoreError, match="is of 'mine'"):
        await bring_shared(tts, ["yours"], there)


async def test_a_folder_that_is_no_bundle_stays(
    operator: Bus, tts: Bus, here: Path, there: Path
) -> None:
    await share_bundle(operator, "mine", here)
    (there / "mine").mkdir(parents=True)
    (there / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(ModelStoreError, match="is no bundle: move it away"):
        await bring_shared(tts, ["mine"], there)
    assert (there / "mine" / "diary.txt").read_text() == "dear diary"


async def test_of_what_is_interrupted_nothing_stays(operator: Bus, here: Path) -> None:
    bucket = Bucket(operator, BUNDLES, 0)
    await bucket.make()
    loop = asyncio.get_running_loop()

    def stop(done: int, total: int) -> None:
        if done > 100_000:
            loop.call_soon_threadsafe(sharing.cancel)

    sharing = asyncio.create_task(share_bundle(operator, "mine", here, stop))
    with pytest.raises(asyncio.CancelledError):
        await sharing
    assert len(await objects(operator)) == 1
    assert await held(operator) == 2, "the small file and its record"


async def test_of_a_text_whose_writer_was_cancelled_nothing_stays(
    operator: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Bucket(operator, BUNDLES, 10_000_000)
    await bucket.make()
    before = await held(operator)
    publish, begun = JetStreamContext.publish, asyncio.Event()

    async def publishing(*arguments: Any, **options: Any) -> Any:
        kept = await publish(*arguments, **options)
        begun.set()
        return kept

    monkeypatch.setattr(JetStreamContext, "publish", publishing)
    putting = asyncio.create_task(bucket.put("mine", bytes(10_000_000)))
    await begun.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert await held(operator) == before


async def test_a_half_of_a_bundle_is_none(operator: Bus, tts: Bus, here: Path, there: Path) -> None:
    await share_bundle(operator, "mine", here)
    bringing = asyncio.create_task(bring_shared(tts, ["mine"], there))
    async with asyncio.timeout(20):
        while ".staging-mine" not in what_is_in(there):  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0)
    bringing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bringing
    assert what_is_in(there) == {".pull.lock"}
    await bring_shared(tts, ["mine"], there)
    assert bundle_path("mine", there) == there / "mine"


async def test_what_cannot_be_had_says_what_to_do(
    operator: Bus, tts: Bus, bus: Bus, there: Path
) -> None:
    today = "no bundle named 'mine'.*visavis bundle share mine"
    with pytest.raises(ModelStoreError, match=f"{today} --nats URL.*nats_url"):
        await bring_shared(None, ["mine"], there)
    with pytest.raises(ModelStoreError, match="its operator alone makes"):
        await bring_shared(tts, ["mine"], there)
    await Bucket(operator, BUNDLES, 0).make()
    with pytest.raises(ModelStoreError, match="Nobody has shared it"):
        await bring_shared(tts, ["mine"], there)
    with pytest.raises(ModelStoreError, match="no JetStream"):
        await bring_shared(bus, ["mine"], there)
    assert what_is_in(there) == set()


def test_what_cannot_be_shared_says_why(
    server: NatsServer, nats_server: NatsServer, here: Path
) -> None:
    models = ("--model-dir", str(here))
    near = told(bundle_command(server, "share", "min", *models))
    assert "Did you mean mine" in near
    pulled = told(bundle_command(server, "share", "whisper-base", *models))
    assert "each machine pulls it" in pulled
    stranger = told(bundle_command(server, "share", "mine", *models, password="0" * 32))
    assert "user operator" in stranger
    assert "no JetStream" in told(bundle_command(nats_server, "share", "mine", *models))
    (here / "mine" / "weights.bin").write_bytes(b"!" * len(WEIGHTS))
    damaged = told(bundle_command(server, "share", "mine", *models))
    assert "weights.bin has sha256" in damaged


def test_a_bus_without_room_says_so(tmp_path: Path, here: Path) -> None:
    small = NatsServer(tmp_path)
    small.process.users = tmp_path / "small.conf"
    kept = tmp_path / "small"
    small.process.users.write_text(
        f'{users_config(PASSWORDS)}\njetstream {{ store_dir: "{kept}", max_file_store: 300KB }}\n'
    )
    with small:
        full = told(bundle_command(small, "share", "mine", "--model-dir", str(here)))
    assert "no room for more" in full


def test_settings_say_which_bundles_are_ones_own() -> None:
    voices = TtsSettings(voices="joe, kokoro-82m-int8:am_michael")
    assert voices.own_bundles == ["joe", "kokoro-82m-int8"]
    assert AsrSettings(recognisers="mine, yours").own_bundles == ["mine", "yours"]
    assert FaceSettings(engine="wav2lip", engine_bundle="mouths").own_bundles == ["mouths"]
    assert [s().own_bundles for s in (AsrSettings, FaceSettings, TtsSettings)] == [[], [], []]


async def test_a_service_fetches_the_voice_that_its_settings_name(
    server: NatsServer, operator: Bus, tmp_path: Path, there: Path
) -> None:
    voice = write_voice(tmp_path / "in")
    make_piper(BundleOrder("joe", "CC0-1.0", model_dir=tmp_path / "here"), voice)
    await share_bundle(operator, "joe", tmp_path / "here")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.tts", "--voices", "joe", "--model-dir", str(there)),
        *("--nats-url", server.url),
        env={**os.environ, "VISAVIS_TTS_NATS_PASSWORD": PASSWORDS[User.TTS]},
        stderr=subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert b"hibari-en is not pulled" in said, "it has come so far: the profile's are not here"
    assert b"every file has its sha256" in said
    (standing,) = verify(["joe"], model_dir=there)
    assert standing.state is State.READY
