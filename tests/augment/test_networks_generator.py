"""Generators that are networks: soft prompts, windows, folders that are not what they should be, one's own network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

sys.path.append(str(Path(__file__).resolve().parents[1]))

from longtail.augment.generate.encoder_decoder import EncoderDecoder  # noqa: E402
from longtail.augment.generate.filler import Filler  # noqa: E402
from longtail.augment.generate.kept import generated, kept_folder  # noqa: E402
from longtail.augment.generate.local import Local  # noqa: E402
from longtail.augment.generate.prompt import DeepPrompt, encoder_layers  # noqa: E402
from longtail.augment.generate.spans import Window  # noqa: E402
from longtail.augment.xda.part import Xda  # noqa: E402
from longtail.corpus import Corpus  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402
from tiny_seq2seq import save_tiny_seq2seq  # noqa: E402

WORDS = [f"t{label}_{n}" for label in range(4) for n in range(6)] + [f"c{n}" for n in range(6)]
QUICK: dict[str, Any] = {"steps": 3, "minutes": 1.0}


def topics(documents: int = 24, length: int = 14) -> Corpus:
    rng = np.random.default_rng(0)
    label = np.arange(documents) % 4
    texts = [
        " ".join(f"t{own}_{n}" if rng.random() < 0.6 else f"c{n}" for n in rng.integers(0, 6, length)) for own in label
    ]
    Y = sp.csr_matrix((np.ones(documents, np.float32), (np.arange(documents), label)), shape=(documents, 4))
    return Corpus(labels=LabelIndex([f"topic {j}" for j in range(4)]), Y=Y, texts=texts).counted()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return


@pytest.fixture(scope="module", params=["t5", "bart"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    words = [*WORDS, "topic", "0", "1", "2", "3", "topic,"]
    return save_tiny_seq2seq(tmp_path_factory.mktemp(request.param), words, request.param)


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_seq2seq(tmp_path_factory.mktemp("bart"), [*WORDS, "topic", "0", "1", "2", "3"], "bart")


def fit(**options: Any) -> Fit:
    return Fit(Run(threads=1, **options))


def opened(folder: str) -> Filler:
    return EncoderDecoder(model=folder).restored({})


# --- the prompt


def test_every_layer_begins_with_its_own_vectors_and_the_rest_goes_on(folder: str) -> None:
    model = opened(folder).model
    prompt = DeepPrompt(model, 3)
    ids, mask = prompt.lengthened(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]]))
    assert ids.shape == (2, 6) and mask.tolist() == [[1] * 6, [1] * 5 + [0]]
    inputs: list[Any] = []

    def watch(_: Any, given: Any, named: Any) -> None:
        inputs.append(given[0] if given else named["hidden_states"])

    def encoded() -> Any:
        with torch.no_grad():
            return model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state

    plain = encoded()
    with prompt.attached(model):
        handles = [layer.register_forward_pre_hook(watch, with_kwargs=True) for layer in encoder_layers(model)]
        prompted = encoded()
    for handle in handles:
        handle.remove()
    assert len(inputs) == 2
    for layer, hidden in enumerate(inputs):
        assert torch.equal(hidden[:, :3], prompt.vectors[layer].expand(2, -1, -1))
    assert not torch.allclose(plain[:, 3:], prompted[:, 3:]), "texts are read differently behind a prompt"
    assert torch.equal(plain, encoded()), "and as before without it"


def test_only_the_prompt_learns_and_all_of_its_layers_do(folder: str) -> None:
    filler = opened(folder)
    filler.prompt = DeepPrompt(filler.model, 2)
    filler.model.requires_grad_(False)
    before = {name: weight.clone() for name, weight in filler.model.state_dict().items()}
    windows = [Window(("topic", "1"), ("t1_0", "c1", "t1_2", "c3"), ((3, 4),))] * 2
    loss = filler.loss(windows)
    loss.backward()
    gradient = filler.prompt.vectors.grad
    assert gradient is not None and all(float(layer.abs().sum()) > 0 for layer in gradient)
    start = float(loss.detach())
    optimiser = torch.optim.AdamW(filler.prompt.parameters(), lr=0.1)
    filler.train([windows] * 30, optimiser, 30, np.inf, fit().run.bar("", None))
    assert float(filler.loss(windows).detach()) < start
    assert all(torch.equal(before[name], weight) for name, weight in filler.model.state_dict().items())


def test_without_a_prompt_nothing_is_trained(folder: str) -> None:
    part = EncoderDecoder(model=folder, prompt=False)
    texts = generated(part, topics(), np.arange(4), 1, fit())
    assert len(texts) == 4
    with pytest.raises(UsageError, match=r"encoder-decoder\.steps counts only where prompt is true"):
        EncoderDecoder(prompt=False, steps=5)


# --- generation


def test_sentinels_are_read_back(tmp_path: Path) -> None:
    """What stands behind a sign fills its gap; what is missing keeps its words."""
    filler = opened(save_tiny_seq2seq(tmp_path / "t5", WORDS, "t5"))
    window = Window(("topic",), ("c0", "c1", "c2", "c3"), ((2, 3), (4, 5)))
    signs, ids = filler.signs, filler.tokeniser.token_to_id
    assert filler._read(window, [0, ids(signs[0]), ids("c5"), ids("c4"), ids(signs[1]), 1]) == "c0 c5 c4 c2 c3"
    assert filler._read(window, [0, ids("c5"), 1]) == "c0 c1 c2 c3"
    assert filler.most_gaps == 11


@pytest.mark.parametrize(
    "options", [{}, {"sample": True, "temperature": 2.0}, {"labels": "none"}, {"labels": "masked"}]
)
def test_the_same_seed_gives_the_same_texts(bart: str, options: dict[str, Any]) -> None:
    corpus = topics()
    part = EncoderDecoder(model=bart, **QUICK, **options)
    one = generated(part, corpus, np.arange(6), 2, fit(seed=1))
    for file in (kept_folder(fit().run) or Path()).iterdir():
        file.unlink()
    assert generated(part, corpus, np.arange(6), 2, fit(seed=1)) == one
    assert len(one) == 12 and all(one)


def test_texts_longer_than_the_window_and_the_encoder_lose_nothing(folder: str) -> None:
    """BART's tiny encoder reads 40 tokens; a document of 300 words goes through in windows."""
    corpus = topics(4, 300)
    part = EncoderDecoder(model=folder, window=100, **QUICK)
    writer: Any = part.opened(corpus, fit())
    labels, pieces = writer.documents.pieces(0, writer.filler)
    assert labels and [word for piece in pieces for word in piece] == (corpus.texts or [""])[0].split()
    assert all(writer.filler.fits(Window(tuple(labels), piece, ())) for piece in pieces)
    assert len(writer.write(np.arange(4), 3)) == 4


