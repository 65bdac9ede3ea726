"""Vector instructions that LLVM does not find by itself: several pixels at once, written by hand.

Of one pixel, the numbers of its triangle go the same way and lie beside each other; of several,
they are turned so that those of a kind do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CUT = 8
"""So many pixels are cut at once."""
INT, LONG, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
FAST = ("fast",)
NUMBER = 4
"""Bytes, and what loads and stores may rely on."""


def _cut_planes(
    _typing: Any, planes: Any, keys: Any, key: Any, mask: Any, x: Any, y: Any, most: Any, out: Any,
    to: Any,
) -> Any:  # fmt: skip
    """What the triangles of `CUT` pixels beside each other have there.

    planes: float32, those of `Work`; keys: uint32, of which `mask` tells the triangle, from `key`
    on; x, y: float32, the first pixel; most: (light, shine), int32. Into `out`, uint32 [4, any],
    from `to` on: place within the texels and shine; light; first texel; the one below it.
    """
    number, long, limits = types.float32, types.uint64, several(types.int32, 2)
    signature = types.void(planes, keys, long, types.uint32, number, number, limits, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of = context, builder, signature.args
        half, wide = CUT // 2, ir.VectorType(FLOAT, CUT)
        mine = [_rows_of(context_of, given, pixel) for pixel in range(CUT)]
        y, seen, own = spread(builder, given[5], CUT), [], []
        for pixel in range(half):
            # Two pixels fill a vector.
            first, right, down, last = (
                builder.shuffle_vector(one, other, _ints(range(CUT)))
                for one, other in zip(mine[pixel], mine[pixel + half], strict=True)
            )
            places = [float(pixel)] * half + [float(pixel + half)] * half
            x = builder.fadd(spread(builder, given[4], CUT), ir.Constant(wide, places), FAST)
            for step, count in ((right, x), (down, y)):
                first = builder.fadd(first, builder.fmul(step, count, FAST), FAST)
            seen.append(builder.fptosi(first, ir.VectorType(INT, CUT)))
            own.append(builder.bitcast(last, ir.VectorType(INT, CUT)))
        u, v, light, shine = _turned(builder, seen)
        texel, wide, high, _ = _turned(builder, own)
        u, v = (_cut(builder, it, _last(builder, side)) for it, side in ((u, wide), (v, high)))
        light, shine = (
            _cut(builder, it, spread(builder, builder.extract_value(given[6], k), CUT))
            for k, it in enumerate((light, shine))
        )
        rows_down = builder.mul(builder.lshr(v, _all(8)), wide)
        texel = builder.add(builder.add(texel, rows_down), builder.lshr(u, _all(8)))
        within = builder.shl(builder.and_(v, _all(255)), _all(8))
        within = builder.or_(within, builder.and_(u, _all(255)))
        within = builder.or_(within, builder.shl(shine, _all(16)))
        four = (within, light, texel, builder.add(texel, wide))
        for row, numbers in enumerate(four):
            to = place(context_of, given, 7, given[8], numbers.type, row)
            builder.store(numbers, to, align=NUMBER)
        return context.get_dummy_value()

    return signature, generate


cut_planes: Any = intrinsic(_cut_planes)


def _put_planes(
    _typing: Any, screen: Any, corners: Any, first: Any, shares: Any, units: Any, out: Any, to: Any
) -> Any:
    """Writes what a triangle has in the picture's first pixel, and what is added to it for one
    pixel right and one down: place in its texture in 256ths of a texel, light in 1024ths, shine.

    screen: float32, that of `Work`; corners: uint64 [4], the ends of two lines across it; middle:
    of all four; shares: of how far one line goes and the other, y and then x, over the area
    between them; units: of a texture's width and height, all float32. Into `out`, float32, from
    `to` on.
    """
    number, long = types.float32, types.uint64
    two, four, corners = several(number, 2), several(number, 4), several(long, 4)
    signature = types.void(screen, corners, two, four, two, out, long)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of, kind = (context, builder, signature.args), ir.VectorType(FLOAT, 4)

        def of(which: int, k: int) -> Any:
            return spread(builder, builder.extract_value(given[which], k), 4)

        def turned(one: Any, its: Any, other: Any, share: Any) -> Any:
            left, right = builder.fmul(one, its, FAST), builder.fmul(other, share, FAST)
            return builder.fsub(left, right, FAST)

        unit = ir.Constant(kind, [1.0, 1.0, 1024.0, 1.0])
        for k in range(2):
            unit = builder.insert_element(unit, builder.extract_value(given[4], k), INT(k))
        found = []
        for k in range(4):
            at = builder.shl(builder.extract_value(given[1], k), LONG(3))
            row = place(context_of, given, 0, builder.add(at, LONG(4)), kind)
            found.append(builder.fmul(builder.load(row, align=NUMBER), unit, FAST))
        one, other = (builder.fsub(found[k + 1], found[k], FAST) for k in (0, 2))
        right = turned(one, of(3, 1), other, of(3, 0))
        down = turned(other, of(3, 2), one, of(3, 3))
        both = [builder.fadd(found[k + 1], found[k], FAST) for k in (0, 2)]
        base = builder.fmul(builder.fadd(*both, FAST), ir.Constant(kind, [0.25] * 4), FAST)
        # Texels have their middles half a texel in.
        base = builder.fsub(base, ir.Constant(kind, [128.0, 128.0, 0.0, 0.0]), FAST)
        for k, step in enumerate((right, down)):
            base = builder.fsub(base, builder.fmul(step, of(2, k), FAST), FAST)
        row = place(context_of, given, 5, given[6], kind)
        for k, numbers in enumerate((base, right, down)):
            builder.store(numbers, builder.gep(row, [INT(k)]), align=NUMBER)
        return context.get_dummy_value()

    return signature, generate


put_planes: Any = intrinsic(_put_planes)


def _add_change(_typing: Any, sums: Any, at: Any, changes: Any, which: Any, weight: Any) -> Any:
    """Adds eight numbers from `which` on, times `weight`, to those from `at` on, all float32."""
    long = types.uint64
    signature = types.void(sums, long, changes, long, types.float32)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        context_of, kind = (context, builder, signature.args), ir.VectorType(FLOAT, 8)
        to = place(context_of, given, 0, given[1], kind)
        change = builder.load(place(context_of, given, 2, given[3], kind), align=NUMBER)
        change = builder.fmul(change, spread(builder, given[4], 8), FAST)
        builder.store(builder.fadd(builder.load(to, align=NUMBER), change, FAST), to, align=NUMBER)
        return context.get_dummy_value()

    return signature, generate


add_change: Any = intrinsic(_add_change)


def _ask_for(_typing: Any, array: Any, at: Any) -> Any:
    """Has the number `at` of an array brought from memory: it will be wanted soon."""
    signature = types.void(array, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        (kind, _), byte = signature.args, ir.IntType(8)
        array = context.make_array(kind)(context, builder, given[0])
        step = builder.mul(given[1], builder.extract_value(array.strides, 0))
        first = builder.gep(builder.bitcast(array.data, byte.as_pointer()), [step])
        wanted = ir.FunctionType(ir.VoidType(), [first.type, INT, INT, INT])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [first.type], wanted)
        builder.call(ask, [first, INT(0), INT(3), INT(1)])
        return context.get_dummy_value()

    return signature, generate


ask_for: Any = intrinsic(_ask_for)


def several(kind: Any, count: int) -> Any:
    return types.UniTuple(kind, count)  # type: ignore[no-untyped-call]


def place(context_of: Any, given: Any, which: int, at: Any, kind: Any, row: int = 0) -> Any:
    """Where the argument `which`, an array, has its number `at`, to be read as something else. row:
    of an array of lines, from whose beginning on.
    """
    context, builder, arguments = context_of
    array = context.make_array(arguments[which])(context, builder, given[which])
    if row:
        at = builder.add(at, builder.mul(builder.extract_value(array.shape, 1), LONG(row)))
    return builder.bitcast(builder.gep(array.data, [at]), kind.as_pointer())


def called(builder: Any, name: str, result: Any, given: Sequence[Any]) -> Any:
    """What an instruction of LLVM's own gives."""
    kind = ir.FunctionType(result, [it.type for it in given])
    asked = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, f"llvm.{name}"
    )
    return builder.call(asked, given)


