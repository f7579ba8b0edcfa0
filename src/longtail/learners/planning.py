"""The plan of a whole pipeline, and what is done about one that does not fit into memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from longtail.capabilities import CORPUS_SPACES
from longtail.errors import UsageError
from longtail.features.base import USUAL_FEATURES
from longtail.learners.folds import folds_held_out
from longtail.memory import give_back, resident
from longtail.part import Part
from longtail.plan import CORE, Plan, Sizes, Stage, holding, kept_of, named, narrowed, peak_of, refusal
from longtail.registry import build, name_of

if TYPE_CHECKING:
    from longtail.learners.pipeline import Pipeline
    from longtail.run import Run

#: What writing a model holds beside the model.
SAVING = 24 << 20


def plan_of(pipeline: Pipeline, sizes: Sizes, run: Run, *, base: int | None = None) -> Plan:
    """What a fit of the pipeline takes, the documents included, which are read already.

    base  what is held beside all that is planned; none: what the process holds now beside the corpus, which the fit
          holds, too
    """
    if base is None:
        base = max(CORE + _libraries(pipeline), resident() - sizes.held)

    def stages(own: Run) -> list[Stage]:
        read = Stage("read", sizes.characters / 4e7 + sizes.nonzeros / 3e7, int(1.1 * sizes.held), sizes.held)
        fitting = pipeline.plan(sizes, own)
        model = kept_of(fitting)  # what is written is looked at once more, mapped into memory
        return [read, *fitting, Stage("save", 0.5 + model / 2e8, SAVING + model)]

    return narrowed(stages, until_learner(pipeline, sizes, run)[1], base, run)


def checked(pipeline: Pipeline, sizes: Sizes, run: Run) -> Run:
    """The run with as many tasks at once as fit into its memory; refused where none does."""
    plan = plan_of(pipeline, sizes, run)
    if not plan.fits:
        raise refusal(plan, _leaner(pipeline, sizes, run, plan.base))
    return replace(run, at_once=plan.at_once)


def narrowed_again(pipeline: Pipeline, sizes: Sizes, run: Run) -> Run:
    """The same once features are made, when what the learner will see is known."""
    give_back()  # what was held while features were made
    if run.memory is None:
        return run
    plan = narrowed(lambda own: of_learner(pipeline, sizes, own), sizes, resident(), run)
    if not plan.fits:
        raise refusal(plan, _leaner(pipeline, sizes, run))
    return replace(run, at_once=plan.at_once)


def until_learner(pipeline: Pipeline, sizes: Sizes, run: Run) -> tuple[list[Stage], Sizes]:
    """The stages that come before the learner, and what it then sees."""
    stages: list[Stage] = []
    maker: Any = pipeline.features if "X" in pipeline.learner.capabilities.needs else None
    if maker == "auto":
        maker = None if sizes.features else build(USUAL_FEATURES, "features")
    made = [part for part in pipeline.augment if not part.capabilities.judge]
    texts, X = ([part for part in made if part.capabilities.space == space] for space in CORPUS_SPACES)
    for part in (*texts, *([] if maker is None or not sizes.characters else [maker]), *X):
        stages += part.plan(sizes, run)
        sizes = part.planned(sizes)
    return stages, sizes


def of_learner(pipeline: Pipeline, sizes: Sizes, run: Run) -> list[Stage]:
    """The learner with its second stages, and what re-rankers learn from: the learner once more, on folds."""
    learner = pipeline.learner
    stages = list(learner.plan(learner.readable_sizes(sizes), run))
    for part in pipeline.augment:
        if part.capabilities.judge:
            tuned = part.planned(sizes)
            room = max(0, tuned.X_bytes + tuned.texts_bytes - sizes.texts_bytes)
            stages += named(name_of(part), part.plan_judged(learner, sizes, run))
            second = learner.plan_retune(learner.readable_sizes(tuned), run)
            stages += named("second stage", holding("documents", room, second))
    quarters = folds_held_out(pipeline.rerank, sizes.documents)
    if not quarters:
        return stages
    rest = sizes.part(sizes.documents * 3 // 4, sizes.frequency * 3 // 4)
    fold = holding("documents", rest.X_bytes + 12 * rest.pairs, learner.plan(learner.readable_sizes(rest), run))
    folds = Stage("re-rank folds", quarters * sum(stage.seconds for stage in fold), peak_of(fold))
    return [*stages, folds, *(stage for part in pipeline.rerank for stage in part.plan(sizes, run))]


def _leaner(pipeline: Pipeline, sizes: Sizes, run: Run, base: int | None = None) -> list[tuple[str, Plan]]:
    """Settings that need less memory, and the plans with them, the smallest first; base  as of the plan they are
    compared with: a process may hold more from one look to the next."""
    found = []
    settled = pipeline.unfitted()
    if settled.features == "auto" and not sizes.features:
        settled.set_params(features=USUAL_FEATURES)
    settings = {(name_of(part), name, value) for part in _parts(settled) for name, value in part.leaner.items()}
    for owner, name, value in sorted(settings, key=str):
        other = settled.unfitted()
        with contextlib.suppress(UsageError):  # some options do not go together
            for part in _parts(other):
                if name_of(part) == owner:
                    part.set_params(**{name: value})
            found.append((f"{owner}.{name}={value}", plan_of(other, sizes, run, base=base)))
    return sorted(found, key=lambda each: each[1].peak)


def _libraries(pipeline: Pipeline) -> int:
    """Bytes that libraries of its parts hold beside those of the core."""
    parts = list(_parts(pipeline))
    augmenters = [part.capabilities for part in parts if part.kind == "augmenter"]
    alone = all(each.space in CORPUS_SPACES and not each.judge for each in augmenters)
    return max(part.libraries_alone if alone else part.libraries for part in parts)


def _parts(part: Part) -> Iterator[Part]:
    """A part and all parts inside it."""
    yield part
    for f in fields(part):
        value = getattr(part, f.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Part):
                yield from _parts(inner)
