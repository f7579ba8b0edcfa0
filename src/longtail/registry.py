"""Every part by name. One line each; classes are imported only when asked for; names in files are looked up here."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from longtail.errors import UsageError, nearest, out_of_memory
from longtail.part import NAMES, Part, default_of, require_field

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The entry point group under which installed distributions register parts of their own, see docs/own-parts.md.
GROUP = "longtail.parts"

#: Bounds on a configuration, which files may bring: parts in all, parts within parts, and characters of a name.
MOST_PARTS = 256
MOST_DEPTH = 16
MOST_SIGNS = 100

KINDS = ("features", "learner", "wrapper", "augmenter", "re-ranker", "encoder", "head", "shortlist", "generator")


@dataclass(frozen=True)
class Entry:
    name: str  # kebab-case
    kind: str  # one of KINDS
    target: str  # module:Class
    space: str  # what a learner reads, an augmenter changes or a re-ranker sees
    paper: str
    summary: str
    extra: str = ""  # the optional dependency it needs

    def load(self) -> type[Part]:
        module, _, name = self.target.partition(":")
        try:
            found: type[Part] = getattr(importlib.import_module(module), name)
        except ImportError as error:
            if not self.extra:
                raise
            if out_of_memory(error):  # it is there, and does not fit
                raise MemoryError(str(error)) from None
            raise UsageError(
                f"'{self.name}' needs the extra '{self.extra}': pip install 'longtail[{self.extra}]' ({error})"
            ) from None
        return found


_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ENTRIES: dict[str, Entry] = {}


def register(name: str, kind: str, target: str, space: str, paper: str, summary: str, extra: str = "") -> None:
    """Adds a part; a name or class already taken, or a name that is not kebab-case, is refused."""
    if name in _ENTRIES or target in NAMES:
        raise ValueError(f"'{name}' ({target}) is registered already")
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not kebab-case")
    if kind not in KINDS:
        raise ValueError(f"unknown kind '{kind}'")
    _ENTRIES[name] = Entry(name, kind, target, space, paper, summary, extra)
    NAMES[target] = name


_LINEAR = "longtail.learners.linear"
_NEURAL = "longtail.learners.neural"
_TAUG = "Taug, ICLR 2021 submission"
_RANKNET = "RankNet, ICLR 2021 submission"
_GANDALF = "Gandalf, Kharbanda et al. 2023"
_LSFA = "LSFA, Xu et al. 2023"
_INCEPTION = "InceptionXML, Kharbanda et al. 2021"
# fmt: off
register("tfidf", "features", "longtail.features.tfidf:Tfidf", "texts", "Salton & Buckley 1988",
         "Weighted word counts, word n-grams, unit length")
register("dense", "features", "longtail.features.dense:Dense", "texts", "Arora et al. 2017; Reimers & Gurevych 2019",
         "One vector per document: of word vectors, by a frozen encoder, or from a file")
register("join", "features", "longtail.features.join:Join", "as its parts", "-",
         "Several features side by side, each of a length of its own")
register("one-vs-all", "learner", f"{_LINEAR}.one_vs_all:OneVsAll", "features", "DiSMEC, Babbar & Schölkopf 2017",
         "One linear separator per label, over all documents")
register("parabel", "learner", f"{_LINEAR}.label_tree:Parabel", "features", "Parabel, Prabhu et al. 2018",
         "Balanced binary label trees")
register("bonsai", "learner", f"{_LINEAR}.label_tree:Bonsai", "features", "Bonsai, Khandagale et al. 2020",
         "Shallow, wide, unbalanced label trees")
register("fastxml", "learner", f"{_LINEAR}.fastxml:FastXML", "features", "FastXML, Prabhu & Varma 2014",
         "Trees over documents, grown to rank labels well")
register("pfastrexml", "learner", f"{_LINEAR}.fastxml:PfastreXML", "features", "PfastreXML, Jain et al. 2016",
         "FastXML weighted for rare labels, with a tail term")
register("proxml", "learner", f"{_LINEAR}.proxml:ProXML", "features", "ProXML, Babbar & Schölkopf 2019",
         "One sparse separator per label, by an L1 penalty, over all documents; beside one-vs-all on reports of "
         "vulnerabilities: P@1 -3.3, PSP@5 -4.3")
register("nearest-documents", "learner", "longtail.learners.nearest_documents:NearestDocuments", "features", "-",
         "Labels of the most similar training documents; for ensembles")
register("attentionxml", "learner", f"{_NEURAL}.attentionxml:AttentionXML", "texts", "AttentionXML, You et al. 2019",
         "BiLSTM and label-wise attention, with a label tree for many labels", "neural")
register("laroberta", "learner", f"{_NEURAL}.laroberta:LaRoBERTa", "texts", "LaRoBERTa, Zhang et al. 2020",
         "Transformer and label-wise attention", "neural")
register("lightxml", "learner", f"{_NEURAL}.lightxml:LightXML", "texts", "LightXML, Jiang et al. 2021",
         "Transformer's first token, with groups of labels for many labels", "neural")
register("lsan", "learner", f"{_NEURAL}.lsan:LSAN", "texts", "LSAN, Xiao et al. 2019",
         "AttentionXML whose labels also look for words like those of their texts", "neural")
register("httn", "learner", f"{_NEURAL}.httn:HTTN", "texts", "HTTN, Xiao et al. 2021",
         "Separators of rare labels from a map that frequent labels teach", "neural")
register("xml-cnn", "learner", f"{_NEURAL}.xml_cnn:XMLCNN", "texts", "XML-CNN, Liu et al. 2017",
         "Convolutions along the words with dynamic max-pooling", "neural")
register("astec", "learner", f"{_NEURAL}.astec:Astec", "texts", "Astec, Dahiya et al. 2021",
         "Short texts as weighted bags of words", "neural")
register("astec-modules", "learner", f"{_NEURAL}.astec:AstecModules", "texts", "Astec, Dahiya et al. 2021",
         "Astec's published pipeline: words by clusters, shortlists, classifier, re-ranker", "neural")
register("inceptionxml", "learner", f"{_NEURAL}.inceptionxml:InceptionXML", "texts", _INCEPTION,
         "Short texts through convolutions along their word embeddings", "neural")
register("decaf", "learner", f"{_NEURAL}.decaf:Decaf", "texts", "DECAF, Mittal et al. 2021",
         "Short texts against the texts of the labels", "neural")
register("eclare", "learner", f"{_NEURAL}.eclare:Eclare", "texts", "ECLARE, Mittal et al. 2021",
         "DECAF with the texts of a label's neighbours", "neural")
register("inceptionxml-lf", "learner", f"{_NEURAL}.inceptionxml_lf:InceptionXMLLF", "texts", _GANDALF,
         "InceptionXML that reads the labels' texts and their neighbours'", "neural")
register("bilstm", "encoder", f"{_NEURAL}.encoders.words:BiLSTM", "tokens", "AttentionXML, You et al. 2019",
         "Words through a bidirectional LSTM", "neural")
register("bag", "encoder", f"{_NEURAL}.encoders.words:Bag", "tokens", "-",
         "Word embeddings as they are", "neural")
register("transformer", "encoder", f"{_NEURAL}.encoders.transformer:Transformer", "tokens", "BERT, Devlin et al. 2019",
         "Any Hugging Face encoder, lower layers frozen if asked for", "neural")
register("first-tokens", "encoder", f"{_NEURAL}.encoders.first_tokens:FirstTokens", "tokens",
         "LightXML, Jiang et al. 2021", "One vector per text: a Transformer's first token, last layers", "neural")
register("convolutions", "encoder", f"{_NEURAL}.encoders.convolutions:Convolutions", "tokens",
         "XML-CNN, Liu et al. 2017", "Convolutions along the words, largest values of chunks, bottleneck", "neural")
register("weighted-bag", "encoder", f"{_NEURAL}.encoders.short:WeightedBag", "tokens", "Astec, Dahiya et al. 2021",
         "Short texts: TF-IDF weighted sum of word embeddings", "neural")
register("inception", "encoder", f"{_NEURAL}.encoders.inception:Inception", "tokens", _INCEPTION,
         "Short texts: convolutions along the embeddings, words as channels", "neural")
register("label-attention", "head", f"{_NEURAL}.heads.label_attention:LabelAttention", "hidden",
         "AttentionXML, You et al. 2019", "One context vector per label", "neural")
register("text-attention", "head", f"{_NEURAL}.heads.text_attention:TextAttention", "hidden", "LSAN, Xiao et al. 2019",
         "One context vector per label, by self-attention and by the label's text, mixed", "neural")
register("unit-vector", "head", f"{_NEURAL}.heads.unit_vector:UnitVector", "hidden", "HTTN, Xiao et al. 2021",
         "One vector of unit length per document, a separator per label", "neural")
register("pooled", "head", f"{_NEURAL}.heads.pooled:Pooled", "hidden", "-",
         "One vector per document, a separator per label", "neural")
register("bottleneck", "head", f"{_NEURAL}.heads.bottleneck:Bottleneck", "hidden", "LightXML, Jiang et al. 2021",
         "One vector per document through a narrow layer, a separator per label", "neural")
register("label-text", "head", f"{_NEURAL}.heads.label_text:LabelText", "hidden", "DECAF, ECLARE, Mittal et al. 2021",
         "Label vectors made of the labels' texts, their neighbours' and free ones", "neural")
register("sampled-labels", "shortlist", f"{_NEURAL}.shortlists.shared:SampledLabels", "labels", "-",
         "A loss over a batch's own labels and random ones", "neural")
register("all-labels", "shortlist", f"{_NEURAL}.shortlists.shared:AllLabels", "labels", "-",
         "A loss over all labels", "neural")
register("label-clusters", "shortlist", f"{_NEURAL}.shortlists.label_clusters:LabelClusters", "labels", _INCEPTION,
         "A loss over the labels of each document's best clusters, found while training", "neural")
register("decoupled", "wrapper", "longtail.learners.decoupled:Decoupled", "as its members", _TAUG,
         "One learner for head labels, one for tail labels")
register("ensemble", "wrapper", "longtail.learners.ensemble:Ensemble", "as its members", "-",
         "Several learners, scores brought to one scale and averaged")
register("pipeline", "wrapper", "longtail.learners.pipeline:Pipeline", "as its learner", "-",
         "A learner with features, augmenters and re-rankers of its own")
register("input-dropout", "augmenter", "longtail.augment.input_noise:InputDropout", "features", _TAUG,
         "Noisy copies of tail documents: features dropped at random")
register("input-swap", "augmenter", "longtail.augment.input_noise:InputSwap", "features", _TAUG,
         "Noisy copies of tail documents: values exchanged between features")
register("word-dropout", "augmenter", "longtail.augment.word_noise:WordDropout", "texts", _TAUG,
         "Noisy copies of tail documents: words dropped at random")
register("word-swap", "augmenter", "longtail.augment.word_noise:WordSwap", "texts", _TAUG,
         "Noisy copies of tail documents: words change places")
register("taug", "augmenter", "longtail.augment.taug:Taug", "features", _TAUG,
         "Decoupled head and tail, input dropout and swap on the tail; Bonsai, book titles: P@1 -1.1, PSP@5 +1.0")
register("gandalf", "augmenter", "longtail.augment.gandalf:Gandalf", "texts", _GANDALF,
         "Label texts as documents, with correlated labels as soft targets; Parabel, book titles: P@1 +3.0, PSP@5 +5.4")
register("labelmix", "augmenter", "longtail.augment.labelmix:LabelMix", "texts", _GANDALF,
         "The text of one of its labels appended to the document; Parabel, book titles: P@1 +0.7, PSP@5 +1.3")
register("labelmix-tokens", "augmenter", "longtail.augment.labelmix:LabelMixTokens", "tokens", _GANDALF,
         "The same on the fly, inside networks", "neural")
register("retune", "augmenter", "longtail.augment.retune:Retune", "texts", "-",
         "Second stage without anything generated: rare documents again; frequent labels masked if asked for")
register("lsfa", "augmenter", "longtail.augment.lsfa:Lsfa", "classifier", _LSFA,
         "Features of rare labels made anew; AttentionXML, vulnerabilities: P@1 +0.3, PSP@5 +0.5", "neural")
register("contrastive", "augmenter", "longtail.augment.contrastive:Contrastive", "context", _LSFA,
         "Context vectors drawn to their label's prototype, beside cross entropy", "neural")
register("tailmix", "augmenter", "longtail.augment.tailmix:TailMix", "context", "TailMix, ICLR 2022 submission",
         "Contexts of rare labels mixed, in place; AttentionXML, vulnerabilities: P@1 -0.1, PSP@5 -0.1", "neural")
register("glas", "augmenter", "longtail.augment.glas:Glas", "labels", "GLaS, Guo et al. 2019",
         "Label vectors held as similar as labels are; AttentionXML, vulnerabilities: P@1 +0.0, PSP@5 +0.0", "neural")
register("wordmix", "augmenter", "longtail.augment.word_mix:WordMix", "tokens", "Guo et al. 2019",
         "Word embeddings of two documents mixed place by place", "neural")
register("hiddenmix", "augmenter", "longtail.augment.hidden_mix:HiddenMix", "hidden", "Verma et al. 2019",
         "Manifold mixup: two documents mixed at a random layer", "neural")
register("tmix", "augmenter", "longtail.augment.tmix:TMix", "hidden", "TMix, Chen et al. 2020",
         "Two documents mixed at an upper layer of the encoder", "neural")
register("ssmix", "augmenter", "longtail.augment.ssmix:SSMix", "tokens", "SSMix, Yoon et al. 2021",
         "Words that matter little overwritten by a partner's that matter", "neural")
register("xda", "augmenter", "longtail.augment.xda.part:Xda", "texts", "XDA, Xu et al. 2024",
         "Second stage: documents of rare labels written anew, masked; Bonsai, vulnerabilities: P@1 -0.2, PSP@5 +0.6")
register("words", "generator", "longtail.augment.generate.words:Words", "texts", "-",
         "Gaps filled with words of documents that share a label; takes seconds")
register("local", "generator", "longtail.augment.generate.local:Local", "texts", "T5, Raffel et al. 2020",
         "Gaps filled by a small T5 trained on the corpus itself, within a time budget", "neural")
register("encoder-decoder", "generator", "longtail.augment.generate.encoder_decoder:EncoderDecoder", "texts",
         "XDA, Xu et al. 2024", "Gaps filled by a pre-trained T5 or BART with a soft prompt", "neural")
register("inverse-propensity", "re-ranker", "longtail.rerank.propensity:InversePropensity", "scores", _RANKNET,
         "Scores multiplied by inverse propensities; Parabel, book titles: P@1 -0.5, PSP@1 +2.1")
register("calibrated-propensity", "re-ranker", "longtail.rerank.calibrated_propensity:CalibratedPropensity", "scores",
         "-", "Calibrated probabilities times a power of inverse propensities, both chosen on held-out documents; "
         "Parabel, book titles: P@1 -0.1, PSP@1 +2.0")
register("ranknet", "re-ranker", "longtail.rerank.ranknet:RankNet", "scores", _RANKNET,
         "Residual blocks over the scores, trained with a population-aware loss; Parabel, book titles, the best "
         "setting found: P@1 -0.5, PSP@1 +0.2")
# fmt: on


def entries(kind: str | None = None) -> list[Entry]:
    """All parts, or those of a kind; parts of other distributions that cannot be imported are left out."""
    found = list(_ENTRIES.values())
    for name in _installed():
        try:
            found.append(_entry_of(name))
        except UsageError:
            continue
    return [entry for entry in found if kind is None or entry.kind == kind]


def lookup(name: str) -> Entry | None:
    """The entry of that name, if there is one; other distributions are asked only about names that are not built in."""
    if name in _ENTRIES:
        return _ENTRIES[name]
    return _entry_of(name) if name in _installed() else None


def find(name: str, *kinds: str) -> Entry:
    """The entry of that name, which must be of one of the kinds given."""
    entry = lookup(name)
    if entry is not None and (not kinds or entry.kind in kinds):
        return entry
    what = kinds[0] if kinds else "part"
    allowed = [e.name for e in entries() if not kinds or e.kind in kinds]
    help_ = nearest(name[:MOST_SIGNS], allowed) if allowed else f"there is no {what} yet"
    raise UsageError(f"unknown {what} '{name[:MOST_SIGNS]}'; {help_}")


@cache
def _installed() -> dict[str, list[EntryPoint]]:
    """What other distributions register, unimported; names of built-in parts are not given away."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in _ENTRIES:
            found.setdefault(point.name, []).append(point)
    return found


