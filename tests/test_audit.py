"""The audit where there is no network: told, and no fault of the checkout."""

import pytest

from tests.audit import NOT_ASKED, main

_NOBODY = ["--osv-url", "http://127.0.0.1:9/v1/query"]


@pytest.mark.parametrize(("more", "status"), [([], NOT_ASKED), (["--warn"], 0)])
def test_where_nobody_can_be_asked_it_says_so(
    capsys: pytest.CaptureFixture[str], more: list[str], status: int
) -> None:
    assert main([*_NOBODY, *more]) == status
    assert "Not audited: 127.0.0.1 cannot be reached" in capsys.readouterr().out
