"""What all tests of the contract are given."""

from __future__ import annotations

import pytest
from contract_cases import D, small_corpus

from longtail.corpus import Corpus
from tiny_transformer import save_tiny_transformer


@pytest.fixture
def corpus() -> Corpus:
    return small_corpus()


@pytest.fixture(scope="session")
def tiny_transformer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of an encoder that knows the corpus's words and nothing about them."""
    return save_tiny_transformer(tmp_path_factory.mktemp("transformer"), [f"word{j:02d}" for j in range(D)])


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are made anew, and nothing is asked of a hub."""
    monkeypatch.setenv("LONGTAIL_CACHE", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
