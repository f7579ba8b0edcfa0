"""The PVAE: its losses by hand, and known Gaussians, whose mean and spread it must find for labels it never saw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from longtail.augment.feature_sources import Around, Copies  # noqa: E402
from longtail.augment.label_features import LabelFeatures  # noqa: E402
from longtail.augment.lsfa_checks import checked  # noqa: E402
from longtail.augment.pvae import (  # noqa: E402
    PATIENCE,
    Pvae,
    Shape,
    divergence,
    negative_evidence,
    released_loss,
)
from longtail.run import Run  # noqa: E402

ONE = Run(threads=1)
LABELS, HEAD, EACH, WIDTH = 70, 60, 60, 12
QUICK = Shape(hidden=48, latent=6, epochs=40, rate=3e-3)


def test_equation_16_by_hand() -> None:
    """KL of N(1, 1) is 1/2; the likelihood of 2 under N(1, 2^2) is known."""
    one = torch.ones(1, 1)
    found = negative_evidence(2 * one, one, torch.tensor([math.log(2)]), one, 0 * one)
    assert float(found) == pytest.approx(0.5 + 0.125 + math.log(2) + 0.5 * math.log(2 * math.pi), abs=1e-6)
    assert float(found) == pytest.approx(2.237086, abs=1e-6)
    assert float(released_loss(2 * one, one, one, 0 * one)) == pytest.approx(1 + 0.005 * 0.5)
    assert float(divergence(0 * one, 0 * one)) == 0, "the prior itself"


def gaussians(seed: int = 0) -> tuple[LabelFeatures, Any, Any]:
    """Labels with means of their own and one covariance, in which numbers vary together; means and covariance."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 3, (LABELS, WIDTH))
    mixing = rng.normal(0, 0.6, (3, WIDTH)) * np.linspace(0.4, 1.6, WIDTH)
    drawn = rng.normal(size=(LABELS, EACH, 3)) @ mixing + 0.3 * rng.normal(size=(LABELS, EACH, WIDTH))
    values = (means[:, None] + drawn).reshape(-1, WIDTH).astype(np.float16)
    return LabelFeatures(np.arange(LABELS + 1) * EACH, values), means, mixing.T @ mixing + 0.09 * np.eye(WIDTH)


def test_prototypes_and_covariance() -> None:
    features, _, covariance = gaussians()
    whole = features.values.astype(np.float64).reshape(LABELS, EACH, WIDTH)
    np.testing.assert_allclose(features.prototypes, whole.mean(axis=1), atol=1e-3)
    head = np.arange(HEAD)
    centred = (whole - whole.mean(axis=1, keepdims=True))[:HEAD].reshape(-1, WIDTH)
    expected = centred.T @ centred / (HEAD * (EACH - 1))
    np.testing.assert_allclose(features.covariance(head), expected, atol=2e-3)
    np.testing.assert_allclose(features.variance(head), np.diag(expected), atol=2e-3)
    assert np.abs(features.covariance(head) - covariance).max() < 0.25


def test_labels_without_features_have_no_prototype() -> None:
    values = np.arange(8, dtype=np.float16).reshape(4, 2)
    features = LabelFeatures(np.array([0, 0, 3, 3, 4]), values)
    assert features.prototypes.tolist() == [[0, 0], [2, 3], [0, 0], [6, 7]]
    assert features.rows_of(np.array([1, 3]))[0].tolist() == [0, 1, 2, 3]


def sources(features: LabelFeatures) -> dict[str, Any]:
    head = np.arange(HEAD)
    return {
        "pvae": Pvae.fitted(QUICK, features, head, ONE),
        "covariance": Around.covariance(features, head),
        "copies": Copies(features),
    }


