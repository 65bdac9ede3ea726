"""Lower precisions, written into the graph.

`half`: FP16 by casts.
`eight_bit`: INT8 by calibrated pairs of QuantizeLinear and DequantizeLinear.
`calibration`: real inputs by which the ranges of INT8 activations are found.
"""

from __future__ import annotations

from visavis.bundles.compile.precision.calibration import calibration_for
from visavis.bundles.compile.precision.eight_bit import to_int8
from visavis.bundles.compile.precision.half import to_fp16

__all__ = ["calibration_for", "to_fp16", "to_int8"]
