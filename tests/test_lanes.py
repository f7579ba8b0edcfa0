"""Vector code against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.arrays import njit
from longtail.lanes import LANES, WIDEST, add_rows, add_to_rows, larger_than, negative_steps, two_sums, width_for


@njit()
def added(matrix, slot, indices, values, out, lanes):
    add_rows(matrix, slot, indices, values, 1, len(indices), out, lanes)


@njit()
def added_to(matrix, slot, indices, values, step, lanes):
    add_to_rows(matrix, slot, indices, values, 1, len(indices), step, lanes)


@njit()
def steps(z, beta, row, bits, half, scale, step, lanes):
    return negative_steps(z, beta, row, bits, half, scale, step, lanes)


@njit()
def larger(matrix, row, least, lanes):
    return larger_than(matrix, row, least, lanes)


@njit()
def sums(matrix, indices, values, start, stop):
    return two_sums(matrix, indices, values, start, stop)


def drawn(seed, width):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(20, width)).astype(np.float32)
    indices = rng.integers(0, 50, 12).astype(np.int32)
    slot = rng.integers(0, 20, 50).astype(np.int32)
    return rng, matrix, slot, indices, rng.normal(size=12).astype(np.float32)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(sorted(LANES)), st.booleans())
def test_rows_are_added_and_added_to(seed, width, by_slot):
    rng, matrix, slot, indices, values = drawn(seed, width)
    picked = slot[indices] if by_slot else (indices := indices % 20)
    out = rng.normal(size=width).astype(np.float32)
    expected = out + values[1:] @ matrix[picked[1:]]
    added(matrix, slot if by_slot else None, indices, values, out, LANES[width])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    changed = matrix.copy()
    np.add.at(changed, picked[1:], values[1:, None] * out)
    added_to(matrix, slot if by_slot else None, indices, values, out, LANES[width])
    np.testing.assert_allclose(matrix, changed, rtol=1e-4, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(sorted(LANES)))
def test_steps_of_negatives_and_where_bits_are_not_set_none(seed, width):
    rng, matrix, *_ = drawn(seed, width)
    z, beta = matrix[0].copy(), -np.abs(matrix)
    bits, step = rng.integers(0, 2, width).astype(bool), np.ones(width, np.float32)
    number = np.uint32((bits * (1 << np.arange(width, dtype=np.uint64))).sum())
    largest = steps(z, beta, 3, number, np.float32(0.5), np.float32(0.4), step, LANES[width])
    moved = np.minimum(beta[3] - (z + 1 + 0.5 * beta[3]) * 0.4, 0) - beta[3]
    np.testing.assert_allclose(step, np.where(bits, moved, 0), rtol=1e-4, atol=1e-6)
    assert largest == np.abs(step).max()


@pytest.mark.parametrize("width", sorted(LANES))
def test_bits_of_what_is_large(width):
    _, matrix, *_ = drawn(1, width)
    expected = sum(1 << j for j in range(width) if abs(matrix[4, j]) > 0.7)
    assert larger(matrix, 4, np.float32(0.7), LANES[width]) == expected


def test_the_narrowest_width_with_room():
    assert [width_for(columns) for columns in (1, 8, 9, 16, 17, 32, 500)] == [8, 8, 16, 16, 32, 32, WIDEST]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 11, 100])
def test_two_sums_are_the_products_with_both_columns(length):
    rng = np.random.default_rng(length)
    matrix, values = rng.normal(size=(30, 2)).astype(np.float32), rng.normal(size=length + 4).astype(np.float32)
    indices = rng.integers(0, 30, len(values)).astype(np.int32)
    own = slice(2, 2 + length)
    expected = values[own].astype(np.float64) @ matrix[indices[own]]
    np.testing.assert_allclose(sums(matrix, indices, values, 2, 2 + length), expected, rtol=1e-5, atol=1e-5)