def test_known_gaussians_are_recovered() -> None:
    """Means and spreads of labels that were not learnt from, and what varies together."""
    features, means, covariance = gaussians()
    for name, source in sources(features).items():
        for label in range(HEAD, LABELS):
            drawn = source.draw(np.full(2000, label), np.random.default_rng(label)).astype(np.float64)
            ratio = drawn.std(axis=0) / np.sqrt(np.diag(covariance))
            assert ratio.min() > 0.7 and ratio.max() < 1.3, (name, label, ratio)
            off = np.abs(drawn.mean(axis=0) - means[label]) / np.sqrt(np.diag(covariance))
            assert off.max() < 0.6 and off.mean() < 0.3, (name, label, off)
            found = np.corrcoef(drawn.T)
            spread = np.sqrt(np.diag(covariance))
            assert np.abs(found - covariance / np.outer(spread, spread)).max() < 0.45, (name, label)


def test_draws_lie_around_prototypes_and_are_as_wide_as_what_was_learnt_from() -> None:
    """Of labels that were not learnt from; what is decoded, as it is, is off by more."""
    features, _, _ = gaussians()
    made = Pvae.fitted(QUICK, features, np.arange(HEAD), ONE)
    off = []
    for label in range(HEAD, LABELS):
        drawn = made.draw(np.full(2000, label), np.random.default_rng(label)).astype(np.float64)
        off.append(np.abs(drawn.mean(axis=0) - made.prototypes[label]).mean())
        wide = np.sqrt((drawn.var(axis=0) / np.square(made.within)).mean())
        assert 0.85 < wide < 1.15, (label, wide)
    assert np.mean(off) < np.abs(made.corrections[0][HEAD:]).mean()


def unequal(few: int = EACH) -> LabelFeatures:
    """Labels whose features agree more or less, beside a part that they share: those with long means vary little.

    few  features of the labels that are not learnt from
    """
    rng = np.random.default_rng(4)
    agree = rng.uniform(0.3, 0.95, LABELS)
    means = rng.normal(size=(LABELS, WIDTH))
    means *= (np.sqrt(agree) / np.linalg.norm(means, axis=1))[:, None]
    spread = np.sqrt((1 - agree) / WIDTH)[:, None, None] * np.linspace(0.5, 1.5, WIDTH)
    values = means[:, None] + spread * rng.normal(size=(LABELS, EACH, WIDTH))
    kept = [values[label, : EACH if label < HEAD else few] for label in range(LABELS)]
    start = np.concatenate([[0], np.cumsum([len(each) for each in kept])])
    return LabelFeatures(start, np.concatenate(kept).astype(np.float16))


@pytest.mark.parametrize(("few", "off"), [(EACH, 0.5), (4, 0.95), (1, 1.1)])
def test_how_much_a_label_varies_is_told_by_its_prototype(few: int, off: float) -> None:
    """Of labels that were not learnt from; by a few features it is told less well, and by one not at all."""
    real = unequal().values.astype(np.float64).reshape(LABELS, EACH, WIDTH).var(axis=1, ddof=1)
    features = unequal(few)
    within, widths = features.variance(np.arange(HEAD)), features.widths(np.arange(HEAD))
    one, own = (np.sqrt((within / real * each).mean(axis=1))[HEAD:] for each in (1, np.square(widths)[:, None]))
    assert np.abs(np.log(own)).mean() < off * np.abs(np.log(one)).mean()
    assert len(set(widths[HEAD:].tolist())) == (1 if few == 1 else LABELS - HEAD)
    weights = (features.counts[:HEAD] - 1) / features.freedom(np.arange(HEAD))
    assert weights @ np.square(widths[:HEAD]) == pytest.approx(1, abs=1e-3), "together they vary as they do"


def test_draws_are_as_wide_as_their_label() -> None:
    features = unequal()
    made = Pvae.fitted(QUICK, features, np.arange(HEAD), ONE)
    real = features.values.astype(np.float64).reshape(LABELS, EACH, WIDTH).var(axis=1, ddof=1)
    ratio = []
    for label in range(HEAD, LABELS):
        drawn = made.draw(np.full(1000, label), np.random.default_rng(label)).astype(np.float64)
        ratio.append(np.sqrt((drawn.var(axis=0) / real[label]).mean()))
    assert min(ratio) > 0.7 and max(ratio) < 1.3, ratio