def test_a_folder_without_weights_and_a_name_that_no_hub_has(tmp_path: Path) -> None:
    corpus = topics()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=r"empty is not an encoder that can be read: it has no config\.json"):
        Tagger("parabel", augment=[Xda(generator=EncoderDecoder(model=str(empty)))]).fit(corpus)
    save_tiny_seq2seq(tmp_path / "t5", WORDS)
    (tmp_path / "t5" / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"it has no model\.safetensors"):
        generated(EncoderDecoder(model=str(tmp_path / "t5")), corpus, np.arange(2), 1, fit())
    with pytest.raises(UsageError, match=r"'nobody/nothing' is not on this machine") as found:
        Xda(generator=EncoderDecoder(model="nobody/nothing")).check(corpus)
    assert "\n" not in str(found.value) and "give a folder, or take the generator words or local" in str(found.value)


def test_an_encoder_is_no_encoder_decoder(tmp_path: Path) -> None:
    from tiny_transformer import save_tiny_transformer

    folder = save_tiny_transformer(tmp_path / "bert", WORDS)
    with pytest.raises(UsageError, match=r"the encoder-decoder '.*bert' cannot be opened"):
        generated(EncoderDecoder(model=folder), topics(), np.arange(2), 1, fit())


def test_what_was_trained_and_generated_is_kept_by_content(bart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = topics(40)
    part = EncoderDecoder(model=bart, **QUICK)
    calls: list[int] = []
    fill, train = Filler.fill, Filler.train
    monkeypatch.setattr(Filler, "fill", lambda self, w, **o: calls.append(len(w)) or fill(self, w, **o))
    monkeypatch.setattr(Filler, "train", lambda self, *o: calls.append(-1) or train(self, *o))
    one = generated(part, corpus, np.arange(40), 1, fit())
    assert calls == [-1, 16, 16, 8]
    assert generated(part, corpus, np.arange(40), 1, fit()) == one and len(calls) == 4, "nothing is done again"
    files = sorted((kept_folder(fit().run) or Path()).glob("*.json"))
    files[0].write_text("[]")  # damaged: made again
    files[1].write_text("no JSON")
    assert generated(part, corpus, np.arange(40), 1, fit()) == one and len(calls) == 6
    (trained,) = (kept_folder(fit().run) or Path()).glob("*.safetensors")
    trained.write_bytes(trained.read_bytes()[:-8])
    assert generated(part, corpus, np.arange(40), 1, fit()) == one and calls[6:] == [-1], "learnt again"
    calls.pop()
    generated(part, corpus, np.arange(40), 1, fit(seed=5))
    assert len(calls) == 10, "another seed is other work"


def test_a_word_that_is_too_long_stays_and_slows_nobody_down() -> None:
    """A key of 3,000 letters has hundreds of pieces; the words beside it are written all the same."""
    corpus = topics(8)
    key = "".join(np.random.default_rng(0).choice(list("0123456789abcdef"), 3000))
    texts = [f"{key} {text}" if row == 0 else text for row, text in enumerate(corpus.texts or [])]
    corpus = Corpus(labels=corpus.labels, Y=corpus.Y, texts=texts)
    part = Local(steps=2, minutes=1.0, width=16, layers=1, vocabulary=350, sample=True)
    writer: Any = part.opened(corpus, fit())
    _, pieces = writer.documents.pieces(0, writer.filler)
    assert any(piece == (key,) for piece in pieces), "alone in its window"
    assert key in writer.write(np.array([0]), 3)[0].split()


# --- a network of one's own


@pytest.mark.parametrize("prompt", [True, False])
def test_a_network_of_ones_own(prompt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = topics(24)
    part = Local(steps=40, minutes=0.5, width=32, layers=1, vocabulary=350, prompt=prompt)
    one = generated(part, corpus, np.arange(6), 1, fit())
    assert len(one) == 6 and all(one)
    for file in (kept_folder(fit().run) or Path()).glob("*.json"):
        file.unlink()
    monkeypatch.setattr(Filler, "train", None)  # what was learnt is read back, not learnt again
    assert generated(part, corpus, np.arange(6), 1, fit()) == one


def test_without_prompt_it_is_the_same_network(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"steps": 40, "minutes": 0.5, "width": 32, "layers": 1, "vocabulary": 350}
    with_prompt: Any = Local(**options).opened(topics(), fit())
    monkeypatch.setattr(Filler, "train", None)  # nothing is trained for the one without
    without: Any = Local(prompt=False, **options).opened(topics(), fit())
    assert without.filler.prompt is None and with_prompt.filler.prompt is not None
    for one, other in zip(with_prompt.filler.model.parameters(), without.filler.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert with_prompt.identity != without.identity, "and texts are kept apart"


def test_the_budget_ends_the_training() -> None:
    part = Local(steps=10**6, minutes=0.0, width=16, layers=1, vocabulary=300)
    assert len(generated(part, topics(), np.arange(2), 1, fit())) == 2


def test_xda_with_a_network_end_to_end(bart: str) -> None:
    corpus = topics()
    xda = {"part": "xda", "rarest": 10, "copies": 2, "generator": {"part": "encoder-decoder", "model": bart, **QUICK}}
    plain = Tagger("parabel", threads=1).fit(corpus)
    tagger = Tagger("parabel", augment=[xda], threads=1).fit(corpus)
    assert tagger.score(corpus, 4).values.tobytes() != plain.score(corpus, 4).values.tobytes()
