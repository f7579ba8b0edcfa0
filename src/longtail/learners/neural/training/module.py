"""What Lightning trains: one step, one validation, one optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lightning import pytorch as lightning
from torch import Tensor

from longtail.augment.hooks import Hook, Hooks
from longtail.corpus import Corpus
from longtail.learners.neural.training.batches import Batch, Batches, Share, seed_dropout
from longtail.learners.neural.training.data import Schedule, TrainingData
from longtail.learners.neural.training.network import Network, best_labels, to_device
from longtail.learners.neural.training.optimiser import RowAdam, clip_norm
from longtail.scores import Scores


class Module(lightning.LightningModule):
    def __init__(
        self, network: Network, data: TrainingData, schedule: Schedule, hooks: Sequence[Hook], metric: str
    ) -> None:
        super().__init__()
        self.network = network
        # a list keeps Lightning from looking inside and the averaged copy from copying the data
        self._outside = _Outside(data, schedule, list(hooks))
        self.metric, self.k = metric, max(5, int(metric.partition("@")[2]))

    # data
    def train_dataloader(self) -> Batches:
        data, schedule = self._outside.data, self._outside.schedule
        share = Share(self.trainer.global_step, self.trainer.global_rank, self.trainer.world_size)
        batches = Batches(data.tokens, data.choice, schedule.batch, seed=schedule.seed, states=data.states, share=share)
        batches.hidden, batches.new_epoch = data.hidden, self._new_epoch
        return batches

    def _new_epoch(self) -> None:
        for hook in self._outside.hooks:
            hook.epoch(self.network, self._outside.data)

    def val_dataloader(self) -> list[int]:
        # one stand-in batch: validation scores all documents at once, in batches of its own
        return [0] if self._outside.data.valid is not None else []

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return to_device(batch, device) if isinstance(batch, Batch) else batch

    # training
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        step, seed = self.trainer.global_step, self._outside.schedule.seed
        hooks = self._outside.hooks
        seed_dropout(seed, step, self.trainer.global_rank, device=self.device.type)
        for number, hook in enumerate(hooks):
            rng = np.random.default_rng([seed, 2 + number, step, self.trainer.global_rank])
            batch = hook.draw(batch, self.network, rng, step)
        together = Hooks(hooks)
        hidden = self.network.encode(batch, together)
        for hook in hooks:
            batch = hook.encoded(batch, self.network, hidden)
        logits = self.network.head(hidden, batch.mask, batch.labels, together)
        extra: list[Tensor] = []
        for hook in hooks:
            batch, logits, more = hook.pairs(batch, self.network, hidden, logits)
            extra += [] if more is None else [more]
        loss = self.network.loss(logits, batch)
        for more in extra:
            loss = loss + more
        self.log("loss", loss.detach(), on_step=True, on_epoch=False, batch_size=len(batch))
        return loss

    def configure_optimizers(self) -> Any:
        schedule = self._outside.schedule
        optimiser = RowAdam(self.network.groups(schedule.rate, schedule.word_rate, schedule.label_rate, schedule.decay))
        rates = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule.factor)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        # Lightning's own clipping does not take sparse gradients
        if self._outside.schedule.clip:
            clip_norm(self.parameters(), self._outside.schedule.clip)

    # validation
    def validation_step(self, batch: int, batch_idx: int) -> None:
        valid = self._outside.data.valid
        assert valid is not None
        # folded, label vectors are made once, and not for every batch
        kept = Network(self.network.encoder, self.network.head.folded()).to(self.device)
        scores = best_labels(kept, valid.tokens, valid.corpus.n_labels, self.k, states=valid.states)
        self.log(self.metric, torch.tensor(measure(scores, valid.corpus, self.metric)), batch_size=1, sync_dist=False)


class _Outside:
    """What a module needs but does not own: never copied, so that an averaged module shares it."""

    def __init__(self, data: TrainingData, schedule: Schedule, hooks: list[Hook]) -> None:
        self.data, self.schedule, self.hooks = data, schedule, hooks

    def __deepcopy__(self, memo: dict[int, Any]) -> _Outside:
        return self


def measure(scores: Scores, valid: Corpus, metric: str) -> float:
    """The validation metric, by name, such as nDCG@5."""
    from longtail.evaluate import evaluate

    name, _, k = metric.partition("@")
    value = evaluate(scores, valid, ks=(int(k),)).to_dict()[f"{name}@{k}"]
    return float(value)