def spread(builder: Any, number: Any, lanes: int) -> Any:
    """The same number in all lanes."""
    nothing = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, number, INT(0))
    return builder.shuffle_vector(first, nothing, _ints([0] * lanes))


def _ints(numbers: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(INT, len(numbers)), list(numbers))


def _all(number: int) -> Any:
    return _ints([number] * CUT)


def _last(builder: Any, side: Any) -> Any:
    """The last place, in 256ths, in a texture that has another texel behind its own."""
    return builder.sub(builder.shl(side, _all(8)), _all(257))


def _cut(builder: Any, numbers: Any, most: Any) -> Any:
    """None above `most` and none below zero."""
    numbers = builder.select(builder.icmp_signed("<", most, numbers), most, numbers)
    return builder.select(builder.icmp_signed("<", numbers, _all(0)), _all(0), numbers)


def _rows_of(context_of: Any, given: Any, pixel: int) -> list[Any]:
    """What `Work.planes` has of a pixel's triangle, in fours; given: as `_cut_planes` has it."""
    builder = context_of[1]
    key = builder.load(place(context_of, given, 1, builder.add(given[2], LONG(pixel)), INT))
    triangle = builder.zext(builder.and_(key, given[3]), LONG)
    at = builder.shl(triangle, LONG(4))
    rows = place(context_of, given, 0, at, ir.VectorType(FLOAT, 4))
    return [builder.load(builder.gep(rows, [INT(row)]), align=NUMBER) for row in range(4)]


def _turned(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Four vectors of twice four, as columns: each half by itself, as processors do it."""
    low, high = _ints([0, 8, 1, 9, 4, 12, 5, 13]), _ints([2, 10, 3, 11, 6, 14, 7, 15])
    pairs = [[builder.shuffle_vector(*rows[k : k + 2], it) for k in (0, 2)] for it in (low, high)]
    one, other = _ints([0, 1, 8, 9, 4, 5, 12, 13]), _ints([2, 3, 10, 11, 6, 7, 14, 15])
    return [builder.shuffle_vector(*both, it) for both in pairs for it in (one, other)]
