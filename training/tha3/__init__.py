"""How the graphs of THA3 are held against the published code: `reference`."""
