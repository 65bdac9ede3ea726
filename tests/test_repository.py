"""What must stay true of the repository as a whole."""

import ast
import itertools
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import typer

from visavis.tools.cli.main import app

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "visavis" / "v1"
SERVICES = ("asr", "llm", "tts", "face")
PRODUCT = ("visavis", "services", "gateway", "simulation")


@cache
def imported(file: Path) -> list[tuple[str, list[str]]]:
    """Each module that a file imports, and the names out of it: all parsed would take seconds."""
    text = file.read_text(encoding="utf-8")
    plain = [name for several in _PLAIN.findall(text) for name in several.split(", ")]
    found: list[tuple[str, list[str]]] = [(module, []) for module in plain]
    for module, names in _OUT_OF.findall(text):
        assert not module.startswith("."), f"{file}: relative import"
        bare = re.sub(r"#.*|[()]", "", names).split(",")
        found.append((module, [name.split()[0] for name in bare if name.strip()]))
    return found


_PLAIN = re.compile(r"^[ ]*import ([\w., ]+?)(?: as \w+)?(?: *#.*)?$", re.M)
_OUT_OF = re.compile(r"^[ ]*from ([\w.]+) import (\([^)]*\)|[^(\n]+)$", re.M)


def imports_of(file: Path) -> set[str]:
    return {module for module, _names in imported(file)}


def offenders(folder: str, *forbidden: str) -> list[str]:
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in imports_of(file)
        if any(name == f or name.startswith(f + ".") for f in forbidden)
    ]


def test_what_is_installed_has_every_file() -> None:
    """What is no Python, as pages and tables, comes only where a pattern names it."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = told["tool"]["setuptools"]["package-data"]
    files = {
        file
        for package in PRODUCT
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix != ".py" and file.parent.name != "__pycache__"
    }
    named = {
        file
        for package, several in patterns.items()
        for pattern in several
        for file in (ROOT / package).glob(pattern)
    }
    assert sorted(files - named) == []


def test_the_pages_name_the_pythons_for_which_it_is_packaged() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest, beyond = re.findall(r"3\.(\d+)", told["project"]["requires-python"])
    named = f"3.{oldest} to 3.{int(beyond) - 1}"
    for page in ("README.md", "Makefile", "docs/machines.md"):
        assert f"Python {named}" in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.mark.parametrize(
    ("version", "kind", "lacking", "others", "said"),
    [
        ((3, 11), "", [], [], r"^$"),
        ((3, 14), "", [], [], r"^$"),
        ((3, 10), "", [], ["python3.12"], r"this one is 3\.10\. .*run PYTHON=python3\.12$"),
        ((3, 15), "", ["libgomp1"], [], r"3\.11 to 3\.14, .* is 3\.15\. Install python3\.14"),
        ((3, 14), "free-threaded", [], [], r"this one is 3\.14, free-threaded\. Install"),
        (
            (3, 13),
            "",
            ["python3.13-venv", "libgomp1"],
            [],
            r"apt install python3\.13-venv libgomp1$",
        ),
    ],
)
def test_make_tells_what_a_machine_lacks(
    version: tuple[int, int], kind: str, lacking: list[str], others: list[str], said: str
) -> None:
    check = runpy.run_path(str(ROOT / "requirements" / "check_python.py"))
    assert re.search(said, check["complaint"](version, kind, lacking, others))


def test_make_fills_the_environment_that_it_makes(tmp_path: Path) -> None:
    """Else uv takes the one that is active in the terminal."""
    venv = tmp_path / "venv"
    command = ["make", "--dry-run", "--always-make", "install", f"VENV={venv}"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = re.findall(r"bin/uv [^&|]* install [^&|]*", told)
    assert installs
    assert all(f" --python {venv}/bin/python " in line for line in installs)


KIT = ("visavis/wire", "visavis/serving", "visavis/engine")
FORBIDDEN = {
    "the kit": (KIT, ("visavis.bundles", "visavis.tools", "visavis.client")),
    "the store": (("visavis/bundles/store",), ("visavis.bundles",)),
    "visavis": (("visavis",), ("services", "gateway", "simulation", "tests", "training")),
    "what serves": (
        ("services", "gateway", "visavis/bundles"),
        ("visavis.tools", "visavis.client", "simulation"),
    ),
    "gateway": (("gateway",), ("services", "tests", "training", "visavis.bundles.compile")),
    "what runs": (("visavis", "services", "gateway"), ("torch",)),
} | {
    service: (
        (f"services/{service}",),
        ("gateway", "tests", "training", *(f"services.{s}" for s in SERVICES if s != service)),
    )
    for service in SERVICES
}
"""Who may not import what. Of bundles the store may be known to all."""


@pytest.mark.parametrize("whose", FORBIDDEN)
def test_nobody_imports_what_is_not_his_to_know(whose: str) -> None:
    folders, forbidden = FORBIDDEN[whose]
    found = [line for folder in folders for line in offenders(folder, *forbidden)]
    assert [line for line in found if " imports visavis.bundles.store" not in line] == []


def test_the_client_needs_little() -> None:
    """Programs of others import it: no service, no engine, no bus."""
    found = {name for file in (ROOT / "visavis/client").glob("*.py") for name in imports_of(file)}
    ours = {name for name in found if name.startswith("visavis.")}
    assert {name for name in ours if not name.startswith("visavis.client")} == {
        "visavis.arkit",
        "visavis.serving.errors",
        "visavis.serving.trust",
        "visavis.serving.way_out",
        "visavis.wire.clock",
    }
    others = {name.partition(".")[0] for name in found - ours} - sys.stdlib_module_names
    assert others == {"httpx", "numpy", "websockets"}


def test_protobuf_stops_at_the_edge() -> None:
    """Model files, the conversation and the playout see arrays, text and plain values only."""
    edges = (
        "visavis/wire",
        "visavis/serving",
        "visavis/engine/triton",
        "visavis/tools",
        "gateway/stages",
    )
    found = [
        file.relative_to(ROOT).as_posix()
        for folder in ("visavis", "services", "gateway")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file.parent != GENERATED and any(n.startswith("visavis.v1") for n in imports_of(file))
    ]
    assert [
        name for name in found if not name.startswith(edges) and not name.endswith("/servicer.py")
    ] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    files = [f for d in PRODUCT for f in (ROOT / d).rglob("*.py")]
    names = {".".join(f.relative_to(ROOT).with_suffix("").parts): f for f in files}
    names = {name.removesuffix(".__init__"): f for name, f in names.items()}
    graph = {name: imported_modules(file, names) - {name} for name, file in names.items()}
    assert list(TopologicalSorter(graph).static_order())


def imported_modules(file: Path, names: Mapping[str, Path]) -> set[str]:
    found = imports_of(file)
    found |= {f"{module}.{name}" for module, names in imported(file) for name in names}
    # A name out of a package is that of its module where there is one.
    within = {name.rpartition(".")[0] for name in found if name in names}
    return {name for name in found if name in names and name not in within}


def test_every_folder_names_its_modules_and_none_that_is_gone() -> None:
    """In reading order, in its `__init__`: a reader finds his way from there."""
    faults = []
    for file in (f for d in PRODUCT for f in (ROOT / d).rglob("__init__.py")):
        told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        there = [m.stem for m in file.parent.glob("*.py") if not m.stem.startswith("__")]
        if file.parent != GENERATED:
            missing = [name for name in there if not re.search(rf"\b{name}\b", told)]
            faults += [f"{file.relative_to(ROOT)} does not name {name}" for name in missing]
        named = re.findall(r"^(?:- )?`(\w+)/?`:", told, re.M)
        gone = [n for n in named if not {f"{n}.py", n} & {f.name for f in file.parent.iterdir()}]
        faults += [f"{file.relative_to(ROOT)} names {name}, which is gone" for name in gone]
    assert faults == []


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = re.findall(r"`([\w./]+\.(?:py|js|proto|html|toml))[`:]", text)
    folders = ("protos", *PRODUCT, "training", "tests", "deploy")
    there = {file.name for folder in folders for file in (ROOT / folder).rglob("*.*")}
    assert [name for name in names if Path(name).name not in there] == []
    from_the_root = [name for name in names if name.startswith(folders)]
    assert [name for name in from_the_root if not (ROOT / name).is_file()] == []


def test_every_command_that_the_documentation_shows_can_be_typed() -> None:
    """Each line of a block: its command and options are there, and it lacks nothing."""
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [(page.name, line) for page in pages for line in commands_in(page)]
    assert len(shown) > 100
    faults = [f"{page}: visavis {line}: {why}" for page, line in shown if (why := fault_of(line))]
    assert faults == []


def commands_in(page: Path) -> list[str]:
    """What follows on `visavis` in its blocks, fenced or indented."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S))
    indented = "\n".join(re.findall(r"^ {4}(\S.*)", text, re.M))
    return re.findall(r"^(?:[A-Z_]+=\S+ )*visavis (.+)", f"{fenced}\n{indented}", re.M)


