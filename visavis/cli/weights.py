"""Makes sure that the weights are there before a command needs them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from visavis.cli.models import pull_with_bars
from visavis.models.listing import default_catalog


def pull_profile(profile: str, console: Console) -> None:
    """Pull what is missing of `profile`, with progress bars. Quiet if all is there."""
    pull_bundles(default_catalog().profile_bundles(profile), console)


def pull_bundles(names: Sequence[str], console: Console) -> None:
    """Pull what is missing of `names`, with progress bars. Quiet if all is there."""
    pull_with_bars(names, console)
