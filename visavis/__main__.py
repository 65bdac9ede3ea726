"""`visavis`, and `python -m visavis`: the command line of this checkout, whatever is installed."""

import sys

from visavis.tools.cli.leaving import leaving_at_once
from visavis.tools.cli.systems import refusal_here


def main() -> None:
    """Run the command of our arguments; exits."""
    with leaving_at_once():
        if sys.platform == "win32":
            sys.exit(refusal_here())
        from visavis.tools.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
