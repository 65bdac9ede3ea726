"""Lower precisions, written into the graph: FP16 by casts, INT8 by calibrated Q/DQ pairs."""

from __future__ import annotations

from visavis.plans.precision.calibration import calibration_for
from visavis.plans.precision.eight_bit import to_int8
from visavis.plans.precision.half import to_fp16

__all__ = ["calibration_for", "to_fp16", "to_int8"]
