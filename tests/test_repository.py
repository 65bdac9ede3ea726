"""What must stay true of the repository as a whole."""

import ast
import itertools
import re
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
def import_nodes(file: Path) -> list[ast.Import | ast.ImportFrom]:
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imports_of(file: Path) -> set[str]:
    names: set[str] = set()
    for node in import_nodes(file):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{file}: relative import"
            names.add(node.module or "")
    return names


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


KIT = ("wire", "serving", "engine")


def test_the_kit_knows_of_bundles_only_the_store() -> None:
    found = [
        line
        for room in KIT
        for line in offenders(f"visavis/{room}", "visavis.bundles", "visavis.tools")
        if " imports visavis.bundles.store" not in line
    ]
    assert found == []


def test_the_store_of_bundles_knows_nothing_else_of_them() -> None:
    found = offenders("visavis/bundles/store", "visavis.bundles")
    assert [line for line in found if " imports visavis.bundles.store" not in line] == []


def test_nothing_of_visavis_imports_a_service_or_the_gateway() -> None:
    assert offenders("visavis", "services", "gateway", "simulation", "tests", "training") == []


def test_nothing_that_serves_imports_the_tools_or_the_client() -> None:
    for folder in ("services", "gateway", "visavis/bundles"):
        assert offenders(folder, "visavis.tools", "visavis.client", "simulation") == []
    for room in KIT:
        assert offenders(f"visavis/{room}", "visavis.client") == []


def test_the_client_needs_little() -> None:
    """Programs of others import it: no service, no engine, no bus."""
    found = {name for file in (ROOT / "visavis/client").glob("*.py") for name in imports_of(file)}
    ours = {name for name in found if name.startswith("visavis.")}
    assert {name for name in ours if not name.startswith("visavis.client")} == {
        "visavis.arkit",
        "visavis.serving.errors",
        "visavis.serving.trust",
    }
    others = {name.partition(".")[0] for name in found - ours} - sys.stdlib_module_names
    assert others == {"httpx", "numpy", "websockets"}


def test_gateway_imports_no_service() -> None:
    assert offenders("gateway", "services", "tests", "training", "visavis.bundles.compile") == []


@pytest.mark.parametrize("service", SERVICES)
def test_services_never_import_each_other(service: str) -> None:
    others = [f"services.{other}" for other in SERVICES if other != service]
    assert offenders(f"services/{service}", "gateway", "tests", "training", *others) == []


def test_torch_is_never_needed_to_run() -> None:
    for folder in ("visavis", "services", "gateway"):
        assert offenders(folder, "torch") == []


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
    found = set(imports_of(file))
    for node in import_nodes(file):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    # A name out of a package is that of its module where there is one.
    within = {name.rpartition(".")[0] for name in found if name in names}
    return {name for name in found if name in names and name not in within}


def test_every_folder_names_its_modules() -> None:
    """In reading order, in its `__init__`: a reader finds his way from there."""
    missing = [
        f"{file.relative_to(ROOT)} does not name {module.stem}"
        for folder in PRODUCT
        for file in (ROOT / folder).rglob("__init__.py")
        if file.parent != GENERATED
        for module in sorted(file.parent.glob("*.py"))
        if not module.stem.startswith("__")
        and not re.search(rf"\b{module.stem}\b", ast.get_docstring(tree_of(file)) or "")
    ]
    assert missing == []


def test_no_folder_names_a_module_that_is_gone() -> None:
    gone = [
        f"{file.relative_to(ROOT)} names {name}"
        for folder in PRODUCT
        for file in (ROOT / folder).rglob("__init__.py")
        for name in re.findall(r"^(?:- )?`(\w+)/?`:", ast.get_docstring(tree_of(file)) or "", re.M)
        if not (file.parent / name).is_dir() and not (file.parent / f"{name}.py").is_file()
    ]
    assert gone == []


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


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


def fault_of(line: str) -> str:
    """Why this cannot be typed; empty: it can."""
    words = [*itertools.takewhile(lambda word: word != "|", shlex.split(line, comments=True))]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if words[0] not in command.commands:
            return f"there is no {words[0]}"
        command = command.commands[words.pop(0)]
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