@pytest.mark.parametrize("which", [0, 7, 21, 40, 63])
def test_draws_are_as_wide_where_a_single_number_of_z_matters(which: int) -> None:
    """It may lie in none of the few directions that every label is asked by, or in several."""
    shape = Shape(hidden=24, latent=64, noise=False)
    prototypes = np.random.default_rng(0).normal(size=(30, WIDTH)).astype(np.float32)
    torch.manual_seed(0)
    made = Pvae(shape, prototypes, np.ones((4, WIDTH), np.float32))
    with torch.no_grad():
        others = [column for column in range(64) if column != which]
        made.network.outer.weight[:, others] = 0
        made.network.outer.weight[:, which] *= 20
    drawn = made.draw(np.repeat(np.arange(30), 300), np.random.default_rng(2)).astype(np.float64)
    varied = drawn.reshape(30, 300, WIDTH).var(axis=1).mean(axis=0)
    assert np.median(np.sqrt(varied)) == pytest.approx(1, abs=0.08), varied  # few are beyond what they are widened by


def test_a_decoder_that_varies_by_label_and_number_is_evened_out_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decodes the first half of the numbers four times as wide for some labels, the second half for the others."""
    made = Pvae(
        Shape(hidden=24, latent=WIDTH, noise=False), np.ones((20, WIDTH), np.float32), np.ones((4, WIDTH), "f4")
    )
    wide = np.ones((20, WIDTH), dtype=np.float32)
    wide[:10, : WIDTH // 2] = wide[10:, WIDTH // 2 :] = 4
    monkeypatch.setattr(made, "_off", lambda labels, normal: normal * wide[labels])
    drawn = made.draw(np.repeat(np.arange(20), 4000), np.random.default_rng(2)).astype(np.float64)
    spread = drawn.reshape(20, 4000, WIDTH).std(axis=1)
    assert np.sqrt(np.square(spread).mean()) == pytest.approx(1, abs=0.08), "as wide as what was learnt from"
    assert (spread[:10, 0] / spread[10:, 0]).mean() == pytest.approx(2, rel=0.15), "half-way from 4 to 1"


@pytest.mark.parametrize("values", [np.zeros((40, 3)), np.ones((40, 3)), np.eye(40)])
def test_labels_that_tell_nothing_about_widths_are_taken_alike(values: Any) -> None:
    features = LabelFeatures(np.arange(21) * 2, values.astype(np.float16))
    widths = features.widths(np.arange(20))
    assert np.isfinite(widths).all() and widths.min() > 0
    assert features.widths(np.arange(5)).tolist() == [1] * 20, "too few labels to tell"


def test_the_network_has_learnt_something() -> None:
    """What a no-op would not do: unfitted, it makes numbers that vary by themselves."""
    features, _, covariance = gaussians()
    fitted = Pvae.fitted(QUICK, features, np.arange(HEAD), ONE)
    unfitted = Pvae(QUICK, features.prototypes, fitted.scales)
    spread = np.sqrt(np.diag(covariance))
    expected = covariance / np.outer(spread, spread)

    def off(source: Pvae) -> float:
        drawn = source.draw(np.full(2000, 65), np.random.default_rng(0))
        return float(np.abs(np.corrcoef(drawn.T) - expected).mean())

    assert off(fitted) < 0.5 * off(unfitted)


def test_training_stops_when_held_out_labels_are_no_better_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second epoch is the best: what it left is kept, and training ends as many epochs later as it has patience."""
    features, _, _ = gaussians()
    seen: list[Any] = []
    held_out: set[int] = set()

    def worse(self: Pvae, features: LabelFeatures, valid: Any) -> float:
        seen.append(self.network.mean.weight.detach().clone())
        held_out.update(np.unique(valid[1]).tolist())
        return [5.0, 3.0][len(seen) - 1] if len(seen) < 3 else 4.0

    monkeypatch.setattr(Pvae, "_validated", worse)
    made = Pvae.fitted(QUICK, features, np.arange(HEAD), ONE)
    assert len(seen) == 2 + PATIENCE < QUICK.epochs
    assert torch.equal(made.network.mean.weight, seen[1]) and not torch.equal(seen[1], seen[-1])
    assert len(held_out) == HEAD // 10, "one head label in ten"


