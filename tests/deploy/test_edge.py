"""The small board: its settings exist, it hears English alone, its unit starts them."""

from __future__ import annotations

import configparser
import tomllib

from tests.deploy.checkers import DEPLOY, checked, checker
from tests.deploy.test_kubernetes import SETTINGS
from visavis.bundles.store.catalogue import default_catalog


def test_every_setting_exists() -> None:
    told = tomllib.loads((DEPLOY / "edge" / "edge.toml").read_text(encoding="utf-8"))
    assert set(told) == set(SETTINGS)
    for section, values in told.items():
        assert SETTINGS[section].model_validate(values), section
        assert values.get("slots", values.get("max_sessions")) == 1


def test_its_weights_are_less_than_those_of_the_smallest_other_profile() -> None:
    catalog = default_catalog()

    def bundles(profile: str) -> set[str]:
        chosen = catalog.profile(profile).values()
        return {name for several in chosen for alternatives in several for name in alternatives}

    assert bundles("edge") < bundles("tiny")
    assert set(catalog.profile("edge")) == set(catalog.profile("tiny"))


def test_the_unit_starts_that_profile_under_one_ceiling_and_ends_its_processes_in_order() -> None:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # its names have capitals
    read.read(DEPLOY / "edge" / "visavis.service", encoding="utf-8")
    service = read["Service"]
    words = service["ExecStart"].split()
    assert words[1:4] == ["up", "--profile", "edge"]
    assert words[-1].endswith("/edge.toml")
    assert service["MemoryMax"] == "1536M" and service["MemorySwapMax"] == "0"
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGINT"), "told alone"


def test_systemd_takes_the_unit() -> None:
    systemd = checker("systemd-analyze", "systemd")
    # The program is not installed where it is looked for; nothing else is wanted.
    said = checked("sh", "-c", f"{systemd} verify {DEPLOY}/edge/visavis.service 2>&1 || true")
    lines = [line for line in said.splitlines() if "is not executable" not in line]
    assert [line for line in lines if "visavis.service" in line] == []