@cache
def _entry_of(name: str) -> Entry:
    """The entry of a part that another distribution registers: what there is to know is read from its class."""
    points = _installed()[name]
    targets = sorted({point.value for point in points})
    where = f"'{name}' ({' and '.join(targets)})"
    if len(targets) > 1:
        raise UsageError(f"{where} is registered by several distributions; uninstall all but one")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{where} cannot be used: its name is not kebab-case")
    try:
        found = points[0].load()
    except Exception as error:  # whatever the code of others raises
        raise UsageError(f"{where} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Part) and found.kind in KINDS):
        raise UsageError(f"{where} cannot be used: it is not a learner, augmenter or another kind of part")
    summary = (found.__doc__ or "-").strip().partition("\n")[0]
    space, paper = (str(getattr(found, key, "-")) for key in ("space", "paper"))
    target = f"{found.__module__}:{found.__qualname__}"
    NAMES.setdefault(target, name)
    return Entry(name, found.kind, target, space, paper, summary)


def name_of(part: Part | type[Part]) -> str:
    """The registered name of a part, or its class name for parts that are not registered."""
    cls = part if isinstance(part, type) else type(part)
    return _registered_name(cls) or cls.__name__


def _registered_name(cls: type[Part]) -> str | None:
    target = f"{cls.__module__}:{cls.__qualname__}"
    if target in NAMES:
        return NAMES[target]
    package = cls.__module__.partition(".")[0]
    for name, points in _installed().items():
        # a class may be registered under another module than its own, but not under another package
        if points[0].module.partition(".")[0] == package and _is_part(name, target):
            return name
    return None


def _is_part(name: str, target: str) -> bool:
    try:
        return _entry_of(name).target == target
    except UsageError:
        return False


def check_registered(part: Part) -> None:
    """Refuses a part that could be saved, but not found again by name; parts inside parts count, too."""
    if _registered_name(type(part)) is None:
        raise UsageError(
            f"'{type(part).__name__}' is not registered, so a model with it could not be loaded again: "
            f"register it under the entry points '{GROUP}'"
        )
    for f in fields(part):
        value = getattr(part, f.name)
        for inner in value if isinstance(value, list | tuple) else [value]:
            if isinstance(inner, Part):
                check_registered(inner)


def check_bounds(config: Any) -> None:
    """Refuses a configuration with more parts, or parts within parts, than anybody means; takes no time."""
    parts = 0
    for value, depth in _values_within(config):
        parts += isinstance(value, Mapping | Part | str)
        if parts > MOST_PARTS:
            raise UsageError(f"a configuration has more than {MOST_PARTS} parts")
        if depth > MOST_DEPTH:
            raise UsageError(f"parts are nested more than {MOST_DEPTH} deep")


def _values_within(config: Any) -> Iterator[tuple[Any, int]]:
    """Everything that is or may name a part, with the parts (or lists within lists) around it."""
    waiting: list[tuple[Any, int]] = [(config, 0)]
    while waiting:
        value, depth = waiting.pop()
        yield value, depth
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if not isinstance(key, str) or len(key) > MOST_SIGNS:
                    raise UsageError(f"an option's name must be a word of at most {MOST_SIGNS} characters")
                if isinstance(inner, Mapping):
                    waiting.append((inner, depth + 1))
                elif isinstance(inner, list | tuple):
                    waiting.extend((item, depth + 1) for item in inner if not isinstance(item, int | float))
        elif isinstance(value, list | tuple):
            waiting.extend((item, depth + 1) for item in value if not isinstance(item, int | float))


def build(config: str | Mapping[str, Any] | Part, *kinds: str) -> Part:
    """A part from its name, from {"part": name, field: value, ...}, or as it is."""
    if isinstance(config, Part):
        if kinds and config.kind not in kinds:
            raise UsageError(f"'{name_of(config)}' is not a {kinds[0]}")
        return config
    if isinstance(config, str):
        config = {"part": config}
    check_bounds(config)
    options = dict(config) if isinstance(config, Mapping) else {}
    name = options.pop("part", None)
    if not isinstance(name, str):
        raise UsageError(f'a part needs its name, as in part = "parabel"; got {config!r}')
    cls = find(name, *kinds).load()
    for field_name in options:
        require_field(cls, field_name)
    return cls(**options)


def config_of(part: Part) -> dict[str, Any]:
    """The inverse of `build`: plain values only, parts inside parts written out the same way."""
    return {"part": name_of(part), **{f.name: plain_value(getattr(part, f.name)) for f in fields(part)}}


def plain_value(value: Any) -> Any:
    """An option's value as configurations hold it, parts in it written out."""
    if isinstance(value, Part):
        return config_of(value)
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    if isinstance(value, Mapping):
        return {key: plain_value(v) for key, v in value.items()}
    return value


def shortened(value: Any) -> Any:
    """A part as one would write it: its name, with the options that differ from their defaults, parts inside alike."""
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if not isinstance(value, Part):
        return value
    changed = {f.name: shortened(getattr(value, f.name)) for f in fields(value)
               if not _same(getattr(value, f.name), default_of(f))}  # fmt: skip
    return {"part": name_of(value), **changed} if changed else name_of(value)


def _same(value: Any, default: Any) -> bool:
    """Whether an option has its default; parts are compared by their configurations, which defaults may abbreviate."""
    if isinstance(value, Part):
        default = "tfidf" if default == "auto" else default  # features of a learner that reads some
        return isinstance(default, str | Mapping) and config_of(build(default)) == config_of(value)
    if isinstance(value, list):
        same = isinstance(default, list) and len(value) == len(default)
        return same and all(map(_same, value, default))
    return bool(value == default)
