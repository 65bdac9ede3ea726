"""The reference of events says what the code says."""

from __future__ import annotations

from deploy import events_page


def test_the_page_of_events_is_fresh() -> None:
    kept = events_page.PAGE.read_text(encoding="utf-8")
    assert kept == events_page.page(), "run `python -m deploy.events_page`"


def test_every_message_and_every_field_says_what_it_means() -> None:
    silent = [
        f"{model.__name__}.{name}"
        for model in events_page.models()
        for name, field in model.model_fields.items()
        if name != "type" and not field.description
    ]
    assert silent == []
    assert [model.__name__ for model in events_page.models() if not model.__doc__] == []
