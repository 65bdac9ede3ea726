"""`visavis`, and `python -m visavis`: the command line of this checkout, whatever is installed."""

from visavis.tools.cli.leaving import leaving_at_once


def main() -> None:
    """Run the command of our arguments; exits."""
    with leaving_at_once():
        from visavis.tools.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
