"""Vector code for kernels that treat a fixed number of columns side by side.

numba's own loops reload and store what they add up, and check on every entry whether arrays overlap. Here the sums of
8, 16 or 32 columns stay in vector registers while a sparse row is walked along: two to four times as fast. The width is
the length of a tuple (`LANES[32]`), hence part of a type: a kernel is compiled once per width.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: Widths that kernels are compiled for.
LANES = {width: (0,) * width for width in (8, 16, 32)}
WIDEST = max(LANES)

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _INTS = ir.VectorType(_FLOAT, 8), ir.VectorType(_INT, 8)
_FAST = ("fast",)


def width_for(columns: int) -> int:
    """The narrowest width with room for so many columns, or the widest."""
    return min((width for width in LANES if width >= columns), default=WIDEST)


class _Code:
    """What the intrinsics below write: loops over a sparse row, whose entries pick rows of a matrix."""

    def __init__(self, context: Any, builder: Any, signature: Any, width: int) -> None:
        self.context, self.builder, self.signature = context, builder, signature
        self.count = width // 8

    def data(self, place: int, value: Any) -> Any:
        """Pointer to the entries of the array that is argument number `place`."""
        return self.context.make_array(self.signature.args[place])(self.context, self.builder, value).data

    def spread(self, value: Any, kind: Any = _VECTOR) -> Any:
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * 8))

    def load(self, pointer: Any) -> list[Any]:
        """The vectors that begin at a float."""
        at = self.builder.bitcast(pointer, _VECTOR.as_pointer())
        return [self.builder.load(self._nth(at, k), align=4) for k in range(self.count)]

    def store(self, vectors: list[Any], pointer: Any) -> None:
        at = self.builder.bitcast(pointer, _VECTOR.as_pointer())
        for k, vector in enumerate(vectors):
            self.builder.store(vector, self._nth(at, k), align=4)

    def _nth(self, pointer: Any, k: int) -> Any:
        return self.builder.gep(pointer, [ir.Constant(_LONG, k)])

    def plus_product(self, sums: list[Any], factor: Any, vectors: list[Any]) -> list[Any]:
        build = self.builder
        return [
            build.fadd(a, build.fmul(factor, b, flags=_FAST), flags=_FAST) for a, b in zip(sums, vectors, strict=True)
        ]

    def along(self, args: Any, body: Any, carried: list[Any]) -> list[Any]:
        """Walks entries start..stop of a sparse row: body(row pointer, spread value, carried) gives what is carried on.

        args  matrix, slot, indices, values, start, stop, ...
        """
        build = self.builder
        matrix, indices, values = (self.data(place, args[place]) for place in (0, 2, 3))
        slot = None if self.signature.args[1] == types.none else self.data(1, args[1])
        before = build.block
        head, inside, end = (build.append_basic_block(name) for name in ("head", "inside", "end"))
        build.branch(head)
        build.position_at_end(head)
        p = build.phi(_LONG)
        p.add_incoming(args[4], before)
        held = [build.phi(_VECTOR) for _ in carried]
        for phi, first in zip(held, carried, strict=True):
            phi.add_incoming(first, before)
        build.cbranch(build.icmp_signed("<", p, args[5]), inside, end)
        build.position_at_end(inside)
        row = build.sext(build.load(build.gep(indices, [p])), _LONG)
        if slot is not None:
            row = build.sext(build.load(build.gep(slot, [row])), _LONG)
        at = build.gep(matrix, [build.mul(row, ir.Constant(_LONG, 8 * self.count))])
        following = body(at, self.spread(build.load(build.gep(values, [p]))), held)
        for phi, later in zip(held, following, strict=True):
            phi.add_incoming(later, inside)
        p.add_incoming(build.add(p, ir.Constant(_LONG, 1)), inside)
        build.branch(head)
        build.position_at_end(end)
        return held


@intrinsic
def add_rows(
    typing: Any, matrix: Any, slot: Any, indices: Any, values: Any, start: Any, stop: Any, out: Any, lanes: Any
) -> Any:
    """out[j] += sum over p from start to stop of values[p] * matrix[slot[indices[p]], j]; slot None for none.

    matrix  float32 (rows, width), row-major; out float32 (width,)
    """
    signature = types.void(matrix, slot, indices, values, types.int64, types.int64, out, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, builder, signature, lanes.count)
        out = code.data(6, args[6])
        sums = code.along(args, lambda at, v, held: code.plus_product(held, v, code.load(at)), code.load(out))
        code.store(sums, out)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_to_rows(
    typing: Any, matrix: Any, slot: Any, indices: Any, values: Any, start: Any, stop: Any, step: Any, lanes: Any
) -> Any:
    """matrix[slot[indices[p]], j] += values[p] * step[j] for p from start to stop."""
    signature = types.void(matrix, slot, indices, values, types.int64, types.int64, step, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, builder, signature, lanes.count)
        steps = code.load(code.data(6, args[6]))

        def body(at: Any, value: Any, held: list[Any]) -> list[Any]:
            code.store(code.plus_product(code.load(at), value, steps), at)
            return held

        code.along(args, body, [])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def two_sums(typing: Any, matrix: Any, indices: Any, values: Any, start: Any, stop: Any) -> Any:
    """Sums over p from start to stop of values[p] * matrix[indices[p], 0], and of values[p] * matrix[indices[p], 1].

    matrix  float32 (rows, 2), row-major: both columns come with one load. numba would gather each by itself, which
    takes several times as long. Four entries at a time have sums of their own, so that none waits for another.
    """
    signature = types.UniTuple(types.float32, 2)(matrix, indices, values, types.int64, types.int64)
    pair, together = ir.VectorType(_FLOAT, 2), ir.VectorType(_INT, 2)

    def generate(context: Any, build: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, build, signature, 8)
        table, columns, factors = (code.data(place, args[place]) for place in range(3))
        table = build.bitcast(table, pair.as_pointer())

        def plus(held: Any, p: Any) -> Any:
            row = build.sext(build.load(build.gep(columns, [p])), _LONG)
            at = build.load(build.gep(table, [row]), align=4)
            nothing = ir.Constant(pair, ir.Undefined)
            value = build.insert_element(nothing, build.load(build.gep(factors, [p])), ir.Constant(_INT, 0))
            value = build.shuffle_vector(value, nothing, ir.Constant(together, [0, 0]))
            return build.fadd(held, build.fmul(value, at, flags=("contract",)), flags=("contract",))

        def walk(first: Any, end: Any, stride: int, sums: list[Any]) -> tuple[Any, list[Any]]:
            """Entries first, first + stride, ... before the end; entry first + k goes to sum number k."""
            before = build.block
            head, inside, behind = (build.append_basic_block(name) for name in ("head", "inside", "behind"))
            build.branch(head)
            build.position_at_end(head)
            p = build.phi(_LONG)
            p.add_incoming(first, before)
            held = [build.phi(pair) for _ in sums]
            for phi, begun in zip(held, sums, strict=True):
                phi.add_incoming(begun, before)
            build.cbranch(build.icmp_signed("<", p, end), inside, behind)
            build.position_at_end(inside)
            for k in range(stride):
                held[k].add_incoming(plus(held[k], build.add(p, ir.Constant(_LONG, k))), inside)
            for phi in held[stride:]:
                phi.add_incoming(phi, inside)
            p.add_incoming(build.add(p, ir.Constant(_LONG, stride)), inside)
            build.branch(head)
            build.position_at_end(behind)
            return p, held

        zero = ir.Constant(pair, [0.0, 0.0])
        behind, sums = walk(args[3], build.sub(args[4], ir.Constant(_LONG, 3)), 4, [zero] * 4)
        _, sums = walk(behind, args[4], 1, sums)
        total = build.fadd(build.fadd(sums[0], sums[1]), build.fadd(sums[2], sums[3]))
        found = [build.extract_element(total, ir.Constant(_INT, side)) for side in range(2)]
        return context.make_tuple(build, signature.return_type, found)

    return signature, generate


@intrinsic
def negative_steps(
    typing: Any, z: Any, beta: Any, row: Any, bits: Any, half: Any, scale: Any, step: Any, lanes: Any
) -> Any:
    """step[j] = min(b[j] - (z[j] + 1 + half b[j]) scale, 0) - b[j] where bit j of `bits` is set, else 0; b = beta[row].

    Gives the largest size of a step.
    """
    signature = types.float32(z, beta, types.int64, types.uint32, types.float32, types.float32, step, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, builder, signature, lanes.count)
        z, beta, step = (code.data(place, args[place]) for place in (0, 1, 6))
        beta = builder.gep(beta, [builder.mul(args[2], ir.Constant(_LONG, lanes.count))])
        half, scale = code.spread(args[4]), code.spread(args[5])
        bits = code.spread(args[3], _INTS)
        one, zero = ir.Constant(_VECTOR, [1.0] * 8), ir.Constant(_VECTOR, [0.0] * 8)
        size = ir.Constant(_INTS, [0x7FFFFFFF] * 8)
        steps, largest = [], zero
        for k, (at, b) in enumerate(zip(code.load(z), code.load(beta), strict=True)):
            violation = builder.fadd(
                builder.fadd(at, one, flags=_FAST), builder.fmul(half, b, flags=_FAST), flags=_FAST
            )
            moved = builder.fsub(b, builder.fmul(violation, scale, flags=_FAST), flags=_FAST)
            moved = builder.select(builder.fcmp_ordered("<", moved, zero, flags=_FAST), moved, zero)
            change = builder.fsub(moved, b, flags=_FAST)
            own = builder.and_(bits, ir.Constant(_INTS, [1 << (8 * k + j) for j in range(8)]))
            change = builder.select(builder.icmp_unsigned("!=", own, ir.Constant(_INTS, [0] * 8)), change, zero)
            steps.append(change)
            grown = builder.bitcast(builder.and_(builder.bitcast(change, _INTS), size), _VECTOR)
            largest = builder.select(builder.fcmp_ordered(">", grown, largest, flags=_FAST), grown, largest)
        code.store(steps, step)
        for shift in (4, 2, 1):
            turned = ir.Constant(_INTS, [(j + shift) % 8 for j in range(8)])
            other = builder.shuffle_vector(largest, largest, turned)
            largest = builder.select(builder.fcmp_ordered(">", other, largest, flags=_FAST), other, largest)
        return builder.extract_element(largest, ir.Constant(_INT, 0))

    return signature, generate


@intrinsic
def fetch(typing: Any, array: Any, place: Any) -> Any:
    """Asks for the entry at a place of an array, counted row by row, to be brought near; waits for nothing."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        at = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = builder.bitcast(builder.gep(at, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
        # to be read, kept in all caches, data
        builder.call(
            builder.module.declare_intrinsic("llvm.prefetch", [byte], kind),
            [at, *(ir.Constant(_INT, n) for n in (0, 3, 1))],
        )
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def larger_than(typing: Any, matrix: Any, row: Any, least: Any, lanes: Any) -> Any:
    """uint32: bit j is set where matrix[row, j] is larger than `least` in size."""
    signature = types.uint32(matrix, types.int64, types.float32, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, builder, signature, lanes.count)
        at = builder.gep(code.data(0, args[0]), [builder.mul(args[1], ir.Constant(_LONG, lanes.count))])
        least, size = code.spread(args[2]), ir.Constant(_INTS, [0x7FFFFFFF] * 8)
        bits = ir.Constant(_INT, 0)
        for k, vector in enumerate(code.load(at)):
            grown = builder.bitcast(builder.and_(builder.bitcast(vector, _INTS), size), _VECTOR)
            found = builder.bitcast(builder.fcmp_ordered(">", grown, least), ir.IntType(8))
            bits = builder.or_(bits, builder.shl(builder.zext(found, _INT), ir.Constant(_INT, 8 * k)))
        return bits

    return signature, generate
