"""Deep soft prompts: k vectors of their own at every layer of an encoder, which is otherwise left as it is.

    h_i^j = p_i^j for i <= k            the first k states are replaced before every layer
    h^j   = F(h^(j-1)) elsewhere

What the last layer makes of them stays visible to the decoder. `peft`'s prefix tuning gives keys and values to the
decoder instead, which is something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from longtail.errors import UsageError

#: Attributes under which families of encoder-decoders keep the encoder's layers.
LAYERS = ("block", "layers", "layer")


def encoder_layers(model: Any) -> nn.ModuleList:
    encoder = model.get_encoder()
    for name in LAYERS:
        found = getattr(encoder, name, None)
        if isinstance(found, nn.ModuleList):
            return found
    raise UsageError(f"'{type(model).__name__}' is not an encoder-decoder whose layers are known (T5, BART)")


class DeepPrompt(nn.Module):
    """vectors  (layers, k, width)"""

    def __init__(self, model: Any, count: int, generator: torch.Generator | None = None) -> None:
        """Starts at word vectors drawn at random, whose scale the layers know."""
        super().__init__()
        words = model.get_input_embeddings().weight.detach()
        layers = len(encoder_layers(model))
        drawn = torch.randint(0, len(words), (layers, count), generator=generator)
        self.vectors = nn.Parameter(words[drawn].clone())

    @property
    def count(self) -> int:
        return int(self.vectors.shape[1])

    def lengthened(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """A batch with room for the prompt in front of every text; what stands there is never looked at."""
        places = ids.new_zeros((len(ids), self.count))
        return torch.cat([places, ids], dim=1), torch.cat([torch.ones_like(places), mask], dim=1)

    @contextmanager
    def attached(self, model: Any) -> Iterator[None]:
        """Inside, the first k states of every layer of the model's encoder are these vectors."""

        def replace(layer: int) -> Any:
            def hook(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
                hidden = given[0] if given else named["hidden_states"]
                own = self.vectors[layer].to(hidden.dtype).expand(len(hidden), -1, -1)
                hidden = torch.cat([own, hidden[:, self.count :]], dim=1)
                return ((hidden, *given[1:]), named) if given else (given, {**named, "hidden_states": hidden})

            return hook

        handles = [
            layer.register_forward_pre_hook(replace(number), with_kwargs=True)
            for number, layer in enumerate(encoder_layers(model))
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