@cache
def command_of(*names: str) -> Any:
    """The command, or the group of some, that is called so; None: there is none."""
    if not names:
        return typer.main.get_command(app)
    return getattr(command_of(*names[:-1]), "commands", {}).get(names[-1])


def fault_of(line: str) -> str:
    """Why this cannot be typed; empty: it can."""
    words = [*itertools.takewhile(lambda word: word != "|", shlex.split(line, comments=True))]
    names: list[str] = []
    while hasattr(command := command_of(*names), "commands"):
        names.append(words.pop(0))
    if command is None:
        return f"there is no {names[-1]}"
    try:
        given, left, _ = command.make_parser(command.context_class(command)).parse_args(words)
    except Exception as error:  # of click, or of the one that newer typers bring
        return str(error)
    lacking = [p.name for p in command.params if p.required and given.get(p.name) is None]
    return f"left over: {left}" if left else f"lacking: {lacking}" if lacking else ""


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    protos = sorted(str(p) for p in (ROOT / "protos").rglob("*.proto"))
    declares = re.compile("^service ", re.M)
    with_service = [p for p in protos if declares.search(Path(p).read_text(encoding="utf-8"))]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos")]
    subprocess.run(
        [*protoc, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *protos], check=True
    )
    subprocess.run([*protoc, f"--grpc_python_out={tmp_path}", *with_service], check=True)
    made = {p.name: p.read_text() for p in (tmp_path / "visavis" / "v1").iterdir()}
    kept = {p.name: p.read_text() for p in GENERATED.iterdir() if p.suffix in (".py", ".pyi")}
    kept.pop("__init__.py")
    assert made == kept, "run `make protos`"
