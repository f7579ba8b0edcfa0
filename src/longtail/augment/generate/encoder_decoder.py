"""A pre-trained encoder-decoder (T5, BART) from a folder or the hub, frozen but for the soft vectors of its prompt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from longtail.augment.generate.filler import Filler
from longtail.augment.generate.networks import Documents, SpanGenerator
from longtail.errors import UsageError, first_line
from longtail.features.pretrained import checksum, encoder_files, encoder_folder
from longtail.fit import Fit
from longtail.part import Arrays, option


@dataclass(kw_only=True)
class EncoderDecoder(SpanGenerator):
    """Fills gaps with a pre-trained network."""

    model: str = option("t5-small", "a folder, or a name of the hub (paper: t5-large)")

    def check(self) -> None:
        encoder_files(self._folder())

    def _folder(self) -> Path:
        try:
            return encoder_folder(self.model, download=True)
        except UsageError as error:
            raise UsageError(f"{error}; give a folder, or take the generator words or local") from None

    def network_bytes(self) -> int:
        try:
            size = sum(file.stat().st_size for file in encoder_folder(self.model, download=False).glob("*.safetensors"))
        except UsageError:  # not on this machine yet
            size = 250 << 20
        return 2 * size + (200 << 20)

    def origin(self) -> str:
        return checksum(self._folder()).tobytes().hex()

    def base(self, documents: Documents, fit: Fit, until: float) -> tuple[Filler, dict[str, NDArray[Any]]]:
        return self.restored({}), {}

    def restored(self, arrays: Arrays) -> Filler:
        from tokenizers import Tokenizer
        from transformers import AutoModelForSeq2SeqLM, logging

        folder = self._folder()
        encoder_files(folder)
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model: Any = AutoModelForSeq2SeqLM.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True, use_safetensors=True
            )
            tokeniser = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # files that are damaged, or of another kind, raise many kinds
            raise UsageError(f"the encoder-decoder '{self.model}' cannot be opened: {first_line(error)}") from None
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        return Filler.of(tokeniser, model.eval().float(), self.model)
