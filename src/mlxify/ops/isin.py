"""Which elements are among others."""

from __future__ import annotations

import mlx.core as mx

from ..lowering import lowers
from .bitwise import bitwise_invert
from .compare import equal, not_equal
from .index import take
from .reduce import any_
from .shape import expand_dims, reshape
from .sort import searchsorted, sort

MANY = 64
"""From how many candidates on sorting them is cheaper than comparing every element with each."""


@lowers("aten.isin.Tensor_Tensor", promote=("elements", "test_elements"))
def isin(elements, test_elements, assume_unique=False, invert=False):
    candidates = reshape(test_elements, [-1])
    if isinstance(candidates.size, int) and candidates.size >= MANY and elements.dtype != mx.bool_:
        candidates = sort(candidates, 0)
        # An element beyond the last candidate is compared with the first one, from which it differs.
        found = equal(take(candidates, searchsorted(candidates, elements, "left"), 0), elements)
    else:
        found = any_(equal(expand_dims(elements, [-1]), candidates), [-1], False)
    return bitwise_invert(found) if invert else found


@lowers("aten.isin.Tensor_Scalar", promote=("elements", "test_element"))
def isin_scalar(elements, test_element, assume_unique=False, invert=False):
    return (not_equal if invert else equal)(elements, test_element)


@lowers("aten.isin.Scalar_Tensor", promote=("element", "test_elements"))
def scalar_isin(element, test_elements, assume_unique=False, invert=False):
    return isin(element, test_elements, invert=invert)
