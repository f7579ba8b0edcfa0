"""Every metric once more, by sets and dictionaries, one document at a time: slow, and plain enough to be read off."""

from __future__ import annotations

from math import log2

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.scores import Scores


def make_corpus(truth, counts, *, documents=1000, reciprocal=None, width=None):
    """A test corpus from one {label: target} dictionary (or set of labels) a document."""
    truth = [t if isinstance(t, dict) else dict.fromkeys(t, 1.0) for t in truth]
    width = len(counts) if width is None else width
    labels = LabelIndex([f"label {c}" for c in range(width)], None, np.array(counts), documents)
    Y = sp.lil_matrix((len(truth), width), dtype=np.float32)
    for row, targets in enumerate(truth):
        for label, target in targets.items():
            Y[row, label] = target
    skip = None
    if reciprocal is not None:
        skip = sp.lil_matrix((len(truth), width), dtype=bool)
        for row, label in reciprocal:
            skip[row, label] = True
        skip = sp.csr_matrix(skip)
    return Corpus(labels=labels, Y=sp.csr_matrix(Y), reciprocal=skip)


def make_scores(rankings, k=None):
    """Scores with the given labels, best first."""
    k = max(map(len, rankings)) if k is None else k
    scores = Scores.empty(len(rankings), k)
    for row, ranking in enumerate(rankings):
        scores.ids[row, : len(ranking)] = ranking
        scores.values[row, : len(ranking)] = np.linspace(1, 0.5, len(ranking))
    return scores


def ratio(above, below):
    return 100 * above / below if below else None


def average(values):
    values = list(values)
    return ratio(sum(values), len(values))


def label_metrics(members, true, predicted, k):
    """Figures over labels: documents that carry each, documents each is predicted for."""
    occur = [c for c in members if any(c in t for t in true)]
    tally = {
        c: (
            sum(c in t and c in p for t, p in zip(true, predicted, strict=True)),
            sum(c in p for p in predicted),
            sum(c in t for t in true),
        )
        for c in members
    }
    return {
        f"coverage@{k}": average(tally[c][1] > 0 for c in members),
        f"coverage_true@{k}": average(tally[c][1] > 0 for c in occur),
        f"found@{k}": average(tally[c][0] > 0 for c in occur),
        f"macro_P@{k}": average(tally[c][0] / tally[c][1] if tally[c][1] else 0 for c in occur),
        f"macro_R@{k}": average(tally[c][0] / tally[c][2] for c in occur),
    }


def naive(rankings, truth, counts, *, ks, q, bands, psndcg, reciprocal=()):
    """({metric: percentage}, [{band metric: percentage}]); None where nothing can be counted."""
    skip = set(reciprocal)
    true, ranked = [], []
    for row, (ranking, targets) in enumerate(zip(rankings, truth, strict=True)):
        labels = {c for c, target in targets.items() if target >= 0.5 and (row, c) not in skip}
        if labels:
            true.append(labels)
            ranked.append([c for c in ranking if (row, c) not in skip])
    n = len(true)
    values, per_band = {}, [{} for _ in bands]
    for k in ks:
        P, R, RP, nDCG = [], [], [], []
        gain = best_gain = psdcg = best_psdcg = 0.0
        for t, r in zip(true, ranked, strict=True):
            hit = [j for j, c in enumerate(r[:k]) if c in t]
            P.append(len(hit) / k)
            R.append(len(hit) / len(t))
            RP.append(len(hit) / min(k, len(t)))
            ideal = sum(1 / log2(j + 2) for j in range(min(k, len(t))))
            nDCG.append(sum(1 / log2(j + 2) for j in hit) / ideal)
            best = sorted((q[c] for c in t), reverse=True)[:k]
            gain += sum(q[r[j]] for j in hit)
            best_gain += sum(best)
            norm = ideal if psndcg == "mean" else 1
            psdcg += sum(q[r[j]] / log2(j + 2) for j in hit) / norm
            best_psdcg += sum(b / log2(j + 2) for j, b in enumerate(best)) / norm
        values |= {f"P@{k}": average(P), f"R@{k}": average(R), f"RP@{k}": average(RP), f"nDCG@{k}": average(nDCG)}
        values |= {f"PSP@{k}": ratio(gain, best_gain), f"PSnDCG@{k}": ratio(psdcg, best_psdcg)}
        top = [set(r[:k]) for r in ranked]
        values |= label_metrics(range(len(counts)), true, top, k)
        for figures, band in zip(per_band, bands, strict=True):
            members = set(np.flatnonzero(band.members).tolist())
            hits = sum(len(t & p & members) for t, p in zip(true, top, strict=True))
            figures["documents"] = sum(bool(t & members) for t in true)
            figures["pairs"] = sum(len(t & members) for t in true)
            figures["labels"] = len(members)
            figures["labels_true"] = len(members & set().union(*true))
            figures[f"recall@{k}"] = ratio(hits, figures["pairs"])
            figures[f"precision@{k}"] = ratio(hits, sum(len(p & members) for p in top))
            figures[f"contribution@{k}"] = ratio(hits, n * k)
            figures.update(label_metrics(sorted(members), true, top, k))
    return values, per_band
