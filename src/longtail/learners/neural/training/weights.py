"""Weights of a network as named arrays, and torch's randomness while there are networks to make."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.learners.neural.training.network import Network
from longtail.part import Arrays


def filled(empty: Callable[[], Network], n_labels: int, arrays: Arrays) -> Network:
    """A network with the weights of a file, which must fit it."""
    if n_labels > max((len(array) for array in arrays.values() if array.ndim), default=0):
        raise ValueError(f"no weights have a row for each of {n_labels} labels")  # before room is made for them
    # shapes follow from the options, and what the file holds must fit them
    with own_randomness():
        network = empty()
    fill(network, arrays)
    return network.eval()


def fill(network: Network, arrays: Arrays) -> None:
    """Gives a network weights, which must be all of its own in name, shape and type."""
    own = network.state_dict()
    if set(own) != set(arrays):
        raise ValueError(f"weights {sorted(set(own) ^ set(arrays))[:3]} are missing or too many")
    for name, weight in own.items():
        given = arrays[name]
        if tuple(weight.shape) != given.shape or given.dtype != weight.numpy().dtype:
            raise ValueError(f"'{name}' is {given.dtype} {given.shape}, not {weight.dtype} {tuple(weight.shape)}")
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


def weights_of(network: Network) -> dict[str, NDArray[Any]]:
    return {name: weight.numpy() for name, weight in network.state_dict().items()}


@contextlib.contextmanager
def own_randomness() -> Iterator[None]:
    """Draws from torch's generator, which dropout knows no other than, and leaves it to others as it was."""
    with torch.random.fork_rng(devices=[]):
        yield
