"""Learned answers on disk, so that they outlive the gateway."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from visavis.whole_file import placed_whole

log = logging.getLogger(__name__)

_VERSION = 1
_MAX_FILE_BYTES = 64_000_000


class AnswerStore:
    """One JSON file in `folder`; it is there complete or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "learned-answers.json"

    def load(self) -> list[dict[str, Any]]:
        """What was saved last; nothing, with a warning, where that cannot be read."""
        try:
            if self.path.stat().st_size > _MAX_FILE_BYTES:
                raise ValueError("it is too large")
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if not isinstance(content, dict) or content.get("version") != _VERSION:
                raise ValueError("it is of another version")
            return list(content["answers"])
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("learned answers: %s is not used: %s", self.path, error)
            return []

    def save(self, answers: list[dict[str, Any]]) -> None:
        """Replace the file. Raises OSError. Blocks: not for an event loop."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"version": _VERSION, "answers": answers}, ensure_ascii=False)
        with placed_whole(self.path, prefix=".learned-") as file:
            file.write(content.encode())
