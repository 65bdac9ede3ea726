"""Which of the 468 landmarks is what. Numbers are those of the MediaPipe face mesh; right and left
are the person's.
"""

from __future__ import annotations

LANDMARKS = 468

UPPER_INNER_LIP = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308)
"""From the right corner to the left, as every lip row below."""
LOWER_INNER_LIP = (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308)
UPPER_LIP_ROWS = (
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (76, 184, 74, 73, 72, 11, 302, 303, 304, 408, 306),
    (62, 183, 42, 41, 38, 12, 268, 271, 272, 407, 292),
    UPPER_INNER_LIP,
)
"""From the outer edge to the inner."""
LOWER_LIP_ROWS = (
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306),
    (62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292),
    LOWER_INNER_LIP,
)
LIPS = (*UPPER_LIP_ROWS[1][3:8], *LOWER_LIP_ROWS[1][3:8])
"""On the red of both, away from the corners."""

RIGHT_UPPER_LID = (33, 246, 161, 160, 159, 158, 157, 173, 133)
"""From the outer corner to the inner, as every eye row below."""
RIGHT_LOWER_LID = (33, 7, 163, 144, 145, 153, 154, 155, 133)
RIGHT_LID_CREASE = (130, 247, 30, 29, 27, 28, 56, 190, 243)
RIGHT_UNDER_EYE = (130, 25, 110, 24, 23, 22, 26, 112, 243)
RIGHT_ORBIT = (226, 113, 225, 224, 223, 222, 221, 189, 244)
RIGHT_BROW = (70, 63, 105, 66, 107, 46, 53, 52, 65, 55)
"""Upper edge from the temple inwards, then the lower edge likewise."""
LEFT_UPPER_LID = (263, 466, 388, 387, 386, 385, 384, 398, 362)
LEFT_LOWER_LID = (263, 249, 390, 373, 374, 380, 381, 382, 362)
LEFT_LID_CREASE = (359, 467, 260, 259, 257, 258, 286, 414, 463)
LEFT_UNDER_EYE = (359, 255, 339, 254, 253, 252, 256, 341, 463)
LEFT_ORBIT = (446, 342, 445, 444, 443, 442, 441, 413, 464)
LEFT_BROW = (300, 293, 334, 296, 336, 276, 283, 282, 295, 285)

FACE_OVAL = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
"""Closed outline, clockwise in the picture from the forehead."""
JAW_LINE = (172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397)

RIGHT_EYE_OUTER, LEFT_EYE_OUTER = 33, 263
RIGHT_MOUTH_CORNER, LEFT_MOUTH_CORNER = 61, 291
RIGHT_EAR, LEFT_EAR = 234, 454
NOSE_TIP, CHIN, BROW_CENTRE, FOREHEAD = 1, 152, 9, 10
