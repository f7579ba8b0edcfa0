"""The contrastive loss: worked by hand in each form, and what it does to a network."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from test_retune import attention, network_corpus  # noqa: E402

from longtail.augment.contrastive import Contrastive, prototypical, supervised  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

PROTOTYPES = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])


def test_the_standard_form_by_hand() -> None:
    """Similarities 1, 0 and -1 over tau = 1/2, the own prototype once in the sum."""
    found = prototypical(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), PROTOTYPES, 0.5)
    first = math.log(math.exp(2) + 1 + math.exp(-2)) - 2
    second = math.log(1 + math.exp(2) + 1) - 2
    assert found.tolist() == pytest.approx([first, second], abs=1e-6)
    assert first == pytest.approx(0.142932, abs=1e-6)


def test_equation_9_by_hand() -> None:
    """The own prototype is not in the sum: below 0 where a vector is nearest to its own."""
    found = prototypical(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), PROTOTYPES, 0.5, own_in_sum=False)
    assert float(found) == pytest.approx(math.log(1 + math.exp(-2)) - 2, abs=1e-6)
    assert float(found) == pytest.approx(-1.873072, abs=1e-6)


def test_equation_8_by_hand() -> None:
    """Two vectors of one label and one of another, which has no positive and so no say."""
    found = supervised(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 4, 7]), 1.0)
    assert found.tolist() == pytest.approx([math.log(math.e + 1) - 1] * 2 + [0.0], abs=1e-6)


def test_equation_8_takes_the_mean_over_positives() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    found = supervised(vectors, torch.tensor([1, 1, 1]), 1.0)
    total = math.log(math.exp(0.6) + math.exp(0.0))
    assert float(found[0]) == pytest.approx(total - (0.6 + 0.0) / 2, abs=1e-6)


@pytest.mark.parametrize("form", ["standard", "equation-9"])
def test_scale_counts_only_without_cosine(form: str) -> None:
    labels = torch.tensor([0, 1])
    for cosine in (True, False):
        part = Contrastive(form=form, cosine=cosine)
        part._take(PROTOTYPES)
        part.seed_ = 0
        one, two = (part._losses(factor * PROTOTYPES[:2], labels) for factor in (1.0, 2.0))
        assert one is not None and two is not None
        assert torch.allclose(one, two) == cosine


def test_labels_without_documents_are_in_no_sum() -> None:
    part = Contrastive(temperature=1.0)
    part.seed_ = 0
    part._take(torch.cat([PROTOTYPES, torch.zeros(5, 2)]))
    found = part._losses(PROTOTYPES[:1], torch.tensor([0]))
    assert torch.allclose(found, prototypical(PROTOTYPES[:1], torch.tensor([0]), PROTOTYPES, 1.0))
    part._take(torch.zeros(3, 2))
    assert part._losses(PROTOTYPES[:1], torch.tensor([0])) is None, "a label alone has nothing to be told apart from"


def test_other_prototypes_are_drawn_where_there_are_many() -> None:
    part = Contrastive(temperature=1.0, others=1)
    part._take(PROTOTYPES)
    found = set()
    for part.seed_ in range(20):
        losses = part._losses(PROTOTYPES[:2], torch.tensor([0, 1]))
        assert losses is not None
        found.add(round(float(losses[0]), 4))
    assert len(found) == 2, "the labels of the batch always, the third one where it is drawn"


def closeness(tagger: Tagger) -> float:
    """How much nearer context vectors are to their own label's prototype than to others', by cosine."""
    corpus: Any = network_corpus()
    document, label = corpus.Y.nonzero()
    found = tagger.learner.contexts(corpus, document, label, run=Run(threads=1))
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    means = np.stack([found[label == each].mean(axis=0) for each in range(12)])
    cosine = unit @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    own = cosine[np.arange(len(label)), label]
    return float(own.mean() - (cosine.sum(axis=1) - own).mean() / 11)


def test_it_acts() -> None:
    """What a no-op would not do: labels come to lie apart."""
    plain = Tagger(attention(least_steps=60), threads=1).fit(network_corpus())
    pulled = {"part": "contrastive", "weight": 5.0, "start": 0.2}
    drawn = Tagger(attention(least_steps=60), augment=[pulled], threads=1).fit(network_corpus())
    assert drawn.augment[0].pairs_ > 0
    assert closeness(drawn) > closeness(plain) + 0.002


def test_a_weight_of_0_is_training_without_it() -> None:
    plain = Tagger(attention(), threads=1).fit(network_corpus()).learner.state()
    part = {"part": "contrastive", "weight": 0.0, "start": 0.0}
    same = Tagger(attention(), augment=[part], threads=1).fit(network_corpus()).learner.state()
    assert all(np.allclose(plain[name], same[name], atol=1e-6) for name in plain if plain[name].dtype == np.float32)


def test_a_training_in_which_it_never_acted_says_so() -> None:
    with pytest.warns(UserWarning, match="the contrastive loss never acted: .* lower contrastive.start"):
        Tagger(attention(), augment=[{"part": "contrastive", "start": 1.0}], threads=1).fit(network_corpus())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        Tagger(attention(), augment=[{"part": "contrastive", "start": 0.0}], threads=1).fit(network_corpus())


def test_heads_without_context_vectors_are_refused() -> None:
    with pytest.raises(UsageError, match="'contrastive' works in the space 'context'"):
        Tagger(attention(head="pooled"), augment=["contrastive"])
