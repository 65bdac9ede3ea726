"""`python -m visavis`: the command line of this checkout, whatever is installed."""

from visavis.tools.cli.main import main

if __name__ == "__main__":
    main()
