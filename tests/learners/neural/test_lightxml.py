"""LightXML: first tokens of the last layers, frozen ones kept; groups found while training; clusters anywhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
transformers = pytest.importorskip("transformers")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resuming import check_resumes  # noqa: E402
from short_text_cases import ONE, precision_at_1, titles  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.learners.neural.encoders.first_tokens import FirstTokens, kept_places  # noqa: E402
from longtail.learners.neural.encoders.transformer import Transformer  # noqa: E402
from longtail.learners.neural.heads.bottleneck import Bottleneck  # noqa: E402
from longtail.learners.neural.heads.pooled import Pooled  # noqa: E402
from longtail.learners.neural.shortlists.base import Children  # noqa: E402
from longtail.learners.neural.shortlists.grouping import grouped_by_words  # noqa: E402
from longtail.learners.neural.shortlists.mined import Mining, TwoHeads  # noqa: E402
from longtail.learners.neural.training.batches import Batch, state_tensor, token_tensors  # noqa: E402
from longtail.registry import build  # noqa: E402
from tiny_transformer import save_tiny_transformer  # noqa: E402

LAYERS = 4
TEXTS = ["topic1 topic2 noise3", "topic4", "noise1 noise2 topic5 topic6 noise4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = [*(f"topic{n}" for n in range(12)), *(f"noise{n}" for n in range(9))]
    return save_tiny_transformer(tmp_path_factory.mktemp("transformer"), words, LAYERS)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_CACHE", "")


def quick(folder: str, **more: Any) -> dict[str, Any]:
    return {
        "part": "lightxml", "encoder": {"part": "first-tokens", "model": folder, "dropout": 0.0, "last": 2},
        "epochs": 1, "least_steps": 12, "batch": 16, "warm_up": 2, "rate": 0.002, "label_rate": 0.05, **more,
    }  # fmt: skip


def grouped(folder: str, **more: Any) -> dict[str, Any]:
    return quick(folder, groups="always", group_size=3, candidates=2, bottleneck=16, **more)


def opened(folder: str, **options: Any) -> tuple[FirstTokens, Any]:
    encoder = FirstTokens(model=folder, **{"words": 0, "scale": 1.0, **options})
    encoder.fit_tokeniser(TEXTS, ONE)
    return encoder, encoder.network().eval()


def vectors(encoder: FirstTokens, network: Any, *, kept: bool) -> Any:
    tokens = encoder.tokens(TEXTS, ONE)
    rows = np.arange(len(TEXTS))
    states = state_tensor(encoder.states(network, tokens, ONE), tokens, rows) if kept else None
    ids, mask = token_tensors(tokens, rows)
    with torch.inference_mode():
        return network(Batch(rows, ids, mask, ids, ids, None, states))


@pytest.mark.parametrize("last", [1, 3, 9])
def test_the_first_tokens_of_the_last_layers(folder: str, last: int) -> None:
    """As the library itself gives them, side by side, divided by the root of their number."""
    encoder, network = opened(folder, last=last)
    ids, mask = token_tensors(encoder.tokens(TEXTS, ONE), np.arange(len(TEXTS)))
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        every = model((ids - 1).clamp_min(0), attention_mask=mask.long(), output_hidden_states=True).hidden_states
    own = [state[:, 0] for state in every[1:][-last:]]
    assert network.width == 32 * min(last, LAYERS) == len(torch.cat(own, dim=1)[0])
    wanted = torch.cat(own, dim=1) / network.width**0.5
    torch.testing.assert_close(vectors(encoder, network, kept=False), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frozen", range(1, LAYERS + 1))
@pytest.mark.parametrize("last", [1, 2, 4])
def test_frozen_layers_are_kept_too(folder: str, frozen: int, last: int) -> None:
    """What is kept of them makes the same vectors as running them again, whichever of the last layers they are."""
    plain = vectors(*opened(folder, last=last), kept=False)
    encoder, network = opened(folder, last=last, frozen=frozen)
    places = kept_places(LAYERS, last, frozen)
    assert places == len(set(range(1, frozen)) & set(range(LAYERS - last + 1, LAYERS + 1)))
    lengths = encoder.tokens(TEXTS, ONE).lengths
    assert lengths.tolist() == [places + 5, places + 3, places + 7]
    torch.testing.assert_close(vectors(encoder, network, kept=False), plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(vectors(encoder, network, kept=True), plain, rtol=1e-2, atol=2e-3)
    trained = {name.split(".")[3] for name, each in network.named_parameters() if each.requires_grad}
    assert trained == {str(number) for number in range(frozen, LAYERS)}


@pytest.mark.parametrize("frozen", [0, 3, LAYERS])
def test_words_beside_the_first_tokens_by_hand(folder: str, frozen: int) -> None:
    """TF-IDF of the pieces, of unit length: pieces that all texts have, and padding, weigh nothing."""
    encoder, network = opened(folder, frozen=frozen, words=encoder_size(folder))
    ids, _ = token_tensors(Transformer.tokens(encoder, TEXTS, ONE), np.arange(len(TEXTS)))
    with torch.no_grad():
        network.words.weight.copy_(torch.eye(len(network.words.weight)))
    given = vectors(encoder, network, kept=frozen > 0)
    plain = vectors(*opened(folder, frozen=frozen), kept=frozen > 0)
    torch.testing.assert_close(given[:, : plain.shape[1]], plain)
    wanted = torch.zeros(len(TEXTS), len(network.words.weight))
    for row, own in enumerate(ids.tolist()):
        for token in set(own) - {0}:
            texts = sum(token in others for others in ids.tolist())
            wanted[row, token] = math.sqrt(own.count(token)) * math.log(4 / (1 + texts))
    torch.testing.assert_close(given[:, plain.shape[1] :], torch.nn.functional.normalize(wanted, dim=1))
    assert wanted[0].count_nonzero() == 3, "neither the special tokens nor padding"


def encoder_size(folder: str) -> int:
    return opened(folder)[0].pieces


def test_names_are_told_apart_by_words(folder: str) -> None:
    """An encoder that nobody trained tells little from its first token; a vector per word tells all."""
    corpus = titles()
    still = {"rate": 0.0, "least_steps": 60, "start": "random"}
    found = []
    for words in (0, 32):
        config = quick(folder, **still)
        config["encoder"] = {**config["encoder"], "words": words, "frozen": LAYERS}
        learner: Any = build(config).fit(corpus, run=ONE)  # type: ignore[attr-defined]
        found.append(precision_at_1(learner, corpus))
        if words:
            moved = build(config)
            moved.encoder.fit_tokeniser(corpus.texts, ONE)  # type: ignore[attr-defined]
            begun = moved.new_network(corpus.n_labels, ONE)  # type: ignore[attr-defined]
            assert not torch.equal(begun.encoder.words.weight, learner.network_.encoder.words.weight)
    assert found[1] > found[0] + 0.1, found


def test_groups_of_a_step_by_hand() -> None:
    """Six labels in three groups, two of which are shown: the true one, and the best of the others."""
    cluster = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
    groups, labels = Pooled(bias=0.0).network(3, 3, 3), Pooled(bias=0.0).network(3, 3, 6)
    with torch.no_grad():
        groups.vectors.weight.copy_(torch.eye(3))  # type: ignore[union-attr, operator]
    heads = TwoHeads(groups, labels, 3, None)

    class Both:
        head = heads

    mining = Mining(Children.of(cluster, 3), cluster, 2, 0)
    hidden = torch.tensor([[3.0, -1.0, 2.0], [0.5, 1.0, 4.0]])
    own = torch.tensor([3, 4])  # label 3, of group 1, holds for the first document, label 4 for the second
    batch = Batch(np.arange(2), own, torch.ones(2, 1, dtype=torch.bool), own, torch.eye(2))
    shown = mining.encoded(batch, Both, hidden)  # type: ignore[arg-type]
    assert shown.labels.tolist() == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert shown.targets.tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]
    truth = torch.tensor([[0.0, 1, 0], [0, 0, 1]])
    loss = -(truth * hidden.sigmoid().log() + (1 - truth) * (-hidden).sigmoid().log()).sum() / 2
    assert float(mining.loss_.detach()) == pytest.approx(float(loss)), "groups are learnt beside the labels"


def test_a_score_is_the_labels_times_its_groups(folder: str) -> None:
    corpus = titles()
    learner: Any = build(grouped(folder)).fit(corpus, run=ONE)  # type: ignore[attr-defined]
    found = learner.score(corpus, 3, run=ONE)
    many, head = learner.many_, learner.network_.head
    tokens = learner.encoder.tokens(corpus.texts or [], ONE)
    ids, mask = token_tensors(tokens, np.arange(len(corpus)))
    with torch.inference_mode():
        hidden = learner.network_.encoder(Batch(np.arange(len(corpus)), ids, mask, ids, ids))
        of_groups = head.cluster_logits(hidden, mask, torch.arange(4)).sigmoid().numpy()
        of_labels = head(hidden, mask, torch.arange(12)).sigmoid().numpy()
    cluster = many.shortlist.cluster_
    assert np.bincount(cluster).tolist() == [3, 3, 3, 3]
    for row, (labels, values) in enumerate(zip(found.ids, found.values, strict=True)):
        np.testing.assert_allclose(values, of_groups[row, cluster[labels]] * of_labels[row, labels], rtol=1e-4)
        assert set(cluster[labels]) <= set(np.argsort(-of_groups[row])[:2])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 5))
def test_every_label_is_in_a_group_that_is_not_too_large(size: int, seed: int) -> None:
    corpus = titles(seed=seed)
    cluster = grouped_by_words(corpus, size, ONE)
    counts = np.bincount(cluster)
    assert len(cluster) == 12 and counts.min() >= 1 and counts.max() <= size


def test_a_bottleneck_starts_as_the_plain_separator_would() -> None:
    """About: the layer is random, and products of vectors behind it are roughly those in front of it."""
    torch.manual_seed(0)
    draw = torch.nn.functional.normalize(torch.randn(40, 64), dim=1)
    centre = torch.randn(64)
    plain, narrow = Pooled(strength=20.0).network(64, 64, 40), Bottleneck(strength=20.0, size=512).network(64, 64, 40)
    for head in (plain, narrow):
        head.start(draw, centre, 1.0)
    hidden = draw + centre
    one, other = (head(hidden, torch.ones(40, 1), torch.arange(40)).detach() for head in (plain, narrow))
    assert torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1] > 0.9
    assert float(one.diagonal().mean()) == pytest.approx(float(other.diagonal().mean()), rel=0.2)


def test_up_to_flat_labels_there_are_no_groups(folder: str) -> None:
    corpus = titles()
    flat, never = (build(quick(folder, **more)) for more in ({"flat": 12}, {"groups": "never"}))
    states = [each.fit(corpus, run=ONE).state() for each in (flat, never)]  # type: ignore[attr-defined]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
    many: Any = build(quick(folder, flat=11)).fit(corpus, run=ONE)  # type: ignore[attr-defined]
    assert many.many_ is not None and "shortlist.cluster" in many.state()


def test_averaged_weights_are_what_is_kept(folder: str) -> None:
    corpus = titles()
    plain, often, seldom = (
        build(quick(folder, average=share, average_every=every)).fit(corpus, run=ONE).score(corpus, 3, run=ONE)  # type: ignore[attr-defined]
        for share, every in ((None, 10), (0.2, 1), (0.2, 4))
    )
    assert len({each.values.tobytes() for each in (plain, often, seldom)}) == 3


@pytest.mark.parametrize(("groups", "frozen"), [(False, 3), (True, 0)])
def test_learns_and_is_kept(folder: str, groups: bool, frozen: int, tmp_path: Path) -> None:
    corpus = titles()
    config = (grouped if groups else quick)(folder, least_steps=150)
    config["encoder"] = {**config["encoder"], "frozen": frozen}
    tagger = Tagger(config, threads=1).fit(corpus)
    assert precision_at_1(tagger.learner, corpus) > (0.4 if groups else 0.7)  # at random: 0.17
    tagger.save(tmp_path / "model")
    first, again = tagger.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert first.ids.tobytes() == again.ids.tobytes() and first.values.tobytes() == again.values.tobytes()
    staged = Tagger(config, augment=[{"part": "retune", "rows": "none"}], threads=1).fit(corpus).score(corpus, 5)
    assert staged.values.tobytes() != first.values.tobytes(), "there is a second stage"


@pytest.mark.parametrize("groups", [False, True])
def test_goes_on_where_it_was_cut_off(
    folder: str, groups: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = (grouped if groups else quick)(folder)
    config["encoder"] = {**config["encoder"], "frozen": 3}
    check_resumes(config, titles(), tmp_path, monkeypatch, at=8)


CLUSTERS = {"part": "label-clusters", "size": 3, "candidates": 3}
STEPS = {"epochs": 1, "least_steps": 60, "batch": 16, "warm_up": 2, "shortlist": CLUSTERS, "label_rate": 0.05}
BILSTM = {"encoder": {"part": "bilstm", "size": 12, "hidden": 4}}
ANY: dict[str, dict[str, Any]] = {
    "label attention": {"part": "attentionxml", "tree": "never", **BILSTM},
    "tokens pooled": {"part": "attentionxml", "tree": "never", "head": "pooled", **BILSTM},
    "label texts": {"part": "lsan", **BILSTM},
    "one vector per text": {"part": "xml-cnn", "encoder": {"part": "convolutions", "size": 12, "maps": 4}},
}


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("name", ANY)
def test_clusters_work_with_any_encoder(name: str, blocks: bool, tmp_path: Path) -> None:
    corpus = titles()
    tagger = Tagger({**ANY[name], **STEPS, "shortlist": {**CLUSTERS, "blocks": blocks}}, threads=1).fit(corpus)
    assert precision_at_1(tagger.learner, corpus) > 0.6
    tagger.save(tmp_path / "model")
    first, again = tagger.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert first.values.tobytes() == again.values.tobytes()


@pytest.mark.parametrize(
    "augment", [{"part": "tailmix", "rarest": None}, {"part": "retune", "vectors": 2, "rarest": 9}]
)
def test_context_vectors_are_open_behind_clusters(augment: dict[str, Any]) -> None:
    corpus, config = titles(), {**ANY["label attention"], **STEPS, "least_steps": 9}
    plain = Tagger(config, threads=1).fit(corpus).score(corpus, 5)
    other = Tagger(config, augment=[augment], threads=1).fit(corpus).score(corpus, 5)
    assert plain.values.tobytes() != other.values.tobytes()


def test_what_does_not_count_is_refused(folder: str) -> None:
    for options, message in (
        (
            {"groups": "always", "shortlist": "all-labels"},
            "lightxml.shortlist counts only where there are no groups",
        ),
        ({"groups": "never", "bottleneck": 9}, "lightxml.bottleneck counts only where groups"),
        ({"encoder": "bilstm", "head": "label-attention"}, "groups need 'pooled'"),
        (
            {"word_rate": 0.1, "encoder": {"part": "first-tokens", "words": 0}},
            "lightxml.word_rate counts only",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            build({"part": "lightxml", **options})
