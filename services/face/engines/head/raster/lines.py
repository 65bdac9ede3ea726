"""Lines of a triangle, eight at a time by hand: where they begin and end, and which of their pixels
nothing is before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from services.face.engines.head.raster.lanes import (
    FAST,
    FLOAT,
    INT,
    LONG,
    NUMBER,
    called,
    place,
    several,
    spread,
)

AT_ONCE = 8
"""So many lines, or pixels of one."""
_FAR = 1 << 30
_FLOATS, _INTS = ir.VectorType(FLOAT, AT_ONCE), ir.VectorType(INT, AT_ONCE)
_STEPS = ir.Constant(_INTS, list(range(AT_ONCE)))


def _find_ends(_typing: Any, sides: Any, within: Any, lines: Any, spans: Any, out: Any) -> Any:
    """Where a triangle's lines begin, and where they have ended.

    sides: what `sides_of` gives, float32; within: the triangle's first column and the one behind
    the last; lines: the first of those that are looked at, and the one behind the triangle's last,
    int32; spans: int32 [2, lines], made as wide as these. Into `out`, int32 [2, lines]: first pixel
    and the one behind the last; of a line without any this one is 0.
    """
    pair = several(types.int32, 2)
    signature = types.void(several(types.float32, 7), pair, pair, spans, out)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of = context, builder, signature.args
        ends = _ends(builder, *given[:3])
        first = builder.sext(builder.extract_value(given[2], 0), LONG)
        for row, end in enumerate(ends):
            builder.store(end, place(context_of, given, 4, first, _INTS, row), align=NUMBER)
        _widen(context_of, given, 3, first, ends)
        return context.get_dummy_value()

    return signature, generate


find_ends: Any = intrinsic(_find_ends)


def _list_nearer(
    _typing: Any, keys: Any, bits: Any, sides: Any, within: Any, lines: Any, spans: Any, plane: Any,
    out: Any, to: Any,
) -> Any:  # fmt: skip
    """Lists those pixels of a piece's lines that nothing is before, and tells how many they are.
    A lane has a line: hair is long and thin, with a few pixels in each.

    keys: uint32, those of `Work.nearest`, of which `bits` tell the triangle; sides: what `side_of`
    gives of four, float32; within, spans: as `find_ends` has them; lines: as it has them, and the
    picture's width; plane: step of depth in the picture's first pixel, what is added to it for one
    pixel right and one down, and the last step, float32. Into `out`, uint32, from `to` on: column |
    row << 16; as many again as there are lanes may be written to.
    """
    number, long, whole = types.float32, types.uint64, types.int32
    pair, three = several(whole, 2), several(whole, 3)
    sides, plane = several(number, 20), several(number, 4)
    signature = long(keys, types.uint32, sides, pair, three, spans, plane, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of = context, builder, signature.args
        start, stop = _between(builder, *given[2:5])
        top, size = (builder.extract_value(given[4], k) for k in (0, 2))
        _widen(context_of, given, 5, builder.sext(top, LONG), (start, stop))
        row = builder.add(spread(builder, top, AT_ONCE), _STEPS)
        begun, right, down, last = (
            spread(builder, builder.extract_value(given[6], k), AT_ONCE) for k in range(4)
        )
        further = builder.fmul(down, builder.sitofp(row, _FLOATS), FAST)
        begun, plane = builder.fadd(begun, further, FAST), (right, last)
        line = builder.mul(row, spread(builder, size, AT_ONCE))
        name = builder.shl(row, spread(builder, INT(16), AT_ONCE))
        first = builder.ptrtoint(place(context_of, given, 0, LONG(0), INT), LONG)
        first, anything = spread(builder, first, AT_ONCE), ir.Constant(_INTS, ir.Undefined)
        pointers = ir.VectorType(INT.as_pointer(), AT_ONCE)
        before = builder.block
        head, body, done = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        x, count = builder.phi(_INTS), builder.phi(LONG)
        x.add_incoming(start, before)
        count.add_incoming(given[8], before)
        covered = builder.icmp_signed("<", x, stop)
        mask = builder.bitcast(covered, ir.IntType(AT_ONCE))
        builder.cbranch(builder.icmp_unsigned("!=", mask, mask.type(0)), body, done)
        builder.position_at_end(body)
        # Of lines without a pixel, too, the place is within.
        at = builder.select(covered, builder.add(line, x), ir.Constant(_INTS, [0] * AT_ONCE))
        at = builder.zext(at, ir.VectorType(LONG, AT_ONCE))
        at = builder.add(first, builder.shl(at, spread(builder, LONG(2), AT_ONCE)))
        asked = [builder.inttoptr(at, pointers), INT(NUMBER), covered, anything]
        nearest = called(builder, "masked.gather.v8i32.v8p0", _INTS, asked)
        key = _key(builder, begun, plane, x, given[1])
        shows = builder.and_(covered, builder.icmp_unsigned(">", key, nearest))
        asked = [builder.add(name, x), shows, anything]
        listed = called(builder, "experimental.vector.compress.v8i32", _INTS, asked)
        builder.store(listed, place(context_of, given, 7, count, _INTS), align=NUMBER)
        found = builder.ctpop(builder.bitcast(shows, ir.IntType(AT_ONCE)))
        x.add_incoming(builder.add(x, spread(builder, INT(1), AT_ONCE)), body)
        count.add_incoming(builder.add(count, builder.zext(found, LONG)), body)
        builder.branch(head)
        builder.position_at_end(done)
        return builder.sub(count, given[8])

    return signature, generate


list_nearer: Any = intrinsic(_list_nearer)


def _keep_nearest(
    _typing: Any, keys: Any, key: Any, bits: Any, number: Any, plane: Any, x: Any, ends: Any
) -> Any:
    """Writes those of `AT_ONCE` pixels beside each other that a triangle covers and nothing is
    before.

    keys, bits: as `list_nearer` has them; key: which is the first; number: uint32, the triangle's;
    plane: step of depth where the line begins, what is added to it for one pixel right, and the
    last step, float32; x: where the first pixel is in its line; ends: the triangle's first pixel in
    it and the one behind the last, int32.
    """
    long, whole, small = types.uint64, types.uint32, types.int32
    plane, pair = several(types.float32, 3), several(small, 2)
    signature = types.void(keys, long, whole, whole, plane, small, pair)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        at = place((context, builder, signature.args), given, 0, given[1], _INTS)
        nearest = builder.load(at, align=NUMBER)
        x = builder.add(spread(builder, given[5], AT_ONCE), _STEPS)
        start, stop = (
            spread(builder, builder.extract_value(given[6], k), AT_ONCE) for k in range(2)
        )
        begun, right, last = (
            spread(builder, builder.extract_value(given[4], k), AT_ONCE) for k in range(3)
        )
        key = _key(builder, begun, (right, last), x, given[2])
        key = builder.or_(key, spread(builder, given[3], AT_ONCE))
        shows = builder.and_(builder.icmp_signed(">=", x, start), builder.icmp_signed("<", x, stop))
        shows = builder.and_(shows, builder.icmp_unsigned(">", key, nearest))
        builder.store(builder.select(shows, key, nearest), at, align=NUMBER)
        return context.get_dummy_value()

    return signature, generate


keep_nearest: Any = intrinsic(_keep_nearest)


def _ends(builder: Any, sides: Any, within: Any, lines: Any) -> tuple[Any, Any]:
    """First pixel of each line, and the one behind the last; `_FAR` and 0 of a line without any.

    An edge is walked from its upper end, whichever triangle it serves: no seam stays open.
    """

    def of(several: Any, k: int) -> Any:
        return spread(builder, builder.extract_value(several, k), AT_ONCE)

    def crossed(x: Any, y: Any, slope: Any) -> Any:
        down = builder.fsub(line, y, FAST)
        return builder.fadd(x, builder.fmul(down, slope, FAST), FAST)

    px, py, qx, qy, whole, upper, lower = (of(sides, k) for k in range(7))
    number = builder.add(of(lines, 0), _STEPS)
    line = builder.sitofp(number, _FLOATS)
    above = builder.fcmp_ordered("<", line, qy)
    side = crossed(px, py, whole)
    other = builder.select(above, crossed(px, py, upper), crossed(qx, qy, lower))
    swapped = builder.fcmp_ordered("<", other, side)
    start = _pixel(builder, builder.select(swapped, other, side))
    stop = _pixel(builder, builder.select(swapped, side, other))
    start, stop = _larger(builder, start, of(within, 0)), _smaller(builder, stop, of(within, 1))
    return _shown(builder, number, of(lines, 1), start, stop)


def _between(builder: Any, sides: Any, within: Any, lines: Any) -> tuple[Any, Any]:
    """As `_ends`, of a piece that all of its sides have on the same hand."""

    def of(several: Any, k: int) -> Any:
        return spread(builder, builder.extract_value(several, k), AT_ONCE)

    number = builder.add(of(lines, 0), _STEPS)
    line = builder.sitofp(number, _FLOATS)
    start, stop = (builder.sitofp(of(within, k), _FLOATS) for k in range(2))
    for k in range(0, 20, 5):
        x, y, slope, begins, ends = (of(sides, k + which) for which in range(5))
        at = builder.fmul(builder.fsub(line, y, FAST), slope, FAST)
        at = builder.fadd(x, at, FAST)
        begun, ended = builder.fadd(at, begins, FAST), builder.fadd(at, ends, FAST)
        start = builder.select(builder.fcmp_ordered(">", begun, start), begun, start)
        stop = builder.select(builder.fcmp_ordered("<", ended, stop), ended, stop)
    start, stop = _pixel(builder, start), _pixel(builder, stop)
    return _shown(builder, number, of(lines, 1), start, stop)


def _pixel(builder: Any, x: Any) -> Any:
    """The first one that is not left of x."""
    return builder.fptosi(called(builder, "ceil.v8f32", _FLOATS, [x]), _INTS)


def _shown(builder: Any, number: Any, last: Any, start: Any, stop: Any) -> tuple[Any, Any]:
    """Both, but `_FAR` and 0 of a line that is no more of the piece, or without any."""
    shows = builder.icmp_signed("<", number, last)
    shows = builder.and_(shows, builder.icmp_signed("<", start, stop))
    far, none = (spread(builder, INT(it), AT_ONCE) for it in (_FAR, 0))
    return builder.select(shows, start, far), builder.select(shows, stop, none)


def _widen(context_of: Any, given: Any, which: int, first: Any, ends: tuple[Any, Any]) -> None:
    """Makes spans as wide as lines are."""
    builder = context_of[1]
    for row, (end, further) in enumerate(zip(ends, (_smaller, _larger), strict=True)):
        at = place(context_of, given, which, first, _INTS, row)
        wide = further(builder, end, builder.load(at, align=NUMBER))
        builder.store(wide, at, align=NUMBER)


def _key(builder: Any, begun: Any, plane: Any, x: Any, bits: Any) -> Any:
    """Steps of depth in pixels of a line, as keys without a triangle. begun: where `x` is 0; plane:
    what is added to it for one pixel right, and the last step.
    """
    right, last = plane
    depth = builder.fmul(right, builder.sitofp(x, _FLOATS), FAST)
    depth = builder.fptosi(builder.fadd(begun, depth, FAST), _INTS)
    none, last = spread(builder, INT(0), AT_ONCE), builder.fptosi(last, _INTS)
    depth = _smaller(builder, _larger(builder, depth, none), last)
    return builder.shl(depth, spread(builder, bits, AT_ONCE))


def _larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_signed(">", one, other), one, other)


def _smaller(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_signed("<", one, other), one, other)
