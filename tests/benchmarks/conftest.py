"""What several tests of the race need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from peers_made import prepare


@pytest.fixture
def small_matrices(tmp_path: Path) -> Path:
    """300 documents over 40 labels, which follow from a word each."""
    rng = np.random.default_rng(0)
    n, L = 300, 40
    labels = rng.integers(0, L, size=n)
    Y = sp.csr_matrix((np.ones(n, dtype=np.float32), (np.arange(n), labels)), shape=(n, L))
    X = sp.csr_matrix(sp.hstack([Y, sp.random(n, 20, 0.2, random_state=0)]), dtype=np.float32)
    folder = tmp_path / "matrices"
    prepare.write(folder, {"train_X": X, "train_Y": Y, "test_X": X[:50], "test_Y": Y[:50]})
    prepare.write(folder / "part-4", {"train_X": X[:75], "train_Y": Y[:75]})
    np.savez(folder / "labels.npz", counts=np.bincount(labels, minlength=L), documents=n)
    (folder / "about.json").write_text('{"train_documents": 300, "labels": 40}')
    return folder
