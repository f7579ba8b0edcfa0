"""XML-CNN: what its pooling keeps of a text, and that it learns, is kept and goes on where it was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resuming import check_resumes  # noqa: E402
from short_text_cases import ONE, precision_at_1, titles  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural.encoders.convolutions import WIDTHS, Convolutions, pooled_chunks  # noqa: E402
from longtail.learners.neural.training.batches import Batch, token_tensors  # noqa: E402
from longtail.registry import build  # noqa: E402

SMALL: dict[str, Any] = {"part": "convolutions", "size": 8, "maps": 3, "bottleneck": 6}
QUICK: dict[str, Any] = {"part": "xml-cnn", "encoder": SMALL, "epochs": 1, "least_steps": 12, "batch": 16, "warm_up": 2}


def masks(*lengths: int) -> Any:
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def test_dynamic_max_pooling_by_hand() -> None:
    """Five places in two chunks are the places 0 to 2 and 2 to 4; what lies beyond the text has no say."""
    maps = torch.tensor([[[1.0, 4, 2, 0, 3, 9, 9], [0, 0, 7, 1, 0, 9, 9]]])
    mask = masks(5, 7)[:1]
    assert pooled_chunks(maps, mask, 2).tolist() == [[4, 3, 7, 7]]
    assert pooled_chunks(maps, mask, 1).tolist() == [[4, 7]]
    assert pooled_chunks(maps, mask, 5).tolist() == [[1, 4, 2, 0, 3, 0, 0, 7, 1, 0]]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 5), st.integers(0, 99))
def test_pools_as_torch_does_whatever_the_padding(length: int, chunks: int, padding: int, seed: int) -> None:
    maps = torch.rand(1, 4, length + padding, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(length + padding)[None, :] < length
    wanted = torch.nn.AdaptiveMaxPool1d(chunks)(maps[:, :, :length]).flatten(1)
    assert torch.equal(pooled_chunks(maps, mask, chunks), wanted)


def test_a_vector_by_hand() -> None:
    """Convolutions with as many places as words, their largest values, the bottleneck."""
    corpus = titles()
    encoder = Convolutions(size=8, maps=3, bottleneck=6, chunks=1, skip=False)
    encoder.fit_tokeniser(corpus.texts or [], ONE)
    torch.manual_seed(0)
    network: Any = encoder.network().eval()
    ids, mask = token_tensors(encoder.tokens(["topic1 topic2 noise3"], ONE), np.arange(1))
    words = network.words.weight[ids[0]].detach().numpy()
    pooled = []
    for conv, width in zip(network.look, WIDTHS, strict=True):
        weight, bias = conv.weight.detach().numpy(), conv.bias.detach().numpy()
        padded = np.pad(words, (((width - 1) // 2, width // 2), (0, 0)))
        places = [np.einsum("tc,mct->m", padded[start : start + width], weight) + bias for start in range(len(words))]
        pooled.append(np.maximum(places, 0).max(axis=0))
    gather = network.gather
    wanted = np.maximum(gather.weight.detach().numpy() @ np.concatenate(pooled) + gather.bias.detach().numpy(), 0)
    with torch.no_grad():
        found = network(Batch(np.arange(1), ids, mask, ids, ids)).numpy()[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_chunks_tell_where_a_map_answers() -> None:
    early, late = torch.eye(8)[None, 1:2], torch.eye(8)[None, 6:7]
    assert torch.equal(pooled_chunks(early, masks(8), 1), pooled_chunks(late, masks(8), 1))
    assert not torch.equal(pooled_chunks(early, masks(8), 2), pooled_chunks(late, masks(8), 2))


def test_without_rates_nothing_changes() -> None:
    """No step moves anything where all learning rates are 0: what is kept is what the labels' documents gave."""
    corpus = titles()
    still = {**QUICK, "rate": 0.0, "word_rate": 0.0, "label_rate": 0.0}
    one = build({**still, "least_steps": 3}).fit(corpus, run=ONE).state()  # type: ignore[attr-defined]
    other = build({**still, "least_steps": 9}).fit(corpus, run=ONE).state()  # type: ignore[attr-defined]
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_learns_and_is_kept(tmp_path: Path) -> None:
    corpus = titles()
    tagger = Tagger({**QUICK, "least_steps": 120, "rate": 0.01, "label_rate": 0.05}, threads=1).fit(corpus)
    assert precision_at_1(tagger.learner, corpus) > 0.9
    tagger.save(tmp_path / "model")
    first, again = tagger.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert first.ids.tobytes() == again.ids.tobytes() and first.values.tobytes() == again.values.tobytes()


def test_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_resumes(QUICK, titles(), tmp_path, monkeypatch)


def test_heads_that_look_at_single_words_are_refused() -> None:
    with pytest.raises(UsageError, match="looks at single words, and the encoder 'convolutions'"):
        build({"part": "xml-cnn", "head": "label-attention"})


def test_the_plan_counts_the_maps_of_every_chunk() -> None:
    """Each chunk keeps a copy of all maps for the way back: 1.3 times what was expected was held without them."""
    few, many = (Convolutions(chunks=chunks).cost(1000).per_token for chunks in (2, 8))
    assert many - few >= 6 * 3 * Convolutions().maps