def test_what_is_modelled_and_how_matters() -> None:
    features, _, _ = gaussians()
    seen = {}
    for name, options in {
        "default": {},
        "whole": {"residual": False},
        "released": {"objective": "released"},
        "mean": {"noise": False, "prior": "standard"},
        "standard": {"prior": "standard"},
    }.items():
        shape = Shape(**{**vars(QUICK), "epochs": 5, **options})
        made = Pvae.fitted(shape, features, np.arange(HEAD), ONE)
        seen[name] = made.draw(np.full(300, 65), np.random.default_rng(0))
        assert np.isfinite(seen[name]).all()
    assert len({each.tobytes() for each in seen.values()}) == len(seen)
    assert seen["mean"].std(axis=0).mean() < seen["standard"].std(axis=0).mean()


def test_same_seed_same_bytes_and_a_round_trip() -> None:
    features, _, _ = gaussians()
    shape = Shape(**{**vars(QUICK), "epochs": 3})
    one, two = (Pvae.fitted(shape, features, np.arange(HEAD), ONE) for _ in range(2))
    drawn = [made.draw(np.arange(LABELS), np.random.default_rng(3)).tobytes() for made in (one, two)]
    again = Pvae.restored(shape, features.prototypes, one.state()).draw(np.arange(LABELS), np.random.default_rng(3))
    assert drawn[0] == drawn[1] == again.tobytes()
    old = Pvae.restored(shape, features.prototypes, {n: each for n, each in one.state().items() if n != "widths"})
    assert set(old.widths.tolist()) == {1.0}, "a model from before labels had widths of their own"
    for name in ("scales", "widths", "latent", "network.mean.weight"):
        damaged = one.state()[name][:3]
        with pytest.raises(ValueError, match="PVAE"):
            Pvae.restored(shape, features.prototypes, {**one.state(), name: damaged})


@pytest.mark.parametrize("head", [1, 2, 12])
def test_few_head_labels_will_do(head: int) -> None:
    features, _, _ = gaussians()
    shape = Shape(**{**vars(QUICK), "epochs": 2})
    made = Pvae.fitted(shape, features, np.arange(head), ONE)
    assert np.isfinite(made.draw(np.arange(LABELS), np.random.default_rng(0))).all()


def test_checks_tell_spread_and_cosine() -> None:
    features, _, _ = gaussians()
    head = np.arange(HEAD)
    good = checked(Around.covariance(features, head), features, head, ONE)
    assert 0.8 < good["spread_low"] <= good["spread"] <= good["spread_high"] < 1.2 and good["cosine"] > 0.95
    narrow = checked(Around(features.prototypes, np.full(WIDTH, 0.01, np.float32)), features, head, ONE)
    assert narrow["spread_high"] < 0.2


def test_outliers_do_not_make_what_is_drawn_too_narrow() -> None:
    """Most features of a label are alike and some are not: the encoder gives a wider z than the prior has."""
    features, means, _ = gaussians()
    rng = np.random.default_rng(1)
    off = (features.values.astype(np.float64) - np.repeat(means, EACH, axis=0)) * rng.gamma(
        0.3, 3.0, (LABELS * EACH, 1)
    )
    heavy = LabelFeatures(features.start, (np.repeat(means, EACH, axis=0) + off).astype(np.float16))
    head = np.arange(HEAD)
    fitted = checked(Pvae.fitted(QUICK, heavy, head, ONE), heavy, head, ONE)
    standard = checked(Pvae.fitted(Shape(**{**vars(QUICK), "prior": "standard"}), heavy, head, ONE), heavy, head, ONE)
    assert standard["spread"] < 0.8 < fitted["spread"] < 1.3
