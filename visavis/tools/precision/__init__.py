"""What a lower precision costs the product, measured on the CPU with the plans' own graphs.

- `gates`: every lower precision of a bundle against 32 bits
- `assembled`: plans put together again into the files that a service loads
- `spoken`: sentences said and heard by the product's own services
- `mel_cepstrum`: how far apart two voices sound
"""
