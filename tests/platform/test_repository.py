"""What must stay true of the repository as a whole."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "visavis" / "v1"
SERVICES = ("asr", "llm", "tts", "face")


def imports_of(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
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


def test_platform_imports_no_service_and_no_gateway() -> None:
    assert offenders("visavis", "services", "gateway", "tests", "training") == []


def test_gateway_imports_no_service() -> None:
    assert offenders("gateway", "services", "tests", "training") == []


@pytest.mark.parametrize("service", SERVICES)
def test_services_never_import_each_other(service: str) -> None:
    others = [f"services.{other}" for other in SERVICES if other != service]
    assert offenders(f"services/{service}", "gateway", "tests", "training", *others) == []


def test_torch_is_never_needed_to_run() -> None:
    for folder in ("visavis", "services", "gateway"):
        assert offenders(folder, "torch") == []


def test_protobuf_stops_at_the_edge() -> None:
    """Model files see arrays and text only."""
    edges = {"servicer.py"}
    found = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "services").rglob("*.py"))
        if file.name not in edges and any(n.startswith("visavis.v1") for n in imports_of(file))
    ]
    assert found == []


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = re.findall(r"`([\w./]+\.(?:py|js|proto|html|toml))[`:]", text)
    folders = ("protos", "visavis", "services", "gateway", "training", "tests", "deploy")
    there = {file.name for folder in folders for file in (ROOT / folder).rglob("*.*")}
    assert len(names) > 100
    assert [name for name in names if Path(name).name not in there] == []
    assert [name for name in names if "/" in name and not _somewhere(name)] == []


def _somewhere(name: str) -> bool:
    """Whether `name` is a path from the root, or from the visavis folder."""
    return (ROOT / name).is_file() or (ROOT / "visavis" / name).is_file()


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
