"""What a part can do, as one value: whether two parts go together is decided from it alone, before any work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: The places in a fit where an augmenter may work, in the order they come.
SPACES = ("texts", "features", "tokens", "hidden", "context", "classifier", "labels")

#: Spaces whose augmenters rewrite the corpus before the learner sees it; the others are hooks inside a neural fit.
CORPUS_SPACES = ("texts", "features")

#: What is needed by a learner that makes features of texts unless a corpus brings its own.
EITHER = "texts or X"


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a learner, augmenter, re-ranker, encoder or head takes and gives.

    needs         what it reads of a corpus: "texts", "X", EITHER of them, "label texts"
    spaces        a learner, encoder or head: the spaces it opens to augmenters; an augmenter: the one it works in
    masks         a pair of weight 0 is neither a positive nor a negative example to it
    soft_targets  targets between 0 and 1 count as much as they say
    noise         draws the corpus's noisy copies itself; for others they are written out as rows
    retunes       has a second stage, in which its classifier is tuned again
    hardware      is trained on the devices, nodes and precision that a run says
    spreads       trains in tasks that an engine may take to other machines
    shards        can be trained with a share of the labels, as a part of a model of all labels
    validation    makes use of validation data
    side_by_side  two fits may go on at the same time in one process
    judge         an augmenter that asks a fitted learner first, and so belongs to the second stage
    learns        a re-ranker that learns from scores of documents that the learner did not see
    lengthens     an augmenter after which the texts of a batch may be longer
    reads_tokens  a head that looks at single tokens
    per_token     an encoder that gives one vector per token, not one per text
    """

    needs: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    masks: bool = True
    soft_targets: bool = True
    noise: bool = False
    retunes: bool = False
    hardware: bool = False
    spreads: bool = False
    shards: bool = False
    validation: bool = False
    side_by_side: bool = True
    judge: bool = False
    learns: bool = False
    lengthens: bool = False
    reads_tokens: bool = False
    per_token: bool = False

    @property
    def space(self) -> str:
        """The one space of an augmenter."""
        (only,) = self.spaces
        return only


def common(all_of: Iterable[Capabilities]) -> Capabilities:
    """What several learners can do together: each what all can, and all what any needs.

    The space of the classifier is none of theirs: vectors of one network say nothing to another.
    """
    found = list(all_of)
    return Capabilities(
        needs=tuple(dict.fromkeys(need for one in found for need in one.needs)),
        spaces=tuple(
            space for space in found[0].spaces if space != "classifier" and all(space in one.spaces for one in found)
        ),
        masks=all(one.masks for one in found),
        soft_targets=all(one.soft_targets for one in found),
        noise=True,  # each member draws copies or has them written out for itself
        retunes=all(one.retunes for one in found),
        hardware=any(one.hardware for one in found),
        spreads=any(one.spreads for one in found),
        validation=any(one.validation for one in found),
        side_by_side=all(one.side_by_side for one in found),
    )


def fits(learner: Capabilities, augmenter: Capabilities) -> bool:
    """Whether a learner takes an augmenter."""
    return augmenter.space in learner.spaces and (learner.retunes or not augmenter.judge)
