"""`visavis plan`: an inventory read, a placement told or refused, what carries it out written."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
import yaml
from rich.console import Console
from rich.text import Text

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.bench.load.schedule import Habits
from visavis.tools.output import check_output, write_json, write_output
from visavis.tools.plan import pages
from visavis.tools.plan.backtest import back_test
from visavis.tools.plan.compose import Instead, by_hand, overrides
from visavis.tools.plan.inventory import Inventory, inventory_of
from visavis.tools.plan.kubernetes import Files, labels, overlay
from visavis.tools.plan.placement import LATENCIES, MOST_SESSIONS, Plan, Refusal, Wanted
from visavis.tools.plan.placement import plan as find_plan
from visavis.tools.plan.prediction import Scene
from visavis.tools.plan.profiles import Profile, profile_of
from visavis.tools.shown import output_console

AUTO = "auto"
_SHIPPED = Path(__file__).with_name("profiles.toml")
_SLOS = tuple(f"{name}_p95" for name in LATENCIES)
_HABITS = Habits()
_MANIFESTS = Path(__file__).parents[3] / "deploy" / "kubernetes"
_OURS = "# Written by `visavis plan`, which writes it anew"

Inventories: TypeAlias = Annotated[
    Path | None,
    typer.Option("--gpus", metavar="INVENTORY.yaml", help="Machines, their cards and prices."),
]
Sessions: TypeAlias = Annotated[
    int, typer.Option(min=1, max=MOST_SESSIONS, help="Sessions that are there at once.")
]
Slos: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIGURE=SECONDS",
        help=f"What has to be held: {' or '.join(_SLOS)}, once or more.",
    ),
]
Spare: TypeAlias = Annotated[
    bool,
    typer.Option("--spare", help="N+1: hold it as well after the loss of any card or process."),
]
ProfileName: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Figures to plan with: cpu, gpu (8B language model), gpu-small (1.5B); auto: gpu "
        "where the inventory has cards."
    ),
]
OwnFigures: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml",
        help="Figures of your own, laid over the shipped ones; also what `visavis engine bench "
        "--json` wrote.",
    ),
]
Duty: TypeAlias = Annotated[
    float, typer.Option(min=0.01, max=0.95, help="Share of time in which one asks or is answered.")
]
TurnSeconds: TypeAlias = Annotated[
    float, typer.Option(min=1, max=3600, help="How long a question and its answer last.")
]
SpokenShare: TypeAlias = Annotated[
    float, typer.Option(min=0, max=1, help="Of the questions; the others are typed.")
]
Override: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.yaml", help="Write the Compose override; of several machines one each."
    ),
]
Overlay: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Write a Kustomize overlay over deploy/kubernetes; best beside its overlays.",
    ),
]
Json: TypeAlias = Annotated[
    Path | None, typer.Option("--json", metavar="FILE.json", help="Write the plan as JSON.")
]
Sources: TypeAlias = Annotated[
    bool, typer.Option("--sources", help="Show every figure and where it comes from.")
]
Against: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="LOAD.json",
        help="Instead: hold the prediction against what `visavis bench load --json` wrote.",
    ),
]


def plan(
    gpus: Inventories = None,
    sessions: Sessions = 1,
    slo: Slos = None,
    spare: Spare = False,
    profile: ProfileName = AUTO,
    profiles: OwnFigures = None,
    duty: Duty = _HABITS.duty,
    turn_s: TurnSeconds = _HABITS.turn_s,
    spoken_share: SpokenShare = _HABITS.spoken_share,
    compose: Override = None,
    kubernetes: Overlay = None,
    json_path: Json = None,
    sources: Sources = False,
    against: Against = None,
) -> None:
    """Place the four services, bus and gateway on the machines there are, for so many sessions.

    Says what goes where, what visitors would meet, how busy everything would be and what a
    session-hour costs; or what is missing, and what would do. Nothing is started.

        visavis plan --gpus inventory.yaml --sessions 40 --slo voice_to_voice_p95=0.8

        visavis plan --gpus inventory.yaml --sessions 40 --spare --compose plan.yaml

        visavis plan --gpus inventory.yaml --sessions 8 --kubernetes deploy/kubernetes/overlays/mine

        visavis plan --against load.json

    An inventory is a list of machines:

        currency: USD

        nodes: [{name: box, cores: 16, memory_gb: 64, price_per_hour: 1.2,
        gpus: [{model: L4, memory_gb: 24, count: 1}]}]

    Figures whose name ends in _estimate were never measured: measure them on your own hardware and
    give them with --profiles. docs/plan.md tells how all of it is worked out.
    """
    console = output_console(soft_wrap=True)
    check_output(compose, ".yaml")
    check_output(json_path, ".json")
    if kubernetes is not None:
        _check_overlay(kubernetes)
    if against is not None:
        if compose or json_path or kubernetes:
            raise InvalidInputError(
                "--against: makes no plan; leave out --compose, --kubernetes and --json"
            )
        _tell_back_test(console, against, _profile(profile, profiles, None))
        return
    if gpus is None:
        raise InvalidInputError(
            "--gpus: name the file of the inventory; `visavis plan --help` shows one"
        )
    inventory = inventory_of(_read_yaml(gpus), str(gpus))
    figures = _profile(profile, profiles, inventory)
    habits = Habits(duty=duty, turn_s=turn_s, spoken_share=spoken_share)
    wanted = Wanted(sessions, _targets(slo or [f"{_SLOS[0]}=0.8"]), spare)
    with console.status("Looking for a place …"):
        found = find_plan(wanted, Scene(inventory, figures, habits))
    if sources:
        console.print(pages.sources_table(figures))
    if isinstance(found, Refusal):
        _tell_refusal(console, found)
        raise typer.Exit(1)
    _tell(console, found)
    files = {} if kubernetes is None else overlay(found, _manifests_from(kubernetes))
    _write(console, found, compose, json_path)
    if kubernetes is not None:
        _write_overlay(console, kubernetes, files, found)


def _targets(slo: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in slo:
        name, _, seconds = entry.partition("=")
        try:
            value = float(seconds)
        except ValueError:
            value = 0.0
        if name not in _SLOS or not 0 < value < 60:
            raise InvalidInputError(
                f"--slo: {entry!r}; write {' or '.join(_SLOS)} = seconds, such as {_SLOS[0]}=0.8"
            )
        found[name.removesuffix("_p95")] = value
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not UTF-8 text") from None


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(_read(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidInputError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path}: is no TOML: {error}") from error


def _read_figures(path: Path) -> Mapping[str, Any]:
    """Of a file of profiles, or of what `visavis engine bench --json` wrote."""
    if path.suffix.lower() != ".json":
        return _read_toml(path)
    try:
        profiles = json.loads(_read(path))["profiles"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{path}: is not what `visavis engine bench --json` writes: {error!r}"
        ) from error
    if not isinstance(profiles, dict) or not profiles:
        raise InvalidInputError(
            f"{path}: has no figure of a plan; bench all plans of a bundle of asr, tts or face"
        )
    return profiles


def _profile(name: str, own: Path | None, inventory: Inventory | None) -> Profile:
    if name == AUTO:
        cards = inventory is not None and any(node.gpus for node in inventory.nodes)
        name = "gpu" if cards else "cpu"
    files = [("the shipped profiles", _read_toml(_SHIPPED))]
    if own is not None:
        files.append((str(own), _read_figures(own)))
    return profile_of(name, *files)


def _tell(console: Console, found: Plan) -> None:
    console.print(pages.placement_table(found))
    console.print(pages.devices_table(found))
    for sentence in (*pages.reasons(found), *pages.estimates(found.scene.profile)):
        console.print(Text(sentence))
    console.print(Text("By hand:", "bold"))
    for line in by_hand(found):
        console.print(Text(f"  {line}"))


def _tell_refusal(console: Console, refusal: Refusal) -> None:
    first, *rest = pages.refused(refusal)
    console.print(Text(first, "red"))
    for sentence in rest:
        console.print(Text(sentence))


def _tell_back_test(console: Console, path: Path, profile: Profile) -> None:
    try:
        load = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: is no JSON: {error}") from error
    test = back_test(load, profile, str(path))
    console.print(pages.back_test_table(test))
    for sentence in pages.knees(test):
        console.print(Text(sentence))


def _write(console: Console, found: Plan, compose: Path | None, json_path: Path | None) -> None:
    if compose is not None:
        _write_compose(console, compose, found)
    if json_path is not None:
        write_json(json_path, _as_json(found))
        console.print(Text(f"Plan: {json_path}"))


def _write_compose(console: Console, path: Path, found: Plan) -> None:
    files = overrides(found)
    for node, content in files.items():
        at = path if len(files) == 1 else path.with_name(f"{path.stem}-{node}{path.suffix}")
        write_output(at, as_yaml(content))
        console.print(Text(f"Compose override of {node}: {at}"))


def _check_overlay(folder: Path) -> None:
    """Raises InvalidInputError, with what to do instead, where no overlay can be written."""
    if not _MANIFESTS.is_dir():
        raise InvalidInputError(
            "--kubernetes: an overlay is laid over deploy/kubernetes, which this installation has "
            "not: run visavis from a checkout"
        )
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder}: is a file; name a folder")
    if not folder.absolute().parent.is_dir():
        raise InvalidInputError(f"{folder.absolute().parent}: no such folder; make it first")
    told = folder / "kustomization.yaml"
    if told.exists() and not _read(told).startswith(_OURS):
        raise InvalidInputError(f"{told}: was not written by `visavis plan`; name another folder")


def _manifests_from(folder: Path) -> str:
    """Kustomize takes no absolute path, and follows links."""
    return Path(os.path.relpath(_MANIFESTS.resolve(), folder.resolve())).as_posix()


def _write_overlay(console: Console, folder: Path, files: Files, found: Plan) -> None:
    steps = [*labels(found), f"kubectl apply -k {folder}"]
    head = "".join(f"{line}\n" for line in (f"{_OURS}.", *(f"#   {step}" for step in steps)))
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VisavisError(f"{path.parent}: cannot be made: {error.strerror}") from error
        write_output(path, (head if name == "kustomization.yaml" else "") + as_yaml(content))
    console.print(Text(f"Kubernetes overlay: {folder}; NODE is what the cluster calls the machine"))
    for step in steps:
        console.print(Text(f"  {step}"))


class _ComposeYaml(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """YAML with the one tag of Compose's that an override needs."""


_ComposeYaml.add_representer(
    Instead, lambda dumper, told: dumper.represent_sequence("!override", list(told))
)


def as_yaml(content: Mapping[str, Any]) -> str:
    """An override or a manifest as a file."""
    text: str = yaml.dump(content, Dumper=_ComposeYaml, sort_keys=False, allow_unicode=True)
    return text


def _as_json(found: Plan) -> dict[str, Any]:
    prediction = found.prediction
    return {
        "profile": found.scene.profile.name,
        "estimates": found.scene.profile.estimates,
        "sessions": found.wanted.sessions,
        "predicted_p95_s": {name: round(prediction.p95(name), 4) for name in LATENCIES},
        "wanted_p95_s": dict(found.wanted.p95_s),
        "price_per_hour": found.price,
        "price_per_session_hour": found.price_per_session,
        "currency": found.scene.inventory.currency,
        "machines": [node.name for node in found.scene.inventory.nodes],
        "replicas": [asdict(load) for load in prediction.loads],
    }
