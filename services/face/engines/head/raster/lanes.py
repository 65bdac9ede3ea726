"""Vector instructions that LLVM does not find by itself: several pixels at once, written by hand.

Of one pixel, the numbers of its triangle go the same way and lie beside each other; of several,
they are turned so that those of a kind do. Of pixels that a condition chooses, a list is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CUT, LISTED = 4, 8
"""So many pixels are cut, and looked at, at once."""
_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FAST = ("fast",)
_NUMBER, _KEY = 4, 8
"""Bytes, and what loads and stores may rely on."""


def _cut_planes(
    _typing: Any, planes: Any, keys: Any, key: Any, x: Any, y: Any, most: Any, out: Any, to: Any
) -> Any:
    """What the triangles of `CUT` pixels beside each other have there.

    planes: float32, those of `Work`; keys: uint64, whose lower halves tell the triangle, from `key`
    on; x, y: float32, the first pixel; most: (light, shine), int32. Into `out`, uint32 [4, any],
    from `to` on: place within the texels and shine; light; first texel; the one below it.
    """
    number, long, limits = types.float32, types.uint64, _several(types.int32, 2)
    signature = types.void(planes, keys, long, number, number, limits, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of = context, builder, signature.args
        seen, own = [], []
        for pixel in range(CUT):
            place = builder.add(given[2], _LONG(pixel))
            key = builder.load(_place(context_of, given, 1, place, _LONG))
            at = builder.shl(builder.and_(key, _LONG(0xFFFFFFFF)), _LONG(4))
            rows = _place(context_of, given, 0, at, ir.VectorType(_FLOAT, 4))
            first, right, down, last = (
                builder.load(builder.gep(rows, [_INT(row)]), align=_NUMBER) for row in range(4)
            )
            x = builder.fadd(given[3], ir.Constant(_FLOAT, float(pixel)), _FAST)
            for step, count in ((right, x), (down, given[4])):
                by = _spread(builder, count, 4)
                first = builder.fadd(first, builder.fmul(step, by, _FAST), _FAST)
            seen.append(builder.fptosi(first, ir.VectorType(_INT, 4)))
            own.append(builder.bitcast(last, ir.VectorType(_INT, 4)))
        u, v, light, shine = _turned(builder, seen)
        texel, wide, high, _ = _turned(builder, own)
        u, v = (_cut(builder, it, _last(builder, side)) for it, side in ((u, wide), (v, high)))
        light, shine = (
            _cut(builder, it, _spread(builder, builder.extract_value(given[5], k), 4))
            for k, it in enumerate((light, shine))
        )
        rows_down = builder.mul(builder.lshr(v, _all(8)), wide)
        texel = builder.add(builder.add(texel, rows_down), builder.lshr(u, _all(8)))
        within = builder.shl(builder.and_(v, _all(255)), _all(8))
        within = builder.or_(within, builder.and_(u, _all(255)))
        within = builder.or_(within, builder.shl(shine, _all(16)))
        four = (within, light, texel, builder.add(texel, wide))
        array = context.make_array(signature.args[6])(context, builder, given[6])
        stride = builder.extract_value(array.shape, 1)
        for row, numbers in enumerate(four):
            at = builder.add(given[7], builder.mul(stride, _LONG(row)))
            builder.store(numbers, _place(context_of, given, 6, at, numbers.type), align=_NUMBER)
        return context.get_dummy_value()

    return signature, generate


cut_planes: Any = intrinsic(_cut_planes)


def _list_nearer(
    _typing: Any, keys: Any, sides: Any, plane: Any, within: Any, lines: Any, spans: Any, out: Any,
    to: Any,
) -> Any:  # fmt: skip
    """Lists those pixels of `LISTED` lines that a triangle covers and nothing is before, and tells
    how many they are. A lane has a line: hair is long and thin, with a pixel or two in each.

    keys: uint64, whose upper halves tell what is before; sides: what `ends` takes beside the line;
    plane: inverse depth in the picture's first pixel, and what is added to it for one pixel right
    and one down, all float32; within: the triangle's first column and the one behind the last,
    the picture's width; lines: the first, and the one behind the triangle's last, all int32; spans:
    int32, [2, any] of each line. Into `out`, uint32, from `to` on: column | row << 16; as many
    again as there are lanes are written to.
    """
    number, long, whole = types.float32, types.uint64, types.int32
    sevens, threes = _several(number, 7), _several(number, 3)
    signature = long(keys, sevens, threes, _several(whole, 3), _several(whole, 2), spans, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of = context, builder, signature.args
        floats, ints = ir.VectorType(_FLOAT, LISTED), ir.VectorType(_INT, LISTED)

        def of(which: int, k: int) -> Any:
            return _spread(builder, builder.extract_value(given[which], k), LISTED)

        def along(at: Any, step: Any, count: Any) -> Any:
            return builder.fadd(at, builder.fmul(step, count, _FAST), _FAST)

        def rounded_up(at: Any) -> Any:
            return builder.fptosi(_called(builder, "ceil.v8f32", floats, [at]), ints)

        def chosen(order: str, one: Any, other: Any) -> Any:
            return builder.select(builder.icmp_signed(order, one, other), one, other)

        px, py, qx, qy, slope, upper, lower = (of(1, k) for k in range(7))
        row = builder.add(of(4, 0), ir.Constant(ints, list(range(LISTED))))
        y = builder.sitofp(row, floats)
        side = along(px, builder.fsub(y, py, _FAST), slope)
        above, below = builder.fsub(y, py, _FAST), builder.fsub(y, qy, _FAST)
        above, below = along(px, above, upper), along(qx, below, lower)
        other = builder.select(builder.fcmp_ordered("<", y, qy), above, below)
        swapped = builder.fcmp_ordered("<", other, side)
        start = chosen(">", rounded_up(builder.select(swapped, other, side)), of(3, 0))
        stop = chosen("<", rounded_up(builder.select(swapped, side, other)), of(3, 1))
        # Of lines behind the last one there is nothing.
        nothing = _spread(builder, _INT(0), LISTED)
        stop = builder.select(builder.icmp_signed("<", row, of(4, 1)), stop, nothing)
        some = builder.icmp_signed("<", start, stop)
        array = context.make_array(signature.args[5])(context, builder, given[5])
        for k, (order, end) in enumerate((("<", start), (">", stop))):
            at = builder.mul(builder.extract_value(array.shape, 1), _LONG(k))
            at = builder.add(at, builder.sext(builder.extract_value(given[4], 0), _LONG))
            place = _place(context_of, given, 5, at, ints)
            seen = builder.load(place, align=_NUMBER)
            end = builder.select(some, chosen(order, end, seen), seen)
            builder.store(end, place, align=_NUMBER)

        near = along(of(2, 0), of(2, 2), y)
        right, line = of(2, 1), builder.mul(row, of(3, 2))
        name = builder.shl(row, _spread(builder, _INT(16), LISTED))
        first = builder.ptrtoint(_place(context_of, given, 0, _LONG(0), _INT), _LONG)
        # Upper halves of keys.
        first = _spread(builder, builder.add(first, _LONG(_KEY // 2)), LISTED)
        longs = ir.VectorType(_LONG, LISTED)
        anything = ir.Constant(ints, ir.Undefined)
        begun = builder.block
        head, body, done = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        x, count = builder.phi(ints), builder.phi(_LONG)
        x.add_incoming(start, begun)
        count.add_incoming(given[7], begun)
        covered = builder.icmp_signed("<", x, stop)
        mask = builder.bitcast(covered, ir.IntType(LISTED))
        builder.cbranch(builder.icmp_unsigned("!=", mask, mask.type(0)), body, done)
        builder.position_at_end(body)
        at = builder.sext(builder.add(line, x), longs)
        at = builder.add(first, builder.shl(at, _spread(builder, _LONG(3), LISTED)))
        pointers = builder.inttoptr(at, ir.VectorType(_INT.as_pointer(), LISTED))
        asked = [pointers, _INT(_NUMBER), covered, anything]
        before = _called(builder, "masked.gather.v8i32.v8p0", ints, asked)
        depth = builder.fptosi(along(near, right, builder.sitofp(x, floats)), ints)
        shows = builder.and_(covered, builder.icmp_signed(">", depth, before))
        asked = [builder.add(name, x), shows, anything]
        listed = _called(builder, "experimental.vector.compress.v8i32", ints, asked)
        builder.store(listed, _place(context_of, given, 6, count, ints), align=_NUMBER)
        found = builder.ctpop(builder.bitcast(shows, ir.IntType(LISTED)))
        x.add_incoming(builder.add(x, _spread(builder, _INT(1), LISTED)), body)
        count.add_incoming(builder.add(count, builder.zext(found, _LONG)), body)
        builder.branch(head)
        builder.position_at_end(done)
        return builder.sub(count, given[7])

    return signature, generate


list_nearer: Any = intrinsic(_list_nearer)


def _put_planes(
    _typing: Any, screen: Any, corners: Any, first: Any, shares: Any, units: Any, out: Any, to: Any
) -> Any:
    """Writes what a triangle has in the picture's first pixel, and what is added to it for one
    pixel right and one down: place in its texture in 256ths of a texel, light in 1024ths, shine.

    screen: float32, that of `Work`; corners: uint64 [3]; first: where the first corner is; shares:
    of the second corner and the third, y and then x, over the double area; units: of a texture's
    width and height, all float32. Into `out`, float32, from `to` on.
    """
    number, long = types.float32, types.uint64
    two, four, three = _several(number, 2), _several(number, 4), _several(long, 3)
    signature = types.void(screen, three, two, four, two, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of, kind = (context, builder, signature.args), ir.VectorType(_FLOAT, 4)

        def of(which: int, k: int) -> Any:
            return _spread(builder, builder.extract_value(given[which], k), 4)

        def turned(one: Any, its: Any, other: Any, share: Any) -> Any:
            left, right = builder.fmul(one, its, _FAST), builder.fmul(other, share, _FAST)
            return builder.fsub(left, right, _FAST)

        unit = ir.Constant(kind, [1.0, 1.0, 1024.0, 1.0])
        for k in range(2):
            unit = builder.insert_element(unit, builder.extract_value(given[4], k), _INT(k))
        found = []
        for k in range(3):
            at = builder.shl(builder.extract_value(given[1], k), _LONG(3))
            row = _place(context_of, given, 0, builder.add(at, _LONG(4)), kind)
            found.append(builder.fmul(builder.load(row, align=_NUMBER), unit, _FAST))
        b, c = (builder.fsub(it, found[0], _FAST) for it in found[1:])
        right = turned(b, of(3, 1), c, of(3, 0))
        down = turned(c, of(3, 2), b, of(3, 3))
        # Texels have their middles half a texel in.
        base = builder.fsub(found[0], ir.Constant(kind, [128.0, 128.0, 0.0, 0.0]), _FAST)
        for k, step in enumerate((right, down)):
            base = builder.fsub(base, builder.fmul(step, of(2, k), _FAST), _FAST)
        row = _place(context_of, given, 5, given[6], kind)
        for k, numbers in enumerate((base, right, down)):
            builder.store(numbers, builder.gep(row, [_INT(k)]), align=_NUMBER)
        return context.get_dummy_value()

    return signature, generate


put_planes: Any = intrinsic(_put_planes)


def _ask_for(_typing: Any, array: Any, at: Any) -> Any:
    """Has the number `at` of an array brought from memory: it will be wanted soon."""
    signature = types.void(array, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        (kind, _), byte = signature.args, ir.IntType(8)
        array = context.make_array(kind)(context, builder, given[0])
        step = builder.mul(given[1], builder.extract_value(array.strides, 0))
        place = builder.gep(builder.bitcast(array.data, byte.as_pointer()), [step])
        wanted = ir.FunctionType(ir.VoidType(), [place.type, _INT, _INT, _INT])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [place.type], wanted)
        builder.call(ask, [place, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return signature, generate


ask_for: Any = intrinsic(_ask_for)


def _several(kind: Any, count: int) -> Any:
    return types.UniTuple(kind, count)  # type: ignore[no-untyped-call]


def _place(context_of: Any, given: Any, which: int, at: Any, kind: Any) -> Any:
    """Where the argument `which`, an array, has its number `at`, to be read as something else."""
    context, builder, arguments = context_of
    data = context.make_array(arguments[which])(context, builder, given[which]).data
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _called(builder: Any, name: str, result: Any, given: Sequence[Any]) -> Any:
    """What an instruction of LLVM's own gives."""
    kind = ir.FunctionType(result, [it.type for it in given])
    asked = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, f"llvm.{name}"
    )
    return builder.call(asked, given)


def _spread(builder: Any, number: Any, lanes: int) -> Any:
    """The same number in all lanes."""
    nothing = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, number, _INT(0))
    return builder.shuffle_vector(first, nothing, _ints([0] * lanes))


def _ints(numbers: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(numbers)), list(numbers))


def _all(number: int) -> Any:
    return _ints([number] * CUT)


def _last(builder: Any, side: Any) -> Any:
    """The last place, in 256ths, in a texture that has another texel behind its own."""
    return builder.sub(builder.shl(side, _all(8)), _all(257))


def _cut(builder: Any, numbers: Any, most: Any) -> Any:
    """None above `most` and none below zero."""
    numbers = builder.select(builder.icmp_signed("<", most, numbers), most, numbers)
    return builder.select(builder.icmp_signed("<", numbers, _all(0)), _all(0), numbers)


def _turned(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Four vectors of four, as columns."""
    pairs = [builder.shuffle_vector(rows[k], rows[k + 1], _ints(range(8))) for k in (0, 2)]
    return [builder.shuffle_vector(*pairs, _ints([k, 4 + k, 8 + k, 12 + k])) for k in range(4)]
