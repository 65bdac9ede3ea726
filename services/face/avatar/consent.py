"""What the person in a photograph has agreed to: stated by whoever makes an avatar of it.

It is kept in the avatar's own record, and so goes wherever the avatar goes.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from visavis.serving.errors import InvalidInputError

NOT_STATED = (
    "consent: a photograph shows somebody, so say whose likeness it is and what that person has "
    "agreed to: in the form's fields likeness and agreed_to, with `visavis avatar create "
    "--likeness NAME --consent TEXT`, or in CreateAvatarRequest.consent. docs/consent.md tells more"
)
_LONGEST = 500
"""Characters of a field."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Says who is shown, what that person has agreed to, and who stated it, how and when."""

    likeness: str
    agreed_to: str
    stated_by: str
    stated_via: str
    stated_at: str
    """ISO 8601, UTC."""

    @classmethod
    def stated(cls, **told: str) -> Self:
        """What somebody has stated, of every field. Raises InvalidInputError that names the field
        which says nothing, or what no record can hold.
        """
        known = {name: " ".join(text.split()) for name, text in told.items()}
        for name, text in known.items():
            if not text:
                raise InvalidInputError(f"consent: {name} says nothing. {NOT_STATED}")
            if len(text) > _LONGEST:
                raise InvalidInputError(
                    f"consent: {name} has {len(text)} characters; {_LONGEST} are allowed"
                )
            if any(unicodedata.category(character) == "Cc" for character in text):
                raise InvalidInputError(f"consent: {name} has control characters")
        return cls(**known)

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """What `written` wrote. Raises KeyError, TypeError for anything else."""
        return cls(**{field.name: str(table[field.name]) for field in fields(cls)})

    def written(self) -> str:
        """A table of TOML, to stand at the end of a record."""
        # JSON strings are valid TOML values.
        told = (
            f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in asdict(self).items()
        )
        return "\n".join(["[consent]", *told, ""])
