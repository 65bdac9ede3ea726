"""The engine that the settings name, with its bundle found and checked."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from services.face.avatar.making.portrait import PortraitStudio
from services.face.avatar.store import AvatarStore
from services.face.engines.base import FaceEngine
from services.face.engines.beside import WithHeads
from services.face.engines.head.engine import HeadEngine
from services.face.engines.head.store import HeadStore
from services.face.engines.warp import WarpEngine
from services.face.settings import FaceSettings
from visavis.bundles.store import bundle_path, load_manifest
from visavis.serving.errors import SettingsError

_TASKS = {"wav2lip": "face_mouth", "tha3": "face_character"}
"""What a bundle must be for, by engine."""


def open_face_engine(settings: FaceSettings) -> FaceEngine:
    """The engine that the settings name, and heads beside it. Nothing is loaded yet.

    SettingsError for a bundle that does not fit the engine.

    ModelStoreError for one that is not here.
    """
    heads = HeadStore(
        settings.avatar_dir or default_avatar_dir(),
        size=settings.head_size,
        most=settings.max_avatars,
    )
    beside = HeadEngine(heads, settings.decode_limit_s)
    return WithHeads(_engine_of_pictures(settings), beside, settings.avatar)


def _engine_of_pictures(settings: FaceSettings) -> FaceEngine:
    if settings.engine == "warp":
        if settings.engine_bundle:
            raise SettingsError(
                f"engine_bundle: the engine warp takes none; {settings.engine_bundle!r} needs "
                "--engine wav2lip or --engine tha3"
            )
        return WarpEngine(_store(settings), settings.avatar)
    folder = _bundle(settings)
    if settings.engine == "wav2lip":
        from services.face.engines.wav2lip.engine import Wav2LipEngine

        engine = settings.open_engine(folder / "wav2lip.onnx")
        avatars = WarpEngine(_store(settings), settings.avatar)
        return Wav2LipEngine(avatars, settings.engine_bundle, engine)
    return _tha3(settings, folder)


def _tha3(settings: FaceSettings, folder: Path) -> FaceEngine:
    from services.face.engines.tha3.characters import CharacterStore
    from services.face.engines.tha3.engine import Tha3Engine
    from services.face.engines.tha3.network import CharacterNetworks

    manifest = load_manifest(settings.engine_bundle, settings.model_dir)
    # Photographs lie beside them, which these networks cannot draw.
    store = CharacterStore(
        (settings.avatar_dir or default_avatar_dir()) / ".characters",
        folder / "character.png",
        manifest.licence_note or manifest.licence,
        most=settings.max_avatars,
    )
    networks = CharacterNetworks(
        settings.open_engine(folder / "decomposer.onnx"),
        settings.open_engine(folder / "poser.onnx"),
    )
    return Tha3Engine(store, settings.avatar, settings.engine_bundle, networks)


def default_avatar_dir() -> Path:
    """Avatars are made by people, so they are data, not cache: XDG_DATA_HOME or its default."""
    given = os.environ.get("XDG_DATA_HOME")
    root = Path(given).expanduser() if given else Path.home() / ".local" / "share"
    return root / "visavis" / "avatars"


def _bundle(settings: FaceSettings) -> Path:
    name, task = settings.engine_bundle, _TASKS[settings.engine]
    if not name:
        raise SettingsError(
            f"engine_bundle: the engine {settings.engine} needs the name of a bundle; "
            f"`visavis bundle make {settings.engine} --help` tells how to make one"
        )
    manifest = load_manifest(name, settings.model_dir)
    if manifest.task != task:
        raise SettingsError(
            f"engine_bundle: {name} is for the task {manifest.task} ({manifest.summary}); "
            f"the engine {settings.engine} needs one for {task}"
        )
    return bundle_path(name, settings.model_dir)


def _store(settings: FaceSettings) -> AvatarStore:
    return AvatarStore(
        settings.avatar_dir or default_avatar_dir(),
        partial(_portrait_studio, settings),
        most=settings.max_avatars,
    )


def _portrait_studio(settings: FaceSettings) -> PortraitStudio:
    return PortraitStudio(bundle_path("face-landmarks", settings.model_dir))
