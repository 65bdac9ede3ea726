"""Other people's modules in the page are those that were pinned, and nothing else is there."""

from __future__ import annotations

import re

from deploy.vendor import DIGESTS, PACKAGES, VENDOR, changed


def test_every_vendored_file_is_what_was_pinned() -> None:
    assert changed() == []
    pinned = {target for package in PACKAGES for target in package.files.values()}
    there = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()}
    assert there == pinned | {DIGESTS.name}


def test_modules_name_each_other_by_paths_alone() -> None:
    """A bare name would need an import map, which the page's policy has no place for."""
    for module in VENDOR.rglob("*.js"):
        assert not re.search(r"""from\s*["']three["']""", module.read_text("utf-8")), module
