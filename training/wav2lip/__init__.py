"""How Wav2Lip's graph is held against the published code: `reference`."""
