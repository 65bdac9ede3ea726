"""Lower precisions, written into the graph: FP16 by casts, INT8 by calibrated Q/DQ pairs."""

from __future__ import annotations

from visavis.bundles.compile.precision.calibration import calibration_for
from visavis.bundles.compile.precision.eight_bit import to_int8
from visavis.bundles.compile.precision.half import to_fp16

__all__ = ["calibration_for", "to_fp16", "to_int8"]
